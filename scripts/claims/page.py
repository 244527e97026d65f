"""The page of a report: facts, verdicts and pictures in one HTML file, without scripts and other files.

Results are inserted from facts, and the verdict determines the sentence. The template, page.html, has the other texts.
"""
from collections import namedtuple
import math
import os
import platform
import re
import subprocess

from study import statistics as inference
from claims import claims, figures, findings, headlines, texts
from claims.experiments import EXPERIMENTS
from claims.fact_table import cell_order
from claims.facts import program_of
from claims.findings import estimate_text, number
from claims.plan import duration, grid_line
from claims.rules import FAILS, HOLDS, OPEN
from claims.verdicts import (DECIDED, FALSE, MIXED, PARTLY, SIZE, UNDECIDED, UNMEASURED, UNTESTED, VERDICTS, cell_name)
from common.runs import read_text
from plots.svg import template, with_classes

# facts; {claim id: Verdict}; ids of claims whose rule is younger than its facts; mini, quick or full;
# the Lab; [(experiment, size, label, run)]; experiments whose first facts were judged by other code;
# pictures_of() the facts.
Contents = namedtuple("Contents", "facts judged younger level lab planned recoded pictures")

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {"true": "●", "true in a weaker sense": "◐", "depends on size": "↕", "depends on the recipe": "⚙", "false": "✕",
          "open": "?", "not measured": "–", "not tested": "·"}
TABLE_ROWS = 90
LEVELS = {"mini": "mini: a trial of the report itself. Its verdicts mean nothing",
          "quick": "quick: small models, few seeds. Many verdicts need the full report",
          "text": "one text: which norm, where, which learning rate and initialization suit it, in minutes",
          "full": "full"}
AGAIN = {"mini": "scripts/report.py --size=mini", "quick": "scripts/report.py", "full": "scripts/report.py --full",
         "text": "scripts/report.py --quick --corpus=FILE"}


def reading_word(value):
    return {HOLDS: "holds", OPEN: "open", FAILS: "fails", MIXED: "holds in some, fails in others"}.get(value, "not measured")


def holm_of(judged):
    """{(text of a reading, cell): Holm's adjusted p}, in families by experiment."""
    families = {}
    for verdict in judged.values():
        for one in [*verdict.said, *verdict.intended]:
            families.setdefault(one.reading.quantity.experiment, {})[
                one.reading.text(), one.cell] = one.estimate.p
    return {key: float(p) for family in families.values()
            for key, p in zip(family, inference.holm(list(family.values())))}


def p_text(p):
    return "" if math.isnan(p) else number(p)


def claim_row(claim, contents):
    """A claim, its verdict, the outcome that this rests on, the pictures that show it, and the finding."""
    verdict = contents.judged[claim.id]
    outcome = findings.telling(claim, verdict)
    return {"claim": claim, "verdict": verdict, "outcome": outcome,
            "pictures": figures.of_claim(claim, outcome, contents.pictures),
            "found": findings.found(claim, verdict) if verdict.word in (*DECIDED, UNDECIDED) else ""}


def sizes_of(verdict):
    """"at XS, S", after a verdict that rests on trained models; "fails in tinyshakespeare, XS; open in ..." of what
    decides it, if that came out differently."""
    cells = sorted({one.cell for one in [*verdict.said, *verdict.intended] if one.cell[1] != "-"}, key=cell_order)
    if not cells or verdict.word == UNMEASURED:
        return ""
    weaker = verdict.weaker and verdict.says != OPEN
    groups = {}
    for cell in cells:
        groups.setdefault((verdict.weaker if weaker else verdict.cells).get(cell), []).append(cell_name(cell))
    if verdict.word not in (FALSE, UNDECIDED, SIZE) or len(groups) < 2 or None in groups:
        return f"at {', '.join(dict.fromkeys(size for _, size in cells))}"
    told = "; ".join(f"{reading_word(value)} in {' and '.join(group)}" for value, group in groups.items())
    return f"in a weaker sense: {told}" if weaker else told


