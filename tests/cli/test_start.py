"""--start: a run that starts from the weights of a file."""
from pathlib import Path

import pytest

from conftest import MACHINE, TINY, USAGE, log_of, loss_in, put_arrays, same_arrays, same_log, summary_of
from models import every_row, values
from pytorch.model_file import read_plain

BRIEF = [TINY, "--quiet --dropout=0.1 --learning-rate=0.02 --eval-interval=2 --sample=20 --force"]
MODEL, CHECKPOINT = "model.safetensors", "checkpoint.safetensors"
NORM = "transformer.h.0.ln_1."


@every_row
def test_a_run_starts_with_the_weights_of_the_file(done, model):
    done(*BRIEF, "--max-iters=0 --out=initial text.txt", model)
    done(*BRIEF, "--max-iters=6 --out=usual text.txt", model)
    done(*BRIEF, "--max-iters=6 --start=initial --seed=1 --out=out text.txt", model)
    same_log("usual", "out")
    assert Path("usual/sample.txt").read_bytes() == Path("out/sample.txt").read_bytes() != b""
    for name in MODEL, CHECKPOINT:
        same_arrays(f"usual/{name}", f"out/{name}")
    # from the trained model, under another seed, it starts at its loss
    done(*BRIEF, "--start=usual/model.safetensors --seed=7 --out=out text.txt", model)
    losses = [row["val_loss"] for row in log_of("out")]
    assert losses[0] == log_of("usual")[-1]["val_loss"] != losses[4]


def test_is_recorded_and_not_read_again(out, refused):
    out(TINY, "--quiet --max-iters=9 --out=model text.txt")
    out(TINY, "--quiet --max-iters=8 --start=model --out=whole text.txt")
    out(TINY, "--quiet --max-iters=4 --lr-decay-iters=8 --start=model --out=out text.txt")
    assert 'start = "model"\n' in Path("out/config.ini").read_text() and summary_of("out")["options"]["start"] == "model"
    Path("model").rename("away")
    refused(USAGE, "--start=away: contradicts --start=model of out/", "--resume=out --start=away")
    out("--quiet --resume=out --max-iters=8")
    same_arrays(f"whole/{MODEL}", f"out/{MODEL}")
    refused(USAGE, "--start=whole: contradicts away/checkpoint.safetensors, which has no --start", "--resume=away --start=whole")
    # without a checkpoint there are no weights but those of the file
    for name in MODEL, CHECKPOINT:
        Path("out", name).unlink()
    refused(MACHINE, "model: No such file or directory", "--resume=out")
    Path("away").rename("model")
    out("--quiet --resume=out")
    out("--quiet --config=out/config.ini --out=again")
    for folder in "out", "again":
        same_arrays(f"whole/{MODEL}", f"{folder}/{MODEL}")


def test_the_vocabulary_is_that_of_the_file(out, refused):
    """The characters of a model keep their embeddings in a text that lacks some of them."""
    Path("few.txt").write_text("the " * 100)
    Path("half.txt").write_text("the " * 50)
    Path("more.txt").write_text("quite other characters, over and over again, on and on and on")
    out(TINY, "--quiet --max-iters=40 --learning-rate=0.02 --out=model text.txt")
    out(TINY, "--quiet --start=model --max-iters=3 --eval-iters=0 --val-fraction=0.5 --sample=20 --out=out few.txt")
    assert summary_of("out")["vocabulary"] == 14
    assert loss_in(out("--evaluate=model half.txt")) == pytest.approx(float(log_of("out")[0]["val_loss"]), abs=1e-6, rel=0)
    out("--quiet --resume=out --max-iters=5")
    assert summary_of("out")["vocabulary"] == 14
    refused(MACHINE, "more.txt: has U+0069 (i), which the model's vocabulary", TINY, "--start=model more.txt")


