"""--eval-train in runs: the loss on a fixed slice of the training split. tests/app/test_eval_train.c tests the slice."""
from pathlib import Path
import signal

import pytest

from conftest import TINY, log_of, loss_in, same_log, summary_of
from signals import interrupted

RUN = [*TINY, *"--quiet --eval-interval=2 --eval-iters=3 --norm=bn --max-iters=6 --prepbn-steps=20".split()]


@pytest.mark.parametrize("words", ["text.txt", "--items items.txt", "--items --bucket --pad-stats=include items.txt",
                                   "--corpus=random", "--grammar-chars=3000"])
def test_is_a_column_of_the_log(done, words):
    """The column is filled in the rows of evaluations; all else is as without the option."""
    done(RUN, "--dropout=0.3 --out=off", words)
    done(RUN, "--dropout=0.3 --eval-train --out=on", words)
    same_log("off", "on")
    assert "eval_train_loss" not in log_of("off")[0] and "eval_train_loss" not in summary_of("off")
    rows = [(row["eval_train_loss"], row["val_loss"]) for row in log_of("on")]
    assert rows[0][0] and all(bool(loss) == bool(val) for loss, val in rows)
    assert all(loss != val for loss, val in rows if loss), "the loss is that of validation"
    assert summary_of("on")["eval_train_loss"] == float(rows[-1][0])
    # before the first update both have the same weights, and nothing is dropped
    done(RUN, "--dropout=0 --eval-train --out=plain", words)
    assert log_of("plain")[0]["eval_train_loss"] == rows[0][0], "dropout"


def test_is_shown(done):
    said = done(TINY, "--eval-train --out=out text.txt").err
    first = log_of("out")[0]
    assert f"val loss {float(first['val_loss']):.4f}  eval train loss {float(first['eval_train_loss']):.4f}  " in said
    assert "eval train" not in done(TINY, "--out=off text.txt").err


def test_agrees_with_evaluate(done):
    """The training split is 1 + 100 blocks, and the validation split is longer. So the slice is the whole training split, which
    --evaluate measures when it is a text of its own."""
    text = Path("text.txt").read_text()
    Path("head.txt").write_text(text[:801])
    Path("both.txt").write_text(text[:1602])  # --val-fraction=0.5
    done(RUN, "--val-fraction=0.5 --eval-iters=0 --eval-train --out=out both.txt")
    assert loss_in(done("--evaluate=out head.txt").out) == float(log_of("out")[-1]["eval_train_loss"])


def test_the_last_loss_is_kept_in_the_checkpoint(text):
    """An interrupted run reports its last measured loss, also when it was resumed and is interrupted again."""
    assert interrupted(signal.SIGTERM, "out/log.csv", RUN, "--max-iters=1000000000 --eval-interval=1000000 --checkpoint-interval=0 "
                       "--eval-train --out=out text.txt").status == 143
    loss = summary_of("out")["eval_train_loss"]
    assert loss > 0
    assert interrupted(signal.SIGTERM, "out/log.csv", "--quiet --resume=out", rows=40).status == 143
    assert summary_of("out")["eval_train_loss"] == loss
