"""The table of claims: every claim of the five articles that a character model can test, those that it
can't and why, and the canaries.

Rules are written down before the runs of the report. When the first facts of an experiment are made, the
checksums of the rules that read them are kept beside them; the page flags a rule that was changed later.
"""
from claims.claims_a import CLAIMS_A
from claims.claims_b import CLAIMS_B
from claims.claims_d import CANARIES, CLAIMS_D
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
    """The canaries that did not come out as they must, or that noise hides. One that was not measured has
    not failed."""
    return [claim for claim in CANARIES if has_failed(claim, judged[claim.id])]


def unmeasured_canaries(judged):
    """The canaries of which there are no facts: then nobody knows whether the report works."""
    return [claim for claim in CANARIES if judged[claim.id].word == UNMEASURED]
