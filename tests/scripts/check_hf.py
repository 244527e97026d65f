#!/usr/bin/env python3
"""Compares ./train with Hugging Face transformers, for models that scripts/load_pytorch.py --to-hf writes.

  tests/scripts/check_hf.py                 all variants: a line for each that differs, a summary
  tests/scripts/check_hf.py llama           the variants whose options contain one of these words

Each variant is a small model that ./train trains for a few updates. transformers loads its folder, as
AutoModelForCausalLM.from_pretrained() does for everyone, and computes the logits of the batch that
--evaluate --dump measured; they must differ by at most TOLERANCE. pipeline("text-generation") must write the text
of --generate --temperature=0. The tokenizer must give every text of the vocabulary back. --from-hf must
give the model back, also after transformers has saved it in 16 bits in several files; a tokenizer with
pieces of words must translate. The environment variable TRAIN names another ./train. A virtual environment
with `pip install torch transformers`, first on PATH, has what this needs.
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from common import command_line

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

try:
    import numpy
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    command_line.run_again()
    sys.exit(f"check_hf: {sys.executable}: {error} (pip install torch transformers)")

from pytorch import model_file

TRAIN = os.path.abspath(os.environ.get("TRAIN") or os.path.join(ROOT, "train"))
LOAD = os.path.join(ROOT, "scripts", "load_pytorch.py")
TOLERANCE = 1e-5
T, PROMPT = 32, "the "
TEXT = "the cat \"sat\" on  the mat,\tand l'été (naïve) 日本 \U0001f600 was [UNK] <s> \\ \x01\n" * 40
SMALL = (f"--n-layer=2 --n-head=4 --n-embd=32 --block-size={T} --batch-size=4 --max-iters=40 "
         "--warmup-iters=0 --learning-rate=0.01 --eval-interval=1000 --eval-iters=1 "
         "--checkpoint-interval=0 --sample=0 --quiet")
VARIANTS = [
    "--preset=gpt2", "--preset=gpt2 --act=gelu --bias=off", "--preset=gpt2 --act=relu --level=byte",
    "--preset=gpt2 --head=untied --ffn-width=40 --norm-eps=0.01", "--preset=gpt2 --act=silu --items",
    "--preset=llama", "--preset=llama --n-kv-head=2 --head=tied --rope-theta=500",
    "--preset=llama --bias=on --n-kv-head=1 --act=reglu", "--preset=llama --level=byte --act=geglu",
    "--preset=qwen3", "--preset=qwen3 --n-kv-head=2 --head=tied --norm-eps=0.01",
    "--preset=olmo2", "--preset=olmo2 --n-kv-head=2 --head=tied --act=geglu-tanh",
    "--preset=gemma2", "--preset=gemma2 --n-kv-head=2 --attn-softcap=0.5 --logit-softcap=2",
    "--preset=gemma2 --head=untied --attn-softcap=0 --logit-softcap=0 --n-embd=24 --act=swiglu"]


def run(*words):
    """The standard output of a command."""
    done = subprocess.run(words, capture_output=True)
    if done.returncode:
        sys.exit(f"check_hf: {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout.decode()


def load(*words):
    return run(sys.executable, LOAD, *words)


def differences_of_logits(model, dump):
    """The largest difference of the model's logits from those of a dump."""
    arrays = model_file.read(dump)[2]
    valid = torch.tensor(arrays["valid"]).bool()  # not the pads of items
    with torch.no_grad():
        logits = model(torch.tensor(arrays["ids"])).logits
    return float((logits - torch.tensor(arrays["logits"]))[valid].abs().max())


