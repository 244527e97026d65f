"""What people who know other programs type, and what the program answers."""
from pathlib import Path
import signal

import pytest

from conftest import TINY, USAGE, summary_of
from signals import interrupted


@pytest.mark.parametrize("words, line", [
    # other names of options and values
    ("--lr=3", "learning-rate = 3"),
    ("--lr 0.5", "learning-rate = 0.5"),
    ("--lr=2 --learning-rate=0.5", "learning-rate = 0.5"),
    ("--norm=layernorm", "norm = ln"),
    ("--norm=batchnorm", "norm = bn"),
    ("--norm-attn=rmsnorm", "norm-attn = rms"),
    ("--norm-ffn=groupnorm", "norm-ffn = gn"),
    ("--norm-final=scalenorm", "norm-final = scale"),
    ("--qk-norm=layernorm", "qk-norm = ln"),
    ("--qk-norm=auto", "qk-norm = off"),
    ("--v-norm=rmsnorm", "v-norm = rms"),
    ("--ffn-norm=powernorm", "ffn-norm = pn"),
    ("--placement=postln", "placement = post"),
    ("--config=full.ini", "norm = rms"),
    ("--config=lr.ini", "learning-rate = 4"),
    # whole numbers with an exponent
    ("--warmup-iters=1e3", "warmup-iters = 1000"),
    ("--warmup-iters=2.5e3", "warmup-iters = 2500"),
    ("--warmup-iters=1E2", "warmup-iters = 100"),
    ("--warmup-iters=3.0", "warmup-iters = 3"),
    ("--seed=9007199254740991", "seed = 9007199254740991"),
    ("--eval-interval=auto", "eval-interval = auto"),
    # the last one counts, and the command line overrides a file
    ("--preln --preln", "placement = pre"),
    ("--postln --placement=post", "placement = post"),
    ("--postln --placement=postln", "placement = post"),
    ("--placement=mix --placement=lns", "placement = lns"),
    ("--norm=ln --norm=bn", "norm = bn"),
    ("--config=post.ini --preln", "placement = pre"),
    # placements and connections that fit
    ("--placement=residual --placement-attn=residual", "placement-attn = residual"),
    ("--placement-attn=preln --placement=post", "placement-attn = pre"),
    ("--placement=siamese --connection=siamese", "connection = siamese"),
    ("--placement-ffn=post --connection=residual", "connection = residual")])
def test_what_the_words_mean(done, words, line):
    for name, text in {"full": "norm = rmsnorm", "lr": "lr = 4", "post": "placement = post"}.items():
        Path(f"{name}.ini").write_text(f"{text}\n")
    done(TINY, "--max-iters=0 --quiet --out=out", words)
    assert line in Path("out/config.ini").read_text().splitlines()


@pytest.mark.parametrize("updates, interval", [(0, 1), (7, 1), (24, 3), (2008, 250)])
def test_a_run_is_evaluated_eight_times_or_every_250_updates(done, updates, interval):
    options = done(f"--show-options=json --eval-interval=auto --max-iters={updates}").out
    assert f'"eval-interval": {{"value": {interval},' in options


