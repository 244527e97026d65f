"""Quantities: numbers computed from facts, with their uncertainty over seeds. Rules compare them with thresholds.

Runs of one seed share weights and batches. So differences, ratios and slopes are computed for each seed, and their
mean has Student's t interval over the seeds, at 99 %. Proportions have Clopper and Pearson's interval.

A mean over only the runs that trained would be biased. So runs that did not train count:
- If some runs of a variant are stuck at a finite loss, they are worse than the others by an unknown amount. One end of
  the interval is Student's over the other runs, and the other end is infinite.
- If a run diverged, its loss is infinite. Then, and if both sides of a difference have stuck runs, the quantity is the
  median with its interval by order statistics. Below 8 seeds that interval is the whole line.

A difference leaves out seeds whose runs are of different builds. Ratios and correlations do not.
"""
from dataclasses import dataclass, replace
import math
from typing import Callable

import numpy as np
from scipy import stats

from study import statistics as inference
from claims.fact_table import NO_SEED, variant_text

LOSSES = ("val_loss", "best_loss")  # metrics for which a run must have trained
NATS = (*LOSSES, "own_gap", "single_gap", "noise_cost", "learned", "learned_leak", "gap_at_equal_fit",
        "above_frequencies")
# Metrics that are ratios: rules, tables and pictures take their geometric mean over seeds.
RATIOS = ("stream_growth_start", "gradient_ratio_start", "gradient_ratio_end", "gradient_error_4", "output_range",
          "range_growth", "weight_change_own", "jacobian_ratio", "radius_cv_ratio")
STABLE = 0.1                        # a rate is stable if it loses at most this much against the best


@dataclass(frozen=True)
class Estimate:
    """A value with its 99 % interval. seeds: {seed: value}. ratio: whether the mean is geometric. p: that of
    the sign-flip test against the threshold of a reading, which sets it."""
    value: float
    low: float
    high: float
    seeds: dict
    kind: str = "mean"
    ratio: bool = False
    p: float = math.nan

    @property
    def n(self):
        return len(self.seeds)

    @property
    def deviation(self):
        values = list(self.seeds.values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    def scales(self):
        """The function to the scale on which the mean is taken, and its inverse."""
        return (math.log, math.exp) if self.ratio else (float, float)

    def has_error(self):
        """Whether it is a mean with a finite interval, so that error() is its standard error."""
        return self.kind == "mean" and self.n > 1 and (self.low > 0 or not self.ratio) and \
            math.isfinite(self.error()) and self.error() > 0

    def error(self):
        scale = self.scales()[0]
        return (scale(self.high) - scale(self.low)) / 2 / inference.t_quantile(self.n - 1)

    def p_against(self, *thresholds):
        """The exact p of the hypothesis that the mean is one of these; NaN where the mean does not decide."""
        if not thresholds or self.kind != "mean" or not 1 < self.n <= inference.FLIPS_MAX:
            return math.nan
        scale = self.scales()[0]
        return max(inference.sign_flip_p([scale(value) - scale(m) for value in self.seeds.values()])
                   for m in thresholds)


@dataclass(frozen=True)
class Quantity:
    """text: the formula. needs: ((metric, variant), ...). compute(view) gives an Estimate or None, where
    view(metric, variant) is {seed: value}. unit: what the value is measured in."""
    text: str
    experiment: str
    needs: tuple
    compute: Callable
    unit: str = ""

    def estimate(self, facts, cell):
        return self.compute(lambda metric, variant: facts.series(self.experiment, cell, metric,
                                                                 variant))


# ---- estimates -----------------------------------------------------------------------------------

def over_seeds(values, grid=0.0):
    """The mean with Student's t interval; None without values. One seed decides nothing, except for a
    fact that no seed enters. Values that are read on a grid get the variance of its rounding, grid^2 / 12,
    in addition: seeds with equal values do not make it certain."""
    values = {seed: value for seed, value in values.items() if not math.isnan(value)}
    if not values:
        return None
    numbers = np.array(list(values.values()))
    if set(values) == {NO_SEED}:
        return Estimate(numbers[0], numbers[0], numbers[0], values, kind="exact")
    if not np.isfinite(numbers).all():
        return median_over_seeds(values)
    mean, low, high, n = inference.t_interval(numbers)
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, values)
    if grid:
        half = inference.t_quantile(n - 1) * math.sqrt((numbers.var(ddof=1) + grid ** 2 / 12) / n)
        low, high = mean - half, mean + half
    return Estimate(mean, low, high, values)


