"""`make speedrun`: both recipes on the same text, and a table of what ./train said of them."""
import json
import re

SMALL = ("--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --eval-interval=2 "
         "--eval-iters=1 --warmup-iters=0 --checkpoint-interval=0").split()
TEXT = "the cat sees a dog, and the dog sees the cat.\n" * 50


def rows(out):
    return re.findall(r"^(\w+) +([0-9.]+) +([0-9.]+) s$", out, re.MULTILINE)


def expect_table(run, ending, folder):
    assert ending.status == 0, ending.err
    assert [name for name, _, _ in rows(ending.out)] == ["nanogpt", "best"]
    for name, loss, seconds in rows(ending.out):
        full = run("train", f"--evaluate=runs/speedrun/{name}").out.split()[1]
        summary = json.loads((folder / "runs/speedrun" / name / "summary.json").read_text())
        assert loss == f"{float(full):.4f}" and seconds == f"{summary['seconds']:.1f}"
    norms = [re.search(r"^norm = (\w+)$", (folder / f"runs/speedrun/{name}/config.ini").read_text(), re.MULTILINE)[1]
             for name in ("nanogpt", "best")]
    assert norms == ["ln", "rms"]


def test_both_recipes_of_a_text(run, tmp_path):
    (tmp_path / "a text.txt").write_text(TEXT)
    for _ in range(2):  # the second time, the runs are replaced
        ending = run("speedrun.sh", *SMALL, "a text.txt")
        expect_table(run, ending, tmp_path)
    assert "full validation split of a text.txt" in ending.out


def test_without_a_text_it_takes_a_corpus_that_is_there(run, tmp_path):
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    (corpora / "tinyshakespeare.txt").write_text(TEXT)
    ending = run("speedrun.sh", *SMALL, env={"CORPORA_DIR": str(corpora)})
    expect_table(run, ending, tmp_path)
    assert f"full validation split of {corpora}/tinyshakespeare.txt" in ending.out


def test_wrong_words(run):
    for word in ("--recipe=best", "--out=x", "-n"):
        ending = run("speedrun.sh", word)
        assert ending.status == 2 and ending.err.startswith(f"speedrun: {word}: "), ending.err
    assert run("speedrun.sh", "missing.txt").status == 1
