"""Sentences about results. They are generated from verdicts and readings; none is written by hand.

The sentence on a verdict names one outcome, that is an interval or the exact values of a reading. telling() chooses it:

    true                  a reading of `says` that holds
    true in a weaker sense, depends on size or on the recipe
                          a reading of `meant` that holds in at least one cell, or if there is none, one that fails;
                          found() also names the reading of `says` that does not hold
    false                 a reading that fails, of `meant` if there is one, otherwise of `says`
    open                  a reading that is open, of `says` if it has one, otherwise of `meant`

A reading inside no() counts with the opposite sign.
"""
import math
import re

from claims.fact_table import RECIPES, cell_order, variant_options
from study.statistics import MARGIN, decision
from claims.quantities import difference
from claims.rules import FAILS, HOLDS, OPEN, Combined, SomeCell, values_of
from claims.verdicts import FALSE, MIXED, PARTLY, RECIPE, SIZE, TRUE, UNDECIDED, WEAKER, cell_name

OURS = "normlab"  # where a claim is from that none of the articles makes
OPTION = r"[a-z][a-z-]*=[^\s(),\]]+"

# Words of sentences that are made from readings.
NORMS = {"ln": "LayerNorm", "bn": "BatchNorm", "rms": "RMSNorm", "gn": "GroupNorm", "none": "no norm"}
TEXTS = {"tinyshakespeare": "tiny Shakespeare", "kjv": "the King James Bible", "poems-zh": "Chinese poems", "words": "a word list",
         "quotes": "English quotations", "german": "German quotations", "italian": "Italian quotations",
         "russian": "Russian quotations", "polish": "Polish quotations", "c": "C", "python": "Python", "grammar": "the built-in grammar"}
UNSAID = {("rate", "tuned"), ("depth", "base"), ("block", "full"), ("recipe", "best"), ("time", "start"),
          ("vector", "article"), ("variant", "plain")}
METRICS = {  # without their units
    "val_loss": "validation loss", "best_loss": "best validation loss",
    "learned": "entropy of character frequencies minus loss",
    "own_gap": "loss with the batch's own statistics minus loss with running ones",
    "single_gap": "loss with each sequence's statistics minus loss with running ones",
    "own_gap_256": "loss with batches of 256 sequences minus loss with running statistics",
    "learned_leak": "ln V minus the training loss on random text",
    "logit_change_running": "change of logits when the rest of the batch changes, in evaluation",
    "logit_change_own": "change of logits when the rest of the batch changes, with batch statistics",
    "weight_change_running": "change of attention weights when the rest of the batch changes, in evaluation",
    "weight_change_own": "change of attention weights when the rest of the batch changes, with batch statistics",
    "gradient_error_4": "error of the gradient from four shards of a batch",
    "position_loss": "R² of a token's position lost by the norm",
    "norm_loss": "R² of a token's norm lost by the norm",
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
    "within_two": "fraction of values between −2 and 2",
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
    "gap_at_equal_fit": "validation loss minus training loss, at the same training loss",
    "similarity_gain": "gain in similarity between characters of similar use",
    "rate_sensitivity": "sensitivity to the learning rate", "norm_share": "part of a step spent in norms",
}

# Above the tables of what is asked most.
ASKED_SAYS = ("Validation loss of the first model minus that of the second, in nats, with 99 % intervals. Each model "
              "has its own best initialization and learning rate.",
              "The same models with nanoGPT's recipe: initial standard deviation 0.02, learning rate 0.001.")
# What is asked most, whether it is decided or not: differences of losses, each model at its best recipe.
ASKED = [(name, difference("E20", "val_loss", a, b, at="recipe=best")) for name, a, b in (
    ("RMSNorm − LayerNorm", "norm=rms", "norm=ln"), ("BatchNorm − LayerNorm", "norm=bn", "norm=ln"),
    ("no norm − LayerNorm", "norm=none", "norm=ln"), ("Pre-LN − Post-LN", "norm=ln", "norm=ln placement=post"))]


def listed(words, last="and"):
    """"a, b and c"."""
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


# ---- numbers -------------------------------------------------------------------------------------