def median_over_seeds(values):
    """The median and its interval: the k-th lowest and highest value, k as large as 99 % allow. A NaN
    (infinity less infinity) could be anything, so it counts as lowest below and as highest above."""
    numbers = np.array(list(values.values()))
    below = np.sort(np.where(np.isnan(numbers), -math.inf, numbers))
    above = np.sort(np.where(np.isnan(numbers), math.inf, numbers))
    n, tail = len(numbers), (1 - inference.CONFIDENCE) / 2
    k = int(stats.binom.ppf(tail, n, 0.5))
    while k >= 0 and stats.binom.cdf(k, n, 0.5) > tail:
        k -= 1
    low, high = (below[k], above[n - 1 - k]) if k >= 0 else (-math.inf, math.inf)
    middle = below[(n - 1) // 2], above[n // 2]
    value = middle[0] if middle[0] == middle[1] else sum(middle) / 2
    return Estimate(float(value), float(low), float(high), values, kind="median")


def one_sided(values, bounds, sign, grid=0.0):
    """The interval's end that remains if the values of some seeds (bounds) are lower bounds (sign 1) or upper
    ones (-1). Where they are the minority it is the end of the others: the bounds are beyond these, and far
    values would widen the interval, although they speak for the same side."""
    others = {seed: value for seed, value in values.items() if seed not in bounds}
    estimate = over_seeds(others if len(others) > len(bounds) else values, grid)
    ends = {"high": math.inf} if sign > 0 else {"low": -math.inf}
    mean = float(np.mean(list(values.values())))
    return replace(estimate, **ends, value=mean, seeds=values, kind="one-sided")


def combined(view, metric, terms):
    """{seed: sum of sign * value} over the seeds that all terms have, and {sign: seeds that did not train}
    of the terms of which some runs trained and others did not. A seed whose runs are of different builds is
    left out."""
    series = [view(metric, variant) for _, variant in terms]
    builds = [view("build", variant) for _, variant in terms]
    trained = [view("trained", variant) for _, variant in terms]
    values = {}
    for seed in series[0]:
        if not all(seed in one for one in series):
            continue
        if len({build[seed] for build in builds if seed in build}) > 1:
            continue
        with np.errstate(invalid="ignore"):
            values[seed] = float(sum(np.float64(sign) * one[seed]
                                     for (sign, _), one in zip(terms, series)))
    stuck = {}
    for (sign, _), one in zip(terms, trained) if metric in LOSSES else ():
        bad = {seed for seed in values if one.get(seed, 1) != 1}
        if 0 < len(bad) < len(values):
            stuck.setdefault(sign, set()).update(bad)
    return values, stuck


def combination(view, metric, terms):
    values, stuck = combined(view, metric, terms)
    if not values:
        return None
    if not stuck:
        return over_seeds(values)
    if len(stuck) > 1 or not np.isfinite(list(values.values())).all():
        return median_over_seeds(values)
    (sign, bounds), = stuck.items()
    return one_sided(values, bounds, sign)


def unit_of(metric):
    return "nats" if metric in NATS else ""


def joined(variant, more):
    return variant_text(f"{variant} {more}")


# ---- quantities ----------------------------------------------------------------------------------

def value(experiment, metric, variant):
    """The metric, without comparison."""
    return Quantity(f"{metric}({variant_text(variant)})", experiment, ((metric, variant),),
                    lambda view: combination(view, metric, [(1, variant)]), unit_of(metric))


def difference(experiment, metric, a, b, at=""):
    """a - b, paired by seed. at: options that both variants have."""
    a, b = joined(a, at), joined(b, at)
    return Quantity(f"{metric}({a}) - {metric}({b})", experiment, ((metric, a), (metric, b)),
                    lambda view: combination(view, metric, [(1, a), (-1, b)]), unit_of(metric))


def rise(experiment, metric, pair, at, base):
    """The change of a - b between two settings: [a - b](at) - [a - b](base)."""
    a, b = pair
    terms = [(1, joined(a, at)), (-1, joined(b, at)), (-1, joined(a, base)), (1, joined(b, base))]
    return Quantity(f"[{metric}({a}) - {metric}({b})] at {at} - the same at {base}", experiment,
                    tuple((metric, variant) for _, variant in terms),
                    lambda view: combination(view, metric, terms), unit_of(metric))


def log_of(number):
    """The logarithm of a ratio that is not negative: of 0 it is -infinity, so that a gradient that vanished
    counts."""
    return math.log(number) if number > 0 else math.nan if math.isnan(number) else -math.inf


def ratio(experiment, metric, a, b, at=""):
    """a / b, paired by seed, with the geometric mean."""
    a, b = joined(a, at), joined(b, at)

    def compute(view):
        above, below = view(metric, a), view(metric, b)
        logs = {seed: log_of(above[seed] / below[seed]) for seed in above if below.get(seed, 0) > 0}
        return exponential(over_seeds(logs))
    return Quantity(f"{metric}({a}) / {metric}({b})", experiment, ((metric, a), (metric, b)), compute)


def geometric(experiment, metric, variant):
    """The geometric mean of a metric that is one of RATIOS."""
    assert metric in RATIOS, metric

    def compute(view):
        return exponential(over_seeds({seed: log_of(number) for seed, number in view(metric, variant).items()}))
    return Quantity(f"{metric}({variant_text(variant)})", experiment, ((metric, variant),), compute)


def exponential(estimate):
    """e to the power of an estimate of a logarithm."""
    if estimate is None:
        return None
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(number)) for number in
                            (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high, {seed: math.exp(number) for seed, number
                                       in estimate.seeds.items()}, estimate.kind, ratio=True)


