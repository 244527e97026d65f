"""scripts/claims/inference.py against tables, brute force and simulation. And how often the report's rules are wrong."""
import itertools
import math
import os

import numpy as np
import pytest

from conftest import check

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

from claims import quantities
from claims.fact_table import Facts
from claims.inference import (CONFIDENCE, MARGIN, POWER, Interval, bootstrap_interval, clopper_pearson,
                              decision, equivalent, half_widths, holm, paired, power_of_difference,
                              power_of_equivalence, seeds_needed, sign_flip_least, sign_flip_p, slopes,
                              t_interval, t_quantile)
from claims.rules import OPEN, above, any_of, below, within
from claims.verdicts import TRUE, Claim, judge_once

RUNS = 2000     # planted differences of each kind
LARGE = 100_000  # simulated differences, where a rate is compared with its expected value
LIMIT = 4       # standard errors of such a rate
random = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def the_same_numbers():
    """In each test, whichever runs before it."""
    random.bit_generator.state = np.random.default_rng(1).bit_generator.state


def expect_rate(count, total, expected, what):
    error = math.sqrt(expected * (1 - expected) / total)
    check(abs(count / total - expected) < LIMIT * error + 1e-12, what, count / total, "not", expected)


def test_intervals():
    tabulated = {1: 63.65674, 2: 9.924843, 3: 5.840909, 4: 4.604095, 10: 3.169273, 30: 2.749996}
    for freedom, quantile in tabulated.items():
        check(abs(t_quantile(freedom) - quantile) < 1e-6 * quantile, "t", freedom, t_quantile(freedom))
    check(abs(t_quantile(7, 0.95) - 2.364624) < 1e-6, "t at 95 %")
    low, high = t_interval([1, 2, 3, 4])[1:3]
    half = 5.840909 * math.sqrt(5 / 3) / 2
    check(abs(low - 2.5 + half) < 1e-5 and abs(high - 2.5 - half) < 1e-5, "interval", low, high)
    one, none = t_interval([3.0]), t_interval([])
    check(one.mean == 3 and math.isnan(one.low) and one.n == 1 and none.n == 0, "few values", one, none)
    seeds, differences = paired({3: 2.0, 1: 1.0, 2: 9.0}, {1: 0.5, 3: 4.0, 7: 0.0})
    check(seeds == [1, 3] and list(differences) == [0.5, -2.0], "pairs", seeds, differences)
    check(np.allclose(slopes([4, 5, 6], [[1, 3, 5], [0, 0, -3]]), [2, -1.5]), "slopes")


def test_proportions():
    def tail(count, n, p):
        """The probability of at least `count` of n."""
        return sum(math.comb(n, k) * p ** k * (1 - p) ** (n - k) for k in range(count, n + 1))

    for n in (1, 5, 8, 20):
        for count in range(n + 1):
            mean, low, high, _ = clopper_pearson(count, n)
            check(mean == count / n, "proportion", count, n)
            check(low == 0 if count == 0 else abs(tail(count, n, low) - 0.005) < 1e-9, "low", count, n)
            check(high == 1 if count == n else abs(tail(count + 1, n, high) - 0.995) < 1e-9, "high", count,
                  n)
    check(clopper_pearson(0, 0)[1:3] == (0, 1), "nothing of nothing")


def test_signs():
    for n in range(1, 11):
        for kind in range(12):
            d = random.normal(0.5, 1, n) if kind % 2 else random.integers(-3, 4, n) / 10
            sums = [abs(np.dot(signs, d)) for signs in itertools.product((1, -1), repeat=n)]
            brute = np.mean(np.array(sums) >= abs(d.sum()) - 1e-9)
            check(abs(sign_flip_p(d) - brute) < 1e-12, "signs", d, sign_flip_p(d), brute)
    check(sign_flip_p([0.1, 0.2, 0.3, 0.1, 0.2]) == sign_flip_least(5) == 0.0625, "five seeds")
    check(sign_flip_p(np.ones(20)) == 2 / 2 ** 20 == sign_flip_least(20), "twenty seeds")
    check(sign_flip_p([0, 0]) == sign_flip_p([]) == 1, "no difference")
    with pytest.raises(ValueError):
        sign_flip_p(np.ones(41))


