"""The search of tune.py: which cells are tried, with which seeds, by the rules of selection.py.

All variants share one grid and are searched in lockstep, so that every variant gets the same number of trials. A trial
is one run.
"""
from collections import namedtuple
import itertools
import math

from ablate.selection import (FIRST_TUNING_SEED, complete_cells, ends_of, fill, ordered_cells, rank,
                       unstable_seeds, wished_cells)

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
        """What is measured of these cells."""
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
