"""Models of other programs in use: what their files lack, what must fit, and what is refused; the types of their numbers."""
from pathlib import Path

import numpy
import pytest

from conftest import MACHINE, TINY, USAGE, put_arrays, put_text
from models import every_norm_and_placement
from pytorch.model_file import read_plain

WTE, HEAD, FC, BIAS = "transformer.wte.weight", "lm_head.weight", "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.ln_2.bias"
SAID = "--n-head=2 --vocabulary=text.txt"  # what other.st, a file with nanoGPT's names that has only weights, does not say
MEASURE, GENERATE = "--quiet other.txt --batch-size=2 --evaluate=", "--quiet --prompt=the --num-chars=40 --generate="
LETTERS = "10 32 44 46 97 99 100 101 103 104 110 111 115 116"


@pytest.fixture
def learn(done):
    """Trains a run in out/; returns its weights."""
    def learnt(*words):
        done(TINY, "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 --log-interval=1000 --out=out", *words, "text.txt")
        put_text("other.txt", 300)
        return read_plain("out/model.safetensors")[1]
    return learnt


@pytest.fixture
def model(learn):
    """A file of another program: it gives the results of the run in out/."""
    return learn()


@pytest.fixture
def expect_same(done):
    """other.st must give the same measurement and the same generated text as the run."""
    def same(arrays, words, texts=()):
        put_arrays("other.st", arrays, texts)
        for use in MEASURE, GENERATE:
            assert done(f"{use}other.st", words).out == done(f"{use}out").out
    return same


@pytest.fixture
def expect_refused(refused):
    """other.st must be refused, both for generation and for evaluation."""
    def both(status, said, arrays, words=SAID, texts=()):
        put_arrays("other.st", arrays, texts)
        refused(status, said, "--generate=other.st", words)
        refused(status, said, "--evaluate=other.st other.txt", words)
    return both


@pytest.mark.parametrize("words, said", [
    ("", "other.st: does not say how many heads it has (give --n-head=N"),
    ("--n-head=2", "other.st: has no vocabulary (give --vocabulary=FILE, the text that it was"),
    (f"{SAID} --n-head=3", "--n-embd=8: must be a multiple"),
    (f"{SAID} --n-layer=2", "--n-layer=2: contradicts --n-layer=1 of"),
    (f"{SAID} --bias=off", "--bias=off: contradicts --bias=on of")])
def test_what_a_file_does_not_say_is_asked_for(model, expect_refused, words, said):
    expect_refused(USAGE, said, model, words)


def test_what_no_array_shows_the_command_line_may_say(model, expect_same, done):
    expect_same(model, SAID)
    usual = done(f"{MEASURE}out").out
    assert done(f"{MEASURE}other.st --config=out/config.ini --vocabulary=text.txt").out == usual
    for option in "--n-head=4", "--act=relu", "--act=gelu-tanh", "--norm-eps=0.1":
        assert done(f"{MEASURE}other.st {SAID}", option).out != usual, f"{option} makes no difference"


def test_what_a_file_says_need_not_be_asked_for(model, expect_same, expect_refused):
    texts = {"format": "pt", "n-head": "2", "vocabulary": LETTERS}
    expect_same(model, "", texts)
    expect_refused(USAGE, "--n-head=4: contradicts --n-head=2 of other.st", model, "--n-head=4", texts)


@pytest.mark.parametrize("status, said, words, texts", [
    (USAGE, "--act=relu: contradicts --act=gelu of other", f"{SAID} --act=relu", {"act": "gelu"}),
    (USAGE, "other.st: n-head=many: must be a whole number", SAID, {"n-head": "many"}),
    (MACHINE, "other.st: n-layer, n-embd,", SAID, {"n-layer": "2"}),
    (MACHINE, "other.st: n-layer, n-embd,", SAID, {"n-embd": "16"}),
    (MACHINE, "other.st: n-layer, n-embd,", SAID, {"block-size": "16"}),
    (MACHINE, "other.st: n-layer, n-embd,", SAID, {"bias": "off"}),
    (MACHINE, "other.st: its embedding has 14 characters, but its vocabulary has 6", "--n-head=2 --vocabulary=short.txt", {}),
    (MACHINE, "its embedding has 14 characters, but its vocabulary has 3", "--n-head=2", {"vocabulary": "10 32 44"}),
    (MACHINE, "its vocabulary is not a list of ascending", "--n-head=2", {"vocabulary": "32 10"})])
def test_texts_must_fit(model, expect_refused, status, said, words, texts):
    Path("short.txt").write_text("the cat")
    expect_refused(status, said, model, words, texts)


def test_the_command_line_s_vocabulary_overrides_the_file_s(model, expect_same):
    expect_same(model, SAID, {"vocabulary": "10 32 44"})


def test_a_head_of_its_own_or_none(model, expect_same, expect_refused):
    rest = {name: array for name, array in model.items() if name not in (WTE, HEAD)}
    expect_same(rest | {WTE: model[WTE]}, SAID)
    for names in {HEAD: model[HEAD]}, {"embedding": model[HEAD], "weight": model[WTE]}:
        expect_refused(MACHINE, "other.st: holds no model with nanoGPT's names", rest | names)
    model[HEAD][0, 3] += 0.001
    expect_refused(MACHINE, "lm_head.weight: is not transformer.wte.weight", model)


def test_no_array_may_be_missing_or_have_another_shape(model, expect_refused):
    assert len(model) > 10
    for name, array in model.items():
        if name not in (WTE, HEAD):
            expect_refused(MACHINE, "other.st: ", {other: kept for other, kept in model.items() if other != name})
        if name != "transformer.wpe.weight":  # a shorter context is valid too
            expect_refused(MACHINE, "other.st: ", model | {name: array[:-1]})
        expect_refused(MACHINE, "other.st: ", model | {name: array[None]})
    expect_refused(MACHINE, f"{FC}: is missing", {name: array for name, array in model.items() if name != FC})
    # transposed, as in GPT-2's own files
    expect_refused(MACHINE, "mlp.c_fc.weight: its shape differs from that", model | {FC: numpy.ascontiguousarray(model[FC].T)})


@pytest.mark.parametrize("name", ["transformer.h.1.ln_1.weight", "transformer.h.0.ln_3.bias", "transformer.ln_f.running_mean",
                                  "classifier.weight"])
def test_no_array_may_be_too_many(model, expect_refused, name):
    expect_refused(MACHINE, f"other.st: {name}: is not part of this model", model | {name: numpy.zeros(8, "float32")})


def test_every_array_holds_numbers(model, expect_refused):
    model[BIAS][7] = numpy.nan
    expect_refused(MACHINE, f"{BIAS}: holds nan or infinity", model)


@every_norm_and_placement
def test_every_model_without_its_texts(learn, expect_same, expect_refused, model):
    arrays, words = learn(model), f"{model} {SAID}"
    if "--position" in model:
        expect_refused(USAGE, "other.st: does not say how long its context is", arrays, words)
        words += " --block-size=8"
    expect_same(arrays, words)


def test_single_and_double_precision(model, done):
    """Weights of +-1/4 give the same results, whether the file holds them in 32 or 64 bits."""
    def measured(kind):
        put_arrays("other.st", {name: numpy.copysign(0.25, array).astype(kind) for name, array in model.items()})
        return done(f"{MEASURE}other.st", SAID).out
    assert measured("float32") == measured("float64")
