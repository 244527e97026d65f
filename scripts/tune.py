#!/usr/bin/env python3
"""Finds the best recipe of each variant: scripts/tune.py --norm=ln,bn --lr=1e-3,3e-3,1e-2 -- --n-layer=2 CORPUS

The lists before -- are values of options of ./train. Each combination of values of the options that --for names is a
variant. The other lists are axes, which are tuned for each variant. All variants get the same number of trials, with
seeds 101, 102, ... A trial validates on a tenth of the training split (--hold-out). Then the best two recipes of each
variant are trained with seeds 1, 2, ... and judged on the full validation split.

  search    each cell of the grid is trained with one seed; then the best three cells and their neighbours are
            trained with the other seeds. --search=axes tunes one axis after another, at the best values so far of
            the others
  ends      the lowest or highest number of an axis wins only if it beats its neighbour by a standard error of
            the paired difference; then the axis grows at this end, at most twice
  unstable  a value cannot win if a seed diverges, gets stuck (its loss does not fall), or has a final loss more
            than 0.1 nats above the median of the others

After a kill the same command continues. DIR/ablation is an ablation's folder, for table.py and compare.py.
"""
import itertools
import math
import os
import shlex
import sys
import zlib

from common import command_line

if __name__ == "__main__":
    command_line.require("tune", "report", "numpy", "scipy.stats")

from common.command_line import Parser, UsageError, csv_text, number, run, words, write_whole
from common.run_options import expect_train
from claims.inference import CONFIDENCE, t_interval
from common.runs import RunError
from ablate.selection import Axis, unstable_seeds
from ablate.tuning import Runs, Search, option_name, say, words_of
from table import text_of

SHOWN = 2  # recipes of a variant that are judged
PERCENT = f"{100 * CONFIDENCE:.0f} %"
OF_TUNING = ("seed", "hold-out", "out", "force", "resume", "generate", "evaluate")  # not for the user's runs


# ---- the command ---------------------------------------------------------------------------------

count = number(int, lambda value: value >= 1, "a whole number from 1 on")
fraction = number(float, lambda value: 0 < value < 1, "a number between 0 and 1")


def lists_of(given):
    """{option: values} of the words --NAME=A,B,... that are no options of this program."""
    found = {}
    for word in given:
        name, equals, values = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or not values:
            raise UsageError(f"{word}: not --NAME=A,B,... (options of every run and the corpus belong after --)")
        texts = values.split(",")
        if not all(texts) or len(set(texts)) < len(texts):
            raise UsageError(f"{word}: a value is empty or given twice")
        if name in OF_TUNING:
            raise UsageError(f"--{name}: tune.py sets it itself (leave it out)")
        if option_name(word) in map(option_name, (f"--{one}" for one in found)):
            raise UsageError(f"--{name}: is given twice")
        found[name] = texts
    return found


def read_command(arguments):
    own, common = arguments, []
    if "--" in arguments:
        place = arguments.index("--")
        own, common = arguments[:place], arguments[place + 1:]
    parser = Parser(allow_abbrev=False, description=__doc__, usage="scripts/tune.py [OPTION]... --NAME=A,B,... "
                    "[--NAME=A,B,...]... -- [OPTION of ./train]... [CORPUS]")
    add = parser.add_argument
    add("--for", dest="variants", type=lambda text: words(text) if text else [], default=["norm"],
        metavar="NAME,...", help="options whose values are variants; all others are tuned (default: norm)")
    add("--search", choices=("grid", "axes"), default="grid", help="try every combination of values (grid), or tune "
        "one axis after another (axes) (default: grid)")
    add("--rounds", type=count, default=2, metavar="N", help="maximum number of rounds of --search=axes, each with "
        "its own seeds (default: 2)")
    add("--seeds", type=count, default=4, metavar="N", help="number of tuning seeds of the best cells, at least 2 "
        "(default: 4)")
    add("--trials", type=count, metavar="N", help="maximum number of tuning runs per variant (default: no limit)")
    add("--judge-seeds", type=count, default=8, metavar="N", help="number of seeds that judge the best recipes, from 2 "
        "to 100 (default: 8)")
    add("--hold-out", type=fraction, default=0.1, metavar="X", help="fraction of the training split on which "
        "trials validate (default: 0.1)")
    add("--out", metavar="DIR", help="folder of all runs, to which more values can be added later (default: "
        "runs/tune-..., named by the options after --)")
    add("--jobs", type=count, metavar="N", help="number of runs side by side (default: one per core)")
    add("--csv", metavar="FILE", help="also write the losses of the judging seeds, one row per run")
    options, rest = parser.parse_known_args(own)
    options.lists, options.common = lists_of(rest), common
    check_command(options)
    options.out = options.out or os.path.join("runs", f"tune-{zlib.crc32(shlex.join(common).encode()):08x}")
    return options


def check_command(options):
    options.variants = [name for name in options.variants if name in options.lists or name != "norm"]
    for name in options.variants:
        if name not in options.lists:
            raise UsageError(f"--for={name}: has no values (give --{name}=A,B,...)")
    if all(name in options.variants for name in options.lists):
        raise UsageError("nothing to tune (give values of an option, such as --lr=1e-3,3e-3,1e-2)")
    if options.seeds < 2:
        raise UsageError("--seeds: at least 2 (one seed has no standard error)")
    if options.judge_seeds < 2 or options.judge_seeds > 100:
        raise UsageError("--judge-seeds: must be from 2 to 100 (tuning seeds start at 101)")
    for word in options.common:
        if option_name(word) in OF_TUNING:
            raise UsageError(f"{word}: tune.py sets it itself (leave it out)")
        if word.startswith("--") and option_name(word) in (option_name(f"--{name}") for name in options.lists):
            raise UsageError(f"{word}: is also a list before -- (give it once)")


