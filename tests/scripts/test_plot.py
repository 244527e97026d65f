"""The scripts that draw runs, on logs written by hand: the numbers (--table), the pictures in each format, messages about
malformed logs, runs under way, --watch, and events for TensorBoard."""
import itertools
import math
import os
import signal
import subprocess
import xml.dom.minidom
from pathlib import Path

import pytest

from conftest import SCRIPTS, needs, wait_until
from written import HEADER, put_log, put_run, put_summary

needs("matplotlib")


def put(folder, norm="ln", rate=0.01, seed=1, loss=3.0):
    put_run(folder, loss, seed, norm=norm, placement="pre", learning_rate=rate, min_lr=rate / 10, auto=["min-lr"])


def put_rows(folder, reason, rows, seed=1, norm="ln", rate=0.01):
    put_log(folder, rows)
    put_summary(folder, reason, 3, seed, norm=norm, placement="pre", learning_rate=rate, min_lr=rate / 10, auto=["min-lr"])


def expect_picture(name, begin, end):
    data = Path(name).read_bytes()
    assert len(data) > 1000 and data.startswith(begin) and end in data[-16:], name


# ---- numbers ----

def test_means_and_bands_over_seeds(draw):
    # The third seed has fewer rows, the fourth diverged; both have rows that no other seed has.
    put_rows("A/runs/one", "done", [(0, 4, 4), (10, 3, 3), (20, 2, 2)], 1)
    put_rows("A/runs/two", "done", [(0, 6, 5), (10, 5, 4), (20, 3, 3)], 2)
    put_rows("A/runs/three", "interrupted", [(0, 5, 6), (10, 4, 8), (13, 1, None)], 3)
    put_rows("A/runs/four", "diverged", [(0, 4, 4), (7, 900, math.nan)], 4)
    put("A/runs/other", "bn", loss=2.5)
    table, picture = draw("A", "--chart=curves,dots")
    assert {"curves,ln,validation,0,5,4,6,3", "curves,ln,validation,10,5,3,8,3", "curves,ln,validation,20,2.5,2,3,2",
            "curves,ln,training,10,4,3,5,3", "curves,ln,diverged,7,,,,", "curves,bn,validation,10,2.5,,,1",
            "curves,,entropy of the grammar,,0.527,,,", "dots,ln,final,1,2,,,", "dots,ln,final,3,8,,,",
            "dots,ln,best,3,6,,,", "dots,ln,diverged,4,,,,", "dots,ln,mean,,2.5,,,2"} <= set(table)
    assert "training,13," not in "\n".join(table) and "900" not in "\n".join(table)
    for label in (">ln: 2.500 (1 of 4 diverged, 1 of 4 interrupted)<", ">bn: 2.500<", ">diverged<", ">paler: fewer seeds<",
                  ">training step<", ">loss (nats per character)<", ">one seed<", "entropy of the grammar",
                  ">final validation loss (nats per character)<", ">band: lowest to highest<"):
        assert label in picture
    assert ">validation" not in picture, "the legend's title says what the lines are"
    table, picture = draw("A/runs/one", "A/runs/two", "A/runs/three", "--center=median", "--band=sd", "--x=seconds")
    assert 'curves,"ln, pre",validation,1,4,1.35424869,6.64575131,3' in table  # the standard deviation of 3, 4, 8
    assert ">time since the start (s)<" in picture and ">band: ± standard deviation<" in picture


def test_smoothing_is_stated_and_done(draw):
    put_rows("a run", "done", [(0, 8, 9), (1, 2, None), (2, 5, None), (3, 2, None), (4, 2, None), (5, None, 3)])
    table, picture = draw("a run", "--smooth=3", picture="its picture.svg")
    assert {f"curves,a run,{point},,,1" for point in ("training,0,8", "training,1,5", "training,2,3", "training,3,3",
                                                      "training,4,2", "validation,5,3")} <= set(table)
    assert all(label in picture for label in (">training, running mean of 3", "logged values<", ">a run: 3.000<"))


# ---- pictures ----

