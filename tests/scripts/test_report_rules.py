"""The rules and the tables of scripts/claims/ on planted facts, without a run."""
import itertools
import json
import lzma
import math
import re

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

from claims import claims, experiments, facts as facts_module, headlines, plan, quantities, texts
from claims.exact import normalized_by_hand, one_pass, two_pass, welford
from claims.fact_table import SIZES, FactError, Facts, facts_text, read_facts, shorter
from claims.probes import ridge_r2
from claims.rules import FAILS, HOLDS, OPEN, above, all_of, any_of, below, exact, no, within
from claims.verdicts import EXPECTED, FALSE, TRUE, UNDECIDED, UNMEASURED, WEAKER, Claim, judge, word_of

random = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def the_same_numbers():
    """In each test, whichever runs before it."""
    random.bit_generator.state = np.random.default_rng(1).bit_generator.state


def planted(mean, deviation=0.01, seeds=8):
    """Facts in which a - b has this mean and deviation exactly."""
    facts, noise = Facts(), random.standard_normal(seeds)
    if seeds > 1:
        noise = (noise - noise.mean()) / noise.std(ddof=1)
    for seed in range(seeds):
        base = 2 + 0.1 * seed
        facts.add("E", "text", "S", "norm=b", seed + 1, "val_loss", base)
        facts.add("E", "text", "S", "norm=a", seed + 1, "val_loss", base + mean + deviation * noise[seed])
    return facts


DIFFERENCE = quantities.difference("E", "val_loss", "norm=a", "norm=b")
REVERSED = quantities.difference("E", "val_loss", "norm=b", "norm=a")


def value(reading, facts):
    return reading.judge(facts)[0]


def test_above_below_and_within():
    for mean, wanted in (0.05, HOLDS), (0.0, FAILS), (0.012, OPEN):
        facts = planted(mean, 0.004)
        assert value(above(DIFFERENCE, 0.01), facts) == value(below(REVERSED, -0.01), facts) == wanted
        assert value(below(DIFFERENCE, 0.01), facts) == 1 - wanted
    for mean, wanted in (0.0, HOLDS), (0.05, FAILS), (-0.05, FAILS), (0.02, OPEN):
        assert value(within(DIFFERENCE, 0.02), planted(mean)) == wanted


def test_few_and_equal_facts():
    zero = planted(0.0, 0.0)
    assert value(above(DIFFERENCE, 0), zero) == FAILS and value(within(DIFFERENCE, 0.02), zero) == HOLDS
    assert value(above(DIFFERENCE, 0), planted(1.0, seeds=1)) == OPEN
    assert value(above(DIFFERENCE, 0), Facts()) is None
    assert judge(Claim("T", "", "", "open", says=above(DIFFERENCE, 0)), Facts()).word == UNMEASURED


def with_untrained(count, loss, seeds=8, mean=0.5):
    """planted() with `count` runs of b that did not train."""
    source, facts = planted(mean, seeds=seeds), Facts()
    for experiment, text, size, variant, seed, metric, number in source.rows():
        bad = variant == "norm=b" and int(seed) <= count
        facts.add(experiment, text, size, variant, seed, metric, loss if bad else number)
        facts.add(experiment, text, size, variant, seed, "trained", float(not bad))
    return facts


def test_bad_facts():
    unpaired = Facts((*row[:4], int(row[4]) + 8 * (row[3] == "norm=b"), *row[5:]) for row in planted(0.5).rows())
    assert value(above(DIFFERENCE, 0), unpaired) is None
    for loss in (math.inf, math.nan):
        assert value(above(DIFFERENCE, 0.01), with_untrained(1, loss)) != HOLDS
    assert value(above(DIFFERENCE, 0.01), with_untrained(8, math.inf)) == FAILS
    assert value(above(DIFFERENCE, 0.01), with_untrained(7, math.inf, 7)) == OPEN
    one = DIFFERENCE.estimate(with_untrained(1, 9.0), ("text", "S"))
    assert one.kind == "one-sided" and one.low == -math.inf and math.isfinite(one.high)
    for count, mean, wanted in ((1, -0.5, HOLDS), (1, 0.5, OPEN), (4, 0.5, OPEN), (5, -0.5, HOLDS)):
        assert value(above(REVERSED, 0.01), with_untrained(count, 3.5, 5, mean)) == wanted
    assert DIFFERENCE.estimate(with_untrained(8, 9.0), ("text", "S")).kind == "mean"
    facts = planted(0.5)
    for seed in range(1, 9):
        facts.add("E", "text", "S", "norm=a", seed, "build", 1)
        facts.add("E", "text", "S", "norm=b", seed, "build", 2)
    assert value(above(DIFFERENCE, 0), facts) is None
    facts = planted(0.5)
    with pytest.raises(FactError):
        facts.add("E", "text", "S", "norm=a", 1, "val_loss", 7.0)


