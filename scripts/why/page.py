"""Writes the numbers of WHY.md: each block between <!-- NAME --> and <!-- end of NAME --> follows from the judged runs, and
so do the pictures. Everything else in WHY.md is written by hand.
"""
import os
import re

from common.command_line import markdown, write_whole
from why import experiments, facts as fact_table
from why.pictures import PICTURES, svg

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "WHY.md")
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

def number(fact):
    """The mean and its interval; a star marks a tuned option whose best value is at an end of its axis."""
    return f"{fact['mean']:+.2f}{'*' if fact['at_end'] else ''} [{fact['low']:+.2f}, {fact['high']:+.2f}]"


def table(found, experiment, measure, rows, columns):
    """A Markdown table for each text. rows: {(experiment, condition): label}, or conditions of one experiment; columns: {title:
    a function of a row's condition that gives (condition, x)}."""
    texts = list(dict.fromkeys(fact["text"] for fact in found if fact["experiment"] == experiment))
    fact_of = {(fact["text"], fact["condition"], fact["x"]): fact for fact in found if fact["experiment"] == experiment
           and fact["measure"] == measure}
    lines = [["text"] * (len(texts) > 1) + ["", *columns]]
    for text in texts:
        for row, label in rows.items():
            cells = [fact_of.get((text, *place(row))) for place in columns.values()]
            if any(cells):
                lines.append([TEXTS.get(text, text)] * (len(texts) > 1) + [label, *(number(one) if one else "" for one in cells)])
    return "\n".join(markdown(lines))


def same(x):
    return lambda condition: (condition, x)


STATISTICS = {"one sequence": "one sequence", "one position": "one position, no future", "two sequences": "two sequences",
              "the past": "the past, no future"}
NORMS = {"ln": "LayerNorm", "rms": "RMSNorm", "bn": "BatchNorm", "none": "no norm", "gn": "GroupNorm", "dyt": "DyT"}
LENGTH_COLUMNS = {f"{count} tokens": same(str(count)) for count in (8, 16, 32, 64, 128)}
INTO = {"post, warm-up 0, depth 16": "Post-LN, Xavier", "warm-up 100": "with a warm-up of 100", "rate 0.0003": "with a third of the rate",
        "width": "Post-LN, `--init=width`, which divides branches by sqrt(2L)", "width, multiplied": "the same, branches x sqrt(2L)",
        "pre": "Pre-LN, Xavier"}


SITES = [(f"bn: {name}", 0, f"BatchNorm in {name.replace('head', 'front of the head')}, LayerNorm elsewhere" if name.count("and") < 2
          else "BatchNorm everywhere") for name in ("attention", "MLPs", "head", "attention and MLPs", "attention and head",
                                                    "MLPs and head", "attention and MLPs and head")]
LINES = [(f"bn, {option}", value, f"{value} {what}") for option, what in
         (("n-embd", "channels"), ("n-layer", "layers"), ("max-iters", "updates")) for value in experiments.LINES[option]]
REMEDIES = [("bn, batch-size 48", 0, "BatchNorm everywhere, batches of 48 sequences"),
            ("bn, max-iters 1200", 0, "BatchNorm everywhere, 1200 updates"),
            ("4 sequences", 0, "statistics of 4 sequences instead of 12, above BatchNorm's"),
            ("renormalization", 0, "batch renormalization, above BatchNorm's")]


def outliers(found):
    columns = {f"{where} x {factor}": (lambda norm, where=where, factor=factor: (f"{norm}, {where}", str(factor)))
               for where in ("channel", "position") for factor in (10, 1000)}
    return table(found, "W2", "val_loss", NORMS, columns)


def short(text):
    return TEXTS.get(text, text).removeprefix("the ")


def beside(found, experiment, rows, columns):
    """A Markdown table with the texts side by side. rows: {condition: label}; columns: as in table()."""
    fact_of = {(fact["text"], fact["condition"], fact["x"]): fact for fact in found
           if fact["experiment"] == experiment and fact["measure"] == "val_loss"}
    texts = list(dict.fromkeys(text for text, *_ in fact_of))
    places = [(title, place, text) for title, place in columns.items() for text in texts]
    lines = [["", *(f"{title}, {short(text)}".removeprefix(", ") for title, _, text in places)]]
    for row, label in rows.items():
        cells = [fact_of.get((text, *place(row))) for _, place, text in places]
        if any(cells):
            lines.append([label, *(number(one) if one else "" for one in cells)])
    return "\n".join(markdown(lines))


def depths(found):
    shares = {fact["condition"]: fact["mean"] for fact in found if fact["experiment"] == "W3" and fact["measure"] == "branch_share"
              and (fact["condition"] in INTO and (not fact["condition"].startswith("post") or fact["x"] == "1"))}
    fact_of = {(fact["text"], fact["condition"]): fact for fact in found if fact["experiment"] == "W3" and fact["measure"] ==
           "above_frequencies" and fact["condition"] in shares and (not fact["condition"].startswith("post") or fact["x"] == "1")}
    lines = [["16 layers", "branch over stream at the start", "loss above that of knowing only the frequencies"]]
    lines += [[INTO[condition], f"{shares[condition]:.2f}", number(fact_of[text, condition])]
              for condition in INTO for text in dict.fromkeys(key[0] for key in fact_of) if (text, condition) in fact_of]
    return "\n".join(markdown(lines))


