"""scripts/plot.py --chart=differences: pairs by seed, intervals against tabulated quantiles of Student's t, and messages
where there is too little to pair."""
import itertools
import math
import re
from pathlib import Path

import pytest

from planted import put_run

pytest.importorskip("matplotlib", reason="scripts/deps.sh plot installs it")

QUANTILES = {2: 63.65674, 3: 9.924843, 4: 5.840909, 5: 4.604095, 11: 3.169273, 31: 2.749996}  # 0.995, by pairs
PLACES = ("pre post sandwich peri reordered deepnorm mix residual keel lns bare siamese hybrid hybrid-star layerscale "
          "dsinit admin").split()


def put_pair(norm, place, momentum, loss, seeds=(1, 2), reason="done"):
    """Seeds with this norm, placement and bn-momentum, and the losses `loss` and `loss` + 0.1."""
    for i, seed in enumerate(seeds):
        put_run(f"runs/{norm}-{place}-{momentum}-s{seed}", loss + 0.1 * i, seed, reason, norm=norm, placement=place,
                bn_momentum=momentum)


def test_intervals_are_students(draw):
    differences = {norm: [] for norm in QUANTILES}
    for seed in range(1, 32):
        start = 2 + 0.1 * (seed % 7)  # changes both of a pair alike
        put_run(f"runs/ln{seed}", start, seed, norm="ln", placement="pre")
        for i, pairs in enumerate(QUANTILES):
            if seed <= pairs:
                differences[pairs].append(0.01 * (seed % 3) + 0.001 * i - 0.005)
                put_run(f"runs/n{i}-{seed}", start + differences[pairs][-1], seed, norm=f"n{i}", placement="pre")
    table, picture = draw("runs", "--baseline=norm=ln")
    for i, (pairs, quantile) in enumerate(QUANTILES.items()):
        mean = sum(differences[pairs]) / pairs
        half = quantile * math.sqrt(sum((value - mean) ** 2 for value in differences[pairs]) / (pairs - 1) / pairs)
        row, = (line for line in table if line.startswith(f"differences,n{i},mean,,"))
        at, low, high, count = map(float, row.split(",")[4:])
        assert abs(at - mean) < 1e-7 and count == pairs
        assert abs(high - mean - half) < 1e-5 * half and abs(mean - low - half) < 1e-5 * half, (pairs, low, high, half)
    assert "differences,n1,difference,3,-0.004,,," in table
    assert not [line for line in table if line.startswith("differences,ln,")] and "common seed" not in picture
    for label in (">final validation loss minus that of ln (nats per character)<", ">mean, 99 % Student-t interval<",
                  ">arrow: the interval continues<"):
        assert label in picture


def test_the_baseline_agrees_in_everything_else(draw, run):
    Path("grid.txt").touch()
    put_pair("ln", "pre", 0.1, 2), put_pair("ln", "post", 0.1, 3)
    put_pair("bn", "pre", 0.1, 2.25), put_pair("bn", "post", 0.1, 3.5)
    put_pair("bn", "pre", 0.01, 2.5)  # which has no effect on ln
    for baseline, rows in (("norm=ln", {'"bn, pre, bn-momentum 0.1",difference,2,0.25', '"bn, post, bn-momentum 0.1",'
                            'difference,1,0.5', '"bn, pre, bn-momentum 0.01",difference,1,0.5'}),
                           ("norm=ln,placement=pre", {'"ln, post",difference,1,1',
                                                      '"bn, post, bn-momentum 0.1",difference,1,1.5'}),
                           ("norm=bn,bn-momentum=1e-1", {'"ln, pre",difference,1,-0.25'})):
        table, _ = draw(".", f"--baseline={baseline}")
        assert {f"differences,{row},,," for row in rows} <= set(table)
    ending = run("plot.py", ".", "--baseline=norm=bn", "-o", "b.svg")
    assert ending.status == 1 and not Path("b.svg").exists()
    assert ("plot: --baseline: bn, pre, bn-momentum 0.01 and bn, pre, bn-momentum 0.1 could both be the baseline of "
            "ln, pre") in ending.err


def test_placements_have_markers_of_their_own(draw):
    """Dots have no line style, so the marker tells placements apart."""
    for i, place in enumerate(PLACES):
        put_pair("ln", place, 0.1, 2 + 0.01 * i), put_pair("bn", place, 0.1, 3 + 0.02 * i)
    _, picture = draw("runs", "--baseline=norm=ln")
    styles = [(re.search(r"#(\w{10})", use).group(1), re.search(r"fill: (.{7})", use).group(1))
              for use in re.findall(r"<use [^>]*>", picture) if "; stroke: #0072b2" in use][:2 * len(PLACES)]
    assert len(styles) == 2 * len(PLACES)
    for (i, one), (j, other) in itertools.combinations(enumerate(styles), 2):
        assert (i // 2 == j // 2) == (one == other), (PLACES[i // 2], PLACES[j // 2])


def test_too_few_seeds_are_said(draw):
    Path("grid.txt").touch()
    put_pair("ln", "pre", 0.1, 2), put_pair("rms", "pre", 0.1, 2.5), put_pair("gn", "post", 0.1, 2.5)
    put_pair("bn", "pre", 0.1, 2.5, [2]), put_pair("bn", "pre", 0.1, 9.5, [3]), put_pair("in", "pre", 0.1, 9.5, [3])
    put_pair("rms", "pre", 0.1, 9, [3], "diverged"), put_pair("ln", "pre", 0.1, 9, [3], "interrupted")
    table, picture = draw(".", "--baseline=norm=ln")
    assert {'differences,"bn, pre",difference,2,0.4,,,', 'differences,"bn, pre",mean,,0.4,,,1',
            'differences,"rms, pre",diverged,3,,,,'} <= set(table)
    assert "difference,3" not in "\n".join(table) and "in, pre" not in "\n".join(table)
    for label in ("(not decided: one common seed)", "(not decided: no common seed)", "(no baseline)",
                  "no interval with fewer than 2 common seeds"):
        assert f">{label}<" in picture
    assert ">(not decided)<" in draw(".", "--baseline=norm=ln", "--size=3.3x2.5")[1]


@pytest.mark.parametrize("words, status, complaint", [
    ("a b --chart=differences", 2, "plot: --chart=differences: needs the variant to compare with (--baseline=NAME=VALUE, "
                                   "such as --baseline=norm=ln)"),
    ("a b --chart=dots --baseline=norm=ln", 2, "plot: --baseline: works only with --chart=diff"),
    ("a b --baseline=ln", 2, "'ln' is not NAME=VALUE,..."),
    ("a b --probes=terms --baseline=norm=ln", 2, "plot: --baseline: cannot be combined with --probes"),
    ("a b --baseline=norm=rms", 1, "plot: --baseline=norm=rms: no such run (there are bn, ln)"),
    ("a b --baseline=placement=pre", 1, "plot: --baseline=placement=pre: these runs do not differ in placement (they "
                                        "differ in norm)"),
    ("a --baseline=norm=ln", 1, "do not differ in norm (they differ in no option)"),
    ("a b c --baseline=norm=ln", 1, "runs of the same options and seed have no pairs"),
    ("a b c --by=variant --baseline=norm=ln", 1, "has the same seed 1")])
def test_wrong_baselines(run, words, status, complaint):
    for name, norm in (("a", "ln"), ("b", "bn"), ("c", "bn")):
        put_run(name, 3, norm=norm, placement="pre")
    ending = run("plot.py", *words.split(), "-o", "x.svg")
    assert ending.status == status and complaint in ending.err, ending.err
    assert "Traceback" not in ending.err and not Path("x.svg").exists()
