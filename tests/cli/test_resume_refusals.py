"""What --resume refuses and what it allows: changed options, damaged and missing files, a second writer, a full disk. And runs
that a signal stops: interrupted, terminated, killed at any moment."""
import fcntl
import math
import os
from pathlib import Path
import signal
import subprocess
import time

import pytest

from conftest import (DIVERGED, LIVELY, MACHINE, TINY, USAGE, WATCHED, full_disk, lines, log_of, put_arrays, put_text, refusal,
                      same_folder, summary_of)
from pytorch.model_file import read_plain
from signals import Started, interrupted


@pytest.mark.parametrize("there", [True, False])  # with a checkpoint, and with config.ini alone
def test_what_contradicts_the_run_is_refused(done, refused, there):
    done(LIVELY, "--out=out text.txt")
    log = Path("out/log.csv").read_bytes()
    if not there:
        Path("out/checkpoint.safetensors").unlink()
        Path("out/model.safetensors").unlink()
    for option, stored, *called in (
            ("--norm=bn", "--norm=ln"),
            ("--postln", "--placement=pre", "--placement=post"),
            ("--n-embd=16", "--n-embd=8"),
            ("--seed=2", "--seed=1"),
            ("--learning-rate=0.02", "--learning-rate=0.01"),
            ("--learning-rate=0.0001", "--learning-rate=0.01"),  # below --min-lr
            ("--n-head=3", "--n-head=2"),  # of 8 channels
            ("--min-lr=0.0001", "--min-lr=0.001"),
            ("--dropout=0", "--dropout=0.2"),
            ("--batch-size=3", "--batch-size=2"),
            ("--optimizer=muon", "--optimizer=adamw"),
            ("--level=byte", "--level=char"),
            ("--eval-train", "--eval-train=off", "--eval-train=on"),
            ("--keep-best", "--keep-best=off", "--keep-best=on"),
            ("--probe-interval=2", "--probe-interval=0"),
            ("--sample-interval=2", "--sample-interval=0"),
            ("--lr-decay-iters=auto", "--lr-decay-iters=12", "--lr-decay-iters=4")):
        said = refused(USAGE, (called or [option])[0], "--resume=out", option)
        assert stored in said and ("out/checkpoint.safetensors" if there else "out/config.ini") in said, said
    put_text("other.txt", 1999)
    if there:
        refused(USAGE, "other.txt: has checksum ", "--resume=out other.txt")
    assert Path("out/log.csv").read_bytes() == log, "a refusal changed the log"


def test_what_may_change(done):
    done(LIVELY, "--out=out text.txt")
    Path("text.txt").rename("moved.txt")
    done("--quiet --resume=out --max-iters=9 --log-interval=1 --eval-interval=2 --eval-iters=1 --checkpoint-interval=3 --threads=3 "
         "--sample=5 --top-k=2 --temperature=0.5 --norm=ln --n-embd=8 moved.txt")
    assert summary_of("out")["steps"] == 9 and len(Path("out/sample.txt").read_text()) == 5
    assert {"max-iters = 9", 'corpus = "moved.txt"'} <= set(lines("out/config.ini"))


def test_what_has_changed_stays_so(done, refused):
    """A run that was resumed with other options and killed before its next checkpoint continues with these options."""
    done(LIVELY, "--max-iters=9 --log-interval=1 --out=whole text.txt")
    done(LIVELY, "--max-iters=4 --out=out text.txt")
    checkpoint = Path("out/checkpoint.safetensors").read_bytes()
    Path("text.txt").rename("moved.txt")
    done("--quiet --max-iters=9 --log-interval=1 --resume=out moved.txt")
    Path("out/checkpoint.safetensors").write_bytes(checkpoint)  # as the kill would have left it
    Path("out/model.safetensors").unlink()
    Path("out/summary.json").unlink()
    done("--quiet --resume=out")
    assert summary_of("out")["steps"] == 9
    Path("moved.txt").rename("text.txt")
    done("--quiet --resume=out text.txt")
    for name in "model.safetensors", "config.ini":
        assert Path("whole", name).read_bytes() == Path("out", name).read_bytes(), name
    Path("out/config.ini").write_text("norm = rms\n")  # edited by hand
    refused(USAGE, "--norm=rms: contradicts --norm=ln of out/checkpoint.safetensors (was config", "--resume=out")
    Path("out/config.ini").unlink()
    done("--quiet --resume=out")
    assert Path("whole/config.ini").read_bytes() == Path("out/config.ini").read_bytes()


