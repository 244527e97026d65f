"""How often the report's rules are wrong, by planted facts on the whole way: facts, difference(), judge_once().

Two variants share what a seed contributes and are equal on average, so whatever is called of their difference is a
false alarm. Random numbers are fixed.

    normal        Student's t holds what it promises: 1 % of the intervals leave out the truth.
    modes         A run ends in one of two modes. All n seeds are in the same one with the probability
                  q^n + (1 - q)^n; then the interval is narrow and leaves out the truth. Nothing in n values could
                  tell. In all other cases with five seeds the interval contains the truth, so the rate is that one.
    both modes    Both variants have such runs, as if no norm were to blame.
    stuck         Both variants have runs that did not train, which the rules treat apart.
"""
import math
import os

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

from claims import quantities
from claims.fact_table import Facts
from claims.rules import OPEN, above, any_of, below, within
from claims.verdicts import TRUE, Claim, judge_once

NULLS = 2000 if "SWEEP" in os.environ else 500
SEEDS = 5
NOISE, STEP = 0.02, 0.3  # nats: the deviation of a run, and between two modes
MARGIN = 0.02
DIFFERENCE = quantities.difference("E", "val_loss", "norm=a", "norm=b")
random = np.random.default_rng(20)


@pytest.fixture(autouse=True)
def the_same_numbers():
    """In each test, whichever runs before it."""
    random.bit_generator.state = np.random.default_rng(20).bit_generator.state


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
