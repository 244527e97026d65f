"""Statistics of paired comparisons: intervals, tests and numbers of seeds, as functions on numpy arrays.

Runs of one seed start from the same weights and see the same batches. So variants are compared by their
paired differences d_s = loss(a, s) - loss(b, s) over the common seeds s. Their mean has Student's t
interval, and p is that of the paired t test, which is below 0.01 just where the 99 % interval excludes 0.
Quantiles and the test come from scipy.stats; proportions, random effects and Holm's method from statsmodels.

Student's interval assumes normal differences. If runs end in one of two modes, with probabilities q and 1 - q,
then n seeds all end in the same mode with probability q^n + (1 - q)^n, and the interval misses the other
mode. For five seeds that is 6 % if the modes are equally probable, and 24 % if q is 1/4.

Sources: Lakens 2017 (equivalence by two one-sided tests), Clopper and Pearson 1934, Holm 1979, Welch 1947
(contrasts), DerSimonian and Laird 1986 and Hartung and Knapp 2001 (means over cells).
A 99 % interval inside the margins is the pair of one-sided tests at 0.5 % each.
"""
from collections import namedtuple
import functools
import math
import warnings

import numpy as np
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

CONFIDENCE = 0.99
MARGIN = 0.02        # nats per character: 2 % of perplexity
POWER = 0.9          # of the decision that seeds_needed() plans
SEEDS_MAX = 200      # seeds_needed() looks no further: that many more decide nothing that matters
QUANTILES = 2000     # of the measured deviation, over which a power is averaged

# The mean of n values and the ends of its interval; the ends are NaN if n < 2.
Interval = namedtuple("Interval", "mean low high n")


# ---- intervals -----------------------------------------------------------------------------------

def paired(a, b):
    """The common seeds of two dictionaries {seed: value}, sorted, and the differences a - b."""
    seeds = sorted(a.keys() & b.keys())
    return seeds, np.array([a[seed] - b[seed] for seed in seeds], float)


@functools.lru_cache(maxsize=None)
def t_quantile(freedom, confidence=CONFIDENCE):
    """The t such that Student's t lies between -t and t with this probability."""
    return float(stats.t.ppf((1 + confidence) / 2, freedom))


def t_interval(values, confidence=CONFIDENCE):
    """Student's t interval of the mean."""
    values = np.asarray(values, float)
    n = len(values)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean = float(values.mean())
    if n == 1:
        return Interval(mean, math.nan, math.nan, 1)
    half = t_quantile(n - 1, confidence) * float(values.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def clopper_pearson(count, n, confidence=CONFIDENCE):
    """The exact interval of a proportion of which `count` of `n` were seen; the mean is count / n."""
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0)
    low, high = proportion_confint(count, n, 1 - confidence, "beta")
    return Interval(count / n, float(low), float(high), n)


def slopes(x, y):
    """The least-squares slope over x of each row of y, (seeds, points): a value for each seed."""
    x = np.asarray(x, float) - np.mean(x)
    return np.asarray(y, float) @ x / (x @ x)


def deviation(values):
    """The standard deviation of a sample."""
    return float(np.std(np.asarray(values, float), ddof=1))


def pooled(means, errors, confidence=CONFIDENCE):
    """Random effects: the interval of the mean over k cells, whose true values differ by an unknown variance tau^2.

    means, errors: of each cell, with the standard error of its mean. tau^2 is DerSimonian and Laird's (1986); the interval
    is Hartung and Knapp's (2001), Student's t of k - 1 degrees of freedom, never narrower than the errors alone make it."""
    mean, error, _ = random_effects(means, errors)
    half = t_quantile(len(means) - 1, confidence) * error
    return Interval(mean, mean - half, mean + half, len(means))


def predicted(means, errors, confidence=CONFIDENCE):
    """The interval in which the true value of one more cell probably lies, as Higgins, Thompson and Spiegelhalter (2009)
    have it: Student's t of k - 2 degrees of freedom, so at least three cells. Arguments as for pooled()."""
    mean, error, variance = random_effects(means, errors)
    half = t_quantile(len(means) - 2, confidence) * math.sqrt(variance + error ** 2)
    return Interval(mean, mean - half, mean + half, len(means))


