"""Which files a study's folder depends on: texts, --config and --start that change, study.json, exchanged folders, and names
that a list of runs cannot hold."""
import math
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import SMALL, TRAIN, command, ended_runs, needs
from written import put_run

needs("pandas", "matplotlib")

import study
from common.runs import RunError
from study.answer import exponential
from study.documents import power_text

WORDS = ["study.py", "--norm=ln,none", "--seeds=2", "--out=out", "--"]


def refused(ended, *parts):
    """It ended with one line that has these parts."""
    assert ended.status in (1, 2) and not ended.out and len(ended.err.splitlines()) == 1, ended.err
    assert all(part in ended.err for part in parts), ended.err


# ---- what a run is started with --------------------------------------------------------------------

def test_a_run_that_was_refused_once_is_tried_again(run, text):
    """A text that is too short for a moment changes no answer, tuned or judged."""
    tuned = ["study.py", "--norm=ln,none", "--tune=lr=1e-2,3e-2", "--tuning-seeds=2", "--seeds=2"]
    expected = run(*tuned, "--out=undisturbed", "--", *SMALL).out
    whole = Path("text.txt").read_text()
    for rounds in range(20):
        ended = run(*tuned, "--out=out", "--list", "--", *SMALL)
        if ended.out:
            break
        Path("text.txt").write_text("abc")
        assert command("ablate.sh", "--do-line", "1", "out", "1-99", cwd=".").status == 2
        Path("text.txt").write_text(whole)
        assert command("ablate.sh", "--do-line", "1", "out", "1-99", cwd=".").status == 0
    assert ended.out == expected and rounds >= 3
    Path("out/driver").joinpath(next(iter(ended_runs())) + ".status").write_text("ended 2 0 failed\n")
    assert run(*tuned, "--out=out", "--", *SMALL).out == expected


@pytest.mark.parametrize("how", ["--config=of.ini", "--config of.ini", "--start=of", "start in of.ini"])
def test_a_file_that_has_changed_is_another_study(run, text, how):
    """Refused by the study and by its runs; restored, it continues. The answer is still shown."""
    small = [word for word in SMALL if "max-iters" not in word]
    if "ini" in how:
        Path("of.ini").write_text("max-iters = 20\n")
    if "start" in how:
        assert run("train", *SMALL, "--max-iters=2", "--quiet", "--out=of", "--norm=none", "--affine=off").status == 0
        small += ["--max-iters=20", "--affine=off"]
    if how == "start in of.ini":
        Path("of.ini").write_text("start = of\n")
    words = ["--config=of.ini"] if how == "start in of.ini" else how.split()
    study_of = ["study.py", "--act=relu,gelu", "--seeds=2", "--out=out", "--", *small, "--norm=none", *words]
    ended = run(*study_of)
    assert ended.status == 0, ended.err
    changed = Path("of/model.safetensors" if "start" in how else "of.ini")
    before = changed.read_bytes()
    if "start" in how:
        assert run("train", *SMALL, "--max-iters=3", "--quiet", "--out=of", "--norm=none", "--affine=off", "--force").status == 0
    else:
        changed.write_text("max-iters = 30\n")
    more = [word.replace("--seeds=2", "--seeds=3") for word in study_of]
    refused(run(*more), f"{changed}: differs from the file with which runs of out were started")
    refused(run(*more[:4], "--dry-run", *more[4:]), f"{changed}: differs from the file")
    assert run("study.py", "out").out == ended.out
    some = next(iter(ended_runs().values()))
    kept = some.read_bytes()
    some.unlink()
    lines = [line.split()[0] for line in Path("out/grid.txt").read_text().splitlines()]
    place = str(1 + lines.index(some.parent.name))
    assert command("ablate.sh", "--do-line", "1", "out", place, cwd=".").status == 1 and not some.exists()
    assert "differs from the file" in Path(f"out/driver/{some.parent.name}.out").read_text()
    some.write_bytes(kept)
    changed.write_bytes(before)
    assert run(*more).status == 0


def test_a_config_among_the_factors_is_a_file_too(run, text):
    for name, updates in ("one", 4), ("two", 8):
        Path(f"{name}.ini").write_text(f"max-iters = {updates}\n")
    words = ["study.py", "--config=one.ini,two.ini", "--seeds=2", "--out=out", "--",
             *(word for word in SMALL if "max-iters" not in word)]
    assert run(*words).status == 0
    Path("two.ini").write_text("max-iters = 9\n")
    refused(run(*words), "two.ini: differs from the file")


