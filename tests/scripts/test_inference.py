"""scripts/study/statistics.py against tables, brute force and simulation. And how often the report's rules are wrong."""
import math
import os

import numpy as np
import pytest

from conftest import needs

needs("scipy", "jinja2", "tomllib", "statsmodels")

from scipy import stats

from evidence import rules
from evidence.facts import Facts
from evidence.quantities import loss
from study.statistics import (MARGIN, POWER, Interval, clopper_pearson, contrast, decision, equivalent, holm, paired, pooled,
                              power_of_decision, predicted, seeds_needed, slopes, t_interval, t_quantile,
                              t_test_p)
from evidence.rules import OPEN, any_of
from claims.verdicts import TRUE, Claim, judge_once

SIMULATED = 100_000  # differences, where a power is compared with its expected value
LIMIT = 4            # standard errors of a simulated rate
random = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def the_same_numbers():
    """In each test, whichever runs before it."""
    random.bit_generator.state = np.random.default_rng(1).bit_generator.state


def is_rate(measured, expected, total):
    return abs(measured - expected) < LIMIT * math.sqrt(expected * (1 - expected) / total) + 1e-12


def test_intervals_are_students():
    for freedom, quantile in {1: 63.65674, 2: 9.924843, 3: 5.840909, 4: 4.604095, 10: 3.169273, 30: 2.749996}.items():
        assert t_quantile(freedom) == pytest.approx(quantile)
    assert t_quantile(7, 0.95) == pytest.approx(2.364624)
    half = 5.840909 * math.sqrt(5 / 3) / 2
    assert t_interval([1, 2, 3, 4]) == pytest.approx((2.5, 2.5 - half, 2.5 + half, 4))
    one, none = t_interval([3.0]), t_interval([])
    assert one.mean == 3 and math.isnan(one.low) and one.n == 1 and none.n == 0
    seeds, differences = paired({3: 2.0, 1: 1.0, 2: 9.0}, {1: 0.5, 3: 4.0, 7: 0.0})
    assert seeds == [1, 3] and list(differences) == [0.5, -2.0]
    assert np.allclose(slopes([4, 5, 6], [[1, 3, 5], [0, 0, -3]]), [2, -1.5])


def test_intervals_of_proportions_are_exact():
    """statsmodels has them; in closed form, none and all of n."""
    for n in 1, 5, 20:
        assert clopper_pearson(0, n) == pytest.approx((0, 0, 1 - 0.005 ** (1 / n), n))
        assert clopper_pearson(n, n) == pytest.approx((1, 0.005 ** (1 / n), 1, n))
    assert clopper_pearson(2, 5)[0] == 0.4 and clopper_pearson(0, 0)[1:3] == (0, 1)


def test_p_and_the_interval_agree():
    for n in (2, 5, 8):
        d = random.normal(1, 1, n)
        shifted = d - t_interval(d).low  # whose interval begins at 0
        assert t_test_p(shifted) == pytest.approx(0.01)
    assert t_test_p(np.ones(3)) == 0 and t_test_p(np.zeros(3)) == 1


@pytest.mark.parametrize("p, adjusted", [
    ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # x 3, x 1 but not below the one before, x 2, x 4
    ([0.5, 0.6], [1, 1]), ([0.04, math.nan, 0.01], [0.04, math.nan, 0.02]), ([], [])])
def test_holm(p, adjusted):
    assert np.allclose(holm(p), adjusted, equal_nan=True)


@pytest.mark.parametrize("low, high, word, same", [
    (-0.01, 0.01, "equal", True), (-0.019, -0.001, "equal", True), (-0.05, -0.01, "lower", None),
    (0.03, 0.05, "higher", False), (-0.05, -0.03, "lower", False), (-0.01, 0.03, None, None), (0.0, 0.05, None, None),
    (-0.02, 0.01, None, None), (math.nan, math.nan, None, None)])
def test_decisions(low, high, word, same):
    interval = Interval((low + high) / 2, low, high, 5)
    assert decision(interval) == word and equivalent(interval) is same


@pytest.mark.parametrize("n, mean, deviation", [(5, 0.05, 0.02), (8, 0.03, 0.008), (8, 0.0, 0.012), (16, 0.01, 0.011),
                                                (12, 0.0097, 0.01)])  # often both: not 0, and equivalent
def test_power_is_that_of_simulated_differences(n, mean, deviation):
    noise = random.normal(mean, deviation, (SIMULATED, n))
    means, half = noise.mean(1), t_quantile(n - 1) * noise.std(1, ddof=1) / math.sqrt(n)
    decided = (means > half) | (abs(means) + half < MARGIN)
    assert is_rate(decided.mean(), power_of_decision(n, mean, deviation), SIMULATED)
    needed = seeds_needed(mean, deviation)
    powers = [power_of_decision(count, mean, deviation) for count in (needed - 1, needed) if count > 1]
    assert powers[-1] >= POWER and all(power < POWER for power in powers[:-1])


def test_seeds_of_clear_and_hopeless_decisions():
    assert seeds_needed(0, 0) == seeds_needed(0.5, 1e-9) == 2 and seeds_needed(0.01, 30) is None


