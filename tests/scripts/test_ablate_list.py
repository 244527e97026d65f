"""scripts/ablate.sh --grid=FILE: runs that somebody else listed, and lists with bad lines. Also the last line of an
ablation, which says how to compare its variants."""
import os
from pathlib import Path

import pytest

from ablation import EACH, lines, put_text, reason

LIST = """# Two runs of ln, in the order of the list.
late-s2 --norm=ln --seed=2 --batch-size=2 text.txt

\tlate-s1\t--norm=ln --seed=1 --batch-size=2 text.txt # a comment
other --norm=bn --batch-size=3 '--corpus=of mine/it'\\''s.txt'"""  # and no newline
ALL = ("--grid=list.txt", "--jobs=1", "--out=a", "--", *EACH)


@pytest.fixture
def listed(ablate):
    Path("of mine").mkdir()
    put_text("of mine/it's.txt", 3000)
    Path("list.txt").write_text(LIST)
    return ablate


def test_its_runs_are_done_in_its_order(listed):
    listed.count()
    ending, words = listed(*ALL), " ".join(EACH)
    assert lines("a/grid.txt") == [f"late-s2 --norm=ln --seed=2 --batch-size=2 text.txt {words}",
                                   f"late-s1 --norm=ln --seed=1 --batch-size=2 text.txt {words}",
                                   f"other --norm=bn --batch-size=3 '--corpus=of mine/it'\\''s.txt' {words}"]
    assert [line.split()[0] for line in lines("begun")] == ["late-s2", "late-s1", "other"]
    assert "trying" not in ending.err
    for part in ("3 runs: from list.txt", "expected: known when the first runs have ended; 1 side by side with ",
                 "| norm | corpus | batch-size | median "):
        assert part in ending.out
    assert "\nother,bn,of mine/it's.txt,3,1,0,done,4," in Path("a/results.csv").read_text()
    assert "ablate: scripts/compare.py a --a NAME=VALUE --b NAME=VALUE compares " in ending.err
    assert "their common seeds (they differ in batch-size, corpus, norm)\n" in ending.err
    listed(*ALL)  # nothing is left to do
    assert len(lines("begun")) == 3
    Path("list.txt").write_text(LIST + "\nlast --norm=rms --batch-size=2 text.txt\n")  # the rest of a longer list
    ending = listed(*ALL)
    assert "4 runs: from list.txt; 3 have ended, 1 to do" in ending.out and "(an estimate, from earlier runs)" in ending.out
    assert len(lines("begun")) == len(lines("a/grid.txt")) == 4


def test_a_folders_grid_is_a_list(listed):
    listed("--grid=list.txt", "--list", "--out=a", "--", *EACH)
    listed("--grid=a/grid.txt", "--list", "--out=b")
    assert lines("b/grid.txt") == lines("a/grid.txt") and not os.listdir("b/runs")


def test_a_run_that_fails_is_named(ablate):
    Path("list.txt").write_text("good --norm=ln text.txt\nbad --norm=nosuch text.txt\n")
    assert ("ablate: 1 of 2 runs failed; the same command tries them again:\n"
            "ablate: bad: failed with exit status 2: train: --norm=nosuch: ") in ablate(*ALL, status=1).err
    assert reason("good") == "done"


def test_no_word_is_run_by_the_shell(ablate):
    """Words of a list are data: a shell sees them quoted."""
    Path("list.txt").write_text('a --corpus=$(touch~hurt) `touch~hurt`;touch~hurt "$HOME" --seed=$(touch${IFS}hurt)\n')
    ablate("--grid=list.txt", "--list", "--out=a")
    assert lines("a/grid.txt") == [
        "a '--corpus=$(touch~hurt)' '`touch~hurt`;touch~hurt' '\"$HOME\"' '--seed=$(touch${IFS}hurt)'"]
    ablate("--grid=list.txt", "--out=a", status=1)
    assert not Path("hurt").exists() and not Path("~hurt").exists()