@pytest.mark.parametrize("status, said, words", [
    (MACHINE, "--resume=nowhere: No such file or directory", "--resume=nowhere"),
    (MACHINE, "--resume=empty: is not the folder of a run", "--resume=empty"),
    (MACHINE, "--resume=text.txt: is not the folder of a run", "--resume=text.txt"),
    (USAGE, "leave out --out and --force", "--resume=empty --out=other"),
    (MACHINE, "looped/config.ini: Too many levels of symbolic links", "--resume=looped")])
def test_where_there_is_nothing_to_go_on_with(refused, status, said, words):
    Path("empty").mkdir()
    Path("looped").mkdir()
    Path("looped/config.ini").symlink_to("config.ini")
    refused(status, said, words)
    assert sorted(os.listdir()) == ["empty", "items.txt", "looped", "text.txt"] and not os.listdir("empty")


def test_a_log_that_is_none_is_left_as_it_is(done, refused):
    done(LIVELY, "--out=out text.txt")
    log = Path("out/log.csv").read_text()
    for text, said in ("not a log\n", "out/log.csv:1: "), (f"{log.splitlines()[0]}\n0,0.0,{1:05000}\n", "out/log.csv:2: "):
        Path("out/log.csv").write_text(text)
        refused(MACHINE, f"{said}is not a row of a run's log", "--resume=out --max-iters=8")
        assert Path("out/log.csv").read_text() == text
    Path("out/log.csv").write_text(log)
    done("--quiet --resume=out --max-iters=8")