@pytest.mark.parametrize("says, meant, word", [
    (HOLDS, HOLDS, TRUE), (HOLDS, OPEN, TRUE), (HOLDS, FAILS, TRUE), (OPEN, HOLDS, WEAKER), (OPEN, OPEN, UNDECIDED),
    (OPEN, FAILS, FALSE), (FAILS, HOLDS, WEAKER), (FAILS, OPEN, UNDECIDED), (FAILS, FAILS, FALSE)])
def test_verdicts(says, meant, word):
    assert word_of(says, meant, {}) == word


def test_and_or_and_not_are_kleenes():
    facts, missing = planted(0.0), above(quantities.value("other", "x", "norm=a"), 0)
    leaves = {HOLDS: above(DIFFERENCE, -1), OPEN: above(DIFFERENCE, 0), FAILS: above(DIFFERENCE, 1)}
    for a, b in itertools.product(leaves, repeat=2):
        assert value(all_of(leaves[a], leaves[b]), facts) == min(a, b)
        assert value(any_of(leaves[a], no(leaves[b])), facts) == max(a, 1 - b)
    assert value(all_of(leaves[HOLDS], missing), facts) is None
    assert value(all_of(leaves[FAILS], missing), facts) == FAILS
    assert value(any_of(leaves[HOLDS], missing), facts) == HOLDS


def test_quantities():
    facts, cell = Facts(), ("t", "S")
    for seed in (1, 2, 3):
        for width in (16, 32, 64):
            facts.add("E", *cell, f"norm=a width={width}", seed, "y", 3 * math.log2(width) + seed)
            facts.add("E", *cell, f"norm=b width={width}", seed, "y", math.log2(width))
        for rate, loss in ((1e-3, 2.5), (1e-2, 2.0), (1e-1, 2.05)):
            facts.add("E", *cell, f"norm=a rate={rate:g}", seed, "val_loss", loss)
            facts.add("E", *cell, f"norm=b rate={rate:g}", seed, "val_loss", loss + (rate > 0.05))
        for part, loss in ((50, 2.6), (70, 2.52), (90, 2.42), (100, 2.0)):
            for norm, more in ("a", 0), ("early", -0.2), ("diverged", math.inf):
                facts.add("E", *cell, f"norm={norm} updates={part}%", seed, "val_loss", loss + more)
        for metric, number in (("range_growth", 0.5), ("jacobian_ratio", 0.5 * (seed < 3))):
            facts.add("E", *cell, "norm=a", seed, metric, number)
        facts.add("E", *cell, "norm=b updates=100%", seed, "val_loss", 2.5)

    def estimate(kind, *words):
        return getattr(quantities, kind)("E", *words).estimate(facts, cell)

    def interval(*words):
        found = estimate(*words)
        return found.value, found.low, found.high

    assert estimate("slope", "y", ("width", (16, 32, 64)), "norm=a", "norm=b").value == pytest.approx(2)
    rate = estimate("largest_rate", (1e-3, 1e-2, 1e-1), "norm=a", "norm=b")
    half = 9.9248432 * math.sqrt(2 * math.log(10) ** 2 / 12 / 3)  # three equal seeds on a grid of two decades in two steps
    assert rate.value == pytest.approx(10) and math.log(rate.high / 10) == pytest.approx(half)
    assert estimate("steps_to", "norm=a", "norm=b").value == pytest.approx(0.74)  # a fifth of the way from 0.7 to 0.9
    assert interval("steps_to", "norm=diverged", "norm=b") == (1, 1, math.inf)
    assert interval("steps_to", "norm=early", "norm=b") == (0.5, -math.inf, 0.5)  # before the shortest run
    assert estimate("geometric", "range_growth", "norm=a").value == pytest.approx(0.5)
    zero = estimate("geometric", "jacobian_ratio", "norm=a")  # a ratio of 0 counts
    assert zero.n == 3 and zero.kind == "median" and zero.low == 0
    for norm, low, high, wanted in ("b", 6, 6, HOLDS), ("a", 19, 20, FAILS):
        assert value(exact(quantities.value("E", "y", f"norm={norm} width=64"), low, high), facts) == wanted


def test_instruments_agree_with_direct_computations():
    x = random.standard_normal((40, 10, 5))
    assert ridge_r2(x, x @ np.array([1.0, -2, 0, 3, 0.5]) + 4) > 0.999
    values = random.standard_normal(50) + 3
    assert all(abs(algorithm(values, np.float64)[0] - values.var()) < 1e-12 for algorithm in (one_pass, two_pass, welford))
    assert abs(np.abs(normalized_by_hand(np.array([[10.0, 20, 999, -5]]))).max() - 1.7317) < 1e-4  # the article's vector


