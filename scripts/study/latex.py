"""The tables of a study for LaTeX, with booktabs and nothing else: one with all differences, which fits a column or a page,
and the long ones after it, which span the page. Columns have widths and their cells break, so no label makes a table too wide.
"""
import math
import re

from ablate.comparisons import verdict_text
from common.command_line import legible

BREAK = "\u00ad"
# Fonts without the signs < > | print others, and two of - ` ' , or ? and ! before ` become one sign.
MARKS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", '"': r"{\ttfamily\char34}",
         **{sign: f"\\{sign}" for sign in "&%$#{}"}, **{sign: f"${sign}$" for sign in "<>|"}, "\0": "{}", BREAK: r"\-",
         "=": r"=\allowbreak{}", "_": r"\_\allowbreak{}"}
LIGATURES = re.compile("(?<=-)-|(?<=[?!`])`|(?<=')'|(?<=,),")
LETTERS = {"one": 52, "page": 118}  # of \footnotesize that fit beside each other in a column of 3.3 inches and a page of 6.9
GAP = 3  # letters: of the space between two columns
SYLLABLE = 8  # letters after which a long word may break


def escape(text):
    """The text for LaTeX, in which a long word may break after signs and within."""
    text = re.sub(rf"([^\W\d_]{{{SYLLABLE}}})(?=[^\W\d_]{{3}})", rf"\1{BREAK}", LIGATURES.sub("\0\\g<0>", legible(text)))
    return "".join(MARKS.get(letter, letter) for letter in text)


def widths_of(rows, letters):
    """A fraction of the line for each column: as much as its longest cell, or less for the widest ones if that is too much."""
    widths = [max(map(len, column)) + 1 for column in zip(*rows)]
    while sum(widths) > letters - GAP * (len(widths) - 1):
        widths[widths.index(max(widths))] -= 1
    return [math.floor(1e4 * width / sum(widths)) / 1e4 for width in widths]  # together no more than a line


def line_of(cells, style=""):
    return " & ".join(f"\\raggedright{style} {cell}" for cell in cells) + r" \tabularnewline"


def wide_line(text, columns):
    return f"\\multicolumn{{{columns}}}{{@{{}}p{{\\linewidth}}@{{}}}}{{\\raggedright\\itshape {text}}}" + r" \tabularnewline"


def table_of(name, caption, widths, lines, width="page", notes=()):
    """A floating table; the first of the lines is its head."""
    place = "table" if width == "one" else "table*"
    gaps = f"{2 * (len(widths) - 1)}\\tabcolsep"
    spec = "".join(f"p{{\\dimexpr{share:.4f}\\linewidth-{share:.4f}\\dimexpr{gaps}\\relax\\relax}}" for share in widths)
    head, *body = lines
    return "\n".join([f"\\begin{{{place}}}", r"\centering\footnotesize", f"\\caption{{{escape(caption)}}}", f"\\label{{tab:{name}}}",
                      f"\\begin{{tabular}}{{@{{}}{spec}@{{}}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
                      r"\end{tabular}", *[r"\par\smallskip\raggedright " + " ".join(map(escape, notes))] * bool(notes),
                      f"\\end{{{place}}}"])


def shown(row, text):
    """A difference with its interval: bold if it excludes 0, with = if it is within the margin, else with how many runs trained."""
    if row["verdict"] in ("lower", "higher"):
        return f"{{\\boldmath\\bfseries {escape(text)}}}"
    if row["verdict"].startswith("equal"):
        return escape(text) + "$^{=}$"
    return escape(text + f", {verdict_text(row)}" * ("train" in verdict_text(row)))


def short_table(answer, groups, interval, width):
    """All differences and effects. groups: [(title, [(label, row of answer.contrasts)])]; interval(row) is a text."""
    rows = [(label, interval(row)) for _, rows in groups for label, row in rows]
    head = ("compared", f"{answer.unit or answer.metric} [99 % interval]")
    widths = widths_of([head, *rows], LETTERS[width])
    lines = [line_of(map(escape, head))]
    for title, members in groups:
        lines += [wide_line(escape(title), 2)] * bool(title)
        lines += [line_of([escape(label), shown(row, interval(row))]) for label, row in members]
    equal = f"; =: equal within {answer.margin:g} {answer.unit}".rstrip() if answer.margin else ""
    notes = [f"Bold: the interval excludes 0{equal}; otherwise undecided.", answer.title()]
    return table_of("answer", f"Differences of the {answer.quantity}", widths, lines, width, notes)


def plain_table(name, caption, rows, width="page", notes=()):
    lines = [line_of(map(escape, cells)) for cells in rows]
    return table_of(name, caption, widths_of(rows, LETTERS[width]), lines, width, notes)


def long_table(caption, rows, notes=()):
    return plain_table(caption.lower().replace(" ", "-"), caption, rows, notes=notes)
