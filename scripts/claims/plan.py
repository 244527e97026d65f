"""The parts of an experiment: sizes, runs, and the tuning of each variant's learning rate.

A run's name follows from its options, so equal runs of several experiments are one run. A variant's learning rates
are tried with tuning seeds (from 101 on). The best one, chosen as in tune.py (selection.py), is then judged with other
seeds (1, 2, ...). So some runs are known only when others have ended, and report.py plans, runs and plans again until
nothing is missing.
"""
from collections import namedtuple
from dataclasses import dataclass, field, replace
import math
import shlex
from typing import Callable
import zlib

from claims.fact_table import variant_text
from common.run_options import WATCHING
from ablate.selection import FIRST_TUNING_SEED, Axis, ordered_cells, rank
from ablate.tuning import Search

DEFAULT_RATE = 1e-3
NORMS = ("none", "ln", "bn", "rms", "gn", "scale", "dyt")  # those that E1 compares
# Options of experiments at ./train's own values.
DEFAULTS = {"placement": "pre", "init": "gpt2", "qk-norm": "off", "bn-axis": "batch+time",
            "grad-accum": 1, "dropout": 0}
HELD_OUT = 0.1  # of the training split: what recipes are tuned on, so that they leave the validation split unread
ROUNDS = 3  # in which a large model's recipe is searched around a smaller one's
STDS = (0.02, 0.04, 0.08, 0.16)  # initial standard deviations of a recipe
QUARTERS = (1e-4, 1.8e-4, 3e-4, 5.6e-4, 1e-3, 1.8e-3, 3e-3, 5.6e-3, 1e-2, 1.8e-2, 3e-2, 5.6e-2, 1e-1, 1.8e-1, 3e-1,
            5.6e-1, 1.0, 1.8, 3.0, 5.6, 10.0)

# A run of ./train: options without the corpus; the corpus's label; what the experiment calls this
# variant; the seed; what is measured of it.
Run = namedtuple("Run", "options corpus variant seed measures", defaults=[()])


@dataclass(frozen=True)
class Size:
    """options: of every run. rates: the grid. seeds: judged ones. tuning: the number of tuning seeds.
    norms: of E1. evaluated: characters that an evaluation measures, 0 for all. small: a trial of the report
    itself. full: all of it. long: also a pair of long runs. coarse: recipes are searched around those of the next smaller size. smallest: of its level; models whose width,
    depth or rate an experiment fixes by itself are run at this size only. brief: without what only claims and pictures
    read."""
    name: str
    options: dict
    rates: tuple = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    seeds: int = 5
    tuning: int = 4
    norms: tuple = NORMS
    evaluated: int = 12288
    small: bool = False
    full: bool = False
    long: bool = False
    coarse: bool = False
    smallest: bool = True
    brief: bool = False

    def __getitem__(self, name):
        return self.options[name]

    def judged(self, at_most=None, at_least=0):
        """The judged seeds; at_least: of runs that are cheap, or of which few seeds decide nothing."""
        count = max(min(self.seeds, at_most or self.seeds), 0 if self.small else at_least)
        return range(1, count + 1)

    def tuning_seeds(self):
        return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.tuning)

    def recipe_seeds(self):
        """The number of tuning seeds of a recipe."""
        return self.pick(1, *2 * [1 if self.coarse else 2])

    def tokens(self):
        return self["max-iters"] * self["batch-size"] * self["block-size"]

    def pick(self, small, quick, full):
        """One of three values, by how long this report may take."""
        return small if self.small else full if self.full else quick


XS = Size("XS", {"n-layer": 2, "n-head": 4, "n-embd": 32, "block-size": 32, "batch-size": 12,
                 "max-iters": 400, "warmup-iters": 100})
S = Size("S", {"n-layer": 4, "n-head": 4, "n-embd": 64, "block-size": 64, "batch-size": 12,
               "max-iters": 1000, "warmup-iters": 100}, evaluated=49152)
M = Size("M", {"n-layer": 4, "n-head": 4, "n-embd": 128, "block-size": 64, "batch-size": 12,
               "max-iters": 2000, "warmup-iters": 100}, evaluated=98304)
