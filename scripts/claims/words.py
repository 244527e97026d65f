"""Texts of the page: sentences that are chosen by verdict, objections and what was done about them."""

LEVELS = {"mini": "mini: a trial of the report itself. Its verdicts mean nothing",
          "quick": "quick: small models, few seeds. Many verdicts need the full report",
          "text": "one text: which norm, where, which learning rate and initialization suit it, in minutes",
          "full": "full"}

ARTICLES = "Five articles explain why Transformers use LayerNorm and not BatchNorm (titles translated from Chinese): " \
           "A, \"The role of LayerNorm in the Transformer architecture\"; B, \"Layer normalization of the " \
           "Transformer\"; C, \"Why does the Transformer use LayerNorm and not BatchNorm?\" " \
           "(github.com/lihe/MyGitBlog/issues/8); D, \"Why the Transformer uses Layer Normalization\"; F, \"Layer " \
           "normalization (LN) against batch normalization (BN)\". Claims are paraphrased. A21 is claim 21 of article " \
           "A. N1 to N16 were found when the articles were read again; X1 to X4 are claims of ours."

# Above the tables of what is asked most.
ASKED_SAYS = ("Validation loss of the first model minus that of the second, in nats, with 99 % intervals. Each model has "
              "its own best initialization and learning rate.",
              "The same models with nanoGPT's recipe: initial standard deviation 0.02, learning rate 0.001.")

OLDER = "{} of {} runs were trained by an earlier version of the program, and measured again with this one. Use " \
        "another --out to train them again."
TAKEN_OVER = "{} runs were measured by another report (--continue)"

# Words of sentences that are made from readings (findings.py).
NORMS = {"ln": "LayerNorm", "bn": "BatchNorm", "rms": "RMSNorm", "gn": "GroupNorm", "none": "no norm"}
UNSAID = {("rate", "tuned"), ("depth", "base"), ("block", "full"), ("recipe", "best"), ("time", "start"),
          ("vector", "article"), ("variant", "plain")}
METRICS = {
    "val_loss": "validation loss", "best_loss": "best validation loss", "trained": "runs that trained",
    "learned": "nats learned beyond character frequencies",
    "own_gap": "loss with the batch's own statistics minus loss with running ones",
    "single_gap": "loss with each sequence's statistics minus loss with running ones",
    "learned_leak": "nats gained on random text from later characters",
    "logit_change_running": "change of logits when the rest of the batch changes, in evaluation",
    "logit_change_own": "change of logits when the rest of the batch changes, with batch statistics",
    "weight_change_running": "change of attention weights when the rest of the batch changes, in evaluation",
    "weight_change_own": "change of attention weights when the rest of the batch changes, with batch statistics",
    "gradient_error_1": "error of the gradient with synchronized statistics",
    "gradient_error_4": "error of the gradient from four shards of a batch",
    "position_loss": "R² of a token's position lost by the norm",
    "norm_loss": "R² of a token's norm lost by the norm", "mean_loss": "R² of a token's mean lost by the norm",
    "noise_cost": "loss that 5 % wrong characters cost", "noise_cost_5": "loss that 5 % wrong characters cost",
    "noise_cost_10": "loss that 10 % wrong characters cost", "noise_cost_20": "loss that 20 % wrong characters cost",
    "stream_kurtosis": "excess kurtosis of the residual stream",
    "stream_peak": "largest value of the residual stream over its root mean square",
    "first_share_ratio": "attention to the first token over an equal share",
    "weights_4_cost": "loss that rounding weights to 4 bits costs",
    "activations_4_cost": "loss that rounding activations to 4 bits costs",
    "pad_change": "change of logits when pads change",
    "movement": "movement of running means in the last fifth of a run, in standard deviations",
    "saturated": "fraction of saturated queries",
    "saturated_outlier": "fraction of saturated queries with an outlier channel",
    "tid_mean": "fluctuation of batch means", "tid_var": "fluctuation of batch standard deviations",
    "gradient_cv": "variation of gradient norms", "radius_cv": "variation of token norms",
    "above_frequencies": "loss above the entropy of character frequencies",
    "convexity_excess": "excess of attention's outputs over the range of its values",
    "largest_logit": "largest attention logit", "within_two": "fraction of values between −2 and 2",
    "log2_linear": "log2 of the time of matrix products in ms",
    "log2_norm": "log2 of the time of norms in ms",
    "log2_attention": "log2 of the time of attention in ms", "norm_ms": "time of norms",
    "milliseconds": "time of an update", "rerun_bytes": "bytes that differ after a rerun",
    "threads_bytes": "bytes that differ with the number of threads",
    "stream_growth_start": "growth of the residual stream over the layers, untrained",
    "gradient_ratio_start": "gradient of the first layer divided by that of the last, untrained",
    "gradient_ratio_end": "gradient of the first layer divided by that of the last, at the end",
    "range_growth": "range of attention's outputs divided by that of its values",
    "jacobian_ratio": "trace of the softmax's Jacobian with an outlier channel divided by that without",
    "output_range": "range of attention's outputs", "drift_mean": "drift of means between checkpoints",
    "gradient_cosine": "cosine of the gradients before and after an update",
    "leak_training": "change of logits when later characters change, in training",
    "gap_at_equal_fit": "validation loss minus training loss, at the same training loss (nats)",
    "similarity_gain": "gain in similarity between characters of similar use",
}