@pytest.mark.parametrize("count, charts", [(12, {"curves", "dots"}), (13, {"dots"})])
def test_many_lines_are_rows_with_names(draw, count, charts):
    for number in range(count):
        for seed in (1, 2):
            put(f"runs/norm-{number}-{seed}", f"norm-{number}", seed=seed, loss=2 + number / 9)
    table, picture = draw("runs")
    assert {line.split(",")[0] for line in table[1:]} == charts
    assert all(f">norm-{number}<" in picture for number in range(count))
    assert len({line.split(",")[1] for line in table if ",mean," in line}) == count



def test_every_chart_in_every_format(draw, run):
    for number, (norm, rate, seed, loss) in enumerate((
            ("ln", 0.01, 1, 3), ("ln", 0.01, 2, 2.5), ("ln", 0.1, 1, 2), ("ln", 0.1, 2, 99), ("bn", 0.01, 1, 2.25))):
        put(str(number), norm, rate, seed, loss)  # 99 is off the scale, and stuck
    for seed in (1, 2):
        put_rows(f"lost{seed}", "diverged", [(0, 4, 4), (3, math.nan, None)], seed, rate=10)
    table, picture = draw(".", "--title=A title")
    assert {"sweep,ln,final,0.01,2.5,,,", "sweep,ln,mean,0.01,2.75,2.5,3,2", "sweep,ln,mean,0.1,2,2,2,1",
            "sweep,ln,stuck,0.1,99,,,", "sweep,ln,diverged,10,,,,2", "sweep,bn,mean,0.01,2.25,2.25,2.25,1"} <= set(table)
    assert not [line for line in table if line.startswith(("sweep,ln,final,10,", "sweep,ln,mean,10,"))]
    for label in (">learning rate<", ">diverged<", ">stuck: learned only how frequent characters are<", ">1/2<", ">A title<",
                  ">2/2<", ">ln: lowest 2.750 at 0.01<"):
        assert label in picture
    expect_picture("a.svg", b"<?xml", b"</svg>")
    for name, words, begin, end in (("all.png", ("--log-y", "--dpi=50"), b"\x89PNG\r\n\x1a\n", b"IEND"),
                                    ("all.pdf", ("--by=run", "--log-x"), b"%PDF-", b"%%EOF")):
        ending = run("plot.py", ".", "--chart=curves,dots,sweep", *words, "-o", name)
        assert (ending.status, ending.out, ending.err) == (0, f"{name}\n", "")
        expect_picture(name, begin, end)


def test_a_picture_for_each_folder_of_runs(run):
    put("runs/one"), put("runs/two/a"), put("runs/two/b")
    Path("runs/none").mkdir()
    ending = run("plot.py", "--each", "runs", "--dpi=20")
    assert (ending.status, ending.out) == (0, "runs/loss.png\nruns/two/loss.png\n"), ending.err
    assert "have the same options and seed" in ending.err  # a and b are not two seeds
    expect_picture("runs/two/loss.png", b"\x89PNG", b"IEND")


def test_pictures_need_no_scipy(run):
    put("runs/one")
    Path("bad/scipy").mkdir(parents=True)
    Path("bad/scipy/__init__.py").write_text("raise ImportError('No module named scipy')")
    ending = run("plot.py", "runs", "-o", "a.png", "--dpi=20", env={"PYTHONPATH": "bad"})
    assert (ending.status, ending.out, ending.err) == (0, "a.png\n", "")


def test_names_are_no_mathematics(draw):
    put("runs/_a$x^$"), put("runs/b$\\frac$", "bn", loss=2.0)
    put("runs/c", "bn", loss=2.0)  # options do not tell the last two apart
    _, picture = draw("runs", "--by=run", "--chart=curves,dots", "--title=$^$")
    for label in ("> _a$x^$: 3.000<", ">b$\\frac$: 2.000<", ">$^$<"):
        assert label in picture


@pytest.mark.parametrize("name, shown", [("a\x1bb", "a\\x1bb"), ("no character\ufffe", "no character\\ufffe"),
                                         ("\udcff", "\\udcff")])
