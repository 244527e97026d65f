"""scripts/ablate.sh: what its grid and its announcement are. Nothing is run."""
import pytest

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
