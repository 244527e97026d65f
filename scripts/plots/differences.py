"""Pictures of paired differences: each variant's final validation loss, or another metric, minus its baseline's, seed by
seed, with a Student-t interval of their mean. A chart of scripts/plot.py, and the picture of scripts/compare.py.

Runs of one seed start from the same weights and see the same batches, so paired differences have less noise
than a difference of means. The baseline of a variant has the values of --baseline and agrees with the variant
in every other option that has an effect in both.

A row for each comparison has a dot for each seed, the mean difference and its interval, and the verdict. A band around 0 is
the margin.
"""
from collections import namedtuple
import math
from types import SimpleNamespace

from matplotlib import ticker

from ablate.comparisons import baseline_of, compare, has_values, verdict_text, wanted_of
from study.statistics import CONFIDENCE, MARGIN, t_interval
from common.runs import RunError
from common.variants import FIRST, value_text
from plots.groups import beyond, label_rows, limits, notes_of, row_places, seed_place
from plots.looks import (COLOURS, CROSS, DPI, GREY, MARKERS, Look, dot_of, fit_labels, literal, new_figure, note, put_below,
                         set_font, write_picture)

STRETCH = 0.75  # how far intervals may extend the axis on either side, in ranges of the points

# differences: {seed: difference}; interval: of their mean; text: the verdict in words; diverged: whether a run did.
Row = namedtuple("Row", "label key differences interval text look diverged")


# ---- rows ----------------------------------------------------------------------------------------

def bounds_of(rows, margin):
    """The axis holds 0, the margin and all seeds; long intervals end in arrows."""
    points = [0, *(value for row in rows for value in row.differences.values())]
    low, high = min(points), max(points)
    reach = max(STRETCH * (high - low), 1.5 * margin)
    ends = [end for row in rows for end in row.interval[1:3] if math.isfinite(end)]
    inside = [min(max(end, low - reach), high + reach) for end in ends]
    return limits([low, high, -1.2 * margin, 1.2 * margin, *inside], math.inf, False)


def draw_interval(axes, at, interval, bounds):
    """Draws the mean, and the interval within the axis, with an arrow at an end beyond it. Returns whether there is an
    arrow."""
    inset = 0.02 * (bounds[1] - bounds[0])
    left, right = max(interval.low, bounds[0] + inset), min(interval.high, bounds[1] - inset)
    style = {"color": "black", "linewidth": 1.2, "zorder": 3}
    axes.plot([interval.mean], [at], marker="D", markersize=4, color="black", zorder=4)
    axes.plot([left, right], [at, at], **style)
    for end, place, arrow in ((interval.low, left, "<"), (interval.high, right, ">")):
        axes.plot([place], [at], marker="|" if end == place else arrow, markersize=5, clip_on=False,
                  **style)
    return left > interval.low or right < interval.high


def draw_row(axes, at, row, bounds):
    """Draws a dot for each seed, the interval and its mean. Returns what was drawn, by the names of draw_rows()."""
    used = set()
    for place, value in enumerate(row.differences.values()):
        axes.plot([value], [seed_place(at, place, len(row.differences))], **dot_of(row.look))
        used.add("seed")
    if row.diverged:
        axes.plot([1], [at], transform=beyond(axes, True), clip_on=False, **dot_of(row.look, **CROSS))
        used.add("diverged")
    if not math.isfinite(row.interval.low):
        return used | {"few"}
    return used | {"interval"} | ({"on"} if draw_interval(axes, at, row.interval, bounds) else set())


