"""Parts of normlab.py, whose conventions hold here too: of norms, attention, the MLP and positions.

Of norms: means and variances; variants of BatchNorm, and PowerNorm's division; the norms that divide by a root mean
square and do something more, which are partial RMSNorm, SeeDNorm, BHyT and GatedNorm.

--qk-norm and --v-norm, over each head (Dehghani et al. 2023) or over the full width (OLMo 2), and with
--qk-scale=learned one learned number for each head, by which its logits are multiplied. With --qk-norm=l2
that is QKNorm (Henry et al. 2020), which has one number for all heads of a layer.

--position, --act, --ffn-width, --n-kv-head, --attn-gate and the two soft caps. A gate in the MLP: GLU
variants of Shazeer 2020, after attention: Qiu et al. 2025 (arXiv:2505.06708); rotary positions: Su et al. 2021,
halves of a head as in Llama; grouped queries: Ainslie et al. 2023; soft caps: Gemma 2.
"""
import copy
import math

import torch
from torch import nn
from torch.nn import functional

# ---- norms ---------------------------------------------------------------------------------------

def standardize(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, False, keepdim=True) + eps).sqrt()


def over_rms(x, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def in_groups(function, x, groups, eps):
    return function(x.unflatten(-1, (groups, -1)), eps).flatten(-2)


def moments(x, dims, valid=None):
    """Mean, biased variance and number of the valid rows of x (B,S,C) over dims, which become 1."""
    count = torch.ones_like(x[..., :1]) if valid is None else valid[..., None].to(x.dtype)
    n = count.sum(dims, keepdim=True)
    mean = (count * x).sum(dims, keepdim=True) / n.clamp(min=1)
    var = (count * (x - mean).square()).sum(dims, keepdim=True) / n.clamp(min=1)
    return mean, var, n


def past_moments(x, valid=None, rows=1, groups=1, prior=None):
    """Mean and biased variance (B,S,C) of all valid numbers of x (B,S,C) up to and including a token,
    which has `rows` rows, in each of `groups` groups of channels: E[z] and E[z^2] - E[z]^2 from
    cumulative sums. z is x minus the mean of the sequence's first token, so that an offset costs no
    digits. prior: n tokens of this mean (G) and variance (G) come first."""
    B, S, C = x.shape
    T, width = S // rows, rows * C // groups
    tokens = x.reshape(B, T, rows, groups, -1).transpose(2, 3).reshape(B, T, groups, width)
    seen = torch.ones_like(tokens[..., :1])
    if valid is not None:
        seen = seen * valid.reshape(B, T, rows)[..., :1, None]
    origin = tokens[:, :1].mean(-1, keepdim=True).detach()
    z = (tokens - origin) * seen
    n, m, v = prior or (0, 0 * x[0, 0, :groups], 0 * x[0, 0, :groups])
    m = m[:, None] - origin
    count = (seen.cumsum(1) + n).clamp(min=1)
    mean = (z.mean(-1, keepdim=True).cumsum(1) + n * m) / count
    square = (z.square().mean(-1, keepdim=True).cumsum(1) + n * (v[:, None] + m.square())) / count
    return [a.expand(B, T, groups, C // groups).flatten(2).repeat_interleave(rows, 1)
            for a in (mean + origin, square - mean.square())]


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

    class GatedNorm(Norm):
        """n sigmoid(U silu(D n)), n = gamma x / rms(x); `up` is the transpose of U. Qiu et al. 2026."""
        learns = ("weight",)

        def __init__(self, C, config):
            super().__init__(C, config)
            for name in ("down", "up"):
                self.register_parameter(name, nn.Parameter(0.02 * torch.randn(config.gated_rank, C)))

        def forward(self, x, valid=None):
            n = self.weight * over_rms(x, self.eps)
            return n * torch.sigmoid(functional.silu(n @ self.down.T) @ self.up)

    return {"seednorm": SeeDNorm, "bhyt": BHyT, "gated": GatedNorm}


# ---- attention and the MLP -----------------------------------------------------------------------

def scale_start(config):
    """log2(T^2 - T) for cosines (Henry et al. 2020), else the usual 1 / sqrt(HS)."""
    if config.qk_norm == "l2":
        longest = max(config.block_size, 2)
        return math.log2(longest ** 2 - longest)
    return 1 / math.sqrt(config.n_embd / config.n_head)


class NormsOfQKV(nn.Module):
    """Attention inherits this: q_norm, k_norm and v_norm, timm's names, and qk_scale (NH)."""

    def make_norms(self, config, make_norm):
        self.heads, self.kv_heads = config.n_head, config.n_kv_head or config.n_head
        self.by_head = config.qk_norm_over == "head"
        if config.qk_scale == "learned":
            self.qk_scale = nn.Parameter(torch.full((self.heads,), scale_start(config)))
        else:
            self.qk_scale = None  # 1 / sqrt(HS)
        HS = config.n_embd // config.n_head
        for name, kind in (("q", config.qk_norm), ("k", config.qk_norm), ("v", config.v_norm)):
            heads, own = self.heads if name == "q" else self.kv_heads, copy.copy(config)
            own.n_head = heads
            own.norm_groups = max(1, config.norm_groups * heads // self.heads)  # of the same size
            if self.by_head:  # a row for each head of a token; see normlab.py
                own.n_head = own.norm_groups = 1
                own.block_size *= heads
                own.rows_per_token = heads
            setattr(self, name + "_norm", make_norm(kind, HS if self.by_head else HS * heads, own))

    def split_heads(self, qkv, valid):
        """q, k and v (B,NH,T,HS), normalized, of qkv (B,T,C + 2 KV HS)."""
        B, T, width = qkv.shape
        HS = width // (self.heads + 2 * self.kv_heads)
        counts = self.heads, self.kv_heads, self.kv_heads
        parts = qkv.split([HS * heads for heads in counts], -1)
        for norm, heads, x in zip((self.q_norm, self.k_norm, self.v_norm), counts, parts):
            rows = heads if self.by_head else 1
            of_rows = None if valid is None else valid.repeat_interleave(rows, 1)
            normed = norm(x.reshape(B, T * rows, -1), of_rows)
            yield normed.reshape(B, T, heads, HS).transpose(1, 2).repeat_interleave(self.heads // heads, 1)

    def scores(self, q, k):
        """The logits (B,NH,T,T)."""
        products = q @ k.transpose(-2, -1)
        if self.qk_scale is None:
            return products / math.sqrt(q.shape[-1])
        return products * self.qk_scale[:, None, None]


ACTIVATIONS = {  # of one half of the hidden units, if the name is among GATED
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x).square(),
    "silu": functional.silu,
}
GATED = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}


def ffn_width(config):
    """Hidden units: 4C, or with a gate 8/3 C rounded up to a multiple of 32."""
    C = config.n_embd
    return config.ffn_width or (-(-(8 * C // 3) // 32) * 32 if config.act in GATED else 4 * C)


def softcap(c, x):
    """c tanh(x / c), or x for c = 0."""
    return c * torch.tanh(x / c) if c else x


def angles(T, size, theta):
    """t theta^(-2i / size) for t < T and i < size / 2: (T,size/2)."""
    return torch.arange(T)[:, None] * theta ** (-torch.arange(0, size, 2) / size)


def rotate(x, theta):
    """x (B,NH,T,HS), the two halves of each head rotated by the position's angles."""
    T, HS = x.shape[-2:]
    angle = angles(T, HS, theta).to(x)
    one, other = x.chunk(2, -1)
    return torch.cat([one * angle.cos() - other * angle.sin(), other * angle.cos() + one * angle.sin()], -1)


def sinusoids(T, C, rms):
    """Vaswani et al. 2017, section 3.5, times sqrt(2) rms: (T,C)."""
    angle = angles(T, C, 10000.0)
    both = torch.stack([angle.sin(), angle.cos()], -1).reshape(T, -1)[:, :C]
    return math.sqrt(2) * rms * both


class FixedPositions(nn.Module):
    """The replacement of wpe without learned positions: sinusoids as large as ./train's initial learned ones, or
    zeros."""
    def __init__(self, config):
        super().__init__()
        T, C = config.block_size, config.n_embd
        auto = {"gpt2": config.init_std, "xavier": 1, "width": 1 / math.sqrt(C)}[config.init]
        given = config.init != "xavier" and config.init_embd_std != "auto"
        rms = float(config.init_embd_std) if given else auto
        if config.placement == "tfixup":
            rms *= (6 * config.n_layer) ** -0.25
        if config.placement == "ngpt":
            rms = 1 / math.sqrt(C)
        zeros = config.position != "sinusoidal"
        self.register_buffer("table", torch.zeros(T, C) if zeros else sinusoids(T, C, rms),
                             persistent=False)

    def forward(self, positions):
        return self.table[positions]


class Attention(NormsOfQKV):
    """softmax(q k^T / sqrt(HS)) v in each head, HS = C / NH; causal. NormsOfQKV has variants."""
    def __init__(self, config, make_norm):
        super().__init__()
        C, kv_heads = config.n_embd, config.n_kv_head or config.n_head
        self.gates = {"none": 0, "head": config.n_head, "element": C}[config.attn_gate]
        self.c_attn = nn.Linear(C, C + 2 * C // config.n_head * kv_heads + self.gates, bias=config.bias)
        self.make_norms(config, make_norm)
        self.c_proj = nn.Linear(C, C, bias=config.bias)
        self.softmax, self.drop = nn.Softmax(-1), nn.Dropout(config.dropout)
        self.cap, self.theta = config.attn_softcap, config.rope_theta * (config.position == "rope")

    def factor(self):
        """Of q and k; nGPT's is learned (placements.py)."""
        return 1

    def forward(self, x, valid=None):
        B, T, C = x.shape
        qkv, gate = self.c_attn(x).split([self.c_attn.out_features - self.gates, self.gates], -1)
        q, k, v = self.split_heads(qkv, valid)
        if self.theta:
            q, k = rotate(q, self.theta), rotate(k, self.theta)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        factor = self.factor()
        scores = softcap(self.cap, self.scores(factor * q, factor * k)).masked_fill(future, -math.inf)
        weights = self.drop(self.softmax(scores))  # (B,NH,T,T)
        out = (weights @ v).transpose(1, 2).reshape(B, T, C)
        if self.gates:
            out = out * torch.sigmoid(gate).repeat_interleave(C // self.gates, -1)
        return self.c_proj(out)


class MLP(nn.Module):
    """c_proj(N(act(c_fc(x)))), with a gate act(a) b of the halves a and b of c_fc(x)"""
    def __init__(self, config, make_norm):
        super().__init__()
        C, H, self.gated = config.n_embd, ffn_width(config), config.act in GATED
        self.c_fc = nn.Linear(C, 2 * H if self.gated else H, bias=config.bias)
        self.act = ACTIVATIONS[GATED.get(config.act, config.act)]
        self.norm = make_norm(config.ffn_norm, H, config)
        self.c_proj = nn.Linear(H, C, bias=config.bias)

    def factor(self):
        """Of the hidden units; nGPT's is learned (placements.py)."""
        return 1

    def forward(self, x, valid=None):
        hidden, *factors = (self.factor() * self.c_fc(x)).chunk(2 if self.gated else 1, -1)
        hidden = self.act(hidden)
        return self.c_proj(self.norm(hidden * factors[0] if factors else hidden, valid))
