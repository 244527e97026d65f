"""scripts/plot.py --probes: every kind of picture from short real runs, and malformed files."""
import re
import shutil
from pathlib import Path

import pytest

from conftest import TINY, command, needs
from written import put_run

needs("matplotlib")

HEADER = "step,layer,site,metric,value\n"


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Makes a run of two layers of two heads whose updates 0 to 3 are probed, once for each of its options; returns its
    folder, to copy."""
    place, made = tmp_path_factory.mktemp("probed"), {}

    def run_of(*options):
        if options not in made:
            made[options] = place / str(len(made))
            ended = command("train", *TINY, "--n-layer=2", "--learning-rate=0.01", "--probe-interval=1",
                            "--checkpoint-interval=0", "--eval-iters=1", "--grammar-chars=2000", "--quiet",
                            f"--out={made[options]}", *options, cwd=place)
            assert ended.status == 0, ended.err
        return made[options]
    return run_of


@pytest.fixture
def put(runs, run):
    """Puts such a run into a folder, with another text as its probes."""
    def copied(folder, *options, probes=None):
        shutil.copytree(runs(*options), folder)
        if probes is not None:
            Path(folder, "probes.csv").write_text(probes)
    return copied


def probe_of(folder, row):
    """The value in the row of the run's probes.csv that begins like this."""
    found, = (line.rpartition(",")[2] for line in Path(folder, "probes.csv").read_text().splitlines()
              if line.startswith(row + ","))
    return found


def labels(picture, *texts):
    """These runs are too short to learn: their labels say "(stuck at ...)", which is left out."""
    said = re.sub(r" \([^<)]*stuck[^<)]*\)", "", picture)
    missing = [text for text in texts if f">{text}<" not in said]
    assert not missing, missing


# ---- every kind ----------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, row, line, texts", [
    ("distance", "3,1,ln_2,dist_var", "dist_var ln_2 layer 1,3",
     ("training step", "layer 1", "ln_1", "ln_f", "means: batch to running,")),
    ("discrepancy", "2,,ln_f,tid_mean", "tid_mean ln_f,2", ("layer 0", "running deviation")),
    ("terms", "3,0,ln_1,g_mean", "g_mean ln_1 layer 0,3", ("mean, ‖g_mean‖",)),
    ("updates", "1,1,mlp.c_proj.weight,update_ratio", "update_ratio mlp.c_proj.weight layer 1,1",
     ("MLP", "embeddings", "attn.c_attn.weight", "wte.weight")),
    ("layers", "3,1,attn,stream_rms", "stream_rms stream step 3,1.5",  # after attention, in the middle of layer 1
     ("depth (layers)", "step 0", "step 3", "mlp", "residual stream")),
    ("attention", "3,1,head.0,entropy", "entropy step 3 layer 1,0",
     ("entropy (nats)", "largest logit", "head", "layer", "a weight above 0.99"))])
def test_ln_beside_bn(put, draw, kind, row, line, texts):
    put("ln", "--norm=ln")
    put("bn", "--norm=bn")
    table, picture = draw(f"--probes={kind}", "ln", "bn", "--title=A title")
    is_map = kind == "attention"
    assert picture.startswith("<?xml") and picture.rstrip().endswith("</svg>")
    labels(picture, "A title", *(f"{norm}, step 3" if is_map else norm for norm in ("ln", "bn")), *texts)
    assert f"probes,bn,{line},{probe_of('bn', row)},,,{'' if is_map else 1}" in table


def test_a_picture_stands_with_its_run(put, run):
    put("one")
    ending = run("plot.py", "--probes=distance,terms", "--metrics=g_var,dist_mean", "--sites=ln_2", "one", "--dpi=50",
                 "--table=a.csv")
    assert (ending.status, ending.out, ending.err) == (0, "one/distance-terms.png\n", "")
    assert Path("one/distance-terms.png").read_bytes().startswith(b"\x89PNG")
    names = {line.split(",")[2] for line in Path("a.csv").read_text().splitlines()[1:]}
    assert names == {f"{metric} ln_2 layer {layer}" for metric in ("g_var", "dist_mean") for layer in (0, 1)}


# ---- seeds ---------------------------------------------------------------------------------------

@pytest.fixture
def put_seeds(put):
    """Three runs of one variant with these rows as probes."""
    def seeds(*rows):
        for seed, text in enumerate(rows, 1):
            put(f"s{seed}", f"--seed={seed}", probes=HEADER + text.replace(" ", "\n") + "\n")
    return seeds


