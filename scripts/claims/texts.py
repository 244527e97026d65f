"""FINDINGS.md, its pictures, README's "What we found" and tables of losses: written from facts, so that no number in them
is typed.

    scripts/report.py --texts    from published/facts.csv.xz, and tables from the .csv files beside it

README and other files have blocks between two marks: the findings in short, and tables of

    recipe.csv      losses of --recipe=nanogpt and best, and of best with one choice replaced by the default: text, options, seed,
                    val_loss, seconds (empty where other programs ran)
    norms.csv       losses of each norm at its best recipes, and at its second best ones (place 2), by the search of a study
    placements.csv  the same of each placement

A finding whose rule does not hold any more is an error that names it.
"""
import csv
import json
import math
import os
from pathlib import Path
import re
import statistics

from claims import claims, evidence, headlines
from claims.fact_table import lines_of, read_facts
from claims.findings import NORMS, OURS, TEXTS, listed, most_asked
from claims.evidence import BEST, NORMS_AT
from claims.headline_pictures import estimates
from claims.headlines import FINDINGS, FindingError, expect
from study.statistics import CONFIDENCE, MARGIN, paired, t_interval
from claims.plan import LEVELS
from claims.quantities import difference
from claims.verdicts import UNMEASURED, VERDICTS
from common.command_line import aligned, markdown, write_whole

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.path.join(HERE, "published")
TOP = Path(HERE).resolve().parents[1]
NANOGPT, BEST_RECIPE = "--recipe=nanogpt", "--recipe=best"
GPT2_START = f"{BEST_RECIPE} --init-std=0.02 --init-embd-std=0.02"
BESIDE = f"minus {{}}, with a {100 * CONFIDENCE:.0f} % interval"
PLACES = {"norm=ln": "Pre-LN", "norm=ln placement=post": "Post-LN"}


def runs_of(path):
    """The number of models whose end was measured."""
    return len({record["run"] for record in map(json.loads, lines_of(path)) if record["measure"] == "ending"})


def texts_of(facts):
    return sorted({text for text, _ in facts.cells(NORMS_AT)})


def mean(losses):
    """Of {seed or text: loss}."""
    return statistics.fmean(losses.values())


# ---- the table on top ----------------------------------------------------------------------------

POST_GAP = difference("E8", "val_loss", "placement=post", "placement=pre", at="depth=base norm=ln rate=tuned")
ONE_TEXT_RECIPES = ("batch size", "outliers")
RECIPE = "init_std", "learning_rate"
SOURCES = (NORMS_AT, BEST), ("E1", "rate=tuned")  # of recipes: both tuned, or the learning rate only


def source(facts, size):
    """(experiment, what its variants' names end with): the first of SOURCES that has this size."""
    return next((one for one in SOURCES if by_text(facts, one[0], size, f"norm=ln {one[1]}")), SOURCES[-1])


def by_text(facts, experiment, size, variant, metric="val_loss"):
    """{text: mean over seeds}."""
    return {cell[0]: mean(series) for cell in facts.cells(experiment) if cell[1] == size
            if (series := facts.series(experiment, cell, metric, variant))}


def good(losses, reference):
    """Of {name: {text: loss}}: the names that are on no text further than the margin above the reference, and of these the
    ones whose mean over texts is at most the margin above the lowest mean."""
    means = {name: mean(found) for name, found in losses.items() if found and
             all(found[text] <= losses[reference].get(text, math.inf) + MARGIN for text in found)}
    return [name for name in means if means[name] <= min(means.values()) + MARGIN]


def placement_of(facts, size):
    """The better placement of LayerNorm, both if they are within the margin: of E20, else of E8."""
    experiment, best = source(facts, size)
    losses = {name: by_text(facts, experiment, size, f"{variant} {best}") for variant, name in PLACES.items()}
    if not all(losses.values()):
        gaps = {cell[0]: one.value for cell, one in estimates(POST_GAP, facts).items() if cell[1] == size}
        losses = {"Pre-LN": dict.fromkeys(gaps, 0), "Post-LN": gaps}
    return listed(good(losses, "Pre-LN"), "or") if any(losses.values()) else "Pre-LN (not compared)"