def fraction(experiment, metric, variant):
    """The fraction of seeds with the value 1, of a metric that is 0 or 1."""
    def compute(view):
        values = view(metric, variant)
        if not values:
            return None
        mean, low, high, _ = inference.clopper_pearson(sum(v == 1 for v in values.values()),
                                                       len(values))
        return Estimate(mean, low, high, values, kind="fraction")
    return Quantity(f"fraction of {metric}({variant_text(variant)})", experiment, ((metric, variant),),
                    compute)


def slope(experiment, metric, axis, a, b=None):
    """The slope of a - b, or of a alone, over log2 of an option: its name and its values."""
    name, points = axis
    sides = [(sign, variant) for sign, variant in ((1, a), (-1, b)) if variant]
    columns = [[(sign, joined(variant, f"{name}={point}")) for sign, variant in sides]
               for point in points]

    def compute(view):
        rows = [combined(view, metric, terms)[0] for terms in columns]
        seeds = [seed for seed in rows[0] if all(seed in row for row in rows)]
        values = [[row[seed] for row in rows] for seed in seeds]
        if not seeds or not np.isfinite(values).all():
            return None
        return over_seeds(dict(zip(seeds, map(float, inference.slopes(np.log2(points), values)))))
    return Quantity(f"slope of {metric}({a})" + (f" - {metric}({b})" if b else "") +
                    f" over log2 {name}", experiment,
                    tuple((metric, variant) for terms in columns for _, variant in terms), compute,
                    unit_of(metric))


def rate_rows(view, rates, variant):
    """[(rate, {seed: loss})] of the rates that were run; a run that did not train has the loss infinity."""
    rows = []
    for rate in rates:
        name = joined(variant, f"rate={rate:g}")
        good = view("trained", name)
        losses = {seed: loss if good.get(seed, 1) == 1 else math.inf
                  for seed, loss in view("val_loss", name).items()}
        rows += [(rate, losses)] if losses else []
    return rows


