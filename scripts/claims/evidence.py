"""What the findings read, and their sentences and tables: numbers come from the facts.

Numbers are means over seeds, and ranges are over texts and sizes.
"""
import math

from study import statistics as inference
from claims import headline_pictures as pictures
from claims.claims_a import DELTA
from claims.findings import TEXTS, listed
from claims.headline_pictures import estimates
from claims.quantities import difference, value

# The comparison of norms that the findings read, and what its variants are called.
NORMS_AT, BEST, SECOND, DEFAULT = "E20", "recipe=best", "recipe=second", "rate=default"


# ---- numbers in sentences ------------------------------------------------------------------------

def nats(number, sign=False):
    """A loss for a sentence: three digits below 0.1, else two."""
    digits = 3 if abs(number) < 0.0995 else 2
    text = f"{number:.{digits}f}".replace("-", "−")
    return "+" * (sign and number > 0) + text


def means(facts, *quantities, size=None):
    """The means of quantities in all texts and sizes, or in all texts at one size."""
    return [one.value for quantity in quantities for cell, one in estimates(quantity, facts).items() if size in (None, cell[1])]


def span(facts, *quantities, size=None, sign=True):
    """The lowest and the highest of means(): "0.04 to 0.06", or the one number."""
    found = means(facts, *quantities, size=size)
    return " to ".join(dict.fromkeys(nats(end, sign) for end in (min(found), max(found))))


def places(quantity, facts):
    """"6 texts and sizes"."""
    count = len(estimates(quantity, facts))
    return f"{count} combinations of text and size" if count > 1 else "one text and size"


def gap(norm, experiment=NORMS_AT, at=BEST):
    """A norm's loss minus LayerNorm's: without `at`, each with its best initialization and learning rate."""
    return difference(experiment, "val_loss", f"norm={norm}", "norm=ln", at=at)


def outlier_cost(norm, experiment):
    """By how much an outlier in the initial weights raises the loss."""
    return difference(experiment, "val_loss", "start=x1000", "start=x1", at=f"norm={norm}")


# ---- the findings --------------------------------------------------------------------------------

RMS, BN, NONE = gap("rms"), gap("bn"), gap("none")
GAIN = difference(NORMS_AT, "val_loss", f"norm=ln {DEFAULT}", f"norm=ln {BEST}")
NONE_DEFAULT = gap("none", at=DEFAULT)
LEAK = {norm: value("E7", "learned_leak", f"batch=1 norm={norm} text=random") for norm in ("ln", "bn")}
LOSSES = {at: [value(NORMS_AT, "val_loss", f"norm={norm} {at}") for norm in ("ln", "rms", "bn", "none")] for at in (DEFAULT, BEST)}
RANGE = {at: pictures.range_of(losses) for at, losses in LOSSES.items()}
WITH_NORM = {at: pictures.range_of(losses[:3]) for at, losses in LOSSES.items()}
NO_BIAS = {name: gap("bn", "E10", f"variant={name}") for name in ("plain", "bias-off")}
LONGER = {number: gap("bn", "E21", f"updates={number}") for number in (1000, 2000, 5000, 10000)}

# On tiny Shakespeare, and on every text with initializations and learning rates that were tuned on the first one.
ONE, FOUR, MANY = ((gap("bn", "E3", f"batch={batch} block=full"), gap("bn", "E26", f"batch={batch}")) for batch in (1, 4, 32))
COST = {norm: (outlier_cost(norm, "E9"), outlier_cost(norm, "E26")) for norm in ("ln", "bn")}
OWN = value("E2", "own_gap", "norm=bn"), value("E26", "own_gap", "norm=bn start=x1")
DEEP = {(place, init): value("E26", "above_frequencies", f"depth=deep init={init} placement={place}")
        for place in ("pre", "post") for init in ("xavier", "0.08")}
DEEP_GAP = {init: difference("E26", "val_loss", "placement=post", "placement=pre", at=f"depth=deep init={init}")
            for init in ("xavier", "0.08")}

# On other texts: losses minus LayerNorm's. With other optimizers: losses minus AdamW's.
ACROSS = {norm: gap(norm, "E23", "") for norm in ("rms", "bn", "none")}
MUON, SGD = ({norm: difference("E22", "val_loss", f"optimizer={name}", "optimizer=adamw", at=f"norm={norm}")
              for norm in ("ln", "rms", "bn", "none")} for name in ("muon", "sgd"))