def number(value):
    """A number for reading."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:.0f}" if 999.5 <= abs(value) < 1e6 else f"{value:.3g}").replace("-", "−")


def threshold(value):
    """A number of a rule, with all its digits."""
    return f"{value:g}".replace("-", "−")


def estimate_text(outcome):
    """"0.031 nats [0.012, 0.050], 8 seeds"; of an exact reading, the lowest and the highest value."""
    estimate = outcome.estimate
    seeds = f", {estimate.n} seed{'s' if estimate.n > 1 else ''}"
    if outcome.reading.form == "exact":
        ends = list(dict.fromkeys(map(number, (min(estimate.seeds.values()),
                                               max(estimate.seeds.values())))))
        return " to ".join(ends) + (seeds if estimate.kind != "exact" else "")
    unit = f" {outcome.reading.quantity.unit}".rstrip()
    if outcome.pooled:
        mean, low, high, n = outcome.pooled
        return f"{number(mean)}{unit} [{number(low)}, {number(high)}], mean over {n} texts and sizes"
    kind = {"median": "median ", "fraction": "fraction "}.get(estimate.kind, "")
    return f"{kind}{number(estimate.value)}{unit} [{number(estimate.low)}, {number(estimate.high)}]{seeds}"


# ---- the outcome that decides --------------------------------------------------------------------

def leaves_towards(value, reading, known, cell):
    """The leaves that pull a reading towards this value in a cell. Below an "or" these are leaves of the parts
    that have the value: another part does not decide."""
    if isinstance(reading, SomeCell):
        return leaves_towards(value, reading.part, known, cell)
    if isinstance(reading, Combined):
        if reading.word == "not":
            return leaves_towards(1 - value, reading.parts[0], known, cell)
        return [leaf for part in reading.parts
                if reading.word == "and" or part.value_from(known, cell) == value
                for leaf in leaves_towards(value, part, known, cell)]
    return [reading] if known.get(reading, {}).get(cell) == value else []


def first_with(value, reading, outcomes):
    """The first outcome that pulls the reading towards this value, intervals before exact values; of its cells
    the one that is nearest to the threshold."""
    known = values_of(outcomes)
    towards = {cell: leaves_towards(value, reading, known, cell) for cell in {one.cell for one in outcomes}}
    return min((one for one in outcomes if one.reading in towards[one.cell]), default=None,
               key=lambda one: (one.reading.form == "exact", [*known].index(one.reading), distance(one)))


def distance(outcome):
    """From a threshold to the nearest end of the interval: how narrowly it is decided."""
    return min((abs(end - m) for m in outcome.reading.thresholds()
                for end in (outcome.estimate.low, outcome.estimate.high)), default=0.0)


def failing(claim, verdict):
    """The outcome that keeps a claim from being true as stated: one that fails, else one that is open."""
    return first_with(FAILS, claim.says, verdict.said) or first_with(OPEN, claim.says, verdict.said)


def telling(claim, verdict):
    """The outcome that the verdict rests on, or None."""
    says = (claim.says, verdict.said)
    meant = (claim.meant, verdict.intended) if claim.meant else says
    tried = {TRUE: [(HOLDS, says)], FALSE: [(FAILS, meant), (FAILS, says)],
             UNDECIDED: [(OPEN, says if verdict.says == OPEN else meant), (OPEN, says)],
             **dict.fromkeys(PARTLY, [(HOLDS, meant), (HOLDS, says), (FAILS, meant), (OPEN, meant)])}
    if verdict.word not in tried:
        return next(iter([*verdict.said, *verdict.intended]), None)
    found = (first_with(value, *reading) for value, reading in tried[verdict.word])
    return next(filter(None, found), None)


def is_surprise(claim, verdict):
    """Whether the verdict reverses what was expected, or what was expected fails while a weaker sense is open."""
    if claim.expected == TRUE:
        return verdict.word in (FALSE, *PARTLY) or verdict.word == UNDECIDED and verdict.says in (FAILS, MIXED)
    if claim.expected == FALSE:
        return verdict.word in (TRUE, RECIPE)
    return claim.expected == "imprecise" and verdict.word in (TRUE, FALSE)


# ---- in words ------------------------------------------------------------------------------------

def variant_words(options):
    """"BatchNorm, batch 4": the words of a variant's options; tuned rates are not mentioned."""
    parts = [NORMS.get(options["norm"], options["norm"])] if "norm" in options else []
    parts += [f"{name} {value}" for name, value in options.items()
              if name != "norm" and (name, value) not in UNSAID]
    return ", ".join(parts)


def name_of(metric):
    return METRICS.get(metric, metric.replace("_", " "))


