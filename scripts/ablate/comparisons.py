"""Comparisons of variants, paired by seed, for compare.py and for pictures: the pairs and their verdicts.

If all runs of the common seeds trained, the interval of the paired differences decides. If some diverged, failed or are
stuck (runs.py), the fractions of runs that trained decide, by their Clopper-Pearson intervals. Medians are shown too, in
which a run without a loss is the worst. The interval then uses the seeds whose two runs trained. A metric that says nothing
about learning, such as seconds, does not care whether a run is stuck.

A variant's baseline has the values that the user names, and agrees with the variant in every other option that has an
effect in both. A group here is anything with a label and a key, the values of the options `names`. Runs are those of
ended_runs() (common/ablations.py).
"""
from collections import Counter, namedtuple
import math

import numpy as np

from study.statistics import SEEDS_MAX, clopper_pearson, decision, deviation, holm, paired, seeds_needed, t_interval, t_test_p
from common.run_options import is_number, spelled
from common.runs import ENDED, RunError
from common.variants import FIRST, INACTIVE, label_of, value_text, variants


# ---- by seed -------------------------------------------------------------------------------------

def by_seed(runs, label):
    """{seed: run}. Refuses two of one seed."""
    found = {}
    for run in runs:
        seed = run.options.get("seed")
        if seed in found:
            raise RunError(f"{run.folder}: another run of {label} has the same seed {seed} (leave one of "
                           "them out)")
        found[seed] = run
    return found


def value_of(run, metric):
    """A number of the run's summary.json; NaN if the run has no final loss."""
    if run.status not in ENDED:
        return math.nan
    value = run.summary.get(metric)
    if not is_number(value):
        there = [name for name, other in run.summary.items() if is_number(other)]
        raise RunError(f"--metric={metric}: {run.folder}/summary.json has no such number (it has "
                       f"{', '.join(there)})")
    return float(value)


# ---- baselines -----------------------------------------------------------------------------------

def wanted_of(groups, names, given, option="--baseline"):
    """{name: the variants' value} of what --baseline or another option gives as {name: text}. Refuses a
    name or a value that these variants do not have."""
    wanted = {}
    for name, text in given.items():
        if name not in names:
            what = f"they differ in {', '.join(names)}" if names else "they differ in no option"
            raise RunError(f"{option}={name}={text}: these runs do not differ in {name} ({what})")
        values = list(dict.fromkeys(group.key[names.index(name)] for group in groups))
        same = [value for value in values if text == value_text(value, name) or spelled(name, str(value)) == spelled(name, text)]
        if not same:
            raise RunError(f"{option}={name}={text}: no such run (there are "
                           f"{', '.join(value_text(value, name) for value in values if value != INACTIVE)})")
        wanted[name] = same[0]
    return wanted


def has_values(group, names, wanted):
    return all(group.key[names.index(name)] == value for name, value in wanted.items())


def baseline_of(group, groups, names, wanted, option="--baseline"):
    """The group's baseline, or None."""
    def fits(other):
        return all(there == wanted[name] if name in wanted else
                   here == there or INACTIVE in (here, there)
                   for name, here, there in zip(names, group.key, other.key))

    found = [other for other in groups if fits(other)]
    if len(found) > 1:
        raise RunError(f"{option}: {found[0].label} and {found[1].label} could both be the baseline "
                       f"of {group.label} (name more options: {option}=NAME=VALUE,NAME=VALUE)")
    return found[0] if found else None


LEARNED = ("val_loss", "best_val_loss", "train_loss", "eval_train_loss", "val_accuracy")  # metrics that say how well a run learned
HIGHER_IS_BETTER = ("val_accuracy", "tokens_per_second")  # of the numbers in summary.json

# A variant's runs. label and key as pairs.py wants them.
Variant = namedtuple("Variant", "label key runs")

# A side's runs of the common seeds: how many trained, how the others ended, and the median, which is
# infinite if half of the runs did not train.
Side = namedtuple("Side", "trained other median interval")

# seeds: the common ones. differences: {seed: difference} of those whose two runs trained.
# p: of the paired t test, if all runs trained; holm: adjusted for all comparisons shown; NaN if there is none.
# verdict: lower, higher, equal, trains less often, trains more often, neither trained, or None. more: the seeds still needed, or None.
Comparison = namedtuple("Comparison", "a b seeds differences interval p holm sides verdict more")


def variants_of(runs, names):
    named = names or [name for name in FIRST if name in runs[0].options]
    return [Variant(label_of(members[0], named) or "all runs", key, members) for key, members in variants(runs, names)]


# ---- which pairs ---------------------------------------------------------------------------------

