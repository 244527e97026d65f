"""Which options of a run matter for comparisons, and which only watch, follow from other options or have
no effect. Only this file names them; model/lab/config.c declares the options.

An option that is unknown here is assumed to matter.
"""
import math

# These change what is measured, shown or stored, but not what is learned. (--max-tokens is stored as the
# --max-iters that it results in.)
WATCHING = {"log-interval", "eval-interval", "eval-iters", "eval-train", "probe-interval", "sample-interval",
            "checkpoint-interval", "keep-best", "max-tokens", "sample", "temperature", "top-k",
            "top-p", "min-p", "num-items", "num-chars", "threads", "micro-batch-tokens", "quiet",
            "profile", "out", "force", "preset", "recipe"}

# Of those, these say where a run is and how it is shown: no table is split by them.
PLACES = {"threads", "quiet", "out", "force", "preset", "recipe"}

GATED = ("reglu", "geglu", "geglu-tanh", "swiglu")  # activations whose MLP has two halves

# What it means that an option with a file's name has no value.
ABSENT = {"corpus": "grammar", "start": "random"}

NORM_OPTIONS = ("norm", "norm-attn", "norm-ffn", "norm-final", "qk-norm", "v-norm", "ffn-norm")


def placement_of(options, site):
    """The placement of attention (attn) or of the MLP (ffn)."""
    own = options.get("placement-" + site, "auto")
    return options.get("placement") if own == "auto" else own


def with_placement(*names):
    return lambda options: any(placement_of(options, site) in names for site in ("attn", "ffn"))


def with_lambda(options):
    """Whether the connection of a sub-layer has a learned factor with a fixed initial value."""
    own = options.get("connection", "auto")
    return own in ("rezero", "skipinit", "layerscale", "interpolate") or own == "auto" and with_placement(
        "rezero", "skipinit", "layerscale", "ngpt")(options)


QK_NORM = ("hybrid", "hybrid-star", "ngpt")  # placements that normalize queries and keys


def with_qkv_norm(options):
    return placement_of(options, "attn") in QK_NORM or any(
        options.get(option, "off") not in ("off", "none") for option in ("qk-norm", "v-norm"))


# Placements without norms around attention, around the MLP, and in the whole model. Then the norm of a
# site is only where an option puts it.
NO_NORMS = ("rezero", "skipinit", "tfixup")
WITHOUT_NORMS = {"attn": (*NO_NORMS, "bare"), "ffn": (*NO_NORMS, "bare", "hybrid")}
INNER = {"attn": ("qk-norm", "v-norm"), "ffn": ("ffn-norm",)}


def with_site(site):
    return lambda options: placement_of(options, site) not in WITHOUT_NORMS[site] or any(
        options.get(option) in ("on", True) for option in INNER[site])


def with_norms(options):
    return options.get("placement") not in NO_NORMS or options.get("final-norm") in ("on", True) or any(
        with_site(site)(options) for site in INNER)


def with_norm(*names):
    """Whether one of these norms is at some site."""
    sites = {"norm": with_norms, "norm-attn": with_site("attn"), "norm-ffn": with_site("ffn")}
    return lambda options: any(options.get(option) in names and sites.get(option, bool)(options)
                               for option in NORM_OPTIONS)


def with_learned_scale(options):
    return options.get("qk-scale") == "learned"


def usual_scale(options):
    kind = options["qk-norm"]
    if kind == "on" or kind == "off" and placement_of(options, "attn") in QK_NORM:
        kind = options["norm-attn"] if options["norm-attn"] != "auto" else options["norm"]
    longest = max(2, options["block-size"])
    return math.log2(longest ** 2 - longest) if kind == "l2" else \
        math.sqrt(options["n-head"] / options["n-embd"])


