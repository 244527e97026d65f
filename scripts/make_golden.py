#!/usr/bin/env python3
"""The golden numbers of the tests: what the model of ./train must compute, according to PyTorch.

  scripts/make_golden.py            writes tests/golden/: NORM-PLACEMENT.txt, batchnorm.txt, norms.txt
  scripts/make_golden.py --check    computes them again and compares with the files, to 1e-8

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
"""
import argparse
import math
import os
import sys

import system_python

if __name__ == "__main__":
    system_python.require("make_golden", "golden", "torch")

import torch
from torch import nn
from torch.nn import functional

import normlab
import normlab_ngpt
import normlab_placements

V, B, T, C, NH, L = 7, 3, 5, 6, 2, 2
EPS, BN_MOMENTUM = 1e-5, 0.1
STEPS, LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 20, 1e-2, (0.9, 0.99), 0.1, 1.0
# The gradient of a bias right before bn is only rounding, which Adam's usual 1e-8 would scale up to
# whole steps, so that running_mean would differ between floats and doubles. This epsilon keeps it small.
ADAM_EPS = 1e-4
TOLERANCE = 1e-8
NORMS = ("none", "ln", "bn", "rms")
INNER = {"inner": dict(qk_norm="on", ffn_norm="on"),  # pre with norms inside the sub-layers
         "qkv": dict(qk_norm="on", v_norm="on", qk_norm_over="width", qk_scale="learned")}
PLACEMENTS = (*INNER, *normlab_placements.ROWS, *normlab_placements.MIXTURES)


def config(**options):
    return normlab.Config(V, **{"n_layer": L, "n_head": NH, "n_embd": C, "block_size": T,
                                "norm_eps": EPS, "bn_momentum": BN_MOMENTUM, **options})


def make_model(norm, placement):
    inner, place = INNER.get(placement, {}), "pre" if placement in INNER else placement
    model = normlab.Model(config(norm=norm, placement=place, mix_fraction=0.5, **inner))
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


def adamw(model):
    """Weight decay acts on matrices, the embeddings among them, not on biases and norms."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=LEARNING_RATE, betas=BETAS, eps=ADAM_EPS)


def dots(gradient):
    """The dot products of the gradient with two waves."""
    i = torch.arange(gradient.numel()).double()
    waves = torch.stack([torch.cos(0.7 * i), torch.sin(0.7 * i)])
    return waves @ gradient.reshape(-1)


def model_case(norm, placement):
    """The contents of a model's file: (key, values) pairs in order."""
    model, whole = make_model(norm, placement), placement == "pre"
    optimizer = adamw(model)
    results, losses = [], []
    model.train()
    for step in range(STEPS):
        logits, loss = logits_and_loss(model, step)
        optimizer.zero_grad()
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
        normlab_ngpt.normalize_matrices(model)
    results.append(("losses", torch.tensor(losses)))
    results += [("state:" + name, state) for name, state in model.named_buffers()
                if "running" in name]
    model.eval()
    with torch.no_grad():
        logits, loss = logits_and_loss(model, STEPS)
    results += ([("eval_logits", logits)] if whole else []) + [("eval_loss", loss)]
    return flatten(results)


def batchnorm_case():
    """BatchNorm alone: training on batches k = 0, 1, 2, each with a backward of its own (the
    gradients are not summed over k), then evaluation on batch 3. rbn_dx: with a quarter of the
    penalty of Regularized BatchNorm (Wang et al. 2022) in the loss. position_KEY: the samples as 5
    sequences of 2 tokens, whose channels are features of their own (--bn-axis=batch)."""
    samples, channels, batches, positions = 10, 3, 3, 2
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.BatchNorm(channels, config(rbn_mean=0.7, rbn_var=0.4))
    by_position = normlab.PositionBatchNorm(channels, config(block_size=positions))
    both = (("", norm, (1, samples, channels)),
            ("position_", by_position, (-1, positions, channels)))
    with torch.no_grad():
        for _, module, _ in both:
            module.weight.copy_(1 + 0.1 * c)
            module.bias.copy_(0.2 * c)
    results = []
    for k in range(batches + 1):
        for prefix, module, shape in both:
            module.train(k < batches)
            x = torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + c
            x.requires_grad_()
            y = module(x.reshape(shape)).reshape(x.shape)
            if k == batches:
                results.append((f"{prefix}eval_y:{k}", y))
                continue
            dx, *gradients = torch.autograd.grad(y, (x, module.weight, module.bias),
                                                 torch.cos(0.3 * n * c + k), retain_graph=True)
            results += [(f"{prefix}y:{k}", y), (f"{prefix}dx:{k}", dx)]
            results += [(f"{prefix}d{name}:{k}", gradient)
                        for name, gradient in zip(("weight", "bias"), gradients)
                        if not prefix or name == "weight"]
            results += [(f"{prefix}{name}:{k}", getattr(module, name).clone())
                        for name in ("running_mean", "running_var")]
            if not prefix:
                of_penalty, = torch.autograd.grad(module.penalty / 4, x)
                results.append((f"rbn_dx:{k}", dx + of_penalty))
    return flatten(results)


