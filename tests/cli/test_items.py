"""Runs on items, as a person would make them."""
from pathlib import Path

import pytest

from conftest import MACHINE, TINY, USAGE, log_of, loss_in, same_folder, summary_of

ITEMS = [TINY, "--items --batch-size=4 --eval-interval=2 --quiet --sample=1"]


def test_a_run_says_what_it_learned_from(done, out):
    said = done(TINY, "--items --block-size=5 --out=out items.txt").err
    assert "items.txt: 100 items, 10 of them for validation, the longest has 6 characters: " in said
    assert " characters, 8 different; " in said and " and are cut (--block-size=7 keeps them whole)\n" in said
    summary, rows = summary_of("out"), [int(row["tokens"]) for row in log_of("out")]
    assert {name: summary[name] for name in ("items", "items_train", "items_longest", "items_cut", "vocabulary")} == {
        "items": 100, "items_train": 90, "items_longest": 6, "items_cut": 32, "vocabulary": 9}  # cut: those of 5 and 6 characters
    assert rows[0] == 0 and rows[-1] == summary["tokens"] and 4 * 2 * 2 <= rows[-1] < 4 * 2 * 5  # targets of 4 batches of 2
    assert 0 <= summary["pad_share"] < 0.6
    out(TINY, "--quiet --items --block-size=5 --pad-to=block --out=full items.txt")
    assert summary_of("full")["pad_share"] == pytest.approx(1 - rows[-1] / (4 * 2 * 5), abs=1e-12, rel=0)
    out(*ITEMS, "--out=whole items.txt")
    assert summary_of("whole")["items_cut"] == 0
    out(TINY, "--quiet --out=text items.txt")
    assert summary_of("text")["items"] is None is summary_of("text")["pad_share"]


def test_what_it_makes_is_known_or_new(done, out):
    """Each line of sample.txt is a label and an item."""
    items = list("abcdefghijklmnop")
    Path("letters.txt").write_text("\n".join(items) + "\n")
    out(*ITEMS, "--val-fraction=0.5 --max-iters=30 --out=out --num-items=50 letters.txt")
    text = Path("out/sample.txt").read_text()
    lines = [(line[:7], line[7:]) for line in text.splitlines()]
    known, new = ([item for label, item in lines if label == wanted] for wanted in ("known  ", "new    "))
    held = [item for item in new if item in items]
    assert len(known) + len(new) == 50 and set(known) <= set(items)
    assert known and held and len(new) > len(held), text
    ended = done("--generate=out --num-items=50")
    assert ended.out == text and (f"50 items: {len(known)} known (in the training split), {len(new)} new ({len(held)} of them in the "
                                  "validation split)") in ended.err


def test_what_came_in_by_standard_input_is_known_too(done):
    """It has no name to read it from again, so it may be given once more."""
    for words, part in ([*ITEMS, "--max-iters=60 --out=out -"], ""), (["--generate=out --num-items=50 -"], "known  "):
        with open("items.txt", "rb") as items:
            assert part in done(*words, stdin=items).out
    assert "standard input is missing or has changed" in done("--generate=out --num-items=50").err


def test_one_item_many_times_is_learned_by_heart(done, out):
    Path("same.txt").write_bytes("床前\r\n床前\r\n\r\n床前".encode())
    done(*ITEMS, "--max-iters=80 --learning-rate=0.02 --num-items=2 --temperature=0 --norm=bn --out=out same.txt")
    assert Path("out/sample.txt").read_text(encoding="utf-8") == "known  床前\n" * 2
    assert "new    前" in out("--generate=out --quiet --num-items=1 --prompt=前")
    Path("same.txt").unlink()
    ended = done("--generate=out --num-items=1")
    assert ended.out == "床前\n" and "same.txt is missing or has changed\n1 item\n" in ended.err


@pytest.mark.parametrize("way", ["", "--bucket", "--pad-to=block --pad-stats=include"])
def test_a_run_goes_on_to_the_bit(out, way):
    lively = [*ITEMS, "--norm=bn --grad-accum=3 --dropout=0.1 --lr-decay-iters=40 --prepbn-steps=40 --num-items=3 items.txt", way]
    out(*lively, "--max-iters=40 --out=whole")
    out(*lively, "--threads=2 --max-iters=17 --out=parts")
    out("--quiet --max-iters=40 --resume=parts")
    same_folder("whole", "parts")
    assert summary_of("whole")["pad_share"] == summary_of("parts")["pad_share"]


def test_a_stored_model_is_measured_on_items(out):
    out(*ITEMS, "--out=out --eval-iters=0 items.txt")
    last, usual = log_of("out")[-1]["val_loss"], out("--evaluate=out")
    assert f"loss: {last} nats per character\n" in usual and " characters and ends of 10 items\n" in usual
    # other batches, the same targets
    assert loss_in(out("--evaluate=out --batch-size=7 --bucket")) == pytest.approx(float(last), abs=1e-6, rel=0)
    Path("one.txt").write_text("a")
    assert ": one.txt, 2 characters and ends of 1 items\n" in out("--evaluate=out one.txt")


@pytest.mark.parametrize("status, said, words", [
    (MACHINE, "blank.txt: has no items, only blank lines", ["--items", "blank.txt"]),
    (USAGE, "--val-fraction", ["--items", "one.txt"]),
    (USAGE, "--items", ["--items", "--corpus=random"]),
    (USAGE, "--items=off: contradicts --items=on of out/model", ["--generate=out", "--items=off"]),
    (USAGE, "one.txt: is not the corpus that", ["--generate=out", "one.txt"]),
    (MACHINE, "none.txt: No such file", ["--generate=out", "none.txt"]),
    (USAGE, "--prompt: is too long", ["--generate=out", "--prompt=abcdefgh"]),
    (USAGE, "--prompt: holds a newline", ["--generate=out", "--prompt=a\nb"])])
def test_what_is_refused(out, refused, status, said, words):
    Path("blank.txt").write_bytes(b"\n\r\n \t\n")
    Path("one.txt").write_text("alone")
    out(*ITEMS, "--out=out items.txt")
    refused(status, said, words)
