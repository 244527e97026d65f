"""Which variant is compared with which: a variant's baseline has the values that the user names, and
agrees with it in every other option that has an effect in both. A group here is anything with a label
and a key, the values of the options `names`.
"""
import functools
import os
import re
import subprocess

from runs import INACTIVE, RunError, value_text

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train")


@functools.lru_cache(maxsize=None)
def short_names(topic):
    """{full name: short name} of the norms or the placements, as ./train lists them; empty without it."""
    try:
        listed = subprocess.run([os.environ.get("TRAIN", TRAIN), f"--help={topic}"], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, check=False).stdout
    except OSError:
        return {}
    return {full: short for short, full in re.findall(r"^  ([a-z0-9-]+), ([a-z0-9-]+)(?: |$)", listed, re.MULTILINE)}


def short_name(name, text):
    """The short name of a norm or a placement; any other option's value as it is."""
    topic = next((topic for topic in ("norm", "placement") if topic in name.split("-")), None)
    return short_names(topic).get(text, text) if topic else text


def same_value(value, text):
    """Whether an option's value is what the user wrote."""
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return text in (str(value), value_text(value))


def wanted_of(groups, names, given, option="--baseline"):
    """{name: the variants' value} of what --baseline or another option gives as {name: text}. Refuses a
    name or a value that these variants do not have."""
    wanted = {}
    for name, text in given.items():
        if name not in names:
            what = f"they differ in {', '.join(names)}" if names else "they differ in no option"
            raise RunError(f"{option}={name}={text}: these runs do not differ in {name} ({what})")
        values = list(dict.fromkeys(group.key[names.index(name)] for group in groups))
        same = [value for value in values if same_value(value, text)] or \
            [value for value in values if same_value(value, short_name(name, text))]
        if not same:
            raise RunError(f"{option}={name}={text}: no such run (there are "
                           f"{', '.join(value_text(value) for value in values if value != INACTIVE)})")
        wanted[name] = same[0]
    return wanted


def has_values(group, names, wanted):
    return all(group.key[names.index(name)] == value for name, value in wanted.items())


def baseline_of(group, groups, names, wanted, option="--baseline"):
    """The group's baseline, or None."""
    def fits(other):
        return all(there == wanted[name] if name in wanted else
                   here == there or INACTIVE in (here, there)
                   for name, here, there in zip(names, group.key, other.key))

    found = [other for other in groups if fits(other)]
    if len(found) > 1:
        raise RunError(f"{option}: {found[0].label} and {found[1].label} could both be the baseline "
                       f"of {group.label} (name more options: {option}=NAME=VALUE,NAME=VALUE)")
    return found[0] if found else None
