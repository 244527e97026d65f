"""Every option that is stored with a run changes the run's files, or is named here as one that must not change them; and what
must have no effect: evaluations, micro-batches, closed streams."""
from pathlib import Path
import re
import tempfile

import pytest

from conftest import SCRIPTS, TINY, log_of, summary_of, train_here
from models import options
from pytorch.options import MODEL, PARENTS, parse

# A run in which every option has an effect.
BUSY = TINY + ("--quiet --force --norm=bn --dropout=0.1 --max-iters=6 --warmup-iters=2 --grad-accum=2 --eval-interval=2 "
               "--eval-iters=2 --sample=30 --grad-clip=0.5 --learning-rate=0.02").split()

# Options that must change nothing, and those that other tests give a longer run.
INERT = ("level max-tokens max-seconds micro-batch-tokens eval-train probe-interval sample-interval checkpoint-interval "
         "keep-best local-stats").split()

# What some options need beside what their conditions say.
BESIDE = {
    "pad-to": "--norm=bn --pad-stats=include", "qk-norm-over": "--v-norm=rms", "mix-fraction": "--n-layer=2",
    "batch-parts": "--batch-size=64 --block-size=16", "decay-shape": "--decay-fraction=1",
    "brn-r-max": "--brn-warmup=0 --brn-relax=0", "brn-d-max": "--brn-warmup=0 --brn-relax=0", "brn-relax": "--brn-warmup=1",
    "pn-alpha-bkw": "--pn-warmup=2", "pn-group-scaling": "--pn-warmup=2", "pn-divisor": "--pn-warmup=2"}


def traces(*words, folder="out"):
    """What a run with these options leaves, except for its times; None if the options are refused."""
    if train_here(BUSY, f"--out={folder}", *words).status:
        return None
    untimed = [{name: cell for name, cell in row.items() if name not in ("seconds", "tokens_per_second")} for row in log_of(folder)]
    sample = Path(folder, "sample.txt")
    return untimed, sample.exists() and sample.read_bytes()


def needed(option):
    """Options with which this one has an effect: of a condition such as "only with --norm=gn|ts", the first value."""
    conditions = option.get("needs", [])
    first = [match[1] for match in (re.fullmatch(r"only with (--[^ |]*)(\|\S*)?", text) for text in conditions) if match]
    corpus = [] if {"not with --corpus", "only with --corpus=random"} & set(conditions) else [
        "items.txt" if "only with --items" in conditions else "text.txt"]
    return [*first, *BESIDE.get(option["name"], "").split(), *corpus]


def stored():
    """The names of the options that are stored with a run."""
    with tempfile.TemporaryDirectory() as folder:
        train_here(TINY, "--max-iters=0 --quiet --grammar-chars=200 --out=out", cwd=folder)
        return [name for name in options() if f"\n{name} = " in "\n" + Path(folder, "out/config.ini").read_text()]


TRIED = {"choice": None, "switch": ("on", "off"), **dict.fromkeys(("integer", "real"), "2 0.5 1 0.1 3 0 9 100 3000".split())}


@pytest.mark.parametrize("name", [name for name in stored() if options()[name]["kind"] in TRIED and name not in INERT])
def test_an_option_acts(text, name):
    others = needed(options()[name])
    usual = traces(*others)
    assert usual, f"{others} is refused"
    assert any(changed not in (None, usual) for changed in (
        traces(*others, f"--{name}={value}") for value in TRIED[options()[name]["kind"]] or options()[name]["values"])), (
            f"--{name} changes nothing beside {others} (name what else it needs in BESIDE, or the option in INERT)")


@pytest.mark.parametrize("words", ["--threads=3 --preln --profile", "--probe-interval=2", "--sample-interval=2"])
def test_what_only_observes_changes_nothing(text, words):
    assert traces("text.txt") == traces(words, "text.txt")