def test_characters_that_no_picture_can_hold_are_spelled_out(run, name, shown):
    """A folder's name may have every byte but NUL and the slash."""
    put(name)
    for words, file in (("plot.py", "--chart=curves,dots"), "a.svg"), (("page.py", f"--title={name}"), "a.html"):
        ending = run(*words, name, "-o", file)
        assert (ending.status, ending.err) == (0, ""), ending
        text = Path(file).read_text(encoding="utf-8")
        assert shown in text and not set(text) & {*map(chr, range(9)), "\x1b", "\ufffe"}
    xml.dom.minidom.parse("a.svg")


@pytest.mark.parametrize("name", ["诗", "two 𐎀𐎁"])
def test_a_character_without_a_glyph_is_spelled_out(run, name):
    """In a picture of glyphs, unless an installed font has it. The text of an SVG stays text."""
    from plots import looks
    put(f"runs/{name}"), put("runs/b", "bn", seed=1)
    spelled = "".join(c.encode("unicode_escape").decode() if looks.font_for(c) is None else c for c in name)
    lost = " ".join(sorted({c for c in name if looks.font_for(c) is None}))
    for picture, begin in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF-")):
        ending = run("plot.py", "runs", "--by=run", "-o", picture, f"--title={name}")
        words = f"plot: {picture}: no installed font has {lost} (an .svg leaves the fonts to its viewer)\n"
        assert (ending.status, ending.err) == (0, words if lost and picture != "a.svg" else "")
        assert Path(picture).read_bytes().startswith(begin)
    assert f">{name}<" in Path("a.svg").read_text(encoding="utf-8")
    looks.set_font(None, "a.png")
    assert looks.literal(name) == spelled and looks.SPELLED == {c for c in name if looks.font_for(c) is None}
    looks.set_font(None, "a.svg")
    assert looks.literal(name) == name and not looks.SPELLED


# ---- malformed logs ----

def test_bad_logs_are_named_and_the_others_drawn(run):
    bad = {"empty": ("", "empty/log.csv: empty"), "header": (HEADER, "header/log.csv: only the header"),
           "cells": (HEADER + "0,0,0,1,4\n", "cells/log.csv: damaged: line 2 has 5 cells"),
           "number": (HEADER + "0,0,0,1,x,,1,\n", "number/log.csv: damaged: line 2: could not convert"),
           "columns": ("step,loss\n0,4\n", "columns/log.csv: damaged: line 1 names no column")}
    for folder, (log, _) in bad.items():
        Path(folder).mkdir()
        Path(folder, "log.csv").write_text(log)
    put("good"), put("torn")
    Path("torn/summary.json").write_text('{"exit_reason": ')
    Path("hollow").mkdir()
    ending = run("plot.py", "good", *bad, "torn", "hollow", "nosuch", "-o", "a.svg")
    assert (ending.status, ending.out) == (1, "a.svg\n")
    for complaint in (*(complaint for _, complaint in bad.values()), "torn/summary.json: damaged",
                      "hollow: no run in it", "nosuch: no such folder"):
        assert complaint in ending.err
    assert "Traceback" not in ending.err and ">good: 3.000<" in Path("a.svg").read_text()
    ending = run("plot.py", "nosuch", "-o", "b.svg")
    assert (ending.status, ending.err) == (
        1, "plot: nosuch: no such folder (a RUN is a folder that ./train --out made)\n") and not Path("b.svg").exists()


def test_a_run_under_way(run):
    put_log("runs/now", [(0, 4, 4), (5, 3, None), (10, 2.5, 2.75)])
    with open("runs/now/log.csv", "a", encoding="utf-8") as log:
        log.write("15,1.5,14")
    Path("runs/next").mkdir()
    for seed, name in enumerate(("now", "next"), 1):
        Path(f"runs/{name}/config.ini").write_text(f"norm = ln\nplacement = pre\nlearning-rate = 0.01\nseed = {seed}\n")
    ending = run("plot.py", "runs", "-o", "now.svg", "--table=-")
    assert ending.status == 0 and "runs/next/log.csv: No such file" in ending.err  # it has not started
    assert "\ncurves,now,validation,10,2.75,,,1\n" in ending.out
    assert ">now: 2.750 (running at step 10)<" in Path("now.svg").read_text()


