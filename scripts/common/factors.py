"""Factors of studies and ablations: options with their levels, all combinations of which are variants.

A factor is an option, or several options that vary together (their names are joined by commas, and the values of a level
by colons). A variant has a level of each factor.
"""
from collections import namedtuple
import itertools

from common.command_line import UsageError, check_characters, parts_of
from common.run_options import own_name, short_name, twice
from common.variants import number_text

# levels: a text for each factor. options: {name: text} for ./train.
Variant = namedtuple("Variant", "levels options")


def text_of(value):
    """A value as ./train reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return number_text(value) if isinstance(value, float) else str(value)


def texts_of(options):
    return {name: text_of(value) for name, value in options.items()}


def words_of(options):
    return [f"--{name}={text}" for name, text in options.items()]


def factor_name(name):
    return ",".join(map(own_name, name.split(",")))


def level_of(name, value):
    """The text of a level, with the short names of norms and placements."""
    names = name.split(",")
    for part in value if isinstance(value, (tuple, list)) else [value]:
        check_characters(text_of(part))
    parts = list(map(text_of, value)) if isinstance(value, (tuple, list)) else \
        text_of(value).split(":") if len(names) > 1 else [text_of(value)]
    if len(parts) != len(names):
        raise UsageError(f"--{name}: '{':'.join(parts)}' needs {len(names)} values separated by colons")
    return ":".join(map(short_name, names, parts))


def read_factors(given, own, why):
    """{name: [level]} of {name: values}; values: a list, or a text with commas. own: options that no factor may have, and why."""
    found, owner = {}, {}
    for key, values in given.items():
        name = factor_name(key)
        levels = [level_of(name, value) for value in (parts_of(values) if isinstance(values, str) else values)]
        if not levels or not all(levels):
            raise UsageError(f"--{key}: needs values (--{key}=A,B,...)")
        if repeated := twice(name, levels):
            raise UsageError(f"--{key}: '{repeated}' is given twice")
        for option in name.split(","):
            if option in own:
                raise UsageError(f"--{option}: {why}")
            if option in owner:
                raise UsageError(f"--{option}: is given twice, in --{owner[option]} and --{name}")
            owner[option] = name
        found[name] = levels
    return found


def product_of(factors):
    """The Variants of all combinations, the last factor fastest."""
    def options(levels):
        return {option: text for name, level in zip(factors, levels)
                for option, text in zip(name.split(","), level.split(":") if "," in name else [level])}

    return [Variant(levels, options(levels)) for levels in itertools.product(*factors.values())]
