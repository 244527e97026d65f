"""What experiments use: ./train, the texts, the folder of runs with what was measured of them, evaluations and dumps.

FOLDER/measured.jsonl has a line for each run and measure: the run's name, the measure, VERSION and the values. A run's name
contains a checksum of its options and its text, so a line is valid wherever the program computes the same numbers, and the
file of another report can be reused. Times are only valid for the machine. A run is not trained if its measures are known. A
kill loses at most the line that is being written.

FOLDER/texts/ has the texts that are made from a corpus: cut into lines of 3 to 60 characters ("lines"), or of 32 characters,
up to N more or less ("spread-N"); the first N characters ("first-N"); and "toy", sentences of invented words for trials.
"""
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import functools
import json
import math
import os
import random
import shlex
import subprocess
import tempfile
import threading
import zlib

import numpy as np

from pytorch import model_file
from common import runs as run_folders
from common.command_line import teller, write_whole
from common.run_options import train
from claims import plan
from evidence.facts import UNREADABLE, FactError, lines_of
from study import judging

VERSION = 1        # of the measures: raised when one gives other numbers of the same run
TIMED = "profile"  # the measure of times
TOY, RANDOM = "toy", "random"
CUT = {True: 40000, False: 2000000}  # characters that are cut into lines, in a trial and else
OUTLIER_CHANNEL = 3
say = teller("report")


class LabError(RuntimeError):
    """A failure, as one line for the user."""


def read_corpus(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None


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
    labels = {os.path.splitext(os.path.basename(path))[0].replace(" ", "-"): path for path in paths}
    if len(labels) < len(paths):
        raise LabError(f"{option}: two texts have the same name")
    return labels


class Records:
    """known: {(run, measure): {metric: value}}, kept in a file. other: the file of another report, whose measurements are
    taken over."""

    def __init__(self, path, other=None):
        self.path, self.known, self.lock = path, {}, threading.Lock()
        for source in (other, path):
            if source and (source == other or os.path.exists(source)):
                self.read(source)

    def read(self, path):
        try:
            lines = lines_of(path)
        except UNREADABLE as error:
            raise FactError(f"{path}: {getattr(error, 'strerror', None) or 'not a file of measurements'}") from None
        for line in lines:
            try:
                record = json.loads(line)
                key, values, version = (record["run"], record["measure"]), record["values"], record.get("version", 1)
            except (ValueError, KeyError, TypeError):
                continue  # a kill left this line incomplete
            if version == VERSION and (path == self.path or key[1] != TIMED):
                self.known[key] = values
        if path == self.path and lines and not lines[-1].endswith("\n"):
            with open(path, "a", encoding="utf-8") as file:
                file.write("\n")

    def keep(self, run, measure, values):
        line = json.dumps({"run": run, "measure": measure, "version": VERSION, "values": values})
        with self.lock, open(self.path, "a", encoding="utf-8") as file:
            self.known[run, measure] = values
            file.write(f"{line}\n")


class Lab:
    """corpora: {label: path} of the base texts; others: of those of E23 and E26 only. Their labels are `bases` and `others`.
    measures: {name: function (lab, folder, run) that returns {metric: value}}. how: a judging.How, for the runs."""

    def __init__(self, folder, corpora, others, records, measures, how):
        self.folder, self.records, self.measures, self.how = folder, records, measures, how
        self.bases, self.others = tuple(corpora), tuple(others)
        self.paths, self.starts = {**corpora, **dict(others)}, {}
        self.bases_of = {}  # {label of a text that was made: label of the text it was made of}
        if TOY in corpora:
            self.keep_text(TOY, toy_text())
        for label in corpora:
            if len(self.text(label)) < 4000:
                raise LabError(f"{self.paths[label]}: {len(self.text(label))} characters are too few (a text needs 4000)")

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
    def entropy(self, label):
        """The entropy of the frequencies of characters: what a model reaches that learns nothing else. Of a random text:
        ln V."""
        if label == RANDOM:
            return math.log(64)
        counts = Counter(self.text(label)).values()
        return -sum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)

    @functools.lru_cache(maxsize=None)
    def checksum(self, label):
        """The checksum of a text; 0 for ./train's own."""
        return zlib.crc32(self.text(label).encode()) if label in self.paths else 0

    # ---- runs ------------------------------------------------------------------------------------

    def name_of(self, run):
        return plan.run_name(run, self.checksum(run.corpus))

    def folder_of(self, run):
        return os.path.join(self.folder, "runs", self.name_of(run))

    def ended(self, run):
        """Whether the run's folder is there and complete."""
        path = os.path.join(self.folder_of(run), "summary.json")
        return os.path.exists(path) and run_folders.read_summary(path).get("exit_reason") in ("done", "diverged")

    def lacking(self, run):
        """The measures of a run that are not known."""
        return [measure for measure in run.measures if (self.name_of(run), measure) not in self.records.known]

    def complete(self, runs):
        """Trains the runs of which a measure is not known, and measures them."""
        lacking = [run for run in runs if self.lacking(run)]
        missing = {self.name_of(one): one for run in lacking for one in (run, *run.beside) if not self.ended(one)}
        if missing:
            for run in missing.values():
                if "start" in run.options:
                    self.make_start(run.options["start"])
            lines = {name: plan.grid_line(name, run, self.paths) for name, run in sorted(missing.items(), key=lambda one: one[1].seed)}
            judging.do_lines(self.folder, lines, self.how, say)
            failed = [name for name, run in missing.items() if not self.ended(run)]
            if failed:
                raise LabError(f"{len(failed)} of {len(missing)} runs failed (the same command tries them again): see "
                               f"{self.folder}/driver/{failed[0]}.out")
        with ThreadPoolExecutor(self.how.jobs) as pool:
            list(pool.map(self.measure, lacking))

    def measure(self, run):
        """Measures what is not known of a run that has ended. A measure without values is kept too, so that it is not
        tried again."""
        name, folder = self.name_of(run), self.folder_of(run)
        for measure in self.lacking(run):
            try:
                values = self.measures[measure](self, folder, run)
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                say(f"{name}: {measure}: {error}")
                continue
            self.records.keep(name, measure, values)

    def values_of(self, run):
        """{metric: value} of what is known of a run."""
        known = [self.records.known.get((self.name_of(run), measure)) or {} for measure in run.measures]
        return {metric: value for values in known for metric, value in values.items()}

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

    # ---- ./train ---------------------------------------------------------------------------------

    def call(self, *words):
        """The output of ./train."""
        done = subprocess.run([train(), *words], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise LabError((done.stderr.strip().splitlines() or ["./train failed"])[-1])
        return done.stdout

    def evaluate(self, model, *words):
        return self.call(f"--evaluate={model}", *words)

    def dump(self, model, text, *words):
        """The arrays that ./train computes of the first batch of a text."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            corpus, arrays = os.path.join(scratch, "text.txt"), os.path.join(scratch, "dump")
            write_whole(corpus, text)
            self.call(f"--evaluate={model}", f"--dump={arrays}", *words, f"--corpus={corpus}")
            return model_file.read(arrays)[2]


def write_changed(model, path, change):
    """Writes a model to another file, after change(arrays) of {name: array}."""
    _, texts, arrays = model_file.read(model)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(arrays)
    model_file.write(path, {name: text for name, text in texts.items() if name not in ("header_crc32", "data_crc32")}, arrays)
