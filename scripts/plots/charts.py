"""The pictures of losses that scripts/plot.py draws: the kinds of charts, and their layout in a figure.

A chart has a panel for each facet. A facet is a list of groups, and a group is a variant with its seeds, or one run.
A chart writes the plotted numbers into a table, and returns the handles and the title of its legend. One legend below all
charts has the handles of all.

seaborn would replace only two calls of plot() here: which runs count in a mean, the marks of those that did not train, the legend
and the ticks would remain. Its line joins the neighbours of a value at which no seed trained, its legend covers the data in a
figure 3.3 inches wide, and it loads in 1.5 s where matplotlib takes 0.6 s.
"""
import numpy as np

from plots.looks import fit_labels, fit_ticks
from plots.losses import draw_curves, draw_dots, draw_sweep


CHARTS = {"curves": draw_curves, "dots": draw_dots, "sweep": draw_sweep}
WIDTH, DOTS = 6.4, 4.6  # inches of a chart, and of dots
COLUMN, ROW = 3.2, 2.4  # inches of a panel, where there are several
NARROW = 5.0            # inches: in a narrower picture the charts are below each other
PAD = 0.03              # inches around a chart, in a picture with --size
LETTER = 1 / 72         # inches of a point
DOT, DOT_MIN = 0.45, 2.5  # the size of a dot in heights of its row, and its minimum in points
LINE = 1.15             # from a line of text to the next, in font sizes


def place_panels(figure, charts, size):
    """Makes the figure as large as its panels need, if no size is given, and the panels."""
    labels = [group.label for chart in charts if chart.rows for group in chart.groups]
    single = len(charts) == 1
    columns = charts[0].columns if single else len(charts)
    rows = len(charts[0].facets) // columns if single else 1
    widths = [COLUMN if len(chart.facets) > 1 else DOTS if chart.name == "dots" else WIDTH for chart in charts]
    widths *= columns if single else 1
    beside = 0.07 * max(0, max(map(len, labels), default=0) - 12)
    figure.set_size_inches(size or (sum(widths) + beside, max(4.0, ROW * rows, 1.2 + 0.24 * len(labels))))
    if size:
        figure.get_layout_engine().set(w_pad=PAD, h_pad=PAD)
    shape = (columns, 1) if figure.get_figwidth() < NARROW and not single else (rows, columns)
    grid = figure.subplots(*shape, squeeze=False, sharex=single, sharey=single, width_ratios=widths if shape[1] > 1 else None)
    for chart, row in zip(charts, np.split(grid.ravel(), len(charts))):
        chart.row, chart.axes = row, row[0]


def draw_charts(figure, charts, size):
    """Returns the legend's entries and its title."""
    place_panels(figure, charts, size)
    drawn = [CHARTS[chart.name](chart) for chart in charts]
    return [note for notes, _ in drawn for note in notes], next((title for _, title in drawn if title), None)


def fit_rows(charts):
    """Makes the labels and the dots of charts with rows small enough to fit."""
    for axes in (chart.row[0] for chart in charts if chart.rows):
        low, high = sorted(axes.get_ylim())
        step = axes.bbox.height / axes.figure.dpi / (high - low)
        lines = max(label.get_text().count("\n") + 1 for label in axes.get_yticklabels())
        axes.tick_params(axis="y", labelsize=min(axes.get_yticklabels()[0].get_fontsize(), step / (LETTER * LINE * lines)))
        for line in axes.lines:
            line.set_markersize(min(line.get_markersize(), max(DOT_MIN, DOT * step / LETTER)))


def fit(figure, charts):
    """Makes texts fit their places: the layout follows from the sizes of texts, and these from the layout."""
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]
    for _ in range(2):
        figure.get_layout_engine().execute(figure)
        fit_rows(charts)
        fit_labels(panels)
        fit_ticks(panels)
