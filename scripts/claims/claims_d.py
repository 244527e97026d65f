"""The claims of articles D and F, a claim of none of the articles, and the canaries. claims.py has the whole table."""
from claims.claims_a import AGAIN, BEST, DELTA, MUCH, RECIPE, SEEDS, SMALL_TEXT, TINY, loss
from claims.claims_b import zero
from claims.quantities import difference, geometric, ratio, rise, value
from claims.rules import above, all_of, any_of, below, exact, no, within
from claims.verdicts import FALSE, TRUE, Claim

ARTICLE = "vector=article"
DEEP = "norm=ln placement=post depth=100"


ADAMW = "optimizer=adamw placement=pre"
LATER = "It was added after the first edition, before the runs of its experiment."


def own_gain(norm):
    """The difference between a norm's loss with the common recipe and with its own recipe."""
    return difference("E25", "val_loss", "own=off", "own=both", at=f"norm={norm}")


VISION = "The article compares language with images, and this program trains on text only. E4 compares text with the " \
         "same characters in random order, which is another question."

CLAIMS_D = [
    Claim("D1", "BatchNorm's batch statistics fluctuate far more on language than on images",
          "D, claim 1", "true", out=VISION),
    Claim("D2 D3 D4", "On language the gradient terms of the statistics fluctuate strongly too, which destabilizes "
          "training", "D, claims 2 to 4", "open", out=VISION),
    Claim("D9", "The article's code, which takes the mean of squares for the variance, gives unit "
          "variance", "D, claim 9", "false",
          says=exact(value("E11", "variance", f"formula=uncentred {ARTICLE}"), 0.999, 1.001)),
    Claim("D10", "Under LayerNorm tokens do not disturb each other, so no information is lost between them",
          "D, claim 10", "false",
          says=exact(value("E11", "other_token_change", "norm=ln vectors=tokens"), 0, 0),
          note="Each token loses something: LN(a x + b) = LN(x), so its mean and its norm are gone.",
          revised="It was paraphrased as \"LayerNorm loses no information\". The article says it of tokens that do not "
          "disturb each other."),
    Claim("D11 D12", "LayerNorm puts every token on the unit sphere", "D, claims 11 and 12", "false",
          says=exact(value("E11", "length", f"norm=ln {ARTICLE}"), 0.999, 1.001),
          meant=all_of(exact(value("E11", "length_over_root", f"norm=ln {ARTICLE}"), 0.999, 1.001),
                       exact(value("E11", "mean", f"norm=ln {ARTICLE}"), -1e-6, 1e-6)),
          note="The radius is sqrt(C), and the values sum to 0."),
    Claim("D13", "LayerNorm makes embeddings of characters with similar use similar", "D, claim 13", "open",
          says=above(value("E16", "similarity_gain", "norm=ln"), 0.05),
          meant=above(value("E16", "similarity_gain", "norm=ln"), 0),
          note="BatchNorm raises it far more: see the numbers of E16."),
    Claim("N16", "LayerNorm's outputs get rarer away from a sphere", "D", "open",
          says=below(value("E16", "radius_cv", "norm=ln"), 0.1),
          meant=below(geometric("E16", "radius_cv_ratio", "norm=ln"), 1),
          note="The coefficient of variation of a token's length after gamma and beta: in the strict sense "
          "below 0.1, so that most tokens are near a sphere; in the weak one below that before the norm.",
          revised="After a quick report at quick size: the strict sense was the opposite of the claim, and the weak one, a "
          "variation above 0, could not be false."),
    Claim("F7 F8", "LayerNorm squeezes [10, 20, 999, -5] into about [-1, 1] and removes the outlier",
          "F, claims 7 and 8", "false",
          says=all_of(exact(value("E11", "largest", f"norm=ln {ARTICLE}"), 0, 1),
                      exact(value("E11", "outlier_share", f"norm=ln {ARTICLE}"), 0, 0.5))),
    Claim("F9", "Equal values become zeros under LayerNorm; RMSNorm keeps them", "F, claim 9", "true",
          says=all_of(exact(value("E11", "largest", "norm=ln vector=equal"), 0, 0),
                      exact(value("E11", "smallest", "norm=rms vector=equal"), 0.999, 1.001))),
    Claim("F10", "Without LayerNorm a network sees only the outlier and learns nothing",
          "F, claim 10", "open",
          says=all_of(above(value("E9", "above_frequencies", "norm=none start=x1000"), -0.1),
                      within(difference("E9", "val_loss", "start=x1000", "start=x1", at="norm=ln"),
                             DELTA)),
          meant=above(difference("E9", "val_loss", "start=x1000", "start=x1", at="norm=none"), 0.1)),
    Claim("F12", "With Post-LN and about 100 layers gradients vanish", "F, claim 12", "imprecise",
          says=any_of(*[below(geometric("E8", "gradient_ratio_start", f"{DEEP} init={init} time=start"),
                              0.01) for init in ("gpt2", "xavier")]),
          meant=any_of(*[below(geometric("E8", "gradient_ratio_end", f"norm=ln placement=post depth=16 warmup=0{init}"),
                               0.1) for init in ("", " init=xavier")]),
          note="The weaker sense is another claim: it reads trained models of 16 layers, not of about 100. The ratio is that of "
          "the first layer's gradient to the last one's (mlp.c_proj.weight). It does not see gradients that are small in the "
          "middle only.",
          revised="After a full report: the trained models had GPT-2's initial weights only, with which "
          "no such effect was found at the end of a run. With Xavier's it was found (scripts/PAPERS.md), so models "
          "with these were added."),
    Claim("F14", "The diagram of Pre-LN ends with the residual addition", "F, claim 14", "false",
          out="The diagram is of one block, and has no head. So it does not say whether a norm is before the head. E8 "
          "compares models with and without it."),
    Claim("F17", "LayerNorm guarantees a healthy softmax", "F, claim 17", "false",
          says=below(value("E9", "saturated", "norm=ln qk=off rate=0.1"), 0.1),
          meant=below(value("E9", "saturated_outlier", "norm=ln"), 0.1), revised=SEEDS,
          note="In the strict sense at a learning rate of 0.1, in the weak one under an outlier channel."),
    Claim("F20", "BatchNorm on text is usually very poor", "F, claim 20", "open",
          says=below(ratio("E20", "learned", "norm=bn", "norm=ln", at=BEST), 0.5),
          meant=above(loss("norm=bn", "norm=ln"), DELTA),
          note="Very poor: it learns less than half of what LayerNorm learns beyond the frequencies "
          "of the characters.", revised=RECIPE),
    Claim("F21", "LayerNorm stretches small values", "F, claim 21", "imprecise",
          says=exact(value("E11", "deviation", "norm=ln vector=small scale=0.0001"), 0.9, 1.1),
          meant=exact(value("E11", "deviation", "norm=ln vector=small scale=0.01"), 0.9, 1.1),
          note="Until the variance is near epsilon."),
    Claim("F22", "PyTorch's LayerNorm(hidden_dim) normalizes each token over its features", "F, claim 22", "true",
          says=exact(value("E11", "reference_error", "norm=ln vector=normal channels=64"), 0, 1e-5),
          note="The article's snippet gives shapes and no values. The golden numbers of the tests are PyTorch's; here "
          "the formula is in numpy."),
    Claim("N9", "In recurrent networks BatchNorm with statistics for each time step is troublesome and does badly",
          "F, BatchNorm's faults", "open",
          out="The article says it of recurrent networks, and this program has none. E15 has BatchNorm's loss with "
          "statistics for each position."),
    Claim("N10", "The softmax of (1000, 5, 2) is one-hot and has no gradient; that of (1.1, 1.2, 0.9) is "
          "mild", "F, section 6", "true",
          says=all_of(exact(value("E11", "jacobian_trace", "softmax=large"), 0, 0),
                      exact(value("E11", "jacobian_trace", "softmax=mild"), low=0.5))),
    Claim("N13", "BatchNorm lessens the need for dropout", "F, BatchNorm", "open",
          says=above(rise("E14", "best_loss", ("dropout=0.2", "dropout=0"), "norm=bn characters=20000",
                          "norm=ln characters=20000"), DELTA),
          note="The rule compares the cost of dropout for BatchNorm and for LayerNorm; a gain is a negative cost.",
          revised=f"{SMALL_TEXT} {AGAIN}"),
    Claim("X1", "(in none of the articles) In training BatchNorm lets a causal model see the future",
          "normlab", "open",
          says=above(value("E7", "learned_leak", "norm=bn text=random batch=12"), 0.05),
          meant=above(value("E7", "learned_leak", "norm=bn text=random batch=1"), 0.05),
          note="Logits leak in any batch (E7); what is asked is whether that is learned."),
    Claim("X2", "(in none of the articles) LayerNorm makes more outliers than a model without a norm, and rounding "
          "activations costs it more", "normlab", "open",
          says=all_of(above(difference("E24", "stream_kurtosis", "norm=ln", "norm=none", at=ADAMW), 0),
                      above(difference("E24", "activations_4_cost", "norm=ln", "norm=none", at=ADAMW), DELTA)),
          meant=above(difference("E24", "stream_kurtosis", "norm=ln", "norm=none", at=ADAMW), 0), revised=LATER),
    Claim("X3", "(in none of the articles) DyT and Derf need a recipe of their own: a learned scale of the embeddings and "
          "alpha by site", "normlab, after arXiv:2503.10622 and 2512.10938", "open",
          says=all_of(*[above(own_gain(norm), DELTA) for norm in ("dyt", "derf")]),
          meant=any_of(*[above(own_gain(norm), DELTA) for norm in ("dyt", "derf")]), revised=LATER),
    Claim("X4", "(in none of the articles) Compared with LayerNorm, DyT helps with little text and harms with much",
          "normlab, after arXiv:2604.23434", "open",
          says=all_of(below(difference("E25", "val_loss", "norm=dyt", "norm=ln", at="characters=100000"), 0),
                      above(difference("E25", "val_loss", "norm=dyt", "norm=ln", at="characters=4000000"), 0)),
          meant=above(rise("E25", "val_loss", ("norm=dyt", "norm=ln"), "characters=4000000", "characters=100000"), 0),
          revised=LATER),
]