def usual_width(options):
    C = options["n-embd"]
    return -(-(8 * C // 3) // 32) * 32 if options["act"] in GATED else 4 * C


def with_optimizer(*names):
    return lambda options: options.get("optimizer", "adamw") in names


def with_items(options):
    return options.get("items") in ("on", True)


def with_grammar(options):
    return options.get("corpus") is None


# With the value "auto", ./train computes these from other options and stores the result.
DERIVED = {
    "min-lr": lambda options: options["learning-rate"] / 10,
    "lr-decay-iters": lambda options: options["max-iters"],
    "norm-groups": lambda options: options["n-head"],
    "qk-scale-start": usual_scale,
    "embd-scale-start": lambda options: math.sqrt(options["n-embd"]),
    "n-kv-head": lambda options: options["n-head"],
    "ffn-width": usual_width,
    "prepbn-steps": lambda options: options["max-iters"] * options["grad-accum"],
}

# These have an effect only if the condition holds.
CONDITIONS = {
    "grammar-chars": with_grammar,
    "grammar-seed": with_grammar,
    "random-chars": lambda options: options.get("corpus") == "random",
    "pad-to": with_items,
    "pad-stats": with_items,
    "bucket": with_items,
    "init-std": lambda options: options.get("init") == "gpt2",
    "init-embd-std": lambda options: options.get("init") != "xavier",
    "rope-theta": lambda options: options.get("position") == "rope",
    "mix-fraction": with_placement("mix"),
    "lambda-start": with_lambda,
    "norm": with_norms,
    "norm-attn": with_site("attn"),
    "norm-ffn": with_site("ffn"),
    "affine": lambda options: options.get("placement") != "ngpt",
    "lr-decay-iters": lambda options: options.get("schedule") != "constant",
    "min-lr": lambda options: options.get("schedule") != "constant",
    "qk-norm-over": with_qkv_norm,
    "qk-scale-start": with_learned_scale,
    "embd-scale-start": lambda options: options.get("embd-scale") == "learned",
    "norm-groups": with_norm("gn", "ts"),
    "ts-prior-count": with_norm("ts"),
    "bn-momentum": with_norm("bn", "brn", "in", "prepbn"),
    "bn-axis": with_norm("bn"),
    "bn-shards": with_norm("bn"),
    "rbn-mean": with_norm("bn"),
    "rbn-var": with_norm("bn"),
    "brn-r-max": with_norm("brn"),
    "brn-d-max": with_norm("brn"),
    "brn-warmup": with_norm("brn"),
    "brn-relax": with_norm("brn"),
    "rms-fraction": with_norm("rms"),
    "dyt-alpha": with_norm("dyt", "derf"),
    "dyt-alpha-attn": with_norm("dyt", "derf"),
    "bhyt-lambda": with_norm("bhyt"),
    "bhyt-kappa": with_norm("bhyt"),
    "decay-gamma": lambda options: options.get("affine") in ("on", True),
    "prepbn-steps": with_norm("prepbn"),
    "prepbn-eta": with_norm("prepbn"),
    "pn-alpha-fwd": with_norm("pn", "pn-v"),
    "pn-alpha-bkw": with_norm("pn"),
    "pn-warmup": with_norm("pn"),
    "pn-group-scaling": with_norm("pn", "pn-v"),
    "pn-divisor": with_norm("pn"),
    "decay-fraction": lambda options: options.get("schedule") == "wsd",
    "decay-shape": lambda options: options.get("schedule") == "wsd",
    "beta1": with_optimizer("adamw", "muon"),
    "beta2": with_optimizer("adamw", "muon"),
    "adam-eps": with_optimizer("adamw", "muon"),
    "sgd-momentum": with_optimizer("sgd"),
    "sgd-nesterov": with_optimizer("sgd"),
    "muon-lr": with_optimizer("muon"),
    "muon-momentum": with_optimizer("muon"),
    "muon-nesterov": with_optimizer("muon"),
    "muon-steps": with_optimizer("muon"),
}


def is_active(name, options):
    """Whether the option has an effect on what a run with these options learns."""
    return name not in WATCHING and (name not in CONDITIONS or CONDITIONS[name](options))


def is_derived(name, options):
    """Whether the option has the value that ./train computes for it."""
    try:
        return math.isclose(options[name], DERIVED[name](options), rel_tol=1e-6)
    except (KeyError, TypeError):
        return False


def equal_tokens(runs):
    """Whether a single --max-tokens results in the --max-iters of every run: the smallest number of
    updates that train on at least that many tokens."""
    try:
        batches = [run["batch-size"] * run["block-size"] * run["grad-accum"] for run in runs]
        return max((run["max-iters"] - 1) * size for run, size in zip(runs, batches)) < \
            min(run["max-iters"] * size for run, size in zip(runs, batches))
    except (KeyError, TypeError):
        return False


def differing(runs):
    """The options whose values differ among the runs, each run a dictionary of options. An option does
    not count in runs where it has no effect. Left out are options that follow from others in every run,
    and the number of updates if all runs train on the same number of tokens."""
    names = []
    for name in runs[0] if runs else ():
        if name == "max-iters" and equal_tokens(runs):
            continue
        having = [options for options in runs if name in options and is_active(name, options)]
        if len({str(options[name]) for options in having}) > 1 and \
                all(name in options for options in runs) and \
                not all(is_derived(name, options) for options in having):
            names.append(name)
    return names
