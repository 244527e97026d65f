"""The findings: their rules on planted facts, and all texts that follow from the published facts."""
import itertools
import re
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from claims import findings, page, pictures, texts
from claims.facts import Facts
from claims.findings import FindingError
from conftest import Page

FINDINGS = findings.table()[1]
NOISE = (-0.004, 0.003, 0.001, -0.002, 0.002, 0.0, -0.003, 0.003)
SIZES = ("XS", "S", "M")
BN = {"XS": -0.02, "S": 0.02, "M": 0.06}
OTHERS = ("c", "german", "kjv", "tinyshakespeare")
GOOD = {"bn": BN, "gain": 0.2, "one": 1.0, "leak": 1.3, "cost": 0.6, "rms": 0.0, "none": 0.05, "none_default": 0.4, "own": 0.01,
        "muon": -0.06, "sgd": 0.08, "sgd_bn": -0.01, "rms_across": 0.0, "bn_across": BN, "none_across": 0.03, "tuned_one": 1.1,
        "tuned_four": 0.0, "tuned_cost": 0.7, "tuned_cost_bn": 0.0, "tuned_own": 0.02, "second": 0.05,
        "deep": {("pre", "xavier"): -0.6, ("post", "xavier"): 0.05, ("pre", "0.08"): -0.9, ("post", "0.08"): -0.85}}


def series(facts, experiment, cell, variant, mean, metric="val_loss", **of_one_run):
    """A metric of all seeds with this mean, and others of the first seed."""
    for seed, noise in enumerate(NOISE, 1):
        facts.add(experiment, *cell, variant, seed, metric, mean + noise * (1 + 0.1 * (len(variant) % 3)))
    for name, number in of_one_run.items():
        facts.add(experiment, *cell, variant, 1, name, number)


def planted(**more):
    """Facts in which every finding holds, except for what is given."""
    facts, given = Facts(), {**GOOD, **more}
    for cell in itertools.product(("kjv", "tinyshakespeare"), SIZES):
        for norm, gap in {"ln": 0, "rms": given["rms"], "bn": given["bn"][cell[1]], "none": given["none"]}.items():
            series(facts, "E20", cell, f"norm={norm} recipe=best", 2 + gap, learning_rate=0.01, init_std=0.08)
            series(facts, "E20", cell, f"norm={norm} recipe=second", 2 + gap + given["second"])
            series(facts, "E20", cell, f"norm={norm} rate=default", 2 + given["gain"] + (given["none_default"] if norm == "none" else gap))
            for start, rate in itertools.product(("0.02", "best"), ("0.01", "0.03")):
                facts.add("E20", *cell, f"init={start} norm={norm} rate={rate}", 101, "val_loss", 2.1)
    for text, size in itertools.product(OTHERS, SIZES[:2]):
        for norm, gap in ("ln", 0), ("rms", given["rms_across"]), ("bn", given["bn_across"][size]), ("none", given["none_across"]):
            series(facts, "E23", (text, size), f"norm={norm}", 2 + gap)
    for text in OTHERS:
        plant_batches(facts, "E26", (text, "XS"), "", (given["tuned_one"], given["tuned_four"]), 0.0056, init_std=0.04)
        plant_starts(facts, "E26", (text, "XS"), {"ln": given["tuned_cost"], "bn": given["tuned_cost_bn"]})
        series(facts, "E26", (text, "XS"), "norm=bn start=x1", given["tuned_own"], "own_gap")
        for (place, init), loss in given["deep"].items():
            for metric, further in ("above_frequencies", 0), ("val_loss", 3.3):
                series(facts, "E26", (text, "XS"), f"depth=deep init={init} placement={place}", further + loss, metric)
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
        series(facts, experiment, cell, f"batch={batch} {more}norm={norm}", 2 + gap * (norm == "bn"), learning_rate=rate, **of_one_run)


def plant_starts(facts, experiment, cell, costs):
    """What an outlier in the initial weights costs each norm."""
    for norm, cost in costs.items():
        series(facts, experiment, cell, f"norm={norm} start=x1", 2)
        series(facts, experiment, cell, f"norm={norm} start=x1000", 2 + cost)


def test_every_finding_holds_where_it_was_planted():
    assert len(FINDINGS) == 8
    for finding in FINDINGS:
        finding.expect(planted())


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
    assert "1234 models" in text and "| LayerNorm | +0.70 | +0.60 |" in text and "{" not in text
    assert ("| M: 4 layers, 128 channels | 12 | LayerNorm or RMSNorm | Pre-LN (not compared) | 0.08 | 0.01 | 2 texts, 2000 updates |"
            in text)
    assert "| XS | 32 | BatchNorm | Pre-LN (not compared) | 0.04 | 0.0056 | 4 texts, tuned on one; 150 updates |" in text
    assert "| the King James Bible, XS | 0.42 | 0.070 | 0.020 | 0.020 | 0.20 |" in text
    assert "| LayerNorm | +0.70 | +0.65 |" in texts.findings_text(planted(cost=0.65), 1234)
    assert "RMSNorm loses 0.070 nats on C at XS" in texts.findings_text(planted(rms_across=0.07), 1)


