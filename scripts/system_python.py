"""Runs a program of scripts/ with the Python that has its modules.

scripts/deps.sh installs modules for the system's Python. The first python3 on PATH may be another one,
so a program that lacks a module starts again under the system's Python. A program calls require()
before it imports numpy, matplotlib or PyTorch.
"""
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
