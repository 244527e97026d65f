"""Measurements of a trained model by ./train --evaluate --dump: activations, attention, gradients. Each is a function
(lab, folder, run) that returns {metric: value}; INSTRUMENTS has them by name.

Texts are laid out so that a batch is known: 12 sequences of T characters and one more are the 12 rows of a batch. Attention
weights follow from queries and keys.
"""
import os
import re
import tempfile

import numpy as np
from scipy import stats

from claims.lab import OUTLIER_CHANNEL
from evidence.lab import attention, write_changed

ROWS = 12            # sequences of a batch
DRAWS = 4            # times that the rest of a batch is exchanged
CHUNK = 64           # sequences of a batch that probes read
OUTLIER_FACTOR = 100
NOISE = (0.05, 0.1, 0.2)  # fractions of the characters that are replaced
RIDGE = 1e-3         # of the mean square of a feature


def held_out(lab, run):
    """The last tenth of a run's text. If the text is running text, this is its validation split; the validation lines of items
    come from everywhere in the file, so there most of it was trained on."""
    text = lab.text(run.corpus)
    return text[-(len(text) // 10):]


def sequences(text, count, length, generator):
    """Text of `count` sequences from random places, one after another."""
    starts = generator.integers(0, max(1, len(text) - length), count)
    return "".join(text[start:start + length] for start in starts)


def batch_text(lab, run, count):
    """`count` sequences of the validation split, and the last target."""
    return sequences(held_out(lab, run), count, run.options["block-size"], np.random.default_rng(7)) + "e"


def dump_of(lab, folder, run, count):
    """The arrays of a batch of `count` sequences."""
    return lab.dump(folder, batch_text(lab, run, count), f"--batch-size={count}")


def all_weights(arrays, run):
    """[(weights (B,NH,T,T), v (B,T,C))] of the layers' attention."""
    read = [arrays[f"transformer.h.{layer}.attn.qkv"].astype(float) for layer in range(run.options["n-layer"])]
    return [(attention(qkv, run.options["n-head"]), np.split(qkv, 3, axis=-1)[2]) for qkv in read]


# ---- dependence on the batch, the length, the pads -------------------------------------------------

def dependence(lab, folder, run):
    """The largest change of the first sequence's logits and attention weights when the others of the batch are exchanged, by
    running and by the batch's own statistics; of a prefix's logits when the sequence continues; of a sequence's when it is
    alone."""
    length, generator, found = run.options["block-size"], np.random.default_rng(7), {}
    text = held_out(lab, run)
    first = sequences(text, 1, length, generator)
    others = [sequences(text, ROWS - 1, length, generator) + "e" for _ in range(DRAWS)]
    for mode in ("running", "own"):
        dumps = [lab.dump(folder, first + other, f"--stats={mode}", f"--batch-size={ROWS}") for other in others]
        found[f"logit_change_{mode}"] = max(float(np.abs(one["logits"][0] - dumps[0]["logits"][0]).max()) for one in dumps[1:])
        weights = [[part[0][0] for part in all_weights(one, run)] for one in dumps]
        found[f"weight_change_{mode}"] = max(float(np.abs(a - b).max()) for one in weights[1:] for a, b in zip(one, weights[0]))
        if mode == "running":
            whole = dumps[0]["logits"][0]
    half = length // 2
    prefix = lab.dump(folder, first[:half + 1], f"--batch-size={ROWS}")["logits"][0]
    found["prefix_change"] = float(np.abs(prefix[:half] - whole[:half]).max())
    alone = lab.dump(folder, first + "e", "--batch-size=1")["logits"][0]
    found["single_change"] = float(np.abs(alone - whole).max())
    return found


def pad_change(lab, folder, run):
    """The largest change of a line's logits when lines are padded to a block instead of to the longest, by the batch's own
    statistics."""
    lines = [line for line in held_out(lab, run).split("\n") if 3 <= len(line) < run.options["block-size"] // 2][:ROWS]
    text = "\n".join(lines) + "\n"
    words = ("--stats=own", f"--batch-size={ROWS}")
    longest, block = (lab.dump(folder, text, f"--pad-to={to}", *words) for to in ("longest", "block"))
    width = longest["valid"].shape[1]
    valid = longest["valid"].astype(bool)
    if not np.array_equal(longest["ids"][valid], block["ids"][:, :width][valid]):
        raise ValueError("pad_change: the batches are not of the same lines")
    return {"pad_change": float(np.abs(longest["logits"] - block["logits"][:, :width])[valid].max())}


def rereading(lab, folder, run):
    """Of a text written token by token, always the likeliest character: the number of positions at which the whole forward
    pass would have written another."""
    length, start = run.options["block-size"], held_out(lab, run)[:4].replace("\n", " ")
    text = lab.call(f"--generate={folder}", "--temperature=0", f"--prompt={start}", f"--num-chars={length - len(start)}")
    text = text[text.index(start):][:length]
    dump = lab.dump(folder, text + "e", "--batch-size=1")
    likeliest, ids = dump["logits"][0].argmax(-1), dump["ids"][0]
    first, last = len(start), min(length, len(text))
    return {"reread_errors": float((likeliest[first - 1:last - 1] != ids[first:last]).sum())}


# ---- attention and outliers ----------------------------------------------------------------------

def attention_state(arrays, run):
    """(fraction of queries with a weight above 0.99, mean trace of the softmax's Jacobian), of queries with two keys or
    more."""
    rows = [weights[:, :, 1:] for weights, _ in all_weights(arrays, run)]
    return tuple(float(np.mean([of(one) for one in rows])) for of in
                 (lambda one: (one.max(-1) > 0.99).mean(), lambda one: (1 - (one ** 2).sum(-1)).mean()))


def outlier(lab, folder, run):
    """Attention before and after a channel of the positions got large random values."""
    def enlarge(arrays):
        positions = arrays["transformer.wpe.weight"]
        normal = np.random.default_rng(7).standard_normal(len(positions))
        positions[:, OUTLIER_CHANNEL] = OUTLIER_FACTOR * arrays["transformer.wte.weight"].std() * normal

    text, words = batch_text(lab, run, ROWS), ("--stats=running", f"--batch-size={ROWS}")
    with tempfile.TemporaryDirectory(dir=lab.folder) as scratch:
        path = os.path.join(scratch, "model.safetensors")
        write_changed(folder, path, enlarge)
        plain, large = (attention_state(lab.dump(model, text, *words), run) for model in (folder, path))
    return {"saturated_outlier": large[0], "jacobian_ratio": large[1] / plain[1]}


def dynamic_range(rows):
    """The 99th over the 1st percentile of the tokens' root mean squares."""
    low, high = np.percentile(np.sqrt((rows ** 2).mean(-1)), (1, 99))
    return high / low if low > 0 else np.inf


def ranges(lab, folder, run):
    """The dynamic range of attention's output, before its projection, over that of the values that it mixes, mean over
    layers."""
    arrays = dump_of(lab, folder, run, CHUNK)
    outputs = [dynamic_range(arrays[f"transformer.h.{layer}.attn.output"].astype(float)) for layer in range(run.options["n-layer"])]
    growths = [output / dynamic_range(v) for output, (_, v) in zip(outputs, all_weights(arrays, run))]
    return {"output_range": float(np.mean(outputs)), "range_growth": float(np.mean(growths))}


def outliers(lab, folder, run):
    """The excess kurtosis of all values of the residual stream, 0 for normal ones, as a mean over sub-layers."""
    arrays = dump_of(lab, folder, run, CHUNK)
    streams = [array.astype(float) for name, array in sorted(arrays.items()) if name.startswith("stream.") and name != "stream.0"]
    return {"stream_kurtosis": float(np.mean([stats.kurtosis(x, axis=None) for x in streams]))}


def rounding(lab, folder, run):
    """By how much the loss grows when the inputs of linear layers are rounded to 4 bits (normlab.py)."""
    try:
        import torch
        import normlab
    except ImportError:
        raise RuntimeError("rounding of activations needs PyTorch (scripts/deps.sh torch)") from None
    arrays = dump_of(lab, folder, run, 4 * CHUNK)
    ids, targets = (torch.tensor(arrays[name].astype(np.int64)) for name in ("ids", "targets"))
    model = normlab.load(folder)

    def loss():
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten()))
    exact = loss()
    with normlab.rounded_inputs(model, 4):
        return {"activations_4_cost": loss() - exact}


def noise_sweep(lab, folder, run):
    """How much the loss at clean targets grows when this fraction of the characters read is replaced: the same places and
    characters for all models, and more of them where the noise is stronger."""
    text = batch_text(lab, run, 4 * CHUNK)
    generator, symbols = np.random.default_rng(8), sorted(set(lab.text(run.corpus)))
    draws, other = generator.random(len(text)), generator.integers(len(symbols), size=len(text))
    targets = lab.dump(folder, text, f"--batch-size={4 * CHUNK}")["targets"][..., None]

    def loss(strength):
        noisy = "".join(symbols[one] if draw < strength else symbol for symbol, draw, one in zip(text, draws, other))
        logits = lab.dump(folder, noisy, f"--batch-size={4 * CHUNK}")["logits"].astype(float)
        logits -= logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, targets, -1)[..., 0]
        return float((np.log(np.exp(logits).sum(-1)) - chosen).mean())
    clean = loss(0)
    return {f"noise_cost_{100 * strength:g}": loss(strength) - clean for strength in NOISE}


