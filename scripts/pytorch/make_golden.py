#!/usr/bin/env python3
"""The golden numbers of the tests: what the model of ./train must compute, according to PyTorch.

  scripts/pytorch/make_golden.py            adds to tests/golden/ what is missing there
  scripts/pytorch/make_golden.py --all      writes all of it again; lines that agree to 1e-8 stay as they are
  scripts/pytorch/make_golden.py --check    computes them again and compares with the files, to 1e-8

The formulas are those of normlab.py, in float64. If PyTorch has a norm itself, normlab.py must agree
with it before anything is written or compared.

The files hold results, not parameters or data, which both sides compute from formulas (make_model, tokens, pooled,
alone). A line is `key count v1 v2 ...`, tensors row-major, or a remark that starts with #. Per model:
    logits, loss, grad:NAME, grad_norm    of the first training step, gradients before clipping; models
                                          that are not in pre have no logits, and instead of gradients
                                          dots:NAME, their dot products with two waves
    losses                                of STEPS training steps, each before its update
    state:NAME                            bn's running statistics after them
    eval_logits, eval_loss                in evaluation mode after them
placements.txt, connections.txt and blocks.txt have several models: NORM-VARIANT:KEY.
optimizers.txt has losses and dots:NAME of a model after training with each optimizer.
"""
import argparse
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from common import command_line

if __name__ == "__main__":
    command_line.require("make_golden", "pytorch", "torch")

import torch
from torch import nn
from torch.nn import functional

import normlab
from pytorch import norms, optimizers, placements

V, B, T, C, NH, L = 7, 3, 5, 6, 2, 2
EPS, BN_MOMENTUM = 1e-5, 0.1
STEPS, CLIP = 20, 1.0
# The gradient of a bias right before bn is only rounding, which Adam's usual 1e-8 would scale up to
# whole steps, so that running_mean would differ between floats and doubles. This epsilon keeps it small.
RECIPE = dict(lr=1e-2, beta1=0.9, beta2=0.99, weight_decay=0.1, adam_eps=1e-4)
TOLERANCE = 1e-8
NORMS = ("none", "ln", "bn", "rms")
_ROPE = dict(n_embd=8, position="rope", rope_theta=20.0)
BLOCKS = {"llama": dict(**_ROPE, act="swiglu", head="untied", attn_gate="head"),  # of tests/support.c
          "gemma": dict(**_ROPE, act="geglu-tanh", n_kv_head=1, attn_softcap=0.5, logit_softcap=4.0),
          "other": dict(n_embd=8, position="sinusoidal", act="relu2", n_kv_head=1, head="untied",
                        ffn_width=10, attn_gate="element")}
# The second part of a model's name, and what it stands for.
VARIANTS = {"inner": dict(qk_norm="on", ffn_norm="on"),  # pre with norms inside the sub-layers
            "qkv": dict(qk_norm="on", v_norm="on", qk_norm_over="width", qk_scale="learned",
                        embd_scale="learned"),
            "sub": dict(attn_norm="on", ffn_norm="on"),  # the sub-LN of Magneto
            **{row: dict(placement=row) for row in placements.PLACEMENTS},
            # connections that no placement has
            **{f"pre-{name}": dict(connection=name) for name in placements.CONNECTIONS
               if name not in {row.connection for row in placements.PLACEMENTS.values()}}}
VARIANTS |= {f"{name}-{block}": {**VARIANTS[name], **options} for block, options in BLOCKS.items()
             for name in ("pre", "inner", "qkv", "sub", *(("ngpt",) if block == "llama" else ()))}

# OPTIMIZER of optimizers.txt: the kind and its options.
OPTIMIZERS = {"adamw": ("adamw", {}), "sgd": ("sgd", {}), "muon": ("muon", {}),
              "sgd-plain": ("sgd", dict(sgd_nesterov=False, sgd_momentum=0.5)),
              "muon-plain": ("muon", dict(muon_nesterov=False, muon_momentum=0.5, muon_steps=3,
                                       muon_lr=0.03))}


def config(**options):
    return normlab.Config(V, **{"n_layer": L, "n_head": NH, "n_embd": C, "block_size": T,
                                "norm_eps": EPS, "bn_momentum": BN_MOMENTUM, **options})


def make_model(norm, variant):
    model = normlab.Model(config(norm=norm, mix_fraction=0.5, **VARIANTS[variant]))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            norm_weight = (".ln_" in name or "norm" in name) and name.endswith(".weight")
            i = torch.arange(tensor.numel()).reshape(tensor.shape)
            tensor.copy_(norm_weight + 0.4 * torch.sin(1.3 * i + sum(name.encode())))
    return model


