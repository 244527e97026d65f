"""Readings and verdicts: from quantities to true, imprecise, false, not decided, not measured.

A reading compares a quantity, which has a 99 % interval [low, high], with a threshold m:

    above(q, m)    holds if low > m, fails if high <= m, else open
    below(q, m)    holds if high < m, fails if low >= m, else open
    within(q, m)   holds if -m < low and high < m, fails if low >= m or high <= -m, else open
    exact(q, low, high)   no statistics: every value must be in [low, high]; bits and algebra
    known(truth)   settled by reading a source, not by a run

holds is 1, open 1/2, fails 0; all_of is the minimum, any_of the maximum, no is 1 - x (Kleene's
logic). A reading is judged in every cell (corpus and size) and holds if it holds in each;
in_some_cell() asks for one. What was not measured is None: it never holds.

A claim is written down twice: what it `says`, and what is `meant` if one is charitable.

    says    meant           verdict
    holds                   true
    fails   holds           imprecise; also if says, or else meant, holds in one cell and fails in another
    fails   fails, or none  false
    open, or fails and meant is open: not decided;  None: not measured

A rule with rate=tuned or recipe=best in it is judged at the default recipe too. Where the verdicts contradict
each other, the claim is imprecise: it depends on the recipe. Equivalence: Lakens 2017. The criterion as data:
Lakens and DeBruine 2021.
"""
from dataclasses import dataclass, field, replace
import math
import zlib

from claims import caveats, needed
from claims.fact_table import RECIPES, AT_BEST, cell_order, variant_text

HOLDS, OPEN, FAILS = 1.0, 0.5, 0.0
TRUE, IMPRECISE, FALSE = "true", "imprecise", "false"
UNDECIDED, UNMEASURED, UNTESTED = "not decided", "not measured", "not tested"
VERDICTS = (TRUE, IMPRECISE, FALSE, UNDECIDED, UNMEASURED, UNTESTED)
DECIDED = (TRUE, IMPRECISE, FALSE)


@dataclass(frozen=True)
class Outcome:
    """What a leaf came out as in a cell."""
    reading: object
    cell: tuple
    estimate: object
    value: float


class Reading:
    """A leaf or a combination. text(), leaves(), value_from(known, cell)."""

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
        """{(experiment, metric, variant)} that the reading rests on."""
        return {(leaf.quantity.experiment, metric, variant_text(variant)) for leaf in self.leaves()
                if leaf.quantity for metric, variant in leaf.quantity.needs}

    def seeds_needed(self, facts):
        """The seeds that would probably decide every cell that is open; None if that can't be estimated."""
        return at_most([self.seeds(facts, cell) for cell in self.cells(facts)
                        if self.value(facts, cell) == OPEN])


def values_of(outcomes):
    """{leaf: {cell: value}}."""
    known = {}
    for one in outcomes:
        known.setdefault(one.reading, {})[one.cell] = one.value
    return known


def at_most(counts):
    """Enough for all; None if there is none, or one is not known."""
    return None if None in counts else max(counts, default=None)


def at_least(counts):
    """Enough for one of them."""
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
    """One quantity against bounds. form is a row of FORMS; the others are its arguments."""
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
                found[cell] = Outcome(self, cell, replace(estimate, p=p),
                                      FORMS[self.form](estimate, self.low, self.high))
        return found

    def seeds(self, facts, cell):
        """That would probably decide an open cell."""
        found = self.measured(facts)
        estimates = [found[cell]] if cell in found else [one for one in found.values() if one.value == OPEN]
        return at_most([needed.of_leaf(self.form, self.low, self.high, one.estimate) for one in estimates])

    def thresholds(self):
        """What the quantity is tested against: nothing where every value must be in a range."""
        return [m for m in (self.low, self.high) if self.form != "exact" and math.isfinite(m)]

    def value_from(self, known, cell):
        """In this cell; if it was not measured there, in all cells in which it was."""
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
        """All parts that are open must be decided for "and"; for "or" one may do."""
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
    """A NaN among the values is not in any range."""
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


# ---- claims --------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Claim:
    """ids: its numbers, separated by spaces. where: the article and the place in it. text: the claim
    in our words. expected: the verdict that the literature suggests, written before any run. out: why
    it is not tested; such a claim has no readings. canary: the verdict that must come out. revised: why the
    rule is another than the one first written down (registered.py)."""
    ids: str
    text: str
    where: str
    expected: str
    says: object = None
    meant: object = None
    note: str = ""
    out: str = ""
    canary: str = ""
    revised: str = ""

    @property
    def id(self):
        return self.ids.split()[0]

    def checksum(self):
        """Of the rule: what must not change after the facts are known."""
        text = " | ".join(reading.text() if reading else "-" for reading in (self.says, self.meant))
        return f"{zlib.crc32(text.encode()):08x}"

    def needs(self):
        return set().union(*(reading.needs() for reading in (self.says, self.meant) if reading))

    def experiments(self):
        return sorted({need[0] for need in self.needs()}, key=lambda name: (len(name), name))


