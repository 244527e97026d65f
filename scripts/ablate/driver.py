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
  --sshlogin=LIST   distribute the runs over machines that share this folder, with GNU parallel (scripts/deps.sh
                    ablate installs it)
  --dry-run         show the grid and the expected time; train and write nothing
  --list            show the same, and write DIR/grid.txt, one run per line, for scripts/ablate.slurm

After a kill, the same command continues runs from their checkpoints. DIR contains
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       output, times and locks of the runs

--help=all and --help=NAME show the options of ./train.

Exit status: 0 every run ended (a diverged run counts), 1 some failed, 2 wrong usage, 129, 130, 143 interrupted.
"""
# An ablation: every combination of some options of ./train, each with the same seeds.
#
# options, or a given list -> FOLDER/grid.txt, one run per line, after a trial of each variant (plan.py)
#   -> runs side by side, each by one_run.py in a thread, or under GNU parallel on other machines
#   -> results.csv and the table (table.py)
#
# Only a run's own summary.json says that it has ended. So after any kill the same command does what is left, and a run
# that left a checkpoint continues from there. There are two kinds of lock. driver/lock keeps a second ablate.sh out of
# the folder; children do not inherit it, so it is released when this program ends. The lock of a run is the file of its
# output, driver/NAME.out, which ./train holds as long as it lives. If a killed driver leaves a run under way, the next
# driver waits for it and does not start it twice.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
from concurrent.futures import ThreadPoolExecutor
import contextlib
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(HERE)
sys.path.insert(0, SCRIPTS)

from ablate.grid import quote
from ablate.one_run import Children, do_run
from ablate.plan import duration, make, say
from common.ablations import has_ended, listed, read_ending
from common.command_line import UsageError, run, write_whole
from common.run_options import train
from common.runs import RunError, read_text

TABLE = [sys.executable, os.path.join(SCRIPTS, "table.py")]


class Progress:
    """Prints a line for each run that has ended, with the time that is left. Runs end in threads of their own."""

    def __init__(self, plan, children):
        self.plan, self.children, self.start, self.done, self.lock = plan, children, time.monotonic(), 0, threading.Lock()
        again = {f"{name}.status" for name in plan.todo}
        names = os.listdir(os.path.join(plan.folder, "driver"))
        self.before = sum(name.endswith(".status") and name not in again for name in names)  # of the folder's runs

    def tell(self, text):
        with self.lock:
            self.done += 1
            total = len(self.plan.todo)
            self.show(text, f"{duration((time.monotonic() - self.start) * (total - self.done) / self.done)} left")

    def show(self, text, left):
        say(f"{self.before + self.done}/{self.before + len(self.plan.todo)} {text}" + f"; {left}" * (not self.children.interrupted))


def results_of(plan):
    """The command that writes results.csv."""
    return [*TABLE, f"--csv={plan.folder}/results.csv", plan.folder]


def do_here(plan, children, line, tell):
    if not children.interrupted:
        try:
            do_run(children, plan.folder, line, plan.threads, tell)
        except (OSError, RunError, UsageError) as error:
            say(f"{line.split()[0]}: {error}")


def do_on_machines(plan, children, tell):
    driver = os.path.join(plan.folder, "driver")
    todo = os.path.join(driver, "todo")  # a command line of all numbers may be too long
    write_whole(todo, "".join(f"{place}\n" for place in plan.places))

    def follow(process):
        for line in process.stdout:
            tell(line.decode(errors="replace").strip().removeprefix("ablate: "))

    # Paths are arguments of GNU parallel, {2} and {3}, because it replaces "{}" in any other word.
    jobs = ["-j", plan.given_jobs] if plan.given_jobs else []
    with open(os.path.join(driver, "runner.err"), "wb") as errors:
        children.call(["parallel", "--plain", "--will-cite", "--quote", "--ungroup", "--joblog", os.path.join(driver, "joblog"),
                       "-a", todo, "--sshlogin", plan.sshlogin, "--workdir", ".", *jobs,
                       "{2}", "--do-line", str(plan.threads), "{3}", "{1}",
                       ":::", os.path.join(SCRIPTS, "ablate.sh"), ":::", plan.folder],
                      follow, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "PARALLEL_SHELL": "/bin/bash"})


def train_all(plan, children, tell):
    """Does the runs of plan.todo. tell(text) gets a line for each."""
    for name in plan.todo:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(plan.folder, "driver", f"{name}.status"))
    with ThreadPoolExecutor(1 if plan.sshlogin else plan.jobs) as pool:
        if plan.sshlogin:
            futures = [pool.submit(do_on_machines, plan, children, tell)]
        else:
            lines = list(listed(plan.folder).values())
            futures = [pool.submit(do_here, plan, children, lines[place - 1], tell) for place in plan.places]
        for future in futures:
            future.result()


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
    for word in words[:words.index("--")] if "--" in words else words:
        if word in ("-h", "--help"):
            print(__doc__, end="")
            return 0
        if word.startswith("--help="):
            os.execv(train(), [train(), word])
    plan = make(words)
    sys.stdout.flush()
    if plan.dry_run or plan.list_only:
        return 0
    children = Children()
    if plan.todo:
        train_all(plan, children, Progress(plan, children).tell)
    failed = [name for name in plan.todo if not has_ended(plan.folder, name)]
    if children.interrupted:
        subprocess.run(results_of(plan), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        say(f"interrupted: {len(plan.runs) - len(failed)} of {len(plan.runs)} runs have ended; the same command continues")
        return children.interrupted
    status = print_results(plan)
    if plan.advice:
        say(f"scripts/compare.py {quote(plan.folder)} {plan.advice}")
    if failed:
        report_failed(plan, failed)
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(run(say, lambda: ablate(sys.argv[1:]), RunError))
