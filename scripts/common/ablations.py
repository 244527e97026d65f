"""Reads an ablation's folder, which scripts/ablate.sh makes: the runs of grid.txt, what driver/ says of how they ended and how
long they take, and the runs themselves.
"""
from collections import namedtuple
import fcntl
import math
import os
import re
import shlex
from types import SimpleNamespace
import zlib

from common.command_line import write_whole
from common.run_options import contradiction, given, own_name
from common.runs import (FINAL_STATES, NotStarted, Run, RunError, check_table, is_run, read_bytes, read_config, read_options, read_summary,
                         read_text, runs_inside)

# How ./train ended: its exit status, the seconds that it took, and a text.
Ending = namedtuple("Ending", "status seconds how")
INTERRUPTED = 129, 130, 143  # its exit statuses after a signal, when it has saved
ENDING = re.compile(r"ended (\d{1,3}) (\d{1,15})(?: (.*))?")


def grid_of(folder):
    """{name: line} of the runs of grid.txt, in its order; None if the folder has none."""
    path = os.path.join(folder, "grid.txt")
    text = read_text(path)
    if text is None:
        return None
    grid = {line.split()[0]: line for line in text.split("\n") if line.strip()}
    if not grid:
        raise RunError(f"{path}: lists no run (the same scripts/ablate.sh command writes it again)")
    return grid


def listed(folder):
    """{name: line} of grid.txt; empty while there is none."""
    return grid_of(folder) or {}


def words_of(folder, line):
    """The words of a line of grid.txt after the run's name."""
    try:
        return shlex.split(line)[1:]
    except ValueError as error:
        raise RunError(f"{os.path.join(folder, 'grid.txt')}: damaged: {line.split()[0]}: {error}")


def own_words(folder, lines, path):
    """The words of a run's line in the folder's {name: line}; none if it has no line."""
    name = os.path.basename(path)
    return words_of(folder, lines[name]) if name in lines else []