def draw_rows(axes, rows, margin, label):
    """Draws the rows above the axis of this label. Returns the legend's entries."""
    bounds, places, used = bounds_of(rows, margin), row_places(rows), {"margin"}
    axes.axvspan(-margin, margin, color="0.88", linewidth=0, zorder=0)
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for row, at in zip(rows, places):
        used |= draw_row(axes, at, row, bounds)
    label_rows(axes, places, [f"{row.label}\n({row.text})" for row in rows])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    axes.set_xlabel(literal(label))
    black, none, percent = {"color": "black"}, {"linestyle": "none"}, f"{100 * CONFIDENCE:.0f} %"
    entries = {"seed": note("one seed", marker="o", markersize=5, **none),
               "interval": note(f"mean, {percent} Student-t interval", f"mean, {percent} t interval", marker="D", markersize=4,
                                linewidth=1.2, **black),
               "on": note("arrow: the interval continues", "interval continues", marker=">", markersize=5, **none, **black),
               "few": note("no interval with fewer than 2 common seeds", "no interval: < 2 seeds", **none),
               "margin": note(f"margin: {margin:g} around 0", linewidth=6, color="0.88", solid_capstyle="butt"),
               "diverged": note("diverged", **none, **CROSS)}
    return notes_of(entries, used)


# ---- the chart of plot.py ------------------------------------------------------------------------

def draw_differences(chart):
    """A row for each variant, in the look of its group; the baseline is at 0. comparisons.py decides, as for
    scripts/compare.py."""
    groups, names, rows = chart.groups, chart.options.differing, []
    wanted = wanted_of(groups, names, chart.options.baseline)
    for group in (group for group in groups if not has_values(group, names, wanted)):
        baseline = baseline_of(group, groups, names, wanted)
        one = compare(group, baseline, SimpleNamespace(metric="val_loss", margin=MARGIN, any_build=True)) if baseline else None
        text = verdict_text(one, MARGIN) if one else "no baseline"
        lost = [run for run in group.runs if run.status == "diverged"]
        differences, interval = (one.differences, one.interval) if one else ({}, t_interval(()))
        rows.append(Row(group.label, group.key, differences, interval, text.partition(":")[0] if chart.options.size else text,
                        group.look, lost))
        for seed, value in differences.items():
            chart.add(group.label, "difference", x=seed, y=value)
        for run in lost:
            chart.add(group.label, "diverged", x=run.options.get("seed"))
        if differences:
            chart.add(group.label, "mean", "", *interval)
    if not rows:
        raise RunError("--baseline: every run is the baseline")
    whose = ", ".join(f"{'' if name in FIRST else f'{name} '}{value_text(value, name)}" for name, value in wanted.items())
    return draw_rows(chart.row[0], rows, MARGIN, f"final validation loss minus that of {whose} (nats per {chart.unit})"), None


# ---- the picture of compare.py -------------------------------------------------------------------

ROW, FRAME = 0.36, 1.1  # inches: of a row, and of the axis with its label
WIDTH, LETTER = 4.6, 0.075  # inches: of the chart, and of a letter beside it
LOOK = Look(COLOURS[0], "-", MARKERS[0], False)


def draw_comparisons(comparisons, texts, options, quantity, say):
    others = {comparison.b.label for comparison in comparisons}
    rows = [Row(comparison.a.label if len(others) == 1 else f"{comparison.a.label} − {comparison.b.label}", comparison.a.key,
                comparison.differences, comparison.interval, text, LOOK,
                any(run.status == "diverged" for run in comparison.a.runs))
            for comparison, text in zip(comparisons, texts)]
    set_font(None, options.plot)
    name, _, unit = quantity.partition(" in ")
    name = {"val_loss": "final validation loss"}.get(name, name)
    label = f"{name} minus that of {others.pop()}" if len(others) == 1 else f"difference of {name}"
    figure = new_figure()
    beside = max(len(text) for row in rows for text in (row.label, row.text))
    figure.set_size_inches(WIDTH + LETTER * beside, FRAME + ROW * len(rows))
    notes = draw_rows(figure.subplots(), rows, options.margin, label + (f" ({unit})" if unit else ""))
    put_below(figure, notes, None, grow=True)
    figure.get_layout_engine().execute(figure)
    fit_labels(figure.axes)
    write_picture(figure, options.plot, DPI, say)
