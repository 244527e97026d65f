"""Every norm of normlab.py, whose conventions hold here too, by the formulas of the papers.

A norm is a row of NORMS; make_norm() makes one.
"""
import collections
import copy
import math

import torch
from torch import nn
from torch.nn import functional

from pytorch.formula_norm import FormulaNorm, is_formula

# ---- means and variances -------------------------------------------------------------------------

def constant_if(detach, statistic):
    """DetachNorm (Xu et al. 2019) takes statistics as constants in backward."""
    return statistic.detach() if detach else statistic


def standardize(x, eps, detach_mean=False, detach_std=False):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, False, keepdim=True)
    return (x - constant_if(detach_mean, mean)) / (constant_if(detach_std, var) + eps).sqrt()


def over_rms(x, eps, fraction=1.0, detach=False):
    """x over the root mean square of its first ceil(fraction C) channels, at least one. Zhang and
    Sennrich 2019, pRMSNorm."""
    first = max(1, math.ceil(round(fraction * x.shape[-1], 9)))
    return x / (constant_if(detach, x[..., :first].square().mean(-1, keepdim=True)) + eps).sqrt()


def in_groups(function, x, groups, eps):
    return function(x.unflatten(-1, (groups, -1)), eps).flatten(-2)


def moments(x, dims, valid=None):
    """Mean, biased variance and number of the valid rows of x (B,S,C) over dims, which become 1."""
    count = torch.ones_like(x[..., :1]) if valid is None else valid[..., None].to(x.dtype)
    n = count.sum(dims, keepdim=True)
    mean = (count * x).sum(dims, keepdim=True) / n.clamp(min=1)
    var = (count * (x - mean).square()).sum(dims, keepdim=True) / n.clamp(min=1)
    return mean, var, n


