"""The forest plot of scripts/compare.py: a row for each comparison with a dot for each seed, the mean
difference and its interval, the margin as a band around 0, and the verdict on the right."""
import math

from matplotlib import ticker

from claims.inference import CONFIDENCE
from differences import STRETCH, draw_interval
from groups import label_rows, row_places, seed_place
from legends import put_below
from looks import COLOURS, GREY, MARKERS, Look, dot_of, literal, note, set_font
from pictures import new_figure, write_picture
from series import limits

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


def bounds_of(comparisons, margin):
    """The axis holds 0, the margin and all seeds; long intervals end in arrows."""
    points = [0, *(value for comparison in comparisons for value in comparison.differences.values())]
    low, high = min(points), max(points)
    reach = max(STRETCH * (high - low), 1.5 * margin)
    ends = [end for comparison in comparisons for end in comparison.interval[1:3] if math.isfinite(end)]
    inside = [min(max(end, low - reach), high + reach) for end in ends]
    return limits([low, high, -1.2 * margin, 1.2 * margin, *inside], math.inf, False)


def draw_row(axes, at, comparison, bounds):
    """Returns what was drawn, by the names of legend()."""
    interval, count = comparison.interval, len(comparison.differences)
    used = {"seed"} if count else set()
    for place, value in enumerate(comparison.differences.values()):
        axes.plot([value], [seed_place(at, place, count)], **dot_of(DOT, markersize=4, alpha=0.75))
    if math.isfinite(interval.low):
        used |= {"interval"} | ({"on"} if draw_interval(axes, at, *interval[1:3], bounds) else set())
        axes.plot([interval.mean], [at], marker="D", markersize=4, color="black", zorder=4)
    return used


def legend(used, margin):
    black = {"color": "black"}
    entries = {"seed": note("one seed", **dot_of(DOT, markersize=4, alpha=0.75)),
               "interval": note(f"mean, {100 * CONFIDENCE:.0f} % t interval", marker="D", markersize=4,
                                linewidth=1.2, **black),
               "on": note("arrow: the interval continues", marker=">", markersize=5, linestyle="none",
                          **black),
               "margin": note(f"margin: {margin:g} around 0", linewidth=6, color="0.88",
                               solid_capstyle="butt")}
    return [entries[name] for name in entries if name in used]


class Entries:
    """A legend as legends.put_below() takes it: notes only."""

    def __init__(self, handles):
        self.handles, self.lines, self.title = handles, 0, None


def draw_forest(comparisons, texts, options, quantity):
    labels, other = labels_of(comparisons)
    set_font(None)
    figure = new_figure(False)
    beside = max(map(len, labels)) + max(map(len, texts))
    figure.set_size_inches(WIDTH + LETTER * beside, FRAME + ROW * len(labels))
    axes = figure.subplots()
    bounds, used = bounds_of(comparisons, options.margin), {"margin"}
    places = row_places([comparison.a for comparison in comparisons])
    axes.axvspan(-options.margin, options.margin, color="0.88", linewidth=0, zorder=0)
    axes.axvline(0, linewidth=1, linestyle="--", zorder=1, **GREY)
    for comparison, at, text in zip(comparisons, places, texts):
        used |= draw_row(axes, at, comparison, bounds)
        axes.annotate(text, (1.02, at), xycoords=axes.get_yaxis_transform(), va="center",
                      annotation_clip=False, fontweight="bold" if comparison.verdict else "normal")
    label_rows(axes, places, labels)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlim(bounds)
    name, _, unit = quantity.partition(" in ")
    name = {"val_loss": "final validation loss"}.get(name, name)
    minus = f"{name} minus that of {other}" if other else f"difference of {name}"
    axes.set_xlabel(literal(minus + (f" ({unit})" if unit else "")))
    put_below(figure, [Entries(legend(used, options.margin))], [], True)
    write_picture(figure, options.plot, DPI)