def test_records(tmp_path):
    """What was measured elsewhere is taken as it is if the measure is the same, except for what needs no
    run and for times; a line that a kill left incomplete is none."""
    ending = {"val_loss": 1, "trained": 1, "build": 1}
    known = {name: facts_module.source_of(measure) for name, measure in facts_module.ALL_MEASURES.items()}
    rows = [("a", "ending", known["ending"], ending), ("b", "ending", "00000000", ending),
            (facts_module.ALONE_RUN + "E13", "variances", facts_module.source_of(facts_module.ALONE["variances"]), []),
            ("a", "profile", known["profile"], {"norm_ms": 1})]
    lines = [json.dumps(dict(zip(("run", "measure", "source", "values"), row))) for row in rows]
    other, own = tmp_path / "other.jsonl", str(tmp_path / "own.jsonl")
    other.write_text("\n".join(lines) + '\n{"run": "c", "measure": "end')
    records = facts_module.Records(own, str(other))
    assert records.find("a", "ending") == ending and len(records.known) == 1
    records.keep("d", "ending", ending, "first")
    again = facts_module.Records(own, str(other))
    assert [again.is_taken_over(run, "ending") for run in "ad"] == [True, False]
    assert [json.loads(line)["run"] for line in again.text({"a", "d", "z"}).splitlines()] == ["a", "d"]
    for run, program, another in ("d", "first", False), ("d", "second", True), ("a", "second", False):
        assert again.is_of_another(run, "ending", program) == another
    again.keep("d", "ending", ending, "second")
    for one in again, facts_module.Records(own, str(other)):
        assert [one.is_older("d", "first"), one.is_older("d", "second"), one.is_older("a", "second")] == [False, True, False]


def test_the_code_of_a_measure_is_known_without_its_words():
    told = 'def f(x):\n    "What f is."\n    return x  # what it returns\n'
    assert facts_module.code_of_text(told) == facts_module.code_of_text("import b\ndef f(x): return x")
    assert facts_module.code_of_text(told) != facts_module.code_of_text("def f(x): return 2 * x")


def test_facts_file(tmp_path):
    facts, path = planted(0.1), tmp_path / "facts.csv"
    path.write_text(facts_text(facts))
    assert facts_text(read_facts(path)) == facts_text(facts)


def test_times_come_from_the_report_that_is_continued(tmp_path):
    (tmp_path / "facts.csv.xz").write_bytes(lzma.compress(
        b"experiment,corpus,size,variant,seed,metric,value\nE12,t,XS,norm=ln,1,y,2\nE1,t,XS,norm=ln,1,y,3\n"))
    facts = Facts()
    for name in "none.csv.xz", "facts.csv.xz":
        facts_module.add_times(facts, experiments.EXPERIMENTS, tmp_path / name)
    assert [*facts.rows()] == [("E12", "t", "XS", "norm=ln", "1", "y", 2.0)]


def test_tables():
    names = [name for claim in claims.ALL for name in claim.ids.split()]
    assert len(names) == len(set(names)) and {f"N{number}" for number in range(1, 17)} | {"X1"} <= set(names)
    for claim in claims.CLAIMS:
        assert (claim.says is None) == bool(claim.out) and claim.expected in EXPECTED, claim.id
        assert claim.text and claim.where and set(claim.experiments()) <= set(experiments.BY_ID), claim.id
    assert {size.name for core, others in plan.LEVELS.values() for size in [*core, *others]} == set(SIZES)
    words = [finding.command for finding in headlines.FINDINGS] + [claim.out for claim in claims.CLAIMS]
    asked = {name for claim in claims.CLAIMS for name in claim.experiments()}
    assert asked | set(re.findall(r"\bE\d+\b", " ".join(words))) == set(experiments.BY_ID)


def test_rules_that_were_changed_say_why():
    first, rule = claims.first_rules(), claims.find("F9")
    assert [claim.id for claim in claims.ALL if claims.is_changed(claim, first) != bool(claim.revised)] == []
    assert [row["id"] for row in claims.revisions([rule, claims.find("A14")])] == ["A14"]
    assert claims.rule_is_younger(rule, {("E11", "F9"): "00000000"})
    assert not claims.rule_is_younger(rule, {("E11", "F9"): rule.checksum()})


@pytest.mark.parametrize("losses, named", [
    ({"ln": (2.0, 3.0), "rms": (2.01, 3.01), "bn": (2.03, 3.03)}, ["ln", "rms"]),
    ({"ln": (2.0, 3.0), "none": (1.8, 3.04)}, ["ln"]),
    ({"ln": (2.0, 3.0), "bn": (1.9, 2.9)}, ["bn"]),
    ({"ln": (2.0, 3.0), "bn": ()}, ["ln"]),
])
def test_the_table_names_a_norm_that_is_good_on_each_text(losses, named):
    assert texts.good({name: dict(zip(("one", "two"), found)) for name, found in losses.items()}, "ln") == named


@pytest.mark.parametrize("value, short", [(1 / 3, 0.3333333), (-2.53365994, -2.53366), (4069562017.0, 4069562017.0),
                                          (math.inf, math.inf), (1.23456789e-9, 1.234568e-9)])
def test_published_numbers_have_the_digits_of_a_float(value, short):
    assert shorter(value) == short
