"""Ablations as a person would run them: grids, folders, what is refused, and jobs of Slurm; lists whose options vary
together; lists of runs (--grid=FILE); what a trial of the variants costs, and the last line, which compares them."""
import os
import shlex
from itertools import product
from pathlib import Path

import pytest

from ablate.plan import Trials
from common.run_options import cores_here
from conftest import EACH, RUN, SCRIPTS, TINY, TRAIN, lines, put_text, reason


def test_the_grid(ablate):
    ending = ablate("--list", "--norm=ln,bn", "--placement=pre,post", "--learning-rate", "1e-3,3e-3", "--seeds=3,7",
                    "--out=a/", "--", "--bias=off", *RUN)
    assert "16 runs: norm ln bn x placement pre post x learning-rate 1e-3 3e-3 x seed 3 7" in ending.out
    assert lines("a/grid.txt") == [
        f"{norm}-{place}-learning-rate={rate}-s{seed} --norm={norm} --placement={place} --learning-rate={rate} "
        f"--seed={seed} --bias=off {' '.join(RUN)}"
        for seed, norm, place, rate in product((3, 7), ("ln", "bn"), ("pre", "post"), ("1e-3", "3e-3"))]
    assert not os.listdir("a/runs")


@pytest.fixture
def one_core():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no os.sched_setaffinity (Linux has it)")
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    yield
    os.sched_setaffinity(0, every)


def test_blanks_slashes_braces_and_more_jobs_than_cores(ablate, one_core):
    Path("of mine").mkdir()
    put_text("of mine/it's.txt", 3000)
    ending = ablate("--norm=ln", "--placement=pre", "--corpus=text.txt,of mine/it's.txt", "--seeds=2", "--jobs=3",
                    "--out=runs {} {2}/mine", "--", *RUN[:-1])
    for part in ("3 side by side with 1 thread each", "| corpus | median | mean ± sd | range |", "| of mine/it's.txt | "):
        assert part in ending.out
    run = Path("runs {} {2}/mine/runs/ln-pre-corpus=of%20mine%2Fit%27s.txt-s2")
    assert 'corpus = "of mine/it\'s.txt"\n' in (run / "config.ini").read_text()
    header, *rows = lines("runs {} {2}/mine/results.csv")
    assert header == ("run,corpus,seed,exit_status,exit_reason,steps,train_loss,val_loss,best_val_loss,best_step,seconds,"
                      "tokens_per_second")
    assert len(rows) == 4 and all(",0,stuck,4," in row for row in rows)


def test_a_container_s_quota_counts_as_in_train(ablate):
    """./train alone knows the quotas of containers; here it says that 5 cores may be used."""
    ablate.put("five", f"""#!/bin/sh
        [ "$*" != --show-options=json ] || {{ echo '{{"threads": {{"value": '${{OMP_NUM_THREADS:-5}}'}}}}'; exit; }}
        exec '{TRAIN}' "$@"\n""")
    ablate.env |= {"TRAIN": str(Path("five").resolve()), "OMP_NUM_THREADS": "1"}
    ending = ablate("--norm=ln,bn", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN)
    assert "2 side by side with 2 threads each" in ending.out


