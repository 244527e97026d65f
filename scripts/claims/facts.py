"""From runs to facts: measures each run once, stores the measurements, and makes the table of facts.

FOLDER/measured.jsonl has a line for each run and measure: the run's name, the measure, checksums of the
measure's source and of the program, and the values. A run's name contains a checksum of its options and its text,
so a line is valid wherever the program computes the same numbers. So the file of another report can be reused
(--continue).

- A run is not repeated if all its measurements are known.
- A run is measured again if its folder is here and ./train has changed.
- Measurements that need no run are only valid for the program that made them, and times only for the machine.
- A kill loses at most the line that is being written.
"""
import ast
from concurrent.futures import ThreadPoolExecutor
import functools
import inspect
import json
import math
import os
import sys
import threading
import zlib

from claims import probes
from claims.exact import ALONE
from claims.fact_table import (EXACT_CELL, RECIPES, UNREADABLE, FactError, Facts, lines_of, read_facts, seed_order,
                               shorter, variant_options, variant_text)
from claims.instruments import INSTRUMENTS
from claims.measures import MEASURES
from claims.outliers import OUTLIERS
from claims.plan import Rate
from claims.quantities import rate_rows, stable_rates
from common.runs import RunError

ALL_MEASURES = {**MEASURES, **INSTRUMENTS, **OUTLIERS}
ALONE_RUN = "alone-"
CANARY = "canary"
PENALTY = 0.05
TIMED = "profile"                # times, which another machine has to measure itself
WAITING = ("movement", "drift")  # measures that read other runs too, which may end later
HELPERS = (probes,)  # modules that compute a part of a measure; those that only read files are none
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)  # what may have a docstring


def code_of_text(source):
    """The code of a module's source, without comments, docstrings, layout and imports."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [one for one in node.body if not isinstance(one, (ast.Import, ast.ImportFrom))]
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


@functools.lru_cache(maxsize=None)
def code_of(module):
    return code_of_text(inspect.getsource(module))


def source_of(measure):
    """The checksum of the sources that compute a measure, without the program."""
    modules = sys.modules[measure.__module__], *HELPERS
    return f"{zlib.crc32((measure.__name__ + ''.join(map(code_of, modules))).encode()):08x}"


@functools.lru_cache(maxsize=None)
def program_of(train):
    """The checksum of the program."""
    with open(train, "rb") as file:
        return f"{zlib.crc32(file.read()):08x}"


def alone_name(lab, experiment):
    """The name that replaces a run for measurements that need none: they are valid for this program only."""
    return f"{ALONE_RUN}{experiment.id}-{program_of(lab.train)}"


class Records:
    """known: {(run, measure): {metric: value}}, kept in a file. programs: {(run, measure): checksum of the
    program} of one's own. first: {run: checksum of the program that measured it first}. other: the file of another
    report, whose measurements are taken over."""

    def __init__(self, path, other=None):
        self.path, self.known, self.programs, self.first = path, {}, {}, {}
        self.lock = threading.Lock()
        self.sources = {name: source_of(measure)
                        for name, measure in {**ALL_MEASURES, **ALONE}.items()}
        for source, own in (other, False), (path, True):
            if source and (not own or os.path.exists(source)):
                self.read(source, own)

    def read(self, path, own):
        """Takes the measurements of a file. Of another report's (not own) not those that need no run, which are made with
        one's own program, and not times, which are of one's own machine."""
        try:
            lines = lines_of(path)
        except UNREADABLE as error:
            raise FactError(f"{path}: {getattr(error, 'strerror', None) or 'not a file of measurements'}") from None
        if own and lines and not lines[-1].endswith("\n"):  # a kill left this line incomplete
            with open(path, "a", encoding="utf-8") as file:
                file.write("\n")
        for line in lines:
            try:
                record = json.loads(line)
                key, values, program = (record["run"], record["measure"]), record["values"], record.get("program")
                is_valid = record["source"] == self.sources.get(key[1])
            except (ValueError, KeyError, TypeError):
                continue  # an incomplete line
            if own:
                self.first.setdefault(key[0], program)
            if is_valid and (own or not key[0].startswith(ALONE_RUN) and key[1] != TIMED):
                self.known[key] = values
                if own:
                    self.programs[key] = program

    def find(self, run, measure):
        return self.known.get((run, measure))

    def is_taken_over(self, run, measure):
        """Whether another report measured it, and this one did not."""
        return (run, measure) in self.known and (run, measure) not in self.programs

    def text(self, runs):
        """The lines of these runs for another report, in an order that depends on them only."""
        return "".join(json.dumps({"run": run, "measure": measure, "source": self.sources[measure],
                                   "values": {name: shorter(value) for name, value in values.items()}})
                       + "\n" for (run, measure), values in sorted(self.known.items())
                       if run in runs and measure != TIMED)

    def is_of_another(self, run, measure, program):
        """Whether it was measured in this folder by another program."""
        return (run, measure) in self.programs and self.programs[run, measure] != program

    def is_older(self, run, program):
        """Whether the run was there before this program: another one measured it first."""
        return self.first.get(run, program) != program

    def keep(self, run, measure, values, program):
        line = json.dumps({"run": run, "measure": measure, "source": self.sources[measure],
                           "program": program, "values": values})
        with self.lock:
            self.known[run, measure], self.programs[run, measure] = values, program
            self.first.setdefault(run, program)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


def wanted(lab, run):
    """The measures of a run that are not known yet, or were measured here by another program."""
    name, program = lab.name_of(run), program_of(lab.train)
    return [measure for measure in run.measures if lab.records.find(name, measure) is None or
            lab.records.is_of_another(name, measure, program) and lab.ended(run)]


def waiting_seeds(lab, runs):
    """The seeds of an experiment's runs whose measures need other runs too, and are not known."""
    return {run.seed for run in runs if set(wanted(lab, run)) & set(WAITING)}