def row(facts, experiment, size, variants, placement, model, batch):
    """A row of the table, or None if nothing was measured. variants: {norm: the name of its variant}."""
    norms = good({norm: by_text(facts, experiment, size, variant) for norm, variant in variants.items()}, "ln")
    if not norms:
        return None
    recipe = [by_text(facts, experiment, size, variants[norms[0]], metric).values() for metric in RECIPE]
    return [model, str(batch), listed((NORMS[norm] for norm in norms), "or"), placement,
            *(f"{statistics.median(found):.2g}" if found else "0.02 (not tuned)" for found in recipe)]


def recommended_rows(facts):
    """The table on top, with its head: each model size at its own batch size, then the other batch sizes of E26."""
    rows = []
    for size in {size.name: size for core, _ in LEVELS.values() for size in core}.values():
        experiment, best = source(facts, size.name)
        rows.append(row(facts, experiment, size.name, {norm: f"norm={norm} {best}" for norm in ("ln", "rms", "bn", "none")},
                        placement_of(facts, size.name), f"{size.name}: {size['n-layer']} layers, {size['n-embd']} channels",
                        size["batch-size"]))
    rows += [row(facts, "E26", size, {norm: f"batch={batch} norm={norm}" for norm in ("ln", "bn", "gn")},
                 "Pre-LN (not compared)", size, batch)
             for size in dict.fromkeys(size for _, size in facts.cells("E26")) for batch in (1, 4, 32)]
    return [HEAD, *filter(None, rows)]


HEAD = ["model", "sequences per batch", "norm", "placement", "initial std", "learning rate"]


def terminal_table(rows):
    """The lines of a table for the terminal."""
    return ["  ".join(row).rstrip() for row in aligned(rows)]


def answers(facts):
    """The output of --quick: the recipe of each model size, and the differences of norms and placements."""
    lines = terminal_table(recommended_rows(facts))
    for title, table in most_asked(facts):
        lines += ["", title, *terminal_table(table)]
    return "\n".join(lines)


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


def difference_text(losses, other):
    """The mean of the paired differences with its interval; nothing of a single pair."""
    found = t_interval(paired(losses, other)[1])
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−") if found.n > 1 else ""


def choices_table():
    """The table of the best recipe with one choice replaced by the default."""
    losses = by_seed(rows_of("recipe.csv"), "options", text="tinyshakespeare")
    rows = [["options of `./train`", "seeds", "loss", BESIDE.format("`best`")]]
    for options in sorted(losses, key=lambda one: (one != BEST_RECIPE, one != NANOGPT, -mean(losses[one]))):
        rows.append([f"`{options.removeprefix(BEST_RECIPE + ' ')}`", str(len(losses[options])), f"{mean(losses[options]):.3f}",
                     "" if options == BEST_RECIPE else difference_text(losses[options], losses[BEST_RECIPE])])
    return "\n".join(markdown(rows))


def recipes_table():
    """The table of both recipes on several texts."""
    rows = rows_of("recipe.csv")
    lines = [["text", "seeds", "`nanogpt`", "`best`", BESIDE.format("`nanogpt`"), "time relative to `nanogpt`"]]
    for text in dict.fromkeys(row["text"] for row in rows):
        losses, seconds = (by_seed(rows, "options", column, text=text) for column in ("val_loss", "seconds"))
        old, new = (statistics.median(seconds[recipe].values()) for recipe in (NANOGPT, BEST_RECIPE))
        lines.append([TEXTS[text], str(len(losses[BEST_RECIPE])), f"{mean(losses[NANOGPT]):.3f}", f"{mean(losses[BEST_RECIPE]):.3f}",
                      difference_text(losses[BEST_RECIPE], losses[NANOGPT]), f"{new / old:.2f}"])
    return "\n".join(markdown(lines))


