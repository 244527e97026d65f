"""Batches: their numbers in files, which are integers beyond 2^24, where a float would stop; those of an update; and --hold-out,
with which the end of the training split validates, and the validation split is not read."""
from pathlib import Path
import random

import numpy
import pytest

from conftest import MACHINE, TINY, USAGE, log_of, loss_in, put_arrays, put_items, same_log, summary_of
from pytorch.model_file import read_plain

EDGE, WHOLE = 1 << 24, 1 << 53  # the last of the integers that a float and a double count


def expect_counts(path, name, value):
    """The arrays of the file whose names end so are integers of this value. Returns the names."""
    found = {key: array for key, array in read_plain(path)[1].items() if key.endswith(name)}
    assert len(found) > 2 and {(str(array.dtype), array.shape, int(array)) for array in found.values()} == {("int64", (), value)}
    return found.keys()


@pytest.mark.parametrize("norm, name", [("bn", ".num_batches_tracked"), ("pn", ".iters")])
@pytest.mark.parametrize("stored, after", [  # by two further updates; None: refused
    (numpy.int64(EDGE - 1), EDGE + 1), (numpy.int64(WHOLE - 2), WHOLE), (numpy.float32(EDGE - 1), EDGE + 1),
    (numpy.int64(WHOLE + 1), None), (numpy.int64(-1), None), (numpy.float32(2.5), None)])
def test_files_count_batches_in_integers(done, refused, norm, name, stored, after):
    checkpoint, model = "run/checkpoint.safetensors", "run/model.safetensors"
    done(TINY, f"--quiet --norm={norm} --out=run text.txt")
    expect_counts(model, name, 4)
    texts, arrays = read_plain(checkpoint)
    put_arrays(checkpoint, arrays | dict.fromkeys(expect_counts(checkpoint, name, 4), numpy.asarray(stored)), texts)
    if after is None:
        refused(MACHINE, "is not a number of batches", "--resume=run --max-iters=6")
        return
    done("--quiet --resume=run --max-iters=6")
    expect_counts(checkpoint, name, after)
    expect_counts(model, name, after)


@pytest.mark.parametrize("words", ["varied.txt", "--items items.txt", "--items --bucket --pad-to=block items.txt",
                                   "--corpus=random --random-chars=20"])
def test_update_s_of_n_batches_takes_the_batches_from_s_n_on(done, words):
    """Their sequences and dropout masks are those of single updates, at a learning rate of 0."""
    Path("varied.txt").write_text("".join(random.Random(1).choices("abcdefgh ijkl mno p\n", k=3000)))
    put_items("items.txt", 200)
    losses, targets = {}, {}
    for n in 3, 1:
        done(TINY, f"--quiet --init=xavier --dropout=0.3 --seed=3 --learning-rate=0 --weight-decay=0 --grad-accum={n} "
             f"--max-iters={12 // n} --out=of-{n} {words}")
        rows = log_of(f"of-{n}")
        losses[n] = [float(row["train_loss"]) for row in rows if row["train_loss"]]
        targets[n] = numpy.diff([int(row["tokens"]) for row in rows])
    means = [numpy.average(losses[1][at:at + 3], weights=targets[1][at:at + 3]) for at in range(0, 12, 3)]
    assert losses[3] == pytest.approx(means, rel=2e-6)
    assert min(numpy.diff(sorted(losses[3]))) > 1e-4, "two updates are equal"


# ---- --hold-out ----

HELD = [*TINY, *"--quiet --norm=bn --max-iters=6 --eval-interval=2 --eval-iters=0".split()]


def test_a_held_out_run_is_that_of_a_text_without_its_validation_split(done):
    """So that nothing of that split is read, except for the characters of the vocabulary."""
    Path("first.txt").write_text(Path("text.txt").read_text()[:1800])
    done(HELD, "--val-fraction=0.1 --hold-out=0.2 --out=held text.txt")
    done(HELD, "--val-fraction=0.2 --out=first first.txt")
    same_log("held", "first")


def test_an_evaluation_measures_what_was_held_out(done):
    Path("last.txt").write_text(Path("text.txt").read_text()[1800:])
    done(HELD, "--hold-out=0.1 --out=run text.txt")
    held, split, other = (done("--evaluate=run", words).out for words in ("", "--hold-out=0", "--corpus=last.txt"))
    assert "the held-out part of the training split of text.txt, 179 char" in held
    assert "the validation split of text.txt, 199 char" in split and ": last.txt, 199 char" in other
    assert loss_in(split) == loss_in(other) != loss_in(held) == summary_of("run")["val_loss"]


@pytest.mark.parametrize("corpus", ["text.txt", "--items items.txt"])
def test_a_resumed_run_holds_out_the_same(done, refused, corpus):
    done(HELD, "--hold-out=0.3 --out=whole", corpus)
    done(HELD, "--hold-out=0.3 --max-iters=4 --lr-decay-iters=6 --out=resumed", corpus)
    refused(USAGE, "--hold-out=0.1: contradicts --hold-out=0.3", "--quiet --resume=resumed --max-iters=6 --hold-out=0.1")
    done("--quiet --resume=resumed --max-iters=6")
    same_log("whole", "resumed")


@pytest.mark.parametrize("words, said", [
    ("--hold-out=1 text.txt", "the training split has 0 characters"),
    ("--hold-out=1e-9 --out=out text.txt", "--hold-out"),
    ("--hold-out=1 --items items.txt", "0 of 100 items train and 90 validate"),
    ("--hold-out=-0.1 text.txt", "--hold-out")])
def test_both_parts_must_be_long_enough(refused, words, said):
    refused(USAGE, said, HELD, words)
