"""scripts/ablate.sh: what its grid and its announcement are; lists whose options vary together; what a trial of its
variants costs."""
from pathlib import Path

import pytest

from ablation import lines

SMALL = ("--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--max-iters=2", "--eval-iters=1", "--sample=0")


@pytest.fixture
def dry_run(run, tmp_path):
    """The announcement of ablate.sh --dry-run with these words before and after --."""
    (tmp_path / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)

    def announced(before, after=()):
        ending = run("ablate.sh", "--dry-run", "--seeds=1", "--out=a", *before, "--", *SMALL, *after, "text.txt")
        assert ending.status == 0, ending.err
        return ending.out
    return announced


@pytest.mark.parametrize("words, grid", [
    ([], "6 runs: norm ln bn rms x placement pre post x seed 1\n"),
    (["--norm=ln,bn"], "2 runs: norm ln bn x placement pre x seed 1\n"),
    (["--placement=pre,post"], "2 runs: placement pre post x norm ln x seed 1\n"),
    (["--dropout=0,0.1"], "2 runs: dropout 0 0.1 x norm ln x placement pre x seed 1\n")])
def test_what_is_not_in_the_grid_is_trains_default(dry_run, words, grid):
    out = dry_run(words)
    assert sorted(out.split("\n")[0].split(": ", 2)[2].split(" x ")) == sorted(grid[:-1].split(": ")[1].split(" x "))
    assert out.split()[1] == grid.split()[0]


@pytest.mark.parametrize("after, threads", [([], "2 threads"), (["--threads=1"], "1 thread"),
                                            (["--threads=3"], "3 threads")])
def test_the_threads_that_are_announced_are_those_that_run(dry_run, tmp_path, monkeypatch, after, threads):
    (tmp_path / "nproc").write_text("#!/bin/sh\necho 2\n")
    (tmp_path / "nproc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert f"1 side by side with {threads} each" in dry_run(["--jobs=1"], after)


# ---- lists whose options vary together, and other names of values ----

EACH = (*SMALL, "--warmup-iters=0", "text.txt")
WITHOUT_STEPS = tuple(word for word in EACH if not word.startswith("--max-iters"))
TIED = ("--norm=ln", "--placement=pre", "--batch-size,max-iters=1:24,4:6", "--out=a", "--seeds=1")
EXPECTED = {
    "2 runs: norm ln x placement pre x batch-size,max-iters 1:24 4:6 x seed 1": (TIED, [
        "ln-pre-batch-size=1-max-iters=24-s1 --norm=ln --placement=pre --batch-size=1 --max-iters=24 --seed=1",
        "ln-pre-batch-size=4-max-iters=6-s1 --norm=ln --placement=pre --batch-size=4 --max-iters=6 --seed=1"]),
    "4 runs: placement,act,norm pre:gelu:ln post:relu:bn x seed 1 2": (
        ("--placement,act,norm=pre:gelu:ln,post:relu:bn", "--seeds=2", "--out=a"), [
            f"{norm}-{place}-act={act}-s{seed} --norm={norm} --placement={place} --act={act} --seed={seed}"
            for seed in (1, 2) for norm, place, act in (("ln", "pre", "gelu"), ("bn", "post", "relu"))]),
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
        ["bn-post-s1 --norm=bn --placement=post --seed=1", "dyt-pre-s1 --norm=dyt --placement=pre --seed=1"]),
    "2 runs: norm ln x placement pre x placement-attn post auto x seed 1": (
        ("--norm=ln", "--placement=pre", "--placement-attn=postln,auto", "--seeds=1", "--out=a"),
        [f"ln-pre-placement-attn={place}-s1 --norm=ln --placement=pre --placement-attn={place} --seed=1"
         for place in ("post", "auto")])}


@pytest.mark.parametrize("grid", EXPECTED)
def test_lists_and_names(ablate, grid):
    words, expected = EXPECTED[grid]
    small = [word for word in EACH if not any(word.split("=")[0] + "=" in line for line in expected)]
    ending = ablate(*words, "--list", "--", *small)
    assert grid in ending.out
    assert lines("a/grid.txt") == [f"{line} {' '.join(small)}" for line in expected]


def test_results_have_a_column_for_each_tied_option(ablate):
    assert "| batch-size | max-iters | median " in ablate(*TIED, "--", *WITHOUT_STEPS).out
    results = Path("a/results.csv").read_text()
    assert results.startswith("run,batch-size,max-iters,seed,")
    assert "\nln-pre-batch-size=1-max-iters=24-s1,1,24,1,0,done,24," in results
    assert "\nln-pre-batch-size=4-max-iters=6-s1,4,6,1,0,done,6," in results


@pytest.mark.parametrize("first, second, runs", [
    (TIED, ("--norm=ln", "--placement=pre", "--batch-size=1,4", "--max-iters=6,24", "--out=a", "--seeds=1"), 4),
    (("--norm=layernorm", "--placement=preln,peri", "--qk-norm=rmsnorm,off", "--out=a", "--seeds=1"),
     ("--norm=ln", "--placement=pre,peri", "--qk-norm=off,rms", "--out=a", "--seeds=1"), 4)])
def test_the_same_grid_in_other_words_continues_a_folder(ablate, first, second, runs):
    ablate(*first, "--list", "--", *WITHOUT_STEPS)
    assert f"a/grid.txt, {runs} runs\n" in ablate(*second, "--list", "--", *WITHOUT_STEPS).out


# ---- trials, which are counted ----

GRID = ("--norm=ln,rms", "--placement=pre", "--out=a")
FOUR = ("--", "--max-iters=4", *WITHOUT_STEPS)


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
    for name, reason, seconds in (("ln-pre-s1", "done", "7000,\n  \"a\": 0"), ("ln-pre-s2", "done", "7400.5"),
                                  ("rms-pre-s1", "done", "7200"), ("rms-pre-s2", "diverged", "60")):
        run = Path("a/runs", name)
        run.mkdir()
        (run / "summary.json").write_text(f'{{\n  "exit_reason": "{reason}",\n  "seconds": {seconds}\n}}\n')
    ending = ablate(*GRID, "--seeds=5", "--jobs=2", "--dry-run", *FOUR)
    assert "10 runs: norm ln rms x placement pre x seed 1 2 3 4 5; 4 have ended, 6 to do" in ending.out
    assert "expected: 2 h 00 min a run, 6 h 00 min in all, 2 side by side" in ending.out
    assert "expected: 2 h 00 min a run, " in ablate(*GRID, "--seeds=9", "--jobs=2", "--dry-run", *FOUR).out
    assert len(lines("tried")) == 2
