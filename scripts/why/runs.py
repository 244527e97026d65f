"""Trains the models of an experiment of WHY.md on a text, and measures them: a row for each judged run.

A group with axes to tune is searched with seeds of its own on a held-out tenth of the training split; then each model is
judged at its best recipe with other seeds. Ended runs are kept, so a killed command continues.
"""
import hashlib
import os

from ablate.selection import Axis
from ablate.tuning import Runs, Search, words_of
from common.command_line import teller
from common.run_options import expect_train
from common.runs import Run
from why import measures

say = teller("why")
TUNING_SEEDS = 2
HELD_OUT = 0.1


class Lab:
    """folder: of all runs. text: the path of a text, which --corpus=random replaces. jobs: runs side by side, or None."""

    def __init__(self, folder, text, jobs=None):
        self.folder, self.text = folder, os.path.abspath(text)
        self.jobs = [f"--jobs={jobs}"] if jobs else []
        with open(text, encoding="utf-8") as file:
            content = file.read()
        self.frequencies = measures.frequencies_loss(content)
        self.label = f"{os.path.basename(text).removesuffix('.txt')}"
        self.folder = os.path.join(folder, f"{self.label}-{hashlib.sha1(content.encode()).hexdigest()[:8]}")

    def runs_of(self, group):
        common = [*words_of(group.common)]
        corpus = [] if "corpus" in group.common else [self.text]
        return Runs(self.folder, [*common, *corpus], self.jobs, expect_train())

    def recipes(self, group, runs):
        """(recipe {option: value}, the options at an end of their axes) of each model."""
        if not group.tune:
            return [({}, []) for _ in group.models]
        axes = [Axis(name, values) for name, values in group.tune.items()]
        names = [axis.name for axis in axes]

        def measure(wanted):
            return runs.measure([({**group.models[place].options, **dict(zip(names, cell)), "hold-out": HELD_OUT}, seed)
                                 for place, cell, seed in wanted])

        found = Search(list(range(len(group.models))), axes, measure, None, say).full_grid(TUNING_SEEDS)
        return [(dict(zip(names, one.cells[0])), one.at_end) for _, one in sorted(found.items())]

    def rows(self, group):
        """The judged runs of a group, each {column: value}."""
        runs = self.runs_of(group)
        recipes = self.recipes(group, runs)
        models = [(model, recipe, ends) for model, (recipe, ends) in zip(group.models, recipes)]
        runs.measure([({**model.options, **recipe}, seed) for model, recipe, _ in models for seed in group.seeds])
        for model, recipe, ends in models:
            share = None
            for seed in group.seeds:
                options = {**model.options, **recipe}
                folder = os.path.join(runs.folder, "runs", runs.name_of(options, seed))
                run = Run(folder)
                row = {"text": self.label, "condition": model.condition, "x": model.x, "seed": seed,
                       **recipe, "at_end": " ".join(ends), "status": run.status}
                for name in group.measures:
                    if name in run.summary:
                        row[name] = run.summary[name]
                    elif name == "above_frequencies":
                        row[name] = (run.summary.get("val_loss") or float("nan")) - self.frequencies
                    elif name == "branch_share":
                        if share is None:
                            share = measures.branch_share([*words_of({**group.common, **options}), f"--seed={seed}", self.text])
                        row[name] = share
                    elif run.status in ("done", "stuck"):
                        row[name] = getattr(measures, name)(folder)
                yield row
