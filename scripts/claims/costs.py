"""Estimates of what claims cost before their runs start: the number of runs and their time.

Which rate a variant is judged at is known only when others have ended. Here all rates are taken for equally
good, so the number of runs is that of the plan, except where judged runs are also runs of a grid.
"""
from claims import claims
from claims.experiments import BY_ID
from claims.plan import Tuning

# On one core with AVX2: for a token of a layer and a channel, and to start and measure a run. A Zen 5 takes a third to
# half of it (XS 0.5 s, S 11, M 43), a Zen 4 two thirds.
SECONDS, START = 1.1e-7, 0.3


class Supposed(Tuning):
    """Tuning as it is if all runs end with the same loss."""

    def loss_of(self, run):
        return super().loss_of(run) or 0.0


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


def lines(missing_of, jobs):
    """A line for each claim that runs or measurements decide. missing_of(experiments): the runs that they lack."""
    known = {}
    for claim in claims.CLAIMS + claims.CANARIES:
        names = tuple(claim.experiments())
        if not names or not set(names) <= set(BY_ID):
            continue
        if names not in known:
            known[names] = words_of(missing_of([BY_ID[name] for name in names]), jobs)
        yield f"{claim.ids:16.16} {' '.join(names):10} {known[names]:44} {claim.text[:88]}"
