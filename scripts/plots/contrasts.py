"""Pictures of differences with their intervals, for studies and for compare.py. For a study it also draws losses against a
tuned option, and curves of the variants.

A figure of differences has the width of a paper's column or page. Each label stands above its interval, so that no label, however
long, takes width from the axis; one that is wider than the figure continues on the next line. The band is the margin within which
losses are equal.

seaborn draws neither: its intervals are computed from single values, not given, and its labels stand beside the axis.
"""
from collections import namedtuple
import math
from types import SimpleNamespace

from ablate.comparisons import verdict_text
from study.statistics import CONFIDENCE
from plots.charts import draw_charts, fit
from plots.groups import Chart, Facet, Group, Table
from plots.looks import COLOURS, NORMS, looks, new_figure, norm_colours, put_below, set_font, wrapped
from matplotlib import ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import matplotlib

WIDTHS = {"one": 3.3, "page": 6.9}  # inches, of a paper
PANEL = 1.6  # inches of a panel, at least
FONT = 7  # points
LINE, GAP, BELOW = 0.13, 0.05, 0.42  # inches: of a line of text, of the space between rows, and of the axis with its label
SIDE = 0.22  # inches beside the axes: half a number at their end
TICK = 0.5  # inches from one tick to the next, at least

# A difference: its mean, and the ends of its interval, NaN if it has none. level: what is compared, on which the colour depends. values:
# the seeds' differences. decided: whether there is a verdict.
Row = namedtuple("Row", "label level mean low high values decided")


def rows_of(answer):
    """[(group, [row])] of the figure: differences by what they are within, then main effects and interactions."""
    groups = {}
    for _, row in answer.contrasts.iterrows():
        title = row["where"] if row["kind"] == "difference" else f"{row['kind']}s"
        label = row["contrast"] if row["kind"] != "interaction" else f"{row['contrast']}, {row['where']}"
        groups.setdefault(title, []).append((label, row))
    return list(groups.items())


def lines_of(groups, width):
    """[(lines of a label, Row)] from top to bottom; a title has no Row. groups: [(title, [Row])]."""
    for title, rows in groups:
        if title:
            yield wrapped(title, width, "bold"), None
        for row in rows:
            yield wrapped(row.label, width), row


def draw_interval(axes, at, row, colour, margin):
    """Draws an interval, its mean, 0, the margin and the seeds at this height, in inches."""
    low, high = at - LINE / 2, at + LINE / 2
    axes.fill_between([-margin, margin], low, high, color="0.9", linewidth=0, zorder=0)
    axes.plot([0, 0], [low, high], color="0.3", linewidth=0.6, zorder=1)
    axes.plot(row.values, [at] * len(row.values), "|", color=colour, markersize=6, markeredgewidth=0.6)
    if math.isfinite(row.low):
        axes.plot([row.low, row.high], [at, at], color=colour, linewidth=1.2, solid_capstyle="butt")
    axes.plot([row.mean], [at], "o", color=colour, markersize=3.5, markerfacecolor=colour if row.decided else "white")


def draw(answer, width):
    """The differences of a study. A mean of fewer seeds or combinations has their number."""
    def row_of(label, row):
        text = verdict_text(row).removeprefix("undecided: ")
        told = f" ({text})" if "train" in text else f" ({row['kept']} of {row['of']})" * (row["kept"] < row["of"])
        level = row["contrast"].split(" minus ")[0]
        level = next((norm for norm in NORMS if answer.labels.get(norm) == level), level)
        return Row(label + told, level, row["mean"], row["low"], row["high"], (), row["verdict"] != "undecided")

    label = f"difference of the {answer.quantity}" + f" ({answer.unit})" * bool(answer.unit)
    return draw_rows([(title, [row_of(*one) for one in rows]) for title, rows in rows_of(answer)], width, answer.margin, label)


