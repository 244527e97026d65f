"""Tokenizers of Hugging Face for the characters that a model of ./train knows, as JSON, and back.

Each character (or byte) of the vocabulary is a token, and its id is that of ./train. There are no special
tokens. A text with a character that the vocabulary lacks is refused, as ./train refuses it.

A tokenizer of another program may have pieces of words as tokens. ./train knows characters only. There
token i is the character U+10000 + i: encode() makes such a text, and decode() reads one.
"""
import json
import os

from pytorch.model_file import FAILED, USAGE, ModelError

PIECES = 0x10000  # the character of token 0 where tokens are pieces of words


def byte_characters():
    """The characters that stand for bytes in a byte-level tokenizer, as in GPT-2's: printable Latin-1
    characters for themselves, the others from U+0100 on, in order."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable},
            **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}


def make(symbols, level):
    """tokenizer.json and tokenizer_config.json for these code points or bytes, as two dicts."""
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
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}


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
    are, or (None, None) if the tokens are pieces of words."""
    tokens = tokens_of(tokenizer)
    if len(tokens) != V or tokenizer.get("normalizer") or tokenizer["model"].get("merges"):
        return None, None
    types = types_of(tokenizer.get("pre_tokenizer")) | types_of(tokenizer.get("decoder"))
    if "ByteLevel" in types:
        bytes_of = {character: byte for byte, character in byte_characters().items()}
        if all(token in bytes_of for token in tokens):
            return "byte", [bytes_of[token] for token in tokens]
    elif types <= {"Split", "Fuse"} and all(len(token) == 1 for token in tokens):
        return "char", [ord(token) for token in tokens]
    return None, None


def read(folder, V):
    """(level, symbols) as symbols_of(); with pieces of words the characters that stand for them. Without
    a tokenizer.json, (None, None)."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        return None, None
    try:
        with open(path, encoding="utf-8") as file:
            level, symbols = symbols_of(json.load(file), V)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path}: is not a tokenizer of the tokenizers library: "
                         f"{type(error).__name__}: {error}") from None
    return (level, symbols) if symbols else ("pieces", [PIECES + i for i in range(V)])


# ---- pieces of words ----------------------------------------------------------------------------

def load(folder):
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
    ids = load(folder).encode(text, add_special_tokens=False).ids
    return "".join(chr(PIECES + i) for i in ids).encode()


def decode(folder, data, what):
    """The text of such characters. Others, such as the newline at the end, are left out."""
    tokenizer = load(folder)
    ids = [ord(character) - PIECES for character in data.decode("utf-8", "ignore")]
    ids = [i for i in ids if 0 <= i < tokenizer.get_vocab_size()]
    if not ids:
        raise ModelError(f"{what}: has no characters that stand for tokens (--encode makes them)", USAGE)
    return tokenizer.decode(ids, skip_special_tokens=False).encode()
