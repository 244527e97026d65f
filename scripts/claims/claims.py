"""The table of all claims of the five articles, with the rules that test them or the reason why a character model
cannot, and the canaries: claims whose verdict is known.

Rules are written before the runs of the report. When the first facts of an experiment are made, a report's
rules.csv stores the checksums of the rules that read them and of the code that judges. The page flags a rule that
was changed later.

registered.csv has the rules of the commit that added this table, before any run of the report. It never changes. A
claim whose rule has changed since says why in `revised`, and the page lists it with its first rule.
tests/scripts/test_report_rules.py fails if a changed rule gives no reason.
"""
import csv
import os
import zlib

from study import statistics as inference
from claims import quantities, rules, verdicts as verdicts_module
from claims.claims_a import CLAIMS_A
from claims.claims_b import CLAIMS_B
from claims.claims_d import CANARIES, CLAIMS_D
from claims.facts import code_of
from claims.rules import OPEN
from claims.verdicts import UNDECIDED, UNMEASURED, Claim, judge

OUT = [
    Claim("O1", "Claims on images: convolutions and their locality, channels of colours, ConvNeXt",
          "A, B, C", "open", out="This program trains character models only."),
    Claim("O2", "Claims on generative adversarial networks", "A, F", "open",
          out="There is no such model here."),
    Claim("O3", "History, and what is usual in the field", "all", "open",
          out="No run can show it; where a source settles a claim it is in the table."),
    Claim("O4", "Analogies and diagrams", "all", "open",
          out="They say nothing that could be measured."),
    Claim("O5", "Sub-word vocabularies and models of many millions of parameters", "all", "open",
          out="Verdicts here are for small character models."),
]

CLAIMS = CLAIMS_A + CLAIMS_B + CLAIMS_D
ALL = CLAIMS + OUT + CANARIES


def find(name):
    """The claim with this number, or None."""
    return next((claim for claim in ALL if name in claim.ids.split()), None)


def verdicts(facts):
    """{claim id: Verdict} of the whole table."""
    return {claim.id: judge(claim, facts) for claim in ALL}


FEW = 4  # pairs of seeds; a canary that is not decided with fewer has not failed


def has_failed(claim, verdict):
    few = any(outcome.value == OPEN and outcome.estimate.n < FEW for outcome in verdict.said)
    return verdict.word not in (claim.canary, UNMEASURED) and not (verdict.word == UNDECIDED and few)


def failed_canaries(judged):
    """The canaries that got another verdict than they must, or that noise hides. One that was not measured has
    not failed."""
    return [claim for claim in CANARIES if has_failed(claim, judged[claim.id])]


def unmeasured_canaries(judged):
    """The canaries without facts: they cannot show whether the report works."""
    return [claim for claim in CANARIES if judged[claim.id].word == UNMEASURED]


# ---- the rules as registered ---------------------------------------------------------------------

CODE = "code"  # stands in rules.csv where a claim does
JUDGING = (rules, verdicts_module, quantities, inference)
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registered.csv")


def first_rules():
    """{claim id: {"checksum", "says", "meant"}}"""
    with open(PATH, encoding="utf-8", newline="") as file:
        return {row.pop("claim"): row for row in csv.DictReader(file)}


def is_changed(claim, first):
    """Whether a claim's rule differs from the one in registered.csv."""
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
    """The checksum of the code that judges, without comments and layout."""
    return f"{zlib.crc32(''.join(map(code_of, JUDGING)).encode()):08x}"


def judged_by_other_code(registered):
    """The experiments whose first facts were judged by another version of the code."""
    known = {experiment for experiment, _ in registered}
    return sorted((experiment for experiment in known if registered.get((experiment, CODE)) != code_checksum()),
                  key=lambda name: (len(name), name))
