"""The tuning of a study: the rules by which a setting of the tuned options is chosen, and the search for it. The report
chooses by the same rules.

An axis is an option with its values. An axis of numbers is ordered and has two ends; an axis of words has none.
A cell is a tuple of values, one for each axis. Its losses are {seed: final loss}, infinite for a run that did not
train. All seeds here are tuning seeds: others judge what is chosen.

1. A cell is unstable if one of its seeds did not train, or ended more than FAR nats above the median of its other
   seeds. An unstable cell does not win as long as there is a stable one.
2. A cell with a value at an end of an axis wins only if it beats the inner neighbour on that axis: the mean of the
   paired differences over the seeds must exceed its standard error. An unstable neighbour is beaten.
3. Of the cells that may win, the one with the lowest mean loss does.
4. If the winner has a value at an end, the axis grows there by a value that continues the grid, at most GROWTHS
   times at each end. What is still at an end then is flagged.

Successive halving: all cells are tried with the first seed. The best BEST cells by it and their neighbours get the
other seeds; then the best BEST with all seeds and their neighbours, until these have all.

All variants are searched in lockstep: they share the axes, which grow for all of them, and each gets the same number of
trials. A trial is one run. A variant may lack an axis, because the option has no effect there. The trials that this saves
are spent on values between those of its other axes, beside its best cell.
"""
from collections import Counter, namedtuple
import copy
import itertools
import math
import statistics

from study.axis import HIGH, LOW, Axis
from study.statistics import deviation, paired

FIRST_TUNING_SEED = 101
FAR = 0.1    # nats
BEST = 3

# A value at an end: the index of the axis, LOW or HIGH, and the neighbour, with the next value on this axis.
End = namedtuple("End", "axis side inner")


# ---- cells ---------------------------------------------------------------------------------------

def moved(axes, cell, place, step):
    """The cell whose value on axis `place` is the next one in this direction; None beyond the end."""
    values = axes[place].values
    at = values.index(cell[place]) + step
    return (*cell[:place], values[at], *cell[place + 1:]) if 0 <= at < len(values) else None


def neighbours(axes, cell, searched):
    """The cells beside this one on the ordered axes of `searched`, which are indices."""
    found = [moved(axes, cell, place, step) for place in searched if axes[place].ordered for step in (-1, 1)]
    return [one for one in found if one]


def ends_of(axes, cell, searched):
    """The Ends at which the cell is."""
    found = []
    for place in searched:
        axis = axes[place]
        for side, step in ((LOW, 1), (HIGH, -1)):
            if axis.ordered and len(axis.values) > 1 and not axis.closed[side] and \
                    cell[place] == axis.values[-side]:
                found.append(End(place, side, moved(axes, cell, place, step)))
    return found


# ---- losses --------------------------------------------------------------------------------------

def unstable_seeds(losses):
    """The seeds that did not train, or ended far above the others."""
    def is_unstable(seed):
        others = [loss for other, loss in losses.items() if other != seed]
        return not math.isfinite(losses[seed]) or bool(others) and \
            losses[seed] - statistics.median(others) > FAR

    return [seed for seed in losses if is_unstable(seed)]


def rank(losses):
    """What cells are sorted by, the best first: stable ones, then how many seeds did not train, then the mean loss
    of those that did."""
    trained = [loss for loss in losses.values() if math.isfinite(loss)]
    return (bool(unstable_seeds(losses)), len(losses) - len(trained),
            statistics.fmean(trained) if trained else math.inf)


def beats(losses, other):
    """Whether the mean paired difference exceeds its standard error. `other` is None for a cell that is not
    measured: it is not beaten."""
    if other is None:
        return False
    if unstable_seeds(other):
        return True
    _, differences = paired(other, losses)
    return len(differences) > 1 and \
        bool(differences.mean() > deviation(differences) / math.sqrt(len(differences)))


def complete_cells(measured, seeds):
    """{cell: losses} of the cells that have all of these seeds."""
    return {cell: {seed: losses[seed] for seed in seeds} for cell, losses in measured.items()
            if all(seed in losses for seed in seeds)}


# ---- the choice ----------------------------------------------------------------------------------

