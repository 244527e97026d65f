#!/usr/bin/env python3
"""Compares normlab.py with ./train, for every norm in every placement and for the related options.

  scripts/pytorch/check_normlab.py                all variants: a line for each that differs, a summary
  scripts/pytorch/check_normlab.py =pn keel       the variants whose options contain one of these words
  scripts/pytorch/check_normlab.py --part=2/4     every fourth variant, from the second on

Each variant is a tiny model that ./train trains for a few updates, so that weights and running
statistics have left their initial values. normlab.py loads it and computes, in double precision, the
loss of a text that the model has not seen: in evaluation mode, to compare with ./train --evaluate, and
in training mode, to compare with --evaluate --stats=own. So are the arrays of --dump, of the first
batch. The relative difference must be at most TOLERANCE. The environment variable TRAIN names another ./train.
"""
import concurrent.futures
import os
import random
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from common import command_line
from common.run_options import RunError, call

if __name__ == "__main__":
    command_line.require("check_normlab", "pytorch", "torch")

import torch

import normlab
from pytorch import model_file, texts
from pytorch.placements import CONNECTIONS

TOLERANCE = 1e-5  # relative
DUMP_TOLERANCE = 1e-3  # of the largest element
say = command_line.teller("check_normlab")
SOURCES = ("running", "own")  # of statistics: in evaluation and in training mode
B, T = 4, 8
TINY = (f"--n-layer=3 --n-head=2 --n-embd=8 --block-size={T} --batch-size={B} --init=xavier "
        "--norm-eps=0.01 --max-iters=6 --warmup-iters=0 --learning-rate=0.02 --eval-interval=1000 "
        "--eval-iters=1 --checkpoint-interval=0 --sample=0 --quiet")


def names(option):
    """The names that --list-norms or another list prints."""
    return [line.split()[0] for line in call(option).splitlines() if line and not line.startswith(" ")]


def connection_variants():
    for connection in names("--list-connections"):
        with_post = ("post", "keel", "mix") if CONNECTIONS[connection].post else ()
        for placement in ("pre", "lns", "peri --dropout=0.2", "bare --items", *with_post):
            for norm in ("ln", "bn"):
                yield f"--norm={norm} --connection={connection} --placement={placement}"


FORMULAS = ("gamma*(x-mean_c(x))/sqrt(var_c(x)+eps)+beta", "gamma*(x-mean_n(x))/sqrt(var_n(x)+eps)+beta",
            "gamma*(x-mean_n(x))/rms_c(x-mean_n(x))+beta", "gamma*x/rms_n(x)*sigmoid(sum_c(x*b)-mean_n(x))+beta;b=0.5",
            "(gamma+alpha*tanh(sum_c(x*b)))*x/rms_c(x);alpha=1;b=0.1", "gamma*(x-mean_c(x))/rms_c(x)+beta;groups",
            "gamma*erf(alpha*x)/(0.3+abs(x))^1.5+max(x,beta)-min(relu(x),s)*exp(-x^2);alpha[1]=dyt_alpha;s[1]=C^-0.5",
            "gamma*stop(1/max_c(abs(x)))*x+log(1+x^2)")


def formula_variants():
    for formula in FORMULAS:
        yield f"--norm={formula} --qk-norm={formula} --ffn-norm=on"
        yield f"--norm={formula} --items --affine=off --v-norm={formula} --qk-norm-over=width --placement=peri"


