"""Every norm of normlab.py, whose conventions hold here too, by the formulas of the papers.

A norm is a row of TOKEN_NORMS or a class of POOLED_NORMS; make_norm() makes one.
"""
import math

import torch
from torch import nn
from torch.nn import functional

# ---- means and variances -------------------------------------------------------------------------

def standardize(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, False, keepdim=True) + eps).sqrt()


def over_rms(x, eps, fraction=1.0):
    """x over the root mean square of its first ceil(fraction C) channels, at least one. Zhang and
    Sennrich 2019, pRMSNorm."""
    first = max(1, math.ceil(round(fraction * x.shape[-1], 9)))
    return x / (x[..., :first].square().mean(-1, keepdim=True) + eps).sqrt()


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


# ---- norms --------------------------------------------------------------------------------------
class Norm(nn.Module):
    """The common base of norms of C channels. gamma is `weight` (C), beta `bias` (C): PyTorch's names."""
    learns, keeps = ("weight", "bias"), ()

    def __init__(self, C, config):
        super().__init__()
        self.config, self.eps, starts = config, config.norm_eps, self.starts(C, config)
        fixed = ("" if config.bias else "bias") if config.affine else "weight scale bias"
        for name in self.learns:
            if name in fixed.split():
                self.register_buffer(name, starts[name], persistent=False)
            else:
                self.register_parameter(name, nn.Parameter(starts[name]))
        for name in self.keeps:
            self.register_buffer(name, starts[name])

    def starts(self, C, config):
        """Name -> initial value."""
        return {"weight": torch.ones(C), "bias": torch.zeros(C), "scale": torch.tensor(C ** 0.5),
                "alpha": torch.zeros(1) + config.dyt_alpha, "shift": torch.zeros(1),
                "lam": torch.zeros(1) + config.bhyt_lambda, "running_mean": torch.zeros(C),
                "running_var": torch.ones(C), "num_batches_tracked": torch.tensor(0),
                "running_phi": torch.ones(C), "ema_gz": torch.zeros(C), "iters": torch.tensor(0)}


# Norms that see one token at a time: their parameters, and the formula, where n is the module. scale, alpha, shift and
# lam are one number each, but seednorm's alpha and beta are vectors (C); gated has the matrices `down` and, transposed,
# `up`. ln: Ba, Kiros and Hinton 2016; gn: Wu and He 2018; rms: Zhang and Sennrich 2019; scale: Nguyen and Salazar 2019;
# dyt: Zhu et al. 2025; derf: Chen et al. 2025; bhyt: Byun et al. 2026, BHyT*; seednorm: Cai et al. 2025; gated: Qiu et
# al. 2026.
TOKEN_NORMS = {
    "none": ("", lambda n, x: x),
    "ln": ("weight bias", lambda n, x: n.weight * standardize(x, n.eps) + n.bias),
    "gn": ("weight bias", lambda n, x: n.weight * in_groups(
        standardize, x, n.config.norm_groups, n.eps) + n.bias),
    "rms": ("weight", lambda n, x: n.weight * over_rms(x, n.eps, n.config.rms_fraction)),
    "l2": ("", lambda n, x: x / x.norm(dim=-1, keepdim=True).clamp(min=n.eps)),
    "scale": ("scale", lambda n, x: n.scale * x / x.norm(dim=-1, keepdim=True).clamp(min=n.eps)),
    "dyt": ("alpha weight bias", lambda n, x: n.weight * torch.tanh(n.alpha * x) + n.bias),
    "derf": ("alpha shift weight bias",
             lambda n, x: n.weight * torch.erf(n.alpha * x + n.shift) + n.bias),
    "bhyt": ("weight lam",
             lambda n, x: n.weight * torch.tanh(n.lam / n.config.bhyt_kappa * over_rms(x, n.eps))),
    "seednorm": ("weight alpha beta", lambda n, x: over_rms(x, n.eps) * (
        n.weight + n.alpha * torch.tanh(x @ n.beta)[..., None])),
    "gated": ("weight down up", lambda n, x: gate(n.weight * over_rms(x, n.eps), n.down, n.up)),
}


def gate(x, down, up):
    return x * torch.sigmoid(functional.silu(x @ down.T) @ up)


class TokenNorm(Norm):
    def __init__(self, kind, C, config):
        self.kind, self.learns = kind, TOKEN_NORMS[kind][0].split()
        super().__init__(C, config)

    def starts(self, C, config):
        own = {"alpha": torch.ones(C), "beta": torch.zeros(C)} if self.kind == "seednorm" else {}
        if self.kind == "gated":
            own = {name: 0.02 * torch.randn(config.gated_rank, C) for name in ("down", "up")}
        return super().starts(C, config) | own

    def forward(self, x, valid=None):
        return TOKEN_NORMS[self.kind][1](self, x)


