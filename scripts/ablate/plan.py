"""Plans an ablation for ablate.py.

Reads the command, tries variants whose time is not known, shows the grid and the expected time, and writes the folder's
grid.txt.

In a trial, each run starts first and waits for its config.ini. Then the options are valid, the corpus is read and the
memory is allocated. If ./train refuses one, its message and exit status are passed on. Then the runs train for ten
steps, or as many as they make in a second, JOBS at a time as later. The time of a step is multiplied by what the options
say of the run's length: steps, evaluations, the sample. A forward pass counts as a third of a step.
"""
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from ablate.grid import read_plan, variant_of
from common.ablations import check_files, files_of, has_ended, keep_files, listed, lock, read_times, summary_of, words_of
from common.command_line import UsageError, teller, write_whole
from common.run_options import cores_here, expect_train, given, spelled, train
from common.runs import RunError, read_options, read_summary, read_text

LOCK = os.path.join("driver", "lock")
TRIAL_STEPS, TRIAL_SECONDS = 10, 60
START = 0.1  # seconds of a run before it trains: its files and the corpus


say = teller("ablate")


def number_of(count, noun):
    return f"{count} {noun}{'s' * (str(count) != '1')}"


# ---- the folder ----------------------------------------------------------------------------------

def meaning_of(line):
    """Equal for two lines of a grid that are the same run in two spellings."""
    return tuple(sorted((name, spelled(name, text)) for name, text in given(shlex.split(line)[1:]).items()))


def difference(before, now):
    """How the words of a command differ from those of the command before."""
    only = [shlex.join(word for word in one if word not in other) for one, other in ((before, now), (now, before))]
    return f"with {only[0] or 'nothing'} where this command has {only[1] or 'nothing'}"


def check_folder(plan):
    """Refuses a folder that holds something else."""
    driver = os.path.join(plan.folder, "driver")
    if os.path.exists(plan.folder) and not os.path.isdir(plan.folder) or \
            os.path.isdir(plan.folder) and not os.path.isdir(driver) and os.listdir(plan.folder):
        raise UsageError(f"{plan.folder}: is not an ablation's folder (give another --out)")
    shape = read_text(os.path.join(driver, "shape"))
    if shape is not None and shape.rstrip("\n") != plan.shape:
        here, there = (shlex.split(text) for text in (shape, plan.shape))
        raise UsageError(f"{plan.folder}: already contains another grid, {difference(here, there)} (give another --out; only values and "
                         "seeds can be added)")
    plan.files = files_of([words_of(plan.folder, line) for line in plan.runs.values()])
    check_files(plan.folder, plan.files)
    known = {} if plan.grid else {meaning_of(line): name for name, line in listed(plan.folder).items()}
    for name, line in plan.runs.items():
        other = known.get(meaning_of(line), name)
        if other != name:
            raise UsageError(f"{plan.folder}: has the run {name} already, as {other} (spell its values as there)")
    for name, line in listed(plan.folder).items() if plan.grid else ():
        if plan.runs.get(name, line) != line:
            raise UsageError(f"{plan.grid}: {name}: {plan.folder} has this run with other options (another name, or another "
                             "--out)")


def known_times(plan):
    """{variant's name: seconds of a run}: the mean over its runs that are done, or else the result of its last trial
    (driver/times: JOBS THREADS SECONDS VARIANT)."""
    known, done = {}, {}
    for jobs, threads, seconds, name in read_times(plan.folder, say):
        if (jobs, threads) == (plan.jobs, plan.threads):
            known[name] = seconds
    for name in listed(plan.folder):
        summary = summary_of(plan.folder, name)
        if summary.get("exit_reason") == "done" and summary.get("seconds"):
            done.setdefault(variant_of(name), []).append(summary["seconds"])
    return {**known, **{name: START + sum(one) / len(one) for name, one in done.items()}}


