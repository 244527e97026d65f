"""The experiments of WHY.md: what is trained, and what is compared with what.

An effect is explained when changing its supposed cause alone switches it on and off. So the models of a group differ in
that cause only, and each of them gets its own best initialization and learning rate, found with the same number of trials.
"""
from collections import namedtuple
import itertools

# condition: what is compared, such as "one sequence". x: where on its axis. options: of ./train.
Model = namedtuple("Model", "condition x options")

# models: those that are tuned with one grid and the same number of trials. common: options of all of them.
# tune: {option: values}, empty if none is tuned. baseline: the condition that the others are compared with at the same x,
# or, if it is a number, the x that each condition is compared with; None: none.
Group = namedtuple("Group", "models common tune baseline seeds measures")


def group_of(models, common, tune, baseline, seeds, measures):
    """The Group of models that may override the common options: what one of them overrides, each of them gives."""
    own = {name for model in models for name in model.options if name in common}
    shared = {name: value for name, value in common.items() if name in own}
    return Group([model._replace(options={**shared, **model.options}) for model in models],
                 {name: value for name, value in common.items() if name not in own}, tune, baseline, seeds, measures)


def at_settings(models, rate, settings):
    """These models at each of these settings. x: the initialization, and the option that is a learning rate."""
    return [Model(one.condition, f"{std:g} {value:g}", {**one.options, "init-std": std, rate: value})
            for one in models for std, value in settings]


SIZE = {"n-layer": 2, "n-head": 4, "n-embd": 32}
TUNE = {"init-std": (0.04, 0.08, 0.16, 0.32), "learning-rate": (1e-3, 3e-3, 1e-2, 3e-2)}
SEEDS = range(1, 9)


# ---- W1: the future, or a small sample? ------------------------------------------------------------

BATCH = 1024  # tokens of every batch of W1
LENGTHS = (8, 16, 32, 64, 128)
LENGTH = 32  # where more numbers of sequences are compared
W1 = {**SIZE, "max-iters": 200, "warmup-iters": 50, "eval-iters": 50, "threads": 1}