def files_of(folder):
    """What a folder holds: bytes by names."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path(folder).rglob("*")}


# The run has ended, so that it has a model, a summary, a sample and a last row to lose. Only the first two are faults for a
# run that replaces it, too.
@pytest.mark.parametrize("fault, said, replaced", [
    ("rm out/best.safetensors && mkdir out/best.safetensors", "run: out/best.safetensors: is not a regular file", True),
    ("mkdir out/summary.json.tmp", "run: out/summary.json.tmp: is not a regular file", True),
    ("echo log.csv > out/log.crc32", "run: out/log.crc32: is damaged", False),
    ("echo 'no row' >> out/probes.csv", "run: out/probes.csv:", False),
    ("rm out/samples.txt && mkdir out/samples.txt", "out/samples.txt: ", False),
    ("mv damaged out/checkpoint.safetensors", "out/checkpoint.safetensors: best.lm_head.weight: holds nan or infinity", False)])
def test_a_refusal_removes_nothing(done, refused, fault, said, replaced):
    done(WATCHED, "--max-iters=8 --head=untied --out=out text.txt")
    texts, arrays = read_plain("out/checkpoint.safetensors")
    arrays["best.lm_head.weight"][0, 0] = math.nan
    put_arrays("damaged", arrays, texts)
    subprocess.run(fault, shell=True, check=True)
    was = files_of("out")
    refused(MACHINE, said, "--resume=out --max-iters=12")
    assert files_of("out") == was
    if replaced:
        refused(MACHINE, said, TINY, "--force --out=out text.txt")
        assert files_of("out") == was


# A run of hundreds of milliseconds that saves a checkpoint often.
LONG_RUN = TINY + ("--quiet --norm=bn --dropout=0.1 --max-iters=1500 --warmup-iters=10 --eval-interval=500 --eval-iters=3 "
                   "--log-interval=7 --checkpoint-interval=60 --sample=20").split()


def test_one_writer_at_a_time(done, refused):
    done(LIVELY, "--out=out text.txt")
    log = Path("out/log.csv").read_bytes()
    with Started(LONG_RUN, "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt") as first:
        first.wait("long/log.csv", 2)
        for words in "--resume=long", [*LIVELY, "--force", "--out=long", "text.txt"]:
            refused(USAGE, "long: another process is writing this run", words)
        first.end(signal.SIGKILL)
    with open("out/log.csv", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(USAGE, "out: another process is writing this run", "--resume=out")
    assert Path("out/log.csv").read_bytes() == log
    done("--quiet --resume=out")
    done("--quiet --resume=long --max-iters=20")  # its lock died with it


DIVERGING = TINY + "--quiet --norm=none --learning-rate=1000 --grad-clip=0 --schedule=constant".split()


def test_divergence_keeps_the_last_good_checkpoint(done, refused):
    first = refused(DIVERGED, "train: diverged at step ", DIVERGING, "--max-iters=1000 --checkpoint-interval=1 --out=out text.txt")
    rows = log_of("out")
    bad = rows[-1]
    assert "first bad tensor: " in first and f"train: diverged at step {bad['step']}:" in first
    assert summary_of("out")["exit_reason"] == "diverged"
    assert not all(math.isfinite(float(bad[name])) for name in ("train_loss", "grad_norm")), "the bad row is not in the log"
    assert Path("out/checkpoint.safetensors").exists() and not Path("out/summary.json.tmp").exists()
    assert refused(DIVERGED, "", "--quiet --resume=out") == first
    assert len(log_of("out")) == len(rows) and not Path("out/model.safetensors").exists()
    done("--generate=out --num-chars=10")  # its weights are numbers
    # ending at the last good step does not help: a moment has overflowed
    refused(DIVERGED, "diverged at step", DIVERGING, f"--max-iters={bad['step']} --eval-interval=1000 --out=end text.txt")
    assert not Path("end/model.safetensors").exists()


# Writing fails at config.ini, which a long corpus name makes long, and at the checkpoint.
@pytest.mark.parametrize("limit, name, corpus", [(2000, "config.ini", "./" * 1000 + "text.txt"),
                                                 (5000, "checkpoint.safetensors", "text.txt")])
def test_a_full_disk(done, train, limit, name, corpus):
    done(LIVELY, "--out=out text.txt")
    was = files_of("out")
    ended = train("--quiet --resume=out --max-iters=8", f"--corpus={corpus}", **full_disk(limit))
    refusal(ended, MACHINE, f"{name}: File too large")
    assert Path("out/checkpoint.safetensors").read_bytes() == was["out/checkpoint.safetensors"]
    assert not Path("out/checkpoint.safetensors.tmp").exists()
    assert name != "config.ini" or files_of("out") == was, "a full disk at the start"
    done("--quiet --resume=out --max-iters=8")


@pytest.mark.skipif(not os.getuid(), reason="root may write everywhere")
def test_an_unwritable_folder(done, refused):
    done(LIVELY, "--out=out text.txt")
    Path("out").chmod(0o555)
    refused(MACHINE, "Permission denied", "--quiet --resume=out --max-iters=8")
    Path("out").chmod(0o777)
    done("--quiet --resume=out --max-iters=8")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_after_an_interrupt_a_termination_or_a_hangup(done, number):
    # long enough that the signal comes first on a busy machine
    done(LONG_RUN, "--grad-accum=4 --out=whole text.txt")
    ended = interrupted(number, "out/log.csv", LONG_RUN, "--grad-accum=4 --out=out text.txt")
    assert ended.status == 128 + number and len(os.listdir("out")) == 6
    last, summary = log_of("out")[-1], summary_of("out")
    assert last["train_loss"] == "" and (summary["exit_reason"], summary["steps"]) == ("interrupted", int(last["step"]))
    done("--quiet --resume=out")
    same_folder("whole", "out")


def test_after_a_kill_at_sixty_moments(done):
    """Each run is killed at another moment of the time that a whole one takes; every fifth one is only terminated. It is
    resumed if it has a folder, else started again."""
    words = [*LONG_RUN, *"--keep-best --eval-interval=20 --force text.txt".split()]
    begin = time.monotonic()
    done(words, "--out=whole")
    seconds, times, killed, early = time.monotonic() - begin, 60, 0, 0
    for i in range(times):
        with Started(words, "--out=out") as process:
            time.sleep(seconds * (2 * i + 1) / (2 * times))  # spread over the run, whose pace varies
            killed += process.end(signal.SIGKILL if i % 5 else signal.SIGTERM).status > 128
        early += not Path("out/checkpoint.safetensors").exists()
        done("--quiet --resume=out") if Path("out/config.ini").exists() else done(words, "--out=out")
        same_folder("whole", "out")
    assert killed > times / 10 and early < times


def test_without_checkpoints_only_an_interrupt_leaves_one(done, refused):
    done(LIVELY, "--checkpoint-interval=0 --out=out text.txt")
    assert not Path("out/checkpoint.safetensors").exists() and Path("out/model.safetensors").exists()
    refused(MACHINE, "--resume=out: the run has ended and kept no checkpoint (see --checkpoint-interval)",
            "--resume=out --max-iters=8")
    ended = interrupted(signal.SIGTERM, "long/log.csv", LONG_RUN,
                        "--max-iters=1000000000 --checkpoint-interval=0 --out=long text.txt")
    assert ended.status == 143 and Path("long/checkpoint.safetensors").exists()


def test_an_interrupt_in_the_last_evaluation(text):
    """An evaluation that takes hours."""
    with Started(TINY, "--quiet --max-iters=0 --eval-iters=0 --grammar-chars=30000000 --batch-size=1 --checkpoint-interval=0 "
                 "--out=out") as process:
        process.wait("out/model.safetensors", 1)
        assert process.end(signal.SIGINT).status == 130
    assert Path("out/checkpoint.safetensors").exists(), "there is no checkpoint"


# A second interrupt ends a run at once. A second SIGTERM changes nothing, as timeout(1) sends one to the process and one to its
# group: the run still ends with its update saved.
@pytest.mark.parametrize("number, accum, pause, saved", [(signal.SIGINT, 1000000, 0.1, False), (signal.SIGTERM, 2000, 0.001, True)])
def test_a_second_signal(text, number, accum, pause, saved):
    with Started(LIVELY, f"--grad-accum={accum} --max-iters=1000000 --eval-iters=1 --sample=0 --checkpoint-interval=0 --out=out "
                 "text.txt") as process:
        process.wait("out/config.ini", 1)
        process.work(0.2)  # into its first update
        process.send(number)
        time.sleep(pause)
        assert process.end(number).status == 128 + number
    assert Path("out/summary.json").exists() == saved == Path("out/checkpoint.safetensors").exists()


def test_a_signal_that_is_ignored_by_inheritance_stays_so(done):
    """As a shell starts jobs of a script in the background, and nohup any program."""
    done(LONG_RUN, "--out=whole text.txt")
    with Started(LONG_RUN, "--out=out text.txt", ignored=(signal.SIGINT, signal.SIGHUP)) as process:
        process.wait("out/log.csv", 2)
        process.send(signal.SIGHUP)
        assert process.end(signal.SIGINT).status == 0
    same_folder("whole", "out")
    with Started(LIVELY, "--grad-accum=20000 --max-iters=1000000 --out=long text.txt", ignored=(signal.SIGINT,)) as process:
        process.wait("long/log.csv", 2)  # it is in its second update
        process.send(signal.SIGTERM)
        time.sleep(0.05)
        assert process.end(signal.SIGINT).status == 143
    assert summary_of("long")["exit_reason"] == "interrupted"
