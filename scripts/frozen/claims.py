"""The rules of the claims: what a claim says, its literal sense, and what it means if that is weaker.

evidence/rules.py says when a rule holds; claims.toml has the claims. registered.csv has the first form of these rules.
"""
from frozen.findings import BN, NONE, RMS, outlier_cost
from claims.forms import fraction_of_updates, largest_stable_rate, gap, minus_next_seed, rank_correlation
from evidence.rules import all_of, any_of, in_some_cell, no
from evidence.quantities import CONTRADICTED, SETTLED, change, every, loss, measured, slope

RULES = {}


def rule(claim, says, meant=None):
    RULES[claim] = says, meant


def exactly(value, *words, **options):
    """A metric has this value, without error."""
    return every(measured(*words, **options), value, value)


GN = gap("E1", "gn", rate="tuned")

# ---- article A -----------------------------------------------------------------------------------

rule("A1", says=every(measured("E11", "other_token_change", norm="ln", vectors="tokens"), low=1e-4),
     meant=all_of(every(measured("E11", "token_mean", norm="ln", vectors="tokens"), -1e-5, 1e-5),
                  every(measured("E11", "channel_mean", norm="bn", vectors="tokens"), -1e-5, 1e-5),
                  every(measured("E11", "channel_variance", norm="bn", vectors="tokens"), 0.999, 1.001)))
rule("A3", says=any_of(every(measured("E5", "pad_change", norm="bn", pads="mask", text="items"), low=1e-4),
                       loss("E5", norm="bn", pads="include", text="items") - loss("E5", norm="bn", pads="mask", text="items") > 0.02),
     meant=all_of(every(measured("E5", "pad_change", norm="bn", pads="include", text="items"), low=1e-4),
                  every(measured("E5", "pad_change", norm="ln", pads="mask", text="items"), 0, 1e-4)))
IN_PARTS = all_of(measured("E19", "gradient_error_4", norm="bn") > 0.01, every(measured("E19", "gradient_error_4", norm="ln"), 0, 1e-4))
rule("A4", says=CONTRADICTED, meant=IN_PARTS)


def growth(norm, placement):
    return measured("E8", "stream_growth_start", depth=48, init="xavier", norm=norm, placement=placement, time="start")


rule("A5", says=all_of(growth("none", "pre") > 10, growth("ln", "pre") < 2),
     meant=all_of(growth("none", "pre") > 2, growth("ln", "post") < 1.1))


def timed(metric, norm):
    return measured("E12", metric, length=64, norm=norm, width=128)


rule("A6", says=timed("milliseconds", "ln") / timed("milliseconds", "bn") < 0.95, meant=IN_PARTS)
LN_TO_NONE = fraction_of_updates("E21", {"norm": "ln"}, {"norm": "none"})
rule("A7", says=all_of(fraction_of_updates("E21", {"norm": "ln", "placement": "post"}, {"norm": "none"}) < 2 / 3,
                       measured("E21", "gradient_cv", norm="ln", placement="post", updates="100%")
                       / measured("E21", "gradient_cv", norm="none", updates="100%") < 1),
     meant=LN_TO_NONE < 2 / 3)
rule("A8", says=measured("E9", "output_range", norm="none") > 10, meant=measured("E9", "range_growth", norm="none") > 1)
OVERFITTED, FIT = (gap("E14", "none", "ln", metric, characters=20000, dropout=0) for metric in ("best_loss", "gap_at_equal_fit"))
rule("A10", says=all_of(OVERFITTED > 0.02, FIT > 0), meant=OVERFITTED > 0.02)
NOISE = [gap("E10", "none", "ln", f"noise_cost_{per_cent}", recipe="best", variant="plain") > 0.02 for per_cent in (5, 10, 20)]
rule("A19", says=all_of(*NOISE), meant=NOISE[-1])
rule("A12", says=CONTRADICTED, meant=loss("E10", norm="ln", recipe="best", variant="plain")
     - loss("E10", norm="ln", recipe="best", variant="ffn-norm-ln") > 0.02)
rule("A14", says=in_some_cell(NONE > 0.1), meant=in_some_cell(NONE > 0.02))
rule("A17", says=all_of(abs(RMS) < 0.02, abs(GN) < 0.02,
                        *(abs(gap("E3", "gn", batch=batch, block="full")) < 0.02 for batch in (1, 4))),
     meant=any_of(abs(RMS) < 0.02, abs(GN) < 0.02))


