"""--show-layer: what the planner decides, and that it prints every layer."""
import pytest

from conftest import ROOT
from models import values


# Written by ./train --show-layer OPTIONS and read by a person: a value that is stored longer than necessary, or a gradient
# that threads cannot find, is a difference here.
@pytest.mark.parametrize("name, words", [("default", ""), ("peri", "--placement=peri --norm=bn"), ("llama", "--preset=llama --qk-norm=on")])
def test_places_of_values(done, name, words):
    assert done("--show-layer", words).out == (ROOT / f"tests/golden/layers/{name}.txt").read_text()


@pytest.mark.parametrize("words", [*(f"--placement={placement}" for placement in values("placement")),
                                   *(f"--connection={connection}" for connection in values("connection"))])
def test_every_placement_and_connection(done, words):
    out = done("--show-layer --n-layer=2 --n-embd=16", words).out
    assert "\n    inner = attention(q, k, v) " in out and "\n    inner = gelu" in out, "attention or MLP is missing"
    assert "\n    sum = " in out or "\n    streams = WRITE(streams, " in out, "no residual connection"


def test_layers_that_differ_are_shown_one_after_another(done):
    out = done("--show-layer --placement=mix --mix-fraction=0.5").out
    assert "layers 0 to 1 " in out and "layers 2 to 3 " in out
