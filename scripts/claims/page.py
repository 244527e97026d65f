"""The page of a report: the answer, findings, and every claim with its verdict and evidence, in one HTML file that loads nothing
and needs no corpora. page.html has its texts.
"""
import base64
import csv
import os

from claims import findings, pictures, verdicts
from evidence import rules
from evidence.facts import EXACT_CELL
from evidence.rules import FAILS, HOLDS, OPEN
from claims.verdicts import MIXED, VERDICTS
from plots.svg import template

HERE = os.path.dirname(os.path.abspath(__file__))
WHY = os.path.join(HERE, "..", "why", "published")
SHAPES = {"true": "●", "true in a weaker sense": "◐", "depends on size": "↕", "depends on hyperparameters": "⚙", "false": "✕",
          "open": "?", "not measured": "–", "not tested": "·"}


def reading_word(value):
    return {HOLDS: "holds", OPEN: "open", FAILS: "fails", MIXED: "holds in some, fails in others"}.get(value, "not measured")


def number(value):
    """A number for reading."""
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    return (f"{value:.0f}" if 999.5 <= abs(value) < 1e6 else f"{value:.3g}").replace("-", "−")


def estimate_text(outcome):
    """"0.031 nats [0.012, 0.050], 8 seeds"; of exact values, the lowest and the highest."""
    one, unit = outcome.estimate, f" {outcome.atom.quantity.unit}".rstrip()
    seeds = f", {one.n} seed{'s' * (one.n > 1)}"
    if outcome.atom.form == "exact":
        ends = dict.fromkeys(map(number, (min(one.seeds.values()), max(one.seeds.values()))))
        return " to ".join(ends) + (seeds if one.kind != "exact" else "")
    if outcome.pooled:
        mean, low, high, n = outcome.pooled
        return f"{number(mean)}{unit} [{number(low)}, {number(high)}], mean over {n} texts"
    return f"{'median ' * (one.kind == 'median')}{number(one.value)}{unit} [{number(one.low)}, {number(one.high)}]{seeds}"


def where(cell):
    return "by computation" if cell == EXACT_CELL else f"in {findings.place_of(cell)}"


def first_rules():
    """{claim id: {"says", "meant"}}: the rules before the first report."""
    with open(os.path.join(HERE, "registered.csv"), encoding="utf-8", newline="") as file:
        return {row["claim"]: row for row in csv.DictReader(file)}


def axis_of(atom):
    """What the axis of an atom's picture shows."""
    which = atom.quantity
    words = verdicts.table()["metrics"].get(which.needs[0][0], which.needs[0][0])
    kind = "difference of " * (" - " in which.text) or "ratio of " * (" / " in which.text)
    return kind + words + f" ({which.unit})" * bool(which.unit)


def claim_row(claim, verdict, first):
    """A claim with its verdict and what it rests on."""
    outcome = verdicts.telling(claim, verdict)
    known = {**verdict.said.known, **verdict.intended.known}
    senses = ("Says", claim.says, verdict.says), ("Meant", claim.meant, verdict.meant)
    return {"claim": claim, "verdict": verdict, "outcome": outcome,
            "picture": pictures.evidence(known[outcome.atom], axis_of(outcome.atom)) if outcome else "",
            "senses": [{"name": name, "rule": rules.text_of(rule), "word": reading_word(value)} for name, rule, value in senses
                       if rule is not None],
            "others": {atom: found for atom, found in known.items() if found and not (outcome and atom == outcome.atom)},
            "first": first.get(claim.id) if claim.revised else None}


def image(svg):
    """An SVG as the address of a picture."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def why_picture(name):
    with open(os.path.join(WHY, f"{name}.svg"), encoding="utf-8") as file:
        return image(file.read())


def make(facts):
    """The page as text."""
    judged, first = verdicts.verdicts(facts), first_rules()
    rows = [claim_row(claim, judged[claim.id], first) for claim in verdicts.articles()]
    groups = {word: [row for row in rows if row["verdict"].word == word] for word in VERDICTS}
    beyond = [claim_row(claim, judged[claim.id], first) for claim in verdicts.claims() if claim not in verdicts.articles()]
    shown = [{"one": one, "image": image(pictures.of_finding(one, facts)), "short": findings.rendered(one.short, facts),
              "scope": one.scope(facts), "holds": one.holds(facts)}
             for one in findings.table() if all(rules.outcomes(atom, facts) for atom in rules.atoms_of(one.rule))]
    functions = {one.__name__: one for one in (estimate_text, reading_word, where, why_picture)}
    return template(HERE, **functions).render(
        findings=shown, groups=groups, beyond=beyond, shapes=SHAPES, command=findings.COMMAND,
        experiments={name: one for name, one in verdicts.table()["experiments"].items() if name in facts.experiments()})
