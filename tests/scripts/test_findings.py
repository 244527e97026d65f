"""The sentences of scripts/claims/findings.py on planted facts."""
import math

import pytest

pytest.importorskip("scipy")
pytest.importorskip("jinja2")

from matplotlib.figure import Figure

from claims import claims, experiments, figures, findings, page
from claims.fact_table import Facts
from claims.quantities import difference, rise, value
from claims.rules import OPEN, above, all_of, any_of, exact, no, within
from claims.verdicts import FALSE, RECIPE, SIZE, TRUE, UNDECIDED, WEAKER, Claim, Verdict, judge

NOISE = (-0.004, 0.003, 0.001, -0.002, 0.002, 0.0)
A_TO_B = difference("E1", "val_loss", "norm=bn", "norm=ln", at="rate=tuned")
A_TO_C = difference("E1", "val_loss", "norm=rms", "norm=ln", at="rate=tuned")


def planted(**more):
    """Facts of E1: losses of norms, each 2 and `more` than LayerNorm; {size: {norm: more}}."""
    facts = Facts()
    for size, losses in more.items():
        for norm, mean in {"ln": 0, **losses}.items():
            for seed, noise in enumerate(NOISE, 1):
                facts.add("E1", "text", size, f"norm={norm} rate=tuned", seed, "val_loss",
                          2 + mean + (norm != "ln") * noise)
    return facts


def told(facts, says, meant=None):
    claim = Claim("T", "Something", "", "open", says=says, meant=meant)
    verdict = judge(claim, facts)
    return verdict.word, findings.telling(claim, verdict), findings.found(claim, verdict)


AGAIN = difference("E1", "val_loss", "norm=bn", "norm=ln", at="rate=tuned")
DECIDES = above(A_TO_B, 0.2)  # the other part of an "or" fails, although half of it holds
HALF = any_of(all_of(above(A_TO_B, 0.1), above(A_TO_C, 0.02)), DECIDES)


@pytest.mark.parametrize("readings, word, reading, begin, end", [
    ((above(A_TO_B, 0.1),), TRUE, None, "Validation loss (BatchNorm) minus that of LayerNorm: 0.3 nats [0.296, 0.304], "
     "6 seeds, text S, above 0.1.", ""),
    ((no(within(A_TO_C, 0.02)),), FALSE, None, "", ", within ±0.02."),
    ((above(A_TO_B, 1), above(AGAIN, 0.1)), WEAKER, None, "", "as stated not above 1, but above 0.1."),
    ((above(A_TO_C, 0.02), above(A_TO_B, 0.02)), WEAKER, None, "As stated no (validation loss (RMSNorm) minus", ""),
    ((HALF,), TRUE, DECIDES, "", ""), ((no(HALF),), FALSE, DECIDES, "", "")])
def test_sentences(readings, word, reading, begin, end):
    found, outcome, text = told(planted(S={"bn": 0.3, "rms": 0.001}), *readings)
    assert found == word and text.startswith(begin) and text.endswith(end)
    assert reading in (None, outcome.reading)


def test_open():
    """What is told of an undecided claim is the reading that is open, in the cell in which it is."""
    facts = planted(S={"bn": 0.3, "rms": 0.001}, XS={"bn": 0.021, "rms": 0.001})
    word, outcome, text = told(facts, exact(A_TO_C, low=1), above(A_TO_B, 0.02))
    assert word == UNDECIDED and outcome.cell == ("text", "XS") and "open whether above 0.02" in text
    word, outcome, text = told(facts, all_of(above(A_TO_B, 0.02), no(above(A_TO_C, 0.02))))
    assert word == UNDECIDED and outcome.cell == ("text", "XS")


def test_mixed():
    """A weaker sense that holds at one size only names the sizes."""
    facts = planted(S={"bn": 0.3}, XS={"bn": -0.3})
    word, outcome, text = told(facts, above(A_TO_B, 1), above(A_TO_B, 0.02))
    assert (word == SIZE and outcome.cell == ("text", "S") and
           text.startswith("In a weaker sense it holds in text S; it fails in text XS (validation"))


def test_words():
    quantity = rise("E3", "val_loss", ("norm=bn", "norm=ln"), "batch=1 block=full", "batch=32 block=full")
    assert (findings.plain(quantity) == "[validation loss (BatchNorm) minus that of LayerNorm] at batch 1 minus "
           "the same at batch 32")
    quantity = difference("E10", "val_loss", "variant=affine-off", "variant=plain", at="norm=ln")
    assert findings.plain(quantity) == "validation loss (LayerNorm, variant affine-off) minus that of plain"
    assert findings.plain(value("E9", "no_such", "qk=off")) == "no such (qk off)"
    for claim in claims.CLAIMS:  # no formula is left
        for leaf in claim.says.leaves() if claim.says else ():
            assert not leaf.quantity or not set("=_") & set(findings.plain(leaf.quantity))


def test_asked():
    """What is asked most is answered whether it is decided or not."""
    facts = Facts()
    for norm, losses in ("bn", (2.0, 2.2, 1.9)), ("ln", (2.0, 2.0, 2.0)), ("rms", (2.001, 2.0, 1.999)):
        for seed, loss in enumerate(losses, 1):
            facts.add("E20", "text", "S", f"norm={norm} recipe=best", seed, "val_loss", loss)
    (title, (head, row)), = findings.most_asked(facts)
    assert "own best" in title
    assert head[:3] == ["text, size", "RMSNorm − LayerNorm", "BatchNorm − LayerNorm"]
    assert (row == ["text S", "equal within 0.02: 0.000 [−0.006, +0.006], 3 seeds",
                   "open: +0.033 [−0.842, +0.909], 3 seeds", "", ""])
    assert not findings.most_asked(Facts())