def drop(batch, block):
    """BatchNorm falls behind LayerNorm in small batches."""
    return all_of(change(gap("E3", "bn"), {"batch": 32, "block": "full"}, {"batch": batch, "block": block}) > 0.1,
                  gap("E3", "bn", batch=batch, block=block) > 0.1)


rule("A21", says=drop(4, "full"), meant=any_of(drop(1, 4), drop(1, "full")))
BN_IN_POST = change(loss("E8", norm="bn", depth="base") - loss("E8", norm="ln", depth="base"),
                    {"placement": "pre", "recipe": "best"}, {"placement": "post", "recipe": "best"})
rule("A22", says=in_some_cell(BN_IN_POST > 0.1), meant=in_some_cell(BN_IN_POST > 0.02))
rule("A23", says=every(measured("E6", "weight_change_running", norm="bn"), low=1e-4),
     meant=measured("E6", "weight_change_own", norm="bn") > 0.01)
rule("A25", says=every(measured("E11", "variance", norm="rms", vector="article"), 0.999, 1.001),
     meant=every(measured("E11", "mean_square", norm="rms", vector="article"), 0.999, 1.001))
rule("A26", says=all_of(timed("norm_ms", "rms") / timed("norm_ms", "ln") < 1,
                        largest_stable_rate("E1", {"norm": "rms", "depth": "base"}, {"norm": "ln", "depth": "base"}) > 1),
     meant=timed("norm_ms", "rms") / timed("norm_ms", "ln") < 1)
rule("A29", says=all_of(in_some_cell(gap("E9", "ln", "bn", start="x1000") > 0.02),
                        in_some_cell(gap("E3", "bn", batch=1, block="full") > 0.02)))
rule("N1", says=all_of(*(slope(gap("E21", norm), "width", 32, 64, 128) > 0.01 for norm in ("none", "bn"))))
rule("N2", says=change(gap("E5", "bn"), {"spread": 0}, {"spread": 29}) > 0.02)
rule("N3", says=CONTRADICTED)
rule("N4", says=all_of(RMS > 0.02, NONE > 0.02, GN > 0.02))
rule("N5", says=every(measured("E11", "suppression", norm="ln", vector="outlier"), low=10))
PRE_MINUS_POST = loss("E20", norm="ln", recipe="best") - loss("E20", norm="ln", placement="post", recipe="best")
rule("N15", says=fraction_of_updates("E21", {"norm": "ln"}, {"norm": "ln", "placement": "post"}) < 1, meant=no(PRE_MINUS_POST > 0.02))

# ---- article B -----------------------------------------------------------------------------------

FORMULA = every(measured("E11", "reference_error", channels=64, norm="ln", vector="normal"), 0, 1e-5)
NO_MEAN = every(measured("E11", "mean", norm="ln", vector="article"), -1e-6, 1e-6)
rule("B1", says=all_of(FORMULA, NO_MEAN))
rule("B3", says=rank_correlation("E17", "drift_mean", "val_loss", [{"norm": norm} for norm in ("none", "ln", "bn", "rms")]) > 0.5,
     meant=measured("E17", "drift_mean", norm="ln") / measured("E17", "drift_mean", norm="none") < 1)
WITHIN_TWO = measured("E11", "within_two", channels=768, norm="ln", vector="normal")
rule("B4", says=every(WITHIN_TWO, low=0.99),
     meant=all_of(every(WITHIN_TWO, low=0.9), every(measured("E11", "bound", norm="ln", vector="article"), 0, 1.00001)))
FASTER = largest_stable_rate("E20", {"norm": "ln", "edge": "best"}, {"norm": "none", "edge": "best"})
rule("B5", says=all_of(FASTER > 1.99, FASTER < 10.01), meant=FASTER > 1.33)
rule("B10", says=all_of(*(every(measured("E6", f"{what}_change", norm="ln"), 0, 1e-5) for what in ("prefix", "single"))))
SINGLE, SAME = measured("E2", "single_gap", norm="bn"), exactly(0, "E2", "own_gap", norm="ln")
rule("B13", says=all_of(SINGLE > 0.02, SAME), meant=all_of(SINGLE > 0, SAME))