def batch_norm(sequences, length):
    """BatchNorm whose statistics are over this many sequences of a batch."""
    return {"norm": "bn", "bn-shards": BATCH // length // sequences}


def shape_of(length):
    """The models of one shape of the batch: x is the number of tokens that share a statistic."""
    sequences = BATCH // length
    models = [Model("LayerNorm", length, {"norm": "ln"}),
              Model("all sequences", BATCH, batch_norm(sequences, length)),
              Model("one sequence", length, batch_norm(1, length)),
              Model("two sequences", 2 * length, batch_norm(2, length)),
              Model("one position", sequences, {"norm": "bn", "bn-axis": "batch"})]
    if length == LENGTH:
        models += [Model(f"{count} sequences", count * length, batch_norm(count, length)) for count in (4, 8)]
        models += [Model("the past", length, {"norm": "ts", "norm-groups": SIZE["n-embd"], "ts-prior-count": 4}),
                   Model("the past, all channels", length, {"norm": "cln"})]
    return Group(models, {**W1, "block-size": length, "batch-size": sequences}, TUNE, "LayerNorm", SEEDS,
                 ("val_loss", "train_loss", "own_loss"))


def rates():
    """One sequence against LayerNorm at every learning rate: what training gains, and what is left of it."""
    models = [Model(condition, rate, {**norm, "learning-rate": rate})
              for condition, norm in (("LayerNorm", {"norm": "ln"}), ("one sequence", batch_norm(1, LENGTH)),
                                      ("one position", {"norm": "bn", "bn-axis": "batch"}))
              for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)]
    common = {**W1, "block-size": LENGTH, "batch-size": BATCH // LENGTH, "init-std": 0.16}
    return Group(models, common, {}, "LayerNorm", range(1, 5), ("val_loss", "train_mean"))


def untuned(length):
    """The models of one shape at the initialization and the learning rate that are LayerNorm's best at 32 characters."""
    group = shape_of(length)
    models = [model for model in group.models if model.condition in ("LayerNorm", "one sequence", "two sequences", "one position")]
    return group._replace(models=models, common={**group.common, "init-std": 0.16, "learning-rate": 0.03}, tune={}, seeds=range(1, 5))


def random_text():
    """Characters that nobody can predict: a training loss below that of guessing has seen them. x: tokens that share a statistic."""
    wide = {**SIZE, "n-embd": 64, "corpus": "random", "block-size": 16, "max-iters": 4000, "eval-iters": 1, "threads": 1}
    models = [Model("LayerNorm", 16, {"norm": "ln", "batch-size": 1}),
              *(Model(name, 16 * count, {"norm": "bn", "batch-size": count})
                for name, count in (("one sequence", 1), ("two sequences", 2), ("4 sequences", 4))),
              Model("one position", 16, {"norm": "bn", "bn-axis": "batch", "batch-size": 16}),
              Model("the past", 16, {"norm": "ts", "norm-groups": 64, "ts-prior-count": 4, "batch-size": 1})]
    return Group(models, wide, {}, None, range(1, 5), ("gain",))


# ---- W2: which outlier harms which norm? -----------------------------------------------------------

W2 = {**SIZE, "block-size": 32, "batch-size": 12, "max-iters": 300, "warmup-iters": 50, "eval-iters": 128, "threads": 1}
FACTORS = (10, 100, 1000)


def outliers(norm):
    """x: the factor of an outlier channel, or of an outlier position."""
    models = [Model(f"{norm}, {where}", factor, {"norm": norm, f"outlier-{where}": factor})
              for where in ("channel", "position") for factor in FACTORS]
    return Group([Model(f"{norm}, none", 1, {"norm": norm}), *models], W2, TUNE, 1, SEEDS, ("val_loss",))


# ---- W3: when does Post-LN train? ------------------------------------------------------------------

W3 = {**SIZE, "norm": "ln", "init": "xavier", "block-size": 32, "batch-size": 12, "max-iters": 600,
      "learning-rate": 1e-3, "eval-iters": 128, "threads": 1}
DEPTHS = (4, 8, 16, 32)
# (placement, updates of warm-up): the factors of a branch.
SCALES = {("post", 0): (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4), ("post", 100): (1 / 4, 1 / 2, 1, 2), ("pre", 0): (1 / 4, 1, 4)}
REMEDIES = ("deepnorm", "admin", "rezero", "skipinit", "pre")


def branches(depth):
    """x: the factor of what a branch adds at the start, everything else as Xavier has it."""
    models = [Model(f"{placement}, warm-up {warmup}, depth {depth}", scale,
                    {"placement": placement, "warmup-iters": warmup, "n-layer": depth, "init-branch-scale": scale})
              for (placement, warmup), scales in SCALES.items() for scale in scales]
    return group_of(models, W3, {}, None, SEEDS[:4], ("above_frequencies", "branch_share"))


def remedies():
    """At 16 layers: other inits, with and without what they divide a branch by; papers' remedies; lower rates. x: the branch's factor."""
    deep, post = {"n-layer": 16, "warmup-iters": 0}, {"placement": "post"}
    divided = (2 * deep["n-layer"]) ** 0.5
    models = [Model("xavier, divided", 1 / divided, {**post, "init-branch-scale": 1 / divided}),
              Model("width", 1, {**post, "init": "width"}),
              Model("width, multiplied", divided, {**post, "init": "width", "init-branch-scale": divided}),
              Model("std 0.08", 1, {**post, "init": "gpt2", "init-std": 0.08}),
              Model("std 0.08, multiplied", divided, {**post, "init": "gpt2", "init-std": 0.08, "init-branch-scale": divided}),
              *(Model(f"rate {rate:g}", 1, {**post, "learning-rate": rate}) for rate in (1e-4, 3e-4)),
              *(Model(f"warm-up {count}", 1, {**post, "warmup-iters": count}) for count in (30, 100, 200)),
              *(Model(name, 1, {"placement": name}) for name in REMEDIES)]
    return group_of(models, {**W3, **deep}, {}, None, SEEDS[:4], ("above_frequencies", "branch_share"))


# ---- W5: which part of Llama's block turns the order round? ---------------------------------------

BLOCKS = {"GPT-2": {}, "GPT-2 without beta and biases": {"bias": "off"}, "GPT-2 with beta only": {"bias": "off", "norm-bias": "on"},
          "GPT-2 with biases only": {"norm-bias": "off"}, "Llama": {"preset": "llama"},
          "Llama with beta": {"preset": "llama", "norm-bias": "on"}, "Llama with beta and biases": {"preset": "llama", "bias": "on"}}
NORMS = {"GPT-2": ("ln", "bn", "rms", "none"), "Llama": ("ln", "bn", "rms", "none")}


def block(name):
    models = [Model(f"{name}, {norm}", 0, {**BLOCKS[name], "norm": norm}) for norm in NORMS.get(name, ("ln", "bn"))]
    return Group(models, W2, TUNE, f"{name}, ln", SEEDS, ("val_loss",))


# ---- W6: what does a norm buy? ---------------------------------------------------------------------

STDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)


