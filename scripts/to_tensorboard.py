#!/usr/bin/env python3
"""Runs for TensorBoard: scripts/to_tensorboard.py RUN... writes an event file into each run's folder,
so that `tensorboard --logdir=runs` shows them; with --out=DIR into DIR/NAME.

A RUN is a folder that ./train --out made, or a folder of such folders. Losses, learning rate,
gradient norm and speed become scalars over the step, and so does each series of probes.csv, as
METRIC/SITE or METRIC/layer N/SITE. The options become hyperparameters, with the
last validation loss as their metric. A second call replaces the files of the first. Wall times are
computed from the log's seconds and the time at which the file was last written. It uses SummaryWriter
of tensorboardX or PyTorch.
"""
import bisect
import glob
import importlib
import logging
import math
import os
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("to_tensorboard", "plot", "numpy")

from common.command_line import Parser
from plots.probes import Probes
from common.runs import NotStarted, RunError, read_runs
from common.variants import value_text

SCALARS = ("train_loss", "val_loss", "lr", "grad_norm", "tokens_per_second", "eval_train_loss")
SUFFIX = ".normlab"  # of the names of its event files


say = command_line.teller("to_tensorboard")


def find_writer():
    """The module with SummaryWriter, and the function that makes the records of hyperparameters."""
    missing = []
    for name in ("tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(name), importlib.import_module(f"{name}.summary").hparams
        except ImportError as error:
            missing.append(str(error))
    raise RunError(f"{' and '.join(missing)} (python3 -m venv tb && tb/bin/pip install tensorboardX "
                   "tensorboard, then tb/bin/python scripts/to_tensorboard.py)")


def places_of(runs, out):
    """The folder of each run's event file."""
    if not out:
        return [run.folder for run in runs]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [os.path.abspath(run.folder).lstrip(os.sep) for run in runs]
    return [os.path.join(out, name) for name in names]


def write_probes(run, writer, started):
    """Writes what probes measured. Their wall time is that of the first row of the log at their step or
    later."""
    if not os.path.exists(os.path.join(run.folder, "probes.csv")):
        return
    try:
        series = Probes(run.folder).series
    except NotStarted:
        return
    steps, seconds = run.columns["step"], run.columns["seconds"]
    for (metric, site, layer), values in series.items():
        name = "/".join([metric, site] if layer is None else [metric, f"layer {layer}", site])
        for step, value in sorted(values.items()):
            row = min(bisect.bisect_left(steps, step), len(steps) - 1)
            writer.add_scalar(name, value, step, walltime=started + seconds[row])


def write_run(run, place, module, hparams):
    os.makedirs(place, exist_ok=True)
    for path in glob.glob(os.path.join(glob.escape(place), f"events.out.tfevents.*{SUFFIX}")):
        os.remove(path)
    started = os.path.getmtime(os.path.join(run.folder, "log.csv")) - run.columns["seconds"][-1]
    # Both take the folder as their first argument, under different names.
    with module.SummaryWriter(place, filename_suffix=SUFFIX) as writer:
        if run.options:
            options = {name: value if isinstance(value, (int, float)) else value_text(value, name)
                       for name, value in run.options.items()}
            for record in hparams(options, {"val_loss": 0}):
                writer._get_file_writer().add_summary(record)
        for name in SCALARS:
            for step, seconds, value in zip(run.columns["step"], run.columns["seconds"],
                                            run.columns.get(name, [])):
                if not math.isnan(value):
                    diverged = math.isinf(value)
                    writer.add_scalar(name, math.nan if diverged else value, int(step),
                                      walltime=started + seconds)
        write_probes(run, writer, started)


def main():
    parser = Parser(description="Writes runs as TensorBoard event files.",
                    usage="scripts/to_tensorboard.py [--out=DIR] RUN...")
    parser.add_argument("run", nargs="+", metavar="RUN", help="a run's folder, or a folder of runs")
    parser.add_argument("--out", metavar="DIR",
                        help="write to DIR/NAME instead of the run's folder")
    logging.disable(logging.WARNING)  # it warns of NaN, which a diverged run has
    options = parser.parse_args()
    module, hparams = find_writer()
    runs, failed = read_runs(options.run, say)
    for run, place in zip(runs, places_of(runs, options.out)):
        write_run(run, place, module, hparams)
        print(place, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(command_line.run(say, main, RunError))
