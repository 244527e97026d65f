"""The parts of an experiment: sizes, runs, and the tuning of each variant's learning rate.

A run's name follows from its options, so equal runs of several experiments are one run. A variant's learning rates
are tried with tuning seeds (from 101 on). The best one, chosen by the rules of study/tuning.py, is then judged with other
seeds (1, 2, ...). So some runs are known only when others have ended, and report.py plans, runs and plans again until
nothing is missing.
"""
from collections import namedtuple
from dataclasses import dataclass, replace
import functools
import math
import shlex
import zlib

from claims.fact_table import value_text, variant_text
from common.run_options import watching
from study.tuning import FIRST_TUNING_SEED, Axis, Search, ordered_cells, rank

DEFAULT_RATE = 1e-3
NORMS = ("none", "ln", "bn", "rms", "gn", "scale", "dyt")  # those that E1 compares
# Options of experiments at ./train's own values.
DEFAULTS = {"placement": "pre", "init": "gpt2", "qk-norm": "off", "bn-axis": "batch+time",
            "grad-accum": 1, "dropout": 0}
NAMED = ("norm", "placement")  # options that every variant names
HELD_OUT = 0.1  # of the training split: what recipes are tuned on, so that they leave the validation split unread
ROUNDS = 3  # in which a large model's recipe is searched around a smaller one's
STDS = (0.02, 0.04, 0.08, 0.16)  # initial standard deviations of a recipe
QUARTERS = tuple(float(f"{digits}e{power}") for power in range(-6, 3) for digits in ("1", "1.8", "3", "5.6"))  # of a decade

# A run of ./train: options without the corpus; the corpus's label; what the experiment calls this
# variant; the seed; what is measured of it.
Run = namedtuple("Run", "options corpus variant seed measures", defaults=[()])


@dataclass(frozen=True)
class Size:
    """options: of every run. rates: the grid. seeds: judged ones. tuning: the number of tuning seeds.
    norms: of E1. evaluated: characters that an evaluation measures, 0 for all. small: a trial of the report
    itself. full: all of it. long: also a pair of long runs. brief: without what only claims and pictures read.
    smaller: the next smaller size of its level, around whose recipes this one's are searched. Models whose width, depth
    or rate an experiment fixes by itself are run at the smallest size only."""
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
    brief: bool = False
    smaller: "Size" = None

    def __getitem__(self, name):
        return self.options[name]

    def judged(self, at_most=None, at_least=0, if_full=0):
        """The judged seeds; at_least: of runs that are cheap, or of which few seeds decide nothing; if_full: of the
        smallest models in a full report."""
        at_least = max(at_least, if_full if self.full and not self.smaller else 0)
        return range(1, max(min(self.seeds, at_most or self.seeds), 0 if self.small else at_least) + 1)

    def recipe_seeds(self):
        """The number of tuning seeds of a recipe."""
        return 1 if self.small or self.smaller else 2

    def tokens(self):
        return self["max-iters"] * self["batch-size"] * self["block-size"]

    def pick(self, small, quick, full=None):
        """One of three values, by how long this report may take. full: if it is another one than `quick`."""
        return small if self.small else full if self.full and full is not None else quick


XS = Size("XS", {"n-layer": 2, "n-head": 4, "n-embd": 32, "block-size": 32, "batch-size": 12,
                 "max-iters": 400, "warmup-iters": 100})
S = Size("S", {"n-layer": 4, "n-head": 4, "n-embd": 64, "block-size": 64, "batch-size": 12,
               "max-iters": 1000, "warmup-iters": 100}, evaluated=49152)
M = Size("M", {"n-layer": 4, "n-head": 4, "n-embd": 128, "block-size": 64, "batch-size": 12,
               "max-iters": 2000, "warmup-iters": 100}, evaluated=98304)
MINI = Size("mini", {"n-layer": 1, "n-head": 2, "n-embd": 16, "block-size": 16, "batch-size": 4,
                     "max-iters": 20, "warmup-iters": 2},
            rates=(1e-3, 1e-2), seeds=2, tuning=1, norms=NORMS[:5], evaluated=512, small=True)


def shorter(name, updates, **how):
    """The size S with fewer updates."""
    return replace(S, name=name, options={**S.options, "max-iters": updates}, **how)


# In so few updates the lowest rate is never the best.
QUICK = replace(XS, rates=XS.rates[1:])
BRIEF = replace(XS, seeds=6, brief=True)

# What a level of the report runs: sizes of the core experiments, and of all others. The
# largest has fewer seeds and rates.
FULL = [replace(XS, full=True, seeds=16)]
FULL += [replace(S, full=True, seeds=16, smaller=FULL[0])]
FULL += [replace(M, full=True, seeds=8, smaller=FULL[1], tuning=2, rates=M.rates[1:5], norms=NORMS[:4])]
LEVELS = {
    "mini": ([MINI], [MINI]),
    "quick": ([QUICK, shorter("S (220 steps)", 220, rates=(1e-3, 1e-2), norms=NORMS[:4], evaluated=12288,
                              smaller=QUICK)], [QUICK]),
    "text": ([BRIEF, shorter("S (400 steps)", 400, seeds=6, brief=True, smaller=BRIEF)], []),
    "full": (FULL, [replace(size, seeds=8) for size in FULL[:2]]),
}
FULL_SIZES = tuple(size.name for size in FULL)


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
    words.append(f"--corpus={paths.get(run.corpus, run.corpus)}")
    return " ".join([name, *map(shlex.quote, words)])


