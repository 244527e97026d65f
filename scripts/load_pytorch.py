#!/usr/bin/env python3
"""Converts models between ./train and PyTorch, nanoGPT and Hugging Face transformers:

  scripts/load_pytorch.py RUN                          print the contents of model.safetensors
  scripts/load_pytorch.py RUN --nanogpt=model.py       load its weights into nanoGPT's own GPT class
  scripts/load_pytorch.py RUN --nanogpt=model.py --corpus=FILE       print the loss, as ./train --evaluate=RUN FILE does
  scripts/load_pytorch.py FILE -o NEW                  convert a safetensors file with nanoGPT's names for ./train: numbers of any
                                                       type, torch.compile's prefix, a head of one name, causal masks
  scripts/load_pytorch.py --from-nanogpt=ckpt.pt --meta=meta.pkl -o FILE
                                                       convert for ./train --generate and --evaluate
  scripts/load_pytorch.py RUN --to-hf=FOLDER           convert for AutoModelForCausalLM.from_pretrained()
  scripts/load_pytorch.py --from-hf=FOLDER -o FILE     convert such a folder for ./train
  scripts/load_pytorch.py --from-hf=FOLDER --encode=TEXT -o IDS      write TEXT as characters that stand for
                                                       the folder's tokens; --decode=IDS is the reverse

RUN is a run's folder or any safetensors file. read_plain() of model_file.py reads such files with numpy alone; you can copy
it into your own programs.

--nanogpt runs the Python file that it names; it and --from-nanogpt need PyTorch. --encode and --decode need the tokenizers
package. Everything else needs only numpy. ckpt.pt and meta.pkl are pickles, and a pickle can run code:
one that asks for more than tensors, lists, texts and numbers is refused.
"""
import argparse
import math
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("load_pytorch", "plot", "numpy")

from pytorch import hf_folder, model_file, nanogpt
from pytorch.model_file import ModelError
from pytorch.nanogpt import read_checkpoint, read_vocabulary
from pytorch.options import text_of



# ---- a model of ./train -------------------------------------------------------------------------

def show(texts, arrays):
    for name, text in texts.items():
        print(f"{name} = {text}")
    width = max(map(len, arrays), default=0)
    print(f"\n{'array':{width}}  {'type':8}  {'shape':14}  {'mean':>10}  {'deviation':>10}")
    for name, array in arrays.items():
        values = array.astype("f8")
        mean, deviation = (values.mean(), values.std()) if values.size else (math.nan, math.nan)
        print(f"{name:{width}}  {str(array.dtype):8}  {str(values.shape):14}  {mean:10.6f}  {deviation:10.6f}")


def load(options):
    """RUN: prints what it holds, converts it, or loads it into nanoGPT's class and measures it there."""
    path, texts, arrays = model_file.read(options.run)
    if options.output:
        texts = {name: text for name, text in texts.items() if not name.endswith("_crc32") or name == "corpus_crc32"}
        return put_model(options.output, texts, nanogpt.plain_names(arrays))
    if not options.nanogpt:
        return show(texts, arrays)
    command_line.require("load_pytorch", "pytorch", "torch")
    from pytorch import nanogpt_model
    model, sizes = nanogpt_model.load(path, texts, arrays, options.nanogpt, options.n_head)
    print(f"{path}: loads into {options.nanogpt}, strict: "
          + ", ".join(f"{name} {value}" for name, value in sizes.items()))
    if options.corpus:
        nanogpt_model.measure_corpus(model, options.corpus)


# ---- a model of nanoGPT -------------------------------------------------------------------------

def put_model(path, texts, arrays, what=""):
    """Writes a model of another program, and says what ./train will need beside the file."""
    model_file.write(path, texts, arrays)
    lacking = [option for option in ("n-head", "vocabulary") if option not in texts]
    print(f"{path}: {what}{len(arrays)} arrays"
          + (f"; ./train will need --{' and --'.join(lacking)}" if lacking else ""))


def from_nanogpt(options):
    """--from-nanogpt: writes nanoGPT's checkpoint as a file that ./train reads."""
    model_file.refuse_others(options.from_nanogpt, b"PK\3\4")
    command_line.require("load_pytorch", "pytorch", "torch")
    args, step, arrays = read_checkpoint(options.from_nanogpt)
    n_head = args.get("n_head", options.n_head)
    sizes = nanogpt.sizes_of(options.from_nanogpt, arrays, {}, n_head)
    texts = {"format": "pt", "level": "char", "norm": "ln", "placement": "pre", "norm-eps": "1e-05",
             "act": options.act, "bias": text_of(sizes["bias"]),
             **{name.replace("_", "-"): str(sizes[name]) for name in ("n_layer", "n_head", "n_embd", "block_size")
                if sizes[name]}}
    if step is not None:
        texts["step"] = str(step)
    if options.meta:
        texts["vocabulary"] = read_vocabulary(options.meta, sizes["vocab_size"])
    put_model(options.output, texts, arrays)


