"""Reads and writes a model's file, model.safetensors or any other safetensors file.

read() checks the checksums that ./train wrote into the file. Copy read_plain() into a program of your own: it needs numpy
only.

A file that is missing raises FileNotFoundError (an OSError), a damaged or unsuitable one ModelError.
"""
import json
import os
import zlib

from common.command_line import write_whole

FAILED, USAGE = 1, 2  # exit status


class ModelError(ValueError):
    """What is wrong with a model, as one line for the user. `status` is the exit status of a program
    that ends with it."""

    def __init__(self, message, status=FAILED):
        super().__init__(message)
        self.status = status


# ---- reading ------------------------------------------------------------------------------------

# How files of other kinds start, and what to do.
OTHERS = {
    b"version https://git-lfs": "is only a pointer of Git LFS (git lfs pull gets the file itself)",
    b"PK\3\4": "is a zip file, as torch.save() writes (of nanoGPT: scripts/load_pytorch.py --from-nanogpt=FILE -o NEW "
               "converts it)",
    b"\x80\2": "is a pickle, as an old PyTorch wrote (save the weights as safetensors)",
    b"GGUF": "is a GGUF file (scripts/load_pytorch.py --from-hf=FOLDER -o NEW converts the folder that it was made from)",
    b"\x89HDF": "is an HDF5 file (save the weights as safetensors)",
    b"\x1f\x8b": "is compressed by gzip (unpack it first)",
    b"<": "is a web page (the download failed, or needs another address)",
    b"{": "is JSON (name the safetensors file beside it)"}


def refuse_others(path, wanted=None):
    """Raises ModelError if the file is of a kind that is known by its first bytes, but not of the wanted one."""
    with open(path, "rb") as file:
        start = file.read(31)
    at = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    known = next((known for known in OTHERS if at.startswith(known)), wanted)
    if known != wanted and start[8:9] not in b"{" and (len(known) > 1 or start[7:8] > b"\0"):
        raise ModelError(f"{path}: {OTHERS[known]}")


CHECKSUM = b'{"__metadata__":{"header_crc32":"'


def check_checksums(path):
    """Raises ValueError if the file does not match the checksums that ./train wrote into it
    (data/files/safetensors.c). A file of another program has none."""
    with open(path, "rb") as file:
        data = file.read()
    first, at = 8 + int.from_bytes(data[:8], "little"), len(CHECKSUM)
    header = data[8:first]
    if not header.startswith(CHECKSUM):
        return
    if header[at:at + 8] != b"%08x" % zlib.crc32(header[:at] + b"0" * 8 + header[at + 8:]):
        raise ValueError("its header was changed")
    stored = json.loads(header)["__metadata__"].get("data_crc32")
    if stored not in (None, f"{zlib.crc32(data[first:]):08x}"):
        raise ValueError("its data was changed")


def read_plain(path):
    """The texts and the numpy arrays of a safetensors file, with numpy only."""
    dtypes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf2", "I64": "<i8", "I32": "<i4",
              "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
    with open(path, "rb") as file:
        data = bytearray(file.read())
    first = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:first])
    texts = dict(header.pop("__metadata__", {}))
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        numbers = numbers_of(data[first + start:first + end], dtypes[entry["dtype"]])
        arrays[name] = numbers.reshape(entry["shape"])
    return texts, arrays


def numbers_of(data, dtype):
    """Bytes as a numpy array. numpy has no bfloat16, which is the upper half of a float."""
    import numpy
    if dtype == "bf2":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return numpy.frombuffer(data, dtype)


def read(run):
    """(path, texts, numpy arrays) of a run's folder or of a safetensors file."""
    path = os.path.join(run, "model.safetensors") if os.path.isdir(run) else os.fspath(run)
    refuse_others(path)
    try:
        check_checksums(path)
        return path, *read_plain(path)
    except OSError:
        raise
    except Exception as error:  # a damaged header can raise any
        raise ModelError(f"{path}: not a valid safetensors file: "
                         f"{type(error).__name__}: {error}") from None


# ---- texts --------------------------------------------------------------------------------------

def number_of(texts, name, default):
    """A text as a number of the default's type, the default if there is no such text."""
    try:
        return type(default)(texts.get(name, default))
    except ValueError:
        raise ModelError(f"{name}: {texts[name]!r} is not a number") from None


def symbols_of(texts):
    """The code points or bytes that the ids 0, 1, 2, ... are."""
    if "vocabulary" not in texts:
        raise ModelError("the model's file has no vocabulary", USAGE)
    try:
        return [int(symbol) for symbol in texts["vocabulary"].split()]
    except ValueError:
        raise ModelError("vocabulary: is not a list of numbers") from None


# ---- writing ------------------------------------------------------------------------------------

def write(path, texts, arrays):
    """Writes numpy arrays as 32-bit floats."""
    arrays = {name: array.astype("<f4") for name, array in arrays.items()}
    header, at = {"__metadata__": texts}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape,
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    write_whole(path, b"".join([len(header).to_bytes(8, "little"), header, *(array.tobytes() for array in arrays.values())]))