def basin(norm, condition=None, **options):
    """Every initialization with every learning rate. x: the two. condition: instead of the norm's name."""
    models = at_settings([Model(condition or norm, 0, {"norm": norm, **options})], "learning-rate", itertools.product(STDS, RATES))
    return Group(models, W2, {}, None, range(1, 3), ("val_loss",))


# ---- W7: does a norm help by its forward or by its backward pass? ------------------------------------

DETACHED = {"mean detached": ("mean",), "std detached": ("std",), "detached": ("mean", "std")}
TUNE_DETACHED = {**TUNE, "init-std": (*TUNE["init-std"], 0.64)}


def switches(statistics):
    """Options that cut the gradient through these statistics."""
    return {f"norm-detach-{name}": "on" if name in statistics else "off" for name in ("mean", "std")}


def detached(norm, names, **options):
    """With and without the gradient that flows through statistics of the norm."""
    full = " ".join([*options.values(), norm])
    models = [Model(full, 0, {"norm": norm, **switches(()), **options}),
              *(Model(f"{full}, {name}", 0, {"norm": norm, **switches(DETACHED[name]), **options}) for name in names)]
    return Group(models, W2, TUNE_DETACHED, full, SEEDS, ("val_loss",))


def detached_or_none():
    """Norms without that gradient against no norm at all."""
    cut = switches(("mean", "std"))
    models = [Model("none", 0, {"norm": "none", **cut}),
              *(Model(f"{norm}, detached / none", 0, {"norm": norm, **cut}) for norm in ("ln", "rms", "bn")),
              Model("post ln, detached / none", 0, {"norm": "ln", **cut, "placement": "post"})]
    return group_of(models, {**W2, "placement": "pre"}, TUNE_DETACHED, "none", SEEDS, ("val_loss",))


# ---- W4: where does BatchNorm lose in larger models? ------------------------------------------------

W4 = {**W2, "n-layer": 4, "n-embd": 64, "block-size": 64, "max-iters": 600}
SITES = {"norm-attn": "attention", "norm-ffn": "MLPs", "norm-final": "head"}  # where norms are
LINES = {"n-embd": (32, 64, 128), "n-layer": (2, 4, 8), "max-iters": (500, 2000, 8000)}


def sites():
    """BatchNorm in some places, LayerNorm in the others."""
    models = [Model(f"bn: {' and '.join(map(SITES.get, places)) or 'nowhere'}", 0, {one: "bn" if one in places else "ln" for one in SITES})
              for count in range(len(SITES) + 1) for places in itertools.combinations(SITES, count)]
    return Group(models, W4, TUNE, "bn: nowhere", SEEDS, ("val_loss", "own_loss"))


def noise():
    """BatchNorm everywhere, with statistics of fewer sequences, and with batch renormalization."""
    models = [Model("12 sequences", 0, {"norm": "bn"}), Model("4 sequences", 0, {"norm": "bn", "bn-shards": 3}),
              Model("renormalization", 0, {"norm": "brn"})]
    return Group(models, W4, TUNE, "12 sequences", SEEDS, ("val_loss", "own_loss"))


