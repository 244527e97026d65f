"""Norms of queries, keys and values for normlab.py.

--qk-norm and --v-norm, over each head (Henry et al. 2020; Dehghani et al. 2023) or over the whole width
(OLMo 2).
"""
import copy

from torch import nn


class NormsOfQKV(nn.Module):
    """Attention inherits this: q_norm, k_norm and v_norm, timm's names."""

    def make_norms(self, config, make_norm):
        self.heads, self.rows = config.n_head, 1
        if config.qk_norm_over == "head":  # a row for each head of a token; see normlab.py
            self.rows, config = self.heads, copy.copy(config)
            config.n_head = config.norm_groups = 1
            config.block_size *= self.rows
            config.rows_per_token = self.rows
        for name, kind in (("q", config.qk_norm), ("k", config.qk_norm), ("v", config.v_norm)):
            setattr(self, name + "_norm", make_norm(kind, config.n_embd // self.rows, config))

    def split_heads(self, qkv, valid):
        """q, k and v (B,NH,T,HS), normalized, of qkv (B,T,3C)."""
        B, T, width = qkv.shape
        valid = None if valid is None else valid.repeat_interleave(self.rows, 1)
        for norm, x in zip((self.q_norm, self.k_norm, self.v_norm), qkv.split(width // 3, -1)):
            normed = norm(x.reshape(B, T * self.rows, -1), valid)
            yield normed.reshape(B, T, self.heads, -1).transpose(1, 2)