def test_holm():
    # Four p: 0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 x 1, which may not be below the one before.
    check(np.allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]), "Holm")
    check(np.allclose(holm([0.5, 0.6]), [1, 1]), "Holm above 1")
    adjusted = holm([0.04, math.nan, 0.01])
    check(math.isnan(adjusted[1]) and np.allclose(adjusted[::2], [0.04, 0.02]), "Holm without a test")
    check(len(holm([])) == 0, "Holm of nothing")


def test_bootstrap():
    """Of many normal values it is nearly the normal interval, and it is the same each time."""
    values = random.normal(3, 2, 200)
    found = bootstrap_interval(values)
    half = 2.5758 * values.std() / math.sqrt(200)
    check(abs(found.low - (values.mean() - half)) < 0.1 * half and
          abs(found.high - (values.mean() + half)) < 0.1 * half, "bootstrap", found, half)
    check(found == bootstrap_interval(values), "another bootstrap")


def test_decisions():
    cases = [((-0.01, 0.01), "equal", True), ((-0.019, -0.001), "equal", True),
             ((-0.05, -0.01), "lower", None), ((0.03, 0.05), "higher", False),
             ((-0.05, -0.03), "lower", False), ((-0.01, 0.03), None, None), ((0.0, 0.05), None, None),
             ((-0.02, 0.01), None, None), ((math.nan, math.nan), None, None)]
    for (low, high), word, same in cases:
        interval = Interval((low + high) / 2, low, high, 5)
        check(decision(interval) == word and equivalent(interval) is same, "decision", low, high)


