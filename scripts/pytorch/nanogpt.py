"""A model's weights under nanoGPT's names, in nanoGPT's own GPT class; its loss of a text there. And
readers of nanoGPT's ckpt.pt and meta.pkl, without PyTorch and without running what is in them.

Both are pickles, and a pickle can run code. The readers here make tensors, lists, texts and numbers,
and refuse a pickle that asks for more.
"""
import collections
import contextlib
import importlib.machinery
import importlib.util
import io
import pickle
import sys
import zipfile

import numpy

from pytorch.model_file import USAGE, ModelError, number_of, numbers_of, symbols_of

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


def plain_names(arrays):
    """The arrays under nanoGPT's names: without torch.compile's prefix and without Adam's moments.
    A head of one name gets both."""
    names = {name[len("_orig_mod."):] if name.startswith("_orig_mod.") else name: array
             for name, array in arrays.items() if not name.startswith("optimizer.")}
    for one, other in ((WTE, HEAD), (HEAD, WTE)):
        if one in names:
            names.setdefault(other, names[one])
    return names


def is_mask(name, array):
    """Whether this is a causal mask, which nanoGPT keeps among the weights if PyTorch has no
    attention function of its own."""
    return name.endswith(".attn.bias") and array.ndim == 4


def sizes_of(path, arrays, texts, n_head):
    """The arguments of nanoGPT's GPTConfig, from the shapes of the arrays and the texts. `n_head` is used if the texts
    do not say it; 0: unknown."""
    learned = texts.get("position", "learned") == "learned"
    if WTE not in arrays or arrays[WTE].ndim != 2 or (
            learned and (WPE not in arrays or arrays[WPE].ndim != 2)):
        raise ModelError(f"{path}: holds no model with nanoGPT's names ({WTE} and so on)")
    n_layer = 0
    while f"transformer.h.{n_layer}.attn.c_attn.weight" in arrays:
        n_layer += 1
    stored = number_of(texts, "n-head", 0)
    if stored and n_head and n_head != stored:
        raise ModelError(f"--n-head={n_head}: contradicts n-head = {stored} of {path}", USAGE)
    n_head = stored or n_head
    (V, C), T = arrays[WTE].shape, arrays[WPE].shape[0] if learned else number_of(texts, "block-size", 0)
    return {"n_layer": n_layer, "n_head": n_head, "n_embd": int(C), "block_size": int(T),
            "vocab_size": int(V), "bias": "transformer.h.0.attn.c_attn.bias" in arrays}


def check_recipe(path, texts, nanogpt):
    """Refuses a model that is not nanoGPT's. Other models can have the same names and shapes, so the
    texts decide."""
    gelu = "gelu-tanh" if hasattr(nanogpt, "new_gelu") else "gelu"  # tanh until May 2023
    wanted = {"norm": ("ln",), "placement": ("pre",), "placement-attn": ("auto", "pre"),
              "placement-ffn": ("auto", "pre"), "final-norm": ("auto", "on"),
              "affine": ("on",), "act": (gelu,), "qk-scale": ("fixed",), "embd-scale": ("none",),
              "attn-gate": ("none",), "position": ("learned",), "head": ("tied",), "attn-softcap": ("0",), "logit-softcap": ("0",),
              "norm-attn": ("auto", "ln"), "norm-ffn": ("auto", "ln"), "norm-final": ("auto", "ln"),
              **{inner: ("off", "none") for inner in ("qk-norm", "v-norm", "ffn-norm")}}
    for name, values in wanted.items():
        if texts.get(name, values[0]) not in values:
            raise ModelError(f"{path}: is a model of {name}={texts[name]}; nanoGPT's are of "
                             f"{name}={values[0]}", USAGE)
    if number_of(texts, "norm-eps", 1e-5) != 1e-5:
        raise ModelError(f"{path}: is a model of norm-eps={texts['norm-eps']}; nanoGPT's are of 1e-5",
                         USAGE)


