"""Quantities, rules and verdicts of scripts/claims/ on planted facts, without a run."""
import itertools
import math
import re

import pytest

from conftest import needs

needs("scipy", "statsmodels", "jinja2", "tomllib")

from claims.forms import fraction_of_updates, largest_stable_rate, minus_next_seed, rank_correlation
from claims.page import first_rules
from evidence import rules
from evidence.facts import NO_SEED, FactError, Facts
from evidence.quantities import CONTRADICTED, change, every, loss, measured, slope
from evidence.rules import FAILS, HOLDS, OPEN, Judged, all_of, any_of, in_some_cell, no
from claims.verdicts import (FALSE, RECIPE, SIZE, TRUE, UNDECIDED, UNMEASURED, UNTESTED, WEAKER, Claim, articles, claims, find, judge,
                             over_cells, over_recipes, table, telling, word_of)

CELLS = (("t", "S"), ("u", "S"), ("t", "M"))
NOISE = (-0.8, 1.3, -0.5, -1.0, 0.9, 0.1, -0.6, 0.6)
A, B = (loss("E20", norm=norm, recipe="best") for norm in "ab")
GAP = A - B


def planted(means, deviation=0.004, recipe="recipe=best", facts=None, seeds=8):
    """E20's facts in which norm a minus norm b has these means: {cell: mean}."""
    facts = facts or Facts()
    for cell, mean in means.items():
        for seed in range(1, seeds + 1):
            base = 2 + 0.1 * seed
            for norm, ended in ("a", base + mean + deviation * NOISE[seed - 1]), ("b", base):
                facts.add("E20", *cell, f"norm={norm} {recipe}", seed, "val_loss", ended)
    return facts


def claim(says, meant=None):
    return Claim("T", "", "", "open", says=says, meant=meant)


def value(rule, facts):
    return rules.judge(rule, facts).value


# ---- rules -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("rule, mean, wanted", [
    (GAP > 0.01, 0.05, HOLDS), (GAP > 0.01, 0.0, FAILS), (GAP > 0.01, 0.012, OPEN), (GAP < 0.01, 0.0, HOLDS),
    (GAP < 0.01, 0.05, FAILS), (abs(GAP) < 0.02, 0.0, HOLDS), (abs(GAP) < 0.02, 0.05, FAILS), (abs(GAP) < 0.02, -0.05, FAILS),
    (abs(GAP) < 0.02, 0.02, OPEN), (every(GAP, 0, 0), 0.0, FAILS), (every(GAP, low=-1), 0.0, HOLDS),
    (every(GAP, -1e-5, 1e-5), 0.0, FAILS), (every(GAP, -1, 1), 0.0, HOLDS)])
def test_atoms(rule, mean, wanted):
    assert value(rule, planted({CELLS[0]: mean})) == wanted


def test_an_atom_is_no_truth_value():
    """A chained comparison would drop its first half."""
    with pytest.raises(TypeError):
        -1 < GAP < 1  # pylint: disable=pointless-statement


@pytest.mark.parametrize("combine", [lambda: A / B - A, lambda: (A - B) / A, lambda: 2 * (A / B), lambda: slope(A / B, "width", 1, 2),
                                     lambda: A - loss("E1", norm="b", recipe="best"), lambda: A - abs(B), lambda: A.at("S") - B,
                                     lambda: abs(A) > 1])
def test_what_would_mean_something_else_is_refused(combine):
    with pytest.raises(TypeError):
        combine()


def test_a_rule_reads_as_text():
    assert rules.text_of(any_of(abs(2 * A - GAP) < 0.5, no(every(A / B, 0, 1e-5)))) == (
        "(|2 [val_loss(norm=a recipe=best)] - [val_loss(norm=a recipe=best) - val_loss(norm=b recipe=best)]| < 0.5) or "
        "(not (0 <= val_loss(norm=a recipe=best) / val_loss(norm=b recipe=best) <= 1e-05, every value))")


def test_few_and_equal_facts():
    zero = planted({CELLS[0]: 0.0}, 0)
    assert value(GAP > 0, zero) == FAILS and value(every(GAP, 0, 0), zero) == HOLDS
    assert value(GAP > 0, planted({CELLS[0]: 1.0}, seeds=1)) == OPEN
    assert value(GAP > 0, Facts()) is None and judge(claim(GAP > 0), Facts()).word == UNMEASURED
    with pytest.raises(FactError):
        zero.add("E20", *CELLS[0], "norm=a recipe=best", 1, "val_loss", 7.0)


