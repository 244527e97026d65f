"""tests/plain.c, built and run as README.md says."""
import csv
from pathlib import Path

import pytest

from conftest import ROOT


def test_it_prints_the_losses_of_train(run):
    made = run("make", "-s", "plain", cwd=ROOT, env={"MAKEFLAGS": "", "MAKELEVEL": "0"})
    assert made.status == 0, made.err
    Path("text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)
    for options in [], ["--norm=bn", "--placement=post"]:
        options = [*options, "--max-iters=3", "text.txt"]
        plain = run(ROOT / "build/plain", *options)
        assert plain.status == 0, plain.err
        assert run("train", *options, "--log-interval=1", "--out=run", "--force").status == 0
        rows = list(csv.DictReader(Path("run/log.csv").open(encoding="utf-8")))
        wanted = [float(row["train_loss"]) for row in rows[:3]] + [float(rows[3]["val_loss"])]
        printed = [line.rpartition(" loss ") for line in plain.out.splitlines()]
        assert [line[0] for line in printed] == ["update    0  train", "update    1  train", "update    2  train", "val"]
        assert [float(line[2]) for line in printed] == pytest.approx(wanted, abs=2e-4)
    wrong = run(ROOT / "build/plain", "--norm=lm", "text.txt")
    assert (wrong.status, wrong.out) == (2, "") and "--norm=lm: is no option" in wrong.err
