"""The pictures of scripts/plot.py --probes: probes over steps, over layers at some steps, or by head.

A picture is a grid: a row for each metric, a column for each facet (a variant, a run, or what --columns
makes). The panels of a row have the same axes. Values over seeds are means with bands.
"""
from collections import namedtuple
import itertools
import math
import textwrap

import numpy as np
from matplotlib import ticker

from plots.groups import draw_line, runs_of, seed_notes, sound
from plots.looks import (GREY, LINES, PALE, line_of, literal, looks, note, shade, status_of, step_ticks)
from plots.probes import STREAM, head_map, lines_over_layers, lines_over_steps
from common.runs import RunError
from common.variants import order

ATTENTION = ("attn.c_attn.weight", "attn.c_proj.weight")
MLP = ("mlp.c_fc.weight", "mlp.c_proj.weight")
EMBEDDINGS = ("wte.weight", "wpe.weight")

METRICS = {
    "dist_mean": "means: batch to running,\n‖difference‖ / C",
    "dist_var": "variances: batch to\nrunning, ‖difference‖ / C",
    "tid_mean": "discrepancy of means /\nrunning deviation",
    "tid_var": "discrepancy of deviations /\nrunning deviation",
    "g_mean": "gradient term of the\nmean, ‖g_mean‖",
    "g_var": "gradient term of the\nvariance, ‖g_var‖",
    "saturation": "fraction of channels\nthat the curve saturates",
    "alpha": "learned slope alpha\nof dyt or derf",
    "lam": "learned slope lambda\nof bhyt",
    "update_ratio": "‖update‖ / ‖weights‖",
    "stream_rms": "residual stream\n(root mean square)",
    "output_rms": "output of a sub-layer\n(root mean square)",
    "stream_grad": "gradient of the stream\n(L2 norm)",
    "grad_norm": "gradient of the weights\n(L2 norm)",
    "entropy": "entropy (nats)",
    "logit_max": "largest logit",
    "saturated": "fraction of queries with\na weight above 0.99",
}

FRACTIONS = ("saturation",)  # from 0 to 1; other metrics have logarithmic axes

# A row of panels. `sites`: () for all sites of the metric; `part`: the part of the model, for the label.
Row = namedtuple("Row", "metric sites part", defaults=((), ""))
Kind = namedtuple("Kind", "draw rows")

CHART = "probes"    # in the table
PANEL = (2.6, 2.1)  # inches
SHOWN = 8           # entries of layers in the legend
CELLS = 72          # a heat map with more cells shows no numbers in them


# ---- parts of every panel ------------------------------------------------------------------------

def title_of(facet, more=""):
    group = facet.group
    seeds = f", {len(group.runs)} seeds" if len(group.runs) > 1 and len(facet.parts) == 1 else ""
    text = literal(group.label + seeds + status_of(group.runs) + more)
    return textwrap.fill(text, 34)


def positive(curve):
    """The curve for a logarithmic axis, which has no zero: a band that reaches zero ends at the lowest
    point of the curve."""
    lowest = min(curve.y[curve.y > 0], default=np.nan)
    return curve._replace(y=np.where(curve.y > 0, curve.y, np.nan),
                          low=np.where(curve.low > 0, curve.low, np.minimum(lowest, curve.high)))


def magnitude_axis(row):
    """Gives a row of panels a logarithmic axis with readable numbers."""
    axis = row[0].yaxis
    row[0].set_yscale("log")
    low, high = row[0].get_ylim()
    if low <= 0:  # no value is above zero
        low, high = row[0].set_ylim(0.1, 1)
    decades = math.log10(high / low)
    few = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=few, numticks=30 if decades < 8 else 8))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: magnitude(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def magnitude(value):
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10 ** exponent)
    power = f"10^{{{exponent}}}"
    return f"${power}$" if digit == 1 else rf"${digit}\cdot{power}$"


# ---- over steps, by layer ------------------------------------------------------------------------

