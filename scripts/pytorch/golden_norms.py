"""Golden numbers of norms alone, for make_golden.py; and the sizes of its small models."""
import torch

import normlab

V, B, T, C, NH, L = 7, 3, 5, 6, 2, 2
EPS, BN_MOMENTUM = 1e-5, 0.1


def config(**options):
    return normlab.Config(V, **{"n_layer": L, "n_head": NH, "n_embd": C, "block_size": T,
                                "norm_eps": EPS, "bn_momentum": BN_MOMENTUM, **options})


def flatten(results):
    return [(key, tensor.detach().reshape(-1).tolist()) for key, tensor in results]


def batchnorm_case():
    """BatchNorm alone: training on batches k = 0, 1, 2, each with a backward of its own (the
    gradients are not summed over k), then evaluation on batch 3. rbn_dx: with a quarter of the
    penalty of Regularized BatchNorm (Wang et al. 2022) in the loss. position_KEY: the samples as 5
    sequences of 2 tokens, whose channels are features of their own (--bn-axis=batch)."""
    samples, channels, batches, positions = 10, 3, 3, 2
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.BatchNorm(channels, config(rbn_mean=0.7, rbn_var=0.4))
    by_position = normlab.PositionBatchNorm(channels, config(block_size=positions))
    both = (("", norm, (1, samples, channels)),
            ("position_", by_position, (-1, positions, channels)))
    with torch.no_grad():
        for _, module, _ in both:
            module.weight.copy_(1 + 0.1 * c)
            module.bias.copy_(0.2 * c)
    results = []
    for k in range(batches + 1):
        for prefix, module, shape in both:
            module.train(k < batches)
            x = torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + c
            x.requires_grad_()
            y = module(x.reshape(shape)).reshape(x.shape)
            if k == batches:
                results.append((f"{prefix}eval_y:{k}", y))
                continue
            dx, *gradients = torch.autograd.grad(y, (x, module.weight, module.bias),
                                                 torch.cos(0.3 * n * c + k), retain_graph=True)
            results += [(f"{prefix}y:{k}", y), (f"{prefix}dx:{k}", dx)]
            results += [(f"{prefix}d{name}:{k}", gradient)
                        for name, gradient in zip(("weight", "bias"), gradients)
                        if not prefix or name == "weight"]
            results += [(f"{prefix}{name}:{k}", getattr(module, name).clone())
                        for name in ("running_mean", "running_var")]
            if not prefix:
                of_penalty, = torch.autograd.grad(module.penalty / 4, x)
                results.append((f"rbn_dx:{k}", dx + of_penalty))
    return flatten(results)


# Norms alone, of (B,T,C).
ALONE_B, ALONE_T, ALONE_C = 2, 3, 6
ALONE_OPTIONS = dict(norm_groups=2, ts_prior_count=3, bhyt_kappa=2.0, gated_rank=2)
ALONE = ("ln", "rms", "scale", "l2", "gn", "in", "dyt", "derf", "cln", "ts", "seednorm", "bhyt", "gated")
# Element i of a parameter starts at this and 0.1 i.
ALONE_START = {"alpha": 0.7, "shift": -0.3, "scale": 1.9, "weight": 1.1, "bias": 0.2,
               "prior_mean": 0.4, "prior_logv": -0.5, "beta": -0.2, "lam": 1.7, "down": -0.6, "up": -0.5}


def norm_case(norm):
    """One norm alone: training on batch 0, where there are running statistics on batch 1 too, each
    with a backward of its own, then evaluation of the last with its dy."""
    with torch.no_grad():
        for name, tensor in norm.named_parameters():
            steps = 0.1 * torch.arange(tensor.numel()).double()
            tensor.copy_((ALONE_START[name] + steps).reshape(tensor.shape))
    state = [name for name, _ in norm.named_buffers() if "running" in name]
    i = torch.arange(ALONE_B * ALONE_T * ALONE_C).double()
    results = []
    for k in range(2 if state else 1):
        x = (torch.sin(1.7 * i + k) * (1 + i % ALONE_C) + i % 3).reshape(ALONE_B, ALONE_T, ALONE_C)
        x.requires_grad_()
        y = norm(x)
        dy = torch.cos(0.9 * i * i + k).reshape(y.shape)
        names = [name for name, _ in norm.named_parameters()]
        dx, *gradients = torch.autograd.grad(y, [x, *norm.parameters()], dy)
        results += [(f"y:{k}", y), (f"dx:{k}", dx)]
        results += [(f"d{name}:{k}", d) for name, d in zip(names, gradients)]
        results += [(f"{name}:{k}", getattr(norm, name).clone()) for name in state]
    if state:
        norm.eval()
        x = x.detach().requires_grad_()
        y = norm(x)
        dx, = torch.autograd.grad(y, x, dy)
        results += [("eval_y", y), ("eval_dx", dx)]
    return flatten(results)


