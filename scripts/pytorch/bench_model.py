"""What bench_pytorch.py times: the model of ./train, written for speed in PyTorch 1.13 and 2.x, and its training step."""
from collections import namedtuple
import itertools
import math
import resource
import time

import torch
from torch import nn
from torch.nn import functional

# `mkl`: the library that makes MKL use AVX-512, or None. `flush`: denormal numbers become zero.
Variant = namedtuple("Variant", "tuned mkl onednn compile flush")

# L layers, NH heads, C channels, T positions, B sequences, V characters.
Sizes = namedtuple("Sizes", "L NH C T B V")
SIZES = {"cpu": Sizes(4, 4, 128, 64, 12, 65),
         "baby": Sizes(6, 6, 384, 256, 64, 65),
         "micro": Sizes(1, 4, 16, 16, 1, 27)}
NORMS, PLACEMENTS = ("none", "ln", "bn", "rms"), ("pre", "post")
EPS, BN_MOMENTUM = 1e-5, 0.1
LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0

# `bias`: in linear maps and norms; `onednn`: linear maps by oneDNN.
Config = namedtuple("Config", "sizes norm placement bias onednn")


# ---- the model, with activations (N,C), N = B T tokens, and tensors named as ./train's ------------

class RMSNorm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))

    def forward(self, x):
        if hasattr(functional, "rms_norm"):
            return functional.rms_norm(x, self.weight.shape, self.weight, EPS)
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS))


def make_norm(config):
    C = config.sizes.C
    if config.norm == "none":
        return nn.Identity()
    if config.norm == "rms":
        return RMSNorm(C)
    layer = nn.LayerNorm(C, eps=EPS) if config.norm == "ln" else nn.BatchNorm1d(C, eps=EPS, momentum=BN_MOMENTUM)
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
        return convolve(dy, weight.t().contiguous()), dy.t() @ x, dy.sum(0) if ctx.bias else None


class OneDNNLinear(nn.Linear):
    def forward(self, x):
        return Convolution.apply(x, self.weight, self.bias)


class Layer(nn.Module):
    """Both sub-layers. The tensors have nanoGPT's names."""

    def __init__(self, config):
        super().__init__()
        self.sizes, self.pre, C = config.sizes, config.placement == "pre", config.sizes.C
        linear = OneDNNLinear if config.onednn else nn.Linear
        self.ln_1, self.ln_2 = make_norm(config), make_norm(config)
        self.attn = nn.ModuleDict({"c_attn": linear(C, 3 * C, config.bias), "c_proj": linear(C, C, config.bias)})
        self.mlp = nn.ModuleDict({"c_fc": linear(C, 4 * C, config.bias), "c_proj": linear(4 * C, C, config.bias)})
        self.register_buffer("mask", torch.full((self.sizes.T,) * 2, -math.inf).triu(1), persistent=False)

    def attend(self, x):
        _, NH, C, T, B, _ = self.sizes
        HS = C // NH
        qkv = self.attn["c_attn"](x).view(B, T, 3, NH, HS).permute(2, 0, 3, 1, 4)  # (3,B,NH,T,HS)
        if hasattr(functional, "scaled_dot_product_attention"):
            heads = functional.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        else:
            q, k, v = qkv.reshape(3, B * NH, T, HS).unbind(0)
            weights = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(HS)).softmax(-1)
            heads = torch.bmm(weights, v).view(B, NH, T, HS)
        return self.attn["c_proj"](heads.transpose(1, 2).reshape(B * T, C))

    def feed(self, x):
        return self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](x)))

    def forward(self, x):
        for function, normalize in ((self.attend, self.ln_1), (self.feed, self.ln_2)):
            x = x + function(normalize(x)) if self.pre else normalize(x + function(x))
        return x