class Rate(float):
    """A tuned learning rate. tried: one of the runs that tried it. at_end: whether a better recipe could be beyond the
    grid. is_safer: whether another rate has a lower mean, which may not win by the rules of study/tuning.py."""

    def __new__(cls, rate, tried, at_end, is_safer=False):
        found = super().__new__(cls, rate)
        found.tried, found.at_end, found.is_safer = tried, at_end, is_safer
        return found

    def is_of(self, run):
        """Whether it was tuned for this run, and not for one with another text or other options."""
        return (run.corpus, deciding(run)) == (self.tried.corpus, deciding(self.tried))


def deciding(run):
    """The options that change the result, except for the learning rate."""
    return {name: value for name, value in run.options.items()
            if name not in watching() and name not in ("learning-rate", "hold-out")}


class Unknown(Exception):
    """A run that has to be known has not ended."""


def known(find):
    """find(), whose value is None if it raises Unknown."""
    def found(*words):
        try:
            return find(*words)
        except Unknown:
            return None
    return found


class Study:
    """The runs of a size on a text, and the recipes of its variants: options with a tuned learning rate, found among
    runs that have ended, or None as long as these have not. wanted: the runs that were tried, or have to be. supposed:
    the loss of runs that have not ended, for estimates: if all are equal, the number of runs is that of the plan, except
    where judged runs are also runs of a grid."""

    def __init__(self, size, label, lab, supposed=None):
        self.size, self.label, self.lab, self.supposed, self.wanted, self.found = size, label, lab, supposed, [], {}

    def on(self, label=None, size=None):
        """The study of another text or size, which wants its runs for this one."""
        other = Study(size or self.size, label or self.label, self.lab, self.supposed)
        other.wanted, other.found = self.wanted, self.found
        return other

    def run(self, variant, seed, measures, options):
        """A run with these options by their Python names (n_embd for n-embd). Options with ./train's own values are
        left out, so that equal runs are one run."""
        options = {**self.size.options, **{name.replace("_", "-"): value for name, value in options.items()}}
        options = {name: value for name, value in options.items() if DEFAULTS.get(name) != value}
        tokens = options["batch-size"] * options["block-size"]
        options.setdefault("eval-interval", max(1, options["max-iters"] // 10))
        options.setdefault("eval-iters", math.ceil(self.size.evaluated / tokens))
        return Run(options, self.label, variant_text(variant), seed, tuple(measures))

    def runs(self, names=(), measures=("ending",), seeds=None, recipe=(), **options):
        """A run for each seed, by default each judged one; none until the recipe, which has options too, is known.
        names: what the variant is called beside its norm and placement; None leaves one of these out."""
        named = {**{name: options[name] for name in NAMED if name in options}, **dict(names)}
        named = {name: value for name, value in named.items() if value is not None}
        seeds = () if recipe is None else self.size.judged() if seeds is None else seeds
        return [self.run(named, seed, measures, {**options, **dict(recipe)}) for seed in seeds]

    def from_start(self, factor, runs):
        """These runs, from initial weights whose positions have a channel multiplied by the factor."""
        return [self.lab.with_start(run, factor) for run in runs]

    # ---- tuning ----------------------------------------------------------------------------------

    def trial(self, seed, options):
        """A run that is tried. Only its last loss counts."""
        updates = options.get("max_iters", self.size["max-iters"])
        return self.run("", seed, ("ending",), {**options, "eval_interval": updates})

    def recipe_trial(self, options, cell, seed):
        """A trial of a cell (initial standard deviation, rate) of the grid of recipes."""
        std, rate = cell
        return self.trial(seed, {**options, "init_std": std, "hold_out": HELD_OUT, "learning_rate": rate})

    def tried(self, runs):
        """The final losses of these runs, infinite where a run did not train. Raises Unknown as long as one has not
        ended."""
        self.wanted += runs
        losses = [self.supposed if loss is None else loss for loss in map(self.lab.loss_of, runs)]
        if None in losses:
            raise Unknown
        return losses

    def losses(self, cells, count, trial):
        """{cell: {tuning seed: loss}} with `count` seeds, of the runs trial(cell, seed)."""
        seeds = tuning_seeds(count)
        losses = iter(self.tried([trial(cell, seed) for cell in cells for seed in seeds]))
        return {cell: {seed: next(losses) for seed in seeds} for cell in cells}

    @known
    def best_rate(self, rates, count, options):
        """(the best Rate, its losses)."""
        def trial(cell, seed):
            return self.trial(seed, {**options, "learning_rate": cell[0]})

        found = self.losses([(rate,) for rate in rates], count, trial)
        ends = None if count > 1 else ()  # one seed has no standard error: then they win as others do
        best = ordered_cells([Axis("learning-rate", rates)], found, tuning_seeds(count), ends)[0]
        is_safer = rank(found[best])[1:] > min(rank(losses)[1:] for losses in found.values())
        at_end = len(rates) > 1 and best[0] in (min(rates), max(rates))
        return Rate(best[0], trial(best, FIRST_TUNING_SEED), at_end, is_safer), found[best]

    def tuned(self, choices=({},), rates=None, seeds=None, **options):
        """The best of some choices of further options, each at its best learning rate. seeds: their number."""
        found = [(choice, self.best_rate(rates or self.size.rates, seeds or self.size.tuning, {**options, **choice}))
                 for choice in choices]
        if not all(best for _, best in found):
            return None
        choice, (rate, _) = min(found, key=lambda one: rank(one[1][1]))
        return {**choice, "learning_rate": rate}

    def near(self, best, choices=({},), step=2, seeds=1, **options):
        """The best of some choices, each at a recipe's initialization, and at its rate or one that is `step` quarters
        of a decade less or more."""
        rates = [beside(best["learning_rate"], some) for some in (-step, 0, step)]
        found = self.tuned(choices, rates, seeds, init_std=best["init_std"], hold_out=HELD_OUT, **options)
        return found and {"init_std": best["init_std"], **found}

    # ---- recipes: an initialization and a learning rate together -----------------------------------

    def recipes(self, rows, rates=None):
        """{variant: its best two recipes, [{"init_std", "learning_rate"}]} of those that are known. rows: options of
        variants, which are searched in lockstep; a variant is a tuple of its options. rates: the grid, if not the
        size's. The recipes of a large model are searched around a smaller one's."""
        key = self.label, self.size.name, *(tuple(row.items()) for row in rows)
        if self.size.smaller:
            starts = self.on(size=self.size.smaller).recipes(rows, rates)
            found = {variant: self.around(best[0], dict(variant)) for variant, best in starts.items()}
            return {variant: best for variant, best in found.items() if best}
        if not self.found.get(key):
            self.found[key] = self.searched(key[2:], rates or self.size.rates)
        return self.found[key] or {}

    @known
    def searched(self, variants, rates):
        """The recipes of these variants by the rules of study/tuning.py. Cells a quarter of a decade beside the best two are
        tried too."""
        size = self.size
        rates = size.pick(rates, rates[-3:], rates[-5:])
        axes = [Axis(name, [*map(value_text, values)]) for name, values in
                (("init-std", size.pick(STDS[:2], STDS)), ("learning-rate", rates))]
        search = Search(variants, axes, lambda wanted: self.tried(
            [self.recipe_trial(dict(variant), cell, seed) for variant, cell, seed in wanted]), None, lambda text: None)
        found = {variant: one.cells[:2] for variant, one in search.full_grid(size.recipe_seeds()).items()}
        for variant, cells in found.items():
            options = dict(variant)
            if not size.small:
                cells = self.best_cells(options, [(std, beside(rate, step))
                                                  for std, rate in cells for step in (0, -1, 1)])
            found[variant] = [self.recipe(options, cell, any(value in (axis.values[0], axis.values[-1])
                                                             for axis, value in zip(axes, cell)))
                              for cell in cells[:2]]
        return found

    @known
    def around(self, start, options):
        """The best two recipes of a large model. From a smaller one's, its neighbours are tried, twice or half the
        initial standard deviation and half a decade of the learning rate away, and then those of the best one; each
        variant has ROUNDS such rounds."""
        middle, cells = (start["init_std"], float(start["learning_rate"])), []
        for _ in range(ROUNDS):
            std, rate = middle
            cells += [(std, rate), (std / 2, rate), (2 * std, rate), (std, beside(rate, -2)), (std, beside(rate, 2))]
            best = self.best_cells(options, cells)
            at_end, middle = best[0] != middle, best[0]
        return [self.recipe(options, cell, at_end) for cell in best[:2]]

    def best_cells(self, options, cells):
        """The cells of the grid of recipes, the best first."""
        trial = functools.partial(self.recipe_trial, options)
        losses = self.losses(dict.fromkeys(cells), self.size.recipe_seeds(), trial)
        return sorted(losses, key=lambda cell: rank(losses[cell]))

    def recipe(self, options, cell, at_end):
        rate = Rate(cell[1], self.recipe_trial(options, cell, FIRST_TUNING_SEED), at_end)
        return {"init_std": cell[0], "learning_rate": rate}


def tuning_seeds(count):
    return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + count)


def beside(rate, steps):
    """The rate `steps` quarters of a decade away, within 1e-4 and 10; if a grid grew beyond these, no further out."""
    return min(max(QUARTERS[QUARTERS.index(rate) + steps], min(rate, 1e-4)), max(rate, 10.0))


# ---- costs ---------------------------------------------------------------------------------------

# On one core with AVX2: for a token of a layer and a channel, and to start and measure a run. A Zen 5 takes a third to
# half of it (XS 0.5 s, S 11, M 43), a Zen 4 two thirds.
SECONDS, START = 1.1e-7, 0.3


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
