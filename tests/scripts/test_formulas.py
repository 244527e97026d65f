"""Norms that are formulas in grids and studies: what is printed and drawn shows the formula, or its label; no file has it in
its name."""
import html
from pathlib import Path

from conftest import SMALL, needs

needs("pandas", "matplotlib")

CURVE, SOFT = "gamma * min(x, 1) / (1 + abs(x))", "alpha * x / (1 + abs(x)); alpha = 1"
NORMS = f"--norm={CURVE},{SOFT}"


def expect_short_names(folder):
    names = [path.name for path in Path(folder).rglob("*")]
    assert names and all(set(name).isdisjoint("() ;") and "alpha" not in name for name in names), names


def expect_parts(text, *parts):
    assert [part for part in parts if part not in html.unescape(text)] == []


def test_a_grid_shows_formulas(run, text):
    ended = run("ablate.sh", NORMS, "--seeds=2", "--out=grid", "--", *SMALL)
    assert ended.status == 0, ended.err
    expect_parts(ended.out, f"| {CURVE} |", f"| {SOFT} |")
    assert {path.name for path in Path("grid/runs").iterdir()} == {
        f"{name}-pre-s{seed}" for name in ("fb1cf766b", "fb82dbbd6") for seed in (1, 2)}
    for script, *words in [["table.py"], ["plot.py", "-o", "plot.svg"], ["plot.py", f"--where=norm={SOFT}", "-o", "one.svg"],
                           ["compare.py", f"--baseline=norm={SOFT}"], ["page.py"]]:
        ended = run(script, "grid", *words)
        assert ended.status == 0, ended.err
        if script in ("table.py", "compare.py"):
            expect_parts(ended.out, CURVE, SOFT)
    expect_parts(Path("plot.svg").read_text(), CURVE, SOFT)
    expect_parts(Path("one.svg").read_text(), SOFT)
    assert CURVE not in Path("one.svg").read_text()
    expect_parts(Path("grid/page.html").read_text(), CURVE, SOFT)
    expect_short_names("grid")


def test_a_study_shows_formulas_and_their_labels(run, text):
    ended = run("study.py", NORMS, "--seeds=2", "--out=study", "--", *SMALL)
    assert ended.status == 0, ended.err
    expect_parts(ended.out, f"{SOFT} minus {CURVE}")
    for name in "answer.md", "page.html":
        expect_parts(Path("study", name).read_text(), SOFT, CURVE)
    ended = run("study.py", "study", f"--baseline=norm={SOFT}", f"--labels={SOFT}=soft sign,norm={CURVE}=clipped,norm=curve")
    assert ended.status == 0, ended.err
    expect_parts(ended.out, "clipped minus soft sign", "\ncurve ", "\nclipped ", "\nsoft sign ")
    assert CURVE not in ended.out and SOFT not in ended.out
    assert Path("study/answer-norm=fb82dbbd6.md").exists()
    expect_short_names("study")
    refused = run("study.py", "study", "--labels=norm")
    assert refused.status == 2 and "'norm' is not NAME=TEXT,..." in refused.err