def write_folder(plan, tried, expected):
    """Writes grid.txt, and how long the variants took that were tried."""
    for name in "driver", "runs":
        try:
            os.makedirs(os.path.join(plan.folder, name), exist_ok=True)
        except OSError:
            raise RunError(f"{plan.folder}: cannot be written (give another --out)")
    plan.lock = plan.lock or lock(plan.folder, LOCK, "ablate.sh")
    driver, runs = os.path.join(plan.folder, "driver"), {**listed(plan.folder), **plan.runs}
    check_files(plan.folder, plan.files)  # again, under the lock
    keep_files(plan.folder, plan.files)
    write_whole(os.path.join(driver, "shape"), plan.shape + "\n")
    write_whole(os.path.join(plan.folder, "grid.txt"), "\n".join(runs.values()) + "\n")
    times = [f"{plan.jobs} {plan.threads} {expected[one]:.3f} {one}\n" for one in tried]
    write_whole(os.path.join(driver, "times"), (read_text(os.path.join(driver, "times")) or "") + "".join(times))
    if plan.list_only:
        print(f"list:     {plan.folder}/grid.txt, {len(runs)} runs")
    plan.places = [place for place, name in enumerate(runs, 1) if name in plan.todo]


# ---- trials --------------------------------------------------------------------------------------

