"""Quantities of claims and findings: differences between norms, the largest stable learning rate, the updates to a loss,
correlations, and noise between runs.
"""
from dataclasses import replace
import math

import numpy as np
from scipy import stats

from evidence.estimates import geometric, median_over_seeds, one_sided, over_seeds
from evidence.facts import seed_order, variant_text
from evidence.quantities import Quantity, combined, measured, options_text

STABLE = 0.1  # nats: a rate is stable if it loses at most this much against the best
RATES = tuple(float(f"{digits}e{power}") for power in range(-6, 3) for digits in ("1", "1.8", "3", "5.6"))
BUDGETS = (0.5, 0.7, 0.9, 1.0)  # of the updates


def gap(experiment, norm, other="ln", metric="val_loss", /, **options):
    """What was measured of a norm, minus that of another one; by default its loss minus LayerNorm's."""
    above, below = (measured(experiment, metric, **dict(sorted({**options, "norm": one}.items()))) for one in (norm, other))
    return above - below


def minus_next_seed(quantity):
    """A metric minus that of the next seed, so with the noise between runs."""
    def compute(view):
        series = view(*quantity.needs[0])
        seeds = sorted(series, key=seed_order)
        return over_seeds({seed: series[seed] - series[after] for seed, after in zip(seeds, seeds[1:])})

    return Quantity(f"{quantity.text} - that of the next seed", quantity.experiment, quantity.needs, compute)


# ---- stable rates --------------------------------------------------------------------------------

def stable_rates(view, options):
    """(the rates that were run, {seed: the largest stable one}): from the best rate up to it every run trained and lost at most
    STABLE against the best."""
    found, names = {}, {rate: variant_text({**options, "rate": f"{rate:g}"}) for rate in RATES}
    losses = {rate: series for rate, name in names.items() if (series := view("val_loss", name))}
    trained = {rate: view("trained", names[rate]) for rate in losses}
    for seed in next(iter(losses.values()), ()):
        row = [series.get(seed, math.inf) if trained[rate].get(seed, 1) == 1 else math.inf for rate, series in losses.items()]
        at = int(np.argmin(row))
        best = row[at]
        while at + 1 < len(row) and row[at + 1] <= best + STABLE:
            at += 1
        if math.isfinite(best):
            found[seed] = list(losses)[at]
    return list(losses), found


def largest_stable_rate(experiment, one, other):
    """The largest stable learning rate of one variant over that of the other."""
    def compute(view):
        (rates, above), (_, below) = (stable_rates(view, options) for options in (one, other))
        if len(rates) < 2:  # no grid
            return None
        spacing = math.log(rates[-1] / rates[0]) / (len(rates) - 1)
        return geometric({seed: above[seed] / below[seed] for seed in above if seed in below}, math.sqrt(2) * spacing)

    needs = tuple(("val_loss", variant_text({**options, "rate": "0.01"})) for options in (one, other))
    return Quantity(f"largest stable rate of {options_text(one)} / that of {options_text(other)}", experiment, needs, compute)


# ---- updates to a loss ---------------------------------------------------------------------------

def reached(losses, goal):
    """The fraction of the updates with which a model reaches a loss: interpolated between runs of BUDGETS, each annealed
    by itself. Infinity if the longest run does not reach it, -infinity if the shortest does."""
    if not losses[-1] <= goal:
        return math.inf
    place = next(place for place, loss in enumerate(losses) if loss <= goal)
    if place == 0:
        return -math.inf
    (low, above), (high, below) = zip(BUDGETS[place - 1:place + 1], losses[place - 1:place + 1])
    return low + (high - low) * ((above - goal) / (above - below) if math.isfinite(above) else 1)


def fraction_of_updates(experiment, one, other):
    """The fraction of the updates with which one variant reaches the final loss of the other. Where it is below the first of
    BUDGETS or above the last, only that is known."""
    needs = tuple(("val_loss", variant_text({**options, "updates": f"{100 * part:.0f}%"}))
                  for options, parts in ((one, BUDGETS), (other, BUDGETS[-1:])) for part in parts)

    def compute(view):
        *rows, goal = [view(*need) for need in needs]
        fractions = {seed: reached([row[seed] for row in rows], loss) for seed, loss in goal.items() if all(seed in row for row in rows)}
        ends = {math.inf: BUDGETS[-1], -math.inf: BUDGETS[0]}
        bounds = {sign: {seed for seed, part in fractions.items() if part == sign * math.inf} for sign in (1, -1)}
        if bounds[1] and bounds[-1]:
            return median_over_seeds(fractions)
        known = {seed: ends.get(part, part) for seed, part in fractions.items()}
        sign = next((sign for sign in bounds if bounds[sign]), 0)
        return one_sided(known, bounds[sign], sign) if sign else over_seeds(known)

    return Quantity(f"fraction of the updates with which {options_text(one)} reaches the final loss of {options_text(other)}",
                    experiment, needs, compute)


# ---- correlations --------------------------------------------------------------------------------

def rank_correlation(experiment, x, y, variants):
    """Spearman's rank correlation of two metrics over variants, seed by seed."""
    parts = [measured(experiment, metric, **options) for metric in (x, y) for options in variants]
    found = combined(f"rank correlation of {x} and {y} over {', '.join(map(options_text, variants))}", parts,
                     lambda row: stats.spearmanr(row[:len(variants)], row[len(variants):]).statistic)

    def compute(view):
        estimate = found.compute(view)
        return estimate and replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))

    return replace(found, compute=compute)
