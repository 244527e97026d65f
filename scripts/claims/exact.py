"""Exact measurements, without training: the program's norms on given vectors, algorithms for the
variance, and runs repeated byte by byte. Each gives rows (variant, seed, metric, value).

To see what the program's norm makes of a vector, a model file is written whose embedding holds the vectors
and whose other weights are 0. The input of the first norm is then the embedding of the text.
"""
import math
import os
import tempfile

import numpy as np

from pytorch import model_file
from claims.fact_table import NO_SEED
from common.command_line import write_whole

ARTICLE = [10.0, 20.0, 999.0, -5.0]
FIRST_SYMBOL = 0x4E00
LENGTH = 8            # positions of the models made here


def model_of_vectors(path, vectors, norm):
    """A model of one layer whose embedding has these vectors; (V,C)."""
    channels = vectors.shape[1]
    zero = np.zeros
    arrays = {"transformer.wte.weight": vectors, "transformer.wpe.weight": zero((LENGTH, channels))}
    layer = {"ln_1": None, "ln_2": None, "attn.c_attn": (3, 1), "attn.c_proj": (1, 1),
             "mlp.c_fc": (4, 1), "mlp.c_proj": (1, 4)}
    for name, shape in layer.items():
        rows, columns = shape or (1, None)
        arrays[f"transformer.h.0.{name}.weight"] = np.ones(channels) if shape is None else \
            zero((rows * channels, columns * channels))
        arrays[f"transformer.h.0.{name}.bias"] = zero(rows * channels)
    arrays["transformer.ln_f.weight"], arrays["transformer.ln_f.bias"] = np.ones(channels), \
        zero(channels)
    arrays["lm_head.weight"] = vectors
    if norm == "rms":  # it has no beta
        for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
            del arrays[f"transformer.{name}.bias"]
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f") if norm == "bn" else ():
        arrays[f"transformer.{name}.running_mean"] = zero(channels)
        arrays[f"transformer.{name}.running_var"] = np.ones(channels)
        arrays[f"transformer.{name}.num_batches_tracked"] = zero(())
    model_file.write(path, {}, {name: np.asarray(array, float) for name, array in arrays.items()})