@pytest.mark.parametrize("text, complaint", [
    ("# nothing\n\n", "ablate: list.txt: has no run\n"),
    ("a --norm=ln\nb '--norm=ln\n", "ablate: list.txt, line 2: a quote is not closed\n"),
    ("a --norm=ln\n\na --norm=bn\n", "ablate: list.txt, line 3: 'a' is the name of line 1 too\n"),
    ("--norm=ln --seed=1\n", "line 1: '--norm=ln' is no name for a run's folder ("),
    ("../a --norm=ln\n", "line 1: '../a' is no name for a run's folder"),
    ("a/b --norm=ln\n", "line 1: 'a/b' is no name for a run's folder"),
    ("a --out=b\n", "line 1: --out=b: not for a run of a list"),
    ("a --resume=b\n", "line 1: --resume=b: not for a run of a list"),
    ("a -- text.txt\n", "line 1: --: what every run gets belongs after -- of the command\n"),
    ("a -n ln\n", "line 1: -n: is not an option of ./train by its long name"),
    ("a -\n", "line 1: -: is not an option of ./train by its long name, nor a corpus"),
    ("a --sample=3\n", "ablate: list.txt, line 1: --sample: is after -- too\n"),
    ("a --lr=3\n", "ablate: list.txt, line 1: --learning-rate: is after -- too\n"),
    ("a --norm=ln\r\n", "line 1: holds a control character\n")])
def test_bad_lines(ablate, text, complaint):
    Path("list.txt").write_bytes(text.encode())
    ending = ablate("--grid=list.txt", "--out=a", "--", "--sample=0", "--learning-rate=1e-3", status=2)
    assert complaint in ending.err and not ending.out and not Path("a").exists()


@pytest.mark.parametrize("words, status, complaint", [
    (["--grid=nosuch"], 1, "ablate: nosuch: cannot be read (--grid=FILE: one run a line, a name "),
    (["--grid="], 2, "ablate: --grid: must not be empty\n"),
    (["--grid=list.txt", "--norm=ln,bn"], 2, "ablate: --grid=list.txt: lists each run; --NAME=A,B,... cannot be given too\n"),
    (["--grid=list.txt", "--seeds=5"], 2, "each of its lines names its own --seed; --seeds cannot be given too\n")])
def test_bad_commands(ablate, words, status, complaint):
    Path("list.txt").write_text("a --norm=ln\n")
    assert complaint in ablate(*words, "--out=a", status=status).err and not Path("a").exists()


def test_a_folder_of_another_list_or_grid(ablate):
    Path("list.txt").write_text("a --norm=ln\n")
    ablate("--grid=list.txt", "--list", "--out=a")
    Path("list.txt").write_text("a --norm=bn\n")
    assert ("ablate: list.txt: a: a has this run with other options (another name, "
            in ablate("--grid=list.txt", "--list", "--out=a", status=2).err)
    assert ("ablate: a: already contains another grid: --grid -- (give another --out; "
            in ablate("--norm=ln", "--list", "--out=a", status=2).err)


def test_its_table_tells_runs_apart(ablate):
    """Runs of a list that differ only in what they watch are rows of their own."""
    Path("list.txt").write_text("a-s1 --norm=ln --seed=1\nb-s1 --norm=ln --seed=1 --eval-interval=2\n"
                                "c-s1 --norm=bn --seed=1\n")
    ending = ablate(*ALL, "text.txt")
    assert "| norm | eval-interval | " in ending.out and "| ln | 2 | " in ending.out
    assert "same seed" not in ending.err


@pytest.mark.parametrize("words, baseline", [
    (["--norm=ln,rms", "--placement=pre", "--batch-size=2,3"], "norm=ln"),
    (["--norm=ln", "--placement=pre", "--batch-size=2,3"], "batch-size=2"),
    (["--norm=ln", "--placement=pre"], ""),
    (["--norm,placement=ln:pre,bn:post"], "norm=ln,placement=pre")])
def test_the_last_line_says_how_to_compare(ablate, words, baseline):
    ending = ablate(*words, "--seeds=2", "--out=a", "--", *EACH, "text.txt")
    line = f"ablate: scripts/compare.py a --baseline {baseline} compares the variants by their seeds\n"
    assert ending.err.endswith(line) if baseline else "compare.py" not in ending.err, ending.err
