"""Means and variances for the norms of normlab.py, and what is made of them."""
import torch


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


def past_moments(x, valid=None, rows=1):
    """Mean and biased variance (B,S,1) of all valid numbers of x (B,S,C) up to and including a token,
    which has `rows` rows: E[z] and E[z^2] - E[z]^2 from cumulative sums. z is x less the mean of the
    sequence's first token, so that an offset costs no digits."""
    B, S, C = x.shape
    tokens = x.reshape(B, S // rows, rows * C)
    seen = torch.ones_like(tokens[..., :1])
    if valid is not None:
        seen = valid.reshape(B, S // rows, rows)[..., :1].to(x.dtype)
    origin = tokens[:, :1].mean(-1, keepdim=True).detach()
    z = (tokens - origin) * seen
    n = seen.cumsum(1).clamp(min=1) * rows * C
    mean = z.sum(-1, keepdim=True).cumsum(1) / n
    square = z.square().sum(-1, keepdim=True).cumsum(1) / n
    each = [m.repeat_interleave(rows, 1) for m in (mean + origin, square - mean.square())]
    return each[0], each[1]