def styles_of(places):
    """A style for each (layer, site), and the legend's entries. The colour follows the layer, from
    dark to bright, black outside of the layers; the line style follows the site."""
    layers = sorted({layer for layer, _ in places if layer is not None})
    inside = sorted({site for layer, site in places if layer is not None})
    outside = sorted({site for layer, site in places if layer is None})
    kinds = {site: {"linestyle": LINES[i % len(LINES)], "linewidth": 1.3 + i // len(LINES)}
             for sites in (inside, outside) for i, site in enumerate(sites)}
    colour = {layer: shade(i, len(layers)) for i, layer in enumerate(layers)}
    colour[None] = "black"
    shown = {layers[round(i)] for i in np.linspace(0, len(layers) - 1, min(SHOWN, len(layers)))}
    notes = [note(f"layer {layer}", color=colour[layer], linewidth=1.6) for layer in sorted(shown)]
    notes += [note(site, **(kinds[site] if len(inside) > 1 else {"linestyle": "none"}))
              for site in inside]
    notes += [note(site, **{**kinds[site], "color": "black"}) for site in outside]
    return {(layer, site): {"color": colour[layer], **kinds[site]} for layer, site in places}, notes


def over_steps(grid, facets, rows, options, table):
    """Returns the legend's entries."""
    runs = runs_of([facet.group for facet in facets])
    width = options.smooth or max(len(run.probes.steps) for run in runs) // 50 | 1
    lines = {(i, j, *place): curve for (i, row), (j, facet) in itertools.product(enumerate(rows), enumerate(facets))
             for place, curve in lines_over_steps(facet.group.runs, row, options, width).items()}
    styles, notes = styles_of({tuple(place) for _, _, *place in lines})
    paler = False
    for (i, j, layer, site), curve in sorted(lines.items(), key=lambda line: (line[0][:2], order(line[0][2]), line[0][3])):
        place = site if layer is None else f"{site} layer {layer}"
        table.add_curve(CHART, facets[j].group.label, f"{rows[i].metric} {place}", curve)
        fraction = rows[i].metric in FRACTIONS
        paler |= draw_line(grid[i][j], curve if fraction else positive(curve), styles[layer, site])
    if width > 1:
        notes.append(note(f"running mean of {width} probes", linestyle="none"))
    if paler:
        notes.append(note("paler: fewer seeds", linewidth=1.4, alpha=PALE))
    return notes


# ---- by layer, at some steps ---------------------------------------------------------------------

def chosen_steps(runs, options, default):
    common = sorted(set.intersection(*(set(run.probes.steps) for run in runs)))
    for step in options.steps or []:
        for run in runs:
            if step not in run.probes.steps:
                raise RunError(f"--steps={step}: not probed in {run.folder} ("
                               f"{', '.join(shorter(run.probes.steps))} are)")
    if not options.steps and not common:
        raise RunError("these runs have no probed step in common (choose some with --steps)")
    return options.steps or sorted({common[i] for i in default})


def shorter(steps):
    texts = [str(step) for step in steps]
    return texts if len(texts) <= 6 else [*texts[:4], "...", texts[-1]]


def over_layers(grid, facets, rows, options, table):
    """Returns the legend's entries."""
    runs = runs_of([facet.group for facet in facets])
    steps = chosen_steps(runs, options, (0, -1))
    lines = {}
    for (i, row), (j, facet), step in itertools.product(enumerate(rows), enumerate(facets), steps):
        for part in facet.parts:
            name = "" if part is facet.group else part.label
            whose = ", ".join(filter(None, [facet.group.label, name]))
            for site, curve in lines_over_layers(part.runs, row, step, options).items():
                lines[i, j, name, step, site] = curve
                table.add_curve(CHART, whose, f"{row.metric} {site} step {step}", curve)
    names = list(dict.fromkeys(key[2] for key in lines))
    sites = sorted({key[-1] for key in lines} - {STREAM}) or [STREAM]
    # The kind with the most values sets the colour, the next the line style, the last the marker.
    ways = [("line", names), ("step", steps), ("site", sites)]
    ways = sorted((way for way in ways if len(way[1]) > 1), key=lambda way: -len(way[1]))
    keys = list(itertools.product(*(values for _, values in ways)))
    look = dict(zip(keys, looks([name for name, _ in ways], keys)))

    def style_of(**of):
        key = tuple(of[name] if of.get(name) in values else values[0] for name, values in ways)
        return line_of(look[key], linewidth=1.4, markersize=3.5)

    for (i, j, name, step, site), curve in lines.items():
        style = style_of(line=name, step=step, site=site)
        draw_line(grid[i][j], positive(curve), {**style, **GREY} if site not in sites else style)
    notes = []
    for number, (name, values) in enumerate(ways):
        for value in values:
            text = f"step {value}" if name == "step" else value
            notes.append(note(text, **{**style_of(**{name: value}), **(GREY if number else {})}))
    if len(steps) == 1:
        notes.append(note(f"at step {steps[0]}", linestyle="none"))
    if len(sites) == 1 and sites != [STREAM]:
        notes.append(note(sites[0], linestyle="none"))
    return notes


# ---- by layer and head ---------------------------------------------------------------------------

def heat(grid, facets, rows, options, table):
    """Draws maps of layers and heads, with the same colour scale along a row."""
    runs = runs_of([facet.group for facet in facets])
    steps = chosen_steps(runs, options, (-1,))
    columns = list(itertools.product(facets, steps))
    for i, row in enumerate(rows):
        maps = [head_map(facet.group.runs, row.metric, step, options) for facet, step in columns]
        values = np.concatenate([[np.nan]] + [cells.ravel() for cells in maps if cells is not None])
        low = np.nanmin(values) if row.metric == "logit_max" else 0
        high = np.nanmax(values)
        high = high if high > low else low + 1
        image = None
        for axes, (facet, step), cells in zip(grid[i], columns, maps):
            if cells is None:
                continue
            image = axes.imshow(cells, origin="lower", aspect="auto", cmap="viridis", vmin=low,
                                vmax=high)
            for (layer, head), value in np.ndenumerate(cells):
                table.add(CHART, facet.group.label,
                          f"{row.metric} step {step} layer {layer}", x=head, y=float(value))
                if cells.size <= CELLS and math.isfinite(value):
                    dark = value - low < 0.6 * (high - low)
                    axes.text(head, layer, f"{value:.2g}", ha="center", va="center", fontsize="small",
                              color="white" if dark else "black")
            axes.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
            axes.yaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
            axes.spines[:].set_visible(False)
        grid[i][0].set_ylabel("layer")
        grid[0][0].figure.colorbar(image, ax=list(grid[i]), label=METRICS[row.metric], fraction=0.05)
    for axes, (facet, step) in zip(grid[0], columns):
        axes.set_title(title_of(facet, f", step {step}"), fontsize="medium")
    for axes, (facet, _) in zip(grid[-1], columns):
        several = len(sound(facet.group.runs)) > 1
        axes.set_xlabel("head, in the order of values" if several else "head")
    return []


# ---- the picture ---------------------------------------------------------------------------------

KINDS = {
    "distance": Kind(over_steps, [Row("dist_mean"), Row("dist_var")]),
    "discrepancy": Kind(over_steps, [Row("tid_mean"), Row("tid_var")]),
    "terms": Kind(over_steps, [Row("g_mean"), Row("g_var")]),
    "saturation": Kind(over_steps, [Row("saturation"), Row("alpha"), Row("lam")]),
    "updates": Kind(over_steps, [Row("update_ratio", ATTENTION, "attention"),
                                 Row("update_ratio", MLP, "MLP"),
                                 Row("update_ratio", EMBEDDINGS, "embeddings")]),
    "layers": Kind(over_layers, [Row("stream_rms"), Row("output_rms"), Row("stream_grad"),
                                 Row("grad_norm", ATTENTION + MLP)]),
    "attention": Kind(heat, [Row("entropy"), Row("logit_max"), Row("saturated")]),
}


def rows_of(runs, options):
    """The rows to draw: those of the chosen metrics and sites."""
    rows = [row for kind in options.probes for row in KINDS[kind].rows]
    known = list(dict.fromkeys(row.metric for row in rows))
    wanted = options.metrics or known
    for metric in wanted:
        if metric not in known:
            raise RunError(f"--metrics={metric}: --probes={','.join(options.probes)} has "
                           f"{', '.join(known)}")
    rows = [row for row in rows if row.metric in wanted]
    if options.sites:
        there = {site for run in runs for metric in wanted for site, *_ in run.probes.of(metric, ())}
        for site in options.sites:
            if site not in there:
                raise RunError(f"--sites={site}: {', '.join(wanted)} "
                               f"{'are' if len(wanted) > 1 else 'is'} measured at "
                               f"{', '.join(sorted(there)) or 'no site'}")
        rows = [Row(metric, tuple(options.sites)) for metric in wanted]
    rows = [row for row in rows if any(run.probes.of(row.metric, row.sites) for run in runs)]
    if not rows:
        raise RunError(f"--probes={','.join(options.probes)}: none of these runs has "
                       f"{' or '.join(wanted)}")
    return rows


def draw_probes(figure, facets, options, table):
    """Draws into the empty figure and makes it as large as its panels need. Returns the legend's entries."""
    runs = runs_of([facet.group for facet in facets])
    draw = KINDS[options.probes[0]].draw
    rows = rows_of(runs, options)
    if options.ylim and len(rows) > 1:
        raise RunError("--ylim: for one metric (choose it with --metrics)")
    maps = draw is heat
    steps = len(chosen_steps(runs, options, (-1,))) if maps else 1
    grid = figure.subplots(len(rows), len(facets) * steps, squeeze=False,
                           sharex="all" if not maps else False, sharey="row" if not maps else False)
    notes = draw(grid, facets, rows, options, table)
    columns = max(1.6, grid.shape[1])  # a single one is wider
    figure.set_size_inches(options.size or (0.6 + PANEL[0] * columns, 0.5 + PANEL[1] * grid.shape[0]))
    for axes in grid.flat:
        if not axes.has_data():
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center", **GREY)
    return notes if maps else notes + finish_lines(grid, facets, rows, options, draw)


def finish_lines(grid, facets, rows, options, draw):
    """Labels panels of lines and sets their axes. Returns the legend's entries of seeds."""
    steps, first = draw is over_steps, grid[0][0]
    step_ticks(first, 4 if steps else 6)
    if steps and options.log_x:
        first.set_xscale("symlog", linthresh=1)
    if steps and options.xlim:
        first.set_xlim(options.xlim)
    for axes, facet in zip(grid[0], facets):
        axes.set_title(title_of(facet), fontsize="medium")
    for row, panels in zip(rows, grid):
        panels[0].set_ylabel(METRICS[row.metric] + (f"\n{row.part}" if row.part else ""))
        if row.metric in FRACTIONS:
            panels[0].set_ylim(options.ylim or (-0.02, 1.02))
        else:
            magnitude_axis(panels)
            panels[0].set_ylim(options.ylim)
    for axes in grid[-1]:
        axes.set_xlabel("training step" if steps else "depth (layers)")
    return seed_notes([part for facet in facets for part in facet.parts], options)