# What is known before: if one of these comes out otherwise, the report itself is wrong.
CANARIES = [
    Claim("K1", "RMSNorm with some seeds and RMSNorm with others end more than 0.1 nats from each other",
          "by construction", FALSE, canary=FALSE,
          says=no(within(difference("canary", "val_loss", "copy=1", "copy=2"), MUCH)),
          revised="After a quick report at quick size: it compared runs with themselves, so it could not "
          "fail. Now it compares runs of different seeds, and fails where noise or a fault hides that they "
          "are alike."),
    Claim("K2", "LayerNorm's logits depend on the rest of the batch", "by construction", FALSE,
          says=exact(value("E6", "logit_change_own", "norm=ln"), low=TINY), canary=FALSE),
    Claim("K3", "Without a norm, Pre-LN and Post-LN differ", "by construction", FALSE,
          says=no(zero(difference("canary", "val_loss", "place=pre", "place=post"))), canary=FALSE),
    Claim("K4", "A penalty of 0.05 nats, added to RMSNorm's losses, is found against RMSNorm with other "
          "seeds", "by construction", TRUE, canary=TRUE,
          says=above(difference("canary", "val_loss", "penalty=0.05", "penalty=0"), 0),
          revised="After a quick report at quick size: the penalty was added to the very runs that it was "
          "compared with, so there was no noise to hide it. Now it is compared with runs of other seeds."),
]

