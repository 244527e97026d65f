"""study.py --stable: the largest stable value, its ratio to the baseline's, the sensitivity, and the picture of it."""
import csv
import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import SMALL, ended_runs, needs
from pages import expect_fit

needs("pandas", "matplotlib")

from plots import contrasts
from study import stability
from study.design import label_of
from study.stability import Curve

VALUES = [1, 3, 10, 30]


def curve(*rows, values=tuple(VALUES), start=4.0):
    """A Curve of losses, a row for each value; None for a seed that is stuck at 3.3."""
    losses = np.array([[3.3 if loss is None else loss for loss in row] for row in rows])
    trained = np.array([[loss is not None and math.isfinite(loss) for loss in row] for row in rows])
    return Curve(list(values), list(range(losses.shape[1])), losses, np.full(losses.shape, start), trained)


def test_the_largest_stable_value():
    assert stability.largest(curve([2.5, 2.5], [2, 2.1], [2.1, 2.1], [2.3, 2.3]), 0.1) == (10, 30)
    assert stability.largest(curve([2.5, 2.5], [2, 2.1], [2.1, 2.16], [2.3, 2.3]), 0.1) == (3, 10)   # one seed is too high
    assert stability.largest(curve([2, 2], [2, 2], [1.5, None], [2, 2]), 0.1) == (30, math.inf)  # where all train is the best
    nothing = curve([None, None], [None, None], [None, None], [None, None])
    assert math.isnan(stability.largest(nothing, 9)[0]) and stability.largest(nothing, 9)[1] == 1
    row = stability.row_of(nothing, curve([2, 2], [2, 2], [2, 2], [2, 2]), 0.1)
    assert math.isnan(row["largest"]) and math.isnan(row["ratio"]) and row["trained"] == 0


def test_the_ratio_is_no_better_known_than_the_grid():
    high, low = curve([2, 2, 2], [2, 2, 2], [2, 2, 2], [3, 3, 3]), curve([2, 2, 2], [3, 3, 3], [3, 3, 3], [3, 3, 3])
    assert stability.ratio_of(high, low, 0.1) == pytest.approx((10, 10 / 3, 30, 3))
    one_seed_higher = curve([2, 2, 2], [2, 2, 2], [2, 2, 2], [3, 3, 2])
    assert stability.ratio_of(one_seed_higher, low, 0.1)[0] == 10 and stability.ratio_of(one_seed_higher, low, 0.1)[2] == math.inf
    scattered = stability.ratio_of(high, curve([2, 2, 2], [3, 3, 2], [3, 3, 3], [3, 3, 3]), 0.1)
    lows = np.log([10 / 3, 10 / 3, 1])
    assert scattered.low == pytest.approx(math.exp(lows.mean() - 9.924843 * lows.std(ddof=1) / math.sqrt(3)))
    whole = curve([2, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2])
    assert stability.ratio_of(whole, low, 0.1) == pytest.approx((30, 10, math.inf, 3))


def test_the_sensitivity_is_wortsmans():
    """By hand: losses above the one before training count as that, and so does a run that diverged."""
    found = stability.sensitivity(curve([2.5, 2.0], [2.0, 2.2], [None, 9], [math.inf, 2.4]))
    assert found == pytest.approx([(2.5 + 2 + 3.3 + 4) / 4 - 2, (2 + 2.2 + 4 + 2.4) / 4 - 2])