def test_and_or_and_not_are_minimum_maximum_and_complement():
    facts, missing = planted({CELLS[0]: 0.0}), measured("E1", "x", norm="a") > 0
    atoms = {HOLDS: GAP > -1, OPEN: GAP > 0, FAILS: GAP > 1}
    for a, b in itertools.product(atoms, repeat=2):
        assert value(all_of(atoms[a], atoms[b]), facts) == min(a, b)
        assert value(any_of(atoms[a], no(atoms[b])), facts) == max(a, 1 - b)
    assert value(all_of(atoms[HOLDS], missing), facts) is None
    assert value(all_of(atoms[FAILS], missing), facts) == FAILS and value(any_of(atoms[HOLDS], missing), facts) == HOLDS
    two = planted({CELLS[0]: 0.1, CELLS[1]: -0.1})
    assert value(GAP > 0, two) == FAILS and value(in_some_cell(GAP > 0), two) == HOLDS
    assert value(CONTRADICTED, two) == FAILS


def with_untrained(count, ended, mean=0.5, seeds=8, norms="b"):
    """planted() with `count` runs of these norms that did not train."""
    facts = Facts()
    for experiment, text, size, variant, seed, metric, number in planted({CELLS[0]: mean}, seeds=seeds).rows():
        bad = variant[5] in norms and int(seed) <= count
        facts.add(experiment, text, size, variant, seed, metric, ended if bad else number)
        facts.add(experiment, text, size, variant, seed, "trained", float(not bad))
    return facts


def test_runs_that_did_not_train_count_as_worse():
    for ended in (math.inf, math.nan):
        assert value(GAP > 0.01, with_untrained(1, ended)) != HOLDS
    assert value(GAP > 0.01, with_untrained(8, math.inf)) == FAILS
    one = GAP.estimates(with_untrained(1, 9.0))[CELLS[0]]
    assert one.kind == "one-sided" and one.low == -math.inf and math.isfinite(one.high)
    for count, mean, wanted in ((1, -0.5, HOLDS), (1, 0.5, OPEN), (4, 0.5, OPEN), (5, -0.5, HOLDS)):
        assert value(B - A > 0.01, with_untrained(count, 3.5, mean, 5)) == wanted
    assert GAP.estimates(with_untrained(8, 9.0))[CELLS[0]].kind == "mean"


def test_two_variants_that_both_learned_nothing_are_not_equal():
    assert value(every(GAP, -1, 1), with_untrained(8, 3.5, norms="ab")) is None
    assert value(every(GAP, -1, 1), with_untrained(7, 3.5, norms="ab")) is not None


def test_runs_of_different_builds_are_no_pairs():
    facts = planted({CELLS[0]: 0.5})
    for seed, (norm, build) in itertools.product(range(1, 9), (("a", 1), ("b", 2))):
        facts.add("E20", *CELLS[0], f"norm={norm} recipe=best", seed, "build", build)
    assert value(GAP > 0, facts) is None


# ---- quantities ------------------------------------------------------------------------------------

def test_a_value_without_a_seed_is_that_of_every_seed():
    facts = planted({CELLS[0]: 0.05})
    facts.add("E20", *CELLS[0], "norm=c", NO_SEED, "val_loss", 1.5)
    exact = loss("E20", norm="c")
    for apart in exact - A, A - exact:
        assert rules.judge(abs(apart) < 0.2, facts).value == FAILS
        assert rules.judge(abs(apart) < 2, facts).value == HOLDS