def test_calibration():
    """Planted normal nulls raise at most 1 % false alarms; planted effects at the margin are called equal,
    or of the wrong sign, in at most 1 %."""
    for n in (4, 5, 8, 16):
        wrong = {"null": 0, "margin": 0}
        for run in range(RUNS):
            deviation = (0.008, 0.02)[run % 2]
            noise = random.normal(0, deviation, n)
            wrong["null"] += decision(t_interval(noise)) in ("lower", "higher")
            sign = (-1, 1)[run // 2 % 2]
            right = (None, "higher" if sign > 0 else "lower")
            noise = random.normal(sign * MARGIN, deviation, n)
            wrong["margin"] += decision(t_interval(noise)) not in right
        for kind, count in wrong.items():
            check(count <= (1 - CONFIDENCE) * RUNS, n, "seeds:", count, "wrong decisions of", RUNS, kind)
        noise = random.normal(0, 1, (LARGE, n))
        half = t_quantile(n - 1) * noise.std(1, ddof=1) / math.sqrt(n)
        expect_rate((abs(noise.mean(1)) > half).sum(), LARGE, 1 - CONFIDENCE, f"interval of {n}")
    for n, rare in ((4, 0.5), (5, 0.5), (5, 0.25), (8, 0.25)):  # all values in one of two modes
        noise = (random.random((LARGE, n)) < rare) - rare
        half = t_quantile(n - 1) * noise.std(1, ddof=1) / math.sqrt(n)
        alarms = (abs(noise.mean(1)) > half + 1e-9).sum()
        expect_rate(alarms, LARGE, rare ** n + (1 - rare) ** n, f"two modes, interval of {n}")


def test_power():
    for n, mean, deviation in ((5, 0.05, 0.02), (8, 0.03, 0.008), (8, 0.0, 0.012), (16, 0.01, 0.011)):
        noise = random.normal(mean, deviation, (LARGE, n))
        means = noise.mean(1)
        half = t_quantile(n - 1) * noise.std(1, ddof=1) / math.sqrt(n)
        expect_rate((means > half).sum(), LARGE, power_of_difference(n, mean, deviation), "power")
        expect_rate((abs(means) + half < MARGIN).sum(), LARGE, power_of_equivalence(n, mean, deviation),
                   "power of equivalence")
        check(abs(np.mean(half) / half_widths(n, deviation, CONFIDENCE).mean() - 1) < 0.01, "half width")
        needed = seeds_needed(mean, deviation)
        powers = [max(power_of_difference(count, mean, deviation), power_of_equivalence(count, mean, deviation))
                  for count in (needed - 1, needed) if count > 1]
        check(powers[-1] >= POWER and all(power < POWER for power in powers[:-1]), "seeds", needed, powers)
    check(seeds_needed(0, 0) == 2 and seeds_needed(0.5, 1e-9) == 2, "seeds of a clear decision")
    check(seeds_needed(0.01, 30) is None, "seeds that nobody has")


# ---- the report's rules ----
#
# Facts are planted on the whole way: facts, difference(), judge_once().
# Two variants share what a seed contributes and are equal on average, so whatever is called of their difference is a
# false alarm. Random numbers are fixed.
#
#     normal        Student's t holds what it promises: 1 % of the intervals leave out the truth.
#     modes         A run ends in one of two modes. All n seeds are in the same one with the probability
#                   q^n + (1 - q)^n; then the interval is narrow and leaves out the truth. Nothing in n values could
#                   tell. In all other cases with five seeds the interval contains the truth, so the rate is that one.
#     both modes    Both variants have such runs, as if no norm were to blame.
#     stuck         Both variants have runs that did not train, which the rules treat apart.

NULLS = 2000 if "SWEEP" in os.environ else 500
SEEDS = 5
NOISE, STEP = 0.02, 0.3  # nats: the deviation of a run, and between two modes
DIFFERENCE = quantities.difference("E", "val_loss", "norm=a", "norm=b")


def facts_of(a, b, trained=((), ())):
    """Facts with the losses of two variants by seed, and whether their runs trained."""
    facts = Facts()
    for name, losses, good in zip("ab", (a, b), trained):
        for seed, loss in enumerate(losses, 1):
            facts.add("E", "text", "S", f"norm={name}", seed, "val_loss", loss)
        for seed, one in enumerate(good, 1):
            facts.add("E", "text", "S", f"norm={name}", seed, "trained", float(one))
    return facts


def claim_of(reading):
    return Claim("T", "", "", "open", says=reading)


DIFFERENT = claim_of(any_of(above(DIFFERENCE, 0), below(DIFFERENCE, 0)))
EQUAL = claim_of(within(DIFFERENCE, MARGIN))


def in_modes(rare):
    """Losses of which a fraction is in the upper mode; their mean is 0 whatever the fraction is."""
    return STEP * ((random.random(SEEDS) < rare) - rare) + random.normal(0, NOISE / 10, SEEDS)


def normal():
    return random.normal(0, NOISE, SEEDS)


def null_facts(kind, rare):
    shared = 2 + random.normal(0, 0.05, SEEDS)
    if kind == "normal":
        return facts_of(shared + normal(), shared + normal())
    if kind == "modes":
        return facts_of(shared + in_modes(rare), shared)
    if kind == "both modes":
        return facts_of(shared + in_modes(rare), shared + in_modes(rare))
    trained = random.random((2, SEEDS)) >= rare
    losses = [np.where(good, shared + normal(), 3.3 + normal() / 10) for good in trained]
    return facts_of(*losses, trained)


def rate(kind, rare=0.0, count=NULLS):
    """The fraction of planted nulls that are called different."""
    return sum(judge_once(DIFFERENT, null_facts(kind, rare))[0] == TRUE for _ in range(count)) / count


def rate_at_margin():
    """The fraction of planted effects of exactly the margin that are called equal, or different from it."""
    shared, found = 2.0, 0
    for _ in range(NULLS):
        facts = facts_of(shared + MARGIN + normal() / 4, shared + normal() / 4)
        found += EQUAL.says.judge(facts)[0] != OPEN
    return found / NULLS


def error(expected, count):
    """The standard deviation of a measured fraction."""
    return math.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize("kind, rare, expected", [
    ("normal", 0, 0.01), ("modes", 0.5, 2 * 0.5 ** SEEDS), ("modes", 0.1, 0.9 ** SEEDS + 0.1 ** SEEDS)])
def test_alarms_are_as_frequent_as_expected(kind, rare, expected):
    assert abs(rate(kind, rare) - expected) <= 4 * error(expected, NULLS)


def test_effects_at_the_margin():
    assert abs(rate_at_margin() - 0.01) <= 4 * error(0.01, NULLS)


@pytest.mark.parametrize("kind, count", [("both modes", NULLS), ("stuck", 2 * NULLS)])
def test_alarms_are_rarer_than_1_percent(kind, count):
    assert rate(kind, 0.1, count) <= 0.01 + 4 * error(0.01, count)