MINI = Size("mini", {"n-layer": 1, "n-head": 2, "n-embd": 16, "block-size": 16, "batch-size": 4,
                     "max-iters": 20, "warmup-iters": 2},
            rates=(1e-3, 1e-2), seeds=2, tuning=1, norms=NORMS[:5], evaluated=512, small=True)

# In so few updates the lowest rate is never the best.
QUICK = replace(XS, rates=XS.rates[1:])

# What a level of the report runs: sizes of the core experiments, and of all others. The
# largest has fewer seeds and rates.
FULL = [replace(XS, full=True, seeds=16), replace(S, full=True, seeds=16, coarse=True, smallest=False),
        replace(M, full=True, seeds=8, coarse=True, smallest=False, tuning=2, rates=M.rates[1:5],
                norms=NORMS[:4])]
LEVELS = {
    "mini": ([MINI], [MINI]),
    "quick": ([QUICK, replace(S, name="S (220 steps)", options={**S.options, "max-iters": 220},
                           rates=(1e-3, 1e-2), norms=NORMS[:4], evaluated=12288, coarse=True, smallest=False)],
              [QUICK]),
    "text": ([replace(XS, seeds=6, brief=True), replace(S, name="S (400 steps)", options={**S.options, "max-iters": 400},
                                                       seeds=6, brief=True, coarse=True, smallest=False)], []),
    "full": (FULL, [replace(size, seeds=8) for size in FULL[:2]]),
}
FULL_SIZES = tuple(size.name for size in FULL)


@dataclass(frozen=True)
class Experiment:
    """runs(size, tuned): the Runs, in any order; tuned(size, **options) is the best learning rate, or
    None as long as it is not known. alone: measurements that need no run: alone(lab) gives rows (variant,
    seed, metric, value). large: whether it is run at the largest size too. everywhere: whether it is run on every text,
    and not on the first one only. across: whether it compares texts, so that a fact's text is that of its run. timed:
    whether its facts are times.
    figure: (function of figures.py, its arguments)."""
    id: str
    title: str
    question: str
    varied: str
    cannot: str
    runs: Callable = lambda size, tuned: ()
    alone: tuple = ()
    large: bool = False
    everywhere: bool = False
    across: bool = False
    timed: bool = False
    figure: tuple = ()
    metrics: tuple = field(default=())  # of its table on the page

    def sizes(self, level, names=None):
        """The sizes of a level, smallest first; names: only those, None for all."""
        core, others = LEVELS[level]
        return [size for size in (core if self.large else others) if names is None or size.name in names]