@pytest.mark.parametrize("words, said", [
    *((f"--max-iters={number}", f"--max-iters={number}: must be a whole number from 0")
      for number in "1.5 2.55e1 1e e3 1e3x 1e10 1e99 1e-1 0x1 1e9999 -1e0 1e3.5".split()),
    ("--batch=3", "(did you mean --batch-size or --batch-parts?)"),
    ("--gc=3", "(did you mean --grammar-chars or --grad-clip?)"),
    ("--wd=3", "(did you mean --weight-decay?)"),
    ("--layer=3", "(did you mean --n-layer or --show-layer?)"),
    ("--n_layer=3", "(did you mean --n-layer?)"),
    ("--rate=3", "(did you mean --learning-rate?)"),
    ("--max-it=3", "(did you mean --max-iters?)"),
    ("--iters=3", "(did you mean --items, --max-iters, --warmup-iters, --lr-decay-iters or --eval-iters?)"),
    ("--lt=3", "(did you mean --lr?)"),
    ("--qq=3", "(--help=all lists them)"),
    ("--n=3", "(--help=all lists them)"),
    ("--no-bias-at-all=on", "--no-bias-at-all: no such option"),
    ("--=3", "no such option"),
    ("-c", "-c: options start with --"),
    ("-norm=ln", "(did you mean --norm=ln?)"),
    ("--norm=layernrom", "(did you mean layernorm?)"),
    ("--norm=LN", "(did you mean ln?)"),
    ("--norm=batch", "(did you mean batchnorm or batchrenorm?)"),
    ("--norm=nl", "(did you mean ln"),
    ("--qk-norm=rsm", "(did you mean rms?)"),
    ("--placement=sandwhich", "(did you mean sandwich?)"),
    ("--act=rlu", "(did you mean relu?)"),
    ("--schedule=const", "(did you mean constant?)"),
    ("--postln --preln", "--preln: contradicts --postln (give one of them)"),
    ("--placement=sandwich --preln", "--preln: contradicts --placement=sandwich"),
    ("--preln --placement sandwich", "--placement: contradicts --preln"),
    ("--preln --placement=postln", "--placement=postln: contradicts --preln"),
    ("--placement-attn=residual", "--placement-attn=residual: cannot be combined with --placement=pre, because all sub-layers must "
     "share the streams of residual"),
    ("--placement=residual --placement-ffn=post", "--placement-ffn=post: cannot be combined with --placement=residual"),
    ("--placement=deepnorm --connection=rezero",
     "--connection=rezero: cannot be combined with --placement=deepnorm: its formula has its own connection"),
    ("--placement=ngpt --connection=plain", "--connection=plain: cannot be combined")])
def test_what_is_refused(refused, words, said):
    refused(USAGE, said, words)


def test_a_value_like_no_other_is_no_suggestion(refused):
    assert "did you mean" not in refused(USAGE, "--norm", "--norm=xyzzy")


@pytest.mark.parametrize("folder, quoted", [("out", "--resume=out"), ("it's$1", "'--resume=it'\\''s$1'"),
                                            ("a\nb'\\\033c", "$'--resume=a\\012b\\047\\134\\033c'")])
def test_an_interrupted_run_says_how_to_continue(run, text, folder, quoted):
    """The last line is a command that the shell runs."""
    ended = interrupted(signal.SIGINT, f"{folder}/log.csv", TINY, "--max-iters=1000000000 --log-interval=1000000 --eval-interval=1000000",
                        [f"--out={folder}"], "text.txt")
    *before, last = ended.err.splitlines()
    assert ended.status == 130 and "interrupted after " in before[-1] and last.startswith("to continue: ") and last.endswith(f" {quoted}")
    steps = summary_of(folder)["steps"] + 2
    assert run("bash", "-c", f"{last.removeprefix('to continue: ')} --max-iters={steps} --quiet").status == 0
    assert summary_of(folder)["steps"] == steps


def test_a_message_is_one_line_whatever_the_corpus_is_called(done):
    """A name may hold a newline, or bytes that a terminal obeys."""
    Path("text.txt").rename("a\n\033[2Jb.txt")
    said = done(TINY, "--out=out", ["a\n\033[2Jb.txt"]).err
    assert said.startswith("a??[2Jb.txt: 2000 characters") and "\033" not in said
    done("--quiet --resume=out --max-iters=5")


def test_random_characters_and_a_model_s_vocabulary(out, refused):
    out(TINY, "--quiet --corpus=random --random-chars=30 --out=random")
    out(TINY, "--quiet --out=text text.txt")
    assert "loss: 3.4" in out("--evaluate=random --corpus=random")
    out("--evaluate=random --corpus=random --random-chars=9")
    refused(USAGE, "--corpus=random: samples from 31 characters, U+0100 to U+011E, but the model's vocabulary of 30 lacks U+011E",
            "--evaluate=random --corpus=random --random-chars=31")
    refused(USAGE, "but the model's vocabulary of 14 lacks U+0100", "--evaluate=text --corpus=random --random-chars=14")
    refused(USAGE, "--level=byte: --corpus=random is made of characters", TINY, "--corpus=random --level=byte")
