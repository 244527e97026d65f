"""Models of ./train as folders of Hugging Face transformers, and such folders as models of ./train.

A folder has config.json, model.safetensors (or several files that model.safetensors.index.json names) and
tokenizer.json. hf_classes.py has the classes. Writing and reading need numpy only.

Each character (or byte) of the vocabulary is a token, and its id is that of ./train. There are no special tokens. A text
with a character that the vocabulary lacks is refused, as ./train refuses it. A tokenizer of another program may have
pieces of words as tokens. ./train knows characters only. There token i is the character U+10000 + i: encode() makes such
a text, and decode() reads one.
"""
import contextlib
import json
import os

import numpy

from common.command_line import write_whole
from pytorch import model_file, nanogpt
from pytorch.hf_classes import CAP, CLASSES, LEFT, REQUIRED, SAME, TRANSPOSED, class_of, sizes
from pytorch.model_file import FAILED, USAGE, ModelError
from pytorch.options import Config, text_of

# ---- tokenizers ---------------------------------------------------------------------------------

PIECES = 0x10000  # the character of token 0 where tokens are pieces of words


def byte_characters():
    """The characters that stand for bytes in a byte-level tokenizer, as in GPT-2's: printable Latin-1
    characters for themselves, the others from U+0100 on, in order."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable},
            **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}


def make_tokenizer(symbols, level):
    """{file: content} of the tokenizer of these code points or bytes."""
    whole = {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False}
    pre_tokenizer, decoder, shown = whole, {"type": "Fuse"}, chr
    if level == "byte":
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                      "use_regex": False}
        pre_tokenizer = {"type": "Sequence", "pretokenizers": [byte_level, whole]}
        decoder, shown = byte_level, byte_characters().get
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder,
        "model": {"type": "WordLevel", "vocab": {shown(symbol): i for i, symbol in enumerate(symbols)},
                  "unk_token": "[UNK]"}}
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}}


def tokens_of(tokenizer):
    """The tokens in the order of their ids; KeyError or TypeError if the dict is no tokenizer."""
    vocab = tokenizer["model"]["vocab"]
    ids = {token: i for i, (token, _) in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    ids.update({added["content"]: added["id"] for added in tokenizer.get("added_tokens", [])})
    by_id = {i: token for token, i in ids.items()}
    return [by_id[i] for i in range(len(by_id))]


def types_of(part):
    """The types of a tokenizer's part, which may be a sequence of parts."""
    if part is None:
        return set()
    parts = part.get("pretokenizers") or part.get("decoders")
    return set().union(*map(types_of, parts)) if parts else {part["type"]}


def symbols_of(tokenizer, V):
    """(level, symbols) of a model that embeds V tokens: the code points or bytes that the ids 0, 1, 2, ...
    are. If the tokens are pieces of words, the level is "pieces", and the symbols are the characters that stand for them."""
    tokens, model = tokens_of(tokenizer), tokenizer["model"]
    types = types_of(tokenizer.get("pre_tokenizer")) | types_of(tokenizer.get("decoder"))
    bytes_of = {character: byte for byte, character in byte_characters().items()}
    if len(tokens) == V and not tokenizer.get("normalizer") and not model.get("merges"):
        if "ByteLevel" in types and all(token in bytes_of for token in tokens):
            return "byte", [bytes_of[token] for token in tokens]
        if types <= {"Split", "Fuse"} and all(len(token) == 1 for token in tokens):
            return "char", [ord(token) for token in tokens]
    return "pieces", [PIECES + i for i in range(V)]


def read_tokenizer(folder, V):
    """symbols_of() a folder; without a tokenizer.json, (None, None)."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        return None, None
    what = f"{path}: is not a tokenizer of the tokenizers library"
    with nanogpt.reading(what), open(path, encoding="utf-8") as file:
        return symbols_of(json.load(file), V)


# ---- pieces of words ----------------------------------------------------------------------------

def load_tokenizer(folder):
    """The tokenizer of the folder, with the tokenizers package."""
    from tokenizers import Tokenizer
    path = os.path.join(folder, "tokenizer.json")
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the package raises a bare Exception
        raise ModelError(f"{path}: {error}") from None


def encode(folder, data, what):
    """The tokens of UTF-8 data as characters; `what` names the data."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{what}: not UTF-8 at byte {error.start}", FAILED) from None
    ids = load_tokenizer(folder).encode(text, add_special_tokens=False).ids
    return "".join(chr(PIECES + i) for i in ids).encode()


