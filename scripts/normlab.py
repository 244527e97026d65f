"""Every norm and every placement of ./train in PyTorch: to read, to copy from, to load runs.

    import normlab; from pytorch import texts # with scripts/ on sys.path
    model = normlab.load("runs/bn-pre-s1")    # a run's folder or a safetensors file; in eval mode
    ids = texts.encode(model, "To be or not to be")[None]           # (B,T)
    logits = model(ids)                       # (B,T,V)
    seen = model.activations(ids)             # {"h.0.ln_1": (B,T,C), "h.0.ln_1.in": (B,T,C), ...}

The formulas come from the papers (./train --list-norms and --list-placements name them), not from
the C code. scripts/pytorch/check_normlab.py compares the two. A new Model(Config(...)) has PyTorch's default
weights; for the initial weights of ./train, load a run of --max-iters=0.
B sequences, T positions, C channels, NH heads, V characters. A norm sees x (B,S,C). S is T, except for
queries, keys and values head by head: T NH, a row for each head of a token. `valid` (B,S) is False at
pads, or None.

model.train() and model.eval() do what ./train does. Norms that pool over tokens use the statistics
of the batch in training, and each forward updates their running statistics, which they use in
evaluation. After its warm-up pn uses running statistics in training too. Dropout is on in training
only; PyTorch samples its masks, so they differ from ./train's.
"""
import contextlib
import functools
import types

import torch
from torch import nn

from pytorch import model_file, nanogpt, placements
from pytorch.block import (MLP, Attention, FixedPositions, PowerDivide, Renormalizing, Sharded, in_groups, make_classes,
                           moments, over_partial_rms, over_rms, past_moments, softcap, standardize)

OPTIONS = dict(  # the options of ./train, with _ for -, and their defaults
    n_layer=4, n_head=4, n_kv_head=0, n_embd=128, block_size=64, position="learned", rope_theta=1e4,
    init="gpt2", init_std=0.02, init_embd_std="auto", embd_scale="none", act="gelu", ffn_width=0, head="tied",
    attn_gate="none", attn_softcap=0.0, logit_softcap=0.0, dropout=0.0, bias=True, affine=True,
    norm="ln", norm_attn="auto", norm_ffn="auto", norm_final="auto",
    qk_norm="off", v_norm="off", ffn_norm="off", qk_norm_over="head", qk_scale="fixed",
    placement="pre", placement_attn="auto", placement_ffn="auto", final_norm="auto",
    connection="auto", mix_fraction=0.25, norm_eps=1e-5, norm_groups=0,
    bn_momentum=0.1, bn_axis="batch+time", bn_shards=1, rbn_mean=0.0, rbn_var=0.0, brn_r_max=3.0,
    brn_d_max=5.0, brn_warmup=80, brn_relax=560, dyt_alpha=0.5, prepbn_steps=2000, prepbn_eta=0.0,
    pn_alpha_fwd=0.9, pn_alpha_bkw=0.9, pn_warmup=200, pn_group_scaling=True, pn_divisor="psi",
    ts_prior_count=0, pad_stats="mask", pad_to="longest", items=False, level="char", rms_fraction=1.0,
    bhyt_lambda=2.0, bhyt_kappa=10.0, gated_rank=16)


class Config(types.SimpleNamespace):
    """What a model is: vocab_size and OPTIONS, with each norm by its name, "none" for no norm."""
    rows_per_token = 1  # of a norm's input; of queries and keys NH

    def __init__(self, vocab_size=256, **options):
        assert options.keys() <= OPTIONS.keys(), f"unknown: {options.keys() - OPTIONS.keys()}"
        super().__init__(vocab_size=vocab_size, **{**OPTIONS, **options})
        for site in ("norm_attn", "norm_ffn", "norm_final"):
            setattr(self, site, getattr(self, site).replace("auto", self.norm))
        self.affine = self.affine and self.placement != "ngpt"
        for site in ("placement_attn", "placement_ffn"):
            setattr(self, site, getattr(self, site).replace("auto", self.placement))
        for inner, site in (("qk_norm", "norm_attn"), ("v_norm", "norm_attn"), ("ffn_norm", "norm_ffn")):
            kind = getattr(self, inner)
            if kind == "off" and self.placement_attn in placements.INNER.get(inner, ()):
                kind = "on"
            setattr(self, inner, {"off": "none", "on": getattr(self, site)}.get(kind, kind))
        self.norm_groups = self.norm_groups or self.n_head