def run_of(size, label, variant, seed, measures, **options):
    """A run at a size, with options by their Python names (n_embd for n-embd). Options with ./train's own
    values are left out, so that equal runs are one run."""
    options = {**size.options, **{name.replace("_", "-"): value for name, value in options.items()}}
    options = {name: value for name, value in options.items() if DEFAULTS.get(name) != value}
    tokens = options["batch-size"] * options["block-size"]
    options.setdefault("eval-interval", max(1, options["max-iters"] // 10))
    options.setdefault("eval-iters", math.ceil(size.evaluated / tokens))
    return Run(options, label, variant_text(variant), seed, tuple(measures))


def runs_of(size, label, variant, seeds, measures=("ending",), **options):
    """A run for each seed, none while the learning rate is not known."""
    for seed in seeds if options.get("learning_rate", 0) is not None else ():
        yield run_of(size, label, variant, seed, measures, **options)


def value_text(value):
    return f"{value:g}" if isinstance(value, float) else str(value)


def option_words(run):
    """The words of the command, without corpus and folder. A file is named by its label."""
    options = {"sample": 0, "checkpoint-interval": 0, **run.options, "seed": run.seed}
    return [f"--{name}" if value is True else f"--{name}={value_text(value)}"
            for name, value in sorted(options.items())]


def run_name(run, text_crc=0):
    """The same for runs of the same options on the same text, of which this is the checksum."""
    words = " ".join([*option_words(run), run.corpus, f"{text_crc:08x}"])
    return f"{run.corpus}-{run.options['norm']}-{zlib.crc32(words.encode()):08x}-s{run.seed}"


def grid_line(name, run, paths):
    """The line of grid.txt. paths: {label: path}; a label without a path is ./train's own word."""
    words = [f"--start={paths[word.split('=', 1)[1]]}" if word.startswith("--start=") else word
             for word in option_words(run)]
    words.append(f"--corpus={paths[run.corpus]}" if run.corpus in paths else f"--corpus={run.corpus}")
    return " ".join([name, *map(shlex.quote, words)])


class Rate(float):
    """A tuned learning rate. grid: the rates that were tried; tried: one of the runs that tried it. is_safer:
    whether another one has a lower mean, which may not win by the rules of selection.py. beside: whether the
    initialization that was tuned with it is at an end of its grid."""

    def __new__(cls, rate, grid, tried, is_safer=False, beside=False):
        found = super().__new__(cls, rate)
        found.grid, found.tried, found.is_safer, found.beside = tuple(grid), tried, is_safer, beside
        return found

    def at_end(self):
        """Whether a better recipe could be beyond the grid."""
        return len(self.grid) > 1 and self in (min(self.grid), max(self.grid)) or self.beside

    def is_of(self, run):
        """Whether it was tuned for this run, and not for one with another text or other options."""
        return (run.corpus, deciding(run)) == (self.tried.corpus, deciding(self.tried))


def deciding(run):
    """The options that change the result, except for the learning rate."""
    return {name: value for name, value in run.options.items()
            if name not in WATCHING and name not in ("learning-rate", "hold-out")}


class Unknown(Exception):
    """A run that has to be known has not ended."""


class Tuning:
    """Finds the best rate, or the best recipes, of variants among runs that have ended (Lab.loss_of). wanted: the
    runs that were tried, or have to be."""

    def __init__(self, label, lab):
        self.label, self.lab, self.wanted, self.found = label, lab, [], {}

    def on(self, label):
        """A tuning of the same kind for another text."""
        return type(self)(label, self.lab)

    def run(self, size, rate, seed, **options):
        """A run of the grid. Only its last loss counts."""
        updates = options.get("max_iters", size["max-iters"])
        return run_of(size, self.label, "", seed, ("ending",), learning_rate=rate,
                      **{**options, "eval_interval": updates})

    def loss_of(self, run):
        """The final loss: infinite if the run did not train, None until it has ended."""
        return self.lab.loss_of(run)

    def losses(self, size, rate, **options):
        """{tuning seed: loss_of()}."""
        return {seed: self.loss_of(self.run(size, rate, seed, **options)) for seed in size.tuning_seeds()}

    def __call__(self, size, rates=None, **options):
        rates, seeds = rates or size.rates, size.tuning_seeds()
        self.wanted += [self.run(size, rate, seed, **options) for rate in rates for seed in seeds]
        found = {(rate,): self.losses(size, rate, **options) for rate in rates}
        if any(None in losses.values() for losses in found.values()):
            return None
        ends = None if len(seeds) > 1 else ()  # one seed has no standard error: then they win as others do
        best = ordered_cells([Axis("learning-rate", rates)], found, seeds, ends)[0]
        is_safer = rank(found[best])[1:] > min(rank(losses)[1:] for losses in found.values())
        return Rate(best[0], rates, self.run(size, best[0], FIRST_TUNING_SEED, **options), is_safer)

    # ---- recipes: an initialization and a learning rate together -----------------------------------

    def recipe_run(self, size, cell, seed, **options):
        """A run of the grid of recipes. cell: (initial standard deviation, rate)."""
        std, rate = cell
        return self.run(size, rate, seed, init_std=std, hold_out=HELD_OUT, **options)

    def tried(self, size, wanted):
        """The losses of [(variant, cell, seed)]. A variant is a tuple of its options. Raises Unknown as long as one has
        not ended."""
        runs = [self.recipe_run(size, cell, seed, **dict(variant)) for variant, cell, seed in wanted]
        self.wanted += runs
        losses = [self.loss_of(run) for run in runs]
        if None in losses:
            raise Unknown
        return losses

    def known_cells(self, size, variant, cells):
        """{cell: losses} with all tuning seeds of a recipe. Raises Unknown as tried() does."""
        seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.recipe_seeds())
        losses = iter(self.tried(size, [(variant, cell, seed) for cell in cells for seed in seeds]))
        return {cell: {seed: next(losses) for seed in seeds} for cell in cells}

    def recipes(self, size, rows):
        """{variant: its best two recipes, [{"init_std", "learning_rate"}]}, or {} as long as they are not known. rows:
        options of variants, which are searched in lockstep by the rules of tune.py."""
        variants = [tuple(row.items()) for row in rows]
        key = size.name, *variants
        if key not in self.found:
            rates = size.pick(size.rates, size.rates[-3:], size.rates[-5:])
            axes = [Axis(name, [*map(value_text, values)]) for name, values in
                    (("init-std", size.pick(STDS[:2], STDS, STDS)), ("learning-rate", rates))]
            search = Search(variants, axes, lambda wanted: self.tried(size, wanted), None, lambda text: None)
            try:
                found = search.full_grid(size.recipe_seeds())
                self.found[key] = {variant: self.two_best(size, variant, one, axes)
                                   for variant, one in found.items()}
            except Unknown:
                return {}
        return self.found[key]

    def two_best(self, size, variant, found, axes):
        """The recipes of a Found. Cells a quarter of a decade beside the best two are tried too."""
        cells, ends = found.cells[:2], (axes[0].values[0], axes[0].values[-1])
        if not size.small:
            cells = best_first(self.known_cells(size, variant, dict.fromkeys(
                (std, beside(rate, step)) for std, rate in cells for step in (0, -1, 1))))
        return [self.recipe(size, cell, dict(variant), axes[1].values, cell[0] in ends) for cell in cells[:2]]

    def around(self, size, start, **options):
        """The best two recipes of a large model, or None as long as they are not known. From a smaller one's, its
        neighbours are tried, twice or half the initial standard deviation and half a decade of the learning rate
        away, and then those of the best one; each variant has ROUNDS such rounds."""
        middle, known = (start["init_std"], float(start["learning_rate"])), {}
        for _ in range(ROUNDS):
            std, rate = middle
            cells = [(std, rate), (std / 2, rate), (2 * std, rate), (std, beside(rate, -2)), (std, beside(rate, 2))]
            try:
                known.update(self.known_cells(size, tuple(options.items()), cells))
            except Unknown:
                return None
            at_end, middle = best_first(known)[0] != middle, best_first(known)[0]
        return [self.recipe(size, cell, options, (cell[1],), at_end) for cell in best_first(known)[:2]]

    def recipe(self, size, cell, options, rates, beside_end):
        """rates: those that were tried."""
        tried = self.recipe_run(size, cell, FIRST_TUNING_SEED, **options)
        return {"init_std": cell[0], "learning_rate": Rate(cell[1], rates, tried, beside=beside_end)}


def best_first(known):
    """The cells of {cell: losses}."""
    return sorted(known, key=lambda cell: rank(known[cell]))


def beside(rate, steps):
    """The rate `steps` quarters of a decade away, within QUARTERS."""
    return QUARTERS[min(max(QUARTERS.index(rate) + steps, 0), len(QUARTERS) - 1)]


# ---- costs ---------------------------------------------------------------------------------------

# On one core with AVX2: for a token of a layer and a channel, and to start and measure a run. A Zen 5 takes a third to
# half of it (XS 0.5 s, S 11, M 43), a Zen 4 two thirds.
SECONDS, START = 1.1e-7, 0.3


class Supposed(Tuning):
    """Tuning as it is if all runs end with the same loss, for estimates: the number of runs is then that of the plan, except
    where judged runs are also runs of a grid."""

    def loss_of(self, run):
        return super().loss_of(run) or 0.0


def seconds_of(run):
    """About how long a run takes on one core."""
    options = run.options
    tokens = options["max-iters"] * options["batch-size"] * options["block-size"] * options.get("grad-accum", 1)
    return START + SECONDS * tokens * options["n-layer"] * options["n-embd"]


def duration(seconds):
    """"40 seconds", "1 minute", "2.5 hours"."""
    for unit, size, form in (("hour", 3600, ".1f"), ("minute", 60, ".0f"), ("second", 1, ".0f")):
        if seconds >= 0.95 * size or size == 1:
            number = format(seconds / size, form).removesuffix(".0")
            return f"{number} {unit}" + "s" * (number != "1")


def words_of(runs, jobs):
    """"about 699 runs, up to 10 minutes on 2 cores"."""
    if not runs:
        return "no runs"
    count, cores = len(runs), f"{jobs} core{'s' * (jobs > 1)}"
    return f"about {count} run{'s' * (count > 1)}, up to {duration(sum(map(seconds_of, runs)) / jobs)} on {cores}"
