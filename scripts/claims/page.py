"""The page of a report: facts, verdicts and pictures in one HTML file, without scripts and other files.

Results are inserted from facts, and the verdict determines the sentence. The template, page.html, has the other texts.
"""
from collections import namedtuple
import math
import os
import platform
import subprocess

import jinja2

from claims import claims, figures, findings, headlines, inference, texts
from claims.experiments import EXPERIMENTS
from claims.fact_table import cell_order
from claims.facts import older_runs
from claims.findings import estimate_text, number
from claims.plan import duration, grid_line
from claims.rules import FAILS, HOLDS, OPEN
from claims.verdicts import (DECIDED, FALSE, MIXED, PARTLY, SIZE, UNDECIDED, UNMEASURED, UNTESTED, VERDICTS, cell_name)
from plots.svg import with_classes

# facts; {claim id: Verdict}; ids of claims whose rule is younger than its facts; mini, quick or full;
# the Lab; [(experiment, size, label, run)]; experiments whose first facts were judged by other code.
# Filled by with_pictures(): holm, {(text of a reading, cell): adjusted p}, and the pictures of all experiments.
Contents = namedtuple("Contents", "facts judged younger level lab planned recoded holm pictures", defaults=[(), None, ()])

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
    """{(reading, cell): Holm's adjusted p}, in families by experiment."""
    families = {}
    for verdict in judged.values():
        for one in [*verdict.said, *verdict.intended]:
            families.setdefault(one.reading.quantity.experiment, {})[
                one.reading.text(), one.cell] = one.estimate.p
    return {key: float(p) for family in families.values()
            for key, p in zip(family, inference.holm(list(family.values())))}


def told(outcome):
    """The value for a sentence, and of which text and size it is. Exact values say nothing without their
    rule."""
    return f"{estimate_text(outcome)}, {cell_name(outcome.cell)}" \
        if outcome and outcome.reading.form != "exact" else ""


def outcome_rows(outcomes, holm):
    return [{"formula": one.reading.text(), "cell": cell_name(one.cell),
             "estimate": estimate_text(one), "word": reading_word(one.value),
             "p": p_text(one.estimate.p),
             "holm": p_text(holm.get((one.reading.text(), one.cell), math.nan))}
            for one in outcomes]


def p_text(p):
    return "" if math.isnan(p) else number(p)


def claim_row(claim, contents):
    verdict, holm = contents.judged[claim.id], contents.holm or {}
    outcome = findings.telling(claim, verdict)
    pictures = figures.of_claim(claim, outcome, contents.pictures)
    return {**vars(claim), **vars(verdict), "id": claim.id, "partly": verdict.word in PARTLY, "shape": SHAPES[verdict.word],
            "slug": verdict.word.replace(" ", "-"),
            "says": claim.says.text() if claim.says else "",
            "meant": claim.meant.text() if claim.meant else "",
            "says_word": reading_word(verdict.says), "meant_word": reading_word(verdict.meant),
            "said": outcome_rows(verdict.said, holm), "intended": outcome_rows(verdict.intended, holm),
            "experiments": claim.experiments(), "younger": claim.id in contents.younger,
            "default": outcome_rows(verdict.default, {}),
            "pictures": [{"id": one["id"], "name": one["name"]} for one in pictures],
            "found": findings.found(claim, verdict) if verdict.word in (*DECIDED, UNDECIDED) else "",
            "surprise": findings.is_surprise(claim, verdict),
            "interval": figures.interval_svg(outcome) if outcome else "",
            "estimate": estimate_text(outcome) if outcome else "", "telling": told(outcome),
            "size": sizes_of(verdict), "needed": verdict.seeds_needed}


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
    """The means of an experiment's metrics, a row for each variant. Without a choice of metrics, each row
    lists those that the variant has."""
    metrics = [metric for metric in experiment.metrics or facts.metrics(experiment.id)
               if facts.variants(experiment.id, cell, metric)]
    variants = dict.fromkeys(variant for metric in metrics
                             for variant in facts.variants(experiment.id, cell, metric))
    rows = []
    for variant in list(variants)[:TABLE_ROWS]:
        cells, seeds = {}, 0
        for metric in metrics:
            series = facts.series(experiment.id, cell, metric, variant)
            estimate = figures.mean_of(metric, series)
            cells[metric] = "" if estimate is None else number(estimate.value)
            seeds = max(seeds, len(series))
        listed = "; ".join(f"{metric.replace('_', ' ')} {text}" for metric, text in cells.items() if text)
        rows.append({"variant": variant, "seeds": seeds if experiment.metrics else "",
                     "cells": list(cells.values()) if experiment.metrics else [],
                     "listed": "" if experiment.metrics else listed})
    return {"cell": cell_name(cell), "metrics": metrics if experiment.metrics else [], "rows": rows,
            "title": f"Means over seeds, {cell_name(cell)}" if experiment.metrics else "Exact values",
            "more": max(0, len(variants) - TABLE_ROWS)}


