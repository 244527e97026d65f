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
TEXTS = {"kjv": "the King James Bible", "tinyshakespeare": "tiny Shakespeare", "jargon": "the Jargon File"}


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
    """The input, and what LayerNorm and BatchNorm make of it."""
    made = [outputs(kind, EXAMPLE) for kind in ("ln", "bn")]
    lines = ["sequence, token   x: four channels             LayerNorm                   BatchNorm"]
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
    found = dict.fromkeys(text for text, *_ in fact_of)
    return fact_of, [*(text for text in TEXTS if text in found), *(text for text in found if text not in TEXTS)]


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


def by_text(texts, head, rows, columns=("",)):
    """A table whose rows are pairs: labels under `head`, and a function that gives a text's cells under `columns`."""
    heads = [f"{short(text)}: {column}" if column else short(text) for text in texts for column in columns]
    lines = [[*labels, *(cell for text in texts for cell in cells_of(text))] for labels, cells_of in rows]
    return "\n".join(markdown([[*head, *heads], *lines]))


def losses_at(fact_of, *places, digits=2):
    """A function for by_text(): the losses at these places (condition, x) of a text; 0 for a baseline, empty where not run."""
    def cell(fact):
        return "" if fact is None else number(fact, digits) if fact["compared"] else "0"

    return lambda text: [cell(fact_of.get((text, *place))) for place in places]


def over_blocks(known):
    """W5: what BatchNorm loses in each block."""
    fact_of, texts = placed(known, "W5")
    return by_text(texts, [""], [([name], losses_at(fact_of, (f"{name}, bn", "0"))) for name in experiments.BLOCKS])


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
    rows = [([name], losses_at(fact_of, *((condition + end, "0") for end in ("", " / none")))) for name, condition in CUT.items()]
    return by_text(texts, ["gradient cut"], rows, ("above the full norm", "above no norm"))


def whose(known):
    """W8: the loss above LayerNorm's by whose mean is subtracted and whose size divides, then of BatchNorm with a division by a part
    of the token's size, or in one place only, in every shape and text; beside it how much tokens differ in size before the head."""
    losses = {shape: placed(known, f"W8-{shape}") for shape in ("2x32", "2x64", "4x64", "4x128")}
    columns = [(shape, text) for shape, (_, texts) in losses.items() for text in texts]
    spread, (text, *_) = placed(known, "W8-2x64", "final_spread")
    lines = [["norm", *(f"{shape.replace('x', ' x ')}, {short(text)}" for shape, text in columns), f"spread, 2 x 64, {short(text)}"]]
    for condition in dict.fromkeys(condition for _, condition, _ in losses["2x64"][0]):
        cells = (losses_at(losses[shape][0], (condition, "0"), digits=3)(text) for shape, text in columns)
        lines.append([condition, *itertools.chain(*cells), f"{spread[text, condition, '0']['mean']:.2f}"])
    return "\n".join(markdown(lines))


def over_halves(known):
    """W8-halves: BatchNorm with the division by the token's size, with a part of it, and without."""
    (halves, texts), (both, _) = (placed(known, experiment) for experiment in ("W8-halves", "W8-2x64"))
    rows = (("none: BatchNorm", halves, "batch mean, batch size"),
            ("divides, the size a constant in the backward pass", halves, "rescaled forward"),
            ("does not divide, gradient as if it did", halves, "rescaled backward"),
            ("both", both, "batch, rescaled^1"))
    return by_text(texts, ["division by the token's size"],
                   [([name], losses_at(fact_of, (condition, "0"), digits=3)) for name, fact_of, condition in rows])


DOSED = {"ln, size": "LayerNorm's size", "bn, mean": "BatchNorm's mean"}


def over_doses(known):
    """W10: the loss above the whole norm's, by the share of the gradient through a statistic that is kept."""
    fact_of = {width: placed(known, f"W10-{width}")[0] for width in (32, 64)}
    return by_text(placed(known, "W10-32")[1], ["channels", "gradient through", "share that is kept"], [
        ([f"{width}", DOSED[condition], f"{share:g}"], losses_at(fact_of[width], (condition, f"{share:g}")))
        for width in fact_of for condition in experiments.PARTLY for share in experiments.DOSES])


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


