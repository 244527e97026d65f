"""Which options make two runs different in a comparison. Options that only log, follow from other options or have no
effect do not.

./train knows which options have an effect and what "auto" became, and writes it into a run's folder: Options has it.
Runs of older versions lack it; there every option counts. `./train --help=json` marks the options that only watch.
"""
import errno
import functools
import json
import os
import re
import subprocess
import zlib

ALIASES = {"lr": "learning-rate"}

# What it means that an option with a file's name has no value.
ABSENT = {"corpus": "grammar", "start": "random"}


TRAIN = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "train"))


def own_name(word):
    """The full name of the option in a word NAME, --NAME or --NAME=VALUE."""
    name = word.removeprefix("--").partition("=")[0]
    return ALIASES.get(name, name)


def train():
    """The path of ./train."""
    return os.environ.get("TRAIN", TRAIN)


class RunError(Exception):
    """A fault of a run's folder, or of ./train, as one line for the user."""


def call(*words, env=None):
    """What ./train prints. Raises RunError with its message if it refuses."""
    try:
        ended = subprocess.run([train(), *words], capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
                               env=env, check=False)
    except OSError as error:
        raise RunError(f"{train()}: {error.strerror} (make builds it)") from None
    if ended.returncode:
        raise RunError((ended.stderr.strip().splitlines() or ["./train failed"])[-1])
    return ended.stdout


def expect_train():
    if not os.access(train(), os.X_OK):
        raise FileNotFoundError(errno.ENOENT, "is missing (make builds it)", train())
    return train()


def cores_here():
    """The number of cores that this process may use, as ./train counts them: those that it is bound to, or fewer if a
    container or batch system limits its processor time. OMP_NUM_THREADS, which is about one run, does not change it.
    Without ./train, those that it is bound to."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    try:
        return json.loads(call("--show-options=json", env=environment))["threads"]["value"]
    except (RunError, ValueError, KeyError):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@functools.lru_cache(maxsize=None)
def short_names(topic):
    """{full name: short name} of the norms or the placements, as ./train lists them; empty without it."""
    try:
        listed = call(f"--help={topic}")
    except RunError:
        return {}
    rows = re.split(r"^  [A-Z]", listed.partition(" is one of:\n")[2], maxsplit=1, flags=re.MULTILINE)[0]  # but no text after them
    return {full: short for short, full in re.findall(r"^  ([a-z0-9-]+), ([a-z0-9-]+)(?: |$)", rows, re.MULTILINE)}


def short_name(name, text):
    """The short name of a norm or a placement; any other option's value as it is."""
    topic = next((topic for topic in ("norm", "placement") if topic in name.split("-")), None)
    return short_names(topic).get(text, text) if topic else text


def file_value(name, text):
    """An option's value in the name of a file; a norm that is a formula has the name that ./train gives it."""
    if "norm" in re.split("[,-]", name) and re.search("[()*/+^; ]", text):
        return f"f{zlib.crc32(' '.join(text.split()).encode()):08x}"
    return text


@functools.lru_cache(maxsize=None)
def option_rows():
    """{name: row} of the options of ./train, as --help=json describes them; empty without ./train."""
    try:
        return {row["name"]: row for row in json.loads(call("--help=json"))["options"]}
    except RunError:
        return {}


def spelled(name, text):
    """What the text of an option's value means: equal for 1e-3 and 0.001, layernorm and ln, a.txt and ./a.txt."""
    kind = option_rows().get(name, {}).get("kind")
    if kind in ("integer", "real", None):
        try:
            return float(text)
        except ValueError:
            pass
    return os.path.normpath(text) if kind == "text" and text else short_name(name, text)


def twice(names, parts):
    """The first of these parts, which are values of options joined by colons, that means the same as one before it; or None."""
    names, seen = names.split(","), set()
    for part in parts:
        meant = tuple(map(spelled, names, part.split(":") if len(names) > 1 else [part]))
        if meant in seen:
            return part
        seen.add(meant)
    return None


def given(words):
    """{option: text} of words for ./train, also of --NAME VALUE; the last one counts. Flags and aliases are left out."""
    found, words = {}, list(words)
    while words:
        name, equals, text = words.pop(0).partition("=")
        kind = option_rows().get(own_name(name), {}).get("kind")
        if not name.startswith("--"):
            found["corpus"] = name + equals + text
        elif equals or (words and (words[0] in ("on", "off") if kind == "switch" else kind not in ("flag", "topic", "alias", None))):
            found[own_name(name)] = text if equals else words.pop(0)
    return found


def contradiction(options, words):
    """The name of an option of which a run with these Options has another value than the words for ./train say; None if there
    is none. Values that ./train may resolve, and options that only watch, do not count."""
    for name, text in given(words).items():
        row, value = option_rows().get(name, {}), options.get(name)
        if name not in options or name in watching() or name in options.auto or text == "auto":
            continue
        if row.get("kind") in ("integer", "real"):
            meant = spelled(name, text)
            if is_number(value) and is_number(meant) and f"{value:.9g}" != f"{meant:.9g}":
                return name
        elif row.get("kind") in ("choice", "switch"):
            text = short_name(name, text)
            named = text in row.get("values", ("on", "off")) or row["topic"] == "norm"  # or a formula, which may have blanks
            if named and "".join(text.split()) != "".join(str(value).split()):
                return name
        elif name in ("corpus", "start") and text != value:
            return name
    return None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@functools.lru_cache(maxsize=None)
def watching():
    """The options that observe, store or show a run, and change nothing that is learned."""
    return frozenset(name for name, row in option_rows().items() if row.get("watching"))


class Options(dict):
    """A run's options, {name: value}.

    inactive  the names of those that have no effect beside the others
    auto      the names of those whose value "auto" gives
    """
    def __init__(self, values=(), inactive=(), auto=()):
        super().__init__(values)
        self.inactive, self.auto = frozenset(inactive), frozenset(auto)

    def is_active(self, name):
        """Whether the option has an effect on what the run learns."""
        return name not in self.inactive and name not in watching()


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
    """The options whose values differ among the runs, each run an Options. An option does not count in runs where it
    has no effect. Left out are options to which "auto" gives the value in every run, and the number of updates if
    all runs train on the same number of tokens."""
    names = []
    for name in runs[0] if runs else ():
        if name == "max-iters" and equal_tokens(runs):
            continue
        having = [options for options in runs if name in options and options.is_active(name)]
        if len({str(options[name]) for options in having}) > 1 and \
                all(name in options for options in runs) and \
                not all(name in options.auto for options in having):
            names.append(name)
    return names