def tokens(step):
    """The batch of a step: ids (B,T) and targets (B,T)."""
    x = torch.tensor([[(3 * b + 2 * t + b * t + step) % V for t in range(T)] for b in range(B)])
    return x, (5 * x + torch.arange(T) + 1) % V


def logits_and_loss(model, step):
    ids, targets = tokens(step)
    logits = model(ids)
    return logits, functional.cross_entropy(logits.reshape(B * T, V), targets.reshape(B * T))


def dots(gradient):
    """The dot products of the gradient with two waves."""
    i = torch.arange(gradient.numel()).double()
    waves = torch.stack([torch.cos(0.7 * i), torch.sin(0.7 * i)])
    return waves @ gradient.reshape(-1)


def train(model, kind, **options):
    """Yields logits and loss of each of STEPS training steps, while the model has the gradients before clipping."""
    optimizer = optimizers.make(kind, model, **RECIPE, **options)
    model.train()
    for step in range(STEPS):
        logits, loss = logits_and_loss(model, step)
        model.zero_grad()
        loss.backward()
        yield logits, loss
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        placements.normalize_matrices(model)


def model_case(norm, variant):
    """(key, values) of a model, in order."""
    model, whole = make_model(norm, variant), variant == "pre"
    steps = train(model, "adamw")
    logits, loss = next(steps)
    if whole:
        yield "logits", logits
    yield "loss", loss
    for name, p in model.named_parameters():
        yield ("grad:" + name, p.grad.clone()) if whole else ("dots:" + name, dots(p.grad))
    yield "grad_norm", nn.utils.clip_grad_norm_(model.parameters(), math.inf)
    yield "losses", torch.stack([loss, *(loss for _, loss in steps)])
    yield from (("state:" + name, state) for name, state in model.named_buffers() if "running" in name)
    model.eval()
    logits, loss = logits_and_loss(model, STEPS)
    if whole:
        yield "eval_logits", logits
    yield "eval_loss", loss


def models(pairs):
    """A file of several models."""
    return "models: NORM-VARIANT:KEY", 10, {f"{norm}-{variant}:": model_case(norm, variant) for norm, variant in pairs}


def optimizer_case(kind, options):
    """Training of a model with grouped queries and a gate: its losses, and two dot products of each
    parameter at the end."""
    model = make_model("ln", "pre-gemma")
    yield "losses", torch.stack([loss for _, loss in train(model, kind, **options)])
    yield from (("dots:" + name, dots(p)) for name, p in model.named_parameters())


# ---- norms alone --------------------------------------------------------------------------------

def set_starts(norm, starts):
    """Element i of a parameter becomes first + step i, where starts[NAME] is (first, step); others stay as they are."""
    with torch.no_grad():
        for name, tensor in norm.named_parameters():
            if name in starts:
                first, step = starts[name]
                tensor.copy_((first + step * torch.arange(tensor.numel())).reshape(tensor.shape))


def trained(norm, batches, x_of, dy_of, learned, kept):
    """Yields (key, values) of a norm in training on the batches x_of(k), k = 0, 1, ..., with a backward pass each from
    dy_of(k). learned: the keys of gradients, names of parameters, of which some start with d. kept: the names of running
    statistics. The key rbn_dx is dx with a quarter of the penalty of Regularized BatchNorm (Wang et al. 2022) added to the
    loss."""
    parameters = dict(norm.named_parameters())
    inputs = [parameters[key.removeprefix("d")] for key in learned]
    for k in range(batches):
        x = x_of(k).requires_grad_()
        y = norm(x)
        gradients = torch.autograd.grad(y, [x, *inputs], dy_of(k).reshape(y.shape), retain_graph=True)
        yield f"y:{k}", y
        yield from ((f"{key}:{k}", gradient) for key, gradient in zip(["dx", *learned], gradients))
        yield from ((f"{name}:{k}", getattr(norm, name).clone()) for name in kept)
        if getattr(norm, "penalty", 0):
            yield f"rbn_dx:{k}", gradients[0] + torch.autograd.grad(norm.penalty / 4, x)[0]


POOLING_START = {"weight": (1, 0.1), "bias": (0, 0.2), "norm1.weight": (1, 0.1), "norm2.bn.weight": (1, -0.1)}


def pooled(kind, options, size, offset, learned="", kept="", wave=0):
    """trained(), and the output in evaluation. size: numbers of batches, sequences, positions and channels."""
    batches, sequences, positions, channels = size
    norm = norms.make_norm(kind, channels, config(**options))
    set_starts(norm, POOLING_START)
    n, c = torch.arange(sequences * positions).unsqueeze(1).double(), torch.arange(channels).double()

    def x_of(k):
        return (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + offset * c).reshape(size[1:])

    yield from trained(norm, batches, x_of, lambda k: torch.cos(0.3 * n * (c + wave) + k), learned.split(), kept.split())
    yield f"{'eval_' if kept else ''}y:{batches}", norm.eval()(x_of(batches))


