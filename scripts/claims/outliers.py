"""Outliers of activations, what rounding costs, and what noise of several strengths costs: instruments of E24 and E10.

They are not in instruments.py, since a checksum of that file is kept with each of its measurements.
"""
import contextlib
import os

import numpy as np
from scipy import stats

from claims.instruments import CHUNK, all_weights, batch_text
from pytorch import model_file

BITS = (8, 4)
STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2)  # fractions of the characters that are replaced
FIRST_QUERY = 8  # from here on the first token's share is measured: earlier queries have few keys


# ---- outliers ------------------------------------------------------------------------------------

def kurtosis(x):
    """The excess kurtosis of all values: 0 for normal ones."""
    return float(stats.kurtosis(x, axis=None))


def peak(x):
    """The largest absolute value over the root mean square."""
    return float(np.abs(x).max() / np.sqrt((x ** 2).mean()))


def first_share(weights):
    """The mean weight of the first token, weights: (B,NH,T,T), and that over what equal weights give it."""
    rows = weights[:, :, FIRST_QUERY:, 0]
    equal = 1 / np.arange(FIRST_QUERY + 1, weights.shape[-1] + 1)
    return float(rows.mean()), float((rows / equal).mean())


def outliers(lab, folder, run):
    """Means over sub-layers: the excess kurtosis and the largest value over the root mean square, of the residual stream
    behind each of them; over layers: the first token's share of attention, and that over an equal share."""
    arrays = lab.dump(folder, batch_text(lab, run, CHUNK), f"--batch-size={CHUNK}")
    streams = [array.astype(float) for name, array in sorted(arrays.items())
               if name.startswith("stream.") and name != "stream.0"]
    shares = [first_share(weights) for weights, _, _ in all_weights(arrays, run)]
    return {"stream_kurtosis": float(np.mean([kurtosis(x) for x in streams])),
            "stream_peak": float(np.mean([peak(x) for x in streams])),
            "first_share": float(np.mean([one for one, _ in shares])),
            "first_share_ratio": float(np.mean([ratio for _, ratio in shares]))}


# ---- rounding ------------------------------------------------------------------------------------

def rounded(x, bits):
    """An array, rounded to 2^bits - 1 equal steps between minus and plus its largest absolute value."""
    levels = 2 ** (bits - 1) - 1
    step = np.abs(x).max() / levels
    return (np.round(x / step) * step).astype(x.dtype) if step > 0 else x


def loss_of(lab, model):
    """The loss on the whole validation split."""
    return float(lab.evaluate(model).split()[1])


@contextlib.contextmanager
def rounded_file(lab, folder, bits):
    """The path of the model's file with all matrices rounded."""
    path = os.path.join(lab.folder, f"rounded-{bits}-{os.getpid()}-{os.path.basename(folder)}.safetensors")
    _, texts, arrays = model_file.read(folder)
    try:
        model_file.write(path, {name: text for name, text in texts.items() if name not in ("header_crc32", "data_crc32")},
                         {name: rounded(np.array(array), bits) if np.ndim(array) == 2 else np.array(array)
                          for name, array in arrays.items()})
        yield path
    finally:
        if os.path.exists(path):
            os.remove(path)


def rounding(lab, folder, run):
    """By how much the loss grows when weight matrices are rounded in the file, and when the inputs of linear layers are
    rounded (normlab.py), to 8 and to 4 bits."""
    try:
        import torch
        import normlab
    except ImportError:
        raise RuntimeError("rounding of activations needs PyTorch (scripts/deps.sh torch)") from None
    plain, found = loss_of(lab, folder), {}
    for bits in BITS:
        with rounded_file(lab, folder, bits) as path:
            found[f"weights_{bits}_cost"] = loss_of(lab, path) - plain
    arrays = lab.dump(folder, batch_text(lab, run, 4 * CHUNK), f"--batch-size={4 * CHUNK}")
    ids, targets = (torch.tensor(arrays[name].astype(np.int64)) for name in ("ids", "targets"))
    model = normlab.load(folder)

    def loss():
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten()))
    exact = loss()
    for bits in BITS:
        with normlab.rounded_inputs(model, bits):
            found[f"activations_{bits}_cost"] = loss() - exact
    return found


# ---- noise ---------------------------------------------------------------------------------------

def noise_sweep(lab, folder, run):
    """How much the loss at clean targets grows when this fraction of the characters read is replaced: the same places and
    characters for all models, and more of them where the noise is stronger."""
    text = batch_text(lab, run, 4 * CHUNK)
    generator, symbols = np.random.default_rng(8), sorted(set(lab.text(run.corpus)))
    draws, other = generator.random(len(text)), generator.integers(len(symbols), size=len(text))

    def loss(strength):
        noisy = "".join(symbols[one] if draw < strength else symbol for symbol, draw, one in zip(text, draws, other))
        dump = lab.dump(folder, noisy, f"--batch-size={4 * CHUNK}")
        logits = dump["logits"].astype(float)
        logits -= logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, targets, -1)[..., 0]
        return float((np.log(np.exp(logits).sum(-1)) - chosen).mean())
    targets = lab.dump(folder, text, f"--batch-size={4 * CHUNK}")["targets"][..., None]
    clean = loss(0)
    return {f"noise_cost_{100 * strength:g}": loss(strength) - clean for strength in STRENGTHS}


OUTLIERS = {instrument.__name__: instrument for instrument in (outliers, rounding, noise_sweep)}
