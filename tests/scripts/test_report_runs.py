"""The runs of a report: what a claim costs, other texts, how recipes are tuned on planted losses (the grid grows, stuck
seeds do not win, trials are equal), the instruments of E10 and E24, and which runs a continued report repeats."""
import csv
import json
import math
from types import SimpleNamespace
import types

import numpy as np
import pytest

pytest.importorskip("scipy", reason="scripts/deps.sh report installs it")
pytest.importorskip("jinja2", reason="scripts/deps.sh report installs it")

import report
from reports import AnyLab
from claims import designs, lab as labs, outliers, plan, recipes


# ---- costs of a claim ----

def test_claims_are_listed_with_their_cost_and_runs(run, tmp_path):
    ending = run("report.py", "--size=mini", "--list-claims", "--jobs=2")
    assert ending.status == 0 and not ending.err, ending.err
    lines = {line.split()[0]: line for line in ending.out.splitlines()}
    assert len(lines) > 60 and " E11 " in lines["B4"] and " no runs " in lines["B4"]
    ending = run("report.py", "--size=mini", "--claim=A17", "--list", "--jobs=2", "--out=r")
    cost = ending.err.removeprefix("report: ").strip()
    assert ending.status == 0 and " E1 E3 " in lines["A17"] and f" {cost} " in lines["A17"], ending.err
    assert " runs, " in cost and " on 2 cores" in cost
    listed = len((tmp_path / "r/wanted.txt").read_text().splitlines())
    assert ending.out.startswith(f"r/wanted.txt: {listed} runs; runs at tuned learning rates are listed once")
    assert listed < int(cost.split()[1 if cost.startswith("about") else 0])


@pytest.mark.parametrize("words", [["--list"], []])
def test_a_claim_without_runs_in_a_fresh_folder(run, tmp_path, words):
    ending = run("report.py", "--size=mini", "--claim=D9", "--out=r", *words)
    assert ending.status == 0, ending.err
    if words:
        assert ending.out == "no runs are missing: nothing to list\n"
        return
    assert "report: no runs\n" in ending.err
    verdict, first, *rest = ending.out.splitlines()
    assert verdict.split()[:2] == ["D9", "false"]
    assert first.startswith("  decided by ") and first.endswith(": fails")
    assert not any("decided by" in line for line in rest)
    page = (tmp_path / "r/report.html").read_text()
    assert 0 < page.find("The claim that was asked for: D9") < page.find("<section", page.find("<section") + 1)
    assert "The role of LayerNorm in the Transformer architecture" in page


# ---- other texts ----

TEXT = "the cat sees a dog, and the dog sees the cat.\n" * 120


def test_another_text_has_facts_of_its_own(run, tmp_path):
    (tmp_path / "first.txt").write_text(TEXT)
    (tmp_path / "second.txt").write_text(TEXT[::-1])
    ending = run("report.py", "--size=mini", "--only=E23", "--corpus=first.txt", "--other-corpus=second.txt", "--out=r")
    assert ending.status == 0, ending.err
    with open(tmp_path / "r/facts.csv", encoding="utf-8", newline="") as file:
        losses = [row for row in csv.reader(file) if row[0] == "E23" and "val_loss" in row]
    for norm in ("none", "ln", "rms", "bn"):
        for text in ("first", "second"):
            assert len({row[-1] for row in losses if text in row and f"norm={norm}" in row}) > 1, (norm, text)


# ---- recipes ----

XS, S, M = plan.LEVELS["full"][0]


class Lab(AnyLab):
    """Knows the loss of every run, of a bowl around its best recipe."""

    def __init__(self, std=0.08, rate=1e-2, stuck=lambda std, rate, seed: False):
        self.best, self.stuck = (std, rate), stuck

    def loss_of(self, run):
        std, rate = (run.options.get(name, default) for name, default in (("init-std", 0.02), ("learning-rate", 1e-3)))
        if self.stuck(std, rate, run.seed):
            return math.inf
        return 2 + sum(math.log(a / b) ** 2 for a, b in zip((std, rate), self.best)) / 10 + run.seed / 1e4


