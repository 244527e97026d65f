"""Measurements of a run of WHY.md. Each is a function (lab, folder, run) that returns {measure: value}; MEASURES says which one gives
a measure.
"""
import math
import os
import tempfile

import numpy as np

from common.runs import Run
from plots.probes import Probes

LAST = 0.25  # of the updates: over these a training loss is a mean
SCALED = ("deepnorm", "admin")
GUESSING = math.log(64)  # nats per character of random text


def ending(lab, folder, run):
    """The losses at the end; above_frequencies: above that of a model which knows the frequencies of characters only."""
    summary = Run(folder).summary
    losses, known = {name: summary.get(name) for name in ("val_loss", "train_loss")}, summary.get("unigram_val_loss")
    return {**losses, "above_frequencies": None if None in (losses["val_loss"], known) else losses["val_loss"] - known}


def train_mean(lab, folder, run):
    losses = Run(folder).columns["train_loss"]
    return {"train_mean": float(np.nanmean(losses[-max(1, round(LAST * len(losses))):]))}


def gain(lab, folder, run):
    """By how much the training loss on random text is below that of guessing."""
    return {"gain": GUESSING - train_mean(lab, folder, run)["train_mean"]}


def own_loss(lab, folder, run):
    """The validation loss if each batch has its own statistics, as in training."""
    return {"own_loss": float(lab.evaluate(folder, "--quiet", "--stats=own").split()[1])}


def branch_share(lab, folder, run):
    """How large the output of a branch is beside the stream that it is added to, in the initial weights: the ratio b of
    their root mean squares, as a mean over the sub-layers. One seed is enough. SCALED placements add the branch to a x
    instead of x, the stream; there a is the slope of the least-squares line. gradient_expected: the decimal logarithm of the
    product of 1 / sqrt(1 + b^2) over the sub-layers, by which Post-LN shrinks the straight path."""
    if run.seed != 1:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        initial = os.path.join(scratch, "run")
        lab.call("--quiet", *run.words, "--max-iters=0", "--sample=0", f"--out={initial}")
        arrays = {name: np.array(array, dtype=float) for name, array in lab.dump(initial, None, "--eval-iters=1").items()}
    shares, scaled = [], any(word.removeprefix("--placement=") in SCALED for word in run.words)
    for place in range(sum(name.startswith("stream.") for name in arrays) - 1):
        stream, behind = arrays[f"stream.{place}"], arrays[f"stream.{place + 1}"]
        norm = f"transformer.h.{place // 2}.ln_{place % 2 + 1}"
        if abs(arrays.get(f"{norm}.output", np.inf) - behind).max() < 1e-6:  # Post-LN: the sum is the norm's input
            behind = arrays[f"{norm}.input"]
        slope = (behind * stream).sum() / (stream ** 2).sum() if scaled else 1
        shares.append(np.sqrt(((behind - slope * stream) ** 2).mean()) / (slope * np.sqrt((stream ** 2).mean())))
    return {"branch_share": float(np.mean(shares)), "gradient_expected": float(-np.log10(np.hypot(1, shares)).sum())}


def along_depth(lab, folder, run):
    """From the probes. stream_growth: the root mean square of the stream behind the last layer, at the last probe divided by
    that at the first one. gradient_start, gradient_100, gradient_end: the decimal logarithm of the gradient at the first layer's
    input divided by that behind the last layer, at the first probe, at that of update 100, and at the last one."""
    probes = Probes(folder)
    first, last = probes.steps[0], probes.steps[-1]
    streams, gradients = ([values for _, _, values in probes.of(metric, ("embd", "attn", "mlp"))]
                          for metric in ("stream_rms", "stream_grad"))

    def kept(step):
        return float(np.log10(gradients[0].get(step, np.nan) / gradients[-1].get(step, np.nan)))

    return {"stream_growth": streams[-1][last] / streams[-1][first], "gradient_start": kept(first), "gradient_end": kept(last),
            **({"gradient_100": kept(100)} if 100 in probes.steps else {})}


def variation(sizes):
    """The coefficient of variation over tokens."""
    return float(sizes.std() / sizes.mean())


def correlation(a, b):
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def token_sizes(lab, folder, run):
    """How much tokens differ in size behind the norms, in a batch of the validation split: a token's size is its root mean square over
    channels, a spread its coefficient of variation over tokens. size_spread: the mean over the norms. final_spread: before the head.
    size_entropy: the correlation of the logarithm of a token's size before the head with the entropy of what is predicted there.
    size_frequency: that of its size behind the first norm with the logarithm of how often the character occurs."""
    arrays = {name: np.array(array) for name, array in lab.dump(folder, None).items()}
    sizes = {name: np.sqrt((array.astype(float) ** 2).mean(axis=-1)) for name, array in arrays.items()
             if ".ln_" in name and name.endswith(".output")}
    logits = arrays["logits"].astype(float)
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    ids, final = arrays["ids"].astype(int), sizes["transformer.ln_f.output"]
    return {"size_spread": float(np.mean([variation(one) for one in sizes.values()])), "final_spread": variation(final),
            "size_entropy": correlation(np.log(final), -(shares * np.log(shares + 1e-30)).sum(axis=-1)),
            "size_frequency": correlation(np.log(sizes["transformer.h.0.ln_1.output"]), np.log(np.bincount(ids.ravel())[ids]))}


MEASURES = {"val_loss": ending, "train_loss": ending, "above_frequencies": ending, "train_mean": train_mean, "gain": gain,
            "own_loss": own_loss, "branch_share": branch_share, "size_spread": token_sizes, "final_spread": token_sizes,
            "size_entropy": token_sizes, "size_frequency": token_sizes, "gradient_expected": branch_share,
            "stream_growth": along_depth, "gradient_start": along_depth, "gradient_100": along_depth,
            "gradient_end": along_depth}
