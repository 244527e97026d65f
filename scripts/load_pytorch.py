#!/usr/bin/env python3
"""A run's model in PyTorch, and nanoGPT's models in ./train:

  scripts/load_pytorch.py RUN                          what model.safetensors holds
  scripts/load_pytorch.py RUN --nanogpt=model.py       its weights in nanoGPT's own GPT class
  scripts/load_pytorch.py RUN --nanogpt=model.py --text="To be"      loss, and what comes next
  scripts/load_pytorch.py RUN --nanogpt=model.py --corpus=FILE       as ./train --evaluate=RUN FILE
  scripts/load_pytorch.py --from-nanogpt=ckpt.pt --meta=meta.pkl -o FILE
                                                       for ./train --generate=FILE, --evaluate=FILE

RUN is a run's folder or any safetensors file. read_plain() and read_package() below are two ways to
load one, to copy into programs of your own; the first needs numpy alone.

--nanogpt runs the Python file that it names, and needs PyTorch; nothing else here does. ckpt.pt and
meta.pkl are pickles, and pickles can run code: they are read by a reader of our own that makes
tensors, lists, texts and numbers, and refuses a pickle that asks for more.
"""
import argparse
import collections
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import pickle
import sys
import zipfile
import zlib

MACHINE, USAGE = 1, 2  # exit status
INSTALL = {"numpy": "scripts/deps.sh plot installs it",
           "torch": "scripts/deps.sh golden installs it",
           "safetensors": "pip install safetensors; --reader=plain needs none"}
WTE, WPE, HEAD = "transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"


def die(status, message):
    print(f"load_pytorch: {message}", file=sys.stderr)
    sys.exit(status)


def need(name):
    """The module; the system's Python has what scripts/deps.sh installs, if this one has not."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        system = "/usr/bin/python3"
        if __name__ == "__main__" and sys.executable != system and os.access(system, os.X_OK):
            os.execv(system, [system, *sys.argv])
        die(MACHINE, f"{sys.executable}: {error} ({INSTALL[name.split('.')[0]]})")


# ---- loading ------------------------------------------------------------------------------------

SEAL = b'{"__metadata__":{"header_crc32":"'


def check_seals(path):
    """Raises ValueError if the file does not have the checksums that ./train wrote into it
    (data/files/safetensors.c); a file of another program has none."""
    with open(path, "rb") as file:
        data = file.read()
    first, at = 8 + int.from_bytes(data[:8], "little"), len(SEAL)
    header = data[8:first]
    if not header.startswith(SEAL):
        return
    if header[at:at + 8] != b"%08x" % zlib.crc32(header[:at] + b"0" * 8 + header[at + 8:]):
        raise ValueError("its header was changed")
    stored = json.loads(header)["__metadata__"].get("data_crc32")
    if stored not in (None, f"{zlib.crc32(data[first:]):08x}"):
        raise ValueError("its data was changed")


def read_plain(path):
    """The texts and the numpy arrays of a safetensors file, with nothing but numpy."""
    dtypes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf2", "I64": "<i8", "I32": "<i4",
              "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
    with open(path, "rb") as file:
        data = bytearray(file.read())
    first = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:first])
    texts = dict(header.pop("__metadata__", {}))
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        numbers = numbers_of(data[first + begin:first + end], dtypes[entry["dtype"]])
        arrays[name] = numbers.reshape(entry["shape"])
    return texts, arrays


def numbers_of(data, dtype):
    """Bytes as a numpy array, which has no bfloat16: that is the upper half of a float."""
    import numpy
    if dtype == "bf2":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return numpy.frombuffer(data, dtype)


def read_package(path):
    """The same as PyTorch's tensors, with the safetensors package."""
    from safetensors import safe_open
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}