def pooled(quantity, facts):
    """(mean, low, high) over texts and sizes; with fewer than three of them, the widest interval of one."""
    found = list(estimates(quantity, facts).values())
    if len(found) > 2:
        return inference.pooled(*means_and_errors(found))[:3]
    widest = max(found, key=lambda one: one.high - one.low)
    return widest.value, widest.low, widest.high


def means_and_errors(found):
    return [one.value for one in found], [one.deviation / math.sqrt(one.n) for one in found]


def prediction(quantity, facts):
    """The prediction interval as a sentence; nothing of fewer than three texts and sizes."""
    found = list(estimates(quantity, facts).values())
    if len(found) < 3:
        return ""
    _, low, high, _ = inference.predicted(*means_and_errors(found))
    return (f" That is where the mean lies; a further text may lie anywhere from {nats(low, True)} to {nats(high, True)} nats "
            "(99 % prediction interval). Both intervals count sizes of one text as if they were independent, and ignore "
            "that the recipes were chosen from few seeds.")


def texts_of(quantity, facts):
    return len({text for text, _ in estimates(quantity, facts)})


def equal_evidence(facts):
    mean = pooled(RMS, facts)
    return (f"With the best recipe of each, RMSNorm's loss minus LayerNorm's is {nats(mean[0], True)} nats on average "
            f"over {places(RMS, facts)}. The 99 % interval of a random-effects model is {nats(mean[1], True)} to "
            f"{nats(mean[2], True)} nats.{prediction(RMS, facts)} Losses that differ by at most {DELTA:g} nats count as "
            f"equal.{without_own_recipes('rms', facts)}")


def without_own_recipes(norm, facts):
    """Of E23, what to append to the evidence: the losses over all texts and sizes, and where they are highest."""
    found = estimates(ACROSS[norm], facts)
    if not found:
        return ""
    text, size = max(found, key=lambda cell: found[cell].value)
    return (f" With tiny Shakespeare's recipe, the difference is {span(facts, ACROSS[norm])} nats on "
            f"{texts_of(ACROSS[norm], facts)} texts. It is largest on {TEXTS.get(text, text)} at {size}, so the "
            "finding does not cover recipes from another text.")


def none_evidence(facts):
    return ("These models have at most 4 layers. With nanoGPT's recipe, the loss without a norm minus LayerNorm's is "
            f"{span(facts, NONE_DEFAULT)} nats. With the best recipe of each, it is "
            f"{span(facts, NONE)} nats.{without_own_recipes('none', facts)}")


def optimizer_evidence(facts):
    others = [SGD[norm] for norm in SGD if norm != "bn"]
    return ("With the best recipe of each norm and optimizer, Muon's loss minus AdamW's is "
            f"{span(facts, *MUON.values())} nats. With BatchNorm, the loss of SGD with momentum minus AdamW's is "
            f"{span(facts, SGD['bn'])} nats. With LayerNorm, with RMSNorm and without a norm, it is "
            f"{span(facts, *others)} nats. The best initial standard deviation is {best_stds('adamw', facts)} with AdamW "
            f"and {best_stds('muon', facts)} with Muon. This does not show how much it matters; in the block of "
            "`--recipe=best`, trained with Muon, GPT-2's 0.02 is as good ([RESULTS.md](../RESULTS.md)). SGD decays no "
            "weights.")


def best_stds(optimizer, facts):
    """The lowest and the highest one that was best for a norm, on any text."""
    stds = [one.value for norm, muon in MUON.items() for cell, one in
            estimates(value("E22", "init_std", f"norm={norm} optimizer={optimizer}"), facts).items() if cell in estimates(muon, facts)]
    return " to ".join(dict.fromkeys(f"{end:g}" for end in (min(stds), max(stds)))) if stds else "not measured"


def recipe_gaps(facts):
    """The largest gap between LayerNorm and RMSNorm, BatchNorm or no norm."""
    return max(map(abs, means(facts, RMS, BN, NONE)))