def test_seeds_are_bands(put_seeds, draw):
    put_seeds("0,0,ln_1,dist_mean,1 0,,embd,stream_rms,4 10,0,ln_1,dist_mean,8",
              "0,0,ln_1,dist_mean,3 0,,embd,stream_rms,5 10,0,ln_1,dist_mean,6",
              "0,0,ln_1,dist_mean,8 0,,embd,stream_rms,9 5,0,ln_1,dist_mean,7")  # was stopped before step 10
    table, picture = draw("--probes=distance", "s1", "s2", "s3")
    assert 'probes,"ln, pre",dist_mean ln_1 layer 0,0,4,1,8,3' in table
    assert 'probes,"ln, pre",dist_mean ln_1 layer 0,10,7,6,8,2' in table
    assert not any("layer 0,5," in line for line in table)  # of one seed alone
    labels(picture, "ln, pre, 3 seeds", "mean of 3 seeds", "band: lowest to highest", "paler: fewer seeds")
    table, picture = draw("--probes=layers", "s1", "s2", "s3", "--center=median", "--band=sd", "--columns=norm,placement")
    assert 'probes,"ln, pre",stream_rms stream step 0,0,5,2.35424869,7.64575131,3' in table
    labels(picture, "median of 3 seeds")
    table, _ = draw("--probes=distance", "s1", "s2", "s3", "--by=run")
    assert "probes,seed 2,dist_mean ln_1 layer 0,10,6,,,1" in table
    table, picture = draw("--probes=distance", "s1", "s2", "s3", "--band=none")
    assert 'probes,"ln, pre",dist_mean ln_1 layer 0,0,4,,,3' in table and ">band" not in picture


def test_heads_of_seeds_go_by_their_values(put_seeds, draw):
    put_seeds(*(f"0,0,head.0,entropy,{a} 0,0,head.1,entropy,{b}" for a, b in ((1, 3), (4, 2), (3, 5))))
    table, picture = draw("--probes=attention", ".")
    assert 'probes,"ln, pre",entropy step 0 layer 0,0,2,,,' in table
    assert 'probes,"ln, pre",entropy step 0 layer 0,1,4,,,' in table
    labels(picture, "head, in the order of values")


def test_depths_are_lines_in_a_column_for_each_placement(put, draw):
    for name, placement, depth in ("a", "pre", 2), ("b", "pre", 3), ("c", "post", 2), ("d", "post", 3):
        put(name, f"--placement={placement}", f"--n-layer={depth}")
    table, picture = draw("--probes=layers", "--metrics=grad_norm", "--steps=1", ".", "--sites=mlp.c_proj.weight",
                          "--columns=placement")
    value = probe_of("d", "1,2,mlp.c_proj.weight,grad_norm")
    assert f'probes,"post, n-layer 3",grad_norm mlp.c_proj.weight step 1,3,{value},,,1' in table
    labels(picture, "pre", "post", "n-layer 2", "n-layer 3", "at step 1", "mlp.c_proj.weight")
    assert ">a<" not in picture and ">step 0<" not in picture


# ---- malformed files -----------------------------------------------------------------------------

def test_bad_files_are_named_and_the_others_drawn(put, run):
    bad = {"empty": ("", "empty"), "header": (HEADER, "only the header"),
           "cells": (HEADER + "0,0,ln_1,dist_mean\n", "damaged: line 2 has 4 cells"),
           "number": (HEADER + "0,0,ln_1,dist_mean,1\n0,x,ln_1,dist_mean,1\n", "damaged: line 3: invalid literal"),
           "columns": ("step,value\n0,1\n", "damaged: line 1 is not step,layer,")}
    put("good", "--norm=bn")
    put("none", "--probe-interval=0")
    for folder, (text, _) in bad.items():
        put(folder, "--probe-interval=0", probes=text)
    missing = "none/probes.csv: No such file or directory (./train --probe-interval=K writes it)\n"
    ending = run("plot.py", "--probes=distance", "good", "none", *bad, "-o", "a.svg")
    assert (ending.status, ending.out) == (1, "a.svg\n") and "Traceback" not in ending.err and missing in ending.err
    assert all(f"{folder}/probes.csv: {why}" in ending.err for folder, (_, why) in bad.items()), ending.err
    labels(Path("a.svg").read_text(), "good")
    ending = run("plot.py", "--probes=distance", "none", "-o", "b.svg")
    assert (ending.status, ending.err) == (1, f"plot: {missing}") and not Path("b.svg").exists()


