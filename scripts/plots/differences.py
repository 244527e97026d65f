"""The chart of paired differences: each variant's final validation loss minus the baseline's, seed by
seed, with a Student-t interval of their mean.

Runs of one seed start from the same weights and see the same batches, so paired differences have less noise
than a difference of means. The baseline of a variant has the values of --baseline and agrees with the variant
in every other option that has an effect in both.

The module also draws the forest plot of scripts/compare.py. It has a row for each comparison: a dot for each
seed, the mean difference and its interval, the margin as a band around 0, and the verdict.
"""
import math
from types import SimpleNamespace

from matplotlib import ticker

from ablate.comparisons import baseline_of, has_values, wanted_of
from claims.inference import CONFIDENCE
from common import command_line
from common.runs import ENDED, FIRST, RunError, value_text
from plots.groups import BEYOND, Point, label_rows, limits, row_places, runs_of, seed_place
from plots.looks import (COLOURS, CROSS, GREY, MARKERS, Look, dot_of, literal, new_figure, note, put_below,
                         set_font, unit_of, write_picture)

CHART = "differences"  # in the table
STRETCH = 0.75  # how far intervals may extend the axis on either side, in ranges of the points


def comparisons_of(groups, names, wanted):
    """[(group, its Comparison with its baseline, or None without one, the verdict's text)] of the groups that are
    not the baseline. comparisons.py decides, as for scripts/compare.py."""
    command_line.require("plot", "plot report", "scipy.stats")
    from claims.inference import MARGIN  # scipy takes half a second to load
    from ablate.comparisons import Variant, compare, verdict_text
    options = SimpleNamespace(metric="val_loss", margin=MARGIN, any_build=True)

    def variant(group):
        return Variant(group.label, group.key, [run for run in group.runs if run.status in (*ENDED, "diverged")])

    found = []
    for group in groups:
        if not has_values(group, names, wanted):
            baseline = baseline_of(group, groups, names, wanted)
            result = compare(variant(group), variant(baseline), options) if baseline else None
            found.append((group, result, verdict_text(result, MARGIN) if result else "no baseline"))
    if not found:
        raise RunError("--baseline: every run is the baseline")
    return found


# ---- what both pictures have --------------------------------------------------------------------

def bounds_of(pairs, margin=0.0):
    """The axis holds 0, the margin and all seeds; long intervals end in arrows. pairs: [(differences, interval or None)]"""
    points = [0, *(value for differences, _ in pairs for value in differences.values())]
    low, high = min(points), max(points)
    reach = max(STRETCH * (high - low), 1.5 * margin)
    ends = [end for _, interval in pairs if interval for end in interval[1:3] if math.isfinite(end)]
    inside = [min(max(end, low - reach), high + reach) for end in ends]
    return limits([low, high, -1.2 * margin, 1.2 * margin, *inside], math.inf, False)


def draw_interval(axes, at, low, high, bounds):
    """Draws the interval within the axis, with an arrow at an end beyond it. Returns whether there is
    an arrow."""
    inset = 0.02 * (bounds[1] - bounds[0])
    left, right = max(low, bounds[0] + inset), min(high, bounds[1] - inset)
    style = {"color": "black", "linewidth": 1.2, "zorder": 3}
    axes.plot([left, right], [at, at], **style)
    for end, place, arrow in ((low, left, "<"), (high, right, ">")):
        axes.plot([place], [at], marker="|" if end == place else arrow, markersize=5, clip_on=False,
                  **style)
    return left > low or right < high


def draw_row(axes, at, differences, interval, bounds, dot):
    """Draws a dot for each seed, the interval and the mean. Returns what was drawn, by the names of notes_of()."""
    for place, value in enumerate(differences.values()):
        axes.plot([value], [seed_place(at, place, len(differences))], **dot)
    used = {"seed"} if differences else set()
    if interval is None or not math.isfinite(interval.low):
        return used | {"few"}
    axes.plot([interval.mean], [at], marker="D", markersize=4, color="black", zorder=4)
    return used | {"interval"} | ({"on"} if draw_interval(axes, at, *interval[1:3], bounds) else set())


def notes_of(used, dot, words, **more):
    """The legend's entries of what was used; words: of the interval, at length and in brief."""
    black = {"color": "black"}
    entries = {"seed": note("one seed", **dot),
               "interval": note(*words, marker="D", markersize=4, linewidth=1.2, **black),
               "on": note("arrow: the interval continues", "interval continues", marker=">", markersize=5,
                          linestyle="none", **black), **more}
    return [entries[name] for name in entries if name in used]