def decode(folder, data, what):
    """The text of such characters. Others, such as the newline at the end, are left out."""
    tokenizer = load_tokenizer(folder)
    ids = [ord(character) - PIECES for character in data.decode("utf-8", "ignore")]
    ids = [i for i in ids if 0 <= i < tokenizer.get_vocab_size()]
    if not ids:
        raise ModelError(f"{what}: has no characters that stand for tokens (--encode makes them)", USAGE)
    return tokenizer.decode(ids, skip_special_tokens=False).encode()


# ---- folders ------------------------------------------------------------------------------------

INDEX = "model.safetensors.index.json"
MADE_BY = {"made_by": "normlab"}  # in config.json: such a folder may be replaced


def tensors_of(row, config, V):
    """(ours, [(theirs, shape)], how) for each weight and bias that the class can have: their names, and the shape of ours
    in each part."""
    size = sizes(config, V)
    for name, named in row.arrays.items():
        if name == "lm_head" and config.head == "tied":
            continue
        norm, tokens = len(named[0][1]) == 1, {"transformer.wte": row.embedding, "transformer.wpe": SAME, "lm_head": SAME}
        how = tokens.get(name, row.norm if norm else row.linear)
        for l in range(config.n_layer) if "*" in name else [0]:
            ours = name.replace("*", str(l))
            parts = [(theirs.replace("*", str(l)), tuple(map(size.get, letters))) for theirs, letters in named]
            yield ours + ".weight", [(theirs + ".weight", shape) for theirs, shape in parts], how
            if name not in tokens and (row.biased or not norm):
                yield ours + ".bias", [(theirs + ".bias", shape[:1]) for theirs, shape in parts], SAME


def embedding_of(row):
    """The name of the embedding in the class."""
    return row.arrays["transformer.wte"][0][0] + ".weight"


def take(path, arrays, name, shape):
    """Removes an array of this name. A bias that is missing is 0."""
    array = arrays.pop(name, numpy.zeros(shape, "f4") if name.endswith(".bias") else None)
    if array is None:
        raise ModelError(f"{path}: {name}: is missing")
    return array


# ---- to transformers ----------------------------------------------------------------------------

def check_folder(folder):
    """Refuses to write over something else."""
    if not os.path.exists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            if MADE_BY.items() <= json.load(file).items():
                return
    raise ModelError(f"{folder}: holds something that --to-hf did not write (name another folder)", USAGE)


def their_arrays(path, row, config, arrays, V):
    """The arrays of the class from those of ./train, which it removes from `arrays`."""
    stored = {}
    for ours, parts, how in tensors_of(row, config, V):
        rows = [shape[0] for _, shape in parts]
        if row.biased or config.bias or not ours.endswith(".bias"):
            values = numpy.split(take(path, arrays, ours, sum(rows)), numpy.cumsum(rows)[:-1])
            stored |= {name: numpy.ascontiguousarray(how[0](part)) for (name, _), part in zip(parts, values)}
    return stored


def their_config(row, config, V, newline):
    """config.json. `newline` is the id that starts and ends an item, None if the model is of running text."""
    config.head_size = config.n_embd // config.n_head
    return {"architectures": [row.architecture], "model_type": row.model_type, "vocab_size": V,
            "bos_token_id": newline, "eos_token_id": newline, "pad_token_id": None, **MADE_BY,
            **{member.key: member.kind.json(getattr(config, member.option)) for member in row.members},
            **{key: value(config.n_layer) for key, value in row.always.items()}}