def deep_post_minus_pre(**init):
    post, pre = (loss("E8", depth=16, **init, norm="ln", placement=placement, warmup=0) for placement in ("post", "pre"))
    return post - pre


LESS_STABLE = any_of(deep_post_minus_pre() > 0.1, deep_post_minus_pre(init="xavier") > 0.1)
rule("B16", says=all_of(LESS_STABLE, in_some_cell(PRE_MINUS_POST > 0.02)), meant=LESS_STABLE)


def of_algorithm(metric, algorithm):
    return measured("E13", metric, algorithm=algorithm, bits=32, offset=10000)


TWO_PASSES = every(of_algorithm("error", "one-pass"), low=0.01), every(of_algorithm("error", "two-pass"), 0, 1e-4)
rule("B17", says=all_of(*TWO_PASSES, every(of_algorithm("output_error", "two-pass"), low=1e-4)), meant=all_of(*TWO_PASSES))
NO_AFFINE = loss("E10", norm="ln", variant="affine-off") - loss("E10", norm="ln", variant="plain")
rule("B18", says=NO_AFFINE > 0.02, meant=NO_AFFINE > 0)
LITTLE = timed("norm_share", "ln") < 0.1
OVER_WIDTH = slope(measured("E12", "log2_norm", norm="ln", length=64), "width", 128, 256, 512)
OVER_LENGTH, LINEAR, ATTENTION = (slope(measured("E12", f"log2_{part}", norm="ln", width=128), "length", 64, 128, 256, 512)
                                  for part in ("norm", "linear", "attention"))
rule("B19", says=all_of(LITTLE, OVER_WIDTH > 0.85, OVER_WIDTH < 1.15, OVER_LENGTH > 0.85, OVER_LENGTH < 1.15), meant=LITTLE)
rule("B21", says=LINEAR > 1.5, meant=ATTENTION > 1.5)
ACCURACY = gap("E20", "ln", "none", "accuracy", recipe="best")
rule("B22", says=all_of(ACCURACY > 0.01, ACCURACY < 0.03), meant=ACCURACY > 0)
rule("N6", says=all_of(LN_TO_NONE < 0.9, LITTLE))
STEADIER = measured("E20", "gradient_cv", norm="ln", recipe="best") / measured("E20", "gradient_cv", norm="none", recipe="best") < 1
rule("N11", says=all_of(STEADIER, no(gap("E20", "ln", "none", "clipped", recipe="best") > 0)), meant=STEADIER)

# ---- article C -----------------------------------------------------------------------------------

DEPENDS = every(measured("E6", "logit_change_own", norm="bn"), low=1e-4)
OWN = measured("E2", "own_gap", norm="bn")
rule("C2", says=measured("E16", "position_loss", norm="bn") > 0.05)
rule("C7", says=every(measured("E6", "logit_change_running", norm="bn"), low=1e-4), meant=DEPENDS)
rule("C8", says=any_of(no(abs(OWN) < 0.1), no(exactly(0, "E2", "reread_errors", norm="bn"))), meant=no(abs(OWN) < 0.02))
JACOBIAN = measured("E9", "jacobian_ratio", norm="none")
rule("C12", says=all_of(measured("E9", "saturated_outlier", norm="none") > 0.1, JACOBIAN < 1 / 3), meant=JACOBIAN < 0.9)
rule("C14", says=all_of(*(exactly(0, "E6", f"logit_change_{statistics}", norm="ln") for statistics in ("running", "own"))))
rule("C15", says=any_of(*(every(measured("E18", f"{what}_bytes", norm="bn"), low=1) for what in ("rerun", "threads"))), meant=DEPENDS)
rule("N8", says=CONTRADICTED, meant=SETTLED)
DIFFERENT = [no(abs(quantity) < 0.02) for quantity in (RMS, GN, BN)]
rule("N14", says=all_of(*DIFFERENT), meant=any_of(*map(in_some_cell, DIFFERENT)))

# ---- article D -----------------------------------------------------------------------------------

rule("D9", says=every(measured("E11", "variance", formula="uncentred", vector="article"), 0.999, 1.001))
rule("D10", says=exactly(0, "E11", "other_token_change", norm="ln", vectors="tokens"))
rule("D11", says=every(measured("E11", "length", norm="ln", vector="article"), 0.999, 1.001),
     meant=all_of(every(measured("E11", "length_over_root", norm="ln", vector="article"), 0.999, 1.001), NO_MEAN))
