"""scripts/report.py: verdicts on given facts, training at a tiny size, and what it refuses."""
import csv
import json
import lzma
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import SCRIPTS, command, needs, wait_until
from pages import Page

needs("scipy", "statsmodels", "jinja2", "tomllib")

import report as script
from claims import texts
from evidence.facts import facts_text, read_facts, shorter
from evidence.lab import TIMED, Records

HEADER = "experiment,corpus,size,variant,seed,metric,value\n"
MINI = ("report.py", "--train", "--size=mini")


@pytest.fixture
def report(run):
    """Runs report.py, which must end with this status, without a traceback."""
    def done(*words, status=0):
        ending = run("report.py", *words)
        assert ending.status == status and "Traceback" not in ending.err, ending.err
        return ending
    return done


def ended(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).glob("runs/*/summary.json")}


# ---- given facts ---------------------------------------------------------------------------------

def test_the_published_facts_give_the_published_verdicts(report):
    out = report("--out=again").out
    assert "A1 F2            true in a weaker sense " in out and out.splitlines()[-1].startswith("13 true, ")
    assert Path("again/verdicts.csv").read_text() == Path(texts.PUBLISHED, "verdicts.csv").read_text()
    assert Path("again/report.html").read_text() == Path(texts.PUBLISHED, "report.html").read_text()


def test_a_verdict_is_explained(report):
    first, deciding, *rest = report("--claim=A21").out.splitlines()
    assert first.startswith("A21 B12 C3 F4 true in a weaker sense: BatchNorm needs a large batch")
    assert deciding.startswith("  decided by ") and deciding.endswith(": holds") and "nats [" in deciding
    assert not any("decided by" in line for line in rest)


@pytest.fixture
def facts(tmp_path):
    """facts.csv: bn is worse than ln by 0.3, and rms by 0.001; seeds differ little."""
    rows = []
    for seed in range(1, 9):
        for norm, more in ("bn", 0.3), ("ln", 0), ("rms", 0.001):
            loss = 2 + 0.01 * seed + more + 0.002 * (seed % 3) * (norm == "bn")
            rows += [f"{experiment},text,S,norm={norm}{rate},{seed},val_loss,{loss}\n" for experiment, rate in
                     (("E20", " recipe=best"), ("E1", " rate=tuned"), ("E23", ""))]
        rows += [f"E20,text,S,norm=bn recipe=best,{seed},rate_at_end,1\n"]
        rows += [f"E1,text,S,norm=rms rate=default,{seed},val_loss,{2 + 0.01 * (seed % 3)}\n"]
    (tmp_path / "facts.csv").write_text(HEADER + "".join(rows))
    return tmp_path / "facts.csv"


def test_facts_decide(facts, report):
    out = report("--facts=facts.csv", "--out=a").out
    assert re.search("^N14 .* true in a weaker sense", out, re.M)
    assert "Run E3 to measure it." in report("--facts=facts.csv", "--claim=A21").out
    html = Path("a/report.html").read_text()
    Page(html)
    assert "The learning rate or initialization is an end of its grid: norm=bn recipe=best (E20, S)." in html
    facts.write_text(re.sub("(norm=bn recipe=best,3,val_loss),.*", r"\1,9.5", facts.read_text()))
    report("--facts=facts.csv", "--out=a")
    assert Path("a/report.html").read_text() != html


def test_a_canary_fails(facts, report):
    facts.write_text(re.sub("(rms rate=default,1,val_loss),.*", r"\1,9", facts.read_text()))
    assert "report: canary K1 failed: " in report("--facts=facts.csv", status=1).err


@pytest.mark.parametrize("text, why", [
    ("experiment,seed,value\nE1,1,2\n", f"facts.csv: line 1 must be {HEADER.strip()}"),
    (HEADER + "E1,t,S,norm=ln,1,val_loss,two\n", "facts.csv: line 2 is no fact: E1,t,S,norm=ln,1,val_loss,two"),
    (HEADER + "E1,t,S,norm=ln,x,val_loss,2\n", "facts.csv: line 2: the seed must be a number or -, not x"),
    (HEADER + "E1,t,S,norm=ln,1,val_loss,2\nE1,t,S,norm=ln,1,val_loss,3\n", "two values, 2 and 3"),
    (HEADER, "facts.csv: has no facts"), ("\0", "facts.csv: line 1 must be"), (None, "facts.csv: No such file")])
def test_bad_facts(report, text, why):
    if text is not None:
        Path("facts.csv").write_text(text)
    err = report("--facts=facts.csv", "--out=x", status=1).err
    assert err.startswith("report: ") and why in err and err.count("\n") == 1 and not Path("x/report.html").exists()


@pytest.mark.parametrize("words, why", [
    (["--only=E3"], "--only: needs --train"), (["--continue=a"], "--continue: needs --train"), (["--claim=Z1"], "no such claim"),
    (["--train", "--facts=a"], "--facts: cannot be combined"), (["--train", "--size=XS,mini"], "--size: mini cannot"),
    (["--train", "--size=XS"], "--corpus: missing"), (["--train", "--only=E4"], "--only: 'E4' is not one of E1, E2, E3"),
    (["--train", "--claim=N3"], "--claim=N3: no run decides it"), (["--train", "--size=mini", "--out=other"], "is not a report's folder"),
    (["--train", "--size=mini", "--corpus=short.txt"], "5 characters are too few"),
    (["--train", "--size=mini", "--continue=short.txt"], "has no measurement"),
    (["--train", "--size=mini", "--continue=none"], "none: No such file")])