@pytest.mark.parametrize("optimizer", values("optimizer"))
def test_the_optimizer_s_state_is_reset(done, optimizer):
    done(TINY, f"--quiet --optimizer={optimizer} --out=model text.txt")
    done(TINY, f"--quiet --optimizer={optimizer} --start=model --max-iters=0 --checkpoint-interval=1 --out=out text.txt")
    state = {name: array for name, array in read_plain(f"out/{CHECKPOINT}")[1].items() if name.startswith("optimizer.")}
    assert state and not [name for name, array in state.items() if any(array.tobytes())]


@pytest.mark.parametrize("status, said, words", [
    (MACHINE, "nosuch.st: No such file or directory", "--start=nosuch.st text.txt"),
    (MACHINE, "empty/model.safetensors: No such file", "--start=empty text.txt"),
    (MACHINE, "text.txt: not a valid safetensors file", "--start=text.txt text.txt"),
    (MACHINE, "its shape differs from that", "--start=out --n-embd=12 text.txt"),
    (MACHINE, "transformer.h.1.ln_1.weight: is mi", "--start=out --n-layer=2 text.txt"),
    (MACHINE, "ln_1.bias: is not part of this", "--start=out --norm=none text.txt"),
    (MACHINE, "other.st: its embedding has 14 characters, but the vocabulary of short.txt has", "--start=other.st short.txt")])
def test_a_bad_file_is_one_line(out, refused, status, said, words):
    out(TINY, "--quiet --out=out text.txt")
    Path("empty").mkdir()
    Path("short.txt").write_text("the cat sat, the cat sat, the cat sat on the mat, the mat")
    put_arrays("other.st", read_plain(f"out/{MODEL}")[1])  # weights alone, as of other programs
    refused(status, said, TINY, "--quiet --out=new", words)
    assert not Path("new/config.ini").exists(), "a run was started"
    out(TINY, "--quiet --start=other.st --out=new text.txt")


def test_running_statistics_are_read_if_there_are_any(out, refused):
    """Otherwise they are the initial ones."""
    start = [TINY, "--quiet --norm=bn --max-iters=0 text.txt"]
    out(TINY, "--quiet --norm=bn --max-iters=30 --learning-rate=0.02 --out=out text.txt")
    arrays = read_plain(f"out/{MODEL}")[1]
    out(*start, "--start=out --out=with")
    same_arrays(f"out/{MODEL}", f"with/{MODEL}")
    weights = {name: array for name, array in arrays.items() if "running_" not in name and "batches" not in name}
    assert len(weights) < len(arrays)
    put_arrays("other.st", weights)
    out(*start, "--start=other.st --out=new")
    new = read_plain(f"new/{MODEL}")[1]
    assert not new[f"{NORM}running_mean"].any() and (new[f"{NORM}weight"] == arrays[f"{NORM}weight"]).all()
    put_arrays("other.st", {name: array for name, array in arrays.items() if name != f"{NORM}running_var"})
    refused(MACHINE, "ln_1.running_var: is missing", *start, "--start=other.st --out=no")


def test_options_that_differ_are_noted(done):
    """Shapes do not show every option of a model."""
    done(TINY, "--quiet --out=model text.txt")
    assert "note: " not in done(TINY, "--start=model --out=same text.txt").err
    said = done(TINY, "--start=model --n-head=4 --act=relu --out=new text.txt").err
    assert "note: model/model.safetensors comes from a model with --n-head=2, but this model has 4\n" in said
    assert "--act=gelu, but this model has relu\n" in said and "--norm-groups" not in said, "an option without effect"


def test_items_are_known_in_a_larger_vocabulary(done):
    """The vocabulary of the model has ids that its corpus alone would not have."""
    Path("letters.txt").write_text("aa\nbb\ncc\n")
    Path("one.txt").write_text("cc\n" * 4)
    done(TINY, "--items --quiet --val-fraction=0.4 --out=model letters.txt")
    done(TINY, "--items --quiet --val-fraction=0.4 --start=model --max-iters=40 --learning-rate=0.02 --out=out one.txt")
    assert done("--generate=out --num-items=1 --temperature=0").out == "known  cc\n"
