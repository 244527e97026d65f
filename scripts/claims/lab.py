"""What the experiments of the report use: the texts, the names and folders of runs, and initial weights with an outlier.

A run is not trained if its measures are known (evidence/lab.py). Its name contains a checksum of its options and its text.

FOLDER/texts/ has the texts that are made from a corpus: cut into lines of 3 to 60 characters ("lines"), or of 32 characters,
up to N more or less ("spread-N"); the first N characters ("first-N"); and "toy", sentences of invented words for trials.
"""
import functools
import math
import os
import random
import shlex
import tempfile
import zlib

from common.ablations import has_ended
from common.command_line import check_characters, teller, write_whole
from common.runs import RunError
from evidence import lab
from evidence.lab import read_corpus, write_changed
from claims import plan
from study import judging

TOY, RANDOM = "toy", "random"
CUT = {True: 40000, False: 2000000}  # characters that are cut into lines, in a trial and else
OUTLIER_CHANNEL = 3
say = teller("report")


def toy_text():
    """Sentences of invented words, the frequent ones short."""
    generator = random.Random(1)
    words = ["".join(generator.choices("bdfgklmnprstaeiou", k=1 + rank // 12)) for rank in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    return "".join(" ".join(generator.choices(words, weights, k=6)).capitalize() + generator.choice((". ", ".\n")) for _ in range(1000))


def cut(text, count, shortest, longest):
    """The first `count` characters in lines of these lengths."""
    text, generator = " ".join(text[:count].split()), random.Random(1)
    lines, at = [], 0
    while at < len(text):
        length = generator.randint(shortest, longest)
        lines.append(text[at:at + length])
        at += length
    return "\n".join(line for line in lines if line.strip()) + "\n"


def labelled(paths, option):
    """{label: path}; a label is a file's name without its ending."""
    for path in paths:
        check_characters(path)
    labels = {os.path.splitext(os.path.basename(path))[0].replace(" ", "-"): path for path in paths}
    if len(labels) < len(paths):
        raise RunError(f"{option}: two texts have the same name")
    return labels


class Lab(lab.Lab):
    """corpora: {label: path} of the base texts; others: of those of E23 and E26 only. Their labels are `bases` and `others`.
    records, measures, how: as in evidence/lab.py."""

    def __init__(self, folder, corpora, others, records, measures, how):
        super().__init__(folder, records, measures, how, say)
        self.bases, self.others = tuple(corpora), tuple(others)
        self.paths, self.starts = {**corpora, **dict(others)}, {}
        self.bases_of = {}  # {label of a text that was made: label of the text it was made of}
        if TOY in corpora:
            self.keep_text(TOY, toy_text())
        for label in corpora:
            if len(self.text(label)) < 4000:
                raise RunError(f"{self.paths[label]}: {len(self.text(label))} characters are too few (a text needs 4000)")

    # ---- texts -----------------------------------------------------------------------------------

    def text_of(self, run):
        """The label of the text that a run's was made of."""
        return self.bases_of.get(run.corpus, run.corpus)

    def longest(self):
        return max(self.bases, key=lambda label: len(self.text(label)))

    def part(self, label, count):
        """The label of the first `count` characters of a text, or None if it has fewer."""
        text = self.text(label)
        return self.made(label, f"first-{count}", text[:count]) if len(text) >= count else None

    def lines(self, label):
        return self.made(label, "lines", cut(self.text(label), CUT[label == TOY], 3, 60))

    def spread(self, label, more):
        """The label of a text in lines of 32 characters, up to `more` more or less."""
        return self.made(label, f"spread-{more}", cut(self.text(label), CUT[label == TOY], 32 - more, 32 + more))

    def made(self, label, kind, text):
        """The label of a text, which is written once."""
        name = f"{label}-{kind}"
        if name not in self.paths:
            self.keep_text(name, text)
            self.bases_of[name] = label
        return name

    def keep_text(self, label, text):
        self.paths[label] = path = os.path.join(self.folder, "texts", f"{label}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or read_corpus(path) != text:
            write_whole(path, text)

    @functools.lru_cache(maxsize=None)
    def text(self, label):
        return read_corpus(self.paths[label])

    @functools.lru_cache(maxsize=None)
    def checksum(self, label):
        """The checksum of a text; 0 for ./train's own."""
        return zlib.crc32(self.text(label).encode()) if label in self.paths else 0

    # ---- runs ------------------------------------------------------------------------------------

    def name_of(self, run):
        return plan.run_name(run, self.checksum(run.corpus))

    def folder_of(self, run):
        return os.path.join(self.folder, "runs", self.name_of(run))

    def complete(self, runs):
        """Trains the runs of which a measure is not known, and measures them."""
        lacking = [run for run in runs if self.lacking(run)]
        named = {self.name_of(one): one for run in lacking for one in (run, *run.beside)}
        missing = {name: run for name, run in named.items() if not has_ended(self.folder, name)}
        if missing:
            for run in missing.values():
                if "start" in run.options:
                    self.make_start(run.options["start"])
            lines = {name: plan.grid_line(name, run, self.paths) for name, run in sorted(missing.items(), key=lambda one: one[1].seed)}
            judging.do_lines(self.folder, lines, self.how, say)
        self.measure(lacking)

    def losses_of(self, runs):
        """The final validation losses, infinite where a run did not train."""
        self.complete(runs)
        ends = [self.values_of(run) for run in runs]
        return [end["val_loss"] if end["trained"] else math.inf for end in ends]

    def with_start(self, run, factor):
        """The run from initial weights of which a channel of the positions is multiplied."""
        label = f"x{factor}-{self.name_of(run)}"
        self.paths[label] = os.path.join(self.folder, "states", f"{label}.safetensors")
        self.starts[label] = run, factor
        return run._replace(options={**run.options, "start": label})

    def make_start(self, label):
        """Writes the initial weights that a run starts from, if they are not there."""
        (run, factor), path = self.starts[label], self.paths[label]
        if os.path.exists(path):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)

        def multiply(arrays):
            arrays["transformer.wpe.weight"][:, OUTLIER_CHANNEL] *= factor
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            self.call(*shlex.split(plan.grid_line("", run, self.paths)), "--max-iters=0", "--quiet", f"--out={scratch}/run")
            write_changed(os.path.join(scratch, "run"), path, multiply)
