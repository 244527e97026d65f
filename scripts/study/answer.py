"""The answer of a study: the losses of its variants, and contrasts of them with intervals and verdicts.

A contrast is a weighted sum of variants' losses, computed for each seed, since runs of one seed are paired. Its values over
the seeds have Student's t interval.

    difference     a level minus the baseline's, within each level of the other factors
    main effect    the same, averaged over the other factors
    interaction    how much a difference changes with the level of another factor: a difference of differences

An effect or interaction is a mean over combinations of the other factors, of those in which all seeds trained; `of` says how many
there are. All contrasts of a factor are a family for Holm's method.
"""
from collections import namedtuple
from dataclasses import dataclass
import math
import sys

import pandas

from ablate.comparisons import LOSSES, build_of, common_seeds, has_trained, judge, value_of
from common.command_line import UsageError
from common.runs import RunError
from common.variants import where as only
from study import design
from study.judging import Runner, say
from study.statistics import CONFIDENCE, MARGIN, holm, t_interval
from study.stability import curve_of, row_of as stability_row
from study.study import keep_labels, known_record
from study.tuning import FIRST_TUNING_SEED

QUANTITIES = {"val_loss": "validation loss", "best_val_loss": "best validation loss", "train_loss": "training loss",
              "val_accuracy": "validation accuracy"}
PERCENT = f"{100 * CONFIDENCE:.0f} %"
KINDS = ("difference", "main effect", "interaction")
EXPONENT_MAX = math.log(sys.float_info.max)

# kind: one of KINDS. factor: whose family it belongs to. what, where: the compared levels and those of other factors, in
# words. terms: what it is the mean of, {levels of a variant: weight} each.
Contrast = namedtuple("Contrast", "kind factor what where terms")


# ---- which contrasts -----------------------------------------------------------------------------

class Question:
    """What is compared. names: the factors. cells: the levels of the variants that exist. baseline: {factor: level}.
    within: the factors within whose levels differences are shown. label(levels, names): in words."""

    def __init__(self, factors, cells, baseline, within, label):
        self.factors, self.names, self.cells, self.baseline, self.label = factors, list(factors), set(cells), baseline, label
        self.others = [name for name in self.names if name not in baseline and len(factors[name]) > 1]
        self.within = self.others if within is None else within

    def pairs(self, wanted):
        """The variants with these {factor: level}, each with its baseline: the variant that has the baseline's levels of
        these factors, if there is one."""
        names = list(wanted)
        found = [(cell, design.at(cell, self.names, {name: self.reference(name) for name in names}))
                 for cell in sorted(self.cells, key=self.order)
                 if all(cell[self.names.index(name)] == level for name, level in wanted.items())]
        return [(cell, other) for cell, other in found if other in self.cells and other != cell]

    def order(self, cell):
        return [self.factors[name].index(level) for name, level in zip(self.names, cell)]

    def reference(self, name):
        """The level with which others of this factor are compared."""
        return self.baseline.get(name, self.factors[name][0])

    def levels_beside(self, cell, names):
        return tuple(cell[self.names.index(name)] for name in names)

    def compared(self):
        """[{factor: level}] of what is compared with the baseline."""
        names = list(self.baseline)
        levels = dict.fromkeys(self.levels_beside(cell, names) for cell in sorted(self.cells, key=self.order))
        return [dict(zip(names, one)) for one in levels if one != tuple(self.baseline.values())]

    def words(self, wanted):
        names = list(wanted)
        return f"{self.label(wanted.values(), names)} minus {self.label(map(self.reference, names), names)}"

    def of_pairs(self, kind, wanted, pairs, where=""):
        return Contrast(kind, " x ".join(wanted), self.words(wanted), where, [{cell: 1, other: -1} for cell, other in pairs])

    def differences(self, wanted):
        groups = {}
        for cell, other in self.pairs(wanted):
            groups.setdefault(self.levels_beside(cell, self.within), []).append((cell, other))
        found = [self.of_pairs("difference", wanted, pairs, self.label(levels, self.within) if self.within else "")
                 for levels, pairs in groups.items()]
        return found + (self.main_effect(wanted) if len(groups) > 1 else [])

    def main_effect(self, wanted):
        pairs = self.pairs(wanted)
        over = [name for name in self.names if name not in wanted and len({cell[self.names.index(name)] for cell, _ in pairs}) > 1]
        return [self.of_pairs("main effect", wanted, pairs, ", ".join(over))] if pairs else []

    def interactions(self, wanted, other):
        """Of what is compared with the levels of another factor."""
        place, found, first = self.names.index(other), [], self.reference(other)
        there = dict(self.pairs({**wanted}))
        for level in self.factors[other]:
            twins = [(cell, design.at(cell, self.names, {other: first})) for cell in there if cell[place] == level]
            twins = [(cell, twin) for cell, twin in twins if twin in there]
            if level == first or not twins:
                continue
            terms = [{cell: 1, there[cell]: -1, twin: -1, there[twin]: 1} for cell, twin in twins]
            where = f"{self.label([level], [other])} minus {self.label([first], [other])}"
            found.append(Contrast("interaction", " x ".join(wanted), self.words(wanted), where, terms))
        return found

    def contrasts(self):
        compared = self.compared()
        found = [one for wanted in compared for one in self.differences(wanted)]
        found += [one for wanted in compared for other in self.others for one in self.interactions(wanted, other)]
        for name in self.others:
            found += [one for level in self.factors[name] if level != self.reference(name)
                      for one in self.main_effect({name: level})]
        return found


