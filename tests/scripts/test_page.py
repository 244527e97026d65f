"""scripts/page.py: one HTML file of runs, which needs nothing else."""
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import TINY, command
from pages import Page
from written import put_log, put_run, put_summary

TEXT = "the cat sees a dog, and the dog sees the cat.\n" * 50


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A folder with the runs ln and none, with probes and 20 samples."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "text.txt").write_text(TEXT)
    for norm in ("ln", "none"):
        ended = command("train", *TINY, "--quiet", "--max-iters=40", "--probe-interval=10", "--sample-interval=2",
                        "--eval-interval=10", "--eval-train", "--sample=60", f"--norm={norm}", f"--out=runs/{norm}", "text.txt",
                        cwd=folder)
        assert ended.status == 0, ended.err
    return folder / "runs"


@pytest.fixture(scope="module")
def page(two_runs):
    ended = command("page.py", "runs", "--prompt=the cat sees", "-o", "page.html", cwd=two_runs.parent)
    assert (ended.status, ended.out, ended.err) == (0, "page.html\n", "")
    return (two_runs.parent / "page.html").read_text()


def test_the_curves_are_the_log(page, two_runs):
    """Validation losses of the picture, which the page shows under the pointer, are those of log.csv."""
    loss = Page(page).curves[0]
    curves = {curve["name"]: curve for curve in loss["curves"]}
    assert set(curves) == {f"{norm} {what}" for norm in ("ln", "none") for what in ("training", "training split", "validation")}
    for norm in ("ln", "none"):
        header, *rows = [line.split(",") for line in (two_runs / norm / "log.csv").read_text().splitlines()]
        measured = {int(row[0]): float(row[header.index("val_loss")]) for row in rows if row[header.index("val_loss")]}
        curve = curves[f"{norm} validation"]
        assert dict(zip(curve["x"], curve["y"])) == pytest.approx(measured, rel=1e-5)


def test_what_was_measured_and_written_is_there(page, two_runs):
    for part in ("Residual stream", "Attention by layer and head", "relative to the weights", "Learning rate".lower()):
        assert part in page, part
    for norm in ("ln", "none"):
        rows = (two_runs / norm / "samples.txt").read_text().splitlines()[1:]
        for row in (rows[0], rows[-1]):  # the first and the last line of text stay
            step, text = row.split("\t")
            shown = text.replace("\\n", "⏎").replace("&", "&amp;").replace("<", "&lt;")
            assert f'<td class="n">{step}</td><td class="text">{shown}</td>' in page
    assert "Options that differ" in page and page.count('id="attention-0"') == 1
    assert re.search(r"--norm</th><td>ln</td><td>none</td>", page)
    assert re.search(r'id="attention-0"[^>]*><figcaption>ln: ', page), "whose attention it is stands above it"


def test_seeds_of_a_variant_are_a_row(run):
    for norm, seed, loss in (("ln", 1, 2.0), ("ln", 2, 3.0), ("bn", 1, 2.25)):
        put_run(f"{norm}{seed}", loss, seed=seed, norm=norm, placement="pre")
    assert run("page.py", "ln1", "ln2", "bn1", "-o", "a.html").status == 0
    page = Path("a.html").read_text(encoding="utf-8")
    for part in ('<th scope="row">ln</th><td>2 done</td>', "2.5000 ± 0.7071", '<th scope="row">bn</th><td>done</td>',
                 "Each row is a variant with 1 to 2 seeds", "bn has the lowest validation loss, 2.2500"):
        assert part in page, part
    assert "seed 2" not in page
    put_run("again", 2.5, seed=2, norm="ln", placement="pre")  # two runs of one seed: a row each
    assert run("page.py", "ln1", "ln2", "bn1", "again", "-o", "a.html").status == 0
    page = Path("a.html").read_text(encoding="utf-8")
    assert '<th scope="row">ln2</th>' in page and '<th scope="row">again</th>' in page and "Each row" not in page


def test_a_single_run_whose_names_and_texts_are_escaped(run, tiny_run, tmp_path):
    """No probes, no samples: the sections are not there."""
    folder = tmp_path / "<b>&\"$x$"
    shutil.copytree(tiny_run, folder)
    (folder / "sample.txt").write_text("<script>alert(1)</script>")
    ended = run("page.py", folder, "-o", "page.html")
    assert (ended.status, ended.err) == (0, "")
    page = (tmp_path / "page.html").read_text()
    Page(page)
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "Inside the model" not in page and "Options that differ" not in page