def pooling_cases():
    """BatchNorm; the same by position (--bn-axis=batch); PowerNorm (Shen et al. 2020) in both divisors with group scaling,
    where two batches are warm-up; Batch Renormalization (Ioffe 2017), the first batch as bn, with limits that grow over
    three; PRepBN (Guo et al. 2024) of 3 steps."""
    running, power = "running_mean running_var", dict(pn_warmup=2, pn_alpha_fwd=0.9, pn_alpha_bkw=0.8)
    return {
        "bn:": pooled("bn", dict(rbn_mean=0.7, rbn_var=0.4), (3, 1, 10, 3), 1, "dweight dbias", running),
        "bn:position_": pooled("bn", dict(block_size=2, bn_axis="batch"), (3, 5, 2, 3), 1, "dweight", running),
        **{f"pn:{divisor}:": pooled("pn", dict(power, pn_divisor=divisor), (5, 1, 5, 4), 0.5, kept="running_phi ema_gz")
           for divisor in ("psi", "batch")},
        "brn:": pooled("brn", dict(brn_r_max=1.5, brn_d_max=0.4, brn_warmup=1, brn_relax=3), (6, 1, 5, 4), 0.5,
                       "dweight dbias", running, wave=1),
        "prepbn:": pooled("prepbn", dict(prepbn_steps=3, prepbn_eta=0.5), (4, 1, 5, 4), 0.5,
                          "norm1.weight norm1.bias norm2.alpha norm2.bn.weight norm2.bn.bias")}


# Of alone(): (B,T,C).
ALONE_B, ALONE_T, ALONE_C = 2, 3, 6
ALONE_OPTIONS = dict(norm_groups=2, ts_prior_count=3, bhyt_kappa=2.0, gated_rank=2)
ALONE = ("ln", "rms", "scale", "l2", "gn", "in", "dyt", "derf", "cln", "ts", "seednorm", "bhyt", "gated")
# The first element of a parameter; each adds 0.1 to the one before.
ALONE_START = {"alpha": 0.7, "shift": -0.3, "scale": 1.9, "weight": 1.1, "bias": 0.2,
               "prior_mean": 0.4, "prior_logv": -0.5, "beta": -0.2, "lam": 1.7, "down": -0.6, "up": -0.5}


def alone(kind, **options):
    """One norm alone: training on batch 0, where there are running statistics on batch 1 too, then evaluation of the last
    with its dy."""
    norm = norms.make_norm(kind, ALONE_C, config(**ALONE_OPTIONS, **options))
    set_starts(norm, {name: (start, 0.1) for name, start in ALONE_START.items()})
    state = [name for name, _ in norm.named_buffers() if "running" in name]
    i = torch.arange(ALONE_B * ALONE_T * ALONE_C).double()

    def x_of(k):
        return (torch.sin(1.7 * i + k) * (1 + i % ALONE_C) + i % 3).reshape(ALONE_B, ALONE_T, ALONE_C)

    def dy_of(k):
        return torch.cos(0.9 * i * i + k)
    yield from trained(norm, 2 if state else 1, x_of, dy_of, ["d" + name for name, _ in norm.named_parameters()], state)
    if state:
        x = x_of(1).requires_grad_()
        y = norm.eval()(x)
        yield "eval_y", y
        yield "eval_dx", torch.autograd.grad(y, x, dy_of(1).reshape(y.shape), retain_graph=True)[0]


# ---- the files ----------------------------------------------------------------------------------

def compare_with_pytorch():
    """Ends the program if a norm differs from PyTorch's own, in training and then in evaluation."""
    x = torch.sin(torch.arange(4.0 * 5 * C)).reshape(4, 5, C)
    tokens_last, time_last = (lambda z: z.reshape(-1, C)), (lambda z: z.transpose(1, 2))
    theirs = {"ln": (nn.LayerNorm(C, EPS), lambda z: z),
              "gn": (nn.GroupNorm(NH, C, EPS), tokens_last),
              "bn": (nn.BatchNorm1d(C, EPS, BN_MOMENTUM), tokens_last),
              "in": (nn.InstanceNorm1d(C, EPS, BN_MOMENTUM, True, True), time_last)}
    for kind, (module, view) in theirs.items():
        ours = norms.make_norm(kind, C, config())
        for training in (True, True, False):
            difference = view(ours.train(training)(x)) - module.train(training)(view(x))
            if not difference.abs().max() < 1e-12:
                sys.exit(f"make_golden: {kind} of normlab.py differs from PyTorch's")


