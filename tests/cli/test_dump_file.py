"""The file of --evaluate --dump: its losses and gradients, and that it is never incomplete. scripts/pytorch/check_normlab.py
tests its other arrays."""
import os
from pathlib import Path

import numpy
import pytest

from conftest import DIVERGED, MACHINE, TINY, USAGE, full_disk, log_of, loss_in, put_arrays, put_text
from models import every_row
from pytorch.model_file import read_plain

RUN = [*TINY, "--quiet", "--force"]


@every_row
def test_the_gradient_is_that_of_an_update(done, model):
    """Where every character is the same, so is every batch. With beta1 = 0 Adam's first moment is the gradient of the update."""
    Path("same.txt").write_text("e" * (3 * 2 * 8 + 1))  # three batches
    done(RUN, "--learning-rate=0.02 --out=model text.txt", model)
    done("--evaluate=model --batch-size=2 --stats=own --dump=d.st same.txt")
    done(RUN, "--start=model --max-iters=1 --beta1=0 --grad-clip=0 --grad-accum=3 --prepbn-steps=0 --checkpoint-interval=1 "
         "--val-fraction=0.3 --out=one same.txt", model)
    (texts, dumped), (_, saved) = read_plain("d.st"), read_plain("one/checkpoint.safetensors")
    assert texts["statistics"] == "own"
    assert float(texts["loss"]) == pytest.approx(float(log_of("one")[0]["train_loss"]), rel=1e-8)
    gradients = {name.removeprefix("grad."): array for name, array in dumped.items() if name.startswith("grad.")}
    moments = {name.partition("exp_avg.")[2]: array for name, array in saved.items() if "exp_avg." in name}
    assert gradients.keys() == moments.keys() and len(dumped) >= len(gradients) + 10
    assert [name for name in moments if gradients[name].tobytes() != moments[name].tobytes()] == []


def check_loss_of_logits(done, words):
    """If one batch is all that is measured, its logits give the loss that is printed. Returns the file, and the number of pads."""
    printed = done("--evaluate=model --dump=d.st", words).out
    texts, arrays = read_plain("d.st")
    targets, valid = arrays["targets"].ravel(), arrays["valid"].ravel()
    logits, read = arrays["logits"].reshape(len(targets), -1).astype(float), targets >= 0
    assert valid[read].all()
    losses = numpy.log(numpy.exp(logits).sum(1))[read] - logits[read, targets[read].astype(int)]
    assert float(texts["loss"]) == pytest.approx(loss_in(printed), abs=1e-8, rel=0)
    assert float(texts["loss"]) == pytest.approx(losses.mean(), abs=1e-6, rel=0)
    return texts, arrays, (valid == 0).sum()


@pytest.mark.parametrize("source", ["running", "own", "single", "position", "all"])
def test_the_loss_follows_from_the_logits(done, source):
    done(RUN, "--items --norm=bn --learning-rate=0.02 --max-iters=20 --out=model items.txt")
    texts, arrays, pads = check_loss_of_logits(done, f"--batch-size=10 --stats={source}")
    assert pads > 0, "the items are all of one length"
    assert texts["statistics"] == ("running" if source == "all" else source)
    assert any(name.startswith("grad.") for name in arrays) == (source == "own")


def test_what_is_after_the_end_of_a_text_has_no_part_in_statistics(done):
    """The last block of a text ends early."""
    put_text("short.txt", 20)
    done(RUN, "--norm=bn --learning-rate=0.02 --out=model text.txt")
    assert check_loss_of_logits(done, "--batch-size=3 --stats=own short.txt")[2] == 5, "19 targets in 3 blocks of 8"


def test_it_changes_nothing_else_and_is_the_same_again(done):
    done(RUN, "--norm=bn --qk-norm=on --v-norm=on --ffn-norm=on --block-size=40 --batch-size=3 --out=model text.txt")
    measure = "--evaluate=model --stats=own"
    assert done(measure, "--leak --dump=one.st --threads=1").out == done(measure, "--leak").out
    done(measure, "--dump=again.st --threads=3")
    assert Path("one.st").read_bytes() == Path("again.st").read_bytes()
    # a norm that allows micro-batches
    done(RUN, "--out=model --grammar-chars=60000")
    done(measure, "--batch-size=600 --dump=one.st")
    done(measure, "--batch-size=600 --micro-batch-tokens=0 --dump=again.st")
    assert Path("one.st").read_bytes() == Path("again.st").read_bytes()