def test_the_model_writes_a_text_if_the_run_has_none(run, tiny_run, tmp_path):
    assert run("page.py", tiny_run, "-o", "page.html").status == 0
    assert re.search(r"<pre>[a-z ,.\n]{20,}</pre>", (tmp_path / "page.html").read_text())


def test_attention_is_what_the_output_of_attention_weights(two_runs, tmp_path):
    """The weights times the values give attention's output in the dump."""
    from evidence.lab import attention
    from pytorch import model_file
    (tmp_path / "prompt.txt").write_text("the cat ")
    ended = command("train", f"--evaluate={two_runs / 'ln'}", "prompt.txt", "--batch-size=1", "--dump=d.st",
                    cwd=tmp_path)
    assert ended.status == 0, ended.err
    _, arrays = model_file.read_plain(tmp_path / "d.st")
    T = int(arrays["valid"][0].sum())
    qkv = arrays["transformer.h.0.attn.qkv"][0, :T].astype(float)
    weights = attention(qkv[None], 2)[0]
    assert np.allclose(weights.sum(-1), 1) and np.all(weights[:, 0, 1:] == 0)
    values = qkv[:, 16:].reshape(T, 2, 4)
    output = np.einsum("hij,jhd->ihd", weights, values).reshape(T, 8)
    assert np.allclose(output, arrays["transformer.h.0.attn.output"][0, :T], atol=1e-5)


def test_wrong_calls_say_so_in_a_line(run, tiny_run):
    assert run("page.py").status == 2
    missing = run("page.py", "nowhere")
    assert missing.status == 1 and missing.err.startswith("page: nowhere") and missing.err.count("\n") == 1
    assert run("page.py", tiny_run, "-o", "no/such/page.html").status == 1
    shutil.copytree(tiny_run, "other", ignore=shutil.ignore_patterns("*.safetensors"))
    ended = run("page.py", "other", "--prompt=the", "-o", "page.html")
    assert ended.status == 0 and "no model yet" in ended.err


def test_only_a_page_of_a_run_under_way_loads_itself_again(run):
    """A run that diverged is on the page too."""
    import page as script
    put_log("now", [(0, 4, 4), (5, 3, 2.5)])
    put_log("lost", [(0, 4, 4), (7, 1e20, math.nan)])
    put_summary("lost", "diverged", None, 1)
    for names, again in (["lost", "now"], True), (["lost"], False):
        runs, _ = script.read_runs(names, print)
        page = script.page_of(runs, SimpleNamespace(watch=True, title=None, prompt=None))
        assert ('http-equiv="refresh"' in page) == again and "<td>diverged</td>" in page and ">1e+20<" in page
    assert run("page.py", "--watch", "lost").out.startswith("lost/page.html\n")


def test_a_sweep_is_a_picture_by_the_option_and_curves_of_the_best(tmp_path, run):
    """Of 3 norms at 7 learning rates, three curves are shown, not 21; a rate that trains with one seed of two is not the best."""
    for norm, shift in ("ln", 0), ("rms", 0.1), ("bn", 0.2):
        for place, rate in enumerate((1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1)):
            for seed in (1, 2):
                loss = 2 + shift + abs(place - 2) / 10 if place < 4 else 1.5 if (place, seed) == (4, 1) else 4.5  # 4.5 is stuck
                put_run(tmp_path / f"runs/{norm}-{rate}-s{seed}", loss, seed, norm=norm, learning_rate=rate, min_lr=rate / 10,
                        auto=["min-lr"])
    ended = run("page.py", tmp_path / "runs", "-o", tmp_path / "page.html")
    assert ended.status == 0, ended.err
    page = (tmp_path / "page.html").read_text()
    assert 'id="sweep"' in page and "each variant at its best learning-rate" in page
    assert "6 of 21 did not train." in page and page.count('<tr><th scope="row">ln, ') == 7
    curves = {curve["name"]: curve["y"][-1] for curve in Page(page).curves[0]["curves"]}
    assert {name: loss for name, loss in curves.items() if "validation" in name} == pytest.approx(
        {"ln validation": 2.0, "rms validation": 2.1, "bn validation": 2.2})
