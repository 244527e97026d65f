"""What ends a run: --max-seconds and --stop-at (no test knows how long a run takes); and --max-tokens, after the first update
at which this many targets were seen."""
from pathlib import Path

import pytest

from conftest import TINY, USAGE, log_of, same_arrays, same_log, summary_of

RUN = [*TINY, *"--quiet --force --learning-rate=0.01 --eval-interval=5 --eval-iters=2".split()]


def ending(folder):
    """What ended a run, and its number of updates."""
    summary = summary_of(folder)
    return summary.get("ended_by"), summary["steps"]


def test_a_run_stops_at_the_first_evaluation_that_is_low_enough(done):
    """It leaves what a run of as many updates leaves."""
    done(RUN, "--max-iters=40 --out=whole text.txt")
    assert "ended_by" not in summary_of("whole")
    rows = log_of("whole")
    for at in range(0, 41, 10):
        loss = float(rows[at]["val_loss"]) + 1e-6  # the log rounds
        first = next(step for step in range(0, 41, 5) if float(rows[step]["val_loss"]) <= loss)
        done(RUN, f"--max-iters=40 --stop-at={loss:.17g} --out=part text.txt")
        assert ending("part") == ("stop-at" if first < 40 else "max-iters", first)
        done(RUN, f"--max-iters={first} --lr-decay-iters=40 --out=short text.txt")
        same_arrays("part/model.safetensors", "short/model.safetensors")
        part, short = log_of("part"), log_of("short")
        assert len(part) == len(short) and part[first]["val_loss"] == short[first]["val_loss"]
    done(RUN, "--max-iters=10 --stop-at=1e-6 --out=out text.txt")
    assert ending("out") == ("max-iters", 10)


def test_there_is_no_limit_at_a_loss_of_zero(done):
    """0 means no limit, also where the loss is 0: a text of one character has nothing to learn."""
    Path("same.txt").write_text("e" * 400)
    done(TINY, "--quiet --eval-interval=1 --out=out same.txt")
    assert summary_of("out")["val_loss"] == 0 and summary_of("out")["steps"] == 4


def test_seconds(done):
    """A run without time ends with an evaluation before its first update, and continues with more time as if it had not
    stopped; one whose last update is far away ends by time, with an evaluation of its last step."""
    done(RUN, "--max-iters=10 --out=whole text.txt")
    done(RUN, "--max-iters=10 --max-seconds=1e-9 --out=part text.txt")
    assert ending("part") == ("max-seconds", 0)
    done("--resume=part --quiet --max-seconds=1e6")
    assert ending("part") == ("max-iters", 10)
    same_arrays("part/model.safetensors", "whole/model.safetensors")
    done(RUN, "--max-iters=1e9 --eval-interval=1e9 --log-interval=1e9 --max-seconds=0.2 --out=out text.txt")
    rows = log_of("out")
    assert len(rows) > 1 and rows[-1]["val_loss"], "no loss at the end"
    assert ending("out") == ("max-seconds", int(rows[-1]["step"]))


# ---- --max-tokens ----

ENDLESS = [*TINY, *"--quiet --force --max-iters=auto --learning-rate=0.01 --out=out".split()]  # 8 x 2 characters per batch


@pytest.fixture
def updates(done):
    """The number of updates of a run with this --max-tokens and these options, whose last row alone has reached this number,
    whose rate ends at a tenth, and whose config.ini gives the same run again."""
    def made(tokens, *words):
        done(ENDLESS, f"--max-tokens={tokens}", *words)
        rows = log_of("out")
        reached = [int(row["tokens"]) >= tokens for row in rows]
        assert reached == [False] * (len(rows) - 1) + [True] and int(rows[-1]["step"]) == len(rows) - 1, words
        if len(rows) > 1:
            rates = [float(row["lr"]) for row in rows[-2:]]
            assert rates[1] == pytest.approx(0.001, abs=1e-9, rel=0) and rates[0] > 0.0010000001, words
            done("--quiet --force --config=out/config.ini --out=again")
            for name in "model.safetensors", "config.ini":
                assert Path("out", name).read_bytes() == Path("again", name).read_bytes(), name
        return len(rows) - 1
    return made


@pytest.mark.parametrize("tokens, words, number", [
    (16 * 5, "text.txt", 5), (16 * 5 + 1, "text.txt", 6), (16 * 5 - 1, "text.txt", 5), (1, "text.txt", 1), (0, "text.txt", 0),
    (16 * 3 * 4, "--grad-accum=3 text.txt", 4), (16 * 3 * 4 + 1, "--grad-accum=3 text.txt", 5),
    (24 * 5, "--batch-size=3 text.txt", 5), (14 * 5, "--block-size=7 text.txt", 5),
    (16 * 5, "--corpus=random", 5), (16 * 5, "--grammar-chars=3000", 5)])
