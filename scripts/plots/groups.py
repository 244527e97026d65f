"""Groups of runs, which every chart draws: a variant with its seeds, or one run.

This module computes the numbers that charts draw (means over seeds, bands, smoothing, limits of axes) and the table
of them. It also draws what all charts have: the grammar's entropy, and marks beyond the end of an axis.

A mean over seeds leaves out runs that diverged or are stuck, unless no other is left. Diverged ones are crosses beyond the end
of the loss axis. Losses far above the
untrained model's do not extend that axis, since they would flatten the rest.
"""
from collections import namedtuple
import math

import matplotlib
from matplotlib import ticker
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation
import numpy as np

from common.runs import ENDED
from common.variants import unit_of
from plots.looks import GREY, PALE, literal, note, scale, wrapped

# ---- numbers -------------------------------------------------------------------------------------

CAP = 1.2  # losses above this multiple of the untrained model's are off the scale

# Arrays over the points of a line. `runs` counts the runs at each point; low and high are NaN where
# there is no band.
Curve = namedtuple("Curve", "x y low high runs")

# One point for the table; "" is an empty cell.
Point = namedtuple("Point", Curve._fields, defaults=("",) * len(Curve._fields))


class Table:
    """The numbers that were drawn, a row for each point."""

    header = ["chart", "line", "series", *Point._fields]

    def __init__(self):
        self.rows = []

    def add(self, chart, line, series, *point, **more):
        """Adds a Point."""
        numbers = ["" if value != value else f"{value:.9g}" if isinstance(value, float) else value
                   for value in Point(*point, **more)]
        self.rows.append([chart, line, series, *numbers])

    def add_curve(self, chart, line, series, curve):
        for *point, runs in zip(*curve):
            self.add(chart, line, series, *map(float, point), int(runs))


