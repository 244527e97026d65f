"""The commands of the documents: their scripts and targets exist, and know their options. Nothing is trained."""
import functools
import re
import shlex

import pytest

from conftest import ROOT, command

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
