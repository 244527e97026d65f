"""The report's learning rates, and the intervals, p and seeds that a rule rests on, on planted facts."""
import math

import pytest

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

from claims import caveats, claims, facts as facts_module, plan, quantities
from claims.fact_table import Facts
from claims.rules import above, all_of, any_of, below, exact, in_some_cell, no, within
from claims.verdicts import TRUE, Claim, judge


class Losses:
    """A lab that knows the loss of a run by its rate, and whether its seed is an odd one."""
    def __init__(self, losses):
        self.losses = losses

    def loss_of(self, run):
        return self.losses[run.options["learning-rate"]][run.seed % 2]


def test_tuning():
    """A rate that is best on average and fails for some seeds is not taken; if all do, the mean decides. An end of the
    grid is taken if it beats its neighbour by a standard error, or if there is one seed only.
    The end of a grid and another variant's rate are told."""
    size = plan.replace(plan.XS, rates=(1e-3, 1e-2, 1e-1))
    assert size.tuning >= 4
    stuck = math.inf
    for losses, best in (
            (((2.5, 2.5), (2.4, 2.4), (2.3, 2.3)), 1e-1), (((2.5, 2.5), (2.4, 2.4), (2.2, 2.4)), 1e-2),
            (((2.5, 2.7), (stuck, stuck), (2.2, stuck)), 1e-3)):
        study = plan.Study(size, "text", Losses(dict(zip(size.rates, losses))))
        rate = study.tuned(norm="ln")["learning_rate"]
        assert rate == best and rate.at_end == (best != 1e-2), losses
        assert rate.is_safer == (best == 1e-2), losses
    one = plan.Study(size, "text", Losses(dict(zip(size.rates, ((2.5, 2.5), (2.4, 2.4), (2.36, 2.39))))))
    assert one.tuned(seeds=1, norm="ln") == {"learning_rate": 1e-1}
    own, other = (study.runs(seeds=[1], norm=norm, learning_rate=rate)[0] for norm in ("ln", "bn"))
    assert rate.is_of(own) and not rate.is_of(other) and not rate.is_of(own._replace(corpus="text-lines"))
    assert facts_module.tuning_of(other) == {"rate_at_end": 1, "rate_of_another": 1}
    assert facts_module.tuning_of(own._replace(options={"learning-rate": 1e-3})) == {}


def test_a_rate_that_loses_on_judged_seeds_is_told():
    table = Facts()
    for variant, loss in (("norm=ln rate=tuned", 2.5), ("norm=ln depth=base rate=0.01", 2.4),
                          ("norm=ln depth=base rate=0.001", 2.6), ("norm=bn depth=base rate=0.01", 2.0),
                          ("norm=bn rate=tuned", 2.1), ("norm=bn rate=default", 2.11)):
        for seed in (1, 2):
            table.add("E1", "t", "XS", variant, seed, "val_loss", loss)
    facts_module.add_regret(table)
    flagged = [(variant, flag) for _, _, variant, flag in caveats.faults(table)]
    assert flagged == [("norm=bn rate=tuned", "rate_regret"), ("norm=ln rate=tuned", "rate_regret")]
    claim = Claim("T", "", "", "open", says=above(quantities.value("E1", "val_loss", "norm=ln rate=tuned"), 2))
    verdict = judge(claim, table)
    assert "than another one: norm=ln rate=tuned (E1, XS)" in " ".join(verdict.caveats)
    assert verdict.word == TRUE and verdict.why.strip() == "Measured at XS only."


def with_losses(losses, deviation, seeds=5):
    """E1's facts at the default rate."""
    table = Facts()
    for variant, loss in losses.items():
        for seed in range(1, seeds + 1):
            noise = deviation * (0.8, -1.3, 0.5, 1, -0.9)[seed % 5]
            table.add("E1", "t", "XS", f"{variant} rate=default", seed, "val_loss", loss + noise)
    facts_module.add_canaries(table)
    return table


