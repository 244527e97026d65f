"""The table of experiments: the question, the varied options, the limits and the pictures of each."""
from dataclasses import dataclass
from typing import Callable

from claims import designs, recipes
from claims.plan import LEVELS


@dataclass(frozen=True)
class Experiment:
    """runs(study): the Runs of a Study, in any order. alone: measurements that need no run: alone(lab) gives rows
    (variant, seed, metric, value). large: whether it is run at the largest size too. everywhere: whether it is run on
    every text, and not on the first one only. across: whether it compares texts, so that a fact's text is that of its
    run. timed: whether its facts are times.
    figure: (function of figures.py, its arguments)."""
    id: str
    title: str
    question: str
    varied: str
    cannot: str
    runs: Callable = lambda study: ()
    alone: tuple = ()
    large: bool = False
    everywhere: bool = False
    across: bool = False
    timed: bool = False
    figure: tuple = ()
    metrics: tuple = ()  # of its table on the page

    def sizes(self, level, names=None):
        """The sizes of a level, smallest first; names: only those, None for all."""
        core, others = LEVELS[level]
        return [size for size in (core if self.large else others) if names is None or size.name in names]


def dots(metric, **where):
    """A picture with a row for each variant that has these options."""
    return {"kind": "dots", "metric": metric, "where": where}


def course(a, b):
    """A picture of the loss of norm a minus the loss of norm b over training."""
    return {"kind": "course", "metric": "val_loss", "pair": (a, b), "where": {}}


def lines(x, metric, line="norm", **where):
    """A picture of a metric over an option, a line for each value of another."""
    return {"kind": "lines", "x": x, "metric": metric, "line": line, "where": where}


SMALL_MODELS = "It says nothing about other sizes, sub-word vocabularies or longer training."

