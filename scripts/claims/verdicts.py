"""Claims and verdicts. A claim has two rules: `says`, its literal sense, and `meant`, its weaker, charitable sense, which
equals `says` if there is none. A verdict depends on all cells (pairs of text and size):

    true                     says holds in every cell
    true in a weaker sense   meant holds in every cell, and says does not
    depends on size          meant holds at one size and fails at another, or there is a trend
    depends on hyperparameters    the verdicts with the best and with the default ones contradict each other
    false                    meant fails in every cell
    open                     none of these: an interval contains its threshold, or texts of one size disagree
    not tested               no run of this program could test it; the claim says why
    not measured             the facts are missing

There is a trend if meant compares one quantity with a threshold, the mean of every text is on one side of it at the
smallest size and on the other at the largest, and the interval of the difference between these sizes excludes 0. Single
cells may then be open.

A rule that reads rate=tuned or recipe=best is also judged at the default recipe (nanoGPT's). If one of the two verdicts is
open, the verdict is open. Wider intervals never turn a verdict into its opposite: it stays, becomes open, or falls from
true to true in a weaker sense. Each verdict but open requires decided cells.

claims.toml has the claims. Rules were written before the runs of the report; registered.csv has their first form.
"""
from dataclasses import dataclass, replace
import functools
import os
import tomllib

from study import statistics as inference
from frozen.claims import RULES
from evidence import rules
from evidence.facts import AT_BEST, EXACT_CELL
from evidence.rules import FAILS, HOLDS, OPEN, outcomes, value_of
from evidence.quantities import Atom

TRUE, WEAKER, SIZE, RECIPE, FALSE = ("true", "true in a weaker sense", "depends on size", "depends on hyperparameters", "false")
UNDECIDED, UNMEASURED, UNTESTED = "open", "not measured", "not tested"
VERDICTS = (TRUE, WEAKER, SIZE, RECIPE, FALSE, UNDECIDED, UNTESTED, UNMEASURED)
PARTLY = (WEAKER, SIZE, RECIPE)
DECIDED = (TRUE, *PARTLY, FALSE)
MIXED = "mixed"  # a rule that holds in one cell and fails in another
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Claim:
    """ids: its numbers, separated by spaces. text: a paraphrase. where: the article and the place in it. expected: what the
    literature suggests. out: why it is not tested. canary: the verdict that it must get. revised: why its rule differs
    from its first form."""
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

    @property
    def weaker(self):
        """What is meant, or what is said if that is the same."""
        return self.says if self.meant is None else self.meant

    def needs(self):
        """The set of (experiment, metric, variant) that the rules read."""
        return rules.needs_of(self.says) | rules.needs_of(self.meant)

    def experiments(self):
        return sorted({need[0] for need in self.needs()}, key=lambda name: (len(name), name))


@functools.lru_cache(maxsize=None)
def table():
    """claims.toml."""
    with open(os.path.join(HERE, "claims.toml"), "rb") as file:
        return tomllib.load(file)


@functools.lru_cache(maxsize=None)
def claims():
    """All claims; canaries are the last ones."""
    reasons = table()["reasons"]
    found = [Claim(**{**row, "revised": row.get("revised", "").format(**reasons)}) for row in table()["claim"]]
    return [replace(one, says=says, meant=meant) for one in found for says, meant in [RULES.get(one.id, (None, None))]]


def find(name):
    """The claim with this number, or None."""
    return next((claim for claim in claims() if name in claim.ids.split()), None)


def articles():
    """The claims of the articles: numbers X are claims of none of them, and O what none of these programs could test."""
    return [claim for claim in claims() if not claim.canary and claim.id[0] not in "XO"]


def verdicts(facts):
    """{claim id: Verdict}"""
    return {claim.id: judge(claim, facts) for claim in claims()}


# ---- one claim -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Verdict:
    """says, meant: HOLDS, OPEN, FAILS, MIXED, or None. said, intended: the rules' Judged (rules.py)."""
    word: str
    says: object = None
    meant: object = None
    said: rules.Judged = rules.Judged(None, {}, {})
    intended: rules.Judged = rules.Judged(None, {}, {})
    why: str = ""


def over_cells(judged):
    """The value of a rule over its cells."""
    values = set(judged.cells.values()) or {judged.value}
    if None in values:
        return None
    return MIXED if {HOLDS, FAILS} <= values else OPEN if OPEN in values else values.pop()


def sizes_differ(cells):
    """Whether a rule holds at one size and fails at another. cells: {cell: value}."""
    holding, failing = ({size for (_, size), value in cells.items() if value == wanted} for wanted in (HOLDS, FAILS))
    return any(one != other for one in holding for other in failing)


def word_of(says, meant, weaker):
    """weaker: {cell: value} of what is meant."""
    if says is None or meant is None and says != HOLDS:
        return UNMEASURED
    if says == HOLDS:
        return TRUE
    if meant == MIXED and sizes_differ(weaker):
        return SIZE
    return {HOLDS: WEAKER, FAILS: FALSE}.get(meant, UNDECIDED)