# ---- what a norm keeps ---------------------------------------------------------------------------

def principal_sites(arrays):
    """The names of the norms before sub-layers and before the head."""
    return sorted(name[:-len(".input")] for name in arrays if re.fullmatch(r"transformer\.(h\.\d+\.ln_[12]|ln_f)\.input", name))


def ridge_r2(features, target):
    """R^2 of a ridge regression that is fitted to the first three quarters of the sequences and measured on the rest.
    features: (B,T,C), target: (B,T)."""
    count = features.shape[0] * 3 // 4
    width = features.shape[-1]
    x, test = features[:count].reshape(-1, width), features[count:].reshape(-1, width)
    y, wanted = np.ravel(target[:count]), np.ravel(target[count:])
    middle, level = x.mean(0), y.mean()
    x, test = x - middle, test - middle
    square = x.T @ x / len(x)
    square += np.eye(width) * RIDGE * max(square.trace() / width, 1e-30)
    weights = np.linalg.solve(square, x.T @ (y - level) / len(x))
    return float(1 - ((test @ weights + level - wanted) ** 2).sum() / ((wanted - wanted.mean()) ** 2).sum())


def kept(lab, folder, run):
    """R^2 of a linear probe for a token's position, before a norm less after it, mean over norms; how much a token's length
    varies after the last norm, and that over its variation before; and whether similar characters get more similar."""
    arrays = dump_of(lab, folder, run, CHUNK)
    losses = []
    for site in principal_sites(arrays):
        x, y = (arrays[f"{site}.{side}"].astype(float) for side in ("input", "output"))
        position = np.broadcast_to(np.arange(x.shape[1], dtype=float), x.shape[:2])
        losses.append(ridge_r2(x, position) - ridge_r2(y, position))
    last = [arrays[f"transformer.ln_f.{side}"] for side in ("input", "output")]
    radii = [np.linalg.norm(values.astype(float), axis=-1) for values in last]
    cvs = [float(radius.std() / radius.mean()) for radius in radii]
    gain = [similarity(values, arrays) for values in last]
    return {"position_loss": float(np.mean(losses)), "radius_cv": cvs[1], "radius_cv_ratio": cvs[1] / cvs[0],
            "similarity_gain": gain[1] - gain[0]}


