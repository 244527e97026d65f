#!/usr/bin/env python3
"""The golden numbers of the tests: what the model of ./train must compute, according to PyTorch.

  scripts/pytorch/make_golden.py            writes tests/golden/
  scripts/pytorch/make_golden.py --check    computes them again and compares with the files, to 1e-8

The formulas are those of normlab.py, in float64. If PyTorch has a norm itself, normlab.py must agree
with it before anything is written or compared.

The files hold results, not parameters or data, which both sides compute from formulas (start_value,
tokens, batchnorm_case, norm_case). A line is `key count v1 v2 ...`, tensors row-major. A line that
starts with # is a remark. Per model:
    logits, loss, grad:NAME, grad_norm    of the first training step, gradients before clipping; models
                                          that are not in pre have no logits, and instead of gradients
                                          dots:NAME, their dot products with two waves
    losses                                of STEPS training steps, each before its update
    state:NAME                            bn's running statistics after them
    eval_logits, eval_loss                in evaluation mode after them
NORM-pre.txt is one model. placements.txt, connections.txt and blocks.txt have several: NORM-VARIANT:KEY.
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
    command_line.require("make_golden", "golden", "torch")

import torch
from torch import nn
from torch.nn import functional

from pytorch import golden_norms
import normlab
from pytorch import connections, placements, optimizers
from pytorch.golden_norms import B, BN_MOMENTUM, C, EPS, NH, T, V, config, flatten

STEPS, LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 20, 1e-2, (0.9, 0.99), 0.1, 1.0
# The gradient of a bias right before bn is only rounding, which Adam's usual 1e-8 would scale up to
# whole steps, so that running_mean would differ between floats and doubles. This epsilon keeps it small.
ADAM_EPS = 1e-4
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
            **{row: dict(placement=row) for row in
               (*placements.PLACEMENTS, *placements.MIXTURES)},
            # connections that no placement has
            **{f"pre-{name}": dict(connection=name) for name in connections.CONNECTIONS
               if name not in {row.connection for row in placements.PLACEMENTS.values()}}}
VARIANTS |= {f"{name}-{block}": {**VARIANTS[name], **options} for block, options in BLOCKS.items()
             for name in ("pre", "inner", "qkv", *(("ngpt",) if block == "llama" else ()))}

# OPTIMIZER of optimizers.txt: the kind and its options.
OPTIMIZERS = {"adamw": ("adamw", {}), "sgd": ("sgd", {}), "muon": ("muon", {}),
              "sgd-plain": ("sgd", dict(sgd_nesterov=False, sgd_momentum=0.5)),
              "muon-plain": ("muon", dict(muon_nesterov=False, muon_momentum=0.5, muon_steps=3,
                                       muon_lr=0.03))}


def make_model(norm, variant):
    model = normlab.Model(config(norm=norm, mix_fraction=0.5, **VARIANTS[variant]))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            values = [start_value(name, i) for i in range(tensor.numel())]
            tensor.copy_(torch.tensor(values).reshape(tensor.shape))
    return model


def start_value(name, i):
    """The initial value of element i of the parameter `name`."""
    norm_weight = (".ln_" in name or "norm" in name) and name.endswith(".weight")
    return (1 if norm_weight else 0) + 0.4 * math.sin(1.3 * i + sum(name.encode()))


def tokens(step):
    """The batch of a step: ids (B,T) and targets (B,T)."""
    x = torch.tensor([[(3 * b + 2 * t + b * t + step) % V for t in range(T)] for b in range(B)])
    return x, (5 * x + torch.arange(T) + 1) % V


def logits_and_loss(model, step):
    ids, targets = tokens(step)
    logits = model(ids)
    return logits, functional.cross_entropy(logits.reshape(B * T, V), targets.reshape(B * T))


def make_optimizer(kind, model, **options):
    return optimizers.make(kind, model, lr=LEARNING_RATE, beta1=BETAS[0], beta2=BETAS[1],
                                   adam_eps=ADAM_EPS, weight_decay=WEIGHT_DECAY, **options)


def dots(gradient):
    """The dot products of the gradient with two waves."""
    i = torch.arange(gradient.numel()).double()
    waves = torch.stack([torch.cos(0.7 * i), torch.sin(0.7 * i)])
    return waves @ gradient.reshape(-1)


def model_case(norm, variant):
    """The contents of a model's file: (key, values) pairs in order."""
    model, whole = make_model(norm, variant), variant == "pre"
    optimizer = make_optimizer("adamw", model)
    results, losses = [], []
    model.train()
    for step in range(STEPS):
        logits, loss = logits_and_loss(model, step)
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            results += ([("logits", logits)] if whole else []) + [("loss", loss)]
            results += [("grad:" + name, p.grad.clone()) if whole else
                        ("dots:" + name, dots(p.grad)) for name, p in model.named_parameters()]
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        if step == 0:
            results.append(("grad_norm", grad_norm))
        optimizer.step()
        placements.normalize_matrices(model)
    results.append(("losses", torch.tensor(losses)))
    results += [("state:" + name, state) for name, state in model.named_buffers()
                if "running" in name]
    model.eval()
    with torch.no_grad():
        logits, loss = logits_and_loss(model, STEPS)
    results += ([("eval_logits", logits)] if whole else []) + [("eval_loss", loss)]
    return flatten(results)


def models_case(models):
    """A file of several models."""
    return "models: NORM-VARIANT:KEY", 10, [(f"{norm}-{variant}:{key}", values) for norm, variant in models
                                            for key, values in model_case(norm, variant)]