def over_settings(known):
    """W8-settings: LayerNorm's loss, and the others' above it, at four settings and between the best ones."""
    fact_of, texts = placed(known, "W8-settings")
    best_of, _ = placed(known, "W8-settings", "best_of_settings")
    plain, settings = "token mean, token size", list(dict.fromkeys(x for *_, x in fact_of))
    rows = [([plain], lambda text: [*(f"{fact_of[text, plain, x]['mean']:.3f}" for x in settings), "0"]),
            *(([norm], losses_at({**fact_of, **best_of}, *((norm, x) for x in (*settings, "")), digits=3))
              for norm in dict.fromkeys(condition for _, condition, _ in fact_of) if norm != plain)]
    return by_text(texts, ["norm"], rows, [*settings, "best of the four"])


OPTIMIZERS = {"adamw": "AdamW", "sgd": "SGD", "adamw without decay": "AdamW without decay", "muon": "Muon"}


def over_optimizers(known):
    """W9: LayerNorm's loss, and the others' above it, by optimizer and number of updates."""
    fact_of, texts = placed(known, "W9")
    ways = dict.fromkeys(condition.rsplit(", ", 1)[1] for _, condition, _ in fact_of)
    norms = {"bn": "BatchNorm", "rms": "RMSNorm", "gamma and beta": "gamma and beta"}

    def cells_of(optimizer, updates):
        plain, places = f"ln, {optimizer}", [(f"{norm}, {optimizer}", updates) for norm in norms]
        return lambda text: [f"{fact_of[text, plain, updates]['mean']:.2f}" if (text, plain, updates) in fact_of else "",
                             *losses_at(fact_of, *places, digits=3)(text)]

    rows = [([OPTIMIZERS[optimizer], updates], cells_of(optimizer, updates))
            for optimizer, updates in itertools.product(ways, map(str, experiments.BUDGETS))]
    return by_text(texts, ["optimizer", "updates"], rows, ("LayerNorm", *(f"{name} above it" for name in norms.values())))


def over_eps(known):
    """W9-eps: LayerNorm's loss, and BatchNorm's above it, by AdamW's eps."""
    fact_of, texts = placed(known, "W9-eps")
    rows = [([eps], lambda text, eps=eps: [f"{fact_of[text, 'ln', eps]['mean']:.2f}", *losses_at(fact_of, ("bn", eps), digits=3)(text)])
            for eps in dict.fromkeys(x for *_, x in fact_of)]
    return by_text(texts, ["adam-eps"], rows, ("LayerNorm", "BatchNorm above it"))


def over_cells(known):
    """W9-cells: the loss above LayerNorm's, by optimizer and whose mean and size."""
    fact_of, texts = placed(known, "W9-cells")
    places = [condition.rsplit(", ", 1) for condition in dict.fromkeys(condition for _, condition, _ in fact_of)]
    rows = [([OPTIMIZERS[optimizer], norm], losses_at(fact_of, (f"{norm}, {optimizer}", "0"), digits=3)) for norm, optimizer in places]
    return by_text(texts, ["optimizer", "norm"], rows)


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
    """How many predictions hold on each text, of those that were run and had not been seen there."""
    found = [(text, judged.value == HOLDS) for _, text, says, _, judged in verdicts.judge(known.facts)
             if judged.value is not None and not ("seen on the Bible" in says and text == "kjv")]
    said = [f"{sum(held for one, held in found if one == text)} of {sum(one == text for one, _ in found)} on {TEXTS.get(text, text)}"
            for text in dict.fromkeys(text for text, _ in found)]
    return f"Predictions that hold: {', '.join(said)}."


def failed(known):
    """The predictions that fail, a row for each text."""
    rows = verdicts.table(known.facts)
    return "\n".join(markdown([("prediction", "text", "says", "rule", "measured"),
                               *((*row[:4], row[5]) for row in rows if row[4] == "FAILS")]))


BLOCKS = {"W3": over_starts, "W8": whose, "halves": over_halves, "settings": over_settings,
          "W9": over_optimizers, "W9-cells": over_cells, "eps": over_eps, "W10": over_doses, "W11": over_gradients,
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
