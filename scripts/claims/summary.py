"""What is made of facts: facts.csv, verdicts.csv, the page, the table in the terminal, README's section.

The first time that an experiment has facts, rules.csv keeps the checksums of the rules that read them.
"""
import csv
import io
import os
import sys

from claims import claims, page
from claims.fact_table import facts_text, write_whole
from claims.rules import DECIDED, IMPRECISE, UNTESTED, VERDICTS, rule_is_younger

RULE_COLUMNS = ("experiment", "claim", "checksum")


def read_registered(path):
    """{(experiment, claim): checksum}"""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        return {(row["experiment"], row["claim"]): row["checksum"] for row in csv.DictReader(file)}


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
                         number(verdict.meant), verdict.why, claim.text))
    return out.getvalue()


def number(value):
    return "" if value is None else f"{value:g}"


def terminal_table(judged, younger):
    lines = []
    for claim in claims.CLAIMS + claims.CANARIES:
        verdict = judged[claim.id]
        flag = " (rule changed after its facts)" if claim.id in younger else ""
        lines.append(f"{claim.ids:16.16} {verdict.word:13} {claim.text[:88]}{flag}")
    return "\n".join(lines)


def counts(judged):
    """{verdict: number of claims}, without canaries and what is out of scope."""
    return {word: sum(judged[claim.id].word == word for claim in claims.CLAIMS)
            for word in VERDICTS if word != UNTESTED}


def readme_section(judged, level, where):
    """At most ten lines: what was decided, the surprises first."""
    found = counts(judged)
    decided = [claim for claim in claims.CLAIMS if judged[claim.id].word in DECIDED and claim.says
               and claim.says.needs()]
    surprising = [claim for claim in decided if judged[claim.id].word != claim.expected
                  and claim.expected != "open"]
    rest = [claim for claim in decided if claim not in surprising and claim.expected == "open"]
    lines = [f"- {claim.text}: **{judged[claim.id].word}**"
             + (f" ({(claim.note or judged[claim.id].why).rstrip('.')})"
                if judged[claim.id].word == IMPRECISE else "")
             for claim in (surprising + rest)[:8]]
    tally = ", ".join(f"{number} {word}" for word, number in found.items())
    return "\n".join([f"Of {len(claims.CLAIMS)} claims ({level} report): {tally}.", "", *lines, "",
                      f"[{where}]({where}) has every claim with its rule, its numbers and its command."])


def conclude(options, lab, facts, planned):
    """Writes everything and returns the exit status."""
    folder = options.out
    write_whole(os.path.join(folder, "facts.csv"), facts_text(facts))
    registered = register(os.path.join(folder, "rules.csv"), facts)
    judged = claims.verdicts(facts)
    younger = {claim.id for claim in claims.ALL if rule_is_younger(claim, registered)}
    write_whole(os.path.join(folder, "verdicts.csv"), verdicts_text(judged))
    path = os.path.join(folder, "report.html")
    write_whole(path, page.make(page.Contents(facts, judged, younger, options.level, lab, planned)))
    if options.readme:
        print(readme_section(judged, options.level, path))
        return 0
    print(terminal_table(judged, younger))
    print(", ".join(f"{number} {word}" for word, number in counts(judged).items()) + f": {path}")
    failed = claims.failed_canaries(judged)
    for claim in failed:
        print(f"report: canary {claim.id} failed: {claim.text}: {judged[claim.id].word}, must be "
              f"{claim.canary}", file=sys.stderr)
    return 1 if failed else 0


