"""Writes the numbers of WHY.md and DETAILS.md: each block between <!-- NAME --> and <!-- end of NAME --> follows from the judged
runs, and so do the pictures. Everything else there is written by hand. The commands in README.md draw future.svg.
"""
import itertools
import os
import re

from common.command_line import markdown, write_whole
from why import experiments, facts, verdicts
from evidence.rules import HOLDS
from plots.svg import compact
from why.pictures import PICTURES

HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = [os.path.join(HERE, "..", "..", "WHY.md"), os.path.join(HERE, "DETAILS.md")]
PUBLISHED = os.path.join(HERE, "published")
EXAMPLE = [[[10, 20, 999, -5], [2, 5, -1, 3], [1, 0, 4, -2]], [[0, 3, 2, 1], [4, -1, 0, 2], [-3, 1, 5, 2]]]  # (B,T,C)
LATER = 50  # what is added to the last token of the first sequence
TEXTS = {"kjv": "the King James Bible", "tinyshakespeare": "tiny Shakespeare"}


# ---- the worked example ------------------------------------------------------------------------------

def outputs(kind, x, **options):
    """y (B,T,C) of a norm as in training, with gamma = 1 and beta = 0."""
    import torch
    from pytorch.norms import make_norm
    from pytorch.options import Config
    x = torch.tensor(x, dtype=torch.double)
    norm = make_norm(kind, x.shape[-1], Config(n_embd=x.shape[-1], n_head=1, block_size=x.shape[1], **options))
    return norm.double().train()(x).detach().tolist()


def row_of(values, form):
    return " ".join(f"{value:{form}}".rjust(6) for value in values)


def example():
    """The input, and what LayerNorm, RMSNorm and BatchNorm make of it."""
    made = [outputs(kind, EXAMPLE) for kind in ("ln", "rms", "bn")]
    lines = ["sequence, token   x: four channels             LayerNorm                   RMSNorm                     BatchNorm"]
    for b, sequence in enumerate(EXAMPLE):
        for t, token in enumerate(sequence):
            row = [row_of(token, "d"), *(row_of(y[b][t], ".2f") for y in made)]
            lines.append(f"{b + 1}, {t + 1}          " + " ".join(row))
    return "\n".join(["```", *lines, "```"])


def later():
    """The first token of the first sequence, before and after a change of the last one."""
    changed = [[list(token) for token in sequence] for sequence in EXAMPLE]
    changed[0][2] = [value + LATER for value in changed[0][2]]
    rows = [["norm", "token 1 before", f"after {LATER} was added to token 3"]]
    for name, kind, options in (("LayerNorm", "ln", {}), ("BatchNorm", "bn", {}),
                                ("BatchNorm for each position", "bn", {"bn_axis": "batch"})):
        rows.append([name, *(" ".join(f"{value:.2f}" for value in outputs(kind, x, **options)[0][0])
                             for x in (EXAMPLE, changed))])
    return "\n".join(markdown(rows))


# ---- tables of facts ---------------------------------------------------------------------------------

def number(fact, digits=2):
    """The mean and its interval; a star marks a tuned option whose best value is at an end of its axis."""
    mean, low, high = (f"{fact[name]:+.{digits}f}" for name in ("mean", "low", "high"))
    return f"{mean}{'*' if fact['at_end'] else ''} [{low}, {high}]".replace("inf", "∞")


def placed(known, experiment, measure="val_loss"):
    """{(text, condition, x): line of facts} of one measure, and the texts."""
    fact_of = {(fact["text"], fact["condition"], fact["x"]): fact for fact in known.lines
               if fact["experiment"] == experiment and fact["measure"] == measure}
    return fact_of, list(dict.fromkeys(text for text, *_ in fact_of))


GROWN = {"2 layers, 32 channels": ("bn, n-embd", "32"), "8,000 updates": ("bn, max-iters", "8000"), "8 layers": ("bn, n-layer", "8"),
         "64 channels": ("bn, n-embd", "64"), "128 channels": ("bn, n-embd", "128"),
         "4 layers, 64 channels": ("bn: attention and MLPs and head", "0")}


# W3: where the branches of a Post-LN model of 16 layers start.
STARTS = {"Xavier's": ("post, warm-up 0, depth 16", "1"), "Xavier's, divided by sqrt(2L)": ("xavier, divided", "0.176776695"),
          "`--init=width`, without its division": ("width, multiplied", "5.65685425"), "`--init=width`, divided": ("width", "1"),
          "GPT-2's with std 0.08, without its division": ("std 0.08, multiplied", "5.65685425"),
          "GPT-2's with std 0.08, divided": ("std 0.08", "1"), "Xavier's, with Admin": ("admin", "1"),
          "Xavier's, with DeepNorm": ("deepnorm", "1"), "Xavier's, at a third of the learning rate": ("rate 0.0003", "1"),
          "Xavier's, with a warm-up of 200 updates": ("warm-up 200", "1")}
