"""Measurements of a run from its own files, and by ./train --evaluate.

A measure is a function (lab, folder, run) that returns {metric: value}. MEASURES has them by name.
"""
import csv
import math
import os
import re
import zlib

import numpy as np
from scipy import stats

from pytorch import model_file
from common import runs as run_folders

SOURCES = ("running", "own", "other", "single", "position")


def final_loss(folder):
    """The last validation loss; infinity if the run diverged."""
    run = run_folders.Run(folder)
    losses = run.losses()
    return math.inf if run.status == "diverged" or not losses else losses[-1]


def ending(lab, folder, run):
    """How the run ended. trained: neither diverged nor stuck (runs.py).
    build: a number that is the same for the same compiler and vector width."""
    read = run_folders.Run(folder)
    summary = run_folders.read_summary(os.path.join(folder, "summary.json"))
    last, entropy = final_loss(folder), lab.entropy(run.corpus)
    build = f"{summary.get('compiler')} {summary.get('vector_bits')} {summary.get('real_bits')}"
    accuracy = summary.get("val_accuracy")
    return {"val_loss": last, "best_loss": min(read.losses(), default=math.inf),
            "first_loss": next(iter(read.losses()), math.nan),
            "trained": float(read.status == "done"),
            "diverged": float(read.status == "diverged"),
            "learning_rate": float(read.options["learning-rate"]),
            "learned": entropy - last, "above_frequencies": last - entropy,
            "accuracy": math.nan if accuracy is None else accuracy,
            "build": float(zlib.crc32(build.encode()))}


def curve(lab, folder, run):
    """The validation loss at each tenth of the run."""
    read = run_folders.Run(folder)
    steps, losses = read.columns["step"], read.columns["val_loss"]
    known = {steps[row]: losses[row] for row in read.measured("val_loss")}
    total, found = run.options["max-iters"], {}
    for tenth in range(1, 11):
        step = max((step for step in known if step <= total * tenth / 10), default=None)
        if step is not None and steps[-1] >= total:
            found[f"val_loss_{10 * tenth}%"] = known[step]
    return found


def steadiness(lab, folder, run):
    """Of the updates after warm-up: the coefficient of variation of the gradient's norm, and the fraction
    that was clipped. The log has every tenth update."""
    read = run_folders.Run(folder)
    rows = [row for row in read.measured("grad_norm")
            if read.columns["step"][row] >= run.options["warmup-iters"]]
    norms = np.array([read.columns["grad_norm"][row] for row in rows])
    if len(norms) < 2:
        return {}
    limit = float(read.options["grad-clip"])
    return {"gradient_cv": float(norms.std() / norms.mean()),
            "clipped": float((norms > limit).mean()) if limit > 0 else 0.0}


def overfitting(lab, folder, run):
    """Of a run with --eval-train: the gap between validation and training loss, both in evaluation
    mode, at the best validation loss, and where the training loss is 0.7 times the frequencies'
    entropy."""
    read = run_folders.Run(folder)
    rows = [row for row in read.measured("val_loss") if row in read.measured("eval_train_loss")]
    train = np.array([read.columns["eval_train_loss"][row] for row in rows])
    val = np.array([read.columns["val_loss"][row] for row in rows])
    if not len(rows) or read.status == "diverged":
        return {}
    found = {"gap_at_best": float((val - train)[val.argmin()]), "last_gap": float((val - train)[-1])}
    level = 0.7 * lab.entropy(run.corpus)
    below = np.flatnonzero(train < level)
    if len(below) and below[0] > 0:
        at = below[0]
        part = (train[at - 1] - level) / (train[at - 1] - train[at])
        found["gap_at_equal_fit"] = float(val[at - 1] + part * (val[at] - val[at - 1]) - level)
    return found


