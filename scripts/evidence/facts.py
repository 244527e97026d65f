"""The table of facts: a row for every number on which the report rests.

    experiment,corpus,size,variant,seed,metric,value

A variant is a list of NAME=VALUE in alphabetical order ("norm=bn rate=tuned"). A fact that no seed enters, such as a
property of a formula, has the seed "-". A cell is a pair (corpus, size). Rules read this table only, so they can be tested
with invented facts, and a verdict can be checked with grep. WHY.md's facts have further cells (why/facts.py).
"""
import csv
import lzma
import math
import re

from common.command_line import csv_text

COLUMNS = ("experiment", "corpus", "size", "variant", "seed", "metric", "value")
NO_SEED = "-"
EXACT_CELL = ("exact", "-")  # the cell of facts that no run enters
TUNED, DEFAULT = "tuned", "default"  # values of `rate`: the best of the grid, and ./train's own
AT_BEST = (f"rate={TUNED}", "recipe=best")  # in variants: at the best rate; at the best initialization and rate
UNREADABLE = OSError, EOFError, UnicodeDecodeError, lzma.LZMAError  # what reading a file raises
SIZES = ("mini", "XS", "S", "M")


class FactError(Exception):
    """A fault of a file of facts, as one line for the user."""


def value_text(value):
    return f"{value:g}" if isinstance(value, float) else str(value)


def variant_text(options):
    """The text of a variant, in alphabetical order."""
    return " ".join(f"{name}={value_text(value)}" for name, value in sorted(options.items()))


def variant_options(variant):
    """The dictionary of a variant's text."""
    return dict(word.split("=", 1) for word in variant.split())


def seed_order(seed):
    return (0, int(seed)) if seed.isdigit() else (1, 0)


def cell_order(cell):
    """Small models first, and numbers by size."""
    corpus, size, *_ = cell
    number = float(size) if re.fullmatch(r"[\d.]+(e-?\d+)?", size) else 0
    return SIZES.index(size) if size in SIZES else len(SIZES), number, size, corpus


class Facts:
    """Rows as an index: {(experiment, *cell): {(metric, variant): {seed: value}}}. at_default: whether the default recipe is
    read where a rule says rate=tuned or recipe=best."""

    def __init__(self, rows=(), at_default=False):
        self.index, self.at_default = {}, at_default
        for row in rows:
            self.add(*row)

    def add(self, *row):
        *place, variant, seed, metric, value = row
        series = self.index.setdefault(tuple(place), {}).setdefault((metric, variant), {})
        old = series.setdefault(str(seed), float(value))
        if old != float(value) and not (math.isnan(old) and math.isnan(float(value))):
            raise FactError(f"{', '.join(place)}, {variant}, seed {seed}, {metric}: two values, {old:g} and {float(value):g}")

    def at_the_default_recipe(self):
        other = Facts(at_default=True)
        other.index = self.index
        return other

    def where(self, wanted):
        """The facts of the cells that are wanted."""
        part = Facts(at_default=self.at_default)
        part.index = {(experiment, *cell): series for (experiment, *cell), series in self.index.items() if wanted(cell)}
        return part

    def texts(self):
        return list(dict.fromkeys(text for _, text, *_ in self.index))

    def experiments(self):
        return {experiment for experiment, *_ in self.index}

    def cells(self, experiment):
        return sorted((tuple(cell) for name, *cell in self.index if name == experiment), key=cell_order)

    def series(self, experiment, cell, metric, variant):
        """{seed: value}, empty if this was not measured."""
        for tuned in AT_BEST if self.at_default else ():
            variant = variant.replace(tuned, f"rate={DEFAULT}")
        return self.index.get((experiment, *cell), {}).get((metric, variant), {})

    def variants(self, experiment, cell, metric):
        """The variants for which a metric was measured."""
        return sorted(variant for name, variant in self.index.get((experiment, *cell), {}) if name == metric)

    def rows(self):
        """Every row, in an order that depends on the facts only."""
        for key in sorted(self.index):
            for metric, variant in sorted(self.index[key], key=lambda pair: pair[::-1]):
                series = self.index[key][metric, variant]
                for seed in sorted(series, key=seed_order):
                    yield (*key, variant, seed, metric, series[seed])


def shorter(value):
    """A number with the seven digits that a float has; whole numbers as they are."""
    return value if float(value).is_integer() else float(f"{value:.7g}")


def facts_text(facts):
    """The table as CSV; the same facts give the same bytes."""
    return csv_text([COLUMNS, *([*names, f"{shorter(value):.9g}"] for *names, value in facts.rows())])


def lines_of(path, newline=None):
    """The lines of a file, which may be compressed."""
    opened = lzma.open if str(path).endswith(".xz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline=newline) as file:  # spreadsheets write a byte order mark
        return file.readlines()


def read_facts(path):
    """The Facts of a CSV file."""
    try:
        lines = list(csv.reader(lines_of(path, newline="")))
    except (*UNREADABLE, csv.Error) as error:
        raise FactError(f"{path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    if not lines or tuple(lines[0]) != COLUMNS:
        raise FactError(f"{path}: line 1 must be {','.join(COLUMNS)}")
    facts = Facts()
    for number, cells in enumerate(lines[1:], 2):
        try:
            *place, variant, seed, metric, value = cells
            if len(cells) != len(COLUMNS):
                raise ValueError
            if seed != NO_SEED and not (seed.isascii() and seed.isdigit()):
                raise FactError(f"the seed must be a number or {NO_SEED}, not {seed or 'empty'}")
            facts.add(*place, variant_text(variant_options(variant)), seed, metric, value)
        except ValueError:
            raise FactError(f"{path}: line {number} is no fact: {','.join(cells)}") from None
        except FactError as error:
            raise FactError(f"{path}: line {number}: {error}") from None
    return facts