def differences_of_tokenizer(folder, texts):
    """What the tokenizer does not give back; its ids must be those of ./train."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    symbols = model_file.symbols_of(texts)
    known = TEXT if texts["level"] == "char" else "".join(map(chr, range(1, 128))) + TEXT
    known = "".join(c for c in known if texts["level"] == "char" or set(c.encode()) <= set(symbols))
    ids = tokenizer(known)["input_ids"]
    data = known.encode() if texts["level"] == "byte" else map(ord, known)
    if ids != [symbols.index(symbol) for symbol in data]:
        yield "the tokenizer's ids are not those of ./train"
    if tokenizer.decode(ids) != known:
        yield f"decode(encode()) is {tokenizer.decode(ids)!r}"
    try:
        tokenizer("\x02")
        yield "the tokenizer accepts an unknown character"
    except Exception as error:  # tokenizers raises a bare Exception
        if "UNK" not in str(error):
            raise


def differences_of_text(folder, out, items):
    """What pipeline() writes that ./train does not."""
    write = transformers.pipeline("text-generation", model=folder)
    prompt = "\n" + PROMPT if items else PROMPT  # a newline starts an item, and ends it
    theirs = write(prompt, do_sample=False, max_new_tokens=T - len(prompt))[0]["generated_text"]
    amount = "--num-items=1" if items else f"--num-chars={T - len(PROMPT)}"
    ours = run(TRAIN, f"--generate={out}", f"--prompt={PROMPT}", "--temperature=0", amount, "--quiet")
    if not (theirs[1:] in ours if items else theirs == ours[:-1]):
        yield f"pipeline() writes {theirs!r}, ./train {ours!r}"


def differences_of_return(folder, out, model, back):
    """What --from-hf does not give back; then the same of the model in 16 bits and in several files."""
    load(f"--from-hf={folder}", "-o", back)
    before, after = model_file.read(out)[2], model_file.read(back)[2]
    inexact = "Gemma" in type(model).__name__ and after["transformer.wte.weight"].shape[1] == 24
    for name in sorted(before.keys() ^ after.keys()):
        if not name.endswith(".bias") or before[name].any():  # all of them zero are left out
            yield f"{name} is in one of the models"
    for name in before.keys() & after.keys():
        same = numpy.allclose if inexact else numpy.array_equal
        if not same(before[name], after[name]):
            yield f"{name} differs"
    measure = [TRAIN, "--batch-size=4", "--quiet", os.path.join(os.path.dirname(out), "other")]
    if not inexact and run(*measure, f"--evaluate={out}") != run(*measure, f"--evaluate={back}"):
        yield "the loss of the model differs after the return"
    saved = folder + "-saved"
    model.to(torch.bfloat16).save_pretrained(saved, max_shard_size="20KB")
    if not os.path.exists(os.path.join(saved, "model.safetensors.index.json")):
        yield "transformers saved one file"
    load(f"--from-hf={saved}", "-o", back)
    for name, array in model_file.read(back)[2].items():
        if not numpy.allclose(array, before.get(name, before["transformer.wte.weight"]), rtol=0.01, atol=0.01):
            yield f"{name} differs in 16 bits"


def differences(folder, number, options):
    out, hf = (os.path.join(folder, f"{name}{number}") for name in ("out", "hf"))
    text = os.path.join(folder, "text")
    run(TRAIN, *SMALL.split(), *options.split(), f"--out={out}", text)
    load(out, f"--to-hf={hf}")
    dump = os.path.join(folder, "dump")
    run(TRAIN, f"--evaluate={out}", "--batch-size=4", f"--dump={dump}", "--quiet", text)
    model = transformers.AutoModelForCausalLM.from_pretrained(hf)
    largest = differences_of_logits(model, dump)
    if not largest <= TOLERANCE:
        yield f"logits differ by {largest:.2g}"
    yield from differences_of_tokenizer(hf, model_file.read(out)[1])
    yield from differences_of_text(hf, out, "--items" in options)
    yield from differences_of_return(hf, out, model, os.path.join(folder, "back"))


def pieces(folder):
    """A model that transformers made, with a tokenizer of pieces of words: its loss of a text."""
    hf, back, text, ids = (os.path.join(folder, name) for name in ("pieces", "back", "text", "ids"))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>"]))
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2,
                                      intermediate_size=24, num_attention_heads=2, max_position_embeddings=T)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(hf)
    tokenizer.save(os.path.join(hf, "tokenizer.json"))
    load(f"--from-hf={hf}", "-o", back, f"--block-size={T // 2}")
    load(f"--from-hf={hf}", f"--encode={text}", "-o", ids)
    if load(f"--from-hf={hf}", f"--decode={ids}") != TEXT:
        yield "--decode does not give the text back"
    tokens = torch.tensor(tokenizer.encode(TEXT, add_special_tokens=False).ids)
    losses = []
    with torch.no_grad():
        for at in range(0, len(tokens) - 1, T // 2):
            block = tokens[at:at + T // 2 + 1]
            losses += torch.nn.functional.cross_entropy(model(block[None, :-1]).logits[0], block[1:],
                                                        reduction="none").tolist()
    printed = float(run(TRAIN, f"--evaluate={back}", "--quiet", ids).split()[1])
    if abs(printed - numpy.mean(losses)) > TOLERANCE:
        yield f"the loss of pieces of words is {numpy.mean(losses)}, ./train says {printed}"


def main():
    words, wrong, number = sys.argv[1:], 0, 0
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ("text", TEXT), ("other", TEXT[7:300]):
            with open(os.path.join(folder, name), "w", newline="") as file:
                file.write(text)
        checks = [(options, lambda o=options, i=i: differences(folder, i, o))
                  for i, options in enumerate(VARIANTS)] + [("pieces of words", lambda: pieces(folder))]
        for options, check in checks:
            if not words or any(word in options for word in words):
                number += 1
                for difference in check():
                    wrong += 1
                    print(f"check_hf: {options}: {difference}", file=sys.stderr)
    print(f"{number} models in transformers {transformers.__version__}: {wrong} differences")
    sys.exit(1 if wrong or not number else 0)


if __name__ == "__main__":
    main()
