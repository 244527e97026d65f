"""Parts of normlab.py, whose conventions hold here too: attention, the MLP and positions.

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

from pytorch.norms import make_norm
from pytorch.options import GATED

# ---- attention and the MLP -----------------------------------------------------------------------

ACTIVATIONS = {  # of one half of the hidden units, if the name is among GATED
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x).square(),
    "silu": functional.silu,
}


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


class Attention(nn.Module):
    """softmax(q k^T / sqrt(HS)) v in each head, HS = C / NH; causal. q_norm, k_norm, v_norm and, before
    c_proj, norm are timm's names; qk_scale (NH)."""
    def __init__(self, config):
        super().__init__()
        C, NH = config.n_embd, config.n_head
        self.HS, self.counts = C // NH, (NH, config.n_kv_head, config.n_kv_head)  # of queries, keys and values
        self.gates = {"none": 0, "head": NH, "element": C}[config.attn_gate]
        self.parts = [*(self.HS * heads for heads in self.counts), self.gates]  # of c_attn's outputs
        self.c_attn = nn.Linear(C, sum(self.parts), bias=config.bias)
        learned = config.qk_scale == "learned"
        longest = max(2, config.block_size)
        scale = math.log2(longest ** 2 - longest) if config.qk_norm == "l2" else self.HS ** -0.5
        self.qk_scale = nn.Parameter(torch.full((NH,), scale)) if learned else None
        self.by_head = config.qk_norm_over == "head"
        for name, kind, heads in zip("qkv", (config.qk_norm, config.qk_norm, config.v_norm), self.counts):
            own = copy.copy(config)
            own.n_head = heads
            own.norm_groups = max(1, config.norm_groups * heads // NH)  # of the same size
            if self.by_head:  # a row for each head of a token; see normlab.py
                own.n_head = own.norm_groups = 1
                own.block_size *= heads
                own.rows_per_token = heads
            setattr(self, name + "_norm", make_norm(kind, self.HS if self.by_head else self.HS * heads, own))
        self.norm = make_norm(config.attn_norm, C, config)
        self.c_proj = nn.Linear(C, C, bias=config.bias)
        self.softmax, self.drop = nn.Softmax(-1), nn.Dropout(config.dropout)
        self.cap, self.theta = config.attn_softcap, config.rope_theta * (config.position == "rope")

    def normalize(self, norm, x, heads, valid):
        rows = heads if self.by_head else 1
        of_rows = None if valid is None else valid.repeat_interleave(rows, 1)
        return norm(x.reshape(len(x), x.shape[1] * rows, -1), of_rows).reshape(x.shape)

    def factor(self):
        """Of q and k; nGPT's is learned (placements.py)."""
        return 1

    def in_heads(self, x, heads):
        """(B,NH,T,HS) of (B,T,heads HS)."""
        return x.unflatten(-1, (heads, self.HS)).transpose(1, 2).repeat_interleave(self.counts[0] // heads, 1)

    def output(self, scores, v, gate):
        """The input (B,T,C) of c_proj, from logits (B,NH,T,T), values (B,NH,T,HS) and the gate's logits."""
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=v.device).triu(1)
        weights = self.drop(self.softmax(softcap(self.cap, scores).masked_fill(future, -math.inf)))
        out = (weights @ v).transpose(1, 2).flatten(2)
        return out * torch.sigmoid(gate).repeat_interleave(out.shape[-1] // self.gates, -1) if self.gates else out

    def forward(self, x, valid=None):
        *parts, gate = self.c_attn(x).split(self.parts, -1)
        norms, factor = (self.q_norm, self.k_norm, self.v_norm), self.factor()
        q, k, v = (self.in_heads(self.normalize(norm, part, heads, valid), heads)
                   for norm, part, heads in zip(norms, parts, self.counts))
        if self.theta:
            q, k = rotate(q, self.theta), rotate(k, self.theta)
        scale = self.HS ** -0.5 if self.qk_scale is None else self.qk_scale[:, None, None]
        out = self.output(scale * (factor * q) @ (factor * k).transpose(-2, -1), v, gate)
        return self.c_proj(self.norm(out, valid))


class MLP(nn.Module):
    """c_proj(N(act(c_fc(x)))), with a gate act(a) b of the halves a and b of c_fc(x)"""
    def __init__(self, config):
        super().__init__()
        C, H, self.gated = config.n_embd, config.ffn_width, config.act in GATED
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
