"""Pictures of a study: differences with their intervals, grouped by what they are within; and curves of its variants.

The figure has the width of a paper's column. The band is the margin within which losses are equal.
"""
import io

from plots.looks import COLOURS, NORMS, literal, looks, norm_colours
from plots.svg import compact
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import matplotlib

WIDTH, WIDE = 3.4, 7.0  # inches: of a column, and of a page
ROW, SPACE = 0.17, 0.62  # inches: of a row, and of the axis with its label
STEADY = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same file each time


def rows_of(answer):
    """[(group, [row])] of the figure: differences by what they are within, then main effects and interactions."""
    groups = {}
    for _, row in answer.contrasts.iterrows():
        title = row["where"] if row["kind"] == "difference" else f"{row['kind']}s"
        label = row["contrast"] if row["kind"] != "interaction" else f"{row['contrast']}, {row['where']}"
        groups.setdefault(title, []).append((label, row))
    return list(groups.items())


def draw(answer):
    matplotlib.rcParams["font.size"] = 7
    groups = rows_of(answer)
    lines = sum(len(rows) + bool(title) for title, rows in groups)
    figure = Figure(figsize=(WIDTH, ROW * lines + SPACE), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    at, ticks, colours = 0, [], {answer.labels.get(norm, norm): colour for norm, colour in norm_colours(NORMS).items()}
    for title, rows in groups:
        if title:
            ticks.append((at, literal(title), True))
            at += 1
        for label, row in rows:
            level = row["contrast"].split(" minus ")[0]  # that of a norm has its colour
            colour = colours.setdefault(level, COLOURS[(len(colours) - len(NORMS)) % len(COLOURS)])
            if row["low"] == row["low"]:
                axes.plot([row["low"], row["high"]], [at, at], color=colour, linewidth=1.2, solid_capstyle="butt")
            hollow = row["verdict"].startswith("undecided")
            axes.plot([row["mean"]], [at], "o", color=colour, markersize=3.5, markerfacecolor="white" if hollow else colour)
            ticks.append((at, literal(label), False))
            at += 1
    axes.axvline(0, color="0.3", linewidth=0.6, zorder=0)
    if answer.margin:
        axes.axvspan(-answer.margin, answer.margin, color="0.92", zorder=-1, linewidth=0)
    axes.set_yticks([place for place, _, _ in ticks], [text for _, text, _ in ticks])
    for tick, (_, _, bold) in zip(axes.get_yticklabels(), ticks):
        tick.set_fontweight("bold" if bold else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(at - 0.4, -0.6)
    axes.set_xlabel("difference of the loss (nats)" if answer.margin else f"difference of {literal(answer.metric)}")
    return figure


def figure_bytes(answer, form):
    out = io.BytesIO()
    draw(answer).savefig(out, format=form, metadata=STEADY[form])
    return out.getvalue()


def figure_svg(answer):
    return compact(draw(answer), "contrasts")


def curves_svg(factors, curves):
    """curves: [(levels of the factors, label, steps, losses)]."""
    matplotlib.rcParams["font.size"] = 9
    figure = Figure(figsize=(WIDE, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for look, (_, label, steps, losses) in zip(looks(list(factors), [levels for levels, *_ in curves]), curves):
        axes.plot(steps, losses, color=look.color, linestyle=look.linestyle, linewidth=1, label=literal(label))
    axes.set_xlabel("training step")
    axes.set_ylabel("training loss (nats)")
    axes.legend(bbox_to_anchor=(1.01, 1), loc="upper left", fontsize=8)
    return compact(figure, "curves")
