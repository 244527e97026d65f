"""Text in and out of a normlab.Model. normlab.load() gives the model its vocabulary.

    ids = encode(model, "To be")          (N)
    decode(model, ids)                    text
    evaluate(model, text)                 nats per character of the full text
    generate(model, "To be", 200)         text
"""
import torch
from torch.nn import functional


def encode(model, text):
    """The ids (N) of a text, or of the bytes of one. ValueError if the model does not know a character."""
    if model.config.level == "byte":
        symbols = text if isinstance(text, bytes) else text.encode()
    else:
        symbols = map(ord, text)
    ids = {symbol: i for i, symbol in enumerate(model.vocabulary)}
    try:
        return torch.tensor([ids[symbol] for symbol in symbols], dtype=torch.long)
    except KeyError as error:
        raise ValueError(f"U+{error.args[0]:04X} is not in the model's vocabulary") from None


def decode(model, ids):
    symbols = [model.vocabulary[int(i)] for i in ids]
    if model.config.level == "byte":
        return bytes(symbols).decode(errors="replace")
    return "".join(map(chr, symbols))


def sequences(model, text):
    """The text as sequences of at most T + 1 ids: blocks that overlap by one character, so that all
    characters except the first are targets. For a model of items: its lines, each with the newline
    before and the newline after it."""
    T = model.config.block_size
    if not model.config.items:
        ids = encode(model, text)
        return [ids[at:at + T + 1] for at in range(0, len(ids) - 1, T)]
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return [encode(model, f"\n{line}\n")[:T + 1] for line in lines if line.strip(" \t")]


def batches(model, text, batch_size=12):
    """The batches that ./train --evaluate=RUN makes of a file, except for the order of items: ids
    (B,T); targets (B,T), -1 where there is none; valid (B,T), False at pads, or None without pads."""
    items, whole = model.config.items, sequences(model, text)
    for first in range(0, len(whole), batch_size):
        batch, T = whole[first:first + batch_size], model.config.block_size
        if items and model.config.pad_to == "longest":
            T = max(len(sequence) - 1 for sequence in batch)
        ids = torch.full((len(batch), T), int(encode(model, "\n")) if items else 0)
        targets = torch.full((len(batch), T), -1)
        for b, sequence in enumerate(batch):
            ids[b, :len(sequence) - 1] = sequence[:-1]
            targets[b, :len(sequence) - 1] = sequence[1:]
        yield ids, targets, targets >= 0 if items else None


@torch.no_grad()
def evaluate(model, text, batch_size=12):
    """The mean loss of the text's characters except the first, in nats. After model.train() the norms
    use the statistics of each batch, as with --stats=own, and update their running statistics."""
    total = count = 0
    for ids, targets, valid in batches(model, text, batch_size):
        logits = model(ids, valid)
        total += functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten(), ignore_index=-1,
                                          reduction="sum").item()
        count += int((targets >= 0).sum())
    return total / count


@torch.no_grad()
def generate(model, prompt="\n", count=200, temperature=0.8):
    """The prompt and `count` characters after it. PyTorch samples them, so they differ from those of
    ./train --generate."""
    ids = encode(model, prompt)
    for _ in range(count):
        logits = model(ids[None, -model.config.block_size:])
        ids = torch.cat([ids, torch.multinomial((logits[0, -1] / temperature).softmax(0), 1)])
    return decode(model, ids)
