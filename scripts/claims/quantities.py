"""Quantities: numbers computed from facts, with their uncertainty over seeds. Rules compare them with thresholds.

A quantity is a text, an experiment and a formula of metrics of variants:

    E20: val_loss(norm=rms recipe=best) - val_loss(norm=ln recipe=best)

FORMULAS has all forms. Runs of one seed share weights and batches. So a formula is computed for each seed, and the mean
has Student's t interval over the seeds, at 99 %. Ratios have the geometric mean.

A mean over only the runs that trained would be biased. So runs that did not train count:
- If some runs of a variant are stuck at a finite loss, they are worse than the others by an unknown amount. One end of
  the interval is Student's over the other runs, and the other end is infinite.
- If a run diverged, its loss is infinite. Then, and if both sides of a difference have stuck runs, the quantity is the
  median with its interval by order statistics. Below 8 seeds that interval is the whole line.

A difference leaves out seeds whose runs are of different builds. Ratios and correlations do not.
"""
from dataclasses import dataclass, replace
import functools
import math
import re
from typing import Callable

import numpy as np
from scipy import stats

from study import statistics as inference
from claims.facts import NO_SEED, seed_order, variant_text

LOSSES = ("val_loss", "best_loss")  # metrics for which a run must have trained
NATS = (*LOSSES, "own_gap", "single_gap", "noise_cost", "learned", "learned_leak", "gap_at_equal_fit", "above_frequencies")
# Metrics that are ratios, of which the mean is geometric.
RATIOS = ("stream_growth_start", "gradient_ratio_start", "gradient_ratio_end", "gradient_error_4", "output_range",
          "range_growth", "weight_change_own", "jacobian_ratio", "radius_cv_ratio")
STABLE = 0.1  # nats: a rate is stable if it loses at most this much against the best


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


@dataclass(frozen=True)
class Quantity:
    """needs: ((metric, variant), ...). compute(view) gives an Estimate or None, where view(metric, variant) is
    {seed: value}. sizes: those of models, or () for all."""
    text: str
    experiment: str
    sizes: tuple
    needs: tuple
    compute: Callable

    @property
    def unit(self):
        """"nats" for a loss or a difference of losses."""
        return "nats" if self.needs[0][0] in NATS and not re.match("slope|largest|fraction|rank|.* / ", self.text) else ""

    def estimate(self, facts, cell):
        if self.sizes and cell[1] not in self.sizes:
            return None
        return self.compute(functools.partial(facts.series, self.experiment, cell))

    def estimates(self, facts):
        """{cell: Estimate} of the cells in which it was measured."""
        found = {cell: self.estimate(facts, cell) for cell in facts.cells(self.experiment)}
        return {cell: one for cell, one in found.items() if one is not None}


# ---- estimates -----------------------------------------------------------------------------------

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


def exponential(estimate):
    """e to the power of an estimate of a logarithm."""
    if estimate is None:
        return None
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(number)) for number in (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high, {seed: math.exp(number) for seed, number in estimate.seeds.items()}, estimate.kind,
                    ratio=True)


def log_of(number):
    """The logarithm of a ratio that is not negative: of 0 it is -infinity, so that a gradient that vanished counts."""
    return math.log(number) if number > 0 else math.nan if math.isnan(number) else -math.inf


# ---- sums of terms: (factor, metric, variant) ------------------------------------------------------

TERM = re.compile(r"(?:^|([+-]) )(?:([\d.]+) )?(\w+%?)\(([^()]*)\) ?")


def terms_of(text, at="", factor=1.0):
    """The terms of "metric(variant) - metric(variant)". at: options that all variants have in addition."""
    found, place = [], 0
    for match in TERM.finditer(text):
        if match.start() != place:
            break
        sign, number, metric, variant = match.groups()
        found.append(((-1 if sign == "-" else 1) * factor * float(number or 1), metric, variant_text(f"{variant} {at}")))
        place = match.end()
    if place != len(text):
        raise ValueError(f"not a sum of metrics: {text}")
    return found


