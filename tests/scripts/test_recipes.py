"""The runs of the report's experiments and the tuning of recipes, on losses that are made up; instruments and texts."""
import itertools
import math
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import needs

needs("scipy", "statsmodels", "jinja2", "tomllib")

from claims import designs, exact, instruments, lab as labs, plan
from claims.plan import FULL, M, MINI, S, XS, Study
from claims.texts import PUBLISHED
from claims.verdicts import claims


class Lab:
    """Knows the loss of every run: a bowl around the best recipe, a little higher with each seed."""
    bases, others = ("text",), ("other",)

    def __init__(self, std=0.08, rate=1e-2, stuck=lambda std, rate, seed: False):
        self.best, self.stuck, self.asked = (std, rate), stuck, []

    def loss_of(self, run):
        std, rate = (run.options.get(name, default) for name, default in (("init-std", 0.02), ("learning-rate", 1e-3)))
        if self.stuck(std, rate, run.seed):
            return math.inf
        return 2 + sum(math.log(a / b) ** 2 for a, b in zip((std, rate), self.best)) / 10 + run.seed / 1e4

    def losses_of(self, runs):
        self.asked += runs
        return [self.loss_of(run) for run in runs]

    def with_start(self, run, factor):
        return run._replace(options={**run.options, "start": f"x{factor}"})

    def longest(self):
        return self.bases[0]

    def part(self, label, count):
        return f"{label}-first-{count}"

    def lines(self, label):
        return f"{label}-lines"

    def spread(self, label, more):
        return f"{label}-spread-{more}"


def planned(size):
    """(experiment, run) of every run of a size."""
    found, lab = {}, Lab()
    for name, one in designs.EXPERIMENTS.items():
        if one.sizes and size.name in (MINI.name, *(some.name for some in one.sizes)):
            yield from ((name, run) for run in one.runs(Study(size, "text", lab, found)))


def test_every_fact_that_a_rule_reads_is_measured_by_a_run():
    """What a measure gives is known from the published measurements. exact.py gives the facts of E11, E13 and E18."""
    metrics, made = {"profile": {"milliseconds", "norm_share", "norm_ms", "log2_norm", "log2_attention", "log2_linear"}}, set()
    for (_, measure), values in labs.lab.Records("none.jsonl", os.path.join(PUBLISHED, "measured.jsonl.xz")).known.items():
        metrics.setdefault(measure, set()).update(values)
    for name, run in itertools.chain(*map(planned, FULL)):
        made |= {(name, metric, run.variant) for measure in run.measures for metric in metrics[measure]}
    for claim in claims():
        assert not {need for need in claim.needs() if need[0] not in ("E11", "E13", "E18")} - made, claim.id


def test_every_command_is_accepted(run):
    """Every option of every run of the trial and of the smallest models, without updates."""
    Path("text.txt").write_text("".join(f"some words to learn from, line {i}\n" for i in range(400)))
    small = "--n-layer=1 --n-embd=16 --batch-size=2 --block-size=8 --quiet --force --out=run".split()
    left_out = ("start", "max-iters", "lr-decay-iters", "warmup-iters", "eval-interval", "probe-interval", "eval-iters", "init-std",
                "learning-rate", "muon-lr")
    commands = {" ".join([re.sub("--seed=[0-9]+", "", " ".join(plan.option_words(one._replace(options={
        **{name: value for name, value in one.options.items() if name not in left_out}, "max-iters": 0, "eval-iters": 1})))),
        *(["--corpus=random"] if one.corpus == labs.RANDOM else [])]) for size in (MINI, XS) for _, one in planned(size)}
    assert len(commands) > 50
    for words in sorted(commands):
        ending = run("train", *words.split(), *([] if "random" in words else ["text.txt"]), *small)
        assert ending.status == 0, words + ending.err


# ---- recipes ----

def best(lab, size):
    return Study(size, "text", lab).recipes([{"norm": "ln"}])[("norm", "ln"),]


def cell(recipe):
    return recipe["init_std"], recipe["learning_rate"]


@pytest.mark.parametrize("std, rate, found, at_end", [
    (0.08, 5.6e-3, (0.08, 5.6e-3), False), (0.08, 1e-2, (0.08, 1e-2), False),  # a quarter of a decade is tried
    (0.64, 1e-1, (0.64, 1e-1), True), (0.32, 1e-2, (0.32, 1e-2), False)])  # the grid grows twice, and then it is flagged
def test_the_best_cell_is_found(std, rate, found, at_end):
    first, second = best(Lab(std, rate), XS)
    assert cell(first) == found and first["at_end"] == at_end and cell(second) != found


def test_a_cell_with_a_stuck_seed_does_not_win():
    assert cell(best(Lab(stuck=lambda std, rate, seed: std == 0.08 and seed == 102), XS)[0])[0] != 0.08


@pytest.mark.parametrize("rates, rate, second", [(designs.OPTIMIZERS["sgd"][1], 30.0, 18.0), (designs.LOWER_RATES, 3e-5, 5.6e-5)])
def test_a_grid_may_grow_beyond_the_rates_of_other_recipes(rates, rate, second):
    study = Study(XS, "text", Lab(rate=rate))
    first, beside = study.recipes([{"norm": "ln"}], rates)[("norm", "ln"),]
    assert (cell(first), cell(beside)[1]) == ((0.08, rate), second) and first["at_end"]
    assert study.near(first, norm="ln")["learning_rate"] == rate


@pytest.mark.parametrize("losses, rate, at_end", [
    (((2.5, 2.5), (2.4, 2.4), (2.3, 2.3)), 1e-1, True), (((2.5, 2.5), (2.4, 2.4), (2.2, 2.4)), 1e-2, False),
    (((2.5, 2.7), (math.inf, math.inf), (2.2, math.inf)), 1e-3, True)])