def is_missing(lab, run, waiting):
    """Whether the run has to be trained: it is not there, and a measurement is missing. A run of which nothing is
    measured is one that others need; waiting: waiting_seeds()."""
    return bool(wanted(lab, run) if run.measures else run.seed in waiting) and not lab.ended(run)


def measure_run(lab, run, say):
    """Measures what is not known of a run that has ended. A measure without values is kept too, so that
    it is not tried again."""
    name, folder = lab.name_of(run), lab.folder_of(run)
    for measure in wanted(lab, run) if lab.ended(run) else ():
        diverged = measure not in ("ending", "curve") and not math.isfinite(lab.ending_of(run)["val_loss"])
        try:
            values = {} if diverged else ALL_MEASURES[measure](lab, folder, run)
        except (RunError, OSError, ValueError, KeyError, RuntimeError) as error:
            say(f"{name}: {measure}: {' '.join(str(error).split()) or type(error).__name__}")
            continue
        if values or diverged or measure not in WAITING:
            lab.records.keep(name, measure, values, program_of(lab.train))


def measure_all(lab, runs, jobs, say, progress):
    """Measures runs side by side. progress(done, all) is called after each."""
    todo = [run for run in runs if wanted(lab, run) and lab.ended(run)]
    with ThreadPoolExecutor(jobs) as pool:
        for done, _ in enumerate(pool.map(lambda run: measure_run(lab, run, say), todo), 1):
            progress(done, len(todo))


def measure_alone(lab, experiments, say):
    """Makes the measurements that need no run."""
    for experiment in experiments:
        for name in experiment.alone:
            if lab.records.find(alone_name(lab, experiment), name) is not None:
                continue
            try:
                rows = ALONE[name](lab)
            except (OSError, ValueError, RuntimeError) as error:
                say(f"{experiment.id}: {name}: {error}")
                continue
            if rows:
                lab.records.keep(alone_name(lab, experiment), name, rows, program_of(lab.train))


def gather(lab, planned, experiments):
    """The Facts that are known of planned runs, (experiment, size, label, run), and of experiments that
    need none."""
    facts = Facts()
    for experiment, size, label, run in planned:
        values = {}
        for measure in run.measures:
            values.update(lab.records.find(lab.name_of(run), measure) or {})
        for metric, value in {**values, **(tuning_of(run) if values else {})}.items():
            facts.add(experiment.id, label, size.name, run.variant, run.seed, metric, value)
    for experiment in experiments:
        for name in experiment.alone:
            for row in lab.records.find(alone_name(lab, experiment), name) or ():
                variant, seed, metric, value = row
                facts.add(experiment.id, *EXACT_CELL, variant, seed, metric, value)
    add_over_rates(facts)
    add_regret(facts)
    add_canaries(facts)
    facts.asked.clear()  # what verdicts and the page read counts
    return facts