def table_of(facts, experiment, cell):
    """The means of an experiment's metrics, a row for each variant."""
    metrics = [metric for metric in experiment.metrics or facts.metrics(experiment.id)
               if facts.variants(experiment.id, cell, metric)]
    variants = list(dict.fromkeys(variant for metric in metrics for variant in facts.variants(experiment.id, cell, metric)))
    rows = []
    for variant in variants[:TABLE_ROWS]:
        series = {metric: facts.series(experiment.id, cell, metric, variant) for metric in metrics}
        means = {metric: figures.mean_of(metric, values) for metric, values in series.items()}
        rows.append({"variant": variant, "seeds": max(map(len, series.values())),
                     "cells": {metric: "" if mean is None else number(mean.value) for metric, mean in means.items()}})
    return {"cell": cell_name(cell), "metrics": metrics, "rows": rows, "more": max(0, len(variants) - TABLE_ROWS)}


def pictures_of(facts):
    """The pictures of all experiments, each with its name on the page."""
    found = []
    for experiment in EXPERIMENTS:
        drawn = [figures.picture(facts, experiment.id, cell, spec, f"{experiment.id}-{place}-{turn}")
                 for place, spec in enumerate(experiment.figure) for turn, cell in enumerate(facts.cells(experiment.id))]
        found += [{**one, "name": f"{experiment.id}.{rank}"} for rank, one in enumerate(filter(None, drawn), 1)]
    return found


def command_of(experiment, contents):
    """The command of an experiment's first run; empty if none is planned."""
    example = next((run for one, _, _, run in contents.planned if one is experiment), None)
    return f"./train {grid_line('', example, contents.lab.paths).strip()}" if example else ""


# ---- what was run --------------------------------------------------------------------------------

def size_text(lab, plan):
    """What was run at a size; plan: its part of what was planned."""
    size, seeds, planned, done, empty = plan[0][1], {}, set(), set(), set()
    for experiment, _, label, run in plan:
        seeds.setdefault((experiment.id, label, run.variant), set()).add(run.seed)
        if run.measures:  # others are read beside those
            name = lab.name_of(run)
            values = {measure: lab.records.find(name, measure) for measure in run.measures}
            planned.add(name)
            done.update([name] if None not in values.values() else [])
            empty.update((name, measure) for measure, known in values.items() if known == {})
    counts = sorted(map(len, seeds.values()))
    told = f" ({len(empty)} had no values for {', '.join(sorted({measure for _, measure in empty}))})" if empty else ""
    options = ", ".join(f"{key} {value}" for key, value in size.options.items())
    return (f"{len(planned)} runs planned, {len(done)} measured{told}: {options}; "
            f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} judged seeds, "
            f"{size.tuning} for tuning; rates {', '.join(f'{rate:g}' for rate in size.rates)}")


def texts_of(facts):
    """The names of a report's texts, the first one first: E1 has all of them, other experiments the first."""
    having = [text for name in facts.experiments() for text, _ in facts.cells(name)]
    return sorted({text for text, _ in facts.cells("E1")}, key=lambda text: (-having.count(text), text))