def normalized(lab, norm, vectors):
    """What the program's norm makes of the vectors, by the batch's own statistics: (V,C)."""
    vectors = np.asarray(vectors, float)
    symbols = "".join(chr(FIRST_SYMBOL + index) for index in range(len(vectors)))
    length = -(-len(symbols) // LENGTH) * LENGTH
    text = (symbols * length)[:length + 1]
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        model, vocabulary = (os.path.join(scratch, name) for name in ("model.safetensors", "symbols"))
        model_of_vectors(model, vectors, norm)
        write_whole(vocabulary, symbols)
        arrays = lab.dump(model, text, f"--norm={norm}", "--n-head=1", f"--vocabulary={vocabulary}",
                          "--stats=own", f"--batch-size={length // LENGTH}")
    y = arrays["transformer.h.0.ln_1.output"].astype(float)
    return y.reshape(-1, vectors.shape[1])[:len(vectors)]


def properties(y):
    """Properties of a normalized vector."""
    squares = y ** 2
    return {"mean": y.mean(), "variance": y.var(), "deviation": y.std(),
            "mean_square": squares.mean(), "length": math.sqrt(squares.sum()),
            "length_over_root": math.sqrt(squares.mean()), "largest": np.abs(y).max(),
            "smallest": np.abs(y).min(), "bound": np.abs(y).max() / math.sqrt(len(y) - 1),
            "outlier_share": squares.max() / squares.sum() if squares.any() else 0.0,
            "within_two": (np.abs(y) <= 2).mean()}


def rows_of(variant, numbers):
    return [(variant, NO_SEED, metric, float(number)) for metric, number in numbers.items()]


def normalized_by_hand(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def vectors(lab):
    """E11."""
    rows, generator = [], np.random.default_rng(7)
    given = {"article": ARTICLE, "equal": [5.0] * 4}
    for norm in ("ln", "rms"):
        for name, vector in given.items():
            rows += rows_of(f"norm={norm} vector={name}",
                            properties(normalized(lab, norm, [vector] * 2)[0]))
    for scale in (1.0, 1e-2, 1e-3, 1e-4):
        normal = scale * normalized_by_hand(generator.standard_normal(64), 0.0)
        rows += rows_of(f"norm=ln vector=small scale={scale:g}",
                        properties(normalized(lab, "ln", [normal] * 2)[0]))
    for channels in (64, 768):
        x = generator.standard_normal((100, channels))
        y = normalized(lab, "ln", x)
        variant = f"norm=ln vector=normal channels={channels}"
        rows += rows_of(variant, {
            "within_two": (np.abs(y) <= 2).mean(), "reference_error": np.abs(y - normalized_by_hand(x)).max(),
            "affine_change": np.abs(normalized(lab, "ln", 3 * x + 5) - y).max()})
        y = normalized(lab, "rms", x)
        rows += rows_of(variant.replace("ln", "rms"), {
            "scale_change": np.abs(normalized(lab, "rms", 3 * x) - y).max(),
            "shift_change": np.abs(normalized(lab, "rms", x + 5) - y).max()})
    article = np.array(ARTICLE)
    uncentred = (article - article.mean()) / np.sqrt((article ** 2).mean() + 1e-5)
    rows += rows_of("formula=uncentred vector=article", {"variance": uncentred.var()})
    return rows + tokens(lab, generator) + suppression(lab, generator)


def tokens(lab, generator):
    """Which values of a batch a norm's statistics are of."""
    x = 3 + 2 * generator.standard_normal((LENGTH, 16))
    other = x.copy()
    other[1:] = generator.standard_normal((LENGTH - 1, 16))
    y, batch = normalized(lab, "ln", x), normalized(lab, "bn", x)
    return rows_of("norm=ln vectors=tokens", {
        "other_token_change": np.abs(normalized(lab, "ln", other)[0] - y[0]).max(),
        "token_mean": np.abs(y.mean(-1)).max()}) + rows_of("norm=bn vectors=tokens", {
            "channel_mean": np.abs(batch.mean(0)).max(), "channel_variance": batch.var(0).mean()})


def suppression(lab, generator):
    """The factor by which the other channels become narrower when one is multiplied by 100."""
    x = generator.standard_normal(16)
    large = x.copy()
    large[0] = 100
    y = normalized(lab, "ln", [x, large])
    return rows_of("norm=ln vector=outlier", {"suppression": y[0, 1:].std() / y[1, 1:].std()})


def softmaxes(lab):
    """The trace of the softmax's Jacobian."""
    rows = []
    for name, logits in (("mild", [1.1, 1.2, 0.9]), ("large", [1000.0, 5.0, 2.0])):
        weights = np.exp(np.array(logits) - max(logits))
        weights /= weights.sum()
        rows += rows_of(f"softmax={name}", {"jacobian_trace": (weights * (1 - weights)).sum(),
                                            "largest_weight": weights.max()})
    return rows


# ---- E13 -----------------------------------------------------------------------------------------

def one_pass(x, kind):
    """E[x^2] - E[x]^2."""
    total = squares = kind(0)
    for value in x:
        total, squares = total + value, squares + value * value
    mean = total / kind(len(x))
    return squares / kind(len(x)) - mean * mean, mean


def two_pass(x, kind):
    total = squares = kind(0)
    for value in x:
        total += value
    mean = total / kind(len(x))
    for value in x:
        squares += (value - mean) * (value - mean)
    return squares / kind(len(x)), mean


def welford(x, kind):
    mean = squares = kind(0)
    for count, value in enumerate(x, 1):
        step = value - mean
        mean += step / kind(count)
        squares += step * (value - mean)
    return squares / kind(len(x)), mean


def variances(lab):
    """E13: the relative error of the variance, and the largest error of the normalized vector; also that
    of the program's LayerNorm."""
    rows, generator = [], np.random.default_rng(7)
    for channels, offset in ((channels, offset) for channels in (128, 768) for offset in (0, 1e2, 1e4)):
        x = generator.standard_normal(channels) + offset
        wider = "" if channels == 128 else f" channels={channels}"
        for kind, bits in ((np.float32, 32), (np.float64, 64)):
            rounded = x.astype(kind)
            true = rounded.astype(np.longdouble)
            variance, mean = true.var(), true.mean()
            right = (true - mean) / np.sqrt(variance + 1e-5)
            where = f"bits={bits} offset={offset:g}{wider}"
            for algorithm in (one_pass, two_pass, welford):
                found, middle = algorithm(rounded, kind)
                scale = math.sqrt(max(float(found), 0.0) + 1e-5)
                rows += rows_of(f"algorithm={algorithm.__name__.replace('_', '-')} {where}", {
                    "error": abs(float(found - variance) / float(variance)),
                    "output_error": float(np.abs((true - middle) / scale - right).max())})
            if bits == 32:
                y = normalized(lab, "ln", [rounded] * 2)[0]
                rows += rows_of(f"algorithm=program {where}",
                                {"output_error": float(np.abs(y - right).max())})
    return rows


# ---- E18 -----------------------------------------------------------------------------------------

TRAINING = ("--n-layer=1", "--n-embd=32", "--block-size=32", "--batch-size=12", "--warmup-iters=5",
            "--lr-decay-iters=20", "--eval-iters=2", "--sample=0", "--quiet")


def model_bytes(out):
    """The bytes of all tensors of a run's model, without the file's header, which has the options."""
    arrays = model_file.read(out)[2]
    return np.concatenate([np.frombuffer(arrays[name].tobytes(), np.uint8) for name in sorted(arrays)])


def trained_bytes(lab, norm, *words):
    """The bytes of a small model. Extra words are options of the run."""
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        out = os.path.join(scratch, "run")
        lab.call(f"--norm={norm}", "--max-iters=20", *TRAINING, f"--out={out}", *words)
        return model_bytes(out)


def interrupted(lab, norm):
    """The bytes of a model whose training was ended half-way and resumed, and by how much the logits of
    a batch change when its sequences change places."""
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        out = os.path.join(scratch, "run")
        lab.call(f"--norm={norm}", "--max-iters=10", *TRAINING, f"--out={out}")
        lab.call(f"--resume={out}", "--max-iters=20", "--quiet")
        rows = ["the cat sat on a mat and the dog "[i:] + "the cat sat on a mat and the dog "[:i]
                for i in range(12)]  # 33 characters, rotated; 32 of them make 12 different sequences
        first, second = (lab.dump(out, "".join(row[:32] for row in order) + "e", "--stats=own",
                                  "--batch-size=12")["logits"] for order in (rows, rows[::-1]))
        return model_bytes(out), float(np.abs(first - second[::-1]).max())


def repeats(lab):
    """E18: bytes of the model that differ in a second run, with other numbers of threads, and after an
    interruption; and what the order of a batch's sequences changes."""
    def differing(first, second):
        return float(len(first) != len(second) or (first != second).sum())
    rows = []
    for norm in ("ln", "bn"):
        first = trained_bytes(lab, norm, "--threads=1")
        resumed, order = interrupted(lab, norm)
        rows += rows_of(f"norm={norm}", {
            "rerun_bytes": differing(first, trained_bytes(lab, norm, "--threads=1")),
            "threads_bytes": max(differing(first, trained_bytes(lab, norm, f"--threads={count}"))
                                 for count in (2, 3, 8)),
            "resumed_bytes": differing(first, resumed), "order_change": order})
    return rows


ALONE = {measure.__name__: measure for measure in (vectors, softmaxes, variances, repeats)}