# Norms alone, of (B,T,C).
ALONE_B, ALONE_T, ALONE_C = 2, 3, 6
ALONE_OPTIONS = dict(norm_groups=2, ts_prior_count=3, bhyt_kappa=2.0)
ALONE = ("ln", "rms", "scale", "l2", "gn", "in", "dyt", "derf", "cln", "ts", "seednorm", "bhyt")
# Element i of a parameter starts at this and 0.1 i.
ALONE_START = {"alpha": 0.7, "shift": -0.3, "scale": 1.9, "weight": 1.1, "bias": 0.2,
               "prior_mean": 0.4, "prior_logv": -0.5, "beta": -0.2, "lam": 1.7}


def norm_case(norm):
    """One norm alone: training on batch 0, where there are running statistics on batch 1 too, each
    with a backward of its own, then evaluation of the last with its dy."""
    with torch.no_grad():
        for name, tensor in norm.named_parameters():
            steps = 0.1 * torch.arange(tensor.numel()).double()
            tensor.copy_((ALONE_START[name] + steps).reshape(tensor.shape))
    state = [name for name, _ in norm.named_buffers() if "running" in name]
    i = torch.arange(ALONE_B * ALONE_T * ALONE_C).double()
    results = []
    for k in range(2 if state else 1):
        x = (torch.sin(1.7 * i + k) * (1 + i % ALONE_C) + i % 3).reshape(ALONE_B, ALONE_T, ALONE_C)
        x.requires_grad_()
        y = norm(x)
        dy = torch.cos(0.9 * i * i + k).reshape(y.shape)
        names = [name for name, _ in norm.named_parameters()]
        dx, *gradients = torch.autograd.grad(y, [x, *norm.parameters()], dy)
        results += [(f"y:{k}", y), (f"dx:{k}", dx)]
        results += [(f"d{name}:{k}", d) for name, d in zip(names, gradients)]
        results += [(f"{name}:{k}", getattr(norm, name).clone()) for name in state]
    if state:
        norm.eval()
        x = x.detach().requires_grad_()
        y = norm(x)
        dx, = torch.autograd.grad(y, x, dy)
        results += [("eval_y", y), ("eval_dx", dx)]
    return flatten(results)


def norms_case():
    cases = [(kind, kind, {}) for kind in ALONE] + [("rms-fraction", "rms", {"rms_fraction": 0.4})]
    return [(f"{name}:{key}", values) for name, kind, options in cases for key, values in norm_case(
        normlab.make_norm(kind, ALONE_C, config(**ALONE_OPTIONS, **options)))]


def power_case():
    """PowerNorm (Shen et al. 2020) in both divisors with group scaling: training on batches
    k = 0 .. 4, of which the first two are warm-up, each with a backward of its own; then evaluation
    on batch 5. DIVISOR:KEY:K."""
    samples, channels, batches = 5, 4, 5
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    results = []
    for divisor in ("psi", "batch"):
        norm = normlab.PowerNorm(channels, config(
            pn_warmup=2, pn_alpha_fwd=0.9, pn_alpha_bkw=0.8, pn_divisor=divisor))
        with torch.no_grad():
            norm.weight.copy_(1 + 0.1 * c)
            norm.bias.copy_(0.2 * c)
        for k in range(batches + 1):
            x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
            y = norm.train(k < batches)(x[None])[0]
            if k == batches:
                results.append((f"{divisor}:eval_y:{k}", y))
                break
            dx, = torch.autograd.grad(y, x, torch.cos(0.3 * n * c + k))
            results += [(f"{divisor}:y:{k}", y), (f"{divisor}:dx:{k}", dx),
                        (f"{divisor}:running_phi:{k}", norm.running_phi.clone()),
                        (f"{divisor}:ema_gz:{k}", norm.ema_gz.clone())]
    return flatten(results)


