"""Stored models in use: --generate and --evaluate."""
import math
from pathlib import Path
import re
import shutil

import pytest

from conftest import MACHINE, TINY, USAGE, log_of, loss_in, put_text, refusal, summary_of
from models import every_row

GENERATE = "--generate=out --prompt=the --num-chars=40"


@pytest.fixture
def learn(done):
    return lambda *words: done(TINY, "--quiet --max-iters=30 --learning-rate=0.02 --eval-iters=0 --eval-interval=1000 "
                               "--log-interval=1000", *words)


# ---- --generate ----

def check_use(learn, out, model):
    """A model that was read from its file generates what it generated in memory, and its loss is the last one of the log."""
    learn(model, "--sample=60 --out=out text.txt")
    text, loss = out("--generate=out --num-chars=60"), out("--evaluate=out")
    assert text == f"{Path('out/sample.txt').read_text()}\n"
    assert out("--generate=out/model.safetensors --num-chars=60 --threads=3") == text
    assert f"loss: {log_of('out')[-1]['val_loss']} nats per character\n" in loss
    assert ": the validation split of text.txt, 199 characters\n" in loss
    assert out("--evaluate=out --threads=3") == loss


@every_row
def test_a_stored_model_is_the_model_in_memory(learn, out, model):
    check_use(learn, out, model)


@pytest.mark.parametrize("model", ["--norm=bn --bn-axis=batch", "--norm=ln --attn-gate=element"])  # the widest weight of attention
def test_more_stored_models(learn, out, model):
    check_use(learn, out, model)


def test_what_the_options_say(learn, out):
    learn("--out=out text.txt")
    text, likeliest = out(GENERATE, "--seed=1"), out(GENERATE, "--temperature=0")
    assert len(text) == 44 and text.startswith("the")
    assert out("--generate=out --prompt the --num-chars 40") == text != out(GENERATE, "--seed=2")
    assert out(GENERATE, "--top-k=1") == likeliest == out(GENERATE, "--temperature=0 --seed=9")
    assert out(GENERATE, "--num-chars=0") == "the\n" and out("--generate=out --num-chars=0") == "\n"
    assert len(out("--generate=out")) == 501, "500 by default"
    assert len(list(Path("out").iterdir())) == 6, "something was written"


def test_stop_and_samples(learn, out, refused):
    """--stop ends a text after the first of its kind, in what is new; --num-samples continues the same random stream."""
    learn("--out=out text.txt")
    words = "--generate=out --prompt=the --num-chars=200"
    text = out(words)
    begins_in_the_prompt, nowhere = text[2:4], f"\n{text[3]}"
    for stop in begins_in_the_prompt, nowhere, *(text[3 * i:3 * i + 2] for i in range(2, 22)):
        at = text.find(stop, 3)
        assert out(words, ["--stop", stop]) == (f"{text[:at + 2]}\n" if at >= 0 else text), stop
    first, second, third = out("--generate=out --prompt=the --num-chars=20 --num-samples=3").removesuffix("\n").split("\n---\n")
    assert out("--generate=out --prompt=the --num-chars=20") == f"{first}\n" and len(first) == len(second) == len(third) == 23
    assert second.startswith("the") and third.startswith("the") and second != third, "the same twice"
    refused(USAGE, "--stop: has U+00E9", "--generate=out --stop=é")


def test_any_length(learn, out):
    """Texts longer than the block, and prompts longer than it: a long text and the same text given its own beginning as a
    prompt continue alike, since the window depends on the text alone."""
    learn("--norm=bn --out=out text.txt")
    text = out("--generate=out --prompt=a --num-chars=300 --temperature=0")
    assert len(text) == 302
    for given in range(1, 60, 7):
        assert out("--generate=out --temperature=0 --num-chars=100", [f"--prompt={text[:given]}"]) == f"{text[:given + 100]}\n", given


