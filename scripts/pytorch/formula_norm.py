"""A norm that is a formula (model/norm/README.md), by torch functions and autograd.

The text is evaluated as Python, with ** for ^. It knows nothing of how ./train derives the gradient.
"""
import ast
import keyword
import re

import torch
from torch import nn

TENSORS = {"gamma": "weight", "beta": "bias"}
RUNNING = {"mean_n": "running_mean", "var_n": "running_var", "rms_n": "running_square"}


def is_formula(name):
    return any(c in name for c in "()*/+^; ")


def as_python(text):
    """The formula with ** for ^, and with _keyword behind names such as lambda."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: found[0] + "_keyword" * keyword.iskeyword(found[0]), text).replace("^", "**")


def mean_n(x, valid):
    count = torch.ones_like(x[..., :1]) if valid is None else valid[..., None].to(x.dtype)
    return (x * count).sum((0, 1)) / count.sum(), count.sum()


class Running(ast.NodeTransformer):
    """Gives each outermost mean over the batch the name of its running average; inner ones have none."""

    def __init__(self):
        self.names, self.known, self.inside = [], {}, False

    def visit_Call(self, node):
        if node.func.id not in RUNNING:
            return self.generic_visit(node)
        key, name, outer = ast.dump(node), None, not self.inside
        if outer:
            number = 1 + sum(used.startswith(RUNNING[node.func.id]) for used in self.names)
            name = self.known.setdefault(key, RUNNING[node.func.id] + (f"_{number}" if number > 1 else ""))
            self.names += [name] * (name not in self.names)
        self.inside = True
        node = self.generic_visit(node)
        self.inside = not outer
        node.args.append(ast.Constant(name))
        return node


class FormulaNorm(nn.Module):
    """The norm `text` of C channels."""
    penalty = 0.0

    def __init__(self, text, C, config):
        super().__init__()
        self.kind, self.config, self.C = text, config, C
        body, *clauses = [as_python(part.strip()) for part in text.split(";")]
        options = {name: value for name, value in vars(config).items() if isinstance(value, (int, float))}
        self.constants = {**options, "C": C, "eps": config.norm_eps}
        self.groups = config.norm_groups if "groups" in clauses else 1
        tree = ast.parse(body, mode="eval")
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        starts = {"gamma": torch.ones(C), "beta": torch.zeros(C)}
        for clause in clauses:
            name, equals, value = clause.partition("=")
            shape = 1 if name.strip().endswith("[1]") else C
            if equals:
                starts[name.strip().removesuffix("[1]")] = torch.full((shape,), float(eval(value, {}, self.constants)))
        bias = config.bias if config.norm_bias == "auto" else config.norm_bias == "on"
        fixed = {"gamma", "beta"} if not config.affine else set() if bias else {"beta"}
        self.symbols = [name for name in starts if name in used]
        for name in self.symbols:
            tensor = self.tensor_of(name)
            if name in fixed:
                self.register_buffer(tensor, starts[name], persistent=False)
            else:  # register_parameter() refuses names of methods, such as forward
                self._parameters[tensor] = nn.Parameter(starts[name])
        running = Running()
        self.code = compile(ast.fix_missing_locations(running.visit(tree)), "formula", "eval")
        for name in running.names:
            self.register_buffer(name, torch.zeros(C) if name.startswith("running_mean") else torch.ones(C))
        if running.names:
            self.register_buffer("num_batches_tracked", torch.tensor(0))

    @staticmethod
    def tensor_of(name):
        return TENSORS.get(name, name.removesuffix("_keyword"))

    def track(self, name, value, count, unbiased=False):
        if name and self.training and count > unbiased:
            with torch.no_grad():
                batch = value * count / (count - 1) if unbiased else value
                running = getattr(self, name)
                running += self.config.bn_momentum * (batch - running)

    def over_batch(self, valid):
        def of_batch(x, name, unbiased=False, about_mean=False):
            if name and not self.training:
                return getattr(self, name)
            mean, count = mean_n(x, valid)
            if about_mean:
                mean, count = mean_n((x - mean).square(), valid)
            self.track(name, mean, count, unbiased)
            return mean
        return {"mean_n": of_batch, "var_n": lambda x, name: of_batch(x, name, True, True),
                "rms_n": lambda x, name: (of_batch(x.square(), name) + self.constants["eps"]).sqrt()}

    def forward(self, x, valid=None):
        def channels(function):
            def over(a):
                if not torch.is_tensor(a) or a.dim() == 0 or a.shape[-1] == 1:
                    a = a * torch.ones(self.C, dtype=x.dtype)
                parts = a.unflatten(-1, (self.groups, -1))
                y = function(parts)
                return y.expand_as(parts).flatten(-2) if self.groups > 1 else y[..., 0, :]
            return over

        def number(function):
            return lambda *values: function(*(torch.as_tensor(value, dtype=x.dtype) for value in values))
        eps = self.constants["eps"]
        names = {
            "x": x, **{name: {**self._buffers, **self._parameters}[self.tensor_of(name)] for name in self.symbols},
            **self.over_batch(valid),
            **{name: number(getattr(torch, name)) for name in ("sqrt", "exp", "log", "tanh", "erf", "sigmoid", "abs", "relu")},
            "max": number(torch.maximum), "min": number(torch.minimum), "stop": number(torch.Tensor.detach),
            "mean_c": channels(lambda a: a.mean(-1, keepdim=True)), "sum_c": channels(lambda a: a.sum(-1, keepdim=True)),
            "var_c": channels(lambda a: a.var(-1, False, keepdim=True)), "max_c": channels(lambda a: a.amax(-1, keepdim=True)),
            "rms_c": channels(lambda a: (a.square().mean(-1, keepdim=True) + eps).sqrt())}
        if self.training and hasattr(self, "num_batches_tracked"):
            self.num_batches_tracked += 1
        return eval(self.code, {"__builtins__": {}}, {**self.constants, "C": self.C // self.groups, **names})
