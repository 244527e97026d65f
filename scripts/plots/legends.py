"""The places of the legends of a picture of losses: inside a chart, beside it, or below all charts.

A picture with --size keeps its size. Legends with no free place inside are below the charts, in as many
columns as fit, with brief texts if long ones would take too much of the height.
"""
from collections import namedtuple
import textwrap

import matplotlib

from plots.looks import note
from common.runs import RunError

LINES_MAX = 8    # a legend inside a chart has at most this many lines
LABEL_MAX = 56   # and labels of at most this many characters
WRAP = 30        # characters of a note in a line of a legend beside the chart
LONG_MAX = 0.2   # fraction of the picture's height for legends with long texts
BRIEF_MAX = 0.4  # the same with brief texts, before the letters become smaller
FULL = 0.75      # legends above this fraction are refused
LETTERS = (0.9, 0.8, 0.7)  # font sizes to try, relative to the rest of the picture

# Of a chart. The first `lines` handles are data, the others explain.
Legend = namedtuple("Legend", "handles lines title")


def covers_data(axes, legend):
    """Whether the legend covers a line or a band."""
    box = legend.get_window_extent(axes.figure.canvas.get_renderer())
    lines = [line.get_transform().transform_path(line.get_path()) for line in axes.lines]
    bands = [band.get_transform().transform_path(path)
             for band in axes.collections for path in band.get_paths()]
    return any(path.intersects_bbox(box, filled=False) for path in lines) or \
        any(path.intersects_bbox(box, filled=True) for path in bands)


def put_inside(axes, legend):
    """Draws a short legend in the upper right of the chart, if that is free. Returns whether it did."""
    handles, lines = list(legend.handles), legend.lines
    if lines > LINES_MAX or max(len(handle.get_label()) for handle in handles) > LABEL_MAX:
        return False
    missing = 2 * lines - len(handles)
    columns = 2 if lines > 4 and missing >= 0 else 1
    handles += [note("", linestyle="none")] * (missing if columns == 2 else 0)
    drawn = axes.legend(handles=handles, title=legend.title, alignment="left", ncol=columns,
                        columnspacing=1.2, loc="upper right")
    axes.figure.get_layout_engine().execute(axes.figure)
    if not covers_data(axes, drawn):
        return True
    drawn.remove()
    return False


def put_beside(axes, legend):
    """Draws the legend on the right of the chart, outside. Returns it, so that room can be made."""
    for handle in legend.handles[legend.lines:]:
        handle.set_label(textwrap.fill(handle.get_label(), WRAP))
    return axes.legend(handles=legend.handles, title=legend.title, alignment="left",
                       loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0,
                       fontsize="small" if legend.lines > 20 else None)


def put_above(axes, legend):
    """Draws the legend above the chart, in as many columns as fit."""
    for columns in range(min(3, len(legend.handles)), 0, -1):
        drawn = axes.legend(handles=legend.handles, loc="lower center", bbox_to_anchor=(0.5, 1),
                            ncol=columns, handletextpad=0.4, columnspacing=1.2)
        if drawn.get_window_extent(axes.figure.canvas.get_renderer()).width <= axes.bbox.width:
            break


# ---- below ---------------------------------------------------------------------------------------

def brief_of(handle):
    return getattr(handle, "brief", handle.get_label())


def distinct(handles):
    """The handles without those that have the text of an earlier one."""
    found = {}
    for handle in handles:
        found.setdefault(brief_of(handle), handle)
    return list(found.values())


def row_of(figure, handles, title, points):
    """A legend of the figure, as wide as fits, with columns of about the same length; and its height."""
    def legend_of(columns):
        legend = figure.legend(handles=handles, title=title, ncol=columns, fontsize=points,
                               title_fontsize=points, loc="lower center", borderaxespad=0,
                               borderpad=0.2, labelspacing=0.25, columnspacing=1.2,
                               handlelength=2.6, handletextpad=0.5, bbox_to_anchor=(0.5, 0))
        return legend, legend.get_window_extent(figure.canvas.get_renderer())

    widest = figure.bbox.width * 0.98
    for rows in range(1, len(handles) + 1):
        columns = -(-len(handles) // rows)
        if rows > 1 and columns == -(-len(handles) // (rows - 1)):
            continue
        legend, box = legend_of(columns)
        if box.width <= widest or columns == 1:
            break
        legend.remove()
    return legend, box.height


def put_below(figure, legends, explained, grow):
    """Draws all legends below the charts: first the lines, then the notes, without those whose text
    the handles `explained` have. With `grow` the figure grows by their height; else there must be
    room."""
    lines = distinct([handle for legend in legends for handle in legend.handles[:legend.lines]])
    notes = distinct([*explained, *(handle for legend in legends
                                    for handle in legend.handles[legend.lines:])])
    notes = [handle for handle in notes if handle not in explained]
    title = next((legend.title for legend in legends if legend.lines), None)
    base = matplotlib.rcParams["font.size"]
    for brief, letters in ((False, LETTERS[0]), *((True, letters) for letters in LETTERS)):
        if brief:
            title = None
            for handle in lines + notes:
                handle.set_label(brief_of(handle))
        drawn = [row_of(figure, handles, heading, letters * base)
                 for handles, heading in ((lines, title), (notes, None)) if handles]
        height = sum(of for _, of in drawn) + 0.03 * figure.dpi
        height_max = (BRIEF_MAX if brief else LONG_MAX) * figure.bbox.height
        if grow or height <= height_max or (brief, letters) == (True, LETTERS[-1]):
            break
        for legend, _ in drawn:
            legend.remove()
    if grow:
        width, old = figure.get_size_inches()
        figure.set_size_inches(width, old + height / figure.dpi)
    elif height > FULL * figure.bbox.height:
        width, height = figure.get_size_inches()
        raise RunError(f"--size={width:g}x{height:g}: the legend of {len(lines) or len(notes)} entries "
                       "leaves no room for data (a larger size, or fewer runs)")
    bottom = 0.0
    for legend, of in reversed(drawn):
        legend.set_bbox_to_anchor((0.5, bottom / figure.bbox.height))
        bottom += of
    fraction = height / figure.bbox.height
    figure.get_layout_engine().set(rect=(0, fraction, 1, 1 - fraction))
