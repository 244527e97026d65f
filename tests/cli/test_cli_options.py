"""Every option of the program's table with bad values, and with `make check-all` with every kind of them: status 2, one line
that names the option, and nothing written. Presets and recipes: the numbers that the models' authors publish; that each
learns with every usual norm; that other options override what they set, in any order."""
import math
import os
from pathlib import Path

import pytest

from conftest import TINY, log_of, summary_of
from models import options, values

# If a bad value is accepted after all, these options make the run short.
BEFORE = ("--max-iters=0 --sample=0 --n-layer=1 --n-head=1 --n-embd=8 --batch-size=2 --block-size=8 --grammar-chars=200 "
          "--eval-iters=1")
WORDS = ("", "x", "-", "--", ".", "1x", "1 ", " 1", "1,5", "1;2", "nan", "NaN", "-nan", "inf", "-inf", "1e999", "on", "+", "1e",
         "99999999999999999999999")
NO_INTEGERS = "1.5", "1e-1", "0x10", "-9223372036854775809", "9223372036854775808"
NO_WORDS = "", "unknown", "0", "1", "ON", "yes", "true", "o", " on"
FILES = ["items.txt", "text.txt"]  # that the test's folder has
SWEEP = "SWEEP" in os.environ


def some(cases):
    return cases if SWEEP else cases[::6]


def bad_values(option):
    """Values that a message repeats, and with what it says must be."""
    kind = option["kind"]
    if kind in ("integer", "real"):
        yield from some(WORDS)
        yield from some(NO_INTEGERS) if kind == "integer" else ()
        yield from () if option["default"] == "auto" else ["auto"]
        for sign, end in (-1, option["min"]), (1, option["max"]):
            yield f"{int(end) + sign}" if kind == "integer" else f"{math.nextafter(end, sign * math.inf):.17g}"
            yield f"{sign * 10 * end + sign * 10:.17g}"
    if kind in ("switch", "choice"):
        yield from some(NO_WORDS)
        for name in values(option["name"])[::1 if SWEEP else 4] if kind == "choice" else ():
            yield f"{name}x"
            yield from () if name[:-1] in option["values"] else [name[:-1]]  # relu2 and relu


@pytest.mark.sampled
@pytest.mark.parametrize("option", options().values(), ids=list(options()))
def test_bad_values(refused, option):
    name, kind = option["name"], option["kind"]
    for value in bad_values(option):
        said = refused(2, f"train: --{name}=", BEFORE, [f"--{name}={value}"])
        assert f"--{name}={value}" in said and "must be " in said, said
    flag, short, number = kind in ("flag", "topic"), kind == "alias", kind in ("integer", "real")
    valued = short and "=" in option["for"]
    wrong = [f"--{name}=on"] if flag else []
    wrong += [f"--{name}="] if not number and not short else []
    wrong += [f"--{name}=pre"] if valued else []
    wrong += [f"--{name}"] if not flag and not valued and kind != "switch" and not name.startswith("show-") else []
    for word in wrong:
        refused(2, f"train: --{name}", BEFORE, [word])
    assert sorted(os.listdir()) == FILES


def test_bad_values_in_a_config_file(refused):
    for name, option in options().items():
        Path("bad.ini").write_text(f'{name} = ""\n')
        told = option["for"] if option["kind"] == "alias" and "=" not in option["for"] else name
        refused(2, f"train: bad.ini:1: {told}", BEFORE, "--config=bad.ini")
        assert sorted(os.listdir()) == ["bad.ini", *FILES], name


@pytest.mark.parametrize("word, status", [("--norm=a\nb", 2), ("--a\nb=1", 2), ("-a\n\nb", 2), ("no\nfile", 1)])
def test_a_message_is_one_line_whatever_was_typed(refused, word, status):
    refused(status, "", BEFORE, [word])


