"""tune.py: the rules of selection.py and the search on planted losses, and a small search by ./train."""
import math
import re

import pytest

from ablate.selection import HIGH, LOW, Axis, beats, ends_of, fill, ordered_cells, unstable_seeds, wished_cells
from ablate.tuning import Search

SEEDS = [101, 102, 103, 104]
SPREAD = {101: 0.0, 102: 0.03, 103: -0.02, 104: 0.01}  # what a seed adds to every loss


def losses(mean, *extra):
    """Four losses of this mean, apart from what is planted."""
    extra = extra or (0, 0, 0, 0)
    return {seed: mean + SPREAD[seed] + more for seed, more in zip(SEEDS, extra)}


def best_of(axis, measured):
    return ordered_cells([axis], {(value,): one for value, one in measured.items()}, SEEDS)[0][0]


# ---- instability ---------------------------------------------------------------------------------

@pytest.mark.parametrize("values, unstable", [
    ((2.0, 2.01, 1.99, 2.0), []),
    ((2.0, 2.01, 1.99, 2.095), []),          # 0.095 above the median of the others
    ((2.0, 2.01, 1.99, 2.105), [104]),       # 0.105 above it
    ((2.0, 2.01, 1.99, math.inf), [104]),    # did not train
    ((math.inf,), [101]),
    ((2.0,), []),                            # one seed is not above others
    ((2.0, 2.2), [102]),
    ((1.5, 2.0, 2.01, 1.99), []),            # far below the others
    ((2.0, 2.0, 3.0, 3.0), [103, 104]),      # two modes: the median of the others is 2
])
def test_a_seed_is_unstable_far_above_the_median_of_the_others(values, unstable):
    assert unstable_seeds(dict(zip(SEEDS, values))) == unstable


def test_if_all_are_unstable_the_one_that_trains_most_often_is_taken():
    axis = Axis("lr", ["1", "2", "3"])
    bad = (0, 0, 0, math.inf)
    assert best_of(axis, {1: losses(1.0, *bad[:2], math.inf, math.inf), 2: losses(2.0, *bad), 3: losses(1.9, *bad)}) == 3


# ---- ends ----------------------------------------------------------------------------------------

def test_an_end_beats_its_neighbour_by_a_standard_error():
    # The differences are 0.02 + (a, -a, a, -a): mean 0.02, standard error a / sqrt(3).
    assert beats(losses(2.0), losses(1.9, 0, 0, 0, math.inf)) and not beats(losses(2.0), None)
    assert not beats({101: 1.0}, {101: 2.0})  # one seed has no standard error
    for a, wins in ((0.034, True), (0.036, False)):
        inner, end = losses(2.0, a, -a, a, -a), losses(1.98)
        assert beats(end, inner) is wins
        axis = Axis("lr", ["1e-3", "3e-3", "1e-2"])
        measured = {0.001: losses(2.5), 0.003: inner, 0.01: end}
        assert best_of(axis, measured) == (0.01 if wins else 0.003)


def test_words_and_bounds_have_no_ends():
    axes = [Axis("optimizer", ["adamw", "muon"]), Axis("min-lr", ["0", "1e-4", "3e-4"]), Axis("dropout", ["0.1"])]
    assert ends_of(axes, ("adamw", 0, 0.1), range(3)) == []
    assert [(end.axis, end.side, end.inner) for end in ends_of(axes, ("muon", 0.0003, 0.1), range(3))] == \
        [(1, HIGH, ("muon", 0.0001, 0.1))]
    measured = {0: losses(1.99, 0.04, -0.04, 0.04, -0.04), 0.0001: losses(2), 0.0003: losses(2.1)}
    assert not beats(measured[0], measured[0.0001]) and best_of(axes[1], measured) == 0


@pytest.mark.parametrize("name, values, low, high", [
    ("lr", "1e-3,3e-3,1e-2", 3e-4, 3e-2),
    ("init-std", "0.04,0.02,0.08", 0.01, 0.16),
    ("init-std", "0.02,0.08", 0.005, 0.32),
    ("beta2", "0.9,0.95,0.99", 0.5, 0.995),   # 1 - beta2: 0.1, 0.05, 0.01
    ("warmup-iters", "50,100,200", 25, 400),
])
def test_a_grid_grows_by_its_own_ratio(name, values, low, high):
    axis = Axis(name, values.split(","))
    assert axis.beyond(LOW) == pytest.approx(low) and axis.beyond(HIGH) == pytest.approx(high)


