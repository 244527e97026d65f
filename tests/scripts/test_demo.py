"""`make demo`, `make speedrun`, and the commands of papers.md on a small text and with a smaller model."""
import csv
import itertools
import json
import re

import pytest

from conftest import ROOT, SCRIPTS, TINY, TRAIN

SMALL = [*TINY[:5], "--max-iters=20", "--eval-interval=10", "--eval-iters=1"]


def test_three_norms_in_one_picture(run, tmp_path):
    ending = run("demo.sh", *SMALL, "--learning-rate=3e-3")
    assert ending.status == 0, ending.err
    assert (tmp_path / "runs/demo/loss.png").read_bytes().startswith(b"\x89PNG")
    assert "demo: the three curves and the entropy: runs/demo/loss.png\n" in ending.out
    for number, norm in enumerate(("none", "ln", "bn"), 1):
        summary = json.loads((tmp_path / f"runs/demo/{norm}/summary.json").read_text())
        assert f"\n  {norm:4}  {summary['val_loss']:.4f}\n" in ending.out
        assert f"demo: run {number} of 3: ./train --norm={norm} --max-iters=600 " in ending.out
        beside = {1: "", 2: "--plot-beside=runs/demo/none ", 3: "--plot-beside=runs/demo/none,runs/demo/ln "}[number]
        assert f"--out=runs/demo/{norm} {beside}{' '.join(SMALL)} " in ending.out
    assert "final val loss " in ending.err  # the runs are shown
    assert ("\nThese results hold for the learning rate 0.003 and initial weights with a standard deviation of\n0.02. "
            in ending.out)
    assert "\n  scripts/demo.sh --init-std=0.08\nWhat to try next:\n  scripts/ablate.sh --norm=none,ln,bn " in ending.out


def test_a_second_one_leaves_the_first(run, tmp_path):
    for name in ("demo", "demo-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs/demo/mine").write_text("mine\n")
    ending = run("demo.sh", *SMALL)
    assert ending.status == 0, ending.err
    assert (tmp_path / "runs/demo-3/loss.png").exists()
    assert "./train --generate=runs/demo-3/ln " in ending.out
    assert [path.name for path in (tmp_path / "runs/demo").iterdir()] == ["mine"]
    assert not list((tmp_path / "runs/demo-2").iterdir())


