"""The runs of a study: training them, reading them, and judging each variant by fresh seeds.

A study's folder is an ablation's folder: grid.txt has each run's name and options, runs/NAME/ the folders of the runs, and
driver/ their records. A run's name follows from its options, so a run that has ended is not repeated, whoever asks for it:
after a kill the same study does what is missing.
"""
from collections import namedtuple
import contextlib
import math
import os
import re
import shlex
import signal
import sys
import time
from types import SimpleNamespace
import zlib

import pandas

from ablate.comparisons import refuse_mixed, value_of
from ablate import driver
from ablate.one_run import SIGNALS, Children, in_main_thread
from ablate.plan import expect_gnu_parallel
from common.ablations import OtherRun, has_ended, listed, lock, read_ending, read_status, run_at, runs_at
from common.command_line import check_characters, teller, write_whole
from common.factors import texts_of, words_of
from common.run_options import cores_here, file_value, own_name
from common.runs import FINAL_STATES, RunError, read_text

# What a run gets unless the options of every run say otherwise: only the last loss counts, on all of a split.
QUIET = {"sample": "0", "checkpoint-interval": "0", "eval-iters": "0", "eval-interval": "1000000000"}
OFTEN = 30   # seconds between two messages of progress

# How runs are done: how many side by side, as given (or "") and here; the machines of GNU parallel, or ""; and whether
# they are only listed.
How = namedtuple("How", "given_jobs jobs sshlogin only_list")

say = teller("study")


# ---- reading -------------------------------------------------------------------------------------

def runs(folder, tell=say, varying=False):
    """A pandas.DataFrame with a row for each run in a folder that has ended, also by divergence or failure: run (its name),
    path, exit_reason (done, stuck, diverged, failed), seed and the other options by the names of ./train, and every number
    of summary.json, such as val_loss and seconds. folder: of a study, an ablation, or runs. tell(text) gets one line for
    each damaged run, which is left out. varying: without columns that are the same in all runs."""
    rows = []
    for run, path, *_ in runs_at([folder], tell)[0]:
        if run and run.options and run.status in (*FINAL_STATES, "failed"):
            numbers = {name: value for name, value in run.summary.items() if isinstance(value, (int, float))}
            rows.append({"run": run.name, "path": path, "exit_reason": run.status, **run.options, **numbers})
    found = pandas.DataFrame(rows)
    return found.loc[:, found.astype(str).nunique() > 1] if varying else found


# ---- training ------------------------------------------------------------------------------------