def test_a_run_under_way_and_one_that_diverged(put, draw):
    """Zeros and non-numbers have no position on a logarithmic axis."""
    put("now", probes=HEADER + "0,0,ln_1,dist_mean,nan\n0,0,ln_1,dist_var,0\n1,0,ln_1,dist_mean,2\n"
        "2,0,ln_1,dist_mean,0\n3,0,ln_1,dist_mean,4\n4,0,ln_1,di")
    table, picture = draw("--probes=distance", "now")
    assert "probes,now,dist_mean ln_1 layer 0,1,2,,,1" in table and "probes,now,dist_mean ln_1 layer 0,3,4,,,1" in table
    assert not any("layer 0,4," in line or "dist_mean ln_1 layer 0,0," in line for line in table)
    assert picture.startswith("<?xml")


# ---- the command ---------------------------------------------------------------------------------

@pytest.mark.parametrize("status, words, why", [
    (2, "run -o a.gif", "not a kind of picture (.png, .svg, .pdf)"),
    (1, "run --lines=eval-train", "none of these runs measured it (./train --eval-train"),
    (1, "run --columns=size", "plot: --columns=size: not an option of these runs"),
    (2, "run --chart=dots --columns=norm", "--columns: works only with --probes=layers and --chart=curves"),
    (1, "run --sweep=norm", "is not a numeric option in which these runs differ"),
    (1, "run --show", "--show: no window: there is no display (-o writes a file)"),
    (2, "run --probes=loss", "'loss' is not one of distance, discrepancy, "),
    (2, "run --probes=layers,terms", "--probes=layers,terms: cannot be in one picture"),
    (2, "run --probes=terms --chart=dots", "--chart: cannot be combined with --probes"),
    (2, "run --sites=ln_1", "--sites: works only with --probes"),
    (2, "run --probes=layers --steps=1,x", "'1,x' is not N,..."),
    (1, "run --probes=layers --steps=0,9", "--steps=9: not probed in run (0, 1, 2, 3 are)"),
    (1, "run --probes=layers --metrics=tid_var", "--metrics=tid_var: --probes=layers has stream_rms, "),
    (1, "run --probes=updates --sites=wte", "--sites=wte: update_ratio is measured at "),
    (1, "run --probes=layers --ylim=1:2", "--ylim: for one metric"),
    (1, "run --probes=terms", "--probes=terms: none of these runs has g_mean or g_var")])
def test_wrong_commands(put, run, monkeypatch, status, words, why):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"):
        monkeypatch.delenv(name, raising=False)
    put("run", "--norm=dyt")
    for name, norm in (("a", "ln"), ("b", "bn"), ("c", "bn")):
        put_run(name, 3, norm=norm, placement="pre")
    output = [] if "--show" in words or "-o" in words else ["-o", "a.svg"]
    ending = run("plot.py", *words.split(), *output)
    *before, message = ending.err.splitlines()
    assert ending.status == status and message.startswith("plot: ") and why in message, ending.err
    assert not Path("a.svg").exists() and all("a line for each run" in line for line in before), before


def test_a_sweep_that_is_asked_for_needs_two_values_only(draw):
    for rate in (0.01, 0.1):
        put_run(f"runs/{rate}", 2 + rate, learning_rate=rate)
    table, _ = draw("runs", "--sweep=learning-rate")
    assert [line.split(",")[0] for line in table[1:]] == ["sweep"] * (len(table) - 1) and len(table) > 2, table
    table, _ = draw("runs")
    assert {line.split(",")[0] for line in table[1:]} == {"curves"}, "one of its own accord has three"


def test_options_have_their_short_names_here_too(draw):
    for rate in (0.01, 0.03, 0.1):
        for norm in ("ln", "bn"):
            put_run(f"{norm}-{rate}", 2 + rate, norm=norm, learning_rate=rate)
    folders = [f"{norm}-{rate}" for norm in ("ln", "bn") for rate in (0.01, 0.03, 0.1)]
    for short, full in (("--sweep=lr", "--sweep=learning-rate"), ("--columns=lr", "--columns=learning-rate")):
        assert draw(*folders, short) == draw(*folders, full)


PLACES = ("pre post sandwich peri reordered deepnorm mix residual keel lns bare siamese hybrid hybrid-star layerscale "
          "dsinit admin").split()


def test_placements_have_markers_of_their_own(draw):
    """Dots have no line style, so the marker tells placements apart."""
    for place in PLACES:
        for norm in "ln", "bn":
            put_run(f"runs/{norm}-{place}", 2, norm=norm, placement=place)
    _, picture = draw("runs", "--chart=dots")
    looks = {(re.search(r"#(\w{10})", use).group(1), re.search(r"fill: (.{7})", use).group(1))
             for use in re.findall(r"<use [^>]*>", picture) if "; stroke: #d55e00" in use}
    assert len(looks) >= len(PLACES)