def blocks_of_models(found):
    """W5: what the other norms lose against LayerNorm in a block."""
    columns = {NORMS[norm]: (lambda block, norm=norm: (f"{block}, {norm}", "0")) for norm in ("bn", "rms", "none")}
    return table(found, "W5", "val_loss", {name: name for name in experiments.BLOCKS}, columns)


def larger(found):
    """W4: what BatchNorm loses by place, then over width, depth and updates, and with what might close the gap."""
    fact_of = {(fact["text"], fact["condition"], fact["x"], fact["measure"]): fact for fact in found if fact["experiment"] == "W4"}
    texts = list(dict.fromkeys(text for text, *_ in fact_of))
    lines = [["", *map(short, texts)]]
    for condition, x, label in SITES + LINES + REMEDIES:
        cells = [fact_of.get((text, condition, str(x), "val_loss")) for text in texts]
        if any(cells):
            lines.append([label, *(number(one) if one else "" for one in cells)])
    return "\n".join(markdown(lines))


def over_sizes(found):
    """W4 in a row: what BatchNorm loses as the smallest model grows, and in the larger one."""
    columns = [("bn, n-embd", "32", "2 layers, 32 channels"), ("bn, max-iters", "8000", "8,000 updates"),
               ("bn, n-layer", "8", "8 layers"), ("bn, n-embd", "64", "64 channels"),
               ("bn, n-embd", "128", "128 channels"), ("bn: attention and MLPs and head", "0", "4 layers, 64 channels")]
    fact_of = {(fact["condition"], fact["x"]): fact for fact in found if fact["experiment"] == "W4" and fact["measure"] == "val_loss"
           and fact["text"] == "kjv"}
    return "\n".join(markdown([["", *(title for *_, title in columns)],
                               ["BatchNorm minus LayerNorm", *(number(fact_of[key, x]) for key, x, _ in columns)]]))


def rooms(found):
    """W6: the loss at nanoGPT's settings and at a norm's best ones, and how many pairs of settings are near these."""
    total = len(experiments.STDS) * len(experiments.RATES)
    texts = list(dict.fromkeys(fact["text"] for fact in found if fact["experiment"] == "W6"))
    lines = [["text"] * (len(texts) > 1) + ["", "at nanoGPT's settings", "at its best ones",
                                            f"of {total} pairs, within 0.1 nats of the best", "within 0.5"]]
    for text in texts:
        for norm, name in NORMS.items():
            cells = {fact["x"]: fact["mean"] for fact in found if fact["experiment"] == "W6" and fact["text"] == text
                     and fact["condition"] == norm and fact["measure"] == "val_loss"}
            if cells:
                best = min(cells.values())
                lines.append([TEXTS.get(text, text)] * (len(texts) > 1) + [name, f"{cells['0.02 0.001']:.2f}", f"{best:.2f}",
                              *(str(sum(loss <= best + margin for loss in cells.values())) for margin in (0.1, 0.5))])
    return "\n".join(markdown(lines))


def counted(found):
    """How many predictions hold on each text, of those that were run."""
    verdicts = [(text, holds) for _, text, holds, _ in fact_table.judge(found) if holds is not None]
    said = [f"{sum(held for one, held in verdicts if one == text)} of {sum(one == text for one, _ in verdicts)} hold on "
            f"{TEXTS.get(text, text)}" for text in dict.fromkeys(text for text, _ in verdicts)]
    return f"Of the predictions, {' and '.join(said)}."


def predictions(found):
    """Every prediction with its threshold, and what was measured on each text."""
    rows, texts = {}, list(dict.fromkeys(fact["text"] for fact in found))
    for one, text, holds, facts in fact_table.judge(found):
        rule = f"{one['quantity']} of {one['measure']} {one['relation']} {one['bound']}"
        shown = "; ".join(f"{fact['x']}: {number(fact)}" if len(facts) > 1 else number(fact) for fact in facts)
        row = rows.setdefault(one["id"], [one["id"], f"{one['says']} ({rule})", *("" for _ in texts)])
        row[2 + texts.index(text)] = "not run" if holds is None else f"{'holds' if holds else '**fails**'}, {shown}"
    return "\n".join(markdown([["", "prediction", *map(short, texts)], *rows.values()]))


# The blocks of the page, and of README.md in this folder.
BLOCKS = {"blocks": lambda found: beside(found, "W5", {name: name for name in experiments.BLOCKS if name != "Llama with beta and biases"},
                                         {"": lambda block: (f"{block}, bn", "0")}),
          "W4": larger, "lines": over_sizes, "W2": outliers, "W3": depths,
          "W1": lambda found: table(found, "W1", "val_loss", STATISTICS, LENGTH_COLUMNS),
          "W5": blocks_of_models, "W6": rooms, "counted": counted,
          "W1-untuned": lambda found: table(found, "W1-untuned", "val_loss", STATISTICS, LENGTH_COLUMNS), "predictions": predictions}


def filled(page, blocks):
    """The page with these texts in its blocks."""
    for name, text in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = pattern.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def write(found):
    """Writes the pictures, and the blocks of the page and of this folder's README."""
    for name, draw in PICTURES.items():
        write_whole(os.path.join(PUBLISHED, f"{name}.svg"), svg(draw(found, list(dict.fromkeys(fact["text"] for fact in found)))))
    blocks = {"example": example(), "later": later(), **{name: make(found) for name, make in BLOCKS.items()}}
    for path in PAGE, os.path.join(HERE, "README.md"):
        with open(path, encoding="utf-8") as file:
            page = file.read()
        write_whole(path, filled(page, blocks))