def recipe_evidence(facts):
    before = {cell: one.value for cell, one in estimates(RANGE[DEFAULT], facts).items()}
    gains = {cell: one.value for cell, one in estimates(GAIN, facts).items() if cell in before}
    wider = sum(before[cell] > gain for cell, gain in gains.items())
    return ("With nanoGPT's recipe, the losses of LayerNorm, RMSNorm, BatchNorm and no norm span "
            f"{span(facts, RANGE[DEFAULT], sign=False)} "
            f"nats; with the best recipe of each they span {span(facts, RANGE[BEST], sign=False)} nats (a range is taken for "
            "each seed and then averaged). This does not make "
            f"one matter more than the other: the range before tuning exceeds LayerNorm's gain from tuning in {wider} of "
            f"{len(gains)} combinations of text and size. At S and M mostly the model without a norm catches up, because "
            "the three norms are close to each other before tuning already. "
            f"After tuning, the mean loss of a norm or of none is at most {nats(recipe_gaps(facts))} nats from LayerNorm's; "
            "this is the largest mean that was measured, not a bound. The picture shows losses of tuning runs, which were "
            "measured on a held-out tenth of the training text.")


def recipe_table(facts):
    columns = {"range before tuning": RANGE[DEFAULT], "range after": RANGE[BEST], "of the three norms, before": WITH_NORM[DEFAULT],
               "of the three norms, after": WITH_NORM[BEST], "LayerNorm's gain": GAIN}
    found = [estimates(quantity, facts) for quantity in columns.values()]
    return [["text, size", *columns], *([pictures.place_text(cell), *(nats(one[cell].value) if cell in one else "" for one in found)]
                                        for cell in found[-1])]


def recipe_picture(facts):
    """Losses of tuning runs, or without them (--quick) those of the best recipes."""
    return pictures.over_rates(facts) if pictures.cells_with_rates(facts) else pictures.rows(
        {"RMSNorm": RMS, "BatchNorm": BN, "no norm": NONE}, "loss minus LayerNorm's, at best recipes (nats)", facts)


def recipes_of(name, best, across):
    """The rows of a picture of a norm."""
    return {f"{name}, best recipe": best, f"{name}, tiny Shakespeare's recipe": across}


def sizes_of(quantity, facts):
    return list(dict.fromkeys(size for _, size in estimates(quantity, facts)))


def one_sequence_evidence(facts):
    at_s = f"At S on tiny Shakespeare it is {span(facts, MANY[0], size='S')} nats. " if means(facts, MANY[0], size="S") else ""
    return (f"BatchNorm's loss minus LayerNorm's is {span(facts, *ONE)} nats with one sequence per batch, and "
            f"{span(facts, *FOUR)} nats with four. With 32 sequences at XS, which leave only 150 updates for as many "
            f"characters, BatchNorm is ahead: its loss minus LayerNorm's is {span(facts, MANY[1])} nats, below 0 on "
            f"{sum(one < 0 for one in means(facts, MANY[1]))} of {texts_of(MANY[1], facts)} texts, although on "
            f"{sum(one.low < 0 < one.high for one in estimates(MANY[1], facts).values())} of these the 99 % interval includes 0. "
            f"{at_s}[WHY.md](../../WHY.md) looks for the cause. {tested_on(ONE[1], facts)} All of these models "
            "train on the same number of characters. In training, BatchNorm's statistics include later characters of "
            "the sequence, so the model can learn to read them; "
            "WHY.md takes them out and BatchNorm works. Random text shows this, because it cannot be "
            "predicted: with one sequence per batch, BatchNorm's training loss falls "
            f"{span(facts, LEAK['bn'], sign=False)} nats below that of guessing. Evaluation uses running statistics. "
            "With 12 sequences per batch these do little harm: the loss with them is at most "
            f"{nats(max(0, -min(means(facts, *OWN))))} nats higher than with the statistics of the evaluated batch.")


def tested_on(quantity, facts):
    """Where the rule was tested."""
    count = texts_of(quantity, facts)
    return (f"The models on {count} text{'s' * (count > 1)} have the standard deviation and the learning rate that are "
            "best on tiny Shakespeare. On tiny Shakespeare, GPT-2's standard deviation of 0.02 was tested too.")


def outlier_evidence(facts):
    return ("The outlier is artificial: before training, one channel of the position embedding is multiplied by 1000. "
            f"This changes LayerNorm's loss by {span(facts, *COST['ln'])} nats, and BatchNorm's by "
            f"{span(facts, *COST['bn'])} nats. It follows from what each norm divides by: LayerNorm divides a token by a "
            "statistic of its channels, which the outlier dominates, whereas BatchNorm has a statistic for each channel. An "
            f"outlier position does the opposite: [WHY.md](../../WHY.md) varies both. {tested_on(COST['ln'][1], facts)}")


def by_size(quantity, facts):
    """"-0.01 to +0.01 nats at XS and +0.02 nats at S"."""
    return listed(f"{span(facts, quantity, size=size)} nats at {size}" for size in sizes_of(quantity, facts))


