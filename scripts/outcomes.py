"""How runs ended, for comparisons: an Outcome for each run that has ended.

A run that diverged, failed or is stuck is a result. It has no loss to average, but it counts. A run is
stuck if it ends above the entropy of its text's characters less 0.1 nats: it has learned little more than
how frequent each character is. That entropy is computed from the corpus, if its file is still the
one that was trained on. The text of the built-in grammar is not in a file.
"""
from collections import namedtuple
import math
import os
import shlex
import zlib

import numpy as np

import runs as run_folders
import table
from runs import NotStarted, Run, RunError

STUCK = 0.1  # nats below the entropy of the characters: what a run must reach at least

# status: done, stuck, diverged or failed. threshold: the loss from which the run is stuck, or None.
Outcome = namedtuple("Outcome", "name folder options status summary threshold")


# ---- stuck runs ----------------------------------------------------------------------------------

def entropy_of(data, level):
    """The entropy in nats of the frequencies of a text's characters or bytes, from its bytes."""
    if level != "byte":
        data = data.decode("utf-8", errors="replace").encode("utf-32-le")
    counts = np.bincount(np.frombuffer(data, np.uint8 if level == "byte" else np.uint32))
    fractions = counts[counts > 0] / counts.sum()
    return float(-(fractions * np.log(fractions)).sum())


def threshold_of(run, known):
    """The loss from which the run is stuck, or None if its corpus is not here. `known` keeps what was
    computed."""
    path, level = run.options.get("corpus"), run.options.get("level", "char")
    crc = run.summary.get("corpus_crc32")
    key = path, level, crc
    if key not in known:
        known[key] = None
        try:
            if path and crc:
                with open(path, "rb") as file:
                    data = file.read()
                if data and zlib.crc32(data) == int(crc, 16):
                    known[key] = entropy_of(data, level) - STUCK
        except (OSError, ValueError):
            pass
    return known[key]


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


def outcome_of(path, exit_status, stuck, known):
    """The run's Outcome, or None if it has not ended."""
    failed = exit_status not in (None, 0, 3, 130, 143)
    try:
        run = Run(path)
    except NotStarted:
        run = None
    except RunError:
        if os.path.isdir(path):
            raise
        run = None
    if run is None:
        options = run_folders.read_options(path, {}) if failed else {}
        return Outcome(os.path.basename(path), path, options, "failed", {}, None) if failed else None
    if not run.options:
        raise RunError(f"{path}: no options in summary.json or config.ini")
    status, threshold = run.status, stuck
    if status not in ("done", "diverged"):
        status = "failed" if failed else None
    elif status == "done":
        threshold = threshold if threshold is not None else threshold_of(run, known)
        if threshold is not None and run.losses() and run.losses()[-1] >= threshold:
            status = "stuck"
    return status and Outcome(run.name, path, run.options, status, run.summary, threshold)


def read_outcomes(folders, stuck, say):
    """The Outcomes of the runs in these folders, and whether some could not be read; say(text) reports
    those, and how many have not ended. `stuck` is a loss, or None to compute it from the corpus."""
    found, waiting, bad, known = [], 0, False, {}
    for folder in folders:
        paths = paths_of(folder) if os.path.isdir(folder) else []
        if not paths:
            what = "no run in it" if os.path.isdir(folder) else "no such folder"
            raise RunError(f"{folder}: {what} (an ablation's folder, or folders of runs)")
        for path, exit_status in paths:
            try:
                outcome = outcome_of(path, exit_status, stuck, known)
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


def value_of(outcome, metric):
    """A number of the run's summary.json; NaN if it did not train."""
    if outcome.status != "done":
        return math.nan
    value = outcome.summary.get(metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        there = [name for name, other in outcome.summary.items()
                 if isinstance(other, (int, float)) and not isinstance(other, bool)]
        raise RunError(f"--metric={metric}: {outcome.folder}/summary.json has no such number (it has "
                       f"{', '.join(there)})")
    return float(value)
