"""The placements of normlab.py: where the norms of a sub-layer are, from the papers that
./train --list-placements names.

A row of PLACEMENTS: the suffixes after ln_1 or ln_2 in the names of the sub-layer's norms; whether there
is a norm before the head; the formula of the branch; whether the last norm is after the sum; its factors
of the stream and of the branch; and its connection (connections.py). u is what the branch reads, F
the sub-layer's function, attention or MLP, N and M its first and its last norm, L the number of layers,
l = 1 ... L.
"""
import collections
import math

from pytorch.connections import CONNECTIONS

Row = collections.namedtuple("Row", "suffixes final branch post a b connection", defaults=(
    False, lambda L: 1, lambda L, l: 1, "plain"))

PLACEMENTS = {
    "pre": Row([""], True, lambda u, F, N, M, l: F(N(u))),
    "post": Row([""], False, lambda u, F, N, M, l: F(u), post=True),
    "sandwich": Row(["", "_out"], True, lambda u, F, N, M, l: M(F(N(u)))),
    "peri": Row(["", "_out"], True, lambda u, F, N, M, l: M(F(N(u)))),
    "reordered": Row([""], True, lambda u, F, N, M, l: N(F(u))),
    "deepnorm": Row([""], False, lambda u, F, N, M, l: F(u), post=True, a=lambda L: (2 * L) ** 0.25),
    "keel": Row(["", "_post"], False, lambda u, F, N, M, l: F(N(u)), post=True, a=lambda L: 2 * L),
    "lns": Row([""], True, lambda u, F, N, M, l: F(N(u) / math.sqrt(l))),
    "bare": Row([], True, lambda u, F, N, M, l: F(u)),
    "rezero": Row([], False, lambda u, F, N, M, l: F(u), connection="rezero"),
    "skipinit": Row([], False, lambda u, F, N, M, l: F(u), connection="skipinit"),
    "layerscale": Row([""], True, lambda u, F, N, M, l: F(N(u)), connection="layerscale"),
    "tfixup": Row([], False, lambda u, F, N, M, l: F(u)),
    "dsinit": Row([""], False, lambda u, F, N, M, l: F(u), post=True),
    "admin": Row([""], False, lambda u, F, N, M, l: F(u), post=True, connection="admin"),
    "residual": Row([""], True, lambda u, F, N, M, l: F(u), post=True, connection="residual"),
    # x has passed the norm that the paper writes at the start of the sub-layer
    "siamese": Row(["", "_post"], True, lambda u, F, N, M, l: F(N(u)), post=True,
                   b=lambda L, l: 1 / math.sqrt(2 * l), connection="siamese"),
    "ngpt": Row(["", "_post"], False, None, connection="interpolate"),  # ngpt.py
}

# Placements whose sub-layers have different rows, and whether there is a norm before the head.
MIXTURES = {"mix": True, "hybrid": True, "hybrid-star": True}

# Norms of queries, keys and values, unless options choose others.
INNER = {"qk_norm": ("hybrid", "hybrid-star", "ngpt"), "v_norm": ("hybrid", "hybrid-star")}
OF_EMBEDDING = ("peri", "siamese", "ngpt")  # a norm after the embedding; a second stream starts before it


def row_of(config, site, l):
    """The name of the row of a sub-layer of layer l = 1 ... L; site is attn or ffn."""
    place = {"attn": config.placement_attn, "ffn": config.placement_ffn}[site]
    if place == "mix":
        place = "post" if l <= math.floor(config.mix_fraction * config.n_layer) else "pre"
    if place == "hybrid-star":
        place = "pre" if l == 1 else "hybrid"
    if place == "hybrid":
        place = {"attn": "post", "ffn": "bare"}[site]
    return place


def connection_of(config, place):
    """The class of the connection of a row."""
    own = PLACEMENTS[place].connection if place in PLACEMENTS else "plain"
    return CONNECTIONS[own if config.connection == "auto" else config.connection]


def norm_suffixes(config, place):
    """After ln_1 or ln_2: of the placement's norms, and of the connection's."""
    suffixes, own = PLACEMENTS[place].suffixes, connection_of(config, place).norm
    return [*suffixes, "_" + own if suffixes else ""] if own else suffixes


def has_final(config):
    """Whether there is a norm before the head."""
    place = config.placement
    auto = MIXTURES[place] if place in MIXTURES else PLACEMENTS[place].final
    return {"on": True, "off": False, "auto": auto}[config.final_norm]


def sublayer(place, connection, streams, F, norms, drop, depth):
    """x and r after a sub-layer. depth is (L, l)."""
    (x, r), (L, l), row = streams, depth, PLACEMENTS[place]
    own = norms.pop() if connection.norm else None
    N, M = (norms[0], norms[-1]) if norms else (None, None)
    f = drop(row.branch(connection.read(x, r, own), F, N, M, l))
    x, r = connection.write(x, r, f, row.a(L), row.b(L, l))
    return M(x) if row.post else x, r
