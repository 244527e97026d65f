"""The findings, and all texts that follow from the published facts."""
import re
from pathlib import Path

import pytest

from conftest import needs
from pages import Page

needs("scipy", "statsmodels", "jinja2", "tomllib", "matplotlib")

from claims import findings, pictures, texts, verdicts
from evidence.facts import Facts
from claims.findings import FindingError
from plots.looks import set_font

FINDINGS = {one.id: one for one in findings.table()}
NOISE = (-0.004, 0.003, 0.001, -0.002, 0.002, 0.0, -0.003, 0.003)


@pytest.fixture(scope="module")
def published():
    return texts.published()


def changed(facts, experiment, metric, variant, by):
    """The facts with this added to all values of a metric in the variants that match."""
    return Facts((*row[:6], row[6] + by * (row[0] == experiment and row[5] == metric and bool(re.fullmatch(variant, row[3]))))
                 for row in facts.rows())


@pytest.mark.parametrize("finding, experiment, metric, variant, by", [
    ("no-norm", "E20", "val_loss", "norm=none rate=default", -0.2), ("no-norm", "E20", "val_loss", "norm=none recipe=best", 0.2),
    ("rms", "E20", "val_loss", "norm=rms recipe=best", 0.04),
    ("size", "E20", "val_loss", "norm=bn recipe=best", -0.06), ("size", "E23", "val_loss", "norm=bn", -0.03),
    ("optimizer", "E22", "val_loss", "norm=ln optimizer=muon", 0.1), ("optimizer", "E22", "val_loss", "norm=rms optimizer=sgd", -0.1),
    ("optimizer", "E22", "val_loss", "norm=bn optimizer=sgd", 0.1), ("batch", "E3", "val_loss", "batch=1 block=full norm=bn", -1.3),
    ("batch", "E7", "learned_leak", "batch=1 norm=bn text=random", -1.3), ("batch", "E26", "val_loss", "batch=1 norm=bn", -1),
    ("batch", "E7", "learned_leak", "batch=1 norm=ln text=random", 1.3), ("batch", "E26", "val_loss", "batch=4 norm=bn", 0.2),
    ("batch", "E2", "own_gap", "norm=bn", -0.3), ("batch", "E26", "own_gap", "norm=bn start=x1", -0.3),
    ("outlier", "E9", "val_loss", "norm=ln start=x1000", -0.6), ("outlier", "E26", "val_loss", "norm=ln start=x1000", -0.6),
    ("outlier", "E26", "val_loss", "norm=bn start=x1000", 0.1), ("deep", "E26", "val_loss", "depth=deep init=xavier placement=post", -0.5),
    ("deep", "E26", "val_loss", "depth=deep init=0.08 placement=post", 0.3)])
def test_a_finding_whose_rule_fails_is_named(published, finding, experiment, metric, variant, by):
    FINDINGS[finding].expect(published[0])
    with pytest.raises(FindingError, match=f"^finding '{finding}' does not hold in "):
        FINDINGS[finding].expect(changed(published[0], experiment, metric, variant, by))


def test_numbers_come_from_the_facts(published):
    text = texts.findings_text(changed(published[0], "E9", "val_loss", "norm=ln start=x1000", 1), 1234)
    assert "1234 models" in text and "| LayerNorm | +0.64 to +1.11 | +1.59 to +1.91 |" in text and "{" not in text
    text = texts.findings_text(changed(published[0], "E23", "val_loss", "norm=rms", 0.5), 1)
    assert "RMSNorm loses 0.57 nats on Chinese poems at S" in text
    assert ("| M: 4 layers, 128 channels | 12 | LayerNorm or RMSNorm | Pre-LN | 0.08 | 0.0018 | 2 texts, 2000 updates |" in text)
    assert "| XS | 32 | BatchNorm | Pre-LN | 0.08 | 0.03 | 11 texts, tuned on one; 150 updates |" in text


def test_the_choice_of_a_recipe_adds_to_an_interval():
    """Nothing if the second recipe always loses; its own loss if it always wins; a variance if seeds decide."""
    cell = ("kjv", "S")
    def planted(beside, cell=cell):
        facts = Facts()
        for seed, more in enumerate(beside, 1):
            for norm in "ln", "bn":
                facts.add("E20", *cell, f"norm={norm} recipe=best", seed, "val_loss", 2 + 0.001 * seed * (norm == "bn"))
            facts.add("E20", *cell, "norm=ln recipe=second", seed, "val_loss", 2.1)
            facts.add("E20", *cell, "norm=bn recipe=second", seed, "val_loss", 2 + 0.001 * seed + more)
        return facts

    for second, moved in (0.05, 0), (-0.05, -0.05):
        assert findings.choice(planted([second] * 4), "bn", cell) == pytest.approx((moved, 0))
    facts = planted((0.02, 0.02, -0.01, 0.01))
    assert findings.choice(facts, "bn", cell) == pytest.approx((0.0025, 0.1875 * 1e-4))  # one draw of four is below 0
    (before, after), = findings.with_choice(facts, "bn").values()
    assert after.high - after.low > before.high - before.low and after.mean == pytest.approx(before.value + 0.0025)
    assert findings.choice(Facts(), "bn", cell) is None
    tuned_again = ("poems-zh", "S")
    assert findings.choice(planted([-0.05] * 4, tuned_again), "bn", tuned_again) == (0, 0)