def best(lab, size, options=None):
    options = options or {"norm": "ln"}
    return plan.Study(size, "text", lab).recipes([options])[tuple(options.items())]


def cell(recipe):
    return recipe["init_std"], float(recipe["learning_rate"])


@pytest.mark.parametrize("rate", [5.6e-3, 1e-2])  # a quarter of a decade is tried for small models
def test_the_best_cell_is_found(rate):
    first, second = best(Lab(rate=rate), XS)
    assert cell(first) == (0.08, rate) and cell(second)[0] == 0.08 and not first["learning_rate"].at_end


def test_the_grid_grows_where_the_best_is_at_an_end():
    first = best(Lab(std=0.64, rate=1e-1), XS)[0]
    assert cell(first) == (0.64, 1e-1) and first["learning_rate"].at_end  # twice, and then it is flagged
    first = best(Lab(std=0.32), XS)[0]
    assert cell(first) == (0.32, 1e-2) and not first["learning_rate"].at_end


@pytest.mark.parametrize("rates, rate, second", [(recipes.OPTIMIZERS["sgd"][1], 30.0, 18.0), (recipes.LOWER_RATES, 3e-5, 5.6e-5)])
def test_a_grid_may_grow_beyond_the_rates_of_other_recipes(rates, rate, second):
    study = plan.Study(XS, "text", Lab(rate=rate))
    first, beside = study.recipes([{"norm": "ln"}], rates)[("norm", "ln"),]
    assert (cell(first), cell(beside)[1]) == ((0.08, rate), second) and first["learning_rate"].at_end
    assert study.near(first, norm="ln")["learning_rate"] == rate


def test_a_cell_with_a_stuck_seed_does_not_win():
    assert cell(best(Lab(stuck=lambda std, rate, seed: std == 0.08 and seed == 102), XS)[0])[0] != 0.08


def test_recipes_are_unknown_until_all_runs_have_ended(monkeypatch):
    monkeypatch.setattr(Lab, "loss_of", lambda self, run: None)
    study = plan.Study(XS, "text", Lab())
    assert study.recipes([{"norm": "ln"}]) == {} and len(study.wanted) == 20
    assert all(run.options["hold-out"] == plan.HELD_OUT and run.seed == 101 for run in study.wanted)


def test_all_variants_of_a_group_have_the_same_number_of_trials():
    lab = Lab(std=0.16, stuck=lambda std, rate, seed: rate >= 0.1)
    study = plan.Study(XS, "text", lab)
    assert set(study.recipes(recipes.groups_of(XS)[0]))
    counts = {}
    for run in {plan.run_name(run): run for run in study.wanted}.values():
        variant = run.options["norm"], run.options.get("placement")
        counts[variant] = counts.get(variant, 0) + 1
    assert len(counts) == 5 and max(counts.values()) - min(counts.values()) <= 4 * 4  # quarters differ


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
    study = plan.Study(M, "text", Growing(1))
    found = study.recipes(recipes.groups_of(M)[0])
    assert {cell(best[0]) for best in found.values()} == {(0.04, 3e-3)} and len(found) == 5
    assert not any(best[0]["learning_rate"].at_end for best in found.values())
    runs = {plan.run_name(run): run for run in study.wanted}.values()
    assert {sum(run.options["n-embd"] == 64 and run.options["norm"] == norm for run in runs)
            for norm in ("bn", "none")} == {10}  # three crosses of five cells share some


def test_a_search_that_ends_while_it_moves_is_flagged():
    found = plan.Study(S, "text", Growing(2)).recipes(recipes.groups_of(S)[0])
    assert len(found) == 5 and all(best[0]["learning_rate"].at_end for best in found.values())


@pytest.mark.parametrize("runs_of, size, variants", [
    (recipes.factor_runs, XS, ("norm=bn width=64", "depth=8 norm=none", "norm=ln updates=70%")),
    (recipes.factor_runs, S, ("norm=bn width=64", "depth=8 norm=none", "norm=ln updates=70%")),
    (recipes.outlier_runs, XS, ("norm=derf optimizer=sgd placement=pre", "norm=bn optimizer=muon placement=pre",
                                "norm=ln optimizer=adamw placement=peri"))])