# Changes of what is common to rules, which registered.csv cannot show.
REVISIONS = [
    "The rules were designed after trials with one to three seeds on one text, so their author knew which way many "
    "claims go.",
    "After a trial with three seeds, the rule for runs that did not train was changed. The median now decides only "
    "if some runs of a variant trained and others did not. Before, it decided as soon as one run did not train, so "
    "two variants that both fail could not be compared.",
    "After a trial with two seeds, the intervals of values read on a grid (the largest stable learning rate, the "
    "steps to a loss) were widened by the grid's rounding. Before, seeds with equal values gave an interval of width "
    "0.",
    "After a quick report, a claim whose weaker sense holds at one size and fails at another is imprecise. Before, "
    "it was false, although the weaker sense held at one size (A14: without a norm).",
    "After a quick report, E17 and the untrained models of E8 got eight seeds instead of five at quick size, since "
    "five could not decide the claims that they were made for (B3, and the strict sense of F12).",
    "After quick reports, if a minority of a variant's runs is stuck, the other runs give the end of its interval. "
    "Before, a stuck run counted as the worst of the others, which made the interval too narrow: 2 % of planted null "
    "effects were called differences. With the facts of the last quick report no verdict changed.",
    "After a full report at sizes XS and S, claims on the better of two initializations (A14, N4) are also judged at "
    "./train's default learning rate and initialization, as rules with rate=tuned were from the start. A14 was "
    "false, and became imprecise.",
    "After E1 of the full report, a run that diverged counts as one that never reaches a loss (A7, N6, N15), and a "
    "ratio of 0 as the lowest. Before, both were left out. With the facts of that report no verdict changed.",
    "Second edition. There are seven verdicts instead of four. \"Imprecise\" became true in a weaker sense, depends "
    "on size, or depends on the recipe; \"not decided\" became open. A14 was false and then imprecise in the first "
    "edition.",
    "Second edition. Verdicts are monotone in evidence: narrower intervals do not reverse a verdict. Before, a claim "
    "was false if its weaker sense failed in one cell and was open in the others (A22, F10), and an open verdict at "
    "./train's default learning rate left a stronger verdict than a decided one did (A7).",
    "Second edition. Losses are also equal if no cell contradicts it and the interval of the mean over at least "
    "three texts and sizes (random effects) lies within the margin.",
    "Second edition. The finding that a model without a norm has a lower loss than LayerNorm in all six cells is "
    "withdrawn. It gave each model the better of two initializations, GPT-2's and Xavier's, and neither suits "
    "LayerNorm.",
    "Second edition. A claim is judged at each model's best recipe: its own initial standard deviation and learning "
    "rate (E20). Steps to a loss are read from runs that were annealed separately (E21).",
    "Second edition. The paraphrases were compared with the articles again. Hedges are back (A8, A14, A17, A22). "
    "What an article does not claim, or says of images or of recurrent networks, is not tested (D1, D2, N7, N9, N12, "
    "F14).",
    "Second edition, after its first report left 18 claims open. The mean over at least three texts and sizes decides "
    "every form of reading, not only equality, and only where the mean of every single one is on the same side. A claim "
    "depends on size where all texts are on one side of the threshold at the smallest size and on the other at the largest "
    "(B18, B22). The rules of ten claims read new runs, and were written before these (A10, A12, A19, A22, B5, N2, N13) "
    "or read other known ones (B16, N14, N15).",
]


