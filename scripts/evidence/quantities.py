"""Quantities: what rules compare with thresholds, written as Python expressions of measured metrics.

    loss("E20", norm="rms", recipe="best") - loss("E20", norm="ln", recipe="best") < 0.02

is an atom, which rules.py judges on facts. A quantity is computed for each seed, and the mean has an interval over the
seeds (estimates.py). A difference leaves out seeds whose runs are of different builds. Ratios do not.
"""
from dataclasses import dataclass, field, replace
import functools
import math
import re
from typing import Callable

import numpy as np

from study import statistics as inference
from evidence.estimates import geometric, median_over_seeds, one_sided, over_seeds
from evidence.facts import NO_SEED, value_text, variant_options, variant_text

LOSSES = ("val_loss", "best_loss")  # metrics for which a run must have trained
NATS = (*LOSSES, "own_gap", "single_gap", "noise_cost", "learned", "learned_leak", "gap_at_equal_fit", "above_frequencies")
# Metrics that are ratios, of which the mean is geometric.
RATIOS = ("stream_growth_start", "gradient_ratio_start", "gradient_ratio_end", "gradient_error_4", "output_range",
          "range_growth", "weight_change_own", "jacobian_ratio", "radius_cv_ratio")


@dataclass(frozen=True)
class Quantity:
    """needs: the pairs (metric, variant) that it reads. compute(view) gives an Estimate or None, where view(metric, variant) is
    {seed: value}. terms: of a sum, (factor, metric, variant). sizes: those of models, or () for all."""
    text: str
    experiment: str
    needs: tuple
    compute: Callable = field(compare=False)
    terms: tuple = ()
    sizes: tuple = ()
    absolute: bool = False

    @property
    def unit(self):
        """"nats" for a loss or a difference of losses."""
        return "nats" if self.needs[0][0] in NATS and not re.match("slope|largest|fraction|rank|.* / ", self.text) else ""

    def at(self, *sizes):
        """The same at these sizes only."""
        return replace(self, sizes=tuple(map(str, sizes)))

    def plus(self, **options):
        """The sum whose variants have these options too."""
        check_sums(self)
        return total(self.text, self.experiment, [(factor, metric, variant_text({**variant_options(variant), **options}))
                                                  for factor, metric, variant in self.terms])

    def estimates(self, facts):
        """{cell: Estimate} of the cells in which it was measured."""
        found = {cell: self.compute(functools.partial(facts.series, self.experiment, cell))
                 for cell in facts.cells(self.experiment) if not self.sizes or cell[1] in self.sizes}
        return {cell: one for cell, one in found.items() if one is not None}

    # ---- expressions -------------------------------------------------------------------------------

    def __rmul__(self, factor):
        check_sums(self)
        return total(f"{factor:g} [{self.text}]", self.experiment, [(factor * one, *of) for one, *of in self.terms])

    def __sub__(self, other):
        check_sums(self, other)
        shown = f"[{other.text}]" if len(other.terms) > 1 and not other.text.endswith("]") else other.text
        return total(f"{self.text} - {shown}", self.experiment, [*self.terms, *(-1 * other).terms])

    def __truediv__(self, other):
        """The ratio of two metrics, paired by seed."""
        check_sums(self, other, terms=1)

        def compute(view):
            above, below = (view(*need) for need in self.needs + other.needs)
            return geometric({seed: above[seed] / below[seed] for seed in above if below.get(seed, 0) > 0})

        return Quantity(f"{self.text} / {other.text}", self.experiment, self.needs + other.needs, compute)

    def __abs__(self):
        return replace(self, absolute=True)

    def __gt__(self, bound):
        if self.absolute:
            raise TypeError(f"abs(q) > {bound:g}: has no interval of its own (write no(abs(q) < {bound:g}))")
        return Atom("above", self, low=bound)

    def __lt__(self, bound):
        if self.absolute:
            return Atom("within", replace(self, absolute=False), -bound, bound)
        return Atom("below", self, high=bound)


@dataclass(frozen=True)
class Atom:
    """A quantity with thresholds, the ends of a range. form: above, below, within, exact, or known if a source decides."""
    form: str
    quantity: Quantity = None
    low: float = -math.inf
    high: float = math.inf

    def __bool__(self):
        raise TypeError("an atom is no truth value before facts are judged (join rules by all_of() and any_of())")

    @property
    def text(self):
        low, high, which = f"{self.low:g}", f"{self.high:g}", self.quantity and self.quantity.text
        if self.form == "exact":
            return (f"{which} = {low} exactly" if low == high else f"{which} >= {low}, every value" if self.high == math.inf
                    else f"{low} <= {which} <= {high}, every value")
        return {"above": f"{which} > {low}", "below": f"{which} < {high}", "within": f"|{which}| < {high}",
                "known": f"{'settled' if self.low else 'contradicted'} by the source"}[self.form]


