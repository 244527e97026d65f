"""scripts/report.py: a whole report in miniature, a page from given facts, and what it refuses."""
import fcntl
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="scripts/deps.sh report installs it")
pytest.importorskip("jinja2", reason="scripts/deps.sh report installs it")

import reports
from conftest import SCRIPTS, command, wait_until

HEADER = "experiment,corpus,size,variant,seed,metric,value\n"
MINI = ("report.py", "--size=mini")
FILES = ("report.html", "facts.csv", "verdicts.csv", "measured.jsonl")


@pytest.fixture
def report(run):
    """Runs a command that must end with this status, without a traceback."""
    def done(*words, status=0, **how):
        ending = run(*words, **how)
        assert ending.status == status and "Traceback" not in ending.err, ending.err
        return ending
    return done


@pytest.fixture
def expect_refusal(report):
    """Fails unless report.py ends with this status and prints one line that contains `part`."""
    def expect(status, part, *words, **how):
        err = report("report.py", *words, status=status, **how).err
        assert part in err and err.count("\n") == 1, err
    return expect


def read(path):
    """The content of a file, unpacked."""
    data = Path(path).read_bytes()
    return lzma.decompress(data) if Path(path).suffix == ".xz" else data


def lines(path):
    return read(path).decode().splitlines()


def ended(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).glob("ablation/runs/*/summary.json")}


def test_commands_are_accepted(run):
    """Every option of every run that could be planned, without updates."""
    Path("text.txt").write_text("".join(f"some words to learn from, line {i}\n" for i in range(400)))
    small = "--n-layer=1 --n-embd=16 --batch-size=2 --block-size=8 --quiet --force --out=run".split()
    commands = reports.commands()
    assert len(commands) > 50
    for words in commands:
        ending = run("train", *words.split(), *([] if "random" in words else ["text.txt"]), *small)
        assert ending.status == 0, words + ending.err


