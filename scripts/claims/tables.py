"""Tables of losses in Markdown files, written from published/*.csv, so that no number in them is typed.

    recipe.csv      losses of --recipe=nanogpt and best, and of best with one choice replaced by the default: text, options, seed,
                    val_loss, seconds (empty where other programs ran)
    norms.csv       losses of each norm at its best recipes, as tune.py --csv writes them
    placements.csv  the same of each placement

A file has a block from <!-- table NAME --> to <!-- end of table NAME -->, of which this is the text.
"""
import csv
import os
import re
import statistics

from claims.inference import CONFIDENCE, t_interval

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.path.join(HERE, "published")
TOP = os.path.join(HERE, "..", "..")
NANOGPT, BEST = "--recipe=nanogpt", "--recipe=best"
TEXTS = {"tinyshakespeare": "tiny Shakespeare", "kjv": "the King James Bible", "grammar": "the built-in grammar"}
BESIDE = f"minus {{}}, with a {100 * CONFIDENCE:.0f} % interval"


def rows_of(name):
    with open(os.path.join(PUBLISHED, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def mean_text(losses):
    return f"{statistics.fmean(losses.values()):.3f}"


def difference_text(losses, other):
    """The mean of the paired differences with its interval; nothing of a single pair."""
    seeds = [seed for seed in losses if seed in other]
    if len(seeds) < 2:
        return ""
    mean, low, high, _ = t_interval([losses[seed] - other[seed] for seed in seeds])
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]".replace("-", "−")


# ---- recipes -------------------------------------------------------------------------------------

def recipe_losses(rows, text, column="val_loss"):
    """{options: {seed: value}}, in the order of the file."""
    found = {}
    for row in rows:
        if row["text"] == text and row[column]:
            found.setdefault(row["options"], {})[row["seed"]] = float(row[column])
    return found


def choices_table():
    """Of best with one choice replaced by the default."""
    losses = recipe_losses(rows_of("recipe.csv"), "tinyshakespeare")
    best = losses[BEST]
    first = [options for options in (BEST, NANOGPT) if options in losses]
    others = sorted((options for options in losses if options not in first),
                    key=lambda options: -statistics.fmean(losses[options].values()))
    return markdown(["options of `./train`", "seeds", "loss", BESIDE.format("`best`")], [
        [f"`{options}`" if options in first else f"`{options.removeprefix(BEST + ' ')}`", str(len(losses[options])),
         mean_text(losses[options]), "" if options == BEST else difference_text(losses[options], best)]
        for options in (*first, *others)])


def recipes_table():
    """Of both recipes on several texts."""
    rows = rows_of("recipe.csv")
    lines = []
    for text in dict.fromkeys(row["text"] for row in rows):
        losses, seconds = recipe_losses(rows, text), recipe_losses(rows, text, "seconds")
        times = [statistics.median(seconds[recipe].values()) for recipe in (NANOGPT, BEST)]
        lines.append([TEXTS[text], str(len(losses[BEST])), mean_text(losses[NANOGPT]), mean_text(losses[BEST]),
                      difference_text(losses[BEST], losses[NANOGPT]), f"{times[1] / times[0]:.2f}"])
    return markdown(["text", "seeds", "`nanogpt`", "`best`", BESIDE.format("`nanogpt`"), "time relative to `nanogpt`"], lines)


def recipe_line():
    """Both recipes on tiny Shakespeare, as a sentence for README.md."""
    losses = recipe_losses(rows_of("recipe.csv"), "tinyshakespeare")
    return (f"On tiny Shakespeare `./train --recipe=best` reaches a loss of {mean_text(losses[BEST])} nats, and nanoGPT's recipe "
            f"{mean_text(losses[NANOGPT])}. Both train on the same number of characters, and the better model has fewer "
            "parameters ([what each choice is worth](scripts/RESULTS.md)).")


# ---- tuned variants ------------------------------------------------------------------------------

def tuned_table(name, option, baseline):
    """Of variants at their best initialization and learning rate, the lowest loss first."""
    recipes, losses = {}, {}
    for row in rows_of(name):
        recipes[row[option], row["place"]] = row
        losses.setdefault((row[option], row["place"]), {})[row["seed"]] = float(row["val_loss"])
    best = sorted((key for key in losses if key[1] == "1"), key=lambda key: statistics.fmean(losses[key].values()))
    lines = []
    for key in best:
        row, second = recipes[key], losses.get((key[0], "2"))
        ends = row["at_end"].split()
        values = [row[axis] + " (end)" * (axis in ends) for axis in ("init-std", "lr")]
        lines.append([f"`{key[0]}`" + " (unstable)" * int(row["unstable"]), *values, mean_text(losses[key]),
                      mean_text(second) if second else "",
                      "" if key[0] == baseline else difference_text(losses[key], losses[baseline, "1"])])
    return markdown([option, "initial std", "learning rate", "loss", "second recipe", BESIDE.format(f"`{baseline}`")], lines)


# ---- the files -----------------------------------------------------------------------------------

# {file: {block: its table}}
BLOCKS = {
    "scripts/RESULTS.md": {"recipes": recipes_table, "choices": choices_table},
    "model/norm/README.md": {"norms": lambda: tuned_table("norms.csv", "norm", "ln")},
    "model/PLACEMENTS.md": {"placements": lambda: tuned_table("placements.csv", "placement", "pre")},
}


def with_tables(text, blocks):
    """A file's text with these tables in place of those that are there; ValueError without their marks."""
    for name, table in blocks.items():
        begin, end = f"<!-- table {name} -->", f"<!-- end of table {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        if not re.search(pattern, text, re.DOTALL):
            raise ValueError(f"has no block from '{begin}' to '{end}'")
        block = f"{begin}\n{table()}\n{end}"
        text = re.sub(pattern, lambda _: block, text, count=1, flags=re.DOTALL)
    return text


def texts():
    """{path: the file's text with its tables}"""
    found = {}
    for name, blocks in BLOCKS.items():
        path = os.path.normpath(os.path.join(TOP, name))
        with open(path, encoding="utf-8") as file:
            found[path] = with_tables(file.read(), blocks)
    return found
