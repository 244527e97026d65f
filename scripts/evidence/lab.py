"""The laboratory of claims and why: it runs ./train, measures runs that have ended, and keeps what it measured.

FOLDER/measured.jsonl has a line for each run and measure: the run's name, the measure, VERSION and the values. A run's name
contains a checksum of its options, so a line is valid wherever the program computes the same numbers, and the file of another
folder can be reused. Times are only valid for the machine. A kill loses at most the line that is being written.
"""
from concurrent.futures import ThreadPoolExecutor
import json
import os
import tempfile
import threading

import numpy as np
from scipy.special import softmax

from common.command_line import write_whole
from common.run_options import RunError, call
from evidence.facts import UNREADABLE, FactError, lines_of
from pytorch import model_file

VERSION = 1        # of the measures: raised when one gives other numbers of the same run
TIMED = "profile"  # the measure of times
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # the environment of ./train on one thread


def read_corpus(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: not UTF-8 at byte {error.start}") from None


class Records:
    """known: {(run, measure): {metric: value}}, kept in a file. other: the file of another folder, whose measurements are
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
    """measures: {name: function (lab, folder, run) that returns {metric: value}}. A run has a seed and `measures`, their names;
    subclasses say its name and its folder. how: a judging.How, for the runs."""

    def __init__(self, folder, records, measures, how, say):
        self.folder, self.records, self.measures, self.how, self.say = folder, records, measures, how, say

    # ---- measurements ----------------------------------------------------------------------------

    def lacking(self, run):
        """The measures of a run that are not known."""
        return [measure for measure in run.measures if (self.name_of(run), measure) not in self.records.known]

    def measure(self, runs):
        """Measures what is not known of runs that have ended."""
        with ThreadPoolExecutor(self.how.jobs) as pool:
            list(pool.map(self.measure_one, filter(self.lacking, runs)))

    def measure_one(self, run):
        """A measure without values is kept too, so that it is not tried again."""
        name, folder = self.name_of(run), self.folder_of(run)
        for measure in self.lacking(run):
            try:
                values = self.measures[measure](self, folder, run)
            except (OSError, ValueError, RuntimeError, KeyError, RunError) as error:
                self.say(f"{name}: {measure}: {error}")
                continue
            self.records.keep(name, measure, values)

    def values_of(self, run):
        """{metric: value} of what is known of a run."""
        known = [self.records.known.get((self.name_of(run), measure)) or {} for measure in run.measures]
        return {metric: value for values in known for metric, value in values.items()}

    # ---- ./train ---------------------------------------------------------------------------------

    def call(self, *words):
        """The output of ./train on one thread."""
        return call(*words, env=ONE_THREAD)

    def evaluate(self, model, *words):
        return self.call(f"--evaluate={model}", *words)

    def dump(self, model, text, *words):
        return dump(model, text, *words, env=ONE_THREAD)


def dump(model, text, *words, env=None):
    """The arrays that ./train computes of the first batch of a text, or of the model's own without one."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, arrays = os.path.join(scratch, "text.txt"), os.path.join(scratch, "dump")
        if text is not None:
            write_whole(corpus, text)
            words += (f"--corpus={corpus}",)
        call(f"--evaluate={model}", f"--dump={arrays}", *words, env=env)
        return model_file.read(arrays)[2]


def attention(qkv, heads, groups=None, softcap=0):
    """The weights (B,NH,T,T) of q, k and v (B,T,E) as attention reads them, with `groups` keys. Weights after the query are 0."""
    groups, T = groups or heads, qkv.shape[1]
    size = qkv.shape[-1] // (heads + 2 * groups)
    q, k = (part.reshape(len(qkv), T, -1, size).transpose(0, 2, 1, 3)
            for part in np.split(qkv, [heads * size, (heads + groups) * size], axis=-1)[:2])
    scores = q @ np.repeat(k, heads // groups, axis=1).transpose(0, 1, 3, 2) / size ** 0.5
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    return softmax(np.where(np.tri(T, dtype=bool), scores, -np.inf), axis=-1)


def write_changed(model, path, change):
    """Writes a model to another file, after change(arrays) of {name: array}."""
    _, texts, arrays = model_file.read(model)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(arrays)
    model_file.write(path, {name: text for name, text in texts.items() if name not in ("header_crc32", "data_crc32")}, arrays)