# ---- norms --------------------------------------------------------------------------------------
class Norm(nn.Module):
    """The common base of norms of C channels. gamma is `weight` (C), beta `bias` (C): PyTorch's names."""
    learns, keeps = ("weight", "bias"), ()

    def __init__(self, C, config):
        super().__init__()
        self.config, self.eps = config, config.norm_eps
        one, count = torch.zeros(1), torch.tensor(0)
        starts = {"weight": torch.ones(C), "bias": torch.zeros(C), "scale": torch.tensor(C ** 0.5),
                  "alpha": one + config.dyt_alpha, "shift": one, "running_mean": torch.zeros(C),
                  "running_var": torch.ones(C), "num_batches_tracked": count,
                  "running_phi": torch.ones(C), "ema_gz": torch.zeros(C), "iters": count}
        starts |= {name: torch.zeros(config.norm_groups) for name in ("prior_mean", "prior_logv")}
        fixed = ("" if config.bias else "bias") if config.affine else "weight scale bias"
        for name in self.learns:
            if name in fixed.split():
                self.register_buffer(name, starts[name], persistent=False)
            else:
                self.register_parameter(name, nn.Parameter(starts[name]))
        for name in self.keeps:
            self.register_buffer(name, starts[name])


# Norms that see one token at a time: their parameters, and the formula, where n is the module. scale,
# alpha and shift are one number each. ln: Ba, Kiros and Hinton 2016; gn: Wu and He 2018; rms: Zhang
# and Sennrich 2019; scale: Nguyen and Salazar 2019; dyt: Zhu et al. 2025; derf: Chen et al. 2025.
TOKEN_NORMS = {
    "none": ("", lambda n, x: x),
    "ln": ("weight bias", lambda n, x: n.weight * standardize(x, n.eps) + n.bias),
    "gn": ("weight bias", lambda n, x: n.weight * in_groups(
        standardize, x, n.config.norm_groups, n.eps) + n.bias),
    "rms": ("weight", lambda n, x: n.weight * over_partial_rms(x, n.eps, n.config.rms_fraction)),
    "l2": ("", lambda n, x: x / x.norm(dim=-1, keepdim=True).clamp(min=n.eps)),
    "scale": ("scale", lambda n, x: n.scale * x / x.norm(dim=-1, keepdim=True).clamp(min=n.eps)),
    "dyt": ("alpha weight bias", lambda n, x: n.weight * torch.tanh(n.alpha * x) + n.bias),
    "derf": ("alpha shift weight bias",
             lambda n, x: n.weight * torch.erf(n.alpha * x + n.shift) + n.bias),
}


class TokenNorm(Norm):
    def __init__(self, kind, C, config):
        self.kind, self.learns = kind, TOKEN_NORMS[kind][0].split()
        super().__init__(C, config)

    def forward(self, x, valid=None):
        return TOKEN_NORMS[self.kind][1](self, x)