def import_file(path):
    """nanoGPT's model.py as a module."""
    sys.dont_write_bytecode = True  # no __pycache__ beside it
    try:
        loader = importlib.machinery.SourceFileLoader("nanogpt_model", path)
        spec = importlib.util.spec_from_loader(loader.name, loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # its dataclass looks itself up there
        spec.loader.exec_module(module)
        module.GPT, module.GPTConfig
    except Exception as error:  # another program's code can raise any
        raise ModelError(f"{path}: not nanoGPT's model.py: {type(error).__name__}: {error}") from None
    return module


def load(path, texts, arrays, model_py, n_head):
    """(GPT, sizes): nanoGPT's model with the file's weights, every name as that class expects it."""
    import torch
    arrays = plain_names(arrays)
    sizes = sizes_of(path, arrays, texts, n_head)
    if not sizes["n_head"]:
        raise ModelError(f"{path}: does not say how many heads it has (give --n-head=N)", USAGE)
    state = {name: torch.as_tensor(array) for name, array in arrays.items()}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its size
        nanogpt = import_file(model_py)
        check_recipe(path, texts, nanogpt)
        try:
            model = nanogpt.GPT(nanogpt.GPTConfig(dropout=0.0, **sizes))
        except Exception as error:  # sizes that it cannot have
            raise ModelError(f"{model_py}: makes no model of {sizes}: "
                             f"{type(error).__name__} {error}") from None
    masks = {name: mask for name, mask in model.named_buffers() if name.endswith(".attn.bias")}
    wanted = model.state_dict().keys() | masks
    state = {name: array for name, array in state.items()
             if name in wanted or not is_mask(name, array)}
    try:
        model.load_state_dict({**masks, **state}, strict=True)
    except RuntimeError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None
    return model.eval(), sizes


def ids_of(model, texts, data, status, what):
    """The ids of UTF-8 data. ModelError with `status` if it is not UTF-8 or has a character that the
    model does not know; `what` names the data."""
    ids = {symbol: i for i, symbol in enumerate(symbols_of(texts))}
    if len(ids) != model.config.vocab_size:
        raise ModelError(f"the model embeds {model.config.vocab_size} characters, but its vocabulary "
                         f"has {len(ids)}")
    if texts.get("level", "char") == "char":
        data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            data = [ord(character) for character in data.decode("utf-8")]
        except UnicodeDecodeError as error:
            raise ModelError(f"{what}: not UTF-8 at byte {error.start}", status) from None
    unknown = next((symbol for symbol in data if symbol not in ids), None)
    if unknown is not None:
        raise ModelError(f"{what}: has U+{unknown:04X}, which the model's vocabulary lacks", status)
    return [ids[symbol] for symbol in data]


def loss_of(model, ids):
    """The mean loss of all characters except the first, by blocks that do not overlap, as ./train
    computes it (None for a single character); and the logits of the next character."""
    import torch
    T, total, ids = model.config.block_size, 0.0, torch.tensor(ids)
    with torch.no_grad():
        for at in range(0, len(ids) - 1, T):
            inputs, targets = ids[at:at + T][:len(ids) - 1 - at], ids[at + 1:at + 1 + T]
            logits, _ = model(inputs[None], targets[None])
            total += torch.nn.functional.cross_entropy(logits[0].double(), targets,
                                                       reduction="sum").item()
        return total / (len(ids) - 1) if len(ids) > 1 else None, model(ids[None, -T:])[0][0, -1]


class Pickle(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers."""
    known = {}

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
    known = {("torch", name): dtype for name, dtype in dtypes.items()}
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
    with reading(f"{path}: no checkpoint that torch.save() wrote"), zipfile.ZipFile(path) as archive:
        stored = Checkpoint(archive).load()
    state = stored.get("model", stored) if isinstance(stored, dict) else None
    if not isinstance(state, dict) or not all(isinstance(array, numpy.ndarray)
                                              for array in state.values()):
        raise ModelError(f"{path}: no checkpoint of nanoGPT's (a dict with 'model' and 'model_args')")
    arrays = {name: array for name, array in plain_names(state).items()
              if not is_mask(name, array)}
    if WTE in arrays and not numpy.array_equal(arrays[WTE], arrays[HEAD]):
        raise ModelError(f"{path}: {HEAD} is not {WTE}, as in nanoGPT")
    args = stored.get("model_args", {}) if state is not stored else {}
    step = stored.get("iter_num") if state is not stored else None
    return args, step, arrays
