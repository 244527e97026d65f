"""What is made of facts: facts.csv, verdicts.csv, the page, the table in the terminal, README's section.

The first time that an experiment has facts, rules.csv keeps the checksums of the rules that read them.
"""
import csv
import io
import os
import sys

from claims import claims, findings, page, words
from claims.publish import lists_of_runs, publish
from claims.fact_table import FactError, facts_text, write_whole
from claims.registered import rule_is_younger
from claims.rules import DECIDED, UNMEASURED, UNTESTED, VERDICTS, cell_name

RULE_COLUMNS = ("experiment", "claim", "checksum")


def read_registered(path):
    """{(experiment, claim): checksum}"""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != list(RULE_COLUMNS):
            raise FactError(f"{path}: line 1 must be {','.join(RULE_COLUMNS)}")
        return {(row["experiment"], row["claim"]): row["checksum"] for row in rows}


def register(path, facts):
    """Adds the rules of experiments that have facts for the first time; returns all."""
    registered = read_registered(path)
    known = {experiment for experiment, _ in registered}
    for claim in claims.ALL:
        for experiment in claim.experiments():
            if experiment in facts.experiments() and experiment not in known:
                registered[experiment, claim.id] = claim.checksum()
    rows = [f"{experiment},{claim},{checksum}\n"
            for (experiment, claim), checksum in sorted(registered.items())]
    write_whole(path, ",".join(RULE_COLUMNS) + "\n" + "".join(rows))
    return registered


def verdicts_text(judged):
    """A row for each claim."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("claim", "verdict", "expected", "says", "meant", "why", "text"))
    for claim in claims.ALL:
        verdict = judged[claim.id]
        writer.writerow((claim.ids, verdict.word, claim.expected, number(verdict.says),
                         number(verdict.meant), " ".join([verdict.why, *verdict.caveats]).strip(),
                         claim.text))
    return out.getvalue()


def number(value):
    return "" if value is None else f"{value:g}"


def terminal_table(judged, younger, asked):
    """A line for each claim that was measured; asked: the claim of --claim, of which alone is told, and
    why."""
    lines = []
    for claim in [asked] if asked else claims.CLAIMS + claims.CANARIES:
        verdict = judged[claim.id]
        if verdict.word == UNMEASURED and not asked:
            continue
        flag = " (rule changed after its facts)" if claim.id in younger else ""
        lines.append(f"{claim.ids:16.16} {verdict.word:13} {claim.text[:88]}{flag}")
    if asked:
        deciding = findings.telling(asked, verdict)
        for outcome in sorted([*verdict.said, *verdict.intended], key=lambda one: one is not deciding):
            lines.append(f"  {'decided by ' * (outcome is deciding)}{outcome.reading.text()}: "
                         f"{findings.estimate_text(outcome)} ({cell_name(outcome.cell)}): "
                         f"{page.reading_word(outcome.value)}")
        lines += [f"  {text}" for text in (verdict.why, *verdict.caveats, asked.note) if text]
    return "\n".join(lines)


def counts(judged):
    """{verdict: number of claims}, without canaries and what is out of scope."""
    return {word: sum(judged[claim.id].word == word for claim in claims.CLAIMS if claim.id in judged)
            for word in VERDICTS if word != UNTESTED}


README_SENTENCES = 6


def told_first(contents):
    """What a visitor is told first, a sentence for each decided claim: surprises, what the page's first
    section has, what was open before and is decided by an interval, then the others."""
    judged, rows = contents.judged, {claim.id: page.claim_row(claim, contents) for claim in claims.CLAIMS}
    minute = dict(words.in_a_minute(rows))
    chosen = [claim for claim in claims.CLAIMS if judged[claim.id].word in DECIDED and claim.says.needs()]
    chosen.sort(key=lambda claim: (not rows[claim.id]["surprise"], claim.id not in minute,
                                   claim.expected != "open", not rows[claim.id]["telling"]))
    told = [(judged[claim.id].word, minute.get(claim.id) or
             f"{claim.text}: {judged[claim.id].word}. {rows[claim.id]['found']}") for claim in chosen]
    return [text.replace(f": {word}. ", f": **{word}**. ", 1) for word, text in told]


def markdown_table(rows):
    """The lines of a table of which the first row is the head."""
    lines = ["|" + "".join(f" {text} |" if text else " |" for text in row) for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def readme_section(contents, where):
    """README's section: how many claims came out how, what is decided, surprises first, then what is asked
    most, decided or not."""
    asked = findings.most_asked(contents.facts)
    if asked:
        asked = [words.ASKED_SAYS, "", *markdown_table(asked), "", words.WITHDRAWN, ""]
    theirs = {claim.id: contents.judged[claim.id] for claim in claims.CLAIMS if claim.where != findings.OURS}
    tally = ", ".join(f"{number} {word}" for word, number in counts(theirs).items() if number)
    sizes = page.coverage(contents)
    again = "make report" if contents.level != "full" else " ".join(
        ["scripts/report.py --full", *(f"--corpus=data/corpora/{text}.txt" for text in page.texts_of(contents.facts))])
    runs = ", ".join(f"{len(one.done)} of {len(one.planned)} at {name}" for name, one in sizes.items())
    return "\n".join([
        "## What we found", "",
        f"Of {len(theirs)} claims of five articles: {tally} ({contents.level} report; 99 % intervals "
        f"over paired seeds{f'; runs measured: {runs}' * bool(sizes)}). {words.README_WORDS}", "",
        *(f"- {sentence}" for sentence in told_first(contents)[:README_SENTENCES]), "", *asked,
        f"`{again}` measures this again and writes `{where}`: every claim with its rule, numbers and command. "
        "[scripts/claims](scripts/claims/README.md) says how claims are judged."])


def conclude(options, lab, facts, planned, tried):
    """Writes everything and returns the exit status. tried: the runs that were tuned with."""
    folder = options.out
    write_whole(os.path.join(folder, "facts.csv"), facts_text(facts))
    registered = register(os.path.join(folder, "rules.csv"), facts)
    judged = claims.verdicts(facts)
    younger = {claim.id for claim in claims.ALL if rule_is_younger(claim, registered)}
    write_whole(os.path.join(folder, "verdicts.csv"), verdicts_text(judged))
    path = os.path.join(folder, "report.html")
    contents = page.Contents(facts, judged, younger, options.level, lab, planned)
    contents = page.with_pictures(contents)
    text = page.make(contents, options.claim and claims.find(options.claim))
    write_whole(path, text)
    older = page.older_text(lab, planned)
    if older:
        print(f"report: {older}", file=sys.stderr)
    failed = claims.failed_canaries(judged)
    part = options.only or options.claim or options.facts
    unknown = [] if part else claims.unmeasured_canaries(judged)
    if options.publish and not failed and not unknown:
        publish(options.publish, facts, {**lists_of_runs(lab, planned, tried), "report.html": text,
                                         "verdicts.csv": verdicts_text(judged)},
                [(one["name"], one["svg"]) for one in contents.pictures])
    if options.readme and not failed and not unknown:
        print(readme_section(contents, path))
        return int(lab.failed > 0)
    print(terminal_table(judged, younger, options.claim and claims.find(options.claim)))
    print(", ".join(f"{number} {word}" for word, number in counts(judged).items()) + f": {path}")
    for claim in failed:
        print(f"report: canary {claim.id} failed: {claim.text}: {judged[claim.id].word}, must be "
              f"{claim.canary}", file=sys.stderr)
    for claim in unknown:
        print(f"report: canary {claim.id} was not measured: {claim.text}", file=sys.stderr)
    return 1 if failed or unknown or lab.failed else 0


