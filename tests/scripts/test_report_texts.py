"""Other texts of the report (E23)."""
import csv

import pytest

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

TEXT = "the cat sees a dog, and the dog sees the cat.\n" * 120


def test_another_text_has_facts_of_its_own(run, tmp_path):
    (tmp_path / "first.txt").write_text(TEXT)
    (tmp_path / "second.txt").write_text(TEXT[::-1])
    ending = run("report.py", "--size=mini", "--only=E23", "--corpus=first.txt", "--other-corpus=second.txt", "--out=r")
    assert ending.status == 0, ending.err
    with open(tmp_path / "r/facts.csv", encoding="utf-8", newline="") as file:
        losses = [row for row in csv.reader(file) if row[0] == "E23" and "val_loss" in row]
    for norm in ("none", "ln", "rms", "bn"):
        for text in ("first", "second"):
            assert len({row[-1] for row in losses if text in row and f"norm={norm}" in row}) > 1, (norm, text)


@pytest.mark.parametrize("option, why", [
    ("--other-corpus=missing.txt", "missing.txt: No such file or directory"),
    ("--other-corpus=first.txt", "--other-corpus: a text has the name of one of --corpus")])
def test_other_texts_that_are_refused(run, tmp_path, option, why):
    (tmp_path / "first.txt").write_text(TEXT)
    ending = run("report.py", "--size=mini", "--only=E23", "--corpus=first.txt", option, "--out=r")
    assert (ending.status, ending.err) == (1, f"report: {why}\n")
