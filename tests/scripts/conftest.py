"""Shared by the Python tests: the program, the scripts, a way to run them, and a run to read; folders of runs that are
written by hand; pages; ablations whose runs are counted, and held until the test releases them, without clocks."""
import functools
import html.parser
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
import warnings
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


def command(*words, cwd, env=None, input=None):
    """Runs a command: ./train as "train", a script of scripts/ by its name, or any program. It reads the
    text `input`, and is killed if it takes twenty minutes. Returns its exit status and what it printed.
    A PYTHONPATH in env goes before the one that there is."""
    first, *rest = map(str, words)
    own = {"train": TRAIN}.get(first, SCRIPTS / first)
    given, env = env or {}, {**os.environ, "TRAIN": str(TRAIN), **(env or {})}
    if "PYTHONPATH" in given:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (env["PYTHONPATH"], os.environ.get("PYTHONPATH"))))
    elif first.endswith(".py") and own.exists():
        return forked.run([str(own), *rest], cwd, env, input or "")
    ended = subprocess.run([str(own) if own.exists() else first, *rest], cwd=cwd, input=input or "", text=True, errors="surrogateescape",
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
def draw(run):
    """Runs plot.py, which must succeed without a word on standard error; returns the table's lines and the SVG's text."""
    def drawn(*words, picture="a.svg"):
        ending = run("plot.py", *words, "-o", picture, "--table=a.csv")
        assert (ending.status, ending.err, ending.out) == (0, "", f"{picture}\n"), ending
        return Path("a.csv").read_text().splitlines(), Path(picture).read_text()
    return drawn


# ---- runs written by hand ----

HEADER = "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n"


def put_log(folder, rows):
    """log.csv with rows of (step, training loss, validation loss), where None is an empty cell."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cells = ["" if value is None else f"{value:.9g}" for row in rows for value in row[1:]]
    text = "".join(f"{step},{step / 10:g},{step * 96},0.01,{train},{val},1,960\n"
                   for (step, *_), train, val in zip(rows, cells[::2], cells[1::2]))
    (folder / "log.csv").write_text(HEADER + text)


def put_summary(folder, reason, loss, seed, inactive=(), auto=(), **options):
    """summary.json of a run on the built-in grammar, stuck from a loss of 3.95 on. inactive, auto: options without an effect,
    and those that have the value of "auto"."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    options = {name.replace("_", "-"): value for name, value in options.items()}
    known = {"grammar_entropy": 0.527, "unigram_entropy": 4, "stuck": loss is not None and loss >= 3.95}
    (folder / "summary.json").write_text(json.dumps({
        "exit_reason": reason, **known, "val_loss": loss, "best_val_loss": loss, "seconds": 2,
        "inactive": list(inactive), "auto": list(auto), "options": {"corpus": None, **options, "seed": seed, "sample": seed * 10}}) + "\n")


def put_run(folder, loss, seed=1, reason="done", **options):
    """A run that has ended: validation losses 4 at step 0 and `loss` at step 10. Its options are in Python's
    spelling: norm="ln", learning_rate=0.01; `inactive` and `auto` are those of put_summary()."""
    put_log(folder, [(0, 4, 4), (5, 3, None), (10, None, loss)])
    put_summary(folder, reason, loss, seed, **{"norm": "ln", **options})


# ---- pages ----

class Page(html.parser.HTMLParser):
    """A page that is well formed, whose links resolve, and that loads nothing: its ids, addresses and curves."""
    EMPTY = {"meta", "link", "br", "hr", "img", "input"}
    UNCLOSED = {"td", "th", "tr"}  # what the next one or the table's end closes

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.curves = [], [], [], []
        self.feed(text)
        assert not self.open and "@import" not in text
        assert len(set(self.ids)) == len(self.ids), "an id is given twice"
        assert not [address for address in self.addresses
                    if not address.startswith("data:") and (address[:1] != "#" or address[1:] not in self.ids)]

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in self.EMPTY else []
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        for name, text in attrs:
            self.ids += [text] if name == "id" else []
            self.curves += [json.loads(text)] if name == "data-curves" else []
            self.addresses += [text] if name in ("href", "xlink:href", "src", "data", "action") else []
            self.addresses += re.findall(r"url\((.*?)\)", text or "")

    def handle_endtag(self, tag):
        while self.open[-1] != tag and self.open[-1] in self.UNCLOSED:
            self.open.pop()
        assert self.open.pop() == tag, f"</{tag}> closes nothing"


# ---- pictures ----

def texts_of(figure):
    """The texts that are drawn: ticks, labels, titles, notes and the legend."""
    found = [text for legend in figure.legends for text in (legend.get_title(), *legend.get_texts())]
    for axes in filter(lambda axes: axes.get_visible(), figure.axes):
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label, axes.xaxis.get_offset_text(), axes.yaxis.get_offset_text()]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text().strip() and text.get_visible()]


def expect_fit(draw):
    """Draws a figure: without a warning, and no text is cut or covers another one by more than a point. Returns it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw()
        figure.canvas.draw()
    point = figure.dpi / 72
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    assert len(boxes) > 3
    for text, box in boxes:
        assert box.x0 >= -point and box.y0 >= -point and box.x1 <= figure.bbox.x1 + point and box.y1 <= figure.bbox.y1 + point, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert min(a.x1, b.x1) - max(a.x0, b.x0) < point or min(a.y1, b.y1) - max(a.y0, b.y0) < point, (one, other)
    return figure


# ---- ablations ----

RUN = (*TINY, "--eval-interval=250", "text.txt")
EACH = [word for word in TINY if not word.startswith(("--batch-size", "--log-interval"))]

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


def lines(name):
    return Path(name).read_text().splitlines() if Path(name).exists() else []


def wait_until(holds):
    for _ in range(1500):
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


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAIN", str(TRAIN))
    (tmp_path / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 40)


def ended_runs():
    return {path.parent.name: path for path in Path("out/runs").glob("*/summary.json")}
