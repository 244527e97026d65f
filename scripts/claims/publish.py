"""Writes the part of a report that a repository keeps: enough to redo every verdict, the command of every run, and what
another report needs to continue.

    facts.csv.gz   the facts that a verdict, a table or a picture of the page reads, every seed
    measured.jsonl.gz  all that was measured of runs, for `scripts/report.py --continue`
    grid.txt.gz    every run of the report, as `scripts/ablate.sh --grid` takes them; texts and initial weights
                   in its lines are those that report.py makes in its folder
    rules.csv      checksums of the rules, and of the code that judges, when an experiment first had facts
    verdicts.csv   the verdicts
    report.html    the page

`scripts/report.py --texts` writes figures/ beside them: the pictures of FINDINGS.md, a file each.
"""
import gzip
import os

from claims.fact_table import facts_text, write_whole
from claims.lab import LabError
from claims.plan import grid_line

FACTS = "facts.csv"


def expect_published(folder):
    """Refuses a folder that has other things in it than a report."""
    names = os.listdir(folder) if os.path.isdir(folder) else [] if not os.path.exists(folder) else [folder]
    if names and not {"verdicts.csv", "measured.jsonl.gz"} <= set(names):
        raise LabError(f"{folder}: is not a published report (give another --publish)")


def is_known(lab, run):
    return lab.ended(run) or any(lab.records.find(lab.name_of(run), measure) is not None
                                 for measure in run.measures)


def lists_of_runs(lab, planned, tried):
    """{file: text} of the runs that the facts rest on, tuning runs included: their commands, and what was measured."""
    runs = {lab.name_of(run): run for run in [*tried, *(run for _, _, _, run in planned)] if is_known(lab, run)}
    lines = [grid_line(name, run, lab.paths) + "\n" for name, run in sorted(runs.items())]
    return {"grid.txt.gz": compressed("".join(lines)), "measured.jsonl.gz": compressed(lab.records.text(runs))}


def compressed(text):
    """The same text gives the same bytes."""
    return gzip.compress(text.encode(), mtime=0)


def publish(folder, facts, texts):
    """Writes the files to a folder. facts: after all have read them; texts: {file: text}."""
    os.makedirs(folder, exist_ok=True)
    for name, text in {**texts, f"{FACTS}.gz": compressed(facts_text(facts.that_were_read()))}.items():
        write_whole(os.path.join(folder, name), text)