def learned_leak(lab, folder, run):
    """On random text: by how much the training loss, mean of the last quarter, is below ln V. A model
    that does not see what it predicts can't get there."""
    read = run_folders.Run(folder)
    rows = read.measured("train_loss")
    losses = [read.columns["train_loss"][row] for row in rows]
    vocabulary = int(read.options["random-chars"])
    return {"learned_leak": math.log(vocabulary) - float(np.mean(losses[-max(1, len(rows) // 4):]))}


def statistics(lab, folder, run):
    """The validation loss with other statistics minus the one with running statistics."""
    text = lab.evaluate(folder, "--stats=all")
    table = dict(re.findall(r"^(\w+) +(-?[0-9.]+(?:e[+-]?\d+)?|inf|nan) ", text, re.MULTILINE))
    losses = {name: float(table[name]) for name in SOURCES if name in table}
    found = {f"loss_{name}": loss for name, loss in losses.items()}
    for name, loss in losses.items():
        if name != "running":
            found[f"{name}_gap"] = loss - losses["running"]
    return found


def batches(lab, folder, run):
    """The validation loss with a batch's own statistics, for batches of other sizes than in training, minus
    the one with running statistics."""
    def loss(*words):
        return float(re.match(r"loss (\S+)", lab.evaluate(folder, *words)).group(1))
    running = loss()
    return {f"own_gap_{count}": loss("--stats=own", f"--batch-size={count}") - running
            for count in (1, 256)}


def gains(lab, folder, run):
    """What a trained model's norms learned: the mean distance of gamma from 1 and of beta from 0."""
    if run.options["norm"] == "none" or run.options.get("affine") == "off":
        return {}
    found = {"weight": [], "bias": []}
    for name, array in model_file.read(folder)[2].items():
        part = re.fullmatch(r"transformer\.(?:h\.\d+\.ln_[12]|ln_f)\.(weight|bias)", name)
        if part:
            found[part.group(1)].append(np.abs(array - (part.group(1) == "weight")).mean())
    return {f"{name}_moved": float(np.mean(values)) for name, values in
            (("gamma", found["weight"]), ("beta", found["bias"])) if values}


def leak(lab, folder, run):
    """The largest change of the logits before a position with the characters from there on."""
    rows = re.findall(r"^ +\d+ +(\S+) +\S+ +(\S+) +\S+$", lab.evaluate(folder, "--leak"), re.MULTILINE)
    return {"leak_evaluation": max(float(row[0]) for row in rows),
            "leak_training": max(float(row[1]) for row in rows)}


# ---- probes --------------------------------------------------------------------------------------

def read_probes(folder):
    """{(metric, site): {(step, layer): value}}; the layer of what is outside the layers is None."""
    table = {}
    with open(os.path.join(folder, "probes.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            layer = int(row["layer"]) if row["layer"] else None
            table.setdefault((row["metric"], row["site"]), {})[int(row["step"]), layer] = \
                float(row["value"]) if row["value"] else math.nan
    return table


def depth(lab, folder, run):
    """Over the layers, at the first and the last probe: the last stream's RMS over the first's, and the
    first layer's gradient over the last's (mlp.c_proj.weight)."""
    table, last = read_probes(folder), run.options["n-layer"] - 1
    stream = table.get(("stream_rms", "mlp"), {})
    gradient = table.get(("grad_norm", "mlp.c_proj.weight"), {})
    steps = sorted({step for step, _ in gradient})
    found = {}
    for name, step in (("start", steps[0]), ("end", steps[-1])) if steps else ():
        if last > 0 and gradient.get((step, last), 0) > 0:
            found[f"gradient_ratio_{name}"] = gradient[step, 0] / gradient[step, last]
        if last > 0 and stream.get((step, 0), 0) > 0:
            found[f"stream_growth_{name}"] = stream[step, last] / stream[step, 0]
    return {name: number for name, number in found.items() if math.isfinite(number)}


def attention(lab, folder, run):
    """Of the last probe, over layers and heads: the mean fraction of saturated queries, the largest attention
    score, the mean entropy in nats."""
    table = read_probes(folder)
    heads = [site for metric, site in table if metric == "saturated"]
    steps = sorted({step for site in heads for step, _ in table["saturated", site]})
    if not steps:
        return {}

    def values(metric):
        return [value for site in heads for (step, _), value in table[metric, site].items()
                if step == steps[-1]]
    return {"saturated": float(np.mean(values("saturated"))),
            "logit_max": float(np.max(values("logit_max"))),
            "entropy": float(np.mean(values("entropy")))}


def fluctuation(lab, folder, run):
    """Of batch statistics: their distance from the running ones in running deviations, mean over norms
    and probes after the first; the excess kurtosis over probes of the gradient terms that flow through
    them, mean over norms."""
    table, found = read_probes(folder), {}
    for metric in ("tid_mean", "tid_var"):
        numbers = [value for (name, _), series in table.items() if name == metric
                   for (step, _), value in series.items() if step > 0 and math.isfinite(value)]
        if numbers:
            found[metric] = float(np.mean(numbers))
    tails = []
    for (metric, _), series in table.items():
        for layer in {layer for _, layer in series} if metric in ("g_mean", "g_var") else ():
            numbers = [value for (step, one), value in series.items() if one == layer and step > 0]
            if len(numbers) >= 4 and np.std(numbers) > 0:
                tails.append(float(stats.kurtosis(numbers)))
    if tails:
        found["kurtosis"] = float(np.mean(tails))
    return found


def movement(lab, folder, run):
    """How far the running means move in the last fifth of a run, in running deviations: root mean square
    over channels and norms. `run` ends at four fifths; its twin, with all updates, is lab.whole(run)."""
    twin = lab.whole(run)
    if twin is None:
        return {}
    before, after = model_file.read(folder)[2], model_file.read(twin)[2]
    squares = [((after[name] - before[name]) ** 2
                / (before[name.replace("running_mean", "running_var")] + 1e-5)).mean()
               for name in before if name.endswith("running_mean")]
    return {"movement": float(np.sqrt(np.mean(squares)))} if squares else {}


MEASURES = {measure.__name__: measure for measure in (
    ending, curve, steadiness, overfitting, learned_leak, statistics, batches, gains, leak, depth,
    attention, fluctuation, movement)}