def renorm_case():
    """Batch Renormalization (Ioffe 2017), r_max 1.5, d_max 0.4, the first batch as bn, limits that grow
    over three: training on batches k = 0 .. 5, then evaluation on batch 6."""
    samples, channels, batches = 5, 4, 6
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.BatchRenorm(channels, config(brn_r_max=1.5, brn_d_max=0.4, brn_warmup=1,
                                                brn_relax=3))
    with torch.no_grad():
        norm.weight.copy_(1 + 0.1 * c)
        norm.bias.copy_(0.2 * c)
    results = []
    for k in range(batches + 1):
        x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
        y = norm.train(k < batches)(x[None])[0]
        if k == batches:
            results.append((f"eval_y:{k}", y))
            break
        dy = torch.cos(0.3 * n * (c + 1) + k)
        gradients = torch.autograd.grad(y, (x, norm.weight, norm.bias), dy)
        results += [(f"y:{k}", y), *zip((f"dx:{k}", f"dweight:{k}", f"dbias:{k}"), gradients)]
        results += [(f"{name}:{k}", getattr(norm, name).clone())
                    for name in ("running_mean", "running_var")]
    return flatten(results)


def prepbn_case():
    """PRepBN (Guo et al. 2024), 3 steps, eta 0.5: training on batches k = 0 .. 3, then evaluation
    on batch 4."""
    samples, channels, batches = 5, 4, 4
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.PRepBN(channels, config(prepbn_steps=3, prepbn_eta=0.5))
    with torch.no_grad():
        norm.norm1.weight.copy_(1 + 0.1 * c)
        norm.norm2.bn.weight.copy_(1 - 0.1 * c)
    results = []
    for k in range(batches + 1):
        x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
        y = norm.train(k < batches)(x[None])[0]
        results.append((f"y:{k}", y))
        if k < batches:
            keys = ["dx", *(name for name, _ in norm.named_parameters())]
            gradients = torch.autograd.grad(y, (x, *norm.parameters()), torch.cos(0.3 * n * c + k))
            results += [(f"{key}:{k}", gradient) for key, gradient in zip(keys, gradients)]
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


def flatten(results):
    return [(key, tensor.detach().reshape(-1).tolist()) for key, tensor in results]


def all_cases():
    """File name -> (remark, digits written, (key, values) pairs)."""
    cases = {f"{norm}-{placement}.txt": (f"model with norm {norm}, placement {placement}", 10,
                                         model_case(norm, placement))
             for norm in NORMS for placement in PLACEMENTS
             if norm == "ln" or placement in ("pre", "post")}
    cases["batchnorm.txt"] = ("BatchNorm1d alone: KEY:K of batch K", 10, batchnorm_case())
    cases["norms.txt"] = ("norms alone: NORM:KEY:K of batch K", 17, norms_case())
    cases["power.txt"] = ("PowerNorm alone: DIVISOR:KEY:K of batch K", 10, power_case())
    cases["renorm.txt"] = ("Batch Renormalization alone: KEY:K of batch K", 10, renorm_case())
    cases["prepbn.txt"] = ("PRepBN alone: KEY:K of batch K", 10, prepbn_case())
    return cases


def write(path, remark, digits, results):
    with open(path, "w", encoding="ascii") as file:
        file.write(f"# {remark}; by scripts/make_golden.py, PyTorch {torch.__version__}, float64\n")
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
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(
        description="Makes the golden numbers of the tests with PyTorch.")
    parser.add_argument("--check", action="store_true",
                        help=f"write nothing; compare the files with PyTorch, to {TOLERANCE:g}")
    parser.add_argument("folder", nargs="?", default=os.path.join(root, "tests", "golden"),
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
