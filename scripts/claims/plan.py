"""The parts of an experiment: sizes, runs, and the tuning of each variant's recipe.

A run's name follows from its options and its text, so equal runs of several experiments are one run, and so are those of
another machine. Recipes are tuned by the rules of study/tuning.py with seeds from 101 on, and judged with others (1, 2, ...).
"""
from collections import namedtuple
from dataclasses import dataclass, replace
import math
import shlex
import zlib

from claims.forms import RATES as QUARTERS
from evidence.facts import value_text, variant_text
from study.tuning import FIRST_TUNING_SEED, Axis, Search, ordered_cells, rank

DEFAULT_RATE = 1e-3
# Options of experiments at ./train's own values.
DEFAULTS = {"placement": "pre", "init": "gpt2", "qk-norm": "off", "dropout": 0}
NAMED = ("norm", "placement")  # options that every variant names
HELD_OUT = 0.1  # of the training split: what recipes are tuned on, so that they leave the validation split unread
ROUNDS = 3  # in which a large model's recipe is searched around a smaller one's
# The number of tuning seeds of a text at a size, where it was raised after one had chosen: the best FINALISTS get them all.
MORE_TUNING, FINALISTS = {("poems-zh", "S"): 4}, 2
STDS = (0.02, 0.04, 0.08, 0.16)  # initial standard deviations of a recipe

# A run of ./train: options without the corpus; the corpus's label; what the experiment calls this variant; the seed; what is
# measured of it; further runs that are read then; whether a tuned value is at an end of its grid, None if none is tuned.
Run = namedtuple("Run", "options corpus variant seed measures beside at_end", defaults=[(), (), None])


@dataclass(frozen=True)
class Size:
    """options: of every run. rates: the grid. seeds: judged ones. tuning: the number of tuning seeds. evaluated: characters
    that an evaluation measures. small: a trial of the report itself. smaller: the next smaller size, around whose recipes
    this one's are searched. Models whose width, depth or rate an experiment fixes are run at the smallest size only."""
    name: str
    options: dict
    rates: tuple = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    seeds: int = 16
    tuning: int = 4
    evaluated: int = 12288
    small: bool = False
    smaller: "Size" = None

    def __getitem__(self, name):
        return self.options[name]

    def judged(self, at_most=None, at_least=0, if_smallest=0):
        """The judged seeds; at_least: of runs that are cheap; if_smallest: of the smallest models."""
        at_least = max(at_least, 0 if self.smaller else if_smallest)
        return range(1, max(min(self.seeds, at_most or self.seeds), 0 if self.small else at_least) + 1)

    def recipe_seeds(self):
        """The number of tuning seeds of a recipe."""
        return 1 if self.small or self.smaller else 2

    def tokens(self):
        return self["max-iters"] * self["batch-size"] * self["block-size"]

    def pick(self, small, full):
        return small if self.small else full


def size_of(name, layers, channels, context, updates, **how):
    return Size(name, {"n-layer": layers, "n-head": 4, "n-embd": channels, "block-size": context, "batch-size": 12,
                       "max-iters": updates, "warmup-iters": 100}, **how)


XS = size_of("XS", 2, 32, 32, 400)
S = size_of("S", 4, 64, 64, 1000, evaluated=49152, smaller=XS)
M = size_of("M", 4, 128, 64, 2000, evaluated=98304, smaller=S, seeds=8, tuning=2, rates=XS.rates[1:5])
MINI = Size("mini", {"n-layer": 1, "n-head": 2, "n-embd": 16, "block-size": 16, "batch-size": 4, "max-iters": 20,
                     "warmup-iters": 2}, rates=(1e-3, 1e-2), seeds=2, tuning=1, evaluated=512, small=True)
FULL = (XS, S, M)
FEWER = tuple(replace(size, seeds=8) for size in FULL[:2])  # what most experiments run


def option_words(run):
    """The words of the command, without corpus and folder. A file is named by its label."""
    options = {"sample": 0, "checkpoint-interval": 0, **run.options, "seed": run.seed}
    return [f"--{name}" if value is True else f"--{name}={value_text(value)}" for name, value in sorted(options.items())]


