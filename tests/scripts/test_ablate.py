"""Ablations as a person would run them: grids, folders, what is refused, and jobs of Slurm."""
import os
from itertools import product
from pathlib import Path

import pytest

from ablation import RUN, lines, put_text, reason
from conftest import SCRIPTS, TRAIN


def test_the_grid(ablate):
    ending = ablate("--list", "--norm=ln,bn", "--placement=pre,post", "--learning-rate", "1e-3,3e-3", "--seeds=3,7",
                    "--out=a/", "--", "--bias=off", *RUN)
    assert "16 runs: norm ln bn x placement pre post x learning-rate 1e-3 3e-3 x seed 3 7" in ending.out
    assert lines("a/grid.txt") == [
        f"{norm}-{place}-learning-rate={rate}-s{seed} --norm={norm} --placement={place} --learning-rate={rate} "
        f"--seed={seed} --bias=off {' '.join(RUN)}"
        for seed, norm, place, rate in product((3, 7), ("ln", "bn"), ("pre", "post"), ("1e-3", "3e-3"))]
    assert not os.listdir("a/runs")


def test_a_dry_run_leaves_nothing(ablate):
    ending = ablate("--dry-run", "--seeds=2", "--out=a", "--", *RUN)
    assert "12 runs: norm ln bn rms x placement pre post x seed 1 2" in ending.out
    assert "expected: " in ending.out and not Path("a").exists()


def test_blanks_slashes_and_more_jobs_than_cores(ablate):
    ablate.hide_gnu_parallel()
    ablate.put("bin/nproc", "#!/bin/sh\necho 1\n")
    Path("of mine").mkdir()
    put_text("of mine/it's.txt", 3000)
    ending = ablate("--norm=ln", "--placement=pre", "--corpus=text.txt,of mine/it's.txt", "--seeds=2", "--jobs=3",
                    "--out=runs of/mine", "--", *RUN[:-1])
    for part in ("3 side by side with 1 thread each", "| corpus | median | mean ± sd | range |", "| of mine/it's.txt | "):
        assert part in ending.out
    run = Path("runs of/mine/runs/ln-pre-corpus=of%20mine%2Fit%27s.txt-s2")
    assert 'corpus = "of mine/it\'s.txt"\n' in (run / "config.ini").read_text()
    header, *rows = lines("runs of/mine/results.csv")
    assert header == ("run,corpus,seed,exit_status,exit_reason,steps,train_loss,val_loss,best_val_loss,best_step,seconds,"
                      "tokens_per_second")
    assert len(rows) == 4 and all(",0,done,4," in row for row in rows)


@pytest.mark.parametrize("words, status, complaints", [
    (["--norm=ln,bx", "--dropout=0.1,x", "--", *RUN], 2,
     ["train: --norm=bx: must be one of ", "train: --dropout=x: must be a number from 0 to "]),
    (["--n-hed=2", "--", *RUN], 2, ["train: --n-hed: no such option (did you mean --n-head?)"]),
    (["--n-embd=8,9", "--", "--n-head=2", "text.txt"], 2, ["train: --n-embd=9: cannot be split among --n-head=2"]),
    (["--", "absent.txt"], 1, ["train: corpus: absent.txt: No such file"]),
    (["--", "--preln", *RUN], 2, ["ablate: --preln: names a placement"]),
    (["--seeds=0"], 2, ["ablate: --seeds=0: must be"]),
    (["--seeds=1,x"], 2, ["ablate: --seeds=1,x: 'x' is not a whole number"]),
    (["--norm=ln,bn,ln"], 2, ["ablate: ln,bn,ln: 'ln' is given twice"]),
    (["--norm=ln,bn,layernorm"], 2, ["ablate: ln,bn,ln: 'ln' is given twice\n"]),
    (["--jobs=none"], 2, ["ablate: --jobs=none: must be"]),
    (["--preln"], 2, ["ablate: --preln: needs values"]),
    (["text.txt"], 2, ["ablate: text.txt: what every run gets belongs after --"]),
    (["--", "--norm=ln"], 2, ["ablate: --norm: is in the grid and belongs before --"]),
    (["--", "--seed=2"], 2, ["ablate: --seed: belongs before --"]),
    (["--", "-"], 2, ["ablate: -: standard input cannot feed several runs"]),
    (["--batch-size,max-iters=1:24,4"], 2,
     ["ablate: --batch-size,max-iters: '4' needs 2 values separated by colons, one for each name\n"]),
    (["--batch-size,max-iters=1:2:3"], 2, ["'1:2:3' needs 2 values"]),
    (["--batch-size,max-iters="], 2, ["ablate: --batch-size,max-iters: needs values ("]),
    (["--batch-size,max-iters=1:2,1:2"], 2, ["'1:2' is given twice"]),
    (["--norm="], 2, ["ablate: --norm: needs values ("]),
    (["--max-iters,max-iters=1:2"], 2, ["'max-iters' is given twice"]),
    (["--max-iters,seed=1:2"], 2, ["ablate: --max-iters,seed: --seed cannot vary together with others\n"]),
    (["--max-iters=1", "--batch-size,max-iters=1:2"], 2,
     ["ablate: --max-iters: is in two lists, --max-iters and --batch-size,max-iters\n"]),
    (["--batch-size,=1:2"], 2, ["ablate: --batch-size,=1:2: no such option"]),
    (["--learning-rate=1e-3,1e-2", "--", "--lr=5e-3"], 2, ["ablate: --learning-rate: is in the grid and "]),
    (["--batch-size,max-iters=1:2", "--", "--max-iters=3"], 2, ["ablate: --max-iters: is in the grid and "])])
def test_what_is_refused_starts_nothing(ablate, words, status, complaints):
    ending = ablate("--out=a", *(["--seeds=1"] if RUN[0] in words else []), *words, status=status)
    assert all(complaint in ending.err for complaint in complaints), ending.err
    assert not ending.out and not Path("a").exists()


def test_a_folder_holds_one_grid_and_can_be_extended(ablate):
    ablate.count()
    ln = ("--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--")
    ablate(*ln, *RUN)
    ending = ablate(*ln, "--bias=off", *RUN, status=2)
    assert "ablate: a: already contains another grid: --norm --placement -- --n-layer=1 " in ending.err
    ablate("--norm=rms,ln", "--placement=pre", "--seeds=2", "--out=a", "--", *RUN)
    assert len(lines("begun")) == 4, "some run was not done once"
    assert len(lines("a/grid.txt")) == 4 and lines("a/grid.txt")[0].startswith("ln-pre-s1 --norm=ln ")


def test_a_slurm_task_does_its_line(ablate):
    ablate.count()
    ablate("--list", "--norm=ln", "--placement=pre,post", "--seeds=2", "--out=a", "--", *RUN)
    Path("scripts").symlink_to(SCRIPTS)
    for number in ("3", "3", "5"):  # the second time as if requeued after its end
        ablate.env["SLURM_ARRAY_TASK_ID"] = number
        ending = ablate("a", script="ablate.slurm", status=2 if number == "5" else 0)
        assert reason("ln-pre-s2") == "done" and len(os.listdir("a/runs")) == len(lines("begun")) == 1
    assert "ablate: a/grid.txt: has no line '5'" in ending.err


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