def size_evidence(facts):
    return (f"With the best recipe of each, BatchNorm's loss minus LayerNorm's is {by_size(BN, facts)}. With tiny "
            f"Shakespeare's recipe, it is {by_size(ACROSS['bn'], facts)}.{with_second(facts)} Sizes differ in channels, "
            f"layers, context and number of updates.{with_factors(facts)}{with_updates(facts)}")


def with_second(facts):
    """How far the differences depend on the choice of the recipes, or nothing."""
    losses = {(norm, cell): [mean.value for mean in found] for norm in ("ln", "bn") for cell in facts.cells(NORMS_AT)
              if None not in (found := [value(NORMS_AT, "val_loss", f"norm={norm} {at}").estimate(facts, cell) for at in (BEST, SECOND)])}
    found = [min(losses["bn", cell]) - min(losses["ln", cell]) for norm, cell in losses
             if norm == "ln" and cell[1] != "XS" and ("bn", cell) in losses]
    if not found:
        return ""
    return (f" Recipes were chosen with few seeds: the second best one has the lower loss in {sum(a > b for a, b in losses.values())} of "
            f"{len(losses)} cases. With the better of both, chosen in hindsight, BatchNorm's loss minus LayerNorm's at S and M is "
            f"{nats(min(found), True)} to {nats(max(found), True)} nats.")


def with_factors(facts):
    """What E21 says of the factors that sizes combine, or nothing."""
    same = estimates(LONGER[1000], facts).get(("tinyshakespeare", "M"))
    if len(factor_table(facts)) == 1 or same is None:
        return ""
    return (" E21 changes one of these at a time (the table has its differences). Only more channels put BatchNorm further behind "
            "at both sizes; depth has no trend, and a longer context helps BatchNorm at XS. The effect of the channels is "
            "exaggerated, because E21 keeps the standard deviation of the size's own width: S with 128 channels has the "
            f"shape of M, where the difference after as many updates is {nats(same.value, True)} nats.")


def factor_table(facts):
    """E21, a row for each value of an option."""
    found = {f"{name} {number}": estimates(gap("bn", "E21", f"{name}={number}"), facts)
             for name, numbers in (("width", (32, 64, 128)), ("depth", (1, 2, 4, 8)), ("context", (32, 64, 128))) for number in numbers}
    return [["only this changed", "XS otherwise", "S otherwise"],
            *([name, *(interval(one.get(("tinyshakespeare", size))) for size in ("XS", "S"))] for name, one in found.items() if one)]


def interval(one):
    return f"{nats(one.value, True)} [{nats(one.low, True)}, {nats(one.high, True)}]" if one else ""


def with_updates(facts):
    """Of E21, what to append to the evidence: the largest size with each number of updates."""
    found = {number: estimates(quantity, facts).get(("tinyshakespeare", "M")) for number, quantity in LONGER.items()}
    found = {number: one.value for number, one in found.items() if one}
    if not found:
        return ""
    return (" Longer training shrinks it: at M on tiny Shakespeare it is "
            f"{listed(nats(one, True) for one in found.values())} nats with {listed(map(str, found))} updates, and a "
            "learning rate for each of these numbers (E21).")


def deep_evidence(facts):
    learned = {key: span(facts, quantity) for key, quantity in DEEP.items()}
    return ("Models with 16 layers and 32 channels were trained without warm-up at the learning rate 0.001, on "
            f"{texts_of(DEEP_GAP['0.08'], facts)} texts. With Xavier's initialization, Post-LN's loss minus Pre-LN's "
            f"is {span(facts, DEEP_GAP['xavier'])} nats. With the initial standard deviation 0.08 it is "
            f"{span(facts, DEEP_GAP['0.08'])} nats. A model that has learned only the frequencies of characters has "
            "the unigram entropy as its loss. With Xavier's initialization, the loss minus this entropy is "
            f"{learned['post', 'xavier']} nats for Post-LN, and {learned['pre', 'xavier']} nats for Pre-LN. With the "
            f"initial standard deviation 0.08 it is {learned['post', '0.08']} nats for Post-LN, and "
            f"{learned['pre', '0.08']} nats for Pre-LN. The comparison changes two things: with a standard deviation, what "
            "each branch adds to the stream is also divided by sqrt(2L), where L is the number of layers, and Xavier's "
            "does not do that. [WHY.md](../../WHY.md) varies this factor alone.")
