"""Shared by the Python tests: the program, the scripts, a way to run them, and a run to read."""
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import forked

ROOT = Path(__file__).resolve().parents[2]
TRAIN = Path(os.environ.get("TRAIN", ROOT / "train")).resolve()
SCRIPTS = Path(os.environ.get("SCRIPTS", ROOT / "scripts")).resolve()
sys.path.insert(0, str(SCRIPTS))  # for tests of modules

# A very short run of a very small model. If an option is given twice, the last one counts.
TINY = ("--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --sample=0 "
        "--log-interval=1 --warmup-iters=0").split()


def pytest_configure(config):
    config.addinivalue_line("markers", "sweep: takes long and runs in `make check-all` only")


def pytest_collection_modifyitems(items):
    if "SWEEP" not in os.environ:
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]


@pytest.fixture(scope="session")
def train():
    """The path of ./train."""
    return TRAIN


@pytest.fixture(scope="session")
def scripts():
    """The path of scripts/."""
    return SCRIPTS


def command(*words, cwd, env=None, input=None):
    """Runs a command: ./train as "train", a script of scripts/ by its name, or any program. It reads the
    text `input`, and is killed if it takes twenty minutes. Returns its exit status and what it printed."""
    first, *rest = map(str, words)
    own = {"train": TRAIN}.get(first, SCRIPTS / first)
    env = {**os.environ, "TRAIN": str(TRAIN), **(env or {})}
    if first.endswith(".py") and own.exists() and "PYTHONPATH" not in env:
        return forked.run([str(own), *rest], cwd, env, input or "")
    ended = subprocess.run([str(own) if own.exists() else first, *rest], cwd=cwd, input=input or "", text=True,
                           env=env, capture_output=True, timeout=1200, check=False)
    return SimpleNamespace(status=ended.returncode, out=ended.stdout, err=ended.stderr)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """command() in a folder of the test's own, in which the test works too."""
    monkeypatch.chdir(tmp_path)
    return lambda *words, **how: command(*words, **{"cwd": tmp_path, **how})


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The folder of a finished run, to read only; text.txt beside it is its corpus."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)
    ended = command("train", *TINY, "--out=run", "--quiet", "text.txt", cwd=folder)
    assert ended.status == 0, ended.err
    return folder / "run"


@pytest.fixture
def ablate(tmp_path, monkeypatch):
    """An Ablation: scripts/ablate.sh, whose runs a test can count and hold."""
    from ablation import Ablation
    monkeypatch.chdir(tmp_path)
    return Ablation(monkeypatch)


@pytest.fixture
def draw(run):
    """Runs plot.py, which must succeed without a word on standard error; returns the table's lines and the SVG's text."""
    def drawn(*words, picture="a.svg"):
        ending = run("plot.py", *words, "-o", picture, "--table=a.csv")
        assert (ending.status, ending.err, ending.out) == (0, "", f"{picture}\n"), ending
        return Path("a.csv").read_text().splitlines(), Path(picture).read_text()
    return drawn