def lock(folder, name, program):
    """The open file FOLDER/NAME, whose lock keeps other programs out of the folder as long as it is open."""
    path = os.path.join(folder, name)
    file = open(path, "a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RunError(f"{folder}: another {program} is running there ({(read_text(path) or '').strip()}; wait for it, or give another "
                       "--out)") from None
    file.truncate(0)
    try:
        print(f"process {os.getpid()} on {os.uname().nodename}", file=file, flush=True)
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    return file


# ---- which files and options a run has -----------------------------------------------------------

class OtherRun(RunError):
    """A folder has a run with other options than its line in grid.txt."""


def expect_options(path, options, words):
    """Refuses a run whose options contradict the words of its line."""
    name = contradiction(options, words)
    if name:
        raise OtherRun(f"{path}: has another run: its {name} is {options[name]}, not {given(words)[name]} (folders of runs were "
                       "renamed or exchanged)")


def started_from(place):
    """The file that --start=PLACE reads."""
    inside = [os.path.join(place, name) for name in ("model.safetensors", "checkpoint.safetensors")]
    return next(filter(os.path.isfile, inside), place)


def files_of(runs):
    """{path: checksum, or None if it cannot be read} of the files of --config and --start in these lists of words for ./train:
    what is in them decides what a run is."""
    paths = set()
    for words in runs:
        if not any(own_name(word) in ("config", "start") for word in words):
            continue
        named = given(words)
        config = named.get("config")
        start = named.get("start") or (config and os.path.isfile(config) and read_config(config)[0].get("start"))
        paths |= {os.path.normpath(path) for path in (config, start and started_from(str(start))) if path}
    contents = {path: read_bytes(path) for path in sorted(paths)}
    return {path: None if content is None else f"{zlib.crc32(content):08x}" for path, content in contents.items()}


def known_files(folder):
    """{path: checksum} of the files that the folder's runs were started with (driver/files: a line CHECKSUM PATH for each)."""
    path = os.path.join(folder, "driver", "files")
    found = [re.fullmatch("([0-9a-f]{8}) (.+)", line) for line in (read_text(path) or "").split("\n") if line]
    if not all(found):
        raise RunError(f"{path}: damaged: has a line that is not CHECKSUM PATH")
    return {one[2]: one[1] for one in found}


def check_files(folder, files):
    """Refuses {path: checksum} that differ from those of the folder's earlier runs."""
    known = known_files(folder)
    for path, checksum in files.items():
        if known.get(path, checksum) != checksum:
            raise RunError(f"{path}: differs from the file with which runs of {folder} were started (restore it, or give another name "
                           "or another --out)")


def keep_files(folder, files):
    """Notes files that runs are started with from now on, after check_files()."""
    known = known_files(folder)
    new = {path: checksum for path, checksum in files.items() if checksum and path not in known}
    if new:
        os.makedirs(os.path.join(folder, "driver"), exist_ok=True)
        write_whole(os.path.join(folder, "driver", "files"),
                    "".join(f"{checksum} {path}\n" for path, checksum in {**known, **new}.items()))


# ---- how runs ended ------------------------------------------------------------------------------

def is_list(folder):
    """Whether the ablation's runs were given as a list (--grid=FILE), not as combinations of options."""
    return (read_text(os.path.join(folder, "driver", "shape")) or "").startswith("--grid ")


def read_ending(folder, name):
    """How a run of an ablation ended; None if it is under way or its script was killed."""
    path = os.path.join(folder, "driver", f"{name}.status")
    text = read_text(path)
    if text is None:
        return None
    found = ENDING.fullmatch(text.rstrip("\n"))
    if not found:
        raise RunError(f"{path}: damaged: is not 'ended STATUS SECONDS HOW' (remove it)")
    return Ending(int(found[1]), int(found[2]), found[3] or "")


def read_status(folder, name):
    """The exit status of an ablation's run, or None."""
    ending = read_ending(folder, name)
    return ending and ending.status


def states_of(folder):
    """[(a run's folder, the status with which its process ended or None)] of an ablation, a run or a folder of runs."""
    grid = grid_of(folder)
    if grid is not None:
        return [(os.path.join(folder, "runs", name), read_status(folder, name)) for name in grid]
    return [(path, None) for path in ([folder] if is_run(folder) else runs_inside(folder))]


def run_at(path, exit_status, say, words=()):
    """The Run in a folder, "failed" if its process was; None while it has logged nothing. One that failed before it logged anything
    has a name, a folder, a status, and options and a summary that may be empty. Raises OtherRun if its options contradict these
    words."""
    failed = exit_status not in (None, 0, 3, *INTERRUPTED)
    try:
        run = Run(path)
        check_table(path, "log.csv", say)
    except RunError as error:
        if os.path.isdir(path) and not isinstance(error, NotStarted):
            raise
        return SimpleNamespace(name=os.path.basename(path), folder=path, options=read_options(path, {}), status="failed",
                               summary={}) if failed else None
    if not run.options:
        raise RunError(f"{path}: no options in summary.json or config.ini")
    expect_options(path, run.options, words)
    if failed and run.status not in FINAL_STATES:
        run.status = "failed"
    return run


def runs_at(folders, say):
    """[(what run_at() gives, path, exit status, words of its line)] of ablations, runs and folders of runs, and whether some are
    damaged, which say(text) reports."""
    found, damaged = [], False
    for folder in folders:
        states, lines = states_of(folder) if os.path.isdir(folder) else [], listed(folder)
        if not states:
            what = "no run in it" if os.path.isdir(folder) else "no such folder"
            raise RunError(f"{folder}: {what} (an ablation's folder, or folders of runs)")
        for path, status in states:
            try:
                words = own_words(folder, lines, path)
                found.append((run_at(path, status, say, words), path, status, words))
            except RunError as error:
                say(str(error))
                damaged = True
    return found, damaged


def ended_runs(folders, say):
    """The runs in these folders that have ended, also by divergence or failure, and whether some could not be read; say(text)
    reports those, logs that were changed, and how many have not ended."""
    found, bad = runs_at(folders, say)
    runs = [run for run, *_ in found if run and run.status in (*FINAL_STATES, "failed")]
    if len(runs) < len(found):
        say(f"{len(found) - len(runs)} of {len(found)} runs have not ended: they are left out")
    for run in runs:
        if not run.options:
            say(f"{run.folder}: failed before it started: it is not counted")
            bad = True
    return [run for run in runs if run.options], bad


def summary_of(folder, name, tell=lambda text: None):
    """A run's summary.json; empty while there is none, or if it is damaged, which tell(text) reports."""
    try:
        return read_summary(os.path.join(folder, "runs", name, "summary.json"))
    except RunError as error:
        tell(str(error))
        return {}


def has_ended(folder, name, tell=lambda text: None):
    """Whether the run is over, also by divergence: only its own summary says so."""
    return summary_of(folder, name, tell).get("exit_reason") in ("done", "diverged")


def read_times(folder, say):
    """[(jobs, threads, seconds, variant)] of the trials in driver/times. say(text) reports damaged lines."""
    path, times = os.path.join(folder, "driver", "times"), []
    for number, line in enumerate((read_text(path) or "").splitlines(), 1):
        words = line.split(maxsplit=3)
        try:
            jobs, threads, seconds, name = int(words[0]), int(words[1]), float(words[2]), words[3]
            if not 0 <= seconds < math.inf:
                raise ValueError
        except (ValueError, IndexError):
            say(f"{path}: damaged: line {number} is not JOBS THREADS SECONDS VARIANT: it is left out")
            continue
        times.append((jobs, threads, seconds, name))
    return times
