"""Measurements of a run from its own files, and by ./train --evaluate. Each is a function (lab, folder, run) that returns
{metric: value}; MEASURES has them by name.
"""
import math
import re
import zlib

import numpy as np

from common import runs as run_folders
from plots.probes import Probes

SOURCES = ("running", "own", "other", "single", "position")


def of_frequencies(run):
    """The loss in training of a model that has learned only how frequent characters are; of random text ln V."""
    known = run.summary.get("unigram_entropy")
    return math.log(int(run.options["random-chars"])) if known is None else known


def ending(lab, folder, run):
    """How the run ended. trained: neither diverged nor stuck (runs.py). build: a number that is the same for the same
    compiler and vector width."""
    read = run_folders.Run(folder)
    summary, losses = read.summary, read.losses()
    last, entropy = math.inf if read.status == "diverged" or not losses else losses[-1], of_frequencies(read)
    build = f"{summary.get('compiler')} {summary.get('vector_bits')} {summary.get('real_bits')}"
    accuracy = summary.get("val_accuracy")
    return {"val_loss": last, "best_loss": min(losses, default=math.inf), "trained": float(read.status == "done"),
            "learning_rate": float(read.options["learning-rate"]), "learned": entropy - last, "above_frequencies": last - entropy,
            "accuracy": math.nan if accuracy is None else accuracy, "build": float(zlib.crc32(build.encode()))}


def steadiness(lab, folder, run):
    """Of the updates after warm-up: the coefficient of variation of the gradient's norm, and the fraction that was clipped.
    The log has every tenth update."""
    read = run_folders.Run(folder)
    norms = np.array([read.columns["grad_norm"][row] for row in read.measured("grad_norm")
                      if read.columns["step"][row] >= run.options["warmup-iters"]])
    if len(norms) < 2:
        return {}
    limit = float(read.options["grad-clip"])
    return {"gradient_cv": float(norms.std() / norms.mean()), "clipped": float((norms > limit).mean()) if limit > 0 else 0.0}


def overfitting(lab, folder, run):
    """Of a run with --eval-train: the gap between validation and training loss, both in evaluation mode, where the training
    loss is 0.7 times the frequencies' entropy."""
    read = run_folders.Run(folder)
    rows = [row for row in read.measured("val_loss") if row in read.measured("eval_train_loss")]
    train, val = (np.array([read.columns[name][row] for row in rows]) for name in ("eval_train_loss", "val_loss"))
    level = 0.7 * of_frequencies(read)
    below = np.flatnonzero(train < level)
    if read.status == "diverged" or not len(below) or not below[0]:
        return {}
    at = below[0]
    part = (train[at - 1] - level) / (train[at - 1] - train[at])
    return {"gap_at_equal_fit": float(val[at - 1] + part * (val[at] - val[at - 1]) - level)}


def learned_leak(lab, folder, run):
    """On random text: by how much the training loss, mean of the last quarter, is below ln V. A model that does not see what
    it predicts can't get there."""
    read = run_folders.Run(folder)
    rows = read.measured("train_loss")
    losses = [read.columns["train_loss"][row] for row in rows]
    return {"learned_leak": math.log(int(read.options["random-chars"])) - float(np.mean(losses[-max(1, len(rows) // 4):]))}


def statistics(lab, folder, run):
    """The validation loss with other statistics minus the one with running statistics."""
    text = lab.evaluate(folder, "--stats=all")
    table = dict(re.findall(r"^(\w+) +(-?[0-9.]+(?:e[+-]?\d+)?|inf|nan) ", text, re.MULTILINE))
    return {f"{name}_gap": float(table[name]) - float(table["running"]) for name in SOURCES[1:] if name in table}


def profile(lab, folder, run):
    """Milliseconds of an update by operation (--profile), and their logarithms."""
    times = run_folders.Run(folder).summary.get("profile")
    if not times:
        return {}
    total = sum(value for name, value in times.items() if name != "all")
    parts = {"norm": times["norm"], "attention": times["attention"],
             "linear": sum(value for name, value in times.items() if name.startswith("linear"))}
    return {"milliseconds": total, "norm_share": parts["norm"] / total, **{f"{name}_ms": value for name, value in parts.items()},
            **{f"log2_{name}": float(np.log2(value)) for name, value in parts.items() if value > 0}}


# ---- probes --------------------------------------------------------------------------------------

def depth(lab, folder, run):
    """Over the layers, at the first and the last probe: the last stream's RMS over the first's, and the first layer's gradient
    over the last's (mlp.c_proj.weight)."""
    probes, last, found = Probes(folder), run.options["n-layer"] - 1, {}
    stream, gradient = ({(step, layer): value for _, layer, values in probes.of(metric, (site,)) for step, value in values.items()}
                        for metric, site in (("stream_rms", "mlp"), ("grad_norm", "mlp.c_proj.weight")))
    steps = sorted({step for step, _ in gradient})
    for name, step in (("start", steps[0]), ("end", steps[-1])) if steps else ():
        if last > 0 and gradient.get((step, last), 0) > 0:
            found[f"gradient_ratio_{name}"] = gradient[step, 0] / gradient[step, last]
        if last > 0 and stream.get((step, 0), 0) > 0:
            found[f"stream_growth_{name}"] = stream[step, last] / stream[step, 0]
    return {name: number for name, number in found.items() if math.isfinite(number)}


def attention(lab, folder, run):
    """Of the last probe, over layers and heads: the mean fraction of saturated queries."""
    probes = Probes(folder)
    found = [values[probes.steps[-1]] for _, _, values in probes.of("saturated", ()) if probes.steps[-1] in values]
    return {"saturated": float(np.mean(found))} if found else {}


MEASURES = {measure.__name__: measure for measure in (
    ending, steadiness, overfitting, learned_leak, statistics, profile, depth, attention)}
