"""The rules of scripts/study/tuning.py, and its search on planted losses."""
import math

import pytest

from common.run_options import option_rows
from study.tuning import HIGH, LOW, Axis, Search, beats, ends_of, fill, ordered_cells, unstable_seeds, wished_cells

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
    ((2.0, 2.1, 2.19), [103]),               # 0.14 above the median of the others, 0.09 above that of all
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
    ("beta2", "0.99,0.999", 0.9, 0.9999),
    # Inside the range of the option, half way to its end.
    ("beta2", "0.9,0.99", 0.45, 0.999), ("beta2", "0.99999,0.999995", 0.99998, 0.9999975), ("dropout", "0.3,0.6", 0.15, 0.795),
    ("sgd-momentum", "0.5,0.9", 0.25, 0.98), ("n-layer", "2,6", 1, 18), ("learning-rate", "1,2", 0.5, 4),
    ("rms-fraction", "0.5,0.75", 0.333, 0.875), ("hold-out", "0.2,0.8", 0.05, 0.9),
    ("weight-decay", "0,0.1", 0, 0.2), ("weight-decay", "0,0.1,0.3", 0, 0.5),  # by the difference beside 0
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

    def __init__(self, lists, planted, limit=None, lacking=None):
        self.runs = []
        self.said = []

        def measure(wanted):
            self.runs += wanted
            return [planted[variant](cell, seed) for variant, cell, seed in wanted]

        self.search = Search(list(planted), [Axis(name, values.split(",")) for name, values in lists.items()],
                             measure, limit, self.said.append, lacking)

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
    assert {*range(101, 109)} <= {run[2] for run in one.runs}, "a second round has seeds of its own"


def test_a_limit_of_trials_is_kept():
    for limit in (15, 19, 40):
        one = Planted(GRID, {"ln": bowl(10, 0.08), "bn": bowl(0.01, 0.04)}, limit)
        found = one.search.full_grid(4)
        assert one.search.trials() <= limit
        assert (found is None) == (limit < 19), "some cell needs all seeds"
        one.expect_equal_trials()
    one = Planted(GRID, {"ln": bowl(10, 0.08)}, 30)
    assert one.search.by_axes(4, 2)["ln"].cells[0][0] == 0.3 and one.search.trials() <= 30  # 0.03 is the grid's


def test_the_trials_that_a_lacking_axis_saves_go_to_finer_values_of_the_others():
    def loss(cell, seed):
        assert cell[1] is None
        return bowl(0.0055)((cell[0],), seed)

    for search in "grid", "axes":
        one = Planted(GRID, {"ln": loss, "bn": bowl(0.003, 0.08)}, lacking={"ln": ["init-std"]})
        found = one.search.full_grid(4) if search == "grid" else one.search.by_axes(4, 2)
        assert found["bn"].cells[0] == (0.003, 0.08)
        assert found["ln"].cells[0][1] is None and found["ln"].at_end == []
        assert abs(math.log10(found["ln"].cells[0][0] / 0.0055)) < 0.1, "finer than the grid's half decade"
        trials = [one.search.trials(variant) for variant in ("ln", "bn")]
        assert trials[1] - 4 < trials[0] <= trials[1], "less than a cell is left"
        assert len(set(one.runs)) == len(one.runs)


def test_a_variant_with_whole_numbers_only_stops_when_no_value_is_left():
    one = Planted({"n": "1,2,3", "m": "1,2,3"}, {"a": lambda cell, seed: cell[0], "b": lambda cell, seed: sum(cell)},
                  lacking={"a": ["m"]})
    assert one.search.full_grid(2)["a"].cells[0] == (1, None)


def test_an_axis_stays_in_the_range_of_its_option():
    """Whatever it grows and is refined by, and ends that are the range's are no ends."""
    for name, values in ("beta1", "0.5,0.9"), ("beta2", "0.999,0.9999"), ("dropout", "0.5,0.9"), ("rms-fraction", "0.5,1"), \
            ("n-layer", "1,2"), ("bn-momentum", "0.1,0.9"), ("muon-momentum", "0,0.95"), ("weight-decay", "0,500,900"):
        axis, limits = Axis(name, values.split(",")), option_rows()[name]
        for side in LOW, HIGH:
            while axis.may_grow(side):
                axis.grow(side)
        for value in list(axis.values):
            axis.refine(value)
        assert all(limits["min"] <= value <= limits["max"] for value in axis.values), axis.values
        assert axis.values == sorted(set(axis.values)) and len(axis.values) > 2
    assert ends_of([Axis("rms-fraction", ["0.5", "1"])], (1,), [0]) == ends_of([Axis("n-layer", ["1", "2"])], (1,), [0]) == []


def test_an_axis_does_not_grow_to_what_is_refused():
    one = Planted({"lr": "1e-3,3e-3,1e-2"}, {"ln": bowl(10)})
    one.search.accepts = lambda name, value: (name, value) != ("lr", 0.1)
    found = one.search.full_grid(4)
    assert found["ln"].cells[0] == (0.03,) and found["ln"].at_end == ["lr"] and one.search.axes[0].values[-1] == 0.03
