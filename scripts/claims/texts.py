"""findings.md, its pictures, README's "What we found", tables of losses, and the published page: written from facts, so that
no number in them is typed.

    scripts/report.py --texts    from published/facts.csv.xz, and tables from the .csv files beside it

README and other files have blocks between two marks: the findings in short, and tables of

    recipe.csv      losses of --recipe=nanogpt and best, and of best with one choice replaced by the default: text, options, seed,
                    val_loss, seconds (empty where other programs ran)
    norms.csv       losses of each norm at its best recipes, and at its second best ones (place 2), by the search of a study
    placements.csv  the same of each placement

A finding whose rule does not hold any more is an error that names it.
"""
from collections import Counter
import csv
import json
import math
import os
from pathlib import Path
import re
from statistics import fmean, median

from common.command_line import markdown, write_whole
from study.statistics import CONFIDENCE, MARGIN, paired, t_interval
from claims import findings, page, pictures, verdicts
from evidence.facts import lines_of, read_facts
from claims.findings import NORMS, TEXTS, FindingError, listed, name_of
from claims.plan import FULL

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.path.join(HERE, "published")
TOP = Path(HERE).resolve().parents[1]
NANOGPT, BEST_RECIPE = "--recipe=nanogpt", "--recipe=best"
BESIDE = f"minus {{}}, with a {100 * CONFIDENCE:.0f} % interval"
PLACES = {"norm=ln": "Pre-LN", "norm=ln placement=post": "Post-LN"}


def runs_of(path):
    """The number of models whose end was measured."""
    return len({record["run"] for record in map(json.loads, lines_of(path)) if record["measure"] == "ending"})


# ---- the table on top ----------------------------------------------------------------------------

def by_text(facts, experiment, size, variant, metric="val_loss"):
    """{text: mean over seeds}."""
    return {cell[0]: fmean(series.values()) for cell in facts.cells(experiment) if cell[1] == size
            if (series := facts.series(experiment, cell, metric, variant))}


def good(losses, reference):
    """Of {name: {text: loss}}: the names that are on no text further than the margin above the reference, and of these the ones
    whose mean over texts is at most the margin above the lowest mean."""
    means = {name: fmean(found.values()) for name, found in losses.items() if found and
             all(found[text] <= losses[reference].get(text, math.inf) + MARGIN for text in found)}
    return [name for name in means if means[name] <= min(means.values()) + MARGIN]


def placement_of(facts, size):
    """The better placement of LayerNorm, both if they are within the margin."""
    losses = {name: by_text(facts, "E20", size, f"{variant} recipe=best") for variant, name in PLACES.items()}
    return listed(good(losses, "Pre-LN"), "or") if all(losses.values()) else "Pre-LN (not compared)"


def row_of(facts, experiment, size, variants, first):
    """A row of the table, or None if nothing was measured. variants: {norm: the name of its variant}. first: what the row says
    of the model and of what it rests on."""
    losses = {norm: by_text(facts, experiment, size, variant) for norm, variant in variants.items()}
    norms = good(losses, "ln")
    if not norms:
        return None
    model, batch, placement, rests = first
    recipe = [by_text(facts, experiment, size, variants[norms[0]], metric).values() for metric in ("init_std", "learning_rate")]
    return [model, str(batch), listed((NORMS[norm] for norm in norms), "or"), placement,
            *(f"{median(found):.2g}" if found else "0.02 (not tuned)" for found in recipe),
            f"{len(losses['ln'])} text{'s' * (len(losses['ln']) > 1)}, {rests}"]


HEAD = ["model", "sequences per batch", "norm", "placement", "initial std", "learning rate", "rests on"]


def recommended_rows(facts):
    """The table on top, with its head: each model size at its own batch size, then the other batch sizes of E26."""
    rows = [row_of(facts, "E20", size.name, {norm: f"norm={norm} recipe=best" for norm in ("ln", "rms", "bn", "none")},
                   (f"{size.name}: {size['n-layer']} layers, {size['n-embd']} channels", size["batch-size"],
                    placement_of(facts, size.name), f"{size['max-iters']} updates")) for size in FULL]
    small = FULL[0]
    rows += [row_of(facts, "E26", small.name, {norm: f"batch={batch} norm={norm}" for norm in ("ln", "bn", "gn")},
                    (small.name, batch, "Pre-LN",
                     f"tuned on one; {small['max-iters'] * small['batch-size'] // batch} updates")) for batch in (1, 4, 32)]
    return [HEAD, *filter(None, rows)]


