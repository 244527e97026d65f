"""Texts of the page: sentences that are chosen by verdict, objections and what was done about them."""

LEVELS = {"mini": "mini: a trial of the report itself. Its verdicts mean nothing",
          "quick": "quick: small models, few seeds. Many verdicts need the full report",
          "text": "one text: which norm, where, which learning rate and initialization suit it, in minutes",
          "full": "full"}

ARTICLES = "Five articles explain why Transformers use LayerNorm and not BatchNorm (titles translated from Chinese): " \
           "A, \"The role of LayerNorm in the Transformer architecture\"; B, \"Layer normalization of the " \
           "Transformer\"; C, \"Why does the Transformer use LayerNorm and not BatchNorm?\" " \
           "(github.com/lihe/MyGitBlog/issues/8); D, \"Why the Transformer uses Layer Normalization\"; F, \"Layer " \
           "normalization (LN) against batch normalization (BN)\". Claims are paraphrased. A21 is claim 21 of article A. N1 to N16 were found at a second reading of the articles; X1 " \
           "is a claim of ours."

# Above the tables of what is asked most.
ASKED_SAYS = ("Validation loss of the first model minus that of the second, in nats, with 99 % intervals. Each model has "
              "its own best initialization and learning rate.",
              "The same models with nanoGPT's recipe: initial standard deviation 0.02, learning rate 0.001.")

OLDER = "{} of {} runs were made by another program than this one, and measured again with this one. Another " \
        "--out runs them again."
TAKEN_OVER = "{} runs were measured by another report (--continue)"

# Words of sentences that are made from readings (findings.py).
NORMS = {"ln": "LayerNorm", "bn": "BatchNorm", "rms": "RMSNorm", "gn": "GroupNorm", "none": "no norm"}
UNSAID = {("rate", "tuned"), ("depth", "base"), ("block", "full"), ("recipe", "best"), ("time", "start"),
          ("vector", "article"), ("variant", "plain")}
METRICS = {
    "val_loss": "validation loss", "best_loss": "best validation loss", "trained": "runs that trained",
    "learned": "nats learned beyond the frequencies of characters",
    "own_gap": "loss by the batch's own statistics minus that by running ones",
    "single_gap": "loss by each sequence's statistics minus that by running ones",
    "learned_leak": "nats learned of random text from what comes later",
    "logit_change_running": "change of the logits with the rest of the batch, in evaluation",
    "logit_change_own": "change of the logits with the rest of the batch, by its own statistics",
    "weight_change_running": "change of attention's weights with the rest of the batch, in evaluation",
    "weight_change_own": "change of attention's weights with the rest of the batch, by its own statistics",
    "gradient_error_1": "error of the gradient with synchronized statistics",
    "gradient_error_4": "error of the gradient from four parts of a batch",
    "position_loss": "R² of a token's position lost by the norm",
    "norm_loss": "R² of a token's norm lost by the norm", "mean_loss": "R² of a token's mean lost by the norm",
    "noise_cost": "loss that 5 % wrong characters cost", "pad_change": "change of the logits with the pads",
    "movement": "movement of running means in the last fifth of a run, in deviations",
    "saturated": "fraction of saturated queries",
    "saturated_outlier": "fraction of saturated queries with an outlier channel",
    "tid_mean": "fluctuation of batch means", "tid_var": "fluctuation of batch deviations",
    "gradient_cv": "variation of the gradient's norm", "radius_cv": "variation of a token's norm",
    "above_frequencies": "loss above the entropy of the frequencies of characters",
    "convexity_excess": "excess of attention's outputs over its values",
    "largest_logit": "largest logit of attention", "within_two": "fraction of values between −2 and 2",
    "log2_linear": "log2 of the time of the matrix products in ms",
    "log2_norm": "log2 of the time of the norms in ms",
    "log2_attention": "log2 of the time of attention in ms", "norm_ms": "time of the norms",
    "milliseconds": "time of an update", "rerun_bytes": "bytes that differ after a rerun",
    "threads_bytes": "bytes that differ with the number of threads",
    "stream_growth_start": "growth of the residual stream over the layers, untrained",
    "gradient_ratio_start": "gradient of the first layer over that of the last, untrained",
    "gradient_ratio_end": "gradient of the first layer over that of the last, at the end",
    "range_growth": "range of attention's outputs over that of its values",
    "jacobian_ratio": "trace of the softmax's Jacobian with an outlier channel over that without",
    "output_range": "range of attention's outputs", "drift_mean": "drift of the means between checkpoints",
    "gradient_cosine": "cosine of the gradients before and after an update",
    "leak_training": "change of earlier logits with later characters, in training",
    "gap_at_equal_fit": "gap between validation and training loss, at the same training loss (nats)",
    "similarity_gain": "gain of similarity of characters with similar use",
}


