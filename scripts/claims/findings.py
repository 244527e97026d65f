"""The findings (findings.toml): their rules, and the numbers in their texts, which come from the facts.

Numbers are means over seeds, and ranges are over texts and sizes.
"""
from dataclasses import dataclass
import functools
import itertools
import math
import os
from statistics import fmean, median
import tomllib

import jinja2

from frozen import findings as frozen
from study import statistics as inference
from study.sentences import listed
from evidence import rules
from evidence.facts import cell_order
from evidence.quantities import Quantity, measured
from claims.forms import gap
from claims.plan import MORE_TUNING

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = "scripts/report.py --train"
NORMS = {"ln": "LayerNorm", "rms": "RMSNorm", "bn": "BatchNorm", "none": "no norm", "gn": "GroupNorm"}
TEXTS = {"tinyshakespeare": "tiny Shakespeare", "kjv": "the King James Bible", "poems-zh": "Chinese poems", "words": "a word list",
         "quotes": "English quotations", "german": "German quotations", "italian": "Italian quotations",
         "russian": "Russian quotations", "polish": "Polish quotations", "c": "C", "python": "Python", "grammar": "the built-in grammar"}
FIRST = "tinyshakespeare"


class FindingError(RuntimeError):
    """A finding whose rule does not hold, as one line for the user."""


@dataclass(frozen=True)
class Finding:
    """The fields of findings.toml, and the rule."""
    id: str
    claim: str
    rule: object
    evidence: str
    short: str
    command: str
    known: str
    later: str
    readme: bool = False

    def holds(self, facts):
        return rules.judge(self.rule, facts).value == rules.HOLDS

    def expect(self, facts):
        """Raises FindingError where the rule does not hold in every text and size."""
        judged = rules.judge(self.rule, facts)
        if judged.value != rules.HOLDS:
            where = ", ".join(" ".join(cell) for cell, one in judged.cells.items() if one != rules.HOLDS)
            raise FindingError(f"finding '{self.id}' does not hold{' in ' * bool(where)}{where}: {rules.text_of(self.rule)}")

    def scope(self, facts):
        """What the finding was seen in, and where the interval of a text leaves the rule open, so that only the mean over texts
        decides."""
        known = rules.judge(self.rule, facts).known
        partly = {cell for a, b in itertools.permutations(known, 2) if a.quantity.experiment == b.quantity.experiment
                  and a.quantity.sizes == b.quantity.sizes for cell in known[a].keys() - known[b].keys()}
        cells = sorted({cell for found in known.values() for cell in found} - partly, key=cell_order)
        sizes = {size: len({text for text, one in cells if one == size}) for _, size in cells}
        found = listed(f"{count} text{'s' * (count > 1)} at {size}" for size, count in sizes.items())
        still_open = {cell: None for outcomes in known.values() for cell, one in outcomes.items() if one.pooled}
        where = listed(f"{name_of(text)} at {size}" for text, size in still_open) if still_open else ""
        return f"Seen on {found}." + f" Not certain alone: {where}." * bool(where)


@functools.lru_cache(maxsize=None)
def table():
    """The findings."""
    with open(os.path.join(HERE, "findings.toml"), "rb") as file:
        return [Finding(**one, rule=frozen.RULES[one["id"]]) for one in tomllib.load(file)["finding"]]


# ---- words and numbers -----------------------------------------------------------------------------

def name_of(text):
    return TEXTS.get(text, text)


def place_of(cell):
    return f"{name_of(cell[0])}, {cell[1]}"


def nats(number, sign=False):
    """A loss: three digits below 0.1, else two."""
    text = f"{number:.{3 if abs(number) < 0.0995 else 2}f}".replace("-", "−")
    return "+" * (sign and number > 0) + text


def interval(low, high, mean=None):
    ends = f"[{nats(low, True)}, {nats(high, True)}]"
    return ends if mean is None else f"{nats(mean, True)} {ends}"


# ---- quantities ------------------------------------------------------------------------------------

def choice(facts, norm, cell):
    """What the choice of a norm's recipe adds to its loss: (mean, variance), as if the seeds that tuned were drawn again from
    those with which the best and the second-best recipe were trained. None without a second one."""
    best, second = (facts.series("E20", cell, "val_loss", f"norm={norm} recipe={one}") for one in ("best", "second"))
    beside = [second[seed] - best[seed] for seed in second if seed in best]
    if not beside:
        return None
    if cell in MORE_TUNING:  # chosen by more seeds, which showed that such a draw misleads there
        return 0.0, 0.0
    count = 2 if cell[1] == "XS" else 1  # tuning seeds (plan.py)
    chosen = fmean(fmean(drawn) < 0 for drawn in itertools.product(beside, repeat=count))
    return chosen * fmean(beside), chosen * (1 - chosen) * fmean(beside) ** 2


