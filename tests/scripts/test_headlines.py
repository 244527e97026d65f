"""The findings: their rules on planted facts, and FINDINGS.md and README.md against the published facts."""
import itertools
import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("scipy")
pytest.importorskip("matplotlib")

from claims import headlines, texts
from claims.fact_table import Facts
from claims.headlines import FINDINGS, FindingError

NOISE = (-0.004, 0.003, 0.001, -0.002, 0.002, 0.0, -0.003, 0.003)
SIZES = ("XS", "S", "M")
BN = {"XS": -0.02, "S": 0.02, "M": 0.06}


def series(facts, experiment, cell, variant, mean, metric="val_loss", **of_one_run):
    """A metric of all seeds with this mean, and others of the first seed."""
    for seed, noise in enumerate(NOISE, 1):
        facts.add(experiment, *cell, variant, seed, metric, mean + noise * (1 + 0.1 * (len(variant) % 3)))
    for name, number in of_one_run.items():
        facts.add(experiment, *cell, variant, 1, name, number)


GOOD = {"bn": BN, "gain": 0.2, "one": 1.0, "leak": 1.3, "cost": 0.6, "rms": 0.0, "none": 0.05, "none_default": 0.4, "own": 0.01,
        "muon": -0.06, "sgd": 0.08, "sgd_bn": -0.01, "rms_across": 0.0, "bn_across": BN, "none_across": 0.03, "tuned_one": 1.1,
        "tuned_four": 0.0, "tuned_cost": 0.7,
        "tuned_cost_bn": 0.0, "deep": {("pre", "xavier"): -0.6, ("post", "xavier"): 0.05, ("pre", "0.08"): -0.9, ("post", "0.08"): -0.85},
        "tuned_own": 0.02, "rates": True}
OTHERS = ("c", "german", "kjv", "tinyshakespeare")


def planted(**more):
    """Facts in which every finding holds, except for what is given."""
    facts, given = Facts(), {**GOOD, **more}
    for cell in itertools.product(("kjv", "tinyshakespeare"), SIZES):
        for norm, gap in {"ln": 0, "rms": given["rms"], "bn": given["bn"][cell[1]], "none": given["none"]}.items():
            default = given["gain"] + (given["none_default"] if norm == "none" else gap)
            series(facts, "E20", cell, f"norm={norm} recipe=best", 2 + gap, learning_rate=0.01, init_std=0.08)
            series(facts, "E20", cell, f"norm={norm} rate=default", 2 + default)
            for start, rate in itertools.product(("0.02", "best"), ("0.01", "0.03")) if given["rates"] else ():
                facts.add("E20", *cell, f"init={start} norm={norm} rate={rate}", 101, "val_loss", 2.1)
    for text, size in itertools.product(OTHERS, SIZES[:2]):
        for norm, gap in ("ln", 0), ("rms", given["rms_across"]), ("bn", given["bn_across"][size]), ("none", given["none_across"]):
            series(facts, "E23", (text, size), f"norm={norm}", 2 + gap)
    for text in OTHERS:
        plant_batches(facts, "E26", (text, "XS"), "", (given["tuned_one"], given["tuned_four"]), 0.0056, init_std=0.04)
        plant_starts(facts, "E26", (text, "XS"), {"ln": given["tuned_cost"], "bn": given["tuned_cost_bn"]})
        series(facts, "E26", (text, "XS"), "norm=bn start=x1", given["tuned_own"], "own_gap")
        for (place, init), loss in given["deep"].items():
            for metric, more in ("above_frequencies", 0), ("val_loss", 3.3):
                series(facts, "E26", (text, "XS"), f"depth=deep init={init} placement={place}", more + loss, metric)
    for norm in ("ln", "rms", "bn", "none"):
        gains = {"adamw": 0, "muon": given["muon"], "sgd": given["sgd_bn" if norm == "bn" else "sgd"]}
        for optimizer, gap in gains.items():
            series(facts, "E22", ("tinyshakespeare", "XS"), f"norm={norm} optimizer={optimizer}", 2 + gap)
    for cell in itertools.product(("tinyshakespeare",), SIZES[:2]):
        plant_batches(facts, "E3", cell, "block=full ", (given["one"], 0.0), 0.003)
        plant_starts(facts, "E9", cell, {"ln": given["cost"], "bn": 0})
        for norm in ("ln", "bn"):
            series(facts, "E7", cell, f"batch=1 norm={norm} text=random", given["leak"] * (norm == "bn"), "learned_leak")
        series(facts, "E2", cell, "norm=bn", given["own"], "own_gap")
    return facts


