"""Readings: comparisons of measured quantities with thresholds. verdicts.py turns them into verdicts.

A reading compares a quantity q, which has a 99 % interval [low, high], with a threshold m:

    above(q, m)    holds if low > m, fails if high <= m, else open
    below(q, m)    holds if high < m, fails if low >= m, else open
    within(q, m)   holds if -m < low and high < m, fails if low >= m or high <= -m, else open
    exact(q, low, high)   holds if every value is in [low, high], for results without statistical error
    known(truth)   is settled by reading a source, not by a run

Readings are combined in Kleene's logic: holds is 1, open 1/2 and fails 0; all_of() is the minimum, any_of() the
maximum, and no() is 1 - x. A cell is a pair of text and size. A reading must hold in every cell, or with
in_some_cell() in one. A reading without measurements is None and never holds.

Means over cells can decide open cells. If the interval of the mean over at least three cells (random effects,
study/statistics.py) decides a reading, and the mean of every cell is on the same side of the threshold, then open cells
get the same value. So narrower intervals contradict no such decision. Equivalence: Lakens 2017. The criterion as
data: Lakens and DeBruine 2021.
"""
from dataclasses import dataclass, replace
import math

from study import statistics as inference
from claims import needed
from claims.fact_table import cell_order, variant_text

HOLDS, OPEN, FAILS = 1.0, 0.5, 0.0
POOLED_LEAST = 3  # cells of which a mean over cells is taken


@dataclass(frozen=True)
class Outcome:
    """The value of a leaf in a cell. pooled: the interval of the mean over cells, if that decided."""
    reading: object
    cell: tuple
    estimate: object
    value: float
    pooled: object = None


class Reading:
    """A leaf or a combination of readings. Both have text(), leaves() and value_from(known, cell)."""

    def cells(self, facts):
        """The cells in which a leaf was measured."""
        return sorted({cell for leaf in self.leaves() for cell in leaf.measured(facts)}, key=cell_order)

    def judge(self, facts):
        """(value, {cell: value})."""
        known = values_of(self.outcomes(facts))
        cells = {cell: self.value_from(known, cell) for cell in self.cells(facts)}
        if not cells:
            return self.value_from(known, None), {}
        return conjunction(cells.values()), cells

    def value(self, facts, cell):
        return self.value_from(values_of(self.outcomes(facts)), cell)

    def outcomes(self, facts):
        return [outcome for leaf in self.leaves() for outcome in leaf.measured(facts).values()]

    def needs(self):
        """The set of (experiment, metric, variant) that the reading needs."""
        return {(leaf.quantity.experiment, metric, variant_text(variant)) for leaf in self.leaves()
                if leaf.quantity for metric, variant in leaf.quantity.needs}

    def seeds_needed(self, facts):
        """The number of seeds that would probably decide every open cell; None if it cannot be estimated."""
        return at_most([self.seeds(facts, cell) for cell in self.cells(facts)
                        if self.value(facts, cell) == OPEN])


def values_of(outcomes):
    """{leaf: {cell: value}}."""
    known = {}
    for one in outcomes:
        known.setdefault(one.reading, {})[one.cell] = one.value
    return known


def at_most(counts):
    """The largest of these numbers of seeds; None if there is none, or one is not known."""
    return None if None in counts else max(counts, default=None)


def at_least(counts):
    """The smallest of these numbers of seeds."""
    return min((count for count in counts if count is not None), default=None)


def conjunction(values):
    """Kleene's minimum; None counts only where nothing fails."""
    values = list(values)
    if FAILS in values:
        return FAILS
    return None if None in values else min(values)


def disjunction(values):
    values = list(values)
    if HOLDS in values:
        return HOLDS
    return None if None in values else max(values)


@dataclass(frozen=True)
class Leaf(Reading):
    """A comparison of one quantity with bounds. form is a row of FORMS; the other fields are its arguments."""
    form: str
    quantity: object
    low: float = -math.inf
    high: float = math.inf

    def leaves(self):
        return [self]

    def measured(self, facts):
        """{cell: Outcome} of the cells in which the quantity has a value."""
        if self.quantity is None:
            return {}
        found = {}
        for cell in facts.cells(self.quantity.experiment):
            estimate = self.quantity.estimate(facts, cell)
            if estimate is not None:
                p = estimate.p_against(*self.thresholds())
                found[cell] = Outcome(self, cell, replace(estimate, p=p), self.judge_one(estimate))
        return agreed_on_average(found)

    def judge_one(self, estimate):
        """Judges an estimate or an interval."""
        return FORMS[self.form](estimate, self.low, self.high)

    def seeds(self, facts, cell):
        """The number of seeds that would probably decide an open cell."""
        found = self.measured(facts)
        estimates = [found[cell]] if cell in found else [one for one in found.values() if one.value == OPEN]
        return at_most([needed.of_leaf(self.form, self.low, self.high, one.estimate) for one in estimates])

    def thresholds(self):
        """The thresholds with which the quantity is compared; none for exact()."""
        return [m for m in (self.low, self.high) if self.form != "exact" and math.isfinite(m)]

    def value_from(self, known, cell):
        """The value in this cell, or if it was not measured there, over all cells in which it was."""
        if self.quantity is None:
            return self.low
        found = known.get(self)
        return found.get(cell, conjunction(found.values())) if found else None

    def text(self):
        if self.form == "known":
            return "settled by the source" if self.low == HOLDS else "contradicted by the source"
        name = self.quantity.text
        if self.form == "within":
            return f"|{name}| < {self.high:g}"
        if self.form == "above":
            return f"{name} > {self.low:g}"
        if self.form == "below":
            return f"{name} < {self.high:g}"
        if self.low == self.high:
            return f"{name} = {self.low:g} exactly"
        if self.high == math.inf:
            return f"{name} >= {self.low:g}, every value"
        return f"{self.low:g} <= {name} <= {self.high:g}, every value"


