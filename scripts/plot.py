#!/usr/bin/env python3
"""Pictures of runs: scripts/plot.py RUN... draws the losses in the runs' log.csv, or with --probes the
norms, gradients, attention and updates in their probes.csv.

A RUN is a folder that ./train --out made, or a folder of such folders (runs/, or an ablation's folder,
which has its runs in runs/). Runs that differ in the seed only are one line: their mean with a band.
Lines are named by the options that differ, or by folders if no option tells them apart. A run under way
can be drawn too; --watch draws it again as its log grows.
"""
import argparse
import functools
import os
import signal
import sys

from common import runs as run_folders
from common import command_line
from common.runs import RunError, is_run, runs_inside
from common.variants import key_of, FIRST, label_of, twins, variants, varying, where, without_copies

interrupt = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback after ctrl-C while modules load
if "--show" not in sys.argv:
    os.environ.pop("MPLBACKEND", None)  # a user's toolkit for windows may not exist here
if __name__ == "__main__":
    command_line.require("plot", "plot", "numpy", "matplotlib.backends.backend_agg")

from plots.charts import NARROW, draw_charts, fit
from plots.groups import Chart, Facet, Group, Table
from plots.looks import literal, looks, new_figure, put_below, set_font, shorten, write_picture
from plots.plot_options import read_command
from plots.probe_charts import draw_probes
from plots.probes import probed
from plots.watching import watch


LINES_MAX = 12  # curves that a legend can name; of more lines the default picture has a row for each
SWEPT_MAX = 4   # lines of a sweep in one panel; more of them get panels


# Each message only once, even if --watch finds it again.
say = functools.lru_cache(maxsize=None)(command_line.teller("plot"))


# ---- runs and the lines they make ----------------------------------------------------------------

def labels_of(found, names):
    """The labels of variants [(key, runs)]: the values of these options."""
    named = names or [name for name in FIRST if name in found[0][1][0].options]
    return [label_of(members[0], named) or "all runs" for _, members in found]


def labels_of_runs(runs, names):
    """The values of these options, or else the folders' names: the first of these that tells all runs apart."""
    ways = [[label_of(run, names) for run in runs] if all(run.options for run in runs) and names else [""],
            [run.name for run in runs], [run.folder for run in runs]]
    return next(labels for labels in ways if all(labels) and len(set(labels)) == len(runs))


def groups_of(runs, names, by_run):
    """The groups of a chart, a line each: variants, or with by_run each run."""
    if by_run:
        names = sorted(varying(runs, seed=True), key="seed".__eq__)  # it goes last
        found = [(key_of(run, names), [run]) for run in runs]
        labels = labels_of_runs(runs, names)
    else:
        found = variants(runs, names)
        labels = labels_of(found, names)
    return [Group(label, key, members, look) for label, (key, members), look in
            zip(shorten(labels, 40 if by_run else 80), found, looks(names, [key for key, _ in found]))]


def lines_by_run(runs, options):
    """Whether each run is a line of its own."""
    unknown = [run for run in runs if not run.options]
    if options.by == "variant" and unknown:
        raise RunError(f"{unknown[0].folder}: no options in summary.json or config.ini "
                       "(--by=run draws it)")
    if options.by or len(runs) == 1:
        return options.by != "variant"
    if unknown:
        return True
    same = twins(runs)
    if same:
        say(f"{same[0].folder} and {same[1].folder} have the same options and seed: a line for each "
            "run (--by=variant puts them in one line)")
    return bool(same)


def swept_option(runs, names, wanted, count_min=2):
    """The option of a sweep: the wanted one, or else the learning rate if it varies, or else the one
    with the most values; None if no numeric option has at least `count_min` values."""
    values = {name: {run.options[name] for run in runs} for name in names}
    values = {name: of for name, of in values.items() if len(of) >= count_min and
              all(isinstance(value, (int, float)) for value in of)}
    if wanted and wanted not in values:
        raise RunError(f"--sweep={wanted}: is not a numeric option in which these runs differ "
                       f"({'those are ' + ', '.join(values) if values else 'they differ in none'})")
    return wanted or max(values, key=lambda name: (name == "learning-rate", len(values[name])),
                         default=None)


def chosen_charts(runs, names, by_run, options):
    if options.chart:
        return options.chart
    if options.sweep:
        return ["sweep"]
    if options.columns or options.rows:
        return ["curves"]
    swept = None if by_run else swept_option(runs, names, None, 3)
    if swept and len(variants(runs, [name for name in names if name != swept])) <= LINES_MAX:
        return ["sweep"]
    lines = len(runs) if by_run else len(variants(runs, names))
    if lines > LINES_MAX:
        return ["dots"]
    several = 1 < lines < len(runs)
    narrow = options.size and options.size[0] < NARROW
    return ["curves", "dots"] if several and not narrow else ["curves"]


