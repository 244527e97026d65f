"""Scripts that reproduce a paper's figure: what they draw follows from the given options, and what cannot be drawn is
refused before anything is trained."""
import csv

import pytest

SMALL = "--seeds=1 --n-embd=8 --n-head=2 --block-size=8 --batch-size=2 --eval-iters=1".split()


@pytest.fixture(autouse=True)
def text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)


@pytest.fixture
def drawn_steps(run, tmp_path):
    """The steps that xiong.sh draws with these options, for three layers each."""
    def steps(*options):
        ending = run("xiong.sh", "--out=x", *options, *SMALL, "text.txt")
        assert ending.status == 0, ending.err
        assert (tmp_path / "x/xiong.png").read_bytes().startswith(b"\x89PNG")
        with open(tmp_path / "x/xiong.csv", encoding="utf-8") as file:
            names = [row[2].rpartition(" ") for row in csv.reader(file) if row[1] == "pre, n-layer 3"]
        found = [int(step) for name, _, step in names if name == "grad_norm mlp.c_proj.weight step"]
        assert all(found.count(step) == 3 for step in found)
        return sorted(set(found))
    return steps


def test_steps_follow_from_the_warm_up(drawn_steps, tmp_path):
    options = "--max-iters=61", "--warmup-iters=20"
    assert drawn_steps(*options) == [0, 10, 60]
    probes = tmp_path / "x/runs/ln-post-n-layer=6-s1/probes.csv"  # of a run that diverged and ended earlier
    lines = probes.read_text().splitlines(keepends=True)
    probes.write_text("".join(line for line in lines if not line.startswith("60,")))
    assert drawn_steps(*options) == [0, 10, 50]


@pytest.mark.parametrize("options, steps", [
    (["--max-iters=20", "--warmup-iters=20", "--probe-interval=4"], [0, 8, 16]),
    (["--max-iters=8", "--warmup-iters=0"], [0, 7])])
def test_steps_are_those_that_were_probed(drawn_steps, options, steps):
    assert drawn_steps(*options) == steps


NO_LENGTH = "the picture's steps follow from the number of updates (--max-iters=N)\n"
NO_PROBES = "--probe-interval: must be 1 or more, since the picture shows what was probed\n"


@pytest.mark.parametrize("name, option, why", [
    ("xiong", "--max-iters=50",
     "--max-iters=50: must be above 50, half of the warm-up, at which the picture shows the gradients\n"),
    ("xiong", "--max-tokens=500", f"--max-tokens=500: {NO_LENGTH}"),
    ("powernorm", "--max-iters=auto", f"--max-iters=auto: {NO_LENGTH}"),
    ("xiong", "--probe-interval=0", NO_PROBES), ("powernorm", "--probe-interval=0", NO_PROBES)])
def test_nothing_is_trained_for_no_picture(run, tmp_path, name, option, why):
    ending = run(f"{name}.sh", option, "--out=x", "text.txt")
    assert (ending.status, ending.err) == (2, f"{name}: {why}")
    assert not (tmp_path / "x").exists()


def test_powernorm_writes_into_its_own_folder_only(run, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/mine").write_text("mine\n")
    ending = run("powernorm.sh", "--out=x", *SMALL, "text.txt")
    assert (ending.status, ending.err) == (2, "powernorm: x: is not an ablation's folder (another --out)\n")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine"]