# ---- tables of losses ----------------------------------------------------------------------------

def rows_of(name):
    return list(csv.DictReader(lines_of(os.path.join(PUBLISHED, name))))


def by_seed(rows, key, column="val_loss", **where):
    """{value of the column `key`: {seed: number}} of the rows with these values, in the order of the file."""
    found = {}
    for row in rows:
        if row[column] and where.items() <= row.items():
            found.setdefault(row[key], {})[row["seed"]] = float(row[column])
    return found


def mean_text(losses):
    """Of {seed: loss}."""
    return f"{fmean(losses.values()):.3f}"


def difference_text(losses, other):
    """The mean of the paired differences with its interval; nothing of a single pair."""
    found = t_interval(paired(losses, other)[1])
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−") if found.n > 1 else ""


def choices_table():
    """The table of the best recipe with one choice replaced by the default."""
    losses = by_seed(rows_of("recipe.csv"), "options", text="tinyshakespeare")
    rows = [["options of `./train`", "seeds", "loss", BESIDE.format("`best`")]]
    for options in sorted(losses, key=lambda one: (one != BEST_RECIPE, one != NANOGPT, -fmean(losses[one].values()))):
        rows.append([f"`{options.removeprefix(BEST_RECIPE + ' ')}`", str(len(losses[options])), mean_text(losses[options]),
                     "" if options == BEST_RECIPE else difference_text(losses[options], losses[BEST_RECIPE])])
    return "\n".join(markdown(rows))


def slower(rows, text):
    """How many times as long the best recipe takes, by medians."""
    old, new = (median(by_seed(rows, "options", "seconds", text=text)[recipe].values()) for recipe in (NANOGPT, BEST_RECIPE))
    return new / old


def recipes_table():
    """The table of both recipes on several texts."""
    rows = rows_of("recipe.csv")
    lines = [["text", "seeds", "`nanogpt`", "`best`", BESIDE.format("`nanogpt`"), "time relative to `nanogpt`"]]
    for text in dict.fromkeys(row["text"] for row in rows):
        losses = by_seed(rows, "options", text=text)
        lines.append([TEXTS[text], str(len(losses[BEST_RECIPE])), mean_text(losses[NANOGPT]), mean_text(losses[BEST_RECIPE]),
                      difference_text(losses[BEST_RECIPE], losses[NANOGPT]), f"{slower(rows, text):.2f}"])
    return "\n".join(markdown(lines))


def recipe_line():
    """Both recipes on tiny Shakespeare, as a sentence for README.md."""
    rows = rows_of("recipe.csv")
    losses = by_seed(rows, "options", text="tinyshakespeare")
    return (f"On tiny Shakespeare `./train --recipe=best` reaches a loss of {mean_text(losses[BEST_RECIPE])} nats, and nanoGPT's recipe "
            f"{mean_text(losses[NANOGPT])}, after the same number of characters. The better model has fewer parameters, but takes "
            f"{slower(rows, 'tinyshakespeare'):.1f} times as long; it gains most from Muon and from Llama's block ([what each choice is "
            "worth](scripts/guides/results.md)).")


def tuned_table(name, option, baseline):
    """The table of variants at their best initialization and learning rate, the lowest loss first."""
    rows = rows_of(name)
    losses, second = (by_seed(rows, option, place=place) for place in "12")
    recipes = {row[option]: row for row in rows if row["place"] == "1"}
    lines = [[option, "initial std", "learning rate", "loss", "runner-up settings", BESIDE.format(f"`{baseline}`")]]
    for key in sorted(losses, key=lambda one: fmean(losses[one].values())):
        row = recipes[key]
        values = [row[axis] + " (end)" * (axis in row["at_end"].split()) for axis in ("init-std", "lr")]
        lines.append([f"`{key}`" + " (unstable)" * int(row["unstable"]), *values, mean_text(losses[key]),
                      mean_text(second[key]) if key in second else "",
                      "" if key == baseline else difference_text(losses[key], losses[baseline])])
    return "\n".join(markdown(lines))