def ordered_cells(axes, measured, seeds, searched=None):
    """The cells that have all seeds, the best first: those that may win by rules 1 and 2, then the others.
    measured: {cell: losses}. searched: the axes whose ends count; None for all."""
    complete = complete_cells(measured, seeds)
    searched = range(len(axes)) if searched is None else searched

    def may_win(cell):
        return not unstable_seeds(complete[cell]) and all(
            beats(complete[cell], complete.get(end.inner)) for end in ends_of(axes, cell, searched))

    return sorted(complete, key=lambda cell: (not may_win(cell), rank(complete[cell])))


def wished_cells(axes, measured, seeds, searched):
    """The cells that need the other seeds: of the best ones and their neighbours, those that lack some. The best
    ones are those with all seeds, and those by the first seed."""
    best = ordered_cells(axes, measured, seeds, searched)[:BEST]
    best += sorted(measured, key=lambda cell: measured[cell][seeds[0]])[:BEST]
    complete = complete_cells(measured, seeds)
    wanted = [one for cell in best for one in (cell, *neighbours(axes, cell, searched))]
    return [cell for cell in dict.fromkeys(wanted) if cell not in complete]


def fill(wished, measured, seeds, count):
    """`count` cells that lack seeds: the wished ones, then the best ones of the first seed. So every variant gets
    the same number of trials."""
    complete = complete_cells(measured, seeds)
    others = sorted((cell for cell in measured if cell not in complete and cell not in wished),
                    key=lambda cell: measured[cell][seeds[0]])
    return [*wished, *others][:count]


# ---- the search ----------------------------------------------------------------------------------

# What was found for a variant: its cells that have all seeds, the best first; their losses; the options whose value
# in the best cell is at an end of the grid; and whether that cell is unstable.
Found = namedtuple("Found", "cells losses at_end unstable")


