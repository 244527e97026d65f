"""Stored runs whose files are complete and have correct checksums, but have contents that ./train never writes, as another
program could. An error says what is wrong, and nothing in the folder changes."""
import os
from pathlib import Path

import numpy
import pytest

from conftest import DIVERGED, MACHINE, TINY, USAGE, put_arrays
from pytorch.model_file import read_plain

MODEL, CHECKPOINT = "run/model.safetensors", "run/checkpoint.safetensors"
ATTENTION, WTE, WPE = "transformer.h.0.attn.c_attn.weight", "transformer.wte.weight", "transformer.wpe.weight"
VARIANCE, COUNT, SECOND = "transformer.ln_f.running_var", "transformer.ln_f.num_batches_tracked", f"optimizer.exp_avg_sq.{WTE}"


@pytest.fixture(autouse=True)
def a_run(done):
    done(TINY, "--norm=bn --quiet --out=run text.txt")
    Path("run/config.ini").unlink()  # which would report changed texts first


def change(path, arrays=(), texts=(), to=None):
    """Writes the file again, with these arrays and texts, where None takes one away."""
    old_texts, old_arrays = read_plain(path)
    kept = {name: array for name, array in (old_arrays | dict(arrays)).items() if array is not None}
    put_arrays(to or path, kept, old_texts | dict(texts))


def filled(path, name, value):
    """The array with this number in every element."""
    return {name: numpy.full_like(read_plain(path)[1][name], value)}


@pytest.mark.parametrize("damage, said", [
    (lambda path: filled(path, VARIANCE, numpy.nan), f"{VARIANCE}: holds nan or infinity"),
    *((lambda path, count=count: filled(path, COUNT, count), f"{COUNT}: is not a number of batches from 0 to 2^53")
      for count in (2**63 - 1, 2**53 + 1, -1)),
    (lambda path: {"x": read_plain(path)[1][ATTENTION], ATTENTION: None}, "its model has no characters, channels, positions or layers"),
    # an embedding with many channels is cheap; the matrices that it implies are not
    (lambda path: dict.fromkeys((WTE, WPE, "lm_head.weight"), numpy.zeros((1, 100000), "float32")),
     f"{ATTENTION}: its shape does not fit 100000 channels"),
    # this many positions, of no channels
    (lambda path: {WPE: numpy.zeros((10**9, 0), "float32")}, "its token and position embeddings differ in their number of channels")])
@pytest.mark.parametrize("path, use", [(MODEL, "--generate=run"), (MODEL, "--evaluate=run"), (CHECKPOINT, "--resume=run")])
def test_a_damaged_model_and_checkpoint_are_refused_with_the_same_words(refused, damage, said, path, use):
    change(path, damage(path))
    log = Path("run/log.csv").read_bytes()
    refused(MACHINE, f"train: {path}: {said}", use)
    assert Path("run/log.csv").read_bytes() == log and Path("run/summary.json").exists()


def test_a_moment_that_is_nan(refused):
    change(CHECKPOINT, filled(CHECKPOINT, SECOND, numpy.nan))
    refused(MACHINE, f"{SECOND}: holds nan or infinity", "--resume=run")


def test_options_of_a_model_that_cannot_be(done, refused):
    change(MODEL, texts={"n-head": "0"})
    refused(USAGE, "n-head=0: must be a whole number from 1", "--generate=run")
    change(MODEL, texts={"n-head": "2", "batch-size": "1000000000"})
    refused(MACHINE, "memory: ", "--evaluate=run")
    done("--generate=run --num-chars=9 --quiet")  # which has a batch of its own


@pytest.mark.parametrize("name, value, said", [
    ("step", "-1", "step: is not a whole number"),
    ("step", "3.5", "step: is not a whole number"),
    ("step", "nan", "has no number for step"),
    ("step", "4x", "has no number for step"),
    ("best_step", "1e99", "best_step: is not a whole number"),
    ("tokens", "1e99", "tokens: is not a whole number"),
    ("pads", "1e99", "pads: is not a whole number"),
    # which would be larger than 2^53 after the next update
    ("tokens", "9007199254740992", "is more than 4 updates can have had"),
    ("pads", "9007199254740992", "is more than 4 updates can have had"),
    ("best_step", "5", "is more than 4 updates can have had")])
def test_steps_that_are_none(refused, name, value, said):
    change(CHECKPOINT, texts={name: value})
    log = Path("run/log.csv").read_bytes()
    refused(MACHINE, said, "--resume=run --max-iters=9")
    assert Path("run/log.csv").read_bytes() == log


def test_a_model_that_gives_nan(refused):
    change(MODEL, filled(MODEL, VARIANCE, -9))
    refused(DIVERGED, "logits are nan", "--generate=run")
    refused(DIVERGED, "its loss is nan", "--evaluate=run")


def test_the_largest_count_stays_there_and_is_read_again(done):
    change(MODEL, filled(MODEL, COUNT, 2**53), to="last.st")
    done(TINY, "--quiet --norm=bn --start=last.st --out=last text.txt")
    done("--evaluate=last")


@pytest.mark.parametrize("name", [CHECKPOINT, "run/log.csv"])
def test_what_lies_where_a_file_should(done, refused, name):
    path = Path(name)
    path.rename("kept")
    os.mkfifo(path)
    refused(MACHINE, "is not a regular file", "--resume=run")
    path.unlink()
    path.mkdir()
    refused(MACHINE, "Is a directory", "--resume=run")
    path.rmdir()
    Path("kept").rename(path)
    done("--resume=run --quiet --max-iters=5")


def test_a_device_is_no_model(refused):
    refused(MACHINE, "/dev/null: is not a regular file", "--generate=/dev/null")