def test_wrong_usage(report, words, why):
    Path("other").mkdir()
    Path("other/file").write_text("")
    Path("short.txt").write_text("short")
    err = report(*words, status=2 if "needs" in why or why.startswith("--") or "no such claim" in why else 1).err
    assert why in err and err.count("\n") == 1


def test_facts_are_written_and_read(tmp_path, facts):
    read = read_facts(facts)
    (tmp_path / "again.csv").write_text(facts_text(read))
    assert facts_text(read_facts(tmp_path / "again.csv")) == facts_text(read)
    assert [shorter(one) for one in (1 / 3, -2.53365994, 4069562017.0)] == [0.3333333, -2.53366, 4069562017.0]


# ---- training --------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder r/ of a report of a few experiments, to read only."""
    folder = tmp_path_factory.mktemp("report")
    ending = command(*MINI, "--only=E3,E11,E13,E17,E20", "--out=r", cwd=folder)
    assert ending.status == 0 and "Traceback" not in ending.err, ending.err
    return folder


def facts_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_missing_is_trained_measured_and_judged(trained, run):
    rows = facts_of(trained / "r/facts.csv")
    assert {row["experiment"] for row in rows} == {"E3", "E11", "E13", "E17", "E20"}
    losses = [row for row in rows if (row["experiment"], row["metric"]) == ("E20", "val_loss") and "recipe=best" in row["variant"]]
    assert {row["variant"] for row in losses} == {f"norm={norm} recipe=best" for norm in ("none", "ln", "rms", "bn")}
    drifts = [row["seed"] for row in rows if (row["variant"], row["metric"]) == ("norm=ln", "drift_mean")]
    assert drifts == ["1", "2"]
    for name in "verdicts.csv", "report.html":
        assert (trained / "r" / name).stat().st_size > 1000
    again = run("report.py", f"--facts={trained}/r/facts.csv", "--claim=D9")
    assert again.out.startswith("D9 false: ")


def test_a_repeated_report_trains_nothing_and_a_published_one_continues(trained, run, tmp_path):
    before, facts = ended(trained / "r"), (trained / "r/facts.csv").read_bytes()
    known = (trained / "r/measured.jsonl").read_bytes()
    assert run(*MINI, "--only=E3,E11,E13,E17,E20", f"--out={trained}/r").status == 0
    assert ended(trained / "r") == before and (trained / "r/facts.csv").read_bytes() == facts
    assert (trained / "r/measured.jsonl").read_bytes() == known
    (tmp_path / "measured.jsonl.xz").write_bytes(lzma.compress(known))
    assert run(*MINI, "--only=E3,E20", "--continue=measured.jsonl.xz", "--out=next").status == 0
    assert not ended("next") and {row["experiment"] for row in facts_of("next/facts.csv")} == {"E3", "E20"}


def test_a_list_of_runs_is_written_for_other_machines(run, tmp_path):
    ending = run(*MINI, "--only=E3", "--list", "--out=r")
    lines = (tmp_path / "r/grid.txt").read_text().splitlines()
    assert ending.status == 0 and "r/grid.txt: " in ending.err and not ended("r")
    assert lines and all("--corpus=r/texts/toy.txt" in line and "--norm=ln" in line for line in lines)


def test_two_reports_do_not_share_a_folder(run, tmp_path):
    lab = script.lab_of(script.options_of([*MINI[1:], "--out=r"]))
    ending = run(*MINI, "--only=E11", "--out=r")
    assert ending.status == 1 and "report: r: another report is running there (process " in ending.err
    lab.lock.close()


@pytest.mark.sweep
def test_a_killed_report_goes_on_to_the_same_facts(run):
    with subprocess.Popen([SCRIPTS / MINI[0], *MINI[1:], "--only=E2,E3,E6", "--out=s"], start_new_session=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_until(lambda: len(ended("s")) >= 4)
        os.killpg(killed.pid, signal.SIGKILL)
    for folder in "sr":
        assert run(*MINI, "--only=E2,E3,E6", f"--out={folder}").status == 0
    assert Path("s/facts.csv").read_bytes() == Path("r/facts.csv").read_bytes()


@pytest.mark.sweep
@pytest.mark.parametrize("names", ["E1,E2,E5,E6,E7", "E8,E9,E10,E12", "E14,E16,E18,E19,E21", "E22,E23,E24,E25,E26"])
def test_a_whole_report_in_parts(run, names):
    """Each experiment has facts, and canaries come out as they must."""
    ending = run(*MINI, f"--only={names}", "--out=r")
    assert ending.status == 0, ending.err
    assert {row["experiment"] for row in facts_of("r/facts.csv")} == set(names.split(","))
    Page(Path("r/report.html").read_text())


def test_measurements_elsewhere_are_taken_except_for_times(tmp_path):
    """And except for those of another version of the measures. A line that a kill left incomplete is none."""
    other, own = tmp_path / "other.jsonl", tmp_path / "own.jsonl"
    rows = [{"run": "a", "measure": "ending", "source": "00", "values": {"x": 1}}, {"run": "a", "measure": TIMED, "values": {"x": 1}},
            {"run": "b", "measure": "ending", "version": 2, "values": {"x": 1}}]
    other.write_text("\n".join(map(json.dumps, rows)) + '\n{"run": "c", "measure": "end')
    own.write_text('{"run": "d", "mea')
    records = Records(str(own), str(other))
    assert records.known == {("a", "ending"): {"x": 1}}
    records.keep("d", "ending", {"x": 2})
    assert Records(str(own)).known == {("d", "ending"): {"x": 2}}


def test_the_published_measurements_are_readable():
    known = Records("none.jsonl", os.path.join(texts.PUBLISHED, "measured.jsonl.xz")).known
    assert sum(measure == "ending" for _, measure in known) > 19000


