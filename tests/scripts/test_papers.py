"""The commands of PAPERS.md, on a small text and with a smaller model."""
import csv
import re
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS, TRAIN

SMALL = "--n-embd=8 --n-head=2 --block-size=8 --batch-size=2 --eval-iters=1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which all commands were given."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "scripts").symlink_to(SCRIPTS)
    (folder / "train").symlink_to(TRAIN)
    (folder / "data/corpora").mkdir(parents=True)
    (folder / "data/corpora/tinyshakespeare.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)
    commands = "".join(re.findall(r"```\n(.*?)```", (ROOT / "scripts/PAPERS.md").read_text(encoding="utf-8"), re.DOTALL))
    for old, new in (("--seeds=3", "--seeds=1"), ("--n-embd=64", SMALL), ("--max-iters=1001", "--max-iters=21")):
        assert old in commands
        commands = commands.replace(old, new).replace("--block-size=32 ", "").replace("--eval-iters=20 ", "")
    ended = subprocess.run(["bash", "-ec", commands], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def table_of(folder, words):
    """The rows of a picture's numbers: {(line, name): [x]}"""
    subprocess.run([SCRIPTS / "plot.py", *words, "-o", "a.svg", "--table=a.csv"], cwd=folder, check=True)
    found = {}
    with open(folder / "a.csv", encoding="utf-8") as file:
        for _, line, name, x, *_ in csv.reader(file):
            found.setdefault((line, name), []).append(x)
    return found


def test_gradients_by_layer(folder):
    assert (folder / "xiong.png").read_bytes().startswith(b"\x89PNG")
    found = table_of(folder, ["runs/xiong", "--probes=layers", "--metrics=grad_norm", "--sites=mlp.c_proj.weight",
                              "--columns=placement", "--steps=0,50,300"])
    for placement in "pre", "post":
        for layers in 3, 6, 12:
            for step in 0, 50, 300:
                line = f"{placement}, n-layer {layers}", f"grad_norm mlp.c_proj.weight step {step}"
                assert len(found[line]) == layers, (line, sorted(found))


def test_batch_statistics(folder):
    assert (folder / "powernorm.png").read_bytes().startswith(b"\x89PNG")
    found = table_of(folder, ["runs/powernorm", "--probes=distance,terms", "--sites=ln_1"])
    assert "20" in found["bn, tinyshakespeare.txt", "dist_var ln_1 layer 0"]
    assert "0" in found["pn, shuffled.txt", "g_mean ln_1 layer 3"]
    # The control has the same characters in another order.
    text, shuffled = (Path(folder, "data/corpora", f"{name}.txt").read_text() for name in ("tinyshakespeare", "shuffled"))
    assert text != shuffled and sorted(text) == sorted(shuffled)