def recipe_line():
    """Both recipes on tiny Shakespeare, as a sentence for README.md."""
    losses = by_seed(rows_of("recipe.csv"), "options", text="tinyshakespeare")
    return (f"On tiny Shakespeare `./train --recipe=best` reaches a loss of {mean(losses[BEST_RECIPE]):.3f} nats, and "
            f"nanoGPT's recipe {mean(losses[NANOGPT]):.3f}. Both train on the same number of characters. The better "
            "model has fewer parameters, and another shape, placement and optimizer ([what each choice is "
            "worth](scripts/RESULTS.md)). With its optimizer, Muon, GPT-2's smaller initial weights are as good there: the loss "
            f"changes by {difference_text(losses[GPT2_START], losses[BEST_RECIPE])} nats.")


def tuned_table(name, option, baseline):
    """The table of variants at their best initialization and learning rate, the lowest loss first."""
    rows = rows_of(name)
    losses, second = (by_seed(rows, option, place=place) for place in "12")
    recipes = {row[option]: row for row in rows if row["place"] == "1"}
    lines = [[option, "initial std", "learning rate", "loss", "second recipe", BESIDE.format(f"`{baseline}`")]]
    for key in sorted(losses, key=lambda one: mean(losses[one])):
        row = recipes[key]
        values = [row[axis] + " (end)" * (axis in row["at_end"].split()) for axis in ("init-std", "lr")]
        lines.append([f"`{key}`" + " (unstable)" * int(row["unstable"]), *values, f"{mean(losses[key]):.3f}",
                      f"{mean(second[key]):.3f}" if key in second else "",
                      "" if key == baseline else difference_text(losses[key], losses[baseline])])
    return "\n".join(markdown(lines))


# ---- the texts -----------------------------------------------------------------------------------

def opening(facts, runs):
    texts, sizes = texts_of(facts), [size for size in LEVELS["full"][0] if any(
        cell[1] == size.name for cell in facts.cells(NORMS_AT))]
    judged = claims.verdicts(facts)
    theirs = [claim for claim in claims.CLAIMS if not claim.where.startswith(OURS)]
    counts = {word: sum(judged[claim.id].word == word for claim in theirs) for word in VERDICTS}
    told = ", ".join(f"{word} ({count})" for word, count in counts.items() if count)
    missing = " Not measured: runs are missing." if counts[UNMEASURED] else ""
    return ["# What normalization does in small Transformers", "",
            f"{runs} models were measured with {sizes[0]['n-embd']} to {sizes[-1]['n-embd']} channels, most of them on "
            f"{listed(TEXTS.get(text, text) for text in texts)}. (report.html counts fewer, because it counts only what its "
            "present plan contains.) Below each title stand the texts and sizes of its rule. Losses are measured on validation text, in "
            "nats per character, and are means over several seeds. A pair of numbers, such as \"0.1 to 0.2 nats\", gives "
            "the lowest and the highest value over all measured texts and model sizes.", "",
            "Here a recipe is a standard deviation of the initial weights and a learning rate. nanoGPT's recipe (0.02 "
            "and 0.001) is the default of `./train`. The best recipe of a norm has the lowest loss. It was tuned for "
            "each text and model size, on seeds that were not used again. With \"tiny Shakespeare's recipe\", the "
            "standard deviation is the one that is best on tiny Shakespeare, and only the learning rate is tuned for each text.", "",
            *without_biases(facts),
            "The command below a finding repeats its runs, which takes hours. `scripts/report.py --full --list-claims` "
            "estimates the time. E1 to E26 are experiments; [report.html](published/report.html) says what each of them compares.", "",
            f"Five articles make {len(theirs)} claims on normalization. Their verdicts are: {told}. A claim is open if "
            f"the confidence intervals do not decide, and not tested if this program cannot test it.{missing} "
            "[The published report](published/README.md) has each claim with its rule, intervals and command. "
            "`scripts/report.py --texts` writes this file.", "",
            "For a text of your own, `scripts/report.py --quick --corpus=FILE` compares these norms in minutes. "
            "[model/norm](../../model/norm/README.md#all-norms-at-their-best-recipes) has a table of all norms, such as DyT, and "
            "[PLACEMENTS.md](../../model/PLACEMENTS.md) one of all placements, such as Peri-LN. A difference of d nats is a "
            f"factor exp(d) of perplexity: {MARGIN:g} nats are {100 * math.expm1(MARGIN):.0f} %. "
            "[CITATION.cff](../../CITATION.cff) says how to cite normlab.", ""]


