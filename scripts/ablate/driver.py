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
  --sshlogin=LIST   distribute the runs over machines that share this folder, with GNU parallel
  --dry-run         show the grid and the expected time; train and write nothing
  --list            show the same, and write DIR/grid.txt, one run per line, for scripts/ablate.slurm

After a kill, the same command continues runs from their checkpoints. DIR contains
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       output, times and locks of the runs

--help=all and --help=NAME show the options of ./train.

Exit status: 0 every run ended (a diverged run counts), 1 some failed, 2 wrong usage, 130, 143 interrupted.
"""
# An ablation: every combination of some options of ./train, each with the same seeds.
#
# options, or a given list -> FOLDER/grid.txt, one run per line, after a trial of each variant (plan.py)
#   -> runs side by side, under GNU parallel if it is there -> results.csv and the table (table.py)
#
# Only a run's own summary.json says that it has ended. So after any kill the same command does what is left, and a run
# that left a checkpoint continues from there. There are two kinds of lock. driver/lock keeps a second ablate.sh out of
# the folder; children do not inherit it, so it is released when this program ends. The lock of a run is the file of its
# output, driver/NAME.out, which ./train holds as long as it lives. If a killed driver leaves a run under way, the next
# driver waits for it and does not start it twice. GNU parallel outlives a killed driver, but its queue then empties: no
# run is started without the driver, whose process number each gets.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
from concurrent.futures import ThreadPoolExecutor, wait
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(HERE)
sys.path.insert(0, SCRIPTS)

from ablate.plan import duration, has_ended, listed, make, say, summary_of
from common.ablations import read_ending, words_of
from common.command_line import UsageError, run, write_whole
from common.run_options import train
from common.runs import RunError, read_log, read_text

TABLE = [sys.executable, os.path.join(SCRIPTS, "table.py")]

# ---- processes -----------------------------------------------------------------------------------

class Crew:
    """Processes side by side. Each has a process group of its own, and gets exactly one SIGTERM for each signal that this
    program gets: at the first one ./train saves and ends, at the second one it dies. interrupted: the exit status after
    a signal, or 0."""

    def __init__(self):
        self.processes, self.interrupted, self.lock = [], 0, threading.RLock()

    def interrupt(self, number, frame):
        say("interrupted: the runs save and end (a second interrupt kills them)")
        with self.lock:
            self.interrupted = 128 + number
            for process in self.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def call(self, words, tell=print, **how):
        """The exit status of a command, as a shell gives it. tell(line) gets what it prints, if `how` has a pipe for it."""
        with self.lock:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, **how)
            if self.interrupted:
                process.terminate()
            self.processes.append(process)
        for line in process.stdout or ():
            tell(line.strip())
        status = process.wait()
        self.processes.remove(process)
        return status if status >= 0 else 128 - status

    def do(self, tasks, jobs, meanwhile=lambda: None):
        """The results of these functions, `jobs` side by side. meanwhile() is called often."""
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                signal.signal(number, self.interrupt)
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(task) for task in tasks]
            while wait(futures, timeout=0.2).not_done:
                meanwhile()
        return [future.result() for future in futures]


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


def train_run(crew, path, program, options, out):
    """Trains a run. One that left a checkpoint continues from there; if it cannot (a damaged checkpoint, another text), it
    starts again. One that fails after it has continued keeps its checkpoint. Returns ./train's exit status, and the
    seconds, with those before the checkpoint."""
    config, log, start = os.path.join(path, "config.ini"), os.path.join(path, "log.csv"), time.time()

    def call(*more):
        out.truncate(0)
        return crew.call([*program, *more], stdout=out, stderr=out)

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


def do_run(crew, folder, line, threads, tell):
    """Does the run of a line of grid.txt unless it has ended. Records its end in driver/NAME.status, "ended STATUS SECONDS
    HOW"; tell(text) prints it. Returns ./train's exit status, but 0 for a run that diverged, since that is a result."""
    name, options = line.split()[0], words_of(folder, line)
    with open(os.path.join(folder, "driver", f"{name}.out"), "ab") as out:
        while not crew.interrupted:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.1)
        if crew.interrupted:
            return crew.interrupted
        if has_ended(folder, name):  # before, or while this waited for the lock
            summary = summary_of(folder, name)
            status, seconds = 3 * (summary["exit_reason"] == "diverged"), int(summary.get("seconds") or 0)
        else:
            program = [train(), "--quiet", f"--threads={threads}"]
            status, seconds = train_run(crew, os.path.join(folder, "runs", name), program, options, out)
        how = how_it_ended(status, folder, name)
        write_whole(os.path.join(folder, "driver", f"{name}.status"), f"ended {status} {seconds} {how}\n")
        tell(f"{name}: {how}, {seconds} s")
    return 0 if has_ended(folder, name) else status