class BatchNorm(Norm):
    """xhat = (x - mean) / sqrt(var + eps), mean and var of each channel over the batch's valid
    tokens, in evaluation the running mean and var. As in BatchNorm1d, var is biased, but the running
    var averages unbiased ones. Ioffe and Szegedy 2015. After a forward in training, `penalty` is what
    Regularized BatchNorm (Wang et al. 2022) adds to the loss of the batch."""
    keeps = ("running_mean", "running_var", "num_batches_tracked")
    dims, penalty = (0, 1), 0.0

    def running(self, x):
        """Running mean and var as (1,C), or (S,C) by position: views of the buffers."""
        both = self.running_mean, self.running_var
        return [r[None] if r.dim() == 1 else r[:x.shape[1]] for r in both]

    @torch.no_grad()
    def track(self, x, mean, var, n):
        unbiased = var * n / (n - 1).clamp(min=1)
        for running, batch, known in zip(self.running(x), (mean, unbiased), (n > 0, n > 1)):
            average = (known * batch).sum(0) / known.sum(0).clamp(min=1)  # over sequences or parts
            running += self.config.bn_momentum * (average - running) * known.any(0)
        self.num_batches_tracked += 1

    def forward(self, x, valid=None):
        running_mean, running_var = mean, var = self.running(x)
        if self.training:
            mean, var, n = moments(x, self.dims, valid)
            self.track(x, mean, var, n)  # the penalty uses the updated running statistics
            difference = (var + self.eps).sqrt() - (running_var + self.eps).sqrt()
            if self.config.rbn_mean or self.config.rbn_var:
                self.penalty = (self.config.rbn_mean * (mean - running_mean).square().sum()
                                + self.config.rbn_var * difference.square().sum())
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


class PositionBatchNorm(BatchNorm):
    """--bn-axis=batch: mean and var over the batch alone, at each position. Causal."""
    dims = (0,)

    def __init__(self, C, config):
        super().__init__(C, config)
        self.running_mean = torch.zeros(config.block_size, C)
        self.running_var = torch.ones(config.block_size, C)


class BatchRenorm(Renormalizing, BatchNorm):
    """bn, corrected in training towards its running statistics. Ioffe 2017."""


class ShardedBatchNorm(Sharded, BatchNorm):
    """--bn-shards: mean and var over parts of the batch."""


class InstanceNorm(BatchNorm):
    """Mean and var over each sequence's positions in training (Ulyanov et al. 2016), running ones in
    evaluation, the same for all sequences, as InstanceNorm1d(track_running_stats=True) does."""
    dims = (1,)


class CumulativeLayerNorm(Norm):
    """Mean and var over the channels of a token and of the earlier valid tokens of its sequence, in
    training and in evaluation. All heads of a token are one step. Luo and Mesgarani 2019, cLN."""

    def forward(self, x, valid=None):
        mean, var = past_moments(x, valid, self.config.rows_per_token)
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


class TimestepNorm(Norm):
    """cln in groups of channels, gamma = 1 + weight, after `prior_count` tokens of a learned mean and
    variance. Ma et al. 2024, Megalodon."""
    learns = ("weight", "bias", "prior_mean", "prior_logv")

    def __init__(self, C, config):
        super().__init__(C, config)
        with torch.no_grad():
            self.weight.zero_()

    def forward(self, x, valid=None):
        config = self.config
        prior = config.ts_prior_count, self.prior_mean, self.prior_logv.exp()
        mean, var = past_moments(x, valid, config.rows_per_token, config.norm_groups, prior)
        return (1 + self.weight) * (x - mean) / (var + self.eps).sqrt() + self.bias


class PowerNormV(Norm):
    """xhat = x / sqrt(phi + eps), phi = mean_n x^2 over the batch's valid tokens; in evaluation
    the running phi. Shen et al. 2020, PN-V."""
    keeps = ("running_phi",)

    def track(self, phi):
        self.running_phi += (1 - self.config.pn_alpha_fwd) * (phi.detach()[0, 0] - self.running_phi)

    def forward(self, x, valid=None):
        phi = self.running_phi
        if self.training:
            phi = moments(x.square(), (0, 1), valid)[0]
            self.track(phi)
        return self.weight * x / (phi + self.eps).sqrt() + self.bias


