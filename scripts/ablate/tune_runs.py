"""The runs of tune.py: their names, the list that ablate.sh does, and how they ended.

A run's name follows from its options, so a run that has ended is not repeated, whoever asks for it: after a kill the
same command plans the same runs and does those that are missing.
"""
import math
import os
import re
import shlex
import subprocess
import sys
import zlib

from ablate.comparisons import refuse_mixed
from ablate.outcomes import outcome_of, value_of
from common.run_options import own_name
from common.runs import RunError, number_text, read_text
import table

ABLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ablate.sh")
INTERRUPTED = (129, 130, 143)


def run_grid(path, folder, log, options, train):
    """Does the runs of the list `path` in an ablation's folder; what ablate.sh prints is appended to the file
    `log`. options: of ablate.sh. Runs that fail are in the folder's records, and ablate.sh says so. It ends by
    itself after Ctrl-C; then this program ends too."""
    words = [ABLATE, f"--grid={path}", f"--out={folder}", *options]
    with open(log, "ab") as file, subprocess.Popen(
            words, stdout=file, env={**os.environ, "TRAIN": os.path.abspath(train)}) as process:
        try:
            status = process.wait()
        except SystemExit:
            process.terminate()
            raise
    if status in INTERRUPTED:
        sys.exit(status)
    return status


# What a run of tune.py gets unless the options after -- say otherwise: only the last loss counts, on all of a split.
OWN = {"sample": "0", "checkpoint-interval": "0", "eval-iters": "0", "eval-interval": "1000000000"}
REFUSED = 2  # ./train's exit status for values that contradict each other


def say(text):
    print(f"tune: {text}", file=sys.stderr, flush=True)


def option_name(word):
    """The option that a word of a command names, by its own name; "" for an operand."""
    return own_name(word) if word.startswith("--") else ""


def value_text(value):
    return number_text(value) if isinstance(value, float) else str(value)


def words_of(options):
    return [f"--{name}={value_text(value)}" for name, value in options.items()]


class Runs:
    """The runs in OUT/ablation, an ablation's folder.

    common   words that every run gets
    options  of ablate.sh
    """

    def __init__(self, out, common, options, train):
        self.out, self.folder = out, os.path.join(out, "ablation")
        self.options, self.train = options, train
        given = {option_name(word) for word in common}
        self.common = [f"--{name}={value}" for name, value in OWN.items() if name not in given] + common
        self.first = None

    def name_of(self, options, seed):
        """A name that depends on the options and words alone."""
        words = words_of(options)
        shown = re.sub("[^A-Za-z0-9._+=-]", "_", "-".join(word[2:] for word in words))[:120]
        return f"{shown}-{zlib.crc32(' '.join(words + self.common).encode()):08x}-s{seed}"

    def line_of(self, options, seed):
        words = [*words_of(options), f"--seed={seed}", *self.common]
        return " ".join([self.name_of(options, seed), *map(shlex.quote, words)])

    def loss_of(self, options, seed):
        """The run's final validation loss; infinity if it diverged, is stuck, or ./train refuses its options; None
        if it has not ended, or failed."""
        name = self.name_of(options, seed)
        path, status = os.path.join(self.folder, "runs", name), table.read_status(self.folder, name)
        if status == REFUSED:
            return math.inf
        outcome = outcome_of(path, status, say)
        if outcome is None or outcome.status == "failed":
            return None
        if self.first is None:
            self.first = outcome
        refuse_mixed(self.first, outcome, False)
        return value_of(outcome, "val_loss") if outcome.status == "done" else math.inf

    def message_of(self, options, seed):
        """The last line that the run printed."""
        path = os.path.join(self.folder, "driver", self.name_of(options, seed) + ".out")
        return ((read_text(path) or "").strip().splitlines() or ["no message"])[-1]

    def measure(self, wanted):
        """[loss] of the runs [(options, seed)], which are done if they are not there."""
        found = [self.loss_of(*run) for run in wanted]
        missing = [run for run, loss in zip(wanted, found) if loss is None]
        if not missing:
            return found
        os.makedirs(self.out, exist_ok=True)
        path = os.path.join(self.out, "wanted.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(self.line_of(*run) + "\n" for run in missing)
        status = run_grid(path, self.folder, os.path.join(self.out, "ablate.log"), self.options, self.train)
        if status not in (0, 1):
            raise RunError(f"{path}: ablate.sh does not run it (see above)")
        found = [self.loss_of(*run) for run in wanted]
        failed = [run for run, loss in zip(wanted, found) if loss is None]
        if failed:
            raise RunError(f"{len(failed)} of {len(wanted)} runs failed (the same command tries them again): "
                           f"{self.message_of(*failed[0])}")
        if self.first is None and all(table.read_status(self.folder, self.name_of(*run)) == REFUSED
                                      for run in wanted):
            raise RunError(self.message_of(*wanted[0]).removeprefix("train: "))
        return found
