"""Text and attention of models, for scripts/page.py: rows of samples.txt, sample.txt, text by
./train --generate, and attention weights from ./train --evaluate --dump."""
import os
import subprocess
import tempfile

import numpy as np

from pytorch import model_file
from common.runs import RunError, read_text

ROWS = 12     # of samples.txt
TEXT = 600    # characters of a sample
WAIT = 120    # seconds for ./train
MODELS = ("model.safetensors", "best.safetensors", "checkpoint.safetensors")


def unescaped(text):
    """The text of a row of samples.txt, with line breaks as signs."""
    signs = {"\\n": "⏎", "\\t": "⇥", "\\\\": "\\"}
    out, at = [], 0
    while at < len(text):
        pair = text[at:at + 2]
        out.append(signs.get(pair, text[at]))
        at += 2 if pair in signs else 1
    return "".join(out)


def lines_of(run):
    """[(step, text)] of samples.txt: at most ROWS, from the first to the last."""
    text = read_text(os.path.join(run.folder, "samples.txt")) or ""
    rows = [line.split("\t", 1) for line in text[:text.rfind("\n") + 1].splitlines()[1:]]
    rows = [(int(row[0]), unescaped(row[1])) for row in rows if len(row) == 2 and row[0].isdigit()]
    if len(rows) <= ROWS:
        return rows
    return [rows[round(i * (len(rows) - 1) / (ROWS - 1))] for i in range(ROWS)]


def model_of(run):
    """The file of the run's model, or None."""
    paths = (os.path.join(run.folder, name) for name in MODELS)
    return next((path for path in paths if os.path.isfile(path)), None)


def train(*words):
    program = os.environ.get("TRAIN") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "train")
    try:
        ended = subprocess.run([program, *words], capture_output=True, timeout=WAIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{program}: {error}")
    if ended.returncode:
        raise RunError(ended.stderr.decode(errors="replace").strip().removeprefix("train: "))
    return ended.stdout.decode(errors="replace")


def sample_of(run):
    """The text that the run wrote at its end, or that its model writes now."""
    text = read_text(os.path.join(run.folder, "sample.txt"))
    if text is None and model_of(run) and not lines_of(run):
        text = train(f"--generate={model_of(run)}", "--quiet")
    return (text or "")[:TEXT]


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def weights_of(qkv, heads, groups, softcap):
    """Attention weights (heads, T, T) of qkv (T, E): q, k and v as attention reads them, with `groups` keys."""
    T = len(qkv)
    size = qkv.shape[1] // (heads + 2 * groups)
    queries = qkv[:, :heads * size].reshape(T, heads, size).transpose(1, 0, 2)
    keys = qkv[:, heads * size:(heads + groups) * size].reshape(T, groups, size).transpose(1, 0, 2)
    scores = queries @ np.repeat(keys, heads // groups, axis=0).transpose(0, 2, 1) / size ** 0.5
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    return softmax(np.where(np.tri(T, dtype=bool), scores, -np.inf))


def attention_of(run, prompt):
    """What the run's model attends to in the prompt: weights (layers, heads, T, T) and the T letters."""
    path = model_of(run)
    if not path:
        raise RunError(f"{run.folder}: no model yet, so no attention of --prompt")
    with tempfile.TemporaryDirectory() as folder:
        text, dump = os.path.join(folder, "prompt.txt"), os.path.join(folder, "dump.safetensors")
        with open(text, "w", encoding="utf-8") as file:
            file.write(prompt + prompt[-1])  # the last letter is a target only
        train(f"--evaluate={path}", text, "--batch-size=1", f"--dump={dump}", "--quiet")
        _, arrays = model_file.read_plain(dump)
    T = int(arrays["valid"][0].sum())
    heads = run.options["n-head"]
    layers = [weights_of(arrays[f"transformer.h.{layer}.attn.qkv"][0, :T].astype(float), heads,
                         run.options.get("n-kv-head", heads), run.options.get("attn-softcap", 0))
              for layer in range(run.options["n-layer"])]
    return np.array(layers), list(prompt[:T])
