"""Judges rules: what holds, fails or is open in each cell, a pair of text and size.

An atom compares a quantity q, which has a 99 % interval [low, high], with a threshold:

    q > 0.1              holds if low > 0.1, fails if high <= 0.1, else open
    q < 0.1              holds if high < 0.1, fails if low >= 0.1, else open
    abs(q) < 0.1         holds if -0.1 < low and high < 0.1, fails if low >= 0.1 or high <= -0.1, else open
    every(q, 0, 1)       holds if every value is in this range: for results without statistical error
    SETTLED, CONTRADICTED   by the source: what no run decides

A rule is an atom, or all_of(rule, ...), any_of(rule, ...), no(rule), in_some_cell(rule). A rule that is open has the value 1/2
between those of one that holds (1) and one that fails (0). So all_of() is the minimum, any_of() the maximum and no() 1 - x. A
rule must hold in every cell, or with in_some_cell() in one. One without measurements is None.

Means over texts can decide open cells. If the interval of the mean over at least three texts (random effects,
study/statistics.py; a text's sizes are averaged first, since they are not independent) decides an atom, and the mean of every
cell is on the same side of the threshold, then open cells get the same value. So narrower intervals contradict no such
decision.
"""
from collections import namedtuple
from dataclasses import dataclass, replace
import math
from statistics import fmean

from study import statistics as inference
from evidence.facts import cell_order
from evidence.quantities import Atom

HOLDS, OPEN, FAILS = 1.0, 0.5, 0.0
POOLED_LEAST = 3  # texts of which a mean is taken


def all_of(*rules):
    return ("and", *rules)


def any_of(*rules):
    return ("or", *rules)


def no(rule):
    return "not", rule


def in_some_cell(rule):
    return "in some cell", rule


# ---- atoms ---------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Outcome:
    """The value of an atom in a cell. pooled: the interval of the mean over texts, if that decided."""
    atom: Atom
    cell: tuple
    estimate: object
    value: float
    pooled: object = None


def value_of(atom, low, high, values=()):
    """The value of an atom by the ends of an interval, or all values of an exact one."""
    if atom.form == "exact":  # a NaN is in no range
        return HOLDS if all(atom.low <= value <= atom.high for value in values) else FAILS
    if (atom.form == "below" or atom.low < low) and (atom.form == "above" or high < atom.high):
        return HOLDS
    return FAILS if low >= atom.high or high <= atom.low else OPEN


def outcomes(atom, facts):
    """{cell: Outcome} of the cells in which the quantity was measured."""
    estimates = atom.quantity.estimates(facts) if atom.quantity else {}
    return agreed_on_average(atom, {cell: Outcome(atom, cell, one, value_of(atom, one.low, one.high, one.seeds.values()))
                                    for cell, one in estimates.items()})


def texts_of(estimates):
    """(means, their standard errors, back): a mean for each text over its sizes, which are not independent of each other, on
    the scale that `back` undoes. estimates: {cell: Estimate}, each with an error."""
    groups, (scale, back) = {}, next(iter(estimates.values())).scales()
    for (text, *_), one in estimates.items():
        groups.setdefault(text, []).append(one)
    return ([fmean(scale(one.value) for one in group) for group in groups.values()],
            [math.hypot(*(one.error() for one in group)) / len(group) for group in groups.values()], back)


def agreed_on_average(atom, found):
    """The outcomes, where the mean over texts decides what single cells leave open. A cell whose mean is on the other side
    contradicts it, and a cell without a finite interval has no place in a mean."""
    estimates = {cell: one.estimate for cell, one in found.items()}
    if OPEN not in [one.value for one in found.values()] or len({cell[0] for cell in found}) < POOLED_LEAST or \
            not all(one.has_error() for one in estimates.values()):
        return found
    means, errors, back = texts_of(estimates)
    mean = inference.pooled(means, errors)
    mean = inference.Interval(*map(back, mean[:3]), mean.n)
    value = value_of(atom, mean.low, mean.high)
    if value == OPEN or any(value_of(atom, one.value, one.value) != value for one in estimates.values()):
        return found
    return {cell: replace(one, value=value, pooled=mean) if one.value == OPEN else one for cell, one in found.items()}


