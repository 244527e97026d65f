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


LENGTH_COLUMNS = ("8", "16", "32", "64", "128")


def future(found):
    """A row for each text, settings and statistic; a column for each number of tokens that share a statistic."""
    lines = [["text", "settings", "statistic over", *(f"{count} tokens" for count in LENGTH_COLUMNS)]]
    for text in dict.fromkeys(fact["text"] for fact in found if fact["experiment"] == "W1"):
        for experiment, settings in (("W1-untuned", "LayerNorm's"), ("W1", "its own")):
            own = {(fact["condition"], fact["x"]): fact for fact in found if fact["experiment"] == experiment
                   and fact["text"] == text and fact["measure"] == "val_loss" and not fact_table.is_rates(fact)}
            for condition in ("one sequence", "one position", "two sequences", "the past"):
                if any(key[0] == condition for key in own):
                    lines.append([TEXTS.get(text, text), settings, condition, *(
                        number(own[condition, count]) if (condition, count) in own else "" for count in LENGTH_COLUMNS)])
    return "\n".join(markdown(lines))


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


def blocks_of_models(found):
    """W5: what the other norms lose against LayerNorm in a block."""
    names = {"bn": "BatchNorm", "rms": "RMSNorm", "none": "no norm"}
    lines = [["text", "block", *names.values()]]
    own = {(fact["text"], fact["condition"]): fact for fact in found if fact["experiment"] == "W5" and fact["measure"] == "val_loss"}
    for text in dict.fromkeys(key[0] for key in own):
        for block in experiments.BLOCKS:
            lines.append([TEXTS.get(text, text), block, *(number(own[text, f"{block}, {norm}"])
                                                          if (text, f"{block}, {norm}") in own else "" for norm in names)])
    return "\n".join(markdown(lines))


def rooms(found):
    """W6: how many of the grid's cells are near a norm's own best."""
    names = {"ln": "LayerNorm", "rms": "RMSNorm", "bn": "BatchNorm", "dyt": "DyT", "none": "no norm"}
    total = len(experiments.STDS) * len(experiments.RATES)
    lines = [["text", "norm", f"pairs of {total} near its best", "of 8 initial stds", "of 8 rates"]]
    own = {(fact["text"], fact["condition"], fact["measure"]): fact for fact in found if fact["experiment"] == "W6"}
    for text in dict.fromkeys(key[0] for key in own):
        for norm, name in names.items():
            if (text, norm, "room") in own:
                lines.append([TEXTS.get(text, text), name, *(str(own[text, norm, measure]["mean"])
                                                            for measure in ("room", "room_std", "room_rate"))])
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


BLOCKS = {"W1": future, "W2": outliers, "W3": depths, "W5": blocks_of_models, "W6": rooms, "predictions": predicted}


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
