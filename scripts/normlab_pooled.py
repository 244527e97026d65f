"""Variants of BatchNorm, and PowerNorm's division, for normlab.py, whose conventions hold here too."""
import torch

from normlab_moments import moments


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
