"""./train --show-norm=NORM --as=pytorch: the printed module, against what ./train itself computes."""
import keyword

import numpy as np
import pytest

from conftest import needs

torch = needs("torch")

from normlab import load
from pytorch.model_file import read

NORMS = ["ln", "rms", "bn", "seednorm", "bhyt", "derf", "scale", "l2", "gn", "none",
         "gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta",
         "gamma * x / rms_n(x - mean_c(x)) + beta * var_n(x)",
         "x * min(abs(x), s) / max_c(exp(-x^2)) + sigmoid(relu(x) - 2)^1.5 * log(a); s[1] = 0.4; a = C^0.5",
         "x / (1 + sqrt(mean_c(x^2))) + sum_c(x * gamma) / C; groups"]
SIZES = ["--n-layer=1", "--n-head=2", "--n-embd=12", "--block-size=8", "--batch-size=4", "--grammar-chars=2000"]


def module(run, norm, *words):
    ending = run("train", f"--show-norm={norm}", "--as=pytorch", *SIZES, *words)
    assert ending.status == 0, ending.err
    names = {}
    exec(ending.out, names)
    return names["Norm"]()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("stats", ["running", "own"])
def test_module_computes_what_the_program_does(run, tmp_path, norm, stats):
    words = [*SIZES, f"--norm={norm}", "--out=run", "--max-iters=5", "--learning-rate=0.1", "--warmup-iters=0", "--sample=0"]
    assert run("train", *words).status == 0
    assert run("train", "--evaluate=run", "--dump=dump.safetensors", f"--stats={stats}").status == 0
    *_, model = read(tmp_path / "run")
    *_, seen = read(tmp_path / "dump.safetensors")
    site = "transformer.h.0.ln_1"
    layer = module(run, norm).train(stats == "own")
    own = {name.removeprefix(site + "."): torch.tensor(np.array(value)) for name, value in model.items() if name.startswith(site + ".")}
    layer.load_state_dict({name: value.reshape(layer.state_dict()[name].shape) for name, value in own.items()})
    x = torch.tensor(np.array(seen[site + ".input"])) if site + ".input" in seen else torch.ones(4, 8, 12)
    want = torch.tensor(np.array(seen[site + ".output"])) if site + ".output" in seen else x
    torch.testing.assert_close(layer(x), want, rtol=2e-5, atol=2e-5)


def test_gradients_are_those_of_the_formula(run):
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    layer = module(run, "ln").double()
    same = torch.nn.LayerNorm(12).double()
    dy = torch.randn(3, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(torch.autograd.grad(layer(x), (x, layer.weight, layer.bias), dy),
                               torch.autograd.grad(same(x), (x, same.weight, same.bias), dy))
    batch = module(run, "bn").double()
    same = torch.nn.BatchNorm1d(12).double()
    torch.testing.assert_close(torch.autograd.grad(batch(x), x, dy)[0],
                               torch.autograd.grad(same(x.transpose(1, 2)).transpose(1, 2), x, dy)[0])
    torch.testing.assert_close(batch.running_var, same.running_var)
    assert module(run, "ln", "--bias=off").state_dict().keys() == {"weight"}


def test_parameters_may_have_names_of_python_and_of_modules(run):
    """Each that nn.Module and Python have, as far as a formula may have it."""
    functions = {"max", "min", "abs", "exp", "log", "sqrt"}
    names = [name for name in [*keyword.kwlist, *dir(torch.nn.Module()), "momentum", "lambda_", "_own"]
             if len(name) < 32 and name not in functions]
    assert len(names) > 80
    for k in range(0, len(names), 5):
        some = names[k:k + 5]
        layer = module(run, f"x * ({' + '.join(some)}){' + mean_n(x)' if k % 2 else ''}" + "".join(f"; {name} = 2" for name in some))
        x = torch.randn(3, 12)
        torch.testing.assert_close(layer(x), 2 * len(some) * x + (x.mean(0) if k % 2 else 0))
        assert {name.rstrip("_") for name, _ in layer.named_parameters()} == {name.rstrip("_") for name in some}
        assert sum(value.numel() for value in layer.parameters()) == 12 * len(some)


def test_names_that_end_with_a_bar_stay_apart(run):
    layer = module(run, "x * (_ + __ + _a + _a_); _ = 1; __ = 2; _a = 3; _a_ = 4")
    assert sorted(value.mean().item() for value in layer.parameters()) == [1, 2, 3, 4]


def test_normlab_loads_parameters_of_such_names(run, tmp_path):
    norm = "gamma * x * lambda / rms_c(x) + forward * (not ^ 2 - 1); lambda = 0.5; forward = 0.3; not[1] = 2"
    assert run("train", *SIZES, f"--norm={norm}", "--out=run", "--max-iters=5", "--learning-rate=0.1", "--sample=0").status == 0
    assert run("train", "--evaluate=run", "--dump=dump.safetensors").status == 0
    *_, seen = read(tmp_path / "dump.safetensors")
    layer = load(tmp_path / "run").transformer["h"][0].ln_1
    assert {name for name, _ in layer.named_parameters()} == {"weight", "lambda", "forward", "not"}
    site = "transformer.h.0.ln_1"
    torch.testing.assert_close(layer(torch.tensor(np.array(seen[site + ".input"]))), torch.tensor(np.array(seen[site + ".output"])),
                               rtol=2e-5, atol=2e-5)


def test_a_norm_without_a_formula_is_refused(run):
    ending = run("train", "--show-norm=gated", "--as=pytorch")
    assert ending.status == 2 and "gated has no formula" in ending.err
