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

from study.statistics import SEEDS_MAX, clopper_pearson, decision, deviation, holm, seeds_needed, t_interval, t_test_p
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


LOSSES = ("val_loss", "best_val_loss", "train_loss")  # metrics in nats per token
LEARNED = (*LOSSES, "eval_train_loss", "val_accuracy")  # metrics that say how well a run learned
HIGHER_IS_BETTER = ("val_accuracy", "tokens_per_second")  # of the numbers in summary.json

# A variant's runs. label and key as pairs.py wants them.
Variant = namedtuple("Variant", "label key runs")

# A side's runs of the common seeds: how many trained, how the others ended, and the median, which is
# infinite if half of the runs did not train.
Side = namedtuple("Side", "trained other median interval")

# seeds: the common ones. values: {seed: value} of those whose runs trained. p: of the paired t test, if all runs trained, else NaN.
# verdict: lower, higher, equal within ..., trains less often, trains more often, neither trained, or undecided. why: what is missing
# for a decision, or how many runs trained, or "". more: the seeds that are still needed, or None. kept: the terms in the mean.
Judged = namedtuple("Judged", "seeds values interval p verdict why more sides kept")
# holm: p, adjusted for all comparisons shown.
Comparison = namedtuple("Comparison", (*Judged._fields, "a", "b", "holm"))


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


def side_of(runs, metric):
    """What did not train is the worst in the median."""
    statuses = Counter("done" if has_trained(run, metric) else run.status for run in runs)
    worst = -math.inf if metric in HIGHER_IS_BETTER else math.inf
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


def common_seeds(terms, runs):
    """The seeds that all variants in these terms have."""
    return sorted(set.intersection(*(set(runs.get(cell, {})) for term in terms for cell in term)))


def judge(terms, runs, metric, margin):
    """The Judged of a sum of variants' numbers, computed for each seed. terms: what it is the mean of, {variant: weight} each; a term
    counts if all its runs trained, unless there is none. runs: {variant: {seed: Run}}."""
    seeds = common_seeds(terms, runs)
    trained = {cell: [seed for seed in seeds if has_trained(runs[cell][seed], metric)] for term in terms for cell in term}
    kept = [term for term in terms if all(trained[cell] == seeds for cell in term)] or terms
    values = {seed: sum(weight * value_of(runs[cell][seed], metric) for term in kept for cell, weight in term.items()) / len(kept)
              for seed in seeds if all(seed in trained[cell] for term in kept for cell in term)}
    sides = [side_of([runs[cell][seed] for term in terms for cell, weight in term.items() if sign * weight > 0 for seed in seeds], metric)
             for sign in (1, -1)]
    differences, p, word, more = np.array(list(values.values())), math.nan, None, None
    interval = t_interval(differences)
    if len(values) < len(seeds):
        word = shares_verdict(*sides)
        if len(terms[0]) > 2 and word != "neither trained":  # the runs of a difference of differences are on both sides
            word = None
        why = f"{' and '.join(str(side.trained) for side in sides)} of {len(seeds) * len(terms)} trained" * (word != "neither trained")
    elif len(seeds) < 2:
        why = f"{'one' if seeds else 'no'} common seed"
    else:
        word, p = decision(interval, margin), t_test_p(differences)
        needed = None if word else seeds_needed(interval.mean, deviation(differences), margin)
        more = needed and max(1, needed - len(seeds))
        why = "" if word else f"about {more} more seed{'s' * (more > 1)} needed" if more else f"not even {SEEDS_MAX} seeds would decide"
    word = f"equal within {margin:g}" if word == "equal" else word or "undecided"
    return Judged(seeds, values, interval, p, word, why, more, sides, kept if values else [])


def compare_all(pairs, options):
    """The Comparisons, with Holm's p over all of them."""
    found = []
    for a, b in pairs:
        runs = {name: by_seed(variant.runs, variant.label) for name, variant in (("a", a), ("b", b))}
        terms = [{"a": 1, "b": -1}]
        for seed in common_seeds(terms, runs):
            refuse_mixed(runs["a"][seed], runs["b"][seed], options.any_build)
        found.append(Comparison(*judge(terms, runs, options.metric, options.margin), a, b, math.nan))
    return [one._replace(holm=float(p)) for one, p in zip(found, holm([one.p for one in found]))]


def verdict_text(judged):
    return f"{judged.verdict}: {judged.why}" if judged.why else judged.verdict
