"""Groups of runs, which every chart draws: a variant with its seeds, or one run. And what the charts
have in common: bands over seeds, the grammar's entropy, marks beyond the end of an axis.

A mean over seeds leaves diverged runs out and says so: they are crosses beyond the end of the loss
axis. Losses far above the untrained model's do not extend that axis; they would flatten the rest.
"""
from collections import namedtuple

import numpy as np

from plots.looks import GREY, PALE, literal, note, scale
from plots.series import Point

BEYOND = 1.03  # the place of marks beyond the loss axis, in lengths of the axis
STORY = 0.045  # from one row of such marks to the next
BANDS = {"range": "lowest to highest", "sd": "± standard deviation"}

Group = namedtuple("Group", "label key runs look")

# A panel: its group, and the groups that it shows. Without --columns the group is None, or in pictures
# of probes the only part.
Facet = namedtuple("Facet", "group parts")


def runs_of(groups):
    return [run for group in groups for run in group.runs]


def seeds_of(groups):
    """"5 seeds" or "3 to 5 seeds"; "" if each line is one run."""
    counts = sorted({len(group.runs) for group in groups})
    if counts[-1] == 1:
        return ""
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seeds"


def entropies_of(groups):
    return sorted({float(run.entropy) for run in runs_of(groups)
                   if isinstance(run.entropy, (int, float))})


def draw_entropies(draw, entropies, chart, table):
    """Draws a dashed line for each; `draw` is axhline or axvline. Returns the legend's entries."""
    lines = []
    for entropy in entropies:
        if table:
            table.add(chart, "", "entropy of the grammar", Point(y=entropy))
        lines.append(draw(entropy, linewidth=scale(), linestyle="--", zorder=1,
                          label=f"entropy of the grammar: {entropy:.3f}", **GREY))
        lines[-1].brief = f"entropy {entropy:.3f}"
    return lines


def draw_near_entropies(draw, groups, chart, low, high, table):
    """The same, except that an entropy far below `low` is named in the legend only: its line would
    flatten what is between low and high. Returns the entropies that are drawn too."""
    entropies = entropies_of(groups)
    near = [entropy for entropy in entropies if entropy > low - (high - low)]
    return draw_entropies(draw, near, chart, table) + [
        note(f"entropy of the grammar: {entropy:.3f} (further down)", f"entropy {entropy:.3f}",
             linestyle="none") for entropy in entropies if entropy not in near], near


def draw_line(axes, curve, style, band_below):
    """Draws the curve, paler where some of its runs are missing. Returns whether there is such a
    part."""
    x, y, low, high, runs = curve
    fewer = np.flatnonzero(runs < max(runs, default=0))
    whole = fewer[0] if len(fewer) else len(x)
    axes.plot(x[:whole], y[:whole], **style)
    axes.fill_between(x[:whole], low[:whole], high[:whole], where=high[:whole] <= band_below,
                      color=style["color"], alpha=0.18, linewidth=0)
    if whole < len(x):
        axes.plot(x[max(whole - 1, 0):], y[max(whole - 1, 0):],
                  **{**style, "alpha": PALE * style.get("alpha", 1), "marker": "none"})
    return whole < len(x)


# ---- charts with a row for each group ------------------------------------------------------------

def row_places(groups):
    """The height of each group's row, with a gap between the first option's values."""
    places, at = [], 0.0
    for group, before in zip(groups, [groups[0], *groups]):
        if len(group.key) > 1 and group.key[0] != before.key[0]:
            at += 0.4
        places.append(at)
        at += 1
    return places


def label_rows(axes, places, labels):
    axes.set_yticks(places, [literal(label) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1] + 0.6, -0.6)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def seed_place(row, place, count):
    """The height of the seed number `place` of `count` in its row."""
    return row + 0.6 * (place + 0.5) / count - 0.3