def test_whole_numbers_do_not_grow_into_themselves():
    axis = Axis("grad-accum", ["1", "2"])
    axis.values = [1, 2, 3]
    axis.grow(LOW)
    assert axis.values == [1, 2, 3] and axis.closed[LOW]


# ---- halving -------------------------------------------------------------------------------------

def test_the_best_and_their_neighbours_get_the_other_seeds():
    axes = [Axis("lr", list("123456789"))]
    measured = {(value,): {101: abs(value - 4.9) / 50} for value in range(1, 10)}
    assert set(wished_cells(axes, measured, SEEDS, [0])) == {(3,), (4,), (5,), (6,), (7,)}
    assert fill([(5,), (4,)], measured, SEEDS, 4) == [(5,), (4,), (6,), (3,)]


# ---- the search on planted losses ----------------------------------------------------------------

def bowl(*optimum):
    """A loss over the logarithms of the values, with a little noise that depends on seed and cell."""
    def loss(cell, seed):
        distance = sum(math.log10(value / best) ** 2 for value, best in zip(cell, optimum))
        return 2 + distance + SPREAD.get(seed, 0) + 1e-3 * math.sin(seed * 7 + 50 * distance)
    return loss


class Planted:
    """A search of planted losses {variant: loss(cell, seed)}, which notes its runs."""

    def __init__(self, lists, planted, limit=None):
        self.runs = []
        self.said = []

        def measure(wanted):
            self.runs += wanted
            return [planted[variant](cell, seed) for variant, cell, seed in wanted]

        self.search = Search(list(planted), [Axis(name, values.split(",")) for name, values in lists.items()],
                             measure, limit, self.said.append)

    def expect_equal_trials(self):
        assert len(set(self.runs)) == len(self.runs), "a run is repeated"
        counts = {variant: sum(run[0] == variant for run in self.runs) for variant in self.search.variants}
        assert set(counts.values()) == {self.search.trials()}, counts


GRID = {"lr": "1e-3,3e-3,1e-2,3e-2", "init-std": "0.02,0.04,0.08,0.16"}


def test_a_grid_is_searched_and_every_variant_gets_the_same_number_of_trials():
    one = Planted(GRID, {"ln": bowl(0.003, 0.08), "bn": bowl(0.01, 0.04), "none": bowl(0.001, 0.16)})
    found = one.search.full_grid(4)
    assert found["ln"].cells[0] == (0.003, 0.08) and found["bn"].cells[0] == (0.01, 0.04)
    assert found["none"].cells[0] == (0.001, 0.16) and not any(each.at_end for each in found.values())
    one.expect_equal_trials()
    assert one.search.axes[0].grown == [1, 0] and one.search.axes[1].grown == [0, 1]  # none's best was at both
    assert one.search.trials() < 4 * 25


def test_a_grid_grows_at_most_twice_and_then_the_end_is_flagged():
    one = Planted({"lr": "1e-3,3e-3,1e-2"}, {"ln": bowl(10), "bn": bowl(0.003)})
    found = one.search.full_grid(4)
    assert one.search.axes[0].values == pytest.approx([1e-3, 3e-3, 1e-2, 3e-2, 1e-1])
    assert found["ln"].cells[0] == (0.1,) and found["ln"].at_end == ["lr"]
    assert found["bn"].cells[0] == (0.003,) and found["bn"].at_end == []
    one.expect_equal_trials()


def test_an_unstable_value_is_passed_over_and_said_if_all_are():
    def rough(cell, seed):
        return bowl(0.01)(cell, seed) + (cell[0] > 0.005 and seed == 103)

    one = Planted({"lr": "1e-3,3e-3,1e-2,3e-2"}, {"ln": rough, "none": lambda cell, seed: math.inf})
    found = one.search.full_grid(4)
    assert found["ln"].cells[0] == (0.003,) and not found["ln"].unstable
    assert found["none"].unstable
    one.expect_equal_trials()


