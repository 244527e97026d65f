#!/usr/bin/env python3
"""Pictures of runs: scripts/plot.py RUN... draws the losses in run folders' log.csv, with --probes
what norms, gradients, attention and updates did, from their probes.csv.

A RUN is a folder that ./train --out made, or a folder of such folders (runs/, or an ablation's folder,
whose runs stand in runs/ inside it). Runs that differ in nothing but the seed are one line: their mean
with a band. A run under way can be drawn, and with --watch is drawn again and again as it goes.
"""
import argparse
import csv
import functools
import os
import signal
import sys

import runs as run_folders
from runs import RunError, is_run, label_of, runs_inside, twins, variants, varying

interrupt = signal.getsignal(signal.SIGINT)
if interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ctrl-C while modules are read: no traceback
if "--show" not in sys.argv:
    os.environ.pop("MPLBACKEND", None)  # a kind of window, which need not exist here
try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as error:
    # The first python3 on PATH may be a user's own, while scripts/deps.sh installs for the system's.
    system = "/usr/bin/python3"
    if __name__ == "__main__" and sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, *sys.argv])
    sys.exit(f"plot: {sys.executable}: {error} (scripts/deps.sh plot installs it)")

from charts import CHARTS, Group  # noqa: E402 (they need both)
from looks import literal, looks, shorten  # noqa: E402
from plot_options import UsageError, read_command  # noqa: E402
from probe_charts import Facet, draw_probes  # noqa: E402
from probes import probed  # noqa: E402
from series import Table  # noqa: E402
from watching import watch  # noqa: E402


@functools.lru_cache(maxsize=None)
def say(text):
    """Says it once, however often --watch finds it."""
    print(f"plot: {text}", file=sys.stderr)


# ---- runs and the lines they make ----------------------------------------------------------------

def groups_of(runs, names, by_run):
    if by_run:
        labels = [run.name for run in runs]
        if len(set(labels)) < len(labels):
            labels = [run.folder for run in runs]
        names = varying(runs, seed=True) if all(run.options for run in runs) else []
        names.sort(key="seed".__eq__)  # it goes last
        found = [(run_folders.key_of(run, names), [run]) for run in runs]
    else:
        found = variants(runs, names)
        named = names or [name for name in run_folders.FIRST if name in runs[0].options]
        labels = [label_of(members[0], named) or "all runs" for _, members in found]
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
            "run (--by=variant takes them together)")
    return bool(same)


def swept_option(runs, names, wanted, least=2):
    """The option of a sweep: the one wanted, else the rate if it varies, else the one with the most
    values; None if no number has `least` values."""
    values = {name: {run.options[name] for run in runs} for name in names}
    values = {name: of for name, of in values.items() if len(of) >= least and
              all(isinstance(value, (int, float)) for value in of)}
    if wanted and wanted not in values:
        raise RunError(f"--sweep={wanted}: these runs do not differ in a number of that name "
                       f"({'they do in ' + ', '.join(values) if values else 'nor in any other'})")
    return wanted or max(values, key=lambda name: (name == "learning-rate", len(values[name])),
                         default=None)


def panels_of(runs, options):
    """[(chart, groups)]; settles which option a sweep is about."""
    by_run = lines_by_run(runs, options)
    names = varying(runs) if all(run.options for run in runs) else []
    if options.sweep and options.sweep not in names and all(options.sweep in run.options
                                                            for run in runs):
        if len({run.options[options.sweep] for run in runs}) > 1:
            names = [*names, options.sweep]  # follows from another, but is what is asked for
    groups = groups_of(runs, names, by_run)
    charts = options.chart or (["sweep"] if options.sweep else [])
    if not charts and not by_run and swept_option(runs, names, None, 3):
        charts = ["sweep"]
    if not charts:
        seeds = max(len(group.runs) for group in groups)
        charts = ["curves", "dots"] if seeds > 1 and len(groups) > 1 else ["curves"]
    panels = []
    for chart in charts:
        drawn = groups
        if chart == "sweep":
            options.sweep = swept_option(runs, names, options.sweep)
            if not options.sweep:
                raise RunError("sweep: these runs do not differ in a numeric option")
            drawn = groups_of(runs, [name for name in names if name != options.sweep], False)
        panels.append((chart, drawn))
    return panels