def test_formulas():
    facts, cell = Facts(), ("t", "S")
    for seed in (1, 2, 3):
        for width in (16, 32, 64):
            facts.add("E", *cell, f"norm=a width={width}", seed, "y", 3 * math.log2(width) + seed)
            facts.add("E", *cell, f"norm=b width={width}", seed, "y", math.log2(width))
        for rate, ended in ((1e-3, 2.5), (1e-2, 2.0), (1e-1, 2.05)):
            facts.add("E", *cell, f"norm=a rate={rate:g}", seed, "val_loss", ended)
            facts.add("E", *cell, f"norm=b rate={rate:g}", seed, "val_loss", ended + (rate > 0.05))
        for part, ended in ((50, 2.6), (70, 2.52), (90, 2.42), (100, 2.0)):
            for norm, more in ("a", 0), ("early", -0.2), ("diverged", math.inf):
                facts.add("E", *cell, f"norm={norm} updates={part}%", seed, "val_loss", ended + more)
        for metric, number in (("range_growth", 0.5), ("jacobian_ratio", 0.5 * (seed < 3))):
            facts.add("E", *cell, "norm=a", seed, metric, number)
        facts.add("E", *cell, "norm=b updates=100%", seed, "val_loss", 2.5)

    def interval(quantity):
        found = quantity.estimates(facts)[cell]
        return found.value, found.low, found.high

    def mean(quantity):
        return pytest.approx(interval(quantity)[0])

    def y(norm, **options):
        return measured("E", "y", norm=norm, **options)

    def steps(norm):
        return fraction_of_updates("E", {"norm": norm}, {"norm": "b"})

    assert mean(slope(y("a") - y("b"), "width", 16, 32, 64)) == 2
    assert mean(change(y("a") - y("b"), {"width": 16}, {"width": 64})) == 4
    assert mean(y("a", width=16) - y("b", width=16) - 2 * (y("b", width=32) - y("b", width=16))) == 8
    assert mean(y("a", width=16) / y("b", width=16)) == (13 * 14 * 15) ** (1 / 3) / 4
    assert mean(minus_next_seed(y("a", width=16))) == -1
    assert mean(steps("a")) == 0.74  # a fifth of the way from 0.7 to 0.9
    assert interval(steps("diverged")) == (1, 1, math.inf) and interval(steps("early")) == (0.5, -math.inf, 0.5)
    rate, _, high = interval(largest_stable_rate("E", {"norm": "a"}, {"norm": "b"}))
    half = 9.9248432 * math.sqrt(2 * math.log(10) ** 2 / 12 / 3)  # three equal seeds on a grid of two decades in two steps
    assert rate == pytest.approx(10) and math.log(high / 10) == pytest.approx(half)
    assert mean(measured("E", "range_growth", norm="a")) == 0.5
    zero = measured("E", "jacobian_ratio", norm="a").estimates(facts)[cell]  # a ratio of 0 counts
    assert zero.n == 3 and zero.kind == "median" and zero.low == 0
    assert not y("a", width=16).at("M").estimates(facts)
    falling = rank_correlation("E", "y", "val_loss", [{"norm": "b", "width": 16, "rate": "x"}, {"norm": "b", "width": 32, "rate": "x"}])
    for width, rest in (16, 1), (32, 0):
        for metric, number in ("y", width), ("val_loss", rest):
            facts.add("E", *cell, f"norm=b rate=x width={width}", 1, metric, number)
    assert interval(falling) == pytest.approx((-1, -1, 1))  # of one seed


# ---- verdicts --------------------------------------------------------------------------------------

def word(values):
    """Of the values of says and of meant in three cells."""
    says, meant = (dict(zip(CELLS, values[i:i + 3])) for i in (0, 3))
    return word_of(over_cells(Judged(None, says, {})), over_cells(Judged(None, meant, {})), meant)


def stays(less, more):
    """Whether a verdict on less evidence may be followed by one on more."""
    return less in (more, UNDECIDED) or (less, more) == (WEAKER, TRUE)


def test_words_are_monotone_in_every_cell():
    def possible(values):
        """What is meant holds where what is said does."""
        return all(says <= meant for says, meant in zip(values[:3], values[3:]))

    for less in filter(possible, itertools.product((HOLDS, OPEN, FAILS), repeat=6)):
        for more in itertools.product(*[(HOLDS, OPEN, FAILS) if one == OPEN else (one,) for one in less]):
            assert not possible(more) or stays(word(less), word(more)), (less, more)


def test_recipes_are_monotone():
    pairs = list(itertools.product((TRUE, WEAKER, SIZE, FALSE, UNDECIDED), repeat=2))
    for less, more in itertools.product(pairs, repeat=2):
        assert not all(map(stays, less, more)) or stays(over_recipes(*less), over_recipes(*more)), (less, more)
    assert over_recipes(FALSE, TRUE) == RECIPE and over_recipes(TRUE, WEAKER) == WEAKER


@pytest.mark.parametrize("seeds, deviation, wanted", [(8, 0.004, RECIPE), (3, 0.1, UNDECIDED)])
def test_less_evidence_at_the_default_recipe_is_no_stronger_verdict(seeds, deviation, wanted):
    facts = planted({CELLS[0]: 0.1}, deviation, "rate=default", planted({CELLS[0]: -0.5}), seeds)
    verdict = judge(claim(GAP > 0.02), facts)
    assert verdict.word == wanted
    assert wanted != RECIPE or verdict.why.startswith("False at the best recipe, true at ./train's own.")


@pytest.mark.parametrize("means, wanted", [
    ((0.1, 0.1, 0.1), TRUE), ((-0.1, -0.1, -0.1), FALSE), ((0.1, 0.1, -0.1), SIZE), ((0.1, -0.1, 0.0199), UNDECIDED),
    ((-0.1, 0.0199, -0.1), UNDECIDED), ((0.1, 0.0199, -0.1), SIZE)])
def test_cells_make_the_word(means, wanted):
    facts = planted(dict(zip(CELLS, means)))
    assert judge(claim(GAP > 0.02), facts).word == wanted
    assert judge(claim(GAP > 1, GAP > 0.02), facts).word == (WEAKER if wanted == TRUE else wanted)


