"""Norms that are formulas, on the command line: what is refused and how, the run's folder, and a run that stops and
continues."""
from pathlib import Path

import pytest

from conftest import DIVERGED, USAGE, log_of, same_arrays, same_log, train_here

START = "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=4 --sample=0 --grammar-chars=2000 --eval-interval=2 --log-interval=1"


# A message says what is wrong, where, and what there is instead.
@pytest.mark.parametrize("word, said", [
    ("--norm=gamma * maen_c(x)", 'no function maen_c (did you mean mean_c?): character 9, "maen_c(x)"'),
    ("--norm=gama * x", "no value gama (did you mean gamma?; "),
    ("--norm=q * x", "declared as in alpha * x; alpha = 1"),
    ("--norm=x +", "expected a value, such as x, 2 or mean_c(x): after x +"),
    ("--norm=(x", "expected ) or an operator"),
    ("--norm=x)", "this ) closes nothing: character 2"),
    ("--norm=2x + 1", "a product is written 2 * x"),
    ("--norm=x**2", "expected a value, such as x, 2 or mean_c(x) (a power is x^2): character 3"),
    ("--norm=x + |x|", "(an absolute value is abs(x)): character 5"),
    ("--norm=delta * abs(x)", '(did you mean beta?; "; delta = 1" at the end declares it)'),
    ("--norm=x ^ y", "expected a number, such as 0.5: character 5"),
    ("--norm=tanh(x, x)", "tanh takes one value"),
    ("--norm=max(x)", "expected , and a second value"),
    ("--norm=sqrt x + 1", "expected ( after the function sqrt"),
    ("--norm=mean_c(x) + 1", "one number for each token"),
    ("--norm=gamma + beta", "does not depend on x"),
    ("--norm=x / 0 + 1", "no finite value"),
    ("--norm=x * x; a = 1", "a is not used"),
    ("--norm=x * weight; weight = 1", "weight is the name of another tensor in a model's file"),
    ("--norm=x * running_var; running_var = 1", "running_var is the name of another tensor"),
    ("--norm=x * a; a = b", "numbers, options and C"),
    ("--norm=x * a; a = 1; a = 2", "declared twice"),
    ("--norm=mean_n(x) * x; groups", "groups cannot be combined"),
    (f"--norm={'(' * 65}x", "too many parentheses"),
    ("--qk-norm=x *", "expected a value"),
    ("--norm=dty", "did you mean dyt?"),
    ("--show-norm=gama * x", "there is no value gama"),
    ("--show-norm=gn --norm-groups=3".split(), "its ")])
def test_faults_are_shown_where_they_are(refused, word, said):
    words = word if isinstance(word, list) else [word]
    line = refused(USAGE, said, *([START] if "show" not in words[0] else []), words)
    assert line.startswith(f"train: {words[0].partition('=')[0]}{'=dty' if 'dty' in words[0] else ': '}")


def test_a_run_stops_and_continues(done):
    norm = ["--norm=gamma * (x - mean_n(x)) /  rms_c(x - mean_n(x)) + beta"]
    done(START, norm, "--max-iters=6 --out=one --threads=1")
    done(START, norm, "--max-iters=3 --out=two --threads=2")
    done("--resume=two --max-iters=6")
    same_log("one", "two")
    same_arrays("one/model.safetensors", "two/model.safetensors")
    assert "\nnorm = gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta\n" in Path("two/config.ini").read_text()
    assert not done("--evaluate=two --stats=other").err and not done("--generate=two --num-chars=5").err


def shown(norm):
    """What --show-norm prints of a norm."""
    ended = train_here([f"--show-norm={norm}"], "--n-embd=8 --n-head=2")
    assert ended.status == 0, ended
    return ended.out


ALONE, ALL = "no other token\n", "every token of the batch: later ones"
SAME, EPS, CHANGES = "changes nothing", "changes nothing, up to eps", "changes the output"


@pytest.mark.parametrize("norm, others, effects", [
    ("ln", ALONE, (SAME, EPS, CHANGES, CHANGES)),
    ("gn", ALONE, (SAME, EPS, CHANGES, CHANGES)),
    ("rms", ALONE, (CHANGES, EPS, CHANGES, CHANGES)),
    ("l2", ALONE, (CHANGES, SAME, CHANGES, CHANGES)),
    ("dyt", ALONE, (CHANGES, CHANGES, CHANGES, CHANGES)),
    ("bn", ALL, (CHANGES, CHANGES, SAME, EPS)),
    ("x - mean_n(x)", ALL, (CHANGES, CHANGES, SAME, CHANGES))])
def test_a_norm_is_known_by_what_changes_nothing(text, norm, others, effects):
    said = shown(norm)
    assert f"a token's output depends on                 {others}" in said
    for what, effect in zip(("a number added to a token's channels        ", "a token multiplied by a positive number     ",
                             "a number added to a channel of all tokens   ", "a channel multiplied by a positive number   "), effects):
        assert f"\n  {what}{effect}\n" in said


GRADIENT = """
  gamma: 8 numbers, learned, initially 1
  beta: 8 numbers, learned, initially 0
  --norm-eps=1e-05
  16 learned numbers in each norm of 8 channels (--n-embd)

forward
  t1 = mean_c(x)
  t2 = x - t1
  t3 = x - stop(t1)
  t4 = mean_c(t3^2)
  t5 = 1 / sqrt(t4 + eps)
  y = t2 * gamma * t5 + beta

backward, from dy; sum_n is over the tokens of the batch
  dbeta = sum_n(dy)
  t6 = t2 * dy
  t7 = mean_c(t6 * gamma)
  t8 = dy * gamma
  dgamma = sum_n(t6 * t5)
  t9 = mean_c(t8)
  dx = t8 * t5 - t3 * t5^3 * t7 - t5 * t9
"""