# ---- rules ---------------------------------------------------------------------------------------

def atoms_of(rule):
    return [rule] if isinstance(rule, Atom) else [atom for part in rule[1:] for atom in atoms_of(part)] if rule else []


def text_of(rule):
    if isinstance(rule, Atom):
        return rule.text
    if rule[0] in ("and", "or"):
        return f" {rule[0]} ".join(f"({text_of(part)})" for part in rule[1:])
    return f"not ({text_of(rule[1])})" if rule[0] == "not" else f"in some cell: {text_of(rule[1])}"


def needs_of(rule):
    """The set of (experiment, metric, variant) that a rule reads."""
    return {(atom.quantity.experiment, *need) for atom in atoms_of(rule) if atom.quantity for need in atom.quantity.needs}


def conjunction(values):
    """The minimum; None counts only where nothing fails."""
    values = list(values)
    return FAILS if FAILS in values else None if None in values else min(values)


def disjunction(values):
    values = list(values)
    return HOLDS if HOLDS in values else None if None in values else max(values)


def value_in(rule, known, cell):
    """The value in a cell. known: {atom: {cell: Outcome}}. What was not measured there counts over all cells in which it
    was."""
    if isinstance(rule, Atom):
        found = {one: outcome.value for one, outcome in known.get(rule, {}).items()}
        return rule.low if rule.form == "known" else found.get(cell, conjunction(found.values())) if found else None
    word, *parts = rule
    if word == "in some cell":
        cells = {one for atom in atoms_of(rule) for one in known.get(atom, ())}
        return disjunction(value_in(parts[0], known, one) for one in cells) if cells else None
    values = [value_in(part, known, cell) for part in parts]
    if word == "not":
        return None if values[0] is None else 1 - values[0]
    return (conjunction if word == "and" else disjunction)(values)


# What a rule says of facts: its value over all cells, {cell: value}, and {atom: {cell: Outcome}}.
Judged = namedtuple("Judged", "value cells known")


def judge(rule, facts):
    """The rule's Judged."""
    known = {atom: outcomes(atom, facts) for atom in atoms_of(rule)}
    cells = sorted({cell for found in known.values() for cell in found}, key=cell_order)
    values = {cell: value_in(rule, known, cell) for cell in cells}
    return Judged(conjunction(values.values()) if values else value_in(rule, known, None), values, known)


# ---- the outcome that decides --------------------------------------------------------------------

def atoms_towards(value, rule, known, cell):
    """The atoms that pull a rule towards this value in a cell. Below an "or" these are atoms of the parts that have the
    value: another part does not decide."""
    if isinstance(rule, Atom):
        return [rule] if cell in known[rule] and known[rule][cell].value == value else []
    word, *parts = rule
    if word == "not":
        return atoms_towards(1 - value, parts[0], known, cell)
    return [atom for part in parts if word != "or" or value_in(part, known, cell) == value
            for atom in atoms_towards(value, part, known, cell)]


def first_with(value, rule, known):
    """The first outcome that pulls the rule towards this value, intervals before exact values; of its cells the one that is
    nearest to the threshold."""
    def distance(one):
        ends = [end for end in (one.atom.low, one.atom.high) if one.atom.form != "exact" and math.isfinite(end)]
        return min((abs(end - m) for m in ends for end in (one.estimate.low, one.estimate.high)), default=0.0)

    cells = {cell for found in known.values() for cell in found}
    found = [known[atom][cell] for cell in cells for atom in atoms_towards(value, rule, known, cell)]
    return min(found, default=None, key=lambda one: (one.atom.form == "exact", [*known].index(one.atom), distance(one),
                                                     cell_order(one.cell)))