SIX = [(text, "XS") for text in "tuvwxy"]
TWO = [(text, size) for text in "tu" for size in ("XS", "S", "M")]


@pytest.mark.parametrize("rule, means, wanted", [
    (abs(GAP) < 0.02, (0.002, 0.003, -0.004, -0.002, -0.004, -0.002), TRUE),
    (abs(GAP) < 0.02, (0.002, 0.003, -0.004, -0.002, -0.004, 0.021), UNDECIDED),  # one contradicts
    (GAP > 0.02, (0.03, 0.04, 0.03, 0.035, 0.038, 0.03), TRUE), (GAP > 0.02, (0.01, 0.005, 0.01, 0.005, 0.01, 0.003), FALSE)])
def test_texts_that_agree_decide_together(rule, means, wanted):
    """Every cell is open by itself. A text's sizes are not independent, so two texts are too few, however many sizes they
    have."""
    six, two = (judge(claim(rule), planted(dict(zip(cells, means)), 0.022)) for cells in (SIX, TWO))
    assert six.word == wanted and two.word == UNDECIDED
    found = list(six.said.known.values())[0]
    assert {one.pooled.n for one in found.values() if one.pooled} == ({6} if wanted != UNDECIDED else set())


def test_the_sizes_of_a_text_are_averaged_first():
    facts = planted({("t", "XS"): 0.0, ("t", "S"): 0.2, ("u", "XS"): 0.1})
    means, errors, back = rules.texts_of(GAP.estimates(facts))
    own = [one.error() for one in GAP.estimates(facts).values()]
    assert means == pytest.approx([0.1, 0.1], abs=2e-3) and back(1) == 1
    assert errors == pytest.approx([own[0] / math.sqrt(2), own[0]])


def test_ratios_are_averaged_as_logarithms():
    facts = planted(dict(zip(SIX, (0.02, 0.03, 0.02, 0.025, 0.02, 0.03))), 0.03)
    verdict = judge(claim(A / B > 1), facts)
    pooled = list(list(verdict.said.known.values())[0].values())[0].pooled
    assert verdict.word == TRUE and 1 < pooled.low < pooled.mean < 1.02


PAIRS = [(text, size) for text in "tu" for size in ("XS", "S")]


@pytest.mark.parametrize("means, deviation, wanted", [
    ((0.05, -0.01, 0.04, 0.0), 0.03, SIZE),            # every cell is open, and the change is certain
    ((0.05, -0.01, 0.04, 0.0), 0.1, UNDECIDED),        # it is not
    ((0.05, 0.03, 0.04, 0.025), 0.03, UNDECIDED),      # all on one side
    ((0.05, -0.01, 0.01, 0.0), 0.03, UNDECIDED)])      # texts of one size disagree
def test_trend_over_size(means, deviation, wanted):
    verdict = judge(claim(GAP > 1, GAP > 0.02), planted(dict(zip(PAIRS, means)), deviation))
    assert verdict.word == wanted
    assert wanted != SIZE or "at XS and -0.005 at S" in verdict.why


def test_what_decides_is_told():
    """In the cell that is nearest to the threshold; below an "or" a part that has the value."""
    half = any_of(all_of(GAP > 0.1, measured("E20", "x", norm="a") > 0), GAP > 0.02)
    facts = planted({CELLS[0]: 0.05, CELLS[2]: 0.3})
    one = claim(half)
    found = telling(one, judge(one, facts))
    assert found.atom.text.endswith("> 0.02") and found.cell == CELLS[0]
    assert telling(find("N3"), judge(find("N3"), facts)) is None


# ---- the table of claims -----------------------------------------------------------------------------

def test_the_table():
    names = [name for one in claims() for name in one.ids.split()]
    assert len(names) == len(set(names)) and len(articles()) == 67
    for one in claims():
        assert (one.says is None) == bool(one.out) and one.text and one.where, one.id
        assert one.expected in (TRUE, "imprecise", FALSE, "open") and set(one.experiments()) <= {*table()["experiments"]}
        assert all(metric in table()["metrics"] for _, metric, _ in one.needs()), one.id
    assert judge(find("D1"), Facts()).word == UNTESTED


def test_a_rule_that_was_changed_says_why():
    """registered.csv has the rules before the first report. Since then slopes name their points."""
    first = first_rules()
    for one in claims():
        if one.says is not None and not one.revised and not one.canary:
            for sense, rule in ("says", one.says), ("meant", one.meant):
                text = "" if rule is None else re.sub(r"( over log2 \w+) at [\d, ]+(?= )", r"\1", rules.text_of(rule))
                assert first[one.id][sense] == text, one.id
