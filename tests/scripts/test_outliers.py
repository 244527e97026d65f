"""E24's and E10's instruments on planted arrays and planted losses; E24's and E25's runs."""
import math

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from claims import lab as labs, outliers, plan, recipes
from test_recipes import Lab, XS

RANDOM = np.random.default_rng(1)


def test_an_outlier_channel_has_kurtosis_and_a_peak():
    x = RANDOM.standard_normal((8, 16, 32))
    assert abs(outliers.kurtosis(x)) < 0.2 and outliers.peak(x) < 6
    x[..., 3] *= 100
    assert outliers.kurtosis(x) > 20
    assert outliers.peak(x) == pytest.approx(np.abs(x).max() / math.sqrt((x ** 2).mean()))


def test_first_tokens_share():
    equal = np.tril(np.ones((2, 4, 16, 16)))
    equal /= equal.sum(-1, keepdims=True)
    share, ratio = outliers.first_share(equal)
    assert ratio == pytest.approx(1) and share == pytest.approx(np.mean(1 / np.arange(9, 17)))
    sink = np.zeros_like(equal)
    sink[..., 0] = 1
    assert outliers.first_share(sink)[0] == 1


@pytest.mark.parametrize("bits, steps", [(8, 255), (4, 15)])
def test_rounding_has_equal_steps(bits, steps):
    x = RANDOM.standard_normal(10000).astype(np.float32)
    found = outliers.rounded(x, bits)
    step = np.abs(x).max() / (steps // 2)
    assert len(np.unique(found)) <= steps and np.abs(found - x).max() <= step / 2 * 1.001
    assert found.dtype == x.dtype and (outliers.rounded(0 * x, bits) == 0).all()


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


class Noisy:
    """A lab whose models predict each next character from the one they read: logits of a table."""

    class Run:
        corpus, options = "text", {"block-size": 16}

    def text(self, label):
        return "abce" * 2000

    def dump(self, folder, text, *words):
        ids = np.array(["abce".index(symbol) for symbol in text])
        return {"logits": 5.0 * np.eye(4)[(ids[:-1] + 1) % 4][None], "targets": ids[None, 1:]}


def test_noise_costs_more_the_stronger_it_is():
    found = outliers.noise_sweep(Noisy(), "", Noisy.Run())
    costs = [found[f"noise_cost_{strength}"] for strength in (1, 2, 5, 10, 20)]
    assert costs == sorted(costs) and costs[0] > 0
    assert costs[-1] == pytest.approx(5 * 0.2 * 3 / 4, rel=0.2)  # a wrong character, in 3 of 4 draws, costs 5 nats


# ---- runs ----------------------------------------------------------------------------------------

class TextLab(Lab):
    bases = ("text",)

    def longest(self):
        return "text"

    def part(self, label, count):
        return f"{label}-first-{count}"

    def spread(self, label, more):
        return f"{label}-spread-{more}"


def test_outliers_are_measured_by_norm_placement_and_optimizer():
    runs = list(recipes.outlier_runs(XS, plan.Tuning("text", TextLab())))
    variants = {run.variant for run in runs}
    assert {f"norm={norm} optimizer={name} placement=pre" for norm in ("none", "ln", "rms", "bn", "dyt", "derf")
            for name in ("adamw", "muon", "sgd")} <= variants
    assert {"norm=ln optimizer=adamw placement=post", "norm=ln optimizer=adamw placement=peri"} <= variants
    assert all(run.measures == ("ending", "outliers", "rounding") for run in runs)


def test_a_norm_free_kind_gets_the_best_pair_of_alphas():
    class Alphas(TextLab):
        """Losses are lowest with alpha 2 in attention and 0.5 elsewhere, and lower with a learned scale."""
        def loss_of(self, run):
            known = [float(run.options.get(name, 0.5)) for name in ("dyt-alpha-attn", "dyt-alpha")]
            return super().loss_of(run) + abs(known[0] - 2) + abs(known[1] - 0.5) - 0.1 * ("embd-scale" in run.options)

    runs = [run for run in recipes.norm_free_runs(XS, plan.Tuning("text", Alphas())) if "own=" in run.variant]
    both = [run.options for run in runs if run.variant == "norm=dyt own=both"]
    assert len(both) == 8 and all((one["dyt-alpha-attn"], one["dyt-alpha"], one["embd-scale"]) == (2.0, 0.5, "learned")
                                  for one in both)
    assert not any("dyt-alpha" in run.options for run in runs if "own=scale" in run.variant or "own=off" in run.variant)


def test_parts_of_a_text_have_their_own_runs():
    runs = [run for run in recipes.norm_free_runs(XS, plan.Tuning("text", TextLab())) if "characters" in run.variant]
    assert {run.corpus for run in runs} == {f"text-first-{count}" for count in (100000, 1000000, 4000000)}
    assert {run.options["max-iters"] for run in runs} == {recipes.LONGER * XS["max-iters"]}


def test_lines_have_the_same_mean_length(tmp_path):
    text = "word " * 60000
    lengths = {more: [len(line) for line in labs.cut(text, 32 - more, 32 + more, labs.random.Random(1)).splitlines()]
               for more in recipes.SPREADS}
    assert set(lengths[0][:-1]) == {32} and min(lengths[29]) == 3 and max(lengths[29]) == 61
    assert all(abs(np.mean(one) - 32) < 1 for one in lengths.values())
