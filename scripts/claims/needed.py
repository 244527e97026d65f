"""Estimates how many seeds would probably decide an open reading, for planning.

The estimate assumes that the measured values are the true ones. It is the smallest number, or the smallest of COUNTS,
with which the interval excludes the threshold with probability POWER, or None if that cannot be estimated. Means use
Student's t interval. Fractions use Clopper and Pearson's, and so do medians, by the fraction of values on their side of
the threshold. Half a value is added on either side, so that a few equal values make nothing certain.
"""
import math

from scipy import stats

from study import statistics as inference

COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 256, 512, 1024)


def of_leaf(form, low, high, estimate):
    """For a reading of this form with these bounds."""
    if form not in ("above", "below", "within"):
        return None
    if estimate.kind == "fraction":
        successes = sum(number == 1 for number in estimate.seeds.values())
        return of_fraction(successes, estimate.n, high if form == "below" else low)
    if estimate.kind == "median" and form != "within":
        m = low if form == "above" else high
        return of_fraction(sum(number > m for number in estimate.seeds.values()), estimate.n, 0.5)
    far = estimate.value > (low if form == "above" else high)  # where an end of the interval is infinite
    if estimate.kind == "one-sided" and (form == "within" or far != math.isinf(estimate.high)):
        return None
    known = estimate.kind in ("mean", "one-sided") and estimate.deviation > 0
    return of_mean(form, low, high, estimate) if known else None


def of_mean(form, low, high, estimate):
    scale = math.log if estimate.ratio else float
    values = [scale(number) for number in estimate.seeds.values()]
    mean, deviation = sum(values) / len(values), inference.deviation(values)
    if form == "within" and low < mean < high:
        return least(lambda n: inference.power_of_equivalence(n, mean, deviation, scale(high)))
    threshold = {"above": low, "below": high, "within": math.copysign(high, mean)}[form]
    return inference.seeds_needed(mean - scale(threshold), deviation, 0)


def of_fraction(count, n, threshold):
    """Of `count` of n: until the fraction's interval is above the threshold, or below it."""
    rate = (count + 0.5) / (n + 1)

    def power(more):
        intervals = [inference.clopper_pearson(k, more) for k in range(more + 1)]
        decided = [k for k, one in enumerate(intervals)
                   if (one.low > threshold if rate > threshold else one.high < threshold)]
        return stats.binom.pmf(decided, more, rate).sum()
    return least(power)


def least(power):
    return next((n for n in COUNTS if power(n) >= inference.POWER), None)
