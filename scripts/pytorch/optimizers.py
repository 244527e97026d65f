"""The optimizers of ./train in PyTorch, by the papers' formulas: to read, and for make_golden.py.

    optimizer = optimizers.make("muon", model, lr=1e-3)
    loss.backward(); optimizer.step()

--optimizer=adamw is torch.optim.AdamW, sgd is torch.optim.SGD after a decoupled weight decay (Loshchilov
and Hutter 2019, algorithm 1), muon is Jordan et al. 2024 (kellerjordan.github.io/posts/muon) with the
factor of Liu et al. 2025, section 2.2 (arXiv:2502.16982), and without the 1e-7 that Muon's authors add to a
matrix's norm: it makes the update of a small gradient smaller. The gradients are clipped before.
"""
import types

import torch

COEFFICIENTS = 3.4445, -4.7750, 2.0315
OPTIONS = dict(  # the options of ./train, with _ for -, and their defaults
    lr=1e-3, weight_decay=0.1, beta1=0.9, beta2=0.99, adam_eps=1e-8, sgd_momentum=0.9, sgd_nesterov=True,
    muon_lr=None, muon_momentum=0.95, muon_nesterov=True, muon_steps=5)


def orthogonalize(matrix, steps=5):
    """Nearly U V^T of matrix = U S V^T: an odd polynomial of its singular values, repeated."""
    a, b, c = COEFFICIENTS
    x = matrix / matrix.norm().clamp(min=torch.finfo(torch.float32).tiny)
    for _ in range(steps):
        square = x @ x.T
        x = a * x + b * square @ x + c * square @ square @ x
    return x


def hidden_matrices(model):
    """Weight of a hidden layer -> the numbers of rows of the matrices in it: of q, k, v and gates; of a gated MLP's two
    halves."""
    found = {}
    for layer in model.transformer["h"]:
        C, H = layer.mlp.c_proj.weight.shape
        found |= {layer.attn.c_attn.weight: [rows for rows in layer.attn.parts if rows], layer.attn.c_proj.weight: [C],
                  layer.mlp.c_fc.weight: [H] * (layer.mlp.c_fc.out_features // H), layer.mlp.c_proj.weight: [C]}
    return found


class SGD:
    """torch.optim.SGD after a decoupled weight decay of matrices."""
    def __init__(self, model, o):
        self.inner = torch.optim.SGD(model.parameters(), o.lr, o.sgd_momentum, nesterov=o.sgd_nesterov)
        self.matrices = [p for p in model.parameters() if p.dim() >= 2]
        self.factor = 1 - o.lr * o.weight_decay

    @torch.no_grad()
    def step(self):
        for parameter in self.matrices:
            parameter.mul_(self.factor)
        self.inner.step()


class Muon:
    """Muon for hidden matrices, AdamW for the rest."""
    def __init__(self, model, o):
        self.options, self.rows = o, hidden_matrices(model)
        self.buffers = {weight: torch.zeros_like(weight) for weight in self.rows}
        self.rest = adamw(model, o, self.rows)

    @torch.no_grad()
    def step(self):
        o, momentum = self.options, self.options.muon_momentum
        lr = o.lr if o.muon_lr is None else o.muon_lr
        for weight, rows in self.rows.items():
            buffer = self.buffers[weight].mul_(momentum).add_(weight.grad)
            moved = weight.grad + momentum * buffer if o.muon_nesterov else buffer
            weight.mul_(1 - lr * o.weight_decay)
            for matrix, step in zip(weight.split(rows), moved.split(rows)):
                matrix.sub_(lr * 0.2 * max(step.shape) ** 0.5 * orthogonalize(step, o.muon_steps))
        self.rest.step()


def adamw(model, o, left_out=()):
    """Weight decay acts on matrices, the embeddings among them, not on biases and norms."""
    taken = [p for p in model.parameters() if p not in set(left_out)]
    return torch.optim.AdamW([{"params": [p for p in taken if p.dim() >= 2], "weight_decay": o.weight_decay},
                              {"params": [p for p in taken if p.dim() < 2], "weight_decay": 0.0}],
                             lr=o.lr, betas=(o.beta1, o.beta2), eps=o.adam_eps)


def make(kind, model, **options):
    """The optimizer --optimizer=KIND, with options as in OPTIONS."""
    assert options.keys() <= OPTIONS.keys(), f"unknown: {options.keys() - OPTIONS.keys()}"
    o = types.SimpleNamespace(**{**OPTIONS, **options})
    return {"adamw": adamw, "sgd": SGD, "muon": Muon}[kind](model, o)