def test_a_lone_run_takes_the_threads_that_pay(ablate):
    """It gets all cores, but ./train may take fewer, as it does for a small model."""
    ablate.put("said", f"""#!/bin/sh
        case $* in *--out=a/runs/*) echo "$OMP_NUM_THREADS $*" >>said.txt ;; esac
        exec '{TRAIN}' "$@"\n""")
    ablate.env |= {"TRAIN": str(Path("said").resolve()), "OMP_NUM_THREADS": "2"}
    ablate("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN)
    ablate("--norm=ln,bn,rms", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN)
    lone, *others = lines("said.txt")
    assert lone.startswith("2 ") and "--threads" not in lone
    assert len(others) == 2 and all(one.startswith("1 ") and "--threads=1" in one for one in others)


@pytest.mark.parametrize("words, status, complaints", [
    (["--norm=ln,bx", "--dropout=0.1,x", "--", *RUN], 2,
     ["train: --norm=bx: must be one of ", "train: --dropout=x: must be a number from 0 to "]),
    (["--", "absent.txt"], 1, ["train: corpus: absent.txt: No such file"]),
    (["--placement=pre,post", "--", "--preln", *RUN], 2, ["ablate: --placement: is in the grid (give it only "]),
    (["--seeds=0"], 2, ["ablate: --seeds=0: must be"]),
    (["--seeds=1,x"], 2, ["ablate: --seeds=1,x: 'x' is not a whole number"]),
    (["--norm=ln,bn,layernorm"], 2, ["ablate: --norm: 'ln' is given twice\n"]),
    (["--learning-rate=1e-3,0.001"], 2, ["ablate: --learning-rate: '0.001' is given twice\n"]),
    (["--batch-size,max-iters=4:1000,4:1e3"], 2, ["ablate: --batch-size,max-iters: '4:1e3' is given twice\n"]),
    (["--corpus=text.txt,./text.txt"], 2, ["ablate: --corpus: './text.txt' is given twice"]),
    (["--jobs=none"], 2, ["ablate: --jobs=none: must be"]),
    (["--preln"], 2, ["ablate: --preln: needs values"]),
    (["text.txt"], 2, ["ablate: text.txt: options of every run and the corpus belong after --"]),
    (["--", "--seed=2"], 2, ["ablate: --seed: belongs before --"]),
    (["--", "-"], 2, ["ablate: -: standard input cannot feed several runs"]),
    (["--batch-size,max-iters=1:24,4"], 2,
     ["ablate: --batch-size,max-iters: '4' needs 2 values separated by colons\n"]),
    (["--norm="], 2, ["ablate: --norm: needs values ("]),
    (["--max-iters,seed=1:2"], 2, ["ablate: --seed: cannot vary together with others\n"]),
    (["--max-iters=1", "--batch-size,max-iters=1:2"], 2,
     ["ablate: --max-iters: is given twice, in --max-iters and --batch-size,max-iters\n"]),
    (["--grid=nosuch"], 1, ["ablate: nosuch: cannot be read (--grid=FILE: a name and options on "]),
    (["--grid="], 2, ["ablate: --grid: must not be empty\n"]),
    (["--grid=text.txt", "--norm=ln,bn"], 2, ["=text.txt: lists each run; --NAME=A,B,... cannot be given too\n"]),
    (["--grid=text.txt", "--seeds=5"], 2, ["each of its lines names its own --seed; --seeds cannot be given too\n"]),
    (["--batch-size,=1:2"], 2, ["ablate: --batch-size,=1:2: no such option"]),
    (["--batch-size,lr=1:2", "--", "--learning-rate=3"], 2, ["ablate: --learning-rate: is in the grid (give it only "])])
def test_what_is_refused_starts_nothing(ablate, words, status, complaints):
    ending = ablate("--out=a", *(["--seeds=1"] if RUN[0] in words else []), *words, status=status)
    assert all(complaint in ending.err for complaint in complaints), ending.err
    assert not ending.out and not Path("a").exists()


def test_other_machines_need_gnu_parallel(ablate):
    """This one does not, nor does a list, whose runs Slurm does."""
    ablate.hide_gnu_parallel()
    words = "--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN
    assert "ablate: --sshlogin: GNU parallel is missing (scripts/deps.sh " in ablate("--sshlogin=:", *words, status=1).err
    assert not Path("a").exists()
    ablate("--sshlogin=:", "--list", *words)
    ablate("--do-line", "1", "a", "1")
    assert reason("ln-pre-s1") == "done"
    ablate("--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", *RUN)
    assert reason("ln-pre-s2") == "done"


def test_a_folder_holds_one_grid_and_can_be_extended(ablate):
    ablate.count()
    ln = ("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--")
    ablate(*ln, *RUN)
    ending = ablate(*ln, "--bias=off", *RUN, status=2)
    assert "ablate: a: already contains another grid, with nothing where this command has --bias=off (give another" in ending.err
    ablate("--norm=rms,ln", "--placement=pre", "--seeds=2", "--out=a", "--", *RUN)
    assert len(lines("begun")) == 4, "some run was not done once"
    assert len(lines("a/grid.txt")) == 4 and lines("a/grid.txt")[0].startswith("ln-pre-s1 --norm=ln ")


def test_a_run_is_not_added_in_another_spelling(ablate):
    ablate("--list", "--dropout=0.1", "--seeds=1", "--out=a", "--", *RUN)
    ending = ablate("--list", "--dropout=.1,0.2", "--seeds=1", "--out=a", "--", *RUN, status=2)
    assert "ablate: a: has the run ln-pre-dropout=.1-s1 already, as ln-pre-dropout=0.1-s1 (spell " in ending.err


def test_a_grid_is_not_mixed_with_another_file_s_options(ablate):
    Path("b.ini").write_text("bias = off\n")
    words = "--norm=ln", "--placement=pre", "--out=a", "--", *RUN, "--config=b.ini"
    ablate("--seeds=1", *words)
    Path("b.ini").write_text("bias = on\n")
    for how in [], ["--dry-run"], ["--list"]:
        assert "ablate: b.ini: differs from the file with which runs of a were started" in ablate("--seeds=2", *how, *words, status=1).err
    assert len(lines("a/grid.txt")) == 1
    Path("b.ini").write_text("bias = off\n")
    ablate("--seeds=2", *words)


def test_a_trial_starts_no_more_runs_than_there_are_cores():
    with Trials(["a --norm=ln"], 1000, 1) as trials:
        assert trials.beside == cores_here()


def test_a_slurm_task_does_its_line(ablate):
    ablate.count()
    ablate("--list", "--norm=ln", "--placement=pre,post", "--seeds=2", "--out=a", "--", *RUN)
    Path("scripts").symlink_to(SCRIPTS)
    for number in ("3", "3", "5"):  # the second time as if requeued after its end
        ablate.env["SLURM_ARRAY_TASK_ID"] = number
        ending = ablate("a", script="ablate.slurm", status=2 if number == "5" else 0)
        assert reason("ln-pre-s2") == "done" and len(os.listdir("a/runs")) == len(lines("begun")) == 1
    assert "ablate: a/grid.txt: has no line '5'" in ending.err
    for number, runs in ("1", 3), ("2", 4):  # three runs per task, as far as there are some
        ablate.env["SLURM_ARRAY_TASK_ID"] = number
        ablate("a", "3", script="ablate.slurm")
        assert len(os.listdir("a/runs")) == len(lines("begun")) == runs
    ablate("a", "0", script="ablate.slurm", status=2)


def test_a_slurm_job_trains_and_continues(ablate):
    """With a srun that starts one process, in place of Slurm's."""
    ending = ablate("a", script="train.slurm", status=2)
    assert "Usage: sbatch " in ending.err
    ablate.put("bin/srun", '#!/bin/sh\necho "srun $1" >>srun.txt\nshift && exec "$@"\n')
    Path("train").symlink_to(TRAIN)
    ablate.env["SLURM_JOB_ID"] = "7"
    for time in range(2):
        ending = ablate("a", "--norm=bn", "--checkpoint-interval=2", *RUN, script="train.slurm")
        assert '"exit_reason": "done"' in Path("a/summary.json").read_text()
        assert ("resuming at step 4" in ending.err) == (time == 1), ending.err
    assert len(lines("srun.txt")) == 2 and "\nnorm = bn\n" in Path("a/config.ini").read_text()


@pytest.mark.parametrize("tool", ["ablate.sh", "demo.sh"])
def test_help_on_an_option_of_train(ablate, tool):
    """./train's hint "--help=all lists them" works for the tool that called it."""
    assert "--norm-eps=X" in ablate("--help=norm-eps", script=tool).out


# ---- grids ----

@pytest.mark.parametrize("words, grid", [
    ([], "6 runs: norm ln bn rms x placement pre post x seed 1\n"),
    (["--norm=ln,bn"], "2 runs: norm ln bn x placement pre x seed 1\n"),
    (["--dropout=0,0.1"], "2 runs: norm ln x placement pre x dropout 0 0.1 x seed 1\n")])
def test_what_is_not_in_the_grid_is_trains_default(ablate, words, grid):
    out = ablate("--dry-run", "--seeds=1", "--out=a", *words, "--", *RUN).out
    assert grid in out and "expected: " in out and not Path("a").exists()


@pytest.mark.parametrize("after, threads", [([], "1 thread"), (["--threads=2"], "2 threads")])
def test_the_threads_that_are_announced_are_those_that_run(ablate, one_core, after, threads):
    assert f"1 side by side with {threads} each" in ablate("--dry-run", "--jobs=1", "--", *after, *RUN).out


# ---- lists whose options vary together, and other names of values ----

GIVEN = (*TINY, "text.txt")
EXPECTED = {
    "2 runs: norm ln x placement pre x batch-size,max-iters 1:24 4:6 x seed 1": (
        ("--norm=ln", "--placement=pre", "--batch-size,max-iters=1:24,4:6", "--out=a", "--seeds=1"), [
        "ln-pre-batch-size=1-max-iters=24-s1 --norm=ln --placement=pre --batch-size=1 --max-iters=24 --seed=1",
        "ln-pre-batch-size=4-max-iters=6-s1 --norm=ln --placement=pre --batch-size=4 --max-iters=6 --seed=1"]),
    # an alias is no list of its own: the last one counts
    "1 runs: norm ln x placement pre x learning-rate 1e-3 x seed 1": (
        ("--norm=ln", "--placement=pre", "--learning-rate=1e-2", "--lr=1e-3", "--out=a", "--seeds=1"),
        ["ln-pre-learning-rate=1e-3-s1 --norm=ln --placement=pre --learning-rate=1e-3 --seed=1"]),
    # a run's folder has the short name, whichever name the grid has
    "4 runs: norm ln x placement pre peri x qk-norm rms off x seed 1": (
        ("--norm=layernorm", "--placement=preln,peri", "--seeds=1", "--qk-norm=rmsnorm,off", "--out=a"),
        [f"ln-{place}-qk-norm={norm}-s1 --norm=ln --placement={place} --qk-norm={norm} --seed=1"
         for place in ("pre", "peri") for norm in ("rms", "off")]),
    "2 runs: norm,placement bn:post dyt:pre x seed 1": (
        ("--norm,placement=batchnorm:postln,dyt:pre", "--seeds=1", "--out=a"),
        ["bn-post-s1 --norm=bn --placement=post --seed=1", "dyt-pre-s1 --norm=dyt --placement=pre --seed=1"])}


@pytest.mark.parametrize("grid", EXPECTED)
def test_lists_and_names(ablate, grid):
    words, expected = EXPECTED[grid]
    small = [word for word in GIVEN if not any(word.split("=")[0] + "=" in line for line in expected)]
    ending = ablate(*words, "--list", "--", *small)
    assert grid in ending.out
    assert lines("a/grid.txt") == [f"{line} {' '.join(small)}" for line in expected]


# ---- trials, which are counted ----

GRID = ("--norm=ln,rms", "--placement=pre", "--out=a")
FOUR = ("--", *GIVEN)


def test_a_variant_is_tried_once(ablate):
    ablate.count()
    assert "ablate: trying 2 variants first, about " in ablate(*GRID, "--seeds=1", *FOUR).err
    assert len(lines("tried")) == 2
    ending = ablate(*GRID, "--seeds=2", *FOUR)
    assert "4 runs: norm ln rms x placement pre x seed 1 2; 2 have ended, 2 to do" in ending.out
    assert "trying" not in ending.err and len(lines("tried")) == 2, "tried again"
    ending = ablate("--norm=ln,rms,bn", *GRID[1:], "--seeds=3", "--list", *FOUR)
    assert "ablate: trying 1 variant first, about " in ending.err
    assert len(lines("tried")) == 3 and "--norm=bn" in lines("tried")[2]


def test_a_trial_is_remembered_with_its_threads(ablate):
    ablate.count()
    for jobs, tried, source in ((2, 2, "a few steps"), (2, 2, "earlier runs"), (1, 4, "a few steps")):
        ending = ablate(*GRID, f"--jobs={jobs}", "--seeds=1", "--list", *FOUR)
        assert len(lines("tried")) == tried and f"(an estimate, from {source})" in ending.out


def test_runs_that_are_done_say_how_long_others_take(ablate):
    ablate.count()
    ablate(*GRID, "--seeds=2", "--list", *FOUR)
    for name, why, seconds in (("ln-pre-s1", "done", "7000,\n  \"a\": 0"), ("ln-pre-s2", "done", "7400.5"),
                                  ("rms-pre-s1", "done", "7200"), ("rms-pre-s2", "diverged", "60")):
        run = Path("a/runs", name)
        run.mkdir()
        (run / "summary.json").write_text(f'{{"exit_reason": "{why}", "val_loss": 2, "best_val_loss": 2, "seconds": {seconds}}}\n')
    ending = ablate(*GRID, "--seeds=5", "--jobs=2", "--dry-run", *FOUR)
    assert "10 runs: norm ln rms x placement pre x seed 1 2 3 4 5; 4 have ended, 6 to do" in ending.out
    assert "expected: 2 h 00 min a run, 6 h 00 min in all, 2 side by side" in ending.out
    assert "expected: 2 h 00 min a run, " in ablate(*GRID, "--seeds=9", "--jobs=2", "--dry-run", *FOUR).out
    assert len(lines("tried")) == 2


# ---- lists ----

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
    assert "\nother,bn,of mine/it's.txt,3,1,0,stuck,4," in Path("a/results.csv").read_text()
    assert "ablate: scripts/compare.py a --a NAME=VALUE --b NAME=VALUE compares " in ending.err
    assert "their common seeds (they differ in batch-size, corpus, norm)\n" in ending.err
    listed(*ALL)  # nothing is left to do
    assert len(lines("begun")) == 3
    Path("list.txt").write_text(LIST + "\nlast --norm=rms --batch-size=2 text.txt\n")  # the rest of a longer list
    ending = listed(*ALL)
    assert "4 runs: from list.txt; 3 have ended, 1 to do" in ending.out and "(an estimate, from earlier runs)" in ending.out
    assert len(lines("begun")) == len(lines("a/grid.txt")) == 4


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
    ("a/b --norm=ln\n", "line 1: 'a/b' is no name for a run's folder"),
    ("a --resume=b\n", "line 1: --resume=b: cannot be in a list"),
    ("a -- text.txt\n", "line 1: --: belongs on the command line, before the options of every run\n"),
    ("a -\n", "line 1: -: is not an option of ./train by its long name, nor a corpus"),
    ("a --lr=3\n", "ablate: list.txt, line 1: --learning-rate: is also after -- (give it once)\n"),
    ("a --norm=l\rn\n", "line 1: holds a control character\n")])