@pytest.mark.parametrize("status, said, words", [
    (USAGE, "--prompt: has U+0043 (C), which the model's vocabulary lacks", ["--generate=out", "--prompt=the Cat"]),
    (USAGE, "has U+00E9 (é), ", ["--generate=out", "--prompt=aé"]),
    (USAGE, "has U+0009, ", ["--generate=out", "--prompt=a\tb"]),
    (USAGE, "--prompt: not UTF-8 at byte 4, 0xff", ["--generate=out", "--prompt=the \udcff"]),
    (USAGE, "--norm=bn: contradicts --norm=ln of out/model.safetensors", "--generate=out --norm=bn"),
    (USAGE, "--block-size=16: contradicts --block-size=8", "--generate=out --block-size=16"),
    (USAGE, "--generate needs no corpus", "--generate=out text.txt"),
    (USAGE, "contradict each other (give one of them)", "--generate=out --evaluate=out"),
    (MACHINE, "nowhere: No such file or directory", "--generate=nowhere"),
    (MACHINE, "text.txt: not a valid safetensors file", "--generate=text.txt"),
    (USAGE, "one.txt: needs at least two characters to be measured", "--evaluate=out one.txt"),
    (MACHINE, "cat.txt: has U+0043 (C), which the model's vocabulary lacks", "--evaluate=out cat.txt"),
    (USAGE, "--n-layer=2: contradicts --n-layer=1", "--evaluate=out --n-layer=2")])
def test_what_does_not_fit_the_model_is_refused(learn, refused, status, said, words):
    learn("--out=out text.txt")
    Path("one.txt").write_text("a")
    Path("cat.txt").write_text("a Cat")
    refused(status, said, words)


BYTES = b"\xe4\xb8\xad\xff\xf0\x9f\x98\x81 a\xc3"
BABBLE = "--generate=out --num-chars=400 --temperature=2"


@pytest.fixture
def learn_bytes(learn):
    """Puts a model of bytes into a folder."""
    Path("bytes.txt").write_bytes(BYTES * 400)
    return lambda *words: learn("--level=byte --max-iters=3 bytes.txt", *words)


def test_bytes_are_written_as_they_are(learn_bytes, out):
    learn_bytes("--out=out")
    text = out(BABBLE).encode(errors="surrogateescape")
    assert len(text) == 401 and b"\xff" in text and "\ufffd".encode() not in text
    prompt = b"a\xff\xe4\xb8".decode(errors="surrogateescape")
    assert out("--generate=out --num-chars=0", [f"--prompt={prompt}"]) == f"{prompt}\n"
    learn_bytes("--sample=400 --out=sampled")
    sample = Path("sampled/sample.txt").read_bytes()
    assert len(sample) == 400 and b"\xff" in sample and "\ufffd".encode() not in sample


@pytest.mark.skipif(not shutil.which("script"), reason="no script (apt-get install bsdutils)")
def test_a_terminal_gets_characters(learn_bytes, run):
    """Only a terminal, for which script(1) stands, gets U+FFFD for bytes that are not UTF-8."""
    learn_bytes("--out=out")
    shown = run("bash", "-c", f"""script -qec "'$TRAIN' {BABBLE}" /dev/null""").out
    assert "\ufffd" in shown and shown.encode(errors="surrogateescape").decode()


# ---- --evaluate ----

def test_evaluate_gives_the_accuracy_of_the_summary(learn, out):
    """The fraction of characters that the model found likeliest, as the run's summary has it. A cap so low that nearly half of
    all characters are equally likely makes it a guess."""
    learn("--out=out text.txt")
    learn("--logit-softcap=1e-6 --out=capped text.txt")
    accuracy = {folder: summary_of(folder)["val_accuracy"] for folder in ("out", "capped")}
    assert 0.05 < accuracy["out"] < 1 and 0 < accuracy["capped"] < 0.2
    for folder, value in accuracy.items():
        assert f"\naccuracy: {value:.4f}\n" in out(f"--evaluate={folder}")


def test_another_corpus_is_measured_as_a_whole(learn, out):
    learn("--eval-iters=1 --out=out text.txt")
    put_text("other.txt", 801)  # full blocks of 8, and the character before them
    text = out("--evaluate=out other.txt")
    assert ": other.txt, 800 characters\n" in text and 0.01 < loss_in(text) < math.log(14)
    assert loss_in(out("--evaluate=out other.txt --batch-size=7")) == pytest.approx(loss_in(text), abs=1e-5, rel=0)
    Path("two.txt").write_text("at")
    assert ": two.txt, 1 characters\n" in out("--evaluate=out two.txt")
    assert loss_in(out("--evaluate=out -", input=Path("other.txt").read_text())) == loss_in(text)


