"""Runs of the program, from the command line to the files that they leave."""
import math
import os
from pathlib import Path

import pytest

from conftest import DIVERGED, TINY, log_of, put_items, put_text, same_folder, same_log, summary_of


@pytest.fixture
def go(out):
    """A run of few updates, which must print nothing."""
    def gone(*words, **how):
        assert out(TINY, "--quiet", *words, **how) == ""
    return gone


def expect_members(folder, **members):
    """The summary has these values."""
    summary = summary_of(folder)
    assert {name: summary[name] for name in members} == members


def test_the_run_s_folder(go):
    go("--sample=30 --out=out text.txt")
    assert len(os.listdir("out")) == 7 and len(Path("out/sample.txt").read_text()) == 30
    assert {"norm = ln", 'corpus = "text.txt"'} <= set(Path("out/config.ini").read_text().splitlines())
    expect_members("out", exit_reason="done", steps=4, tokens=64, corpus="text.txt", vocabulary=14, corpus_characters=2000,
                   corpus_bytes=2000, grammar_entropy=None)
    summary = summary_of("out")
    assert summary["options"]["n-embd"] == 8
    assert min(summary[name] for name in ("train_loss", "val_loss", "best_val_loss", "parameters", "seconds", "tokens_per_second")) > 0


def test_the_log(go):
    go("--max-iters=25 --log-interval=10 --eval-interval=8 --out=out text.txt")
    rows = {int(row["step"]): row for row in log_of("out")}
    assert list(rows) == [0, 8, 10, 16, 20, 24, 25]
    for step, row in rows.items():
        filled = {name: bool(row[name]) for name in ("val_loss", "train_loss", "grad_norm", "tokens_per_second")}
        assert int(row["tokens"]) == 16 * step and filled == {
            "val_loss": step % 8 == 0 or step == 25, "train_loss": step < 25, "grad_norm": step < 25, "tokens_per_second": step > 0}


def test_an_untrained_model_knows_nothing(go):
    go("--max-iters=0 --out=out text.txt")
    assert [float(row["val_loss"]) for row in log_of("out")] == [pytest.approx(math.log(14), abs=0.05, rel=0)]


FEW = "--n-layer=2 --n-embd=12 --n-head=3 --block-size=37 --batch-size=9 --sample=20"
WIDE = "--n-head=4 --block-size=40 --batch-size=6 --max-iters=3 --probe-interval=2 --n-embd=256"


# Wide models take several row blocks at once through a sub-layer, if a thread has as many. One thread has here, and of eight each
# has one row block.
@pytest.mark.parametrize("words, threads", [
    (f"{FEW} --norm=ln --dropout=0.1", (8, 2, 3, 16)),
    (f"{FEW} --norm=bn --dropout=0.1", (8, 2, 3, 16)),
    *(pytest.param(f"{WIDE} {words}", (8,), marks=[pytest.mark.sweep] if i % 3 else []) for i, words in enumerate((
        "--norm=ln --postln --dropout=0.1",
        "--norm=bn --qk-norm=bn --act=relu",
        "--norm=rms --placement=ngpt",
        "--norm=prepbn --placement=siamese --ffn-norm=gn",
        "--norm=ln --placement=layerscale --dropout=0.1 --qk-norm=ln --qk-scale=learned",
        "--norm=rms --placement=rezero --preset=llama",
        "--norm=ln --placement=hybrid --n-embd=1024")))])
def test_the_same_bits_for_any_number_of_threads(go, words, threads):
    go("--threads=1 --out=one text.txt", words)
    for number in threads:
        go(f"--threads={number} --force --out=other text.txt", words)
        same_folder("one", "other")


def test_a_run_s_config_makes_the_run_again(go, done):
    go("--norm=rms --postln --dropout=0.2 --seed=5 --learning-rate=0.02 --schedule=linear --act=relu --bias=off --out=a text.txt")
    done("--quiet --config=a/config.ini --out=b")
    same_log("a", "b")
    for name in "config.ini", "model.safetensors":
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    put_text("other.txt", 900)
    done("--quiet --config=a/config.ini --max-iters=2 --norm=ln --out=c other.txt")
    expect_members("c", steps=2, corpus="other.txt")


def test_a_folder_by_name(go):
    for words in "", "", "--norm=batchnorm --postln --seed=7", "--norm=bn --placement=postln", "--connection=hyper":
        go(words, "text.txt")
    names = {"ln-pre-s1", "ln-pre-s1-2", "bn-post-s7", "bn-post-s1", "ln-pre-hyper-s1"}
    assert {path.parent.name for path in Path("runs").glob("*/summary.json")} == names == set(os.listdir("runs"))


def test_standard_input_equals_the_file(go):
    go("--out=file text.txt")
    for folder, corpus in ("dash", "-"), ("option", "--corpus=-"):
        with open("text.txt", "rb") as text:
            go(f"--out={folder}", corpus, stdin=text)
        same_log("file", folder)
    expect_members("dash", corpus="standard input")