def sum_by_seed(view, terms):
    """{seed: sum} over the seeds that all terms have, without those whose runs are of different builds."""
    series = [view(metric, variant) for _, metric, variant in terms]
    builds = [view("build", variant) for _, _, variant in terms]
    found = {}
    for seed in series[0]:
        if all(seed in one for one in series) and len({build[seed] for build in builds if seed in build}) <= 1:
            with np.errstate(invalid="ignore"):
                found[seed] = float(sum(factor * np.float64(one[seed]) for (factor, _, _), one in zip(terms, series)))
    return found


def stuck_in(view, terms, seeds):
    """{sign: seeds that did not train} of the losses of which some runs trained and others did not."""
    found = {}
    for factor, metric, variant in terms:
        trained = view("trained", variant)
        bad = {seed for seed in seeds if trained.get(seed, 1) != 1} if metric in LOSSES else ()
        if 0 < len(bad) < len(seeds):
            found.setdefault(math.copysign(1, factor), set()).update(bad)
    return found


def estimate_of_sum(view, terms):
    if len(terms) == 1 and terms[0][1] in RATIOS:
        return exponential(over_seeds({seed: log_of(number) for seed, number in view(*terms[0][1:]).items()}))
    values = sum_by_seed(view, terms)
    stuck = stuck_in(view, terms, values)
    if not values or not stuck:
        return over_seeds(values)
    if len(stuck) > 1 or not np.isfinite(list(values.values())).all():
        return median_over_seeds(values)
    (sign, bounds), = stuck.items()
    return one_sided(values, bounds, sign)


# ---- other forms -----------------------------------------------------------------------------------

def summed(terms):
    return [term[1:] for term in terms], lambda view: estimate_of_sum(view, terms)


def ratio(above, below):
    """a / b, paired by seed."""
    (a,), (b,) = terms_of(above), terms_of(below)

    def compute(view):
        first, second = view(*a[1:]), view(*b[1:])
        return exponential(over_seeds({seed: log_of(first[seed] / second[seed]) for seed in first if second.get(seed, 0) > 0}))
    return [a[1:], b[1:]], compute


def slope(text, name, points):
    """The slope of a sum over log2 of an option."""
    points = points.split(", ")
    columns = [terms_of(text, f"{name}={point}") for point in points]

    def compute(view):
        rows = [sum_by_seed(view, terms) for terms in columns]
        seeds = [seed for seed in rows[0] if all(seed in row for row in rows)]
        values = [[row[seed] for row in rows] for seed in seeds]
        if not seeds or not np.isfinite(values).all():
            return None
        return over_seeds(dict(zip(seeds, map(float, inference.slopes(np.log2([*map(float, points)]), values)))))
    return [term[1:] for terms in columns for term in terms], compute


def ranges(before, after):
    """The range over the terms of one list, minus that over another one."""
    lists = [terms_of(text.replace(", ", " + ")) for text in (before, after)] if after else [terms_of(before.replace(", ", " + "))]

    def compute(view):
        rows = [[sum_by_seed(view, [term]) for term in terms] for terms in lists]
        seeds = [seed for seed in rows[0][0] if all(seed in one for row in rows for one in row)]
        spans = {seed: [float(np.ptp([one[seed] for one in row])) for row in rows] for seed in seeds}
        return over_seeds({seed: found[0] - sum(found[1:]) for seed, found in spans.items()})
    return [term[1:] for terms in lists for term in terms], compute


def next_seed(text):
    """A metric minus that of the next seed, so with the noise between runs."""
    (term,) = terms_of(text)

    def compute(view):
        series = view(*term[1:])
        seeds = sorted(series, key=seed_order)
        return over_seeds({seed: series[seed] - series[after] for seed, after in zip(seeds, seeds[1:])})
    return [term[1:]], compute


RATES = tuple(float(f"{digits}e{power}") for power in range(-6, 3) for digits in ("1", "1.8", "3", "5.6"))


def stable_rates(view, variant):
    """(the rates that were run, {seed: the largest stable one}): from the best rate up to it every run trained and lost at most
    STABLE against the best."""
    found, names = {}, {rate: variant_text(f"{variant} rate={rate:g}") for rate in RATES}
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


