"""The chart of paired differences: each variant's final validation loss minus the baseline's, seed by
seed, with a Student-t interval of their mean.

Runs of one seed start from the same weights and see the same batches, so a difference within a seed
says more than a difference of means. The baseline of a variant is the variant that has the values of
--baseline and agrees with it in every other option that has an effect in both.
"""
import math

import numpy as np
from matplotlib import ticker

from groups import BEYOND, label_rows, row_places, runs_of, seed_place
from legends import Legend
from looks import CROSS, GREY, dot_of, literal, note, unit_of
from pairs import baseline_of, has_values, wanted_of
from runs import FIRST, RunError, value_text
from series import Point, limits

CHART = "differences"  # in the table
CONFIDENCE = 0.99
STRETCH = 0.75  # how far intervals may extend the axis on either side, in ranges of the points


# ---- the interval --------------------------------------------------------------------------------

def student_below(t, freedom):
    """The probability that Student's t with a whole number of degrees of freedom is between -t and t
    (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def student_quantile(confidence, freedom):
    """The t for which Student's t is between -t and t with this probability."""
    low, high = 0.0, 1.0
    while student_below(high, freedom) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_below(middle, freedom) < confidence else (low, middle)
    return high


def interval(values):
    """The mean and the ends of its interval, which are NaN for fewer than two values."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, math.nan, math.nan
    half = student_quantile(CONFIDENCE, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half


# ---- pairs ---------------------------------------------------------------------------------------

def final_losses(group):
    """{seed: the final loss} of the runs that are done."""
    losses = {}
    for run in group.runs:
        seed = run.options.get("seed")
        if run.status == "done" and run.losses():
            if seed in losses:
                raise RunError(f"{run.folder}: another run of {group.label} has the same seed {seed}: "
                               "which one is paired?")
            losses[seed] = run.losses()[-1]
    return losses


def pairs_of(groups, names, wanted):
    """[(group, its baseline or None, {seed: difference})] of the groups that are not the baseline."""
    found = []
    for group in groups:
        if has_values(group, names, wanted):
            continue
        baseline, own = baseline_of(group, groups, names, wanted), final_losses(group)
        theirs = final_losses(baseline) if baseline else {}
        found.append((group, baseline, {seed: own[seed] - theirs[seed]
                                        for seed in sorted(own) if seed in theirs}))
    if not found:
        raise RunError("--baseline: every run is the baseline")
    return found


# ---- the chart -----------------------------------------------------------------------------------

def row_label(group, baseline, differences):
    """The variant, and in brackets what is missing."""
    parts = []
    if not baseline:
        parts.append("no baseline")
    elif len(differences) < 2:
        parts.append("1 common seed" if differences else "no common seed")
    lost = sum(run.status == "diverged" for run in group.runs)
    if lost:
        parts.append(f"{lost} of {len(group.runs)} diverged")
    return group.label + (f"\n({', '.join(parts)})" if parts else "")


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
    pairs = pairs_of(groups, names, wanted)
    points = [value for _, _, differences in pairs for value in differences.values()]
    means = [interval(list(differences.values())) if differences else None
             for *_, differences in pairs]
    low, high = min([0, *points]), max([0, *points])
    reach = STRETCH * (high - low)
    ends = [end for mean in means if mean for end in mean if math.isfinite(end)]
    bounds = limits([low, high, *(min(max(end, low - reach), high + reach) for end in ends)],
                    math.inf, False)
    places, used = row_places([group for group, *_ in pairs]), set()
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for (group, baseline, differences), mean, at in zip(pairs, means, places):
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
            table.add(CHART, group.label, "mean", Point("", *mean, len(differences)))
        if mean and len(differences) > 1:
            used |= {"interval", *(["on"] if draw_interval(axes, at, *mean[1:], bounds) else [])}
            axes.plot([mean[0]], [at], marker="D", markersize=4, color="black", zorder=4)
        else:
            used.add("few")
    label_rows(axes, places, [row_label(*pair) for pair in pairs])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    whose = ", ".join(value_text(value) if name in FIRST else f"{name} {value_text(value)}"
                      for name, value in wanted.items())
    axes.set_xlabel(literal(f"final validation loss minus that of {whose} "
                            f"(nats per {unit_of(runs_of(groups))})"))
    percent = f"{100 * CONFIDENCE:.0f} % Student-t interval"
    style = {"color": "black"}
    entries = {"interval": note(f"mean, {percent}", f"mean, {100 * CONFIDENCE:.0f} % t interval",
                                marker="D", markersize=4, linewidth=1.2, **style),
               "on": note("arrow: the interval continues", "interval continues", marker=">",
                          markersize=5, linestyle="none", **style),
               "few": note("no interval with fewer than 2 common seeds", "no interval: < 2 seeds",
                           linestyle="none"),
               "diverged": note("diverged", linestyle="none", **CROSS)}
    notes = [note("one seed", marker="o", linestyle="none", markersize=5)] if points else []
    return Legend(notes + [entries[name] for name in entries if name in used], 0, None)
