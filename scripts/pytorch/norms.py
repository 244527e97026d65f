"""Parts of the norms of normlab.py, whose conventions hold here too: means and variances; variants of
BatchNorm, and PowerNorm's division; the norms that divide by a root mean square and do something more, which
are partial RMSNorm, SeeDNorm, BHyT and GatedNorm.
"""
import math

import torch
from torch import nn
from torch.nn import functional


def standardize(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, False, keepdim=True) + eps).sqrt()


def over_rms(x, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


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


class Renormalizing:
    """Makes BatchNorm to Batch Renormalization (Ioffe 2017). In training
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


class Sharded:
    """Makes BatchNorm to ghost batch norm (Hoffer et al. 2017): in training sequence b of B is in part
    floor(b k / B) of k, and each part has mean and var of its own. The running statistics move by the
    mean over the parts."""

    def forward(self, x, valid=None):
        if not self.training:
            return super().forward(x, valid)
        B, k = len(x), min(self.config.bn_shards, len(x))
        part_of = torch.arange(B) * k // B
        of_parts = [moments(x[part_of == i], (0, 1), None if valid is None else valid[part_of == i])
                    for i in range(k)]
        mean, var, n = (torch.cat(values) for values in zip(*of_parts))  # (k,1,C), n (k,1,1)
        self.track(x, mean, var, n)
        return self.weight * (x - mean[part_of]) / (var[part_of] + self.eps).sqrt() + self.bias


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


def over_partial_rms(x, eps, fraction):
    """x over the root mean square of its first ceil(fraction C) channels, at least one. Zhang and
    Sennrich 2019, pRMSNorm."""
    first = max(1, math.ceil(round(fraction * x.shape[-1], 9)))
    return x / (x[..., :first].square().mean(-1, keepdim=True) + eps).sqrt()


def make_classes(Norm):
    """By name, the norms that are subclasses of normlab.Norm."""

    class SeeDNorm(Norm):
        """(gamma + alpha tanh(x . beta)) x / rms(x). Cai et al. 2025."""
        learns = ("weight",)

        def __init__(self, C, config):
            super().__init__(C, config)
            self.alpha, self.beta = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

        def forward(self, x, valid=None):
            rescale = torch.tanh(x @ self.beta)[..., None]
            return (self.weight + rescale * self.alpha) * over_rms(x, self.eps)

    class BHyT(Norm):
        """gamma tanh(lambda / kappa x / rms(x)), lambda one number. Byun et al. 2026, BHyT*."""
        learns = ("weight",)

        def __init__(self, C, config):
            super().__init__(C, config)
            self.lam = nn.Parameter(torch.full((1,), float(config.bhyt_lambda)))

        def forward(self, x, valid=None):
            return self.weight * torch.tanh(self.lam / self.config.bhyt_kappa * over_rms(x, self.eps))

    class GatedNorm(Norm):
        """n sigmoid(U silu(D n)), n = gamma x / rms(x); `up` is the transpose of U. Qiu et al. 2026."""
        learns = ("weight",)

        def __init__(self, C, config):
            super().__init__(C, config)
            for name in ("down", "up"):
                self.register_parameter(name, nn.Parameter(0.02 * torch.randn(config.gated_rank, C)))

        def forward(self, x, valid=None):
            n = self.weight * over_rms(x, self.eps)
            return n * torch.sigmoid(functional.silu(n @ self.down.T) @ self.up)

    return {"seednorm": SeeDNorm, "bhyt": BHyT, "gated": GatedNorm}
