"""Caveats on the tuned learning rates and initializations behind a verdict. A variant's learning rate may be

- at an end of its grid,
- tuned for another variant,
- preferred to one with a lower mean loss that the rules of study/tuning.py exclude,
- worse on the judging seeds than another judged learning rate.

Facts (facts.py): rate_at_end, rate_of_another and rate_is_safer are 1 where they hold; rate_regret is a difference
of losses.
"""
from statistics import fmean

from claims.fact_table import variant_text
from study.statistics import MARGIN

REGRET = "rate_regret"
FLAGS = {"rate_at_end": "or initialization is an end of its grid", "rate_of_another": "was tuned for another variant",
         "rate_is_safer": "is not the best on average: the best one is unstable with the tuning seeds, or at an end of "
                          "the grid without beating its neighbour by a standard error",
         REGRET: f"is worse by more than {MARGIN:g} nats than another one"}


def faults(facts):
    """[(experiment, cell, variant, flag)] of the whole table, in its order."""
    return [(experiment, cell, variant, flag) for experiment in sorted(facts.experiments())
            for cell in facts.cells(experiment) for flag in FLAGS for variant in facts.variants(experiment, cell, flag)
            if fmean(facts.series(experiment, cell, flag, variant).values()) > (MARGIN if flag == REGRET else 0)]


def sentences(needs, facts):
    """What is wrong with the recipes of what a claim reads, a sentence for each fault. needs: Claim.needs()."""
    read = {(experiment, variant_text(variant)) for experiment, _, variant in needs}
    named = {}
    for experiment, cell, variant, flag in faults(facts):
        if (experiment, variant) in read:
            named.setdefault(flag, {})[f"{variant} ({experiment}, {cell[1]})"] = None
    return [f"The learning rate {FLAGS[flag]}: {'; '.join(names)}." for flag, names in named.items()]