@pytest.fixture
def pretend(run, tmp_path, monkeypatch):
    """pretend(text): the demo with a ./train that runs the shell text, with $norm, $folder and the functions log STEP
    LOSS... and summary REASON STEPS LOSS. No picture is drawn."""
    programs = {"python": "exit 1", "apt-get": "exit 100"}

    def demo(text):
        programs["train"] = r'''
for word; do case $word in --norm=*) norm=${word#*=} ;; --out=*) folder=${word#*=} ;; esac; done
mkdir "$folder"
printf 'learning-rate = 0.001\ninit-std = 0.02\n' >"$folder/config.ini"
log() { echo step,seconds,train_loss,val_loss; while [ $# -gt 1 ]; do
echo $1,0,9,$2; echo $(($1 + 1)),0,9,; shift 2; done; } >"$folder/log.csv"
summary() { printf '{\n  "exit_reason": "%s",\n  "steps": %s,\n  "val_loss": %s,\n  "grammar_entropy": 0.5\n}\n' "$@"
} >"$folder/summary.json"
''' + text
        (tmp_path / "bin").mkdir()
        for name, lines in programs.items():
            (tmp_path / "bin" / name).write_text("#!/bin/bash\n" + lines + "\n")
            (tmp_path / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
        return run("demo.sh", env={"TRAIN": str(tmp_path / "bin/train"), "PYTHON": str(tmp_path / "bin/python")})
    return demo


def words_of(ending):
    """What the demo says after the runs."""
    _, found, words = ending.out.partition("demo: no picture; the runs are in runs/demo\n")
    assert found, ending.out + ending.err
    return words.partition("These results hold ")[0]


def test_its_words_follow_from_the_numbers(pretend):
    ending = pretend("""case $norm in
none) log 0 4.02 100 3 200 2.5; summary done 200 2.5 ;;
ln) log 0 4.05 100 2.5 200 1.5; summary done 200 1.5 ;;
bn) log 0 4.04 100 2.7 200 2.0; summary done 200 2.0 ;;
esac""")
    assert ending.status == 1  # since there is no picture
    assert words_of(ending) == """\
Validation losses after 200 updates, in nats per character. The lowest possible one is the
entropy of the grammar, 0.5000:
  ln    1.5000
  bn    2.0000
  none  2.5000
ln reached the final loss of none by step 100 of 200.
"""


def test_its_words_know_ties_and_divergence(pretend):
    words = words_of(pretend("""case $norm in
none) log 0 4.02 100 1.51; summary done 100 1.51 ;;
ln) log 0 4.05 7 nan; summary diverged 7 null; exit 3 ;;
bn) log 0 4.04 100 1.5; summary done 100 1.5 ;;
esac"""))
    assert "ln diverged at step 7.\n" in words and "  none  1.5100\n" in words
    assert words.endswith("bn and none differ by less than 0.02: one seed cannot tell which is better.\n")


def test_a_failure_ends_it(pretend):
    ending = pretend("echo 'train: no room' >&2; exit 1")
    assert ending.status == 1 and ending.err == "train: no room\n"
    assert "run 2 of 3" not in ending.out and "What to try" not in ending.out


@pytest.mark.parametrize("script, word, why", [
    ("demo", "text.txt", "must have the form --NAME=VALUE\n"), ("demo", "--norm=rms", "the demo sets it itself (use ./train)\n"),
    ("demo", "--out=a", "the demo sets it itself (use ./train)\n"), ("speedrun", "--recipe=best", ""),
    ("speedrun", "--out=x", ""), ("speedrun", "-n", "")])
def test_wrong_commands(run, tmp_path, script, word, why):
    ending = run(f"{script}.sh", word)
    assert ending.status == 2 and ending.err.startswith(f"{script}: {word}: {why}")
    assert not (tmp_path / "runs").exists()


# ---- make speedrun ----

SHORT = (*TINY[:6], "--eval-interval=2", "--eval-iters=1", "--warmup-iters=0", "--checkpoint-interval=0")
TEXT = "the cat sees a dog, and the dog sees the cat.\n" * 50


def expect_table(run, ending, folder):
    assert ending.status == 0, ending.err
    rows = re.findall(r"^(\w+) +([0-9.]+) +([0-9.]+) s$", ending.out, re.MULTILINE)
    assert [name for name, _, _ in rows] == ["nanogpt", "best"]
    for (name, loss, seconds), norm in zip(rows, ("ln", "rms")):
        full = run("train", f"--evaluate=runs/speedrun/{name}").out.split()[1]
        summary = json.loads((folder / "runs/speedrun" / name / "summary.json").read_text())
        assert loss == f"{float(full):.4f}" and seconds == f"{summary['seconds']:.1f}"
        assert summary["options"]["norm"] == norm


def test_both_recipes_of_a_text(run, tmp_path):
    """A text that is given, or a corpus that is there. The second time, the runs are replaced."""
    (tmp_path / "tinyshakespeare.txt").write_text(TEXT)
    for words, text in (["tinyshakespeare.txt"], "tinyshakespeare.txt"), ([], f"{tmp_path}/tinyshakespeare.txt"):
        ending = run("speedrun.sh", *SHORT, *words, env={"CORPORA_DIR": str(tmp_path)})
        expect_table(run, ending, tmp_path)
        assert f"full validation split of {text}" in ending.out
    assert run("speedrun.sh", "missing.txt").status == 1


# ---- papers.md ----

NARROW = "--n-embd=8 --n-head=2 --block-size=8 --batch-size=2 --eval-iters=1"


def test_the_commands_of_papers(run, tmp_path):
    (tmp_path / "scripts").symlink_to(SCRIPTS)
    (tmp_path / "train").symlink_to(TRAIN)
    corpora = tmp_path / "data/corpora"
    corpora.mkdir(parents=True)
    (corpora / "tinyshakespeare.txt").write_text(TEXT)
    commands = "".join(re.findall(r"```\n(.*?)```", (ROOT / "scripts/guides/papers.md").read_text(encoding="utf-8"), re.DOTALL))
    for old, new in (("--seeds=3", "--seeds=1"), ("--n-embd=64", NARROW), ("--max-iters=1001", "--max-iters=21")):
        assert old in commands
        commands = commands.replace(old, new).replace("--block-size=32 ", "").replace("--eval-iters=20 ", "")
    ending = run("bash", "-ec", commands)
    assert ending.status == 0, ending.err
    for name in ("xiong.png", "powernorm.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    text, shuffled = ((corpora / f"{name}.txt").read_text() for name in ("tinyshakespeare", "shuffled"))
    assert text != shuffled and sorted(text) == sorted(shuffled)  # the control has the same characters in another order

    def table_of(*words):
        """The rows of a picture's numbers: {(line, name): [x]}"""
        assert run("plot.py", *words, "-o", "a.svg", "--table=a.csv").status == 0
        found = {}
        for _, line, name, x, *_ in csv.reader((tmp_path / "a.csv").read_text().splitlines()):
            found.setdefault((line, name), []).append(x)
        return found

    found = table_of("runs/xiong", "--probes=layers", "--metrics=grad_norm", "--sites=mlp.c_proj.weight",
                     "--columns=placement", "--steps=0,50,300")
    for placement, layers, step in itertools.product(("pre", "post"), (3, 6, 12), (0, 50, 300)):
        line = f"{placement}, n-layer {layers}", f"grad_norm mlp.c_proj.weight step {step}"
        assert len(found[line]) == layers, (line, sorted(found))
    found = table_of("runs/powernorm", "--probes=distance,terms", "--sites=ln_1")
    assert "20" in found["bn, tinyshakespeare.txt", "dist_var ln_1 layer 0"]
    assert "0" in found["pn, shuffled.txt", "g_mean ln_1 layer 3"]
