"""Shared by the Python tests: the program, the scripts, ways to run them and to compare runs; a run to read; ablations whose
runs are counted, and held until the test releases them, without clocks."""
import csv
import functools
import importlib
import json
import os
import re
import resource
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

import forked

ROOT = Path(__file__).resolve().parents[1]
TRAIN = Path(os.environ.get("TRAIN", ROOT / "train")).resolve()
SCRIPTS = Path(os.environ.get("SCRIPTS", ROOT / "scripts")).resolve()
sys.path.insert(0, str(SCRIPTS))  # for tests of modules

pytest.register_assert_rewrite("pages")

# A very short run of a very small model. If an option is given twice, the last one counts.
TINY = ("--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --sample=0 "
        "--log-interval=1 --eval-interval=250 --warmup-iters=0").split()

# One in which everything has state: dropout, accumulation, running statistics and the end of their warm-up, a schedule, log
# rows and evaluations at other steps than checkpoints. And with all that a run can measure and keep.
LIVELY = [*TINY, *("--quiet --dropout=0.2 --grad-accum=2 --warmup-iters=3 --lr-decay-iters=12 --learning-rate=0.01 "
                   "--eval-interval=4 --eval-iters=3 --log-interval=2 --sample=20 --pn-warmup=5 --prepbn-steps=20").split()]
WATCHED = [*LIVELY, "--probe-interval=3", "--keep-best", "--sample-interval=3", "--eval-train"]

OK, MACHINE, USAGE, DIVERGED = 0, 1, 2, 3  # exit statuses of ./train


def pytest_configure(config):
    config.addinivalue_line("markers", "sweep: takes long and runs in `make check-all` only")
    config.addinivalue_line("markers", "sampled: has more cases in `make check-all`")


def pytest_collection_modifyitems(items):
    """PASSED names a log of pytest whose passed tests need not run again, except for those that have more cases now."""
    left_out = [] if "SWEEP" in os.environ else ["sweep"]
    log = Path(os.environ["PASSED"]).read_text(errors="replace") if "PASSED" in os.environ else ""
    passed = set(re.findall(r"\bPASSED (\S+::.*\S)", log))
    items[:] = [item for item in items if not any(map(item.get_closest_marker, left_out))
                and (item.nodeid not in passed or "SWEEP" in os.environ and item.get_closest_marker("sampled"))]