def plain(quantity):
    """A quantity in words. The second of two terms names only the differences."""
    before = []

    def term(match):
        metric, options = match.group(1), variant_options(match.group(2))
        name, shown = name_of(metric), options
        if before and before[0] == metric:
            name, shown = "that", {key: value for key, value in options.items()
                                   if before[1].get(key) != value}
        before[:] = metric, options
        said = variant_words(shown) or " ".join(shown.values()) * (name == "that")
        return f"{name} ({said})" if name != "that" and said else f"that of {said}" if said else name
    text = re.sub(r"(\w+%?)\(([^()]*)\)", term, quantity.text)
    text = re.sub(rf"{OPTION}(?: {OPTION})*", lambda match: variant_words(variant_options(match.group())),
                  text)
    text = re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda match: name_of(match.group()), text)
    return text.replace(" - ", " minus ").replace(" / ", " over ")


def against(outcome):
    """The relation of the value to the rule: "above 0.1", "not above 0.1"."""
    leaf = outcome.reading
    low, high = threshold(leaf.low), threshold(leaf.high)
    asked = {"above": f"above {low}", "below": f"below {high}", "within": f"within ±{high}"}.get(leaf.form)
    if asked is None:
        asked = f"exactly {low}" if leaf.low == leaf.high else \
            f"at least {low}" if leaf.high == math.inf else f"from {low} to {high}"
    return {HOLDS: "", FAILS: "not ", OPEN: "open whether "}[outcome.value] + asked


def measured(outcome):
    """The measured quantity, its value, and its text and size."""
    size = f", {cell_name(outcome.cell)}" if outcome.cell[1] != "-" else ""
    return f"{plain(outcome.reading.quantity)}: {estimate_text(outcome)}{size}"


def sentence(text):
    return text[:1].upper() + text[1:] + "."


def at_default(outcome, verdict):
    """The value of the same reading at the default recipe, to be appended."""
    return "".join(f"; at ./train's defaults {estimate_text(one)}" for one in verdict.default
                   if (one.reading.text(), one.cell) == (outcome.reading.text(), outcome.cell))


def found(claim, verdict):
    """The finding after a verdict; for a claim that is partly true, what holds and what does not."""
    outcome, failed = telling(claim, verdict), failing(claim, verdict)
    if verdict.word in (SIZE, RECIPE):
        return sentence(f"{verdict.why.rstrip('.')} ({measured(outcome)}{at_default(outcome, verdict)})") \
            if outcome else verdict.why
    if outcome is None:
        return claim.note or verdict.why
    same = failed and (failed.reading.quantity.text, failed.cell) == (outcome.reading.quantity.text, outcome.cell)
    if verdict.word == WEAKER and same:
        return sentence(f"{measured(outcome)}; as stated {against(failed)}, but {against(outcome)}")
    if verdict.word == WEAKER and failed:
        return (f"As stated {'no' if failed.value == FAILS else 'open'} ({measured(failed)}, {against(failed)}), in a "
                f"weaker sense yes ({measured(outcome)}, {against(outcome)}).")
    return sentence(f"{measured(outcome)}, {against(outcome)}")


def signed(value):
    return "+" * (value > 0) + (number(value) if not math.isfinite(value) else
                                f"{value:.3f}".replace("-", "−"))


def answer(estimate):
    """A difference of losses and its verdict, as a cell of a table."""
    if estimate is None:
        return ""
    word = decision(estimate) or "open"
    return (f"{word}{f' within {MARGIN:g}' * (word == 'equal')}: "
            f"{'median ' * (estimate.kind == 'median')}{signed(estimate.value)} [{signed(estimate.low)}, "
            f"{signed(estimate.high)}], {estimate.n} seeds")


def most_asked(facts):
    """[(title, table)] of the pairs that are asked for most, at the best recipes and at nanoGPT's: a head, and a row
    for each text and size. Empty if nothing is measured."""
    cells = sorted({cell for _, quantity in ASKED for cell in facts.cells(quantity.experiment)}, key=cell_order)
    found = []
    for title, known in zip(ASKED_SAYS, (facts, facts.with_recipe(RECIPES[1]))):
        rows = [[cell_name(cell), *(answer(quantity.estimate(known, cell)) for _, quantity in ASKED)] for cell in cells]
        rows = [row for row in rows if any(row[1:])]
        found += [(title, [["text, size", *(name for name, _ in ASKED)], *rows])] if rows else []
    return found
