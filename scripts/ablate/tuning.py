"""The search of tune.py by the rules of selection.py: which cells are tried, with which seeds; and the runs, their names,
the list that ablate.sh does, and how they ended.

All variants share one grid and are searched in lockstep, so that every variant gets the same number of trials. A trial
is one run. A run's name follows from its options, so a run that has ended is not repeated, whoever asks for it: after a
kill the same command plans the same runs and does those that are missing.
"""
from collections import namedtuple
import itertools
import math
import os
import re
import shlex
import subprocess
import sys
import zlib

from ablate.comparisons import outcome_of, refuse_mixed, value_of
from ablate.selection import (FIRST_TUNING_SEED, complete_cells, ends_of, fill, ordered_cells, rank, unstable_seeds,
                              wished_cells)
from common.command_line import teller, write_whole
from common.run_options import own_name
from common.runs import RunError, read_text
import table

# ---- runs ----------------------------------------------------------------------------------------

ABLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ablate.sh")
INTERRUPTED = (129, 130, 143)


def write_wanted(out, lines):
    """Writes the list of runs OUT/wanted.txt; returns its path."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "wanted.txt")
    write_whole(path, "".join(f"{line}\n" for line in lines))
    return path


def run_grid(out, lines, options, train):
    """Does runs in OUT/ablation, an ablation's folder; what ablate.sh prints is appended to OUT/ablate.log. options: of
    ablate.sh. Runs that fail are in the folder's records, and ablate.sh says so. It ends by itself after Ctrl-C; then this
    program ends too. Returns its exit status."""
    words = [ABLATE, f"--grid={write_wanted(out, lines)}", f"--out={out}/ablation", *options]
    with open(os.path.join(out, "ablate.log"), "ab") as file, subprocess.Popen(
            words, stdout=file, env={**os.environ, "TRAIN": os.path.abspath(train)}) as process:
        try:
            status = process.wait()
        except SystemExit:
            process.terminate()
            raise
    if status in INTERRUPTED:
        sys.exit(status)
    return status


# What a run of tune.py gets unless the options after -- say otherwise: only the last loss counts, on all of a split.
OWN = {"sample": "0", "checkpoint-interval": "0", "eval-iters": "0", "eval-interval": "1000000000"}
REFUSED = 2  # ./train's exit status for values that contradict each other


say = teller("tune")


def option_name(word):
    """The option that a word of a command names, by its own name; "" for an operand."""
    return own_name(word) if word.startswith("--") else ""


def words_of(options):
    return [f"--{name}={table.text_of(value, name)}" for name, value in options.items()]


class Runs:
    """The runs in OUT/ablation, an ablation's folder.

    common   words that every run gets
    options  of ablate.sh
    """

    def __init__(self, out, common, options, train):
        self.out, self.folder = out, os.path.join(out, "ablation")
        self.options, self.train = options, train
        given = {option_name(word) for word in common}
        self.common = [f"--{name}={value}" for name, value in OWN.items() if name not in given] + common
        self.first = None

    def name_of(self, options, seed):
        """A name that depends on the options and words alone."""
        words = words_of(options)
        shown = re.sub("[^A-Za-z0-9._+=-]", "_", "-".join(word[2:] for word in words))[:120]
        return f"{shown}-{zlib.crc32(' '.join(words + self.common).encode()):08x}-s{seed}"

    def line_of(self, options, seed):
        words = [*words_of(options), f"--seed={seed}", *self.common]
        return " ".join([self.name_of(options, seed), *map(shlex.quote, words)])

    def loss_of(self, options, seed):
        """The run's final validation loss; infinity if it diverged, is stuck, or ./train refuses its options; None
        if it has not ended, or failed."""
        name = self.name_of(options, seed)
        path, status = os.path.join(self.folder, "runs", name), table.read_status(self.folder, name)
        if status == REFUSED:
            return math.inf
        outcome = outcome_of(path, status, say)
        if outcome is None or outcome.status == "failed":
            return None
        if self.first is None:
            self.first = outcome
        refuse_mixed(self.first, outcome, False)
        return value_of(outcome, "val_loss") if outcome.status == "done" else math.inf

    def message_of(self, options, seed):
        """The last line that the run printed."""
        path = os.path.join(self.folder, "driver", self.name_of(options, seed) + ".out")
        return ((read_text(path) or "").strip().splitlines() or ["no message"])[-1]

    def measure(self, wanted):
        """[loss] of the runs [(options, seed)], which are done if they are not there."""
        found = [self.loss_of(*run) for run in wanted]
        missing = [run for run, loss in zip(wanted, found) if loss is None]
        if not missing:
            return found
        status = run_grid(self.out, [self.line_of(*run) for run in missing], self.options, self.train)
        if status not in (0, 1):
            raise RunError(f"{self.out}/wanted.txt: ablate.sh does not run it (see above)")
        found = [self.loss_of(*run) for run in wanted]
        failed = [run for run, loss in zip(wanted, found) if loss is None]
        if failed:
            raise RunError(f"{len(failed)} of {len(wanted)} runs failed (the same command tries them again): "
                           f"{self.message_of(*failed[0])}")
        if self.first is None and all(table.read_status(self.folder, self.name_of(*run)) == REFUSED
                                      for run in wanted):
            raise RunError(self.message_of(*wanted[0]).removeprefix("train: "))
        return found


# ---- the search ----------------------------------------------------------------------------------

# What was found for a variant: its cells that have all seeds, the best first; their losses; the options whose value
# in the best cell is at an end of the grid; and whether that cell is unstable.
Found = namedtuple("Found", "cells losses at_end unstable")


class Search:
    """variants: any hashable. measure([(variant, cell, seed)]) returns their losses. limit: the trials of a variant,
    or None. say(text) reports the progress.

    measured  {variant: {cell: {seed: loss}}}
    """

    def __init__(self, variants, axes, measure, limit, say):
        self.variants, self.axes, self.limit, self.say = variants, axes, limit, say
        self.measure = measure
        self.measured = {variant: {} for variant in variants}

    def trials(self):
        """The number of trials of each variant."""
        counts = {sum(map(len, cells.values())) for cells in self.measured.values()}
        assert len(counts) == 1, f"variants have different numbers of trials: {counts}"
        return counts.pop()

    def try_cells(self, wanted, seeds, what):
        """Measures {variant: cells} with these seeds."""
        runs = [(variant, cell, seed) for variant, cells in wanted.items() for cell in cells for seed in seeds
                if seed not in self.measured[variant].get(cell, {})]
        if runs:
            self.say(f"{what}: {len(runs) // len(self.variants)} trials for each of {len(self.variants)} variants")
        for (variant, cell, seed), loss in zip(runs, self.measure(runs)):
            self.measured[variant].setdefault(cell, {})[seed] = loss
        self.trials()

    # ---- one grid --------------------------------------------------------------------------------

    def cells_of(self, base, searched):
        """The cells of the grid over the searched axes; the other values are those of `base`."""
        values = [axis.values if place in searched else (base[place],)
                  for place, axis in enumerate(self.axes)]
        return list(itertools.product(*values))

    def on_grid(self, variant, base, searched):
        """The measurements of these cells."""
        return {cell: self.measured[variant][cell] for cell in self.cells_of(base, searched)
                if cell in self.measured[variant]}

    def room(self):
        return None if self.limit is None else self.limit - self.trials()

    def search_grid(self, bases, searched, seeds):
        """Searches the axes `searched` from {variant: base}. Returns {variant: its cells that have all seeds, the
        best first}, or None where there is no room for more trials."""
        names = ", ".join(f"--{self.axes[place].name}" for place in searched)
        while True:
            first = {variant: [cell for cell in self.cells_of(bases[variant], searched)
                               if seeds[0] not in self.measured[variant].get(cell, {})]
                     for variant in self.variants}
            if self.limit is not None and max(map(len, first.values())) > self.room():
                return None
            self.try_cells(first, seeds[:1], f"{names}: all values, seed {seeds[0]}")
            self.halve(bases, searched, seeds, names)
            best = {variant: ordered_cells(self.axes, self.on_grid(variant, bases[variant], searched), seeds,
                                           searched) for variant in self.variants}
            if not all(best.values()):
                return None
            if not self.grow({variant: cells[0] for variant, cells in best.items()}, searched, seeds):
                return best

    def halve(self, bases, searched, seeds, names):
        """Gives the best cells and their neighbours the other seeds, until they have all."""
        while True:
            grids = {variant: self.on_grid(variant, bases[variant], searched) for variant in self.variants}
            wished = {variant: wished_cells(self.axes, grid, seeds, searched) for variant, grid in grids.items()}
            count = max(map(len, wished.values()))
            if self.limit is not None:
                count = min(count, self.room() // (len(seeds) - 1))
            if count <= 0:
                return
            self.try_cells({variant: fill(wished[variant], grids[variant], seeds, count)
                            for variant in self.variants}, seeds,
                           f"{names}: the best values and their neighbours, seeds {seeds[1]} to {seeds[-1]}")

    def fits(self, grown, searched, seeds):
        """Whether there is room for the cells of the grown axes, and for the other seeds of one."""
        lengths = [len(self.axes[place].values) for place in searched]
        more = [sum(place == one for one, _ in grown) for place in searched]
        cells = math.prod(map(sum, zip(lengths, more))) - math.prod(lengths)
        return self.limit is None or cells + len(seeds) - 1 <= self.room()

    def grow(self, best, searched, seeds):
        """Grows the axes for all variants where the best cell of one is at an end. Whether one grew."""
        grown = {(end.axis, end.side) for cell in best.values() for end in ends_of(self.axes, cell, searched)
                 if self.axes[end.axis].may_grow(end.side)}
        if not self.fits(grown, searched, seeds):
            return False
        for place, side in sorted(grown):
            axis = self.axes[place]
            axis.grow(side)
            if not axis.closed[side]:
                self.say(f"--{axis.name} grows to {axis.values[-side]:g}: the best value is at this end")
        return bool(grown)

    # ---- the whole search ------------------------------------------------------------------------

    def found(self, best, seeds):
        """{variant: Found}."""
        def one(variant, cells):
            ends = ends_of(self.axes, cells[0], range(len(self.axes)))
            losses = complete_cells({cell: self.measured[variant][cell] for cell in cells}, seeds)
            return Found(cells, losses, [self.axes[end.axis].name for end in ends],
                         bool(unstable_seeds(losses[cells[0]])))

        return {variant: one(variant, cells) for variant, cells in best.items()}

    def others(self, variant, best, seeds):
        """The other cells that have these seeds, the best first."""
        complete = complete_cells(self.measured[variant], seeds)
        return sorted(complete.keys() - {best}, key=lambda cell: (rank(complete[cell]), str(cell)))

    def full_grid(self, count):
        """Every combination of values, with `count` seeds. None if there is no room for it."""
        seeds = list(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + count))
        bases = {variant: tuple(axis.middle() for axis in self.axes) for variant in self.variants}
        best = self.search_grid(bases, range(len(self.axes)), seeds)
        return best and self.found(best, seeds)

    def by_axes(self, count, rounds):
        """One axis after another, the others at the best values so far, in rounds with `count` seeds of their own. Ends
        after a round in which no variant changed. None if there is no room for the first axis."""
        bases = {variant: tuple(axis.middle() for axis in self.axes) for variant in self.variants}
        found = None
        for turn in range(rounds):
            first = FIRST_TUNING_SEED + turn * count
            seeds, before = list(range(first, first + count)), dict(bases)
            for place in range(len(self.axes)):
                best = self.search_grid(bases, [place], seeds)
                if best is None:
                    return found
                bases = {variant: cells[0] for variant, cells in best.items()}
                found = self.found({variant: [cell, *self.others(variant, cell, seeds)]
                                    for variant, cell in bases.items()}, seeds)
            if bases == before:
                break
        return found