def read(path, reader):
    """The texts and the arrays, PyTorch's with the package, numpy's without."""
    for module in ("numpy",) if reader == "plain" else ("torch", "safetensors"):
        need(module)
    path = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
    try:
        check_seals(path)
        return path, *(read_plain if reader == "plain" else read_package)(path)
    except OSError as error:
        die(MACHINE, f"{path}: {error.strerror or error}")
    except Exception as error:  # the package has its own, and a damaged header any
        die(MACHINE, f"{path}: not a whole safetensors file: {type(error).__name__}: {error}")


def number(texts, name, usual):
    """A text that is a number, `usual` if it is not there."""
    try:
        return type(usual)(texts.get(name, usual))
    except ValueError:
        die(MACHINE, f"{name}: {texts[name]!r} is no number")


def symbols_of(texts):
    """The code points or bytes that ids stand for."""
    if "vocabulary" not in texts:
        die(USAGE, "the model's file holds no vocabulary")
    try:
        return [int(symbol) for symbol in texts["vocabulary"].split()]
    except ValueError:
        die(MACHINE, "vocabulary: is no list of numbers")


def show(texts, arrays):
    for name, text in texts.items():
        print(f"{name} = {text}")
    width = max(map(len, arrays), default=0)
    print(f"\n{'array':{width}}  {'type':8}  {'shape':14}  {'mean':>10}  {'deviation':>10}")
    for name, array in arrays.items():
        if hasattr(array, "numpy"):  # bfloat16 is not numpy's
            kind = str(array.dtype).replace("torch.", "")
            array = array.double().numpy()
        else:
            kind = str(array.dtype)
        values = array.astype("f8")
        mean, deviation = (values.mean(), values.std()) if values.size else (math.nan, math.nan)
        print(f"{name:{width}}  {kind:8}  {str(array.shape):14}  {mean:10.6f}  {deviation:10.6f}")


# ---- nanoGPT ------------------------------------------------------------------------------------

def plain_names(arrays):
    """Under nanoGPT's names: without torch.compile's prefix and without Adam's moments; a tied head
    has both of its names."""
    names = {name[len("_orig_mod."):] if name.startswith("_orig_mod.") else name: array
             for name, array in arrays.items() if not name.startswith("optimizer.")}
    for one, other in ((WTE, HEAD), (HEAD, WTE)):
        if one in names:
            names.setdefault(other, names[one])
    return names


def sizes_of(path, arrays, texts, n_head):
    """What nanoGPT's GPTConfig wants to know."""
    if WTE not in arrays or WPE not in arrays or arrays[WTE].ndim != 2 or arrays[WPE].ndim != 2:
        die(MACHINE, f"{path}: holds no model with nanoGPT's names ({WTE} and so on)")
    n_layer = 0
    while f"transformer.h.{n_layer}.attn.c_attn.weight" in arrays:
        n_layer += 1
    said = number(texts, "n-head", 0)
    if said and n_head and n_head != said:
        die(USAGE, f"--n-head={n_head}: contradicts n-head = {said} of {path}")
    n_head = said or n_head
    (V, C), T = arrays[WTE].shape, arrays[WPE].shape[0]
    return {"n_layer": n_layer, "n_head": n_head, "n_embd": int(C), "block_size": int(T),
            "vocab_size": int(V), "bias": "transformer.h.0.attn.c_attn.bias" in arrays}


def check_recipe(path, texts, nanogpt):
    """The names of other models can be the same, so the texts must say that it is nanoGPT's."""
    gelu = "gelu-tanh" if hasattr(nanogpt, "new_gelu") else "gelu"  # as it was until May 2023
    wanted = {"norm": ("ln",), "placement": ("pre",), "final-norm": ("auto", "on"),
              "affine": ("on",), "act": (gelu,)}
    for name, values in wanted.items():
        if texts.get(name, values[0]) not in values:
            die(USAGE, f"{path}: is a model of {name}={texts[name]}; nanoGPT's are of "
                       f"{name}={values[-1]}")
    if number(texts, "norm-eps", 1e-5) != 1e-5:
        die(USAGE, f"{path}: is a model of norm-eps={texts['norm-eps']}; nanoGPT's are of 1e-5")


