"""The rules of the findings, and the quantities that findings.toml and pictures.py show.

evidence/rules.py says when a rule holds; findings.toml has the findings.
"""
from claims.forms import gap
from evidence.rules import all_of
from evidence.quantities import change, loss, measured

NORMS = ("ln", "rms", "bn", "none")

RMS, BN, NONE = (gap("E20", norm, recipe="best") for norm in ("rms", "bn", "none"))
RMS_ACROSS, BN_ACROSS, NONE_ACROSS = (gap("E23", norm) for norm in ("rms", "bn", "none"))
BN_DEFAULT, NONE_DEFAULT = (gap("E20", norm, rate="default") for norm in ("bn", "none"))
BN_S_M = BN.at("S", "M")
BN_SGD = gap("E22", "bn", optimizer="sgd")
BN_MUON = gap("E22", "bn", optimizer="muon")
FREQUENCIES = measured("E26", "above_frequencies", batch=1, norm="bn")
BN_SECOND = loss("E20", norm="bn", recipe="second") - loss("E20", norm="ln", recipe="best")
LEAK = measured("E7", "learned_leak", batch=1, norm="bn", text="random")
ONE, FOUR, MANY = (gap("E3", "bn", batch=count, block="full") for count in (1, 4, 32))
ONE_TUNED, FOUR_TUNED, MANY_TUNED = (gap("E26", "bn", batch=count) for count in (1, 4, 32))
OWN, OWN_TUNED = measured("E2", "own_gap", norm="bn"), measured("E26", "own_gap", norm="bn", start="x1")
BIASES, NO_BIASES = (gap("E10", "bn", variant=variant) for variant in ("plain", "bias-off"))


def optimizer(norm, name):
    """The loss with an optimizer minus AdamW's."""
    return loss("E22", norm=norm, optimizer=name) - loss("E22", norm=norm, optimizer="adamw")


def sgd_suits_bn(norm):
    """How much more BatchNorm's loss is above that of another norm with SGD than it is with AdamW."""
    return change(loss("E22", norm="bn") - loss("E22", norm=norm), {"optimizer": "adamw"}, {"optimizer": "sgd"})


def deep(placement, init):
    return measured("E26", "above_frequencies", depth="deep", init=init, placement=placement)


def deep_gap(init):
    post, pre = (loss("E26", depth="deep", init=init, placement=placement) for placement in ("post", "pre"))
    return post - pre


def outlier_cost(norm, experiment):
    """By how much an outlier in the initial weights raises the loss."""
    return loss(experiment, norm=norm, start="x1000") - loss(experiment, norm=norm, start="x1")


RULES = {
    "rms": abs(RMS) < 0.02,
    "optimizer": all_of(*(optimizer(norm, "muon") < 0 for norm in NORMS), *(sgd_suits_bn(norm) < 0 for norm in ("ln", "rms", "none"))),
    "batch": all_of(ONE > 0.1, FOUR < 0.1, LEAK > 0.1, measured("E7", "learned_leak", batch=1, norm="ln", text="random") < 0.1,
                    ONE_TUNED > 0.1, FOUR_TUNED < 0.1, OWN > -0.1, OWN_TUNED > -0.1),
    "deep": all_of(deep_gap("xavier") > 0.1, deep_gap("0.08") < 0.1),
    "no-norm": all_of(NONE_DEFAULT > 0.1, NONE_DEFAULT - 2 * NONE > 0),
    "size": all_of(BN_S_M > 0, BN_ACROSS.at("S") > 0),
    "outlier": all_of(outlier_cost("ln", "E9") > 0.1, outlier_cost("bn", "E9") < 0.02,
                      outlier_cost("ln", "E26") > 0.1, outlier_cost("bn", "E26") < 0.02)}
