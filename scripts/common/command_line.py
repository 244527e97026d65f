"""Command-line programs: their modules, parsers of options, messages for wrong usage, exit status, and the files and
tables that they write.

scripts/deps.sh installs modules for the system's Python. The first python3 on PATH may be another one, so a program
that lacks a module restarts under the system's Python, except in a virtual environment, which has modules of its own
(scripts/requirements.txt). A program calls require() before it imports numpy, matplotlib or PyTorch.
"""
import argparse
import csv
import importlib
import io
import math
import os
import signal
import sys
import unicodedata

from common.run_options import own_name

SYSTEM = "/usr/bin/python3"


def run_again():
    """Restarts the program under the system's Python. Returns only in a virtual environment, or if that Python already
    runs it, or there is none."""
    if sys.prefix == sys.base_prefix and sys.executable != SYSTEM and os.access(SYSTEM, os.X_OK):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])


def require(program, groups, *names, how="scripts/deps.sh {} installs it"):
    """Imports the modules, if need be under the system's Python. If that fails, ends the program with
    one line that names the groups of scripts/deps.sh, or says how to install what that does not."""
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        run_again()
        if sys.prefix != sys.base_prefix:
            how = "in a virtual environment: pip install -r scripts/requirements.txt"
        sys.exit(f"{program}: {sys.executable}: {error} ({how.format(groups)})")


PICTURES = (".png", ".svg", ".pdf")  # the ends of their names


class UsageError(Exception):
    """Wrong usage, as one line for the user."""
    status = 2


class Parser(argparse.ArgumentParser):
    def __init__(self, **how):
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **how})

    def parse_known_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args  # --help=all, as of ./train
        help_words = ["--help" if word.startswith("--help=") else word for word in words]
        return super().parse_known_args(help_words, namespace)

    def error(self, message):
        message = message.removeprefix("argument ")
        raise UsageError(message if message.endswith(")") else f"{message} (--help lists the options)")


def parts_of(text):
    """The parts of a comma list. A comma inside parentheses, as in the norm min(x, 1), separates none."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def words(text):
    """The words of a comma list."""
    if not all(parts_of(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME,...")
    return parts_of(text)


def option_names(text):
    """The full names of the options of ./train in a comma list."""
    return [own_name(word) for word in words(text)]


def whole_numbers(text):
    if not all(part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is not N,...")
    return sorted({int(part) for part in text.split(",")})


def settings(text):
    """{NAME: VALUE} of a comma list of options of ./train, by their full names."""
    pairs = [(own_name(part), part.partition("=")[2]) for part in parts_of(text)]
    if not all(name and value for name, value in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE,...")
    return dict(pairs)


def labels(text):
    """{NAME: TEXT} of a comma list NAME=TEXT,..., where NAME may contain =, as a formula does."""
    pairs = [part.rpartition("=")[::2] for part in parts_of(text)]
    if not all(name and label for name, label in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=TEXT,...")
    return {own_name(name) if "=" not in name else name: label for name, label in pairs}


def number(kind, fits, what):
    """A parser of a float, or of an int of digits only, for which fits(value) holds. what: its description in messages."""
    def parse(text):
        try:
            value = kind(text) if kind is float or text.isdigit() else math.nan
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
        return value
    return parse


count = number(int, lambda value: value >= 1, "a whole number from 1 on")


def some_of(*names):
    """A parser of comma lists of these names."""
    def parse(text):
        chosen = list(dict.fromkeys(text.split(",")))
        for name in chosen:
            if name not in names:
                raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(names)}")
        return chosen
    return parse


def pair(separator, fits, what, kind=float):
    """A parser of two numbers for which fits(one, other) holds."""
    def parse(text):
        try:
            one, other = map(kind, text.split(separator))
            if not fits(one, other):
                raise ValueError
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not {what}") from None
        return one, other
    return parse


share = pair("/", lambda first, step: 1 <= first <= step, "K/N", int)  # every N-th of a list, from the K-th on


# ---- the program ---------------------------------------------------------------------------------

def teller(program):
    """A function that prints a line of the program on standard error."""
    return lambda text: print(f"{program}: {legible(str(text), BYTES)}", file=sys.stderr, flush=True)


def run(say, main, *failures, interrupted=""):
    """Runs main() and returns the exit status: that of main(), that of a UsageError or of one of these failures (1 if it
    has none), or 1 after an OSError. Prints UTF-8. interrupted: the message after Ctrl-C."""
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return main()
    except (UsageError, *failures) as error:
        say(str(error))
        return getattr(error, "status", 1)
    except OSError as error:
        if not error.filename:  # nothing more is written there
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        if interrupted:
            say(interrupted)
        elif sys.stdout.isatty():
            print()  # ends a line of progress
        return 130


# ---- files and tables ----------------------------------------------------------------------------

def write_whole(path, text):
    """Replaces a file atomically; a pipe or a device is written directly. text: may be bytes."""
    content = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                file.write(content)
            return
        target = os.path.realpath(path)
        temporary = f"{target}.tmp"
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def csv_text(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


BYTES = "".join(map(chr, range(0xdc80, 0xdd00)))  # of file names that are not UTF-8, as Python spells them
UNSEEN = ("Cc", "Cs", "Cn", "Zl", "Zp")  # categories: control characters, bytes of no text, ends of lines


def legible(text, keep=""):
    """The text with what a terminal, a page or a picture cannot hold in Python's spelling, such as \\x1b for escape."""
    return "".join(c.encode("unicode_escape").decode() if c not in keep and unicodedata.category(c) in UNSEEN else c
                   for c in text)


def holds(text, categories=("Cc",)):
    return any(unicodedata.category(c) in categories for c in text)


def check_characters(word, refused=("Cc", "Cs")):
    """Refuses a word that a list of runs, a line for each, cannot have. refused: categories."""
    if holds(word, refused):
        raise UsageError(f"{word}: holds a control character{' or a byte that is not UTF-8' * ('Cs' in refused)} (use another name)")


def aligned(rows):
    """The rows with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [[text.ljust(width) for text, width in zip(row, widths)] for row in rows]


def markdown(rows):
    """The lines of a Markdown table; the first row is its header."""
    lines = ["| " + " | ".join(legible(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]