def charts_of(runs, options, table):
    """The Charts. Sets options.sweep to the option of a sweep."""
    by_run = lines_by_run(runs, options)
    names = varying(runs)
    if options.sweep and options.sweep not in names and all(options.sweep in run.options
                                                            for run in runs):
        if len({run.options[options.sweep] for run in runs}) > 1:
            names = [*names, options.sweep]  # it follows from another option, but was asked for
    if options.lines == ["eval-train"] and not any(run.measured("eval_train_loss") for run in runs):
        raise RunError("--lines=eval-train: none of these runs measured it (./train --eval-train=on)")
    charts = []
    for name in chosen_charts(runs, names, by_run, options):
        if name == "sweep":
            options.sweep = swept_option(runs, names, options.sweep)
            if not options.sweep:
                raise RunError("sweep: these runs do not differ in a numeric option")
            names = [option for option in names if option != options.sweep]
            alone = not (options.columns or options.rows) and len(options.chart or ()) <= 1
            if alone and len(names) > 1 and len(variants(runs, names)) > SWEPT_MAX:
                options.columns, options.rows = names[1:2], names[2:]
        if options.columns or options.rows:
            facets, beside = panels_of(runs, names, options)
            charts.append(Chart(name, facets, options, table, beside))
            continue
        charts.append(Chart(name, [Facet(None, groups_of(runs, names, by_run and name != "sweep"))], options, table))
    return charts


def facets_of(runs, names, panels):
    """A panel for each value of these options. The other options that differ make lines, with the same looks in all panels."""
    for name in panels:
        if not all(name in run.options for run in runs):
            raise RunError(f"--columns={name}: not an option of these runs")
    rest = [name for name in names if name not in panels]
    look = {group.key: group.look for group in groups_of(runs, rest, False)}
    return [Facet(facet, [group._replace(look=look[group.key])
                          for group in groups_of(facet.runs, rest, False)])
            for facet in groups_of(runs, panels, False)]


def panels_of(runs, names, options):
    """The Facets of --rows and --columns, row after row, with empty ones where there is no run; and how many are in a row."""
    rows, columns = options.rows or [], options.columns or []
    found = {facet.group.key: facet for facet in facets_of(runs, names, rows + columns)}
    keys = [[group.key for group in groups_of(runs, of, False)] if of else [()] for of in (rows, columns)]
    return [found.get((*row, *column), Facet(None, [])) for row in keys[0] for column in keys[1]], len(keys[1])


def probe_facets(runs, options):
    """The columns of a picture of probes."""
    names = varying(runs)
    if not options.columns:
        groups = groups_of(runs, names, lines_by_run(runs, options))
        return [Facet(group, [group]) for group in groups]
    facets = facets_of(runs, names, options.columns)
    return facets if set(names) - set(options.columns) else [Facet(facet, [facet])
                                                            for facet, _ in facets]


# ---- the picture ---------------------------------------------------------------------------------

def compose(runs, options, table):
    """The figure, as large as its charts and legends need unless its size is given."""
    set_font(options.size, output_of(options))
    figure, charts = new_figure(options.show, options.dpi), []
    if options.title:
        figure.suptitle(literal(options.title))
    if options.probes:
        notes, title = draw_probes(figure, probe_facets(runs, options), options, table), None
    else:
        charts = charts_of(runs, options, table)
        notes, title = draw_charts(figure, charts, options.size)
    put_below(figure, notes, title, grow=not options.size)
    if charts or options.size:
        fit(figure, charts)
    return figure


def output_of(options, name=None):
    """The file to write: by default one of this name in the only RUN, or for several ones in the current folder."""
    name = name or f"{'-'.join(options.probes or ['loss'])}.png"
    return options.output or os.path.join(options.run[0] if len(options.run) == 1 else "", name)


def draw_runs(runs, options):
    table = Table()
    runs = without_copies(runs, say)
    figure = compose(runs, options, table)
    text = command_line.csv_text([table.header, *table.rows])
    if options.table == "-":
        print(text, end="", flush=True)
    elif options.table:
        command_line.write_whole(options.table, text)
    if options.output or not options.show:
        write_picture(figure, output_of(options), options.dpi, say)


def draw(options):
    """Draws the picture once; 1 if some run could not be read."""
    runs, failed = run_folders.read_runs(options.run, say)
    runs = where(runs, options.where)
    if options.probes:
        runs, without = probed(runs, say)
        failed |= without
    if not runs:
        return 1
    draw_runs(runs, options)
    if options.show:
        from matplotlib import pyplot
        pyplot.show()
    elif options.table != "-":
        print(output_of(options), flush=True)
    return int(failed)


def draw_each(options):
    """A picture for each folder of runs."""
    folders = []
    for parent in options.run:
        inside = [entry.path for entry in os.scandir(parent) if entry.is_dir()] \
            if os.path.isdir(parent) else []
        folders += [folder for folder in [parent, *sorted(inside)]
                    if not is_run(folder) and runs_inside(folder)]
    if not folders:
        raise RunError(f"{', '.join(options.run)}: no runs there (./train makes some)")
    status = 0
    for folder in folders:
        try:
            status |= draw(argparse.Namespace(**{**vars(options), "run": [folder]}))
        except RunError as error:
            say(str(error))
            status = 1
    return status


def main():
    signal.signal(signal.SIGINT, interrupt)
    options = read_command(sys.argv[1:])
    if options.watch:
        return watch(options, lambda runs: draw_runs(runs, options), output_of(options))
    return (draw_each if options.each else draw)(options)


if __name__ == "__main__":
    sys.exit(command_line.run(say, main, RunError))
