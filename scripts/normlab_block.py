"""Attention, the MLP and positions for normlab.py.

--position, --act, --ffn-width, --n-kv-head and the two soft caps. A gate: GLU variants of Shazeer 2020;
rotary positions: Su et al. 2021, halves of a head as in Llama; grouped queries: Ainslie et al. 2023; soft
caps: Gemma 2.
"""
import math

import torch
from torch import nn
from torch.nn import functional

from normlab_qkv import NormsOfQKV

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
    """What wpe is without learned positions: sinusoids as large as ./train's learned ones at first, or
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
    """softmax(q k^T / sqrt(HS)) v in each head, HS = C / NH; causal. normlab_qkv.py has variants."""
    def __init__(self, config, make_norm):
        super().__init__()
        C, kv_heads = config.n_embd, config.n_kv_head or config.n_head
        self.c_attn = nn.Linear(C, C + 2 * C // config.n_head * kv_heads, bias=config.bias)
        self.make_norms(config, make_norm)
        self.c_proj = nn.Linear(C, C, bias=config.bias)
        self.softmax, self.drop = nn.Softmax(-1), nn.Dropout(config.dropout)
        self.cap, self.theta = config.attn_softcap, config.rope_theta * (config.position == "rope")

    def forward(self, x, valid=None, factor=1):
        """`factor` multiplies q and k: see normlab_ngpt.py."""
        B, T, C = x.shape
        q, k, v = self.split_heads(self.c_attn(x), valid)
        if self.theta:
            q, k = rotate(q, self.theta), rotate(k, self.theta)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        scores = softcap(self.cap, self.scores(factor * q, factor * k)).masked_fill(future, -math.inf)
        weights = self.drop(self.softmax(scores))  # (B,NH,T,T)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    """c_proj(N(act(c_fc(x)))), with a gate act(a) b of the halves a and b of c_fc(x)"""
    def __init__(self, config, make_norm):
        super().__init__()
        C, H, self.gated = config.n_embd, ffn_width(config), config.act in GATED
        self.c_fc = nn.Linear(C, 2 * H if self.gated else H, bias=config.bias)
        self.act = ACTIVATIONS[GATED.get(config.act, config.act)]
        self.norm = make_norm(config.ffn_norm, H, config)
        self.c_proj = nn.Linear(H, C, bias=config.bias)

    def forward(self, x, valid=None, factor=1):
        """`factor` multiplies the hidden units: see normlab_ngpt.py."""
        hidden, *factors = (factor * self.c_fc(x)).chunk(2 if self.gated else 1, -1)
        hidden = self.act(hidden)
        return self.c_proj(self.norm(hidden * factors[0] if factors else hidden, valid))
