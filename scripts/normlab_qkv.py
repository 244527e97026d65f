"""Norms of queries, keys and values for normlab.py.

--qk-norm and --v-norm, over each head (Dehghani et al. 2023) or over the whole width (OLMo 2), and with
--qk-scale=learned one learned number for each head, by which its logits are multiplied. With --qk-norm=l2
that is QKNorm (Henry et al. 2020), which has one number for all heads of a layer.
"""
import copy
import math

import torch
from torch import nn


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
