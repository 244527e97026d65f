"""Several runs: in which options they differ, how these are written, and which runs are one variant.

A variant is the runs that differ in their seed only; run_options.py says which options make no difference.
"""
import os

from common.run_options import ABSENT, differing, spelled
from common.runs import RunError

FIRST = ("norm", "placement")
INACTIVE = ""  # in a key: the option has no effect in this variant


def unit_of(runs):
    """What a token is."""
    levels = {run.options.get("level", "char") for run in runs}
    return "byte" if levels == {"byte"} else "character"


def varying(runs, seed=False):
    """The options that differ among the runs and matter, norm and placement first."""
    names = [name for name in differing([run.options for run in runs]) if seed or name != "seed"]
    return [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]


def number_text(value):
    """A number as people write it: the shorter one of 0.03 and 3e-2, of 0.0003 and 3e-4."""
    plain_text = f"{value:.6g}"
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    short = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return short if abs(value) < 1 and len(short) < len(plain_text) else plain_text


def value_text(value, name):
    """An option's value for a label: a file without its folder."""
    if isinstance(value, (int, float)):
        return number_text(value) if isinstance(value, float) else str(value)
    return ABSENT.get(name, "none") if value is None else name in ABSENT and os.path.basename(value) or value


def key_of(run, names):
    return tuple(run.options[name] if run.options.is_active(name) else INACTIVE for name in names)


WHERE = {"metavar": "NAME=VALUE,...", "help": "only runs with these values of options, such as n-layer=6"}  # --where of all scripts


def where(runs, wanted, options_of=lambda run: run.options):
    """The runs with these {option: text}. Refuses what no run has."""
    for name, text in (wanted or {}).items():
        values = dict.fromkeys(str(options_of(run).get(name)) for run in runs)
        same = {value for value in values if spelled(name, value) == spelled(name, text)}
        if not same:
            raise RunError(f"--where={name}={text}: no such run (there are {', '.join(values) or 'none'})")
        runs = [run for run in runs if str(options_of(run).get(name)) in same]
    return runs


def order(value):
    """Sorts numbers as numbers, before texts."""
    if isinstance(value, (int, float)):
        return 0, value, ""
    return 1, 0, str(value)


def label_of(run, names):
    """The values of these options, without those that have no effect. Values other than those of norm,
    placement and corpus follow the option's name."""
    names = [name for name, value in zip(names, key_of(run, names)) if value != INACTIVE]
    return ", ".join(f"{'' if name in (*FIRST, 'corpus') else f'{name} '}{value_text(run.options[name], name)}" for name in names)


def variants(runs, names):
    """[(values, runs)] of runs with the same values of these options, in the order of the values."""
    groups = {}
    for run in runs:
        groups.setdefault(key_of(run, names), []).append(run)
    return sorted(groups.items(), key=lambda item: [order(value) for value in item[0]])


def twins(runs):
    """Two runs of the same effective options and seed, or None."""
    names = varying(runs, seed=True)
    seen = {}
    for run in runs:
        other = seen.setdefault(key_of(run, names), run)
        if other is not run:
            return other, run
    return None


def without_copies(runs, say):
    """The runs without copies: runs that differ from another one only in options that have no effect
    there. say(text) reports them."""
    if not all(run.options for run in runs):
        return runs
    names = varying(runs, seed=True)
    unused = [name for name in names if any(not run.options.is_active(name) for run in runs)]
    seen, kept = {}, []
    for run in runs:
        other = seen.setdefault(key_of(run, names), run)
        different = [name for name in unused if other.options[name] != run.options[name]]
        if different:
            say(f"{run.folder} is left out: it differs from {other.folder} only in {different[0]}, which "
                "has no effect there")
        else:
            kept.append(run)
    return kept
