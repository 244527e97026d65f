"""What keeps the project in order: check_prose.py finds phrases and broken links,
run_tests.sh counts Python tests, same_bits.py finds what differs, and ./train says which options have an effect and what
"auto" became."""
import json
import math
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS, TINY, TRAIN, command

from common import run_options, runs
from upkeep import check_prose, same_bits


# ---- check_prose.py ----

def errors(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return [what for _, what in check_prose.errors(tmp_path / name, text)]


@pytest.mark.parametrize("name, text, found", [
    ("a.md", "They run in\nturns.", "alternately"), ("a.c", "/* They run in\n   turns. */", "alternately"),
    ("a.c", "// they run in\n// turns", "alternately"), ("a.c", '"They run in "\n    "turns"', "alternately"),
    ("a.py", "# They run in\n# turns", "alternately"), ("a.md", "It returns; to train anew-born", '"anew" (write: again)'),
    ("a.md", "\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n", "a row without the head of its table"),
    ("a.md", "# One (and) two\n[a](#one-and-two) [b](a.md) [c](https://x.org/y) [d](b.md)\n", "no such file or heading: b.md"),
    ("a.md", "# One\n[a](a.md#two)\n", "heading: a.md#two")])
def test_phrases_rows_and_links_are_found(tmp_path, name, text, found):
    error, = errors(tmp_path, name, text)
    assert found in error


# ---- lint.sh and check_house.py ----

@pytest.mark.parametrize("length, status", [(140, 0), (141, 1)])
def test_a_long_line_of_python_is_found(run, length, status):
    run("git", "init", "-q")
    Path("a.py").write_text("#" * length + "\n")
    Path("a.md").write_text("#" * 500 + "\n")
    ending = run("upkeep/check_house.py")
    assert (ending.status, ending.err) == (status, "a.py:1: 141 columns, at most 140\n" * status)


@pytest.mark.parametrize("head, status", [("/* What it is for. */\n", 0), ("", 1)])
def test_a_file_of_c_without_a_head_is_found(run, head, status):
    run("git", "init", "-q")
    Path("data").mkdir()
    Path("data/a.c").write_text(head + "int a;\n")
    ending = run("upkeep/check_house.py")
    assert ending.status == status
    assert ending.err == "data/a.c: does not start with a comment that gives its purpose\n" * status


@pytest.mark.parametrize("clock, status", [("clock_now", 0), ("omp_get_wtime", 1)])
def test_a_clock_that_can_be_put_back_is_found(run, clock, status):
    run("git", "init", "-q")
    Path("data").mkdir()
    Path("data/a.c").write_text(f"/* Waits. */\nstatic double now(void) {{\n    return {clock}();\n}}\n")
    ending = run("upkeep/check_house.py")
    assert ending.status == status
    assert ending.err == "data/a.c: omp_get_wtime() may be a clock that can be put back: clock_now()\n" * status


@pytest.mark.parametrize("name, status", [("a", 0), ("a_part", 0), ("b", 1)])
def test_a_function_that_another_module_defines_is_found(run, name, status):
    run("git", "init", "-q")
    Path("data").mkdir()
    Path("data/a.h").write_text("char *a_copy(const char *text);\n")
    Path(f"data/{name}.c").write_text("/* Copies. */\nchar *a_copy(const char *text) {\n    return 0;\n}\n")
    ending = run("upkeep/check_house.py")
    assert ending.status == status
    assert ending.err == "data/a.h: a_copy() is defined in another module's file\n" * status


@pytest.mark.parametrize("version, length, said", [("14.0.6", 72, []), ("15.0.7", 72, ["clang-format: version 15,"]),
                                                   ("14.0.6", 73, ["the newest commit's subject has 73 characters,"])])
def test_lint_names_another_clang_format_and_a_long_subject(run, tmp_path, version, length, said):
    shutil.copytree(SCRIPTS / "upkeep", "scripts/upkeep")
    for tool, text in {"clang-format-14": f"echo clang-format version {version}", "shellcheck": ""}.items():
        Path(tool).write_text(f"#!/bin/sh\n{text}\n")
        Path(tool).chmod(0o755)
    run("git", "init", "-q")
    run("git", "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "x" * length)
    ending = run("scripts/upkeep/lint.sh", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert [line.split("lint: ")[1][:len(said[0])] for line in ending.err.splitlines() if line.startswith("lint: ")] == said


# ---- run_tests.sh ----

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert 1 + 1 == 3\n"
SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('not here')\n"


@pytest.fixture
def count(run, tmp_path):
    """Puts test_NAME.py files into a tree, runs run_tests.sh there, and returns its ending."""
    for folder in "scripts/upkeep", "tests/cli", "tests/scripts":
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPTS / "upkeep" / "run_tests.sh", "scripts/upkeep")
    (tmp_path / "criterion").write_text("#!/bin/sh\necho '[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0'\n")
    (tmp_path / "criterion").chmod(0o755)

    def counted(pattern="", **texts):
        for name, text in texts.items():
            (tmp_path / f"tests/scripts/test_{name}.py").write_text(text)
        return run("scripts/upkeep/run_tests.sh", tmp_path / "criterion", tmp_path / "pytest",
                   env={"FILTER": pattern, "CRITERION_JOBS": "1", "PYTHONPATH": str(tmp_path)})

    return counted


def last(ending):
    return ending.out.splitlines()[-1]


def test_python_tests_are_counted_beside_the_others_and_failures_shown(count):
    ending = count(a=GOOD + SKIPPED, b=GOOD)
    assert (ending.status, last(ending)) == (0, "4 passed, 0 failed, 1 skipped")
    assert ending.out.splitlines()[-3:-1] == ["Skipped:", "  not here: a"]
    ending = count(a=GOOD, b=BAD)
    assert (ending.status, last(ending)) == (1, "3 passed, 1 failed")
    assert "E   assert (1 + 1) == 3" in ending.out and "test_b.py::test_bad" in ending.out


def test_skipped_tests_are_listed_by_reason(count):
    """Single tests and files."""
    for name in "tests/conftest.py", "tests/forked.py", "scripts/deps.sh":
        shutil.copy(ROOT / name, name)
    Path("torch.py").write_text("raise ImportError\n")
    whole = "from conftest import needs\nneeds('torch')\n"
    part = f"{SKIPPED}from conftest import needs\ndef test_needs(): needs('os', 'torch')\n"
    out = count(a=SKIPPED + SKIPPED.replace("skipped", "again"), b=part, c=whole).out.splitlines()
    assert out[-4:] == ["Skipped:", "  no torch (scripts/deps.sh pytorch): b c", "  not here: a b", "2 passed, 0 failed, 5 skipped"]


@pytest.mark.parametrize("text", ["import nothing_of_that_name\n", "import os\ndef test_crash(): os._exit(0)\n"])
def test_a_file_that_cannot_run_is_a_failure(count, text):
    ending = count(a=GOOD, b=text)
    assert ending.status == 1 and not last(ending).endswith(" 0 failed"), ending.out


def test_a_failure_of_pytest_itself_counts(count):
    Path("tests/conftest.py").write_text("def pytest_sessionfinish(session): session.exitstatus = 3\n")
    ending = count(a=GOOD, b=GOOD)
    assert (ending.status, last(ending)) == (1, "4 passed, 1 failed") and "pytest: ended with status 3" in ending.out


@pytest.mark.parametrize("pattern, total", [("norm/*", 2), ("pytest/*", 2), ("pytest/a*", 1)])
def test_filter_picks_programs_and_files(count, pattern, total):
    ending = count(pattern, a=GOOD, b=GOOD)
    assert (ending.status, last(ending)) == (0, f"{total} passed, 0 failed")


@pytest.mark.parametrize("pattern", ["nothing/*", "pytest/nothing"])
def test_a_filter_without_a_test_is_a_failure_that_names_it(count, pattern):
    Path("criterion").write_text("#!/bin/sh\necho '[====] Synthesis: Tested: 0 | Passing: 0 | Failing: 0'\n")
    ending = count(pattern, a=GOOD)
    assert (ending.status, last(ending)) == (1, "0 passed, 0 failed")
    assert ending.err.startswith(f"run_tests: FILTER='{pattern}': matches no test (")


@pytest.mark.parametrize("pattern, programs", [
    ("", {"float", "double"}), ("norm/*", {"float", "double"}), ("@(gradient|gradient_model)/*", {"double"}),
    ("items/*", {"float"}), ("pytest/upkeep", set()), ("nothing/*", set())])
def test_a_filter_builds_only_what_it_picks(run, pattern, programs):
    recipe = run("make", "-n", "-C", ROOT, "check", f"FILTER={pattern}", "BUILD=build/nothing").out
    assert {name for name in ("float", "double") if f"-o build/nothing/test-{name} " in recipe} == programs


# ---- run_options.py ----

def shown(*words):
    """What ./train --show-options=json says."""
    ending = command("train", "--show-options=json", *words, cwd=ROOT)
    assert (ending.status, ending.err) == (0, ""), ending.err
    return json.loads(ending.out)


@pytest.mark.parametrize("topic", ["norm", "placement"])
def test_short_names_are_those_of_train(topic):
    names = run_options.short_names(topic)
    assert names
    for full, short in names.items():
        assert shown(f"--{topic}={full}")[topic]["value"] == shown(f"--{topic}={short}")[topic]["value"] == short


# (the option, words with which it has an effect, words with which it has none)
CONDITIONS = [
    ("norm-groups", "--norm=gn", ""), ("mix-fraction", "--placement-ffn=mix", ""),
    ("lambda-start", "--placement=rezero", "--placement=rezero --connection=plain"),
    ("lambda-start", "--connection=skipinit", ""), ("grammar-seed", "", "--corpus=x"), ("pad-to", "--items x", ""),
    ("decay-gamma", "", "--weight-decay=0"), ("norm", "--placement=rezero --final-norm=on", "--placement=rezero"),
    ("qk-norm-over", "--placement=hybrid", ""), ("beta1", "--optimizer=muon", "--optimizer=sgd"),
    ("gated-rank", "--qk-norm=gated", ""), ("affine", "", "--placement=ngpt"), ("norm-final", "", "--placement=post")]


@pytest.mark.parametrize("name, with_effect, without", CONDITIONS)
def test_conditions(name, with_effect, without):
    assert shown(*with_effect.split())[name]["active"] is True and shown(*without.split())[name]["active"] is False


# (words, options with their values, options to which auto gives the value, options to which it does not)
AUTO = [
    ("--n-head=2", {"norm-groups": 2, "n-kv-head": 2, "min-lr": 1e-4, "ffn-width": 512}, "norm-groups n-kv-head min-lr", ""),
    ("--act=swiglu --lr=7e-3", {"ffn-width": 352, "min-lr": 7e-4}, "ffn-width min-lr connection", "learning-rate"),
    ("--min-lr=1e-4 --ffn-width=100", {"ffn-width": 100, "min-lr": 1e-4}, "", "min-lr ffn-width"),
    ("--max-iters=80 --grad-accum=2", {"lr-decay-iters": 80, "prepbn-steps": 160, "eval-interval": 10},
     "lr-decay-iters prepbn-steps eval-interval", "max-iters"),
    ("--max-tokens=7681", {"max-iters": 11, "lr-decay-iters": 11}, "lr-decay-iters", "max-iters"),
    ("--max-tokens=7681 --items missing.txt", {"max-iters": "auto", "lr-decay-iters": "auto"}, "lr-decay-iters", "items"),
    ("--qk-norm=l2 --block-size=4", {"qk-scale-start": math.log2(12)}, "qk-scale-start init-embd-std", "qk-norm"),
    ("--threads=1", {"threads": 1, "corpus": None, "bias": True, "force": False, "norm-attn": "auto"}, "norm-attn", "threads"),
    ("--norm-groups=1", {"norm-groups": 1}, "", "norm-groups")]


@pytest.mark.parametrize("words, values, auto, given", AUTO)
def test_what_auto_became(words, values, auto, given):
    rows = shown(*words.split())
    assert {name: rows[name]["value"] for name in values} == pytest.approx(values)
    assert [name for name in auto.split() if not rows[name]["auto"]] == []
    assert [name for name in given.split() if rows[name]["auto"]] == []


def test_show_options_reads_no_corpus_and_refuses_as_training_does():
    table = command("train", "--show-options", "--norm=gn", "no-such-file.txt", cwd=ROOT)
    assert table.status == 0 and "  norm-groups            4  (auto)\n" in table.out
    assert "  bn-momentum            0.1  no effect: only with --norm=bn" in table.out
    for words in ["--n-head=3"], ["--norm=xx"], ["--min-lr=1"]:
        refused, trained = (command("train", *first, *words, cwd=ROOT) for first in (["--show-options=json"], []))
        assert refused.status == 2 and (refused.out, refused.err) == ("", trained.err)


def test_a_run_s_folder_says_the_same(run):
    """At the end in summary.json, until then in config.ini; also of a run that was resumed, or repeated from a file."""
    words = [*TINY, "--norm=gn", "--act=swiglu"]
    rows = shown(*words)
    expected = [{name for name, row in rows.items() if holds(row)} for holds in
                (lambda row: not row["active"], lambda row: row["auto"])]
    assert run("train", *words, "--quiet", "--out=a").status == 0
    assert run("train", "--quiet", "--resume=a").status == 0
    assert run("train", "--config=a/config.ini", "--quiet", "--out=b").status == 0
    for folder in "a", "b":
        summary = runs.read_summary(f"{folder}/summary.json")
        both = [runs.read_options(folder, found) for found in (summary, {})]
        assert both[0] == both[1] and len(both[0]) > 80
        for options in both:
            assert [options.inactive, options.auto] == [names & set(options) for names in expected]
    old = runs.read_options("a", {"options": summary["options"]})  # as versions before these lists wrote it
    assert not old.inactive and old.is_active("bn-momentum") and not old.is_active("eval-iters")


# ---- same_bits.py ----

# What a program does after ./train, where `run` is the run's folder, and what is then found: the result that it changes.
CHANGES = [
    ("", None), (r"sed -i -E 's/^([0-9]+),[^,]*/\1,9/' run/log.csv", None),  # seconds may differ
    ("echo more >&2", "messages"), ("exit 1", "exit status"), ("echo >>run/probes.csv", "probes.csv"),
    ("truncate -s -1 run/model.safetensors; printf x >>run/model.safetensors", "model.safetensors"),
    (r"sed -i -E '2s/^([^,]*,[^,]*,[^,]*),[^,]*/\1,9/' run/log.csv", "log.csv"),  # the learning rate of one row
    ("rm run/probes.csv", "probes.csv")]


@pytest.mark.parametrize("change, found", CHANGES)
def test_same_bits_finds_the_one_thing_that_differs(run, change, found):
    """Three runs, on one to three threads."""
    changed = Path("changed")
    changed.write_text(f'#!/bin/sh\n"{TRAIN}" "$@" || exit\n[ "$1" != --help=json ] || exit 0\n{change}\n')
    changed.chmod(0o755)
    ending = run("upkeep/same_bits.py", "--part=1/160", TRAIN, changed)
    lines = ending.out.splitlines()
    assert ending.status == bool(found) and re.fullmatch(r"3 runs, of which \d trained.*", lines[-1]), ending
    assert lines[-1].endswith(f"{3 if found else 0} differ") and len(lines) == (4 if found else 1)
    assert all(f" --threads={number}: {found}" in line for number, line in enumerate(lines[:-1], 1)), lines
    if found:
        assert run("upkeep/same_bits.py", "--part=2/300", changed, TRAIN).status == 1


def test_same_bits_makes_a_run_of_every_value_of_every_choice():
    options = json.loads(command("train", "--help=json", cwd=ROOT).out)["options"]
    given = {word for words in same_bits.variants(options) for word in words}
    for option in options:
        if option.get("topic") in ("model", "norm", "placement", "optimizer") and option["kind"] == "choice":
            assert {f"--{option['name']}={value}" for value in option["values"]} <= given
    assert {word.partition("=")[0] for word in given} <= {f"--{option['name']}" for option in options}


def test_same_bits_refuses_what_is_no_program(run):
    ending = run("upkeep/same_bits.py", TRAIN, "nowhere")
    assert ending.status == 2 and "nowhere: is not a program" in ending.err


# ---- count_code.py ----

COUNTED = """#include <stdio.h>
static int done;
void matmul(void) {
    done++;
}
void products(void) {
    matmul();
}
void update_model(void) {
    products();
}
void evaluate_model(void) {
    matmul();
}
int main(int argc, char **argv) {
    int updates = 0, batches = 0;
    for (int i = 1; i < argc; i++)
        sscanf(argv[i], "--max-iters=%d", &updates), sscanf(argv[i], "--eval-iters=%d", &batches);
    for (int i = 0; i < updates; i++) update_model();
    for (int i = 0; i < batches; i++) evaluate_model();
}
"""


def test_count_code(run):
    """Lines of code that run in an update or a loss; the rest of main() runs as often without one more."""
    for folder in "model", "build":
        Path(folder).mkdir()
    Path("model/a.c").write_text(COUNTED)
    for words in "--coverage -c model/a.c -o build/a.o", "--coverage build/a.o -o build/train":
        assert run("gcc", *words.split()).status == 0
    ending = run("upkeep/count_code.py", "build/train", "build", "--files")
    assert (ending.status, ending.err) == (0, "")
    traced = shutil.which("gdb") and "exited normally" in run("gdb", "-batch", "-ex", "run", "build/train").out
    calls = [f"  {count} frames from main() to a matrix product\n" if traced else "" for count in (3, 4)]
    assert ending.out == (f"one loss: 7 lines run, in 1 files of 21 lines\n{calls[0]}     7 model/a.c\n"
                          f"one update: 10 lines run, in 1 files of 21 lines\n{calls[1]}    10 model/a.c\n")