def stable_rates(rows):
    """{seed: the largest stable rate} from rate_rows(): from the best rate up to it every run trained and
    lost at most STABLE against the best."""
    found = {}
    for seed in rows[0][1] if rows else ():
        losses = [one.get(seed, math.inf) for _, one in rows]
        at = int(np.argmin(losses))
        best = losses[at]
        while at + 1 < len(rows) and losses[at + 1] <= best + STABLE:
            at += 1
        if math.isfinite(best):
            found[seed] = rows[at][0]
    return found


def largest_rate(experiment, rates, a, b):
    """The largest stable learning rate of a over that of b, among the rates that were run."""
    def compute(view):
        above, below = (stable_rates(rate_rows(view, rates, variant)) for variant in (a, b))
        spacing = math.log(rates[-1] / rates[0]) / (len(rates) - 1)
        return exponential(over_seeds({seed: math.log(above[seed] / below[seed]) for seed in above
                                       if seed in below}, math.sqrt(2) * spacing))
    return Quantity(f"largest stable rate of {a} / that of {b}", experiment,
                    tuple(("val_loss", joined(variant, "rate=0.01")) for variant in (a, b)), compute)


BUDGETS = (0.5, 0.7, 0.9, 1.0)  # of the updates


def reached(losses, goal):
    """The fraction of the updates with which a model reaches a loss: interpolated between runs of BUDGETS, each
    annealed by itself. Infinity if the longest run does not reach it, -infinity if the shortest does."""
    if not losses[-1] <= goal:
        return math.inf
    place = next(place for place, loss in enumerate(losses) if loss <= goal)
    if place == 0:
        return -math.inf
    (low, above), (high, below) = zip(BUDGETS[place - 1:place + 1], losses[place - 1:place + 1])
    return low + (high - low) * ((above - goal) / (above - below) if math.isfinite(above) else 1)


def steps_to(experiment, a, b):
    """The fraction of the updates with which a reaches the final loss of b. Where it is below the first of BUDGETS or
    above the last, only that is known."""
    columns = [joined(a, f"updates={100 * part:.0f}%") for part in BUDGETS]
    goal = joined(b, "updates=100%")

    def compute(view):
        rows, fractions = [view("val_loss", column) for column in columns], {}
        for seed, loss in view("val_loss", goal).items():
            if all(seed in row for row in rows):
                fractions[seed] = reached([row[seed] for row in rows], loss)
        ends = {math.inf: BUDGETS[-1], -math.inf: BUDGETS[0]}
        known = {seed: ends.get(part, part) for seed, part in fractions.items()}
        bounds = {sign: {seed for seed, part in fractions.items() if part == sign * math.inf} for sign in (1, -1)}
        if bounds[1] and bounds[-1]:
            return median_over_seeds(fractions)
        sign = next((sign for sign in bounds if bounds[sign]), 0)
        return one_sided(known, bounds[sign], sign) if sign else over_seeds(known)
    return Quantity(f"fraction of the updates with which {a} reaches the final loss of {b}", experiment,
                    tuple(("val_loss", column) for column in (*columns, goal)), compute)


def correlation(experiment, metrics, variants):
    """Spearman's rank correlation of two metrics over variants, seed by seed."""
    x, y = metrics
    variants = [variant_text(variant) for variant in variants]

    def compute(view):
        columns = [[view(metric, variant) for variant in variants] for metric in metrics]
        seeds = [seed for seed in columns[0][0] if all(seed in one for column in columns
                                                       for one in column)]
        values = {seed: float(stats.spearmanr([one[seed] for one in columns[0]],
                                              [one[seed] for one in columns[1]]).statistic)
                  for seed in seeds}
        estimate = over_seeds(values)
        return estimate and replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))
    return Quantity(f"rank correlation of {x} and {y} over {', '.join(variants)}", experiment,
                    tuple((metric, variant) for metric in metrics for variant in variants), compute)
