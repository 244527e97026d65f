"""Runs that stop and are resumed: the same bits as if they had not stopped."""
from collections import Counter
import os
from pathlib import Path

import pytest

from conftest import LIVELY, MACHINE, USAGE, WATCHED, log_of, put_arrays, same_arrays, same_folder, summary_of
from models import every_row, values
from pytorch.model_file import read_plain

STEPS = 12


def check_every_step(done, model):
    done(WATCHED, f"--max-iters={STEPS} --out=whole {model} text.txt")
    for step in range(len(model) % 5, STEPS, 3 if "SWEEP" in os.environ else 5):  # other steps for each model
        done(WATCHED, f"--force --threads=2 --max-iters={step} --out=part {model} text.txt")
        done(f"--quiet --threads={1 + step % 3} --max-iters={STEPS} --resume=part")
        same_folder("whole", "part")


@pytest.mark.sampled
@every_row
def test_from_every_step(done, model):
    check_every_step(done, model)


@pytest.mark.sampled
@pytest.mark.parametrize("model", [
    "--norm=bn --bn-axis=batch", "--norm=bn --bn-shards=2", "--norm=bn --rbn-mean=0.1 --rbn-var=0.1",
    "--norm=brn --brn-warmup=1 --brn-relax=3",
    *(f"--act=swiglu --n-kv-head=1 --optimizer={optimizer}" for optimizer in values("optimizer"))])
def test_other_states_from_every_step(done, model):
    check_every_step(done, model)


def test_from_every_checkpoint_of_one_run(done):
    done(LIVELY, "--norm=bn --max-iters=9 --checkpoint-interval=2 --out=whole text.txt")
    done(LIVELY, "--norm=bn --max-iters=1 --checkpoint-interval=2 --out=parts text.txt")
    for step in range(2, 10):
        done(f"--quiet --max-iters={step} --resume=parts")
    same_folder("whole", "parts")
    done("--quiet --resume=parts")  # nothing is left to do
    same_folder("whole", "parts")
    seconds = [float(row["seconds"]) for row in log_of("parts")]
    assert seconds == sorted(seconds), "time continues"
    done(LIVELY, "--norm=bn --max-iters=8 --checkpoint-interval=2 --out=short text.txt")
    assert len(log_of("short")) < len(log_of("whole")), "the comparison can fail"


# While its learning rate is constant, a run may be given its decay: the bits are those of a run that had it from the start.
@pytest.mark.parametrize("stable, change", [
    ("--schedule=constant --lr-decay-iters=auto", "--schedule=wsd --max-iters=10"),
    ("--schedule=wsd --lr-decay-iters=100", "--max-iters=10 --lr-decay-iters=auto"),
    ("--schedule=wsd --lr-decay-iters=auto --decay-fraction=0", "--max-iters=10 --decay-fraction=0.2")])
def test_a_stable_run_decays_later(done, stable, change):
    done(LIVELY, "--lr-decay-iters=auto --schedule=wsd --max-iters=10 --checkpoint-interval=5 --out=whole text.txt")
    done(LIVELY, stable, "--max-iters=8 --checkpoint-interval=5 --out=part text.txt")
    checkpoint = Path("part/checkpoint.safetensors").read_bytes()
    done("--quiet --resume=part", change)
    same_folder("whole", "part")
    Path("part/checkpoint.safetensors").write_bytes(checkpoint)  # as after a kill
    Path("part/model.safetensors").unlink()
    Path("part/summary.json").unlink()
    done("--quiet --resume=part")
    same_folder("whole", "part")
    done("--quiet --resume=part --max-iters=12")  # after its decay
    last = log_of("part")[-1]
    assert (last["step"], last["lr"]) == ("12", "0.001"), "decay is over"
    assert "lr-decay-iters = 10\n" in Path("part/config.ini").read_text() or "decay-fraction" not in change


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_an_end_of_the_decay_that_was_given_stays(done, schedule):
    """A longer run ends its decay where --lr-decay-iters says, in each schedule that decays."""
    for folder, steps in ("whole", 10), ("part", 3):
        done(LIVELY, f"--schedule={schedule} --lr-decay-iters=14 --max-iters={steps} --out={folder} text.txt")
    done(f"--quiet --resume=part --max-iters=10 --schedule={schedule}")
    same_folder("whole", "part")
    assert "lr-decay-iters = 14\n" in Path("part/config.ini").read_text()


@pytest.mark.parametrize("end, change, said", [
    ("auto", "--max-iters=10 --schedule=wsd --decay-fraction=0.5", "--decay-fraction=0.5: decay would start after 5 updates"),
    ("auto", "--max-iters=10 --schedule=cosine", "--schedule=cosine: contradicts --schedule=constant"),
    ("auto", "--max-iters=10 --schedule=wsd --learning-rate=0.02", "--learning-rate=0.02: contradicts"),
    ("auto", "--max-iters=10 --schedule=wsd --warmup-iters=4", "--warmup-iters=4: contradicts"),
    # an end that was given stays, also for another schedule
    ("9", "--schedule=wsd --max-iters=100", "decay would start after 7 updates")])