def against(options):
    """BatchNorm against LayerNorm with these options."""
    name = " ".join(f"{name} {value}" for name, value in options.items())
    models = [Model(f"{norm}, {name}", 0, {"norm": norm, **options}) for norm in ("ln", "bn")]
    return group_of(models, W4, TUNE, models[0].condition, SEEDS, ("val_loss", "own_loss"))


def line(option):
    """BatchNorm against LayerNorm over one option of the smallest model, the others fixed."""
    models = [Model(f"{norm}, {option}", value, {"norm": norm, option: value}) for value in LINES[option] for norm in ("ln", "bn")]
    return group_of(models, {**W2, "max-iters": 500}, TUNE, models[0].condition, SEEDS, ("val_loss", "own_loss"))


# ---- W8: whose mean, and whose size? -----------------------------------------------------------------

# A norm subtracts somebody's mean and divides by somebody's size, the root mean square of what is left: those of the token over
# its channels, those of the batch over its tokens for each channel, or none.
CENTRED = {"none": "x", "token": "(x - mean_c(x))", "batch": "(x - mean_n(x))"}
SIZED = {"none": "{u}", "token": "{u} / rms_c({u})", "batch": "{u} / rms_n({u})"}
BATCHED = SIZED["batch"].format(u=CENTRED["batch"])  # BatchNorm's output, before gamma and beta
QUARTERS = {"init-std": TUNE["init-std"], "learning-rate": (1e-3, 1.8e-3, 3e-3, 5.6e-3, 1e-2, 1.8e-2, 3e-2)}
FEWER = {"init-std": TUNE["init-std"][:3], "learning-rate": QUARTERS["learning-rate"][1:-1]}  # where a run takes half a minute
SPREADS = ("size_spread", "final_spread", "size_entropy", "size_frequency")


def affine(value):
    return f"gamma * {value} + beta"


def rescaled(power):
    """BatchNorm, then a division by the token's own size to this power: the dose."""
    return affine(f"{BATCHED} / rms_c({BATCHED})^{power}")


def cells(names=tuple(CENTRED)):
    """Every mean with every size."""
    return [Model(f"{mean} mean, {size} size", 0, {"norm": affine(SIZED[size].format(u=CENTRED[mean]))})
            for mean in names for size in names]


def only(models, *conditions):
    return [one for one in models if one.condition in conditions]


def doses():
    """BatchNorm with some of the division by the token's size, everywhere and in one place only."""
    plain, full = affine(BATCHED), rescaled(1)
    return [*(Model(f"batch, rescaled^{power}", 0, {"norm": rescaled(power)}) for power in (0.5, 1)),
            *(Model(f"batch, rescaled: {SITES[one]}", 0, {site: full if site == one else plain for site in SITES}) for one in SITES)]


def halves():
    """BatchNorm that divides by the token's size as by a constant, and one that has only the gradient of that division."""
    plain, size = affine(BATCHED), f"rms_c({BATCHED})"
    full = rescaled(1)
    return [*only(cells(), "token mean, token size", "batch mean, batch size"),
            Model("rescaled forward", 0, {"norm": affine(f"{BATCHED} / stop({size})")}),
            Model("rescaled backward", 0, {"norm": f"stop({plain}) + {full} - stop({full})"})]


def whose(shape, models, tune=QUARTERS):
    """Against LayerNorm, which is the token's mean and the token's size."""
    return Group(models, {**W4, "max-iters": 500, "block-size": 32, **shape}, tune, "token mean, token size", range(1, 13),
                 ("val_loss", *SPREADS))


SETTINGS = ((0.08, 5.6e-3), (0.08, 1e-2), (0.16, 1e-2), (0.16, 1.8e-2))


def settled():
    """Whether the choice of settings decides at 4 layers: six norms at each of the settings that tuning finds good."""
    models = [*only(cells(), "token mean, token size", "none mean, token size", "batch mean, token size", "batch mean, none size",
                    "batch mean, batch size"), *only(doses(), "batch, rescaled^1")]
    return Group(at_settings(models, "learning-rate", SETTINGS), W4, {}, "token mean, token size", SEEDS, ("val_loss",))