def test_a_run_that_learned_nothing_is_stuck(go, done):
    """A run that learns only frequencies says so, and resumed or with the vocabulary of another text it says the same."""
    said = done(TINY, "--learning-rate=1e-9 --min-lr=0 --out=a text.txt").err
    a = summary_of("a")
    assert a["stuck"] and ("stuck: the model has learned nothing beyond how frequent each character is, a loss of "
                           f"{min(a['unigram_entropy'], a['unigram_val_loss']):.4f} ") in said
    said = done(TINY, "--max-iters=400 --learning-rate=0.03 --out=b text.txt").err
    b = summary_of("b")
    assert "stuck" not in said and not b["stuck"] and b["val_loss"] < a["unigram_entropy"] - 0.05
    done("--resume=a --quiet --max-iters=5")
    go("--start=b --max-iters=1 --learning-rate=1e-9 --min-lr=0 --out=c text.txt")
    assert {summary_of(folder)["unigram_entropy"] for folder in "abc"} == {a["unigram_entropy"]}
    expect_members("c", stuck=False)


def test_where_validation_is_easier_its_loss_decides(go):
    Path("easy.txt").write_text("".join(chr(97 + i * i % 17 % 8) if i < 1800 else "aab"[i % 3] for i in range(2000)))
    go("--max-iters=100 --learning-rate=1e-3 --out=out easy.txt")
    summary = summary_of("out")
    assert summary["unigram_val_loss"] < summary["val_loss"] < summary["unigram_entropy"] - 0.05 and summary["stuck"]


def test_random_characters_have_nothing_else_to_learn(go):
    go("--corpus=random --out=out")
    expect_members("out", unigram_entropy=None, stuck=False)


def test_the_built_in_grammar(go):
    go("--grammar-chars=3000 --out=a")
    expect_members("a", corpus_characters=3000)
    assert 0.1 < summary_of("a")["grammar_entropy"] < math.log(100)
    go("--grammar-chars=3000 --items --out=b")
    expect_members("b", grammar_entropy=None)  # it is that of the text, not of its lines


@pytest.mark.parametrize("piece, words, vocabulary", [
    (b"one two\r\nthree\r\n", "", 10),  # with \r
    (b"no final newline, ", "", 10),
    ("中文。".encode(), "", 3),
    ("中文。".encode(), "--level=byte", 9),
    (b"\xff\xfea\0b\0", "--level=byte", 5),
    (b"a", "", 1)])
def test_texts_of_all_sorts(go, piece, words, vocabulary):
    Path("sort.txt").write_bytes(piece * 100)
    go("--sample=10 --out=out sort.txt", words)
    expect_members("out", vocabulary=vocabulary)
    assert 10 <= len(Path("out/sample.txt").read_bytes()) <= 40


# Before a batch has changed them, the initial running statistics let a deep model's residual stream grow by a factor in each
# sub-layer. Then no loss is measured, and it is no divergence.
DEEP = "--norm=bn --placement=keel"


def test_running_statistics_that_have_met_no_batch(done):
    assert "no val loss" in done(TINY, DEEP, "--n-layer=20 --warmup-iters=50 --max-iters=50 --eval-interval=50 --out=out text.txt").err
    first, *_, last = log_of("out")
    assert first["train_loss"] and not first["val_loss"] and float(last["val_loss"]) < 10


@pytest.mark.parametrize("said, words", [
    ("diverged at step 0", "--norm=none --init=xavier --placement=keel --n-layer=60"),
    ("diverged at step 1: the validation loss", f"{DEEP} --bn-momentum=0 --n-layer=20")])
def test_a_loss_that_cannot_be_measured_later_is_a_divergence(refused, said, words):
    refused(DIVERGED, said, TINY, "--quiet --eval-interval=1 --out=out text.txt", words)


@pytest.mark.parametrize("corpus", ["text.txt", "--items items.txt"])
def test_a_run_that_diverges_in_its_last_sample(go, refused, corpus):
    """The summary of a run whose model is measured nowhere, and gives no numbers in its sample, says so."""
    put_items("items.txt", 60)
    go(DEEP, "--n-layer=40 --max-iters=0 --out=start", corpus)
    assert not Path("start/sample.txt").exists(), "random weights have written"
    refused(DIVERGED, "sample: the model's logits are nan or infinite", TINY, DEEP,
            "--quiet --n-layer=40 --max-iters=0 --start=start --sample=20 --out=far", corpus)
    expect_members("far", exit_reason="diverged")
    assert not Path("far/sample.txt").exists()


def test_what_is_said(done):
    ended = done(TINY, "--sample=25 --out=out text.txt")
    sample = Path("out/sample.txt").read_text()
    assert len(sample) == 25 and sample in ended.out
    assert "text.txt: 2000 characters, 14 different; ln, pre: " in ended.err and "done after 4 steps" in ended.err
    assert "\r" not in ended.err and "\033" not in ended.err, "not plain lines"
    untrained = done(TINY, "--max-iters=0 --out=untrained text.txt").err
    assert "-1" not in untrained and "nan" not in untrained