def test_a_decay_that_would_change_the_past_is_refused(done, refused, end, change, said):
    done(LIVELY, f"--schedule=constant --max-iters=8 --lr-decay-iters={end} --out=out text.txt")
    refused(USAGE, said, "--resume=out", change)


def test_what_auto_became_stays(done, refused):
    """The end of a decay and the batches of prepbn stay if the run gets longer."""
    done(LIVELY, "--norm=prepbn --lr-decay-iters=auto --prepbn-steps=auto --max-iters=4 --out=part text.txt")
    assert "\nlr-decay-iters = auto\n" in Path("part/config.ini").read_text()
    assert summary_of("part")["options"]["prepbn-steps"] == 8
    done("--quiet --resume=part --max-iters=9")
    done(LIVELY, "--norm=prepbn --lr-decay-iters=4 --prepbn-steps=8 --max-iters=9 --out=whole text.txt")
    same_folder("whole", "part")
    refused(USAGE, "--lr-decay-iters=9: contradicts --lr-decay-iters=4", "--resume=part --lr-decay-iters=auto")


def test_a_run_without_auto(done):
    """Runs of versions whose files have numbers in place of "auto"."""
    numbers = {"n-kv-head": "2", "ffn-width": "32", "norm-groups": "2", "min-lr": "0.001", "max-iters": "4", "num-items": "20",
               "eval-interval": "4"}
    done(LIVELY, "--norm=gn --max-iters=9 --out=whole text.txt")
    done(LIVELY, "--norm=gn --max-iters=4 --out=part text.txt")
    path = Path("part/checkpoint.safetensors")
    texts, arrays = read_plain(path)
    assert numbers.keys() <= texts.keys()
    put_arrays(path, arrays, texts | numbers)
    Path("part/config.ini").unlink()
    Path("part/model.safetensors").unlink()
    done("--quiet --resume=part --max-iters=9")
    same_arrays("whole/model.safetensors", "part/model.safetensors")
    assert "\nn-kv-head = 2\n" in Path("part/config.ini").read_text()


def test_with_probes(done, refused):
    """Rows of probes that are cut short, or that belong to updates to be repeated, are removed; what is no row is refused."""
    done(WATCHED, "--norm=ln --max-iters=9 --out=whole text.txt")
    probes = Path("whole/probes.csv").read_text()
    assert probes.startswith("step,layer,site,metric,value\n0,,embd,stream_rms,")
    rows = Counter(int(line.partition(",")[0]) for line in probes.splitlines()[1:])
    assert set(rows) == {0, 3, 6} and min(rows.values()) == rows[0] > 30
    done(WATCHED, "--norm=ln --max-iters=5 --out=cut text.txt")
    with open("cut/probes.csv", "a", encoding="ascii") as file:
        file.write("6,0,attn,stream_rms,1\n6,0,att")
    done("--quiet --max-iters=9 --resume=cut")
    same_folder("whole", "cut")
    Path("cut/probes.csv").write_text(f"{probes}no row\n")
    refused(MACHINE, "cut/probes.csv:", "--quiet --max-iters=10 --resume=cut")


CUT = "5,0.1,40,0.001,2.5,,1.0,100\n"


@pytest.mark.parametrize("tail", ["", "5", "5,0.1,40,0.00", CUT, f"{CUT}6,0", None])
def test_a_row_that_was_cut_short_is_written_again(done, tail):
    done(LIVELY, "--max-iters=6 --out=whole text.txt")
    done(LIVELY, "--max-iters=5 --out=out text.txt")
    log = Path("out/log.csv").read_text()
    if tail is None:  # a row of an update before the checkpoint, but beyond the checksum
        log, tail = log[:log.index("\n5,") + 1], CUT.replace("5", "4", 1)
    Path("out/log.csv").write_text(log + tail)
    done("--quiet --max-iters=6 --resume=out")
    same_folder("whole", "out")


def test_before_the_first_checkpoint(done):
    done(LIVELY, "--keep-best --max-iters=5 --out=whole text.txt")
    done(LIVELY, "--keep-best --max-iters=5 --out=out text.txt")
    for gone in ("checkpoint.safetensors", "model.safetensors"), ("checkpoint.safetensors", "model.safetensors", "log.csv"):
        for name in gone:
            Path("out", name).unlink()
        Path("out/best.safetensors").write_text("of another time")
        done("--quiet --resume=out/")
        same_folder("whole", "out")


def test_a_checkpoint_is_never_older_than_the_model(done, refused):
    """Otherwise --resume would return to the checkpoint, and the rows and the model after it would be lost."""
    done(LIVELY, "--max-iters=9 --out=whole text.txt")
    done(LIVELY, "--max-iters=4 --out=out text.txt")
    done("--quiet --max-iters=6 --checkpoint-interval=0 --resume=out")
    log = Path("out/log.csv").read_text()
    refused(USAGE, "--max-iters=5: the run in out has done 6 already", "--resume=out --max-iters=5")
    assert Path("out/log.csv").read_text() == log
    done("--quiet --max-iters=9 --checkpoint-interval=auto --resume=out")
    same_folder("whole", "out")