@pytest.mark.parametrize("status, said, words", [
    (MACHINE, "dump: nowhere/d.st: No such file", "--dump=nowhere/d.st"),
    (MACHINE, "dump: folder: is not a regular file", "--dump=folder"),
    (MACHINE, "dump: pipe: is not a regular file", "--dump=pipe"),
    (USAGE, "--stats=position: works for bn", "--dump=d.st --stats=position"),
    (USAGE, "--stats=other: ", "--dump=d.st --batch-size=1000 --stats=other"),
    pytest.param(MACHINE, "locked/d.st: Permission denied", "--dump=locked/d.st",
                 marks=pytest.mark.skipif(not os.getuid(), reason="root may write everywhere"))])
def test_what_cannot_be_written_is_one_line(done, train, status, said, words):
    done(RUN, "--out=model text.txt")
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("locked").mkdir(0o555)
    files = os.listdir()
    ended = train("--evaluate=model", words)
    assert ended.status == status and said in ended.err and ended.err.count("\n") == 1, ended
    assert os.listdir() == files, "a file is left"


def test_a_dump_needs_evaluate(done):
    done(RUN, "--out=model text.txt")
    assert "no effect: --dump (only with --evaluate)" in done("--generate=model --dump=d.st").err


@pytest.mark.parametrize("kept", [
    *(f"model/{name}" for name in "model.safetensors checkpoint.safetensors best.safetensors config.ini log.csv log.crc32 probes.csv "
      "summary.json sample.txt".split()), "./model/../text.txt", "words.txt", "link.st"])
def test_what_is_read_is_not_replaced(done, refused, kept):
    """A dump replaces no file of the run, and not the corpus."""
    done(RUN, "--sample=9 --probe-interval=1 --keep-best=on --checkpoint-interval=1 --out=model text.txt")
    put_text("words.txt", 2000)
    Path("link.st").symlink_to("model/model.safetensors")
    before, files = Path(kept).read_bytes(), os.listdir()
    refused(USAGE, "would replace a file of the run or the corpus", f"--evaluate=model --vocabulary=words.txt --dump={kept}")
    assert Path(kept).read_bytes() == before and os.listdir() == files
    for _ in range(2):  # the second one replaces a dump
        done("--evaluate=model --dump=model/d.st")


@pytest.mark.parametrize("said, words", [
    ("model/sample.txt: this run reads the file and would also", "--val-fraction=0.5 --out=model model/sample.txt"),
    ("model/model.safetensors: this run reads the file and", "--start=model --out=./model text.txt")])
def test_a_run_does_not_replace_what_it_reads(done, refused, said, words):
    done(RUN, "--sample=99 --out=model text.txt")
    files = sorted(os.listdir("model"))
    refused(USAGE, said, RUN, words)
    assert sorted(os.listdir("model")) == files
    done(RUN, "--config=model/config.ini --out=model text.txt")


@pytest.mark.parametrize("limit", [200, 1000, 8000])
def test_a_full_disk_leaves_the_old_file(done, train, limit):
    done(RUN, "--out=model text.txt")
    Path("d.st").write_text("old")
    files = sorted(os.listdir())
    ended = train("--evaluate=model --dump=d.st", **full_disk(limit))
    assert ended.status == MACHINE and "dump: d.st: File too l" in ended.err
    assert sorted(os.listdir()) == files and Path("d.st").read_text() == "old"
    done("--evaluate=model --dump=d.st")
    assert sorted(os.listdir()) == files and Path("d.st").read_bytes() != b"old"


def test_no_dump_without_a_loss(done, refused):
    """A model that diverges on a text gives no dump."""
    done(RUN, "--max-iters=30 --learning-rate=0.02 --norm=none --out=out text.txt")
    put_arrays("huge.st", {name: (array * numpy.float32(1e30)).astype("float32")
                           for name, array in read_plain("out/model.safetensors")[1].items()})
    refused(DIVERGED, "huge.st: its loss is ",
            "--quiet --evaluate=huge.st --norm=none --n-head=2 --vocabulary=text.txt --dump=d.st text.txt")
    assert not Path("d.st").exists() and not Path("d.st.tmp").exists()