class PowerNorm(PowerNormV):
    """xhat = u / sqrt(phi + eps), phi the running mean_n u^2, u = x over its root mean square in
    its head (group scaling). Shen et al. 2020."""
    keeps = ("running_phi", "ema_gz", "iters")

    def forward(self, x, valid=None):
        scaling = self.config.pn_group_scaling
        u = in_groups(over_rms, x, self.config.n_head, self.eps) if scaling else x
        xhat = u / (self.running_phi + self.eps).sqrt()
        xhat = PowerDivide.apply(u, valid, self) if self.training else xhat
        return self.weight * xhat + self.bias


class PRepBN(Norm):
    """y = lambda ln(x) + (1 - lambda) (bn(x) + eta x), eta one number; in training lambda falls
    from 1 to 0, in evaluation it is 0. Guo et al. 2024; the names are those of the authors."""
    learns = ()

    def __init__(self, C, config):
        super().__init__(C, config)
        self.norm1, self.norm2 = TokenNorm("ln", C, config), nn.Module()
        self.norm2.alpha = nn.Parameter(torch.full((1,), float(config.prepbn_eta)))
        self.norm2.bn = BatchNorm(C, config)

    def forward(self, x, valid=None):
        bn, eta, steps = self.norm2.bn, self.norm2.alpha, self.config.prepbn_steps
        k = int(bn.num_batches_tracked)
        mix = 1 - k / steps if self.training and k < steps else 0
        return mix * self.norm1(x) + (1 - mix) * (bn(x, valid) + eta * x)


POOLED_NORMS = {"bn": BatchNorm, "brn": BatchRenorm, "in": InstanceNorm, "pn-v": PowerNormV,
                "pn": PowerNorm, "prepbn": PRepBN, "cln": CumulativeLayerNorm, "ts": TimestepNorm,
                **make_classes(Norm)}


def make_norm(kind, C, config):
    if kind in TOKEN_NORMS:
        return TokenNorm(kind, C, config)
    if kind == "bn" and config.bn_axis == "batch":
        return PositionBatchNorm(C, config)
    if kind == "bn" and config.bn_shards > 1:
        return ShardedBatchNorm(C, config)
    if kind not in POOLED_NORMS:
        raise NotImplementedError(f"normlab.py lacks the norm {kind} (add it to TOKEN_NORMS or POOLED_NORMS)")
    return POOLED_NORMS[kind](C, config)


# ---- layers -------------------------------------------------------------------------------------
class Layer(nn.Module):
    def __init__(self, config, l):
        super().__init__()
        self.depth, self.drop = (config.n_layer, l), nn.Dropout(config.dropout)
        self.sublayers = []  # function, placement, connection and names of norms
        for name, site, kind in (("ln_1", "attn", config.norm_attn), ("ln_2", "ffn", config.norm_ffn)):
            place = placements.row_of(config, site, l)
            connection = placements.connection_of(config, place)
            norms = [name + suffix for suffix in placements.norm_suffixes(config, place)]
            function = {"attn": "attn", "ffn": "mlp"}[site]
            self.sublayers.append((function, place, connection(self, function, config.n_embd), norms))
            for norm in norms:
                setattr(self, norm, make_norm(kind, config.n_embd, config))
            if site == "attn":  # in nanoGPT's order
                self.attn = Attention(config, make_norm)
        self.mlp = MLP(config, make_norm)

    def forward(self, x, r, valid=None):
        """x (B,T,C) after the layer, and r: what the connection keeps beside it."""
        for site, place, connection, names in self.sublayers:
            F, *norms = (functools.partial(getattr(self, name), valid=valid) for name in (site, *names))
            x, r = placements.sublayer(place, connection, (x, r), F, norms, self.drop, self.depth)
        return x, r


