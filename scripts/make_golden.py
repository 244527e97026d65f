#!/usr/bin/env python3
"""The golden numbers of the tests: what PyTorch says that the model of ./train must compute.

  scripts/make_golden.py            writes tests/golden/: NORM-PLACEMENT.txt, batchnorm.txt, norms.txt
  scripts/make_golden.py --check    computes them again and compares with the files, to 1e-8

This file is also the reference model: nanoGPT's Transformer with a choice of norm and of the norm's
place, in PyTorch, float64. Its tensors carry the names that model.safetensors has.

    x = wte[id] + wpe[t],  for F = attention, MLP of each layer: as Layer.sublayer() has it;
    after the last x = ln_f(x), but for post and what is like it
    logits = x wte^T         the head is tied to the token embedding

The files hold results, not parameters or data: both sides start from formulas (start_value, tokens,
batchnorm_case, norm_case). A line is `key count v1 v2 ...`, tensors row-major; a line that starts with # is a
remark. Per model:
    logits, loss, grad:NAME, grad_norm    of the first training step, gradients before clipping; all
                                          but the models in pre have dots:NAME instead, a gradient's
                                          products with two waves, and no logits
    losses                                of STEPS training steps, each before its update
    state:NAME                            bn's running statistics after them
    eval_logits, eval_loss                in evaluation mode after them
"""
import argparse
import math
import os
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("make_golden: this Python has no PyTorch (scripts/deps.sh golden installs Debian's, "
             "for /usr/bin/python3)")

V, B, T, C, NH, L = 7, 3, 5, 6, 2, 2
EPS, BN_MOMENTUM, MIX_FRACTION = 1e-5, 0.1, 0.5
STEPS, LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 20, 1e-2, (0.9, 0.99), 0.1, 1.0
# A bias right before bn has no gradient but rounding, which Adam's usual 1e-8 would blow up to whole
# steps: floats and doubles would then part ways in running_mean. This epsilon keeps it small.
ADAM_EPS = 1e-4
TOLERANCE = 1e-8


class RMSNorm(nn.Module):
    """y = weight x / sqrt(mean_c x^2 + eps). Written out: PyTorch has its own only from 2.4 on."""

    def __init__(self, channels=C):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return self.weight * x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


class BatchNorm(nn.BatchNorm1d):
    """BatchNorm1d over all tokens of the batch: (B,T,C) is B*T samples of C channels."""

    def __init__(self):
        super().__init__(C, eps=EPS, momentum=BN_MOMENTUM)

    def forward(self, x):
        return super().forward(x.reshape(B * T, C)).reshape(B, T, C)


class LayerNorm(nn.LayerNorm):
    def __init__(self, channels=C):
        super().__init__(channels, eps=EPS)


NORMS = {"none": nn.Identity, "ln": LayerNorm, "bn": BatchNorm, "rms": RMSNorm}

# The norms of a sub-layer, in the order of the state dict, and whether one stands before the head.
# "inner" is pre with norms of queries and keys, head by head, and behind the MLP's activation.
PLACEMENTS = {
    "pre": (("",), True), "post": (("",), False), "inner": (("",), True),
    "sandwich": (("", "_out"), True), "peri": (("", "_out"), True), "reordered": (("",), True),
    "deepnorm": (("",), False), "mix": (("",), True), "residual": (("",), True),
    "keel": (("", "_post"), False), "lns": (("",), True),
}


