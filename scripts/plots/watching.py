"""scripts/plot.py --watch: draws runs again as their logs grow, and prints their progress."""
import os
import shutil
import sys
import time

from common.ablations import states_of
from common.runs import NotStarted, Run, RunError, is_run
from common.variants import where

LOOK = 1.0       # seconds between looks at the logs
CORE_MAX = 0.1   # the maximum fraction of a core for drawing: the runs need the rest
SETTLED = 5.0    # a folder of runs has ended if no new run has started for this many seconds


def progress_of(runs):
    """A line on the run whose log grew last."""
    under_way = [run for run in runs if run.status == "running"]
    run = max(under_way or runs, key=lambda run: os.path.getmtime(os.path.join(run.folder, "log.csv")))
    updates = run.options.get("max-iters")
    text = f"{run.name}  step {run.columns['step'][-1]:.0f}" + (f" of {updates}" if updates else "")
    losses = [run.columns["train_loss"][row] for row in run.measured("train_loss")]
    if losses:
        text += f"  train {losses[-1]:.3f}"
    if run.losses():
        text += f"  val {run.losses()[-1]:.3f}"
    if run.status != "running":
        text += f"  {run.status}"
    return text + (f"  ({len(runs) - len(under_way)} of {len(runs)} ended)" if len(runs) > 1 else "")


def show(text, last):
    """Prints the text: on a terminal in place of the last one, elsewhere as a new line."""
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        print(f"\r\033[K{text[:columns - 1]}", end="\n" if last else "", flush=True)
    else:
        print(text, flush=True)


def look(folders):
    """The runs that have started, and a state that changes whenever one of them makes progress."""
    runs, state = [], []
    for folder in folders:
        for path, ended in states_of(folder):
            if not is_run(path):
                state += [] if ended is not None else [(path, "waits")]
                continue
            for name in ("log.csv", "summary.json"):
                try:
                    status = os.stat(os.path.join(path, name))
                    state.append((path, name, status.st_size, status.st_mtime_ns))
                except OSError:
                    pass
            try:
                runs.append(Run(path))
            except NotStarted:
                state.append((path, "waits"))
    return runs, state


def chosen(runs, wanted, waits):
    """The runs of --where; none while one of them may still start."""
    try:
        return where(runs, wanted)
    except RunError:
        if not waits and all(run.status != "running" for run in runs):
            raise
        return []


def watch(options, draw, output):
    """Calls draw(runs) whenever a log of the runs of these options (run, where) has grown, until they have ended."""
    folders = options.run
    for folder in folders:
        if not os.path.isdir(folder):
            raise RunError(f"{folder}: no such folder (start ./train with --out={folder} first)")
    print(output, flush=True)
    known, since = None, time.monotonic()
    single = all(map(is_run, folders))
    while True:
        start = time.monotonic()
        runs, state = look(folders)
        waits = any(len(entry) == 2 for entry in state)
        runs = runs and chosen(runs, options.where, waits)
        ended = bool(runs) and not waits and all(run.status != "running" for run in runs)
        if state != known:
            known, since = state, start
            if runs:
                draw(runs)
            show(progress_of(runs) if runs else "waiting for the first row of a log",
                 last=ended and single)
        if ended and (single or start - since > SETTLED):
            if not single and sys.stdout.isatty():
                print()
            return 0
        took = time.monotonic() - start
        time.sleep(max(LOOK, took * (1 / CORE_MAX - 1)))