def variants():
    norms, placements = names("--list-norms"), names("--list-placements")
    for norm in norms:
        for placement in placements:
            yield f"--norm={norm} --placement={placement}"
        yield f"--norm={norm} --placement=mix --mix-fraction=0.67 --qk-norm=on --ffn-norm=on"
        yield f"--norm=ln --qk-norm={norm} --ffn-norm={norm} --placement=post --init=gpt2"
        yield f"--norm={norm} --bias=off --qk-norm=on --act=relu"
        yield f"--norm=rms --qk-norm={norm} --v-norm={norm} --qk-norm-over=width --items"
        yield f"--norm=ln --qk-norm={norm} --attn-norm={norm} --attn-gate=head --qk-scale=learned"
        yield f"--norm={norm} --v-norm=on --placement=post --bias=off --norm-bias=on"
        yield f"--norm={norm} --affine=off --placement=sandwich --ffn-norm=on --act=gelu-tanh"
        yield f"--norm={norm} --items --qk-norm=on --attn-norm=on --placement=reordered"
        yield f"--norm={norm} --items --ffn-norm=on --pad-stats=include --pad-to=block"
        yield f"--norm={norm} --norm-attn=rms --norm-final=bn --placement=peri"
        yield f"--norm=ln --norm-ffn={norm} --norm-final={norm} --placement=residual --level=byte"
    for placement in placements:
        yield f"--norm=bn --bn-axis=batch --placement={placement} --qk-norm=on"
        yield f"--final-norm=on --placement={placement} --dropout=0.2"
        yield f"--final-norm=off --placement={placement} --init=gpt2"
    presets = ("gpt2", "llama", "gemma2", "olmo2", "qwen3")
    for block in (*("--preset=" + preset for preset in presets),
                  "--act=reglu --position=sinusoidal --head=untied --attn-gate=head",
                  "--act=relu2 --position=none", "--act=geglu --ffn-width=14 --rope-theta=20 --position=rope",
                  "--act=silu --attn-softcap=0.5 --logit-softcap=0.3 --attn-gate=element"):
        for kv_heads in (1, 2):
            for norms in ("--norm=ln", "--norm=bn --qk-norm=on", "--norm=cln --items --v-norm=on",
                          "--norm=rms --qk-norm=gn --qk-norm-over=width --qk-scale=learned",
                          "--norm=pn --qk-norm=on --ffn-norm=on --placement=peri"):
                yield f"{block} {norms} --n-kv-head={kv_heads}"
        for placement in placements:
            yield f"{block} --placement={placement}"
    for pair in ("post bare", "bare post", "mix keel", "deepnorm lns", "auto mix", "skipinit rezero",
                 "layerscale rezero", "rezero skipinit", "layerscale admin"):
        attn, ffn = pair.split()
        yield f"--norm=bn --placement=sandwich --placement-attn={attn} --placement-ffn={ffn}"
    yield "--norm=ln --placement=hybrid --qk-norm=none --v-norm=bn --placement-ffn=pre"
    yield "--norm=bn --placement-attn=hybrid --qk-norm=rms --qk-norm-over=width"
    yield "--norm=bn --bn-axis=batch --items --pad-to=block --ffn-norm=on"
    yield "--norm=bn --bn-axis=batch --items --pad-stats=include --affine=off"
    yield "--norm=bn --rbn-mean=0.3 --rbn-var=0.2 --bn-momentum=0.3 --norm-eps=1e-5 --norm-detach-std=on"
    yield "--norm=bn --bn-shards=2 --qk-norm=on --ffn-norm=on --bn-momentum=0.3"
    yield "--norm=bn --bn-shards=3 --norm-eps=0.1 --placement=post"
    yield "--norm=brn --brn-warmup=1 --brn-relax=2 --bn-momentum=0.3 --norm-eps=0.1"
    yield "--norm=brn --brn-warmup=0 --brn-relax=0 --brn-r-max=1.1 --brn-d-max=0.1 --items"
    yield "--norm=in --bn-momentum=0.5 --norm-eps=0.1"
    yield "--norm=gn --norm-groups=4 --ffn-norm=on --qk-norm=on --v-norm=ts --qk-norm-over=width --n-kv-head=2"
    yield "--norm=scale --norm-eps=1 --init=gpt2"
    for init in ("gpt2 --init-std=0.3", "gpt2 --init-embd-std=0.5", "width --placement=tfixup"):
        yield f"--position=sinusoidal --init={init}"
    yield "--norm=l2 --qk-norm=l2 --qk-scale=learned --qk-scale-start=3 --norm-eps=0.3 --init=gpt2"
    yield "--norm=pn --pn-warmup=2 --pn-group-scaling=off --pn-alpha-fwd=0.5"
    yield "--norm=pn --pn-warmup=2 --pn-divisor=batch --pn-alpha-bkw=0.5"
    yield "--norm=prepbn --prepbn-steps=3 --prepbn-eta=0.7 --norm-eps=0.1"
    yield "--norm=derf --dyt-alpha=1.3"
    yield "--norm=rms --rms-fraction=0 --norm-eps=1e-5 --decay-gamma=zero"
    yield "--norm=bhyt --bhyt-lambda=3 --bhyt-kappa=2 --norm-eps=0.1"
    yield "--norm=gated --gated-rank=3 --norm-eps=0.1 --qk-norm=rms --rms-fraction=0.3 --ffn-norm=on"
    yield "--norm=ts --ts-prior-count=3 --items --qk-norm=on --ffn-norm=on"
    yield "--norm=ts --ts-prior-count=2 --norm-groups=8 --placement=post"


def make_texts(folder):
    """A text to train on, and one of two full batches to measure; the same for items, with one batch."""
    stream = random.Random(1)
    words = ["".join(stream.choices("abcdefgh", k=stream.randint(1, 7))) for _ in range(400)]
    lines = ["".join(stream.choices("abcdefgh", k=stream.randint(1, T + 2))) for _ in range(60)]
    texts = {"text": " ".join(words), "measured-text": " ".join(reversed(words))[:2 * B * T + 1],
             "items": "\n".join(lines), "measured-items": "\n".join(lines[:7] + ["", "\t", "a\r"])}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", newline="") as file:
            file.write(text + "\n" * name.endswith("items"))


