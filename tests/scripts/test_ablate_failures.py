"""Ablations that do not end well: drivers and runs that are killed or interrupted, or that diverge or fail."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import RUN, TINY, TRAIN, lines, reason, wait_until

FOUR = ("--norm=ln,rms", "--seeds=2", "--placement=pre", "--jobs=2", "--out=a", "--", *RUN)


@pytest.fixture(params=["one machine", "--sshlogin=2/:"])
def either(ablate, request):
    """An ablation and the words of a command that does four runs, on this machine or as on others."""
    return ablate, (request.param, *FOUR) if request.param.startswith("--") else FOUR


def test_the_driver_is_killed(either):
    """While two of four runs are under way; then the command is given again. The runs continue only after the second
    driver has started, which must wait for them."""
    ablate, four = either
    ablate.hold()
    driver = ablate.start(*four)
    wait_until(lambda: len(lines("begun")) >= 2)
    assert "ablate: a: another ablate.sh is running there (process " in ablate(*four, status=1).err
    ablate.end(driver, -signal.SIGKILL, signal.SIGKILL)
    driver = ablate.start(*four)
    wait_until(lambda: lines("a/driver/lock")[-1:] == [f"process {driver.pid} on {os.uname().nodename}"])
    time.sleep(0.5)
    ablate.release()
    assert "| rms | " in ablate.end(driver, 0).out
    assert len(lines("begun")) == 4, "some run was not done once"
    assert len(lines("a/results.csv")) == 5
    ablate(*four)
    assert len(lines("begun")) == 4, "done again"


def test_the_queue_of_a_killed_driver_empties(ablate):
    """The runs that are under way end, and no other is started. (On other machines nobody knows of the driver.)"""
    ablate.hold()
    driver = ablate.start(*FOUR)
    wait_until(lambda: len(lines("begun")) >= 2)
    ablate.end(driver, -signal.SIGKILL, signal.SIGKILL)
    ablate.release()
    wait_until(lambda: all(os.path.exists(f"a/runs/{norm}-pre-s1/summary.json") for norm in ("ln", "rms")))
    time.sleep(2)
    assert len(lines("begun")) == 2


def test_a_run_is_killed(either):
    ablate, four = either
    ablate.hold()
    driver = ablate.start(*four)
    wait_until(lambda: len(lines("begun")) >= 2)
    process, = (int(line.split()[1]) for line in lines("begun") if line.startswith("ln-pre-s1 "))
    os.kill(process, signal.SIGKILL)
    ablate.release()
    assert ("ablate: 1 of 4 runs failed; the same command tries them again:\nablate: ln-pre-s1: killed by signal 9\n"
            in ablate.end(driver, 1).err)
    assert "\nln-pre-s1,ln,1,137,failed," in Path("a/results.csv").read_text()
    assert reason("rms-pre-s2") == "done" and len(lines("begun")) == 4
    ablate(*four)
    assert reason("ln-pre-s1") == "done" and len(lines("begun")) == 5, "other runs were done again"


def test_an_interrupt_lets_runs_save(either):
    ablate, four = either
    driver = ablate.start(*four, "--max-iters=1000000", "--log-interval=1000000")
    wait_until(lambda: all(len(lines(f"a/runs/{norm}-pre-s1/log.csv")) >= 2 for norm in ("ln", "rms")))
    ending = ablate.end(driver, 143, signal.SIGTERM)
    assert "interrupted: 0 of 4 runs have ended; the same command continues" in ending.err
    assert reason("ln-pre-s1") == reason("rms-pre-s1") == "interrupted" and len(os.listdir("a/runs")) == 2


LONG = ("--max-iters=20000", "--log-interval=100", "--eval-iters=1")


def stop_a_run(norm):
    """Stops a run of the grid early; returns its log so far."""
    log = Path(f"a/runs/{norm}-pre-s1/log.csv")
    with subprocess.Popen([TRAIN, *TINY, "text.txt", f"--norm={norm}", "--placement=pre", "--seed=1", *LONG,
                           "--eval-interval=250", "--quiet", f"--out={log.parent}"]) as process:
        wait_until(lambda: len(lines(log)) >= 3)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    return log.read_text()


def test_an_unfinished_run_goes_on(ablate):
    Path("a/driver").mkdir(parents=True)
    Path("a/runs").mkdir()
    log = stop_a_run("ln")
    stop_a_run("rms")
    Path("a/runs/rms-pre-s1/checkpoint.safetensors").write_text("damaged")
    ablate.count()
    ablate("--norm=ln,rms,none", "--placement=pre", "--seeds=1", "--jobs=1", "--out=a", "--", *RUN, *LONG)
    assert [(line.split()[0], line.split()[2]) for line in lines("begun")] == [
        ("ln-pre-s1", "--resume"), ("rms-pre-s1", "--resume"), ("rms-pre-s1", "--out"), ("none-pre-s1", "--out")]
    before, after = log.splitlines()[:2], lines("a/runs/ln-pre-s1/log.csv")[:2]
    assert before == after  # what it had logged, with its times
    for norm in ("ln", "rms", "none"):
        assert reason(f"{norm}-pre-s1") == "done"
        assert "\n20000," in Path(f"a/runs/{norm}-pre-s1/log.csv").read_text()


def test_a_run_that_went_on_and_failed_keeps_its_checkpoint(ablate):
    run = Path("a/runs/ln-pre-s1")
    run.mkdir(parents=True)
    Path("a/driver").mkdir()
    Path("a/grid.txt").write_text("ln-pre-s1 --norm=ln\n")
    (run / "checkpoint.safetensors").write_text("hours of work")
    (run / "log.csv").write_text("step,seconds,tokens,train_loss,val_loss\n0,0.5,0,4,4\n100,3600.5,9,3,\n200,72")
    ablate.put("full", "#!/bin/bash\necho \"$*\" >>begun\nsleep 0.1\necho >a/runs/ln-pre-s1/config.ini\n"
                       "echo 'train: the disk is full' >&2\nexit 1\n")
    ablate.env["TRAIN"] = "./full"
    ablate("--do-line", "1", "a", "1", status=1)
    assert lines("begun") == ["--quiet --threads=1 --resume=a/runs/ln-pre-s1"]
    assert "the disk is full" in Path("a/driver/ln-pre-s1.out").read_text()
    assert (run / "checkpoint.safetensors").read_text() == "hours of work"
    assert Path("a/driver/ln-pre-s1.status").read_text().startswith("ended 1 360")  # with the time before it was stopped


def test_one_diverges(ablate):
    ending = ablate("--norm=none", "--placement=pre", "--learning-rate=1000,1e-3", "--seed=2", "--out=a", "--jobs=1", "--",
                    *RUN, "--grad-clip=0", "--schedule=constant", "--max-iters=1000")
    assert "ablate: 1/2 none-pre-learning-rate=1000-s2: diverged at step " in ending.err
    assert reason("none-pre-learning-rate=1000-s2") == "diverged" and reason("none-pre-learning-rate=1e-3-s2") == "done"
    assert "| 1000 |  |  |  |  | 0 | 0 | 1 | 0 | " in ending.out
    assert "-s2,1000,2,3,diverged," in Path("a/results.csv").read_text()


def test_one_fails(ablate):
    words = ("--norm=ln", "--placement=pre", "--seeds=2", "--out=a", "--", *RUN)
    ablate("--list", *words)
    Path("a/runs/ln-pre-s1").touch()  # in place of its folder
    for attempt in "12":
        ending = ablate(*words, status=1)
        assert "ablate: ln-pre-s1: failed with exit status 1: train: run: a/runs/ln-pre-s1: cannot be created: " in ending.err
    assert "ablate: 2/2 ln-pre-s1: failed " in ending.err  # the second attempt counts no run twice
    assert reason("ln-pre-s2") == "done" and "\nln-pre-s1,ln,pre,1,1,failed," in Path("a/results.csv").read_text()


def test_a_run_without_a_final_loss_fails_and_is_named(ablate):
    """A program in place of ./train, which says of one run of two that it is done, without a loss."""
    ablate.put("lossless", f"""#!/bin/bash
