"""The options of the program, and models that parametrized tests iterate, as options of a small model."""
import functools
import itertools
import json
import subprocess

import pytest

from conftest import TRAIN


@functools.cache
def options():
    """The rows of the program's table of options, by name, as --help=json prints them."""
    table = subprocess.run([TRAIN, "--help=json"], capture_output=True, check=True).stdout
    return {row["name"]: row for row in json.loads(table)["options"]}


def values(name):
    return [value for value in options()[name]["values"] if value != "auto"]


# Norms inside the sub-layers; and blocks: GPT-2's, one like Llama's, one like Gemma 2's, with grouped queries, and one
# of what these have not.
INNERS = NONE, HEADS, WIDTH, SUB = (
    "", " --qk-norm=on --ffn-norm=on",
    " --qk-norm=on --v-norm=on --qk-norm-over=width --qk-scale=learned --embd-scale=learned", " --attn-norm=on --ffn-norm=on")
GPT2, *BLOCKS = (
    "", " --position=rope --rope-theta=20 --act=swiglu --head=untied --attn-gate=head",
    " --position=rope --rope-theta=20 --act=geglu-tanh --n-kv-head=1 --attn-softcap=0.5 --logit-softcap=4",
    " --position=sinusoidal --act=relu2 --n-kv-head=1 --head=untied --ffn-width=10 --attn-gate=element")


def pairs(norms, places):
    """Yields a model's options, and whether only `make check-all` tests it. Norms with placements where one of the two is
    listed; in pre every norm with norms inside its sub-layers; connections; blocks. In `make test`, every norm in pre,
    ln in every placement, and of the rest alternatives take turns."""
    def pair(norm, place, more="", rare=False):
        return f"--norm={norm} --placement={place}{more}", rare
    for n, norm in enumerate(values("norm")):
        for place in values("placement"):
            if norm in norms or place in places:
                yield pair(norm, place, rare=norm != "ln" and place != "pre")
        for inner, turn in ((HEADS, n % 2 == 0), (WIDTH, n % 2 == 1), (SUB, True)):
            yield pair(norm, "pre", inner, norm not in ("ln", "bn", "cln") or not turn)
    for (i, place), connection, (n, norm) in itertools.product(
            enumerate(("pre", "post")), values("connection"), enumerate(("ln", "bn"))):
        if place == "pre" or connection not in ("hyper", "hyper-static", "mhc", "attnres"):  # which have no single stream
            yield pair(norm, place, f" --connection={connection}", i != n)
    for place in "peri", "siamese", "residual":
        yield pair("ln", place, WIDTH)
    for (b, block), (i, inner), (n, norm) in itertools.product(
            enumerate(BLOCKS, 1), enumerate(INNERS), enumerate(("bn", "ln"))):
        yield pair(norm, "pre", inner + block, (b + i) % 2 != n)
    yield pair("ln", "ngpt", BLOCKS[0])


def each(norms=("ln",), places=("pre",)):
    """Parametrizes a test by `model`."""
    return pytest.mark.parametrize("model", [pytest.param(options, marks=[pytest.mark.sweep] if rare else [], id=options.replace("--", ""))
                                             for options, rare in pairs(norms, places)])


# Every norm in pre, with and without norms inside the sub-layers, and ln in every placement.
every_row = each()

# And every norm in pre, post, siamese and ngpt, and every placement with ln, bn and cln: a pass knows nothing of its norms
# but whether they pool over tokens, as bn does, or over the past, as cln does.
every_norm_and_placement = each(("ln", "bn", "cln"), ("pre", "post", "siamese", "ngpt"))