def is_there(process):
    """Whether a process of this machine lives."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def do_line(threads, folder, number, driver=None):
    """Does the run of this line, for GNU parallel and ablate.slurm. driver: the process without which none is started.
    Returns the exit status."""
    lines, crew = list(listed(folder).values()), Crew()
    if driver and not is_there(int(driver)):
        return 0
    if not number.isdigit() or not 1 <= int(number) <= len(lines):
        raise UsageError(f"{folder}/grid.txt: has no line '{number}'")
    line = lines[int(number) - 1]
    return crew.do([lambda: do_run(crew, folder, line, threads, lambda text: print(f"ablate: {text}", flush=True))], 1)[0]


# ---- all runs ------------------------------------------------------------------------------------

def has_gnu_parallel():
    return "GNU parallel" in subprocess.getoutput("parallel --version")  # moreutils has another program of this name


def tasks_of(plan, crew, tell=None):
    """What does the runs: GNU parallel, or without it a function for each run. tell(text) gets a line for each run that
    ends, by default to print it."""
    driver, start = os.path.join(plan.folder, "driver"), time.monotonic()
    before = ended = sum(name.endswith(".status") for name in os.listdir(driver))  # of the folder's runs
    total = before + len(plan.todo)

    def print_progress(text):
        nonlocal ended
        with crew.lock:
            ended += 1
            left = duration((time.monotonic() - start) * (total - ended) / (ended - before))
            say(f"{ended}/{total} {text.removeprefix('ablate: ')}" + f"; {left} left" * (not crew.interrupted))

    tell = tell or print_progress

    def do(line):
        try:
            do_run(crew, plan.folder, line, plan.threads, tell)
        except (OSError, RunError) as error:  # the run has not ended then
            say(f"{line.split()[0]}: {error}")

    def distribute():
        todo = os.path.join(driver, "todo")  # a command line of all numbers may be too long
        write_whole(todo, "".join(f"{place}\n" for place in plan.places))
        words = [str(plan.threads), plan.folder, "{}"]
        if plan.sshlogin:
            where = ["--sshlogin", plan.sshlogin, "--workdir", ".", *(["-j", plan.given_jobs] if plan.given_jobs else [])]
        else:
            where, words = ["-j", str(plan.jobs)], [*words, str(os.getpid())]
        with open(os.path.join(driver, "runner.err"), "wb") as errors:
            crew.call(["parallel", "--plain", "--will-cite", "--quote", "--ungroup", "--joblog", os.path.join(driver, "joblog"),
                       "-a", todo, *where, os.path.join(SCRIPTS, "ablate.sh"), "--do-line", *words],
                      tell, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "PARALLEL_SHELL": "/bin/bash"})

    return [distribute] if has_gnu_parallel() else [lambda line=line: do(line) for line in plan.todo.values()]


def train_all(plan, crew):
    """Does the runs, and writes results.csv meanwhile: that takes 0.2 to 0.5 s of a processor, and many
    seconds in a folder of thousands of runs."""
    due = time.monotonic() + 10

    def write_results():
        nonlocal due
        start = time.monotonic()
        subprocess.run([*TABLE, f"--csv={plan.folder}/results.csv", plan.folder], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        due = time.monotonic() + 10 + 50 * (time.monotonic() - start)

    for name in plan.todo:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(plan.folder, "driver", f"{name}.status"))
    crew.do(tasks_of(plan, crew), plan.jobs, lambda: write_results() if time.monotonic() >= due else None)
    write_results()


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
        if word.startswith("--sshlogin") and not has_gnu_parallel():
            raise RunError("--sshlogin needs GNU parallel (scripts/deps.sh ablate installs it)")
    plan, crew = make(words), Crew()
    sys.stdout.flush()
    if plan.dry_run or plan.list_only:
        return 0
    train_all(plan, crew)
    failed = [name for name in plan.todo if not has_ended(plan.folder, name)]
    if crew.interrupted:
        say(f"interrupted: {len(plan.runs) - len(failed)} of {len(plan.runs)} runs have ended; the same command continues")
        return crew.interrupted
    status = int(subprocess.call([*TABLE, plan.folder]) != 0)
    if plan.advice:
        say(f"scripts/compare.py {plan.folder} {plan.advice}")
    if failed:
        report_failed(plan, failed)
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(run(say, lambda: ablate(sys.argv[1:]), RunError))