def agreed_on_average(found):
    """The outcomes of a leaf by cell, where the mean over cells decides what single cells leave open. A cell whose mean
    is on the other side contradicts it, and a cell without a finite interval has no place in a mean."""
    estimates = [one.estimate for one in found.values()]
    if OPEN not in [one.value for one in found.values()] or len(found) < POOLED_LEAST or \
            not all(one.has_error() for one in estimates):
        return found
    leaf, (scale, back) = next(iter(found.values())).reading, estimates[0].scales()
    mean = inference.pooled([scale(one.value) for one in estimates], [one.error() for one in estimates])
    mean = inference.Interval(*map(back, mean[:3]), mean.n)
    value = leaf.judge_one(mean)
    if value == OPEN or any(leaf.judge_one(inference.Interval(*[one.value] * 3, 1)) != value for one in estimates):
        return found
    return {cell: replace(one, value=value, pooled=mean) if one.value == OPEN else one for cell, one in found.items()}


@dataclass(frozen=True)
class Combined(Reading):
    word: str
    parts: tuple

    def leaves(self):
        return [leaf for part in self.parts for leaf in part.leaves()]

    def value_from(self, known, cell):
        values = [part.value_from(known, cell) for part in self.parts]
        if self.word == "not":
            return None if values[0] is None else 1 - values[0]
        return (conjunction if self.word == "and" else disjunction)(values)

    def seeds(self, facts, cell):
        """The number of seeds that decide all open parts of an "and", or one part of an "or"."""
        counts = [part.seeds(facts, cell) for part in self.parts if part.value(facts, cell) == OPEN]
        return at_least(counts) if self.word == "or" else at_most(counts)

    def text(self):
        if self.word == "not":
            return f"not ({self.parts[0].text()})"
        return f" {self.word} ".join(f"({part.text()})" for part in self.parts)


@dataclass(frozen=True)
class SomeCell(Reading):
    part: Reading

    def leaves(self):
        return self.part.leaves()

    def value_from(self, known, cell):
        cells = {one for leaf in self.leaves() for one in known.get(leaf, ())}
        return disjunction(self.part.value_from(known, one) for one in cells) if cells else None

    def seeds(self, facts, cell):
        return at_least([self.part.seeds(facts, one) for one in self.part.cells(facts)
                         if self.part.value(facts, one) == OPEN])

    def text(self):
        return f"in some cell: {self.part.text()}"


# ---- forms ---------------------------------------------------------------------------------------

def judge_above(estimate, low, high):
    return HOLDS if estimate.low > low else FAILS if estimate.high <= low else OPEN


def judge_below(estimate, low, high):
    return HOLDS if estimate.high < high else FAILS if estimate.low >= high else OPEN


def judge_within(estimate, low, high):
    if low < estimate.low and estimate.high < high:
        return HOLDS
    return FAILS if estimate.low >= high or estimate.high <= low else OPEN


def judge_exact(estimate, low, high):
    """Judges exact(). A NaN is in no range."""
    return HOLDS if all(low <= value <= high for value in estimate.seeds.values()) else FAILS


FORMS = {"above": judge_above, "below": judge_below, "within": judge_within, "exact": judge_exact}


def above(quantity, m):
    return Leaf("above", quantity, low=m)


def below(quantity, m):
    return Leaf("below", quantity, high=m)


def within(quantity, m):
    return Leaf("within", quantity, -m, m)


def exact(quantity, low=-math.inf, high=math.inf):
    return Leaf("exact", quantity, low, high)


def known(truth):
    return Leaf("known", None, HOLDS if truth else FAILS)


def all_of(*parts):
    return Combined("and", parts)


def any_of(*parts):
    return Combined("or", parts)


def no(part):
    return Combined("not", (part,))


def in_some_cell(part):
    return SomeCell(part)
