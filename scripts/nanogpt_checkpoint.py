"""Reads nanoGPT's ckpt.pt and meta.pkl without PyTorch and without running what is in them.

Both are pickles, and a pickle can run code. The readers here make tensors, lists, texts and numbers,
and refuse a pickle that asks for more.
"""
import collections
import pickle
import zipfile

from model_file import ModelError, numbers_of
from nanogpt_weights import HEAD, WTE, is_mask, plain_names


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
        import numpy  # its constructor checks that the view stays inside
        size = numbers.itemsize
        return numpy.ndarray(shape, numbers.dtype, numbers, offset * size,
                             [stride * size for stride in strides]).copy()

    known["torch._utils", "_rebuild_tensor_v2"] = rebuild


def read_vocabulary(path, V):
    """The vocabulary in nanoGPT's meta.pkl, as ./train writes it into a model's file."""
    try:
        with open(path, "rb") as file:
            itos = Pickle(file).load()["itos"]
        characters = [itos[i] for i in range(len(itos))]
        codes = [ord(character) for character in characters]
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise any
        raise ModelError(f"{path}: not the meta.pkl of a character-level data set: "
                         f"{type(error).__name__}: {error}") from None
    if codes != sorted(set(codes)):
        raise ModelError(f"{path}: its characters are not in ascending order")
    if len(codes) != V:
        raise ModelError(f"{path}: has {len(codes)} characters, but the model embeds {V}")
    return " ".join(map(str, codes))


def read_checkpoint(path):
    """(model_args, step, arrays) of nanoGPT's ckpt.pt. A bare state dict has no arguments ({}) and
    no step (None)."""
    import numpy
    try:
        with zipfile.ZipFile(path) as archive:
            stored = Checkpoint(archive).load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise any
        raise ModelError(f"{path}: no checkpoint that torch.save() wrote: "
                         f"{type(error).__name__}: {error}") from None
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
