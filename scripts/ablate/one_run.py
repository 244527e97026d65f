"""Does runs of an ablation, for driver.py in a thread for each run that is under way. GNU parallel and ablate.slurm do runs on
other machines, in a process: ablate.sh --do-line THREADS FOLDER LINE. So this imports only what a run needs.
"""
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common.ablations import INTERRUPTED, check_files, files_of, has_ended, listed, summary_of, words_of
from common.command_line import UsageError, run, teller, write_whole
from common.run_options import train
from common.runs import RunError, read_log

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP

say = teller("ablate")


def in_main_thread():
    """Whether this thread may set handlers of signals."""
    return threading.current_thread() is threading.main_thread()


# ---- processes -----------------------------------------------------------------------------------

class Children:
    """The processes that this program waits for. Each has a process group of its own, and gets one SIGTERM for each signal
    that this program gets: at the first one ./train saves and ends, at the second one it dies. interrupted: the exit status
    after a signal, or 0."""

    def __init__(self):
        self.sent, self.interrupted, self.signals, self.lock = {}, 0, 0, threading.RLock()  # sent: {process: how many}
        for number in SIGNALS if in_main_thread() else ():
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                signal.signal(number, self.interrupt)

    def interrupt(self, number, frame):
        say("interrupted: the runs save and end (a second interrupt kills them)")
        self.interrupted = 128 + number
        self.signals += 1
        self.pass_on()

    def pass_on(self):
        with self.lock:
            for process in self.sent:
                while self.sent[process] < self.signals:
                    self.sent[process] += 1
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGTERM)

    def call(self, words, follow=lambda process: None, **how):
        """The exit status of a command, as a shell gives it. follow(process) is called while it runs."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, **how)
        with self.lock:
            self.sent[process] = 0
        self.pass_on()
        follow(process)
        status = process.wait()
        with self.lock:
            del self.sent[process]
        return status if status >= 0 else 128 - status


# ---- one run -------------------------------------------------------------------------------------

def how_it_ended(status, folder, name):
    faults = []
    summary = summary_of(folder, name, faults.append)
    if faults and status in (0, 3):
        return f"ended with exit status {status}, but {faults[0]}"
    if status == 0 and summary.get("exit_reason") == "done":
        return f"val loss {summary['val_loss']:.4f}, best {summary['best_val_loss']:.4f} at step {summary.get('best_step')}"
    if status == 3:
        return f"diverged at step {summary.get('steps')}"
    if status in INTERRUPTED:
        return "interrupted"
    return f"killed by signal {status - 128}" if 129 <= status < 140 else f"failed with exit status {status}"


def seconds_of(log):
    """How long the run of a log was trained; 0 if the log is damaged or has no row."""
    try:
        return max(read_log(log)["seconds"])
    except RunError:
        return 0


def train_run(children, path, program, options, out, environment):
    """Trains a run. One that left a checkpoint continues from there; if it cannot (a damaged checkpoint, another text), it
    starts again. One that fails after it has continued keeps its checkpoint. Returns ./train's exit status, and the
    seconds, with those before the checkpoint."""
    config, log, start = os.path.join(path, "config.ini"), os.path.join(path, "log.csv"), time.time()

    def call(*more):
        out.truncate(0)
        return children.call([*program, *more], stdout=out, stderr=out, env=environment)

    def written():  # ./train writes the options again when it continues
        return os.path.exists(config) and os.stat(config).st_mtime_ns

    if os.path.exists(os.path.join(path, "checkpoint.safetensors")) and os.path.exists(log):
        before = written()
        taken = seconds_of(log)
        status = call(f"--resume={path}")
        if status not in (1, 2) or written() != before:
            return status, int(time.time() - start + taken)
        start = time.time()
    status = call("--force", f"--out={path}", *options)
    return status, int(time.time() - start)


def do_run(children, folder, line, threads, tell):
    """Does the run of a line of grid.txt unless it has ended. Records its end in driver/NAME.status, "ended STATUS SECONDS
    HOW", and tells it. Returns ./train's exit status, but 0 for a run that diverged, since that is a result."""
    name, options = line.split()[0], words_of(folder, line)
    with open(os.path.join(folder, "driver", f"{name}.out"), "ab") as out:
        while not children.interrupted:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.1)
        if children.interrupted:
            return children.interrupted
        if has_ended(folder, name):  # before, or while this waited for the lock
            summary = summary_of(folder, name)
            status, seconds = 3 * (summary["exit_reason"] == "diverged"), int(summary.get("seconds") or 0)
        else:
            # A lone run may have several threads, of which ./train takes as many as pay for its model.
            program = [train(), "--quiet", *(["--threads=1"] if str(threads) == "1" else [])]
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            try:
                check_files(folder, files_of([options]))
                status, seconds = train_run(children, os.path.join(folder, "runs", name), program, options, out, environment)
            except RunError as error:
                out.truncate(0)
                out.write(f"ablate: {error}\n".encode(errors="surrogateescape"))
                out.flush()
                status, seconds = 1, 0
        how = how_it_ended(status, folder, name)
        write_whole(os.path.join(folder, "driver", f"{name}.status"), f"ended {status} {seconds} {how}\n")
        tell(f"{name}: {how}, {seconds} s")
    return 0 if has_ended(folder, name) else status


def do_lines(threads, folder, numbers):
    """Does the run of a line, or those of lines FIRST-LAST as far as there are some. Returns the exit status, of several runs
    the highest."""
    lines, children = list(listed(folder).values()), Children()
    first, _, last = numbers.partition("-")
    if not (first + last).isdigit() or not 1 <= int(first) <= min(len(lines), int(last or first)):
        raise UsageError(f"{folder}/grid.txt: has no line '{first}'")
    return max(do_run(children, folder, line, threads, lambda text: print(f"ablate: {text}", flush=True))
               for line in lines[int(first) - 1:int(last or first)])


if __name__ == "__main__":
    sys.exit(run(say, lambda: do_lines(*sys.argv[2:]), RunError))