class Attention(nn.Module):
    """Causal self-attention: softmax(q k^T / sqrt(C / NH)) v in each head, s <= t only."""

    def __init__(self, norm=nn.Identity):
        super().__init__()
        self.c_attn = nn.Linear(C, 3 * C)  # rows: q, then k, then v; in each, head after head
        self.q_norm, self.k_norm = norm(C // NH), norm(C // NH)
        self.c_proj = nn.Linear(C, C)

    def forward(self, x):
        q, k, v = self.c_attn(x).reshape(B, T, 3, NH, C // NH).permute(2, 0, 3, 1, 4)  # (B,NH,T,HS)
        q, k = self.q_norm(q), self.k_norm(k)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        scores = torch.einsum("bhti,bhsi->bhts", q, k) / math.sqrt(C // NH)
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        heads = torch.einsum("bhts,bhsi->bthi", weights, v)
        return self.c_proj(heads.reshape(B, T, C))


class MLP(nn.Module):
    """c_proj(gelu(c_fc(x))), gelu(z) = z (1 + erf(z / sqrt 2)) / 2."""

    def __init__(self, norm=nn.Identity):
        super().__init__()
        self.c_fc = nn.Linear(C, 4 * C)
        self.norm = norm(4 * C)
        self.c_proj = nn.Linear(4 * C, C)

    def forward(self, x):
        z = self.c_fc(x)
        return self.c_proj(self.norm(z * (1 + torch.erf(z / math.sqrt(2))) / 2))


class Layer(nn.Module):
    def __init__(self, norm, placement, layer):
        super().__init__()
        inner = NORMS[norm] if placement == "inner" else nn.Identity
        self.placement, self.layer = placement, layer
        for name, function in (("attn", Attention), ("mlp", MLP)):
            for where in PLACEMENTS[placement][0]:
                setattr(self, f"ln_{1 if name == 'attn' else 2}{where}", NORMS[norm]())
            setattr(self, name, function(inner))

    def sublayer(self, function, norm, other, x, second):
        """x and the second stream behind one sub-layer."""
        place = self.placement
        if place == "mix":
            place = "post" if self.layer < MIX_FRACTION * L else "pre"
        if place in ("pre", "inner"):
            return x + function(norm(x)), second
        if place == "post":
            return norm(x + function(x)), second
        if place in ("sandwich", "peri"):
            return x + other(function(norm(x))), second
        if place == "reordered":
            return x + norm(function(x)), second
        if place == "deepnorm":
            return norm((2 * L) ** 0.25 * x + function(x)), second
        if place == "keel":
            return other(2 * L * x + function(norm(x))), second
        if place == "lns":
            return x + function(norm(x) / math.sqrt(self.layer + 1)), second
        added = function(x)
        return norm(x + added), second + added

    def forward(self, x, second):
        where = PLACEMENTS[self.placement][0][-1]
        for function, name in ((self.attn, "ln_1"), (self.mlp, "ln_2")):
            x, second = self.sublayer(function, getattr(self, name), getattr(self, name + where), x,
                                      second)
        return x, second


class Model(nn.Module):
    def __init__(self, norm, placement):
        super().__init__()
        self.dual = placement == "residual"
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(V, C),
            "wpe": nn.Embedding(T, C),
            "ln_e": NORMS[norm]() if placement == "peri" else nn.Identity(),
            "h": nn.ModuleList(Layer(norm, placement, layer) for layer in range(L)),
            "ln_f": NORMS[norm]() if PLACEMENTS[placement][1] else nn.Identity(),
        })
        with torch.no_grad():
            for name, tensor in self.named_parameters():
                values = [start_value(name, i) for i in range(tensor.numel())]
                tensor.copy_(torch.tensor(values).reshape(tensor.shape))

    def forward(self, ids):
        """Logits (B,T,V) of ids (B,T)."""
        part = self.transformer
        x = part["ln_e"](part["wte"](ids) + part["wpe"](torch.arange(T)))
        second = x
        for layer in part["h"]:
            x, second = layer(x, second)
        top = x + part["ln_f"](second) if self.dual else part["ln_f"](x)
        return top @ part["wte"].weight.T


def start_value(name, i):
    """Element i of the parameter `name` at the start."""
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
    """Its products with two waves."""
    i = torch.arange(gradient.numel()).double()
    waves = torch.stack([torch.cos(0.7 * i), torch.sin(0.7 * i)])
    return waves @ gradient.reshape(-1)


def model_case(norm, placement):
    """What a model's file holds: (key, values) pairs in order."""
    model, whole = Model(norm, placement), placement == "pre"
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
    results.append(("losses", torch.tensor(losses)))
    results += [("state:" + name, state) for name, state in model.named_buffers()
                if "running" in name]
    model.eval()
    with torch.no_grad():
        logits, loss = logits_and_loss(model, STEPS)
    results += ([("eval_logits", logits)] if whole else []) + [("eval_loss", loss)]
    return flatten(results)


def batchnorm_case():
    """BatchNorm1d alone: training on batches k = 0, 1, 2, each with a backward of its own (the
    gradients are not summed over k), then evaluation on batch 3. rbn_dx: with a quarter of the
    penalty of Regularized BatchNorm (Wang et al. 2022) in the loss. position_KEY: the samples as 5
    sequences of 2 tokens, whose channels are features of their own (--bn-axis=batch)."""
    samples, channels, batches, positions = 10, 3, 3, 2
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = nn.BatchNorm1d(channels, eps=EPS, momentum=BN_MOMENTUM)
    features = nn.BatchNorm1d(positions * channels, eps=EPS, momentum=BN_MOMENTUM, affine=False)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.1 * c)
        norm.bias.copy_(0.2 * c)
    results = []
    for k in range(batches + 1):
        norm.train(k < batches)
        features.train(k < batches)
        x = torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + c
        x.requires_grad_()
        y = norm(x)
        by_position = features(x.reshape(-1, positions * channels)).reshape(x.shape)
        by_position = norm.weight * by_position + norm.bias
        if not norm.training:
            results += [(f"eval_y:{k}", y), (f"position_eval_y:{k}", by_position)]
            break
        dy = torch.cos(0.3 * n * c + k)
        dx, dweight, dbias = torch.autograd.grad(y, (x, norm.weight, norm.bias), dy)
        results += [(f"y:{k}", y), (f"dx:{k}", dx),
                    (f"dweight:{k}", dweight), (f"dbias:{k}", dbias),
                    (f"running_mean:{k}", norm.running_mean.clone()),
                    (f"running_var:{k}", norm.running_var.clone())]
        sigma, running_sigma = (x.var(0, False) + EPS).sqrt(), (norm.running_var + EPS).sqrt()
        penalty = (0.7 * (x.mean(0) - norm.running_mean).square().sum()
                   + 0.4 * (sigma - running_sigma).square().sum())
        results.append((f"rbn_dx:{k}", dx + torch.autograd.grad(penalty / 4, x)[0]))
        dx, dweight = torch.autograd.grad(by_position, (x, norm.weight), dy)
        results += [(f"position_y:{k}", by_position), (f"position_dx:{k}", dx),
                    (f"position_dweight:{k}", dweight),
                    (f"position_running_mean:{k}", features.running_mean.clone()),
                    (f"position_running_var:{k}", features.running_var.clone())]
    return flatten(results)