def run_name(run, text_crc=0):
    """The same for runs of the same options on the same text, of which this is the checksum."""
    words = " ".join([*option_words(run), run.corpus, f"{text_crc:08x}"])
    return f"{run.corpus}-{run.options['norm']}-{zlib.crc32(words.encode()):08x}-s{run.seed}"


def grid_line(name, run, paths):
    """The line of grid.txt. paths: {label: path}; a label without a path is ./train's own word."""
    words = [f"--start={paths[word.split('=', 1)[1]]}" if word.startswith("--start=") else word for word in option_words(run)]
    return " ".join([name, *map(shlex.quote, [*words, f"--corpus={paths.get(run.corpus, run.corpus)}"])])


class Study:
    """The runs of a size on a text, and the recipes of its variants: {"init_std", "learning_rate", "at_end"}, with other options
    or without the first one. The lab trains what a recipe needs. found: recipes, shared with other studies."""

    def __init__(self, size, label, lab, found=None):
        self.size, self.label, self.lab, self.found = size, label, lab, {} if found is None else found

    def on(self, label=None, size=None):
        """The study of another text or size."""
        return Study(size or self.size, label or self.label, self.lab, self.found)

    def run(self, variant, seed, measures, options):
        """A run with these options by their Python names (n_embd for n-embd). Options with ./train's own values are left
        out, so that equal runs are one run."""
        options = {**self.size.options, **{name.replace("_", "-"): value for name, value in options.items()}}
        options = {name: value for name, value in options.items() if DEFAULTS.get(name) != value}
        tokens = options["batch-size"] * options["block-size"]
        options.setdefault("eval-interval", max(1, options["max-iters"] // 10))
        options.setdefault("eval-iters", math.ceil(self.size.evaluated / tokens))
        return Run(options, self.label, variant_text(variant), seed, tuple(measures))

    def runs(self, names=(), measures=("ending",), seeds=None, recipe=(), **options):
        """A run for each seed, by default each judged one. names: what the variant is called beside its norm and placement;
        None leaves one of these out."""
        named = {**{name: options[name] for name in NAMED if name in options}, **dict(names)}
        named = {name: value for name, value in named.items() if value is not None}
        options.update(recipe)
        at_end = options.pop("at_end", None)
        return [self.run(named, seed, measures, options)._replace(at_end=at_end) for seed in seeds or self.size.judged()]

    # ---- tuning ----------------------------------------------------------------------------------

    def trial(self, seed, options):
        """A run that is tried. Only its last loss counts."""
        updates = options.get("max_iters", self.size["max-iters"])
        return self.run({}, seed, ("ending",), {**options, "eval_interval": updates})

    def recipe_trial(self, options, cell, seed):
        """A trial of a cell (initial standard deviation, rate) of the grid of recipes."""
        std, rate = cell
        return self.trial(seed, {**options, "init_std": std, "hold_out": HELD_OUT, "learning_rate": rate})

    def losses(self, cells, count, trial):
        """{cell: {tuning seed: loss}} with `count` seeds, of the runs trial(cell, seed)."""
        seeds = tuning_seeds(count)
        losses = iter(self.lab.losses_of([trial(cell, seed) for cell in cells for seed in seeds]))
        return {cell: {seed: next(losses) for seed in seeds} for cell in cells}

    def best_rate(self, rates, count, options):
        """(the best learning rate, its losses)."""
        found = self.losses([(rate,) for rate in rates], count, lambda cell, seed: self.trial(seed, {**options, "learning_rate": cell[0]}))
        ends = None if count > 1 else ()  # one seed has no standard error: then they win as others do
        best = ordered_cells([Axis("learning-rate", rates)], found, tuning_seeds(count), ends)[0]
        return best[0], found[best]

    def tuned(self, choices=({},), rates=None, seeds=None, **options):
        """The best of some choices of further options, each at its best learning rate. seeds: their number."""
        rates = rates or self.size.rates
        found = [(choice, *self.best_rate(rates, seeds or self.size.tuning, {**options, **choice})) for choice in choices]
        choice, rate, _ = min(found, key=lambda one: rank(one[2]))
        return {**choice, "learning_rate": rate, "at_end": len(rates) > 1 and rate in (min(rates), max(rates))}

    def near(self, best, choices=({},), step=2, seeds=1, **options):
        """The best of some choices, each at a recipe's initialization, and at its rate or one that is `step` quarters of a
        decade less or more."""
        rates = [beside(best["learning_rate"], some) for some in (-step, 0, step)]
        found = self.tuned(choices, rates, seeds, init_std=best["init_std"], hold_out=HELD_OUT, **options)
        return {"init_std": best["init_std"], **found}

    # ---- recipes: an initialization and a learning rate together -----------------------------------

    def recipes(self, rows, rates=None):
        """{variant: its best two recipes}. rows: options of variants, which are searched in lockstep; a variant is a tuple
        of its options. rates: the grid, if not the size's. The recipes of a large model are searched around a smaller
        one's."""
        key = self.label, self.size.name, *(tuple(row.items()) for row in rows)
        if key not in self.found:
            if self.size.smaller:
                starts = self.on(size=self.size.smaller).recipes(rows, rates)
                self.found[key] = {variant: self.around(best[0], dict(variant)) for variant, best in starts.items()}
            else:
                self.found[key] = self.searched(key[2:], rates or self.size.rates)
        return self.found[key]

    def searched(self, variants, rates):
        """The recipes of these variants by the rules of study/tuning.py. Cells a quarter of a decade beside the best two are
        tried too."""
        size = self.size
        axes = [Axis(name, [*map(value_text, values)]) for name, values in
                (("init-std", size.pick(STDS[:2], STDS)), ("learning-rate", size.pick(rates, rates[-5:])))]
        search = Search(variants, axes, lambda wanted: self.lab.losses_of(
            [self.recipe_trial(dict(variant), cell, seed) for variant, cell, seed in wanted]), None, lambda text: None)
        found = {variant: one.cells[:2] for variant, one in search.full_grid(size.recipe_seeds()).items()}
        for variant, cells in found.items():
            options = dict(variant)
            if not size.small:
                cells = self.best_cells(options, [(std, beside(rate, step)) for std, rate in cells for step in (0, -1, 1)])
            found[variant] = [recipe_of(cell, any(value in (axis.values[0], axis.values[-1]) for axis, value in zip(axes, cell)))
                              for cell in cells[:2]]
        return found

    def around(self, start, options):
        """The best two recipes of a large model. From a smaller one's, its neighbours are tried, twice or half the initial
        standard deviation and half a decade of the learning rate away, and then those of the best one; each variant has
        ROUNDS such rounds."""
        middle, cells = (start["init_std"], start["learning_rate"]), []
        for _ in range(ROUNDS):
            std, rate = middle
            cells += [(std, rate), (std / 2, rate), (2 * std, rate), (std, beside(rate, -2)), (std, beside(rate, 2))]
            best = self.best_cells(options, cells)
            at_end, middle = best[0] != middle, best[0]
        best = self.best_cells(options, best[:FINALISTS], MORE_TUNING.get((self.label, self.size.name)))
        return [recipe_of(cell, at_end) for cell in best]

    def best_cells(self, options, cells, seeds=None):
        """The cells of the grid of recipes, the best first. seeds: the number of tuning seeds, if not the size's."""
        losses = self.losses(dict.fromkeys(cells), seeds or self.size.recipe_seeds(),
                             lambda *words: self.recipe_trial(options, *words))
        return sorted(losses, key=lambda cell: rank(losses[cell]))


def recipe_of(cell, at_end):
    return {"init_std": cell[0], "learning_rate": cell[1], "at_end": at_end}


def tuning_seeds(count):
    return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + count)


def beside(rate, steps):
    """The rate `steps` quarters of a decade away, within 1e-4 and 10; if a grid grew beyond these, no further out."""
    return min(max(QUARTERS[QUARTERS.index(rate) + steps], min(rate, 1e-4)), max(rate, 10.0))