NEARS = (0.5, 0.1)  # nats above the best loss of all norms on a text
ROOMY = {"ln": "LayerNorm", "ln, detached": "LayerNorm, gradients cut (see below)", "rms": "RMSNorm", "bn": "BatchNorm",
         "none": "no norm", "dyt": "DyT, a tanh instead of a norm"}


def short(text):
    return TEXTS.get(text, text).removeprefix("the ")


def over_blocks(known):
    """W5: what BatchNorm loses in each block, a column for each text."""
    fact_of, texts = placed(known, "W5")
    rows = [[name, *(number(fact_of[text, f"{name}, bn", "0"]) for text in texts)] for name in experiments.BLOCKS]
    return "\n".join(markdown([["", *map(short, texts)], *rows]))


def over_sizes(known):
    """W4: what BatchNorm loses as the smallest model grows, and in the larger one, a row for each text."""
    fact_of, texts = placed(known, "W4")
    rows = [[short(text), *(number(fact_of[text, *place]) if (text, *place) in fact_of else "" for place in GROWN.values())]
            for text in texts]
    return "\n".join(markdown([["BatchNorm minus LayerNorm", *GROWN], *rows]))


def over_starts(known):
    """W3: how large branches start, and how many seeds train."""
    (share, texts), (trained, _) = (placed(known, "W3", measure) for measure in ("branch_share", "trained"))
    rows = [["initial weights of branches", "branch, as a part of the stream", f"seeds that train, {' / '.join(map(short, texts))}"]]
    for name, key in STARTS.items():
        counts = (f"{trained[text, *key]['mean'] * trained[text, *key]['seeds']:.0f} of {trained[text, *key]['seeds']}" for text in texts)
        rows.append([name, f"{share[texts[0], *key]['mean']:.2f}", " / ".join(counts)])
    return "\n".join(markdown(rows))


CUT = {"LayerNorm, mean": "ln, mean detached", "LayerNorm, standard deviation": "ln, std detached", "LayerNorm, both": "ln, detached",
       "RMSNorm, root mean square": "rms, detached", "BatchNorm, mean": "bn, mean detached",
       "BatchNorm, standard deviation": "bn, std detached", "BatchNorm, both": "bn, detached",
       "LayerNorm in Post-LN, both": "post ln, detached"}


def over_detached(known):
    """W7: what norms lose without the gradient through a statistic, against the full norm and against no norm."""
    fact_of, texts = placed(known, "W7")
    rows = [["gradient cut", *(f"{short(text)}: above {other}" for text in texts for other in ("the full norm", "no norm"))]]
    for name, condition in CUT.items():
        cells = ((text, condition + end, "0") for text in texts for end in ("", " / none"))
        rows.append([name, *(number(fact_of[cell]) if cell in fact_of else "" for cell in cells)])
    return "\n".join(markdown(rows))


def whose(known):
    """W8 at 2 layers and 64 channels: the loss above LayerNorm's by whose mean is subtracted and whose size divides, then of
    BatchNorm with a division by a part of the token's size, or in one place only; beside it how much tokens differ in size before
    the head."""
    (loss, texts), (spread, _) = (placed(known, "W8-2x64", measure) for measure in ("val_loss", "final_spread"))
    conditions = dict.fromkeys(condition for _, condition, _ in loss)
    rows = [["norm", *(f"{short(text)}: {what}" for text in texts for what in ("above LayerNorm", "spread of token sizes"))]]
    for name in conditions:
        cells = ((number(loss[text, name, "0"], 3) if loss[text, name, "0"]["compared"] else "0", f"{spread[text, name, '0']['mean']:.2f}")
                 for text in texts)
        rows.append([name, *(cell for pair in cells for cell in pair)])
    return "\n".join(markdown(rows))


def over_halves(known):
    """W8-halves: BatchNorm with the division by the token's size, with a part of it, and without."""
    halves, _ = placed(known, "W8-halves")
    both, texts = placed(known, "W8-2x64")
    rows = [["division by the token's size", *map(short, texts)]]
    for name, fact_of, condition in (
            ("none: BatchNorm", halves, "batch mean, batch size"),
            ("divides, the size a constant in the backward pass", halves, "rescaled forward"),
            ("does not divide, gradient as if it did", halves, "rescaled backward"),
            ("both", both, "batch, rescaled^1")):
        rows.append([name, *(number(fact_of[text, condition, "0"], 3) for text in texts)])
    return "\n".join(markdown(rows))


DOSED = {"ln, size": "LayerNorm's size", "bn, mean": "BatchNorm's mean"}


def over_doses(known):
    """W10 at 32 channels: the loss above the whole norm's, by the share of the gradient through a statistic that is kept."""
    fact_of, texts = placed(known, "W10-32")
    rows = [["gradient through", "share that is kept", *map(short, texts)]]
    rows += [[DOSED[condition], f"{share:g}", *(number(fact_of[text, condition, f"{share:g}"]) for text in texts)]
             for condition in experiments.PARTLY for share in experiments.DOSES]
    return "\n".join(markdown(rows))


