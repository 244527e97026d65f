"""How runs ended, for comparisons: an Outcome for each run that has ended.

A run that diverged or failed is a result. It has no loss to average, but it counts. So does a run that is
stuck (runs.py): its validation loss did not fall.
"""
from collections import namedtuple
import math
import os
import shlex

from common import runs
from common import runs as run_folders
import table
from common.runs import ENDED, NotStarted, Run, RunError

# status: done, stuck, diverged or failed.
Outcome = namedtuple("Outcome", "name folder options status summary")


# ---- reading -------------------------------------------------------------------------------------

def listed(folder):
    """The names of an ablation's runs, in the order of its grid; None if the folder has no grid."""
    try:
        with open(os.path.join(folder, "grid.txt"), encoding="utf-8", errors="surrogateescape") as file:
            return [shlex.split(line)[0] for line in file if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{folder}/grid.txt: {error}")


def paths_of(folder):
    """[(a run's folder, the status with which its process ended or None)]."""
    names = listed(folder)
    if names is not None:
        return [(os.path.join(folder, "runs", name), table.read_status(folder, name))
                for name in names]
    if run_folders.is_run(folder):
        return [(folder, None)]
    return [(path, None) for path in run_folders.runs_inside(folder)]


def outcome_of(path, exit_status, say):
    """The run's Outcome, or None if it has not ended."""
    failed = exit_status not in (None, 0, 3, 130, 143)
    try:
        run = Run(path)
        runs.check_table(path, "log.csv", say)
    except NotStarted:
        run = None
    except RunError:
        if os.path.isdir(path):
            raise
        run = None
    if run is None:
        options = run_folders.read_options(path, {}) if failed else {}
        return Outcome(os.path.basename(path), path, options, "failed", {}) if failed else None
    if not run.options:
        raise RunError(f"{path}: no options in summary.json or config.ini")
    status = run.status
    if status not in (*ENDED, "diverged"):
        status = "failed" if failed else None
    return status and Outcome(run.name, path, run.options, status, run.summary)


def read_outcomes(folders, say):
    """The Outcomes of the runs in these folders, and whether some could not be read; say(text) reports
    those, logs that were changed, and how many have not ended."""
    found, waiting, bad = [], 0, False
    for folder in folders:
        paths = paths_of(folder) if os.path.isdir(folder) else []
        if not paths:
            what = "no run in it" if os.path.isdir(folder) else "no such folder"
            raise RunError(f"{folder}: {what} (an ablation's folder, or folders of runs)")
        for path, exit_status in paths:
            try:
                outcome = outcome_of(path, exit_status, say)
            except RunError as error:
                say(str(error))
                bad = True
                continue
            waiting += outcome is None
            if outcome and not outcome.options:
                say(f"{path}: failed before it started: it is not counted")
                bad = True
            elif outcome:
                found.append(outcome)
    if waiting:
        say(f"{waiting} of {waiting + len(found)} runs have not ended: they are left out")
    if not found:
        raise RunError(f"{', '.join(folders)}: no run has ended")
    return found, bad


# ---- groups --------------------------------------------------------------------------------------

def by_seed(outcomes, label):
    """{seed: Outcome}. Refuses two of one seed."""
    found = {}
    for outcome in outcomes:
        seed = outcome.options.get("seed")
        if seed in found:
            raise RunError(f"{outcome.folder}: another run of {label} has the same seed {seed}: which one "
                           "is paired?")
        found[seed] = outcome
    return found


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def value_of(outcome, metric):
    """A number of the run's summary.json; NaN if the run has no final loss."""
    if outcome.status not in ENDED:
        return math.nan
    value = outcome.summary.get(metric)
    if not is_number(value):
        there = [name for name, other in outcome.summary.items() if is_number(other)]
        raise RunError(f"--metric={metric}: {outcome.folder}/summary.json has no such number (it has "
                       f"{', '.join(there)})")
    return float(value)