# ---- the report's rules ----
#
# Two variants share what a seed contributes and are equal on average, so whatever is called of their difference is a
# false alarm. Random numbers are fixed.
#
#     normal        Student's t holds what it promises: 1 % of the intervals leave out the truth.
#     modes         A run ends in one of two modes. All n seeds are in the same one with the probability
#                   q^n + (1 - q)^n; then the interval is narrow and leaves out the truth. Nothing in n values could
#                   tell. In all other cases with five seeds the interval contains the truth, so the rate is that one.
#     stuck         Both variants have runs that did not train, which the rules treat apart.

NULLS = 2000 if "SWEEP" in os.environ else 500
SEEDS = 5
NOISE, STEP = 0.02, 0.3  # nats: the deviation of a run, and between two modes
DIFFERENCE = loss("E", norm="a") - loss("E", norm="b")
DIFFERENT = Claim("T", "", "", "open", says=any_of(DIFFERENCE > 0, DIFFERENCE < 0))


def facts_of(a, b, trained=((), ())):
    """Facts with the losses of two variants by seed, and whether their runs trained."""
    facts = Facts()
    for name, losses, good in zip("ab", (a, b), trained):
        for metric, values in ("val_loss", losses), ("trained", good):
            for seed, number in enumerate(values, 1):
                facts.add("E", "text", "S", f"norm={name}", seed, metric, float(number))
    return facts


def noise(deviation=NOISE):
    return random.normal(0, deviation, SEEDS)


def null_facts(kind):
    shared = 2 + noise(0.05)
    if kind == "normal":
        return facts_of(shared + noise(), shared + noise())
    if kind == "modes":
        return facts_of(shared + STEP * ((random.random(SEEDS) < 0.5) - 0.5) + noise(NOISE / 10), shared)
    trained = random.random((2, SEEDS)) >= 0.1
    return facts_of(*(np.where(good, shared + noise(), 3.3 + noise(NOISE / 10)) for good in trained), trained)


@pytest.mark.sampled
@pytest.mark.parametrize("kind, expected", [("normal", 0.01), ("modes", 2 * 0.5 ** SEEDS)])
def test_alarms_are_as_frequent_as_expected(kind, expected):
    alarms = [judge_once(DIFFERENT, null_facts(kind)).word == TRUE for _ in range(NULLS)]
    assert is_rate(np.mean(alarms), expected, NULLS)


@pytest.mark.sampled
def test_stuck_runs_raise_fewer_alarms_than_1_percent():
    alarms = [judge_once(DIFFERENT, null_facts("stuck")).word == TRUE for _ in range(2 * NULLS)]
    assert np.mean(alarms) < 0.01 or is_rate(np.mean(alarms), 0.01, 2 * NULLS)


@pytest.mark.sampled
def test_an_effect_at_the_margin_is_decided_in_1_percent():
    cells = (facts_of(2 + MARGIN + noise(NOISE / 4), 2 + noise(NOISE / 4)) for _ in range(NULLS))
    decided = [rules.judge(abs(DIFFERENCE) < MARGIN, facts).value != OPEN for facts in cells]
    assert is_rate(np.mean(decided), 0.01, NULLS)


def test_the_prediction_interval_spreads_as_the_cells_do():
    """Cells that differ far more than their errors: tau^2 is their variance, and the mean has a third of it."""
    mean, low, high, count = predicted([-1, 0, 1], [1e-6] * 3)
    assert (mean, count) == (pytest.approx(0, abs=1e-9), 3)
    assert high == pytest.approx(t_quantile(1) * math.sqrt(1 + 1 / 3), rel=1e-6) and low == pytest.approx(-high)
    assert predicted([0] * 4, [0.1] * 4).high == pytest.approx(t_quantile(2) * 0.05)


def test_pooled_intervals():
    means, quantile = (0.0, 1.0, 2.0), t_quantile(2)
    mean = pooled(means, (0.3, 0.3, 0.3))  # true values differ: Student's t of the means
    assert mean.mean == pytest.approx(1) and mean.high - 1 == pytest.approx(quantile / math.sqrt(3))
    mean = pooled((0.1, 0.1, 0.1), (0.3, 0.3, 0.3))  # they do not: no narrower than the errors make it
    assert mean.high - 0.1 == pytest.approx(quantile * 0.3 / math.sqrt(3))
    weights = np.array([1, 4, 4]) / 0.04  # known by hand: Q = 6.22 of 2 degrees of freedom
    q = (weights * (np.array([0, 0.1, 0.3]) - 0.4 / 2.25) ** 2).sum()
    tau2 = (q - 2) / (weights.sum() - (weights ** 2).sum() / weights.sum())
    weights = 1 / (1 / weights + tau2)
    assert pooled((0, 0.1, 0.3), (0.2, 0.1, 0.1)).mean == pytest.approx((weights * (0, 0.1, 0.3)).sum() / weights.sum())


def test_contrast_is_welchs():
    """An interval with the confidence 1 - p of scipy's Welch test has an end at 0."""
    a, b = np.array([1.0, 1.2, 0.7, 1.1]), np.array([0.2, 0.9, 0.4, -0.5, 0.3, 0.1])
    errors = [x.std(ddof=1) / math.sqrt(len(x)) for x in (a, b)]
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    found = contrast((1, -1), (a.mean(), b.mean()), errors, (len(a), len(b)), 1 - p)
    assert found.low == pytest.approx(0) and found.mean == pytest.approx(a.mean() - b.mean())