SIMILARITY = measured("E16", "similarity_gain", norm="ln")
rule("D13", says=SIMILARITY > 0.05, meant=SIMILARITY > 0)
rule("N16", says=measured("E16", "radius_cv", norm="ln") < 0.1, meant=measured("E16", "radius_cv_ratio", norm="ln") < 1)

# ---- article F -----------------------------------------------------------------------------------

rule("F7", says=all_of(every(measured("E11", "largest", norm="ln", vector="article"), 0, 1),
                       every(measured("E11", "outlier_share", norm="ln", vector="article"), 0, 0.5)))
rule("F9", says=all_of(exactly(0, "E11", "largest", norm="ln", vector="equal"),
                       every(measured("E11", "smallest", norm="rms", vector="equal"), 0.999, 1.001)))
rule("F10", says=all_of(measured("E9", "above_frequencies", norm="none", start="x1000") > -0.1, abs(outlier_cost("ln", "E9")) < 0.02),
     meant=outlier_cost("none", "E9") > 0.1)
rule("F12", says=any_of(*(measured("E8", "gradient_ratio_start", depth=100, init=init, norm="ln", placement="post", time="start") < 0.01
                          for init in ("gpt2", "xavier"))),
     meant=any_of(measured("E8", "gradient_ratio_end", depth=16, norm="ln", placement="post", warmup=0) < 0.1,
                  measured("E8", "gradient_ratio_end", depth=16, init="xavier", norm="ln", placement="post", warmup=0) < 0.1))
rule("F17", says=measured("E9", "saturated", norm="ln", qk="off", rate=0.1) < 0.1,
     meant=measured("E9", "saturated_outlier", norm="ln") < 0.1)
rule("F20", says=measured("E20", "learned", norm="bn", recipe="best") / measured("E20", "learned", norm="ln", recipe="best") < 0.5,
     meant=BN > 0.02)
rule("F21", says=every(measured("E11", "deviation", norm="ln", scale=1e-4, vector="small"), 0.9, 1.1),
     meant=every(measured("E11", "deviation", norm="ln", scale=1e-2, vector="small"), 0.9, 1.1))
rule("F22", says=FORMULA)
rule("N10", says=all_of(exactly(0, "E11", "jacobian_trace", softmax="large"),
                        every(measured("E11", "jacobian_trace", softmax="mild"), low=0.5)))
rule("N13", says=change(measured("E14", "best_loss", dropout=0.2) - measured("E14", "best_loss", dropout=0),
                        {"norm": "ln", "characters": 20000}, {"norm": "bn", "characters": 20000}) > 0.02)

# ---- in none of the articles, and canaries -------------------------------------------------------

rule("X1", says=measured("E7", "learned_leak", batch=12, norm="bn", text="random") > 0.05,
     meant=measured("E7", "learned_leak", batch=1, norm="bn", text="random") > 0.05)


OUTLIERS, ROUNDING = (gap("E24", "ln", "none", metric, optimizer="adamw", placement="pre") for metric in
                      ("stream_kurtosis", "activations_4_cost"))
rule("X2", says=all_of(OUTLIERS > 0, ROUNDING > 0.02), meant=OUTLIERS > 0)
OWN_RECIPE = [loss("E25", norm=norm, own="off") - loss("E25", norm=norm, own="both") > 0.02 for norm in ("dyt", "derf")]
rule("X3", says=all_of(*OWN_RECIPE), meant=any_of(*OWN_RECIPE))
rule("X4", says=all_of(gap("E25", "dyt", characters=100_000) < 0, gap("E25", "dyt", characters=4_000_000) > 0),
     meant=change(gap("E25", "dyt"), {"characters": 100_000}, {"characters": 4_000_000}) > 0)
RMS_NOISE = minus_next_seed(loss("E1", norm="rms", rate="default"))
rule("K1", says=no(abs(RMS_NOISE) < 0.1))
rule("K2", says=every(measured("E6", "logit_change_own", norm="ln"), low=1e-4))
rule("K3", says=no(every(loss("E1", norm="none", rate="default") - loss("E1", norm="none", placement="post", rate="default"), 0, 0)))
rule("K4", says=RMS_NOISE > -0.05)
