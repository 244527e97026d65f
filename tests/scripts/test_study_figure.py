"""The figure of a study: no text is cut or covers another one, at the width of a column and of a page."""
import itertools
import math
import warnings
from types import SimpleNamespace

import pytest
from conftest import needs

needs("pandas", "matplotlib")
import pandas

from plots import contrasts

LONG = [f"a-long-name {one}, another {two}" for one, two in itertools.product(("none", "token", "batch"), repeat=2)]
CASES = {
    "2 x 2": [("difference", "rms minus ln", "pre"), ("difference", "rms minus ln", "peri"), ("main effect", "rms minus ln", "placement"),
              ("interaction", "rms minus ln", "peri minus pre"), ("main effect", "peri minus pre", "norm")],
    "2 x 2 x 2": [("difference", "rms minus ln", f"{place}, weight-decay {decay}") for place in ("pre", "peri") for decay in (0, 0.1)]
                 + [("interaction", "rms minus ln", f"{place} minus pre") for place in ("peri", "weight-decay 0.1")],
    "nine variants": [("difference", f"{name} minus {LONG[0]}", "") for name in LONG[1:]],
    "unequal sizes": [("difference", "n-layer 2, n-embd 32 minus n-layer 1, n-embd 16", "norm ln")],
    "long names": [("difference", f"{'x' * 90} minus {'long words ' * 20}", "p" * 80)]}


@pytest.mark.parametrize("width", [contrasts.WIDTH, contrasts.WIDE])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scale, margin", [(0.1, 0.02), (1234.5, 0), (1e-5, 0)])
def test_nothing_is_cut_or_covered(case, width, scale, margin):
    rows = [{"kind": kind, "contrast": what, "where": where, "mean": scale * place, "low": scale * (place - 1),
             "high": scale * (place + 1), "verdict": "higher"} for place, (kind, what, where) in enumerate(CASES[case])]
    rows.append({**rows[0], "mean": math.nan, "low": math.nan, "high": math.nan, "verdict": "neither trained"})
    answer = SimpleNamespace(contrasts=pandas.DataFrame(rows), labels={}, margin=margin, metric="val_loss")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = contrasts.draw(answer, width)
        figure.canvas.draw()
    assert figure.get_figwidth() == width
    axes, = figure.axes
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    step = ticks[1].get_loc() - ticks[0].get_loc()
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9)) in (1, 2, 5, 10) and len(ticks) >= 2
    texts = [*axes.texts, axes.xaxis.label, *(tick.label1 for tick in ticks), axes.xaxis.get_offset_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    assert "(neither trained)" in " ".join(text for text, _ in boxes)
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not (a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 - 1 and b.y0 < a.y1 - 1), (one, other)