def pictures_of(experiment, facts):
    """The pictures of an experiment, each with its place on the page."""
    found = []
    for place, spec in enumerate(experiment.figure):
        for turn, cell in enumerate(facts.cells(experiment.id)):
            drawn = figures.picture(facts, experiment.id, cell, spec, f"{experiment.id}-{place}-{turn}")
            if drawn:
                name = f"{experiment.id}.{len(found) + 1}"
                found.append({"experiment": experiment.id, "cell": cell, "spec": spec, "name": name,
                              "id": f"f-{name}", "svg": drawn[0], "sentence": drawn[1]})
    return found


def experiment_row(experiment, contents):
    facts = contents.facts
    example = next((run for one, _, _, run in contents.planned if one is experiment), None)
    command = f"./train {grid_line('', example, contents.lab.paths).strip()}" if example else ""
    asked = [claim.id for claim in claims.CLAIMS if experiment.id in claim.experiments()]
    return {"id": experiment.id, "title": experiment.title, "question": experiment.question,
            "varied": experiment.varied, "cannot": experiment.cannot, "command": command,
            "pictures": [one for one in contents.pictures if one["experiment"] == experiment.id],
            "claims": asked,
            "tables": [table_of(facts, experiment, cell) for cell in facts.cells(experiment.id)]}


# The runs of a size of which something is measured: a Size; names of those that are planned, and that are measured;
# {(run, measure)} without values; the minimum and maximum number of seeds of a variant.
Coverage = namedtuple("Coverage", "size planned done empty seeds")


def coverage(contents):
    """{name of a size: Coverage}"""
    lab, found, seeds = contents.lab, {}, {}
    for experiment, size, label, run in contents.planned:
        one, name = found.setdefault(size.name, Coverage(size, set(), set(), set(), [])), lab.name_of(run)
        values = [lab.records.find(name, measure) for measure in run.measures]
        one.planned.update([name] if values else [])  # others are read beside those
        one.done.update([name] if values and None not in values else [])
        one.empty.update((name, measure) for measure, known in zip(run.measures, values) if known == {})
        seeds.setdefault(size.name, {}).setdefault((experiment.id, label, run.variant), set()).add(run.seed)
    return {name: one._replace(seeds=sorted({min(map(len, seeds[name].values())), max(map(len, seeds[name].values()))}))
            for name, one in found.items()}


def texts_of(facts):
    """The names of a report's texts, the first one first: E1 has all of them, other experiments the first."""
    having = [text for name in facts.experiments() for text, _ in facts.cells(name)]
    return sorted({text for text, _ in facts.cells("E1")}, key=lambda text: (-having.count(text), text))


def what_was_run(contents):
    """[(name, text)]"""
    facts, lab, sizes = contents.facts, contents.lab, coverage(contents)
    rows = [("Level", LEVELS[contents.level])]
    for name, one in sizes.items():
        options = ", ".join(f"{key} {value}" for key, value in one.size.options.items())
        rows.append((f"Size {name}", f"{len(one.planned)} runs planned, {len(one.done)} measured"
                     f"{without_values(one.empty)}: {options}; {' to '.join(map(str, one.seeds))} judged seeds, "
                     f"{one.size.tuning} for tuning; rates {', '.join(f'{rate:g}' for rate in one.size.rates)}"))
    for label in sorted({label for _, _, label, _ in contents.planned}):
        rows.append((f"Text {label}", f"{len(lab.text(label))} characters, {len(set(lab.text(label)))} "
                     f"different, CRC-32 {lab.checksum(label):08x}, entropy of the frequencies "
                     f"{lab.entropy(label):.4f} nats"))
    rows.append(("Program", ", ".join([" ".join(lab.call("--version").split()), *commit(), *builds(contents)])))
    older = older_text(lab, contents.planned)
    rows += [("Older runs", older)] if older else []
    taken = len(taken_over(contents))
    rows += [("Taken over", f"{taken} runs were measured by another report (--continue)")] if taken else []
    rows.append(("Machine", machine()))
    if contents.level != "mini" and contents.planned:
        seconds = lab.seconds(name for one in sizes.values() for name in one.planned)
        rows.append(("Time", f"{duration(seconds)} of runs, summed over runs side by side"))
    rows.append(("Facts", f"{sum(1 for _ in facts.rows())} numbers"))
    if contents.recoded:
        rows.append(("Code that judges", f"changed after the first facts of {', '.join(contents.recoded)}"))
    rows.append(("Rules", "each is as it was when its facts were made" if not contents.younger else
                 f"changed after their facts were made: {', '.join(sorted(contents.younger))}"))
    return rows