EXPERIMENTS = [
    Experiment(
        "E1", "Norms at tuned learning rates",
        "Which norm has the lowest final loss at its own best learning rate? Which tolerates the largest one?",
        "norm; learning rate; initialization, depth and width; training without clipping and without "
        "warm-up. Weights, batches and steps of a seed are the same.",
        SMALL_MODELS + " The grid of learning rates is coarse, so factors between learning rates are too.",
        designs.norm_runs, large=True, everywhere=True, figure=(
            dots("val_loss", rate="tuned", width=None), dots("val_loss", recipe="best"), course("bn", "ln"),
            lines("width", "val_loss", rate="tuned"),
            lines("rate", "val_loss", depth="base", recipe=None), dots("rate_sensitivity"),
            lines("rate", "val_loss", recipe="no-clipping"),
            lines("rate", "val_loss", recipe="no-warmup")),
        metrics=("val_loss", "trained", "learning_rate", "stable_rate", "rate_sensitivity",
                 "gradient_cv", "clipped", "accuracy")),
    Experiment(
        "E2", "BatchNorm's statistics in evaluation",
        "How much does the loss depend on the statistics that BatchNorm uses in evaluation?",
        "the statistics of one trained model: running, own batch, another batch, each sequence alone, "
        "batches of 1 and of 256; the momentum of running statistics.",
        SMALL_MODELS, designs.statistics_runs,
        figure=(dots("own_gap"), dots("single_gap"), dots("own_gap_256")),
        metrics=("loss_running", "own_gap", "other_gap", "single_gap", "own_gap_1", "own_gap_256")),
    Experiment(
        "E3", "Batch size at equal characters",
        "At which batch size does BatchNorm lose more than LayerNorm?",
        "sequences per batch and their length; every run sees the same number of characters.",
        SMALL_MODELS, designs.batch_runs, figure=(lines("batch", "val_loss", block="full"),),
        metrics=("val_loss", "learning_rate")),
    Experiment(
        "E4", "Batch statistics on text and on shuffled text",
        "Do batch statistics fluctuate more on text than on the same characters in random order?",
        "the order of the characters, for BatchNorm models.",
        "The control keeps character frequencies and destroys everything else, also what can be learned.",
        designs.text_runs, figure=(dots("tid_mean"), dots("tid_var"), dots("movement")),
        metrics=("tid_mean", "tid_var", "kurtosis", "own_gap", "movement")),
    Experiment(
        "E5", "Padded lines",
        "Do pads distort BatchNorm's statistics?",
        "whether statistics include pads or mask them; padded lines or running text; by how much the lengths of lines "
        "differ (spread: 32 characters, up to N more or less), at each norm's best recipe.",
        SMALL_MODELS, designs.padding_runs, figure=(dots("val_loss", spread=None), lines("spread", "val_loss")),
        metrics=("val_loss", "pad_change")),
    Experiment(
        "E6", "One sequence fixed, the batch varied",
        "Does the output for a sequence depend on the other sequences of its batch?",
        "the other eleven sequences of a batch of twelve.",
        "Exact for these models; how much it matters is E2's and E3's question.",
        designs.of_norms("ln", "rms", "gn", "bn", measures=("dependence",)),
        figure=(dots("logit_change_own"), dots("weight_change_own")),
        metrics=("logit_change_running", "logit_change_own", "weight_change_own")),
    Experiment(
        "E7", "The future",
        "Do logits depend on later characters, and does training learn to use them?",
        "the characters after a position; training on random text that nobody can predict.",
        "A leak that is not learned here could be learned in longer training.",
        designs.future_runs, figure=(dots("learned_leak"), dots("leak_training")),
        metrics=("leak_evaluation", "leak_training", "learned_leak")),
    Experiment(
        "E8", "Depth, placement, warm-up, final norm",
        "Where do gradients and the residual stream shrink or grow, and which models train?",
        "placement, norm, depth, initialization, warm-up, the norm before the head.",
        "Models of 4 to 100 layers have only 32 channels here. Those of 16 and 48 layers are trained, at 1e-3 only.",
        designs.depth_runs, figure=(lines("depth", "stream_growth_start", "placement", norm="ln",
                                          init="xavier", time="start"),
                                    lines("depth", "gradient_ratio_start", "placement", norm="ln",
                                          init="xavier", time="start"), dots("val_loss", depth="base"),
                                    dots("val_loss", final=True)),
        metrics=("val_loss", "trained", "stream_growth_start", "gradient_ratio_start",
                 "gradient_ratio_end")),
    Experiment(
        "E9", "Outliers and attention",
        "What do an outlier channel and a high learning rate do to attention, and does a norm prevent it?",
        "one channel of the position embedding (in trained models random values 100 times as large as token "
        "embeddings, in initial weights its own times 1 to 1000); the learning rate, with and without QK-norm.",
        "The outlier is planted. Whether models grow such channels is not tested.",
        designs.outlier_runs, figure=(dots("saturated_outlier"), dots("saturated", qk="off"),
                                      dots("val_loss", start="x1000"), dots("output_range")),
        metrics=("saturated_outlier", "jacobian_ratio", "entropy_outlier", "saturated", "logit_max",
                 "val_loss")),
    Experiment(
        "E10", "Gamma, beta, biases, a norm in the MLP, noise",
        "What do the learned scale and shift contribute, and does a norm resist wrong characters?",
        "affine, bias, a norm after the MLP's nonlinearity; 5 % of the characters replaced, and at the best recipes 1 "
        "to 20 %.",
        SMALL_MODELS, designs.affine_runs, figure=(dots("val_loss"), dots("noise_cost"), dots("noise_cost_20")),
        metrics=("val_loss", "noise_cost", "noise_cost_1", "noise_cost_5", "noise_cost_20", "gamma_moved", "beta_moved")),
    Experiment(
        "E11", "Exact properties of the norms",
        "What do the program's norms compute for given vectors?",
        "the vector: the articles' own, random ones, scaled and shifted ones.",
        "Exact, without sampling: it says nothing about training.",
        alone=("vectors", "softmaxes"), metrics=()),
    Experiment(
        "E12", "What a norm costs",
        "How does time grow with channels and length, and what fraction of a step is spent in norms?",
        "channels, length, norm; repeated alternately, on one thread, while nothing else runs.",
        "Times of this machine and this program; only exponents and fractions are judged.",
        designs.cost_runs, timed=True, figure=(dots("norm_share", width=128, length=64),
                                                         lines("length", "log2_linear", norm="ln", width=128)),
        metrics=("norm_share", "norm_ms", "attention_ms", "linear_ms")),
    Experiment(
        "E13", "Algorithms for the variance",
        "Which algorithms compute a variance without losing digits?",
        "one-pass, two-pass, Welford; 32 and 64 bits; an offset of the data.",
        "Only vectors of normally distributed numbers with an offset.", alone=("variances",), metrics=()),
    Experiment(
        "E14", "A small corpus",
        "Does a norm narrow the gap between training and validation loss?",
        "norm and dropout, on the first part of the corpus, trained for longer; at the best recipes on its first 20000 "
        "characters.",
        SMALL_MODELS + " Models of this size hardly overfit the larger part, so there is little to regularize.",
        designs.small_runs, figure=(dots("best_loss", characters=None), dots("gap_at_equal_fit", characters=None),
                                    dots("best_loss", characters="20000"), dots("gap_at_best", characters="20000")),
        metrics=("best_loss", "gap_at_best", "gap_at_equal_fit")),
    Experiment(
        "E15", "Statistics by position",
        "Does BatchNorm with separate statistics per position have a lower loss?",
        "whether BatchNorm pools over all tokens of the batch, or over those at a position.",
        SMALL_MODELS, designs.position_runs, figure=(dots("val_loss"),),
        metrics=("val_loss", "own_gap", "position_gap")),
    Experiment(
        "E16", "What a norm keeps",
        "Can a token's norm, mean and position be read from a norm's output as well as from its input?",
        "whether a linear probe reads the norm's input or its output.",
        "Linear probes only; others may find more.", designs.of_norms("none", "ln", "rms", "bn", measures=("kept",)),
        figure=(dots("position_loss"), dots("norm_loss"), dots("similarity_gain"), dots("radius_cv")),
        metrics=("position_loss", "norm_loss", "mean_loss", "between_positions", "similarity_gain",
                 "radius_cv", "within_two")),
    Experiment(
        "E17", "Drift and smoothness",
        "Does a norm reduce the drift of the layers' inputs, and do losses follow?",
        "the norm; drift between checkpoints, gradients of a fixed batch before and after an update.",
        "A rank correlation over four norms is coarse. All models have the learning rate 1e-3.", designs.drift_runs,
        figure=(dots("drift_mean"), dots("gradient_cosine")),
        metrics=("drift_mean", "drift_deviation", "gradient_cosine", "gradient_change")),
    Experiment(
        "E18", "The same again",
        "Does a rerun, or another number of threads, change a bit?",
        "nothing, the number of threads, an interruption, or the order of a batch's sequences.",
        "Only this build on this machine.", alone=("repeats",), metrics=()),
    Experiment(
        "E19", "A batch in parts",
        "How much does BatchNorm's gradient change if a batch is computed in shards?",
        "the number of shards of the same twelve sequences; how long the model was trained.",
        "Shards are batches of one process; exchange between machines is not timed.",
        designs.shard_runs, figure=(dots("gradient_error_4"), dots("val_loss")),
        metrics=("gradient_error_2", "gradient_error_4", "gradient_error_12", "val_loss")),
    Experiment(
        "E20", "Norms at their best recipes",
        "Which norm has the lowest loss at its own best initialization and learning rate? Which of the three "
        "matters most?",
        "norm; initial standard deviation of the matrices; learning rate; placement of LayerNorm. Recipes are tuned on "
        "other seeds and on a held-out tenth of the training split, with the same number of trials for each norm.",
        SMALL_MODELS, recipes.recipe_runs, large=True, everywhere=True, figure=(
            dots("val_loss", recipe=True), lines("rate", "val_loss", line="init", norm="ln", placement=None),
            lines("rate", "val_loss", line="init", norm="bn"), lines("rate", "val_loss", line="init", norm="none")),
        metrics=("val_loss", "learning_rate", "init_std", "gradient_cv", "clipped", "accuracy")),
    Experiment(
        "E21", "One factor at a time",
        "Does the gap between norms change with width, with depth, with context or with training?",
        "one option at a time, starting from the best recipe of each size and norm: channels, layers, characters per "
        "sequence, updates. Each run is annealed separately.",
        SMALL_MODELS + " The learning rate is tuned again for each value. At M only LayerNorm and BatchNorm are "
        "trained, for 1000 to 10000 updates.",
        recipes.factor_runs, large=True, figure=(
            lines("width", "val_loss"), lines("depth", "val_loss"), lines("context", "val_loss"),
            lines("updates", "val_loss")), metrics=("val_loss", "learning_rate")),
    Experiment(
        "E22", "Three optimizers",
        "Do the differences between norms depend on the optimizer?",
        "AdamW, Muon, or SGD with momentum; norm; initial standard deviation of the matrices and learning rate, tuned "
        "as in E20. Muon's matrices have the learning rate of the other parameters, or one of their own (own=rate), "
        "tuned together with it. SGD decays no weights; AdamW and Muon were tried without decay (decay=off).",
        SMALL_MODELS, recipes.optimizer_runs, large=True, everywhere=True, figure=(
            dots("val_loss", optimizer="adamw"), dots("val_loss", optimizer="muon"), dots("val_loss", optimizer="sgd")),
        metrics=("val_loss", "learning_rate", "init_std")),
    Experiment(
        "E23", "Other texts",
        "Are the differences between norms the same on other texts?",
        "the text (--other-corpus=FILE); norm. The initialization is that of the first text; the learning rate is "
        "half, once or twice that of the first text, tuned on other seeds and on a held-out tenth of the training "
        "split.",
        SMALL_MODELS, recipes.other_text_runs, across=True, figure=(dots("val_loss"),),
        metrics=("val_loss", "learning_rate")),
    Experiment(
        "E24", "Outliers and what they cost",
        "Which norm, placement and optimizer make outliers of activations, and what does rounding cost then?",
        "norm; optimizer; placement of LayerNorm. Models are those of E22 at their best recipes; Peri-LN and sandwich "
        "have Pre-LN's recipe. Weight matrices are rounded in the file, inputs of linear layers in scripts/normlab.py, "
        "each tensor to 8 or 4 bits between minus and plus its largest absolute value.",
        SMALL_MODELS + " Outliers of large models grow in longer training.", recipes.outlier_runs, figure=(
            dots("stream_kurtosis"), dots("stream_peak"), dots("first_share_ratio"), dots("weights_4_cost"),
            dots("activations_4_cost")),
        metrics=("val_loss", "stream_kurtosis", "stream_peak", "first_share", "first_share_ratio", "weights_8_cost",
                 "weights_4_cost", "activations_8_cost", "activations_4_cost")),
    Experiment(
        "E25", "Recipes of norm-free kinds",
        "Do DyT and Derf need a recipe of their own, and does it matter how much text there is?",
        "a learned scale of the embeddings (own=scale); alpha by site, the best of three pairs (own=alpha); both; the "
        "learning rate is tuned again for each. Then the first 0.1, 1 and 4 million characters of the longest text, "
        "with three times the updates.",
        SMALL_MODELS + " Even the longer runs read the largest part less than once.", recipes.norm_free_runs, across=True,
        figure=(dots("val_loss", own=True), lines("characters", "val_loss")), metrics=("val_loss", "learning_rate")),
    Experiment(
        "E26", "Findings on other texts",
        "Do the findings on small batches, outlier channels, deep models and running statistics hold on other texts, "
        "with a tuned initialization?",
        "the text (--other-corpus=FILE); norm with 1, 4 and 32 sequences per batch; norm with one channel of the "
        "initial position embedding multiplied by 1000; placement and initialization with 16 layers and no warm-up. "
        "Initialization and learning rate are tuned on the first text, as in E20, except for deep models.",
        SMALL_MODELS, recipes.finding_runs, across=True,
        figure=(lines("batch", "val_loss"), dots("val_loss", start=True), dots("above_frequencies", depth="deep"), dots("own_gap")),
        metrics=("val_loss", "above_frequencies", "own_gap", "learning_rate")),
]

BY_ID = {experiment.id: experiment for experiment in EXPERIMENTS}

