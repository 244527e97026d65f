"""How lines, dots and labels look in every chart: Look is a group's colour, line style, marker and width.

Lines that lie on each other must be told apart, by colour-blind eyes too: what differs in colour also
differs in marker and width, and wider lines are drawn first, so that they show on both sides of a
narrower one on top.
"""
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
FONT = 9      # points, in pictures of no given size
SMALLEST = 7  # in the smallest
SHRUNK = 0.75  # of their size: labels of axes that would be too long, before they get more lines
OVER = 1.1    # how long labels may be, in lengths of their axis
WIDTHS = (1.4, 0.7)  # of the first and the last line, in line widths

X_LABELS = {"step": "training step", "tokens": "{unit}s seen in training",
            "seconds": "time since the start (s)"}
OPTION_LABELS = {"learning-rate": "learning rate", "warmup-iters": "warm-up (updates)",
                 "max-iters": "updates", "batch-size": "batch size (sequences)",
                 "block-size": "context ({unit}s)", "n-layer": "layers", "n-head": "attention heads",
                 "n-embd": "channels"}

# `size` multiplies the widths of lines and the sizes of markers.
Look = namedtuple("Look", "color linestyle marker hollow size")


def set_font(size):
    """Letters for a picture of this (width, height) in inches, or None: lines scale with them."""
    points = FONT
    if size:
        extent = min(size[0], 1.6 * size[1])
        points = min(FONT, max(SMALLEST, 4.9 + 0.64 * extent))
    matplotlib.rcParams["font.size"] = points


def scale():
    """Sizes of lines and markers in the picture under way, relative to one of no given size."""
    return matplotlib.rcParams["font.size"] / FONT


def shade(rank, count):
    """A colour from dark to bright, short of a yellow too faint on white, for what has an order."""
    return colors.to_hex(matplotlib.colormaps["viridis"](0.87 * rank / max(count - 1, 1)))


def sizes(count):
    """From wide to narrow."""
    wide, narrow = WIDTHS
    return [wide + (narrow - wide) * i / (count - 1) for i in range(count)] if count > 1 else [1.0]


def looks(names, keys):
    """A look for each key, the values of the options named. The first option (the norm) has the colour,
    the marker and the width; the second (the placement) the line style and the filling; a third has the
    marker. A single option has the line style too. A number with many values goes first, and its
    colours from dark to bright; but not the seed."""
    positions = [sorted(set(values), key=order) for values in zip(*keys)]
    scales = [i for i, values in enumerate(positions)
              if names[i] != "seed" and len(values) > 4
              and isinstance(values[-1], (int, float))][:1]
    turn = scales + [i for i in range(len(positions)) if i not in scales]
    dashing, shaping = (min(rank, len(turn) - 1) for rank in (1, 2 if len(turn) > 2 else 0))
    width = sizes(len(positions[turn[0]])) if turn else [1.0]
    found = []
    for key in keys:
        ranks = [positions[i].index(key[i]) for i in turn] or [0]
        colour = shade(ranks[0], len(width)) if scales else COLOURS[ranks[0] % len(COLOURS)]
        hollow = dashing > 0 and ranks[dashing] % 2 == 1
        found.append(Look(colour, LINES[ranks[dashing] % len(LINES)],
                          MARKERS[ranks[shaping] % len(MARKERS)], hollow, width[ranks[0]]))
    if len(set(found)) == len(found) and len(names) <= 3:
        return found
    return [Look(COLOURS[i % len(COLOURS)], LINES[i % len(LINES)], MARKERS[i % len(MARKERS)],
                 i // len(COLOURS) % 2 == 1, size) for i, size in enumerate(sizes(len(keys)))]


def line_of(look, **more):
    """A line's style; its width and the size of its markers scale with the look and the picture."""
    face = {"markerfacecolor": "white"} if look.hollow else {}
    factor = look.size * scale()
    sized = {name: value * factor for name, value in more.items() if name in ("linewidth", "markersize")}
    return {"color": look.color, "linestyle": look.linestyle, "marker": look.marker, **face, **more,
            **sized}


def dot_of(look, **more):
    return line_of(look._replace(size=1), **{"linestyle": "none", "markersize": 5, **more})


CROSS = {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.5}


def literal(text):
    """For matplotlib, which takes what stands between $ for mathematics, and hides labels that begin
    with _ (names of runs and corpora may)."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def note(text, brief=None, **style):
    """An entry of a legend; `brief` is what it says where there is little room."""
    handle = Line2D([], [], **{"label": literal(text), **GREY, **style})
    handle.brief = literal(brief or text)
    return handle


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


def fit_labels(axes):
    """The title and the labels of the axes as long as these are: smaller, or in more lines. To be
    called when the layout is known."""
    renderer = axes.figure.canvas.get_renderer()
    for label in (axes.title, axes.xaxis.label, axes.yaxis.label):
        upright = label is axes.yaxis.label

        def excess():
            box = label.get_window_extent(renderer)
            return (box.height / axes.bbox.height if upright else box.width / axes.bbox.width) / OVER

        if excess() > 1:
            label.set_fontsize(label.get_fontsize() * max(SHRUNK, 0.97 / excess()))
        if excess() > 1:
            text = label.get_text()
            longest = max(map(len, text.split("\n")))
            label.set_text(textwrap.fill(text, max(10, int(longest / excess()))))