def test_bad_lines(ablate, text, complaint):
    Path("list.txt").write_bytes(text.encode())
    ending = ablate("--grid=list.txt", "--out=a", "--", "--sample=0", "--learning-rate=1e-3", status=2)
    assert complaint in ending.err and not ending.out and not Path("a").exists()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_list_from_an_editor_of_windows(ablate, mark, end):
    Path("list.txt").write_bytes(f"{mark}a-s1 --norm=ln --seed=1{end}{end}b-s1 --norm=rms --seed=1{end}".encode())
    ablate("--grid=list.txt", "--list", "--out=a", "--", "--sample=0")
    assert Path("a/grid.txt").read_text() == "a-s1 --norm=ln --seed=1 --sample=0\nb-s1 --norm=rms --seed=1 --sample=0\n"


def test_a_folder_of_another_list(ablate):
    Path("list.txt").write_text("a --norm=ln\n")
    ablate("--grid=list.txt", "--list", "--out=a")
    Path("list.txt").write_text("a --norm=bn\n")
    assert ("ablate: list.txt: a: a has this run with other options (another name, "
            in ablate("--grid=list.txt", "--list", "--out=a", status=2).err)


def test_its_table_tells_runs_apart(ablate):
    """Runs of a list that differ only in what they watch are rows of their own."""
    Path("list.txt").write_text("a-s1 --norm=ln --seed=1\nb-s1 --norm=ln --seed=1 --eval-interval=2\n"
                                "c-s1 --norm=bn --seed=1\n")
    ending = ablate(*ALL, "text.txt")
    assert "| norm | eval-interval | " in ending.out and "| ln | 2 | " in ending.out
    assert "same seed" not in ending.err


