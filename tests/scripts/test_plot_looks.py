"""What a picture of losses looks like: labels inside of it, lines of one width, numbers as people write them."""
import io
import re

import pytest

from planted import put_run

pytest.importorskip("matplotlib", reason="scripts/deps.sh plot installs it")

import matplotlib.figure
import numpy as np

import plot
from plots import looks
from plots.plot_options import read_command
from common.runs import number_text
from plots.groups import Table
from plots.svg import compact


def compose(*words):
    """The figure of plot.py with these words."""
    options = read_command([*map(str, words), "-o", "a.svg"])
    runs, failed = plot.run_folders.read_runs(options.run, plot.say)
    assert not failed
    figure = plot.compose(runs, options, Table())
    figure.canvas.draw()
    return figure


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs of four norms and two placements at three learning rates."""
    monkeypatch.chdir(tmp_path)
    for i, norm in enumerate(("none", "ln", "bn", "rms")):
        for j, placement in enumerate(("pre", "post")):
            for rate in (3e-4, 1e-3, 3e-3):
                for seed in (1, 2):
                    put_run(f"runs/{norm}-{placement}-{rate}-{seed}", 2 + i / 5 + j / 10 + rate + seed / 50, seed,
                            norm=norm, placement=placement, learning_rate=rate)


@pytest.mark.parametrize("words", [[], ["--chart=curves"], ["--chart=dots"], ["--baseline=norm=ln"],
                                   ["--chart=sweep", "--log-y"]])
def test_labels_are_inside_a_picture_for_one_column_of_a_paper(grid, words):
    figure = compose("runs", "--size=3.3x2.5", *words)
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        for label in filter(lambda label: label.get_text(), (axes.xaxis.label, axes.yaxis.label)):
            box = label.get_window_extent(renderer)
            assert box.x0 >= -1 and box.y0 >= -1, (label.get_text(), box)
            assert box.x1 <= figure.bbox.width + 1 and box.y1 <= figure.bbox.height + 1, (label.get_text(), box)


def test_lines_have_one_width_and_differ_in_dashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for norm in ("ln", "rms", "bn"):
        put_run(norm, 2.5, norm=norm)
    lines = compose("ln", "rms", "bn", "--chart=curves", "--lines=val").axes[0].lines
    drawn = [line for line in lines if len(line.get_xdata()) == 2 and line.get_marker() != "None"]
    assert len(drawn) == 3 and len({line.get_linewidth() for line in drawn}) == 1
    assert len({str(line._dash_pattern) for line in drawn}) == 3  # matplotlib has no public way to ask


@pytest.mark.parametrize("value, text", [(3e-4, "3e-4"), (1e-3, "1e-3"), (0.0015, "0.0015"), (0.01, "0.01"), (0.03, "0.03"),
                                         (0.1, "0.1"), (0.95, "0.95"), (0.999, "0.999"), (0.0, "0"), (1.0, "1"),
                                         (10000.0, "10000"), (1e-5, "1e-5"), (-2e-4, "-2e-4"), (1e20, "1e+20")])
def test_numbers(value, text):
    assert number_text(value) == text and float(text) == value


def test_a_rate_in_a_picture(grid, run):
    ending = run("plot.py", "runs", "-o", "a.svg")
    assert ending.status == 0, ending.err
    picture = open("a.svg", encoding="utf-8").read()
    assert ">3e-4<" in picture and "at 3e-4<" in picture and "0.0003" not in picture


@pytest.mark.parametrize("last, ticks", [(4, [0, 1, 2, 3, 4]), (300, [0, 100, 200, 300]),
                                         (2000, [0, 500, 1000, 1500, 2000])])
def test_ticks_of_steps_are_round_numbers(last, ticks):
    axes = looks.new_figure(False).subplots()
    axes.plot([0, last], [1, 1])
    looks.step_ticks(axes, 5)
    assert [tick for tick in axes.get_xticks() if 0 <= tick <= last] == ticks


def test_a_pages_pictures_are_small_and_show_the_same():
    figure = matplotlib.figure.Figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [4, 6, 5], "o-", label="<a> & b")
    axes.legend()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        large = io.StringIO()
        figure.savefig(large, format="svg")
        small = compact(figure, "its")
    assert len(small) < len(large.getvalue()) / 3
    words, marks = re.compile(r"<text[^>]*>([^<]*)<"), re.compile(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"')
    assert words.findall(small) == words.findall(large.getvalue()) and "&lt;a&gt; &amp; b" in words.findall(small)
    before, after = (np.array(marks.findall(text), float) for text in (large.getvalue(), small))
    assert before.shape == after.shape and len(after) > 10 and abs(before - after).max() < 0.051
    ids = re.findall(r' id="([^"]*)"', small)
    assert sorted(set(ids)) == sorted(ids) == sorted({*re.findall(r'(?:href="|url\()#([^")]*)', small)})
