"""Trains the models of an experiment of WHY.md on a text, and measures them: a row for each judged run.

Each group is a study: its models are tuned with seeds of their own on a held-out tenth of the training split, and judged at
their best settings with other seeds. Ended runs and measurements are kept, so a killed command continues.
"""
from collections import namedtuple
import os
import zlib

from common.command_line import check_characters, teller
from common.factors import words_of
from common.run_options import cores_here
from common.runs import ENDED, Run
from evidence import lab
from study import Study, judging
from why import measures

say = teller("why")
TUNING_SEEDS = 2

# A judged run: its folder, its seed, the words of its command, and what is measured of it (measures.py).
Judged = namedtuple("Judged", "folder seed words measures")


class Lab(lab.Lab):
    """out: the folder of all texts. text: a file, which --corpus=random replaces. jobs: runs side by side, or None."""

    def __init__(self, out, text, jobs=None):
        check_characters(str(text))
        self.text, self.jobs, content = os.path.abspath(text), jobs, lab.read_corpus(text)
        self.characters = len(content)
        self.label = os.path.basename(text).removesuffix(".txt")
        folder = os.path.join(out, f"{self.label}-{zlib.crc32(content.encode()):08x}")
        super().__init__(folder, lab.Records(os.path.join(folder, "measured.jsonl")),
                         {one.__name__: one for one in measures.MEASURES.values()},
                         judging.How(str(jobs or ""), jobs or cores_here(), "", False), say)

    def name_of(self, run):
        return os.path.relpath(run.folder, self.folder)

    def folder_of(self, run):
        return run.folder

    def rows(self, group, name):
        """The judged runs of a group, each {column: value}. name: of its folder."""
        base = words_of(group.common) + ([] if "corpus" in group.common else [self.text])
        study = Study(variants=[model.options for model in group.models], tune=group.tune, seeds=list(group.seeds), base=base,
                      out=os.path.join(self.folder, name), tuning_seeds=TUNING_SEEDS, jobs=self.jobs, say=say).run()
        names = list(dict.fromkeys(measures.MEASURES[name].__name__ for name in group.measures))
        judged = []
        for model, variant in zip(group.models, study.variants):
            found = study.found.get(variant.levels, {"recipe": {}, "at_end": []})
            options = {**variant.options, **found["recipe"]}
            for seed in group.seeds:
                run = Run(study.runner.path_of(options, seed))
                words = [*words_of({**group.common, **options}), f"--seed={seed}", self.text]
                judged.append((Judged(run.folder, seed, words, names if run.status in ENDED else ["ending"]),
                               {"text": self.label, "condition": model.condition, "x": model.x, "seed": seed, **found["recipe"],
                                "at_end": " ".join(found["at_end"]), "status": run.status}))
        self.measure([run for run, _ in judged])
        for run, row in judged:
            values = self.values_of(run)
            yield {**row, **{name: values.get(name) for name in group.measures}}
