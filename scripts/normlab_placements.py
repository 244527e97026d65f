"""The placements of normlab.py: where the norms of a sub-layer are, from the papers that
./train --list-placements names.

A row of PLACEMENTS: the suffixes after ln_1 or ln_2 in the names of the sub-layer's norms; whether there
is a norm before the head; the formula. x is the stream, F the sub-layer's function, attention or MLP,
N and M its first and its last norm, D dropout, L the number of layers, l = 1 ... L. A row of TWO_STREAMS
returns x and r, the second stream. Its N are all norms of the sub-layer, in the order of the suffixes.
"""
import math

import normlab_lambda

PLACEMENTS = {
    "pre": ([""], True, lambda x, F, N, M, D, L, l: x + D(F(N(x)))),
    "post": ([""], False, lambda x, F, N, M, D, L, l: N(x + D(F(x)))),
    "sandwich": (["", "_out"], True, lambda x, F, N, M, D, L, l: x + D(M(F(N(x))))),
    "peri": (["", "_out"], True, lambda x, F, N, M, D, L, l: x + D(M(F(N(x))))),
    "reordered": ([""], True, lambda x, F, N, M, D, L, l: x + D(N(F(x)))),
    "deepnorm": ([""], False, lambda x, F, N, M, D, L, l: N((2 * L) ** 0.25 * x + D(F(x)))),
    "keel": (["", "_post"], False, lambda x, F, N, M, D, L, l: M(2 * L * x + D(F(N(x))))),
    "lns": ([""], True, lambda x, F, N, M, D, L, l: x + D(F(N(x) / math.sqrt(l)))),
    "bare": ([], True, lambda x, F, N, M, D, L, l: x + D(F(x))),
    **normlab_lambda.PLACEMENTS,
    "ngpt": (["", "_post"], False, None),  # normlab_ngpt.py
}


def residual(x, r, F, N, D, l):
    y = D(F(x))
    return N[0](x + y), r + y


def siamese(x, r, F, N, D, l):
    """x has passed the norm that the paper writes at the start of the sub-layer."""
    z = D(F(N[0](x + N[2](r))))
    return N[1](x + z / math.sqrt(2 * l)), r + z


TWO_STREAMS = {"residual": ([""], True, residual),
               "siamese": (["", "_post", "_second"], True, siamese)}
READS = ("siamese",)  # the second stream is read by the sub-layers, and by the head with a norm of its own

ROWS = PLACEMENTS | TWO_STREAMS

# Placements whose sub-layers have different rows, and whether there is a norm before the head.
MIXTURES = {"mix": True, "hybrid": True, "hybrid-star": True}

# Norms of queries, keys and values, unless options choose others.
INNER = {"qk_norm": ("hybrid", "hybrid-star", "ngpt"), "v_norm": ("hybrid", "hybrid-star")}
OF_EMBEDDING = ("peri", "siamese", "ngpt")  # a norm after the embedding; a second stream starts before it


def row_of(config, site, l):
    """The row of a sub-layer of layer l = 1 ... L; site is attn or ffn."""
    place = {"attn": config.placement_attn, "ffn": config.placement_ffn}[site]
    if place == "mix":
        place = "post" if l <= math.floor(config.mix_fraction * config.n_layer) else "pre"
    if place == "hybrid-star":
        place = "pre" if l == 1 else "hybrid"
    if place == "hybrid":
        place = {"attn": "post", "ffn": "bare"}[site]
    return place


def has_final(config):
    """Whether there is a norm before the head."""
    auto = MIXTURES[config.placement] if config.placement in MIXTURES else ROWS[config.placement][1]
    return {"on": True, "off": False, "auto": auto}[config.final_norm]


def sublayer(place, x, r, F, norms, D, depth):
    """x and r after a sub-layer; r is x again where there is no second stream. depth is (L, l)."""
    L, l = depth
    if place in TWO_STREAMS:
        return TWO_STREAMS[place][2](x, r, F, norms, D, l)
    N, M = (norms[0], norms[-1]) if norms else (None, None)
    x = PLACEMENTS[place][2](x, F, N, M, D, L, l)
    return x, x


def head_input(config, x, r, final, second):
    """What the head reads; final is the norm before it, second that of a second stream that is read."""
    if config.placement in READS:
        return final(x + second(r))
    return x + final(r) if config.placement in TWO_STREAMS else final(x)