@dataclass(frozen=True)
class Verdict:
    word: str
    says: float = None
    meant: float = None
    cells: dict = field(default_factory=dict)  # of `says`: {cell: value}
    said: list = field(default_factory=list)   # outcomes of the leaves of `says`
    intended: list = field(default_factory=list)
    why: str = ""
    seeds_needed: int = None
    caveats: tuple = ()  # sentences: what to know of the rates behind it
    weaker: dict = field(default_factory=dict)  # of `meant`: {cell: value}
    default: list = field(default_factory=list)  # outcomes at the default recipe, where the rule reads a tuned one


def word_of(says, meant, cells, weaker):
    if says is None:
        return UNMEASURED
    if says == HOLDS:
        return TRUE
    if says == OPEN:
        return UNDECIDED
    if HOLDS in cells.values() or meant == HOLDS or meant == FAILS and HOLDS in weaker.values():
        return IMPRECISE
    return UNDECIDED if meant == OPEN else FALSE


def judge_once(claim, facts):
    says, cells = claim.says.judge(facts)
    meant, weaker = claim.meant.judge(facts) if claim.meant else (FAILS, {})
    if says == FAILS and meant is None:  # a part of the rule is missing: not false yet
        return UNMEASURED, says, meant, cells, weaker
    return word_of(says, meant, cells, weaker), says, meant, cells, weaker


def judge(claim, facts):
    """The verdict on a claim."""
    if claim.out:
        return Verdict(UNTESTED, why=claim.out)
    word, says, meant, cells, weaker = judge_once(claim, facts)
    why, known, default = why_of(word, meant, cells, weaker, claim), [], []
    if any(tuned in need[2] for need in claim.needs() for tuned in AT_BEST):
        at_default = facts.with_recipe(RECIPES[1])
        other, default = judge_once(claim, at_default)[0], outcomes_at_default(claim, at_default)
        what = "rate and initialization" if any(AT_BEST[1] in need[2] for need in claim.needs()) else "rate"
        if other != word and other in DECIDED and word in (TRUE, FALSE):
            why = f"Depends on the learning {what}: {word} at the best one, {other} at ./train's own."
            word = IMPRECISE
        elif other != word and other in DECIDED:
            known = [f"At ./train's own {what} it is {other}."]
    known += caveats.sentences(claim.needs(), facts) if word in (*DECIDED, UNDECIDED) else []
    said = claim.says.outcomes(facts)
    intended = claim.meant.outcomes(facts) if claim.meant else []
    return Verdict(word, says, meant, cells, said, intended, why.strip(),
                   seeds_needed(claim, facts) if word == UNDECIDED else None, tuple(known), weaker, default)


def outcomes_at_default(claim, facts):
    """Of the leaves of both readings that read tuned rates, each once."""
    return list({(one.reading.text(), one.cell): one for reading in (claim.says, claim.meant) if reading
                 for one in reading.outcomes(facts)
                 if any(tuned in need[2] for need in one.reading.needs() for tuned in AT_BEST)}.values())


def cell_name(cell):
    return f"{cell[0]} {cell[1]}"


def why_of(word, meant, cells, weaker, claim):
    """One sentence that explains a verdict which is not plain."""
    if word == IMPRECISE and meant != HOLDS:
        strict = HOLDS in cells.values()
        held, failed, unsure = (", ".join(cell_name(cell) for cell, value in (cells if strict else weaker).items()
                                          if value == wanted) for wanted in (HOLDS, FAILS, OPEN))
        rest = f"; in {unsure} it is open" if unsure else ""
        return f"{'It' if strict else 'In a weaker sense it'} holds in {held} and fails in {failed}{rest}."
    if word == IMPRECISE:
        return "As it is said it fails; the weaker sense holds."
    if word == UNDECIDED:
        return "The interval contains the threshold."
    if word == UNMEASURED:
        return f"Run {', '.join(claim.experiments())} to measure it."
    return ""


def seeds_needed(claim, facts):
    """The seeds that would probably decide what is open of a claim, or None if that can't be estimated."""
    return at_most([reading.seeds_needed(facts) for reading in (claim.says, claim.meant)
                    if reading and reading.judge(facts)[0] == OPEN])