@functools.cache
def installers():
    """What installs a module or a command, by what scripts/deps.sh looks for, such as python:torch."""
    table = subprocess.run([SCRIPTS / "deps.sh", "--list"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return {probe: f"scripts/deps.sh {groups.partition(',')[0]}" for _, groups, probe in rows} | {
        "python:tomllib": "Python 3.11 has it", "python:transformers": "scripts/guides/pytorch.md says how to install it"}


def needs(*names):
    """Imports modules of Python and returns the last one. If one is missing, the test is skipped, or the file that calls
    this at its head, and the reason says what installs it."""
    __tracebackhide__ = True  # the skip is that of the caller
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError:
            pytest.skip(f"no {name} ({installers()[f'python:{name}']})", allow_module_level=True)
    return module


def ending(process, out=b"", err=b""):
    """How it ended: its exit status (128 + the number of the signal that killed it) and what it printed."""
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return SimpleNamespace(status=status, out=out.decode(errors="surrogateescape"), err=err.decode(errors="surrogateescape"))


def command(*words, cwd, env=None, input=None, **how):
    """Runs a command: ./train as "train", a script of scripts/ by its name, or any program. It reads the
    text `input`, and is killed if it takes twenty minutes. Returns its exit status and what it printed.
    A PYTHONPATH in env goes before the one that there is. `how` is for subprocess.Popen()."""
    first, *rest = map(str, words)
    own = {"train": TRAIN}.get(first, SCRIPTS / first)
    given, env = env or {}, {**os.environ, "TRAIN": str(TRAIN), **(env or {})}
    if "PYTHONPATH" in given:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (env["PYTHONPATH"], os.environ.get("PYTHONPATH"))))
    elif first.endswith(".py") and own.exists():
        return forked.run([str(own), *rest], cwd, env, input or "")
    with subprocess.Popen([str(own) if own.exists() else first, *rest], cwd=cwd, env=env,
                          **{name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")} | how) as process:
        try:
            return ending(process, *map(bytes, process.communicate((input or "").encode(errors="surrogateescape"), 1200)))
        finally:
            process.kill()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """command() in a folder of the test's own, in which the test works too."""
    monkeypatch.chdir(tmp_path)
    return lambda *words, **how: command(*words, **{"cwd": tmp_path, **how})


# ---- ./train: what it prints and refuses ----

def split(words):
    """Each text is split at blanks; what a list holds are words as they are."""
    return [word for part in words for word in (part.split() if isinstance(part, str) else part)]


def train_here(*words, **how):
    """./train in this folder, whose words are split(). `how` is command()'s."""
    return command("train", *split(words), **{"cwd": ".", **how})


@pytest.fixture
def text(run, tmp_path, monkeypatch):
    """The test's folder, in which it works, with a text of 2000 characters, text.txt, and 100 items, items.txt."""
    monkeypatch.setenv("TRAIN", str(TRAIN))
    put_text("text.txt", 2000)
    put_items("items.txt", 100)
    return tmp_path


@pytest.fixture
def train(text):
    """train_here() in the folder of `text`."""
    return train_here


@pytest.fixture
def done(train):
    """Runs ./train, which must succeed; returns its ending. A run with --quiet must say nothing on standard error."""
    def run_it(*words, **how):
        ended = train(*words, **how)
        assert ended.status == OK and not ("--quiet" in split(words) and ended.err), ended
        return ended
    return run_it


@pytest.fixture
def out(done):
    """What a run prints that succeeds without a word on standard error."""
    def printed(*words, **how):
        ended = done(*words, **how)
        assert ended.err == "", ended
        return ended.out
    return printed


def refusal(ended, status, part):
    """The one line "train: ..." on standard error, which contains the part; nothing is on standard output."""
    assert (ended.status, ended.out) == (status, "") and ended.err.startswith("train: "), ended
    assert ended.err.count("\n") == 1 and ended.err.endswith("\n") and part in ended.err, ended
    return ended.err


@pytest.fixture
def refused(train):
    """Runs ./train, which must refuse as refusal() says."""
    return lambda status, part, *words, **how: refusal(train(*words, **how), status, part)


def full_disk(limit):
    """A disk on which a write beyond this many bytes of a file fails, for command()."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}


# ---- ./train: what runs leave ----

def log_of(folder):
    """The rows of log.csv, as texts by their columns."""
    with open(Path(folder, "log.csv"), encoding="ascii", newline="") as file:
        table = list(csv.reader(file))
    assert table and len(set(map(len, table))) == 1 and all(map(len, table)), "not a whole table"
    return [dict(zip(table[0], row)) for row in table[1:]]


def summary_of(folder):
    return json.loads(Path(folder, "summary.json").read_text())


def loss_in(printed):
    """The loss that --evaluate printed."""
    return float(re.match(r"loss: (\S+) nats per character\n", printed)[1])


def arrays_of(path):
    """The arrays of a safetensors file by their names."""
    from pytorch import model_file  # of SCRIPTS
    return model_file.read_plain(path)[1]


def put_arrays(path, arrays, texts=()):
    """Writes numpy arrays (numbers of 64 bits stay such) and texts to a safetensors file, with checksums as a run's."""
    kinds, data = {"float32": "F32", "float64": "F64", "int64": "I64"}, b"".join(array.tobytes() for array in arrays.values())
    sums = {"header_crc32": "0" * 8, "data_crc32": f"{zlib.crc32(data):08x}"}
    header, at = {"__metadata__": sums | {name: text for name, text in dict(texts).items() if name not in sums}}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    head = head.replace(b"0" * 8, b"%08x" % zlib.crc32(head), 1)
    Path(path).write_bytes(len(head).to_bytes(8, "little") + head + data)


def same_arrays(one, other):
    """Two safetensors files hold the same arrays to the bit. Their texts may differ."""
    a, b = arrays_of(one), arrays_of(other)
    assert a and a.keys() == b.keys()
    assert not [name for name in a if a[name].shape != b[name].shape or a[name].tobytes() != b[name].tobytes()]


def same_log(one, other):
    """Two logs are the same, except for times and for a column that only one has."""
    a, b = log_of(one), log_of(other)
    columns = a[0].keys() & b[0].keys() - {"seconds", "tokens_per_second"}
    assert len(a) > 1 and len(a) == len(b)
    for row, same in zip(a, b):
        assert {column: row[column] for column in columns} == {column: same[column] for column in columns}


def same_folder(one, other):
    """Two runs' folders hold the same files to the last bit, except for times: of the log, of its checksum and of the summary."""
    names = sorted(os.listdir(one))
    assert names == sorted(os.listdir(other))
    assert not [name for name in names if name not in ("log.csv", "log.crc32", "summary.json")
                and Path(one, name).read_bytes() != Path(other, name).read_bytes()]
    same_log(one, other)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The folder of a finished run, to read only; text.txt beside it is its corpus."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 50)
    ended = command("train", *TINY, "--out=run", "--quiet", "text.txt", cwd=folder)
    assert ended.status == 0, ended.err
    return folder / "run"


@pytest.fixture
def draw(run):
    """Runs plot.py, which must succeed without a word on standard error; returns the table's lines and the SVG's text."""
    def drawn(*words, picture="a.svg"):
        ending = run("plot.py", *words, "-o", picture, "--table=a.csv")
        assert (ending.status, ending.err, ending.out) == (0, "", f"{picture}\n"), ending
        return Path("a.csv").read_text().splitlines(), Path(picture).read_text()
    return drawn


# ---- ablations ----

RUN = (*TINY, "text.txt")
EACH = [word for word in TINY if not word.startswith(("--batch-size", "--log-interval", "--eval-interval"))]

# Records every run of the grid in `begun` (name, process, and whether by --out or --resume) and waits for a file `go`.
# Trials, whose folders are elsewhere, are not held, but recorded in `tried`.
HELD = f"""#!/bin/bash
all=$*
case $all in *=a/runs/*)
    name=${{all#*=a/runs/}} how=${{all%%=a/runs/*}}
    echo "${{name%% *}} $$ ${{how##* }}" >>begun
    for ((i = 0; i < 600; i++)); do [ ! -e go ] || break; sleep 0.05; done ;;
*--config=* | *--help=* | --show-options=json) ;;
*) echo "$4 $5" >>tried ;;
esac
exec '{TRAIN}' "$@"
"""


class Ablation:
    """scripts/ablate.sh in the test's folder, which has text.txt."""
    def __init__(self, monkeypatch):
        self.monkeypatch, self.env = monkeypatch, {"TRAIN": str(TRAIN)}
        put_text("text.txt", 2000)

    def put(self, name, text):
        """An executable program in the folder; one of bin/ is found before all others."""
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        if name.startswith("bin/"):
            self.monkeypatch.setenv("PATH", str(path.parent.resolve()), prepend=":")

    def hide_gnu_parallel(self):
        """Behind a program like that of Debian's moreutils."""
        self.put("bin/parallel", "#!/bin/sh\necho \"parallel: invalid option -- '-'\" >&2\nexit 1\n")

    def hold(self):
        """From here on runs are counted, and held until release()."""
        self.put("held", HELD)
        self.env["TRAIN"] = str(Path("held").resolve())

    def release(self):
        Path("go").touch()

    def count(self):
        """From here on runs and trials are counted."""
        self.release()
        self.hold()

    def __call__(self, *words, status=0, script="ablate.sh"):
        """Runs the script, which must end with this status."""
        ending = command("bash", SCRIPTS / script, *words, cwd=".", env=self.env)
        assert ending.status == status, f"{ending.out}{ending.err}"
        return ending

    def start(self, *words):
        with open("out", "w", encoding="utf-8") as out, open("err", "w", encoding="utf-8") as err:
            return subprocess.Popen([str(SCRIPTS / "ablate.sh"), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env={**os.environ, **self.env})

    def end(self, process, status, number=0):
        """Waits for the end of a script, after sending it a signal if there is a number."""
        if number:
            process.send_signal(number)
        assert process.wait(300) == status, Path("err").read_text()
        return SimpleNamespace(out=Path("out").read_text(), err=Path("err").read_text())


def put_text(name, characters):
    line = "the cat sees a dog, and the dog sees the cat.\n"
    Path(name).write_text((line * (characters // len(line) + 1))[:characters])


def put_items(name, items):
    """Lines of 1 to 6 letters."""
    Path(name).write_text("".join("".join("abcdefgh"[(i + k * (i // 8 + 1)) % 8] for k in range(i * 7 % 6 + 1)) + "\n"
                                  for i in range(items)))


def lines(name):
    return Path(name).read_text().splitlines() if Path(name).exists() else []


def wait_until(holds):
    for _ in range(30000):  # ten minutes, for machines that do much else
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("never came to be")


def reason(run):
    """Why a run of the folder a/ ended."""
    text = Path(f"a/runs/{run}/summary.json").read_text()
    return text.split('"exit_reason": "')[1].split('"')[0]


@pytest.fixture
def ablate(tmp_path, monkeypatch):
    """An Ablation: scripts/ablate.sh, whose runs a test can count and hold."""
    monkeypatch.chdir(tmp_path)
    return Ablation(monkeypatch)


# ---- studies ----

SMALL = ("--n-layer=1 --n-head=1 --n-embd=8 --block-size=8 --batch-size=4 --max-iters=30 --warmup-iters=3 "
         "text.txt").split()


def ended_runs():
    return {path.parent.name: path for path in Path("out/runs").glob("*/summary.json")}