# ---- variants and cells --------------------------------------------------------------------------

class Recipes:
    """Options of variants and cells. A variant is a tuple of values of options.variants."""

    def __init__(self, options):
        self.options = options
        self.variants = list(itertools.product(*(options.lists[name] for name in options.variants)))
        self.axes = [Axis(name, texts) for name, texts in options.lists.items() if name not in options.variants]

    def label(self, variant):
        return ", ".join(variant) or "recipe"

    def of(self, variant, cell):
        """{option: value}."""
        return {**dict(zip(self.options.variants, variant)),
                **{axis.name: value for axis, value in zip(self.axes, cell)}}

    def command(self, variant, cell):
        return shlex.join(["./train", *words_of(self.of(variant, cell)), *self.options.common])


def judged_losses(runs, recipes, found, seeds):
    """{variant: [losses]} of the best cells, as {seed: loss} on the validation split."""
    cells = [(variant, cell) for variant, one in found.items() for cell in one.cells[:SHOWN]]
    wanted = [(recipes.of(variant, cell), seed) for variant, cell in cells for seed in seeds]
    losses, judged = iter(runs.measure(wanted)), {variant: [] for variant in found}
    for variant, _ in cells:
        judged[variant].append({seed: next(losses) for seed in seeds})
    return judged


def write_csv(path, recipes, found, judged):
    """A row for each judging run. place: 1 of the best recipe, 2 of the second; at_end: options whose best value is at
    an end of its grid; unstable: whether all recipes that were tried are."""
    names = [*recipes.options.variants, *(axis.name for axis in recipes.axes)]
    rows = [[*names, "place", "at_end", "unstable", "seed", "val_loss"]]
    for variant, one in found.items():
        for place, (cell, losses) in enumerate(zip(one.cells, judged[variant]), 1):
            values = [text_of(recipes.of(variant, cell)[name], name) for name in names]
            rows += [[*values, place, " ".join(one.at_end), int(one.unstable), seed, f"{loss:.9g}"]
                     for seed, loss in losses.items()]
    write_whole(path, csv_text(rows))


# ---- words ---------------------------------------------------------------------------------------

def interval_text(values, form=".4f"):
    """The mean and its interval, unless a run did not train."""
    trained = sum(map(math.isfinite, values))
    if trained < len(values):
        return f"not measured: {trained} of {len(values)} runs trained"
    mean, low, high, _ = t_interval(values)
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"


def difference_text(losses, other):
    """The difference of two {seed: loss}; runs that did not train have none."""
    return interval_text([losses[seed] - other[seed] if math.isfinite(max(losses[seed], other[seed])) else math.inf
                          for seed in losses], "+.4f")


def flags_of(one):
    flags = [f"the best --{name} is at an end of the grid, and one beyond it may be better" for name in one.at_end]
    return flags + ["unstable with the tuning seeds, as are all values that were tried"] * one.unstable


def print_recipe(recipes, variant, one, judged):
    """The best two recipes of a variant and what they gave."""
    print(f"\n{recipes.label(variant)}")
    for place, (cell, losses) in enumerate(zip(one.cells, judged)):
        beside = f"; minus the best: {difference_text(losses, judged[0])}" if place else ""
        print(f"  {'second' if place else 'best'}: {recipes.command(variant, cell)}")
        print(f"    loss {interval_text(list(losses.values()))}{beside}; tuning loss "
              f"{sum(one.losses[cell].values()) / len(one.losses[cell]):.4f}")
        unstable = unstable_seeds(losses)
        if unstable:
            print(f"    unstable with judging seed{'s' * (len(unstable) > 1)} {' '.join(map(str, unstable))}: far above "
                  "the others, or not trained")
    for flag in flags_of(one):
        print(f"  {flag}")


def print_differences(recipes, judged):
    (first, losses), *others = judged.items()
    if others:
        print(f"\nbest recipes minus that of {recipes.label(first)}, paired by seed")
    for variant, own in others:
        print(f"  {recipes.label(variant)}: {difference_text(own[0], losses[0])}")


# ---- the program ---------------------------------------------------------------------------------

def tune(options):
    train = expect_train()
    recipes = Recipes(options)
    runs = Runs(options.out, options.common, [f"--jobs={options.jobs}"] if options.jobs else [], train)

    def measure(wanted):
        return runs.measure([({**recipes.of(variant, cell), "hold-out": options.hold_out}, seed)
                             for variant, cell, seed in wanted])

    search = Search(recipes.variants, recipes.axes, measure, options.trials, say)
    found = search.full_grid(options.seeds) if options.search == "grid" else \
        search.by_axes(options.seeds, options.rounds)
    if found is None:
        raise UsageError(f"--trials={options.trials}: too few for the values and their seeds (--search=axes tries one "
                         "axis after another)")
    seeds = range(1, options.judge_seeds + 1)
    say(f"judging: {SHOWN} recipes of each variant, seeds 1 to {options.judge_seeds}")
    judged = judged_losses(runs, recipes, found, seeds)
    print(f"{search.trials()} trials for each of {len(found)} variants. Judged by seeds 1 to {options.judge_seeds} on "
          f"the full validation split: mean loss and {PERCENT} interval.")
    for variant, one in found.items():
        print_recipe(recipes, variant, one, judged[variant])
    print_differences(recipes, judged)
    if options.csv:
        write_csv(options.csv, recipes, found, judged)


if __name__ == "__main__":
    sys.exit(run(say, lambda: tune(read_command(sys.argv[1:])), RunError,
                 interrupted="interrupted; the same command continues"))
