#!/usr/bin/env python3
"""The process that bench_pytorch.py times: the model of ./train, written for speed in PyTorch 1.13 and 2.x,
and its training step.

Activations are (N,C), N = B T tokens. The tensors have the names of ./train's. For each line on standard
input it trains for a while; each answer is a line of JSON: {"ready": true} once, then {"times": [ms], "mib": N,
"cpu": seconds}, or {"error": why}.
"""
from collections import namedtuple
import argparse
import json
import math
import os
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import bench_pytorch as recipe  # noqa: E402

FLASH = hasattr(functional, "scaled_dot_product_attention")

# sizes of bench_pytorch.py; `bias`: in linear maps and norms; `onednn`: linear maps by oneDNN.
Config = namedtuple("Config", "sizes norm placement bias onednn")


# ---- norms and linear maps ----------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))

    def forward(self, x):
        if hasattr(functional, "rms_norm"):
            return functional.rms_norm(x, self.weight.shape, self.weight, recipe.EPS)
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + recipe.EPS))


def make_norm(config):
    C = config.sizes.C
    if config.norm == "none":
        return nn.Identity()
    if config.norm == "rms":
        return RMSNorm(C)
    layer = nn.LayerNorm(C, eps=recipe.EPS) if config.norm == "ln" else \
        nn.BatchNorm1d(C, eps=recipe.EPS, momentum=recipe.BN_MOMENTUM)
    if not config.bias:
        layer.bias = None
    return layer


def convolve(x, weight, bias=None):
    """x weight^T: x (N,I) becomes an image of I channels, 1 by N, with its channels last."""
    image = x.view(1, 1, *x.shape).permute(0, 3, 1, 2)
    y = functional.conv2d(image, weight.view(*weight.shape, 1, 1), bias)
    return y.permute(0, 2, 3, 1).reshape(len(x), -1)


class Convolution(torch.autograd.Function):
    """x weight^T + bias. oneDNN computes y and dx, BLAS the gradient of the weights."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.bias = bias is not None
        return convolve(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dx = convolve(dy, weight.t().contiguous())
        return dx, dy.t() @ x, dy.sum(0) if ctx.bias else None


class OneDNNLinear(nn.Linear):
    def forward(self, x):
        return Convolution.apply(x, self.weight, self.bias)


def make_linear(inputs, outputs, config):
    return (OneDNNLinear if config.onednn else nn.Linear)(inputs, outputs, config.bias)


# ---- the Transformer ----------------------------------------------------------------------------

class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.sizes = config.sizes
        C, T = self.sizes.C, self.sizes.T
        self.c_attn = make_linear(C, 3 * C, config)
        self.c_proj = make_linear(C, C, config)
        if not FLASH:
            future = torch.full((T, T), -math.inf).triu(1)
            self.register_buffer("mask", future, persistent=False)

    def forward(self, x):  # (B*T,C)
        _, NH, C, T, B, _ = self.sizes
        HS = C // NH
        qkv = self.c_attn(x).view(B, T, 3, NH, HS).permute(2, 0, 3, 1, 4)  # (3,B,NH,T,HS)
        if FLASH:
            q, k, v = qkv.unbind(0)
            heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            q, k, v = qkv.reshape(3, B * NH, T, HS).unbind(0)
            weights = torch.baddbmm(self.mask, q, k.transpose(1, 2),
                                    alpha=1 / math.sqrt(HS)).softmax(-1)
            heads = torch.bmm(weights, v).view(B, NH, T, HS)
        return self.c_proj(heads.transpose(1, 2).reshape(B * T, C))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config.sizes.C
        self.c_fc = make_linear(C, 4 * C, config)
        self.c_proj = make_linear(4 * C, C, config)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x)))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.pre = config.placement == "pre"
        self.ln_1, self.attn = make_norm(config), Attention(config)
        self.ln_2, self.mlp = make_norm(config), MLP(config)

    def forward(self, x):
        for function, normalize in ((self.attn, self.ln_1), (self.mlp, self.ln_2)):
            x = x + function(normalize(x)) if self.pre else normalize(x + function(x))
        return x


class Model(nn.Module):
    """(ids, targets), each (B*T) -> mean loss."""

    def __init__(self, config):
        super().__init__()
        self.sizes = config.sizes
        L, _, C, T, _, V = self.sizes
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(V, C),
            "wpe": nn.Embedding(T, C),
            "h": nn.ModuleList(Layer(config) for _ in range(L)),
            "ln_f": make_norm(config) if config.placement == "pre" else nn.Identity(),
        })
        with torch.no_grad():
            for name, p in self.named_parameters():
                if p.dim() >= 2:
                    p.normal_(0, 0.02 / math.sqrt(2 * L) if "c_proj" in name else 0.02)
                elif name.endswith("bias"):
                    p.zero_()

    def logits(self, ids):
        part, (_, _, C, T, B, _) = self.transformer, self.sizes
        x = (part["wte"](ids).view(B, T, C) + part["wpe"].weight).view(B * T, C)
        for layer in part["h"]:
            x = layer(x)
        return functional.linear(part["ln_f"](x), part["wte"].weight)

    def forward(self, ids, targets):
        return functional.cross_entropy(self.logits(ids), targets)


# ---- the training step --------------------------------------------------------------------------

def make_step(model, loss_of):
    """A function that takes (ids, targets) through one training step.

    Clipping and AdamW see two long tensors, with and without weight decay. The parameters are views
    of them: in small models a call per tensor would cost more than the arithmetic."""
    groups, slabs = [], []
    for decays, decay in ((True, recipe.WEIGHT_DECAY), (False, 0.0)):
        members = [p for p in model.parameters() if (p.dim() >= 2) == decays]
        if members:
            slab = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in members]))
            for p, part in zip(members, slab.detach().split([p.numel() for p in members])):
                p.data = part.view(p.shape)
            groups.append({"params": [slab], "weight_decay": decay})
            slabs.append((slab, members))

    try:  # on the CPU from 2.4 on
        optimizer = torch.optim.AdamW(groups, recipe.LEARNING_RATE, recipe.BETAS, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(groups, recipe.LEARNING_RATE, recipe.BETAS, foreach=True)

    def step(ids, targets):
        loss_of(ids, targets).backward()
        for slab, members in slabs:
            slab.grad = torch.cat([p.grad.reshape(-1) for p in members])
            for p in members:
                p.grad = None
        norm = math.sqrt(sum(slab.grad.norm().item() ** 2 for slab, _ in slabs))
        if norm > recipe.CLIP:
            for slab, _ in slabs:
                slab.grad.mul_(recipe.CLIP / norm)
        optimizer.step()

    return step


# ---- the check ----------------------------------------------------------------------------------

def largest_gradient_difference(onednn):
    """The largest difference between a gradient here and in make_golden.py, in double precision, for
    that file's sizes, over all norms and placements."""
    from pytorch import make_golden as golden
    torch.set_default_dtype(torch.float64)
    sizes = recipe.Sizes(golden.config().n_layer, golden.NH, golden.C, golden.T, golden.B, golden.V)
    largest = 0.0
    for norm in recipe.NORMS:
        for placement in recipe.PLACEMENTS:
            theirs = golden.make_model(norm, placement)
            ours = Model(Config(sizes, norm, placement, True, onednn))
            ours.load_state_dict({name: tensor for name, tensor in theirs.state_dict().items()
                                  if name != "lm_head.weight"})  # it is wte's
            ids, targets = golden.tokens(0)
            _, loss = golden.logits_and_loss(theirs, 0)
            loss.backward()
            ours(ids.reshape(-1), targets.reshape(-1)).backward()
            gradients = {name: p.grad for name, p in ours.named_parameters()}
            for name, p in theirs.named_parameters():
                largest = max(largest, (p.grad - gradients.pop(name)).abs().max().item())
            assert not gradients, gradients.keys()
    return largest


