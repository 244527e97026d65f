"""The commands of documents: what they name exists, and they run as shown, in the order shown, with tiny models."""
import functools
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS, TRAIN, command

BESIDE = {"build", "runs", "venv", ".git"}  # folders without documents of the project
DOCUMENTS = [path for path in sorted(ROOT.rglob("*.md")) if not BESIDE & set(path.relative_to(ROOT).parts)]
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


# ---- they are known ----

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


@each_document
def test_commands_of_a_document_are_known(path):
    for words in commands(path.read_text()):
        assert not unknown(words), f"{path.name}: {' '.join(words)}"


def test_commands_are_found():
    text = "Type `make lint`:\n```\nmpirun -n 2 ./train --nrom=ln \\\n    A.txt | scripts/x.py  # --y\n```\n"
    assert list(commands(text)) == [["./train", "--nrom=ln", "A.txt"], ["scripts/x.py"], ["make", "lint"]]
    assert [unknown(words) for words in commands(text)] == [["nrom"], ["scripts/x.py"], []]
    assert unknown(["./train", "--norm=ln"]) == [] and unknown(["make", "lnit"]) == ["lnit"]


# ---- they run ----

ELSEWHERE = {"papers.md": "test_demo.py", "WHY.md": "test_why.py", "DETAILS.md": "test_why.py"}
LEFT_OUT = {"--texts": "it writes documents", "normlab.load|nanoGPT/|out/ckpt|OTHER.safetensors|-hf|small[-.][gs]":
            "it needs PyTorch and models of others: test_torch.py, test_hf_folders.py"}

# In place of ./train and of the scripts that train: small sizes and short runs. What installs, builds or needs MPI does nothing.
SIZES = "--n-layer=1 --n-head=2 --n-embd=8 --block-size=16 --eval-iters=1"
STAND_IN = f"""#!/bin/bash
set -e
name=${{0##*/}} program='{SCRIPTS}'/${{0##*/}}
case "$name $*" in
deps.sh* | to_tensorboard.py*) exit ;;
train*--generate=* | train*--evaluate=* | train*--help* | train*--show-* | train*--list-*) exec '{TRAIN}' "$@" ;;
train*--resume=*) exec '{TRAIN}' "$@" --max-seconds=0.1 ;;
train*) exec '{TRAIN}' "$@" {SIZES} --batch-size=2 --threads=1 --max-seconds=0.1 ;;
ablate.sh*--grid=*) set -- "$@" --n-layer=1 --max-seconds=0.1 ;;
ablate.sh*" -- "*) set -- --seeds=2 "${{@/#--seeds=*/--seeds=2}}" {SIZES} --max-seconds=0.1 ;;
study.py*" -- "*)  # as it is, but nothing is trained; then with two values and two seeds
    "$program" --dry-run "$@" {SIZES}
    [[ $* == *" --out="* ]] || exit 0  # no command can read it
    set -- "${{@/#--tune=*/--tune=learning-rate=1e-3,3e-3}}" {SIZES} --max-seconds=0.1
    set -- --seeds=2 --tuning-seeds=2 "${{@/#--seeds=*/--seeds=2}}" ;;
report.py*--train*) set -- "$@" --only=E3 --list ;;
esac
exec "$program" "$@"
"""
TEXT = "ROMEO: to be, or not to be? The cat sees a dog, and the dog sees the cat.\n" * 200
WORDS = "".join(f"{a}{b}{c}{d}\n" for a in "bcdfglmnprstuv" for b in "aeiou" for c in "lmnrst" for d in "aeinu")


def in_order(path):
    """The commands of a document, one for a line of the shell."""
    fences = re.findall(r"^```\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
    for line in re.sub(r"\\\n *|(?<=\|)\n *", " ", "".join(fences)).splitlines():
        if re.match(r"\./train|make|git|mpirun|\w+=|python3|awk|printf|scripts/", line) and "..." not in line:
            yield line


@pytest.fixture
def folder(tmp_path):
    """A folder like the project's, but with small texts, and stand-ins for what would train long."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for name in "train", *(f"scripts/{name}" for name in ("ablate.sh", "study.py", "report.py", "deps.sh", "to_tensorboard.py")):
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "data/corpora").mkdir(parents=True)
    texts = {"words": WORDS, "poems-zh": WORDS.replace("u\n", "u\n\n")}
    for name in "CORPUS", "FILE", "TEXT", "OTHER.txt", "TEXT.txt", *(f"data/corpora/{name}.txt" for name in ("tinyshakespeare", *texts)):
        (tmp_path / name).write_text(texts.get(Path(name).stem, TEXT))
    return tmp_path


@each_document
def test_commands_of_a_document_run(path, folder):
    if path.name in ELSEWHERE:
        pytest.skip(f"run by {ELSEWHERE[path.name]}")
    script = [line for line in in_order(path) if not re.search("|".join(LEFT_OUT), line)]
    idle = "".join(f"{name}() {{ :; }}\n" for name in ("make", "git", "cd", "mpirun"))
    ended = subprocess.run(["bash", "-c", idle + "set -vo pipefail -e\n" + "\n".join(script)], cwd=folder, text=True, capture_output=True,
                           env={**os.environ, "TRAIN": str(TRAIN)}, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
