"""The residual connections of normlab.py, from the papers that ./train --list-connections names.

x (B,T,C) is the main stream, r what a connection keeps beside it, f the sub-layer's output after its
dropout, a and b the placement's factors. A class of CONNECTIONS makes one connection, of attention or of
the MLP, with its parameters in the layer; `read` returns the sub-layer's input, `write` x before a norm,
and r. N is a norm, if the class names one.
"""
import math

import torch
from torch import nn


class Plain:
    """He et al. 2016."""
    norm = None    # the end of the name of a norm of read
    final = False  # whether the norm before the head is that of r
    post = True    # whether a norm after the sum has something to normalize

    def __init__(self, layer, site, C):
        self.layer, self.site = layer, site
        for name, start in self.starts(C).items():
            module = layer
            for part in name.split(".")[:-1]:
                if not hasattr(module, part):
                    module.add_module(part, nn.Module())
                module = getattr(module, part)
            if not hasattr(module, name.split(".")[-1]):
                module.register_parameter(name.split(".")[-1], nn.Parameter(start))

    def starts(self, C):
        """The site's parameters and their shapes; the same name in both sites is the same parameter."""
        return {}

    def read(self, x, r, N):
        return x

    def write(self, x, r, f, a, b):
        return a * x + b * f, r

    @staticmethod
    def attach_head(model, C):
        """Makes what head() needs."""

    @staticmethod
    def start(x, embedded):
        """r before the first layer."""
        return None

    @staticmethod
    def head(model, x, r, N, second):
        """What the head reads; N is the norm before it, `second` one more if the class names one."""
        return N(x)


class Learned(Plain):
    """A factor g, a number or C of them: `names` of attention's and the MLP's."""
    names, vector = None, False

    def starts(self, C):
        return {self.name: torch.zeros(C if self.vector else 1)}

    @property
    def name(self):
        return self.names[self.site != "attn"]

    @property
    def g(self):
        return getattr(self.layer, self.name)

    def write(self, x, r, f, a, b):
        return a * x + self.g * b * f, r


class ReZero(Learned):
    names = "resweight", "resweight"


class SkipInit(Learned):
    names = "skip_gain_1", "skip_gain_2"


class LayerScale(Learned):
    names, vector = ("gamma_1", "gamma_2"), True


class Admin(Learned):
    names, vector = ("attention_ratio_change", "fc_ratio_change"), True

    def write(self, x, r, f, a, b):
        return self.g * a * x + b * f, r


class Interpolate(Learned):
    """nGPT's step; its parameter is alpha / (0.05 sqrt(C))."""
    names, vector = ("attn_alpha", "mlp_alpha"), True

    def write(self, x, r, f, a, b):
        step = (0.05 * math.sqrt(x.shape[-1]) * self.g).abs()
        return a * x + step * (b * f - a * x), r


class Residual(Plain):
    """ResiDual: r is a second stream."""
    final = True

    def write(self, x, r, f, a, b):
        return a * x + b * f, r + f

    @staticmethod
    def start(x, embedded):
        return embedded

    @staticmethod
    def head(model, x, r, N, second):
        return x + N(r)


class Siamese(Residual):
    """SiameseNorm: the sub-layers read the second stream too."""
    norm, final = "second", False

    def read(self, x, r, N):
        return x + N(r)

    @staticmethod
    def head(model, x, r, N, second):
        return N(x + second(r))


class Hyper(Plain):
    """Zhu et al. 2024, algorithm 2: r is the streams (B,T,S,C), x their sum. p is what alpha and beta differ
    from their first values."""
    post, S, dynamic = False, 4, True

    @property
    def number(self):
        """Of the sub-layer, from 0 on."""
        return 2 * (self.layer.depth[1] - 1) + (self.site != "attn")

    @property
    def name(self):
        return "hc_1" if self.site == "attn" else "hc_2"

    def starts(self, C):
        shapes = {"alpha": torch.zeros(self.S * (self.S + 1)), "beta": torch.zeros(self.S)}
        if self.dynamic:
            shapes |= {"scale": torch.full((2,), 0.01), "weight": torch.zeros(self.S + 2, C)}
        return {f"{self.name}.{name}": start for name, start in shapes.items()}

    def weights(self, streams):
        p = getattr(self.layer, self.name)
        first = torch.zeros(self.S, 1).to(streams)
        first[self.number % self.S] = 1
        alpha = torch.cat([first, torch.eye(self.S).to(streams)], 1) + p.alpha.reshape(self.S, -1)
        beta = 1 + p.beta
        if self.dynamic:
            change = torch.tanh(nn.functional.layer_norm(streams, streams.shape[-1:]) @ p.weight.T)
            alpha = alpha + p.scale[0] * change[..., :-1]
            beta = beta + p.scale[1] * change[..., -1]
        return alpha, beta

    def read(self, x, r, N):
        self.alpha, self.beta = self.weights(r)
        return (self.alpha[..., :1] * r).sum(-2)

    def write(self, x, r, f, a, b):
        r = a * self.alpha[..., 1:].transpose(-1, -2) @ r + self.beta[..., None] * b * f[..., None, :]
        return r.sum(-2), r

    @classmethod
    def start(cls, x, embedded):
        return torch.stack([x] * cls.S, -2)


class HyperStatic(Hyper):
    dynamic = False


class AttnRes(Plain):
    """Attention residuals: r is the list of all v."""
    post = False

    @property
    def name(self):
        return "attnres_1" if self.site == "attn" else "attnres_2"

    def starts(self, C):
        return {self.name: torch.zeros(C)}

    @staticmethod
    def mixture(w, values):
        v = torch.stack(values)
        keys = v / (v.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return ((keys @ w).softmax(0)[..., None] * v).sum(0)

    def read(self, x, r, N):
        return self.mixture(getattr(self.layer, self.name), r)

    def write(self, x, r, f, a, b):
        return b * f, [*r, b * f]

    @staticmethod
    def attach_head(model, C):
        model.transformer.register_parameter("attnres", nn.Parameter(torch.zeros(C)))

    @staticmethod
    def start(x, embedded):
        return [x]

    @classmethod
    def head(cls, model, x, r, N, second):
        return N(cls.mixture(model.transformer.attnres, r))


CONNECTIONS = {"plain": Plain, "rezero": ReZero, "skipinit": SkipInit, "layerscale": LayerScale,
               "admin": Admin, "interpolate": Interpolate, "residual": Residual, "siamese": Siamese,
               "hyper": Hyper, "hyper-static": HyperStatic, "attnres": AttnRes}