def similarity(values, arrays):
    """The rank correlation, over pairs of characters, of the cosine of their mean vectors with the cosine of the frequencies
    of what follows them."""
    ids, targets, count = arrays["ids"], arrays["targets"], arrays["logits"].shape[-1]
    symbols = [symbol for symbol in range(count) if (ids == symbol).sum() >= 10]
    means = np.array([values[ids == symbol].mean(0) for symbol in symbols], float)
    follow = np.array([np.bincount(targets[ids == symbol], minlength=count) for symbol in symbols], float)

    def cosines(rows):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return float(stats.spearmanr(cosines(means), cosines(follow)).statistic)


# ---- gradients -----------------------------------------------------------------------------------

def shards(lab, folder, run):
    """The relative difference between the gradient of 12 sequences in 4 parts, each with statistics of its own, and that of
    the whole batch."""
    text = batch_text(lab, run, ROWS)
    parted, whole = (np.concatenate([array.astype(float).ravel() for name, array in sorted(arrays.items()) if name.startswith("grad.")])
                     for arrays in (lab.dump(folder, text, "--stats=own", f"--batch-size={count}") for count in (ROWS // 4, ROWS)))
    return {"gradient_error_4": float(np.linalg.norm(parted - whole) / np.linalg.norm(whole))}


def drift(lab, folder, run):
    """Between checkpoints at quarters of a run: how far the mean of what linear layers read moves, in deviations, by
    channel."""
    text, means, before = batch_text(lab, run, CHUNK), [], None
    for one in (*run.beside, run):
        arrays = lab.dump(lab.folder_of(one), text, "--stats=own", f"--batch-size={CHUNK}")
        sites = {site: arrays[f"{site}.output"].astype(float) for site in principal_sites(arrays)}
        for site in sites if before else ():
            spread = before[site].std((0, 1)) + 1e-12
            means.append((np.abs(sites[site].mean((0, 1)) - before[site].mean((0, 1))) / spread).mean())
        before = sites
    return {"drift_mean": float(np.mean(means))}


INSTRUMENTS = {instrument.__name__: instrument for instrument in (
    dependence, pad_change, rereading, outlier, ranges, outliers, rounding, noise_sweep, kept, shards, drift)}
