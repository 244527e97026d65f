#!/usr/bin/env python3
"""Loads a run's model into PyTorch, and nanoGPT's models into ./train:

  scripts/load_pytorch.py RUN                          print what model.safetensors holds
  scripts/load_pytorch.py RUN --nanogpt=model.py       load its weights into nanoGPT's own GPT class
  scripts/load_pytorch.py RUN --nanogpt=model.py --text="To be"      loss, and the next character
  scripts/load_pytorch.py RUN --nanogpt=model.py --corpus=FILE       as ./train --evaluate=RUN FILE
  scripts/load_pytorch.py --from-nanogpt=ckpt.pt --meta=meta.pkl -o FILE
                                                       for ./train --generate=FILE, --evaluate=FILE

RUN is a run's folder or any safetensors file. model_file.py has two ways to read one, to copy into
programs of your own; the first needs numpy only.

--nanogpt runs the Python file that it names, and needs PyTorch. Nothing else here does. ckpt.pt and
meta.pkl are pickles, and a pickle can run code. They are read by a reader of our own that makes
tensors, lists, texts and numbers, and refuses a pickle that asks for more.
"""
import argparse
import importlib
import math
import os
import sys
import zlib

import model_file
import nanogpt_weights
import system_python
from model_file import FAILED, USAGE, ModelError, number_of, symbols_of
from nanogpt_checkpoint import read_checkpoint, read_vocabulary

INSTALL = {"numpy": "scripts/deps.sh plot installs it",
           "torch": "scripts/deps.sh golden installs it",
           "safetensors": "pip install safetensors; --reader=plain needs none"}


def need(name):
    """Checks that the module is there, if need be under the system's Python."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        system_python.run_again()
        raise ModelError(f"{sys.executable}: {error} ({INSTALL[name]})") from None


# ---- a model of ./train -------------------------------------------------------------------------

def show(texts, arrays):
    for name, text in texts.items():
        print(f"{name} = {text}")
    width = max(map(len, arrays), default=0)
    print(f"\n{'array':{width}}  {'type':8}  {'shape':14}  {'mean':>10}  {'deviation':>10}")
    for name, array in arrays.items():
        if hasattr(array, "numpy"):  # numpy has no bfloat16
            kind = str(array.dtype).replace("torch.", "")
            array = array.double().numpy()
        else:
            kind = str(array.dtype)
        values = array.astype("f8")
        mean, deviation = (values.mean(), values.std()) if values.size else (math.nan, math.nan)
        print(f"{name:{width}}  {kind:8}  {str(array.shape):14}  {mean:10.6f}  {deviation:10.6f}")


def measure_text(model, texts, text):
    """Prints the loss of the text and the five most probable next characters."""
    data = text.encode("utf-8", "surrogateescape")
    ids = nanogpt_weights.ids_of(model, texts, data, USAGE, "--text")
    if not ids:
        raise ModelError("--text: is empty", USAGE)
    loss, logits = nanogpt_weights.loss_of(model, ids)
    if loss is not None:
        print(f"loss {loss:.9g} nats per character, {len(ids) - 1} characters")
    symbols = symbols_of(texts)
    probabilities = logits.double().softmax(0)
    for i in logits.argsort(descending=True)[:5].tolist():
        shown = chr(symbols[i]) if texts.get("level", "char") == "char" else bytes([symbols[i]])
        print(f"next {shown!r:8} logit {logits[i].item():11.6f}  probability {probabilities[i]:.6f}")


def measure_corpus(model, texts, path):
    """Prints the loss of the validation part of the corpus that the model was trained on, of the
    whole of any other file."""
    if texts.get("items") == "on":
        raise ModelError("--corpus: measures running text, and this is a model of items "
                         "(./train --evaluate=RUN measures those)", USAGE)
    with open(path, "rb") as file:
        data = file.read()
    ids = nanogpt_weights.ids_of(model, texts, data, FAILED, path)
    trained_on = texts.get("corpus_crc32") == f"{zlib.crc32(data):08x}"
    if trained_on:
        ids = ids[int(len(ids) * (1 - number_of(texts, "val-fraction", 0.1))):]
    if len(ids) < 2:
        raise ModelError(f"{path}: has fewer than two characters to measure", USAGE)
    print(f"loss {nanogpt_weights.loss_of(model, ids)[0]:.9g} nats per character: "
          f"{'the validation part of ' if trained_on else ''}{path}, {len(ids) - 1} characters")


def load(options):
    """RUN: prints what it holds, or loads it into nanoGPT's class and measures it there."""
    for module in ("numpy",) if options.reader == "plain" else ("torch", "safetensors"):
        need(module)
    path, texts, arrays = model_file.read(options.run, options.reader)
    if not options.nanogpt:
        return show(texts, arrays)
    need("torch")
    model, sizes = nanogpt_weights.load(path, texts, arrays, options.nanogpt, options.n_head)
    print(f"{path}: loads into {options.nanogpt}, strict: "
          + ", ".join(f"{name} {value}" for name, value in sizes.items()))
    if options.text is not None:
        measure_text(model, texts, options.text)
    if options.corpus:
        measure_corpus(model, texts, options.corpus)