def draw_comparisons(comparisons, options, quantity):
    """Those of compare.py. quantity: what is compared."""
    others = {comparison.b.label for comparison in comparisons}
    rows = [Row(f"{one.a.label}{'' if len(others) == 1 else f' − {one.b.label}'} ({verdict_text(one)})", one.a.label.split(", ")[0],
                *one.interval[:3], list(one.values.values()), one.verdict != "undecided") for one in comparisons]
    set_font(None, options.plot)
    name, _, unit = quantity.partition(" in ")
    name = {"val_loss": "final validation loss"}.get(name, name)
    label = f"{name} minus that of {others.pop()}" if len(others) == 1 else f"difference of {name}"
    label += f" ({unit})" * bool(unit) + f"; each seed, and the mean with a {100 * CONFIDENCE:.0f} % interval"
    return draw_rows([("", rows)], WIDTHS["one"], options.margin, label)


def draw_rows(groups, width, margin, label):
    """A figure of [(title, [Row])]; label: of its axis."""
    matplotlib.rcParams["font.size"] = FONT
    inside = width - 2 * SIDE
    rows = list(lines_of(groups, inside))
    named = wrapped(label, inside)
    height, below = GAP + sum(LINE * (len(lines) + (row is not None)) + GAP for lines, row in rows), BELOW + LINE * (len(named) - 1)
    figure = Figure(figsize=(width, height + below))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((SIDE / width, below / (height + below), inside / width, height / (height + below)))
    at, colours = GAP, norm_colours(NORMS)
    for lines, row in rows:
        for line in lines:
            axes.text(0, at + LINE / 2, line, transform=axes.get_yaxis_transform(), va="center",
                      fontweight="normal" if row is not None else "bold")
            at += LINE
        if row is not None:
            colour = colours.setdefault(row.level, COLOURS[(len(colours) - len(NORMS)) % len(COLOURS)])
            draw_interval(axes, at + LINE / 2, row, colour, margin)
            at += LINE
        at += GAP
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.set_ylim(at, 0)
    axes.margins(x=0.1)  # the outer ticks have room for their numbers
    axes.xaxis.set_major_locator(ticker.MaxNLocator(max(2, int(inside / TICK)), steps=[1, 2, 5, 10]))
    axes.set_xlabel("\n".join(named))
    return figure


def arranged(answer, swept, rows):
    """([Facet], panels in a row) of {levels: {value: {seed: Run}}}: the baseline's factors are lines, these factors rows of panels and
    the others columns."""
    names = list(answer.factors)
    parts = {"line": [name for name in names if name in answer.baseline], "row": list(rows)}
    parts["column"] = [name for name in names if name not in parts["line"] + parts["row"]]

    def key_of(levels, part):
        return tuple(levels[names.index(name)] for name in parts[part])

    keys = {part: list(dict.fromkeys(key_of(levels, part) for levels in swept)) for part in parts}
    styles = dict(zip(keys["line"], looks(parts["line"], keys["line"])))

    def facet(row, column):
        there = {key_of(levels, "line"): found for levels, found in swept.items()
                 if (key_of(levels, "row"), key_of(levels, "column")) == (row, column)}
        title = answer.label((*row, *column), parts["row"] + parts["column"]) if row + column else ""
        return Facet(Group(title, (), [], None) if title else None, [
            Group(answer.label(key, parts["line"]), key, [run for seeds in found.values() for run in seeds.values()], styles[key])
            for key, found in there.items()])
    return [facet(row, column) for row in keys["row"] for column in keys["column"]], len(keys["column"])


def draw_panels(answer, chart, found, shape, form):
    """A chart of plot.py in panels: the losses of all seeds against a tuned option ("sweep"), or training losses over steps ("curves").
    found: (name of the option, {levels: {value: {seed: Run}}}). shape: (width in inches, the factors that make rows)."""
    (name, found), (width, rows) = found, shape
    set_font((WIDTHS["one"], WIDTHS["one"]), f"figure.{form}")
    facets, beside = arranged(answer, found, rows)
    if not rows:
        beside = min(beside, int(width / PANEL))
        facets += [Facet(None, [])] * (-len(facets) % beside)
    options = SimpleNamespace(sweep=name, x="step", lines=["train"], smooth=1, band="none", log_x=False, log_y=False, xlim=None, ylim=None,
                              center="mean")
    chart, figure = Chart(chart, facets, options, Table(), beside), new_figure()
    notes, title = draw_charts(figure, [chart], (width, PANEL * len(facets) / beside + BELOW))
    put_below(figure, notes, title, grow=True)
    fit(figure, [chart])
    return figure