@pytest.mark.parametrize("expected, word, meant, surprising", [
    (TRUE, FALSE, 0, True), (TRUE, WEAKER, 1, True), (TRUE, TRUE, 1, False), (FALSE, TRUE, 1, True),
    (FALSE, WEAKER, 1, False), (FALSE, RECIPE, 0, True), (FALSE, FALSE, 0, False), ("imprecise", SIZE, 1, False),
    ("imprecise", FALSE, 0, True), ("imprecise", TRUE, 1, True), ("open", TRUE, 1, False), (TRUE, UNDECIDED, OPEN, False)])
def test_surprises(expected, word, meant, surprising):
    assert findings.is_surprise(Claim("T", "", "", expected), Verdict(word, meant=meant)) == surprising


def test_limits():
    """One run far away does not set a picture's scale, and is told."""
    axes = Figure().add_subplot()
    values = [2.4, 2.5, 2.6, 2.45, 2.55, 34.66]
    assert figures.view_limits(axes, values, "y") == " Outside of the picture: 1 of 6 runs, 34.66."
    assert axes.get_ylim()[1] < 3
    assert figures.view_limits(axes, values[:5], "y") == "" and axes.get_ylim()[0] < 2.4
    assert figures.view_limits(axes, [1.0, 1.0, 1.0, 1.0, 2.0], "x") == "" and axes.get_xlim()[1] > 2
    assert math.isfinite(sum(axes.get_xlim()))
    assert figures.view_limits(axes, values, "y", False) == "" and axes.get_ylim()[1] > 34


def test_cells():
    """Where cells differ, each is said to be what it is; a ratio's mean is the geometric one."""
    claim = Claim("T", "", "", "open", says=above(A_TO_B, 0.02))
    found = page.sizes_of(judge(claim, planted(S={"bn": -0.3}, XS={"bn": 0.019})))
    assert found == "open in text XS; fails in text S"
    found = page.sizes_of(judge(claim, planted(S={"bn": 0.3}, XS={"bn": 0.3})))
    assert found == "at XS, S"
    for metric, values, mean in (("jacobian_ratio", (1.0, 4.0), 2), ("entropy", (1.0, 4.0), 2.5),
                                 ("jacobian_ratio", (1.0, 4.0, 0.0), 5 / 3)):
        found = figures.mean_of(metric, dict(enumerate(values, 1)))
        assert abs(found.value - mean) < 1e-12 and found.n == len(values), metric
    assert [findings.number(x) for x in (0.0065951, 1234.5, 2.5e9)] == ["0.0066", "1234", "2.5e+09"]


def drawn(facts, experiment, cell, spec):
    """The axes of a picture."""
    axes = Figure().add_subplot()
    figures.draw(axes, list(figures.KINDS[spec["kind"]](facts, experiment, cell, spec)), spec)
    return axes


def test_rows_outside():
    """A row all of whose runs are outside of a picture says where they are."""
    facts = planted(S={**{f"n{number}": 0.01 * number for number in range(12)}, "dyt": 1.2})
    axes = drawn(facts, "E1", ("text", "S"), experiments.dots("val_loss"))
    assert [text.get_text() for text in axes.texts] == ["3.2 →"]


def test_lines_of_a_picture_have_names_and_colours_of_their_own():
    facts = Facts()
    for line in "edge=best", "init=0.02", "init=0.04", "init=best":
        for seed, loss in enumerate(NOISE, 1):
            facts.add("E20", "text", "XS", f"{line} norm=ln rate=0.1", seed, "val_loss", 2 + loss)
    axes = drawn(facts, "E20", ("text", "XS"), experiments.lines("rate", "val_loss", line="init", norm="ln"))
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["0.02", "0.04", "best", "edge best"]
    assert len({line.get_color() for line in axes.get_legend().get_lines()}) == 4
    norms = figures.colours_of(["ln", "bn", "pre"])
    assert norms == {name: figures.COLOUR_OF[name] for name in norms}


def test_links():
    """A claim leads to the pictures that show what it reads, first to that of the cell that decides."""
    facts = planted(S={"bn": 0.3, "rms": 0.001}, XS={"bn": 0.021, "rms": 0.001})
    specs = [{"kind": "dots", "metric": "trained", "where": {}},
             {"kind": "dots", "metric": "val_loss", "where": {"rate": "tuned"}},
             {"kind": "dots", "metric": "val_loss", "where": {"rate": "tuned", "norm": None}},
             {"kind": "lines", "x": "batch", "line": "norm", "metric": "val_loss", "where": {}},
             {"kind": "course", "metric": "val_loss", "pair": ("bn", "ln"), "where": {}},
             {"kind": "course", "metric": "val_loss", "pair": ("none", "ln"), "where": {}}]
    pictures = [{"experiment": experiment, "cell": ("text", size), "spec": spec, "place": (size, place)}
                for experiment in ("E1", "E2") for place, spec in enumerate(specs) for size in ("S", "XS")]
    claim = Claim("T", "", "", "open", says=above(A_TO_B, 0.02))
    outcome = findings.telling(claim, judge(claim, facts))
    assert outcome.cell == ("text", "XS")
    found = [one["place"] for one in figures.of_claim(claim, outcome, pictures) if one["experiment"] == "E1"]
    assert found == [("XS", 1), ("XS", 4), ("S", 1), ("S", 4)]
    assert len(figures.of_claim(claim, None, pictures)) == 4
