"""--sample-interval: lines in samples.txt, and that writing them does not change the run."""
from pathlib import Path

import pytest

from conftest import TINY, put_items, same_arrays
from models import values

LINES = TINY + "--quiet --force --max-iters=6 --learning-rate=0.02 --sample=90".split()


def rows_of(folder):
    """The header, and the texts by steps."""
    header, *rows = Path(folder, "samples.txt").read_text().removesuffix("\n").split("\n")
    assert header == "step\ttext"
    return {int(step): text for step, text in (row.split("\t") for row in rows)}


def test_each_interval_has_a_row_from_the_start_to_the_end(done):
    done(LINES, "--out=out --sample-interval=2 text.txt")
    assert list(rows_of("out")) == [0, 2, 4, 6]


def test_the_last_line_is_the_start_of_the_sample(done):
    """By the same model and the same random numbers."""
    done(LINES, "--out=out --sample-interval=3 --max-iters=60 text.txt")
    line = rows_of("out")[60].replace("\\n", "\n")
    assert len(line) == 72 and Path("out/sample.txt").read_text().startswith(line)


@pytest.mark.parametrize("norm", values("norm"))
def test_lines_change_no_bit_of_a_run(done, norm):
    """Of norms that have a state too: running statistics are read, and not changed."""
    for words in "--out=without", "--out=with --sample-interval=1":
        done(LINES, words, f"--norm={norm} --dropout=0.1 text.txt")
    assert Path("with/sample.txt").read_bytes() == Path("without/sample.txt").read_bytes() != b""
    same_arrays("with/model.safetensors", "without/model.safetensors")


def test_an_item_ends_before_its_end_marker(done):
    put_items("items.txt", 60)
    done(LINES, "--out=out --items --sample-interval=6 --max-iters=120 items.txt")
    item = rows_of("out")[120]
    assert len(item) <= 8 and "\\" not in item


def test_what_could_end_a_row_or_move_a_cursor_is_escaped(done):
    Path("odd.txt").write_bytes(b"a\tb\\c\033[2J\r\302\233 d\n" * 40)
    done(LINES, "--out=out --sample-interval=10 --max-iters=50 --temperature=3 odd.txt")
    said = Path("out/samples.txt").read_bytes()
    assert [part for part in (rb"\n", rb"\t", rb"\\", b"?") if part not in said] == []
    assert [part for part in (b"\033", b"\r", b"\302\233") if part in said] == []