@pytest.fixture(scope="session")
def miniature(tmp_path_factory):
    """The folder r/ of a whole report, to read only. The first of pytest's processes that needs it makes it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "report"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "r/report.html").exists():
            ending = command(*MINI, "--out=r", cwd=folder)
            assert ending.status == 0 and "Traceback" not in ending.err, ending.err
    return folder / "r"


def test_the_page_and_the_facts_of_a_whole_report(miniature):
    reports.expect_page(miniature / "report.html")
    reports.expect_needs(miniature)


@pytest.fixture
def whole(miniature, tmp_path):
    """A copy of it, and its files."""
    shutil.copytree(miniature, tmp_path / "r")
    return {name: read(miniature / name) for name in FILES}


@pytest.mark.sweep
def test_a_repeated_report_runs_and_measures_nothing(report, expect_refusal, whole):
    before = ended("r")
    for words in [], ["--page"]:
        assert "measuring" not in report(*MINI, "--out=r", *words).err
    Path("else.txt").write_text("".join(f"other words, line {i}\n" for i in range(300)))
    expect_refusal(1, "report: r: its runs are of another text or size", *MINI[1:], "--out=r", "--page",
                   "--corpus=else.txt")
    assert ended("r") == before and all(read(f"r/{name}") == data for name, data in whole.items())


@pytest.mark.sweep
def test_what_is_published_has_every_run_and_the_same_verdicts(report, whole):
    for _ in range(2):
        report(*MINI, "--out=r", "--page", "--publish=p")
    assert reports.without_pictures(read("p/report.html")) == reports.without_pictures(whole["report.html"])
    assert read("p/verdicts.csv") == whole["verdicts.csv"]
    assert len(lines("p/facts.csv.xz")) < len(lines("r/facts.csv"))
    report("report.py", "--facts=p/facts.csv.xz", "--out=again")
    assert read("again/verdicts.csv") == whole["verdicts.csv"]
    listed = dict(line.split(" ", 1) for line in lines("r/grid.txt"))
    assert sorted(listed) == sorted(path.parent.name for path in ended("r"))
    name, words = listed.popitem()
    report("train", *shlex.split(words), "--out=run")
    assert read("run/model.safetensors") == read(f"r/ablation/runs/{name}/model.safetensors")


@pytest.mark.sweep
def test_another_report_continues_a_published_one(report, expect_refusal, whole):
    """It repeats a run of each norm and optimizer, and refuses if one has another loss. Runs of which nothing is measured, which E17
    needs, are not run again."""
    report(*MINI, "--out=r", "--page", "--publish=p")
    report(*MINI, "--only=E17", "--continue=p/measured.jsonl.xz", "--out=next")
    assert len(ended("next")) == 4 and b"<dt>Taken over" in read("next/report.html")
    own, first = ([line for line in lines(f"{folder}/facts.csv") if line.startswith("E17,")] for folder in ("next", "r"))
    assert own == first
    Path("false.jsonl").write_text(re.sub(r'"val_loss": [0-9.]+', '"val_loss": 1', read("p/measured.jsonl.xz").decode()))
    ending = report(*MINI, "--only=E15", "--continue=false.jsonl", "--out=next", status=1)
    assert "ended at 1 there and" in ending.err
    Path("cut.xz").write_bytes(Path("p/measured.jsonl.xz").read_bytes()[:999])
    for name, why in ("p/facts.csv.xz", "has no measurement"), ("cut.xz", "report: cut.xz: not a file of measurements"):
        assert why in report(*MINI, f"--continue={name}", "--out=next", status=1).err


@pytest.mark.sweep
def test_a_killed_report_goes_on_to_the_same_bytes(report, whole):
    """The same facts, except for times (E12), and with the first one's times the same bytes."""
    with subprocess.Popen([SCRIPTS / MINI[0], MINI[1], "--out=s"], start_new_session=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as killed:
        wait_until(lambda: len(ended("s")) >= 40)
        os.killpg(killed.pid, signal.SIGKILL)
    assert not Path("s/report.html").exists()
    report(*MINI, "--out=s")
    untimed = [[line for line in lines(f"{folder}/facts.csv") if not line.startswith("E12,")] for folder in "rs"]
    assert untimed[0] == untimed[1] and untimed[0] != lines("r/facts.csv")
    times = [line + "\n" for line in lines("r/measured.jsonl") if '"measure": "profile"' in line]
    assert len(times) >= 10
    with open("s/measured.jsonl", "a", encoding="utf-8") as file:
        file.writelines(times)
    report(*MINI, "--out=s")
    page = read("s/report.html").replace(b"--corpus=s/", b"--corpus=r/")  # the folder of the built-in text
    assert page == whole["report.html"] and read("s/facts.csv") == whole["facts.csv"]


# ---- given facts ---------------------------------------------------------------------------------

@pytest.fixture
def facts(tmp_path):
    """facts.csv: bn is worse than ln by 0.3, and rms by 0.001; two copies of a run are equal."""
    rows = []
    for seed in range(1, 9):
        for norm, more in ("bn", 0.3), ("ln", 0), ("rms", 0.001):
            loss = 2 + 0.01 * seed + more + 0.002 * (seed % 3) * (norm == "bn")
            rows += [f"{experiment},text,S,norm={norm}{rate},{seed},val_loss,{loss}\n" for experiment, rate in
                     (("E20", " recipe=best"), ("E1", " rate=tuned"), ("E23", ""))]
        rows += [f"E20,text,S,norm=bn recipe=best,{seed},rate_at_end,1\n"]
        rows += [f"canary,text,S,copy={copy},{seed},val_loss,{2 + 0.01 * seed}\n" for copy in (1, 2)]
    (tmp_path / "facts.csv").write_text(HEADER + "".join(rows))
    return "".join(rows)


@pytest.fixture
def page(report):
    """What report.py prints of facts.csv, and the page it writes to a/."""
    def drawn(name="facts.csv", **how):
        ending = report("report.py", f"--facts={name}", "--out=a", **how)
        return ending.out, Path("a/report.html").read_text(), ending.err
    return drawn


def edit(path, pattern, new):
    text = Path(path).read_text()
    Path(path).write_text(re.sub(pattern, new, text, flags=re.M))
    assert Path(path).read_text() != text


def test_facts_decide(facts, report, page):
    out, html, _ = page()
    assert re.search("^N14 .* true in a weaker sense", out, re.M)
    assert "Run E3 to measure it." in report("report.py", "--facts=facts.csv", "--out=b", "--claim=A21").out
    assert "rate or initialization is an end of its grid: norm=bn recipe=best (E20, S)" in html
    assert '<h3 id="h-rms">RMSNorm equals LayerNorm within 0.02 nats if each has its best recipe</h3>' in html
    assert re.search(r"<td>equal within 0.02: \+0.001 \[.*</td><td>higher: \+0.302 \[", html)
    assert "Rules that were changed" in html and 'id="r-A14"' in html
    edit("facts.csv", "norm=bn recipe=best,3,val_loss,.*", "norm=bn recipe=best,3,val_loss,9.5")
    assert "0.302" not in page()[1]


def test_a_rule_that_is_younger_than_its_facts_is_named(facts, page):
    assert "after their facts were made: " not in page()[1]
    edit("a/rules.csv", "^E20,N14,.*", "E20,N14,00000000")
    out, html, _ = page()
    assert "after their facts were made: N14" in html and re.search("^N14.*rule changed", out, re.M)
    assert "code that makes" not in html
    edit("a/rules.csv", "^E20,code,.*", "E20,code,00000000")
    assert "code that judges facts was changed after the first facts of E20" in page()[1]


def test_a_canary_fails(facts, page):
    edit("facts.csv", "copy=1,1,val_loss,.*", "copy=1,1,val_loss,9")
    _, html, err = page(status=1)
    assert "report: canary K1 failed: " in err and "A canary failed (K1)" in html


@pytest.mark.parametrize("text, why", [
    ("experiment,seed,value\nE1,1,2\n", f"facts.csv: line 1 must be {HEADER}"),
    (HEADER + "E1,t,S,norm=ln,1,val_loss,two\n", "facts.csv: line 2 is no fact: E1,t,S,norm=ln,1"),
    (HEADER + "E1,t,S,norm=ln,x,val_loss,2\n", "facts.csv: line 2: the seed must be a number or -, not x"),
    (HEADER + "E99,t,S,norm=ln,1,val_loss,2\n", "facts.csv: line 2: there is no experiment E99"),
    (HEADER, "report: facts.csv: has no facts")])
def test_bad_facts(expect_refusal, text, why):
    Path("facts.csv").write_text(text)
    expect_refusal(1, why, "--facts=facts.csv", "--out=x")
    assert not Path("x/report.html").exists()


def test_facts_with_a_byte_order_mark_and_bad_rules(report, expect_refusal):
    Path("mark.csv").write_text("\ufeff" + HEADER + "E1,t,S,norm=ln,1,val_loss,2\n")
    report("report.py", "--facts=mark.csv", "--out=rules")
    Path("rules/rules.csv").write_text("claim\n")
    expect_refusal(1, "report: rules/rules.csv: line 1 must be experiment,claim,checksum", "--facts=mark.csv",
                   "--out=rules")
    expect_refusal(1, "report: y: has no facts (the same command without --page measures some)", *MINI[1:], "--out=y",
                   "--page")
    assert not Path("y/report.html").exists()


# ---- runs ----------------------------------------------------------------------------------------

SLURM = """#!/bin/bash
last=${1#--array=1-} last=${last%\\%*}
for ((i = 1; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_PER_TASK=1 bash "$3" "$4" || exit 1; done
"""


def test_runs_may_be_done_elsewhere(report, ablate, run, tmp_path):
    """What --list prints, done by a make-believe Slurm; then the report takes these runs as they are."""
    ablate.put("bin/sbatch", SLURM)
    first, *rest = report(*MINI, "--only=E15", "--list", f"--out={tmp_path}/r").out.splitlines(keepends=True)
    assert any(line.startswith("sbatch --array") for line in rest), first
    ending = run("bash", "-e", input="".join(rest), cwd=SCRIPTS.parent)
    assert ending.status == 0, ending.err
    before = ended("r")
    assert len(before) >= 2
    ending = report(*MINI, "--only=E15", f"--out={tmp_path}/r")
    assert "failed" not in ending.err and before.items() <= ended("r").items()
    assert re.search("^E15,toy,mini,.*val_loss", Path("r/facts.csv").read_text(), re.M)


def test_a_folder_that_is_another_run(report, expect_refusal):
    report(*MINI, "--only=E15", "--list", "--out=r")
    name, words = Path("r/wanted.txt").read_text().splitlines()[0].split(" ", 1)
    report("train", *shlex.split(words), "--seed=77", "--quiet", f"--out=r/ablation/runs/{name}")
    ending = report(*MINI, "--only=E15", "--out=r", status=1)
    assert "is another run: its seed is 77, not " in ending.err


def test_timed_runs_are_not_listed(report):
    ending = report(*MINI, "--only=E12", "--list", "--out=r")
    assert "report: 10 timed runs (E12) are not listed: the report does them itself" in ending.err


def test_runs_that_failed(report):
    """A file is where their folder would be."""
    report(*MINI, "--only=E13,E15", "--list", "--out=r")
    Path("r/ablation").write_text("")
    assert "report: 2 runs failed " in report(*MINI, "--only=E13,E15", "--out=r", status=1).err
    assert "E13," in Path("r/facts.csv").read_text()


@pytest.mark.parametrize("status, words, why", [
    (2, "--only=E99", "--only: 'E99' is not one of E1, E2, "),
    (2, "--claim=Z1", "--claim=Z1: no such claim"),
    (2, "--claim=N3", "no experiment decides it"),
    (2, "--claim=K1", "no experiment decides it (a canary of E1)"),
    (1, "--only=E3 --out=x", "data/corpora has no text (make data gets some, or --corpus=FILE)"),
    (1, "--corpus=nosuch.txt --out=x", "report: nosuch.txt: No such file or directory"),
    (1, "--corpus=short.txt --out=x", "short.txt: 9 characters are too few"),
    (2, "--size=mini --full", "--size: XS, S and M need --full, and mini cannot be combined with it"),
    (2, "--size=XS", "--size: XS, S and M need --full"),
    (2, "--long", "--long: needs --full with models of size M"),
    (2, "--full --size=XS --long", "--long: needs --full with models of size M"),
    (2, "--full --size=M --only=E3", "--size: E3 has no run of the size M"),
    (2, "--full --size=XS,mini", "--size: 'mini' is not one of XS, S, M"),
    (2, "--publish=p --only=E3", "--publish: cannot be combined with --only"),
    (2, "--continue=", "--continue: must not be empty"),
    (1, "--size=mini --continue=nosuch --out=y", "report: nosuch: No such file or directory"),
    (1, "--size=mini --publish=else", "else: is not a published report"),
    (2, "--quick --corpus=a.txt --corpus=b.txt", "--quick: needs exactly one text"),
    (1, "--size=mini --other-corpus=missing.txt --only=E23 --out=y", "missing.txt: No such file or directory"),
    (1, "--size=mini --other-corpus=toy.txt --only=E23 --out=y", "--other-corpus: a text has the name of one of --corpus"),
    (1, "--size=mini --out=short.txt", "short.txt: is not a folder"),
    (2, "--seeds=1", "--seeds: '1' is not a whole number from 2 to 100"),
    (1, "--size=mini --out=else", "report: else: is not a report's folder (give another --out)"),
    (1, "--size=mini --out=other", "report: other: is not a report's folder (give another --out)")])
def test_bad_input(expect_refusal, status, words, why):
    Path("short.txt").write_text("too short")
    for name in "else/file", "other/texts/poem.txt":
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    expect_refusal(status, why, *words.split())


def test_a_program_or_module_that_does_not_serve(expect_refusal, ablate):
    ablate.put("old", "#!/bin/sh\necho '  --norm=NORM'\n")
    expect_refusal(1, "old: has no --dump, so it is older than the report (make)", *MINI[1:], "--out=z",
                   env={"TRAIN": str(Path("old").resolve())})
    ablate.put("bad/scipy/__init__.py", "raise ImportError('No module named scipy')\n")
    expect_refusal(1, "(scripts/deps.sh report installs it)", *MINI[1:], env={"PYTHONPATH": "bad"})