def optimizers_case():
    """Training of a model with grouped queries and a gate: its losses, and two dot products of each
    parameter at the end."""
    results = []
    for name, (kind, options) in OPTIMIZERS.items():
        model, losses = make_model("ln", "pre-gemma"), []
        optimizer = make_optimizer(kind, model, **options)
        for step in range(STEPS):
            _, loss = logits_and_loss(model, step)
            model.zero_grad()
            loss.backward()
            losses.append(loss.item())
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
        results.append((f"{name}:losses", torch.tensor(losses)))
        results += [(f"{name}:dots:{key}", dots(p)) for key, p in model.named_parameters()]
    return flatten(results)


def compare_with_pytorch():
    """Ends the program if a norm differs from PyTorch's own, in training and then in evaluation."""
    x = torch.sin(torch.arange(4.0 * 5 * C)).reshape(4, 5, C)
    tokens_last, time_last = (lambda z: z.reshape(-1, C)), (lambda z: z.transpose(1, 2))
    theirs = {"ln": (nn.LayerNorm(C, EPS), lambda z: z),
              "gn": (nn.GroupNorm(NH, C, EPS), tokens_last),
              "bn": (nn.BatchNorm1d(C, EPS, BN_MOMENTUM), tokens_last),
              "in": (nn.InstanceNorm1d(C, EPS, BN_MOMENTUM, True, True), time_last)}
    for kind, (module, view) in theirs.items():
        ours = normlab.make_norm(kind, C, config())
        for training in (True, True, False):
            difference = view(ours.train(training)(x)) - module.train(training)(view(x))
            if not difference.abs().max() < 1e-12:
                sys.exit(f"make_golden: {kind} of normlab.py differs from PyTorch's")


def all_cases():
    """File name -> (remark, digits written, (key, values) pairs)."""
    cases = {f"{norm}-pre.txt": (f"model with norm {norm}, placement pre", 10, model_case(norm, "pre"))
             for norm in NORMS}
    rows = (*placements.PLACEMENTS, *placements.MIXTURES)
    cases["placements.txt"] = models_case((norm, row) for norm in NORMS for row in rows
                                          if row != "pre" and (norm == "ln" or row == "post"))
    others = [name for name in VARIANTS if name not in rows]
    cases["connections.txt"] = models_case(("ln", name) for name in others if "connection" in VARIANTS[name])
    cases["blocks.txt"] = models_case(("ln", name) for name in others if "connection" not in VARIANTS[name])
    cases["optimizers.txt"] = ("models after training: OPTIMIZER:KEY", 10, optimizers_case())
    cases["batchnorm.txt"] = ("BatchNorm1d alone: KEY:K of batch K", 10, golden_norms.batchnorm_case())
    cases["norms.txt"] = ("norms alone: NORM:KEY:K of batch K", 17, golden_norms.norms_case())
    cases["power.txt"] = ("PowerNorm alone: DIVISOR:KEY:K of batch K", 10, golden_norms.power_case())
    cases["renorm.txt"] = ("Batch Renormalization alone: KEY:K of batch K", 10, golden_norms.renorm_case())
    cases["prepbn.txt"] = ("PRepBN alone: KEY:K of batch K", 10, golden_norms.prepbn_case())
    return cases


def write(path, remark, digits, results):
    with open(path, "w", encoding="ascii") as file:
        file.write(f"# {remark}; by scripts/pytorch/make_golden.py, PyTorch {torch.__version__}, float64\n")
        for key, values in results:
            file.write(" ".join([key, str(len(values)), *(f"{v:.{digits}g}" for v in values)]) + "\n")


def read(path):
    """The (key, values) pairs of a file; ValueError where it is not as write() makes it."""
    results = []
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("#"):
                continue
            words = line.split()
            if len(words) < 3 or len(words) != 2 + int(words[1]):
                raise ValueError(f"not `key count v1 v2 ...`: {line.strip()[:40]}")
            results.append((words[0], [float(word) for word in words[2:]]))
    return results


def first_difference(stored, computed):
    """The first difference between a file's pairs and PyTorch's, in words, or None."""
    if [(k, len(v)) for k, v in stored] != [(k, len(v)) for k, v in computed]:
        return "other keys or sizes than PyTorch's"
    for (key, old), (_, new) in zip(stored, computed):
        for i, (a, b) in enumerate(zip(old, new)):
            if not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                return f"{key}[{i}] is {a:.10g}, PyTorch {torch.__version__} says {b:.10g}"
    return None


def check(folder, cases):
    """The number of files that differ, each named on standard error."""
    wrong = 0
    for name, (_, _, computed) in cases.items():
        path = os.path.join(folder, name)
        try:
            problem = first_difference(read(path), computed)
        except OSError as error:
            problem = error.strerror
        except ValueError as error:
            problem = str(error)
        if problem:
            wrong += 1
            print(f"make_golden: {path}: {problem}", file=sys.stderr)
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description="Makes the golden numbers of the tests with PyTorch.")
    parser.add_argument("--check", action="store_true",
                        help=f"write nothing; compare the files with PyTorch, to {TOLERANCE:g}")
    parser.add_argument("folder", nargs="?", default=os.path.join(ROOT, "tests", "golden"),
                        help="where the files are (default: the project's tests/golden)")
    arguments = parser.parse_args()

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # the same order of sums, and so the same last digits, on every machine
    compare_with_pytorch()
    cases = all_cases()
    if arguments.check:
        wrong = check(arguments.folder, cases)
        if wrong:
            sys.exit(1)
        print(f"make_golden: {len(cases)} files agree with PyTorch {torch.__version__}")
        return
    try:
        for name, case in cases.items():
            write(os.path.join(arguments.folder, name), *case)
    except OSError as error:
        sys.exit(f"make_golden: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