OBJECTIONS = [
    ("The learning rate was not tuned for each norm.",
     "In E1 it was: every norm gets the same grid of learning rates, tuning seeds choose its best one, and other "
     "seeds judge it. Other experiments try fewer learning rates, or use one that was tuned for the norm but not for "
     "the variant. E4, E17, the deep models of E8 and the models on random text of E7 use 1e-3 only. A best learning "
     "rate at an end of its grid may not be the best. Claims on E1's norms and E8's placements are also judged at "
     "the default learning rate; if that contradicts, the claim depends on the recipe."),
    ("Stable learning rates were preferred.",
     "If the tuning seeds of a learning rate differ by more than 0.1 nats, another one at which they agree is "
     "chosen. Otherwise luck would decide. This makes such variants look worse, and a claim that reads such a "
     "learning rate says so. LayerNorm with 32 sequences per batch at XS is such a variant (3.01 nats, BatchNorm "
     "2.41). The first half of A21 holds at XS only because of it."),
    ("Only the learning rate was tuned.",
     "AdamW, weight decay, batch size, warm-up and schedule are ./train's defaults for all norms. In E1 only "
     "LayerNorm and models without a norm have the better of two initializations (A14, N4). The others have GPT-2's, "
     "whose small weights hide many effects of depth; E8 also uses Xavier's."),
    ("One size proves nothing.",
     "Core claims (E1) are judged at three sizes, most others at two. A claim is true only if it holds in each cell. "
     "It is false if each sense fails in one cell and holds in none; other cells may be open (A22, N12, F10, D2). "
     "Run at XS only: timed models, other widths and depths, the full grid of learning rates, training without "
     "clipping or warm-up, and E7's models of one sequence. At M there are only no norm, LayerNorm, BatchNorm and "
     "RMSNorm. Sizes change layers, channels, length and updates together. Large models are not tested, and each "
     "verdict names the sizes at which it holds."),
    ("One corpus, characters only.",
     "E1 uses every text, other experiments the first. Two English texts were used. Sub-word models are not tested."),
    ("The runs are short.",
     "Models of size XS train on a seventh of Shakespeare's training split, those of S on three quarters, those of M "
     "on one and a half times all of it. The order of norms changes in the course of a run (figures of E1), so "
     "verdicts are about early training."),
    ("Intervals are over seeds, not over texts.",
     "Every run is scored on the same characters of the validation split. Measurements of dumps (E5, E6, E9, E10, "
     "E16, E19) use at most a few thousand of them. Another text could change the differences between norms; only E1 "
     "has a second one."),
    ("A batch of one is not small: BatchNorm's sample is batch times length.",
     "E3 varies both, at equal numbers of characters. So a smaller batch also has more updates, and one sequence "
     "adds the leak of E7. E3 cannot separate these effects."),
    ("Warm-up and clipping hide instability.",
     "E1 repeats the largest learning rates of four norms at size XS without clipping and without warm-up, and "
     "measures the fraction of clipped updates. E8 trains deep models without warm-up."),
    ("Stale running statistics.",
     "E2 measures one model with five sources of statistics, with batches of 1 and of 256 sequences, and with "
     "another momentum."),
    ("In training BatchNorm sees the future, so its training loss means something else.",
     "Gaps between training and validation loss are measured in evaluation mode; E7 measures the leak."),
    ("Adam hides the scale of gradients.",
     "Claims on gradients are judged on gradients, not on losses."),
    ("The learning rate was tuned on the validation text.",
     "It was tuned on other seeds, but on the same text. All norms gain equally from choosing among six learning "
     "rates, or among twelve settings where two initializations are tried."),
    ("Of this many claims, some come out by luck.",
     "Intervals are at 99 %. A test judges thousands of planted null effects of five seeds by these rules. With "
     "Gaussian noise, 1 % of them are called a difference, and no more if one run in ten of both variants fails or "
     "has a higher final loss. If only one variant has such bad runs, more are: 6 % if half of its runs are bad, and "
     "59 % if one in ten is, since five seeds then often contain no bad run. This report has 8 or 16 seeds: if one "
     "run in ten is bad, 43 % and 19 % of such sets contain none."),
    ("The same runs decide many claims.",
     "Nine experiments read LayerNorm's runs at its tuned learning rate. So verdicts are not independent, and one "
     "unlucky set of seeds changes several."),
    ("Other thresholds, other verdicts.",
     "Equal is within 0.02 nats, much is 0.1. Both were fixed before the runs, and each is a number in one line of "
     "the table of claims: change it, and judge the same facts with --facts."),
    ("Rules were fitted to the results.",
     "Nearly all were written before any run of this report, but after trials on one text that showed which way many "
     "claims go, and some were changed after such trials. registered.csv has their first form. A report stores their "
     "checksums when an experiment has its first facts, and the page names every rule that changed since."),
    ("Program, rules and paraphrases have the same authors.",
     "Tests compare the program's losses and gradients with PyTorch's, but full training runs were not repeated with "
     "another program. Each claim names its place in the article, and its rule is next to the verdict."),
    ("Averages of surviving runs flatter.",
     "If some runs of one variant are stuck, its mean is at least as bad as that of the runs that trained, so its "
     "interval is bounded on that side only. If a run diverged, or both variants have such runs, the median of all "
     "runs decides; its interval is unbounded below 8 seeds."),
]

