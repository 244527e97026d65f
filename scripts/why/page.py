"""Writes the numbers of WHY.md: each block between <!-- NAME --> and <!-- end of NAME --> follows from the judged runs, and
so do the pictures. Everything else in WHY.md is written by hand.
"""
import os
import re

from common.command_line import markdown, write_whole
from why import facts as fact_table
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


def cells(values, form):
    return " ".join(f"{value:{form}}".rjust(6) for value in values)


def example():
    """The input, and what LayerNorm, RMSNorm and BatchNorm make of it."""
    made = [outputs(kind, EXAMPLE) for kind in ("ln", "rms", "bn")]
    lines = ["sequence, token   x: four channels             LayerNorm                   RMSNorm                     BatchNorm"]
    for b, sequence in enumerate(EXAMPLE):
        for t, token in enumerate(sequence):
            row = [cells(token, "d"), *(cells(y[b][t], ".2f") for y in made)]
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
    mark = "*" if fact["at_end"] else ""
    return f"{fact['mean']:+.3f}{mark} [{fact['low']:+.3f}, {fact['high']:+.3f}]"


def grid(found, experiment, measure, rows, columns, name):
    """A table of facts: a row for each (text, condition), a column for each x."""
    own = {(fact["text"], fact["condition"], fact["x"]): fact for fact in found
           if fact["experiment"] == experiment and fact["measure"] == measure and not fact_table.is_rates(fact)}
    texts = dict.fromkeys(key[0] for key in own)
    lines = [["text", name, *columns.values()]]
    for text in texts:
        for condition, label in rows.items():
            line = [number(own[text, condition, x]) if (text, condition, x) in own else "" for x in columns]
            if any(line):
                lines.append([TEXTS.get(text, text), label, *line])
    return "\n".join(markdown(lines))


def future(found):
    rows = {name: name for name in ("one sequence", "one position", "two sequences", "the past", "all sequences")}
    return grid(found, "W1", "val_loss", rows, {str(n): f"{n} tokens" for n in (8, 16, 32, 64, 128, 256, 1024)},
                "statistic over")


def outliers(found):
    names = {"ln": "LayerNorm", "rms": "RMSNorm", "gn": "GroupNorm", "bn": "BatchNorm", "none": "no norm"}
    lines = [["text", "norm", *(f"{where} x {factor}" for where in ("channel", "position") for factor in (10, 100, 1000))]]
    own = {(fact["text"], fact["condition"], fact["x"]): fact for fact in found
           if fact["experiment"] == "W2" and fact["measure"] == "val_loss"}
    for text in dict.fromkeys(key[0] for key in own):
        for norm, name in names.items():
            keys = [(text, f"{norm}, {where}", str(factor)) for where in ("channel", "position") for factor in (10, 100, 1000)]
            if any(key in own for key in keys):
                lines.append([TEXTS.get(text, text), name, *(number(own[key]) if key in own else "" for key in keys)])
    return "\n".join(markdown(lines))


REMEDIES = {"xavier, divided": "Xavier, branch / sqrt(2L)", "width": "`--init=width`, which divides by sqrt(2L)",
            "width, multiplied": "the same, branch x sqrt(2L)", "std 0.08": "std 0.08, which divides too",
            "std 0.08, multiplied": "the same, branch x sqrt(2L)", "rate 0.0003": "Xavier, a third of the rate",
            "rate 0.0001": "Xavier, a tenth of it", "warm-up 100": "Xavier, warm-up 100", "warm-up 200": "Xavier, warm-up 200",
            "deepnorm": "Xavier, DeepNorm", "admin": "Xavier, Admin", "rezero": "Xavier, ReZero (no norms)",
            "skipinit": "Xavier, SkipInit (no norms)", "pre": "Xavier, Pre-LN"}


def depths(found):
    lines = [["text", "16 layers", "branch over stream at the start", "loss above the frequencies'"]]
    own = {(fact["text"], fact["condition"], fact["measure"]): fact for fact in found if fact["experiment"] == "W3"
           and (not fact["condition"].startswith(("post", "pre,")) or fact["condition"] == "post, warm-up 0, depth 16"
                and fact["x"] == "1")}
    rows = {"post, warm-up 0, depth 16": "Post-LN, Xavier", **REMEDIES}
    for text in dict.fromkeys(key[0] for key in own):
        for condition, label in rows.items():
            if (text, condition, "above_frequencies") in own:
                lines.append([TEXTS.get(text, text), label, f"{own[text, condition, 'branch_share']['mean']:.2f}",
                              number(own[text, condition, "above_frequencies"])])
    return "\n".join(markdown(lines))


def failed(found):
    """The predictions that failed."""
    lines = [["prediction", "text", "it said", "measured"]]
    for one, text, holds, facts in fact_table.judge(found):
        if holds is False:
            lines.append([one["id"], TEXTS.get(text, text), one["says"], "; ".join(map(number, facts))])
    return "\n".join(markdown(lines)) if len(lines) > 1 else "None failed."


def counts(found):
    """How many predictions hold, of those that were run."""
    return {text: (sum(holds is True for _, one, holds, _ in fact_table.judge(found) if one == text),
                   sum(holds is not None for _, one, holds, _ in fact_table.judge(found) if one == text))
            for text in dict.fromkeys(fact["text"] for fact in found)}


def predicted(found):
    said = [f"{held} of {total} hold on {TEXTS.get(text, text)}" for text, (held, total) in counts(found).items()]
    return f"Of the predictions, {' and '.join(said)}.\n\n{failed(found)}"


BLOCKS = {"W1": future, "W2": outliers, "W3": depths, "predictions": predicted}


def filled(page, blocks):
    """The page with these texts in its blocks."""
    for name, text in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
        page = pattern.sub(lambda found, text=text: found[1] + text + found[2], page)
    return page


def write(found):
    """Writes the pictures and the blocks of WHY.md."""
    for name, draw in PICTURES.items():
        write_whole(os.path.join(PUBLISHED, f"{name}.svg"), svg(draw(found, list(dict.fromkeys(fact["text"] for fact in found)))))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    blocks = {"example": example(), "later": later(), **{name: make(found) for name, make in BLOCKS.items()}}
    write_whole(PAGE, filled(page, blocks))