def largest_rate(a, b):
    """The largest stable learning rate of a over that of b."""
    def compute(view):
        (rates, above), (_, below) = (stable_rates(view, variant) for variant in (a, b))
        if len(rates) < 2:  # no grid
            return None
        spacing = math.log(rates[-1] / rates[0]) / (len(rates) - 1)
        return exponential(over_seeds({seed: math.log(above[seed] / below[seed]) for seed in above if seed in below},
                                      math.sqrt(2) * spacing))
    return [("val_loss", variant_text(f"{variant} rate=0.01")) for variant in (a, b)], compute


BUDGETS = (0.5, 0.7, 0.9, 1.0)  # of the updates


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


def steps_to(a, b):
    """The fraction of the updates with which a reaches the final loss of b. Where it is below the first of BUDGETS or above
    the last, only that is known."""
    columns = [("val_loss", variant_text(f"{a} updates={100 * part:.0f}%")) for part in BUDGETS]
    goal = "val_loss", variant_text(f"{b} updates=100%")

    def compute(view):
        rows = [view(*column) for column in columns]
        fractions = {seed: reached([row[seed] for row in rows], loss) for seed, loss in view(*goal).items()
                     if all(seed in row for row in rows)}
        ends = {math.inf: BUDGETS[-1], -math.inf: BUDGETS[0]}
        bounds = {sign: {seed for seed, part in fractions.items() if part == sign * math.inf} for sign in (1, -1)}
        if bounds[1] and bounds[-1]:
            return median_over_seeds(fractions)
        known = {seed: ends.get(part, part) for seed, part in fractions.items()}
        sign = next((sign for sign in bounds if bounds[sign]), 0)
        return one_sided(known, bounds[sign], sign) if sign else over_seeds(known)
    return [*columns, goal], compute


def correlation(x, y, variants):
    """Spearman's rank correlation of two metrics over variants, seed by seed."""
    pairs = [[(metric, variant_text(variant)) for variant in variants.split(", ")] for metric in (x, y)]

    def compute(view):
        first, second = ([view(*pair) for pair in row] for row in pairs)
        seeds = [seed for seed in first[0] if all(seed in one for one in [*first, *second])]
        estimate = over_seeds({seed: float(stats.spearmanr([one[seed] for one in first], [one[seed] for one in second]).statistic)
                               for seed in seeds})
        return estimate and replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))
    return [pair for row in pairs for pair in row], compute


FORMULAS = (
    (r"\[(.+)\] at (.+) - the same at (.+)", lambda a, at, base: summed(terms_of(a, at) + terms_of(a, base, -1))),
    (r"\[(.+)\] - (\d+) \[(.+)\]", lambda a, factor, b: summed(terms_of(a) + terms_of(b, factor=-float(factor)))),
    (r"slope of (.+) over log2 (\w+) at (.+)", slope),
    (r"range of (.+?)(?: - range of (.+))?", ranges),
    (r"largest stable rate of (.+) / that of (.+)", largest_rate),
    (r"fraction of the updates with which (.+) reaches the final loss of (.+)", steps_to),
    (r"(.+) - that of the next seed", next_seed),
    (r"rank correlation of (\w+) and (\w+) over (.+)", correlation),
    (r"([^ ]+\([^()]*\)) / ([^ ]+\([^()]*\))", ratio),
    (r"(.+)", lambda text: summed(terms_of(text))))


@functools.lru_cache(maxsize=None)
def quantity(text):
    """The Quantity of "EXPERIMENT: FORMULA" or "EXPERIMENT at SIZE, ...: FORMULA"."""
    experiment, sizes, formula = re.fullmatch(r"(\w+)(?: at ([\w, ]+))?: (.+)", text).groups()
    match, make = next((found, make) for pattern, make in FORMULAS if (found := re.fullmatch(pattern, formula)))
    needs, compute = make(*match.groups())
    return Quantity(formula, experiment, tuple(sizes.split(", ")) if sizes else (), tuple(needs), compute)
