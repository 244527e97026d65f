"""A model's weights under nanoGPT's names, and its options. And readers of nanoGPT's ckpt.pt and meta.pkl, without
PyTorch and without running what is in them.

Both are pickles, and a pickle can run code. The readers here make tensors, lists, texts and numbers,
and refuse a pickle that asks for more.
"""
import collections
import contextlib
import pickle
import re
import zipfile

import numpy

from pytorch.model_file import USAGE, ModelError, number_of, numbers_of, refuse_others
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


class Beside:
    """A numpy array beside the weights, which nobody needs: it takes what is to be in it, and keeps nothing."""

    def __init__(self, *_):
        pass

    def __setstate__(self, state):
        pass


class Dtype:
    """A numpy dtype. numpy's own would also take objects, and so bytes that are pointers."""

    def __init__(self, code, *_):
        self.code = code

    def __setstate__(self, state):
        self.code = state[1].replace("|", "") + self.code


def scalar(dtype, data):
    """A number of numpy's as Python's."""
    if not re.fullmatch("[<>=]?[fiub][0-9]+", dtype.code):
        raise pickle.UnpicklingError(f"holds a scalar of type {dtype.code}")
    return numpy.frombuffer(data, dtype.code)[0].item()


def encode(text, encoding):
    """The bytes that a pickle of an old protocol holds as a text."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"asks for the encoding {encoding}")
    return text.encode(encoding)


class Pickle(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers, also those of numpy."""
    known = {("numpy", "dtype"): Dtype, ("numpy", "ndarray"): Beside, ("_codecs", "encode"): encode}
    for package in ("numpy.core", "numpy._core"):
        known |= {(f"{package}.multiarray", "scalar"): scalar, (f"{package}.multiarray", "_reconstruct"): Beside}

    def find_class(self, module, name):
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"asks for {module}.{name}")
        return self.known[module, name]


class Checkpoint(Pickle):
    """Reads tensors too, as numpy arrays. torch.save() writes a zip file: the pickle, and beside it
    the storages of numbers that tensors are views of."""
    dtypes = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2",
              "BFloat16Storage": "bf2", "LongStorage": "<i8", "IntStorage": "<i4",
              "BoolStorage": "?"}
    known = Pickle.known | {("torch", name): dtype for name, dtype in dtypes.items()}
    known["collections", "OrderedDict"] = collections.OrderedDict
    known["torch._utils", "_rebuild_parameter"] = lambda array, *_: array

    def __init__(self, archive):
        self.archive = archive
        path = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        self.folder = path[:-len("data.pkl")]
        super().__init__(archive.open(path))

    def persistent_load(self, pid):
        _, dtype, key, *_ = pid
        numbers = self.archive.read(f"{self.folder}data/{key}")
        return numbers_of(numbers, dtype)

    @staticmethod
    def rebuild(numbers, offset, shape, strides, *_):
        size = numbers.itemsize  # numpy checks that the view stays inside
        return numpy.ndarray(shape, numbers.dtype, numbers, offset * size,
                             [stride * size for stride in strides]).copy()

    known["torch._utils", "_rebuild_tensor_v2"] = rebuild


def read_vocabulary(path, V):
    """The vocabulary in nanoGPT's meta.pkl, as ./train writes it into a model's file."""
    with reading(f"{path}: not the meta.pkl of a character-level data set"), open(path, "rb") as file:
        itos = Pickle(file).load()["itos"]
        codes = [ord(itos[i]) for i in range(len(itos))]
    if codes != sorted(set(codes)):
        raise ModelError(f"{path}: its characters are not in ascending order")
    if len(codes) != V:
        raise ModelError(f"{path}: has {len(codes)} characters, but the model embeds {V}")
    return " ".join(map(str, codes))


def read_checkpoint(path):
    """(model_args, step, arrays) of nanoGPT's ckpt.pt. A bare state dict has no arguments ({}) and
    no step (None)."""
    refuse_others(path, b"PK\3\4")
    with reading(f"{path}: no checkpoint that torch.save() wrote"), zipfile.ZipFile(path) as archive:
        stored = Checkpoint(archive).load()
    stored = stored if isinstance(stored, dict) and "model" in stored else {"model": stored}
    state = stored["model"]
    if not isinstance(state, dict) or not all(isinstance(array, numpy.ndarray)
                                              for array in state.values()):
        raise ModelError(f"{path}: no checkpoint of nanoGPT's (a dict with 'model' and 'model_args')")
    arrays = plain_names(state)
    if WTE in arrays and not numpy.array_equal(arrays[WTE], arrays[HEAD]):
        raise ModelError(f"{path}: {HEAD} is not {WTE}, as in nanoGPT")
    return stored.get("model_args", {}), stored.get("iter_num"), arrays
