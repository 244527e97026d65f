"""What keeps the project in order: the commands of its documents exist, check_prose.py finds phrases and broken links,
run_tests.sh counts Python tests, and run_options.py knows the conditions of `./train --help=json`."""
import functools
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS, command

from common import run_options
from upkeep import check_prose


# ---- README's table ----

@pytest.mark.parametrize("kinds", ["norms", "placements", "connections", "optimizers"])
def test_readme_names_every_kind(kinds):
    names = re.findall(r"^([a-z0-9-]+)", command("train", f"--list-{kinds}", cwd=ROOT).out, re.M)
    choices = (ROOT / "README.md").read_text().partition("## Options")[2].partition("## Source tree")[0]
    assert len(names) > 2 and [name for name in names if f"`{name}`" not in choices and f"={name}`" not in choices] == []


# ---- commands of documents ----

BESIDE = {"build", "runs", "venv", ".git"}  # folders without documents of the project
DOCUMENTS = [path for path in sorted(ROOT.rglob("*.md")) if not BESIDE & set(path.relative_to(ROOT).parts)]
OPTION = re.compile(r"--([a-z][a-z0-9-]*)")


def commands(text):
    """The commands of a document as lists of words: in fenced blocks without a language, and in `...` in text."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.M | re.S)
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    spans = re.findall(r"`((?:\./train|scripts/\S+|make) [^`]*)`", outside)
    for line in "\n".join(blocks).replace("\\\n", " ").split("\n") + spans:
        line = re.sub(r"(^|\s)#.*", "", line).replace("\n", " ").replace("...", "")
        for part in re.split(r"\||&&|;|\$\(|\)\"", line):
            try:
                words = shlex.split(part)
            except ValueError:  # half of a quoted word
                words = part.split()
            if "./train" in words:
                words = words[words.index("./train"):]
            if words and re.fullmatch(r"\./train|make|scripts/\S+\.\w+", words[0]):
                yield words


@functools.cache
def options(program):
    """The options that --help of a program mentions; without PyTorch or numpy, some scripts have none."""
    ending = command(program, "--help=all" if program == "train" else "--help", cwd=ROOT)
    return set(OPTION.findall(ending.out)) if ending.status == 0 else None


def unknown(words):
    """What a command names that is not there."""
    program, *rest = words
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    if program == "make":
        return [word for word in rest if re.fullmatch("[a-z]+", word) and word not in targets]
    if program == "./train":
        own, passed_on = rest, []
    elif not (ROOT / program).is_file():
        return [program]
    else:
        end = rest.index("--") if "--" in rest else len(rest)
        own, passed_on = rest[:end], rest[end:]
    train, known = options("train"), options("train" if program == "./train" else str(ROOT / program))
    own, passed_on = ({name for word in words if (found := re.match(r"--([a-z0-9,-]+)", word))
                       for name in found[1].split(",") if name} for words in (own, passed_on))
    return sorted((own - known - train if known is not None else set()) | (passed_on - train))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_are_known(path):
    for words in commands(path.read_text()):
        assert not unknown(words), f"{path.name}: {' '.join(words)}"


def test_commands_are_found():
    text = "Type `make lint`:\n```\nmpirun -n 2 ./train --nrom=ln \\\n    A.txt | scripts/x.py  # --y\n```\n"
    assert list(commands(text)) == [["./train", "--nrom=ln", "A.txt"], ["scripts/x.py"], ["make", "lint"]]
    assert [unknown(words) for words in commands(text)] == [["nrom"], ["scripts/x.py"], []]
    assert unknown(["./train", "--norm=ln"]) == [] and unknown(["make", "lnit"]) == ["lnit"]


# ---- check_prose.py ----

def errors(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return [what for _, what in check_prose.errors(tmp_path / name, text)]


@pytest.mark.parametrize("name, text, found", [
    ("a.md", "It is 0 at\nfirst.", "initially"), ("a.c", "/* It is 0 at\n   first. */", "initially"),
    ("a.c", "// it is 0 at\n// first", "initially"), ("a.c", '"It is 0 at "\n    "first"', "initially"),
    ("a.py", "# It is 0 at\n# first", "initially"), ("a.md", "Understood at first reading; at the first step; to train anew-born", '"anew" (write: again)'),
    ("a.md", "\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n", "a row without the head of its table"),
    ("a.md", "# One (and) two\n[a](#one-and-two) [b](a.md) [c](https://x.org/y) [d](b.md)\n", "no such file or heading: b.md"),
    ("a.md", "# One\n[a](a.md#two)\n", "heading: a.md#two")])
def test_phrases_rows_and_links_are_found(tmp_path, name, text, found):
    error, = errors(tmp_path, name, text)
    assert found in error


def test_claims_stay_as_registered_but_their_notes_are_read(tmp_path):
    text = """CLAIMS = [Claim("B1", "It is 0 "
                 "at first", "B, claim 1", revised="At first it was 1")]"""
    assert errors(tmp_path, "claims_b.py", text) == ['"At first" (write: initially)']
    assert len(errors(tmp_path, "texts.py", text)) == 2


# ---- run_tests.sh ----

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert 1 + 1 == 3\n"
SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('not here')\n"


@pytest.fixture
def count(run, tmp_path):
    """Puts test_NAME.py files into a tree, runs run_tests.sh there, and returns its ending."""
    for folder in "scripts/upkeep", "tests/scripts":
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPTS / "upkeep" / "run_tests.sh", "scripts/upkeep")
    (tmp_path / "criterion").write_text("#!/bin/sh\necho '[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0'\n")
    (tmp_path / "criterion").chmod(0o755)

    def counted(pattern="", **texts):
        for name, text in texts.items():
            (tmp_path / f"tests/scripts/test_{name}.py").write_text(text)
        return run("scripts/upkeep/run_tests.sh", tmp_path / "criterion", tmp_path / "pytest",
                   env={"FILTER": pattern, "CRITERION_JOBS": "1"})

    return counted


def last(ending):
    return ending.out.splitlines()[-1]


def test_python_tests_are_counted_beside_the_others_and_failures_shown(count):
    ending = count(a=GOOD + SKIPPED, b=GOOD)
    assert (ending.status, last(ending)) == (0, "4 passed, 0 failed, 1 skipped")
    ending = count(a=GOOD, b=BAD)
    assert (ending.status, last(ending)) == (1, "3 passed, 1 failed")
    assert "E   assert (1 + 1) == 3" in ending.out and "test_b.py::test_bad" in ending.out


@pytest.mark.parametrize("text", ["import nothing_of_that_name\n", "import os\ndef test_crash(): os._exit(0)\n"])
def test_a_file_that_cannot_run_is_a_failure(count, text):
    ending = count(a=GOOD, b=text)
    assert ending.status == 1 and not last(ending).endswith(" 0 failed"), ending.out


def test_a_failure_of_pytest_itself_counts(count):
    Path("tests/scripts/conftest.py").write_text("def pytest_sessionfinish(session): session.exitstatus = 3\n")
    ending = count(a=GOOD, b=GOOD)
    assert (ending.status, last(ending)) == (1, "4 passed, 1 failed") and "pytest: ended with status 3" in ending.out


@pytest.mark.parametrize("pattern, total", [("norm/*", 2), ("pytest/*", 2), ("pytest/a*", 1), ("pytest/nothing", 0)])
def test_filter_picks_programs_and_files(count, pattern, total):
    ending = count(pattern, a=GOOD, b=GOOD)
    assert ending.status == (total == 0) and (not total or last(ending) == f"{total} passed, 0 failed")


# ---- run_options.py ----

OF_TRAIN_ALONE = {"training", "micro-batches", "end-norms"}  # facts that no table of runs needs
RUN = {"norm": "ln", "placement": "pre", "items": False, "corpus": None, "weight-decay": 0.1, "affine": True}
ACTIVE = [("norm-groups", {"norm": "gn"}), ("mix-fraction", {"placement-ffn": "mix"}),
          ("lambda-start", {"placement": "rezero"}), ("lambda-start", {"connection": "skipinit"}),
          ("grammar-seed", {}), ("pad-to", {"items": True}), ("decay-gamma", {}),
          ("norm", {"placement": "rezero", "final-norm": "on"}), ("qk-norm-over", {"placement": "hybrid"}),
          ("beta1", {"optimizer": "muon"}), ("gated-rank", {"qk-norm": "gated"}), ("seed", {})]
INACTIVE = [("norm-groups", {}), ("mix-fraction", {}), ("lambda-start", {"placement": "rezero", "connection": "plain"}),
            ("grammar-seed", {"corpus": "x"}), ("pad-to", {}), ("decay-gamma", {"weight-decay": 0}),
            ("norm", {"placement": "rezero"}), ("qk-norm-over", {}), ("beta1", {"optimizer": "sgd"}),
            ("affine", {"placement": "ngpt"}), ("threads", {})]


def table():
    return json.loads(command("train", "--help=json", cwd=ROOT).out)


def test_every_clause_names_an_option_or_a_fact():
    options = {row["name"]: row for row in table()["options"]}
    assert len(options) > 100 and all(row["help"] for row in options.values())
    for row in options.values():
        for _, name, values in run_options.clauses_of(row.get("needs")):
            assert name in options or name in run_options.FACTS or name in OF_TRAIN_ALONE, (row["name"], name)
            if options.get(name, {}).get("kind") == "choice":
                assert set(values) <= set(options[name]["values"]), (row["name"], values)


@pytest.mark.parametrize("active, cases", [(True, ACTIVE), (False, INACTIVE)])
def test_conditions(active, cases):
    assert [name for name, options in cases if run_options.is_active(name, {**RUN, **options}) != active] == []
