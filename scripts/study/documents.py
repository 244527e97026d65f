"""What the answer of a study is written as: plain text, Markdown, LaTeX, CSV, and a page with the figure and curves."""
import html
import math
import os
import shlex

from ablate.comparisons import verdict_text
from common.command_line import aligned, markdown, write_whole
from common.variants import number_text
from plots.contrasts import WIDTHS, draw, draw_panels, rows_of
from plots.looks import bytes_of
from plots.svg import compact
from study import latex
from study.answer import PERCENT, exponential
from study.design import level_label
from study.sentences import interval, ratio_text, sentences, value

FORMS = "svg", "pdf"  # of figures
STYLE = ("body{max-width:60em;margin:2em auto;padding:0 1em;font:16px/1.5 system-ui,sans-serif}"
         "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ccc}"
         "svg{width:100%;height:auto}.contrasts svg{width:36em;max-width:100%}code{overflow-wrap:anywhere}")


# ---- tables of texts -----------------------------------------------------------------------------

def power_text(value, form, unit=""):
    """A perplexity or a change of one, of which a huge loss makes a number that is too long or too large."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return f"> 1e308{unit}"
    return format(value, form if value < 1e6 else f"{form[:-3]}.3g").replace("-", "−") + unit


def variants_table(answer):
    """A row for each variant. * marks a value at an end of its axis."""
    labels, losses = answer.labels, "perplexity" in answer.variants
    head = [labels.get(name, name) for name in answer.factors]
    head += [f"{answer.metric} [{PERCENT} interval]"] + ["perplexity"] * losses + answer.axes + ["trained"]
    rows = [head]
    for _, row in answer.variants.iterrows():
        cells = [level_label(name, row[name], labels) for name in answer.factors] + [interval(row, answer)]
        cells += [power_text(row["perplexity"], ".2f")] if losses else []
        cells += ["–" if row[name] is None or row[name] != row[name] else number_text(row[name]) if isinstance(row[name], (int, float))
                  else str(row[name]) for name in answer.axes]
        at_end = row["at_end"].split()
        for place, name in enumerate(answer.axes, len(cells) - len(answer.axes)):
            cells[place] += "*" * (name in at_end)
        rows.append([*cells, f"{row['trained']} of {row['seeds']}"])
    return rows


def p_text(p):
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def contrasts_table(answer, kind):
    head = {"difference": "within", "main effect": "over", "interaction": "between"}[kind]
    losses = "perplexity" in answer.variants
    rows = [[kind, head, f"{answer.unit or answer.metric} [{PERCENT} interval]", *["change of perplexity"] * losses, "p (Holm)",
             "verdict"]]
    for _, row in answer.contrasts[answer.contrasts["kind"] == kind].iterrows():
        change = [power_text(100 * exponential(row["mean"], math.expm1), "+.1f", " %")] * losses
        kept = f" ({row['kept']} of {row['of']} combinations)" if 0 < row["kept"] < row["of"] else ""
        rows.append([row["contrast"], row["where"] + kept, interval(row, answer, "+"), *change, p_text(row["p_holm"]), verdict_text(row)])
    if all(not cells[1] for cells in rows[1:]):
        rows = [[first, *rest] for first, _, *rest in rows]
    return rows


def stability_table(answer):
    """How much each variant depends on the option of --stable."""
    labels, name = answer.labels, answer.record["stable"]["name"]
    rows = [[*(labels.get(factor, factor) for factor in answer.factors), f"largest stable {name}", "next one tried",
             f"ratio to the baseline's [{PERCENT} interval]", f"sensitivity [{PERCENT} interval]", "values at which all seeds train"]]
    for _, row in answer.stability.iterrows():
        largest = value(row["largest"], "none")
        sensitive = {"mean": row["sensitivity"], "low": row["sensitivity_low"], "high": row["sensitivity_high"]}
        rows.append([*(level_label(factor, row[factor], labels) for factor in answer.factors),
                     ("≥ " if row["next"] == math.inf else "") + largest, value(row["next"]), ratio_text(row),
                     interval(sensitive, answer), f"{row['trained']} of {row['values']}"])
    return rows


def tables(answer):
    """[(caption, rows)]"""
    stable = [(f"Stability in {answer.record['stable']['name']}", stability_table(answer))] if len(answer.stability) else []
    kinds = list(dict.fromkeys(answer.contrasts["kind"])) if len(answer.contrasts) else []
    return [("Variants", variants_table(answer))] + stable + [(f"{kind.capitalize()}s", contrasts_table(answer, kind)) for kind in kinds]


# ---- formats -------------------------------------------------------------------------------------

def plain_text(answer):
    parts = [*sentences(answer), answer.title()]
    for _, rows in tables(answer):
        parts.append("\n".join("  ".join(cells).rstrip() for cells in aligned(rows)))
    return "\n\n".join([*parts, "\n".join(answer.notes())])


def commands(answer):
    """[(the variant in words, the command that trains it)]."""
    return [(answer.label(levels, answer.factors), shlex.join(
        ["./train", *(f"--{name}={value}" for name, value in {**one["options"], **one["recipe"]}.items()), *answer.record["base"]]))
        for levels, one in answer.described.items() if "recipe" in one]


def markdown_text(answer):
    def clean(rows):
        return [[cell.replace("|", "\\|").replace("\n", " ") for cell in cells] for cells in rows]

    parts = ["# Answer of a study", " ".join(sentences(answer)), answer.title()]
    for caption, rows in tables(answer):
        parts += [f"## {caption}", "\n".join(markdown(clean(rows)))]
    parts += ["## Notes", "\n".join(f"- {note}" for note in answer.notes()), "## Commands",
              *[f"Made by: `{answer.record['command']}`"] * bool(answer.record["command"]),
              "\n".join(f"- {name}: `{command}`" for name, command in commands(answer))]
    return "\n\n".join(parts) + "\n"


def tex_text(answer, width):
    groups = rows_of(answer) if len(answer.contrasts) else []
    short = [latex.short_table(answer, groups, lambda row: interval(row, answer, "+"), width)] * bool(groups)
    if len(answer.stability):
        head, *rows = stability_table(answer)
        count = len(answer.factors)
        rows = [["variant", head[count], head[count + 2]]] + [
            [answer.label([row[name] for name in answer.factors], answer.factors), cells[count], cells[count + 2]]
            for (_, row), cells in zip(answer.stability.iterrows(), rows)]
        short.insert(0, latex.plain_table("stable", f"Largest stable {answer.record['stable']['name']}", rows, width))
    *long, last = tables(answer)
    return "\n\n".join([r"% needs \usepackage{booktabs}", *short, *(latex.long_table(*one) for one in long),
                        latex.long_table(*last, answer.notes())]) + "\n"


def html_body(answer, panel_rows=()):
    """The answer as a part of a page: sentences, pictures, tables and notes."""
    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    parts = [f"<p>{html.escape(' '.join(sentences(answer)))}</p><p>{html.escape(answer.title())}</p>"]
    if len(answer.contrasts):
        parts.append(f"<div class=contrasts>{compact(draw(answer, WIDTHS['one']), 'contrasts')}</div>")
    for name, found in answer.tuned().items():
        figure = draw_panels(answer, "sweep", (name, found), (WIDTHS["page"], panel_rows), "svg")
        parts.append(f"<h2>Losses by {html.escape(name)}</h2>{compact(figure, name)}")
    for caption, rows in tables(answer):
        parts.append(f"<h2>{caption}</h2><table>{row(rows[0], 'th')}{''.join(row(cells, 'td') for cells in rows[1:])}</table>")
    return "".join([*parts, "<ul>", *(f"<li>{html.escape(note)}</li>" for note in answer.notes()), "</ul>"])


def html_text(answer, panel_rows):
    parts = [html_body(answer, panel_rows)]
    runs = {levels: {"": found} for levels, ended in answer.runs.items()
            if (found := {seed: run for seed, run in ended.items() if run.status == "done"})}
    if runs:
        figure = draw_panels(answer, "curves", ("", runs), (WIDTHS["page"], panel_rows), "svg")
        parts.append(f"<h2>Training losses, means over seeds</h2>{compact(figure, 'curves')}")
    made = [f"<p>Made by: <code>{html.escape(answer.record['command'])}</code></p>"] * bool(answer.record["command"])
    parts += ["<h2>Commands</h2>", *made]
    parts += [f"<p>{html.escape(name)}: <code>{html.escape(line)}</code></p>" for name, line in commands(answer)]
    return ("<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>A study</title>"
            f"<style>{STYLE}</style></head><body><h1>A study</h1>{''.join(parts)}</body></html>\n")


def write_all(answer, shape, name):
    """shape: (width, rows of panels)."""
    width, rows = shape
    files = {"answer.md": markdown_text(answer), "answer.tex": tex_text(answer, width), "answer.csv": answer.contrasts.to_csv(index=False),
             "judged.csv": answer.judged.to_csv(index=False), "page.html": html_text(answer, rows)}
    if len(answer.contrasts):
        files.update({f"figure.{form}": bytes_of(draw(answer, WIDTHS[width]), form) for form in FORMS})
    for form in FORMS if answer.swept else ():
        figure = draw_panels(answer, "sweep", (answer.record["stable"]["name"], answer.swept), (WIDTHS[width], rows), form)
        files[f"stable.{form}"] = bytes_of(figure, form)
    if answer.swept:
        files["stable.csv"] = answer.stability.to_csv(index=False)
    if name != "answer":
        files = {f"{name}-{path}".replace("-answer.", "."): content for path, content in files.items()}
    for path, content in files.items():
        write_whole(os.path.join(answer.folder, path), content)
    return list(files)