@pytest.mark.parametrize("norm, part", [
    ("ln", GRADIENT),
    ("log(x)", "a token multiplied by a positive number     unknown"),
    ("l2", "t4 = sum_c(x * dy)\n"),
    ("bn", "3 forward, 2 backward\n"),
    ("dyt", "alpha: 1 number, learned, initially 0.5\n"),
    ("none", "\n  y = x\n"),
    ("none", "\n  dx = dy\n"),
    ("x * stop(gamma)", "\n  dgamma = 0\n"),
    ("gated", "gated: has no formula whose gradient could be shown: y = n sig")])
def test_a_gradient_is_shown_step_by_step(text, norm, part):
    assert part in shown(norm)


def test_the_norm_of_a_run_is_shown(done):
    assert done("--show-norm --norm=rms").out == done("--show-norm=rms").out


def test_a_folder_is_not_named_by_a_formula(done):
    """A run without --out has a folder of a short name."""
    done(START, ["--norm=gamma * x / (1 + abs(x))"], "--max-iters=1")
    assert Path("runs/f029c69c0-pre-s1/log.csv").exists()


# A run that diverges in a formula names the norm and the operation, of its gradient too.
@pytest.mark.parametrize("words, said", [
    (["--norm=gamma * log(x - 100)"], "; the formula of the norm transformer.h.0.ln_1 computes log(-"),
    (["--norm=x / (gamma - 1)"], "; the formula of the norm transformer.h.0.ln_1 computes 1 / 0 ("),
    (["--norm=exp(99 + x)"], "; the formula of the norm transformer.h.0.ln_1 computes exp(9"),
    (["--norm=x + relu(x) ^ 0.3"], "; the gradient of the norm transformer.ln_f computes log(0) ("),
    (["--norm=x / (gamma - mean_n(1 + 0 * x))"], "computes 1 / 0 ("),
    (["--norm=gamma * log(x - 100); groups"], "the norm transformer.h.0.ln_1 computes log(-"),
    (["--norm=gamma * (x + relu(x) ^ 0.3); groups"], "the norm transformer.ln_f computes log(0) ("),
    (["--qk-norm=gamma * log(x - 100)"], "the formula of the norm transformer.h.0.attn.q_norm"),
    (["--v-norm=x + relu(x) ^ 0.3"], "the gradient of the norm transformer.h.0.attn.v_norm"),
    (["--norm-attn=gamma * log(x - 100)", "--placement=siamese"], "the norm transformer.h.0.ln_1_second computes log(")])
def test_nan_and_infinity_are_found_in_the_formula(refused, words, said):
    assert refused(DIVERGED, said, START, "--max-iters=3 --quiet", words).startswith("train: diverged at step ")


@pytest.mark.parametrize("norm", ["gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta * var_n(x)",
                                  "gamma * tanh(s * x) * max_c(x) + beta; s[1] = 0.5"])
def test_the_same_bits_for_any_number_of_threads(done, norm):
    for threads in 1, 2, 3, 8:
        done(START, [f"--norm={norm}"], f"--max-iters=4 --batch-size=25 --out=of-{threads} --threads={threads}")
        same_log("of-1", f"of-{threads}")
        same_arrays("of-1/model.safetensors", f"of-{threads}/model.safetensors")


# Over 200 updates of models of three sizes. Kinds that are only a formula are written in another way than in their row.
@pytest.mark.parametrize("kind, formula", [
    ("ln", "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta"),
    ("rms", "gamma * x / rms_c(x)"),
    ("bn", "gamma * (x - mean_n(x)) / sqrt(var_n(x) + eps) + beta"),
    ("gn", "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta; groups"),
    ("dyt", "gamma * tanh(alpha * x) + beta; alpha[1] = dyt_alpha"),
    ("derf", "beta - erf(-(shift + x * a)) * gamma; a[1] = dyt_alpha; shift[1] = 0"),
    ("bhyt", "tanh(x / rms_c(x) * a / bhyt_kappa) * gamma; a[1] = bhyt_lambda"),
    ("seednorm", "x * (a * tanh(sum_c(b * x)) + gamma) / (mean_c(x * x) + eps)^0.5; b = 0; a = 1"),
    ("scale", "x / max(eps, sum_c(x * x)^0.5) * gamma; gamma[1] = sqrt(C)"),
    ("l2", "x / max(eps, sum_c(x * x)^0.5)")])
@pytest.mark.parametrize("size", ["", "--batch-size=7 --block-size=5 --qk-norm=on",
                                  "--n-layer=2 --n-embd=24 --n-head=3 --placement=post"])
def test_a_formula_trains_as_its_kind_does(done, kind, formula, size):
    losses = []
    for folder, norm in ("kind", kind), ("typed", formula):
        done(START, [f"--norm={norm}"], f"--max-iters=200 --warmup-iters=20 --bias=off --out={folder}", size)
        losses.append([float(row["train_loss"]) for row in log_of(folder) if row["train_loss"]])
    assert len(losses[0]) == 200 and losses[1] == pytest.approx(losses[0], abs=1e-4, rel=0)