def pairs_of(found, names, options):
    """[(variant, the variant that it is compared with)]."""
    if options.baseline:
        option, first, second = "--baseline", {}, wanted_of(found, names, options.baseline)
    else:
        option = "--b"
        first = wanted_of(found, names, options.a, "--a")
        second = wanted_of(found, names, options.b, "--b")
        if first == second:
            raise RunError("--a and --b: name the same variant")
    chosen = [variant for variant in found if has_values(variant, names, first)
              and not has_values(variant, names, second)]
    pairs = [(variant, baseline_of(variant, found, names, second, option)) for variant in chosen]
    pairs = [pair for pair in pairs if pair[1] is not None]
    if not pairs:
        raise RunError(f"{option}: no variant has a counterpart there that agrees in all other options (they "
                       f"differ in {', '.join(names)}; several may be named)")
    return pairs


# ---- runs that may be compared -------------------------------------------------------------------

def build_of(summary):
    """The build that trained the run, in words; None if its summary does not say."""
    if "compiler" not in summary:
        return None
    return (f"{summary.get('version', '')} {summary['compiler']}, vectors of "
            f"{summary.get('vector_bits', '?')} bits, numbers of {summary.get('real_bits', '?')}").strip()


def refuse_mixed(one, other, any_build):
    """Refuses runs of different texts, and of different builds unless any_build."""
    crcs = {run.summary.get("corpus_crc32") for run in (one, other)} - {None}
    if len(crcs) > 1:
        raise RunError(f"{one.folder} and {other.folder}: trained on different texts; their losses cannot "
                       "be compared")
    builds = [build_of(run.summary) for run in (one, other)]
    if not any_build and None not in builds and builds[0] != builds[1]:
        raise RunError(f"{one.folder} and {other.folder}: trained by different builds ({builds[0]}; "
                       f"{builds[1]}): the difference is not the options' alone (--any-build compares "
                       "them)")


# ---- what the seeds decide -----------------------------------------------------------------------

def has_trained(run, metric):
    return run.status == "done" or run.status in ENDED and metric not in LEARNED


def side_of(runs, metric, best):
    """best: min if lower values are better, else max; what did not train is the worst."""
    statuses = Counter("done" if has_trained(run, metric) else run.status for run in runs)
    worst = math.inf if best is min else -math.inf
    values = [value_of(run, metric) for run in runs]
    trained = statuses.pop("done", 0)
    median = float(np.median([value if math.isfinite(value) else worst for value in values])) \
        if runs else math.nan
    return Side(trained, dict(sorted(statuses.items())), median, clopper_pearson(trained, len(runs)))


def shares_verdict(a, b):
    """Which side trains more often, if the intervals of the fractions do not overlap."""
    if not a.trained and not b.trained:
        return "neither trained"
    if a.interval.high < b.interval.low:
        return "trains less often"
    return "trains more often" if a.interval.low > b.interval.high else None


def judge(values, count, sides, margin):
    """(interval, p of the paired t test or NaN, verdict or None, number of further seeds that would probably decide or None) of
    paired differences of those of `count` seeds at which both sides trained."""
    interval = t_interval(values)
    if len(values) < count:
        return interval, math.nan, shares_verdict(*sides), None
    if count < 2:
        return interval, math.nan, None, None
    verdict = decision(interval, margin)
    needed = None if verdict else seeds_needed(interval.mean, deviation(values), margin)
    return interval, t_test_p(values), verdict, needed and max(1, needed - count)


def compare(a, b, options):
    own, theirs = (by_seed(side.runs, side.label) for side in (a, b))
    seeds = sorted(own.keys() & theirs.keys())
    for seed in seeds:
        refuse_mixed(own[seed], theirs[seed], options.any_build)
    best = max if options.metric in HIGHER_IS_BETTER else min
    sides = [side_of([runs[seed] for seed in seeds], options.metric, best) for runs in (own, theirs)]
    values = [{seed: value_of(runs[seed], options.metric) for seed in seeds if has_trained(runs[seed], options.metric)}
              for runs in (own, theirs)]
    measured, differences = paired(*values)
    interval, p, verdict, more = judge(differences, len(seeds), sides, options.margin)
    return Comparison(a, b, seeds, dict(zip(measured, differences)), interval, p, math.nan, sides, verdict, more)


def compare_all(pairs, options):
    """The comparisons, with Holm's p over all of them."""
    found = [compare(a, b, options) for a, b in pairs]
    return [comparison._replace(holm=float(p))
            for comparison, p in zip(found, holm([comparison.p for comparison in found]))]


# ---- words ---------------------------------------------------------------------------------------

def verdict_text(comparison, margin):
    """The verdict in words, and after a colon what is missing for one, or how many runs trained."""
    count = len(comparison.seeds)
    if comparison.verdict == "equal":
        return f"equal within {margin:g}"
    if comparison.verdict in ("lower", "higher", "neither trained"):
        return comparison.verdict
    if any(side.other for side in comparison.sides):
        return f"{comparison.verdict or 'undecided'}: {' and '.join(str(side.trained) for side in comparison.sides)} of {count} trained"
    if count < 2:
        return f"undecided: {'one' if count else 'no'} common seed"
    if comparison.more is None:
        return f"undecided: not even {SEEDS_MAX} seeds would decide"
    return f"undecided: about {comparison.more} more seed{'s' * (comparison.more > 1)} needed"
