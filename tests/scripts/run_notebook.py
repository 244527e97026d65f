#!/usr/bin/env python3
"""Runs the cells of a notebook as one program, without Jupyter: run_notebook.py FILE [PICTURES]

Pictures that the cells show are written to the folder PICTURES, as 1.png, 2.png, ..., or dropped."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from common import command_line

command_line.require("run_notebook", "plot golden", "torch", "matplotlib")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def show():
    if pictures:
        plt.savefig(os.path.join(pictures[0], f"{show.count}.png"))
    plt.close()
    show.count += 1


show.count = 1
plt.show = show
path, *pictures = (os.path.abspath(word) for word in sys.argv[1:])
with open(path, encoding="utf-8") as file:
    cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
os.chdir(os.path.dirname(path))  # as Jupyter does
names = {"__name__": "__main__"}
for number, cell in enumerate(cells, 1):
    exec(compile("".join(cell["source"]), f"cell {number} of {path}", "exec"), names)
print(f"{len(cells)} cells ran")