def test_the_choice_of_a_recipe_adds_to_an_interval():
    """Nothing if the second recipe always loses; its own loss if it always wins; a variance if seeds decide."""
    cell = ("kjv", "S")
    for second, moved in (0.05, 0), (-0.05, -0.05):
        mean, variance = findings.choice(planted(second=second), "bn", cell)
        assert mean == pytest.approx(moved, abs=2e-3) and variance == 0
    facts = Facts()
    for seed, more in enumerate((0.02, 0.02, -0.01, 0.01), 1):
        for norm in "ln", "bn":
            facts.add("E20", *cell, f"norm={norm} recipe=best", seed, "val_loss", 2 + 0.001 * seed * (norm == "bn"))
        facts.add("E20", *cell, "norm=ln recipe=second", seed, "val_loss", 2.1)
        facts.add("E20", *cell, "norm=bn recipe=second", seed, "val_loss", 2 + 0.001 * seed + more)
    assert findings.choice(facts, "bn", cell) == pytest.approx((0.0025, 0.1875 * 1e-4))  # one draw of four is below 0
    (before, after), = findings.with_choice(facts, "bn").values()
    assert after.high - after.low > before.high - before.low and after.mean == pytest.approx(before.value + 0.0025)
    assert findings.choice(Facts(), "bn", cell) is None


def test_a_text_that_is_open_by_its_own_interval_is_named():
    """Its mean agrees, and the mean over texts decides the rule."""
    facts, rms = Facts(), next(finding for finding in FINDINGS if finding.id == "rms")
    for text, scale in ("kjv", 1), ("german", 1), ("polish", 9):
        for seed, noise in enumerate(NOISE, 1):
            for norm, factor in ("ln", 0), ("rms", scale):
                facts.add("E20", text, "XS", f"norm={norm} recipe=best", seed, "val_loss", 2 + factor * noise)
    assert rms.holds(facts) and "Open by their own intervals: Polish quotations at XS." in rms.open_cells(facts)
    assert rms.open_cells(planted()) == "" and rms.scope(facts) == "GPT-2's block with biases, characters; 3 texts at XS."


@pytest.mark.parametrize("losses, named", [
    ({"ln": (2.0, 3.0), "rms": (2.01, 3.01), "bn": (2.03, 3.03)}, ["ln", "rms"]), ({"ln": (2.0, 3.0), "none": (1.8, 3.04)}, ["ln"]),
    ({"ln": (2.0, 3.0), "bn": (1.9, 2.9)}, ["bn"]), ({"ln": (2.0, 3.0), "bn": ()}, ["ln"])])
def test_the_table_names_a_norm_that_is_good_on_each_text(losses, named):
    assert texts.good({name: dict(zip(("one", "two"), found)) for name, found in losses.items()}, "ln") == named


def test_readme_has_a_block_between_marks():
    block = texts.readme_text(planted())
    assert sum(line.startswith("- ") for line in block.splitlines()) == 6
    readme = "before\n<!-- findings: by a program -->\n{}\n<!-- end of findings -->\nafter\n"
    assert texts.with_block("README.md", readme.format("old"), "findings", block) == readme.format(block)
    with pytest.raises(FindingError, match="README.md: has no block from '<!-- table norms -->'"):
        texts.with_block("README.md", readme, "table norms", block)


def test_a_recipe_at_an_end_of_its_grid_is_flagged(monkeypatch):
    rows = [{"norm": "ln", "init-std": "0.08", "lr": "0.01", "place": "1", "at_end": "lr", "unstable": "1", "seed": seed,
             "val_loss": "2"} for seed in "12"]
    monkeypatch.setattr(texts, "rows_of", lambda name: rows)
    assert texts.tuned_table("", "norm", "ln").splitlines()[-1] == "| `ln` (unstable) | 0.08 | 0.01 (end) | 2.000 |  |  |"


def test_a_norm_has_one_colour_and_names_stand_beside_lines():
    figures = {name: draw(planted()) for name, draw in pictures.PICTURES.items()}
    assert set(figures) == {one.id for one in FINDINGS}
    beside = {text.get_text(): text.get_color() for text in figures["recipe"].axes[1].texts}
    assert beside == {findings.NORMS[norm]: pictures.COLOUR_OF[norm] for norm in ("ln", "rms", "bn", "none")}
    headings = [one.get_text() for one in figures["rms"].axes[0].get_yticklabels() if one.get_fontweight() == "bold"]
    assert headings == list(SIZES)
    assert pictures.of_finding(FINDINGS[0], planted()) == pictures.of_finding(FINDINGS[0], planted())


def test_a_page_of_facts_without_corpora_has_the_answer_and_every_claim():
    text = page.make(planted())
    Page(text)
    assert "<script" not in text and len(text) < 2e6
    assert text.index("because its statistics hold the characters") < text.index("<img") < text.index("claims of five articles</h2>")
    assert all(f'id="c-{claim.id}"' in text for claim in page.verdicts.claims())
    n14 = text[text.index('id="c-N14"'):]
    assert "rect class=\"band\"" in n14[:n14.index("</svg>")] and "difference of validation loss (nats)" in n14[:n14.index("</svg>")]
    assert re.search(r"Before the first report, says: <code>.*</code>", n14[:n14.index("</details>")])


def test_committed_texts_follow_from_the_published_facts():
    """scripts/report.py --texts writes them again."""
    facts, runs = texts.published()
    for path, text in texts.files(facts, runs).items():
        assert Path(path).read_text() == text, f"{path}: scripts/report.py --texts writes it"
    assert {path.name for path in (Path(texts.PUBLISHED) / "figures").iterdir()} == {f"{one.id}.svg" for one in FINDINGS}
    assert re.search(r"<summary>.*\(A21 B12 C3 F4\)", (Path(texts.PUBLISHED) / "report.html").read_text())
