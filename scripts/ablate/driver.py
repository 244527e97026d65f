"""Usage: scripts/ablate.sh [GRID OPTION]... [-- [OPTION of ./train]... [CORPUS]]

Runs ./train for every combination of the values before --. All runs also get the options after --.
  --NAME=A,B,...    values of any option of ./train (default: --norm=ln,bn,rms --placement=pre,post)
  --NAME,NAME=A:B,C:D,...
                    options that vary together, one variant for each tuple of values:
                    --batch-size,max-iters=1:24000,4:6000 trains on equal numbers of tokens
  --grid=FILE       train the runs that FILE lists: each line has a name and options, with a seed of its
                    own; # starts a comment. Options are checked only when a run starts
  --seeds=N         seeds 1 to N (default: 5); --seeds=1,3,7 or --seed=7: only these seeds
  --out=DIR         folder of the ablation (default: runs/ablate-..., named by the arguments without the
                    seeds); more values and seeds extend a folder, and finished runs are not repeated
  --jobs=N          number of runs side by side (default: one per core), each with cores / N threads
  --sshlogin=LIST   distribute the runs over machines that share this folder
  --dry-run         show the grid and the expected time; train and write nothing
  --list            show the same, and write DIR/grid.txt, one run per line, for scripts/ablate.slurm

GNU parallel does the runs (scripts/deps.sh ablate installs it). After a kill, the same command continues runs from their
checkpoints. DIR contains
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       output, times and locks of the runs

--help=all and --help=NAME show the options of ./train.

Exit status: 0 every run ended (a diverged run counts), 1 some failed, 2 wrong usage, 130, 143 interrupted.
"""
# An ablation: every combination of some options of ./train, each with the same seeds.
#
# options, or a given list -> FOLDER/grid.txt, one run per line, after a trial of each variant (plan.py)
#   -> runs side by side, under GNU parallel -> results.csv and the table (table.py)
#
# Only a run's own summary.json says that it has ended. So after any kill the same command does what is left, and a run
# that left a checkpoint continues from there. There are two kinds of lock. driver/lock keeps a second ablate.sh out of
# the folder; children do not inherit it, so it is released when this program ends. The lock of a run is the file of its
# output, driver/NAME.out, which ./train holds as long as it lives. If a killed driver leaves a run under way, the next
# driver waits for it and does not start it twice. GNU parallel outlives a killed driver, but its queue then empties: no
# run is started without the driver, whose process number each gets.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(HERE)
sys.path.insert(0, SCRIPTS)

from ablate.grid import quote
from ablate.plan import duration, has_ended, listed, make, say, summary_of
from common.ablations import read_ending, words_of
from common.command_line import UsageError, run, write_whole
from common.run_options import train
from common.runs import RunError, read_log, read_text

TABLE = [sys.executable, os.path.join(SCRIPTS, "table.py")]
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def in_main_thread():
    """Whether this thread may set handlers of signals."""
    return threading.current_thread() is threading.main_thread()


# ---- processes -----------------------------------------------------------------------------------

class Child:
    """The process that this program waits for. It has a process group of its own, and gets one SIGTERM for each signal that
    this program gets: at the first one ./train saves and ends, at the second one it dies. interrupted: the exit status
    after a signal, or 0."""

    def __init__(self):
        self.process, self.interrupted, self.signals, self.sent = None, 0, 0, 0
        for number in SIGNALS if in_main_thread() else ():
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                signal.signal(number, self.interrupt)

    def interrupt(self, number, frame):
        say("interrupted: the runs save and end (a second interrupt kills them)")
        self.interrupted = 128 + number
        self.signals += 1
        self.pass_on()

    def pass_on(self):
        while self.process and self.sent < self.signals:
            self.sent += 1
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def call(self, words, follow=lambda process: None, **how):
        """The exit status of a command, as a shell gives it. follow(process) is called while it runs."""
        self.process, self.sent = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, **how), 0
        self.pass_on()
        follow(self.process)
        status, self.process = self.process.wait(), None
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
    if status in (130, 143):
        return "interrupted"
    return f"killed by signal {status - 128}" if 129 <= status < 140 else f"failed with exit status {status}"