def all_cases():
    """File name -> (remark, digits written, {start of keys: (rest of a key, values) pairs})."""
    rows = placements.PLACEMENTS
    others = [name for name in VARIANTS if name not in rows]
    return {
        "placements.txt": models((norm, row) for norm in NORMS for row in rows
                                 if norm == "ln" or row in ("pre", "post")),
        "connections.txt": models(("ln", name) for name in others if "connection" in VARIANTS[name]),
        "blocks.txt": models(("ln", name) for name in others if "connection" not in VARIANTS[name]),
        "optimizers.txt": ("models after training: OPTIMIZER:KEY", 10, {
            f"{name}:": optimizer_case(*kind) for name, kind in OPTIMIZERS.items()}),
        "norms.txt": ("norms alone: NORM:KEY:K of batch K", 17, {
            **{f"{kind}:": alone(kind) for kind in ALONE}, "rms-fraction:": alone("rms", rms_fraction=0.4),
            **{f"{kind}-detach-{statistic}:": alone(kind, **{f"norm_detach_{statistic}": True})
               for kind, statistic in (("ln", "mean"), ("ln", "std"), ("rms", "std"), ("bn", "mean"), ("bn", "std"))}}),
        "pooling.txt": ("norms that pool over tokens, alone: NORM:KEY:K of batch K", 10, pooling_cases())}


def agrees(line, values):
    """Whether a stored line has these values."""
    stored = list(map(float, line.split()[2:]))
    return len(stored) == len(values) and all(
        math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for old, new in zip(stored, values))


def wanted_lines(lines, remark, digits, cases):
    """The lines of a file of these cases that now has `lines`. A line that agrees with PyTorch is kept: on another
    processor the last digits differ."""
    stored = {line.split()[0]: line for line in lines}
    yield f"# {remark}; by scripts/pytorch/make_golden.py, float64\n"
    for key, tensor in ((start + key, tensor) for start, results in cases.items() for key, tensor in results):
        values, line = tensor.detach().reshape(-1).tolist(), stored.get(key, "")
        yield line if agrees(line, values) else " ".join(
            [key, str(len(values)), *(f"{v:.{digits}g}" for v in values)]) + "\n"


def with_missing(lines, wanted):
    """The lines, and those of `wanted` whose keys they have not, each after the one that precedes it in `wanted`."""
    lines, keys, place = lines[:], [line.split()[0] for line in lines], 0
    for line in wanted:
        key = line.split()[0]
        if key in keys:
            place = keys.index(key)
        else:
            lines.insert(place, line)
            keys.insert(place, key)
        place += 1
    return lines


def update(path, case, arguments):
    """Writes the file, unless `arguments` say to check it. Says how many lines of the result are not PyTorch's, and returns
    this number."""
    lines = []
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            lines = file.readlines()
    wanted = list(wanted_lines(lines, *case))
    new = lines if arguments.check else wanted if arguments.all else with_missing(lines, wanted)
    if new != lines:
        with open(path, "w", encoding="ascii") as file:
            file.writelines(new)
        print(f"make_golden: {path}: {len(set(new) - set(lines))} new lines")
    differing = [line for line in wanted if line not in new] + [line for line in new if line not in wanted]
    names = list(dict.fromkeys(line.split()[0] for line in differing))
    if names:
        left = "" if arguments.check else " (it was left: --all writes it again)"
        more = f" (nor are {len(names) - 1} further lines)" if len(names) > 1 else ""
        print(f"make_golden: {path}: {names[0]} is not what PyTorch {torch.__version__} says{more}{left}", file=sys.stderr)
    return len(names)


def main():
    parser = argparse.ArgumentParser(description="Makes the golden numbers of the tests with PyTorch.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true",
                     help=f"write nothing; compare the files with PyTorch, to {TOLERANCE:g}")
    how.add_argument("--all", action="store_true",
                     help="write all of the files again (default: only add what is missing)")
    parser.add_argument("folder", nargs="?", default=os.path.join(ROOT, "tests", "golden"),
                        help="where the files are (default: the project's tests/golden)")
    arguments = parser.parse_args()

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # the same order of sums, and so the same last digits, on every machine
    compare_with_pytorch()
    cases = all_cases()
    try:
        wrong = [update(os.path.join(arguments.folder, name), case, arguments) for name, case in cases.items()]
    except OSError as error:
        sys.exit(f"make_golden: {error.filename}: {error.strerror}")
    if arguments.check:
        sys.exit(1 if any(wrong) else print(f"make_golden: {len(cases)} files agree with PyTorch {torch.__version__}"))


if __name__ == "__main__":
    main()