def over_gradients(known):
    """W11 on the first text: the gradient at the first layer's input divided by that behind the last layer, and what trains."""
    names = ("gradient_expected", "gradient_start", "gradient_100", "trained")
    found = {name: placed(known, "W11", name) for name in names}
    text = found["trained"][1][0]
    rows = [["16 layers: warm-up", "branch, times Xavier's", "expected", "at the start", "after 100 updates", "seeds that train"]]
    for (placement, warmup), scales in experiments.SCALES.items():
        for scale in scales:
            *ratios, trained = (one[text, f"{placement}, warm-up {warmup}, depth 16", f"{scale:.9g}"] for one, _ in found.values())
            expected, *seen = (f"{10 ** one['mean']:.2g}" for one in ratios)
            rows.append([*((f"{warmup}", f"{scale:g}", expected) if placement == "post" else (f"{warmup}, Pre-LN", f"{scale:g}", "")),
                         *seen, f"{trained['mean'] * trained['seeds']:.0f} of {trained['seeds']}"])
    return "\n".join(markdown(rows))


def over_optimizers(known):
    """W9: LayerNorm's loss, and BatchNorm's above it, by optimizer and number of updates."""
    fact_of, texts = placed(known, "W9")
    rows = [["optimizer", "updates", *(f"{short(text)}: {what}" for text in texts for what in ("LayerNorm", "BatchNorm above it"))]]
    for optimizer, updates in itertools.product(experiments.OPTIMIZERS, map(str, experiments.BUDGETS)):
        cells = ((f"{fact_of[text, f'ln, {optimizer}', updates]['mean']:.2f}", number(fact_of[text, f"bn, {optimizer}", updates], 3))
                 for text in texts)
        rows.append([{"adamw": "AdamW", "sgd": "SGD"}[optimizer], updates, *(cell for pair in cells for cell in pair)])
    return "\n".join(markdown(rows))


def rooms(known):
    """W6: the loss at nanoGPT's settings and at a norm's best ones, and how many pairs of settings end near the best of all norms."""
    value = {}
    for fact in known.lines:
        if fact["experiment"] == "W6" and fact["measure"] == "val_loss":
            value.setdefault((fact["text"], fact["condition"]), {})[fact["x"]] = fact["mean"]
    texts = list(dict.fromkeys(text for text, _ in value))
    best = {text: min(min(losses.values()) for (one, _), losses in value.items() if one == text) for text in texts}
    lines = [["", "loss at nanoGPT's settings", "at its best ones", *(f"pairs within {near:g} nats" for near in NEARS)]]
    for norm, name in ROOMY.items():
        losses = {text: value[text, norm] for text in texts}
        cells = ([f"{one['0.02 0.001']:.2f}" for one in losses.values()], [f"{min(one.values()):.2f}" for one in losses.values()],
                 *([str(sum(loss <= best[text] + near for loss in one.values())) for text, one in losses.items()] for near in NEARS))
        lines.append([name, *map(" / ".join, cells)])
    return "\n".join(markdown(lines))


def counted(known):
    """How many predictions hold on each text, of those that were run."""
    found = [(text, judged.value == HOLDS) for _, text, _, _, judged in verdicts.judge(known.facts) if judged.value is not None]
    said = [f"{sum(held for one, held in found if one == text)} of {sum(one == text for one, _ in found)} hold on "
            f"{TEXTS.get(text, text)}" for text in dict.fromkeys(text for text, _ in found)]
    return f"Of the predictions, {' and '.join(said)}."


def failed(known):
    """The predictions that fail, a row for each text."""
    rows = verdicts.table(known.facts)
    return "\n".join(markdown([("prediction", "text", "says", "rule", "measured"),
                               *((*row[:4], row[5]) for row in rows if row[4] == "FAILS")]))


BLOCKS = {"W3": over_starts, "W8": whose, "halves": over_halves, "W9": over_optimizers, "W10": over_doses, "W11": over_gradients,
          "W7": over_detached, "blocks": over_blocks, "lines": over_sizes, "W6": rooms, "counted": counted, "failed": failed}


def filled(page, blocks):
    """The page with these texts in its blocks."""
    for name, text in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = pattern.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def write(known):
    """Writes the pictures, the tables, and the blocks of the page."""
    facts.publish(PUBLISHED, known, verdicts.table(known.facts))
    texts = known.facts.texts()
    for name, draw in PICTURES.items():
        write_whole(os.path.join(PUBLISHED, f"{name}.svg"), compact(draw(known.lines, texts), name) + "\n")
    blocks = {"example": example(), "later": later(), **{name: make(known) for name, make in BLOCKS.items()}}
    for path in PAGES:
        with open(path, encoding="utf-8") as file:
            page = file.read()
        write_whole(path, filled(page, blocks))
