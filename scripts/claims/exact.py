"""Exact measurements, without training: the program's norms on given vectors, algorithms for the variance, and runs repeated
byte by byte. Each gives rows (variant, metric, value).

To see what the program's norm makes of vectors, they become the embedding of an untrained model without positions. The input of
the first norm is then the embedding of the text.
"""
import math
import os
import tempfile

import numpy as np

from pytorch import model_file
from common.command_line import write_whole
from evidence.lab import write_changed

ARTICLE = [10.0, 20.0, 999.0, -5.0]
FIRST_SYMBOL = 0x4E00
LENGTH = 8            # positions of the models made here


def normalized(lab, norm, vectors):
    """What the program's norm makes of the vectors, by the batch's own statistics: (V,C)."""
    vectors = np.asarray(vectors, float)
    symbols = "".join(chr(FIRST_SYMBOL + index) for index in range(len(vectors)))
    length = -(-len(symbols) // LENGTH) * LENGTH
    text = (symbols * length)[:length + 1]

    def embed(arrays):
        arrays["transformer.wte.weight"][:] = arrays["lm_head.weight"][:] = vectors
        arrays["transformer.wpe.weight"][:] = 0
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        corpus, run, model = (os.path.join(scratch, name) for name in ("text.txt", "run", "model.safetensors"))
        write_whole(corpus, symbols * 20 * LENGTH)
        lab.call(f"--norm={norm}", "--n-layer=1", "--n-head=1", f"--n-embd={vectors.shape[1]}", f"--block-size={LENGTH}", "--max-iters=0",
                 "--quiet", f"--out={run}", corpus)
        write_changed(run, model, embed)
        arrays = lab.dump(model, text, "--stats=own", f"--batch-size={length // LENGTH}")
    y = arrays["transformer.h.0.ln_1.output"].astype(float)
    return y.reshape(-1, vectors.shape[1])[:len(vectors)]


def properties(y):
    """Properties of a normalized vector."""
    squares = y ** 2
    return {"mean": y.mean(), "variance": y.var(), "deviation": y.std(), "mean_square": squares.mean(),
            "length": math.sqrt(squares.sum()), "length_over_root": math.sqrt(squares.mean()), "largest": np.abs(y).max(),
            "smallest": np.abs(y).min(), "bound": np.abs(y).max() / math.sqrt(len(y) - 1),
            "outlier_share": squares.max() / squares.sum() if squares.any() else 0.0}


def rows_of(variant, numbers):
    return [(variant, metric, float(number)) for metric, number in numbers.items()]


def normalized_by_hand(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def vectors(lab):
    """E11."""
    rows, generator = [], np.random.default_rng(7)
    for norm, (name, vector) in ((norm, one) for norm in ("ln", "rms") for one in (("article", ARTICLE), ("equal", [5.0] * 4))):
        rows += rows_of(f"norm={norm} vector={name}", properties(normalized(lab, norm, [vector] * 2)[0]))
    for scale in (1.0, 1e-2, 1e-3, 1e-4):
        normal = scale * normalized_by_hand(generator.standard_normal(64), 0.0)
        rows += rows_of(f"norm=ln vector=small scale={scale:g}", properties(normalized(lab, "ln", [normal] * 2)[0]))
    for channels in (64, 768):
        x = generator.standard_normal((100, channels))
        y = normalized(lab, "ln", x)
        rows += rows_of(f"norm=ln vector=normal channels={channels}", {
            "within_two": (np.abs(y) <= 2).mean(), "reference_error": np.abs(y - normalized_by_hand(x)).max()})
    article = np.array(ARTICLE)
    uncentred = (article - article.mean()) / np.sqrt((article ** 2).mean() + 1e-5)
    return rows + rows_of("formula=uncentred vector=article", {"variance": uncentred.var()}) + tokens(lab, generator)


def tokens(lab, generator):
    """Which values of a batch a norm's statistics are of; and the factor by which the other channels become narrower when one
    is large."""
    x = 3 + 2 * generator.standard_normal((LENGTH, 16))
    other = x.copy()
    other[1:] = generator.standard_normal((LENGTH - 1, 16))
    large = np.tile(generator.standard_normal(16), (2, 1))
    large[1, 0] = 100
    y, batch, narrow = normalized(lab, "ln", x), normalized(lab, "bn", x), normalized(lab, "ln", large)
    return [*rows_of("norm=ln vectors=tokens", {"other_token_change": np.abs(normalized(lab, "ln", other)[0] - y[0]).max(),
                                                "token_mean": np.abs(y.mean(-1)).max()}),
            *rows_of("norm=bn vectors=tokens", {"channel_mean": np.abs(batch.mean(0)).max(),
                                                "channel_variance": batch.var(0).mean()}),
            *rows_of("norm=ln vector=outlier", {"suppression": narrow[0, 1:].std() / narrow[1, 1:].std()})]


def softmaxes(lab):
    """E11: the trace of the softmax's Jacobian."""
    rows = []
    for name, logits in (("mild", [1.1, 1.2, 0.9]), ("large", [1000.0, 5.0, 2.0])):
        weights = np.exp(np.array(logits) - max(logits))
        weights /= weights.sum()
        rows += rows_of(f"softmax={name}", {"jacobian_trace": (weights * (1 - weights)).sum()})
    return rows


def mean_in_order(x):
    """The mean of values that are added one after another, in their precision."""
    return np.add.accumulate(x)[-1] / x.dtype.type(len(x))


def one_pass(x):
    """(E[x^2] - E[x]^2, mean)."""
    mean = mean_in_order(x)
    return mean_in_order(x * x) - mean * mean, mean


def two_pass(x):
    mean = mean_in_order(x)
    return mean_in_order((x - mean) * (x - mean)), mean


def variances(lab):
    """E13: the relative error of the variance, and the largest error of the normalized vector, in single precision."""
    x = (np.random.default_rng(7).standard_normal((3, 128))[2] + 1e4).astype(np.float32)
    true, rows = x.astype(np.longdouble), []
    right = (true - true.mean()) / np.sqrt(true.var() + 1e-5)
    for algorithm in (one_pass, two_pass):
        found, middle = algorithm(x)
        scale = math.sqrt(max(float(found), 0.0) + 1e-5)
        rows += rows_of(f"algorithm={algorithm.__name__.replace('_', '-')} bits=32 offset=10000", {
            "error": abs(float(found - true.var()) / float(true.var())),
            "output_error": float(np.abs((true - middle) / scale - right).max())})
    return rows


TRAINING = ("--norm=bn", "--n-layer=1", "--n-embd=32", "--block-size=32", "--batch-size=12", "--max-iters=20", "--warmup-iters=5",
            "--lr-decay-iters=20", "--eval-iters=2", "--sample=0", "--quiet")


def trained_bytes(lab, threads):
    """The bytes of all tensors of a small model that was trained."""
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        out = os.path.join(scratch, "run")
        lab.call(*TRAINING, f"--out={out}", f"--threads={threads}")
        arrays = model_file.read(out)[2]
        return np.concatenate([np.frombuffer(arrays[name].tobytes(), np.uint8) for name in sorted(arrays)])


def repeats(lab):
    """E18: bytes of the model that differ in a second run, and with other numbers of threads."""
    first, again, *others = (trained_bytes(lab, threads) for threads in (1, 1, 2, 3, 8))
    return rows_of("norm=bn", {"rerun_bytes": (first != again).sum(), "threads_bytes": max((first != one).sum() for one in others)})


ALONE = {measure.__name__: measure for measure in (vectors, softmaxes, variances, repeats)}