def with_choice(facts, norm):
    """{cell: (Estimate, Interval with the choice of both recipes)} of a norm's loss minus LayerNorm's."""
    found = {}
    for cell, one in gap("E20", norm, recipe="best").estimates(facts).items():
        own, other = choice(facts, norm, cell), choice(facts, "ln", cell)
        if own and other and one.has_error():
            mean = one.value + own[0] - other[0]
            half = inference.t_quantile(one.n - 1) * math.sqrt(one.error() ** 2 + own[1] + other[1])
            found[cell] = one, inference.Interval(mean, mean - half, mean + half, one.n)
    return found


# ---- what the texts call ---------------------------------------------------------------------------

class Numbers:
    """The functions that texts call, on some facts."""

    def __init__(self, facts):
        self.facts = facts

    def means(self, *quantities, sizes=("XS", "S", "M")):
        return [one.value for which in quantities for cell, one in which.estimates(self.facts).items() if cell[1] in sizes]

    def span(self, *quantities, sizes=("XS", "S", "M"), sign=True):
        """The lowest and the highest mean: "0.04 to 0.06", or the one number."""
        found = self.means(*quantities, sizes=sizes)
        return " to ".join(dict.fromkeys(nats(end, sign) for end in (min(found), max(found)))) if found else ""

    def per_cent(self, which):
        """span() as per cent of perplexity."""
        ends = [100 * math.expm1(end) for end in (min(self.means(which)), max(self.means(which)))]
        return " to ".join(f"{end:.0f}" for end in ends) + " %"

    def undecided(self, which, sizes=("XS", "S", "M")):
        """The number of cells whose interval includes 0."""
        return sum(one.low < 0 < one.high for cell, one in which.estimates(self.facts).items() if cell[1] in sizes)

    def texts(self, which):
        return len({text for text, _ in which.estimates(self.facts)})

    def mean(self, which, interval_too=True):
        """The mean over texts, whose sizes are averaged first."""
        means, errors, _ = rules.texts_of(which.estimates(self.facts))
        found = inference.pooled(means, errors)
        return interval(found.low, found.high, found.mean) if interval_too else nats(abs(found.mean))

    def predicted(self, which):
        means, errors, _ = rules.texts_of(which.estimates(self.facts))
        _, low, high, _ = inference.predicted(means, errors)
        return f"{nats(low, True)} to {nats(high, True)}"

    def highest(self, which):
        """"0.07 nats on Chinese poems at S"."""
        found = which.estimates(self.facts)
        text, size = max(found, key=lambda cell: found[cell].value)
        return f"{nats(found[text, size].value)} nats on {name_of(text)} at {size}"

    def at(self, which, text, size):
        """The mean with its interval in one text and size, or ""."""
        one = which.estimates(self.facts).get((text, size))
        return interval(one.low, one.high, one.value) if one else ""

    def factor(self, name, value, size):
        """BatchNorm's loss minus LayerNorm's with one option at a value (E21)."""
        return self.at(gap("E21", "bn", **{name: value}), FIRST, size)

    def stds(self, norm, name):
        """The lowest and the highest initial standard deviation that was best with an optimizer, where both were tried."""
        found = measured("E22", "init_std", norm=norm, optimizer=name).estimates(self.facts)
        found = [one.value for cell, one in found.items() if cell in frozen.optimizer(norm, "muon").estimates(self.facts)]
        return " to ".join(dict.fromkeys(f"{end:g}" for end in (min(found), max(found)))) if found else ""

    # ---- the choice of recipes ---------------------------------------------------------------------

    def choice_counts(self):
        """Of these differences: how many there are; how many words (lower, higher, equal) change; the median half widths of the
        intervals before and after; where the mean moves furthest; and at how many places at S and M BatchNorm's is above 0."""
        both = {(norm, cell): (inference.Interval(a.value, a.low, a.high, a.n), b) for norm in ("rms", "bn", "none")
                for cell, (a, b) in with_choice(self.facts, norm).items()}
        halves = [nats(median(one.high - one.low for one in side) / 2) for side in zip(*both.values())]
        (norm, (text, size)), (old, new) = max(both.items(), key=lambda one: abs(one[1][0].mean - one[1][1].mean))
        large = [new.low > 0 for (norm, cell), (_, new) in both.items() if norm == "bn" and cell[1] != "XS"]
        return {"all": len(both), "changed": sum(inference.decision(a) != inference.decision(b) for a, b in both.values()),
                "before": halves[0], "after": halves[1], "above": f"{sum(large)} of {len(large)}", "held": all(large),
                "furthest": f"{NORMS[norm]} on {name_of(text)} at {size}, from {nats(old.mean, True)} to {nats(new.mean, True)}"}


ENVIRONMENT = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)

def rendered(text, facts, **more):
    """A text with its numbers."""
    numbers = Numbers(facts)
    functions = {name: getattr(numbers, name) for name in vars(Numbers) if not name.startswith("_")}
    quantities = {name: one for name, one in vars(frozen).items() if isinstance(one, Quantity)}
    made = {one.__name__: one for one in (frozen.optimizer, frozen.deep, frozen.deep_gap, frozen.outlier_cost,
                                          nats)}
    return ENVIRONMENT.from_string(text).render(**functions, **quantities, **made, names=NORMS, findings=table(), facts=facts,
                                                command=COMMAND, **more)
