"""A model's weights under nanoGPT's names, and its options. And readers of nanoGPT's ckpt.pt, by PyTorch, and meta.pkl.

Both are pickles, and a pickle can run code. The readers here make tensors, lists, texts and numbers,
and refuse a pickle that asks for more.
"""
import contextlib
import pickle

import numpy

from pytorch.model_file import USAGE, ModelError, number_of
from pytorch.options import Config, parse

WTE, WPE, HEAD = "transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"


@contextlib.contextmanager
def reading(what):
    """Whatever a damaged file raises is a ModelError; what: the file, and what it is not."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise ModelError(f"{what}: {type(error).__name__}: {error}") from None


BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")  # causal masks and the like, in old files


def plain_names(arrays):
    """The weights and running statistics under nanoGPT's names: without torch.compile's prefix. A head of one name gets
    both."""
    names = {name.removeprefix("_orig_mod."): array for name, array in arrays.items()
             if not name.startswith(("optimizer.", "probe.")) and not name.endswith(BUFFERS)}
    for one, other in ((WTE, HEAD), (HEAD, WTE)):
        if one in names:
            names.setdefault(other, names[one])
    return names


def sizes_of(path, arrays, texts, n_head):
    """The arguments of nanoGPT's GPTConfig, from the shapes of the arrays and the texts. `n_head` is used if the texts
    do not say it; 0: unknown."""
    learned = texts.get("position", "learned") == "learned"
    if WTE not in arrays or arrays[WTE].ndim != 2 or (
            learned and (WPE not in arrays or arrays[WPE].ndim != 2)):
        raise ModelError(f"{path}: holds no model with nanoGPT's names ({WTE} and so on; for Hugging Face transformers "
                         "there is --from-hf=FOLDER)")
    n_layer = 0
    while f"transformer.h.{n_layer}.attn.c_attn.weight" in arrays:
        n_layer += 1
    stored = number_of(texts, "n-head", 0)
    if stored and n_head and n_head != stored:
        raise ModelError(f"{path}: has {stored} heads, not {n_head}", USAGE)
    n_head = stored or n_head
    (V, C), T = arrays[WTE].shape, arrays[WPE].shape[0] if learned else number_of(texts, "block-size", 0)
    return {"n_layer": n_layer, "n_head": n_head, "n_embd": int(C), "block_size": int(T),
            "vocab_size": int(V), "bias": "transformer.h.0.attn.c_attn.bias" in arrays}


def config_of(path, arrays, texts, n_head=0, **changes):
    """(Config, arrays under nanoGPT's names) of a file, from its texts and the shapes of its arrays; `changes` replace its
    options."""
    arrays = plain_names(arrays)
    sizes = sizes_of(path, arrays, texts, n_head)
    if not sizes["n_head"]:
        raise ModelError(f"{path}: does not say how many heads it has (give --n-head=N, in Python n_head=N)", USAGE)
    return Config(**{**parse(texts), **sizes, **changes}), arrays


class Plain(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers."""
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"asks for {module}.{name}")


def read_vocabulary(path, V):
    """The vocabulary in nanoGPT's meta.pkl, as ./train writes it into a model's file."""
    with reading(f"{path}: not the meta.pkl of a character-level data set"), open(path, "rb") as file:
        itos = Plain(file).load()["itos"]
        codes = [ord(itos[i]) for i in range(len(itos))]
    if codes != sorted(set(codes)):
        raise ModelError(f"{path}: its characters are not in ascending order")
    if len(codes) != V:
        raise ModelError(f"{path}: has {len(codes)} characters, but the model embeds {V}")
    return " ".join(map(str, codes))


def read_checkpoint(path):
    """(model_args, step, arrays) of nanoGPT's ckpt.pt. A bare state dict has no arguments ({}) and
    no step (None)."""
    import torch
    with reading(f"{path}: no checkpoint that torch.save() wrote"):
        stored = torch.load(path, map_location="cpu", weights_only=True)
    stored = stored if isinstance(stored, dict) and "model" in stored else {"model": stored}
    state = stored["model"]
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ModelError(f"{path}: no checkpoint of nanoGPT's (a dict with 'model' and 'model_args')")
    arrays = plain_names({name: tensor.float().numpy() for name, tensor in state.items()})
    if WTE in arrays and not numpy.array_equal(arrays[WTE], arrays[HEAD]):
        raise ModelError(f"{path}: {HEAD} is not {WTE}, as in nanoGPT")
    return stored.get("model_args", {}), stored.get("iter_num"), arrays