@pytest.mark.parametrize("words, said", [
    ("--n-embd=10 --n-head=4", "--n-embd=10: must be a multiple of --n-head=4"),
    ("--n-embd=8 --n-head=16", "--n-embd=8: must be a multiple of --n-head=16"),
    ("--n-embd=8 --norm=gn --norm-groups=3", "its 8 channels cannot be split into 3 equal groups"),
    ("--logit-softcap=1e-300", "--logit-softcap=1e-300: must be at least 1e-06"),
    ("--attn-softcap=1e-7", "--attn-softcap=1e-07: must be at least 1e-06, or 0"),
    ("--min-lr=0.1 --learning-rate=0.01", "--min-lr=0.1"),
    ("--norm=bn --bn-axis=batch --rbn-var=1", "--rbn-var: cannot be combined with --bn-axis=batch"),
    ("--optimizer=muon --muon-lr=0.1 --learning-rate=0 --min-lr=0", "--muon-lr=0.1: follows the schedule of --learning-rate"),
    ("--position=rope --n-embd=6 --n-head=2", "needs an even number of channels per head, --n-embd=6 / --n-head=2"),
    ("--norm=bn --bn-shards=2 --rbn-mean=1", "--rbn-var: cannot be combined with --bn-shards"),
    ("--norm=bn --bn-shards=2 --bn-axis=batch", "--bn-shards: cannot be combined with --bn-axis=batch"),
    ("--ffn-norm=gn --n-head=6 --n-embd=12 --ffn-width=16", "mlp.norm: its 16 channels cannot be split into 6 equal groups")])
def test_values_that_contradict_each_other(refused, words, said):
    refused(2, said, words)
    assert sorted(os.listdir()) == FILES


def test_help_and_version(done):
    assert "Usage" in done("--norm=rms --help --nonsense").out
    version = done("--version").out
    assert version.startswith("normlab ") and version.count("\n") == 1
    assert sorted(os.listdir()) == FILES


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_full_device(run, option):
    ended = run("bash", "-c", f'"$TRAIN" {option} >/dev/full')
    assert ended.status == 1 and "No space left on device" in ended.err and ended.err.count("\n") == 1


# ---- presets ----

@pytest.mark.parametrize("choice", [f"--{option}={name}" for option in ("preset", "recipe") for name in values(option)])
@pytest.mark.parametrize("norm", ["ln", "bn", "rms"])
def test_learns_with_every_usual_norm(done, choice, norm):
    done(TINY, choice, f"--norm={norm} --max-iters=60 --learning-rate=0.01 --eval-iters=4 --quiet --out=out text.txt")
    assert summary_of("out")["val_loss"] < float(log_of("out")[0]["val_loss"])


@pytest.fixture
def config_of(done):
    """Returns the configuration that a run with these options has."""
    def config(words):
        done(TINY, words, "--max-iters=0 --quiet --force --out=out text.txt")
        return Path("out/config.ini").read_text()
    return config


@pytest.mark.parametrize("words, same", [
    ("--recipe=nanogpt", ""),
    ("--preset=llama --norm=ln", "--norm=ln --preset=llama"),
    ("--recipe=best --norm=ln --lr=0.1", "--lr=0.1 --norm=ln --recipe=best"),
    ("--recipe=best --preset=gpt2", "--preset=gpt2 --recipe=best"),
    # gpt2's block: of the recipe's, only what no preset sets is left
    ("--recipe=best --preset=gpt2 --placement=post",
     "--recipe=best --preset=gpt2 --postln --head=tied --position=learned --norm=ln"),
    ("--config=best.ini", "--recipe=best"),
    ("--recipe=best --config=best.ini --norm=bn", "--recipe=best --norm=bn"),
    ("--preset=gpt2 --config=best.ini", "--recipe=best --preset=gpt2")])
def test_other_options_override_presets_anywhere(config_of, words, same):
    Path("best.ini").write_text(config_of("--recipe=best"))
    assert config_of(words) == config_of(same)


@pytest.mark.parametrize("preset, numbers", [  # config.json of the authors' models
    ("gpt2", ["norm-eps = 1e-05"]),                           # openai-community/gpt2
    ("llama", ["norm-eps = 1e-05", "rope-theta = 10000"]),    # meta-llama/Llama-2-7b
    ("gemma2", ["norm-eps = 1e-06", "rope-theta = 10000"]),   # google/gemma-2-2b
    ("olmo2", ["norm-eps = 1e-06", "rope-theta = 500000"]),   # allenai/OLMo-2-1124-7B
    ("qwen3", ["norm-eps = 1e-06", "rope-theta = 1e+06"])])   # Qwen/Qwen3-8B
def test_presets_have_the_numbers_of_their_models(config_of, preset, numbers):
    assert set(numbers) <= set(config_of(f"--preset={preset}").splitlines())