def test_axes_are_searched_one_after_another():
    lists = {**GRID, "optimizer": "adamw,muon,sgd"}

    def loss(cell, seed):
        return bowl(0.01, 0.16)(cell[:2], seed) + {"adamw": 0.1, "muon": 0, "sgd": 0.5}[cell[2]]

    one = Planted(lists, {"ln": loss, "bn": lambda cell, seed: bowl(0.003, 0.04)(cell[:2], seed)})
    found = one.search.by_axes(4, 5)
    assert found["ln"].cells[0] == (0.01, 0.16, "muon")
    assert found["bn"].cells[0][:2] == (0.003, 0.04)
    assert found["ln"].cells[1] == (0.01, 0.08, "muon")  # not of the last axis
    one.expect_equal_trials()
    assert {(run[2] - 101) // 4 for run in one.runs} <= {0, 1, 2}, "it ends after a round without a change"
    assert one.search.trials() < 4 * 4 * 3 * 4


def test_a_limit_of_trials_is_kept():
    for limit in (15, 19, 40):
        one = Planted(GRID, {"ln": bowl(10, 0.08), "bn": bowl(0.01, 0.04)}, limit)
        found = one.search.full_grid(4)
        assert one.search.trials() <= limit
        assert (found is None) == (limit < 19), "some cell needs all seeds"
        one.expect_equal_trials()
    one = Planted(GRID, {"ln": bowl(10, 0.08)}, 30)
    assert one.search.by_axes(4, 2)["ln"].cells[0][0] == 0.3 and one.search.trials() <= 30  # 0.03 is the grid's


# ---- runs of ./train -----------------------------------------------------------------------------

SMALL = ("--n-layer=1 --n-head=1 --n-embd=8 --block-size=8 --batch-size=4 --max-iters=30 --warmup-iters=3 "
         "text.txt").split()


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sees a dog, and the dog sees the cat.\n" * 40)


def test_a_search_by_train(run, text, tmp_path):
    words = ["tune.py", "--norm=ln,none", "--lr=1e-2,3e-2", "--seeds=2", "--trials=4", "--judge-seeds=2", "--out=out",
             "--csv=judged.csv", "--", *SMALL]
    ended = run(*words)
    assert ended.status == 0, ended.err
    trials = int(re.match(r"(\d+) trials for each of 2 variants", ended.out)[1])
    summaries = {path.parent.name: path for path in tmp_path.glob("out/ablation/runs/*/summary.json")}
    tuning = [name for name in summaries if "hold-out" in name]
    assert trials == 4 and len(tuning) == 8 and len(summaries) == 8 + 8
    assert all(re.search(r"-s10[12]$", name) for name in tuning)
    assert all(re.search(r"-s[12]$", name) for name in summaries if name not in tuning)
    recipes = re.findall(r"(best|second): \./train (--norm=\w+) --lr=[0-9.e-]+ (.*)\n    loss (.*)", ended.out)
    assert [recipe[:3] for recipe in recipes] == \
        [(place, f"--norm={norm}", " ".join(SMALL)) for norm in ("ln", "none") for place in ("best", "second")]

    head, *rows = (tmp_path / "judged.csv").read_text().splitlines()
    assert head == "norm,lr,place,at_end,unstable,seed,val_loss" and len(rows) == 8
    assert [row.split(",")[0] for row in rows] == 4 * ["ln"] + 4 * ["none"]
    assert math.isclose(sum(float(row.split(",")[-1]) for row in rows[:2]) / 2, float(recipes[0][3].split()[0]),
                        abs_tol=1e-4)

    times = {name: path.stat().st_mtime_ns for name, path in summaries.items()}
    removed = sorted(summaries)[::3]  # as if they had not ended when it was killed
    for name in removed:
        summaries[name].unlink()
    again = run(*words)
    assert again.status == 0 and again.out == ended.out, again.err
    changed = [name for name, path in summaries.items() if path.stat().st_mtime_ns != times[name]]
    assert sorted(changed) == removed


def test_refused_values_do_not_win(run, text):
    ended = run("tune.py", "--norm=ln", "--min-lr=0,2e-2,5", "--seeds=2", "--judge-seeds=2", "--trials=6", "--out=out",
                "--", "--lr=0.02", *SMALL)  # 5 is above the learning rate
    assert ended.status == 0, ended.err
    assert "--min-lr=0" in ended.out and "--min-lr=5" not in ended.out


@pytest.mark.parametrize("status, words, what", [
    (2, "--lr=0.01,0.02 --learning-rate=1,2", "--learning-rate: is given twice"),
    (2, "--norm=ln,bn", "nothing to tune"),
    (2, "--lr=0.01,0.02 --for=act", "--for=act"),
    (2, "--seed=1,2", "--seed"),
    (2, "--lr=1,2 text.txt", "text.txt"),
    (2, "--lr=1,2 --seeds=1", "--seeds"),
    (2, "--lr=1,2 --judge-seeds=101", "--judge-seeds"),
    (2, "--lr=1,2 -- --seed=3", "--seed=3"),
    (1, "--norm=ln --nrom=1,2 --out=out --", "tune: --nrom")])
def test_wrong_usage_is_refused(run, text, status, words, what):
    ended = run("tune.py", *words.split(), *(SMALL if words.endswith("--") else ()))
    assert ended.status == status and what in ended.err.splitlines()[-1], ended.err