def test_runs_have_the_best_recipe(runs_of, size, variants):
    runs = list(runs_of(plan.Study(size, "text", Lab())))
    assert {run.variant for run in runs} >= set(variants) and all("init-std" in run.options for run in runs)


# ---- instruments ----

RANDOM = np.random.default_rng(1)


def test_an_outlier_channel_and_an_attention_sink_are_seen():
    x = RANDOM.standard_normal((8, 16, 32))
    assert abs(outliers.kurtosis(x)) < 0.2 and outliers.peak(x) < 6
    x[..., 3] *= 100
    assert outliers.kurtosis(x) > 20
    equal, sink = np.tril(np.ones((2, 4, 16, 16))), np.zeros((2, 4, 16, 16))
    equal, sink[..., 0] = equal / equal.sum(-1, keepdims=True), 1
    assert outliers.first_share(equal)[1] == pytest.approx(1) and outliers.first_share(sink)[0] == 1


def test_inputs_of_linear_layers_are_rounded_and_restored():
    torch = pytest.importorskip("torch")
    import normlab
    model = normlab.Model(normlab.Config(8, n_layer=1, n_embd=8, n_head=2, block_size=4)).eval()
    seen, layer = [], model.transformer["h"][0].mlp.c_fc
    layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    ids = torch.arange(4)[None]
    exact = model(ids)
    with normlab.rounded_inputs(model, 4):
        assert not torch.equal(model(ids), exact)
    assert torch.equal(model(ids), exact)
    plain, coarse, _ = seen
    assert len(plain.unique()) > 15 >= len(coarse.unique())


def test_muon_has_a_rate_of_its_own_and_decay_can_be_off():
    class OwnRate(Lab):
        """Losses are lowest where Muon's rate is a third of the others'."""
        def loss_of(self, run):
            rate, own = (float(run.options.get(name, 1e-3)) for name in ("learning-rate", "muon-lr"))
            return super().loss_of(run) + abs(math.log(own / rate * 3)) * ("muon-lr" in run.options)

    found = {}
    for run in recipes.optimizer_runs(plan.Study(XS, "text", OwnRate())):
        found.setdefault(run.variant, []).append(run.options)
    own = found["norm=bn optimizer=muon own=rate"]
    assert len(own) == 8 and all(2.5 < one["learning-rate"] / one["muon-lr"] < 4 for one in own)
    assert not any("muon-lr" in one for one in found["norm=bn optimizer=muon"])
    for name in ("adamw", "muon"):
        assert all(one["weight-decay"] == 0 for one in found[f"decay=off norm=ln optimizer={name}"])
        assert not any("weight-decay" in one for one in found[f"norm=ln optimizer={name}"])
    assert not any("sgd" in variant and ("own" in variant or "decay" in variant) for variant in found)


class Alphas(Lab):
    """Losses are lowest with alpha 2 in attention and 0.5 elsewhere, and lower with a learned scale."""
    def loss_of(self, run):
        known = [float(run.options.get(name, 0.5)) for name in ("dyt-alpha-attn", "dyt-alpha")]
        return super().loss_of(run) + abs(known[0] - 2) + abs(known[1] - 0.5) - 0.1 * ("embd-scale" in run.options)


def test_a_norm_free_kind_gets_the_best_pair_of_alphas_and_parts_of_a_text_their_runs():
    runs = list(recipes.norm_free_runs(plan.Study(XS, "text", Alphas())))
    both = [run.options for run in runs if run.variant == "norm=dyt own=both"]
    assert len(both) == 8 and all((one["dyt-alpha-attn"], one["dyt-alpha"], one["embd-scale"]) == (2.0, 0.5, "learned")
                                  for one in both)
    assert not any("dyt-alpha" in run.options for run in runs if "own=scale" in run.variant or "own=off" in run.variant)
    runs = [run for run in runs if "characters" in run.variant]
    assert {run.corpus for run in runs} == {f"text-first-{count}" for count in (100000, 1000000, 4000000)}
    assert {run.options["max-iters"] for run in runs} == {recipes.LONGER * XS["max-iters"]}