def test_tokens_of_text(updates, tokens, words, number):
    assert updates(tokens, words) == number


@pytest.mark.parametrize("words", ["", "--bucket", "--grad-accum=2", "--norm=bn --bucket --grad-accum=3 --seed=2",
                                   "--block-size=4 --batch-size=5", "--pad-to=block --dropout=0.2"])
def test_tokens_of_items(updates, words):
    """Batches of varying length, so that no formula gives their number; also more than two epochs."""
    for tokens in 1, 23, 89, 287, 881:
        updates(tokens, "--items items.txt", words)


def test_prepbn_ends_with_the_run(updates):
    updates(16 * 2 * 5, "--norm=prepbn --grad-accum=2 text.txt")
    assert summary_of("out")["options"]["prepbn-steps"] == 10


def test_the_command_line_overrides_a_file_s_updates_and_tokens(done):
    Path("tokens.ini").write_text("max-tokens = 320\n")
    for steps, *words in ((5, ENDLESS, "--max-iters=5 --max-tokens=80"),  # they agree
                          (10, ENDLESS, "--config=out/config.ini --max-tokens=160"),
                          (20, "--quiet --config=out/config.ini --max-tokens=320 --force"),
                          (3, ENDLESS, "--config=tokens.ini --max-iters=3")):
        done(*words, "--out=out text.txt")
        assert summary_of("out")["steps"] == steps


@pytest.mark.parametrize("words, said", [
    ("--max-iters=5 --max-tokens=81 text.txt",
     "--max-iters=5: contradicts --max-tokens=81, which needs 6 updates (try --max-iters=auto)"),
    ("--max-tokens=40 --items --max-iters=1 --batch-size=1 items.txt", "--max-iters=1: contradicts --max-tokens=40"),
    ("--max-tokens=-1 text.txt", "--max-tokens=-1: must be a whole number from 0"),
    ("--max-tokens=16000000001 text.txt", "--max-tokens=16000000001: needs more than 1000000000 updates"),
    ("--max-tokens=1000000000000000 --items items.txt", "needs more than 1000000000 updates"),  # at once
    # of four targets each
    ("--max-tokens=8000000001 --items same.txt", "--max-tokens=8000000001: needs more than 1000000000 updates"),
    ("--max-tokens=7999999996 --max-iters=5 --items --bucket same.txt",
     "--max-tokens=7999999996, which needs 1000000000 updates"),
    ("--max-tokens=1000000000000000 --items --batch-size=100000 items.txt", "needs more than 1000000000 updates")])
def test_a_number_of_updates_that_does_not_fit(refused, words, said):
    Path("same.txt").write_text("abc\nabd\nacd\n")
    refused(USAGE, said, ENDLESS, words)
    assert not Path("out").exists()


@pytest.mark.parametrize("corpus", ["text.txt", "--items items.txt"])
def test_a_run_that_goes_on_may_have_another_number(done, refused, corpus):
    """As with --max-iters; the schedule stays."""
    done(ENDLESS, "--max-tokens=200 --prepbn-steps=9", corpus)
    done(ENDLESS, f"--max-tokens=100 --prepbn-steps=9 --lr-decay-iters={len(log_of('out')) - 1} --out=parts", corpus)
    done("--quiet --resume=parts")  # nothing to do
    assert len(log_of("parts")) < len(log_of("out"))
    done("--quiet --resume=parts --max-tokens=200")
    same_log("out", "parts")
    same_arrays("out/model.safetensors", "parts/model.safetensors")
    refused(USAGE, ": the run in parts has done ", "--resume=parts --max-tokens=100")
    refused(USAGE, "--max-iters=500: contradicts --max-tokens=300", "--resume=parts --max-tokens=300 --max-iters=500")


@pytest.mark.parametrize("words, parts", [
    ("--max-iters=7 --grad-accum=3 --norm=prepbn", ["\nlr-decay-iters = auto\n", '"lr-decay-iters": 7,', '"prepbn-steps": 21,']),
    ("--max-tokens=50 --lr-decay-iters=9", ["\nmax-iters = 4\n", "\nlr-decay-iters = 9\n"])])
def test_without_it_a_run_has_its_usual_length(done, words, parts):
    done(ENDLESS, words, "text.txt")
    config = Path("out/config.ini").read_text()
    assert [part for part in parts if part not in config] == []