# Changes of what is common to rules, which registered.csv cannot show.
REVISIONS = [
    "The rules were designed after trials with one to three seeds on one text. So their author had seen "
    "which way many claims go.",
    "The rule for runs that did not train was changed after a trial with three seeds: the median decides "
    "only where runs of a variant differ in whether they trained. Before, it decided wherever one run did "
    "not train, so two variants that both fail could not be compared.",
    "After a trial with two seeds, what is read on a grid (the largest stable rate, the steps to a loss) got "
    "the grid's rounding in its interval. Before, seeds with equal values gave an interval of width 0.",
    "After a quick report, a claim whose weaker sense holds at one size and fails at another is imprecise. Before, "
    "it was false, although the weaker sense was found at one size (A14: without a norm).",
    "After a quick report, E17 and the untrained models of E8 got eight seeds instead of five at quick size, since "
    "five left open what they were made for (B3, and the strict sense of F12).",
    "After quick reports, where a minority of a variant's runs is stuck, the interval's end is that of the "
    "others. Before, a stuck run counted as the worst of the others, which made the interval too narrow: planted "
    "null effects were called in 2 % of all cases. With the facts of the last quick report no verdict changed.",
    "After a full report at sizes XS and S, what reads the better of two initializations (A14, N4) is "
    "judged at ./train's own rate and initialization too, as rules with rate=tuned were from the start. "
    "A14 was false, and is imprecise.",
    "After E1 of the full report, a run that diverged counts as one that never reaches a loss (A7, N6, N15), and a "
    "ratio of 0 as the lowest. Before, both were left out. With the facts of that report no verdict changed.",
    "Second edition. Seven verdicts instead of four: what was \"imprecise\" is true in a weaker sense, or depends on "
    "size or on the recipe; \"not decided\" is open. A14 was false and then imprecise in the first edition.",
    "Second edition. Verdicts are monotone in evidence: one that is decided with wide intervals is not reversed by narrow "
    "ones. Before, a claim was false if its weaker sense failed in one cell and was open in the others (A22, F10), "
    "and a verdict that was open at ./train's own learning rate left a stronger one than a decided verdict did (A7).",
    "Second edition. Losses are equal too where no cell contradicts it and the interval of the mean over at least three "
    "texts and sizes (random effects) lies within the margin.",
    "Second edition. The finding that a model without a norm has a lower loss than LayerNorm in all six cells is "
    "withdrawn. It gave each model the better of two initializations, GPT-2's and Xavier's, and neither suits LayerNorm.",
    "Second edition. A claim is judged at each model's best recipe: its own initial standard deviation and learning rate "
    "(E20). Steps to a loss are read from runs that were annealed by themselves (E21).",
    "Second edition. Paraphrases were read again in the articles. Hedges are back (A8, A14, A17, A22). What an article "
    "does not claim, or says of images or of recurrent networks, is not tested (D1, D2, N7, N9, N12, F14).",
]


