"""What a study compares: factors with their levels, the variants, which options are tuned, and what a variant is compared
with.

common/factors.py says what factors are. If variants are listed one by one, the options in which they differ are the factors.
"""
import functools
import json
import os
import shlex
import zlib

from common.command_line import UsageError, check_characters, parts_of
from common.factors import Variant, factor_name, level_of, text_of, words_of
from common.run_options import RunError, call, option_rows, own_name, spelled, twice

# Half a decade apart, or a factor of two; the ends grow.
DEFAULT_AXES = {"learning-rate": "1e-3,3e-3,1e-2,3e-2", "init-std": "0.02,0.04,0.08,0.16"}
OWN = ("seed", "hold-out", "out", "force", "resume", "generate", "evaluate")  # options of ./train that a study sets
ABSENT = ""  # the level of a listed variant that does not name the option


# ---- variants --------------------------------------------------------------------------------------

def listed(variants):
    """The factors and the Variants of a list of {option: value}."""
    rows = [{own_name(name): level_of(own_name(name), value) for name, value in one.items()} for one in variants]
    names = list(dict.fromkeys(name for one in rows for name in one))
    factors = {name: list(dict.fromkeys(one.get(name, ABSENT) for one in rows)) for name in names}
    factors = {name: levels for name, levels in factors.items() if len(levels) > 1}
    found = [Variant(tuple(one.get(name, ABSENT) for name in factors), one) for one in rows]
    if len({tuple(map(spelled, factors, one.levels)) for one in found}) < len(found):
        raise UsageError("two variants have the same options")
    return factors, found


def level_label(name, level, labels):
    return labels.get(level) or labels.get(f"{name}={level}") or level


def label_of(levels, names, labels=None):
    """The levels in words: those of norm and placement alone, others after the option's name."""
    labels, texts = labels or {}, []
    for name, level in zip(names, levels):
        label = level_label(name, level, labels)
        own = label != level or name in ("norm", "placement", "optimizer")
        texts += [label if own else f"{labels.get(name, name)} {level}"] * (level != ABSENT)
    return ", ".join(texts) or "all"


# ---- the baseline ----------------------------------------------------------------------------------

def read_pairs(text):
    """{factor: level} of NAME=LEVEL,...; a factor of tied options has commas in its name."""
    pairs, begun = {}, ""
    for part in parts_of(text):
        begun += part
        name, equals, level = begun.partition("=")
        if equals:
            pairs[name], begun = level, ""
        else:
            begun += ","
    if begun or not pairs or not all(pairs.values()):
        raise UsageError(f"'{text}' is not NAME=LEVEL,...")
    return pairs


def pairs_of(given, factors, option="--baseline"):
    """{factor: level} as the factors spell them. Refuses what the study does not have."""
    found = {}
    for key, value in (read_pairs(given) if isinstance(given, str) else given).items():
        name = factor_name(key)
        if name not in factors:
            raise UsageError(f"{option}={key}={value}: the variants do not differ in {key} "
                             f"(they differ in {' and '.join(factors) or 'nothing'})")
        level = level_of(name, value)
        found[name] = next((one for one in factors[name] if one == level or twice(name, [one, level])), None)
        if found[name] is None:
            raise UsageError(f"{option}={key}={value}: no variant has this level "
                             f"(there are {', '.join(filter(None, factors[name]))})")
    return found


def default_baseline(factors):
    """The first level of the first factor that has several."""
    return next(({name: levels[0]} for name, levels in factors.items() if len(levels) > 1), {})


def at(levels, names, changed):
    """These levels, with the levels of {factor: level} in their places."""
    return tuple(changed.get(name, level) for name, level in zip(names, levels))


# ---- tuned options ---------------------------------------------------------------------------------

def read_axes(given, factors):
    """{option: [text]} of the tuned options: names, or {name: values or None for the option's default axis}."""
    axes = {}
    for key, values in named(given):
        name = own_name(key)
        if values is None and name not in DEFAULT_AXES:
            raise UsageError(f"--tune={key}: this option has no default axis (give --tune={key}=A,B,...; "
                             f"{' and '.join(DEFAULT_AXES)} have one)")
        values = DEFAULT_AXES[name] if values is None else values
        texts = list(map(text_of, values.split(",") if isinstance(values, str) else values))
        check_characters("".join(texts))
        if len(texts) < 2 or not all(texts) or twice(name, texts):
            raise UsageError(f"--tune={key}: needs at least two different values")
        if name in OWN or any(name in factor.split(",") for factor in factors):
            raise UsageError(f"--tune={key}: is {'set by the study' if name in OWN else 'a factor'} (tune another option)")
        axes[name] = texts
    return axes


def named(given):
    """The pairs (name, values or None) of names, or of {name: values}."""
    return given.items() if isinstance(given, dict) else [(name, None) for name in given]


def read_stable(given, tuned):
    """{option: values} of --stable: one option, with its values here or in those tuned."""
    given = read_tune(given) if isinstance(given, str) else dict(named(given))
    values = {own_name(name): values for name, values in named(tuned)}
    if len(given) > 1:
        raise UsageError(f"--stable={','.join(given)}: takes one option")
    for name, wanted in given.items():
        if wanted and values.get(own_name(name)):
            raise UsageError(f"--stable={name}: has values here and in --tune (give them once)")
        return {own_name(name): wanted or values.get(own_name(name))}
    return {}


def read_tune(text):
    """{name: values or None} of NAME[=A,B,...],...: after =, words that are no options are further values."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        last = list(found)[-1] if found else None
        if equals:
            found[name] = value
        elif last and found[last] is not None and own_name(part) not in option_rows():
            found[last] += f",{part}"
        else:
            found[part] = None
    return found


def check_base(words, taken):
    """Refuses options of every run that the study sets, or that are factors or tuned."""
    for word in words:
        check_characters(word)
        name = own_name(word) if word.startswith("--") else ""
        if name in OWN:
            raise UsageError(f"{word}: a study sets it itself (leave it out)")
        if name in taken:
            raise UsageError(f"{word}: is also a factor or tuned (give it once)")
        if word in ("-", "--corpus=-"):
            raise UsageError("-: standard input cannot feed several runs (give a file)")


# ---- what ./train says -----------------------------------------------------------------------------

def shown_options(words):
    """{option: {"value", "active", "auto"}} as ./train resolves these words."""
    return json.loads(call("--show-options=json", *words))


@functools.lru_cache(maxsize=None)
def refusal(words):
    """Why ./train refuses options whatever the text is, or "". words: a tuple."""
    try:
        shown_options(words)
        return ""
    except RunError as error:
        return str(error)


def lacking_axes(variants, axes, base):
    """{levels: the names of tuned options without an effect in this variant}."""
    def lacking(variant):
        shown = shown_options([*words_of(variant.options), *base]) if axes else {}
        return [name for name in axes if not shown[name]["active"]]

    return {variant.levels: lacking(variant) for variant in variants}


def corpus_of(base):
    """The path of the corpus in the words of every run, or None."""
    named = [word.partition("=")[2] for word in base if word.startswith("--corpus=")]
    return (named or [word for word in base if not word.startswith("-")] or [None])[-1]


def default_out(base):
    """A folder named by the corpus and the options of every run."""
    name = os.path.splitext(os.path.basename(corpus_of(base) or "grammar"))[0]
    return os.path.join("runs", f"study-{name}-{zlib.crc32(shlex.join(base).encode()):08x}")
