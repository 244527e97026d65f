"""What of a report is kept in the repository: enough to redo every verdict, the command of every run, and what
another report needs to continue.

    facts.csv      the facts that a verdict, a table or a picture of the page reads, every seed
    measured.jsonl.gz  all that was measured of runs, for `scripts/report.py --continue`
    grid.txt       every run of the report, as `scripts/ablate.sh --grid` takes them; texts and initial weights
                   in its lines are those that report.py makes in its folder
    verdicts.csv   the verdicts
    report.html    the page
    figures/       its pictures, a file each
"""
import gzip
import os

from claims.fact_table import facts_text, write_whole
from claims.lab import LabError
from claims.plan import grid_line


def expect_published(folder):
    """Refuses a folder that has other things in it than a report."""
    names = os.listdir(folder) if os.path.isdir(folder) else [] if not os.path.exists(folder) else [folder]
    if names and not {"verdicts.csv", "grid.txt"} <= set(names):
        raise LabError(f"{folder}: is not a published report (another --publish)")


def is_known(lab, run):
    return lab.ended(run) or any(lab.records.find(lab.name_of(run), measure) is not None
                                 for measure in run.measures)


def lists_of_runs(lab, planned, tried):
    """{file: text} of the runs that the facts rest on, tuning runs included: their commands, and what was measured."""
    runs = {lab.name_of(run): run for run in [*tried, *(run for _, _, _, run in planned)] if is_known(lab, run)}
    lines = [grid_line(name, run, lab.paths) + "\n" for name, run in sorted(runs.items())]
    return {"grid.txt": "".join(lines),
            "measured.jsonl.gz": gzip.compress(lab.records.text(runs).encode(), mtime=0)}


def publish(folder, facts, texts, pictures):
    """Writes the files to a folder. facts: after all have read them; texts: {file: text}; pictures: [(name, SVG)]."""
    figures = os.path.join(folder, "figures")
    os.makedirs(figures, exist_ok=True)
    wanted = {f"{name}.svg": svg for name, svg in pictures}
    for name in os.listdir(figures):
        if name.endswith(".svg") and name not in wanted:
            os.remove(os.path.join(figures, name))
    for name, svg in wanted.items():
        write_whole(os.path.join(figures, name), svg + "\n")
    for name, text in {**texts, "facts.csv": facts_text(facts.that_were_read())}.items():
        write_whole(os.path.join(folder, name), text)