OBJECTIONS = [
    ("The learning rate was not tuned for each norm.",
     "In E1 every norm gets the same grid of rates, with tuning seeds; its best rate is frozen and judged "
     "with other seeds. Other experiments try fewer rates, or take the rate that was tuned for a norm and "
     "not for the variant; E4, E17, the deep models of E8 and those on random text of E7 have 1e-3 only. A "
     "best rate at an end of its grid may not be the best one. Claims on E1's norms and E8's placements "
     "are judged at the default rate too; where that contradicts, the claim depends on the recipe."),
    ("Safe rates were preferred.",
     "A rate whose tuning seeds lie more than 0.1 nats apart is passed over for one at which they agree. "
     "Otherwise a variant would be judged by luck. It makes such variants look worse; a claim that reads "
     "such a rate says so. LayerNorm with 32 sequences at XS is one (3.01 nats; BatchNorm 2.41): for this alone the "
     "first part of A21 holds at XS."),
    ("Only the rate was tuned.",
     "AdamW, its weight decay, the batch, warm-up and schedule are ./train's own for all norms. They were "
     "not chosen for each. In E1 only models without a norm and with LayerNorm have the better of two "
     "initializations (A14, N4). The others have GPT-2's, whose small weights hide much of what depth "
     "does; E8 has Xavier's too."),
    ("One size proves nothing.",
     "Core claims (E1) are judged at three sizes, most others at two, and must hold in each cell to be "
     "true. For false it is enough that each sense fails in one cell and holds in none; others may be open (A22, N12, "
     "F10, D2). XS only are the timed models, those of other widths and depths, the whole grid of rates, runs without "
     "clipping or warm-up, and E7's models of one sequence; at M there are no norm, LayerNorm, BatchNorm and RMSNorm "
     "only. Sizes change layers, channels, length and updates together. Large models are not tested, "
     "and each verdict says at which size it holds."),
    ("One corpus, characters only.",
     "E1 runs on every text, the other experiments on the first. Two English texts were used. Sub-word "
     "models are not tested."),
    ("The runs are short.",
     "The models of size XS see a seventh of Shakespeare's training part, those of S three quarters, those "
     "of M one and a half times all of it. Norms change places in the course of a run (figures of E1). So "
     "verdicts are about early training."),
    ("Intervals are over seeds, not over texts.",
     "Every run is scored on the same characters of the validation part; what is read from dumps (E5, E6, "
     "E9, E10, E16, E19) comes from a few thousand of them or fewer. Another text could shift norms apart; "
     "only E1 has a second one."),
    ("A batch of one is not small: BatchNorm's sample is batch times length.",
     "E3 varies both, at equal numbers of characters. So a smaller batch also has more updates, and one sequence "
     "adds the leak of E7. E3 cannot separate these."),
    ("Warm-up and clipping hide instability.",
     "E1 repeats the largest rates of four norms at size XS without clipping and without warm-up, and has "
     "the fraction of clipped updates. E8 trains deep models without warm-up."),
    ("Stale running statistics.",
     "E2 measures one model by five sources of statistics, by batches of 1 and of 256 sequences, and with "
     "another momentum."),
    ("In training BatchNorm sees the future, so its training loss means something else.",
     "Gaps between training and validation loss are measured in evaluation mode; E7 measures the leak."),
    ("Adam hides the scale of gradients.",
     "Gradient claims are judged on gradients, not on losses."),
    ("The rate was tuned on the validation text.",
     "On other seeds, but on the same text. The gain from choosing among six rates is common to all norms; "
     "where two initializations are tried, it is among twelve."),
    ("Of this many claims some come out by luck.",
     "Intervals are at 99 %. A test plants thousands of null effects of five seeds and judges them by "
     "these rules. With Gaussian noise 1 % of them are called a difference, and no more where in both "
     "variants one run in ten fails or ends higher. If only one variant has such bad runs, more are: 6 % if "
     "half of its runs are bad, and 59 % if one in ten is, since five seeds then often contain no bad run. "
     "This report has 8 or 16 seeds: if one run in ten is bad, 43 % and 19 % of such sets contain none."),
    ("The same runs decide many claims.",
     "LayerNorm's runs at its tuned rate are read by nine experiments. So verdicts are not independent, "
     "and one unlucky set of seeds moves several."),
    ("Other thresholds, other verdicts.",
     "Equal is within 0.02 nats, much is 0.1. Both were fixed before the runs, and each is a number in one "
     "line of the table of claims: change it, and judge the same facts with --facts."),
    ("Rules were fitted to the results.",
     "All but a few were written down before any run of this report, but after trials on one text that "
     "showed which way many claims go, and some were changed after such trials. registered.csv has their "
     "first form, and a report keeps their checksums when an experiment has its first facts. The page "
     "names every rule that changed since."),
    ("A program, rules and paraphrases by the same hands.",
     "The program's losses and gradients are checked against PyTorch's in the tests; whole training runs "
     "were not repeated with another program. Each claim names its place in the article, and the rule is "
     "beside the verdict."),
    ("Averages of surviving runs flatter.",
     "Where some runs of one variant are stuck, its mean is at least as bad as that of the runs that "
     "trained: the interval has an end on that side only. Where one diverged, or both variants have such "
     "runs, the median decides, which they enter. Its interval is the whole line below 8 seeds."),
]

# What names mean that the page uses without saying.
GLOSSARY = [
    ("none, ln, bn, rms, gn, in, pn, scale, dyt",
     "./train's names of norms: no norm, LayerNorm, BatchNorm, RMSNorm, GroupNorm, InstanceNorm, "
     "PowerNorm, ScaleNorm, Dynamic Tanh. `./train --help=norm` lists all."),
    ("pre, post",
     "where the norm is: before each sub-layer (Pre-LN), or after each residual addition (Post-LN)."),
    ("tinyshakespeare, kjv",
     "texts: tiny Shakespeare, and the Bible in King James's version."),
    ("XS, S, M",
     "sizes of models, under \"What was run\". A cell is a text and a size."),
    ("rate tuned, rate default",
     "at the best learning rate of the grid, and at ./train's own, 1e-3."),
    ("recipe best",
     "at the best learning rate with the better of GPT-2's and Xavier's initial weights."),
    ("nat",
     "the unit of losses, natural logarithms: 0.02 nats less is 2 % less perplexity. A loss is per "
     "character, on validation text."),
    ("Says, Meant",
     "what a claim says literally, and what remains of it if one is charitable."),
    ("trained, stuck, diverged",
     "a run trained if its validation loss fell from its start; otherwise it is stuck, or diverged if its "
     "loss is no number."),
    ("largest stable rate",
     "the largest rate up to which, counted from its best one, a seed ends at most 0.1 nats above its best "
     "loss."),
    ("mean",
     "over seeds. Ratios, such as that of two gradients, have the geometric mean."),
    ("fluctuation",
     "the distance of a batch's mean or deviation from the running one, in running deviations."),
    ("saturated",
     "a query of attention of which one weight is above 0.99."),
    ("∞ in an interval",
     "some runs of one variant are stuck, and nobody knows how far they would have got; or a loss is never "
     "reached; or there are too few seeds for a median."),
    ("canary",
     "a statement that is true or false by construction: if it comes out otherwise, the report is wrong."),
]
