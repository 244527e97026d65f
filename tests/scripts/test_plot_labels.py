"""Which options distinguish runs in scripts/plot.py and scripts/table.py (not those that only watch, follow from others
or have no effect), and the rest of the table."""
import re
from pathlib import Path

import pytest

from conftest import ROOT
from planted import HEADER, put_run

pytest.importorskip("matplotlib", reason="scripts/deps.sh plot installs it")

HAND = dict(placement="pre", n_layer=1, n_embd=64, n_head=4, bn_momentum=0.1, norm_groups=4, max_iters=200,
            lr_decay_iters=200, learning_rate=3e-3, min_lr=3e-4, eval_iters=10, threads=1)
FIRST = dict(HAND, n_layer=2, max_iters=100, lr_decay_iters=100, learning_rate=1e-3, min_lr=1e-4)


@pytest.fixture
def table(run):
    """The lines that table.py prints; it must succeed without a word on standard error."""
    def lines(*words):
        ending = run("table.py", *words)
        assert (ending.status, ending.err) == (0, ""), ending.err
        return ending.out.splitlines()
    return lines


def test_the_list_of_watching_options_is_whole():
    """Options that may change on --resume do not change what a run learns, except for the text and the length."""
    from common.run_options import WATCHING
    tables = "".join(path.read_text() for path in sorted((ROOT / "model/lab").glob("config*.c")))
    free = {row[1] for row in re.finditer(r'\{"([a-z-]+)", OPTION_(?:(?!\n    \{).)*?OPTION_FREE', tables, re.S)}
    assert len(free) > 5 and free - set(WATCHING) == {"corpus", "max-iters", "max-seconds", "stop-at"}


def test_runs_made_by_hand_have_their_folders_names(draw):
    put_run("runs/first try", 3, **FIRST)
    put_run("runs/wide", 2.5, **{**HAND, "n_embd": 128, "eval_iters": 20, "threads": 2})
    _, picture = draw("runs")
    assert ">first try: 3.000<" in picture and ">wide: 2.500<" in picture and "n-layer" not in picture
    put_run("runs/wide-s2", 2.7, seed=2, **{**HAND, "n_embd": 128})
    Path("runs/wide").rename("runs/wide-s1")
    _, picture = draw("runs")  # eval-iters and threads make no variant
    assert ">first try: 3.000<" in picture and ">wide: 2.600<" in picture
    # In an ablation, and where names do not help: options, except those that follow from others.
    Path("grid.txt").touch()
    _, picture = draw(".")
    assert ">n-layer 1, n-embd 128, max-iters 200, learning-rate 3e-3: 2.600<" in picture
    assert "min-lr" not in picture and "eval-iters" not in picture


def test_options_without_effect_make_no_variant(run, tmp_path):
    (tmp_path / "grid.txt").touch()
    for i, (norm, momentum) in enumerate((("ln", 0.1), ("ln", 0.01), ("bn", 0.1), ("bn", 0.01))):
        put_run(f"runs/{norm}{i % 2}", 2 + 0.25 * i, **{**FIRST, "norm": norm, "bn_momentum": momentum})
    ending = run("plot.py", ".", "-o", "a.svg")
    assert (ending.status, ending.err) == (0, "plot: ./runs/ln1 is left out: it differs from ./runs/ln0 only in "
                                              "bn-momentum, which has no effect there\n")
    picture = Path("a.svg").read_text()
    for text in "ln: 2.000", "bn, bn-momentum 0.1: 2.500", "bn, bn-momentum 0.01: 2.750":
        assert f">{text}<" in picture


@pytest.mark.parametrize("more", [0, 1])
def test_updates_that_equal_tokens_ask_for_make_no_variant(table, more):
    """Grids at equal tokens: larger batches have fewer updates, which is no difference of its own."""
    for i, (batch, updates) in enumerate(((1, 1000), (4, 250), (6, 167))):
        put_run(f"runs/{i}", 2 + 0.25 * i, placement="pre", batch_size=batch, grad_accum=1, block_size=16,
                max_iters=updates + more * i)
    head = table("runs")[0]
    assert "batch-size" in head and ("max-iters" in head) == bool(more)


def test_the_training_part_is_drawn_where_it_was_measured(draw):
    put_run("old", 3, placement="pre")
    put_run("new", 2.5, norm="bn", placement="pre")
    Path("new/log.csv").write_text(HEADER.rstrip() + ",eval_train_loss\n0,0,0,0.01,4,4,1,960,3.5\n"
                                   "5,0.5,480,0.01,3,,1,960,\n10,1,960,0.01,,2.5,1,960,2.25\n")
    table, picture = draw("old", "new")
    measured = [line for line in table if "training split" in line]
    assert measured == [f"curves,new,training split,{step},{loss},,,1" for step, loss in ((0, 3.5), (10, 2.25))]
    assert ">training split, evaluated<" in picture
    for words in ["old", "new", "--lines=val,train"], ["old"]:
        table, picture = draw(*words)
        assert "training split" not in "".join(table) + picture


# ---- the table -----------------------------------------------------------------------------------

def test_a_table_of_runs_made_by_hand(table):
    put_run("runs/a", 3, **FIRST)
    put_run("runs/b", 2.5, **{**HAND, "bn_momentum": 0.2, "eval_iters": 20, "threads": 2})
    head, _, *rows = table("runs")
    assert head.startswith("| run | n-layer | max-iters | learning-rate | median |")
    assert "| a | 2 | 100 | 1e-3 | 3.0000 | 3.0000 |  | 3.0000 | 1 | 0 | 0 | 0 | 2 |" in rows
    put_run("runs/b2", 2.7, seed=2, **HAND)
    assert ("| 1 | 200 | 3e-3 | 2.6000 | 2.6000 ± 0.1414 | 2.5000 to 2.7000 | 2.6000 ± 0.1414 | 2 | 0 | 0 | 0 | 2 |"
            in table("runs/a", "runs/b", "runs/b2"))


def test_the_table_names_the_grammar(table):
    for i, corpus in enumerate((None, "a.txt")):
        put_run(f"runs/{i}", 2, corpus=corpus, placement="pre")
    rows = "\n".join(table("runs"))
    assert "| 0 | grammar | 2.0000 |" in rows and "| 1 | a.txt | " in rows


def test_where_a_run_starts_is_named(table, draw):
    """Runs of versions without --start had random weights."""
    put_run("runs/1", 3, **FIRST)
    put_run("runs/2", 2, **FIRST, start="runs/first")
    put_run("runs/3", 2, seed=2, **FIRST, start=None)
    _, picture = draw("runs")
    assert ">start random: 2.500<" in picture and ">start first: 2.000<" in picture
    rows = "\n".join(table("runs/2", "runs/3"))
    assert "| runs/first | 2.0000 |" in rows and "| random | 2.0000" in rows


@pytest.mark.parametrize("status, words, why", [
    (2, [], "table: the following arguments are required: FOLDER | RUN"),
    (2, ["--cvs=x", "runs"], "table: unrecognized arguments: --cvs=x"),
    (2, ["--csv=", "runs"], "table: --csv: must name a file"),
    (1, ["nosuch"], "table: nosuch: no run in it (a RUN is")])
def test_wrong_commands_of_the_table(run, status, words, why):
    ending = run("table.py", *words)
    assert ending.status == status and why in ending.err and ending.err.count("\n") == 1 and not ending.out


def test_help_of_the_table(table):
    assert any("scripts/table.py [--csv=FILE] FOLDER | RUN..." in line for line in table("--help"))