def smooth(values, width):
    """The running mean over `width` (odd) values centred on each. Near the ends fewer values count,
    equally many on both sides, so that a steep start is not shifted."""
    i = np.arange(len(values))
    half = np.minimum(np.minimum(i, i[::-1]), width // 2)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1)


CENTERS = {"mean": np.nanmean, "median": np.nanmedian}


def center_of(runs, center):
    """The center of the final losses."""
    return float(CENTERS[center]([run.losses()[-1] for run in runs]))


def spread(values, centers, band):
    """The ends of the band over the first axis, NaN where there are fewer than two values."""
    few = np.isfinite(values).sum(axis=0) < 2
    if band == "none" or few.all():
        return np.full_like(centers, np.nan), np.full_like(centers, np.nan)
    if band == "sd":
        filled = np.where(few, 0, values)  # any finite numbers
        deviation = np.nanstd(filled, axis=0, ddof=1)
        low, high = centers - deviation, centers + deviation
    else:
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def sound(runs):
    """The runs that neither diverged nor are stuck; if there are none the stuck ones, or else all."""
    there = [run for run in runs if run.status != "diverged"] or runs
    return [run for run in there if run.status != "stuck"] or there


def final_runs(runs):
    """The runs whose last losses represent the group: those that trained, or else those that are unfinished, or stuck;
    none if all diverged."""
    alive = [run for run in sound(runs) if run.status != "diverged" and run.losses()]
    return [run for run in alive if run.status in ENDED] or alive


def living_runs(runs):
    """The final_runs() that are not stuck."""
    return [run for run in final_runs(runs) if run.status != "stuck"]


def curve_of(runs, x, column, center, band, width=1):
    """The runs' column over x."""
    logs = []
    for run in runs:
        rows = run.measured(column)
        if rows:
            steps, xs, values = (np.array([run.columns[name][row] for row in rows])
                                 for name in ("step", x, column))
            logs.append((steps, xs, smooth(values, width)))
    return merge(logs, center, band)


def merge(logs, center, band):
    """The curve over several logs, each (steps, x, values). A step counts only if every log that
    extends beyond it has it: a row that one run alone has, because it was stopped there, would make
    the mean jump."""
    if not logs:
        return Curve(*(np.empty(0) for _ in Curve._fields))
    steps = np.unique(np.concatenate([log[0] for log in logs]))
    values, xs = np.full((2, len(logs), len(steps)), np.nan)
    reaching = np.zeros(len(steps), int)
    for row, (own, at, measured) in enumerate(logs):
        where = np.searchsorted(steps, own)
        values[row, where], xs[row, where] = measured, at
        reaching += (steps >= own[0]) & (steps <= own[-1])
    there = np.isfinite(values).sum(axis=0)
    keep = there == reaching
    values, xs = values[:, keep], xs[:, keep]
    y = CENTERS[center](values, axis=0)
    return Curve(np.nanmean(xs, axis=0), y, *spread(values, y, band), there[keep])


def loss_cap(runs):
    """The loss above which nothing is shown."""
    firsts = [losses[0] for losses in (run.losses() for run in runs) if losses]
    firsts = firsts or [loss for run in runs for loss in run.columns["train_loss"][:1]
                        if math.isfinite(loss)]
    return CAP * max(firsts, default=math.inf)


def limits(values, cap, logarithmic):
    """The limits of an axis that shows these values up to the cap."""
    values = [value for value in values if math.isfinite(value) and value <= cap and (value > 0 or not logarithmic)]
    if not values:
        return (0.1 if logarithmic else 0, cap if math.isfinite(cap) else 1)
    low, high = min(values), max(values)
    if logarithmic:
        margin = (high / low) ** 0.05 if high > low else 1.1
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1
    return low - margin, high + margin


# ---- groups --------------------------------------------------------------------------------------

DECADE = 6  # high / low of a logarithmic axis from which on ticks at 1, 2 and 5 times powers of ten are enough
BEYOND, STORY = 5, 14  # points: from the end of the loss axis to marks beyond it, and from one row of them to the next
BANDS = {"range": "lowest to highest", "sd": "± standard deviation"}

Group = namedtuple("Group", "label key runs look")

# What a panel shows: its group, and the groups that it shows. Without --columns the group is None, or in pictures
# of probes the only part.
Facet = namedtuple("Facet", "group parts")


def beyond(axes, rows, story=0):
    """The transform of marks beyond the loss axis, whose place there is 1."""
    away = (BEYOND + STORY * story) / 72
    shift = ScaledTranslation(away * rows, away * (not rows), axes.figure.dpi_scale_trans)
    return (axes.get_yaxis_transform() if rows else axes.get_xaxis_transform()) + shift


def runs_of(groups):
    return [run for group in groups for run in group.runs]


def seeds_of(groups):
    """"5 seeds" or "3 to 5 seeds"; "" if each line is one run."""
    counts = sorted({len(group.runs) for group in groups})
    if counts[-1] == 1:
        return ""
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seeds"


def seed_notes(groups, options, named=True):
    """The legend's entries of means and bands over seeds. named: whether the seeds are named here."""
    seeds = seeds_of(groups)
    notes = [note(f"{options.center} of {seeds}", linewidth=1.4)] if seeds and named else []
    if seeds and options.band in BANDS:
        notes.append(Patch(alpha=0.25, linewidth=0, label=f"band: {BANDS[options.band]}", **GREY))
        notes[-1].brief = f"band: {options.band}"
    return notes


def notes_of(entries, used):
    """The legend's entries {name: entry} of what was used."""
    return [entry for name, entry in entries.items() if name in used]


class Chart:
    """A chart under way.

    row, facets  its axes, once it has a place in the picture, and the facet that each shows
    axes, facet  the panel that is being drawn
    columns      the number of panels beside each other
    groups, runs, unit  of all facets, and what a token is
    rows   whether it has a row for each group, and losses along the horizontal axis
    cap    losses above it are not shown
    shown  the losses on the loss axis
    used   what the legend has to explain
    """

    def __init__(self, name, facets, options, table, columns=None):
        self.name, self.row, self.facets, self.options, self.table = name, None, facets, options, table
        self.axes, self.facet, self.columns = None, None, columns or len(facets)
        self.rows = name == "dots"
        self.groups = [group for facet in facets for group in facet.parts]
        self.runs = runs_of(self.groups)
        self.unit, self.cap = unit_of(self.runs), loss_cap(self.runs)
        self.shown, self.used = [], set()

    def add(self, line, series, *point, **more):
        self.table.add(self.name, line, series, *point, **more)

    def whose(self, group):
        """The name of a group's line in the table."""
        return ", ".join(part.label for part in (self.facet and self.facet.group, group) if part)

    def title_panels(self, stories=0):
        """Names each panel, above this many rows of marks beyond its loss axis."""
        for axes, facet in zip(self.row, self.facets):
            axes.label_outer()
            axes.set_visible(bool(facet.parts))
            if facet.group:
                pad = STORY * stories + 2 if stories else matplotlib.rcParams["axes.titlepad"]
                axes.set_title(literal(facet.group.label), fontsize="medium", pad=pad)

    def loss_axis(self, label, span=None):
        """Gives the loss axis its scale, limits and label, and draws the grammar's entropy as a dashed line. One far below the
        losses that are shown is only named in the legend: its line would flatten them. Returns the legend's entries."""
        axes, logarithmic, way = self.row[0], self.options.log_y, "x" if self.rows else "y"
        low, high = limits(self.shown, self.cap, logarithmic)
        notes, near = [], []
        for entropy in sorted({float(run.entropy) for run in self.runs if isinstance(run.entropy, (int, float))}):
            text, style = f"entropy of the grammar: {entropy:.3f}", {"linewidth": scale(), "linestyle": "--"}
            if entropy > low - (high - low):
                near.append(entropy)
                self.add("", "entropy of the grammar", y=entropy)
                for panel in self.row:
                    (panel.axvline if self.rows else panel.axhline)(entropy, zorder=1, **style, **GREY)
            else:
                text, style = f"{text} (further down)", {"linestyle": "none"}
            notes.append(note(text, f"entropy {entropy:.3f}", **style))
        if logarithmic:
            axes.set(**{f"{way}scale": "log"})
            axis = axes.xaxis if self.rows else axes.yaxis
            axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(ticker.NullFormatter())
        low, high = span or limits([*self.shown, *near], self.cap, logarithmic)
        if logarithmic:
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)) if high / low > DECADE else ticker.MaxNLocator(steps=(1, 2, 5, 10)))
        axes.set(**{f"{way}label": f"{label} (nats per {self.unit})", f"{way}lim": (low, high)})
        return notes


def draw_line(axes, curve, style, band_below=np.inf):
    """Draws the curve, paler where some of its runs are missing, and its band up to this value. Returns whether there is such a
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
    """Labels the rows; a label that would take more than half of the width continues on the next line."""
    room = 0.5 * axes.figure.get_figwidth() / axes.get_gridspec().ncols
    axes.set_yticks(places, ["\n".join(line for part in label.split("\n") for line in wrapped(part, room)) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1] + 0.6, -0.6)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def seed_place(row, place, count):
    """The height of the seed number `place` of `count` in its row."""
    return row + 0.6 * (place + 0.5) / count - 0.3