# ---- W9: the optimizer, or how far training has come? --------------------------------------------------

BUDGETS = (250, 500, 1000, 2000)  # updates, below one epoch
ADAMW, SGD = (1e-3, 3e-3, 1e-2, 3e-2), (0.03, 0.1, 0.3, 1, 3)  # learning rates
# {name: (options, rates that are tuned)}. SGD decays no weights, since that acts as its learning rate does. With Muon, biases and norms
# keep AdamW's best rate.
OPTIMIZERS = {"adamw": ({"optimizer": "adamw"}, {"learning-rate": ADAMW}),
              "adamw without decay": ({"weight-decay": 0}, {"learning-rate": ADAMW}),
              "sgd": ({"optimizer": "sgd", "weight-decay": 0}, {"learning-rate": SGD}),
              "muon": ({"optimizer": "muon", "learning-rate": 1e-2}, {"muon-lr": (3e-3, 1e-2, 3e-2, 1e-1)})}
MUON_SETTINGS = ((0.04, 1e-2), (0.04, 3e-2), (0.08, 1e-2), (0.08, 3e-2))


BOTH, SHALLOW = [Model(norm, 0, {"norm": norm}) for norm in ("ln", "bn")], {"n-layer": 2, "block-size": 32}


def trained_by(name, models, common, tune=None, baseline="ln"):
    """These models with this optimizer, whose rate is tuned, or what `tune` says."""
    options, rates = OPTIMIZERS[name]
    return group_of([one._replace(condition=f"{one.condition}, {name}") for one in models], {**W4, **common, **options},
                    {"init-std": TUNE["init-std"], **rates} if tune is None else tune, f"{baseline}, {name}", SEEDS, ("val_loss",))


def optimized(name):
    """LayerNorm, BatchNorm, RMSNorm, and gamma and beta alone with this optimizer. x: updates."""
    norms = {"ln": "ln", "bn": "bn", "rms": "rms", "gamma and beta": affine("x")}
    return trained_by(name, [Model(norm, updates, {"norm": value, "max-iters": updates}) for updates in BUDGETS
                             for norm, value in norms.items()], SHALLOW)


def cells_with(name):
    """Whose mean and whose size after 500 updates with this optimizer; without a mean, RMSNorm's cell and gamma and beta alone."""
    models = [one for one in cells() if "none" not in one.condition or one.condition in ("none mean, token size", "none mean, none size")]
    return trained_by(name, models, {**SHALLOW, "max-iters": 500}, baseline="token mean, token size")


def damped():
    """AdamW with an eps that is smaller than the gradients to larger than all, so that it divides less and less by their size. x: eps."""
    models = [Model(norm, f"{eps:g}", {"norm": norm, "adam-eps": eps}) for eps in (1e-8, 1e-4, 1e-3, 1e-2) for norm in ("ln", "bn")]
    return Group(models, {**W4, **SHALLOW, "max-iters": 500}, {"init-std": TUNE["init-std"], "learning-rate": ADAMW}, "ln", SEEDS,
                 ("val_loss",))


# ---- W10: how much of the gradient through a statistic? ------------------------------------------------

DOSES = (0, 0.5, 0.9)
DEVIATION = "sqrt(var_c(x) + eps)"
PARTLY = {"ln, size": lambda share: affine(f"(x - mean_c(x)) / {partly(DEVIATION, share)}"),
          "bn, mean": lambda share: affine(f"(x - {partly('mean_n(x)', share)}) / sqrt(var_n(x) + eps)")}


def partly(statistic, share):
    """The statistic, with this share of the gradient that flows through it."""
    return f"({share:g} * {statistic} + {1 - share:g} * stop({statistic}))"


def partly_detached(condition, width):
    """x: the share of the gradient through this statistic of a norm that is kept; 1 is the norm."""
    models = [Model(condition.split(",")[0], 1, {"norm": condition.split(",")[0]}),
              *(Model(condition, share, {"norm": PARTLY[condition](share)}) for share in DOSES)]
    return Group(models, {**W2, "n-embd": width, "probe-interval": 50}, TUNE_DETACHED, 1, SEEDS, ("val_loss", "own_loss", "stream_growth"))


