"""nGPT, the normalized Transformer of Loshchilov et al. 2024 (arXiv:2410.01131) and NVIDIA/ngpt, for
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
import math

import torch
from torch import nn

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