def taken_over(contents):
    """The names of the planned runs of which all was measured by another report."""
    lab = contents.lab
    known = [(lab.name_of(run), measure) for _, _, _, run in contents.planned for measure in run.measures]
    own = {name for name, measure in known if not lab.records.is_taken_over(name, measure)}
    return {name for name, _ in known} - own


def older_text(lab, planned):
    """A note on the number of runs from another program; empty if there are none."""
    names, older = {lab.name_of(run) for _, _, _, run in planned}, older_runs(lab, planned)
    return (f"{len(older)} of {len(names)} runs were trained by an earlier version of the program, and measured again with this "
            "one. Use another --out to train them again.") if older else ""


def without_values(empty):
    """empty: {(run, measure)} of what gave no values, as a diverged run's probes."""
    names = sorted({measure for _, measure in empty})
    return f" ({len(empty)} had no values for {', '.join(names)})" if empty else ""


def commit():
    """[the commit of the scripts], if git knows it."""
    try:
        said = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always",
                               "--dirty=, changed since"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [f"commit {said.stdout.strip()}"] if said.returncode == 0 else []


def builds(contents):
    """The compilers of the runs that are here, and the widths of their vectors."""
    summaries = map(contents.lab.summary_of, {contents.lab.name_of(run)
                                              for _, _, _, run in contents.planned})
    return sorted({f"{summary['compiler']}, {summary['vector_bits']}-bit vectors"
                   for summary in summaries if summary.get("compiler")})


def machine():
    """The processor's name, if the system tells it, and the number of cores."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.split(":", 1)[1].strip() for line in file
                         if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def findings_of(facts, published):
    """The findings of which the facts are measured: whether each holds on these texts, and its picture, which a published
    page has beside it."""
    return [{"id": one.id, "claim": one.claim, "evidence": one.evidence(facts), "command": one.command,
             "holds": headlines.holds(one, facts),
             "svg": f'<img src="figures/{one.id}.svg" alt="{one.claim}">' if published else
             figures.svg_text(one.picture(facts, one.claim), f"h-{one.id}", one.claim)}
            for one in headlines.FINDINGS if headlines.is_measured(one, facts)]


def readers_of(rows):
    """{id of a picture: the claims that read what it shows}"""
    found = {}
    for row in rows:
        for picture in row["pictures"]:
            found.setdefault(picture["id"], []).append(row["id"])
    return found


def with_pictures(contents):
    """With the pictures of all experiments, and what Holm's correction makes of the readings."""
    return contents._replace(holm=holm_of(contents.judged), pictures=[
        one for experiment in EXPERIMENTS for one in pictures_of(experiment, contents.facts)])


def make(contents, asked=None, published=False):
    """The page as text, of contents with_pictures(). asked: the claim of --claim, which is on top. A published page has
    only the pictures that a claim reads."""
    judged = contents.judged
    rows = [claim_row(claim, contents) for claim in claims.CLAIMS]
    readers = readers_of(rows)
    if published:
        contents = contents._replace(pictures=[one for one in contents.pictures if one["id"] in readers])
    surprises = [row for row in rows if row["surprise"]]
    by_word = [(word, SHAPES[word], [row for row in rows if row["word"] == word]) for word in VERDICTS
               if word != UNTESTED]
    here = os.path.dirname(os.path.abspath(__file__))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([here, os.path.join(os.path.dirname(here), "plots")]), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return with_classes(environment.get_template("page.html").render(
        level=contents.level, again=AGAIN[contents.level], claims=rows, by_word=by_word, surprises=surprises,
        asked_claim=claim_row(asked, contents) if asked else None,
        asked=findings.most_asked(contents.facts), findings=findings_of(contents.facts, published),
        recommended=texts.recommended_rows(contents.facts), texts=texts_of(contents.facts), run=what_was_run(contents),
        canaries=[{**claim_row(claim, contents), "must": claim.canary, "as_expected": judged[claim.id].word == claim.canary}
                  for claim in claims.CANARIES],
        failed=[claim.id for claim in claims.failed_canaries(judged)],
        unknown=[claim.id for claim in claims.unmeasured_canaries(judged)],
        out=[claim_row(claim, contents) for claim in claims.OUT],
        unmeasured=[row for row in rows if row["word"] == UNMEASURED],
        revisions=claims.revisions(claims.CLAIMS),
        younger=sorted(contents.younger), recoded=contents.recoded,
        experiments=[experiment_row(one, contents) for one in EXPERIMENTS], readers=readers))