# ---- the process ---------------------------------------------------------------------------------

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(**values):
    print(json.dumps(values), flush=True)


class Trainer:
    """Trains one model. The batches are random ids."""

    def __init__(self, options):
        torch.set_num_threads(options.threads)
        torch.manual_seed(1)
        sizes = recipe.SIZES[options.only]
        self.batches = [torch.randint(sizes.V, (2, sizes.B * sizes.T)) for _ in range(16)]
        self.mib_before = peak_mib()
        model = Model(Config(sizes, options.norm, options.placement,
                                                     options.bias == "on", options.onednn))
        self.step = make_step(model, torch.compile(model) if options.compile else model)
        self.steps = 0

    def train(self, seconds):
        """The times, in ms, of the steps that fit in; at least one step."""
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            ids, targets = self.batches[self.steps % len(self.batches)]
            start = time.perf_counter()
            self.step(ids, targets)
            times.append(1e3 * (time.perf_counter() - start))
            self.steps += 1
        return times


def read_command():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(recipe.SIZES), required=True)
    parser.add_argument("--norm", choices=recipe.NORMS, required=True)
    parser.add_argument("--placement", choices=recipe.PLACEMENTS, required=True)
    parser.add_argument("--bias", choices=("on", "off"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--onednn", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--flush-denormals", action="store_true")
    return parser.parse_args()


def main():
    options = read_command()
    if options.compile and not hasattr(torch, "compile"):
        return answer(error="it has no torch.compile")
    if options.onednn and not torch.backends.mkldnn.is_available():
        return answer(error="it was built without oneDNN")
    # Threads inherit this from the one that starts them, so it comes before PyTorch's own are started.
    if options.flush_denormals and not torch.set_flush_denormal(True):
        return answer(error="it cannot flush denormal numbers here")
    trainer = Trainer(options)
    trainer.train(min(1, options.seconds))  # fills caches, pages and Adam's moments, and compiles
    answer(ready=True)
    for _ in sys.stdin:
        cpu = time.process_time()
        times = trainer.train(options.seconds)
        answer(times=times, mib=peak_mib() - trainer.mib_before, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    main()