def test_a_study_trains_each_value_and_says_which_is_stable(run, text):
    words = ["study.py", "--norm=ln,none", "--stable=lr=1e-9,1e-2,3e-2", "--stable-margin=0.5", "--tuning-seeds=2", "--seeds=2",
             "--out=out", "--", *SMALL]
    ended = run(*words)
    assert ended.status == 0, ended.err
    record = json.loads(Path("out/study.json").read_text())["stable"]
    summaries = {name: json.loads(path.read_text()) for name, path in ended_runs().items() if "hold-out" not in name}
    assert len(summaries) == 2 * 2 * len(record["values"])
    for row in csv.DictReader(open("out/stable.csv", encoding="utf-8")):
        of = {value: [one for one in summaries.values()
                      if (one["options"]["norm"], one["options"]["learning-rate"]) == (row["norm"], value)]
              for value in record["values"]}
        train = {value: [one["val_loss"] for one in found] for value, found in of.items() if not any(one["stuck"] for one in found)}
        assert 1e-9 not in train and len(train) == int(row["trained"])
        best = min(map(np.mean, train.values()))
        assert float(row["largest"]) == max(value for value, losses in train.items() if max(losses) <= best + 0.5)
        starts = [float(Path(f"out/runs/{name}/log.csv").read_text().splitlines()[1].split(",")[5])
                  for name, one in summaries.items() if one["options"]["norm"] == row["norm"]]
        losses = np.array([[one["val_loss"] for one in sorted(found, key=lambda one: one["options"]["seed"])] for found in of.values()])
        assert losses.max() == pytest.approx(max(starts), 1e-6)
        assert float(row["sensitivity"]) == pytest.approx((losses.mean(axis=0) - losses.min(axis=0)).mean())
        trained = [sum(not one["stuck"] for one in found) for found in of.values()]
        assert f"{', '.join(map(str, trained[:-1]))} and {trained[-1]} of 2 with {row['norm']}" in ended.out
    assert ended.out.startswith("The largest stable learning-rate of none, against that of ln: ")
    assert all(text in ended.out for text in ("\n\nRuns that train at 1e-9, 0.01", "(Wortsman et al. 2023",
                                                "A run is stuck, and did not train, if"))
    assert r"\label{tab:stable}" in Path("out/answer.tex").read_text().split(r"\end{table}")[0]
    assert "ratio to the baseline's [99 % interval]" in ended.out and "{" not in ended.out
    assert "largest stable learning-rate" in ended.out and {"stable.svg", "stable.pdf"} <= {path.name for path in Path("out").iterdir()}
    for name, what in ("md", "Stability in learning-rate"), ("tex", "tab:stability-in-learning-rate"):
        assert what in Path(f"out/answer.{name}").read_text()
    assert "Losses by learning-rate" in Path("out/page.html").read_text()
    assert run("study.py", "out", "--stable-margin=0.5").out == run(*words).out == ended.out


@pytest.mark.parametrize("words, what", [
    ("--stable=lr,init-std", "--stable=lr,init-std: takes one option"), ("--stable=dyt-alpha", "no default axis"),
    ("--stable=act=relu,gelu", "--stable=act: needs numbers"), ("--stable=lr=1,2 --tune=lr=1,2", "has values here and in --tune")])
def test_what_cannot_be_stable_is_refused(run, text, words, what):
    ended = run("study.py", "--norm=ln,none", *words.split(), "--", *SMALL)
    assert ended.status == 2 and what in ended.err, ended.err


# ---- the picture ----

def run_of(value, seed, status):
    """A run of learning rate `value`."""
    options = {"learning-rate": value, "seed": seed}
    return SimpleNamespace(options=options, status=status, losses=lambda: [3.0, 2 + seed / 10], entropy=None, columns={"step": [9]})


CASES = {"2 x 2": {"norm": ["ln", "rms"], "placement": ["pre", "peri"]},
         "2 x 2 x 2": {"norm": ["ln", "rms"], "placement": ["pre", "peri"], "weight-decay": ["0", "0.1"]},
         "nine variants": {"a-long-name": ["none", "token", "batch"], "another-long-name": ["none", "token", "batch"]},
         "unequal sizes": {"n-layer,n-embd": ["1:16", "2:32"]},
         "long names": {"norm": ["gamma * (x - mean_n(x)) / rms_c(x) + beta * a_word", "x" * 60], "placement": ["pre", "y" * 60]}}


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("width", contrasts.WIDTHS.values())
@pytest.mark.parametrize("case", CASES)
def test_no_text_of_the_panels_is_cut_or_covered(case, width, rows):
    factors = CASES[case]
    values, statuses = [1e-3, 1.8e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3], ("done", "done", "done", "done", "stuck", "diverged", "diverged")
    swept = {levels: {value: {seed: run_of(value, seed, status) for seed in (1, 2)} for value, status in zip(values, statuses)}
             for levels in itertools.product(*factors.values())}
    baseline = {list(factors)[0]: list(factors.values())[0][0]}
    answer = SimpleNamespace(factors=factors, baseline=baseline, label=lambda levels, names: label_of(list(levels), names),
                             record={})
    figure = expect_fit(lambda: contrasts.draw_panels(answer, "sweep", ("learning-rate", swept), (width, list(factors)[1:1 + rows]), "pdf"))
    assert figure.get_figwidth() == width
