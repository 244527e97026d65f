#!/usr/bin/env python3
"""Measures what WHY.md says, on your text: scripts/why.py [--only=W1] TEXT...

Each experiment of WHY.md switches one supposed cause on and off: scripts/why/experiments.py says what it trains, and
scripts/frozen/predictions.py what was predicted before it was run. Initialization and learning rate are tuned again for each
text and each condition. After a kill the same command continues. At the end each prediction that was run is judged for each text.
"""
import os
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("why", "study", "numpy", "scipy.stats", "pandas")

from common.command_line import Parser, count, markdown, run, some_of, teller
from common.runs import RunError
from why import facts
from why.experiments import EXPERIMENTS
from why.runs import Lab
from why.verdicts import table

say = teller("why")
CHARACTERS = 100000


def read_command():
    parser = Parser(allow_abbrev=False, description=__doc__, usage="scripts/why.py [OPTION]... TEXT...")
    parser.add_argument("texts", nargs="+", metavar="TEXT", help=f"UTF-8 texts of at least {CHARACTERS} characters")
    parser.add_argument("--only", type=some_of(*EXPERIMENTS), metavar="NAME,...",
                        help=f"experiments: {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--out", default="runs/why", metavar="DIR",
                        help="folder of all runs, with the tables judged.csv, facts.csv and verdicts.csv (default: runs/why)")
    parser.add_argument("--jobs", type=count, metavar="N", help="number of runs side by side (default: one per core)")
    return parser.parse_args()


def main():
    options = read_command()
    path = os.path.join(options.out, "judged.csv")
    rows = facts.read(path)
    labs = [Lab(options.out, text, options.jobs) for text in options.texts]
    for text, lab in zip(options.texts, labs):
        if lab.characters < CHARACTERS:
            raise RunError(f"{text}: has {lab.characters} characters, fewer than {CHARACTERS}")
    for lab in labs:
        for name in options.only or EXPERIMENTS:
            for place, group in enumerate(EXPERIMENTS[name]()):
                say(f"{lab.label}, {name}: group {place + 1}")
                found = [{"experiment": name, "group": str(place), **row} for row in lab.rows(group, f"{name}-{place + 1}")]
                rows = facts.replaced(rows, found)
                facts.write(path, rows)
    known = facts.of(rows)
    verdicts = table(known.facts)
    facts.publish(options.out, known, verdicts)
    titles, *judged = verdicts
    print("\n".join(markdown([titles, *(row for row in judged if row[4] != "not run")])))


if __name__ == "__main__":
    sys.exit(run(say, main, RunError, interrupted="interrupted; the same command continues"))
