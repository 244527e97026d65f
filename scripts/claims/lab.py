"""What experiments use: ./train, the texts, the folder of runs, evaluations and dumps.

FOLDER/texts/ has the texts that are made from a corpus: its characters in random order ("shuffled"), cut
into lines of 3 to 60 characters ("lines"), its first part ("small"), the first N characters ("first-N"), lines of 32
characters, up to N more or less ("spread-N"); and "toy", sentences of invented words for trials of the report.
"""
from collections import Counter
import functools
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
import zlib

import numpy as np

from pytorch import model_file
from common import runs as run_folders
from common.command_line import write_whole
from claims import plan
from claims.instruments import OUTLIER_CHANNEL
from claims.measures import ending

TOY, RANDOM = "toy", "random"
TOY_CHARACTERS = 20000
SMALL = {"mini": 2000, "quick": 30000, "text": 30000, "full": 100000}


class LabError(RuntimeError):
    """A failure, as one line for the user."""


def read_corpus(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None


ABLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ablate.sh")
INTERRUPTED = (129, 130, 143)


def write_wanted(out, lines):
    """Writes the list of runs OUT/wanted.txt; returns its path."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "wanted.txt")
    write_whole(path, "".join(f"{line}\n" for line in lines))
    return path


def run_grid(out, lines, options, train):
    """Does runs in OUT/ablation, an ablation's folder; what ablate.sh prints is appended to OUT/ablate.log. options: of
    ablate.sh. Runs that fail are in the folder's records, and ablate.sh says so. It ends by itself after Ctrl-C; then this
    program ends too. Returns its exit status."""
    words = [ABLATE, f"--grid={write_wanted(out, lines)}", f"--out={out}/ablation", *options]
    with open(os.path.join(out, "ablate.log"), "ab") as file, subprocess.Popen(
            words, stdout=file, env={**os.environ, "TRAIN": os.path.abspath(train)}) as process:
        try:
            status = process.wait()
        except SystemExit:
            process.terminate()
            raise
    if status in INTERRUPTED:
        sys.exit(status)
    return status


def toy_text():
    """Sentences of 60 invented words, the frequent ones short."""
    generator = random.Random(1)
    words = ["".join(generator.choice("bdfgklmnprst") + generator.choice("aeiou")
                     for _ in range(1 + rank // 20)) for rank in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    text, length = [], 0
    while length < TOY_CHARACTERS:
        sentence = " ".join(generator.choices(words, weights, k=generator.randint(3, 9)))
        text.append(sentence.capitalize() + generator.choice([". ", ". ", ".\n"]))
        length += len(text[-1])
    return "".join(text)


def cut(text, count, shortest, longest):
    """The first `count` characters in lines of these lengths."""
    text, generator = " ".join(text[:count].split()), random.Random(1)
    lines, at = [], 0
    while at < len(text):
        length = generator.randint(shortest, longest)
        lines.append(text[at:at + length])
        at += length
    return "\n".join(line for line in lines if line.strip()) + "\n"


# What is made of every text, {its name: function of the text and of the number of characters of a small one}.
KINDS = {"shuffled": lambda text, small: "".join(random.Random(1).sample(text, len(text))),
         "lines": lambda text, small: cut(text, 20 * small, 3, 60),
         "small": lambda text, small: text[:small]}


def labelled(paths, option):
    """{label: path}; a label is a file's name without its ending."""
    labels = {os.path.splitext(os.path.basename(path))[0].replace(" ", "-"): path for path in paths}
    if len(labels) < len(paths):
        raise LabError(f"{option}: two texts have the same name")
    return labels


class Lab:
    """corpora: {label: path} of the base texts; others: of those of E23 and E26 only. Their labels are `bases` and `others`.
    level: mini, quick or full. records: what was measured of runs, here or elsewhere (facts.py)."""

    def __init__(self, train, folder, corpora, level, records, others=()):
        self.train, self.folder, self.level = train, folder, level
        self.bases, self.others = tuple(corpora), tuple(others)
        self.paths, self.records, self.starts, self.known_ends = dict(corpora), records, {}, set()
        self.bases_of = {}  # {label of a text that was made: label of the text it was made of}
        self.failed = 0  # runs that could not be done
        if TOY in corpora:
            self.keep_text(TOY, toy_text())
        for label in corpora:
            text = self.text(label)
            if len(text) < 4000:
                raise LabError(f"{self.paths[label]}: {len(text)} characters are too few (a text needs 4000)")
            for kind, make in KINDS.items():
                self.made(label, kind, make)
        self.paths.update(others)

    def text_of(self, run):
        """The label of the text that a run's was made of."""
        return self.bases_of.get(run.corpus, run.corpus)

    def longest(self):
        return max(self.bases, key=lambda label: len(self.text(label)))

    def part(self, label, count):
        """The label of the first `count` characters of a text, or None if it has fewer."""
        return self.made(label, f"first-{count}", lambda text, small: text[:count]) if len(self.text(label)) >= count else None

    def spread(self, label, more):
        """The label of a text in lines of 32 characters, up to `more` more or less."""
        return self.made(label, f"spread-{more}", lambda text, small: cut(text, 20 * small, 32 - more, 32 + more))

    def made(self, label, kind, make):
        """The label of the text make(text, characters of a small one), which is written once."""
        name = f"{label}-{kind}"
        if name not in self.paths:
            self.keep_text(name, make(self.text(label), SMALL[self.level]))
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
        """The entropy of the frequencies of characters: what a model reaches that learns nothing else.
        Of a random text: ln V."""
        if label == RANDOM:
            return math.log(64)
        counts = Counter(self.text(label)).values()
        return -sum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)

    # ---- runs ------------------------------------------------------------------------------------

    @functools.lru_cache(maxsize=None)
    def checksum(self, label):
        """The checksum of a text; 0 for ./train's own."""
        return zlib.crc32(self.text(label).encode()) if label in self.paths else 0

    def name_of(self, run):
        return plan.run_name(run, self.checksum(run.corpus))

    def folder_of(self, run):
        return os.path.join(self.folder, "ablation", "runs", self.name_of(run))

    def ended(self, run):
        """Whether the run's folder is there and complete. Refuses a folder of this name that has another run."""
        name = self.name_of(run)
        summary = self.summary_of(name) if name not in self.known_ends else {}
        if summary.get("exit_reason") in ("done", "diverged"):
            self.expect_run(self.folder_of(run), run, summary)
            self.known_ends.add(name)
        return name in self.known_ends

    def expect_run(self, folder, run, summary):
        has = {**run_folders.read_options(folder, summary), "corpus": summary.get("corpus_crc32")}
        wants = {**run.options, "seed": run.seed, "corpus": f"{self.checksum(run.corpus):08x}"}
        for name in ("start", "threads", "profile", *(("corpus",) if run.corpus == RANDOM else ())):
            wants.pop(name, None)
        for name, value in wants.items():
            found, value = has.get(name), run_folders.plain(value)
            if found != value and not (isinstance(value, (int, float)) and
                                       math.isclose(value, float(found), rel_tol=1e-6)):
                raise LabError(f"{folder}: is another run: its {name} is {found}, not {value} "
                               "(move it away)")

    def summary_of(self, name):
        """summary.json of a run that was run here; empty if it was not."""
        path = os.path.join(self.folder, "ablation", "runs", name, "summary.json")
        return run_folders.read_summary(path) if os.path.exists(path) else {}

    def ending_of(self, run):
        """The measurement of the run's end; None if it has not ended."""
        known = self.records.find(self.name_of(run), "ending")
        return ending(self, self.folder_of(run), run) if known is None and self.ended(run) else known

    def loss_of(self, run):
        """The final validation loss, infinite if the run did not train; None if it has not ended."""
        known = self.ending_of(run)
        return known and (known["val_loss"] if known["trained"] else math.inf)

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
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            words = plan.grid_line("", run, self.paths)
            self.call(*shlex.split(words), "--max-iters=0", "--quiet", f"--out={scratch}/run")
            _, texts, arrays = model_file.read(os.path.join(scratch, "run"))
        arrays = {name: np.array(array) for name, array in arrays.items()}
        arrays["transformer.wpe.weight"][:, OUTLIER_CHANNEL] *= factor
        model_file.write(path, {name: text for name, text in texts.items()
                                if name not in ("header_crc32", "data_crc32")}, arrays)

    def whole(self, run):
        """The folder of the run that continues where `run`, a part of it, ends; None if there is none."""
        options = {**run.options, "max-iters": run.options["lr-decay-iters"]}
        twin = run._replace(options=options)
        return self.folder_of(twin) if self.ended(twin) else None

    # ---- ./train ---------------------------------------------------------------------------------

    def call(self, *words):
        """The output of ./train."""
        done = subprocess.run([self.train, *words], capture_output=True, text=True, check=False,
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
            if text is not None:
                write_whole(corpus, text)
                words = (*words, f"--corpus={corpus}")
            self.call(f"--evaluate={model}", f"--dump={arrays}", *words)
            return model_file.read(arrays)[2]

    def check_program(self):
        """./train must have what the measurements call."""
        known = self.call("--help=all")
        for option in ("--dump", "--start"):
            if f" {option}=" not in known:
                raise LabError(f"{self.train}: has no {option}, so it is older than the report (make)")