class Trials:
    """Short runs of variants, in a folder that goes at the end of a `with`. lines: theirs, as in grid.txt. jobs: how many of them will
    run side by side."""

    def __init__(self, lines, jobs, threads):
        self.words = [shlex.split(line)[1:] for line in lines]
        self.jobs, self.threads, self.scratch, self.processes = jobs, threads, tempfile.TemporaryDirectory(), []
        self.beside = min(jobs, cores_here())  # more would share the cores, and take longer by as much

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)
        self.scratch.cleanup()

    def path(self, name):
        return os.path.join(self.scratch.name, str(name))

    def start(self, name, words):
        with open(self.path(f"{name}.err"), "wb") as errors:
            self.processes.append(subprocess.Popen(
                [train(), "--quiet", "--force", f"--threads={self.threads}", f"--out={self.path(name)}", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors))

    def stop(self, number):
        for process in self.processes:
            process.send_signal(number)
        self.processes = [process for process in self.processes if process.wait() is None]

    def refusals(self):
        """{place: (message, status)} of the variants that ./train refuses."""
        found = {}
        for place, words in enumerate(self.words):
            self.start(place, words)
            process = self.processes[0]
            while not os.path.exists(self.path(f"{place}/config.ini")) and process.poll() is None:
                time.sleep(0.02)
            self.stop(signal.SIGKILL)
            if not os.path.exists(self.path(f"{place}/config.ini")):
                message = read_text(self.path(f"{place}.err")) if process.returncode else \
                    "ablate: ./train ended without training (the options after -- must let it train)\n"
                found[place] = (message or f"ablate: {' '.join(words)}: ./train ended with status {process.returncode}\n",
                                process.returncode or 2)
        return found

    def check(self):
        """Ends the program if ./train refuses a variant."""
        refused = self.refusals().values()
        if refused:
            sys.stderr.write("".join(sorted({message for message, _ in refused})))
            statuses = [status for _, status in refused]
            sys.exit(2 if 2 in statuses else statuses[-1])

    def has_logged(self, place, process, steps):
        lines = (read_text(self.path(f"timed-{place}/log.csv")) or "").count("\n")
        return lines > steps + 1 or process.poll() is not None

    def train_for_a_moment(self, first):
        """Trains `beside` variants side by side. After the last variant it starts again at the first, so that the machine is
        as busy as it will be."""
        places = range(first, first + self.beside)
        for place in places:
            self.start(f"timed-{place}", [f"--config={self.path(place % len(self.words))}/config.ini", "--eval-iters=1",
                                          "--eval-interval=0", "--log-interval=1"])
        start = time.monotonic()
        for place, process in zip(places, self.processes):
            while not self.has_logged(place, process, TRIAL_STEPS if time.monotonic() < start + 1 else 1) and \
                    time.monotonic() < start + TRIAL_SECONDS:
                time.sleep(0.1)
        self.stop(signal.SIGTERM)

    def seconds(self, place):
        """The expected time of a run."""
        options, summary = read_options(self.path(place), {}), read_summary(self.path(f"timed-{place}/summary.json"))
        batch, speed = options["batch-size"] * options["block-size"], summary.get("tokens_per_second")
        step = batch * options["grad-accum"] / speed if speed else 0  # a run that did not end in time has no summary
        measured, held_out = options["val-fraction"], options.get("hold-out") or 0
        measured = (1 - measured) * held_out if held_out > 0 else measured
        batches = math.ceil(summary.get("corpus_characters", 0) * measured / batch)
        if 0 < options["eval-iters"] < batches:
            batches = options["eval-iters"]
        interval = options["eval-interval"]
        evaluations = math.ceil(options["max-iters"] / interval) + 1 if interval else 1
        forward = step / options["grad-accum"] / 3
        return START + step * options["max-iters"] + forward * (evaluations * batches + options["sample"] / options["batch-size"])

    def run(self):
        """The expected seconds of each variant."""
        self.check()
        for first in range(0, len(self.words), self.beside):
            self.train_for_a_moment(first)
        return [self.seconds(place) * self.jobs / self.beside for place in range(len(self.words))]


# ---- times ---------------------------------------------------------------------------------------

def duration(seconds):
    """In s, min or h."""
    s = round(seconds)
    if s < 100:
        return f"{s} s"
    return f"{(s + 30) // 60} min" if s < 6000 else f"{s // 3600} h {s % 3600 // 60:02d} min"


def all_in(times, jobs):
    """The time of all runs, `jobs` side by side in this order."""
    ends = [0] * jobs
    for one in times:
        ends[ends.index(min(ends))] += one
    return max(ends)


def expect(plan):
    """{variant: seconds of a run} of the variants with runs to do, and those that were tried. Runs of a list are not tried:
    they get the mean of those known. None: nothing is known of their time."""
    known = known_times(plan)
    wanted = {}  # the line of a variant's first run
    for name, line in plan.todo.items():
        wanted.setdefault(variant_of(name), line)
    if plan.grid and not known:
        return None, []
    mean = sum(known.values()) / len(known) if plan.grid else None
    expected = {one: known.get(one, mean) for one in wanted}
    tried = [one for one in expected if expected[one] is None]
    if tried:
        # Some 0.7 s for each round, and 0.1 s to check each.
        seconds = len(tried) * 7 // plan.jobs // 10 + len(tried) // 8 + 1
        say(f"trying {number_of(len(tried), 'variant')} first, about {duration(seconds)}")
        with Trials([wanted[one] for one in tried], plan.jobs, plan.threads) as trials:
            expected.update(zip(tried, trials.run()))
    return expected, tried


def show(plan, expected, tried):
    """The grid and the time."""
    ended = len(plan.runs) - len(plan.todo)
    print(f"grid:     {len(plan.runs)} runs: {plan.title}" + (f"; {ended} have ended, {len(plan.todo)} to do" if ended else ""))
    if plan.common:
        print(f"each:    {plan.common}")
    print(f"folder:   {plan.folder}")
    beside = f"{plan.jobs} side by side with {number_of(plan.threads, 'thread')} each"
    if plan.todo and expected is None:
        print(f"expected: known when the first runs have ended; {beside}")
    elif plan.todo:
        times = [expected[variant_of(name)] for name in plan.todo]
        ends = dict.fromkeys(map(duration, (min(times), max(times))))
        print(f"expected: {' to '.join(ends)} a run, {duration(all_in(times, plan.jobs))} in all, {beside}"
              f"{' on this machine alone' if plan.sshlogin else ''} (an estimate, from "
              f"{'a few steps' if tried else 'earlier runs'})")


# ---- the plan ------------------------------------------------------------------------------------

def expect_gnu_parallel():
    if "GNU parallel" not in subprocess.getoutput("parallel --version"):  # moreutils has another program of this name
        raise RunError("--sshlogin: GNU parallel is missing (scripts/deps.sh ablate installs it)")


def make(words):
    """The plan of a command (grid.py), with

    todo, places  {name: line} of the runs to do, and the numbers of these lines in grid.txt
    jobs          how many run side by side; given_jobs: as given
    lock          the folder's lock
    """
    plan = read_plan(words)
    expect_train()
    if plan.sshlogin and not plan.dry_run and not plan.list_only:  # Slurm does the runs of a list
        expect_gnu_parallel()
    plan.lock = None
    if not plan.dry_run and os.path.isdir(os.path.join(plan.folder, "driver")):
        plan.lock = lock(plan.folder, LOCK, "ablate.sh")
    check_folder(plan)
    plan.todo = {name: line for name, line in plan.runs.items() if not has_ended(plan.folder, name, say)}
    plan.given_jobs, cores = plan.jobs, cores_here()
    jobs = int(plan.given_jobs or cores)
    plan.jobs = min(jobs, len(plan.todo)) or jobs
    # Without --jobs, GNU parallel starts one run for each core of other machines.
    plan.threads = plan.threads or (1 if plan.sshlogin and not plan.given_jobs else max(1, cores // plan.jobs))
    expected, tried = expect(plan)
    show(plan, expected, tried)
    if not plan.dry_run:
        write_folder(plan, tried, expected)
    return plan
