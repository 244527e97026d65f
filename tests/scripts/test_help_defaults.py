"""The help of each script names the defaults that its parser has."""
import json
from pathlib import Path
import re
import subprocess
import sys

import pytest

from conftest import SCRIPTS, needs

# Runs a script with --help, whose place is taken by a list of [option, default, help].
LIST = """
import argparse, json, runpy, sys
def listed(parser, file=None):
    print(json.dumps([[(action.option_strings or [action.dest])[-1], action.default, action.help]
                      for action in parser._actions], default=str))
argparse.ArgumentParser.print_help = listed
sys.argv = [sys.argv[1], "--help"]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
IN_WORDS = "one per core", "all that exist"  # defaults that a parser computes
PARSED = [path for path in sorted(Path(SCRIPTS).glob("*.py")) if re.search(r"Parser\(|plot_options", path.read_text(encoding="utf-8"))]


def words(default):
    if isinstance(default, (list, tuple)):
        return ",".join(map(words, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def false_defaults(options):
    """The options whose help tells another default than the parser's. What a program finds out by itself has the default
    None: its help says so in words."""
    found = []
    for option, default, text in options:
        told = re.findall(r"\(default: ([^)]*)\)", text or "")
        if default in (None, False, [], "==SUPPRESS=="):
            found += [option for one in told if re.fullmatch(r"[\d.e-]+", one)]
        elif told and told[0] not in IN_WORDS and re.split(r"[,;] (?=\D)| ", told[0])[0] != words(default):
            found.append(option)
    return found


@pytest.mark.parametrize("script", PARSED, ids=lambda path: path.name)
def test_help_tells_the_parser_s_defaults(script):
    ending = subprocess.run([sys.executable, "-c", LIST, script], capture_output=True, text=True, check=False)
    if missing := re.search(r": No module named '(\w+)' \(", ending.stderr):
        needs(missing[1])
    assert ending.returncode == 0 and ending.stdout, ending.stderr
    assert not false_defaults(json.loads(ending.stdout.splitlines()[0]))


def test_a_false_default_is_found():
    assert false_defaults([["--a", 4, "number (default: 3)"], ["--b", None, "size (default: 3)"], ["--c", 0.5, "x (default: 0.1)"],
                           ["--d", 4, "number (default: 4)"], ["--e", ["n"], "names (default: n)"],
                           ["--f", None, "length (default: all)"], ["--g", 0.5, "no default is told"]]) == ["--a", "--b", "--c"]
