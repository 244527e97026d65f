"""How lines, dots and labels look in every chart. A Look is a group's colour, line style and marker.

Lines that overlap must stay distinguishable, also for colour-blind readers. So different colours have different dashes,
or different markers if there are enough. All lines have the same width, since a wider one would look more important.

The module also makes figures, writes them to files, and places the legend below all charts, in as many columns as fit. Its
texts are brief if long ones would take too much of the height of a picture with --size, which keeps its size.
"""
from collections import namedtuple
import functools
import io
import os
import textwrap
import warnings

from matplotlib import colors, font_manager, ticker
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

from common.command_line import legible, write_whole
from common.runs import RunError
from common.variants import number_text, order

matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "legend.frameon": False, "pdf.fonttype": 42, "svg.fonttype": "none",
                            "svg.hashsalt": "normlab"})
warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from current font")  # in an SVG, whose viewer has the fonts

# Okabe and Ito 2008, distinguishable with colour blindness; grey replaces their yellow, which is too
# faint on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
NORMS = ("ln", "bn", "rms", "none", "gn", "dyt", "in", "scale")  # have these colours in every picture
LINES = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (5, 1, 1, 1, 1, 1))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d", "H"]
GREY = {"color": "0.3"}
PALE = 0.4  # opacity of means of fewer seeds, and of unfinished runs
FONT = 9      # points, in pictures without --size
SMALLEST = 7  # points, in the smallest pictures
SHRUNK = 0.75  # the smallest scale of a long label, before it is broken into lines
TICK_GAP = 2  # points between the labels of two ticks, at least
DPI = 200
OVER = 1.1    # the maximum length of a label, in lengths of its axis

X_LABELS = {"step": "training step", "tokens": "{unit}s seen in training",
            "seconds": "time since the start (s)"}
OPTION_LABELS = {"learning-rate": "learning rate", "warmup-iters": "warm-up (updates)",
                 "max-iters": "updates", "batch-size": "batch size (sequences)",
                 "block-size": "context ({unit}s)", "n-layer": "layers", "n-head": "attention heads",
                 "n-embd": "channels"}

Look = namedtuple("Look", "color linestyle marker hollow")


def set_font(size, output):
    """Sets the fonts for a picture of this (width, height) in inches, or None, in this file. Lines scale with the size. The
    text of an .svg stays text; in other pictures literal() sees to it that each character has a glyph."""
    SPELLED.clear()
    matplotlib.rcParams["font.family"] = ["sans-serif"]
    DRAWN.update(glyphs=not output.lower().endswith(".svg"))
    points = FONT
    if size:
        extent = min(size[0], 1.6 * size[1])
        points = min(FONT, max(SMALLEST, 4.9 + 0.64 * extent))
    matplotlib.rcParams["font.size"] = points


def svg_figure(width, height):
    """A figure of this size in inches for an .svg that is the same whatever was drawn before it."""
    set_font(None, ".svg")
    return Figure(figsize=(width, height), layout="constrained")


def scale():
    """The scale of lines and markers in this picture, relative to a picture without --size."""
    return matplotlib.rcParams["font.size"] / FONT


def shade(rank, count):
    """A colour from dark to bright, for ordered values; it stops before a yellow too faint on white."""
    return colors.to_hex(matplotlib.colormaps["viridis"](0.87 * rank / max(count - 1, 1)))


def norm_colours(norms):
    """{norm: its colour}. NORMS have one colour in every picture; others take those that no norm of this picture has."""
    fixed = {norm: COLOURS[NORMS.index(norm)] for norm in norms if norm in NORMS}
    free = [colour for colour in COLOURS if colour not in fixed.values()] or COLOURS
    others = [norm for norm in norms if norm not in NORMS]
    return {**fixed, **{norm: free[place % len(free)] for place, norm in enumerate(others)}}