class Search:
    """variants: any hashable. measure([(variant, cell, seed)]) returns their losses. limit: the trials of a variant,
    or None. say(text) reports the progress. lacking: {variant: the names of the axes that it lacks}.

    accepts   function (name of an axis, value): whether the axis may grow to this value
    measured  {variant: {cell: {seed: loss}}}
    axes_of   {variant: its axes}: the shared ones, except for one that it lacks, which has the value None only
    """

    def __init__(self, variants, axes, measure, limit, say, lacking=None):
        self.variants, self.axes, self.limit, self.say = variants, axes, limit, say
        self.measure, self.accepts = measure, lambda name, value: True
        self.measured = {variant: {} for variant in variants}
        self.axes_of = {variant: [Axis(axis.name, [None]) if axis.name in (lacking or {}).get(variant, ()) else axis
                                  for axis in axes] for variant in variants}

    def trials(self, variant=None):
        """The number of trials of a variant, or of the one with the most."""
        return max(sum(map(len, self.measured[one].values())) for one in ([variant] if variant else self.variants))

    def try_cells(self, wanted, seeds, what):
        """Measures {variant: cells} with these seeds."""
        runs = [(variant, cell, seed) for variant, cells in wanted.items() for cell in cells for seed in seeds
                if seed not in self.measured[variant].get(cell, {})]
        if runs:
            counts = Counter(variant for variant, *_ in runs)
            self.say(f"{what}: {max(counts.values())} trials for each of {len(counts)} variants")
        for (variant, cell, seed), loss in zip(runs, self.measure(runs)):
            self.measured[variant].setdefault(cell, {})[seed] = loss

    # ---- one grid --------------------------------------------------------------------------------

    def middles(self):
        """{variant: the cell where a search starts}."""
        return {variant: tuple(axis.middle() for axis in axes) for variant, axes in self.axes_of.items()}

    def cells_of(self, variant, base, searched):
        """The cells of the grid over the searched axes; the other values are those of `base`."""
        values = [axis.values if place in searched else (base[place],)
                  for place, axis in enumerate(self.axes_of[variant])]
        return list(itertools.product(*values))

    def on_grid(self, variant, base, searched):
        """The measurements of these cells."""
        return {cell: self.measured[variant][cell] for cell in self.cells_of(variant, base, searched)
                if cell in self.measured[variant]}

    def ordered(self, variant, base, searched, seeds):
        """The cells of the grid that have all seeds, the best first."""
        return ordered_cells(self.axes_of[variant], self.on_grid(variant, base, searched), seeds, searched)

    def room(self):
        return None if self.limit is None else self.limit - self.trials()

    def search_grid(self, bases, searched, seeds):
        """Searches the axes `searched` from {variant: base}. Returns {variant: its cells that have all seeds, the
        best first}, or None where there is no room for more trials."""
        names = ", ".join(f"--{self.axes[place].name}" for place in searched)
        while True:
            first = {variant: [cell for cell in self.cells_of(variant, bases[variant], searched)
                               if seeds[0] not in self.measured[variant].get(cell, {})]
                     for variant in self.variants}
            if self.limit is not None and max(map(len, first.values())) > self.room():
                return None
            self.try_cells(first, seeds[:1], f"{names}: all values, seed {seeds[0]}")
            self.halve(bases, searched, seeds, names)
            best = {variant: self.ordered(variant, bases[variant], searched, seeds) for variant in self.variants}
            if not all(best.values()):
                return None
            if not self.grow({variant: cells[0] for variant, cells in best.items()}, searched, seeds):
                return best

    def halve(self, bases, searched, seeds, names):
        """Gives the best cells and their neighbours the other seeds, until they have all."""
        while True:
            grids = {variant: self.on_grid(variant, bases[variant], searched) for variant in self.variants}
            wished = {variant: wished_cells(self.axes_of[variant], grid, seeds, searched)
                      for variant, grid in grids.items()}
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
        """Grows the axes for all variants where the best cell of one is at an end. Whether one grew. Where nothing trained,
        no direction is known."""
        trained = {variant: cell for variant, cell in best.items() if math.isfinite(min(self.measured[variant][cell].values()))}
        grown = {(end.axis, end.side) for variant, cell in trained.items()
                 for end in ends_of(self.axes_of[variant], cell, searched) if self.axes[end.axis].may_grow(end.side)}
        if not self.fits(grown, searched, seeds):
            return False
        longer = False
        for place, side in sorted(grown):
            axis = self.axes[place]
            if axis.grow(side, self.accepts):
                self.say(f"--{axis.name} grows to {axis.values[-side]:g}: the best value is at this end")
                longer = True
        return longer

    # ---- what a variant without an axis saves ------------------------------------------------------

    def refine(self, variant, best):
        """Gives the variant axes of its own, with a value between that of its best cell and each neighbour. Returns the
        new cells beside the best one."""
        axes = self.axes_of[variant] = copy.deepcopy(self.axes_of[variant])
        for place, axis in enumerate(axes):
            if axis.ordered:
                axis.refine(best[place])
        return [cell for cell in neighbours(axes, best, range(len(axes))) if cell not in self.measured[variant]]

    def spend_saved(self, seeds):
        """Until all variants have the same number of trials, or too few are left for a cell, or no value is: tries cells
        between the best one of a variant that can be refined and its neighbours. Afterwards no axis grows. Returns the
        found cells of these variants, all of which have the seeds."""
        most, searched, found = self.trials(), list(range(len(self.axes))), {}
        while True:
            wanted = {}
            for variant in self.variants:
                room = (most - self.trials(variant)) // len(seeds)
                best = self.ordered(variant, self.middles()[variant], searched, seeds) if room > 0 else []
                wanted[variant] = next(filter(None, (self.refine(variant, cell) for cell in best)), [])[:room]
            wanted = {variant: cells for variant, cells in wanted.items() if cells}
            if not wanted:
                return found
            self.try_cells(wanted, seeds, "values beside the best ones, with the trials that variants without an axis save")
            found.update({variant: self.ordered(variant, self.middles()[variant], searched, seeds) for variant in wanted})

    # ---- the whole search ------------------------------------------------------------------------

    def found(self, best, seeds):
        """{variant: Found}."""
        def one(variant, cells):
            ends = ends_of(self.axes_of[variant], cells[0], range(len(self.axes)))
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
        bases, searched = self.middles(), range(len(self.axes))
        best = self.search_grid(bases, searched, seeds)
        return best and self.found({**best, **self.spend_saved(seeds)}, seeds)

    def by_axes(self, count, rounds):
        """One axis after another, the others at the best values so far, in rounds with `count` seeds of their own. Ends
        after a round in which no variant changed. None if there is no room for the first axis."""
        bases, found = self.middles(), None
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
        return {**found, **self.found(self.spend_saved(seeds), seeds)}