# ---- the chart of plot.py ------------------------------------------------------------------------

def draw_differences(row, facets, options, table):
    """A row for each variant: a dot for each seed, the mean, its interval; the baseline is at 0."""
    (axes,), groups, names = row, facets[0].parts, options.differing
    wanted = wanted_of(groups, names, options.baseline)
    compared = comparisons_of(groups, names, wanted)
    pairs = [(one.differences, one.interval if one.differences else None) if one else ({}, None)
             for _, one, _ in compared]
    bounds, used = bounds_of(pairs), set()
    places = row_places([group for group, *_ in compared])
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for (group, *_), (differences, interval), at in zip(compared, pairs, places):
        used |= draw_row(axes, at, differences, interval, bounds, dot_of(group.look))
        for seed, value in differences.items():
            table.add(CHART, group.label, "difference", Point(x=seed, y=value))
        for run in group.runs:
            if run.status == "diverged":
                used.add("diverged")
                table.add(CHART, group.label, "diverged", Point(x=run.options.get("seed")))
                axes.plot([BEYOND], [at], transform=axes.get_yaxis_transform(), clip_on=False,
                          **dot_of(group.look, **CROSS))
        if interval:
            table.add(CHART, group.label, "mean", Point("", *interval))
    label_rows(axes, places, [f"{group.label}\n({text.partition(':')[0] if options.size else text})"
                              for group, _, text in compared])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    whose = ", ".join(value_text(value) if name in FIRST else f"{name} {value_text(value, name)}"
                      for name, value in wanted.items())
    axes.set_xlabel(literal(f"final validation loss minus that of {whose} "
                            f"(nats per {unit_of(runs_of(groups))})"))
    return notes_of(used, {"marker": "o", "linestyle": "none", "markersize": 5},
                    ("mean, 99 % Student-t interval", "mean, 99 % t interval"),
                    few=note("no interval with fewer than 2 common seeds", "no interval: < 2 seeds", linestyle="none"),
                    diverged=note("diverged", linestyle="none", **CROSS)), None


# ---- the forest plot of compare.py ---------------------------------------------------------------

ROW, FRAME = 0.36, 1.1  # inches: of a row, and of the axis with its label
WIDTH, LETTER = 4.6, 0.075  # inches: of the chart, and of a letter beside it
DPI = 200
DOT = Look(COLOURS[0], "-", MARKERS[0], False)


def labels_of(comparisons):
    """The rows' labels, and the name of what all are compared with, or None."""
    others = {comparison.b.label for comparison in comparisons}
    if len(others) == 1:
        return [comparison.a.label for comparison in comparisons], others.pop()
    return [f"{comparison.a.label} − {comparison.b.label}" for comparison in comparisons], None


def draw_forest(comparisons, texts, options, quantity):
    labels, other = labels_of(comparisons)
    set_font(None)
    figure, margin = new_figure(False), options.margin
    beside = max(map(len, labels)) + max(map(len, texts))
    figure.set_size_inches(WIDTH + LETTER * beside, FRAME + ROW * len(labels))
    axes, dot = figure.subplots(), dot_of(DOT, markersize=4, alpha=0.75)
    pairs, used = [(one.differences, one.interval) for one in comparisons], {"margin"}
    bounds, places = bounds_of(pairs, margin), row_places([comparison.a for comparison in comparisons])
    axes.axvspan(-margin, margin, color="0.88", linewidth=0, zorder=0)
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for comparison, pair, at, text in zip(comparisons, pairs, places, texts):
        used |= draw_row(axes, at, *pair, bounds, dot) - {"few"}
        axes.annotate(text, (1.02, at), xycoords=axes.get_yaxis_transform(), va="center",
                      annotation_clip=False, fontweight="bold" if comparison.verdict else "normal")
    label_rows(axes, places, labels)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    name, _, unit = quantity.partition(" in ")
    name = {"val_loss": "final validation loss"}.get(name, name)
    minus = f"{name} minus that of {other}" if other else f"difference of {name}"
    axes.set_xlabel(literal(minus + (f" ({unit})" if unit else "")))
    band = note(f"margin: {margin:g} around 0", linewidth=6, color="0.88", solid_capstyle="butt")
    put_below(figure, notes_of(used, dot, (f"mean, {100 * CONFIDENCE:.0f} % t interval",), margin=band), None, grow=True)
    write_picture(figure, options.plot, DPI)
