"""Command lines: how a wrong one is refused, and the lists that options take."""
import argparse
import sys

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