def norms_case():
    cases = [(kind, kind, {}) for kind in ALONE] + [("rms-fraction", "rms", {"rms_fraction": 0.4})]
    return [(f"{name}:{key}", values) for name, kind, options in cases for key, values in norm_case(
        normlab.make_norm(kind, ALONE_C, config(**ALONE_OPTIONS, **options)))]


def power_case():
    """PowerNorm (Shen et al. 2020) in both divisors with group scaling: training on batches
    k = 0 .. 4, of which the first two are warm-up, each with a backward of its own; then evaluation
    on batch 5. DIVISOR:KEY:K."""
    samples, channels, batches = 5, 4, 5
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    results = []
    for divisor in ("psi", "batch"):
        norm = normlab.PowerNorm(channels, config(
            pn_warmup=2, pn_alpha_fwd=0.9, pn_alpha_bkw=0.8, pn_divisor=divisor))
        with torch.no_grad():
            norm.weight.copy_(1 + 0.1 * c)
            norm.bias.copy_(0.2 * c)
        for k in range(batches + 1):
            x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
            y = norm.train(k < batches)(x[None])[0]
            if k == batches:
                results.append((f"{divisor}:eval_y:{k}", y))
                break
            dx, = torch.autograd.grad(y, x, torch.cos(0.3 * n * c + k))
            results += [(f"{divisor}:y:{k}", y), (f"{divisor}:dx:{k}", dx),
                        (f"{divisor}:running_phi:{k}", norm.running_phi.clone()),
                        (f"{divisor}:ema_gz:{k}", norm.ema_gz.clone())]
    return flatten(results)


def renorm_case():
    """Batch Renormalization (Ioffe 2017), r_max 1.5, d_max 0.4, the first batch as bn, limits that grow
    over three: training on batches k = 0 .. 5, then evaluation on batch 6."""
    samples, channels, batches = 5, 4, 6
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.BatchRenorm(channels, config(brn_r_max=1.5, brn_d_max=0.4, brn_warmup=1,
                                                brn_relax=3))
    with torch.no_grad():
        norm.weight.copy_(1 + 0.1 * c)
        norm.bias.copy_(0.2 * c)
    results = []
    for k in range(batches + 1):
        x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
        y = norm.train(k < batches)(x[None])[0]
        if k == batches:
            results.append((f"eval_y:{k}", y))
            break
        dy = torch.cos(0.3 * n * (c + 1) + k)
        gradients = torch.autograd.grad(y, (x, norm.weight, norm.bias), dy)
        results += [(f"y:{k}", y), *zip((f"dx:{k}", f"dweight:{k}", f"dbias:{k}"), gradients)]
        results += [(f"{name}:{k}", getattr(norm, name).clone())
                    for name in ("running_mean", "running_var")]
    return flatten(results)


def prepbn_case():
    """PRepBN (Guo et al. 2024), 3 steps, eta 0.5: training on batches k = 0 .. 3, then evaluation
    on batch 4."""
    samples, channels, batches = 5, 4, 4
    n = torch.arange(samples).unsqueeze(1).double()
    c = torch.arange(channels).double()
    norm = normlab.PRepBN(channels, config(prepbn_steps=3, prepbn_eta=0.5))
    with torch.no_grad():
        norm.norm1.weight.copy_(1 + 0.1 * c)
        norm.norm2.bn.weight.copy_(1 - 0.1 * c)
    results = []
    for k in range(batches + 1):
        x = (torch.sin(0.7 * n + 1.9 * c + k) * (c + 1) + 0.5 * c).requires_grad_()
        y = norm.train(k < batches)(x[None])[0]
        results.append((f"y:{k}", y))
        if k < batches:
            keys = ["dx", *(name for name, _ in norm.named_parameters())]
            gradients = torch.autograd.grad(y, (x, *norm.parameters()), torch.cos(0.3 * n * c + k))
            results += [(f"{key}:{k}", gradient) for key, gradient in zip(keys, gradients)]
    return flatten(results)
