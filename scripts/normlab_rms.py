"""The norms of normlab.py that divide by a root mean square and do something more: partial RMSNorm,
SeeDNorm, BHyT."""
import math

import torch
from torch import nn

from normlab_moments import over_rms


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

    return {"seednorm": SeeDNorm, "bhyt": BHyT}