def test_a_table_goes_through_links(run):
    put_log("runs/now", [(0, 4, 4), (10, 2.5, 2.75)])
    Path("link.csv").symlink_to("table.csv")
    assert run("plot.py", "runs", "-o", "now.svg", "--table=link.csv").status == 0
    assert Path("link.csv").is_symlink() and ",2.75," in Path("table.csv").read_text()


# ---- --where ----

@pytest.mark.parametrize("command", [["plot.py", "--table=-", "-o", "made.png"], ["table.py"], ["compare.py", "--baseline=norm=ln"],
                                     ["page.py", "-o", "made.html"]], ids=lambda words: words[0])
def test_where_leaves_the_runs_with_these_values(run, command):
    """Also if all runs of a grid have one value, which its lines have after the seed."""
    def said(*words):
        ending = run(*command, *words)
        assert (ending.status, ending.err) == (0, "")
        return ending.out, [path.read_bytes() for path in Path().glob("made*")]

    lines = []
    for i, (norm, seed) in enumerate(itertools.product(("ln", "bn"), (1, 2))):
        for folder, layers in ("all", 6), ("all", 2), ("six/runs", 6):
            put_run(f"{folder}/{i}-{layers}", layers / 2 + seed / 16 + (norm == "bn") * layers / 16, seed, norm=norm, n_layer=layers)
        lines.append(f"{i}-6 --norm={norm} --seed={seed} --n-layer=6\n")
    assert said("all", "--where=n-layer=6") == said("six/runs") != said("all", "--where=n-layer=2")
    Path("six/grid.txt").write_text("".join(lines))
    assert said("six", "--where=n-layer=6") == said("six")
    ending = run(*command, "six", "--where=n-layer=2")
    assert (ending.status, ending.err) == (1, f"{command[0][:-3]}: --where=n-layer=2: no such run (there are 6)\n")


# ---- --watch ----

@pytest.mark.parametrize("script", ["plot.py", "page.py"])
def test_watch_waits_for_the_runs_of_where(run, script):
    put_log("a/one", [(0, 4, 4), (5, 3, None)])
    for name, norm in ("one", "ln"), ("two", "bn"):
        Path("a", name).mkdir(exist_ok=True)
        Path("a", name, "config.ini").write_text(f"norm = {norm}\nseed = 1\n")
    with subprocess.Popen([SCRIPTS / script, "--watch", "a", "--where=norm=bn", "-o", "a.svg"], stdout=subprocess.PIPE,
                          text=True) as watching:
        assert [watching.stdout.readline() for _ in range(2)] == ["a.svg\n", "waiting for the first row of a log\n"]
        put_log("a/two", [(0, 4, 4), (5, 3.5, None)])
        assert watching.stdout.readline().startswith("two  step 5  train 3.500")
        put("a/two", "bn", loss=2.5)
        assert watching.wait(600) == 0  # though the other one is under way
    ending = run(script, "--watch", "a/two", "--where=norm=ln", "-o", "a.svg")
    assert ending.status == 1 and ending.err.endswith("--where=norm=ln: no such run (there are bn)\n")


