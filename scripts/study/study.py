"""A study from its description to judged runs: checks, expected time, tuning, judging. answer.py says what they show.

OUT/study.json has the description and the best settings that were found; the answer needs only this and the runs.
"""
from dataclasses import dataclass, field
import math
import os
import re
import shlex

from ablate.plan import Trials, difference
from common.ablations import check_files, files_of, is_list, keep_files
from common.command_line import UsageError, write_whole
from common.factors import product_of, read_factors, text_of, texts_of, words_of
from common.run_options import cores_here, expect_train
from common.runs import RunError, sealed, unsealed
from study import design, judging, stability
from study.judging import Runner
from study.axis import GROWTHS, HIGH
from study.tuning import FAR, FIRST_TUNING_SEED, Axis, Search

JUDGING_SEEDS, TUNING_SEEDS, ROUNDS = 8, 4, 2
TUNING_SEEDS_MAX = 1000
LEAST_SEEDS = 4  # to which --budget reduces the judging seeds
GRID_AXES = 2    # with more axes, one is tuned after another
EARLY = {"lock", "study.json.tmp"}  # what a study that is killed at its start leaves
UNITS = {"s": 1, "min": 60, "h": 3600}


def seconds_of(budget):
    """The seconds of a text such as 20min, or a number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", str(budget))
    if not match and not isinstance(budget, (int, float)):
        raise UsageError(f"--budget={budget}: must be a time such as 90s, 20min or 2h")
    return float(match[1]) * UNITS[match[2]] if match else budget


def seeds_of(given):
    """The judging seeds of a number, a list, or a text of either."""
    if isinstance(given, str):
        if not re.fullmatch("[0-9]+(,[0-9]+)*", given):
            raise UsageError(f"--seeds={given}: must be a number of seeds, or seeds such as 1,3,7")
        given = list(map(int, given.split(","))) if "," in given else int(given)
        if isinstance(given, list) and len(set(given)) < len(given):
            raise UsageError(f"--seeds={','.join(map(str, given))}: a seed is given twice")
    seeds = list(range(1, min(given, FIRST_TUNING_SEED) + 1)) if isinstance(given, int) else sorted(set(given))
    if len(seeds) < 2 or not 0 <= min(seeds) or max(seeds) >= FIRST_TUNING_SEED:
        raise UsageError(f"--seeds: needs at least two seeds, from 0 to {FIRST_TUNING_SEED - 1} (tuning uses seeds from "
                         f"{FIRST_TUNING_SEED} on)")
    return seeds


@dataclass
class Study:
    """A question about variants of a model, and the runs that answer it.

    factors       {option: levels}, all combinations of which are variants; several options that vary together are one
                  factor: {"batch-size,block-size": [(32, 32), (64, 16)]}
    variants      or a list of {option: value}, one for each variant
    tune          names of options to tune, or {name: values}; None as values is the option's default axis
    baseline      {factor: level}, or "NAME=LEVEL,...": each variant is compared with the one that has these levels and
                  agrees with it in all other factors (default: the first level of the first factor)
    seeds         number of judging seeds, or a list
    base          options and corpus of every run, as words for ./train
    out           the folder (default: in runs/, named by the corpus and the options of every run)
    hold_out      fraction of the training split on which tuning validates
    tuning_seeds  number of seeds of the best settings in tuning
    stable        a tuned number, as in tune: the judging seeds train at each of its values, too (see stability.py)
    stable_margin within which of a variant's best a loss is stable
    search        "grid", or "axes" to tune one axis after another (default: a grid of at most two axes)
    budget        the time that it may take, as "20min" or in seconds: reduces seeds and trials
    jobs          number of runs side by side (default: one per core)
    sshlogin      machines that share the folder, for GNU parallel
    only_list     write the list of the next round of runs and raise judging.Listed, instead of training
    command       how the user calls it, for the page
    """
    factors: dict = field(default_factory=dict)
    variants: list = None
    tune: object = ()
    baseline: object = None
    seeds: object = JUDGING_SEEDS
    base: list = ()
    out: str = None
    hold_out: float = 0.1
    tuning_seeds: int = TUNING_SEEDS
    stable: object = ()
    stable_margin: float = FAR
    search: str = None
    budget: object = None
    jobs: int = None
    sshlogin: str = ""
    only_list: bool = False
    command: str = ""
    say: object = judging.say

    def __post_init__(self):
        if self.variants is None:
            self.factors = read_factors(self.factors, design.OWN, "a study sets it itself (leave it out)")
            self.variants = product_of(self.factors)
        else:
            self.factors, self.variants = design.listed(self.variants)
        self.swept = design.read_stable(self.stable, self.tune)
        tuned = {key: values for key, values in design.named(self.tune) if design.own_name(key) not in self.swept}
        self.axes = design.read_axes({**tuned, **self.swept}, [name for one in self.variants for name in one.options])
        self.baseline = design.pairs_of(self.baseline, self.factors) if self.baseline else \
            design.default_baseline(self.factors)
        self.seeds, self.base = seeds_of(self.seeds), list(self.base)
        if not 2 <= self.tuning_seeds <= TUNING_SEEDS_MAX:
            raise UsageError(f"--tuning-seeds: from 2 (one seed has no standard error) to {TUNING_SEEDS_MAX}")
        if not 0 < self.hold_out < 1:
            raise UsageError(f"--hold-out={self.hold_out}: must be between 0 and 1")
        if self.budget is not None:
            self.budget = seconds_of(self.budget)
        design.check_base(self.base, [name for one in self.variants for name in one.options] + list(self.axes))
        self.search = self.search or ("grid" if len(self.axes) <= GRID_AXES else "axes")
        self.out = self.out or design.default_out(self.base)
        self.limit, self.times, self.lacking, self.found = None, {}, {}, {}
        self.swept = Axis(*next((name, self.axes[name]) for name in self.swept)) if self.swept else None
        if self.swept and not self.swept.ordered:
            raise UsageError(f"--stable={self.swept.name}: needs numbers")
        self.runner = Runner(self.out, self.base, self.say, judging.How(
            str(self.jobs or ""), self.jobs or cores_here(), self.sshlogin, self.only_list))
        self.read_record()

    # ---- the record --------------------------------------------------------------------------------

    def read_record(self):
        """Takes the times of variants from the folder's study.json. Refuses a folder of another study, and files of --config and
        --start that have changed. Without study.json, a folder with runs is a study's all the same."""
        record = read_record(self.out)
        if record is None and os.path.isdir(self.out) and set(os.listdir(self.out)) - EARLY and not is_list(self.out):
            raise UsageError(f"{self.out}: is not a study's folder (give another --out)")
        check_files(self.out, self.files())
        if record and (record["base"], record["hold_out"]) != (self.base, self.hold_out):
            before, now = ([*one, f"--hold-out={part}"] for one, part in ((record["base"], record["hold_out"]), (self.base, self.hold_out)))
            raise UsageError(f"{self.out}: contains a study with other options of every run, {difference(before, now)} (give another "
                             "--out; only levels, tuned options and seeds can be added)")
        self.times = {**record["times"], **self.times} if record else self.times

    def files(self):
        """{path: checksum} of files that decide what the runs are."""
        return files_of([*words_of(one.options), *self.base] for one in self.variants)

    def write_record(self, complete):
        def variant_of(one):
            found = self.found.get(one.levels, {"recipe": {}} if not self.axes else {})
            return {"levels": one.levels, "options": one.options, "lacking": self.lacking.get(one.levels, []), **found}

        record = {"labels": (read_record(self.out) or {}).get("labels", {}), "command": self.command, "complete": complete,
                  "factors": self.factors, "variants": [variant_of(one) for one in self.variants], "axes": self.axes,
                  "baseline": self.baseline, "seeds": self.seeds, "tuning_seeds": self.tuning_seeds,
                  "hold_out": self.hold_out, "base": self.base,
                  "times": self.times, "stable": self.swept and {"name": self.swept.name, "values": self.swept.values,
                                                                 "margin": self.stable_margin}}
        write_whole(os.path.join(self.out, "study.json"), sealed(record))

    # ---- the expected time -------------------------------------------------------------------------

    def time_key(self, variant):
        return shlex.join(words_of(variant.options))

    def middle(self):
        """{tuned option: the value where the search starts}."""
        return {name: Axis(name, texts).middle() for name, texts in self.axes.items()}

    def recipe_of(self, levels, cell):
        """{tuned option: value} of a cell, without the axes that the variant lacks."""
        return {name: value for name, value in zip(self.axes, cell) if name not in self.lacking[levels]}

    def check(self):
        """Tries each variant, and each value of a tuned option, before anything is trained."""
        expect_train()
        new = [one for one in self.variants if self.time_key(one) not in self.times]
        middle = texts_of(self.middle())
        if new:
            self.say(f"trying {len(new)} variants for a few steps")
            values = [shlex.join(["value", *words_of({**new[0].options, **middle, name: text}), *self.base])
                      for name, texts in self.axes.items() for text in texts if text != middle[name]]
            lines = [self.runner.line_of({**one.options, **middle, "hold-out": self.hold_out}, FIRST_TUNING_SEED)
                     for one in new]
            with Trials(lines, self.runner.how.jobs, 1) as trials:
                self.times.update(zip(map(self.time_key, new), trials.run()))
            with Trials(values, self.runner.how.jobs, 1) as trials:
                trials.check()
        self.lacking = design.lacking_axes(self.variants, self.axes, self.base)

    def refusal(self, options):
        """Why ./train refuses these options, or "": values that contradict each other are no settings of a variant."""
        return design.refusal(tuple([*words_of(texts_of(options)), *self.base]))

    def accepts(self, name, value):
        """Whether runs may have this value of a tuned option, to which its axis would grow: whether ./train starts each variant
        with it, except where it contradicts the variant's options, and some variant is left."""
        middle = texts_of(self.middle())
        options = [{**one.options, **middle, name: text_of(value), "hold-out": self.hold_out} for one in self.variants
                   if name not in self.lacking[one.levels]]
        refusals = list(map(self.refusal, options))
        lines = [self.runner.line_of(one, FIRST_TUNING_SEED) for one, refusal in zip(options, refusals) if not refusal]
        with Trials(lines, self.runner.how.jobs, 1) as trials:
            found = [message.strip() for message, _ in trials.refusals().values()] or (refusals if not lines else [])
        for message in found[:1]:
            self.say(f"--{name} does not grow to {value:g}: {message}")
        return not found

    def searched(self, measure, limit=None, tell=lambda text: None, tuning_seeds=None, accepts=lambda name, value: True):
        """(the Search with these losses, what it found)."""
        search = Search([one.levels for one in self.variants], [Axis(name, texts) for name, texts in self.axes.items()],
                        measure, limit, tell, self.lacking)
        search.accepts = accepts
        count = tuning_seeds or self.tuning_seeds
        return search, search.full_grid(count) if self.search == "grid" else search.by_axes(count, ROUNDS)

    def trials(self, furthest, tuning_seeds=None):
        """The trials of a variant if no axis grows, or if all grow as far as they can: a search of made-up losses."""
        order = {one.levels: place for place, one in enumerate(self.variants)}

        def distance(value, middle):
            return math.log(value / middle) if min(value, middle) > 0 else value - middle

        def loss(levels, cell):
            """Lowest in the middle, or beyond the ends: the low ones for every other variant."""
            goals = [Axis(name, texts) for name, texts in self.axes.items()]
            distances = [distance(value, axis.middle()) if axis.ordered else 0 for axis, value in zip(goals, cell)
                         if value is not None]
            far = (30 if order[levels] % 2 else -30) if furthest else 0
            return sum((distance - far) ** 2 for distance in distances)

        search, _ = self.searched(lambda wanted: [loss(levels, cell) for levels, cell, _ in wanted],
                                  tuning_seeds=tuning_seeds)
        return search.trials()

    def plan(self):
        """(least, most) runs of the study, and their seconds. Those that have ended count too."""
        trials = [self.trials(furthest) if self.axes else 0 for furthest in (False, True)]
        if self.limit:
            trials[1] = min(trials[1], self.limit)
        counts = [(one + self.judged(bool(place))) * len(self.variants) for place, one in enumerate(trials)]
        return counts, [self.seconds(count) for count in counts]

    def judged(self, furthest=False, seeds=None):
        """The number of judging runs of a variant, if the axis of --stable does not grow, or grows as far as it can."""
        values = len(self.swept.values) + 2 * GROWTHS * furthest if self.swept else 1
        return len(self.seeds if seeds is None else seeds) * values

    def seconds(self, count):
        times = [self.times[self.time_key(one)] for one in self.variants]
        return count * sum(times) / len(times) / self.runner.how.jobs

    def fit(self):
        """Reduces the tuning seeds, the judging seeds and the trials, so that the study takes at most the budget."""
        room = int(self.budget / self.seconds(1))
        for seeds in range(len(self.seeds), min(len(self.seeds), LEAST_SEEDS) - 1, -1):
            for tuning in range(self.tuning_seeds, 1, -1):
                least = self.trials(False, tuning) if self.axes else 0
                if (least + self.judged(False, self.seeds[:seeds])) * len(self.variants) <= room:
                    self.seeds, self.tuning_seeds = self.seeds[:seeds], tuning
                    self.limit = room // len(self.variants) - self.judged() if self.axes else None
                    return
        least = self.seconds((least + self.judged(False, self.seeds[:seeds])) * len(self.variants))
        raise UsageError(f"--budget: is too short: this study takes at least {math.ceil(least / 60)} minutes (give fewer "
                         "variants, tuned options or updates)")

    # ---- tuning and judging ------------------------------------------------------------------------

    def prepare(self):
        """Checks the variants, and fits the study to its budget. Returns plan()."""
        if not self.lacking:
            self.check()
            if self.budget is not None:
                self.fit()
        return self.plan()

    def tune_variants(self):
        options = {one.levels: one.options for one in self.variants}

        def measure(wanted):
            runs = [({**options[levels], **self.recipe_of(levels, cell), "hold-out": self.hold_out}, seed)
                    for levels, cell, seed in wanted]
            check_files(self.out, self.files())
            losses = iter(self.runner.measure([run for run in runs if not self.refusal(run[0])]))
            return [math.inf if self.refusal(run[0]) else next(losses) for run in runs]

        search, found = self.searched(measure, self.limit, lambda text: self.say(f"tuning {text}"), accepts=self.accepts)
        if found is None:
            raise UsageError(f"--budget: too few trials for the values of the tuned options ({self.limit} for each variant)")
        self.swept = self.swept and next(axis for axis in search.axes if axis.name == self.swept.name)
        self.found = {levels: {"recipe": self.recipe_of(levels, one.cells[0]), "trials": search.trials(levels),
                               "at_end": one.at_end, "unstable": one.unstable,
                               "values": {axis.name: axis.values for axis in search.axes_of[levels] if axis.values != [None]}}
                      for levels, one in found.items()}

    def judging_runs(self):
        """The runs that judge, those with the first seed first."""
        return [({**one.options, **self.found.get(one.levels, {}).get("recipe", {})}, seed)
                for seed in self.seeds for one in self.variants]

    def sweep(self):
        """Trains each variant that has the option of --stable at each of its values, which go on as long as a seed is stable at the
        last one."""
        name, axis = self.swept.name, self.swept
        variants = {one.levels: {**one.options, **self.found[one.levels]["recipe"]} for one in self.variants
                    if name not in self.lacking[one.levels]}
        while True:
            self.say(f"--{name}: {len(axis.values)} values for each of {len(variants)} variants")
            runs = [({**options, name: value}, seed) for seed in self.seeds for options in variants.values() for value in axis.values]
            self.runner.measure([run for run in runs if not self.refusal(run[0])])
            self.write_record(False)
            found = [self.runner.curve(options, name, axis.values, self.seeds) for options in variants.values()]
            curves = filter(None, map(stability.curve_of, found))
            at_end = any(stability.stable_seeds(curve, self.stable_margin)[-1].any() for curve in curves)
            if not (at_end and axis.may_grow(HIGH) and axis.grow(HIGH, self.accepts)):
                return

    def run(self):
        """Tunes and judges; what has ended is not trained again. Returns this study, whose answer() then is complete."""
        self.prepare()
        self.runner.open()
        try:
            self.read_record()  # another study may have begun here meanwhile
            keep_files(self.out, self.files())
            self.write_record(False)
            if self.axes:
                self.tune_variants()
                self.write_record(False)
            self.say(f"judging {len(self.variants)} variants with seeds {self.seeds[0]} to {self.seeds[-1]}")
            self.runner.measure(self.judging_runs())
            if self.swept:
                self.sweep()
            self.write_record(True)
        finally:
            self.runner.close()
        return self

    def answer(self, **question):
        """answer.Answer of the judged runs, as far as they have ended; question: as there."""
        from study.answer import Answer
        return Answer(self.out, **question)


class Opened:
    """A study that was trained before, in its folder."""

    answer = Study.answer

    def __init__(self, folder):
        known_record(folder)
        self.out = folder

    def runs(self, varying=False):
        return judging.runs(self.out, varying=varying)


def keep_labels(folder, labels):
    """Notes labels in study.json for later answers."""
    record = read_record(folder)
    if record.get("labels", {}) != labels:
        write_whole(os.path.join(folder, "study.json"), sealed({**record, "labels": labels}))


def read_record(folder):
    """The record of a study, or None."""
    return unsealed(os.path.join(folder, "study.json"), "remove it, and the study's command writes it again and keeps all runs")


def known_record(folder):
    record = read_record(folder)
    if not record:
        raise RunError(f"{folder}: no study.json in it (a study's folder is one that scripts/study.py made)")
    return record
