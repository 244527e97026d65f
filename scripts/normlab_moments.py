"""Means and variances for the norms of normlab.py and what is made of them."""
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


def past_moments(x, valid=None, rows=1, groups=1, prior=None):
    """Mean and biased variance (B,S,C) of all valid numbers of x (B,S,C) up to and including a token,
    which has `rows` rows, in each of `groups` groups of channels: E[z] and E[z^2] - E[z]^2 from
    cumulative sums. z is x less the mean of the sequence's first token, so that an offset costs no
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