def test_the_command_to_copy_quotes_the_folder(ablate):
    ending = ablate("--norm=ln,rms", "--placement=pre", "--seeds=2", "--out=it's mine", "--", *RUN)
    command = ending.err.splitlines()[-1].removeprefix("ablate: ")
    assert shlex.split(command)[:4] == ["scripts/compare.py", "it's mine", "--baseline", "norm=ln"]


@pytest.mark.parametrize("words, baseline", [
    (["--norm=ln,rms", "--placement=pre", "--batch-size=2,3"], "norm=ln"),
    (["--norm=ln", "--placement=pre"], ""),
    (["--batch-size=2,3", "--norm=ln,rms"], "batch-size=2"),
    (["--norm,placement=ln:pre,bn:post"], "norm=ln,placement=pre")])
def test_the_last_line_says_how_to_compare(ablate, words, baseline):
    ending = ablate(*words, "--seeds=2", "--out=a", "--", *EACH, "text.txt")
    line = f"ablate: scripts/compare.py a --baseline {baseline} compares the variants by their seeds\n"
    assert ending.err.endswith(line) if baseline else "compare.py" not in ending.err, ending.err


@pytest.mark.parametrize("words", [["--placement=post"], ["--placement", "post"], ["--postln"], ["--preln", "--placement=post"]])
def test_the_placement_of_every_run_may_stand_after_the_grid(ablate, words):
    ablate("--list", "--norm=ln,rms", "--seeds=1", "--out=a", "--", *words, *RUN)
    assert [shlex.split(line)[:3] for line in lines("a/grid.txt")] == [
        [f"{norm}-post-s1", f"--norm={norm}", "--placement=post"] for norm in ("ln", "rms")]


def test_norms_that_are_formulas(ablate):
    ending = ablate("--list", "--norm=rms,gamma * min(x, 1)/ (1 + abs(x))", "--seeds=1", "--out=a/", "--", *RUN)
    assert "2 runs: norm rms gamma * min(x, 1)/ (1 + abs(x)) x placement pre x seed 1" in ending.out
    names = [shlex.split(line)[:2] for line in lines("a/grid.txt")]
    assert names[0] == ["rms-pre-s1", "--norm=rms"]
    assert names[1][0].startswith("f") and len(names[1][0]) == len("f01234567-pre-s1")
    assert names[1][1] == "--norm=gamma * min(x, 1)/ (1 + abs(x))"