def test_profile_says_where_the_time_went(done):
    for words in ([TINY, "--quiet --profile --out=out text.txt"], ["--quiet --profile --resume=out --max-iters=9"]):
        table = done(*words).out
        profile = summary_of("out")["profile"]
        total = profile.pop("all")
        assert total > 0 and sum(profile.values()) == pytest.approx(total, rel=1e-6)
        assert len(profile) > 8 and [part for part, seconds in profile.items() if seconds > 0 and f"\n{part} " not in table] == []
        assert table.startswith("operation ") and "\nlinear, weight gradient " in table
        assert f"all                      {total:10.4f}\n" in table
    assert done("--quiet --profile --resume=out").out == "", "no time, no table"
    assert "profile" not in summary_of("out"), "no update, no profile"
    assert done(TINY, "--quiet --out=usual text.txt").out == "", "not asked for"
    assert "profile" not in summary_of("usual"), "not asked for"


def cells(folder, column):
    """The column's cells by step, as far as they are filled."""
    return {int(row["step"]): row[column] for row in log_of(folder) if row[column]}


def test_python_knows_every_option_of_a_model():
    """A model of PyTorch computes it, and --to-hf refuses it where a class of transformers has no such thing."""
    texts = {name: row["default"] for name, row in options().items() if "of_model" in row and row["kind"] != "alias"}
    changed = {name.replace("-", "_") for name in texts} ^ MODEL.keys()
    assert not changed, f"MODEL of scripts/pytorch/options.py lacks them, or ./train does: {changed}"
    assert parse(texts).items() <= MODEL.items(), "other defaults than in MODEL of scripts/pytorch/options.py"
    code = "".join(path.read_text() for path in [SCRIPTS / "normlab.py", *(SCRIPTS / "pytorch").glob("*.py")])
    unread = [name for name in MODEL if not re.search(rf"config\.{name}\b", code) and name not in {*PARENTS, *PARENTS.values()}]
    assert not unread, f"no model in scripts/pytorch computes them (norms in norms.py, blocks in block.py): {unread}"


@pytest.fixture
def go(done):
    return lambda words: done(TINY, "--quiet", words, "text.txt")


def test_evaluation_does_not_touch_training_and_drops_nothing(go):
    go("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=1 --out=often")
    go("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=100 --out=seldom")
    go("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=0 --out=last")
    go("--norm=bn --dropout=0 --max-iters=0 --out=without")
    losses = cells("often", "train_loss")
    assert len(losses) == 6 and losses == cells("seldom", "train_loss")
    often, seldom, last = (cells(folder, "val_loss") for folder in ("often", "seldom", "last"))
    assert often[6] == seldom[6], "running statistics"
    assert list(last) == [6] and last[6] == seldom[6], "evaluated before the first update, or another last loss"
    assert often[0] == cells("without", "val_loss")[0], "dropout"


def test_micro_batches_may_change_when_a_run_is_resumed(go, done):
    go("--norm=ln --batch-size=70 --dropout=0.1 --max-iters=6 --out=whole")
    go("--norm=ln --batch-size=70 --dropout=0.1 --max-iters=3 --lr-decay-iters=6 --out=parts")
    done("--quiet --max-iters=6 --micro-batch-tokens=1 --resume=parts")
    for column, step in ("train_loss", 5), ("val_loss", 6):
        assert cells("parts", column)[step] == cells("whole", column)[step]
    assert "\nmicro-batch-tokens = 1\n" in Path("parts/config.ini").read_text()


def test_closed_streams_keep_messages_out_of_files(run, text):
    assert run("bash", "-c", f'"$TRAIN" {" ".join(TINY)} --sample=20 --out=closed text.txt >&- 2>&-').status == 0
    assert all(line[0].isdigit() for line in Path("closed/log.csv").read_text().splitlines()[1:])


@pytest.mark.parametrize("word", "--evaluate=out --generate=out --version --help --help=json --help=man --list-norms "
                         "--list-connections --list-optimizers --list-placements --list-schedules".split())
def test_what_only_prints_needs_standard_output(run, go, word):
    go("--out=out")
    ended = run("bash", "-c", f'"$TRAIN" {word} >&-')
    assert (ended.status, ended.out) == (1, "") and ended.err.startswith("train: standard output: is closed") and ended.err.count("\n") == 1
