"""A study in a paper: no text of its figure is cut or covers another one, and no table is too wide, in a column and on a page."""
import itertools
import math
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from conftest import installers, needs
from pages import expect_fit

needs("pandas", "matplotlib")
import pandas

from plots import contrasts
from study import documents

LONG = [f"a-long-name {one}, another {two}" for one, two in itertools.product(("none", "token", "batch"), repeat=2)]
CASES = {
    "2 x 2": [("difference", "rms minus ln", "pre"), ("difference", "rms minus ln", "peri"), ("main effect", "rms minus ln", "placement"),
              ("interaction", "rms minus ln", "peri minus pre"), ("main effect", "peri minus pre", "norm")],
    "2 x 2 x 2": [("difference", "rms minus ln", f"{place}, weight-decay {decay}") for place in ("pre", "peri") for decay in (0, 0.1)]
                 + [("interaction", "rms minus ln", f"{place} minus pre") for place in ("peri", "weight-decay 0.1")],
    "nine variants": [("difference", f"{name} minus {LONG[0]}", "") for name in LONG[1:]],
    "unequal sizes": [("difference", "n-layer 2, n-embd 32 minus n-layer 1, n-embd 16", "norm ln")],
    "long names": [("difference", f"{'x' * 90} minus {'long words ' * 20}", "p" * 80)]}




def answer_of(case, scale=0.1, margin=0.02):
    rows = [{"kind": kind, "contrast": what, "where": where, "mean": scale * place, "low": scale * (place - 0.4), "p_holm": 0.04,
             "high": scale * (place + 0.3), "verdict": "higher" if place else "undecided", "why": "", "seeds": 8,
             "kept": 1, "of": 2 if kind == "main effect" else 1}
            for place, (kind, what, where) in enumerate(CASES[case], -1)]
    rows.append({**rows[0], "mean": math.nan, "low": math.nan, "high": math.nan, "p_holm": math.nan, "verdict": "neither trained"})
    levels = dict.fromkeys(level for _, what, _ in CASES[case] for level in what.split(" minus "))
    variants = [{"level": level, "mean": 2 + scale, "low": 2, "high": 3, "perplexity": 8, "learning-rate": 1e-3, "at_end": "learning-rate",
                 "trained": 7, "seeds": 8} for level in levels]
    return SimpleNamespace(contrasts=pandas.DataFrame(rows), variants=pandas.DataFrame(variants), labels={}, margin=margin,
                           metric="val_loss", unit="nats" if margin else "", quantity="validation loss", stability=(),
                           factors=["level"], axes=["learning-rate"], title=lambda: "Two variants, 8 seeds.",
                           notes=lambda: ["Intervals are over seeds.", f"{levels.popitem()[0]}: the best is at an end of its axis."])


@pytest.mark.parametrize("width", contrasts.WIDTHS.values())
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scale, margin", [(0.1, 0.02), (1234.5, 0), (1e-5, 0)])
def test_nothing_is_cut_or_covered(case, width, scale, margin):
    answer = answer_of(case, scale, margin)
    figure = expect_fit(lambda: contrasts.draw(answer, width))
    assert figure.get_figwidth() == width
    axes, = figure.axes
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    step = ticks[1].get_loc() - ticks[0].get_loc()
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9)) in (1, 2, 5, 10) and len(ticks) >= 2
    assert "(neither trained)" in " ".join(text.get_text() for text in axes.texts)


def test_the_first_table_has_differences_and_what_they_mean():
    rows = [("lower", -0.095), ("equal within 0.02", 0.005), ("undecided", 0.03), ("undecided: 3 and 8 of 8 trained", 0.04)]
    answer = answer_of("2 x 2")
    answer.contrasts = pandas.DataFrame([{**answer.contrasts.iloc[0], "mean": mean, "low": mean - 0.031, "high": mean + 0.03,
                                          **dict(zip(("verdict", "why"), f"{verdict}: ".split(": ")))} for verdict, mean in rows])
    first, *rest = documents.tex_text(answer, "one").split(r"\end{table}")
    assert len(rest) == 1 and r"\label{tab:answer}" in first and r"\begin{table}" in first and rest[0].count(r"\begin{table*}") == 2
    assert r"{\boldmath\bfseries $-$0.095 [$-$0.126, $-$0.065]} \tabularnewline" in first
    assert " +0.005 [$-$0.026, +0.035]$^{=}$ " in first and " +0.030 [$-$0.001, +0.060] " in first
    assert " +0.040 [+0.009, +0.070], undecided: 3 and 8 of 8 trained " in first
    assert r"\begin{table}" not in documents.tex_text(answer, "page")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason=f"no pdflatex ({installers()['command:pdflatex']})")
@pytest.mark.parametrize("columns", contrasts.WIDTHS)
def test_tables_fit(tmp_path, columns):
    tables = "".join(documents.tex_text(answer_of(case, scale, margin), columns).replace("tab:", f"tab:{place}{scale}") + r"\clearpage"
                     for place, case in enumerate(CASES) for scale, margin in ((0.1, 0.02), (1234.5, 0)))
    (tmp_path / "a.tex").write_text(r"\documentclass[twocolumn]{article}\textwidth=6.9in\columnsep=0.3in\usepackage{booktabs}"
                                    rf"\begin{{document}}{tables}\end{{document}}")
    ended = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"], cwd=tmp_path, capture_output=True,
                           text=True, check=False)
    log = (tmp_path / "a.log").read_text(errors="replace")
    assert ended.returncode == 0 and not re.findall(r"Overfull.*|.*multiply defined.*", log), ended.stdout[-2000:]