def test_all_of_a_text_that_is_named_is_measured(learn, out, train):
    """Also if it is the text that the model was trained on, whose split is measured if none is named."""
    learn("--hold-out=0.2 --out=out text.txt")
    text = Path("text.txt").read_text()
    Path("copy.txt").write_text(text)
    Path("longer.txt").write_text(f"{text}a")
    unchanged, longer = out("--evaluate=out text.txt"), out("--evaluate=out longer.txt")
    assert ": text.txt, 1999 characters\n" in unchanged and ": longer.txt, 2000 characters\n" in longer
    assert loss_in(out("--evaluate=out --corpus=copy.txt")) == loss_in(unchanged)
    assert loss_in(longer) == pytest.approx(loss_in(unchanged), abs=0.02, rel=0)
    for option in "--val-fraction=0.5", "--hold-out=0":
        said = train("--evaluate=out text.txt", option).err
        assert f"no effect: {option.partition('=')[0]} (not with a corpus for --evaluate)" in said
    assert ": the validation split of text.txt, 999 characters\n" in out("--evaluate=out --hold-out=0 --val-fraction=0.5")
    Path("text.txt").write_text(text[:-1])  # the run's own text has changed
    ended = train("--evaluate=out")
    assert ": text.txt, 1998 characters\n" in ended.out and "note: text.txt has changed since the model was trained" in ended.err
    learn("--items --out=items items.txt")
    assert " and ends of 100 items\n" in out("--evaluate=items items.txt") and " and ends of 10 items\n" in out("--evaluate=items")


def test_a_text_that_is_gone_cannot_be_measured(learn, train):
    learn("--out=out text.txt")
    Path("text.txt").unlink()
    refusal(train("--evaluate=out"), MACHINE, "text.txt: No such file or directory")


def test_evaluate_the_grammar(learn, out):
    learn("--grammar-chars=3000 --out=out")
    text = out("--evaluate=out")
    assert loss_in(text) == pytest.approx(summary_of("out")["val_loss"], abs=1e-7, rel=0)
    assert "the validation split of the built-in grammar" in text


def losses(table):
    """The losses of --stats=all by source, as texts."""
    return dict(re.findall(r"^(running|own|other|single|position) +(\S+)", table, re.M))


def test_by_every_source_of_statistics(learn, out, refused):
    learn("--norm=bn --out=out text.txt")
    table = losses(out("--evaluate=out --stats=all"))
    assert len(table) == 5
    for source, loss in table.items():
        assert f"loss: {loss} nats" in out(f"--evaluate=out --stats={source}")
        assert float(loss) > 0.1 and (loss == table["running"]) == (source == "running"), source
    learn("--norm=ln --out=ln text.txt")
    table = losses(out("--evaluate=ln --stats=all"))
    assert table["position"] == "-" and float(table["single"]) == pytest.approx(float(table["running"]), abs=1e-6, rel=0)
    refused(USAGE, "--stats=position", "--evaluate=ln --stats=position")
    # with pn-v, the measured batch itself as the other one would give the loss of --stats=own
    learn("--norm=pn-v --out=pn text.txt")
    table = losses(out("--evaluate=pn --stats=all"))
    assert abs(float(table["other"]) - float(table["own"])) > 1e-4
    # a penalty does not belong to a forward pass
    learn("--norm=bn --rbn-mean=1 --rbn-var=1 --out=rbn text.txt")
    assert float(losses(out("--evaluate=rbn --stats=all"))["position"]) > 0.1


@pytest.mark.parametrize("short", ["a cat", "a cat a cat a cat"])  # a part of a batch; exactly one
def test_one_batch_has_no_other(learn, out, refused, short):
    """A single batch has no other batch to take statistics from."""
    learn("--norm=bn --batch-size=2 --out=out text.txt")
    Path("short.txt").write_text(short)
    assert losses(out("--evaluate=out --stats=all short.txt"))["other"] == "-"
    refused(USAGE, "short.txt is only one batch", "--evaluate=out --stats=other short.txt")


@pytest.mark.parametrize("norm", ["ln", "rms", "bn", "in"])
def test_how_far_the_future_is_seen(learn, out, norm):
    learn(f"--norm={norm} --out=out text.txt")
    rows = out("--evaluate=out --leak").partition("\n     t ")[2].splitlines()[1:]
    rows = [list(map(float, row.split())) for row in rows if re.fullmatch(r"[ 0-9.e+-]+", row)]
    assert len(rows) >= 5
    for _, *evaluated, in_training, more in rows:
        assert evaluated == [0, 0], "in evaluation"
        assert in_training == 0 if norm in ("ln", "rms") else in_training > 1e-4 and more > 0