def plant_batches(facts, experiment, cell, more, gaps, rate, **of_one_run):
    """BatchNorm's loss minus the others' with 1, 4 and 32 sequences per batch."""
    for (batch, gap), norm in itertools.product(zip((1, 4, 32), (*gaps, -0.1)), ("ln", "bn", "gn")):
        series(facts, experiment, cell, f"batch={batch} {more}norm={norm}", 2 + gap * (norm == "bn"), learning_rate=rate,
               **of_one_run)


def plant_starts(facts, experiment, cell, costs):
    """What an outlier in the initial weights costs each norm."""
    for norm, cost in costs.items():
        series(facts, experiment, cell, f"norm={norm} start=x1", 2)
        series(facts, experiment, cell, f"norm={norm} start=x1000", 2 + cost)


def test_every_finding_holds_where_it_was_planted():
    assert 6 <= len(FINDINGS) <= 8
    for finding in FINDINGS:
        headlines.expect(finding, planted())


@pytest.mark.parametrize("finding, wrong", [
    ("no-norm", {"none": 0.18, "none_default": 0.3}), ("no-norm", {"none_default": 0.09}),
    ("recipe", {"none_default": 0.04}), ("batch", {"one": 0.05}), ("batch", {"leak": 0.01}), ("outlier", {"cost": 0.05}),
    ("rms", {"rms": 0.05}), ("size", {"bn": {**BN, "M": -0.01}}), ("size", {"bn_across": {**BN, "S": -0.03}}),
    ("optimizer", {"muon": 0.01}), ("optimizer", {"sgd": -0.01}), ("optimizer", {"sgd_bn": 0.09}), ("batch", {"own": -0.3}),
    ("batch", {"tuned_one": 0.05}), ("batch", {"tuned_four": 0.2}), ("outlier", {"tuned_cost": 0.05}),
    ("outlier", {"tuned_cost_bn": 0.05}), ("batch", {"tuned_own": -0.2}),
    *[("deep", {"deep": {**GOOD["deep"], one: wrong}}) for one, wrong in (
        (("post", "xavier"), -0.55), (("post", "0.08"), -0.75), (("pre", "xavier"), 0.0))]])
def test_a_finding_whose_rule_fails_is_named(finding, wrong):
    with pytest.raises(FindingError, match=f"^finding '{finding}' does not hold in "):
        texts.findings_text(planted(**wrong), 1000)


def test_numbers_come_from_the_facts():
    text = texts.findings_text(planted(), 1234)
    assert "1234 models" in text and "+0.60 to +0.70 nats, and BatchNorm's by 0.000" in text
    assert "| M: 4 layers, 128 channels | 12 | LayerNorm or RMSNorm | Pre-LN (not compared) | 0.08 | 0.01 |" in text
    assert texts.findings_text(planted(cost=0.7), 1234) != text


def test_a_finding_does_not_need_other_texts():
    assert not any(headlines.is_measured(finding, Facts()) for finding in FINDINGS)
    facts = Facts(row for row in planted().rows() if row[0] != "E23")
    shown = [finding for finding in FINDINGS if headlines.is_measured(finding, facts)]
    assert {finding.id for finding in shown} >= {"rms", "no-norm"}
    assert all(finding.evidence(facts) and finding.picture(facts) for finding in shown)
    text = texts.findings_text(planted(rms_across=0.07), 1)
    assert "the difference is +0.070 nats on 4 texts. It is largest on C at XS" in text