case $* in *=a/runs/ln*)
    mkdir -p a/runs/ln-pre-s1
    echo '{{"exit_reason": "done", "steps": 4, "val_loss": null, "seconds": 1}}' >a/runs/ln-pre-s1/summary.json
    exit 0 ;;
esac
exec '{TRAIN}' "$@"
""")
    ablate.env["TRAIN"] = "./lossless"
    ending = ablate("--norm=ln,rms", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN, status=1)
    fault = "a/runs/ln-pre-s1/summary.json: damaged: the run is done, but val_loss is missing"
    assert "Traceback" not in ending.err and f"ablate: ln-pre-s1: ended with exit status 0, but {fault}\n" in ending.err
    assert f"table: {fault}\n" in ending.err and "| rms | " in ending.out and reason("rms-pre-s1") == "done"


@pytest.mark.parametrize("name, text, status, fault", [
    ("driver/times", "1 1 x ln-pre\n", 0, "ablate: a/driver/times: damaged: line 1 is not JOBS THREADS SECONDS VARIANT"),
    ("driver/times", "1 1\n", 0, "ablate: a/driver/times: damaged: line 1 "),
    ("driver/times", "1 1 1e999 ln-pre\n", 0, "ablate: a/driver/times: damaged: line 1 "),
    ("driver/ln-pre-s1.status", "ended x 1 done\n", 1, "table: a/driver/ln-pre-s1.status: damaged: is not 'ended STATUS "),
    ("driver/ln-pre-s1.status", "ended\n", 1, "table: a/driver/ln-pre-s1.status: damaged: "),
    ("grid.txt", "\nln-pre-s1 '--norm=ln\n", 1, "table: a/grid.txt: damaged: ln-pre-s1: No closing quotation"),
    ("grid.txt", "ln-pre-s1 --norm ln\n", 1, "table: a/grid.txt: damaged: ln-pre-s1: has a word that is not --NAME=VALUE"),
    ("runs/ln-pre-s1/summary.json", "{", 0, "ablate: a/runs/ln-pre-s1/summary.json: damaged: ")])
def test_a_damaged_file_of_a_folder_is_named_in_a_line(ablate, run, name, text, status, fault):
    """table.py reads the folder, and ablate.sh extends it."""
    words = "--norm=ln", "--placement=pre", "--out=a", "--", *RUN
    ablate("--seeds=1", *words)
    Path("a", name).write_text(text)
    ending = run("table.py", "a") if status else ablate("--seeds=2", *words)
    assert ending.status == status and "Traceback" not in ending.err and ending.err.count("damaged") == 1
    assert fault in ending.err
    if not status:
        assert reason("ln-pre-s1") == reason("ln-pre-s2") == "done"


def test_results_that_cannot_be_written_are_named(ablate):
    """Below a file that is a folder. The table is printed all the same."""
    words = "--norm=ln", "--placement=pre", "--seeds=1", "--out=a", "--", *RUN
    ablate("--list", *words)
    Path("a/results.csv").mkdir()
    ending = ablate(*words, status=1)
    assert "\ntable: a/results.csv: Is a directory\n" in ending.err and "| ln | pre | " in ending.out