def seconds_of(log):
    """How long the run of a log was trained; 0 if the log is damaged or has no row."""
    try:
        return max(read_log(log)["seconds"])
    except RunError:
        return 0


def train_run(child, path, program, options, out, environment):
    """Trains a run. One that left a checkpoint continues from there; if it cannot (a damaged checkpoint, another text), it
    starts again. One that fails after it has continued keeps its checkpoint. Returns ./train's exit status, and the
    seconds, with those before the checkpoint."""
    config, log, start = os.path.join(path, "config.ini"), os.path.join(path, "log.csv"), time.time()

    def call(*more):
        out.truncate(0)
        return child.call([*program, *more], stdout=out, stderr=out, env=environment)

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


def do_run(child, folder, line, threads):
    """Does the run of a line of grid.txt unless it has ended. Records its end in driver/NAME.status, "ended STATUS SECONDS
    HOW", and prints it. Returns ./train's exit status, but 0 for a run that diverged, since that is a result."""
    name, options = line.split()[0], words_of(folder, line)
    with open(os.path.join(folder, "driver", f"{name}.out"), "ab") as out:
        while not child.interrupted:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.1)
        if child.interrupted:
            return child.interrupted
        if has_ended(folder, name):  # before, or while this waited for the lock
            summary = summary_of(folder, name)
            status, seconds = 3 * (summary["exit_reason"] == "diverged"), int(summary.get("seconds") or 0)
        else:
            # A lone run may have several threads, of which ./train takes as many as pay for its model.
            program = [train(), "--quiet", *(["--threads=1"] if str(threads) == "1" else [])]
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            status, seconds = train_run(child, os.path.join(folder, "runs", name), program, options, out, environment)
        how = how_it_ended(status, folder, name)
        write_whole(os.path.join(folder, "driver", f"{name}.status"), f"ended {status} {seconds} {how}\n")
        print(f"ablate: {name}: {how}, {seconds} s", flush=True)
    return 0 if has_ended(folder, name) else status