def test_lines_have_the_same_mean_length(tmp_path):
    text = "word " * 60000
    lengths = {more: [len(line) for line in labs.cut(text, len(text), 32 - more, 32 + more).splitlines()]
               for more in designs.SPREADS}
    assert set(lengths[0][:-1]) == {32} and min(lengths[29]) == 3 and max(lengths[29]) == 61
    assert all(abs(np.mean(one) - 32) < 1 for one in lengths.values())


# ---- a report that is continued ----

ENDING = {"val_loss": 2.0, "accuracy": 0.5}


@pytest.fixture
def continued(monkeypatch):
    """Continues a report that has measured a run of each (norm, optimizer, layers), which ends here as `here`, there as
    `there`; returns the options of the runs that it repeats."""
    def names(runs, here, there):
        made = {f"run{number}": plan.Run({"norm": norm, "n-layer": layers, **({"optimizer": optimizer} if optimizer else {})},
                                         "text", "", 1, ("ending",))
                for number, (norm, optimizer, layers) in enumerate(runs)}
        repeated = {}
        records = SimpleNamespace(known=dict.fromkeys(made), programs={}, is_taken_over=lambda name, measure: True,
                                  find=lambda name, measure: there, keep=lambda *measured: None)
        lab = SimpleNamespace(records=records, ended=lambda run: run in repeated.values(), folder_of=lambda run: "",
                              train=report.__file__)
        monkeypatch.setattr(report, "run_list", lambda options, lab, missing, alone: repeated.update(missing))
        monkeypatch.setattr(report, "ending", lambda lab, folder, run: here)
        report.expect_same_numbers(SimpleNamespace(other="measured", out="r", page=False), lab, made)
        return [runs[int(name.removeprefix("run"))] for name in repeated]
    return names


def test_the_cheapest_run_of_each_norm_and_optimizer_is_repeated(continued):
    """So a change of one optimizer is seen. AdamW is the default."""
    runs = [("ln", None, 4), ("ln", None, 2), ("bn", "muon", 6), ("ln", "muon", 4), ("bn", "adamw", 4), ("ln", "sgd", 4)]
    assert continued(runs, ENDING, ENDING) == [runs[place] for place in (1, 3, 4, 5)]


@pytest.mark.parametrize("there,what", [({"val_loss": 2.01, "accuracy": 0.5}, "ended at 2.01 there and 2 here"),
                                        ({"val_loss": 2.0, "accuracy": 0.6}, "has an accuracy of 0.6 there and 0.5 here")])
def test_another_program_is_noticed_by_its_loss_and_its_accuracy(continued, there, what):
    with pytest.raises(labs.LabError, match=what):
        continued([("ln", None, 4)], ENDING, there)
    assert continued([("ln", None, 4)], ENDING, {"val_loss": 2.001}), "accuracy was not measured"
def test_what_rounding_costs_is_measured_on_the_validation_split(run, tmp_path):
    """Of the run, and of a file with its rounded weights."""
    run("train", "--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--max-iters=9", "--eval-iters=0",
        "--grammar-chars=3000", f"--out={tmp_path}/out", "--quiet")
    printed = []
    lab = types.SimpleNamespace(folder=tmp_path, evaluate=lambda model, *words:
                                printed.append(run("train", f"--evaluate={model}", *words).out) or printed[-1])
    with outliers.rounded_file(lab, tmp_path / "out", 8) as path:
        losses = [outliers.loss_of(lab, model) for model in (tmp_path / "out", path)]
    last = json.loads((tmp_path / "out/summary.json").read_text())["val_loss"]
    assert losses[0] == pytest.approx(last, abs=1e-6) and losses[0] != losses[1] == pytest.approx(last, abs=1e-2)
    assert all("the validation split of the built-in grammar, 299 characters" in text for text in printed)
