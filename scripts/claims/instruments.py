"""Measurements of a trained model by ./train --evaluate --dump: activations, attention, gradients.

An instrument is a function (lab, folder, run) that returns {metric: value}. INSTRUMENTS has them by name.
Texts are laid out so that a batch is known: 12 sequences of T characters and one more are the 12 rows of a
batch. Attention weights follow from queries and keys.
"""
import json
import os

import numpy as np
from scipy import stats

from pytorch import model_file
from claims.probes import principal_sites, ridge_r2

ROWS = 12            # sequences of a batch
DRAWS = 4            # times that the rest of a batch is exchanged
CHUNK = 64           # sequences of a batch that probes read
OUTLIER_CHANNEL, OUTLIER_FACTOR = 3, 100
NOISE = 0.05         # of the characters


def held_out(lab, run):
    """The last tenth of a run's text: of running text the validation split. The validation split of items is
    drawn from all lines, so of items it is mostly lines to train on."""
    text = lab.text(run.corpus)
    return text[-(len(text) // 10):]


def sequences(text, count, length, generator):
    """Text of `count` sequences from random places, one after another."""
    starts = generator.integers(0, max(1, len(text) - length), count)
    return "".join(text[start:start + length] for start in starts)


def batch_text(lab, run, count):
    """`count` sequences of the validation split, and the last target."""
    generator = np.random.default_rng(7)
    return sequences(held_out(lab, run), count, run.options["block-size"], generator) + "e"


def weights_of(arrays, layer, heads):
    """(weights, logits, v) of a layer's attention: (B,NH,T,T), and v (B,T,C). A weight after its query
    is 0, a logit there NaN."""
    qkv = arrays[f"transformer.h.{layer}.attn.qkv"].astype(float)
    rows, length, width = qkv.shape
    size = width // 3 // heads
    q, k, v = (qkv[..., i * width // 3:(i + 1) * width // 3] for i in range(3))
    q, k = (part.reshape(rows, length, heads, size).transpose(0, 2, 1, 3) for part in (q, k))
    logits = q @ k.transpose(0, 1, 3, 2) / np.sqrt(size)
    logits[..., ~np.tri(length, dtype=bool)] = -np.inf
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True), \
        np.where(np.isfinite(logits), logits, np.nan), v


def all_weights(arrays, run):
    return [weights_of(arrays, layer, run.options["n-head"]) for layer in range(run.options["n-layer"])]


# ---- dependence on the batch, the length, the pads -------------------------------------------------

def dependence(lab, folder, run):
    """The largest change of the first sequence's logits and attention weights when the others of the
    batch are exchanged, by running and by the batch's own statistics; of a prefix's logits when the
    sequence continues; of a sequence's when it is alone."""
    length, generator, found = run.options["block-size"], np.random.default_rng(7), {}
    text = held_out(lab, run)
    first = sequences(text, 1, length, generator)
    others = [sequences(text, ROWS - 1, length, generator) + "e" for _ in range(DRAWS)]
    for mode in ("running", "own"):
        dumps = [lab.dump(folder, first + other, f"--stats={mode}", f"--batch-size={ROWS}")
                 for other in others]
        found[f"logit_change_{mode}"] = max(float(np.abs(one["logits"][0] - dumps[0]["logits"][0]).max())
                                            for one in dumps[1:])
        weights = [[part[0][0] for part in all_weights(one, run)] for one in dumps]
        found[f"weight_change_{mode}"] = max(float(np.abs(a - b).max()) for one in weights[1:]
                                             for a, b in zip(one, weights[0]))
        if mode == "running":
            whole = dumps[0]["logits"][0]
    half = length // 2
    prefix = lab.dump(folder, first[:half + 1], f"--batch-size={ROWS}")["logits"][0]
    found["prefix_change"] = float(np.abs(prefix[:half] - whole[:half]).max())
    alone = lab.dump(folder, first + "e", "--batch-size=1")["logits"][0]
    found["single_change"] = float(np.abs(alone - whole).max())
    return found


def pad_change(lab, folder, run):
    """The largest change of a line's logits when lines are padded to a block instead of to the longest,
    by the batch's own statistics."""
    lines = [line for line in held_out(lab, run).split("\n")
             if 3 <= len(line) < run.options["block-size"] // 2][:ROWS]
    text = "\n".join(lines) + "\n"
    words = ("--stats=own", f"--batch-size={ROWS}")
    longest, block = (lab.dump(folder, text, f"--pad-to={to}", *words) for to in ("longest", "block"))
    width = longest["valid"].shape[1]
    valid = longest["valid"].astype(bool)
    if not np.array_equal(longest["ids"][valid], block["ids"][:, :width][valid]):
        raise ValueError("pad_change: the batches are not of the same lines")
    change = np.abs(longest["logits"] - block["logits"][:, :width])
    return {"pad_change": float(change[valid].max())}


def rereading(lab, folder, run):
    """Of a text written token by token, always the likeliest character: the number of positions at
    which the whole forward pass would have written another."""
    length, start = run.options["block-size"], held_out(lab, run)[:4].replace("\n", " ")
    text = lab.call(f"--generate={folder}", "--temperature=0", f"--prompt={start}",
                    f"--num-chars={length - len(start)}")
    text = text[text.index(start):][:length]
    dump = lab.dump(folder, text + "e", "--batch-size=1")
    likeliest, ids = dump["logits"][0].argmax(-1), dump["ids"][0]
    first, last = len(start), min(length, len(text))
    return {"reread_errors": float((likeliest[first - 1:last - 1] != ids[first:last]).sum())}


# ---- attention and outliers ----------------------------------------------------------------------

def attention_state(arrays, run):
    """(fraction of queries with a weight above 0.99, entropy over its maximum, mean trace of the softmax's
    Jacobian), of queries with two keys or more."""
    saturated, entropies, traces = [], [], []
    for weights, _, _ in all_weights(arrays, run):
        rows = weights[:, :, 1:]
        saturated.append((rows.max(-1) > 0.99).mean())
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(np.where(rows > 0, rows * np.log(rows), 0), -1)
        entropies.append((entropy / np.log(np.arange(2, weights.shape[-1] + 1))).mean())
        traces.append((1 - (rows ** 2).sum(-1)).mean())
    return float(np.mean(saturated)), float(np.mean(entropies)), float(np.mean(traces))


def with_outlier(folder, path, factor):
    """Writes a model's file whose positions have a channel of large random values."""
    _, texts, arrays = model_file.read(folder)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    embedding = arrays["transformer.wpe.weight"]
    normal = np.random.default_rng(7).standard_normal(len(embedding))
    embedding[:, OUTLIER_CHANNEL] = factor * arrays["transformer.wte.weight"].std() * normal
    model_file.write(path, {name: text for name, text in texts.items()
                            if name not in ("header_crc32", "data_crc32")}, arrays)


def outlier(lab, folder, run):
    """Attention before and after an outlier channel of the positions was planted."""
    path = os.path.join(lab.folder, f"outlier-{os.getpid()}-{os.path.basename(folder)}.safetensors")
    text, words = batch_text(lab, run, ROWS), ("--stats=running", f"--batch-size={ROWS}")
    try:
        with_outlier(folder, path, OUTLIER_FACTOR)
        plain, large = (attention_state(lab.dump(model, text, *words), run) for model in (folder, path))
    finally:
        if os.path.exists(path):
            os.remove(path)
    return {"saturated_plain": plain[0], "saturated_outlier": large[0], "entropy_outlier": large[1],
            "jacobian_ratio": large[2] / plain[2]}


def dynamic_range(rows):
    """The 99th over the 1st percentile of the tokens' root mean squares."""
    low, high = np.percentile(np.sqrt((rows ** 2).mean(-1)), (1, 99))
    return high / low if low > 0 else np.inf


def ranges(lab, folder, run):
    """The dynamic range of attention's output, before its projection, over that of the values that it
    mixes, mean over layers; the largest logit."""
    arrays = lab.dump(folder, batch_text(lab, run, CHUNK), f"--batch-size={CHUNK}")
    outputs, growths, largest = [], [], []
    for layer, (_, logits, v) in enumerate(all_weights(arrays, run)):
        outputs.append(dynamic_range(arrays[f"transformer.h.{layer}.attn.output"].astype(float)))
        growths.append(outputs[-1] / dynamic_range(v))
        largest.append(np.nanmax(np.abs(logits)))
    return {"output_range": float(np.mean(outputs)), "range_growth": float(np.mean(growths)),
            "largest_logit": float(max(largest))}


def noise(lab, folder, run):
    """How much the loss at clean targets grows when 5 % of the characters read are replaced."""
    text = batch_text(lab, run, CHUNK)
    generator, symbols = np.random.default_rng(8), sorted(set(lab.text(run.corpus)))
    replaced = generator.random(len(text)) < NOISE
    noisy = "".join(symbols[generator.integers(len(symbols))] if wrong else symbol
                    for symbol, wrong in zip(text, replaced))
    clean, dirty = (lab.dump(folder, one, f"--batch-size={CHUNK}") for one in (text, noisy))
    targets = clean["targets"][..., None]

    def loss(logits):
        logits = logits.astype(float)
        logits = logits - logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, targets, -1)[..., 0]
        return float((np.log(np.exp(logits).sum(-1)) - chosen).mean())
    return {"noise_cost": loss(dirty["logits"]) - loss(clean["logits"])}


# ---- what a norm keeps ---------------------------------------------------------------------------

def kept(lab, folder, run):
    """R^2 of linear probes for a token's norm, mean and position, before a norm less after it, mean
    over norms; the fraction of variance between positions; the norms' output values; how much a token's
    length varies after the last norm, and that over its variation before; and whether similar characters
    get more similar."""
    arrays = lab.dump(folder, batch_text(lab, run, CHUNK), f"--batch-size={CHUNK}")
    loss, between, within = {"norm": [], "mean": [], "position": []}, [], []
    for site in principal_sites(arrays):
        x, y = (arrays[f"{site}.{side}"].astype(float) for side in ("input", "output"))
        position = np.broadcast_to(np.arange(x.shape[1], dtype=float), x.shape[:2])
        targets = {"norm": np.linalg.norm(x, axis=-1), "mean": x.mean(-1), "position": position}
        for name, target in targets.items():
            loss[name].append(ridge_r2(x, target) - ridge_r2(y, target))
        between.append((x.mean(0).var(0) / x.var((0, 1))).mean())
        within.append((np.abs(y) <= 2).mean())
    radii = [np.linalg.norm(arrays[f"transformer.ln_f.{side}"].astype(float), axis=-1)
             for side in ("input", "output")]
    cvs = [float(radius.std() / radius.mean()) for radius in radii]
    gain = [similarity(arrays[f"transformer.ln_f.{side}"], arrays) for side in ("input", "output")]
    return {**{f"{name}_loss": float(np.mean(values)) for name, values in loss.items()},
            "between_positions": float(np.mean(between)), "within_two": float(np.mean(within)),
            "radius_cv": cvs[1], "radius_cv_ratio": cvs[1] / cvs[0], "similarity_gain": gain[1] - gain[0]}


def similarity(values, arrays):
    """The rank correlation, over pairs of characters, of the cosine of their mean vectors with the cosine
    of the frequencies of what follows them."""
    ids, targets, count = arrays["ids"], arrays["targets"], arrays["logits"].shape[-1]
    symbols = [symbol for symbol in range(count) if (ids == symbol).sum() >= 10]
    means = np.array([values[ids == symbol].mean(0) for symbol in symbols], float)
    follow = np.array([np.bincount(targets[ids == symbol], minlength=count) for symbol in symbols],
                      float)

    def cosines(rows):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return float(stats.spearmanr(cosines(means), cosines(follow)).statistic)


# ---- gradients -----------------------------------------------------------------------------------

def gradient(arrays):
    """All gradients as one vector."""
    return np.concatenate([array.astype(float).ravel() for name, array in sorted(arrays.items())
                           if name.startswith("grad.")])


def shards(lab, folder, run):
    """The relative difference between the gradient of 12 sequences in 2, 4, 12 parts, each with
    statistics of its own, and that of the whole batch."""
    text, found = batch_text(lab, run, ROWS), {}
    whole = gradient(lab.dump(folder, text, "--stats=own", f"--batch-size={ROWS}"))
    for parts in (2, 4, 12):
        parted = gradient(lab.dump(folder, text, "--stats=own", f"--batch-size={ROWS // parts}"))
        found[f"gradient_error_{parts}"] = float(np.linalg.norm(parted - whole) / np.linalg.norm(whole))
    return found


def checkpoints_of(lab, run):
    """The steps at which there is a model of the run's beginning, and one of an update later."""
    updates = run.options["max-iters"]
    steps = [part * updates // 4 for part in (1, 2, 3, 4)]
    return [step for step in steps if all(
        lab.ended(run._replace(options={**run.options, "max-iters": step + more})) for more in (0, 1))]


def drift(lab, folder, run):
    """Between checkpoints at quarters of a run: how far the mean and the deviation of what linear layers
    read move, in deviations, by channel. Of an update after each checkpoint: the cosine of the
    gradients of a fixed batch before and after it, and their relative difference."""
    text = batch_text(lab, run, CHUNK)
    words, means, deviations, cosines, changes, before = ("--stats=own", f"--batch-size={CHUNK}"), \
        [], [], [], [], None
    for step in checkpoints_of(lab, run):
        twins = [lab.folder_of(run._replace(options={**run.options, "max-iters": step + more}))
                 for more in (0, 1)]
        now, later = (lab.dump(twin, text, *words) for twin in twins)
        first, second = gradient(now), gradient(later)
        lengths = np.linalg.norm(first), np.linalg.norm(second)
        cosines.append(first @ second / (lengths[0] * lengths[1]))
        changes.append(np.linalg.norm(second - first) / lengths[0])
        sites = {site: now[f"{site}.output"].astype(float) for site in principal_sites(now)}
        for site in sites if before else ():
            spread = before[site].std((0, 1)) + 1e-12
            means.append((np.abs(sites[site].mean((0, 1)) - before[site].mean((0, 1))) / spread).mean())
            deviations.append(np.abs(np.log((sites[site].std((0, 1)) + 1e-12) / spread)).mean())
        before = sites
    if not means:
        return {}
    return {"drift_mean": float(np.mean(means)), "drift_deviation": float(np.mean(deviations)),
            "gradient_cosine": float(np.mean(cosines)), "gradient_change": float(np.mean(changes))}


def profile(lab, folder, run):
    """Milliseconds of an update by operation (--profile), and their logarithms."""
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        times = json.load(file).get("profile")
    if not times:
        return {}
    total = sum(value for name, value in times.items() if name != "all")
    parts = {"norm": times["norm"], "attention": times["attention"],
             "linear": sum(value for name, value in times.items() if name.startswith("linear"))}
    return {"milliseconds": total, "norm_share": parts["norm"] / total,
            **{f"{name}_ms": value for name, value in parts.items()},
            **{f"log2_{name}": float(np.log2(value)) for name, value in parts.items() if value > 0}}


INSTRUMENTS = {instrument.__name__: instrument for instrument in (
    dependence, pad_change, rereading, outlier, ranges, noise, kept, shards, drift, profile)}
