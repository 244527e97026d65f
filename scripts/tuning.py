"""Tuned comparisons: each variant at its best learning rate, or other setting, chosen on seeds of their own.

A choice among settings by the runs that are then judged would favour the variant with more of them. So some
seeds only choose, by the rules of selection.py. The other seeds judge what is chosen.
"""
from collections import namedtuple
import math

from outcomes import by_seed, value_of
from runs import INACTIVE, RunError, value_text, variants
from selection import Axis, ends_of, ordered_cells

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


def losses_of(runs, seeds):
    """{seed: final loss}, infinite for a run that did not train."""
    return {seed: value_of(runs[seed], "val_loss") if runs[seed].status == "done" else math.inf for seed in seeds}


def tune(variant, plan, say):
    """The variant with the judging seeds of its best setting only, which its label names; and the options
    whose best value is at an end of the sweep."""
    settings = {key: by_seed(members, variant.label) for key, members in variants(variant.members, plan.names)}
    complete = {key: losses_of(runs, plan.seeds) for key, runs in settings.items()
                if all(seed in runs for seed in plan.seeds)}
    if not complete:
        raise RunError(f"{variant.label}: no setting of {', '.join(plan.names)} has ended runs of all "
                       f"tuning seeds ({' '.join(map(str, plan.seeds))})")
    for key in settings:
        if key not in complete:
            say(f"{variant.label}, {text_of(plan.names, key)}: not all tuning seeds have ended: it cannot "
                "be chosen")
    axes = [Axis(name, dict.fromkeys(values)) for name, values in zip(plan.names, zip(*complete))]
    key = ordered_cells(axes, complete, plan.seeds)[0]
    judged = [run for seed, run in settings[key].items() if seed not in plan.seeds]
    label = f"{variant.label} ({text_of(plan.names, key)})"
    at_end = [plan.names[end.axis] for end in ends_of(axes, key, range(len(axes)))]
    return variant._replace(label=label, members=judged), at_end


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