# ---- a folder of transformers -------------------------------------------------------------------

def from_hf(options):
    """--from-hf: writes the folder's model as a file that ./train reads."""
    row, texts, arrays, pieces = hf_folder.read(options.from_hf, options.block_size)
    put_model(options.output, texts, arrays, f"{row.architecture}, ")
    if pieces:
        print(f"{options.output}: its tokens are pieces of words, and token i is the character U+10000 + i of "
              "./train; --from-hf with --encode=TEXT and --decode=TEXT translates")


def translate(options):
    """--encode, --decode: translates a text; - is standard input, as no -o is standard output."""
    command_line.require("load_pytorch", "", "tokenizers", how="pip install tokenizers")
    what, change = ((options.encode, hf_folder.encode) if options.encode is not None
                    else (options.decode, hf_folder.decode))
    with open(0 if what == "-" else what, "rb") as file:
        text = change(options.from_hf, file.read(), what)
    if options.output:
        command_line.write_whole(options.output, text)
    else:
        sys.stdout.buffer.write(text)


# ---- the command --------------------------------------------------------------------------------

# An option, and the one that it needs.
NEEDS = {"--nanogpt": "RUN", "--to-hf": "RUN", "--corpus": "--nanogpt", "--meta": "--from-nanogpt",
         "--block-size": "--from-hf", "--encode": "--from-hf", "--decode": "--from-hf"}


def read_command():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                 allow_abbrev=False)
    source, target, translated = (parser.add_mutually_exclusive_group(required=required) for required in (True, False, False))
    source.add_argument("run", nargs="?", metavar="RUN", help="a run's folder or a safetensors file")
    target.add_argument("--nanogpt", metavar="FILE", help="load the model into the GPT class of this file, nanoGPT's model.py")
    parser.add_argument("--n-head", type=int, metavar="N",
                        help="number of heads, if the file does not contain it")
    parser.add_argument("--corpus", metavar="FILE", help="measure the loss on this file")
    source.add_argument("--from-nanogpt", metavar="FILE", help="convert nanoGPT's ckpt.pt")
    parser.add_argument("--meta", metavar="FILE", help="meta.pkl of the data set of --from-nanogpt")
    parser.add_argument("--act", choices=("gelu", "gelu-tanh", "relu"), default="gelu",
                        help="activation function of --from-nanogpt: gelu-tanh for a nanoGPT from before May 2023")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the safetensors file to FILE")
    target.add_argument("--to-hf", metavar="FOLDER", help="write a folder for Hugging Face transformers")
    source.add_argument("--from-hf", metavar="FOLDER", help="convert a folder that Hugging Face transformers reads")
    parser.add_argument("--block-size", type=int, metavar="T", help="with --from-hf, take a shorter context of T tokens")
    translated.add_argument("--encode", metavar="TEXT", help="with --from-hf, translate TEXT to characters that stand for "
        "tokens; - is standard input")
    translated.add_argument("--decode", metavar="TEXT", help="with --from-hf, translate such characters back to text")
    options = parser.parse_args()
    if "" in (options.run, options.from_nanogpt, options.from_hf):
        parser.error("RUN, --from-nanogpt and --from-hf: must not be empty")
    given = {name: getattr(options, name.strip("-").replace("-", "_").lower()) for pair in NEEDS.items() for name in pair}
    for name, needed in NEEDS.items():
        if given[name] is not None and given[needed] is None:
            parser.error(f"{name}: only with {needed}")
    if options.output and (options.nanogpt or options.to_hf):
        parser.error("-o: not with --nanogpt and --to-hf")
    if options.run is None and not options.output and options.encode is None and options.decode is None:
        parser.error("--from-nanogpt: needs -o FILE; --from-hf: needs -o FILE, --encode=TEXT or --decode=TEXT")
    return options


def main():
    options = read_command()
    if options.encode is not None or options.decode is not None:
        translate(options)
    elif options.from_hf:
        from_hf(options)
    elif options.from_nanogpt:
        from_nanogpt(options)
    elif options.to_hf:
        print(hf_folder.write(options.run, options.to_hf, options.n_head))
    else:
        load(options)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(command_line.run(command_line.teller("load_pytorch"), main, ModelError))
