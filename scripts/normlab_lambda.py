"""The placements of normlab.py that learn a factor g of a sub-layer's sum, and those that only start with
other weights, from the papers that ./train --list-placements names.

A row of LAMBDAS: g's name in a layer, of attention and of the MLP (the same name is the same factor);
whether it has C numbers or one; and as in normlab_placements.PLACEMENTS the suffixes of the norms' names, whether
there is a norm before the head, and the formula of a sub-layer F with the norm N and the dropout D.
"""
import torch
from torch import nn

LAMBDAS = {
    "rezero": (("resweight", "resweight"), False, [], False, lambda x, F, N, D, g: x + D(g * F(x))),
    "skipinit": (("skip_gain_1", "skip_gain_2"), False, [], False,
                 lambda x, F, N, D, g: x + D(g * F(x))),
    "layerscale": (("gamma_1", "gamma_2"), True, [""], True,
                   lambda x, F, N, D, g: x + D(g * F(N(x)))),
    "admin": (("attention_ratio_change", "fc_ratio_change"), True, [""], False,
              lambda x, F, N, D, g: N(g * x + D(F(x)))),
}

PLACEMENTS = {place: (suffixes, final, None) for place, (_, _, suffixes, final, _) in LAMBDAS.items()}
PLACEMENTS |= {
    "tfixup": ([], False, lambda x, F, N, M, D, L, l: x + D(F(x))),
    "dsinit": ([""], False, lambda x, F, N, M, D, L, l: N(x + D(F(x)))),
}


def attach(layer, place, site, C):
    """Makes the factor of attention or of the MLP, unless the layer has it already."""
    if place in LAMBDAS:
        (of_attention, of_mlp), vector = LAMBDAS[place][:2]
        name = of_attention if site == "attn" else of_mlp
        if not hasattr(layer, name):
            layer.register_parameter(name, nn.Parameter(torch.zeros(C if vector else 1)))


def sublayer(layer, place, site, x, F, norms):
    """x after a sub-layer, attention or the MLP."""
    (of_attention, of_mlp), _, _, _, formula = LAMBDAS[place]
    factor = getattr(layer, of_attention if site == "attn" else of_mlp)
    return formula(x, F, norms[0] if norms else None, layer.drop, factor)