# ---- a model of nanoGPT -------------------------------------------------------------------------

def convert(options):
    """--from-nanogpt: writes nanoGPT's checkpoint as a file that ./train reads."""
    need("numpy")
    args, step, arrays = read_checkpoint(options.from_nanogpt)
    n_head = args.get("n_head", options.n_head)
    sizes = nanogpt_weights.sizes_of(options.from_nanogpt, arrays, {}, n_head)
    texts = {"format": "pt", "level": "char", "norm": "ln", "placement": "pre", "norm-eps": "1e-05",
             "act": options.act, "bias": "on" if sizes["bias"] else "off"}
    for name in ("n_layer", "n_head", "n_embd", "block_size"):
        if sizes[name]:
            texts[name.replace("_", "-")] = str(sizes[name])
    if step is not None:
        texts["step"] = str(step)
    if options.meta:
        texts["vocabulary"] = read_vocabulary(options.meta, sizes["vocab_size"])
    model_file.write(options.output, texts, arrays)
    lacking = [option for option in ("n-head", "vocabulary") if option not in texts]
    print(f"{options.output}: {len(arrays)} arrays"
          + (f"; ./train will need --{' and --'.join(lacking)}" if lacking else ""))


# ---- the command --------------------------------------------------------------------------------

class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ModelError(f"{message} (--help says more)", USAGE)


def read_command():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                    allow_abbrev=False)
    parser.add_argument("run", nargs="?", metavar="RUN",
                        help="a run's folder or a safetensors file")
    parser.add_argument("--reader", choices=("plain", "safetensors"), default="plain",
                        help="read with numpy only, or with the safetensors package")
    parser.add_argument("--nanogpt", metavar="FILE", help="nanoGPT's model.py")
    parser.add_argument("--n-head", type=int, metavar="N",
                        help="the number of heads, if the file does not say it")
    parser.add_argument("--text", help="measure this text, and print the most probable next "
                        "characters")
    parser.add_argument("--corpus", metavar="FILE", help="measure this file")
    parser.add_argument("--from-nanogpt", metavar="FILE", help="nanoGPT's ckpt.pt")
    parser.add_argument("--meta", metavar="FILE", help="the meta.pkl of its data set")
    parser.add_argument("--act", choices=("gelu", "gelu-tanh", "relu"), default="gelu",
                        help="its activation function: gelu-tanh for a nanoGPT from before May 2023")
    parser.add_argument("-o", "--output", metavar="FILE", help="the safetensors file to write")
    options = parser.parse_args()
    if options.from_nanogpt:
        if options.run or options.nanogpt or not options.output:
            parser.error("--from-nanogpt=FILE: needs -o FILE, and takes no RUN and no --nanogpt")
        return options
    if not options.run:
        parser.error("RUN or --from-nanogpt=FILE is missing")
    if options.output or options.meta:
        parser.error("-o, --meta: only with --from-nanogpt=FILE")
    if not options.nanogpt and (options.text is not None or options.corpus):
        parser.error("--text, --corpus: need nanoGPT's model.py (--nanogpt=FILE)")
    return options


def main():
    """The exit status."""
    try:
        options = read_command()
        (convert if options.from_nanogpt else load)(options)
        sys.stdout.flush()
        return 0
    except ModelError as error:
        message, status = str(error), error.status
    except BrokenPipeError:  # a reader such as head has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if not error.filename:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        message, status = f"{error.filename or 'standard output'}: {error.strerror or error}", FAILED
    print(f"load_pytorch: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
