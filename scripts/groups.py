"""Groups of runs, which every chart draws: a variant with its seeds, or one run. And what the charts
share: bands over seeds, the grammar's entropy, where marks beyond an axis stand.

A mean over seeds leaves diverged runs out and says so; they are crosses beyond the end of the loss
axis. Losses far above the untrained model's do not stretch that axis, or they would flatten the rest.
"""
from collections import namedtuple

import numpy as np

from looks import GREY, PALE, literal, note, scale

BEYOND = 1.03  # where marks beyond the loss axis stand, in lengths of the axis
STORY = 0.045  # from one row of them to the next
BANDS = {"range": "lowest to highest", "sd": "± standard deviation"}

Group = namedtuple("Group", "label key runs look")

# A panel of a picture with columns: its group, and the groups that it is made of. Without columns the
# group is None, or in pictures of probes the only part.
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
    """A dashed line for each; `draw` is axhline or axvline. Returns the legend's entries."""
    lines = []
    for entropy in entropies:
        if table:
            table.add(chart, "", "entropy of the grammar", y=entropy)
        lines.append(draw(entropy, linewidth=scale(), linestyle="--", zorder=1,
                          label=f"entropy of the grammar: {entropy:.3f}", **GREY))
        lines[-1].brief = f"entropy {entropy:.3f}"
    return lines


def draw_near_entropies(draw, groups, chart, low, high, table):
    """The same, but a line so far away that it would flatten what lies between low and high stands
    in the legend alone. Returns the lines' places too."""
    entropies = entropies_of(groups)
    near = [entropy for entropy in entropies if entropy > low - (high - low)]
    return draw_entropies(draw, near, chart, table) + [
        note(f"entropy of the grammar: {entropy:.3f} (further down)", f"entropy {entropy:.3f}",
             linestyle="none") for entropy in entropies if entropy not in near], near


def draw_line(axes, curve, style, band_below):
    """The curve, paler from where on some of its runs are missing; True if there is such a part."""
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
    """Where in its row the seed of this place among `count` stands."""
    return row + 0.6 * (place + 0.5) / count - 0.3