def test_a_rate_that_fails_for_some_seeds_is_not_taken(losses, rate, at_end):
    """If all do, the mean decides. An end of the grid is taken if it beats its neighbour by a standard error."""
    lab = Lab()
    lab.loss_of = lambda run: dict(zip((1e-3, 1e-2, 1e-1), losses))[run.options["learning-rate"]][run.seed % 2]
    assert Study(XS, "text", lab).tuned(rates=(1e-3, 1e-2, 1e-1), norm="ln") == {"learning_rate": rate, "at_end": at_end}


class Growing(Lab):
    """The best initialization and the best rate fall with each size, by one or two steps of the search each."""
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def loss_of(self, run):
        size = {32: 0, 64: 1, 128: 2}[run.options["n-embd"]] * self.steps
        self.best = 0.16 / 2 ** size, (3e-2, 1e-2, 3e-3, 1e-3, 3e-4)[size]
        return super().loss_of(run)


def test_a_large_model_is_tuned_around_a_smaller_one():
    lab = Growing(1)
    found = Study(M, "text", lab).recipes(designs.groups_of(M)[0])
    assert {cell(best[0]) for best in found.values()} == {(0.04, 3e-3)} and len(found) == 5
    assert not any(best[0]["at_end"] for best in found.values())
    runs = {plan.run_name(run): run for run in lab.asked}.values()
    assert {sum(run.options["n-embd"] == 64 and run.options["norm"] == norm for run in runs) for norm in ("bn", "none")} == {10}


def test_a_search_that_ends_while_it_moves_is_flagged():
    found = Study(S, "text", Growing(2)).recipes(designs.groups_of(S)[0])
    assert len(found) == 5 and all(best[0]["at_end"] for best in found.values())


def test_more_tuning_seeds_may_choose_another_recipe(monkeypatch):
    """The best one by the first seed is worse with the others."""
    lab = Lab()
    lab.loss_of = lambda run: Lab.loss_of(lab, run) + (run.seed > 101 and (cell_of(run), run.options["n-embd"]) == (lab.best, 64))
    first, second = map(cell, best(lab, S))
    monkeypatch.setitem(plan.MORE_TUNING, ("text", "S"), 3)
    assert first == lab.best and list(map(cell, best(lab, S))) == [second, first]
    tried = [(cell_of(run), run.seed) for run in lab.asked if run.options["n-embd"] == 64 and run.seed > 101]
    assert sorted(tried) == sorted((one, seed) for one in (first, second) for seed in (102, 103))


def cell_of(run):
    return run.options["init-std"], run.options["learning-rate"]


def test_a_norm_free_kind_gets_the_best_pair_of_alphas_and_parts_of_a_text_their_runs():
    lab = Lab()
    lab.loss_of = lambda run: Lab.loss_of(lab, run) + sum(abs(float(run.options.get(name, 0.5)) - best) for name, best in
                                                          (("dyt-alpha-attn", 2), ("dyt-alpha", 0.5)))
    runs = list(designs.norm_free_runs(Study(XS, "text", lab)))
    both = [run.options for run in runs if run.variant == "norm=dyt own=both"]
    assert len(both) == 8 and all((one["dyt-alpha-attn"], one["dyt-alpha"], one["embd-scale"]) == (2.0, 0.5, "learned") for one in both)
    assert {run.corpus for run in runs if "characters" in run.variant} == {"text-first-100000", "text-first-4000000"}


def test_names_of_runs_stay():
    """So published measurements stay valid."""
    run = Study(XS, "text", Lab()).runs({"rate": "default"}, norm="ln", learning_rate=1e-3)[0]
    assert plan.run_name(run, 0x12345678) == "text-ln-7229f2c5-s1"


# ---- texts and instruments ----

def test_lines_have_the_same_mean_length():
    text = "word " * 60000
    lengths = {more: [len(line) for line in labs.cut(text, len(text), 32 - more, 32 + more).splitlines()] for more in designs.SPREADS}
    assert set(lengths[0][:-1]) == {32} and min(lengths[29]) == 3 and max(lengths[29]) == 61
    assert all(abs(np.mean(one) - 32) < 1 for one in lengths.values())


def test_instruments_agree_with_direct_computations():
    random = np.random.default_rng(1)
    x = random.standard_normal((40, 10, 5))
    assert instruments.ridge_r2(x, x @ np.array([1.0, -2, 0, 3, 0.5]) + 4) > 0.999
    values = random.standard_normal(50) + 3
    assert all(abs(algorithm(values)[0] - values.var()) < 1e-12 for algorithm in (exact.one_pass, exact.two_pass))
    assert abs(np.abs(exact.normalized_by_hand(np.array([[10.0, 20, 999, -5]]))).max() - 1.7317) < 1e-4  # the article's vector
    arrays = {"transformer.h.0.attn.qkv": random.standard_normal((2, 6, 24))}
    (weights, _), = instruments.all_weights(arrays, SimpleNamespace(options={"n-head": 2, "n-layer": 1}))
    assert np.allclose(weights.sum(-1), 1) and not weights[..., ~np.tri(6, dtype=bool)].any()


def test_inputs_of_linear_layers_are_rounded_and_restored():
    torch = needs("torch")
    import normlab
    model = normlab.Model(normlab.Config(8, n_layer=1, n_embd=8, n_head=2, block_size=4)).eval()
    seen, layer = [], model.transformer["h"][0].mlp.c_fc
    layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    ids = torch.arange(4)[None]
    plain = model(ids)
    with normlab.rounded_inputs(model, 4):
        assert not torch.equal(model(ids), plain)
    assert torch.equal(model(ids), plain)
    assert len(seen[0].unique()) > 15 >= len(seen[1].unique())
