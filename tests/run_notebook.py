#!/usr/bin/env python3
"""Runs the cells of a notebook as one program, without Jupyter: run_notebook.py FILE [PICTURES]

Pictures that the cells show are written to the folder PICTURES, as 1.png, 2.png, ..., or dropped."""
import importlib
import json
import os
import sys

try:
    importlib.import_module("torch")
    import matplotlib
except ImportError as error:
    # The first python3 on PATH may be a user's own, while scripts/deps.sh installs for the system's.
    system = "/usr/bin/python3"
    if sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, *sys.argv])
    sys.exit(f"run_notebook: {sys.executable}: {error} (scripts/deps.sh plot golden installs it)")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


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