# Names that the page uses without explaining them.
GLOSSARY = [
    ("none, ln, bn, rms, gn, in, pn, scale, dyt",
     "./train's names of norms: no norm, LayerNorm, BatchNorm, RMSNorm, GroupNorm, InstanceNorm, PowerNorm, "
     "ScaleNorm, Dynamic Tanh. `./train --help=norm` lists all."),
    ("pre, post",
     "placements: the norm is before each sub-layer (Pre-LN), or after each residual addition (Post-LN)."),
    ("tinyshakespeare, kjv",
     "two texts: tiny Shakespeare and the King James Bible."),
    ("XS, S, M",
     "sizes of models, listed under \"What was run\". A cell is a text and a size."),
    ("rate tuned, rate default",
     "at the best learning rate of the grid, and at ./train's default, 1e-3."),
    ("recipe best",
     "at the best learning rate, with the better of GPT-2's and Xavier's initial weights."),
    ("nat",
     "the unit of losses, with natural logarithms: 0.02 nats less is 2 % less perplexity. A loss is per character, "
     "on validation text."),
    ("Says, Meant",
     "what a claim says literally, and its charitable reading."),
    ("trained, stuck, diverged",
     "a run trained if its validation loss fell from its start; otherwise it is stuck, or diverged if its loss is "
     "NaN or infinite."),
    ("largest stable rate",
     "the largest learning rate such that all learning rates from the best one up to it have a final loss at most 0.1 "
     "nats above the best loss."),
    ("mean",
     "over seeds. Ratios, such as that of two gradients, have the geometric mean."),
    ("fluctuation",
     "the distance between a batch's mean or standard deviation and the running one, in running standard "
     "deviations."),
    ("saturated",
     "an attention query with one weight above 0.99."),
    ("∞ in an interval",
     "the interval has no end on this side: some runs of one variant are stuck, a loss is never reached, or there are "
     "too few seeds for a median."),
    ("canary",
     "a statement that is true or false by construction: if its verdict is wrong, the report is wrong."),
]
