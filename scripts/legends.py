"""Where the legends of a picture of losses stand: inside a chart, beside it, or below all charts.

A picture whose size was given keeps it: legends that are not free to stand inside stand below, in as
many columns as fit, with brief texts where long ones would take too much of the height.
"""
from collections import namedtuple
import textwrap

import matplotlib

from looks import note
from runs import RunError

INSIDE = 8     # with more lines, or longer labels, no legend stands inside
LONGEST = 56   # characters
WRAP = 30      # characters of a note in a line of a legend beside the chart
SHARE = 0.2    # of the picture's height, at most, for legends with long texts
BRIEFEST = 0.4  # at most with brief ones, as long as the letters can be read
FULL = 0.75    # legends that leave less are refused
LETTERS = (0.9, 0.8, 0.7)  # sizes to try, relative to the other letters

# Of a chart: its handles, of which the first `lines` are data and the rest explain.
Legend = namedtuple("Legend", "handles lines title")


def covers_data(axes, legend):
    """Whether the legend stands on a line or a band."""
    box = legend.get_window_extent(axes.figure.canvas.get_renderer())
    lines = [line.get_transform().transform_path(line.get_path()) for line in axes.lines]
    bands = [band.get_transform().transform_path(path)
             for band in axes.collections for path in band.get_paths()]
    return any(path.intersects_bbox(box, filled=False) for path in lines) or \
        any(path.intersects_bbox(box, filled=True) for path in bands)


def put_inside(axes, legend):
    """In the upper right of the chart if it is short and that is free; returns whether it is."""
    handles, lines = list(legend.handles), legend.lines
    if lines > INSIDE or max(len(handle.get_label()) for handle in handles) > LONGEST:
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
    """On the right of the chart; returns the legend, which needs room."""
    for handle in legend.handles[legend.lines:]:
        handle.set_label(textwrap.fill(handle.get_label(), WRAP))
    return axes.legend(handles=legend.handles, title=legend.title, alignment="left",
                       loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0,
                       fontsize="small" if legend.lines > 20 else None)


def put_above(axes, legend):
    """Above the chart, in as many columns as there is room for."""
    for columns in range(min(3, len(legend.handles)), 0, -1):
        drawn = axes.legend(handles=legend.handles, loc="lower center", bbox_to_anchor=(0.5, 1),
                            ncol=columns, handletextpad=0.4, columnspacing=1.2)
        if drawn.get_window_extent(axes.figure.canvas.get_renderer()).width <= axes.bbox.width:
            break


# ---- below ---------------------------------------------------------------------------------------

def brief_of(handle):
    return getattr(handle, "brief", handle.get_label())


def distinct(handles):
    """Without those that say the same as an earlier one."""
    found = {}
    for handle in handles:
        found.setdefault(brief_of(handle), handle)
    return list(found.values())


def row_of(figure, handles, title, points):
    """A legend of the figure as wide as fits, its columns of about the same length."""
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


def put_below(figure, legends, said, grow):
    """All of the legends below the charts: lines first, then what explains them and is not said by
    other handles. The figure grows by their height if it may; if not, there must be room."""
    lines = distinct([handle for legend in legends for handle in legend.handles[:legend.lines]])
    notes = distinct([*said, *(handle for legend in legends
                               for handle in legend.handles[legend.lines:])])
    notes = [handle for handle in notes if handle not in said]
    title = next((legend.title for legend in legends if legend.lines), None)
    base = matplotlib.rcParams["font.size"]
    for brief, share in ((False, LETTERS[0]), *((True, share) for share in LETTERS)):
        if brief:
            title = None
            for handle in lines + notes:
                handle.set_label(brief_of(handle))
        drawn = [row_of(figure, handles, heading, share * base)
                 for handles, heading in ((lines, title), (notes, None)) if handles]
        height = sum(of for _, of in drawn) + 0.03 * figure.dpi
        most = (BRIEFEST if brief else SHARE) * figure.bbox.height
        if grow or height <= most or (brief, share) == (True, LETTERS[-1]):
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
    share = height / figure.bbox.height
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))
