"""Means over seeds with their uncertainty.

Runs of one seed share weights and batches. So a number is computed for each seed, and the mean has Student's t interval over
the seeds, at 99 %. Ratios have the geometric mean.

A mean over only the runs that trained would be biased. So runs that did not train count, unless no run of any variant trained:
then nothing is estimated.
- If some runs of a variant are stuck at a finite loss, they are worse than the others by an unknown amount. One end of
  the interval is Student's over the other runs, and the other end is infinite.
- If a run diverged, its loss is infinite. Then, and if both sides of a difference have stuck runs, the estimate is the
  median with its interval by order statistics. Below 8 seeds that interval is the whole line.
"""
from dataclasses import dataclass, replace
import math

import numpy as np
from scipy import stats

from study import statistics as inference
from evidence.facts import NO_SEED


@dataclass(frozen=True)
class Estimate:
    """A value with its 99 % interval. seeds: {seed: value}. ratio: whether the mean is geometric."""
    value: float
    low: float
    high: float
    seeds: dict
    kind: str = "mean"
    ratio: bool = False

    @property
    def n(self):
        return len(self.seeds)

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


def over_seeds(values, grid=0.0):
    """The mean with Student's t interval; None without values. One seed decides nothing, except for a fact that no seed
    enters. Values that are read on a grid get the variance of its rounding, grid^2 / 12, in addition: seeds with equal
    values do not make it certain."""
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
    """The median and its interval: the k-th lowest and highest value, k as large as 99 % allow. A NaN (infinity less
    infinity) could be anything, so it counts as lowest below and as highest above."""
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


def one_sided(values, bounds, sign):
    """The interval's end that remains if the values of some seeds (bounds) are lower bounds (sign 1) or upper ones (-1).
    Where they are the minority it is the end of the others: the bounds are beyond these, and far values would widen the
    interval, although they speak for the same side."""
    others = {seed: value for seed, value in values.items() if seed not in bounds}
    estimate = over_seeds(others if len(others) > len(bounds) else values)
    ends = {"high": math.inf} if sign > 0 else {"low": -math.inf}
    mean = float(np.mean(list(values.values())))
    return replace(estimate, **ends, value=mean, seeds=values, kind="one-sided")


def geometric(values, grid=0.0):
    """over_seeds() of the logarithms, back on the numbers' scale. The logarithm of 0, or of less, is -infinity, so that a
    gradient that vanished counts."""
    with np.errstate(divide="ignore", over="ignore"):
        estimate = over_seeds({seed: float(np.log(max(value, 0.0))) for seed, value in values.items()}, grid)
        if estimate is None:
            return None
        value, low, high = (float(np.exp(number)) for number in (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high, {seed: math.exp(number) for seed, number in estimate.seeds.items()}, estimate.kind, ratio=True)
