"""How lines, dots and legends look in every chart: Look is a group's colour, line style and marker."""
from collections import namedtuple
import textwrap

import matplotlib
from matplotlib import colors, ticker
from matplotlib.lines import Line2D

from runs import order

matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "legend.frameon": False, "pdf.fonttype": 42, "svg.fonttype": "none",
                            "svg.hashsalt": "normlab"})

# Okabe and Ito 2008, told apart by colour-blind eyes too; grey for their yellow, too faint on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
LINES = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (5, 1, 1, 1, 1, 1))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h"]
GREY = {"color": "0.3"}
PALE = 0.4  # opacity of what is not all there
INSIDE = 8  # with more lines, or longer labels, the legend stands beside the picture
LONGEST = 56
WRAP = 30     # characters of a note in a line of that one

X_LABELS = {"step": "training step", "tokens": "{unit}s seen in training",
            "seconds": "time since the start (s)"}
OPTION_LABELS = {"learning-rate": "learning rate", "warmup-iters": "warm-up (updates)",
                 "max-iters": "updates", "batch-size": "batch size (sequences)",
                 "block-size": "context ({unit}s)", "n-layer": "layers", "n-head": "attention heads",
                 "n-embd": "channels"}

Look = namedtuple("Look", "color linestyle marker hollow")


def shade(rank, count):
    """A colour from dark to bright, short of a yellow too faint on white, for what has an order."""
    return colors.to_hex(matplotlib.colormaps["viridis"](0.87 * rank / max(count - 1, 1)))


def looks(names, keys):
    """A look for each key, the values of the options named: the colour by the first (the norm), line
    style and filling by the second (the placement), the marker's shape by the first or the third.
    A number with many values goes first, and its colours from dark to bright; but not the seed."""
    positions = [sorted(set(values), key=order) for values in zip(*keys)]
    scales = [i for i, values in enumerate(positions)
              if names[i] != "seed" and len(values) > 4
              and isinstance(values[-1], (int, float))][:1]
    turn = scales + [i for i in range(len(positions)) if i not in scales]
    shaping = 2 if len(turn) > 2 else int(len(turn) == 2 and len(positions[turn[1]]) > 2)
    found = []
    for key in keys:
        ranks = [positions[i].index(key[i]) for i in turn] + [0, 0]
        colour = COLOURS[ranks[0] % len(COLOURS)]
        if scales:
            colour = shade(ranks[0], len(positions[turn[0]]))
        found.append(Look(colour, LINES[ranks[1] % len(LINES)],
                          MARKERS[ranks[shaping] % len(MARKERS)], ranks[1] % 2 == 1))
    if len(set(found)) == len(found):
        return found
    return [Look(COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)],
                 MARKERS[i % len(MARKERS)], False) for i in range(len(keys))]


def line_of(look, **more):
    face = {"markerfacecolor": "white"} if look.hollow else {}
    return {"color": look.color, "linestyle": look.linestyle, "marker": look.marker, **face, **more}


def dot_of(look, **more):
    return line_of(look, **{"linestyle": "none", "markersize": 5, **more})


CROSS = {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.5}


def literal(text):
    """For matplotlib, which takes what stands between $ for mathematics, and hides labels that begin
    with _ (names of runs and corpora may)."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def note(text, **style):
    """An entry of the legend that belongs to no line."""
    return Line2D([], [], **{"label": literal(text), **GREY, **style})


def unit_of(runs):
    levels = {run.options.get("level", "char") for run in runs}
    return "byte" if levels == {"byte"} else "character"


def option_label(option, unit):
    return OPTION_LABELS.get(option, option.replace("-", " ")).format(unit=unit)


def how_it_stands(runs):
    """What of a line's runs is not simply done, for its label."""
    parts = []
    for status in ("diverged", "interrupted", "running"):
        steps = [f"{run.columns['step'][-1]:.0f}" for run in runs if run.status == status]
        if steps:
            parts.append(f"{status} at step {steps[0]}" if len(runs) == 1 else
                         f"{len(steps)} of {len(runs)} {status}")
    return f" ({', '.join(parts)})" if parts else ""


def shorten(names, length):
    """Long names with their middles left out, as far as they stay different."""
    while True:
        cut = [name if len(name) <= length else f"{name[:length // 2]}…{name[-(length // 2):]}"
               for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
        length += 10


def loss_ticks(axis, logarithmic):
    """Readable ticks on a logarithmic loss axis."""
    if logarithmic:
        axis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 2.5, 3, 4, 5, 7)))
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(ticker.NullFormatter())


def on_lines(axes, legend):
    """Whether the legend stands on one of the lines; the layout to come only gives more room."""
    box = legend.get_window_extent(axes.figure.canvas.get_renderer())
    return any(line.get_transform().transform_path(line.get_path()).intersects_bbox(box, filled=False)
               for line in axes.lines)


def put_legend(axes, handles, title, lines):
    """In the upper right of the picture while it is short and that is free, else beside: then returns
    the legend, which needs room. The first `lines` of its entries are data."""
    longest = max(len(handle.get_label()) for handle in handles)
    if lines <= INSIDE and longest <= LONGEST:
        missing = 2 * lines - len(handles)
        columns = 2 if lines > 4 and missing >= 0 else 1
        blanks = [note("", linestyle="none")] * (missing if columns == 2 else 0)
        legend = axes.legend(handles=handles + blanks, title=title, alignment="left", ncol=columns,
                             columnspacing=1.2, loc="upper right")
        if not on_lines(axes, legend):
            return None
    for handle in handles[lines:]:
        handle.set_label(textwrap.fill(handle.get_label(), WRAP))
    return axes.legend(handles=handles, title=title, alignment="left", loc="upper left",
                       bbox_to_anchor=(1.01, 1), borderaxespad=0,
                       fontsize="small" if lines > 20 else None)