# ---- study.json ------------------------------------------------------------------------------------

def written(loss, factors=None, seeds=4, complete=True):
    """A study whose runs are written by hand: loss(options, seed)."""
    one = study.Study(factors=factors or {"norm": ["ln", "bn"]}, seeds=seeds, out="out")
    for options, seed in one.judging_runs():
        put_run(one.runner.path_of(options, seed), loss(options, seed), seed, **options)
    one.write_record(complete)
    return one


def test_every_flipped_bit_of_study_json_is_found(text):
    whole = (written(lambda options, seed: 2.0), Path("out/study.json").read_bytes())[1]
    assert study.study.read_record("out")["factors"] == {"norm": ["ln", "bn"]}
    for place in range(len(whole)):
        Path("out/study.json").write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1:])
        with pytest.raises(RunError, match="^out/study.json: "):
            study.study.read_record("out")
    for cut in 0, 1, 20, len(whole) - 1:
        Path("out/study.json").write_bytes(whole[:cut])
        with pytest.raises(RunError, match="^out/study.json: "):
            study.study.read_record("out")


@pytest.mark.parametrize("content", ["[1]", "", "\xff"])
def test_another_study_json_is_one_line_and_the_runs_are_found_again(run, text, content):
    expected = run(*WORDS, *SMALL)
    times = {name: path.stat().st_mtime_ns for name, path in ended_runs().items()}
    Path("out/study.json").write_text(content, encoding="latin1")
    for words in ["study.py", "out"], [*WORDS, *SMALL]:
        refused(run(*words), "study: out/study.json: damaged")
    Path("out/study.json").unlink()
    refused(run("study.py", "out"), "no study.json")
    again = run(*WORDS, *SMALL)
    assert (again.status, again.out) == (0, expected.out), again.err
    assert times == {name: path.stat().st_mtime_ns for name, path in ended_runs().items()}


def test_a_study_that_begins_beside_another_is_refused(run, text):
    """It has read the folder before the other one wrote study.json."""
    late = study.Study(factors={"norm": ["ln", "bn"]}, seeds=2, out="out", base=[*SMALL, "--dropout=0.1"])
    late.prepare()
    assert run(*WORDS, *SMALL).status == 0
    kept = Path("out/study.json").read_bytes()
    with pytest.raises(study.design.UsageError, match="other options of every run"):
        late.run()
    assert Path("out/study.json").read_bytes() == kept
    for left in "lock", "study.json.tmp":
        Path("early").mkdir(exist_ok=True)
        Path("early", left).touch()
        study.Study(factors={"norm": ["ln", "bn"]}, seeds=2, out="early", base=SMALL)


# ---- what is written -----------------------------------------------------------------------------

def test_huge_losses_are_written(text):
    """A perplexity, and a change of one, that no number holds."""
    written(lambda options, seed: {"ln": 2, "bn": 900}[options["norm"]] + seed / 100).answer().write()
    assert "| 7.58 |" in Path("out/answer.md").read_text()
    assert [power_text(exponential(loss), ".2f") for loss in (2, 20, 900, math.nan)] == ["7.39", "4.85e+08", "> 1e308", "–"]
    assert [power_text(100 * exponential(loss, math.expm1), "+.1f", " %") for loss in (-2, 0.5, 20, 900)] == [
        "−86.5 %", "+64.9 %", "+4.85e+10 %", "> 1e308 %"]


def test_latex_prints_labels_as_they_are(text):
    one = written(lambda options, seed: {"ln": 2, "bn": 3}[options["norm"]] + seed % 2 / 1000)
    one.answer(labels={"bn": "[b] <a|b> wide", "ln": "*x--y \"z\" ?`_", "norm": "[*]"}).write()
    tex = Path("out/answer.tex").read_text()
    rows = [line for line in tex.splitlines() if line.endswith(r"\tabularnewline")]
    assert all(row.startswith((r"\raggedright ", r"\multicolumn")) for row in rows)  # no [ or * follows a rule or the end of a row
    assert any("$<$ 0.001" in row for row in rows)
    first = [row.partition(" & ")[0].removeprefix(r"\raggedright ") for row in rows]
    assert first[-5:-2] == ["[*]", r"*x-{}-y {\ttfamily\char34}z{\ttfamily\char34} ?{}`\_\allowbreak{}", "[b] $<$a$|$b$>$ wide"]


