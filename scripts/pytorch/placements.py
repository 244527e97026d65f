"""The placements of normlab.py: where the norms of a sub-layer are, from the papers that
./train --list-placements names.

A row of PLACEMENTS: the suffixes after ln_1 or ln_2 in the names of the sub-layer's norms; whether there
is a norm before the head; the formula of the branch; whether the last norm is after the sum; its factors
of the stream and of the branch; and its connection (connections.py). u is what the branch reads, F
the sub-layer's function, attention or MLP, N and M its first and its last norm, L the number of layers,
l = 1 ... L.

nGPT, the normalized Transformer of Loshchilov et al. 2024 (arXiv:2410.01131) and NVIDIA/ngpt, for
normlab.py: what --placement=ngpt changes in a Model.

The paper's u(x), a vector of unit length, is N(x) / sqrt(its number of channels) here, so that N can be
any norm; N has neither gamma nor beta. With --norm=scale, or rms without epsilon, it is the paper's u.
The paper has no biases (--bias=off) and no positions in its embeddings, and an MLP with a gate: here s_u
multiplies what the nonlinearity reads. Everything outside of this file has x = sqrt(C) h in place of the
stream h.

    h = u(wte + wpe)
    q = s_qk u(W_q h), k = s_qk u(W_k h), weights = softmax(sqrt(HS) q k^T)
    h_A = u(attention), h = u(h + alpha_A (h_A - h))
    h_M = u(W_proj act(sqrt(C) s_u W_fc h)), h = u(h + alpha_M (h_M - h))
    logits = s_z W h
"""
import collections
import math

from torch import nn
import torch

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
    "ngpt": Row(["", "_post"], False, None, connection="interpolate"),  # below
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


# ---- nGPT ----------------------------------------------------------------------------------------

ALPHA = 0.05  # where alpha starts


class Scaled(nn.Parameter):
    """A parameter that starts at `scale` and stands for p start / scale, which starts at `start`."""
    def __new__(cls, size, start, scale):
        self = super().__new__(cls, torch.full((size,), float(scale)))
        self.factor = start / scale
        return self


def unit(norm, x, valid):
    """u(x) for x of the length of h, through a norm of vectors of length sqrt(C)."""
    root = math.sqrt(x.shape[-1])
    return norm(root * x, valid) / root


def layer(self, x, r, valid=None):
    """Layer.forward() in nGPT."""
    h, root = x / math.sqrt(x.shape[-1]), math.sqrt(x.shape[-1])
    for function, alpha, of_branch, of_stream in (
            (self.attn, self.attn_alpha, self.ln_1, self.ln_1_post),
            (self.mlp, self.mlp_alpha, self.ln_2, self.ln_2_post)):
        # of q and k, which have the length sqrt(HS) here, and scores() divides by it; of c_fc sqrt(C) h
        factor = (self.sqk * self.sqk.factor).reshape(self.attn.heads, 1, -1) \
            if function is self.attn else self.su * self.su.factor
        branch = of_branch(function(root * h, valid, factor), valid) / root
        step = (alpha * alpha.factor).abs()
        h = unit(of_stream, h + step * (self.drop(branch) - h), valid)
    return root * h, root * h


def apply(model):
    """Turns a Model of --placement=ngpt, which has its norms, into nGPT."""
    if model.config.placement != "ngpt":
        return
    C, V = model.config.n_embd, model.config.vocab_size
    scale = 1 / math.sqrt(C)

    for block in model.transformer["h"]:
        block.attn_alpha, block.mlp_alpha = Scaled(C, ALPHA, scale), Scaled(C, ALPHA, scale)
        block.sqk, block.su = Scaled(C, 1, scale), Scaled(block.mlp.c_fc.out_features, 1, 1)
        block.forward = lambda x, r, valid=None, block=block: layer(block, x, r, valid)
    model.sz, head = Scaled(V, 1, scale), model.lm_head
    model.lm_head.forward = lambda x: model.sz * model.sz.factor * nn.functional.linear(
        x / math.sqrt(C), head.weight)


@torch.no_grad()
def normalize_matrices(model):
    """What nGPT does to its weights initially and after each step: along the channels of the stream,
    all vectors of the matrices get unit length. Nothing in other placements."""
    for name, weight in model.named_parameters():
        if model.config.placement == "ngpt" and weight.dim() == 2:
            weight /= weight.norm(dim=0 if name.endswith("c_proj.weight") else 1, keepdim=True)
