"""What bench_pytorch.py times: the model of normlab.py, with what is fastest in PyTorch 1.13 and 2.x in place of its
formulas, and its training step."""
from collections import namedtuple
import itertools
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional

import normlab

# `mkl`: the library that makes MKL use AVX-512, or None. `flush`: denormal numbers become zero. `seeds`: the models that
# are trained at once, by torch.func.vmap if there are several.
Variant = namedtuple("Variant", "tuned mkl compile flush seeds", defaults=(1,))

# L layers, NH heads, C channels, T positions, B sequences, V characters.
Sizes = namedtuple("Sizes", "L NH C T B V")
SIZES = {"cpu": Sizes(4, 4, 128, 64, 12, 65),
         "s": Sizes(4, 4, 64, 64, 12, 65),
         "xs": Sizes(2, 4, 32, 32, 12, 65),
         "baby": Sizes(6, 6, 384, 256, 64, 65),
         "micro": Sizes(1, 4, 16, 16, 1, 27)}
NORMS, PLACEMENTS = ("none", "ln", "bn", "rms"), ("pre", "post")
LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


# ---- the model, with activations (N,C), N = B T tokens -------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))

    def forward(self, x):
        if hasattr(functional, "rms_norm"):
            return functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5))


def make_norm(kind, C, bias):
    layer = {"none": nn.Identity, "ln": nn.LayerNorm, "bn": nn.BatchNorm1d, "rms": RMSNorm}[kind](C)
    if kind in ("ln", "bn") and not bias:
        layer.bias = None
    return layer


class Model(normlab.Model):
    """(ids, targets), each (B*T) -> mean loss."""

    def __init__(self, sizes, norm, placement, bias):
        L, NH, C, T, _, V = sizes
        super().__init__(normlab.Config(V, n_layer=L, n_head=NH, n_embd=C, block_size=T, norm=norm, placement=placement,
                                        bias=bias))
        self.sizes, self.in_vmap = sizes, False
        self.register_buffer("mask", torch.full((T, T), -math.inf).triu(1), persistent=False)
        for layer in self.transformer["h"]:
            layer.ln_1, layer.ln_2 = make_norm(norm, C, bias), make_norm(norm, C, bias)
        self.transformer["ln_f"] = make_norm(norm if placement == "pre" else "none", C, bias)
        with torch.no_grad():
            for name, p in self.named_parameters():
                if p.dim() >= 2:
                    p.normal_(0, 0.02 / math.sqrt(2 * L) if "c_proj" in name else 0.02)
                elif name.endswith("bias"):
                    p.zero_()

    def attend(self, layer, x):
        _, NH, C, T, B, _ = self.sizes
        HS = C // NH
        qkv = layer.attn.c_attn(x).view(B, T, 3, NH, HS).permute(2, 0, 3, 1, 4)  # (3,B,NH,T,HS)
        if hasattr(functional, "scaled_dot_product_attention") and not self.in_vmap:  # there it is slower
            heads = functional.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        else:
            q, k, v = qkv.reshape(3, B * NH, T, HS).unbind(0)
            weights = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(HS)).softmax(-1)
            heads = torch.bmm(weights, v).view(B, NH, T, HS)
        return layer.attn.c_proj(heads.transpose(1, 2).reshape(B * T, C))

    def feed(self, layer, x):
        return layer.mlp.c_proj(functional.gelu(layer.mlp.c_fc(x)))

    def forward(self, ids, targets):
        part, pre = self.transformer, self.config.placement == "pre"
        x = part["wte"](ids) + part["wpe"].weight.repeat(self.sizes.B, 1)
        for layer in part["h"]:
            for function, normalize in ((self.attend, layer.ln_1), (self.feed, layer.ln_2)):
                x = x + function(layer, normalize(x)) if pre else normalize(x + function(layer, x))
        return functional.cross_entropy(functional.linear(part["ln_f"](x), part["wte"].weight), targets)