def looks(names, keys):
    """A look for each key, which holds the values of the named options.

    The first option sets the colour, a norm always the same one (norm_colours()), the second (the placement) the line
    style and the filling, a third the marker. Dots show no line style, so a second option of more
    than two values sets the marker too. If neither does, the first sets it. A single option sets the
    line style too. A number with many values, other than the seed, becomes the first option; its
    colours go from dark to bright."""
    positions = [sorted(set(values), key=order) for values in zip(*keys)]
    scales = [i for i, values in enumerate(positions)
              if names[i] != "seed" and len(values) > 4
              and isinstance(values[-1], (int, float))][:1]
    ordered = scales + [i for i in range(len(positions)) if i not in scales]
    counts = [len(positions[i]) for i in ordered] or [1]
    dashed = min(1, len(counts) - 1)
    marked = [rank for rank in (1, 2) if rank < len(counts) and (rank == 2 or counts[1] > 2)] or [0]
    found = []
    colours = COLOURS
    if ordered and names[ordered[0]] == "norm":
        of_norm = norm_colours(positions[ordered[0]])
        colours = [of_norm[norm] for norm in positions[ordered[0]]]
    for key in keys:
        ranks = [positions[i].index(key[i]) for i in ordered] or [0]
        marker = 0
        for rank in marked:
            marker = marker * counts[rank] + ranks[rank]
        colour = shade(ranks[0], counts[0]) if scales else colours[ranks[0] % len(colours)]
        found.append(Look(colour, LINES[ranks[dashed] % len(LINES)], MARKERS[marker % len(MARKERS)],
                          dashed > 0 and (ranks[dashed] + ranks[dashed] // len(MARKERS)) % 2 == 1))
    if len(set(found)) == len(found) and len(names) <= 3:
        return found
    return [Look(COLOURS[i % len(COLOURS)], LINES[i % len(LINES)], MARKERS[i % len(MARKERS)],
                 i // len(COLOURS) % 2 == 1) for i in range(len(keys))]


def line_of(look, **more):
    """The style of a line. Its width and the size of its markers scale with the picture."""
    face = {"markerfacecolor": "white"} if look.hollow else {}
    sized = {name: value * scale() for name, value in more.items() if name in ("linewidth", "markersize")}
    return {"color": look.color, "linestyle": look.linestyle, "marker": look.marker, **face, **more,
            **sized}


def dot_of(look, **more):
    return line_of(look, **{"linestyle": "none", "markersize": 5, **more})


CROSS = {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.5}
STUCK = {"marker": "X", "markersize": 5.5, "markeredgewidth": 0.8, "markerfacecolor": "white"}


DRAWN = {"glyphs": False}  # whether the picture holds glyphs in place of text
SPELLED = set()            # the characters of this picture that no installed font has


@functools.lru_cache(maxsize=None)
def characters_of(path):
    """The characters that a font can draw."""
    return frozenset(map(chr, font_manager.get_font(path).get_charmap()))


@functools.lru_cache(maxsize=None)
def font_for(c):
    """The name of an installed font that has a character; None if there is none."""
    if c in characters_of(font_manager.findfont(font_manager.FontProperties(family=["sans-serif"]))) or c == "\n":
        return "sans-serif"
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.style != "normal", font.weight != 400, font.name))
    return next((font.name for font in fonts if c in characters_of(font.fname)), None)


def with_glyphs(text):
    """The text, spelled out where no font has a glyph. The next text that matplotlib makes gets the fonts that it needs."""
    for c in set(text):
        font = font_for(c)
        if font is None:
            SPELLED.add(c)
        elif font not in matplotlib.rcParams["font.family"]:
            matplotlib.rcParams["font.family"] = [*matplotlib.rcParams["font.family"], font]
    return "".join(c.encode("unicode_escape").decode() if c in SPELLED else c for c in text)


def literal(text):
    """The text for matplotlib, which reads text between $ as mathematics and hides labels that start
    with _. Names of runs and corpora may have both, and characters that no picture can hold."""
    text = legible(text, keep="\n")
    text = with_glyphs(text) if DRAWN["glyphs"] else text
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def wrapped(text, inches, weight="normal"):
    """The lines of a text that is at most this wide, for matplotlib."""
    font = font_manager.FontProperties(weight=weight)

    def fits(letters):
        return all(TextPath((0, 0), literal(line), matplotlib.rcParams["font.size"], prop=font).vertices[:, 0].max(initial=0)
                   <= 72 * inches for line in textwrap.wrap(text, letters))
    letters = max(1, len(text))
    while letters > 1 and not fits(letters):
        letters = int(0.9 * letters)
    return list(map(literal, textwrap.wrap(text, letters))) or [""]


def note(text, brief=None, **style):
    """An entry of a legend; `brief` is its text where there is little room."""
    handle = Line2D([], [], **{"label": literal(text), **GREY, **style})
    handle.brief = literal(brief or text)
    return handle


def status_of(runs):
    """For a line's label: how many of its runs are not done, and why. "" if all are done."""
    parts = []
    for status in ("stuck", "diverged", "interrupted", "running"):
        steps = [f"{run.columns['step'][-1]:.0f}" for run in runs if run.status == status]
        if steps:
            parts.append(f"{status} at step {steps[0]}" if len(runs) == 1 else
                         f"{len(steps)} of {len(runs)} {status}")
    return f" ({', '.join(parts)})" if parts else ""


def shorten(names, length):
    """Long names with their middles left out, but still different from each other."""
    while True:
        cut = [name if len(name) <= length else f"{name[:length // 2]}…{name[-(length // 2):]}"
               for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
        length += 10


def choices_of(axis):
    """Functions that give an axis fewer and fewer ticks: at 1, 2 or 5 times powers of ten, or at values that were tried."""
    locator = axis.get_major_locator()
    if isinstance(locator, ticker.MaxNLocator):
        return [lambda n=n: locator.set_params(nbins=n, steps=[1, 2, 5, 10]) for n in ("auto", *range(6, 0, -1))]
    if isinstance(locator, ticker.LogLocator):
        return [lambda subs=subs: locator.set_params(subs=subs) for subs in ((1, 2, 5), (1,))]
    values = list(axis.get_majorticklocs())
    if not isinstance(locator, ticker.FixedLocator) or axis.get_major_formatter().format_ticks(values) != list(map(number_text, values)):
        return []
    kept = [values, [value for value in values if f"{value:e}"[0] in "125"], [value for value in values if f"{value:e}"[0] == "1"],
            values[::2], values[::3], [values[0], values[-1]], values[:1]]
    return [lambda one=one: axis.set_ticks(one, map(number_text, one)) for one in kept if one]


def fit_ticks(panels):
    """Leaves out ticks whose labels would touch. Call it when the layout is known."""
    for axis, side in ((axis, side) for axes in panels for axis, side in ((axes.xaxis, "x"), (axes.yaxis, "y"))):
        for choose in choices_of(axis):
            choose()
            boxes = [text.get_window_extent() for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
            ends = sorted((getattr(box, f"{side}0"), getattr(box, f"{side}1")) for box in boxes)
            if all(high + TICK_GAP * axis.figure.dpi / 72 <= low for (_, high), (low, _) in zip(ends, ends[1:])):
                break


def step_ticks(axes, N):
    """At most N ticks on an axis of steps or depths, at round numbers: 100, not 80."""
    axes.xaxis.set_major_locator(ticker.MaxNLocator(N, integer=True, steps=[1, 2, 2.5, 5, 10]))


def whole_ticks(axes):
    """Ticks at whole numbers, in the number that fits: there is no update 2.5."""
    axes.xaxis.get_major_locator().set_params(integer=True)


def fit_labels(panels):
    """Makes the titles and labels of these axes fit them and the picture: smaller, or in more lines. Call it when the layout
    is known."""
    for axes, text in ((axes, text) for axes in panels for text in (axes.title, axes.xaxis.label, axes.yaxis.label)):
        whole, renderer = axes.figure.bbox, axes.figure.canvas.get_renderer()
        side = "height" if text is axes.yaxis.label else "width"
        low, high = axes.bbox.intervaly if side == "height" else axes.bbox.intervalx
        room = min(OVER * (high - low), low + high, 2 * getattr(whole, side) - low - high)  # it is centred

        def excess():
            return getattr(text.get_window_extent(renderer), side) / room

        if excess() > 1:
            text.set_fontsize(text.get_fontsize() * max(SHRUNK, 0.97 / excess()))
        if excess() > 1:
            words = text.get_text()
            longest = max(map(len, words.split("\n")))
            text.set_text(textwrap.fill(words, max(10, int(longest / excess()))))


def new_figure(show=False, dpi=DPI):
    """A figure for a file of this resolution, since the sizes of texts depend on it, or for a window."""
    if not show:
        figure = Figure(layout="constrained", dpi=dpi)
        FigureCanvasAgg(figure)
        return figure
    try:
        from matplotlib import pyplot, rcsetup
        figure = pyplot.figure(layout="constrained")
    except ImportError as error:
        raise RunError(f"--show: no window: {error} (-o writes a file)")
    if pyplot.get_backend().lower() not in [name.lower() for name in rcsetup.interactive_bk]:
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        why = "matplotlib has no toolkit (python3-tk is one)" if display else "there is no display"
        raise RunError(f"--show: no window: {why} (-o writes a file)")
    return figure


def bytes_of(figure, form, dpi=DPI):
    """A picture's file, the same each time."""
    picture, undated = io.BytesIO(), {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(picture, dpi=dpi, format=form, metadata=undated.get(form))
    return picture.getvalue()


def write_picture(figure, output, dpi, say):
    """Writes the picture. A viewer sees the old file or the new one. say(text) reports characters that no font has."""
    write_whole(output, bytes_of(figure, os.path.splitext(output)[1][1:].lower(), dpi))
    if SPELLED:
        say(f"{output}: no installed font has {' '.join(sorted(SPELLED))} (an .svg leaves the fonts to its viewer)")


# ---- the legend ----------------------------------------------------------------------------------

LONG_MAX = 0.2   # fraction of the picture's height for a legend with long texts
BRIEF_MAX = 0.4  # the same with brief texts, before the letters become smaller
FULL = 0.75      # a legend above this fraction is refused
SHORT = 12       # letters of a line of a legend's text, at least
LETTERS = (0.9, 0.8, 0.7)  # font sizes to try, relative to the rest of the picture


def legend_below(figure, handles, title, points):
    """A legend of the figure, as wide as fits, with columns of about the same length; and its height. Texts that are wider than the
    figure continue on the next line."""
    counts, room = {-(-len(handles) // rows) for rows in range(1, len(handles) + 1)}, figure.bbox.width * 0.98
    for columns in sorted(counts, reverse=True):
        legend = figure.legend(handles=handles, title=title, ncol=columns, fontsize=points,
                               title_fontsize=points, loc="lower center", borderaxespad=0,
                               borderpad=0.2, labelspacing=0.25, columnspacing=1.2,
                               handlelength=2.6, handletextpad=0.5, bbox_to_anchor=(0.5, 0))
        box = legend.get_window_extent(figure.canvas.get_renderer())
        longest = max(len(line) for handle in handles for line in handle.get_label().split("\n"))
        if box.width <= room or columns == 1 and longest <= SHORT:
            return legend, box.height
        legend.remove()
    for handle in handles:
        handle.set_label(textwrap.fill(handle.get_label(), max(SHORT, int(0.9 * longest * room / box.width))))
    return legend_below(figure, handles, title, points)


def put_below(figure, handles, title, grow):
    """Draws the legend below the charts, each text once. With `grow` the figure grows by its height; else there must be
    room."""
    found = {}
    for handle in handles:
        found.setdefault(handle.brief, handle)
    handles = list(found.values())
    if not handles:
        return
    base = matplotlib.rcParams["font.size"]
    for brief, letters in ((False, LETTERS[0]), *((True, letters) for letters in LETTERS)):
        for handle in handles if brief else ():
            handle.set_label(handle.brief)
        legend, height = legend_below(figure, handles, None if brief else title, letters * base)
        if grow or height <= (BRIEF_MAX if brief else LONG_MAX) * figure.bbox.height or letters == LETTERS[-1]:
            break
        legend.remove()
    height += 0.03 * figure.dpi
    width, old = figure.get_size_inches()
    if grow:
        figure.set_size_inches(width, old + height / figure.dpi)
    elif height > FULL * figure.bbox.height:
        raise RunError(f"--size={width:g}x{old:g}: the legend of {len(handles)} entries leaves no room for data (a "
                       "larger size, or fewer runs)")
    fraction = height / figure.bbox.height
    figure.get_layout_engine().set(rect=(0, fraction, 1, 1 - fraction))
