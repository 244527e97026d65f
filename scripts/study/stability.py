"""How much a variant's loss depends on a tuned number, such as the learning rate: what --stable adds to a study.

Each variant is trained with the judging seeds at every value of the option; its other tuned options are those of its best
settings. A seed is stable at a value if it trains there and its loss is at most `margin` above the variant's best, the lowest
mean of the values at which all seeds train. A value is stable if all seeds are.

    largest       the largest stable value; the next value that was tried is not, or there is none
    ratio         of this value to the baseline's. What lies between two values was not tried, so the interval reaches from this
                  value over the baseline's next one to the next value over the baseline's, or further where Student's interval
                  over the seeds, each with its own largest value, does
    sensitivity   of Wortsman et al. 2023 (arXiv:2309.14322): the mean over the values of min(loss, loss before training) minus
                  the lowest loss, for each seed. A run that diverged counts with its loss before training
"""
from collections import namedtuple
import math

import numpy as np

from common.runs import ENDED
from study.statistics import Interval, t_interval

# values: in ascending order. losses, starts: (values, seeds), of all seeds that have ended everywhere: the loss at the end and
# before training. trained: (values, seeds).
Curve = namedtuple("Curve", "values seeds losses starts trained")


def curve_of(found):
    """The Curve of {value: {seed: Run}}; None if no seed has all values."""
    values = sorted(found)
    seeds = sorted(set.intersection(*(set(found[value]) for value in values))) if values else []
    if not seeds:
        return None
    runs = [[found[value][seed] for seed in seeds] for value in values]

    def table(number):
        return np.array([[number(run) for run in row] for row in runs], float)

    return Curve(values, seeds, table(lambda run: run.losses()[-1] if run.status in ENDED else math.inf), table(start_of),
                 table(lambda run: run.status == "done").astype(bool))


def start_of(run):
    """The loss before training: on the validation split, or of the first batch if that was not measured."""
    measured = run.measured("val_loss")
    return run.columns["val_loss"][0] if measured[:1] == [0] else run.columns["train_loss"][0]


def stable_seeds(curve, margin):
    """(values, seeds): whether a seed is stable at a value."""
    all_train = curve.trained.all(axis=1)
    best = curve.losses[all_train].mean(axis=1).min() if all_train.any() else -math.inf
    return curve.trained & (curve.losses <= best + margin)


def edge_of(values, stable):
    """The largest stable value and the next one that was tried; (NaN, the lowest) if none is stable, (largest, inf) at the end."""
    places = np.flatnonzero(stable)
    last = places[-1] if len(places) else -1
    return (values[last] if last >= 0 else math.nan), ([*values, math.inf][last + 1])


def largest(curve, margin):
    """edge_of() all seeds."""
    return edge_of(curve.values, stable_seeds(curve, margin).all(axis=1))


def sensitivity(curve):
    """Wortsman's, for each seed."""
    reached = np.minimum(curve.losses, curve.starts)
    return reached.mean(axis=0) - reached.min(axis=0)


def bound(logarithms, side):
    """The end of Student's interval of these on this side, "low" or "high"; beyond all numbers if one of them is."""
    infinite = [value for value in logarithms if math.isinf(value)]
    interval = infinite or t_interval(logarithms)
    return infinite[0] if infinite else getattr(interval, side if interval.n > 1 else "mean")


def ratio_of(one, other, margin):
    """The Interval of the ratio of the largest stable values of two Curves; NaN where a variant has none."""
    (value, after), (base, base_after) = largest(one, margin), largest(other, margin)
    common = [(one.seeds.index(seed), other.seeds.index(seed)) for seed in one.seeds if seed in other.seeds]
    if math.isnan(value) or math.isnan(base) or min(value, base) <= 0 or not common:
        return Interval(math.nan, math.nan, math.nan, len(common))
    stable, base_stable = stable_seeds(one, margin), stable_seeds(other, margin)
    edges = [(*edge_of(one.values, stable[:, a]), *edge_of(other.values, base_stable[:, b])) for a, b in common]
    low = bound([math.log(here) - math.log(next_there) for here, _, _, next_there in edges], "low")
    high = bound([math.log(next_here) - math.log(there) for _, next_here, there, _ in edges], "high")
    return Interval(value / base, min(math.exp(low), value / base_after), max(math.exp(high), after / base), len(common))


def row_of(curve, baseline, margin):
    """The numbers of a variant; baseline: the Curve of its baseline, or None."""
    value, after = largest(curve, margin)
    ratio = ratio_of(curve, baseline, margin) if baseline else Interval(math.nan, math.nan, math.nan, 0)
    sensitive = t_interval(sensitivity(curve))
    row = {"largest": value, "next": after, "ratio": ratio.mean, "ratio_low": ratio.low, "ratio_high": ratio.high,
           "sensitivity": sensitive.mean, "sensitivity_low": sensitive.low, "sensitivity_high": sensitive.high}
    return {**row, "trained": int(curve.trained.all(axis=1).sum()), "values": len(curve.values), "seeds": len(curve.seeds)}
