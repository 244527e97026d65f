"""Claims and verdicts: the readings of a claim (rules.py) become one of eight verdicts.

A claim has two readings: `says`, its literal sense, and `meant`, its weaker, charitable sense. If there is no `meant`,
it equals `says`. A verdict depends on all cells (pairs of text and size):

    true                     says holds in every cell
    true in a weaker sense   meant holds in every cell, and says does not
    depends on size          meant holds at one size and fails at another, or there is a trend
    depends on the recipe    the verdicts with the best and with the default recipe contradict each other
    false                    meant fails in every cell
    open                     none of these: an interval contains its threshold, or texts of one size disagree
    not tested               no run of this program could test it; the claim says why
    not measured             the facts are missing

There is a trend if meant compares one quantity with a threshold, the mean of every text is on one side of it at the
smallest size and on the other at the largest, and the interval of the difference between these sizes excludes 0. Single
cells may then be open.

A rule that reads rate=tuned or recipe=best is also judged at the default recipe (nanoGPT's). If one of the two verdicts
is open, the verdict is open.

Wider intervals never turn a verdict into its opposite: it stays, becomes open, or falls from true to true in a weaker
sense. Each verdict but open requires decided cells.
"""
from dataclasses import dataclass, field
import zlib

from study import statistics as inference
from claims import caveats
from claims.fact_table import AT_BEST, EXACT_CELL, RECIPES
from claims.rules import FAILS, HOLDS, OPEN, Leaf, at_most

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
    """A claim of the articles. ids: its numbers, separated by spaces. text: a paraphrase. where: the article and the
    place in it. expected: one of EXPECTED. says, meant: its readings. out: why it is not tested; such a claim has no
    readings. canary: the verdict that it must get. revised: why its rule differs from the one in registered.csv."""
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
        """The checksum of the rule, which must not change after the facts are known."""
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
    """The value of a reading over its cells; `value` if it has none."""
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


@dataclass(frozen=True)
class Trend:
    """A quantity's mean over texts at the smallest and at the largest size, and the interval of the difference, on
    the scale of logarithms where it is a ratio."""
    sizes: tuple
    means: tuple
    change: object


def trend_of(reading, facts):
    """The Trend; None if the sizes are on one side of the threshold, or may be equal."""
    if not isinstance(reading, Leaf) or reading.form not in ("above", "below"):
        return None
    measured = {cell: one.estimate for cell, one in reading.measured(facts).items()}
    sizes = list(dict.fromkeys(size for _, size in measured))
    ends = [{text: one for (text, size), one in measured.items() if size == end} for end in (sizes[:1] + sizes[-1:])]
    if len(sizes) < 2 or not all(one.has_error() for group in ends for one in group.values()):
        return None
    sides = [{reading.judge_one(inference.Interval(*[one.value] * 3, 1)) for one in group.values()} for group in ends]
    texts = [text for text in ends[0] if text in ends[1]]
    if not texts or sorted(sides, key=min) != [{FAILS}, {HOLDS}]:
        return None
    estimates = [group[text] for group in ends for text in texts]
    scale, back = estimates[0].scales()
    values = [scale(one.value) for one in estimates]
    change = inference.contrast([sign / len(texts) for sign in (-1, 1) for _ in texts], values,
                                [one.error() for one in estimates], [one.n for one in estimates])
    means = tuple(back(sum(part) / len(texts)) for part in (values[:len(texts)], values[len(texts):]))
    return Trend((sizes[0], sizes[-1]), means, change) if change.low > 0 or change.high < 0 else None


def judge_once(claim, facts):
    """(word, says, meant, {cell: value} of says, {cell: value} of meant)."""
    value, cells = claim.says.judge(facts)
    says = over_cells(value, cells)
    meant, weaker = says, cells
    if claim.meant:
        value, weaker = claim.meant.judge(facts)
        meant = over_cells(value, weaker)
    word = word_of(says, meant, weaker)
    if word == UNDECIDED and trend_of(claim.meant or claim.says, facts):
        word = SIZE
    return word, says, meant, cells, weaker


def over_recipes(best, default):
    """The verdict on a claim whose rule reads tuned recipes."""
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
    if best == SIZE and not sizes_differ(weaker):
        why = why_of_trend(trend_of(claim.meant or claim.says, facts), claim)
    if claim.reads(AT_BEST):
        at_default = facts.with_recipe(RECIPES[1])
        other, default = judge_once(claim, at_default)[0], outcomes_at_default(claim, at_default)
        word = over_recipes(best, other)
        if word != best or word == UNDECIDED != other:
            why = f"{best[0].upper()}{best[1:]} at the best recipe, {other} at ./train's own. {why}"
    sizes = {size for _, size in [*cells, *weaker]} - {EXACT_CELL[1]}
    if word in DECIDED and len(sizes) == 1:
        why += f" Measured at {sizes.pop()} only."
    known = caveats.sentences(claim.needs(), facts) if word in (*DECIDED, UNDECIDED) else []
    said = claim.says.outcomes(facts)
    intended = claim.meant.outcomes(facts) if claim.meant else []
    return Verdict(word, says, meant, cells, said, intended, why.strip(),
                   seeds_needed(claim, facts) if word == UNDECIDED else None, tuple(known), weaker, default)


def outcomes_at_default(claim, facts):
    """The outcomes of those leaves of both readings that read tuned rates, each once."""
    return list({(one.reading.text(), one.cell): one for reading in (claim.says, claim.meant) if reading
                 for one in reading.outcomes(facts)
                 if any(tuned in need[2] for need in one.reading.needs() for tuned in AT_BEST)}.values())


def cell_name(cell):
    return f"{cell[0]} {cell[1]}"


def cells_with(value, cells):
    return ", ".join(cell_name(cell) for cell, one in cells.items() if one == value)


def why_of(word, says, weaker, claim):
    """A sentence that explains the verdict, or "" if it needs none."""
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


def why_of_trend(trend, claim):
    """The sentence that explains a verdict by trend."""
    told = [f"{mean:+.3g} at {size}" for mean, size in zip(trend.means, trend.sizes)]
    change = [f"{number:+.3g}" for number in (trend.change.mean, trend.change.low, trend.change.high)]
    return (f"{'In a weaker sense it' if claim.meant else 'It'} depends on size: the mean over texts is {' and '.join(told)}, "
            f"a change of {change[0]} [{change[1]}, {change[2]}].")


def seeds_needed(claim, facts):
    """The number of seeds that would probably decide an open claim; None if it cannot be estimated."""
    return at_most([reading.seeds_needed(facts) for reading in (claim.says, claim.meant)
                    if reading and OPEN in reading.judge(facts)[1].values()])