def random_effects(means, errors):
    """(mean, its standard error, tau^2), see pooled()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a tau^2 below 0, which counts as 0
        found = combine_effects(np.asarray(means, float), np.asarray(errors, float) ** 2, "dl", True)
    mean, error, scattered = (found.mean_effect_re, found.sd_eff_w_re, found.sd_eff_w_re_hksj) if found.tau2 > 0 else \
        (found.mean_effect_fe, found.sd_eff_w_fe, found.sd_eff_w_fe_hksj)
    return float(mean), float(max(error, scattered)), max(0.0, float(found.tau2))


def contrast(weights, means, errors, counts, confidence=CONFIDENCE):
    """The interval of a weighted sum of independent means; counts: the number of values of each. Welch and Satterthwaite."""
    variances = (np.asarray(weights, float) * errors) ** 2
    freedom = variances.sum() ** 2 / (variances ** 2 / (np.asarray(counts) - 1)).sum()
    mean, half = float(np.dot(weights, means)), t_quantile(float(freedom), confidence) * math.sqrt(variances.sum())
    return Interval(mean, mean - half, mean + half, len(means))


# ---- tests ---------------------------------------------------------------------------------------

def t_test_p(values):
    """The two-sided p of the paired t test: below 1 - CONFIDENCE where the interval excludes 0."""
    return float(stats.ttest_1samp(values, 0).pvalue) if np.ptp(values) else float(np.mean(values) == 0)


def holm(p):
    """Holm's adjusted p of a family: p <= alpha there keeps the chance of any false alarm in the family
    at alpha. A NaN is a comparison without a test; it stays NaN and does not count."""
    adjusted = np.array(p, float)
    tested = np.isfinite(adjusted)
    if tested.any():
        adjusted[tested] = multipletests(adjusted[tested], method="holm")[1]
    return adjusted


# ---- decisions -----------------------------------------------------------------------------------

def equivalent(interval, margin=MARGIN):
    """Whether the value is within the margin of 0: True if the whole interval is, False if the whole
    interval is beyond one of the margins, else None (undecided)."""
    if -margin < interval.low and interval.high < margin:
        return True
    if interval.low > margin or interval.high < -margin:
        return False
    return None


def decision(interval, margin=MARGIN):
    """"equal" if the interval is within the margin, else "lower" or "higher" if it excludes 0, else
    None."""
    if equivalent(interval, margin):
        return "equal"
    if interval.high < 0:
        return "lower"
    return "higher" if interval.low > 0 else None


def half_widths(n, deviation, confidence):
    """The half width of the interval of n normal differences at evenly spaced quantiles of its
    distribution: a mean over them is an expected value."""
    variances = stats.chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, n - 1) / (n - 1)
    return t_quantile(n - 1, confidence) * deviation * np.sqrt(variances / n)


def power_of_decision(n, mean, deviation, margin=MARGIN, confidence=CONFIDENCE):
    """The probability that the interval of n differences with this true mean and deviation (not 0) excludes 0 on the mean's
    side, or lies within the margin."""
    half, error = half_widths(n, deviation, confidence), deviation / math.sqrt(n)

    def below(limit):  # the probability that the measured mean is
        return stats.norm.cdf((limit - abs(mean)) / error)
    within = below(np.minimum(margin - half, half)) - below(half - margin)  # and includes 0
    return float((1 - below(half) + np.maximum(0, within)).mean())


def seeds_needed(mean, deviation, margin=MARGIN, confidence=CONFIDENCE, power=POWER):
    """The least number of seeds with which a true difference of this mean and deviation is decided, as
    one that is not 0 or as equivalent, with this probability; None if that takes more than SEEDS_MAX.
    An estimate: it takes the measured mean and deviation for the true ones."""
    def enough(n):
        return power_of_decision(n, mean, deviation, margin, confidence) >= power

    if deviation == 0:
        return 2
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if low > SEEDS_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= SEEDS_MAX else None
