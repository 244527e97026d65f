#!/usr/bin/env python3
"""A page of runs: scripts/page.py RUN... writes one HTML file that needs no other file and no network.

A RUN is a folder that ./train --out made, or a folder of such folders. The page has the losses (point at a
curve for its values), learning rate and speed, what probes measured, texts that the models wrote, with --prompt
what they attend to, and the options and how the runs differ in them. A run may be under way: --watch writes the
page again as the run continues.
"""
from collections import Counter
import functools
import os
import statistics
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("page", "report", "numpy", "scipy.special", "matplotlib.backends.backend_agg", "jinja2")

from ablate.plan import duration
from common.command_line import Parser, settings, write_whole
from plots.groups import center_of, final_runs, living_runs, seeds_of
from plots.looks import status_of
from plot import LINES_MAX, output_of
from plots import page_parts
from plots.probes import probed
from plots.svg import template
from common.runs import RunError, read_runs
from common.variants import INACTIVE, WHERE, key_of, unit_of, value_text, varying, where
from plots.watching import watch

REFRESH = 5  # seconds after which a page of runs under way loads itself again


say = functools.lru_cache(maxsize=None)(command_line.teller("page"))


# ---- words and numbers ---------------------------------------------------------------------------

def last(run, column):
    rows = run.measured(column)
    return run.columns[column][rows[-1]] if rows else None


def number(values, form=".4f"):
    """The mean of the values that are known, and the standard deviation of several."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = statistics.fmean(known)
    text = format(mean, form if mean < 1e9 else ".3g")  # a run that diverged
    return f"{text} ± {format(statistics.stdev(known), form)}" if len(known) > 1 and form == ".4f" else text


def status(runs):
    counts = Counter(run.status for run in runs)
    return ", ".join(f"{count} {status}" if len(runs) > 1 else status for status, count in counts.items())


def row_of(group):
    """The cells of a variant, or of a run, in the first table: means over seeds."""
    runs, trained = group.runs, final_runs(group.runs)
    return {"name": group.label, "status": status(runs), "step": f"{max(run.columns['step'][-1] for run in runs):.0f}",
            "train": number(last(run, "train_loss") for run in trained or runs),
            "val": number(run.losses()[-1] for run in trained), "best": number(min(run.losses()) for run in trained),
            "parameters": f"{runs[0].summary.get('parameters', '')}",
            "time": duration(statistics.fmean(run.columns["seconds"][-1] for run in runs)),
            "speed": number((run.summary.get("tokens_per_second") or last(run, "tokens_per_second") for run in runs), ",.0f")}


def headline(groups, unit):
    """The result of the losses in a sentence."""
    losses = sorted((center_of(ended, "mean"), group.label + status_of(group.runs)) for group in groups
                    if (ended := living_runs(group.runs)))
    if not losses:
        return "No run has trained." if any(final_runs(group.runs) for group in groups) else "No validation loss is measured yet."
    low, name = losses[0]
    if len(losses) == 1:
        return f"{name} has a validation loss of {low:.4f} nats per {unit}."
    lost = len(groups) - len(losses)
    return (f"{name} has the lowest validation loss, {low:.4f} nats per {unit}. The highest is {losses[-1][0]:.4f} "
            f"({losses[-1][1]})." + f" {lost} of {len(groups)} did not train." * bool(lost))


def shown(run, name):
    value = key_of(run, [name])[0]
    return "no effect" if value == INACTIVE else value_text(value, name)


# ---- the page ------------------------------------------------------------------------------------

def attention_of(runs, labels, prompt):
    """A picture of each run's attention to the prompt."""
    found = []
    for i, (run, label) in enumerate(zip(runs, labels)):
        try:
            weights, letters = page_parts.attention_of(run, prompt)
            picture = page_parts.heat_picture(weights, letters, f"attention-{i}")
            found.append(picture._replace(says=f"{label}: each row is a character, each column one that it attends "
                                               "to; the stronger the colour, the more."))
        except RunError as error:
            say(str(error))
    return found


def texts_of(runs, labels):
    texts = []
    for run, label in zip(runs, labels):
        try:
            texts.append({"name": label, "lines": page_parts.samples_of(run), "sample": page_parts.sample_of(run)})
        except RunError as error:
            say(str(error))
    return [text for text in texts if text["lines"] or text["sample"]]


def page_of(runs, options):
    """The page as text."""
    groups, unit = page_parts.lines_of(runs, say), unit_of(runs)
    runs = [run for group in groups for run in group.runs]
    swept, says, rows = page_parts.swept(runs), headline(groups, unit), list(map(row_of, groups))
    sweep = page_parts.sweep_picture(runs, swept) if swept else None
    if swept and len(groups) > LINES_MAX:  # the rest of the page has each variant at its best value
        runs = page_parts.best_runs(runs, swept)
        groups = page_parts.lines_of(runs, say)
    firsts, labels = [group.runs[0] for group in groups], [group.label for group in groups]
    under_way = any(run.status == "running" for run in runs)
    with_probes, _ = probed([run for run in runs if os.path.exists(os.path.join(run.folder, "probes.csv"))], say)
    return template().render(
        title=options.title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs"), says=says, unit=unit,
        refresh=REFRESH if options.watch and under_way else None,
        rows=rows, labels=labels, seeds=seeds_of(groups), sweep=sweep, chosen=swept if len(rows) > len(groups) else None,
        loss=page_parts.loss_picture(runs, groups, says), small=page_parts.small_pictures(runs, groups),
        probes=page_parts.probe_pictures(with_probes) if with_probes else [],
        texts=texts_of(firsts, labels), prompt=options.prompt,
        attention=attention_of(firsts, labels, options.prompt) if options.prompt else [],
        differences=[(name, [shown(run, name) for run in firsts]) for name in varying(firsts, seed=page_parts.by_run(runs))],
        options=[(name, [value_text(run.options[name], name) if name in run.options else "" for run in firsts])
                 for name in dict.fromkeys(name for run in firsts for name in run.options)])


def read_command(arguments):
    parser = Parser(prog="page.py", allow_abbrev=False, usage="scripts/page.py [OPTION]... RUN...",
                    description="Writes a page of runs: one HTML file that needs no other file and no network.")
    parser.add_argument("run", nargs="+", metavar="RUN", help="a run's folder, or a folder of runs")
    parser.add_argument("--where", type=settings, **WHERE)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to FILE (default: page.html in RUN, or for "
        "several RUNs in the current folder)")
    parser.add_argument("--title", help="title of the page (default: the run's name, or the number of runs)")
    parser.add_argument("--prompt", metavar="TEXT", help="show to which characters of TEXT each model attends")
    parser.add_argument("--watch", action="store_true", help="rewrite the page as the logs grow, until the runs have ended; "
        "browsers reload it")
    return parser.parse_args(arguments)


def main():
    options = read_command(sys.argv[1:])
    output = output_of(options, "page.html")
    if options.watch:
        return watch(options, lambda runs: write_whole(output, page_of(runs, options)), output)
    runs, failed = read_runs(options.run, say)
    runs = where(runs, options.where)
    if not runs:
        return 1
    write_whole(output, page_of(runs, options))
    print(output, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(command_line.run(say, main, RunError))
