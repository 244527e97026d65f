"""A model of ./train in nanoGPT's own GPT class, and its loss of a text there. Needs PyTorch."""
import contextlib
import io
import runpy

import torch

from pytorch.hf_classes import ANY, misfits, needs
from pytorch.model_file import USAGE, ModelError, symbols_of
from pytorch.nanogpt import config_of
from pytorch.texts import encode, evaluate


def import_file(path):
    """GPT, GPTConfig and the name of the activation of nanoGPT's model.py."""
    try:
        names = runpy.run_path(path, run_name="nanogpt_model")
        return names["GPT"], names["GPTConfig"], "gelu-tanh" if "new_gelu" in names else "gelu"  # tanh until May 2023
    except Exception as error:  # another program's code can raise any
        raise ModelError(f"{path}: not nanoGPT's model.py: {type(error).__name__}: {error}") from None


class Model:
    """nanoGPT's model as texts.py calls it."""

    def __init__(self, gpt, config, vocabulary):
        self.gpt, self.config, self.vocabulary = gpt.eval(), config, vocabulary

    def __call__(self, ids, valid=None):
        return self.gpt(ids, ids)[0]  # with targets, it returns the logits of all positions


def load(path, texts, arrays, model_py, n_head):
    """(model, sizes): nanoGPT's model with the file's weights, every name as that class expects it."""
    config, arrays = config_of(path, arrays, texts, n_head)
    sizes = {name: getattr(config, name) for name in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias")}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its size
        GPT, GPTConfig, act = import_file(model_py)
        # other models can have the same names and shapes, so the texts decide
        wrong = misfits(needs("ln", "pre", act=[act], rope_theta=ANY, **dict.fromkeys(sizes, ANY)), texts, config)
        if wrong:
            raise ModelError(f"{path}: nanoGPT's GPT needs {', '.join(wrong)}", USAGE)
        try:
            gpt = GPT(GPTConfig(dropout=0.0, **sizes))
        except Exception as error:  # sizes that it cannot have
            raise ModelError(f"{model_py}: makes no model of {sizes}: "
                             f"{type(error).__name__} {error}") from None
    state = {name: mask for name, mask in gpt.named_buffers() if name.endswith(".attn.bias")}
    state |= {name: torch.as_tensor(array) for name, array in arrays.items()}
    try:
        gpt.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None
    return Model(gpt, config, symbols_of({"vocabulary": "", **texts})), sizes


def known_text(model, data, path):
    """The text of a file's data, as str or bytes. ModelError if it has what the model does not know."""
    if len(model.vocabulary) != model.config.vocab_size:
        raise ModelError(f"the model embeds {model.config.vocab_size} characters, but its vocabulary has "
                         f"{len(model.vocabulary)}")
    try:
        text = data if model.config.level == "byte" else data.decode("utf-8-sig")
        encode(model, text)
        return text
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from None


def measure_corpus(model, path):
    """Prints the loss of a file, as ./train --evaluate=RUN FILE does."""
    if model.config.items:
        raise ModelError("--corpus: measures running text, and this is a model of items "
                         "(./train --evaluate=RUN measures those)", USAGE)
    with open(path, "rb") as file:
        data = file.read()
    text = known_text(model, data, path)
    if len(text) < 2:
        raise ModelError(f"{path}: has fewer than two characters to measure", USAGE)
    print(f"loss: {evaluate(model, text, 1):.9g} nats per character\ntext: {path}, {len(text) - 1} characters")