def run(folder, number, options):
    """Trains a variant. Returns its folder, the text to measure, and ./train's losses of that text: in
    evaluation, and with each batch's own statistics."""
    kind, out = "items" if "--items" in options else "text", os.path.join(folder, str(number))
    call(*TINY.split(), *options.split(), f"--out={out}", os.path.join(folder, kind))
    path = os.path.join(folder, "measured-" + kind)
    batch = f"--batch-size={2 * B if kind == 'items' else B}"  # items: one batch, in any order
    printed = [call(f"--evaluate={out}", batch, f"--stats={stats}", f"--dump={out}/{stats}", path) for stats in SOURCES]
    return out, path, [float(text.split()[1]) for text in printed]


def attention_output(attn, qkv):
    """What attention makes of queries, keys, values and its gate as it reads them, side by side."""
    *parts, gate = qkv.split(attn.parts, -1)
    q, k, v = map(attn.in_heads, parts, attn.counts)
    return attn.output(q @ k.mT / attn.HS ** 0.5, v, gate)


def dump_differences(model, path):
    """The relative difference of each array of a dump from the same one of normlab.py."""
    arrays = {name.removeprefix("transformer."): torch.from_numpy(array)
              for name, array in model_file.read_plain(path)[1].items()}
    ids, valid = arrays.pop("ids"), arrays.pop("valid") == 1
    seen = model.activations(ids, valid)
    pairs = {"head_in": seen["lm_head.in"], "stream.0": seen["h.0.in"], "logits": seen["logits"]}
    norms = {name.removeprefix("transformer.") for name, module in model.named_modules()
             if getattr(module, "kind", "none") != "none"
             and not re.search(r"\.norm[12]", name)}  # the two of prepbn
    dumped = {name.removesuffix(".input") for name in arrays if name.endswith(".input")}
    for name in dumped | {name for name in norms if name in seen}:
        pairs |= {name + ".input": seen[name + ".in"], name + ".output": seen[name]}
    for l, layer in enumerate(model.transformer["h"]):
        attn = f"h.{l}.attn"
        read = "norm" if attn + ".norm.in" in seen else "c_proj"  # what reads attention's output: --attn-norm or the projection
        pairs |= {f"stream.{2 * l + 2}": seen[f"h.{l}"], attn + ".output": seen[f"{attn}.{read}.in"]}
        arrays[attn] = attention_output(layer.attn, arrays[attn + ".qkv"].double())
        pairs[attn] = pairs[attn + ".output"]
    for name, ours in pairs.items():
        theirs = arrays[name].double()
        ours = ours.reshape(theirs.shape)  # PyTorch's norms of heads have rows (B,T NH)
        yield name, ((ours - theirs).abs()[valid].max() / ours[valid].abs().max().clamp(min=1e-3)).item()


def normlab_losses(out, path):
    """The losses of run(), computed by normlab.py, and how far the arrays of its dumps are from normlab.py's."""
    with open(path, newline="") as file:
        text = file.read()
    # The changes make training mode what --stats=own is; in evaluation mode they have no effect.
    model = normlab.load(out, dropout=0.0, pn_warmup=10 ** 9, brn_warmup=10 ** 9, prepbn_steps=0)
    model = model.double().requires_grad_(False)
    batch_size = 2 * B if model.config.items else B
    for source in SOURCES:
        model.train(source == "own")
        arrays = dict(dump_differences(model, os.path.join(out, source)))
        yield texts.evaluate(model, text, batch_size), arrays


def main():
    parser = command_line.Parser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="compare only variants that contain one")
    parser.add_argument("--part", type=command_line.share, default=(1, 1), metavar="K/N",
                        help="every N-th variant, from variant K on")
    options = parser.parse_args()
    (first, step), words = options.part, options.words
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    chosen = [variant for variant in (*connection_variants(), *formula_variants(), *variants())
              if not words or any(word in variant for word in words)][first - 1::step]
    if not chosen:
        parser.error("no such variant")
    wrong, largest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        make_texts(folder)
        runs = pool.map(lambda job: run(folder, *job), enumerate(chosen))
        for options, (out, path, losses) in zip(chosen, runs):
            for mode, loss, (ours, arrays) in zip(("evaluation", "training"), losses, normlab_losses(out, path)):
                difference = abs(ours - loss) / loss
                largest = max(largest, difference)
                off = [f"{name} by {by:.1e}" for name, by in arrays.items() if not by <= DUMP_TOLERANCE]
                off += [f"the loss {loss:.9g} by {difference:.1e}"] if not difference <= TOLERANCE else []
                if off:
                    wrong += 1
                    say(f"{options}: in {mode} mode normlab.py differs: {', '.join(off)}")
    print(f"{len(chosen)} variants in 2 modes: {wrong} differ by more than {TOLERANCE:g}; "
          f"largest relative difference {largest:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(command_line.run(say, main, RunError))