# ---- exchanged folders -----------------------------------------------------------------------------

def exchange(one, other):
    os.rename(one, "aside")
    os.rename(other, one)
    os.rename("aside", other)


@pytest.mark.parametrize("options", [("--norm=ln,none", "norm"), ("--norm=x / rms_c(x),2 * x", "norm"),
                                     ("--lr=1e-2,3e-3", "learning-rate"), ("--bias=on,off", "bias"),
                                     ("--corpus=text.txt,more.txt", "corpus"), ("--norm=ln", "seed")])
def test_exchanged_folders_are_noticed(run, text, options):
    """By a study, ablate.sh and the scripts that read their folders; nothing is trained or removed."""
    words, name = options
    shutil.copy("text.txt", "more.txt")
    small = [word for word in SMALL if name != "corpus" or word != "text.txt"]
    assert run("ablate.sh", words, "--placement=pre", "--seeds=2", "--out=grid", "--", *small).status == 0
    names = sorted(os.listdir("grid/runs"))
    one, other = (names[0], names[1]) if name == "seed" else (names[0], names[2])
    assert one.split("-s")[-1] == other.split("-s")[-1] or name == "seed"
    exchange(f"grid/runs/{one}", f"grid/runs/{other}")
    for script in ["table.py", "grid"], ["compare.py", "grid", f"--baseline={name}=x"]:
        ended = run(*script)
        assert ended.status == 1 and ended.err.count("has another run: its " + name) == 2, ended.err
    ended = run("ablate.sh", words, "--placement=pre", "--seeds=2", "--out=grid", "--", *small)
    assert ended.status == 1 and "has another run" in ended.err
    if name == "seed":
        return
    assert run("study.py", words, "--seeds=2", "--out=out", "--", *small).status == 0
    first = sorted(ended_runs())
    exchange(f"out/runs/{first[0]}", f"out/runs/{first[2]}")
    ended = run("study.py", words, "--seeds=2", "--out=out", "--", *small)
    assert ended.status == 1 and f"has another run: its {name}" in ended.err and sorted(ended_runs()) == first
    ended = run("study.py", "out")
    assert "Partial answer: 2 of 4" in ended.out and ended.err.count("has another run") == 2
    assert len(study.runs("out", lambda told: None)) == 2


# ---- names -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, shown", [("x\udcff.txt", "x\udcff.txt"), ("x\ny.txt", r"x\ny.txt"), ("\x1b[1m", r"\x1b[1m")])
def test_a_name_that_no_list_can_hold_is_one_line(run, text, name, shown):
    shutil.copy("text.txt", name)
    for words in (["study.py", "--norm=ln,bn", "--", *SMALL[:-1], name], ["study.py", f"--corpus=text.txt,{name}", "--", *SMALL[:-1]],
                  ["study.py", "--norm=ln,bn", f"--tune=corpus=text.txt,{name}", "--", *SMALL[:-1]],
                  ["ablate.sh", "--norm=ln", "--", *SMALL[:-1], name], ["ablate.sh", f"--corpus={name}"], ["why.py", name]):
        refused(run(*words), f"{shown}: holds a control character or a byte that is not UTF-8")
    assert not Path("runs").exists()


def test_folders_may_have_any_name_in_one_line(run, text):
    assert run(*(word.replace("=out", "=b\udcffd") for word in WORDS), *SMALL).status == 0
    for words in ["study.py", *WORDS[1:3]], ["ablate.sh", "--norm=ln"]:
        refused(run(*words, "--out=a\nb", "--", *SMALL), r"a\nb: holds a control character (use another name)")


def test_a_run_without_a_message_says_how_it_ended(run, text):
    Path("silent").write_text(f'#!/bin/sh\ncase $* in *=out/runs/*) exit 1 ;; esac\nexec {TRAIN} "$@"\n')
    Path("silent").chmod(0o755)
    ended = run(*WORDS, *SMALL, env={"TRAIN": str(Path("silent").resolve())})
    assert ended.status == 1 and re.search(r"4 of 4 runs failed .*: norm=ln-[0-9a-f]{8}-s1: failed with exit status 1\n", ended.err)


def test_a_huge_number_of_seeds_is_one_line(run, text):
    for words in ["--seeds=99999999999999999999"], ["--tuning-seeds=99999999999999999999", "--tune=lr"], ["--seeds=1,01"]:
        refused(run("study.py", "--norm=ln,bn", *words, "--", *SMALL), words[0].partition("=")[0])
