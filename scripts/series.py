"""The numbers behind the charts: means over seeds, bands, smoothing, scales; and the table of them."""
from collections import namedtuple
import math

import numpy as np

LOST = 1.2  # losses so many times the untrained model's are off the scale

# Over seeds: `runs` says of how many each point is; low and high are NaN without a band.
Curve = namedtuple("Curve", "x y low high runs")


class Table:
    """What is drawn, a row a point."""

    header = ["chart", "line", "series", "x", "y", "low", "high", "runs"]

    def __init__(self):
        self.rows = []

    def add(self, chart, line, series, x="", y="", low="", high="", runs=""):
        numbers = ["" if value != value else f"{value:.9g}" if isinstance(value, float) else value
                   for value in (x, y, low, high, runs)]
        self.rows.append([chart, line, series, *numbers])

    def add_curve(self, chart, line, series, curve):
        for *point, runs in zip(*curve):
            self.add(chart, line, series, *map(float, point), int(runs))


def smooth(values, width):
    """Running mean over `width` (odd) values around each; towards both ends over as many as there
    are on either side, so that a steep start keeps its place."""
    i = np.arange(len(values))
    half = np.minimum(np.minimum(i, i[::-1]), width // 2)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1)


def middle(values, center):
    return float(np.median(values) if center == "median" else np.mean(values))


def spread(values, centers, band):
    """The ends of the band over the first axis, NaN where there are no two values."""
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
    """Those that did not diverge; all if all did."""
    return [run for run in runs if run.status != "diverged"] or runs


def final_runs(runs):
    """The runs whose last losses stand for them all: those that came to their end, else those on
    their way; none if all diverged."""
    going = [run for run in runs if run.status != "diverged" and run.losses()]
    return [run for run in going if run.status == "done"] or going


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
    """The curve of several logs, each (steps, x, values), at the steps that all of them have that
    reach there: a row that only one run has, for it was stopped there, would be a jump."""
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
    y = (np.nanmedian if center == "median" else np.nanmean)(values, axis=0)
    return Curve(np.nanmean(xs, axis=0), y, *spread(values, y, band), there[keep])


def loss_cap(runs):
    """The loss from which on nothing is shown."""
    firsts = [losses[0] for losses in (run.losses() for run in runs) if losses]
    firsts = firsts or [loss for run in runs for loss in run.columns["train_loss"][:1]
                        if math.isfinite(loss)]
    return LOST * max(firsts, default=math.inf)


def limits(values, cap, logarithmic):
    """An axis for these values as far as they are below the cap."""
    values = [value for value in values if math.isfinite(value) and value <= cap]
    if logarithmic:
        values = [value for value in values if value > 0]
    if not values:
        return (0.1 if logarithmic else 0, cap if math.isfinite(cap) else 1)
    low, high = min(values), max(values)
    if logarithmic:
        margin = (high / low) ** 0.05 if high > low else 1.1
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1
    return low - margin, high + margin