# Norms alone, of (B,T,C): PyTorch's own where it has one, the others as the line of their formula.
ALONE_B, ALONE_T, ALONE_C, ALONE_GROUPS = 2, 3, 6, 2


class Formula(nn.Module):
    """A function of x and some learned tensors, by name."""

    def __init__(self, function, **shapes):
        super().__init__()
        self.function = function
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, x):
        return self.function(x, **dict(self.named_parameters()))


class TokenGroupNorm(nn.GroupNorm):
    """GroupNorm of (B T, C): each token alone."""

    def forward(self, x):
        return super().forward(x.reshape(-1, ALONE_C)).reshape(x.shape)


class TimeInstanceNorm(nn.InstanceNorm1d):
    """InstanceNorm1d over time, which it wants last."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def scale_norm(x, scale):
    return scale * x / x.norm(dim=-1, keepdim=True).clamp(min=EPS)


def dyt(x, alpha, weight, bias):
    return weight * torch.tanh(alpha * x) + bias


def derf(x, alpha, shift, weight, bias):
    return weight * torch.erf(alpha * x + shift) + bias


def norms_alone():
    width = (ALONE_C,)
    return {
        "ln": nn.LayerNorm(ALONE_C, eps=EPS),
        "rms": RMSNorm(ALONE_C),
        "scale": Formula(scale_norm, scale=()),
        "gn": TokenGroupNorm(ALONE_GROUPS, ALONE_C, eps=EPS),
        "in": TimeInstanceNorm(ALONE_C, eps=EPS, momentum=BN_MOMENTUM, affine=True,
                               track_running_stats=True),
        "dyt": Formula(dyt, alpha=(1,), weight=width, bias=width),
        "derf": Formula(derf, alpha=(1,), shift=(1,), weight=width, bias=width),
    }


# Element i of a parameter starts at this and 0.1 i.
ALONE_START = {"alpha": 0.7, "shift": -0.3, "scale": 1.9, "weight": 1.1, "bias": 0.2}


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
    return [(f"{kind}:{key}", values) for kind, norm in norms_alone().items()
            for key, values in norm_case(norm)]


def power_case():
    """PowerNorm (Shen et al. 2020) in both divisors with group scaling: training on batches
    k = 0 .. 4, of which the first two are warm-up, each with a backward of its own; then evaluation
    on batch 5. DIVISOR:KEY:K."""
    samples, channels, heads, batches, warmup, alpha_fwd, alpha_bkw = 5, 4, 2, 5, 2, 0.9, 0.8
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    gamma, beta = 1 + 0.1 * c, 0.2 * c
    results = []
    for divisor in ("psi", "batch"):
        phi, nu = torch.ones(channels), torch.zeros(channels)
        for k in range(batches + 1):
            x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
            groups = x.reshape(samples, heads, -1)
            u = (groups / (groups.square().mean(-1, keepdim=True) + EPS).sqrt()).reshape(x.shape)
            if k == batches:
                results.append((f"{divisor}:eval_y:{k}", gamma * u / (phi + EPS).sqrt() + beta))
                break
            square = u.square().mean(0)
            psi = ((square if k < warmup else phi) + EPS).sqrt()
            xhat, g = u / psi, gamma * torch.cos(0.3 * n * c + k)
            lambda_ = (g * xhat).mean(0).detach()
            if k < warmup:
                dx, = torch.autograd.grad(xhat, x, g)
            else:
                du = (g - nu * xhat) / (psi if divisor == "psi" else (square + EPS).sqrt())
                dx, = torch.autograd.grad(u, x, du.detach())
            nu = nu * (1 - (1 - alpha_bkw) * xhat.square().mean(0).detach())
            nu = nu + (1 - alpha_bkw) * lambda_
            phi = alpha_fwd * phi + (1 - alpha_fwd) * square.detach()
            results += [(f"{divisor}:y:{k}", gamma * xhat + beta), (f"{divisor}:dx:{k}", dx),
                        (f"{divisor}:running_phi:{k}", phi),
                        (f"{divisor}:ema_gz:{k}", nu / (1 - alpha_bkw))]
    return flatten(results)


def prepbn_case():
    """PRepBN (Guo et al. 2024) with PyTorch's LayerNorm and BatchNorm1d, 3 steps, eta 0.5: training
    on batches k = 0 .. 3, then evaluation on batch 4."""
    samples, channels, steps, batches = 5, 4, 3, 4
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm1, eta = nn.LayerNorm(channels, eps=EPS), torch.tensor(0.5, requires_grad=True)
    norm2 = nn.BatchNorm1d(channels, eps=EPS, momentum=BN_MOMENTUM)
    with torch.no_grad():
        norm1.weight.copy_(1 + 0.1 * c)
        norm2.weight.copy_(1 - 0.1 * c)
    results = []
    for k in range(batches + 1):
        norm2.train(k < batches)
        x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
        mix = max(0, 1 - k / steps) if k < batches else 0
        y = mix * norm1(x) + (1 - mix) * (norm2(x) + eta * x)
        results.append((f"y:{k}", y))
        if k < batches:
            parameters = (x, norm1.weight, norm1.bias, eta, norm2.weight, norm2.bias)
            keys = ("dx", "norm1.weight", "norm1.bias", "norm2.alpha", "norm2.bn.weight",
                    "norm2.bn.bias")
            gradients = torch.autograd.grad(y, parameters, torch.cos(0.3 * n * c + k))
            results += [(f"{key}:{k}", gradient) for key, gradient in zip(keys, gradients)]
    return flatten(results)


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
    """Where a file's pairs depart from PyTorch's, in words; None where they do not."""
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
    torch.set_num_threads(1)  # the order of sums, and so the last digits, on every machine alike
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