def test_a_text_that_is_open_by_its_own_interval_is_named():
    """Its mean agrees, and the mean over texts decides the rule."""
    facts, rms = Facts(), next(finding for finding in FINDINGS if finding.id == "rms")
    for text, scale in ("kjv", 1), ("german", 1), ("polish", 9):
        for seed, noise in enumerate(NOISE, 1):
            for norm, factor in ("ln", 0), ("rms", scale):
                facts.add("E20", text, "XS", f"norm={norm} recipe=best", seed, "val_loss", 2 + factor * noise)
    assert headlines.holds(rms, facts)
    assert "Open by their own intervals: Polish quotations at XS." in headlines.open_cells(rms, facts)
    assert headlines.open_cells(rms, planted()) == ""
    assert headlines.scope(rms, facts) == "GPT-2's block with biases, characters; 3 texts at XS."


def test_both_ranges_stand_beside_each_other():
    """Before and after tuning, of all and of the three norms, and LayerNorm's gain."""
    table = FINDINGS[0].table(planted())
    assert table[1] == ["the King James Bible, XS", "0.42", "0.070", "0.020", "0.020", "0.20"] and len(table) == 7


def test_pictures_have_the_finding_as_title():
    pictures = texts.pictures_of(planted())
    assert list(pictures) == [f"{finding.id}.svg" for finding in FINDINGS]
    for finding in FINDINGS:
        words = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", pictures[f"{finding.id}.svg"]))
        assert finding.claim.replace("'", "&apos;") in words or finding.claim in words
    assert pictures == texts.pictures_of(planted())
    assert list(texts.pictures_of(planted(rates=False))) == list(pictures)  # a brief report has no tuning runs to draw


def test_readme_has_a_block_between_marks():
    block = texts.readme_text(planted(), 1000)
    assert sum(line.startswith("- ") for line in block.splitlines()) == 6
    readme = "before\n<!-- findings: by a program -->\n{}\n<!-- end of findings -->\nafter\n"
    assert texts.with_block("README.md", readme.format("old"), "findings", block) == readme.format(block)
    with pytest.raises(FindingError, match="README.md: has no block from '<!-- table norms -->'"):
        texts.with_block("README.md", readme, "table norms", block)


def quick_facts():
    """What --quick measures of a text: two sizes, two placements."""
    facts = Facts()
    for size, best in ("XS", 2.3), ("S (400 steps)", 2.1):
        for variant, gap in (("norm=ln", 0), ("norm=rms", 0), ("norm=bn", 0.1), ("norm=none", 0.05),
                             ("norm=ln placement=post", 0.04)):
            series(facts, "E20", ("mine", size), f"{variant} recipe=best", best + gap, init_std=0.08, learning_rate=0.018)
    return facts


def test_quick_answers_what_is_asked_most():
    lines = texts.answers(quick_facts()).splitlines()
    rows = [line for line in lines if line.startswith(("XS:", "S (400 steps):"))]
    assert len(rows) == 2
    for row in rows:
        assert row.split()[-2:] == ["0.08", "0.018"] and "LayerNorm or RMSNorm" in row and "Pre-LN" in row
        assert "BatchNorm" not in row and "Post-LN" not in row
    assert any(line.startswith("mine XS ") and "higher: +0.1" in line for line in lines)


def test_committed_texts_follow_from_the_published_facts():
    """scripts/report.py --texts writes them again."""
    facts, runs = texts.published()
    claims = Path(texts.HERE)
    assert not re.search(r"(corpus|out)=/", (claims / "published/report.html").read_text())  # a folder of one machine
    assert (claims / "FINDINGS.md").read_text() == texts.findings_text(facts, runs)
    assert {path.name for path in (claims / "published/figures").iterdir()} == {f"{one.id}.svg" for one in FINDINGS}
    for path, text in texts.files_with_blocks(facts, runs).items():
        assert Path(path).read_text() == text, f"{path}: scripts/report.py --texts writes its blocks"


def test_a_recipe_at_an_end_of_its_grid_is_flagged(monkeypatch):
    rows = [{"norm": "ln", "init-std": "0.08", "lr": "0.01", "place": "1", "at_end": "lr", "unstable": "1", "seed": seed,
             "val_loss": "2"} for seed in "12"]
    monkeypatch.setattr(texts, "rows_of", lambda name: rows)
    assert texts.tuned_table("", "norm", "ln").splitlines()[-1] == "| `ln` (unstable) | 0.08 | 0.01 (end) | 2.000 |  |  |"