def test_a_text_that_is_open_by_its_own_interval_is_named():
    """Its mean agrees, and the mean over texts decides the rule."""
    facts, rms = Facts(), FINDINGS["rms"]
    for text, scale in ("kjv", 1), ("german", 1), ("polish", 9):
        for seed, noise in enumerate(NOISE, 1):
            for norm, factor in ("ln", 0), ("rms", scale):
                facts.add("E20", text, "XS", f"norm={norm} recipe=best", seed, "val_loss", 2 + factor * noise)
    assert rms.holds(facts)
    assert rms.scope(facts) == "Seen on 3 texts at XS. Not certain alone: Polish quotations at XS."


def test_a_finding_is_seen_only_where_all_that_it_compares_was_measured():
    facts = Facts()
    for text, at in ("kjv", "rate=default"), ("kjv", "recipe=best"), ("german", "rate=default"):
        for norm, loss in ("ln", 2), ("none", 2.5 if at == "rate=default" else 2.1):
            for seed in 1, 2:
                facts.add("E20", text, "S", f"norm={norm} {at}", seed, "val_loss", loss)
    assert FINDINGS["no-norm"].scope(facts) == "Seen on 1 text at S."


@pytest.mark.parametrize("losses, named", [
    ({"ln": (2.0, 3.0), "rms": (2.01, 3.01), "bn": (2.03, 3.03)}, ["ln", "rms"]), ({"ln": (2.0, 3.0), "none": (1.8, 3.04)}, ["ln"]),
    ({"ln": (2.0, 3.0), "bn": (1.9, 2.9)}, ["bn"]), ({"ln": (2.0, 3.0), "bn": ()}, ["ln"])])
def test_the_table_names_a_norm_that_is_good_on_each_text(losses, named):
    assert texts.good({name: dict(zip(("one", "two"), found)) for name, found in losses.items()}, "ln") == named


def test_readme_has_a_block_between_marks(published):
    block = texts.readme_text(published[0])
    assert sum(line.startswith("- ") for line in block.splitlines()) == 3
    readme = "before\n<!-- findings: by a program -->\n{}\n<!-- end of findings -->\nafter\n"
    assert texts.with_block("README.md", readme.format("old"), "findings", block) == readme.format(block)
    with pytest.raises(FindingError, match="README.md: has no block from '<!-- table norms -->'"):
        texts.with_block("README.md", readme, "table norms", block)


def test_a_recipe_at_an_end_of_its_grid_is_flagged(monkeypatch):
    rows = [{"norm": "ln", "init-std": "0.08", "lr": "0.01", "place": "1", "at_end": "lr", "unstable": "1", "seed": seed,
             "val_loss": "2"} for seed in "12"]
    monkeypatch.setattr(texts, "rows_of", lambda name: rows)
    assert texts.tuned_table("", "norm", "ln").splitlines()[-1] == "| `ln` (unstable) | 0.08 | 0.01 (end) | 2.000 |  |  |"


def test_a_norm_has_one_colour_and_names_stand_beside_lines(published):
    assert set(pictures.PICTURES) == set(FINDINGS)
    beside = {text.get_text(): text.get_color() for text in pictures.over_batches(published[0]).axes[1].texts}
    assert beside == {findings.NORMS[norm]: pictures.COLOUR_OF[norm] for norm in ("ln", "gn", "bn")}
    rows = pictures.PICTURES["rms"](published[0]).axes[0].get_yticklabels()
    assert [one.get_text() for one in rows if one.get_fontweight() == "bold"] == ["XS", "S", "M"]


def test_committed_texts_follow_from_the_published_facts(published):
    """scripts/report.py --texts writes them again, also without any corpus, and whatever was drawn before."""
    set_font((2, 2), "small.png")
    for path, text in texts.files(*published).items():
        assert Path(path).read_text() == text, f"{path}: scripts/report.py --texts writes it"
    assert {path.name for path in (Path(texts.PUBLISHED) / "figures").iterdir()} == {f"{name}.svg" for name in FINDINGS}


def test_the_page_has_the_answer_and_every_claim_with_its_evidence():
    text = Path(texts.PUBLISHED, "report.html").read_text()
    Page(text)
    assert "<script" not in text and len(text) < 2e6
    assert text.index("because its statistics hold the characters") < text.index("<img") < text.index("claims of five articles</h2>")
    assert all(f'id="c-{claim.id}"' in text for claim in verdicts.claims())
    n14 = text[text.index('id="c-N14"'):]
    n14 = n14[:n14.index("</details>")]
    assert 'rect class="band"' in n14 and "difference of validation loss (nats)" in n14
    assert re.search(r"Before the first report, says: <code>.*</code>", n14)