def make_step(model, loss_of):
    """A function that takes (ids, targets) through one training step.

    Clipping and AdamW see two long tensors, with and without weight decay. The parameters are views of them: in small
    models a call per tensor would cost more than the arithmetic."""
    groups, slabs = [], []
    for decays, decay in ((True, WEIGHT_DECAY), (False, 0.0)):
        members = [p for p in model.parameters() if (p.dim() >= 2) == decays]
        if members:
            slab = nn.Parameter(nn.utils.parameters_to_vector(members).detach())
            nn.utils.vector_to_parameters(slab.detach(), members)
            groups.append({"params": [slab], "weight_decay": decay})
            slabs.append((slab, members))
    try:  # on the CPU from 2.4 on
        optimizer = torch.optim.AdamW(groups, LEARNING_RATE, BETAS, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(groups, LEARNING_RATE, BETAS, foreach=True)

    def step(ids, targets):
        loss_of(ids, targets).backward()
        for slab, members in slabs:
            slab.grad = torch.cat([p.grad.reshape(-1) for p in members])
            for p in members:
                p.grad = None
        norm = math.sqrt(sum(slab.grad.norm().item() ** 2 for slab, _ in slabs))
        if norm > CLIP:
            for slab, _ in slabs:
                slab.grad.mul_(CLIP / norm)
        optimizer.step()

    return step


def make_step_of_seeds(models, compiled):
    """A function that takes (ids, targets), both (seeds, B*T), through one training step of each model.

    Clipping and AdamW see two matrices with a row per model."""
    from torch.func import functional_call, grad, vmap
    model, sizes = models[0], {name: p.shape for name, p in models[0].named_parameters()}
    model.in_vmap = True
    names = [[name for name, shape in sizes.items() if (len(shape) >= 2) == decays] for decays in (True, False)]
    slabs = [nn.Parameter(torch.stack([nn.utils.parameters_to_vector([dict(one.named_parameters())[name] for name in members])
                                       for one in models]).detach()) for members in names]

    def loss_of(rows, ids, targets):
        parameters = {}
        for row, members in zip(rows, names):
            parts = row.split([sizes[name].numel() for name in members])
            parameters.update({name: part.view(sizes[name]) for name, part in zip(members, parts)})
        return functional_call(model, parameters, (ids, targets))

    gradient = vmap(grad(loss_of))
    gradient = torch.compile(gradient) if compiled else gradient
    optimizer = torch.optim.AdamW([{"params": [slab], "weight_decay": decay} for slab, decay in zip(slabs, (WEIGHT_DECAY, 0.0))],
                                  LEARNING_RATE, BETAS, fused=True)

    def step(ids, targets):
        rows = gradient(tuple(slab.detach() for slab in slabs), ids, targets)
        norm = sum(row.square().sum(1, keepdim=True) for row in rows).sqrt()
        for slab, row in zip(slabs, rows):
            slab.grad = row * (CLIP / norm).clamp(max=1)
        optimizer.step()

    return step


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def train(configuration, options, variant):
    """Trains the variant's models on random ids. Returns {"times": [ms of a model's step], "mib": N}."""
    if variant.compile and not hasattr(torch, "compile"):
        sys.exit("this PyTorch has no torch.compile")
    if variant.seeds > 1 and (options.norm == "bn" or not hasattr(torch, "func")):
        sys.exit("torch.func.vmap does not work here: it needs PyTorch 2 and a norm without running statistics")
    # Threads inherit this from the one that starts them, so it comes before PyTorch's own are started.
    if variant.flush and not torch.set_flush_denormal(True):
        sys.exit("PyTorch cannot flush denormal numbers on this machine")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    sizes, mib = SIZES[configuration], peak_mib()
    shape = (sizes.B * sizes.T,) if variant.seeds == 1 else (variant.seeds, sizes.B * sizes.T)
    batches = itertools.cycle([torch.randint(sizes.V, (2, *shape)) for _ in range(16)])
    models = [Model(sizes, options.norm, options.placement, options.bias == "on") for _ in range(variant.seeds)]
    if variant.seeds > 1:
        step = make_step_of_seeds(models, variant.compile)
    else:
        step = make_step(models[0], torch.compile(models[0]) if variant.compile else models[0])
    for seconds in min(1, options.seconds), options.seconds:  # the first fills caches, pages and Adam's moments, and compiles
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step(*next(batches))
            times.append(1e3 * (time.perf_counter() - start) / variant.seeds)
    return {"times": times, "mib": peak_mib() - mib}
