"""Command lines: the Python that has a program's modules, how a wrong command is refused, and the lists that
options take.

scripts/deps.sh installs modules for the system's Python. The first python3 on PATH may be another one,
so a program that lacks a module starts again under the system's Python. A program calls require()
before it imports numpy, matplotlib or PyTorch.
"""
import argparse
import importlib
import os
import sys

SYSTEM = "/usr/bin/python3"


def run_again():
    """Replaces this process by the same program under the system's Python. Returns only if that is
    this one, or there is none."""
    if sys.executable != SYSTEM and os.access(SYSTEM, os.X_OK):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])


def require(program, groups, *names):
    """Imports the modules, if need be under the system's Python, or ends the program with one line
    that names the groups of scripts/deps.sh."""
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        run_again()
        sys.exit(f"{program}: {sys.executable}: {error} (scripts/deps.sh {groups} installs it)")


PICTURES = (".png", ".svg", ".pdf")  # the ends of their names


class UsageError(Exception):
    """What is wrong with the command, as one line for the user."""


class Parser(argparse.ArgumentParser):
    def parse_known_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args  # --help=all, as of ./train
        help_words = ["--help" if word.startswith("--help=") else word for word in words]
        return super().parse_known_args(help_words, namespace)

    def error(self, message):
        raise UsageError(f"{message} (--help lists the options)")


def words(text):
    """The words of a comma list."""
    if not all(text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME,...")
    return text.split(",")


def whole_numbers(text):
    if not all(part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is not N,...")
    return sorted({int(part) for part in text.split(",")})


def settings(text):
    """{NAME: VALUE} of a comma list."""
    pairs = [part.removeprefix("--").partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE,...")
    return {name: value for name, _, value in pairs}
