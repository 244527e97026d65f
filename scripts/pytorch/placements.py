"""The placements of normlab.py: where the norms of a sub-layer are, from the papers that
./train --list-placements names.

A row of PLACEMENTS: which norms a sub-layer has (`in` of what the branch reads, `out` of what the sub-layer's function,
attention or MLP, returns, `post` after the sum), whether there is a norm before the head, the factors a of the stream and
b of the branch, c which divides the normalized input, the connection, and whether there is a norm after the embedding,
before which a second stream starts. A placement whose sub-layers have different rows has their names as `row` instead. L
is the number of layers, l = 1 ... L.

Residual connections, from the papers that ./train --list-connections names.

x (B,T,C) is the main stream, r what a connection keeps beside it, f the sub-layer's output after its
dropout, a and b the placement's factors. A class of CONNECTIONS makes one connection, of attention or of
the MLP, with its parameters in the layer; `read` returns the sub-layer's input, `write` x before a norm,
and r. N is a norm, if the class names one.
"""
import collections
import math

from torch import nn
import torch

from pytorch.norms import over_rms

# ---- residual connections ------------------------------------------------------------------------

class Plain:
    """He et al. 2016."""
    norm = None    # the end of the name of a norm of read
    post = True    # whether a norm after the sum has something to normalize
    names = None   # of the parameter p in the layer, in attention and in the MLP

    def __init__(self, layer, site, C):
        self.number = 2 * (layer.depth[1] - 1) + (site != "attn")  # of the sub-layer, from 0 on
        if self.names:
            name = self.names[self.number % 2]
            if not hasattr(layer, name):
                setattr(layer, name, self.learned(C))
            self.p = getattr(layer, name)

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
        """The input of the head; N is the norm before it, `second` one more if the class names one."""
        return N(x)


class ReZero(Plain):
    """A factor p: one number, the same for both sub-layers."""
    names, vector = ("resweight", "resweight"), False

    def learned(self, C):
        return nn.Parameter(torch.zeros(C if self.vector else 1))

    def write(self, x, r, f, a, b):
        return a * x + self.p * b * f, r


class SkipInit(ReZero):
    names = "skip_gain_1", "skip_gain_2"


class LayerScale(ReZero):
    names, vector = ("gamma_1", "gamma_2"), True


class Admin(ReZero):
    names, vector = ("attention_ratio_change", "fc_ratio_change"), True

    def write(self, x, r, f, a, b):
        return self.p * a * x + b * f, r


class Interpolate(Plain):
    """nGPT's step; its parameter is alpha / (0.05 sqrt(C))."""
    names = "attn_alpha", "mlp_alpha"

    def learned(self, C):
        return nn.Parameter(torch.full((C,), C ** -0.5))

    def write(self, x, r, f, a, b):
        step = (0.05 * math.sqrt(x.shape[-1]) * self.p).abs()
        return a * x + step * (b * f - a * x), r


class Residual(Plain):
    """ResiDual: r is a second stream."""

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
    norm = "second"

    def read(self, x, r, N):
        return x + N(r)

    @staticmethod
    def head(model, x, r, N, second):
        return N(x + second(r))


class Hyper(Plain):
    """Zhu et al. 2024, algorithm 2: r is the streams (B,T,S,C), x their sum. p is what alpha and beta differ
    from their first values."""
    post, S, dynamic, names = False, 4, True, ("hc_1", "hc_2")

    def learned(self, C):
        starts = {"alpha": torch.zeros(self.S * (self.S + 1)), "beta": torch.zeros(self.S)}
        if self.dynamic:
            starts |= {"scale": torch.full((2,), 0.01), "weight": torch.zeros(self.S + 2, C)}
        return nn.ParameterDict(starts)

    def weights(self, streams):
        p, first = self.p, torch.zeros(self.S, 1).to(streams)
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


class MHC(Hyper):
    """Xie et al. 2025, equations 7 to 9: H_res[j][i] is alpha[i][j + 1]. Logits have the layout of alpha, then
    beta; p is what they differ from their first values, which the paper does not give."""

    def learned(self, C):
        S = self.S
        return nn.ParameterDict({"alpha": torch.zeros(S * (S + 1)), "beta": torch.zeros(S), "scale": torch.full((3,), 0.01),
                                 "weight": torch.zeros(S * (S + 2), S * C)})

    def weights(self, streams):
        p, S = self.p, self.S
        dynamic = (over_rms(streams.flatten(-2), 1e-5) @ p.weight.T).unflatten(-1, (S, S + 2))
        alpha = p.alpha.reshape(S, S + 1)
        first = torch.full((S,), 1 / (2 * (S - 1))).to(streams)
        first[self.number % S] = 1 / 2
        pre = torch.logit(first) + alpha[:, 0] + p.scale[0] * dynamic[..., 0]
        post = p.beta + p.scale[1] * dynamic[..., -1]
        res = 4 * torch.eye(S).to(streams) - 4 + alpha[:, 1:] + p.scale[2] * dynamic[..., 1:-1]
        H_res = res.transpose(-1, -2).exp()
        for _ in range(20):
            H_res = H_res / H_res.sum(-2, keepdim=True)  # columns
            H_res = H_res / H_res.sum(-1, keepdim=True)  # rows
        alpha = torch.cat([pre.sigmoid()[..., None], H_res.transpose(-1, -2)], -1)
        return alpha, 2 * post.sigmoid()


