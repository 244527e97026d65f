"""Outputs of a report: facts.csv, verdicts.csv, the page and the table in the terminal, all made from facts, and grid.txt,
the list of all runs for `scripts/ablate.sh --grid`.

When an experiment first has facts, rules.csv stores the checksums of the rules that read them.

--publish also writes the files that a repository keeps, which published/README.md describes: enough to redo every verdict,
and what another report needs to continue.
"""
import csv
import lzma
import os
import sys

from claims import claims, findings, page, texts
from claims.fact_table import FactError, facts_text
from claims.lab import LabError
from common.command_line import csv_text, write_whole
from claims.plan import grid_line
from claims.verdicts import UNMEASURED, UNTESTED, VERDICTS, cell_name

# ---- what a repository keeps ---------------------------------------------------------------------

FACTS, GRID = "facts.csv", "grid.txt"


def expect_own(folder, files, what, option):
    """Refuses a folder that has other things in it than a report: it lacks these files."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise LabError(f"{folder}: is not a folder (give another {option})")
    if os.path.exists(folder) and os.listdir(folder) and not files <= set(os.listdir(folder)):
        raise LabError(f"{folder}: is not {what} (give another {option})")


def known_runs(lab, runs):
    """Those of {name: run} that the facts rest on, tuning runs included."""
    return {name: run for name, run in sorted(runs.items())
            if lab.ended(run) or any(lab.records.find(name, measure) is not None for measure in run.measures)}


def compressed(text):
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


# ---- outputs -------------------------------------------------------------------------------------

RULE_COLUMNS = ("experiment", "claim", "checksum")
RULES = "rules.csv"


def read_registered(path):
    """{(experiment, claim): checksum}"""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != list(RULE_COLUMNS):
            raise FactError(f"{path}: line 1 must be {','.join(RULE_COLUMNS)}")
        return {(row["experiment"], row["claim"]): row["checksum"] for row in rows}


def rules_text(registered):
    return csv_text([RULE_COLUMNS, *((*key, checksum) for key, checksum in sorted(registered.items()))])


def register(path, facts, other=None):
    """Adds the rules of experiments that have facts for the first time, and the code that judges them; returns all.
    other: a file of measurements that were taken over; the rules beside it are older than they are."""
    registered = read_registered(path)
    if other and not registered:
        registered = read_registered(os.path.join(os.path.dirname(other), RULES))
    known = {experiment for experiment, _ in registered}
    for experiment in facts.experiments() - known:
        registered[experiment, claims.CODE] = claims.code_checksum()
    for claim in claims.ALL:
        for experiment in claim.experiments():
            if experiment in facts.experiments() and experiment not in known:
                registered[experiment, claim.id] = claim.checksum()
    write_whole(path, rules_text(registered))
    return registered


def verdicts_text(judged):
    """A row for each claim."""
    rows = [("claim", "verdict", "expected", "says", "meant", "why", "text")]
    for claim in claims.ALL:
        verdict = judged[claim.id]
        rows.append((claim.ids, verdict.word, claim.expected, page.reading_word(verdict.says),
                     page.reading_word(verdict.meant), " ".join([verdict.why, *verdict.caveats]).strip(), claim.text))
    return csv_text(rows)


def terminal_table(judged, younger, asked):
    """A line for each claim that was measured; asked: the claim of --claim, of which alone is told, and
    why."""
    lines = []
    for claim in [asked] if asked else claims.CLAIMS + claims.CANARIES:
        verdict = judged[claim.id]
        if verdict.word == UNMEASURED and not asked:
            continue
        flag = " (rule changed after its facts)" if claim.id in younger else ""
        lines.append(f"{claim.ids:16.16} {verdict.word:22} {claim.text[:88]}{flag}")
    if asked:
        deciding = findings.telling(asked, verdict)
        for outcome in sorted([*verdict.said, *verdict.intended], key=lambda one: one is not deciding):
            lines.append(f"  {'decided by ' * (outcome is deciding)}{outcome.reading.text()}: "
                         f"{findings.estimate_text(outcome)} ({cell_name(outcome.cell)}): "
                         f"{page.reading_word(outcome.value)}")
        lines += [f"  {text}" for text in (verdict.why, *verdict.caveats, asked.note) if text]
    return "\n".join(lines)


def conclude(options, lab, facts, plan):
    """Writes everything and returns the exit status."""
    folder = options.out
    write_whole(os.path.join(folder, FACTS), facts_text(facts))
    runs = known_runs(lab, plan.runs)
    if runs:
        write_whole(os.path.join(folder, GRID), "".join(grid_line(name, run, lab.paths) + "\n" for name, run in runs.items()))
    registered = register(os.path.join(folder, RULES), facts, options.other)
    judged = claims.verdicts(facts)
    younger = {claim.id for claim in claims.ALL if claims.rule_is_younger(claim, registered)}
    write_whole(os.path.join(folder, "verdicts.csv"), verdicts_text(judged))
    path = os.path.join(folder, "report.html")
    contents = page.Contents(facts, judged, younger, options.level, lab, plan.planned,
                             claims.judged_by_other_code(registered), page.pictures_of(facts))
    write_whole(path, page.make(contents, options.claim and claims.find(options.claim)))
    older = page.older_text(lab, plan.planned)
    if older:
        print(f"report: {older}", file=sys.stderr)
    failed = claims.failed_canaries(judged)
    part = options.only or options.claim or options.facts or options.quick
    unknown = [] if part else claims.unmeasured_canaries(judged)
    if options.publish and not failed and not unknown:
        os.makedirs(options.publish, exist_ok=True)
        for name, text in {
                "measured.jsonl.xz": compressed(lab.records.text(runs)), "report.html": page.make(contents, published=True),
                "verdicts.csv": verdicts_text(judged), RULES: rules_text(registered),
                f"{FACTS}.xz": compressed(facts_text(facts.that_were_read()))}.items():  # after all have read them
            write_whole(os.path.join(options.publish, name), text)
    if options.quick:
        print(f"{texts.answers(facts)}\n\n{path}")
        return int(lab.failed > 0)
    print(terminal_table(judged, younger, options.claim and claims.find(options.claim)))
    words = [judged[claim.id].word for claim in claims.CLAIMS]
    print(", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word != UNTESTED) + f": {path}")
    for claim in failed:
        print(f"report: canary {claim.id} failed: {claim.text}: {judged[claim.id].word}, must be "
              f"{claim.canary}", file=sys.stderr)
    for claim in unknown:
        print(f"report: canary {claim.id} was not measured: {claim.text}", file=sys.stderr)
    return 1 if failed or unknown or lab.failed else 0
