"""How the report tunes recipes, on planted losses: the grid grows, stuck seeds do not win, trials are equal."""
import math

import pytest

pytest.importorskip("numpy")
pytest.importorskip("scipy")

from claims import plan, recipes
from claims.lab import UNTRAINED

XS, S, M = plan.LEVELS["full"][0]
STUCK = 3.3 + UNTRAINED


class Lab:
    """Knows the loss of every run, of a bowl around its best recipe, and counts the runs."""

    def __init__(self, std=0.08, rate=1e-2, stuck=lambda std, rate, seed: False):
        self.best, self.stuck, self.runs = (std, rate), stuck, set()

    def loss_of(self, run):
        std, rate = (run.options.get(name, default) for name, default in (("init-std", 0.02), ("learning-rate", 1e-3)))
        self.runs.add(str(sorted(run.options.items())) + str(run.seed))
        if self.stuck(std, rate, run.seed):
            return STUCK
        return 2 + sum(math.log(a / b) ** 2 for a, b in zip((std, rate), self.best)) / 10 + run.seed / 1e4


def best(lab, size, options=None):
    options = options or {"norm": "ln"}
    return plan.Tuning("text", lab).recipes(size, [options])[tuple(options.items())]


def cell(recipe):
    return recipe["init_std"], float(recipe["learning_rate"])


def test_the_best_cell_is_found():
    first, second = best(Lab(), XS)
    assert cell(first) == (0.08, 1e-2) and cell(second) in ((0.08, 1.8e-2), (0.08, 5.6e-3))
    assert not first["learning_rate"].at_end()


def test_a_quarter_of_a_decade_is_tried_for_small_models():
    assert cell(best(Lab(rate=5.6e-3), XS)[0]) == (0.08, 5.6e-3)


def test_the_grid_grows_where_the_best_is_at_an_end():
    first = best(Lab(std=0.64, rate=1e-1), XS)[0]
    assert cell(first) == (0.64, 1e-1) and first["learning_rate"].at_end()  # twice, and then it is flagged
    first = best(Lab(std=0.32), XS)[0]
    assert cell(first) == (0.32, 1e-2) and not first["learning_rate"].at_end()


def test_a_cell_with_a_stuck_seed_does_not_win():
    assert cell(best(Lab(stuck=lambda std, rate, seed: std == 0.08 and seed == 102), XS)[0])[0] != 0.08


def test_recipes_are_unknown_until_all_runs_have_ended():
    class Nothing:
        def loss_of(self, run):
            return None

    tuning = plan.Tuning("text", Nothing())
    assert tuning.recipes(XS, [{"norm": "ln"}]) == {} and len(tuning.wanted) == 20
    assert all(run.options["hold-out"] == plan.HELD_OUT and run.seed == 101 for run in tuning.wanted)


def test_all_variants_of_a_group_have_the_same_number_of_trials():
    lab = Lab(std=0.16, stuck=lambda std, rate, seed: rate >= 0.1)
    tuning = plan.Tuning("text", lab)
    assert set(tuning.recipes(XS, recipes.groups_of(XS)[0]))
    counts = {}
    for run in {plan.run_name(run): run for run in tuning.wanted}.values():
        variant = run.options["norm"], run.options.get("placement")
        counts[variant] = counts.get(variant, 0) + 1
    assert len(counts) == 5 and max(counts.values()) - min(counts.values()) <= 4 * 4  # quarters differ


def test_a_large_model_is_tuned_around_a_smaller_one():
    class Growing(Lab):
        """The best initialization halves and the best rate falls with each size."""
        def loss_of(self, run):
            step = {32: 0, 64: 1, 128: 2}[run.options["n-embd"]]
            self.best = 0.16 / 2 ** step, (3e-2, 1e-2, 3e-3)[step]
            return super().loss_of(run)

    tuning = plan.Tuning("text", Growing())
    found = recipes.recipes_of(M, tuning, recipes.groups_of(M)[0])
    assert {cell(best[0]) for best in found.values()} == {(0.04, 3e-3)} and len(found) == 5
    assert all(best[0]["learning_rate"].at_end() for best in found.values())  # the last round moved: flagged
    runs = {plan.run_name(run): run for run in tuning.wanted}.values()
    assert {sum(run.options["n-embd"] == 64 and run.options["norm"] == norm for run in runs)
            for norm in ("bn", "none")} == {8}  # two crosses that share two cells


@pytest.mark.parametrize("size", [XS, S])
def test_factors_and_budgets_have_the_best_recipe(size):
    tuned = plan.Tuning("text", Lab())
    runs = list(recipes.factor_runs(size, tuned))
    assert {run.variant for run in runs} >= {"norm=bn width=64", "depth=8 norm=none", "norm=ln updates=70%"}
    assert all("init-std" in run.options for run in runs)