def past_moments(x, valid=None, rows=1, groups=1, prior=None):
    """Mean and biased variance (B,S,C) of all valid numbers of x (B,S,C) up to and including a token,
    which has `rows` rows, in each of `groups` groups of channels: E[z] and E[z^2] - E[z]^2 from
    cumulative sums. z is x minus the mean of the sequence's first token, so that an offset costs no
    digits. prior: n tokens of this mean (G) and variance (G) come first."""
    B, S, C = x.shape
    T, width = S // rows, rows * C // groups
    tokens = x.reshape(B, T, rows, groups, -1).transpose(2, 3).reshape(B, T, groups, width)
    seen = torch.ones_like(tokens[..., :1])
    if valid is not None:
        seen = seen * valid.reshape(B, T, rows)[..., :1, None]
    origin = tokens[:, :1].mean(-1, keepdim=True).detach()
    z = (tokens - origin) * seen
    n, m, v = prior or (0, 0 * x[0, 0, :groups], 0 * x[0, 0, :groups])
    m = m[:, None] - origin
    count = (seen.cumsum(1) + n).clamp(min=1)
    mean = (z.mean(-1, keepdim=True).cumsum(1) + n * m) / count
    square = (z.square().mean(-1, keepdim=True).cumsum(1) + n * (v[:, None] + m.square())) / count
    return [a.expand(B, T, groups, C // groups).flatten(2).repeat_interleave(rows, 1)
            for a in (mean + origin, square - mean.square())]


# ---- norms of a token and those before it ---------------------------------------------------------

def gate(x, down, up):
    return x * torch.sigmoid(functional.silu(x @ down.T) @ up)


def over_past(norm, x, valid, weight, groups=1, prior=None):
    """Mean and var over the channels of a token and of the earlier valid tokens of its sequence, in
    training and in evaluation. All heads of a token are one step."""
    mean, var = past_moments(x, valid, norm.config.rows_per_token, groups, prior)
    return weight * (x - mean) / (var + norm.eps).sqrt() + norm.bias


def timestep_norm(norm, x, valid):
    """cln in groups of channels, gamma = 1 + weight, after `prior_count` tokens of a learned mean and
    variance."""
    prior = norm.config.ts_prior_count, norm.prior_mean, norm.prior_logv.exp()
    return over_past(norm, x, valid, 1 + norm.weight, norm.config.norm_groups, prior)


# ---- batch norms ----------------------------------------------------------------------------------

def running_moments(norm, x):
    """Running mean and var as (1,C), or (S,C) by position: views of the buffers."""
    both = norm.running_mean, norm.running_var
    return [r[None] if r.dim() == 1 else r[:x.shape[1]] for r in both]


@torch.no_grad()
def track(norm, x, mean, var, n):
    """Moves the running statistics to the mean over the shards."""
    unbiased = var * n / (n - 1).clamp(min=1)
    for running, batch, known in zip(running_moments(norm, x), (mean, unbiased), (n > 0, n > 1)):
        average = (known * batch).sum(0) / known.sum(0).clamp(min=1)
        running += norm.config.bn_momentum * (average - running) * known.any(0)
    norm.num_batches_tracked += 1


def batch_norm(norm, x, valid, shards=1, dims=(0, 1)):
    """y = gamma (xhat r + d) + beta, xhat = (x - mean) / sqrt(var + eps), r = 1 and d = 0 but in Batch Renormalization.
    mean and var of each channel are over the valid tokens of a shard of the batch, in evaluation the running ones.
    Sequence b of B is in shard floor(b shards / B). With dims=(0,) they are of each position, over the batch alone, which
    is causal. As in BatchNorm1d, var is biased, but the running var averages unbiased ones. After a forward in training,
    `penalty` is what Regularized BatchNorm (Wang et al. 2022) adds to the loss of the batch."""
    running_mean, running_var = mean, var = running_moments(norm, x)
    r, d, config = 1, 0, norm.config
    if norm.training:
        shards = min(shards, len(x))
        shard_of = torch.arange(len(x)) * shards // len(x)
        of_shards = [moments(x[shard_of == i], dims, None if valid is None else valid[shard_of == i])
                     for i in range(shards)]
        mean, var, n = map(torch.cat, zip(*of_shards))
        if norm.kind == "brn":
            r, d = renorm(norm, mean, var)
        track(norm, x, mean, var, n)  # the penalty uses the updated running statistics
        difference = (var + norm.eps).sqrt() - (running_var + norm.eps).sqrt()
        if config.rbn_mean or config.rbn_var:
            norm.penalty = (config.rbn_mean * (mean - running_mean).square().sum()
                            + config.rbn_var * difference.square().sum())
        mean, var = mean[shard_of], var[shard_of]
        if norm.kind == "bn":
            mean, var = constant_if(config.norm_detach_mean, mean), constant_if(config.norm_detach_std, var)
    return norm.weight * ((x - mean) / (var + norm.eps).sqrt() * r + d) + norm.bias


@torch.no_grad()
def renorm(norm, mean, var):
    """r = clip(sigma / run_sigma, 1 / r_max, r_max) and d = clip((mean - run_mean) / run_sigma, -d_max, d_max), constants
    in backward, from the running statistics before the batch. In the paper r_max and d_max are 1 and 0 for 5000 updates,
    then grow linearly to 3 at 40000 and to 5 at 25000. So the limit of d grows in 4/7 of the time."""
    config, after = norm.config, int(norm.num_batches_tracked) + 1 - norm.config.brn_warmup
    if after <= 0:
        return 1, 0
    r_grown, d_grown = (1.0 if after >= time else after / time
                        for time in (config.brn_relax, config.brn_relax * 4 / 7))
    r_max, d_max = 1 + (config.brn_r_max - 1) * r_grown, config.brn_d_max * d_grown
    run_sigma = (norm.running_var + norm.eps).sqrt()
    return (((var + norm.eps).sqrt() / run_sigma).clamp(1 / r_max, r_max),
            ((mean - norm.running_mean) / run_sigma).clamp(-d_max, d_max))


# ---- power norms ----------------------------------------------------------------------------------

def track_phi(norm, phi):
    norm.running_phi += (1 - norm.config.pn_alpha_fwd) * (phi.detach()[0, 0] - norm.running_phi)


def power_norm_v(norm, x, valid):
    """xhat = x / sqrt(phi + eps), phi = mean_n x^2 over the batch's valid tokens; in evaluation the running phi."""
    phi = norm.running_phi
    if norm.training:
        phi = moments(x.square(), (0, 1), valid)[0]
        track_phi(norm, phi)
    return norm.weight * x / (phi + norm.eps).sqrt() + norm.bias


def power_norm(norm, x, valid):
    """xhat = u / sqrt(phi + eps), phi the running mean_n u^2 before the batch, u = x over its root mean square in its head
    (group scaling). Its backward is approximate: with g the gradient of xhat, du = (g - nu xhat) / divisor, where nu is a
    running mean of mean_n(g xhat). During warm-up forward and backward are PN-V's."""
    config, phi = norm.config, norm.running_phi
    u = in_groups(over_rms, x, config.n_head, norm.eps) if config.pn_group_scaling else x
    square = moments(u.detach().square(), (0, 1), valid)[0]
    warm = norm.training and bool(norm.iters < config.pn_warmup)
    psi, own = ((z + norm.eps).sqrt() for z in (square if warm else phi, square))
    y = u / psi
    xhat, divisor = y.detach(), own if config.pn_divisor == "batch" else psi

    def backward(g):
        along, gamma = (moments(z, (0, 1), valid)[0][0, 0] for z in (g * xhat, xhat.square()))
        nu = (1 - config.pn_alpha_bkw) * norm.ema_gz  # ema_gz is scaled as in the authors' code
        norm.ema_gz += along - nu * gamma
        return (g - (along if warm else nu) * xhat) * psi / divisor  # u / psi divides by psi
    if norm.training:
        track_phi(norm, square)
        norm.iters += 1
        if y.requires_grad:
            y.register_hook(backward)
    return norm.weight * y + norm.bias


# ---- the norms ------------------------------------------------------------------------------------

def starts(kind, C, config):
    """Name -> initial value, of parameters and running statistics."""
    G, running = config.norm_groups, (config.block_size, C) if kind == "bn" and config.bn_axis == "batch" else C
    of_kind = {"seednorm": lambda: {"alpha": torch.ones(C)}, "ts": lambda: {"weight": torch.zeros(C)},
               "gated": lambda: {name: 0.02 * torch.randn(config.gated_rank, C) for name in ("down", "up")}}
    return {"weight": torch.ones(C), "bias": torch.zeros(C), "scale": torch.tensor(C ** 0.5), "beta": torch.zeros(C),
            "alpha": torch.zeros(1) + config.dyt_alpha, "shift": torch.zeros(1), "lam": torch.zeros(1) + config.bhyt_lambda,
            "prior_mean": torch.zeros(G), "prior_logv": torch.zeros(G),
            "running_mean": torch.zeros(running), "running_var": torch.ones(running),
            "num_batches_tracked": torch.tensor(0), "running_phi": torch.ones(C), "ema_gz": torch.zeros(C),
            "iters": torch.tensor(0), **of_kind.get(kind, dict)()}


# The names of a norm's parameters and running statistics, and its formula.
Row = collections.namedtuple("Row", "learns keeps formula")
AFFINE, RUNNING = "weight bias", "running_mean running_var num_batches_tracked"

# scale, alpha, shift and lam are one number each, but seednorm's alpha and beta are vectors (C); gated has the matrices
# `down` and, transposed, `up`. ln: Ba, Kiros and Hinton 2016; gn: Wu and He 2018; rms: Zhang and Sennrich 2019; scale:
# Nguyen and Salazar 2019; dyt: Zhu et al. 2025; derf: Chen et al. 2025; bhyt: Byun et al. 2026, BHyT*; seednorm: Cai et
# al. 2025; gated: Qiu et al. 2026; cln: Luo and Mesgarani 2019; ts: Ma et al. 2024, Megalodon; bn: Ioffe and Szegedy 2015,
# in shards (ghost batch norm) Hoffer et al. 2017; in: Ulyanov et al. 2016, as InstanceNorm1d(track_running_stats=True);
# brn: Ioffe 2017; pn and pn-v: Shen et al. 2020.
NORMS = {
    "none": Row("", "", lambda n, x, valid: x),
    "ln": Row(AFFINE, "", lambda n, x, valid: n.weight * standardize(
        x, n.eps, n.config.norm_detach_mean, n.config.norm_detach_std) + n.bias),
    "gn": Row(AFFINE, "", lambda n, x, valid: n.weight * in_groups(
        standardize, x, n.config.norm_groups, n.eps) + n.bias),
    "rms": Row("weight", "", lambda n, x, valid: n.weight * over_rms(x, n.eps, n.config.rms_fraction, n.config.norm_detach_std)),
    "l2": Row("", "", lambda n, x, valid: functional.normalize(x, dim=-1, eps=n.eps)),
    "scale": Row("scale", "", lambda n, x, valid: n.scale * x / x.norm(dim=-1, keepdim=True).clamp(min=n.eps)),
    "dyt": Row("alpha weight bias", "", lambda n, x, valid: n.weight * torch.tanh(n.alpha * x) + n.bias),
    "derf": Row("alpha shift weight bias", "",
                lambda n, x, valid: n.weight * torch.erf(n.alpha * x + n.shift) + n.bias),
    "bhyt": Row("weight lam", "",
                lambda n, x, valid: n.weight * torch.tanh(n.lam / n.config.bhyt_kappa * over_rms(x, n.eps))),
    "seednorm": Row("weight alpha beta", "", lambda n, x, valid: over_rms(x, n.eps) * (
        n.weight + n.alpha * torch.tanh(x @ n.beta)[..., None])),
    "gated": Row("weight down up", "", lambda n, x, valid: gate(n.weight * over_rms(x, n.eps), n.down, n.up)),
    "cln": Row(AFFINE, "", lambda n, x, valid: over_past(n, x, valid, n.weight)),
    "ts": Row("weight bias prior_mean prior_logv", "", timestep_norm),
    "bn": Row(AFFINE, RUNNING, lambda n, x, valid: batch_norm(
        n, x, valid, n.config.bn_shards, (0,) if n.config.bn_axis == "batch" else (0, 1))),
    "in": Row(AFFINE, RUNNING, lambda n, x, valid: batch_norm(n, x, valid, len(x))),  # each sequence is a shard
    "brn": Row(AFFINE, RUNNING, batch_norm),
    "pn-v": Row(AFFINE, "running_phi", power_norm_v),
    "pn": Row(AFFINE, "running_phi ema_gz iters", power_norm),
}


class Norm(nn.Module):
    """A norm of C channels. gamma is `weight` (C), beta `bias` (C): PyTorch's names."""
    penalty = 0.0

    def __init__(self, kind, C, config):
        super().__init__()
        self.kind, self.config, self.eps = kind, config, config.norm_eps
        (learns, keeps, _), first = NORMS[kind], starts(kind, C, config)
        learned = config.bias if config.norm_bias == "auto" else config.norm_bias == "on"
        fixed = ("" if learned else "bias") if config.affine else "weight scale bias"
        for name in learns.split():
            if name in fixed.split():
                self.register_buffer(name, first[name], persistent=False)
            else:
                self.register_parameter(name, nn.Parameter(first[name]))
        for name in keeps.split():
            self.register_buffer(name, first[name])

    def forward(self, x, valid=None):
        return NORMS[self.kind].formula(self, x, valid)


class PRepBN(nn.Module):
    """y = lambda ln(x) + (1 - lambda) (bn(x) + eta x), eta one number; in training lambda falls
    from 1 to 0, in evaluation it is 0. Guo et al. 2024; the names are those of the authors."""
    kind = "prepbn"

    def __init__(self, C, config):
        super().__init__()
        plain = copy.copy(config)
        plain.bn_axis, plain.bn_shards, plain.norm_detach_mean, plain.norm_detach_std = "batch+time", 1, False, False
        self.steps, self.norm1, self.norm2 = config.prepbn_steps, Norm("ln", C, plain), nn.Module()
        self.norm2.alpha = nn.Parameter(torch.full((1,), float(config.prepbn_eta)))
        self.norm2.bn = Norm("bn", C, plain)

    def forward(self, x, valid=None):
        bn, k = self.norm2.bn, int(self.norm2.bn.num_batches_tracked)
        mix = 1 - k / self.steps if self.training and k < self.steps else 0
        return mix * self.norm1(x) + (1 - mix) * (bn(x, valid) + self.norm2.alpha * x)


def make_norm(kind, C, config):
    if kind == "prepbn":
        return PRepBN(C, config)
    if is_formula(kind):
        return FormulaNorm(kind, C, config)
    if kind not in NORMS:
        raise NotImplementedError(f"norms.py lacks the norm {kind} (add it to NORMS)")
    return Norm(kind, C, config)