def what_was_run(contents):
    """[(name, text)]"""
    facts, lab, plans = contents.facts, contents.lab, {}
    for plan in contents.planned:
        plans.setdefault(plan[1].name, []).append(plan)
    names = {lab.name_of(run) for _, _, _, run in contents.planned}
    builds = {f"{summary['compiler']}, {summary['vector_bits']}-bit vectors"
              for summary in map(lab.summary_of, names) if summary.get("compiler")}
    measures = {(lab.name_of(run), measure) for _, _, _, run in contents.planned for measure in run.measures}
    own = {name for name, measure in measures if not lab.records.is_taken_over(name, measure)}
    measured = {name for name, _ in measures}
    taken, timed = len(measured - own), contents.level != "mini" and contents.planned
    seconds = sum(lab.summary_of(name).get("seconds") or 0 for name in measured)  # of those that were run here
    rows = [
        ("Level", LEVELS[contents.level]),
        *((f"Size {name}", size_text(lab, plan)) for name, plan in plans.items()),
        *((f"Text {label}", f"{len(lab.text(label))} characters, {len(set(lab.text(label)))} different, CRC-32 "
           f"{lab.checksum(label):08x}, entropy of the frequencies {lab.entropy(label):.4f} nats")
          for label in sorted({label for _, _, label, _ in contents.planned})),
        ("Program", ", ".join([" ".join(lab.call("--version").split()), *commit(), *sorted(builds)])),
        ("Older runs", older_text(lab, contents.planned)),
        ("Taken over", f"{taken} runs were measured by another report (--continue)" if taken else ""),
        ("Machine", machine()),
        ("Time", f"{duration(seconds)} of runs, summed over runs side by side" if timed else ""),
        ("Facts", f"{sum(1 for _ in facts.rows())} numbers"),
        ("Code that judges", f"changed after the first facts of {', '.join(contents.recoded)}" if contents.recoded else ""),
        ("Rules", f"changed after their facts were made: {', '.join(sorted(contents.younger))}" if contents.younger else
         "each is as it was when its facts were made")]
    return [(name, text) for name, text in rows if text]


def older_text(lab, planned):
    """A note on the number of runs from another program; empty if there are none."""
    names = {lab.name_of(run) for _, _, _, run in planned}
    older = [name for name in names if lab.records.is_older(name, program_of(lab.train))]
    return (f"{len(older)} of {len(names)} runs were trained by an earlier version of the program, and measured again "
            "with this one. Use another --out to train them again.") if older else ""


def commit():
    """[the commit of the scripts], if git knows it."""
    try:
        said = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty=, changed since"],
                              capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [f"commit {said.stdout.strip()}"] if said.returncode == 0 else []


def machine():
    """The processor's name, if the system tells it, and the number of cores."""
    named = re.search(r"^model name\s*:(.*)", read_text("/proc/cpuinfo") or "", re.MULTILINE)
    name = named.group(1).strip() if named else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


# ---- the page ------------------------------------------------------------------------------------

# What the template calls.
FUNCTIONS = {function.__name__: function for function in (
    reading_word, p_text, sizes_of, table_of, command_of, cell_name, estimate_text, findings.is_surprise,
    figures.interval_svg, headlines.svg_of, headlines.holds, headlines.scope, headlines.open_cells)}


def make(contents, asked=None, published=False):
    """The page as text. asked: the claim of --claim, which is on top. A published page has
    only the pictures that a claim reads, and those of findings beside it."""
    facts, judged = contents.facts, contents.judged
    rows = [claim_row(claim, contents) for claim in claims.CLAIMS]
    readers = {one["name"]: [row["claim"].id for row in rows if one in row["pictures"]] for one in contents.pictures}
    return with_classes(template(HERE, **FUNCTIONS).render(
        contents=contents, facts=facts, published=published, again=AGAIN[contents.level], shapes=SHAPES, partly=PARTLY,
        words=[word for word in VERDICTS if word != UNTESTED], claims=rows, holm=holm_of(judged), readers=readers,
        asked_claim=claim_row(asked, contents) if asked else None, asked=findings.most_asked(facts),
        findings=[one for one in headlines.FINDINGS if headlines.is_measured(one, facts)],
        recommended=texts.recommended_rows(facts), texts=texts_of(facts), run=what_was_run(contents),
        canaries=[claim_row(claim, contents) for claim in claims.CANARIES], failed=claims.failed_canaries(judged),
        unknown=claims.unmeasured_canaries(judged), out=claims.OUT, revisions=claims.revisions(claims.CLAIMS),
        pictures=[one for one in contents.pictures if readers[one["name"]] or not published],
        experiments=EXPERIMENTS))