def trend_of(atom, facts):
    """((smallest size, mean over texts), (largest, mean), the interval of their difference), on the scale of logarithms where
    the quantity is a ratio; None if the sizes are on one side of the threshold, or may be equal."""
    if not isinstance(atom, Atom) or atom.form not in ("above", "below"):
        return None
    found = {cell: one.estimate for cell, one in outcomes(atom, facts).items()}
    sizes = list(dict.fromkeys(size for _, size in found))
    ends = [{text: one for (text, size), one in found.items() if size == end} for end in (sizes[:1] + sizes[-1:])]
    if len(sizes) < 2 or not all(one.has_error() for group in ends for one in group.values()):
        return None
    sides = [{value_of(atom, one.value, one.value) for one in group.values()} for group in ends]
    texts = [text for text in ends[0] if text in ends[1]]
    if not texts or sorted(sides, key=min) != [{FAILS}, {HOLDS}]:
        return None
    estimates = [group[text] for group in ends for text in texts]
    scale, back = estimates[0].scales()
    values = [scale(one.value) for one in estimates]
    change = inference.contrast([sign / len(texts) for sign in (-1, 1) for _ in texts], values,
                                [one.error() for one in estimates], [one.n for one in estimates])
    means = [back(sum(part) / len(texts)) for part in (values[:len(texts)], values[len(texts):])]
    return ((sizes[0], means[0]), (sizes[-1], means[1]), change) if change.low > 0 or change.high < 0 else None


def judge_once(claim, facts):
    """The Verdict at one recipe, without the sentences."""
    said = rules.judge(claim.says, facts)
    intended = said if claim.meant is None else rules.judge(claim.meant, facts)
    says, meant = over_cells(said), over_cells(intended)
    word = word_of(says, meant, intended.cells)
    if word == UNDECIDED and trend_of(claim.weaker, facts):
        word = SIZE
    return Verdict(word, says, meant, said, intended)


def over_recipes(best, default):
    """The verdict on a claim whose rule reads tuned recipes."""
    if default in (UNMEASURED, best):
        return best
    if {best, default} == {TRUE, WEAKER}:
        return WEAKER
    return best if best == UNMEASURED else UNDECIDED if UNDECIDED in (best, default) else RECIPE


def judge(claim, facts):
    """The verdict on a claim."""
    if claim.out:
        return Verdict(UNTESTED, why=claim.out)
    best = judge_once(claim, facts)
    word, why = best.word, why_of(best, claim, facts)
    if any(recipe in variant for _, _, variant in claim.needs() for recipe in AT_BEST):
        other = judge_once(claim, facts.at_the_default_recipe()).word
        word = over_recipes(best.word, other)
        if word != best.word or word == UNDECIDED != other:
            why = f"{best.word[0].upper()}{best.word[1:]} at the best recipe, {other} at ./train's own. {why}"
    sizes = {size for judged in (best.said, best.intended) for _, size in judged.cells} - {EXACT_CELL[1]}
    if word in DECIDED and len(sizes) == 1:
        why += f" Measured at {sizes.pop()} only."
    caveat = caveat_of(claim, facts) if word in (*DECIDED, UNDECIDED) else ""
    return replace(best, word=word, why=f"{why} {caveat}".strip())


def cell_name(cell):
    return f"{cell[0]} {cell[1]}"


def why_of(verdict, claim, facts):
    """A sentence that explains a verdict at one recipe, or "" if it needs none."""
    if verdict.word == WEAKER:
        return f"As stated it {'is open' if verdict.says == OPEN else 'fails'}; in a weaker sense it holds."
    if verdict.word == UNMEASURED:
        return f"Run {', '.join(claim.experiments())} to measure it."
    if verdict.word not in (SIZE, UNDECIDED):
        return ""
    it, cells = "It" if claim.meant is None else "In a weaker sense it", verdict.intended.cells
    if verdict.word == SIZE and not sizes_differ(cells):
        (small, low), (large, high), change = trend_of(claim.weaker, facts)
        return (f"{it} depends on size: the mean over texts is {low:+.3g} at {small} and {high:+.3g} at {large}, a change of "
                f"{change.mean:+.3g} [{change.low:+.3g}, {change.high:+.3g}].")
    told = {verb: ", ".join(cell_name(cell) for cell, one in cells.items() if one == value) for value, verb in
            ((HOLDS, "holds in"), (FAILS, "fails in"), (OPEN, "is open in"))}
    told = [f"{verb} {names}" for verb, names in told.items() if names]
    return f"{it} {'; it '.join(told)}." if len(told) > 1 else "The interval contains the threshold."


def caveat_of(claim, facts):
    """A sentence on the tuned recipes of what a claim reads that are at an end of their grid, or ""."""
    read = {(need[0], need[2]) for need in claim.needs()}
    named = dict.fromkeys(f"{variant} ({experiment}, {cell[1]})" for experiment in sorted({one for one, _ in read})
                          for cell in facts.cells(experiment) for variant in facts.variants(experiment, cell, "rate_at_end")
                          if (experiment, variant) in read)
    return f"The learning rate or initialization is an end of its grid: {'; '.join(named)}." if named else ""


def telling(claim, verdict):
    """The outcome that the verdict rests on, or None."""
    says, meant = (claim.says, verdict.said.known), (claim.weaker, verdict.intended.known)
    tried = {TRUE: [(HOLDS, says)], FALSE: [(FAILS, meant), (FAILS, says)],
             UNDECIDED: [(OPEN, says if verdict.says == OPEN else meant), (OPEN, says)],
             **dict.fromkeys(PARTLY, [(HOLDS, meant), (HOLDS, says), (FAILS, meant), (OPEN, meant)])}
    if verdict.word not in tried:
        return None
    return next(filter(None, (rules.first_with(value, *rule) for value, rule in tried[verdict.word])), None)
