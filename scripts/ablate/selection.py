"""The rules by which a recipe is chosen among the cells of a grid: what tune.py, compare.py --tuned and the
report have in common.

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

Tuned comparisons: each variant is at its best learning rate, or other setting. A choice among settings by the runs
that are then judged would favour the variant with more of them. So some seeds only choose, by these rules. The
other seeds judge what is chosen.
"""
from collections import namedtuple
import math
import statistics

from ablate import comparisons
from claims.inference import deviation, paired
from common.runs import RunError, label_of, variants

FIRST_TUNING_SEED = 101
FAR = 0.1    # nats
BEST = 3
GROWTHS = 2
LOW, HIGH = 0, 1  # the two ends of an axis

# A value at an end: the index of the axis, LOW or HIGH, and the neighbour, with the next value on this axis.
End = namedtuple("End", "axis side inner")


def value_of(text):
    """The number that a text is, or the text. A number is itself."""
    for kind in (int, float) if isinstance(text, str) else ():
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Axis:
    """An option and its values, which may be given as texts: numbers, in ascending order, or words.

    grown    how often each end grew
    closed   whether nothing can be beyond an end, such as 0. Then it does not count as one."""

    def __init__(self, name, values):
        numbers = [value_of(value) for value in values]
        self.name = name
        self.ordered = all(isinstance(value, (int, float)) and math.isfinite(value) for value in numbers)
        self.values = sorted(numbers) if self.ordered else list(values)
        self.grown = [0, 0]
        self.closed = [self.ordered and self.values[0] <= 0, False]  # 0 has nothing below

    def middle(self):
        """The start of a search: the middle number, or the first word."""
        return self.values[(len(self.values) - 1) // 2 if self.ordered else 0]

    def beyond(self, side):
        """The value that continues the grid: by the ratio of the last two values, or of every other one if there
        are three, so that 1, 3, 10 is followed by 30. beta1 and beta2 approach 1 by such ratios."""
        values = [1 - value if self.name.startswith("beta") else value for value in self.values]
        last = values[::-1] if side == HIGH else values
        value = last[0] * last[0] / last[1] if len(last) == 2 else last[1] * last[0] / last[2]
        if all(isinstance(one, int) for one in self.values):
            return round(value)
        return float(f"{1 - value if self.name.startswith('beta') else value:.3g}")

    def may_grow(self, side):
        return len(self.values) > 1 and not self.closed[side] and self.grown[side] < GROWTHS

    def grow(self, side):
        value = self.beyond(side)
        self.grown[side] += 1
        if value in self.values:  # of whole numbers: 1, 1
            self.closed[side] = True
        else:
            self.values.insert(len(self.values) if side == HIGH else 0, value)


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


# seeds: those that choose. given: whether the user named them.
Plan = namedtuple("Plan", "names seeds given")


def plan_of(outcomes, names, seeds):
    """Which seeds choose: the given ones, or the first half of all."""
    every = sorted({outcome.options.get("seed") for outcome in outcomes})
    if seeds:
        if not set(seeds) & set(every):
            raise RunError(f"--tuning-seeds={','.join(map(str, seeds))}: no run has one of these seeds "
                           f"(there are {' '.join(map(str, every))})")
        return Plan(names, sorted(seeds), True)
    if len(every) < 2:
        raise RunError("--tuned: needs at least two seeds, some to choose values and others to compare")
    return Plan(names, every[:len(every) // 2], False)


def losses_of(runs, seeds):
    """{seed: final loss}, infinite for a run that did not train."""
    return {seed: comparisons.value_of(runs[seed], "val_loss") if runs[seed].status == "done" else math.inf for seed in seeds}


def tune(variant, plan, say):
    """The variant with the judging seeds of its best setting only, which its label names; and the options
    whose best value is at an end of the sweep."""
    def setting_of(key):
        return label_of(next(iter(settings[key].values())), plan.names)

    settings = {key: comparisons.by_seed(members, variant.label) for key, members in variants(variant.runs, plan.names)}
    complete = {key: losses_of(runs, plan.seeds) for key, runs in settings.items()
                if all(seed in runs for seed in plan.seeds)}
    if not complete:
        raise RunError(f"{variant.label}: no setting of {', '.join(plan.names)} has ended runs of all "
                       f"tuning seeds ({' '.join(map(str, plan.seeds))})")
    for key in settings:
        if key not in complete:
            say(f"{variant.label}, {setting_of(key)}: not all tuning seeds have ended: it cannot "
                "be chosen")
    axes = [Axis(name, dict.fromkeys(values)) for name, values in zip(plan.names, zip(*complete))]
    key = ordered_cells(axes, complete, plan.seeds)[0]
    judged = [run for seed, run in settings[key].items() if seed not in plan.seeds]
    label = f"{variant.label} ({setting_of(key)})"
    at_end = [plan.names[end.axis] for end in ends_of(axes, key, range(len(axes)))]
    return variant._replace(label=label, runs=judged), at_end


def tuned_variants(found, plan, say):
    """The variants at their best settings, of those that were found. Says which of these are at an end
    of the sweep."""
    tuned = [tune(variant, plan, say) for variant in found]
    for name in plan.names:
        at_end = [variant.label for variant, ends in tuned if name in ends]
        if at_end:
            say(f"the best {name} is at an end of the sweep, and one beyond it may be better: "
                f"{'; '.join(at_end)}")
    return [variant for variant, _ in tuned]


def words_of(plan):
    """What was tuned and how, for the reader."""
    which = "--tuning-seeds" if plan.given else \
        "the first half of all seeds; --tuning-seeds=LIST names others"
    return (f"Tuned: each variant at the {', '.join(plan.names)} with the lowest mean final loss over seeds "
            f"{' '.join(map(str, plan.seeds))} ({which}); the other seeds judge.")