# ---- the texts -----------------------------------------------------------------------------------

def counts_of(facts):
    """{verdict: number of the articles' claims that have it}."""
    judged = verdicts.verdicts(facts)
    counts = Counter(judged[claim.id].word for claim in verdicts.articles())
    return {word: counts[word] for word in verdicts.VERDICTS if counts[word]}


def share(facts, norm):
    """The part of an update that a norm takes, in per cent."""
    variant = f"length=64 norm={norm} width=128"
    found = [value for cell in facts.cells("E12") for value in facts.series("E12", cell, "norm_share", variant).values()]
    return f"{100 * fmean(found):.1f} %" if found else "an unknown part"


def findings_text(facts, runs):
    """findings.md."""
    for finding in findings.table():
        finding.expect(facts)
    with open(os.path.join(HERE, "findings.jinja"), encoding="utf-8") as file:
        text = findings.rendered(
            file.read(), facts, runs=runs, margin=f"{MARGIN:g}", listed=listed, counts=counts_of(facts),
            text_names=[name_of(text) for text in sorted({text for text, _ in facts.cells("E20")})],
            texts_in=lambda *experiments: len({text for one in experiments for text, _ in facts.cells(one)}),
            recommended="\n".join(markdown(recommended_rows(facts))),
            render=lambda text: findings.rendered(text, facts).strip(), share=lambda norm: share(facts, norm))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def readme_text(facts):
    """What README.md says of the findings."""
    return "\n".join([
        f"The list is for GPT-2's block with biases and at most {FULL[-1]['n-embd']} channels. "
        "[All findings](scripts/guides/findings.md) give scope, pictures and commands. Losses are in nats per character, and 0.02 nats are "
        "2 % of perplexity.", "",
        *(f"- {findings.rendered(one.short, facts)}" for one in findings.table() if one.readme), "", recipe_line()])


def with_block(name, text, block, content):
    """A file's text with this content of a block, between <!-- BLOCK: ... --> or <!-- BLOCK --> and <!-- end of BLOCK -->."""
    found = re.search(f"(?s)(<!-- {block}(?:: [^>]*)? -->\n).*?(\n<!-- end of {block} -->)", text)
    if not found:
        raise FindingError(f"{name}: has no block from '<!-- {block} -->' to '<!-- end of {block} -->'")
    return text[:found.end(1)] + content + text[found.start(2):]


def files(facts, runs):
    """{path: text} of all files that follow from the facts, except for verdicts.csv."""
    found = {str(TOP / "scripts/guides/findings.md"): findings_text(facts, runs), os.path.join(PUBLISHED, "report.html"): page.make(facts)}
    for name, text in pictures.of_findings(facts).items():
        found[os.path.join(PUBLISHED, "figures", name)] = text
    for name, blocks in {
            "README.md": {"findings": readme_text(facts)},
            "scripts/guides/results.md": {"table recipes": recipes_table(), "table choices": choices_table(),
                                   "table norms": tuned_table("norms.csv", "norm", "ln"),
                                   "table placements": tuned_table("placements.csv", "placement", "pre")}}.items():
        text = (TOP / name).read_text(encoding="utf-8")
        for block, content in blocks.items():
            text = with_block(name, text, block, content)
        found[str(TOP / name)] = text
    return found


def published():
    """(facts, number of models) as the repository has them."""
    return read_facts(os.path.join(PUBLISHED, "facts.csv.xz")), runs_of(os.path.join(PUBLISHED, "measured.jsonl.xz"))


def write(verdicts_text):
    """Writes all of it; returns the paths. verdicts_text(verdicts): verdicts.csv."""
    facts, runs = published()
    found = {**files(facts, runs), os.path.join(PUBLISHED, "verdicts.csv"): verdicts_text(verdicts.verdicts(facts))}
    for path, text in found.items():
        write_whole(path, text)
    return [os.path.relpath(path) for path in found]
