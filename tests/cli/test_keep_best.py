"""--keep-best: best.safetensors is the model of the evaluation with the lowest validation loss, however the run continued."""
from pathlib import Path

import pytest

from conftest import DIVERGED, TINY, log_of, same_arrays, same_folder, same_log, summary_of
from models import every_row
from pytorch.model_file import read_plain

STEPS = 12
ROUGH = TINY + ("--quiet --dropout=0.2 --grad-accum=2 --learning-rate=0.1 --schedule=constant --lr-decay-iters=12 "
                "--eval-interval=2 --eval-iters=0 --pn-warmup=5 --prepbn-steps=20").split()
CHECKPOINT = "out/checkpoint.safetensors"


@pytest.fixture
def rough(done):
    """The validation split is written backwards: its loss falls while the characters' frequencies are learned and then rises,
    so the best step is neither the first nor the last."""
    text = Path("text.txt").read_text()
    Path("text.txt").write_text(text[:1800] + text[:1799:-1])
    return lambda *words: done(ROUGH, "--force", *words)


def best_row(folder):
    """The row of the log's lowest validation loss."""
    return min((row for row in log_of(folder) if row["val_loss"]), key=lambda row: float(row["val_loss"]))


@every_row
def test_is_the_model_of_the_lowest_loss(rough, done, model):
    rough(f"--max-iters={STEPS} --keep-best --out=out text.txt", model)
    best = best_row("out")
    assert summary_of("out")["best_step"] == int(best["step"])
    # measured by another process, it is the logged loss to the last digit
    assert f"loss: {best['val_loss']} nats" in done("--evaluate=out/best.safetensors").out
    # a run that stops there has this model, and without --keep-best the same last model
    rough(f"--max-iters={best['step']} --out=stopped text.txt", model)
    same_arrays("stopped/model.safetensors", "out/best.safetensors")
    rough(f"--max-iters={STEPS} --out=off text.txt", model)
    same_arrays("off/model.safetensors", "out/model.safetensors")
    same_log("off", "out")


def test_is_the_first_of_equal_losses(rough):
    """Without updates all are equal."""
    rough(f"--learning-rate=0 --max-iters={STEPS} --keep-best --out=out text.txt")
    assert summary_of("out")["best_step"] == 0
    assert read_plain("out/best.safetensors")[0]["step"] == "0"


@pytest.mark.parametrize("words", ["--norm=bn text.txt", "--norm=ln text.txt", "--norm=pn text.txt", "--norm=ln --items items.txt"])
def test_resumed_after_every_step(rough, done, words):
    rough(f"--max-iters={STEPS} --keep-best --out=whole", words)
    for step in range(STEPS):
        rough(f"--max-iters={step} --keep-best --out=parts", words)
        done(f"--quiet --max-iters={STEPS} --resume=parts")
        same_folder("whole", "parts")
    assert "--items" in words or 0 < summary_of("whole")["best_step"] < STEPS


@pytest.mark.parametrize("step", range(1, STEPS, 2))
def test_killed_between_the_file_and_the_checkpoint(rough, done, step):
    """The file is newer than the checkpoint from which the run resumes; also when the run is told to end before the step of
    that file."""
    rough(f"--norm=bn --keep-best --max-iters={step} --out=out text.txt")
    checkpoint = Path(CHECKPOINT).read_bytes()
    for last in STEPS, step:
        done(f"--quiet --max-iters={STEPS} --resume=out")
        Path(CHECKPOINT).write_bytes(checkpoint)
        Path("out/model.safetensors").unlink()
        Path("out/summary.json").unlink()
        done(f"--quiet --max-iters={last} --resume=out")
        rough(f"--norm=bn --keep-best --max-iters={last} --out=whole text.txt")
        same_folder("whole", "out")


def test_a_fresh_run_removes_it(rough):
    rough("--keep-best --out=out text.txt")
    assert Path("out/best.safetensors").exists()
    rough("--out=out text.txt")
    assert not Path("out/best.safetensors").exists()
    assert not [name for name in read_plain(CHECKPOINT)[1] if name.startswith("best.")], "a copy without --keep-best"


def test_stays_where_the_run_diverges(train, done):
    assert train(TINY, "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant --eval-iters=0 --eval-interval=1 "
                 "--max-iters=1000 --keep-best --out=out text.txt").status == DIVERGED
    assert f"loss: {best_row('out')['val_loss']} nats" in done("--evaluate=out/best.safetensors").out