# ---- W11: what does the gradient do in deep Post-LN? ---------------------------------------------------

def gradients(depth):
    """The models of W3 at this depth, probed."""
    group = branches(depth)
    return group._replace(common={**group.common, "probe-interval": 50}, measures=(
        "above_frequencies", "branch_share", "gradient_expected", "gradient_start", "gradient_100", "gradient_end"))


def unlike():
    """Post-LN of 16 layers whose norms subtract what tokens have in common, the batch's mean. x: the branch's factor."""
    norms = {"token's mean": SIZED["token"].format(u=CENTRED["token"]), "batch's mean": SIZED["token"].format(u=CENTRED["batch"])}
    models = [Model(f"post, {name}", scale, {"norm": affine(norm), "init-branch-scale": scale})
              for name, norm in norms.items() for scale in (1 / 4, 1)]
    return group_of(models, {**W3, "placement": "post", "n-layer": 16, "warmup-iters": 0}, {}, None, range(2, 6), ("above_frequencies",))


# At 128 channels, where a run takes half a minute.
WIDE = [*cells(("token", "batch")), *only(cells(), "batch mean, none size"), *only(doses(), "batch, rescaled^1")]
EXPERIMENTS = {
    "W1": lambda: list(map(shape_of, (32, 8, 128, 16, 64))),
    "W1-rates": lambda: [rates()],
    "W1-untuned": lambda: list(map(untuned, LENGTHS)),
    "W1-random": lambda: [random_text()],
    "W2": lambda: list(map(outliers, ("ln", "bn", "rms", "none", "gn"))),
    "W5": lambda: list(map(block, BLOCKS)),
    "W6": lambda: [*map(basin, ("none", "ln", "rms", "bn", "dyt")), basin("ln", "ln, detached", **switches(("mean", "std")))],
    "W7": lambda: [detached("ln", DETACHED), detached("rms", ["detached"]), detached("bn", DETACHED),
                   detached("ln", ["detached"], placement="post"), detached_or_none()],
    "W3": lambda: [*map(branches, DEPTHS), remedies()],
    "W4": lambda: [sites(), *map(line, LINES), noise(), against({"batch-size": 48}), against({"max-iters": 1200})],
    "W8-2x64": lambda: [whose({"n-layer": 2}, [*cells(), *doses()])],
    "W8-halves": lambda: [whose({"n-layer": 2}, halves())],
    "W8-2x32": lambda: [whose({"n-layer": 2, "n-embd": 32}, cells())],
    "W8-4x64": lambda: [whose({"block-size": 64, "max-iters": 600}, [*cells(), *doses()])],
    "W8-4x128": lambda: [whose({"n-embd": 128, "block-size": 64, "max-iters": 600}, WIDE, FEWER)],
    "W8-settings": lambda: [settled()],
    "W9": lambda: list(map(optimized, ("adamw", "sgd", "muon"))),
    "W9-cells": lambda: list(map(cells_with, ("sgd", "adamw without decay", "muon"))),
    "W9-4x64": lambda: [trained_by("muon", BOTH, {})],
    "W9-4x128": lambda: [trained_by("muon", BOTH, {"n-embd": 128}, {"init-std": TUNE["init-std"][:3], "muon-lr": (3e-3, 1e-2, 3e-2)})],
    "W9-settings": lambda: [trained_by("muon", at_settings(BOTH, "muon-lr", MUON_SETTINGS), {}, {})],
    "W9-1200-settings": lambda: [trained_by("muon", at_settings(BOTH, "muon-lr", MUON_SETTINGS), {"max-iters": 1200}, {})],
    "W9-eps": lambda: [damped()],
    "W10-32": lambda: [partly_detached(condition, 32) for condition in PARTLY],
    "W10-64": lambda: [partly_detached(condition, 64) for condition in PARTLY],
    "W11": lambda: [*map(gradients, DEPTHS[1:]), unlike()],
}
