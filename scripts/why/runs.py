"""Trains the models of an experiment of WHY.md on a text, and measures them: a row for each judged run.

Each group is a study: its models are tuned with seeds of their own on a held-out tenth of the training split, and judged at
their best settings with other seeds. Ended runs are kept, so a killed command continues.
"""
import os
import zlib

from common.command_line import teller
from common.runs import Run
from study import Study
from study.design import words_of
from why import measures

say = teller("why")
TUNING_SEEDS = 2


class Lab:
    """out: the folder of all texts. text: a file, which --corpus=random replaces. jobs: runs side by side, or None."""

    def __init__(self, out, text, jobs=None):
        self.text, self.jobs = os.path.abspath(text), jobs
        with open(text, encoding="utf-8") as file:
            content = file.read()
        self.characters, self.frequencies = len(content), measures.frequencies_loss(content)
        self.label = os.path.basename(text).removesuffix(".txt")
        self.folder = os.path.join(out, f"{self.label}-{zlib.crc32(content.encode()):08x}")

    def words_of(self, group):
        """The options and the text of every run of a group."""
        return words_of(group.common) + ([] if "corpus" in group.common else [self.text])

    def value_of(self, name, run, words):
        """What is measured of a judged run: a number of its summary, or a function of measures.py. words: of its command."""
        if name in run.summary:
            return run.summary[name]
        if name == "above_frequencies":
            loss = run.summary.get("val_loss")
            return None if loss is None else loss - self.frequencies
        if name == "branch_share":  # of initial weights: one seed is enough
            return measures.branch_share(words) if run.options["seed"] == 1 else None
        return getattr(measures, name)(run.folder) if run.status in ("done", "stuck") else None

    def rows(self, group, name):
        """The judged runs of a group, each {column: value}. name: of its folder."""
        study = Study(variants=[model.options for model in group.models], tune=group.tune, seeds=list(group.seeds),
                      base=self.words_of(group), out=os.path.join(self.folder, name), tuning_seeds=TUNING_SEEDS,
                      jobs=self.jobs, say=say).run()
        for model, variant in zip(group.models, study.variants):
            found = study.found.get(variant.levels, {"recipe": {}, "at_end": []})
            options = {**variant.options, **found["recipe"]}
            for seed in group.seeds:
                run = Run(study.runner.path_of(options, seed))
                words = [*words_of({**group.common, **options}), f"--seed={seed}", self.text]
                yield {"text": self.label, "condition": model.condition, "x": model.x, "seed": seed, **found["recipe"],
                       "at_end": " ".join(found["at_end"]), "status": run.status,
                       **{name: self.value_of(name, run, words) for name in group.measures}}
