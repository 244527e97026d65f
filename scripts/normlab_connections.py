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
            if not hasattr(layer, name):
                layer.register_parameter(name, nn.Parameter(start))

    def starts(self, C):
        """The site's parameters and their shapes; the same name in both sites is the same parameter."""
        return {}

    def read(self, x, r, N):
        return x

    def write(self, x, r, f, a, b):
        return a * x + b * f, r

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


CONNECTIONS = {"plain": Plain, "rezero": ReZero, "skipinit": SkipInit, "layerscale": LayerScale,
               "admin": Admin, "interpolate": Interpolate, "residual": Residual, "siamese": Siamese}