def test_canaries():
    """Canaries hold at the noise of real runs, fail with far more of it, and say nothing of two seeds."""
    losses = {"norm=rms": 2.6, "norm=none": 3.2, "norm=none placement=post": 3.2}
    for deviation, seeds, wanted in ((0.008, 8, []), (0.1, 8, ["K1", "K4"]), (0.1, 2, []), (0.01, 0, [])):
        judged = claims.verdicts(with_losses(losses, deviation, seeds))
        failed = [claim.id for claim in claims.failed_canaries(judged)]
        assert failed == wanted, (deviation, seeds)
        missing = [claim.id for claim in claims.unmeasured_canaries(judged)]
        assert missing == (["K2"] if seeds else ["K1", "K2", "K3", "K4"])
    broken = with_losses({**losses, "norm=none placement=post": 3.3}, 0.008, 8)
    assert [claim.id for claim in claims.failed_canaries(claims.verdicts(broken))] == ["K3"]


def table_of(**columns):
    """Facts of E with a variant for each column, and its values by seed."""
    table = Facts()
    for name, values in columns.items():
        for seed, number in enumerate(values, 1):
            table.add("E", "t", "S", f"norm={name}", seed, "x", number)
    return table


def p_of(reading, table):
    return reading.outcomes(table)[0].estimate.p


def test_p():
    """p is that of the reading's own threshold, on the scale on which the interval is; an exact reading has
    none, nor has a median."""
    table = table_of(a=[1.2, 1.3, 1.5, 1.4, 1.25, 1.35], b=[1.0] * 6)
    first, half = 2 / 2 ** 6, quantities.difference("E", "x", "norm=a", "norm=b")
    ratio = quantities.ratio("E", "x", "norm=a", "norm=b")
    for reading, p in ((above(half, 0), first), (above(half, 0.55), first), (above(half, 0.33), 1),
                       (below(half, 0.1), first), (within(half, 0.1), first), (within(half, 0.33), 1),
                       (above(ratio, 1), first), (above(ratio, 1.1), first), (below(ratio, 1.33), 0.9)):
        found = p_of(reading, table)
        assert abs(found - p) < 1e-9 or p > 0.5 and found > 0.5, reading.text()
    assert math.isnan(p_of(exact(half, 0, 0), table))
    infinite = table_of(a=[1, 2, 3, 4, 5, 6, 7, math.inf])
    assert math.isnan(p_of(above(quantities.value("E", "x", "norm=a"), 0), infinite))


def test_seeds_needed():
    """For "and" the most of the open parts, for "or" the least; also of fractions, medians and logarithms."""
    table = table_of(few=[0.5, 0.4, 0.6, -0.1], many=[0.5, -0.9, 0.7, -0.1], some=[1, 1, 1, 1, 0],
                     long=[1, 1, 1, 1, 1, 2, 0, math.inf], small=[1.5, 1.8, 1.2, 0.95], one=[1] * 4)
    few, many = (above(quantities.value("E", "x", f"norm={name}"), 0) for name in ("few", "many"))
    counts = [reading.seeds_needed(table) for reading in (few, many)]
    assert 4 < counts[0] < 20 < counts[1]
    assert any_of(few, many).seeds_needed(table) == counts[0]
    assert all_of(few, no(many)).seeds_needed(table) == counts[1]
    assert in_some_cell(many).seeds_needed(table) == counts[1]
    for reading in (above(quantities.fraction("E", "x", "norm=some"), 0.5),
                    above(quantities.value("E", "x", "norm=long"), 0.5),
                    above(quantities.ratio("E", "x", "norm=small", "norm=one"), 1)):
        count = reading.seeds_needed(table)
        assert count and 5 < count < 100, reading.text()
    claim = Claim("T", "", "", "open", says=any_of(few, many))
    assert judge(claim, table).seeds_needed == counts[0]


def test_rates():
    """The sensitivity to the learning rate and the largest stable rate."""
    table = Facts()
    for rate, loss in ((1e-3, 2.5), (1e-2, 2.0), (1e-1, 5.0)):
        table.add("E1", "t", "XS", f"norm=ln depth=base rate={rate:g}", 1, "val_loss", loss)
        table.add("E1", "t", "XS", f"norm=ln depth=base rate={rate:g}", 1, "first_loss", 4.0)
    facts_module.add_over_rates(table)
    found = {metric: table.series("E1", ("t", "XS"), metric, "norm=ln depth=base").get("1")
             for metric in ("rate_sensitivity", "stable_rate")}
    assert abs(found["rate_sensitivity"] - (2.5 + 2 + 4) / 3 + 2) < 1e-12
    assert found["stable_rate"] == 0.01
