"""Claims and verdicts: from readings (rules.py) to one of seven words.

A claim is written down twice: what it `says`, and what is `meant` if one is charitable. Without `meant`, what it
says is meant. A verdict looks at all cells (text and size):

    true                     says holds in every cell
    true in a weaker sense   meant does, says does not
    depends on size          meant holds at one size and fails at another
    false                    meant fails in every cell
    open                     none of these: an interval contains its threshold, or texts of one size disagree
    not tested               no run of this program could show it; the claim says why
    not measured             the facts are missing

A rule with rate=tuned or recipe=best in it is judged at the default recipe (nanoGPT's) too:

    depends on the recipe    both are decided, and contradict each other; where one of them is open, so is the verdict

Verdicts are monotone in evidence: with wider intervals each stays as it is, becomes open, or falls from true to true
in a weaker sense. For each asks for decided cells only, and two that contradict each other cannot hold at once.
"""
from dataclasses import dataclass, field
import zlib

from claims import caveats
from claims.fact_table import AT_BEST, RECIPES
from claims.rules import FAILS, HOLDS, OPEN, at_most

TRUE, WEAKER, SIZE, RECIPE, FALSE = ("true", "true in a weaker sense", "depends on size", "depends on the recipe",
                                     "false")
UNDECIDED, UNMEASURED, UNTESTED = "open", "not measured", "not tested"
VERDICTS = (TRUE, WEAKER, SIZE, RECIPE, FALSE, UNDECIDED, UNTESTED, UNMEASURED)
PARTLY = (WEAKER, SIZE, RECIPE)
DECIDED = (TRUE, *PARTLY, FALSE)
EXPECTED = (TRUE, "imprecise", FALSE, "open")  # what the literature suggests, written before any run
MIXED = "mixed"  # a reading that holds in one cell and fails in another


@dataclass(frozen=True)
class Claim:
    """ids: its numbers, separated by spaces. where: the article and the place in it. text: the claim
    in our words. expected: one of EXPECTED. out: why it is not tested; such a claim has no readings. canary: the
    verdict that must come out. revised: why the rule is another than the one first written down (registered.py)."""
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

    def reads(self, recipes):
        """Whether a rule reads one of these recipes."""
        return any(recipe in variant for _, _, variant in self.needs() for recipe in recipes)

    def experiments(self):
        return sorted({need[0] for need in self.needs()}, key=lambda name: (len(name), name))


@dataclass(frozen=True)
class Verdict:
    """says, meant: HOLDS, OPEN, FAILS, MIXED, or None. cells, weaker: {cell: value} of says and of meant. said,
    intended: their outcomes. default: outcomes at the default recipe, where the rule reads a tuned one. caveats:
    sentences on the rates behind it."""
    word: str
    says: object = None
    meant: object = None
    cells: dict = field(default_factory=dict)
    said: list = field(default_factory=list)
    intended: list = field(default_factory=list)
    why: str = ""
    seeds_needed: int = None
    caveats: tuple = ()
    weaker: dict = field(default_factory=dict)
    default: list = field(default_factory=list)


def over_cells(value, cells):
    """What a reading comes out as over its cells; `value` where it has none."""
    values = set(cells.values()) or {value}
    if None in values:
        return None
    if {HOLDS, FAILS} <= values:
        return MIXED
    return OPEN if OPEN in values else values.pop()


def sizes_differ(cells):
    """Whether a reading holds at one size and fails at another."""
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


def judge_once(claim, facts):
    """(word, says, meant, {cell: value} of says, {cell: value} of meant)."""
    value, cells = claim.says.judge(facts)
    says = over_cells(value, cells)
    if not claim.meant:
        return word_of(says, says, cells), says, says, cells, cells
    value, weaker = claim.meant.judge(facts)
    meant = over_cells(value, weaker)
    return word_of(says, meant, weaker), says, meant, cells, weaker


def over_recipes(best, default):
    """The word of a claim whose rule reads tuned recipes."""
    if default == UNMEASURED or default == best:
        return best
    if {best, default} == {TRUE, WEAKER}:
        return WEAKER
    return best if best == UNMEASURED else UNDECIDED if UNDECIDED in (best, default) else RECIPE


def judge(claim, facts):
    """The verdict on a claim."""
    if claim.out:
        return Verdict(UNTESTED, why=claim.out)
    best, says, meant, cells, weaker = judge_once(claim, facts)
    word, why, default = best, why_of(best, says, weaker, claim), []
    if claim.reads(AT_BEST):
        at_default = facts.with_recipe(RECIPES[1])
        other, default = judge_once(claim, at_default)[0], outcomes_at_default(claim, at_default)
        word = over_recipes(best, other)
        if word != best or word == UNDECIDED != other:
            why = f"{best[0].upper()}{best[1:]} at the best recipe, {other} at ./train's own. {why}"
    known = caveats.sentences(claim.needs(), facts) if word in (*DECIDED, UNDECIDED) else []
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


def cells_with(value, cells):
    return ", ".join(cell_name(cell) for cell, one in cells.items() if one == value)


def why_of(word, says, weaker, claim):
    """One sentence that explains a verdict which is not plain."""
    if word == WEAKER:
        return f"As stated it {'is open' if says == OPEN else 'fails'}; in a weaker sense it holds."
    if word == UNMEASURED:
        return f"Run {', '.join(claim.experiments())} to measure it."
    if word not in (SIZE, UNDECIDED):
        return ""
    told = [f"{verb} {cells_with(value, weaker)}" for value, verb in
            ((HOLDS, "holds in"), (FAILS, "fails in"), (OPEN, "is open in")) if cells_with(value, weaker)]
    if len(told) > 1:
        return f"{'In a weaker sense it' if claim.meant else 'It'} {'; it '.join(told)}."
    return "The interval contains the threshold."


def seeds_needed(claim, facts):
    """The seeds that would probably decide what is open of a claim, or None if that can't be estimated."""
    return at_most([reading.seeds_needed(facts) for reading in (claim.says, claim.meant)
                    if reading and OPEN in reading.judge(facts)[1].values()])