@pytest.fixture
def watched(run):
    """plot.py --watch on a run under way, which has drawn once."""
    put_log("run", [(0, 4, 4), (5, 3, None)])
    with subprocess.Popen([SCRIPTS / "plot.py", "--watch", "run", "-o", "run.svg"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,  # a job in the background ignores SIGINT, and so would this
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        wait_until(lambda: Path("run.svg").exists())
        yield process
        process.kill()


def test_watch_draws_again_until_the_run_has_ended(watched):
    put_rows("run", "done", [(0, 4, 4), (5, 3, None), (10, None, 2.75)])
    out, err = watched.communicate(timeout=600)
    assert (watched.returncode, err) == (0, "")
    assert "run  step 5  train 3.000  val 4.000\n" in out
    assert "run  step 10  train 3.000  val 2.750  done\n" in out
    assert ">run: 2.750<" in Path("run.svg").read_text()


def test_watch_waits_for_the_runs_of_an_ablation(run):
    """It shows those that have started, and ends when each has ended, also one that failed before it started."""
    put("a/runs/one"), put("a/runs/two", "bn", loss=2.0)
    Path("a/grid.txt").write_text("one --seed=1\ntwo --seed=1\nlater --seed=1\nfailed --seed=1\n")
    Path("a/driver").mkdir()
    Path("a/driver/failed.status").write_text("ended 2 0\n")
    with subprocess.Popen([SCRIPTS / "page.py", "--watch", "a", "-o", "a.html"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout.readline() == "a.html\n" and "2 of 2 ended" in watching.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            watching.wait(8)
        put("a/runs/later", "rms", loss=2.5)
        assert watching.wait(600) == 0
    assert "rms" in Path("a.html").read_text(encoding="utf-8")


def test_watch_ends_by_interrupt(watched):
    watched.send_signal(signal.SIGINT)
    _, err = watched.communicate(timeout=600)
    assert (watched.returncode, err) == (130, "")
    assert sorted(os.listdir()) == ["run", "run.svg"]


# ---- TensorBoard ----

WRITER = """class SummaryWriter:
    def __init__(self, folder, filename_suffix):
        self.file = open(f'{folder}/events.out.tfevents.1{filename_suffix}', 'a')
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def _get_file_writer(self): return self
    def add_summary(self, record): print(*record, file=self.file)
    def add_scalar(self, name, value, step, walltime):
        self.start = getattr(self, 'start', walltime)
        print(name, step, value, round(walltime - self.start, 3), file=self.file)
"""
EVENTS = """options ln grammar 7
train_loss 0 4.0 0.0\ntrain_loss 5 3.0 0.5\ntrain_loss 10 nan 1.0
val_loss 0 4.5 0.0\nval_loss 10 2.75 1.0
lr 0 0.01 0.0\nlr 5 0.01 0.5\nlr 10 0.01 1.0
grad_norm 0 1.0 0.0\ngrad_norm 5 1.0 0.5\ngrad_norm 10 1.0 1.0
tokens_per_second 0 960.0 0.0\ntokens_per_second 5 960.0 0.5\ntokens_per_second 10 960.0 1.0
dist_mean/layer 1/ln_1 0 0.5 0.0\ndist_mean/layer 1/ln_1 10 0.25 1.0
stream_rms/embd 0 2.0 0.0
"""


def test_events_for_tensorboard(run):
    """With a package in place of tensorboardX that writes down its calls."""
    for name, text in (("__init__", WRITER), ("summary", "def hparams(options, metrics):\n"
                       "    return [('options', options['norm'], options['corpus'], options['seed'])]\n")):
        Path("tensorboardX").mkdir(exist_ok=True)
        Path(f"tensorboardX/{name}.py").write_text(text)
    put_rows("runs/a", "diverged", [(0, 4, 4.5), (5, 3, None), (10, math.nan, 2.75)], 7)
    Path("runs/a/probes.csv").write_text(
        "step,layer,site,metric,value\n0,1,ln_1,dist_mean,0.5\n0,,embd,stream_rms,2\n"
        "5,1,ln_1,dist_mean,nan\n10,1,ln_1,dist_mean,0.25\n")
    for words in ((), ("--out=all of them",), ()):
        ending = run("to_tensorboard.py", "runs", *words, env={"PYTHONPATH": "."})
        assert (ending.status, ending.err) == (0, "") and (words or ending.out == "runs/a\n")
    for folder in ("runs/a", "all of them/a"):
        assert Path(folder, "events.out.tfevents.1.normlab").read_text() == EVENTS
    for name in "tensorboardX", "torch":
        Path(name).mkdir(exist_ok=True)
        Path(name, "__init__.py").write_text(f"raise ImportError('no {name}')\n")
    ending = run("to_tensorboard.py", "runs", env={"PYTHONPATH": "."})
    assert ending.status == 1 and "to_tensorboard: no tensorboardX and no torch (" in ending.err