def add_times(facts, experiments, path):
    """The times of a report that is continued, as long as none were measured here. path: its facts."""
    timed = {one.id for one in experiments if one.timed} - facts.experiments()
    for row in read_facts(path).rows() if timed and os.path.exists(path) else ():
        if row[0] in timed:
            facts.add(*row)


def tuning_of(run):
    """Of a run at a tuned rate: what is wrong with it, 1 each. It is an end of the grid, or that of another variant,
    or another rate with a lower mean was passed over. And the initial standard deviation of its recipe."""
    rate = run.options.get("learning-rate")
    if not isinstance(rate, Rate):
        return {}
    flags = {"rate_at_end": rate.at_end, "rate_of_another": not rate.is_of(run), "rate_is_safer": rate.is_safer}
    std = run.options.get("init-std")
    return {**{name: 1.0 for name, is_set in flags.items() if is_set}, **({"init_std": std} if std else {})}


def add_regret(facts):
    """Of E1's variants at their tuned rates: how much higher the final loss is than at the judged rate that is
    best on average over the same seeds."""
    for cell in facts.cells("E1"):
        for variant in facts.variants("E1", cell, "val_loss"):
            options = variant_options(variant)
            if options.get("rate") != RECIPES[0]:
                continue
            own, others = facts.series("E1", cell, "val_loss", variant), []
            for one in facts.variants("E1", cell, "val_loss"):
                named = {name: value for name, value in variant_options(one).items()
                         if (name, value) != ("depth", "base")}
                series = facts.series("E1", cell, "val_loss", one)
                if one != variant and {**named, "rate": RECIPES[0]} == options and set(own) <= set(series):
                    others.append([series[seed] for seed in own])
            best = min(others, key=sum, default=None)
            for (seed, loss), other in zip(own.items(), best or ()):
                facts.add("E1", *cell, variant, seed, "rate_regret", loss - other)


def add_over_rates(facts):
    """Of E1's variants that were run at a grid of rates: the largest stable rate, and the sensitivity to
    the rate of Wortsman et al. 2023: the mean over the rates of min(loss, loss of the first step) minus the
    lowest loss."""
    for cell in facts.cells("E1"):
        grids, view = {}, functools.partial(facts.series, "E1", cell)
        for variant in facts.variants("E1", cell, "val_loss"):
            options = variant_options(variant)
            if "depth" in options:
                rate = float(options.pop("rate"))
                grids.setdefault(variant_text(options), set()).add(rate)
        for variant, rates in grids.items():
            if len(rates) < 2:  # what --claim=ID needs of the grid says nothing of it
                continue
            found = {"stable_rate": stable_rates(rate_rows(view, sorted(rates), variant))}
            if len(rates) == max(map(len, grids.values())):  # a part of the grid is another measure
                found["rate_sensitivity"] = sensitivities(view, sorted(rates), variant)
            for metric, series in found.items():
                for seed, number in series.items():
                    facts.add("E1", *cell, variant, seed, metric, number)


def sensitivities(view, rates, variant):
    """{seed: sensitivity} of the seeds that have every learning rate."""
    rows = [[view(metric, f"{variant} rate={rate:g}") for metric in ("val_loss", "first_loss")] for rate in rates]
    found = {}
    for seed in rows[0][0]:
        if all(seed in series for row in rows for series in row):
            losses = [min(loss[seed], first[seed]) for loss, first in rows]
            found[seed] = sum(losses) / len(losses) - min(losses)
    return found


def add_canaries(facts):
    """What canaries read: losses of E1 under other names. Where runs of other seeds are compared, seed s is
    paired with the run of the next seed; so the difference has the noise between runs."""
    sources = [("copy=1", "norm=rms", 0, 0), ("copy=2", "norm=rms", 1, 0), ("place=pre", "norm=none", 0, 0),
               ("place=post", "norm=none placement=post", 0, 0), ("penalty=0", "norm=rms", 1, 0),
               ("penalty=0.05", "norm=rms", 0, PENALTY)]
    for cell in facts.cells("E1"):
        for name, variant, further, more in sources:
            for metric in ("val_loss", "build"):
                series = facts.series("E1", cell, metric, f"{variant} rate=default")
                seeds = sorted(series, key=seed_order)
                for seed, partner in zip(seeds, seeds[further:]):
                    facts.add(CANARY, *cell, name, seed, metric,
                              series[partner] + (more if metric == "val_loss" else 0))
