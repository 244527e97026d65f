"""Tuned comparisons: each variant at its best learning rate, or other setting, chosen on seeds of their own.

A choice among settings by the runs that are then judged would favour the variant with more of them. So some
seeds only choose: the setting with the lowest mean final loss over them, where runs that did not train count
as worst. The other seeds judge it.
"""
from collections import namedtuple
import math

import numpy as np

from outcomes import by_seed, value_of
from runs import INACTIVE, RunError, order, value_text, variants

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
        raise RunError("--tuned: there is only one seed; some must choose and others judge")
    return Plan(names, every[:len(every) // 2], False)


def score_of(runs, seeds):
    """The lower, the better: how many of these seeds did not train, then the mean of the others."""
    losses = [value_of(runs[seed], "val_loss") for seed in seeds]
    trained = [loss for loss in losses if math.isfinite(loss)]
    return len(losses) - len(trained), float(np.mean(trained)) if trained else math.inf


def ends_of(plan, key, complete):
    """The options whose best value is the lowest or the highest that was tried."""
    for place, name in enumerate(plan.names):
        swept = sorted({other[place] for other, _ in complete}, key=order)
        numbers = all(isinstance(value, (int, float)) for value in swept)
        if numbers and len(swept) > 1 and key[place] in (swept[0], swept[-1]):
            yield name


def tune(variant, plan, say):
    """The variant with the judging seeds of its best setting only, which its label names; and the options
    whose best value is at an end of the sweep."""
    settings = [(key, by_seed(members, variant.label))
                for key, members in variants(variant.members, plan.names)]
    complete = [(key, runs) for key, runs in settings if all(seed in runs for seed in plan.seeds)]
    if not complete:
        raise RunError(f"{variant.label}: no setting of {', '.join(plan.names)} has ended runs of all "
                       f"tuning seeds ({' '.join(map(str, plan.seeds))})")
    for key, runs in settings:
        if len(complete) < len(settings) and (key, runs) not in complete:
            say(f"{variant.label}, {text_of(plan.names, key)}: not all tuning seeds have ended: it cannot "
                "be chosen")
    key, runs = min(complete, key=lambda setting: score_of(setting[1], plan.seeds))
    judged = [run for seed, run in runs.items() if seed not in plan.seeds]
    label = f"{variant.label} ({text_of(plan.names, key)})"
    return variant._replace(label=label, members=judged), list(ends_of(plan, key, complete))


def text_of(names, key):
    return ", ".join(f"{name} {value_text(value)}" for name, value in zip(names, key)
                     if value != INACTIVE)


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