class BatchNorm(Norm):
    """xhat = (x - mean) / sqrt(var + eps), mean and var of each channel over the valid tokens of a shard of the batch,
    here the full batch; in evaluation the running mean and var. As in BatchNorm1d, var is biased, but the running
    var averages unbiased ones. Ioffe and Szegedy 2015. After a forward in training, `penalty` is what
    Regularized BatchNorm (Wang et al. 2022) adds to the loss of the batch."""
    keeps = ("running_mean", "running_var", "num_batches_tracked")
    dims, penalty = (0, 1), 0.0

    def shards(self, B):
        """The number of shards of B sequences: sequence b is in shard floor(b shards / B)."""
        return 1

    def running(self, x):
        """Running mean and var as (1,C), or (S,C) by position: views of the buffers."""
        both = self.running_mean, self.running_var
        return [r[None] if r.dim() == 1 else r[:x.shape[1]] for r in both]

    @torch.no_grad()
    def track(self, x, mean, var, n):
        """Moves the running statistics to the mean over the shards."""
        unbiased = var * n / (n - 1).clamp(min=1)
        for running, batch, known in zip(self.running(x), (mean, unbiased), (n > 0, n > 1)):
            average = (known * batch).sum(0) / known.sum(0).clamp(min=1)
            running += self.config.bn_momentum * (average - running) * known.any(0)
        self.num_batches_tracked += 1

    def forward(self, x, valid=None):
        running_mean, running_var = mean, var = self.running(x)
        if self.training:
            shards = self.shards(len(x))
            shard_of = torch.arange(len(x)) * shards // len(x)
            of_shards = [moments(x[shard_of == i], self.dims, None if valid is None else valid[shard_of == i])
                         for i in range(shards)]
            mean, var, n = map(torch.cat, zip(*of_shards))
            self.track(x, mean, var, n)  # the penalty uses the updated running statistics
            difference = (var + self.eps).sqrt() - (running_var + self.eps).sqrt()
            if self.config.rbn_mean or self.config.rbn_var:
                self.penalty = (self.config.rbn_mean * (mean - running_mean).square().sum()
                                + self.config.rbn_var * difference.square().sum())
            mean, var = mean[shard_of], var[shard_of]
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


class PositionBatchNorm(BatchNorm):
    """--bn-axis=batch: mean and var over the batch alone, at each position. Causal."""
    dims = (0,)

    def starts(self, C, config):
        T = config.block_size
        return super().starts(C, config) | {"running_mean": torch.zeros(T, C), "running_var": torch.ones(T, C)}


class ShardedBatchNorm(BatchNorm):
    """--bn-shards, ghost batch norm (Hoffer et al. 2017)."""

    def shards(self, B):
        return min(self.config.bn_shards, B)


class InstanceNorm(BatchNorm):
    """Each sequence is a shard (Ulyanov et al. 2016), as in InstanceNorm1d(track_running_stats=True)."""

    def shards(self, B):
        return B


class BatchRenorm(BatchNorm):
    """Batch Renormalization (Ioffe 2017). In training
         y = gamma (xhat r + d) + beta,  xhat = (x - mean) / sigma
         r = clip(sigma / run_sigma, 1 / r_max, r_max)
         d = clip((mean - run_mean) / run_sigma, -d_max, d_max)
    where r and d are constants in backward and the running statistics are those before the batch."""

    def limits(self):
        """r_max and d_max of the next batch. The paper: 1 and 0 for 5000 updates, then linearly to 3
        at 40000 and to 5 at 25000. So the limit of d grows in 4/7 of the time."""
        config, after = self.config, int(self.num_batches_tracked) + 1 - self.config.brn_warmup
        if after <= 0:
            return 1.0, 0.0
        r_grown, d_grown = (1.0 if after >= time else after / time
                            for time in (config.brn_relax, config.brn_relax * 4 / 7))
        return 1 + (config.brn_r_max - 1) * r_grown, config.brn_d_max * d_grown

    def forward(self, x, valid=None):
        if not self.training:
            return super().forward(x, valid)
        mean, var, n = moments(x, self.dims, valid)
        sigma, (r_max, d_max) = (var + self.eps).sqrt(), self.limits()
        with torch.no_grad():
            run_mean, run_var = self.running(x)
            run_sigma = (run_var + self.eps).sqrt()
            r = (sigma / run_sigma).clamp(1 / r_max, r_max)
            d = ((mean - run_mean) / run_sigma).clamp(-d_max, d_max)
        self.track(x, mean, var, n)
        return self.weight * ((x - mean) / sigma * r + d) + self.bias


class CumulativeLayerNorm(Norm):
    """Mean and var over the channels of a token and of the earlier valid tokens of its sequence, in
    training and in evaluation. All heads of a token are one step. Luo and Mesgarani 2019, cLN."""

    def forward(self, x, valid=None):
        mean, var = past_moments(x, valid, self.config.rows_per_token)
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