# ---- the numbers ---------------------------------------------------------------------------------

def exponential(value, function=math.exp):
    """Infinite instead of an OverflowError."""
    return math.inf if value > EXPONENT_MAX else function(value)


def row_of(contrast, runs, metric, margin):
    """A row of the table of contrasts. runs: {levels: {seed: Run}}."""
    one = judge(contrast.terms, runs, metric, margin)
    return {"kind": contrast.kind, "factor": contrast.factor, "contrast": contrast.what, "where": contrast.where,
            "mean": one.interval.mean, "low": one.interval.low, "high": one.interval.high, "seeds": one.interval.n,
            "p": one.p, "verdict": one.verdict, "why": one.why, "more_seeds": one.more,
            "kept": len(one.kept), "of": len(contrast.terms), "trained": one.sides[0].trained,
            "trained_baseline": one.sides[1].trained, "runs": len(one.seeds) * len(contrast.terms)}


@dataclass(repr=False, eq=False)
class Answer:
    """The answer of the study in a folder.

    baseline, within   other ones than the study's: {factor: level} or a text; a list of factors
    metric             a number of summary.json
    labels             {option, level or option=level: its name in tables and figures}, beside those that were written before
    margin             within which losses are equal
    where              {option: value}: only of variants with these


    judged, variants, contrasts, stability   pandas.DataFrames: a row per judged run, variant, contrast, variant that has the option of
               --stable
    runs       {levels: {seed: Run}}
    quantity, unit   the metric in words, and its unit or ""
    complete   whether all runs of the study have ended; missing: the number of judging runs that have not
    """

    folder: str
    baseline: object = None
    within: list = None
    metric: str = "val_loss"
    labels: dict = None
    margin: float = None
    where: dict = None

    def __post_init__(self):
        folder, baseline, within, metric = self.folder, self.baseline, self.within, self.metric
        self.record = known_record(folder)
        self.factors, self.axes = self.record["factors"], list(self.record["axes"])
        self.unit, self.quantity = ("nats" if metric in LOSSES else ""), QUANTITIES.get(metric, metric)
        if self.margin is None:
            self.margin = MARGIN if self.unit else 0
        self.labels = {**self.record.get("labels", {}), **(self.labels or {})}
        self.described = {tuple(one["levels"]): one for one in only(self.record["variants"], self.where, lambda one: one["options"])}
        self.factors = {name: [level for level in levels if level in {one[place] for one in self.described}]
                        for place, (name, levels) in enumerate(self.factors.items())}
        self.baseline = design.pairs_of(baseline, self.factors) if baseline else self.record["baseline"]
        for name in within or ():
            if name not in self.factors or name in self.baseline:
                raise UsageError(f"--within={name}: is no other factor (there are {', '.join(self.factors)})")
        self.runs, self.missing, self.runner = {}, 0, Runner(folder, self.record["base"])
        self.read_runs()
        question = Question(self.factors, self.runs, self.baseline, within, self.label)
        self.swept = {}
        self.stability = pandas.DataFrame(self.stability_rows(question) if self.record.get("stable") else [])
        self.complete = self.record["complete"] and not self.missing
        self.judged = pandas.DataFrame(self.judged_rows())
        self.variants = pandas.DataFrame([self.variant_row(levels) for levels in self.described])
        self.contrasts = pandas.DataFrame([row_of(one, self.runs, metric, self.margin) for one in question.contrasts()
                                           if common_seeds(one.terms, self.runs)])
        if len(self.contrasts):
            self.contrasts.insert(9, "p_holm", math.nan)
            for _, family in self.contrasts.groupby("factor"):
                self.contrasts.loc[family.index, "p_holm"] = holm(family["p"])

    def label(self, levels, names):
        return design.label_of(list(levels), list(names), self.labels)

    def read_runs(self):
        """Reads the judged runs; says damaged ones, which then are missing."""
        for levels, one in self.described.items():
            for seed in self.record["seeds"]:
                outcome = None
                try:
                    if "recipe" in one:
                        outcome = self.runner.outcome({**one["options"], **one["recipe"]}, seed)
                except RunError as error:
                    say(f"{error}; this run is left out")
                if outcome:
                    self.runs.setdefault(levels, {})[seed] = outcome
                else:
                    self.missing += 1

    def stability_rows(self, question):
        """A row for each variant that has the option of --stable; fills self.swept: {levels: {value: {seed: Run}}}."""
        name, values, margin = (self.record["stable"][key] for key in ("name", "values", "margin"))
        seeds = self.record["seeds"]
        for levels, one in self.described.items():
            if name in one.get("recipe", ()):
                self.swept[levels] = self.runner.curve({**one["options"], **one["recipe"]}, name, values, seeds)
                self.missing += sum(len(seeds) - len(found) for found in self.swept[levels].values())
        curves = {levels: curve_of(found) for levels, found in self.swept.items()}
        for levels, curve in curves.items():
            if curve:
                baseline = design.at(levels, question.names, self.baseline)
                yield {**dict(zip(self.factors, levels)),
                       **stability_row(curve, curves.get(baseline) if baseline != levels else None, margin)}

    def judged_rows(self):
        for levels, found in self.runs.items():
            for seed, outcome in found.items():
                numbers = {name: value for name, value in outcome.summary.items()
                           if isinstance(value, (int, float)) and name not in ("threads", "corpus_bytes")}
                yield {**dict(zip(self.factors, levels)), **dict.fromkeys(self.axes), **self.described[levels]["recipe"],
                       "seed": seed, "exit_reason": outcome.status, **numbers, "run": outcome.name}

    def variant_row(self, levels):
        one, outcomes = self.described[levels], list(self.runs.get(levels, {}).values())
        values = [value_of(outcome, self.metric) for outcome in outcomes if has_trained(outcome, self.metric)]
        interval = t_interval(values)
        row = {**dict(zip(self.factors, levels)), "mean": interval.mean, "low": interval.low, "high": interval.high}
        if self.metric in LOSSES:
            row["perplexity"] = exponential(interval.mean)
        row.update({name: one.get("recipe", {}).get(name) for name in self.axes})
        return {**row, "at_end": " ".join(one.get("at_end", [])), "unstable": one.get("unstable", False),
                "seeds": len(outcomes), "trained": len(values),
                "trials": one.get("trials", 0)}

    def tuned(self):
        """{option: {levels: {value: {seed: Run}}}} of the options with numbers: the judged runs of --stable, or else those of tuning,
        with the best values of other options."""
        seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.record["tuning_seeds"])
        found = {name: {} for name in self.axes}
        for levels, one in self.described.items():
            for name, values in one.get("values", {}).items():
                options = {**one["options"], **one["recipe"], "hold-out": self.record["hold_out"]}
                found[name][levels] = self.runner.curve(options, name, values, seeds)
        if self.swept:
            found[self.record["stable"]["name"]] = self.swept
        return {name: of for name, of in found.items()
                if of and all(isinstance(value, (int, float)) for one in of.values() for value in one)}

    # ---- words -------------------------------------------------------------------------------------

    def title(self):
        state = "" if self.complete else \
            f"Partial answer: {self.missing} of {len(self.described) * len(self.record['seeds'])} judging runs have not ended. "
        return state + f"{len(self.described)} variants, judged by seeds {', '.join(map(str, self.record['seeds']))}."

    def notes(self):
        """What a reader has to know, a sentence each."""
        notes = [f"Intervals are {PERCENT} Student-t intervals over seeds, paired by seed for contrasts; p is that of the paired t test, "
                 "adjusted by Holm's method for all contrasts of the factor.",
                 "A verdict needs an interval that excludes 0, which is p < 0.01 before Holm's method" +
                 (f", or one within {self.margin:g} of 0, which is equal" if self.margin else "") + "; anything else is undecided."]
        if self.axes:
            trials = " to ".join(dict.fromkeys(str(count(self.variants["trials"])) for count in (min, max)))
            notes.append(f"Tuned: {' and '.join(self.axes)}, on seeds from 101 on and on {self.record['hold_out']:g} of the "
                         f"training split, with {trials} trials for each variant. "
                         "The intervals take the chosen settings as given: they do not include the choice.")
        else:
            notes.append("Nothing was tuned: the intervals are those of the given options.")
        if self.swept:
            name, margin = self.record["stable"]["name"], self.record["stable"]["margin"]
            notes.append(f"A {name} is stable if all seeds train and end at most {margin:g} above the variant's best mean loss. Nothing is "
                         "known between two values that were tried, so the interval of a ratio is no narrower than the grid. Sensitivity "
                         "(Wortsman et al. 2023, arXiv:2309.14322) is the mean over the values of the loss, or of that before training "
                         "if it is lower, minus the lowest loss.")
        seeds = [found for curve in (self.runs, *self.swept.values()) for found in curve.values()]
        if any(run.status == "stuck" for found in seeds for run in found.values()):
            notes.append("A run is stuck, and did not train, if it ends within 0.05 of the loss of a model that knows only how frequent "
                         "characters are, or above it.")
        for levels, one in self.described.items():
            name = self.label(levels, self.factors)
            notes += [f"{name}: the best {end} is at an end of its axis, and one beyond it may be better."
                      for end in one.get("at_end", [])]
            notes += [f"{name}: unstable in tuning, as are all settings that were tried."] * one.get("unstable", False)
            notes += [f"{name}: {lacked} has no effect here; its trials were spent on other tuned options."
                      for lacked in one.get("lacking", [])]
        return notes + self.provenance()

    def provenance(self):
        """The text and the build of the runs."""
        summary = next((outcome.summary for found in self.runs.values() for outcome in found.values()), {})
        text = f"Text: {summary.get('corpus') or 'the built-in grammar'}, {summary.get('corpus_characters', '?')} characters, CRC-32 " \
               f"{summary.get('corpus_crc32', '?')}."
        return [f"{text} Build: {build_of(summary)}."] if summary else []

    def _repr_html_(self):
        """What a notebook shows."""
        from study.documents import html_body
        return html_body(self)

    def __str__(self):
        from study.documents import plain_text
        return plain_text(self)

    def write(self, columns="one", rows=(), name="answer"):
        """Writes answer.md, answer.tex, answer.csv, judged.csv, figures and the page into the study's folder, and keeps the labels.
        Returns the names, which begin with `name` if it is another one. columns: figures and LaTeX's first table fit "one" column of
        a paper or its "page". rows: factors that make rows of panels."""
        from study.documents import write_all
        for name in rows:
            if name not in self.factors or name in self.baseline:
                raise UsageError(f"--rows={name}: is no factor beside the baseline's (there are {', '.join(self.factors)})")
        keep_labels(self.folder, self.labels)
        return write_all(self, (columns, rows), name)
