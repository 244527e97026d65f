"""What is measured of a run of WHY.md, beside the losses of its summary."""
from collections import Counter
import math
import os
import subprocess
import tempfile

import numpy as np

from common.run_options import train
from common.runs import Run
from pytorch import model_file

LAST = 0.25  # of the updates: over these a training loss is a mean
SCALED = ("deepnorm", "admin")
GUESSING = math.log(64)  # nats per character of random text


def command(*words):
    """What ./train prints on standard output; its message on standard error stays visible."""
    return subprocess.run([train(), "--quiet", *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def train_mean(folder):
    losses = Run(folder).columns["train_loss"]
    return float(np.nanmean(losses[-max(1, round(LAST * len(losses))):]))


def gain(folder):
    """By how much the training loss on random text is below that of guessing."""
    return GUESSING - train_mean(folder)


def own_loss(folder):
    """The validation loss if each batch has its own statistics, as in training."""
    return float(command(f"--evaluate={folder}", "--stats=own").split()[1])


def frequencies_loss(text, fraction=0.1):
    """The loss on the validation split, the end of the text, of a model that knows the frequencies of characters in the
    rest of it, and nothing else. A character that is new there counts as seen once."""
    split = len(text) - math.ceil(fraction * len(text))
    known, asked = Counter(text[:split]), Counter(text[split:])
    total = split + len(asked.keys() - known.keys())
    return -sum(count * math.log(max(known[one], 1) / total) for one, count in asked.items()) / sum(asked.values())


def branch_share(words):
    """How large the output of a branch is beside the stream that it is added to, in the initial weights: the ratio of
    their root mean squares, as a mean over the sub-layers. words: the options of the run and its text. SCALED placements
    add the branch to a x instead of x, the stream; there a is the slope of the least-squares line."""
    with tempfile.TemporaryDirectory() as folder:
        run, dump = os.path.join(folder, "run"), os.path.join(folder, "dump.safetensors")
        command(*words, "--max-iters=0", "--sample=0", f"--out={run}")
        command(f"--evaluate={run}", f"--dump={dump}", "--eval-iters=1")
        _, texts, arrays = model_file.read(dump)
        arrays = {name: np.array(array, dtype=float) for name, array in arrays.items()}
    shares, scaled = [], any(word.removeprefix("--placement=") in SCALED for word in words)
    for place in range(sum(name.startswith("stream.") for name in arrays) - 1):
        stream, behind = arrays[f"stream.{place}"], arrays[f"stream.{place + 1}"]
        norm = f"transformer.h.{place // 2}.ln_{place % 2 + 1}"
        if abs(arrays.get(f"{norm}.output", np.inf) - behind).max() < 1e-6:  # Post-LN: the sum is the norm's input
            behind = arrays[f"{norm}.input"]
        slope = (behind * stream).sum() / (stream ** 2).sum() if scaled else 1
        shares.append(np.sqrt(((behind - slope * stream) ** 2).mean()) / (slope * np.sqrt((stream ** 2).mean())))
    return float(np.mean(shares))
