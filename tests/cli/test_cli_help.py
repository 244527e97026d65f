"""--help and its topics, the man page and the completion, all of which are made from the table of options. What --help says
about an option."""
from pathlib import Path
import re
import shutil

import pytest

from models import options, values

TOPICS = list(dict.fromkeys(option["topic"] for option in options().values()))


def words_of(text):
    """Words and names with hyphens."""
    return re.findall(r"[a-z-]+", text)


def expect_narrow(text):
    assert max(map(len, text.splitlines())) <= 79


def test_the_first_page_fits_a_screen(done):
    first = done("--help").out
    expect_narrow(first)
    assert first.count("\n") <= 33 and first.startswith("Usage: train [OPTION]... [CORPUS]\n")
    assert done("-h").out == first
    basic = {"recipe", "n-layer", "n-embd", "block-size", "norm", "placement", "max-iters", "batch-size", "seed", "learning-rate",
             "optimizer", "out", "resume", "generate", "evaluate"}
    assert basic == set(re.findall(r"^  --([a-z-]+)", first, re.M))
    assert {*TOPICS, *values("norm"), *values("placement")} <= set(re.findall(r"[a-z0-9-]+", first))
    assert len(TOPICS) >= 7


def test_each_topic_has_its_options_and_all_has_each_topic(done):
    everything = done("--help=all").out
    expect_narrow(everything)
    for topic in TOPICS:
        page = done(f"--help={topic}").out
        assert page in everything
        assert [name for name, option in options().items() if option["topic"] == topic
                and f"\n  --{name}" not in page and not (name == "help" and "--help[" in page)] == []
    assert done("--help logging").out == done("--help=logging").out
    assert "Usage" in done("--help --logging").out


def test_the_norms_are_listed_once(done):
    everything, page = done("--help=all").out, done("--help=norm").out
    assert "\n  derf, dynamicerf " in everything
    for rare in "groupnorm", "instancenorm", "rmsnorm", "identity":
        assert words_of(everything).count(rare) == 1, rare
    assert [norm for norm in values("norm") if f"\n  {norm}" not in page] == []
    assert "options: dyt-alpha" in page


@pytest.mark.parametrize("option, said", [
    ("norm-attn", "  --norm-attn=auto|NORM"),
    ("norm-attn", "Values: auto, none (identity), ln (layernorm), rms (rmsnorm), bn"),
    ("dropout", "default 0, range 0 to 0.99"),
    ("norm-groups", "--norm=gn|ts; default"),
    ("mix-fraction", "--placement=mix; default 0.25"),
    ("grammar-seed", "--corpus; default 1")])
def test_one_option(done, option, said):
    page = done(f"--help={option}").out
    expect_narrow(page)
    assert said in page and (option != "dropout" or page.count("\n") == 1)


@pytest.mark.parametrize("word, said", [
    ("--help=nrom", "--help=nrom: no such topic or option (did you mean norm?)"),
    ("--help=trainig", "did you mean training?"),
    ("--help=drop-out", "did you mean dropout?"),
    ("--help=rms", "--help=rms: is a value of --norm (see --help=norm)"),
    ("--help=xyzzy", "(--help lists the topics)"),
    ("--help=", "--help: must not be empty")])
def test_unknown_topics(refused, word, said):
    refused(2, said, word)


def test_whoever_stops_reading_is_no_failure(run):
    # the reader ends before the first byte
    assert run("bash", "-c", 'set -o pipefail; { sleep 0.2; "$TRAIN" --help=all; } | true').status == 0


def test_the_man_page_has_every_option(done):
    page = done("--help=man").out
    assert page.startswith(".TH NORMLAB 1 ")
    escaped = [name.replace("-", "\\-") for name in options()]
    assert [name for name in escaped if f"\\-\\-{name}" not in page] == []
    titles = re.findall(r"^([A-Z][^.\n]*):$", done("--help=all").out, re.M)
    assert len(titles) == len(TOPICS) and [title for title in titles if f".SS {title}" not in page] == []


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff (apt-get install groff-base)")
def test_groff_formats_the_man_page(run):
    ended = run("bash", "-c", '"$TRAIN" --help=man | groff -man -ww -Tascii')
    assert "NORM is one of:" in ended.out and ended.err == ""


@pytest.fixture
def completed(run):
    """Returns the completions of the last word."""
    Path("poem one.txt").write_text("x")
    Path("poems").mkdir()
    def completions(words):
        ended = run("bash", "-c", f'eval "$("$TRAIN" --help=completion)"; COMP_WORDS=(train {words}); '
                    'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _normlab; printf "%s\\n" "${COMPREPLY[@]}"')
        assert (ended.status, ended.err) == (0, "")
        return ended.out.splitlines()
    return completions


@pytest.mark.parametrize("words, wanted", [
    ("--norm-f", ["--norm-ffn=", "--norm-final="]),
    ("--norm = p", ["pn-v", "pn", "prepbn"]),
    ("--norm p", ["pn-v", "pn", "prepbn"]),
    ("--norm=p", ["--norm=pn-v", "--norm=pn", "--norm=prepbn"]),
    ("--placement = re", ["reordered", "residual", "rezero"]),
    ("--qk-norm = o", ["off", "on"]),
    ("--pos", ["--position=", "--postln"]),
    ("--qui", ["--quiet"]),
    ("--items = of", ["off"]),
    ("--help = pla", ["placement"]),
    ("--seed = 1", [""]),
    ("--lr = 1", [""]),
    ("po", ["poem one.txt", "poems"]),
    ("--quiet po", ["poem one.txt", "poems"]),
    ("--items po", ["poem one.txt", "poems"]),
    ("--config = po", ["poem one.txt", "poems"]),
    ("--out = po", ["poems"]),
    ("--norm = bn po", ["poem one.txt", "poems"])])
def test_completion(completed, words, wanted):
    assert completed(words) == wanted


def test_completion_of_norms_and_options(completed):
    assert set(values("norm")) <= set(completed('--norm = ""'))
    assert {f"--{name}" for name in options()} <= {word.rstrip("=") for word in completed("--")}


@pytest.mark.parametrize("name", [name for name in options() if name != "help"])
def test_every_option_has_help(done, name):
    option = options()[name]
    page = re.search(rf"^  --{name}(?![a-z-]).*?(?=^  --|\Z)", done(f"--help={name}").out, re.M | re.S)[0]
    line = " ".join(page.split()) + " "
    assert option["help"] in line
    if "default" in option:
        assert f"; default {option['default']}" in line
    ends = re.search(r", range (\S+) to (\S+?)[,;]? ", line)
    assert bool(ends) == (option["kind"] in ("integer", "real"))
    assert not ends or [float(end) for end in ends.groups()] == [option["min"], option["max"]]
    metavar = re.match(rf"--{name}\S*[A-Z]", line)
    assert metavar or not [value for value in option.get("values", []) if value not in line]


@pytest.mark.parametrize("start", ["--seed=N ", "--out=DIR ", "--bias=on|off ", "--schedule=cosine|linear|constant|wsd"])
def test_the_form_of_an_option(done, start):
    assert start in done("--help=all").out
