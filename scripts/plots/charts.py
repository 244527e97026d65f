"""The pictures of losses that scripts/plot.py draws: the kinds of charts, and their layout in a figure.

A chart has a panel for each facet. A facet is a list of groups, and a group is a variant with its seeds, or one run.
A chart writes the plotted numbers into a table, and returns the handles and the title of its legend. One legend below all
charts has the handles of all.
"""
from collections import namedtuple

from common import command_line
from plots.groups import Chart
from plots.looks import fit_labels, put_below, set_font
from plots.losses import draw_curves, draw_dots, draw_sweep


def draw_differences(chart):
    """Loads scipy, which other charts do not need and which takes half a second."""
    command_line.require("plot", "plot report", "scipy.stats")
    from plots import differences
    return differences.draw_differences(chart)


# `width` in inches; `rows`: whether it has a row for each group.
Kind = namedtuple("Kind", "draw width rows")
CHARTS = {"curves": Kind(draw_curves, 6.4, False), "dots": Kind(draw_dots, 4.6, True),
          "sweep": Kind(draw_sweep, 6.4, False), "differences": Kind(draw_differences, 6.4, True)}
COLUMN = 3.2           # inches of a panel, where there are several columns
NARROW = 5.0           # inches: in a narrower picture the charts are below each other
PAD = 0.03             # inches around a chart, in a picture with --size
LETTER = 1 / 72        # inches of a point
DOT, DOT_MIN = 0.45, 2.5  # the size of a dot in heights of its row, and its minimum in points
LINE = 1.15            # from a line of text to the next, in font sizes

# A chart and the panels that it draws.
Panel = namedtuple("Panel", "chart facets")


def natural_size(panels):
    """The widths of the panels and the size of the picture without legends, if --size is not given."""
    rows = [group.label for panel in panels if CHARTS[panel.chart].rows
            for facet in panel.facets for group in facet.parts]
    widths = [COLUMN if len(panel.facets) > 1 else CHARTS[panel.chart].width
              for panel in panels for _ in panel.facets]
    width = sum(widths) + 0.07 * max(0, max(map(len, rows), default=0) - 12)
    return widths, (width, max(4.0, 1.2 + 0.24 * len(rows)))


def make_axes(figure, panels, widths):
    """[the axes of each panel's facets]"""
    count = len(widths)
    narrow = figure.get_figwidth() < NARROW and len(panels) == count
    shape = (count, 1) if narrow else (1, count)
    ratios = {} if narrow else {"width_ratios": widths}
    share = len(panels) == 1
    axes = iter(figure.subplots(*shape, squeeze=False, sharex=share, sharey=share, **ratios).ravel())
    return [[next(axes) for _ in panel.facets] for panel in panels]


def draw_charts(figure, panels, options, table):
    set_font(options.size)
    widths, size = natural_size(panels)
    figure.set_size_inches(options.size or size)
    if options.size:
        figure.get_layout_engine().set(w_pad=PAD, h_pad=PAD)
    rows = make_axes(figure, panels, widths)
    drawn = [CHARTS[panel.chart].draw(Chart(panel.chart, row, panel.facets, CHARTS[panel.chart].rows, options, table))
             for row, panel in zip(rows, panels)]
    put_below(figure, [handle for handles, _ in drawn for handle in handles],
              next((title for _, title in drawn if title), None), grow=not options.size)
    fit_texts(figure, rows, panels)


def fit_texts(figure, rows, panels):
    """Makes the labels of rows and axes small enough to fit."""
    figure.get_layout_engine().execute(figure)
    for row, panel in zip(rows, panels):
        for axes in row:
            if CHARTS[panel.chart].rows:
                fit_rows(axes)
            fit_labels(axes)


def fit_rows(axes):
    labels = axes.get_yticklabels()
    low, high = sorted(axes.get_ylim())
    step = axes.bbox.height / axes.figure.dpi / (high - low)
    for label in labels:
        lines = label.get_text().count("\n") + 1
        label.set_fontsize(min(label.get_fontsize(), step / (LETTER * LINE * lines)))
    for line in axes.lines:
        line.set_markersize(min(line.get_markersize(), max(DOT_MIN, DOT * step / LETTER)))