def without_biases(facts):
    """How much of the scope the biases are, as a paragraph; nothing if it was not measured."""
    found = [estimates(evidence.NO_BIAS[name], facts).get(("tinyshakespeare", "S")) for name in ("plain", "bias-off")]
    if None in found:
        return []
    return ["All findings are about GPT-2's block with biases. BatchNorm needs these: without them, its loss minus LayerNorm's "
            f"at S on tiny Shakespeare rises from {evidence.interval(found[0])} to {evidence.interval(found[1])} nats (E10, with "
            "an initial standard deviation of 0.02; the learning rate is the same with and without biases).", ""]


def batchnorm_cost(facts):
    """BatchNorm's loss minus LayerNorm's at each size, at the size's own batch size."""
    told = []
    for size in LEVELS["full"][0]:
        experiment, best = source(facts, size.name)
        bn, ln = (by_text(facts, experiment, size.name, f"norm={norm} {best}") for norm in ("bn", "ln"))
        told += [f"{evidence.nats(mean(bn) - mean(ln), True)} nats at {size.name}"] if bn and ln else []
    return [f"With 12 sequences per batch, BatchNorm's loss minus LayerNorm's is {listed(told)} (means over texts).", ""] if told else []


def recommended(facts):
    return ["## Recommended norm, placement and recipe", "", *markdown(recommended_rows(facts)), "",
            "The rows with 12 sequences compare LayerNorm, RMSNorm, BatchNorm and no norm; the others compare "
            f"LayerNorm, BatchNorm and GroupNorm. A row leaves out each norm whose loss is more than {MARGIN:g} nats "
            "above LayerNorm's on any text. Of the remaining norms, it names those whose mean loss over texts is at "
            f"most {MARGIN:g} nats above the lowest of these means. Placements of LayerNorm are compared in the same "
            "way. \"Not compared\" means that only Pre-LN was trained. The last two columns are the recipe of the "
            "first norm in the row, as medians over texts. The other norms were tuned too, so their recipes can "
            "differ.",
            "", *batchnorm_cost(facts)]


def not_shown(facts):
    largest = LEVELS["full"][0][-1]
    return ["## What is not shown", "",
            f"- **Larger models.** The widest have {largest['n-embd']} channels and {largest['n-layer']} layers. "
            "Deeper models, of 16 layers, have 32 channels. Trends over size may end or reverse.",
            "- **Other data.** Most models were trained on characters of "
            f"{listed(TEXTS.get(text, text) for text in texts_of(facts))}. Some findings use further texts, with "
            "models of the sizes XS and S only. Sub-word models and images were not tested.",
            "- **Long training.** The models of the findings read their text at most three times, with two exceptions: the Chinese "
            "poems are read eight times at S, where findings 2 and 6 are weakest, and the longest runs of finding 7 read tiny "
            "Shakespeare eight times.",
            "- **Costs.** The table and the findings compare losses after equal numbers of characters, not after equal "
            "times.",
            "- **Other optimizers.** One finding compares Muon and SGD with AdamW. All others use AdamW.",
            f"- **Recipes for each text.** In the findings on {listed(ONE_TEXT_RECIPES)}, the recipe was tuned on tiny "
            "Shakespeare only.",
            "- **Other weight decay, warm-up or schedules.** All findings use nanoGPT's, except that deep models have no warm-up, "
            "SGD decays no weights, and with 1, 4 and 32 sequences per batch the warm-up is a tenth of the updates.",
            "- **Other blocks.** Blocks without biases, such as Llama's, were not compared for the findings; see above for what "
            "biases are worth to BatchNorm.", ""]