def write(run, folder, n_head):
    """Writes the model of a run as a folder. Returns what to say about it."""
    path, texts, arrays = model_file.read(run)
    config, arrays = nanogpt.config_of(path, arrays, texts, n_head)
    V, symbols = config.vocab_size, model_file.symbols_of(texts)
    if len(symbols) != V:
        raise ModelError(f"{path}: embeds {V} characters, but its vocabulary has {len(symbols)}")
    if not numpy.array_equal(arrays[nanogpt.WTE], arrays[nanogpt.HEAD]):
        config.head = "untied"
    if "transformer.h.0.mlp.c_proj.weight" in arrays:
        config.ffn_width = arrays["transformer.h.0.mlp.c_proj.weight"].shape[-1]
    row = class_of(path, texts, config)
    if row.embedding is not SAME:  # the class changes its embedding: its head cannot be tied to it
        config.head = "untied"
    newline = symbols.index(10) if config.items and 10 in symbols else None
    described, stored = their_config(row, config, V, newline), their_arrays(path, row, config, arrays, V)
    check_folder(folder)
    os.makedirs(folder, exist_ok=True)
    files = {"config.json": described, **make_tokenizer(symbols, config.level)}
    for name, value in files.items():
        write_whole(os.path.join(folder, name), json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    model_file.write(os.path.join(folder, "model.safetensors"), {"format": "pt"}, stored)
    return f"{folder}: {row.architecture}, {len(stored)} arrays, {V} {config.level}s"


# ---- from transformers --------------------------------------------------------------------------

def read_config(folder):
    """(row, config) of the folder."""
    path = os.path.join(folder, "config.json")
    with nanogpt.reading(f"{path}: is not the config.json of a model"), open(path, encoding="utf-8") as file:
        config = json.load(file)
        model_type = config.get("model_type")
    row = next((row for row in CLASSES if row.model_type == model_type), None)
    if not row:
        raise ModelError(f"{path}: model_type={model_type}: ./train can be "
                         + ", ".join(row.model_type for row in CLASSES))
    for key, value in row.fixed.items():
        if (config.get(key, value) or None) != (value or None):
            raise ModelError(f"{path}: {key}={json.dumps(config[key])}: ./train has only "
                             f"{json.dumps(value)}")
    return row, config


def our_options(folder, row, config):
    """The options of ./train that config.json says."""
    path = os.path.join(folder, "config.json")
    options = {name: values[0] for name, values in row.needs.items() if values and name not in ("bias", "act")}
    options["norm"] = options["norm_final"]
    for member in row.members:
        value, own = config.get(member.key), member.default
        if value is not None or (member.kind is CAP and member.key in config):
            try:
                own = member.kind.option(value)
            except (KeyError, ValueError, TypeError, AttributeError):
                raise ModelError(f"{path}: {member.key}={json.dumps(value)}: ./train cannot be so") from None
        elif own is REQUIRED:
            raise ModelError(f"{path}: has no {member.key}")
        elif own is LEFT or member.option in options:
            continue
        if member.option in ("bias", "dropout"):  # the arrays say the one, and ./train needs no other
            continue
        before = options.get(member.option, own)
        if member.option == "block_size":  # a sliding window is no shorter than such a block
            own = min(own, before)
        elif before != own:
            raise ModelError(f"{path}: {member.key}={json.dumps(value)}: contradicts another member")
        options[member.option] = own
    C, heads = options["n_embd"], options["n_head"]
    if heads < 1 or C % heads or options.pop("head_size", C // heads) != C // heads:
        raise ModelError(f"{path}: its heads have another size than {C}/{heads}, the number of channels by "
                         "that of heads")
    return options


def read_arrays(folder, row):
    """The arrays under the names of the class, as 32-bit floats."""
    index = os.path.join(folder, INDEX)
    files = ["model.safetensors"]
    if not os.path.exists(os.path.join(folder, files[0])) and os.path.exists(index):
        with nanogpt.reading(f"{index}: is no list of files"), open(index, encoding="utf-8") as file:
            files = sorted({os.fspath(name) for name in json.load(file)["weight_map"].values()})
    arrays = {}
    for name in files:
        arrays |= model_file.read(os.path.join(folder, name))[2]
    prefix = embedding_of(row).split(".")[0] + "."
    if not any(name.startswith(prefix) for name in arrays):  # a model without its head
        arrays = {name if name.startswith("lm_head") else prefix + name: array
                  for name, array in arrays.items()}
    return {name: array.astype("f4") for name, array in arrays.items() if not name.endswith(nanogpt.BUFFERS)}


def our_arrays(folder, row, options, arrays):
    """The arrays of ./train from those of the class, which it removes from `arrays`. Biases that are all
    zero are left out."""
    first, weights, biases = embedding_of(row), {}, {}
    if first not in arrays or arrays[first].ndim != 2:
        raise ModelError(f"{folder}: {first}: is missing, or no matrix")
    for ours, parts, how in tensors_of(row, Config(**options), len(arrays[first])):
        taken = []
        for name, shape in parts:
            shape = shape[::-1] if how is TRANSPOSED else shape
            array = take(folder, arrays, name, shape)
            if array.shape != shape:
                raise ModelError(f"{folder}: {name}: has shape {array.shape}, but {shape} in a {row.architecture} of "
                                 "this config.json")
            taken.append(how[1](array))
        (biases if ours.endswith(".bias") else weights)[ours] = numpy.concatenate(taken)
    if arrays:
        raise ModelError(f"{folder}: {min(arrays)}: is not part of a {row.architecture}")
    return weights | (biases if any(bias.any() for bias in biases.values()) else {})


def convert(folder, row, options, arrays):
    """our_arrays(), and the head. A class that changes the embedding has an untied head here, except where write() untied
    it: then the head is what both are in ./train."""
    first, how = embedding_of(row), row.embedding
    embedding = arrays.get(first)
    if options["head"] == "tied":
        if not numpy.array_equal(arrays.pop("lm_head.weight", embedding), embedding):
            raise ModelError(f"{folder}: lm_head.weight: differs from {first}, but tie_word_embeddings says that they are "
                             "one (set it to false in config.json)")
        if how is not SAME:
            options["head"], arrays["lm_head.weight"] = "untied", embedding
    weights = our_arrays(folder, row, options, arrays)
    if how is not SAME and numpy.array_equal(how[0](weights[nanogpt.HEAD]), embedding):
        options["head"], weights[nanogpt.WTE] = "tied", weights[nanogpt.HEAD]
    return nanogpt.plain_names(weights)


def shorten(options, weights, T):
    """A context of T tokens."""
    if T < 1 or T > options["block_size"]:
        raise ModelError(f"--block-size={T}: must be from 1 to {options['block_size']}, the model's", USAGE)
    options["block_size"] = T
    if nanogpt.WPE in weights:
        weights[nanogpt.WPE] = weights[nanogpt.WPE][:T]


def in_order(symbols, weights):
    """Sorts the symbols, as ./train has them, and the rows of the embedding and of the head."""
    order = numpy.argsort(symbols)
    for name in (nanogpt.WTE, nanogpt.HEAD):
        if name in weights:
            weights[name] = weights[name][order]
    return " ".join(str(symbols[i]) for i in order)


def read(folder, T=None):
    """(row, texts, arrays, pieces): a folder as a model of ./train, with the options as texts. `pieces`:
    whether its tokens are pieces of words. T: a shorter context than the model's."""
    row, config = read_config(folder)
    options = our_options(folder, row, config)
    weights = convert(folder, row, options, read_arrays(folder, row))
    if T is not None:
        shorten(options, weights, T)
    level, symbols = read_tokenizer(folder, len(weights[nanogpt.WTE]))
    texts = {"format": "pt", "level": "byte" if level == "byte" else "char",
             **{name.replace("_", "-"): text_of(value) for name, value in options.items()}}
    texts["bias"] = "on" if any(name.endswith(".bias") for name in weights) else "off"
    if symbols:
        texts["vocabulary"] = in_order(symbols, weights)
    if MADE_BY.items() <= config.items() and config.get("eos_token_id") is not None:
        texts["items"] = "on"
    return row, texts, weights, level == "pieces"