class AttnRes(Plain):
    """Attention residuals: r is the list of all v."""
    post, names = False, ("attnres_1", "attnres_2")

    def learned(self, C):
        return nn.Parameter(torch.zeros(C))

    @staticmethod
    def mixture(w, values):
        v = torch.stack(values)
        return ((over_rms(v, 1e-6) @ w).softmax(0)[..., None] * v).sum(0)

    def read(self, x, r, N):
        return self.mixture(self.p, r)

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
               "hyper": Hyper, "hyper-static": HyperStatic, "mhc": MHC, "attnres": AttnRes}


# ---- placements ----------------------------------------------------------------------------------

Row = collections.namedtuple("Row", "sites final a b c connection of_embedding row", defaults=(
    lambda L: 1, lambda L, l: 1, lambda l: 1, "plain", False, None))

PLACEMENTS = {
    "pre": Row(["in"], True),
    "post": Row(["post"], False),
    "sandwich": Row(["in", "out"], True),
    "peri": Row(["in", "out"], True, of_embedding=True),
    "reordered": Row(["out"], True),
    "deepnorm": Row(["post"], False, a=lambda L: (2 * L) ** 0.25),
    "keel": Row(["in", "post"], False, a=lambda L: 2 * L),
    "lns": Row(["in"], True, c=math.sqrt),
    "bare": Row([], True),
    "rezero": Row([], False, connection="rezero"),
    "skipinit": Row([], False, connection="skipinit"),
    "layerscale": Row(["in"], True, connection="layerscale"),
    "tfixup": Row([], False),
    "dsinit": Row(["post"], False),
    "admin": Row(["post"], False, connection="admin"),
    "residual": Row(["post"], True, connection="residual"),
    # x has passed the norm that the paper writes at the start of the sub-layer
    "siamese": Row(["in", "post"], True, b=lambda L, l: 1 / math.sqrt(2 * l), connection="siamese", of_embedding=True),
    "ngpt": Row(["out", "post"], False, connection="interpolate", of_embedding=True),
    "mix": Row([], True, row=lambda config, site, l: "post" if l <= math.floor(config.mix_fraction * config.n_layer) else "pre"),
    "hybrid": Row([], True, row=lambda config, site, l: {"attn": "post", "ffn": "bare"}[site]),
    "hybrid-star": Row([], True, row=lambda config, site, l: "pre" if l == 1 else PLACEMENTS["hybrid"].row(config, site, l)),
}


def row_of(config, site, l):
    """The row of a sub-layer of layer l = 1 ... L; site is attn or ffn."""
    row = PLACEMENTS[getattr(config, f"placement_{site}")]
    return PLACEMENTS[row.row(config, site, l)] if row.row else row


def connection_of(config, row):
    """The class of the connection of a row."""
    return CONNECTIONS[row.connection if config.connection == "auto" else config.connection]


def sublayer(row, connection, streams, F, norms, drop, depth):
    """x and r after a sub-layer. norms: {site: norm}. depth is (L, l)."""
    (x, r), (L, l) = streams, depth
    N = collections.defaultdict(nn.Identity, norms)
    f = drop(N["out"](F(N["in"](connection.read(x, r, N[connection.norm])) / row.c(l))))
    x, r = connection.write(x, r, f, row.a(L), row.b(L, l))
    return N["post"](x), r


# ---- nGPT ----------------------------------------------------------------------------------------

def apply(model):
    """Turns a Model of --placement=ngpt, which has its norms, into nGPT, the normalized Transformer of Loshchilov et al.
    2024 (arXiv:2410.01131) and NVIDIA/ngpt.

    The paper's u(x), a vector of unit length, is N(x) / sqrt(its number of channels) here, so that N can be any norm; N
    has neither gamma nor beta. With --norm=scale, or rms without epsilon, it is the paper's u. The paper has no biases
    (--bias=off) and no positions in its embeddings, and an MLP with a gate: here s_u multiplies what the nonlinearity
    reads. The stream is x = sqrt(C) h in place of the paper's h.

        h = u(wte + wpe)
        q = s_qk u(W_q h), k = s_qk u(W_k h), weights = softmax(sqrt(HS) q k^T)
        h_A = u(attention), h = u(h + alpha_A (h_A - h))
        h_M = u(W_proj act(sqrt(C) s_u W_fc h)), h = u(h + alpha_M (h_M - h))
        logits = s_z W h

    q and k have the length sqrt(HS) here, and attention divides their product by it. s_qk and s_z are sqrt(C) times their parameters."""
    if model.config.placement != "ngpt":
        return
    C, V = model.config.n_embd, model.config.vocab_size

    def parameter(size, start):
        return nn.Parameter(torch.full((size,), float(start)))
    for block in model.transformer["h"]:
        block.sqk, block.su = parameter(C, C ** -0.5), parameter(block.mlp.c_fc.out_features, 1)
        block.attn.factor = lambda block=block: C ** 0.5 * block.sqk.reshape(-1, 1, block.attn.HS)
        block.mlp.factor = lambda block=block: block.su
    model.sz, head = parameter(V, C ** -0.5), model.lm_head
    head.forward = lambda x: model.sz * nn.functional.linear(x, head.weight)


@torch.no_grad()
def normalize_matrices(model):
    """What nGPT does to its weights initially and after each step: along the channels of the stream,
    all vectors of the matrices get unit length. Nothing in other placements."""
    for name, weight in model.named_parameters():
        if model.config.placement == "ngpt" and weight.dim() == 2:
            weight /= weight.norm(dim=0 if name.endswith("c_proj.weight") else 1, keepdim=True)