def is_there(process):
    """Whether a process of this machine lives."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def do_line(threads, folder, numbers, driver=None):
    """Does the run of a line, or those of lines FIRST-LAST as far as there are some, for GNU parallel and ablate.slurm.
    driver: the process without which none is started. Returns the exit status, of several runs the highest."""
    lines, child = list(listed(folder).values()), Child()
    if driver and not is_there(int(driver)):
        return 0
    first, _, last = numbers.partition("-")
    if not (first + last).isdigit() or not 1 <= int(first) <= min(len(lines), int(last or first)):
        raise UsageError(f"{folder}/grid.txt: has no line '{first}'")
    return max(do_run(child, folder, line, threads) for line in lines[int(first) - 1:int(last or first)])


# ---- all runs ------------------------------------------------------------------------------------

def expect_gnu_parallel():
    if "GNU parallel" not in subprocess.getoutput("parallel --version"):  # moreutils has another program of this name
        raise RunError("GNU parallel is missing, which does the runs (scripts/deps.sh ablate installs it)")


class Progress:
    """Prints a line for each run that has ended, and writes results.csv every ten seconds. That takes 0.2 to 0.5 s of a
    processor, and many seconds in a folder of thousands of runs."""

    def __init__(self, plan, child):
        self.plan, self.child, self.start = plan, child, time.monotonic()
        names = os.listdir(os.path.join(plan.folder, "driver"))
        self.before = self.ended = sum(name.endswith(".status") for name in names)  # of the folder's runs
        self.writer, self.due, self.began = None, self.start + 10, 0

    def tell(self, text):
        self.ended += 1
        total, since = self.before + len(self.plan.todo), time.monotonic() - self.start
        left = duration(since * (total - self.ended) / (self.ended - self.before))
        say(f"{self.ended}/{total} {text.removeprefix('ablate: ')}" + f"; {left} left" * (not self.child.interrupted))

    def write(self):
        now = time.monotonic()
        if self.writer and self.writer.poll() is not None:
            self.writer, self.due = None, now + 10 + 50 * (now - self.began)
        elif not self.writer and now >= self.due:
            self.began, self.writer = now, subprocess.Popen(results_of(self.plan), stdout=subprocess.DEVNULL,
                                                            stderr=subprocess.DEVNULL)

    def follow(self, process):
        rest = b""
        while True:
            if select.select([process.stdout], [], [], 0.2)[0]:
                text = os.read(process.stdout.fileno(), 1 << 16)
                if not text:
                    break
                *lines, rest = (rest + text).split(b"\n")
                for line in lines:
                    self.tell(line.decode(errors="replace").strip())
            self.write()
        if self.writer:
            self.writer.wait()


def results_of(plan):
    """The command that writes results.csv."""
    return [*TABLE, f"--csv={plan.folder}/results.csv", plan.folder]


def train_all(plan, child, progress):
    """Does the runs of plan.todo. progress.follow(process) reads the line of each run that has ended."""
    driver = os.path.join(plan.folder, "driver")
    for name in plan.todo:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(driver, f"{name}.status"))
    todo = os.path.join(driver, "todo")  # a command line of all numbers may be too long
    write_whole(todo, "".join(f"{place}\n" for place in plan.places))
    words = [str(plan.threads), plan.folder, "{}"]
    if plan.sshlogin:
        where = ["--sshlogin", plan.sshlogin, "--workdir", ".", *(["-j", plan.given_jobs] if plan.given_jobs else [])]
    else:
        where, words = ["-j", str(plan.jobs)], [*words, str(os.getpid())]
    with open(os.path.join(driver, "runner.err"), "wb") as errors:
        child.call(["parallel", "--plain", "--will-cite", "--quote", "--ungroup", "--joblog", os.path.join(driver, "joblog"),
                    "-a", todo, *where, os.path.join(SCRIPTS, "ablate.sh"), "--do-line", *words],
                   progress.follow, stdout=subprocess.PIPE, stderr=errors,
                   env={**os.environ, "PARALLEL_SHELL": "/bin/bash"})


def print_results(plan):
    """Writes results.csv and prints the table. What both say of damaged runs is printed once. Returns the exit status."""
    ends = [subprocess.run(words, stderr=subprocess.PIPE, text=True, errors="surrogateescape", check=False)
            for words in (results_of(plan), [*TABLE, plan.folder])]
    sys.stderr.write("".join(dict.fromkeys("".join(end.stderr for end in ends).splitlines(keepends=True))))
    return int(any(end.returncode for end in ends))


def report_failed(plan, failed):
    say(f"{len(failed)} of {len(plan.runs)} runs failed; the same command tries them again:")
    for name in failed:
        record = os.path.join(plan.folder, "driver", name)
        ending = read_ending(plan.folder, name)
        how = ending.how if ending else "did not end: it was killed or never started"
        say(": ".join([name, how, *(read_text(f"{record}.out") or "").splitlines()[-1:]]))


def ablate(words):
    if words[:1] == ["--do-line"]:
        return do_line(*words[1:])
    for word in words[:words.index("--")] if "--" in words else words:
        if word in ("-h", "--help"):
            print(__doc__, end="")
            return 0
        if word.startswith("--help="):
            os.execv(train(), [train(), word])
    if not {"--dry-run", "--list"} & set(words):  # Slurm does the runs of a list
        expect_gnu_parallel()
    plan = make(words)
    sys.stdout.flush()
    if plan.dry_run or plan.list_only:
        return 0
    child = Child()
    if plan.todo:
        train_all(plan, child, Progress(plan, child))
    failed = [name for name in plan.todo if not has_ended(plan.folder, name)]
    if child.interrupted:
        subprocess.run(results_of(plan), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        say(f"interrupted: {len(plan.runs) - len(failed)} of {len(plan.runs)} runs have ended; the same command continues")
        return child.interrupted
    status = print_results(plan)
    if plan.advice:
        say(f"scripts/compare.py {quote(plan.folder)} {plan.advice}")
    if failed:
        report_failed(plan, failed)
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(run(say, lambda: ablate(sys.argv[1:]), RunError))