class Model(nn.Module):
    """(ids, targets), each (B*T) -> mean loss."""

    def __init__(self, config):
        super().__init__()
        L, _, C, T, self.B, V = config.sizes
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(V, C), "wpe": nn.Embedding(T, C),
            "h": nn.ModuleList(Layer(config) for _ in range(L)),
            "ln_f": make_norm(config) if config.placement == "pre" else nn.Identity()})
        with torch.no_grad():
            for name, p in self.named_parameters():
                if p.dim() >= 2:
                    p.normal_(0, 0.02 / math.sqrt(2 * L) if "c_proj" in name else 0.02)
                elif name.endswith("bias"):
                    p.zero_()

    def forward(self, ids, targets):
        part = self.transformer
        x = part["wte"](ids) + part["wpe"].weight.repeat(self.B, 1)
        for layer in part["h"]:
            x = layer(x)
        return functional.cross_entropy(functional.linear(part["ln_f"](x), part["wte"].weight), targets)


def make_step(model, loss_of):
    """A function that takes (ids, targets) through one training step.

    Clipping and AdamW see two long tensors, with and without weight decay. The parameters are views of them: in small
    models a call per tensor would cost more than the arithmetic."""
    groups, slabs = [], []
    for decays, decay in ((True, WEIGHT_DECAY), (False, 0.0)):
        members = [p for p in model.parameters() if (p.dim() >= 2) == decays]
        if members:
            slab = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in members]))
            for p, part in zip(members, slab.detach().split([p.numel() for p in members])):
                p.data = part.view(p.shape)
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


def check():
    """--check: the largest difference between a gradient here and in make_golden.py, in double precision, for that file's
    sizes, over all norms, placements and linear maps. Returns the exit status."""
    from pytorch import make_golden as golden
    torch.set_default_dtype(torch.float64)
    sizes = Sizes(golden.config().n_layer, golden.NH, golden.C, golden.T, golden.B, golden.V)
    largest = 0.0
    for norm, placement, onednn in itertools.product(NORMS, PLACEMENTS, (False, True)):
        theirs, ours = golden.make_model(norm, placement), Model(Config(sizes, norm, placement, True, onednn))
        ours.load_state_dict({name: tensor for name, tensor in theirs.state_dict().items()
                              if name != "lm_head.weight"})  # it is wte's
        golden.logits_and_loss(theirs, 0)[1].backward()
        ours(*(ids.reshape(-1) for ids in golden.tokens(0))).backward()
        expected = {name: p.grad for name, p in theirs.named_parameters()}
        gradients = {name: p.grad for name, p in ours.named_parameters()}
        assert expected.keys() == gradients.keys()
        largest = max(largest, *((expected[name] - gradients[name]).abs().max().item() for name in expected))
    print(f"largest difference of a gradient from make_golden.py's: {largest:.1e}")
    return 0 if largest < 1e-12 else 1


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def train(configuration, options, variant):
    """Trains one model on random ids. Returns {"times": [ms], "mib": N, "cpu": seconds}, or {"error": why}."""
    if variant.compile and not hasattr(torch, "compile"):
        return {"error": "it has no torch.compile"}
    if variant.onednn and not torch.backends.mkldnn.is_available():
        return {"error": "it was built without oneDNN"}
    # Threads inherit this from the one that starts them, so it comes before PyTorch's own are started.
    if variant.flush and not torch.set_flush_denormal(True):
        return {"error": "it cannot flush denormal numbers here"}
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    sizes, mib = SIZES[configuration], peak_mib()
    batches = itertools.cycle([torch.randint(sizes.V, (2, sizes.B * sizes.T)) for _ in range(16)])
    model = Model(Config(sizes, options.norm, options.placement, options.bias == "on", variant.onednn))
    step = make_step(model, torch.compile(model) if variant.compile else model)
    for seconds in min(1, options.seconds), options.seconds:  # the first fills caches, pages and Adam's moments, and compiles
        cpu, times, end = time.process_time(), [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step(*next(batches))
            times.append(1e3 * (time.perf_counter() - start))
    return {"times": times, "mib": peak_mib() - mib, "cpu": time.process_time() - cpu}
