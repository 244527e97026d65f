"""The rules as they were first written down, and which of them were changed since, or since their first facts.

registered.csv has the rules of the commit that added the table of claims, before any run of the report. It
never changes. A claim whose rule is another today says why in `revised`; the page lists it, with the rule
as it was. tests/scripts/test_report_rules.py fails if a changed rule gives no reason.

A report's rules.csv has a checksum of each rule when an experiment first had facts, and one of the code that judges
them: what verdicts are made of changes with it too.
"""
import csv
import os
import zlib

from claims import inference, quantities, rules, verdicts
from claims.facts import code_of

CODE = "code"  # stands in rules.csv where a claim does
JUDGING = (rules, verdicts, quantities, inference)
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registered.csv")


def first_rules():
    """{claim id: {"checksum", "says", "meant"}}"""
    with open(PATH, encoding="utf-8", newline="") as file:
        return {row.pop("claim"): row for row in csv.DictReader(file)}


def is_changed(claim, first):
    """Whether a claim's rule is not the one that was first written down."""
    return claim.says is not None and (claim.id not in first or
                                       first[claim.id]["checksum"] != claim.checksum())


def revisions(all_claims):
    """[{"id", "text", "says", "meant", "reason"}] of the claims whose rules were changed: the first rule,
    and why it was changed."""
    first, found = first_rules(), []
    for claim in all_claims:
        if is_changed(claim, first):
            old = first.get(claim.id, {"says": "no rule", "meant": ""})
            found.append({"id": claim.id, "text": claim.text, "says": old["says"],
                          "meant": old["meant"], "reason": claim.revised or "No reason is given."})
    return found


def rule_is_younger(claim, registered):
    """Whether the rule was changed or added after the first facts of one of its experiments.
    registered: {(experiment, claim id): checksum} as it was when those facts were made."""
    known_experiments = {experiment for experiment, _ in registered}
    return any(registered.get((experiment, claim.id)) != claim.checksum()
               for experiment in claim.experiments() if experiment in known_experiments)


def code_checksum():
    """Of the code that judges, without comments and layout."""
    return f"{zlib.crc32(''.join(map(code_of, JUDGING)).encode()):08x}"


def judged_by_other_code(registered):
    """The experiments whose first facts were judged by other code than today's."""
    known = {experiment for experiment, _ in registered}
    return sorted((experiment for experiment in known if registered.get((experiment, CODE)) != code_checksum()),
                  key=lambda name: (len(name), name))