def import_file(path):
    sys.dont_write_bytecode = True  # beside it
    try:
        loader = importlib.machinery.SourceFileLoader("nanogpt_model", path)
        spec = importlib.util.spec_from_loader(loader.name, loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # its dataclass looks itself up there
        spec.loader.exec_module(module)
        module.GPT, module.GPTConfig
    except Exception as error:  # it is somebody's program
        die(MACHINE, f"{path}: not nanoGPT's model.py: {type(error).__name__}: {error}")
    return module


def load(path, texts, arrays, model_py, n_head):
    """nanoGPT's GPT with the file's weights, every name as it expects it."""
    torch = need("torch")
    arrays = plain_names(arrays)
    sizes = sizes_of(path, arrays, texts, n_head)
    if not sizes["n_head"]:
        die(USAGE, f"{path}: does not say how many heads it has (--n-head=N does)")
    state = {name: torch.as_tensor(array) for name, array in arrays.items()}
    with contextlib.redirect_stdout(io.StringIO()):  # it says how large it is
        nanogpt = import_file(model_py)
        check_recipe(path, texts, nanogpt)
        try:
            model = nanogpt.GPT(nanogpt.GPTConfig(dropout=0.0, **sizes))
        except Exception as error:  # sizes that it cannot have
            die(MACHINE, f"{model_py}: makes no model of {sizes}: {type(error).__name__} {error}")
    # Without PyTorch 2's own attention nanoGPT keeps its causal masks among the weights.
    masks = {name: mask for name, mask in model.named_buffers() if name.endswith(".attn.bias")}
    wanted = model.state_dict().keys() | masks
    state = {name: array for name, array in state.items()
             if name in wanted or not is_mask(name, array)}
    try:
        model.load_state_dict({**masks, **state}, strict=True)
    except RuntimeError as error:
        die(MACHINE, f"{path}: {' '.join(str(error).split())}")
    print(f"{path}: loads into {model_py}, strict: "
          + ", ".join(f"{name} {value}" for name, value in sizes.items()))
    return model.eval()


def is_mask(name, array):
    return name.endswith(".attn.bias") and array.ndim == 4


def ids_of(model, texts, data, status, what):
    """The ids of UTF-8 data; dies with `status` if the model does not know a character."""
    ids = {symbol: i for i, symbol in enumerate(symbols_of(texts))}
    if len(ids) != model.config.vocab_size:
        die(MACHINE, f"the model embeds {model.config.vocab_size} characters, but its vocabulary "
                     f"has {len(ids)}")
    if texts.get("level", "char") == "char":
        data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            data = [ord(character) for character in data.decode("utf-8")]
        except UnicodeDecodeError as error:
            die(status, f"{what}: not UTF-8 at byte {error.start}")
    unknown = next((symbol for symbol in data if symbol not in ids), None)
    if unknown is not None:
        die(status, f"{what}: has U+{unknown:04X}, which the model's vocabulary lacks")
    return [ids[symbol] for symbol in data]


def loss_of(model, ids):
    """Mean loss of all characters but the first, by blocks that do not overlap, as ./train has it;
    and the logits of what would come next."""
    torch = need("torch")
    T, total, ids = model.config.block_size, 0.0, torch.tensor(ids)
    with torch.no_grad():
        for at in range(0, len(ids) - 1, T):
            inputs, targets = ids[at:at + T][:len(ids) - 1 - at], ids[at + 1:at + 1 + T]
            logits, _ = model(inputs[None], targets[None])
            total += torch.nn.functional.cross_entropy(logits[0].double(), targets,
                                                       reduction="sum").item()
        return total / (len(ids) - 1) if len(ids) > 1 else None, model(ids[None, -T:])[0][0, -1]


def measure_text(model, texts, text):
    ids = ids_of(model, texts, text.encode("utf-8", "surrogateescape"), USAGE, "--text")
    if not ids:
        die(USAGE, "--text: is empty")
    loss, logits = loss_of(model, ids)
    if loss is not None:
        print(f"loss {loss:.9g} nats per character, {len(ids) - 1} characters")
    symbols = symbols_of(texts)
    chances = logits.double().softmax(0)
    for i in logits.argsort(descending=True)[:5].tolist():
        shown = chr(symbols[i]) if texts.get("level", "char") == "char" else bytes([symbols[i]])
        print(f"next {shown!r:8} logit {logits[i].item():11.6f}  probability {chances[i]:.6f}")


def measure_corpus(model, texts, path):
    """Of the corpus that the model learned from the validation part, of others everything."""
    if texts.get("items") == "on":
        die(USAGE, "--corpus: measures running text, and this is a model of items "
                   "(./train --evaluate=RUN measures those)")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        die(MACHINE, f"{path}: {error.strerror}")
    ids = ids_of(model, texts, data, MACHINE, path)
    learned = texts.get("corpus_crc32") == f"{zlib.crc32(data):08x}"
    if learned:
        ids = ids[int(len(ids) * (1 - number(texts, "val-fraction", 0.1))):]
    if len(ids) < 2:
        die(USAGE, f"{path}: has no two characters to measure")
    print(f"loss {loss_of(model, ids)[0]:.9g} nats per character: "
          f"{'the validation part of ' if learned else ''}{path}, {len(ids) - 1} characters")


# ---- from nanoGPT -------------------------------------------------------------------------------

def write(path, texts, arrays):
    """A safetensors file of numpy arrays in float32."""
    arrays = {name: array.astype("<f4") for name, array in arrays.items()}
    header, at = {"__metadata__": texts}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape,
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    temporary = path + ".tmp"
    if os.path.exists(path) and not os.path.isfile(path):
        die(USAGE, f"{path}: is no file that could be written anew")
    try:
        with open(temporary, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for array in arrays.values():
                file.write(array.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        die(MACHINE, f"{path}: {error.strerror}")


class Pickle(pickle.Unpickler):
    """Dicts, lists, texts and numbers."""
    known = {}

    def find_class(self, module, name):
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"asks for {module}.{name}")
        return self.known[module, name]


class Checkpoint(Pickle):
    """And tensors, as numpy arrays: torch.save() writes a zip file with the pickle and, apart from
    it, the storages of numbers that tensors are views of."""
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
        import numpy  # which checks that the view stays inside
        size = numbers.itemsize
        return numpy.ndarray(shape, numbers.dtype, numbers, offset * size,
                             [stride * size for stride in strides]).copy()

    known["torch._utils", "_rebuild_tensor_v2"] = rebuild


def read_meta(path, V):
    """The vocabulary of nanoGPT's meta.pkl, as ./train writes it."""
    try:
        with open(path, "rb") as file:
            itos = Pickle(file).load()["itos"]
        characters = [itos[i] for i in range(len(itos))]
        codes = [ord(character) for character in characters]
    except OSError as error:
        die(MACHINE, f"{path}: {error.strerror}")
    except Exception as error:  # a pickle can fail in any way
        die(MACHINE, f"{path}: not the meta.pkl of a character-level data set: "
                     f"{type(error).__name__}: {error}")
    if codes != sorted(set(codes)):
        die(MACHINE, f"{path}: its characters are not in ascending order")
    if len(codes) != V:
        die(MACHINE, f"{path}: has {len(codes)} characters, but the model embeds {V}")
    return " ".join(map(str, codes))


def read_checkpoint(path):
    """The state dict of nanoGPT's ckpt.pt, its model_args and its step."""
    import numpy
    try:
        with zipfile.ZipFile(path) as archive:
            stored = Checkpoint(archive).load()
    except OSError as error:
        die(MACHINE, f"{path}: {error.strerror or error}")
    except Exception as error:  # a pickle can fail in any way
        die(MACHINE, f"{path}: no checkpoint that torch.save() wrote: "
                     f"{type(error).__name__}: {error}")
    state = stored.get("model", stored) if isinstance(stored, dict) else None
    if not isinstance(state, dict) or not all(isinstance(array, numpy.ndarray)
                                              for array in state.values()):
        die(MACHINE, f"{path}: no checkpoint of nanoGPT's (a dict with 'model' and 'model_args')")
    arrays = {name: array for name, array in plain_names(state).items()
              if not is_mask(name, array)}
    if WTE in arrays and not numpy.array_equal(arrays[WTE], arrays[HEAD]):
        die(MACHINE, f"{path}: {HEAD} is not {WTE}: ./train has tied heads only")
    args = stored.get("model_args", {}) if state is not stored else {}
    step = stored.get("iter_num") if state is not stored else None
    return args, step, arrays


def convert(options):
    args, step, arrays = read_checkpoint(options.from_nanogpt)
    sizes = sizes_of(options.from_nanogpt, arrays, {}, args.get("n_head", options.n_head))
    texts = {"format": "pt", "level": "char", "norm": "ln", "placement": "pre", "norm-eps": "1e-05",
             "act": options.act, "bias": "on" if sizes["bias"] else "off"}
    for name in ("n_layer", "n_head", "n_embd", "block_size"):
        if sizes[name]:
            texts[name.replace("_", "-")] = str(sizes[name])
    if step is not None:
        texts["step"] = str(step)
    if options.meta:
        texts["vocabulary"] = read_meta(options.meta, sizes["vocab_size"])
    write(options.output, texts, arrays)
    lacking = [option for option in ("n-head", "vocabulary") if option not in texts]
    print(f"{options.output}: {len(arrays)} arrays"
          + (f"; ./train will need --{' and --'.join(lacking)}" if lacking else ""))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        die(USAGE, f"{message} (--help says more)")


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                    allow_abbrev=False)
    parser.add_argument("run", nargs="?", metavar="RUN",
                        help="a run's folder or a safetensors file")
    parser.add_argument("--reader", choices=("plain", "safetensors"), default="plain",
                        help="the reader of this file, or the safetensors package")
    parser.add_argument("--nanogpt", metavar="FILE", help="nanoGPT's model.py")
    parser.add_argument("--n-head", type=int, metavar="N", help="heads, if the file does not say")
    parser.add_argument("--text", help="measure this text, and say what comes next")
    parser.add_argument("--corpus", metavar="FILE", help="measure this file")
    parser.add_argument("--from-nanogpt", metavar="FILE", help="nanoGPT's ckpt.pt")
    parser.add_argument("--meta", metavar="FILE", help="the meta.pkl of its data set")
    parser.add_argument("--act", choices=("gelu", "gelu-tanh", "relu"), default="gelu",
                        help="its nonlinearity: gelu-tanh for a nanoGPT from before May 2023")
    parser.add_argument("-o", "--output", metavar="FILE", help="the safetensors file to write")
    options = parser.parse_args()
    if options.from_nanogpt:
        if options.run or options.nanogpt or not options.output:
            parser.error("--from-nanogpt=FILE: goes with -o FILE, and without RUN and --nanogpt")
        need("numpy")
        return convert(options)
    if not options.run:
        parser.error("names no RUN and no --from-nanogpt=FILE")
    if options.output or options.meta:
        parser.error("-o, --meta: belong to --from-nanogpt=FILE")
    if not options.nanogpt and (options.text is not None or options.corpus):
        parser.error("--text, --corpus: want nanoGPT's model.py (--nanogpt=FILE)")
    path, texts, arrays = read(options.run, options.reader)
    if not options.nanogpt:
        return show(texts, arrays)
    model = load(path, texts, arrays, options.nanogpt, options.n_head)
    if options.text is not None:
        measure_text(model, texts, options.text)
    if options.corpus:
        measure_corpus(model, texts, options.corpus)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        die(MACHINE, f"standard output: {error.strerror}")