class Progress(driver.Progress):
    """Says how far a round of runs is: on a terminal in a line that is written again, else every few seconds."""

    def __init__(self, plan, children, say):
        super().__init__(plan, children)
        self.say, self.said, self.live = say, self.start, sys.stderr.isatty()

    def show(self, text, left):
        total, now = len(self.plan.todo), time.monotonic()
        shown = f"{self.done}/{total} runs, {left}"
        if self.live:
            print(f"\r\033[Kstudy: {shown}", end="", file=sys.stderr, flush=True)
        elif now > self.said + OFTEN and self.done < total:
            self.said = now
            self.say(shown)

    def end(self):
        """Clears the line, so that no message continues it."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Listed(Exception):
    """The runs that have to be done are in a list; nothing was trained."""
    status = 0


def do_lines(folder, lines, how, tell):
    """Does the runs of {name: line}, as ablate.sh does them. how: a How. Raises RunError if one fails. Ends the program after an
    interrupt, when they have saved."""
    for part in "driver", "runs":
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    every = {**listed(folder), **lines}
    write_whole(os.path.join(folder, "grid.txt"), "\n".join(every.values()) + "\n")
    write_whole(os.path.join(folder, "driver", "shape"), "--grid --\n")
    if how.only_list:
        raise Listed(f"{folder}/grid.txt: {len(every)} runs, {len(lines)} of which have to be done before the same command "
                     "continues (scripts/ablate.slurm does them)")
    jobs = min(how.jobs, len(lines))
    plan = SimpleNamespace(folder=folder, todo=lines, jobs=jobs, sshlogin=how.sshlogin, given_jobs=how.given_jobs,
                           threads=1 if how.sshlogin else max(1, cores_here() // jobs),
                           places=[place for place, name in enumerate(every, 1) if name in lines])
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if in_main_thread() else {}
    if how.sshlogin:
        expect_gnu_parallel()
    children = Children()
    progress = Progress(plan, children, tell)
    try:
        driver.train_all(plan, children, progress.tell)
    finally:
        progress.end()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if children.interrupted:
        tell("interrupted; the same command continues")
        sys.exit(children.interrupted)
    failed = [name for name in lines if not has_ended(folder, name)]
    if failed:
        raise RunError(f"{len(failed)} of {len(lines)} runs failed (the same command tries them again): {last_words(folder, failed[0])}")


def last_words(folder, name):
    """The last line that a run printed, or else how it ended."""
    lines, ending = (read_text(os.path.join(folder, "driver", f"{name}.out")) or "").strip().splitlines(), read_ending(folder, name)
    return lines[-1] if lines else f"{name}: {ending.how if ending else 'left no message (is the disk full?)'}"


class Runner:
    """The runs in a study's folder. base: words that every run gets."""

    def __init__(self, out, base, tell=say, how=None):
        given = {own_name(word) for word in base if word.startswith("--")}
        check_characters(out, ("Cc",))
        self.base = [f"--{name}={value}" for name, value in QUIET.items() if name not in given] + list(base)
        # Tuning runs, which hold a part out, are not evaluated at their start either.
        self.of_tuning = ["--eval-interval=0"] if "eval-interval" not in given else []
        self.out, self.tell, self.first, self.lock = out, tell, None, None
        self.how = how or How("", cores_here(), "", False)

    def open(self):
        """Keeps other studies out of the folder until this program ends or close()."""
        os.makedirs(self.out, exist_ok=True)
        self.lock = lock(self.out, "lock", "study")

    def close(self):
        self.lock.close()

    def name_of(self, options, seed):
        """A name that depends on the options and words alone."""
        texts = texts_of(options)
        shown = "-".join(f"{name}={file_value(name, text)}" for name, text in texts.items())
        crc = zlib.crc32(" ".join(words_of(texts) + self.base).encode())
        return f"{re.sub('[^A-Za-z0-9._+=-]', '_', shown)[:120]}-{crc:08x}-s{seed}"

    def words_of(self, options, seed):
        return [*words_of(texts_of(options)), f"--seed={seed}", *self.base, *(self.of_tuning if "hold-out" in options else [])]

    def line_of(self, options, seed):
        return " ".join([self.name_of(options, seed), *map(shlex.quote, self.words_of(options, seed))])

    def path_of(self, options, seed):
        return os.path.join(self.out, "runs", self.name_of(options, seed))

    def outcome(self, options, seed):
        """The Run, or None if it has not ended, or failed. Raises RunError if its folder is damaged."""
        status = read_status(self.out, self.name_of(options, seed))
        run = run_at(self.path_of(options, seed), status, self.tell, self.words_of(options, seed))
        if run is None or run.status not in FINAL_STATES:
            return None
        if self.first is None:
            self.first = run
        refuse_mixed(self.first, run, False)
        return run

    def curve(self, options, name, values, seeds):
        """{value: {seed: Run}} of the runs with these values of an option that have ended, in the order of the values."""
        runs = {value: {seed: self.outcome({**options, name: value}, seed) for seed in seeds} for value in values}
        return {value: {seed: run for seed, run in found.items() if run} for value, found in runs.items()}

    def loss_of(self, options, seed):
        """The run's final validation loss; infinity if it diverged or is stuck; None if it has to be trained."""
        outcome = self.outcome(options, seed)
        return outcome and (value_of(outcome, "val_loss") if outcome.status == "done" else math.inf)

    def loss_or_damaged(self, options, seed):
        """As loss_of(); a damaged run is said, and trained again."""
        try:
            return self.loss_of(options, seed)
        except RunError as error:
            path = self.path_of(options, seed)
            if isinstance(error, OtherRun) or not str(error).startswith(path):
                raise
            self.tell(f"{error}; this run is trained again")
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(path, "summary.json"))
            return None

    def measure(self, wanted):
        """[loss] of the runs [(options, seed)], which are trained if they have not ended."""
        found = [self.loss_or_damaged(*run) for run in wanted]
        missing = [run for run, loss in zip(wanted, found) if loss is None]
        if missing:
            do_lines(self.out, {self.name_of(*run): self.line_of(*run) for run in missing}, self.how, self.tell)
            found = [self.loss_of(*run) if loss is None else loss for run, loss in zip(wanted, found)]
        return found
