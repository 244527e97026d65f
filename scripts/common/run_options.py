"""Which options make two runs different in a comparison. Options that only log, follow from other options or have no
effect do not.

`./train --help=json` says when an option has an effect (model/lab/config_use.c). Without ./train, or for an unknown
option or condition, an effect is assumed.
"""
import errno
import functools
import json
import math
import os
from pathlib import Path
import re
import subprocess

# These change what is measured, shown or stored, but not what is learned. (--max-tokens is stored as the
# resulting --max-iters.)
WATCHING = {"log-interval", "eval-interval", "eval-iters", "eval-train", "probe-interval", "sample-interval",
            "checkpoint-interval", "keep-best", "max-tokens", "sample", "temperature", "top-k",
            "top-p", "min-p", "num-items", "num-chars", "threads", "micro-batch-tokens", "quiet",
            "profile", "out", "force", "preset", "recipe"}

# Of those, these say where a run is and how it is shown. No table has a row for each of their values.
PLACES = {"threads", "quiet", "out", "force", "preset", "recipe"}

# Activations whose hidden units have two halves: the function of the one, which the other multiplies.
GATED = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}

ALIASES = {"lr": "learning-rate"}

# What it means that an option with a file's name has no value.
ABSENT = {"corpus": "grammar", "start": "random"}


TRAIN = str(Path(__file__).resolve().parents[2] / "train")


def own_name(word):
    """The full name of the option in a word NAME, --NAME or --NAME=VALUE."""
    name = word.removeprefix("--").partition("=")[0]
    return ALIASES.get(name, name)


def train():
    """The path of ./train."""
    return os.environ.get("TRAIN", TRAIN)


def expect_train():
    if not os.access(train(), os.X_OK):
        raise FileNotFoundError(errno.ENOENT, "is missing (make builds it)", train())
    return train()


@functools.lru_cache(maxsize=None)
def short_names(topic):
    """{full name: short name} of the norms or the placements, as ./train lists them; empty without it."""
    try:
        listed = subprocess.run([train(), f"--help={topic}"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                check=False).stdout
    except OSError:
        return {}
    return {full: short for short, full in re.findall(r"^  ([a-z0-9-]+), ([a-z0-9-]+)(?: |$)", listed, re.MULTILINE)}


def short_name(name, text):
    """The short name of a norm or a placement; any other option's value as it is."""
    topic = next((topic for topic in ("norm", "placement") if topic in name.split("-")), None)
    return short_names(topic).get(text, text) if topic else text


NORM_OPTIONS = ("norm", "norm-attn", "norm-ffn", "norm-final", "qk-norm", "v-norm", "ffn-norm")


def placement_of(options, site):
    """The placement of attention (attn) or of the MLP (ffn)."""
    own = options.get("placement-" + site, "auto")
    return options.get("placement") if own == "auto" else own


@functools.lru_cache(maxsize=None)
def tables():
    """The options and the placements of ./train by name; empty without ./train."""
    try:
        text = subprocess.run([train(), "--help=json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}, {}
    return [{row["name"]: row for row in rows} for rows in json.loads(text).values()]


def placed(options, site, property):
    """Whether the placement of attention (attn) or of the MLP (ffn) has this property."""
    return tables()[1].get(placement_of(options, site), {}).get(property, True)


INNER = {"attn": ("qk-norm", "v-norm"), "ffn": ("ffn-norm",)}


def with_site(site):
    return lambda options, values=(): placed(options, site, site + "_norms") or any(
        options.get(option) in ("on", True) for option in INNER[site])


def with_norms(options, values=()):
    ends = tables()[1].get(options.get("placement"), {}).get("end_norms", True)
    return ends or options.get("final-norm") in ("on", True) or any(with_site(site)(options) for site in INNER)


def with_norm(options, names):
    """Whether one of these norms is at some site."""
    sites = {"norm": with_norms, "norm-attn": with_site("attn"), "norm-ffn": with_site("ffn")}
    return any(options.get(option) in names and sites.get(option, bool)(options) for option in NORM_OPTIONS)


def with_qkv_norm(options, values=()):
    return placed(options, "attn", "qk_norms") or any(
        options.get(option, "off") not in ("off", "none") for option in ("qk-norm", "v-norm"))


def with_placement(options, names):
    return any(placement_of(options, site) in names for site in INNER)


def with_connection(options, names):
    own = options.get("connection", "auto")
    return own in names or own == "auto" and any(
        tables()[1].get(placement_of(options, site), {}).get("connection") in names for site in INNER)


def learns_gamma(options, values=()):
    return tables()[1].get(options.get("placement"), {}).get("gamma", True)


# The facts of model/lab/config_use.c that plots and tables need: each takes a run's options and the values
# of the clause.
FACTS = {"norms": with_norm, "placements": with_placement, "connections": with_connection,
         "own-norm": with_norms, "attn-norms": with_site("attn"), "ffn-norms": with_site("ffn"),
         "qkv-norms": with_qkv_norm, "gamma": learns_gamma, "gamma-or-beta": learns_gamma}


def usual_scale(options):
    """log2(T^2 - T) for cosines (Henry et al. 2020), else 1 / sqrt(HS)."""
    kind = options["qk-norm"]
    if kind == "on" or kind == "off" and placed(options, "attn", "qk_norms"):
        kind = options["norm-attn"] if options["norm-attn"] != "auto" else options["norm"]
    longest = max(2, options["block-size"])
    return math.log2(longest ** 2 - longest) if kind == "l2" else \
        math.sqrt(options["n-head"] / options["n-embd"])


def usual_width(options):
    """Hidden units: 4C, or with a gate 8/3 C rounded up to a multiple of 32."""
    C = options["n-embd"]
    return -(-(8 * C // 3) // 32) * 32 if options["act"] in GATED else 4 * C


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


@functools.lru_cache(maxsize=None)
def clauses_of(needs):
    """(negated, name, values) of each clause of a condition such as "items=on, !norms=bn|pn"."""
    clauses = []
    for clause in needs.split(", ") if needs else ():
        name, _, values = clause.removeprefix("!").partition("=")
        clauses.append((clause.startswith("!"), name, tuple(values.split("|")) if values else ()))
    return clauses


def same(value, text):
    """Whether a run's option has a value that is written like this."""
    if isinstance(value, bool):
        return text == ("on" if value else "off")
    return float(text) == value if isinstance(value, (int, float)) else value == text


def holds(clause, options):
    negated, name, values = clause
    if name in FACTS:
        return FACTS[name](options, values) != negated
    row = tables()[0].get(name)
    if row is None:  # a fact of ./train alone
        return True
    value = options.get(name, row.get("default"))
    return (any(same(value, text) for text in values) if values else value is not None) != negated


def is_active(name, options):
    """Whether the option has an effect on what a run with these options learns."""
    needs = tables()[0].get(name, {}).get("needs")
    return name not in WATCHING and all(holds(clause, options) for clause in clauses_of(needs))


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
