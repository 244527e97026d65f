"""The chart of paired differences: each variant's final validation loss minus the baseline's, seed by
seed, with a Student-t interval of their mean.

Runs of one seed start from the same weights and see the same batches, so a difference within a seed
says more than a difference of means. The baseline of a variant is the variant that has the values of
--baseline and agrees with it in every other option that has an effect in both.
"""
import math
from types import SimpleNamespace

from matplotlib import ticker

import system_python
from groups import BEYOND, label_rows, row_places, runs_of, seed_place
from legends import Legend
from looks import CROSS, GREY, dot_of, literal, note, unit_of
from pairs import baseline_of, has_values, wanted_of
from runs import ENDED, FIRST, RunError, value_text
from series import Point, limits

CHART = "differences"  # in the table
STRETCH = 0.75  # how far intervals may extend the axis on either side, in ranges of the points


def comparisons_of(groups, names, wanted):
    """[(group, its Comparison with its baseline, or None without one, the verdict's text)] of the groups that are
    not the baseline. comparisons.py decides, as for scripts/compare.py."""
    system_python.require("plot", "plot report", "scipy.stats")
    from claims.inference import MARGIN  # scipy takes half a second to load
    from comparisons import Variant, compare, verdict_text
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


# ---- the chart -----------------------------------------------------------------------------------

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


def draw_differences(row, facets, options, table):
    """A row for each variant: a dot for each seed, the mean, its interval; the baseline is at 0."""
    (axes,), groups, names = row, facets[0].parts, options.differing
    wanted = wanted_of(groups, names, options.baseline)
    compared = comparisons_of(groups, names, wanted)
    rows = [(group, one.differences if one else {}, one.interval if one and one.differences else None)
            for group, one, _ in compared]
    points = [value for _, differences, _ in rows for value in differences.values()]
    low, high = min([0, *points]), max([0, *points])
    reach = STRETCH * (high - low)
    ends = [end for *_, mean in rows if mean for end in mean[:3] if math.isfinite(end)]
    bounds = limits([low, high, *(min(max(end, low - reach), high + reach) for end in ends)],
                    math.inf, False)
    places, used = row_places([group for group, *_ in rows]), set()
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for (group, differences, mean), at in zip(rows, places):
        for place, (seed, value) in enumerate(differences.items()):
            table.add(CHART, group.label, "difference", Point(x=seed, y=value))
            axes.plot([value], [seed_place(at, place, len(differences))], **dot_of(group.look))
        for run in group.runs:
            if run.status == "diverged":
                used.add("diverged")
                table.add(CHART, group.label, "diverged", Point(x=run.options.get("seed")))
                axes.plot([BEYOND], [at], transform=axes.get_yaxis_transform(), clip_on=False,
                          **dot_of(group.look, **CROSS))
        if mean:
            table.add(CHART, group.label, "mean", Point("", *mean))
        if mean and len(differences) > 1:
            used |= {"interval", *(["on"] if draw_interval(axes, at, *mean[1:3], bounds) else [])}
            axes.plot([mean[0]], [at], marker="D", markersize=4, color="black", zorder=4)
        else:
            used.add("few")
    label_rows(axes, places, [f"{group.label}\n({text.partition(':')[0] if options.size else text})"
                              for group, _, text in compared])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    whose = ", ".join(value_text(value) if name in FIRST else f"{name} {value_text(value, name)}"
                      for name, value in wanted.items())
    axes.set_xlabel(literal(f"final validation loss minus that of {whose} "
                            f"(nats per {unit_of(runs_of(groups))})"))
    style = {"color": "black"}
    entries = {"interval": note("mean, 99 % Student-t interval", "mean, 99 % t interval", marker="D", markersize=4,
                                linewidth=1.2, **style),
               "on": note("arrow: the interval continues", "interval continues", marker=">",
                          markersize=5, linestyle="none", **style),
               "few": note("no interval with fewer than 2 common seeds", "no interval: < 2 seeds",
                           linestyle="none"),
               "diverged": note("diverged", linestyle="none", **CROSS)}
    notes = [note("one seed", marker="o", linestyle="none", markersize=5)] if points else []
    return Legend(notes + [entries[name] for name in entries if name in used], 0, None)