# ---- the Transformer ----------------------------------------------------------------------------
class Model(nn.Module):
    """nanoGPT's Transformer and names. `vocabulary`: the code points or bytes of the ids."""
    def __init__(self, config, vocabulary=None):
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        C, kind = config.n_embd, config.norm_final
        of_embedding = kind if config.placement in placements.OF_EMBEDDING else "none"
        self.connection = placements.connection_of(config, config.placement)
        of_second = kind if self.connection.norm else "none"
        of_head = kind if placements.has_final(config) else "none"
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config.vocab_size, C),
            "wpe": nn.Embedding(config.block_size, C) if config.position == "learned"
            else FixedPositions(config),
            "drop": nn.Dropout(config.dropout),
            "ln_e": make_norm(of_embedding, C, config),
            "h": nn.ModuleList(Layer(config, l + 1) for l in range(config.n_layer)),
            "ln_f": make_norm(of_head, C, config),
            "ln_f_second": make_norm(of_second, C, config),
        })
        # one number, of dyt's and derf's recipes: Zhu et al. 2025, Chen et al. 2025
        self.shared_scale = nn.Parameter(torch.full((1,), C ** 0.5)) if config.embd_scale == "learned" else 1
        self.lm_head = nn.Linear(C, config.vocab_size, bias=False)
        if config.head == "tied":
            self.lm_head.weight = self.transformer["wte"].weight
        self.connection.attach_head(self, C)
        placements.apply(self)

    def forward(self, ids, valid=None):
        """Logits (B,T,V) of ids (B,T)."""
        valid = valid if self.config.pad_stats == "mask" else None
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1], device=ids.device))
        embedded = t["drop"](x * self.shared_scale)
        x = t["ln_e"](embedded, valid)
        r = self.connection.start(x, embedded)
        for layer in t["h"]:
            x, r = layer(x, r, valid)
        norms = (functools.partial(t[name], valid=valid) for name in ("ln_f", "ln_f_second"))
        logits = self.lm_head(self.connection.head(self, x, r, *norms))
        return softcap(self.config.logit_softcap, logits)

    def activations(self, ids, valid=None):
        """The last output of each module in forward(ids), and as NAME.in its input:
        {"h.0.ln_1": (B,T,C), "h.0.attn.softmax": (B,NH,T,T), "logits": (B,T,V), ...}."""
        seen = {}
        with contextlib.ExitStack() as hooks:
            for name, module in self.named_modules():
                def keep(module, inputs, output, name=name.replace("transformer.", "") or "logits"):
                    seen[name] = output[0] if isinstance(output, tuple) else output
                    seen[name + ".in"] = inputs[0]
                hooks.callback(module.register_forward_hook(keep).remove)
            self(ids, valid)
        return seen


@contextlib.contextmanager
def rounded_inputs(model, bits):
    """In this context the inputs of all linear layers are rounded, each tensor to 2^bits - 1 equal steps between minus and
    plus its largest absolute value."""
    levels = 2 ** (bits - 1) - 1

    def round_input(module, inputs):
        step = (inputs[0].abs().amax() / levels).clamp(min=1e-30)
        return ((inputs[0] / step).round() * step, *inputs[1:])
    with contextlib.ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, nn.Linear):
                hooks.callback(module.register_forward_pre_hook(round_input).remove)
        yield


def load(run, **changes):
    """The model of a run's folder or a safetensors file, in eval mode; `changes` replace its options.
    A missing file raises FileNotFoundError, a damaged one ValueError."""
    path, texts, arrays = model_file.read(run)
    arrays = {name: array for name, array in nanogpt.plain_names(arrays).items()
              if not name.startswith("probe.")}
    options = nanogpt.sizes_of(path, arrays, texts, 0)
    for name, default in OPTIONS.items():
        text = texts.get(name.replace("_", "-"))
        if text is not None and name not in options:
            options[name] = text == "on" if isinstance(default, bool) else type(default)(text)
    vocabulary = model_file.symbols_of({"vocabulary": "", **texts})  # empty if there is none
    model = Model(Config(**{**options, **changes}), vocabulary)
    model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    return model.eval()
