"""scripts/plot.py in pictures of a given size: the data gets most of it, legends are complete and do not overlap it, and
lines that coincide can be told apart; panels in columns."""
import re
from collections import namedtuple
from pathlib import Path

import pytest

from planted import put_run

pytest.importorskip("matplotlib", reason="scripts/deps.sh plot installs it")

NORMS, PLACES = ("ln", "rms", "bn", "gn", "dyt", "none"), ("post", "pre", "sandwich")
Box = namedtuple("Box", "left top right bottom")  # points, from the upper left corner


def picture_box(picture):
    return Box(0, 0, *map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)', picture).groups()))


def axes_box(picture, number):
    """The rectangle in which the lines of a chart are drawn."""
    path = re.search(rf'<g id="axes_{number}">.*?d="M ([\d.]+) ([\d.]+) \s*L ([\d.]+) [\d.]+ \s*L [\d.]+ ([\d.]+)', picture,
                     re.DOTALL)
    left, bottom, right, top = map(float, path.groups())
    return Box(left, top, right, bottom)


def text_of(picture, text):
    """The lower left corner of a text, and the size of its letters."""
    style, x, y = re.search(rf'<text style="([^"]*)" x="([-\d.]+)" y="([-\d.]+)"[^>]*>{re.escape(text)}<', picture).groups()
    return float(x), float(y), float(re.search(r"font: (?:\w+ )?([\d.]+)px", style).group(1))


def put_ablation(norms, places):
    """An ablation's folder: the first norms in the first placements, two seeds each."""
    Path("A").mkdir()
    Path("A/grid.txt").touch()
    for i in range(2 * norms * places):
        put_run(f"A/runs/{i}", 2 + 0.01 * i, i % 2 + 1, norm=NORMS[i // 2 % norms], placement=PLACES[i // 2 // norms])


@pytest.mark.parametrize("width, height, norms, places", [(3.3, 2.5, 2, 1), (3.3, 2.5, 3, 2), (3.3, 2.5, 6, 3),
                                                          (6.75, 2.6, 2, 1), (6.75, 2.6, 6, 3), (10, 4.2, 6, 3)])
def test_data_has_most_of_the_picture(run, draw, width, height, norms, places):
    put_ablation(norms, places)
    _, picture = draw("A", "--chart=curves", f"--size={width}x{height}")
    box, data = picture_box(picture), axes_box(picture, 1)
    assert abs(box.right - 72 * width) < 0.1 and abs(box.bottom - 72 * height) < 0.1
    assert data.right - data.left > 0.8 * box.right and data.bottom - data.top > 0.4 * box.bottom
    axis, seen = text_of(picture, "training step")[1], []
    for i in range(norms * places):
        label = NORMS[i % norms] + (f", {PLACES[i // norms]}" if places > 1 else "")
        full = f"{label}: {2 + 0.01 * (2 * i + 0.5):.3f}"
        text = full if f">{full}<" in picture else label
        x, y, _ = text_of(picture, text)
        assert width >= 10 and y < data.bottom or y > axis, f"{text} overlaps the chart"
        assert x > 0 and x + 3 * len(text) < box.right and y < box.bottom, (text, x, y)
        assert all(abs(y - other_y) > 4 or abs(x - other_x) > 20 for other_x, other_y in seen), f"{text} overlaps a text"
        seen.append((x, y))


def test_letters_get_smaller_but_can_be_read(run, draw):
    put_ablation(2, 1)
    large, small = (text_of(draw("A", "--chart=curves", f"--size={size}")[1], "training step")[2]
                    for size in ("10x4.2", "3.3x2.5"))
    assert large > small >= 7


def test_rows_of_dots_have_letters_that_fit(run, draw):
    put_ablation(6, 3)
    _, picture = draw("A", "--chart=dots", "--size=3.3x2.5")
    rows = [text_of(picture, f"ln, {place}") for place in PLACES]
    for (_, above, _), (_, below, letters) in zip(rows, rows[1:]):
        assert below - above >= letters
    data = axes_box(picture, 1)
    assert data.right - data.left > 0.6 * picture_box(picture).right


def test_a_picture_without_room_is_refused(run):
    put_ablation(6, 3)
    ending = run("plot.py", "A", "--chart=curves", "--size=1x1", "-o", "a.svg")
    assert (ending.status, ending.err) == (1, "plot: --size=1x1: the legend of 18 entries leaves no room for data (a larger "
                                              "size, or fewer runs)\n") and not Path("a.svg").exists()


def line_of(picture, colour):
    """The place in the file, the width and the dashes of the first line of this colour."""
    found = re.search(rf'style="([^"]*)stroke: {colour}; stroke-width: ([\d.]+)', picture)
    return found.start(), float(found.group(2)), found.group(1).startswith("fill: none; stroke-dasharray")


def test_lines_on_each_other_differ_in_dashes_only(run, draw):
    for norm in ("ln", "rms"):
        put_run(norm, 2.5, norm=norm, placement="pre")
    _, picture = draw("ln", "rms", "--lines=val")
    (below, lower, plain), (above, upper, dashed) = line_of(picture, "#0072b2"), line_of(picture, "#d55e00")
    assert below < above and lower == upper and dashed and not plain


def test_columns_of_curves_share_axes_and_looks(run, draw):
    put_ablation(3, 2)
    # Without one of them, the others keep their colours and dashes.
    table, picture = draw(*(f"A/runs/{i}" for i in (0, 4, 6, 8, 10)), "--columns=placement", "--lines=val")
    assert {'curves,"post, bn",validation,10,2.04,,,1', 'curves,"pre, rms",validation,10,2.08,,,1'} <= set(table)
    first, second = axes_box(picture, 1), axes_box(picture, 2)
    assert abs(first.top - second.top) < 0.1 and first.right < second.left
    assert abs((first.right - first.left) / (second.right - second.left) - 1) < 0.1
    assert all(f">{label}<" in picture for label in ("post", "pre", "ln", "rms", "bn"))
    assert picture.count(">ln<") == 1, "twice in the legend"
    assert line_of(picture, "#d55e00")[1] == line_of(picture[picture.index('<g id="axes_2">'):], "#d55e00")[1]  # ln


@pytest.mark.parametrize("words, status, complaint", [
    (["--columns=size"], 1, "plot: --columns=size: not an option of these runs\n"),
    (["--chart=dots", "--columns=norm"], 2, "plot: --columns: works only with --probes=layers and --chart=curves")])
def test_wrong_columns(run, words, status, complaint):
    put_ablation(3, 2)
    ending = run("plot.py", "A", *words, "-o", "b.svg")
    assert ending.status == status and ending.err.startswith(complaint)