def tested():
    """What a rule was written from, and what could have contradicted it since."""
    rows = [["finding", "known when its rule was written", "measured later"]]
    rows += [[f"{number}. {finding.claim}", finding.known, finding.later] for number, finding in enumerate(FINDINGS, 1)]
    return ["## Which results came after the rules", "", "Each finding has a rule, which compares losses with thresholds. A finding is "
            "shown only while its rule holds on every measured text and size. The rule was written with some results "
            "known. Results that were measured later could have contradicted it.", "", *markdown(rows), ""]


def findings_text(facts, runs):
    """FINDINGS.md."""
    lines = opening(facts, runs) + recommended(facts) + ["## Findings", ""]
    for number, finding in enumerate(FINDINGS, 1):
        expect(finding, facts)
        table = finding.table(facts)
        lines += [f"### {number}. {finding.claim}", "", f"*{headlines.scope(finding, facts)}*", "",
                  finding.evidence(facts) + headlines.open_cells(finding, facts), "",
                  *([*markdown(table), ""] if table else []),
                  f"![{finding.claim}](published/figures/{finding.id}.svg)", "", f"`{finding.command}`", ""]
    return "\n".join(lines + tested() + not_shown(facts)).rstrip() + "\n"


def readme_text(facts, runs):
    """What README.md says of the findings."""
    texts = {text for experiment in (NORMS_AT, "E23") for text, _ in facts.cells(experiment)}
    return "\n".join([
        f"**What we found** in GPT-2's block with biases, with at most 128 channels, on up to {len(texts)} texts, with losses in "
        "nats per character ([scope, pictures, intervals and commands](scripts/claims/FINDINGS.md)):", "",
        *(f"- {finding.short(facts)}" for finding in FINDINGS if finding.short), "", recipe_line()])


def pictures_of(facts):
    """{file: SVG}"""
    return {f"{one.id}.svg": headlines.svg_of(one, facts, one.id) + "\n" for one in FINDINGS}


def with_block(name, text, block, content):
    """A file's text with this content of a block, between <!-- BLOCK: ... --> or <!-- BLOCK --> and <!-- end of BLOCK -->."""
    found = re.search(f"(?s)(<!-- {block}(?:: [^>]*)? -->\n).*?(\n<!-- end of {block} -->)", text)
    if not found:
        raise FindingError(f"{name}: has no block from '<!-- {block} -->' to '<!-- end of {block} -->'")
    return text[:found.end(1)] + content + text[found.start(2):]


def files_with_blocks(facts, runs):
    """{path: text} of the files in which blocks are written."""
    files = {}
    for name, blocks in {
            "README.md": {"findings": readme_text(facts, runs)},
            "scripts/RESULTS.md": {"table recipes": recipes_table(), "table choices": choices_table()},
            "model/norm/README.md": {"table norms": tuned_table("norms.csv", "norm", "ln")},
            "model/PLACEMENTS.md": {"table placements": tuned_table("placements.csv", "placement", "pre")}}.items():
        text = (TOP / name).read_text(encoding="utf-8")
        for block, content in blocks.items():
            text = with_block(name, text, block, content)
        files[str(TOP / name)] = text
    return files


def published():
    """(facts, number of models) as the repository has them."""
    return read_facts(os.path.join(PUBLISHED, "facts.csv.xz")), runs_of(os.path.join(PUBLISHED, "measured.jsonl.xz"))


def write(facts, runs):
    """Writes all of it; returns the paths."""
    files = {os.path.join(HERE, "FINDINGS.md"): findings_text(facts, runs), **files_with_blocks(facts, runs)}
    for name, text in pictures_of(facts).items():
        files[os.path.join(PUBLISHED, "figures", name)] = text
    for path, text in files.items():
        write_whole(path, text)
    return [os.path.relpath(path) for path in files]