class TimestepNorm(Norm):
    """cln in groups of channels, gamma = 1 + weight, after `prior_count` tokens of a learned mean and
    variance. Ma et al. 2024, Megalodon."""
    learns = ("weight", "bias", "prior_mean", "prior_logv")

    def starts(self, C, config):
        G = config.norm_groups
        return super().starts(C, config) | {
            "weight": torch.zeros(C), "prior_mean": torch.zeros(G), "prior_logv": torch.zeros(G)}

    def forward(self, x, valid=None):
        config = self.config
        prior = config.ts_prior_count, self.prior_mean, self.prior_logv.exp()
        mean, var = past_moments(x, valid, config.rows_per_token, config.norm_groups, prior)
        return (1 + self.weight) * (x - mean) / (var + self.eps).sqrt() + self.bias


class PowerDivide(torch.autograd.Function):
    """PowerNorm's division in training, xhat = u / sqrt(phi + eps), phi as it was before the batch.
    Its backward is approximate: with g the gradient of xhat, dx = (g - nu xhat) / divisor, where nu
    is a running mean of mean_n(g xhat). During warm-up forward and backward are PN-V's."""

    @staticmethod
    def forward(ctx, u, valid, norm):
        ctx.norm, ctx.valid, ctx.warm = norm, valid, bool(norm.iters < norm.config.pn_warmup)
        square = moments(u.square(), (0, 1), valid)[0]
        psi = ((square if ctx.warm else norm.running_phi) + norm.eps).sqrt()
        own = (square + norm.eps).sqrt()
        ctx.save_for_backward(u / psi, own if norm.config.pn_divisor == "batch" else psi)
        norm.track(square)
        norm.iters += 1
        return u / psi

    @staticmethod
    def backward(ctx, g):
        (xhat, divisor), norm = ctx.saved_tensors, ctx.norm
        along, gamma = (moments(z, (0, 1), ctx.valid)[0][0, 0] for z in (g * xhat, xhat.square()))
        nu = (1 - norm.config.pn_alpha_bkw) * norm.ema_gz  # ema_gz is scaled as in the authors' code
        norm.ema_gz += along - nu * gamma
        return (g - (along if ctx.warm else nu) * xhat) / divisor, None, None


class PowerNormV(Norm):
    """xhat = x / sqrt(phi + eps), phi = mean_n x^2 over the batch's valid tokens; in evaluation
    the running phi. Shen et al. 2020, PN-V."""
    keeps = ("running_phi",)

    def track(self, phi):
        self.running_phi += (1 - self.config.pn_alpha_fwd) * (phi.detach()[0, 0] - self.running_phi)

    def forward(self, x, valid=None):
        phi = self.running_phi
        if self.training:
            phi = moments(x.square(), (0, 1), valid)[0]
            self.track(phi)
        return self.weight * x / (phi + self.eps).sqrt() + self.bias


class PowerNorm(PowerNormV):
    """xhat = u / sqrt(phi + eps), phi the running mean_n u^2, u = x over its root mean square in
    its head (group scaling). Shen et al. 2020."""
    keeps = ("running_phi", "ema_gz", "iters")

    def forward(self, x, valid=None):
        scaling = self.config.pn_group_scaling
        u = in_groups(over_rms, x, self.config.n_head, self.eps) if scaling else x
        xhat = u / (self.running_phi + self.eps).sqrt()
        xhat = PowerDivide.apply(u, valid, self) if self.training else xhat
        return self.weight * xhat + self.bias


class PRepBN(Norm):
    """y = lambda ln(x) + (1 - lambda) (bn(x) + eta x), eta one number; in training lambda falls
    from 1 to 0, in evaluation it is 0. Guo et al. 2024; the names are those of the authors."""
    learns = ()

    def __init__(self, C, config):
        super().__init__(C, config)
        self.norm1, self.norm2 = TokenNorm("ln", C, config), nn.Module()
        self.norm2.alpha = nn.Parameter(torch.full((1,), float(config.prepbn_eta)))
        self.norm2.bn = BatchNorm(C, config)

    def forward(self, x, valid=None):
        bn, eta, steps = self.norm2.bn, self.norm2.alpha, self.config.prepbn_steps
        k = int(bn.num_batches_tracked)
        mix = 1 - k / steps if self.training and k < steps else 0
        return mix * self.norm1(x) + (1 - mix) * (bn(x, valid) + eta * x)


POOLED_NORMS = {"bn": BatchNorm, "brn": BatchRenorm, "in": InstanceNorm, "pn-v": PowerNormV,
                "pn": PowerNorm, "prepbn": PRepBN, "cln": CumulativeLayerNorm, "ts": TimestepNorm}


def make_norm(kind, C, config):
    if kind in TOKEN_NORMS:
        return TokenNorm(kind, C, config)
    if kind == "bn" and config.bn_axis == "batch":
        return PositionBatchNorm(C, config)
    if kind == "bn" and config.bn_shards > 1:
        return ShardedBatchNorm(C, config)
    if kind not in POOLED_NORMS:
        raise NotImplementedError(f"norms.py lacks the norm {kind} (add it to TOKEN_NORMS or POOLED_NORMS)")
    return POOLED_NORMS[kind](C, config)