def facets_of(runs, options):
    """The columns of a picture of probes."""
    names = varying(runs) if all(run.options for run in runs) else []
    if not options.columns:
        return [Facet(group, [group]) for group in groups_of(runs, names, lines_by_run(runs, options))]
    for name in options.columns:
        if not all(name in run.options for run in runs):
            raise RunError(f"--columns={name}: not an option of these runs")
    rest = [name for name in names if name not in options.columns]
    return [Facet(facet, groups_of(facet.runs, rest, False) if rest else [facet])
            for facet in groups_of(runs, options.columns, False)]


# ---- the picture ---------------------------------------------------------------------------------

def new_figure(show):
    if not show:
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        return figure
    try:
        from matplotlib import pyplot, rcsetup
        figure = pyplot.figure(layout="constrained")
    except ImportError as error:
        raise RunError(f"--show: no window: {error} (-o writes a file)")
    if pyplot.get_backend().lower() not in [name.lower() for name in rcsetup.interactive_bk]:
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        why = "matplotlib has no toolkit (python3-tk is one)" if display else "there is no display"
        raise RunError(f"--show: no window: {why} (-o writes a file)")
    return figure


def compose(runs, options, table):
    """The figure: its charts side by side, as wide as their legends need."""
    figure = new_figure(options.show)
    if options.probes:
        draw_probes(figure, facets_of(runs, options), options, table)
    else:
        draw_charts(figure, panels_of(runs, options), options, table)
    if options.title:
        figure.suptitle(literal(options.title))
    return figure


def draw_charts(figure, panels, options, table):
    widths = [CHARTS[chart][1] for chart, _ in panels]
    rows = [group.label for chart, groups in panels if chart == "dots" for group in groups]
    width = sum(widths) + 0.07 * max(0, max(map(len, rows), default=0) - 12)
    height = max(4.0, 1.2 + 0.24 * len(rows))
    figure.set_size_inches(options.size or (width, height))
    for axes, (chart, groups) in zip(figure.subplots(1, len(panels), squeeze=False,
                                                     width_ratios=widths)[0], panels):
        legend = CHARTS[chart][0](axes, groups, options, table)
        if legend:  # one that stands beside its chart
            renderer = figure.canvas.get_renderer()
            box = legend.get_window_extent(renderer)
            above = axes.get_tightbbox(renderer).y1 - axes.bbox.y1  # rows of crosses, as it grows
            width += box.width / figure.dpi
            height = max(height, box.height / figure.dpi * (1 + above / axes.bbox.height) + 0.3)
    figure.set_size_inches(options.size or (width, height))


def write_picture(figure, output, dpi):
    """All of the picture or nothing: someone may be looking at the file."""
    ending = os.path.splitext(output)[1][1:].lower()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    temporary = f"{output}.tmp"
    try:
        figure.savefig(temporary, dpi=dpi, format=ending, metadata=metadata)
        os.replace(temporary, output)
    except OSError as error:
        raise RunError(f"{output}: {error.strerror}")
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def write_table(table, name):
    try:
        file = sys.stdout if name == "-" else open(name, "w", encoding="utf-8", newline="")
        csv.writer(file, lineterminator="\n").writerows([table.header, *table.rows])
        file.flush() if name == "-" else file.close()
    except OSError as error:
        raise RunError(f"{name}: {error.strerror}")


def output_of(options):
    folder = options.run[0] if len(options.run) == 1 else ""
    name = "-".join(options.probes) if options.probes else "loss"
    return options.output or os.path.join(folder, f"{name}.png")


def draw_runs(runs, options):
    table = Table()
    figure = compose(runs, options, table)
    if options.table:
        write_table(table, options.table)
    if options.output or not options.show:
        write_picture(figure, output_of(options), options.dpi)
    return figure


def draw(options):
    """Draws the picture once; 1 if some run could not be read."""
    runs, failed = run_folders.read_runs(options.run, say)
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
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    try:
        options = read_command(sys.argv[1:])
        if options.watch:
            return watch(options.run, lambda runs: draw_runs(runs, options), output_of(options))
        return (draw_each if options.each else draw)(options)
    except UsageError as error:
        say(str(error))
        return 2
    except RunError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print()  # behind the line of --watch
        return 130


if __name__ == "__main__":
    sys.exit(main())