def every(quantity, low=-math.inf, high=math.inf):
    """Every value of the quantity is in this range: for results without statistical error."""
    return Atom("exact", quantity, low, high)


SETTLED, CONTRADICTED = (Atom("known", low=value) for value in (1.0, 0.0))  # by the source: no run decides


# ---- sums ------------------------------------------------------------------------------------------

def options_text(options):
    """As variant_text(), in the order given."""
    return " ".join(f"{name}={value_text(value)}" for name, value in options.items())


def measured(experiment, metric, /, condition="", **options):
    """What was measured of the variant with these options, or of the condition with this name."""
    return total(f"{metric}({condition or options_text(options)})", experiment, [(1, metric, condition or variant_text(options))])


def loss(experiment, /, condition="", **options):
    """The validation loss."""
    return measured(experiment, "val_loss", condition, **options)


def change(quantity, before, after):
    """How much larger a sum is with the options `after` than with the options `before`."""
    terms = (quantity.plus(**after) - quantity.plus(**before)).terms
    return total(f"[{quantity.text}] at {options_text(after)} - the same at {options_text(before)}", quantity.experiment, terms)


def check_sums(*parts, terms=math.inf):
    """Only sums of one experiment can be combined, before abs() and at()."""
    sums = all(0 < len(part.terms) <= terms and not part.absolute and not part.sizes for part in parts)
    if not sums or len({part.experiment for part in parts}) > 1:
        raise TypeError(f"these cannot be combined: {'; '.join(f'{part.experiment}: {part.text}' for part in parts)}")


def total(text, experiment, terms):
    """The sum of these terms, (factor, metric, variant)."""
    return Quantity(text, experiment, tuple(term[1:] for term in terms), lambda view: estimate_of_sum(view, terms), tuple(terms))


def sum_by_seed(view, terms):
    """{seed: sum} over the seeds that all terms have, without those whose runs are of different builds. A value without a seed is
    that of every seed."""
    series = [view(metric, variant) for _, metric, variant in terms]
    seeds = next((one for one in series if set(one) != {NO_SEED}), series[0])
    series = [dict.fromkeys(seeds, one[NO_SEED]) if set(one) == {NO_SEED} else one for one in series]
    builds = [view("build", variant) for _, _, variant in terms]
    found = {}
    for seed in seeds:
        if all(seed in one for one in series) and len({build[seed] for build in builds if seed in build}) <= 1:
            with np.errstate(invalid="ignore"):
                found[seed] = float(sum(factor * np.float64(one[seed]) for (factor, _, _), one in zip(terms, series)))
    return found


def stuck_in(view, terms, seeds):
    """{sign: seeds that did not train} of the losses of which some runs trained and others did not; None if no run of several
    variants trained."""
    found, none = {}, len(terms) > 1
    for factor, metric, variant in terms:
        trained = view("trained", variant)
        bad = {seed for seed in seeds if trained.get(seed, 1) != 1} if metric in LOSSES else ()
        none &= 0 < len(bad) == len(seeds)
        if 0 < len(bad) < len(seeds):
            found.setdefault(math.copysign(1, factor), set()).update(bad)
    return None if none else found


def estimate_of_sum(view, terms):
    if len(terms) == 1 and terms[0][1] in RATIOS:
        return geometric(view(*terms[0][1:]))
    values = sum_by_seed(view, terms)
    stuck = stuck_in(view, terms, values)
    if stuck is None:
        return None
    if not values or not stuck:
        return over_seeds(values)
    if len(stuck) > 1 or not np.isfinite(list(values.values())).all():
        return median_over_seeds(values)
    (sign, bounds), = stuck.items()
    return one_sided(values, bounds, sign)


# ---- other forms -----------------------------------------------------------------------------------

def combined(text, parts, function, finite=False):
    """A function of the numbers of some sums, seed by seed. finite: whether it says nothing where one of them is not."""
    check_sums(*parts)

    def compute(view):
        rows = [sum_by_seed(view, part.terms) for part in parts]
        found = {seed: [row[seed] for row in rows] for seed in rows[0] if all(seed in row for row in rows)}
        if finite and not np.isfinite([*found.values()]).all():
            return None
        with np.errstate(invalid="ignore"):  # of infinite losses
            return over_seeds({seed: float(function(row)) for seed, row in found.items()})

    return Quantity(text, parts[0].experiment, tuple(need for part in parts for need in part.needs), compute)


def slope(quantity, option, *points):
    """The slope of a sum over log2 of an option."""
    return combined(f"slope of {quantity.text} over log2 {option} at {', '.join(map(str, points))}",
                    [quantity.plus(**{option: point}) for point in points],
                    lambda row: inference.slopes(np.log2(points), [row])[0], finite=True)
