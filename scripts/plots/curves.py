"""The chart of loss curves: losses over steps, tokens or seconds, a panel for each facet."""
from collections import namedtuple

from matplotlib import ticker
from matplotlib.patches import Patch

from plots.groups import BANDS, BEYOND, draw_line, draw_near_entropies, runs_of, seeds_of
from plots.legends import Legend
from plots.looks import (CROSS, GREY, PALE, X_LABELS, dot_of, line_of, literal, loss_ticks, note, scale,
                   status_of, unit_of)
from plots.series import Curve, Point, curve_of, final_runs, limits, loss_cap, middle, sound

CHART = "curves"  # in the table
VALIDATION = {"linewidth": 1.8, "markersize": 4.5}
MARKERS = 12      # on a line, about

# A column of log.csv, its name in the table, whether it has a band over seeds.
Loss = namedtuple("Loss", "column series band")
TRAINING = Loss("train_loss", "training", False)
PART = Loss("eval_train_loss", "training split", False)
MEASURED = Loss("val_loss", "validation", True)


class Drawing:
    """What all panels have in common, and what was drawn in them.

    cap, width   losses above the cap are not shown; training losses are running means of `width`
    drawn, pale  points [(x, y)]; whether part of a line is a mean of fewer seeds than the rest
    """

    def __init__(self, runs, options, table):
        self.options, self.table, self.cap = options, table, loss_cap(runs)
        self.width = options.smooth or max(len(run.measured("train_loss")) for run in runs) // 50 | 1
        self.drawn, self.pale = [], False

    def line(self, axes, group, whose, loss, style):
        """One loss of a group."""
        options, width = self.options, self.width if loss is TRAINING else 1
        curve = curve_of(sound(group.runs), options.x, loss.column, options.center, options.band, width)
        there = curve.x > 0 if options.log_x else curve.x >= 0
        curve = Curve(*(values[there] for values in curve))
        self.table.add_curve(CHART, whose, loss.series, curve)
        pale = draw_line(axes, curve, style, band_below=self.cap if loss.band else -1)
        self.pale |= pale and bool(final_runs(group.runs))
        self.drawn += zip(curve.x, curve.y)

    def group(self, axes, group, whose, place):
        """The lines and crosses of a group. `place` shifts its markers along the line, so that those
        of different groups do not coincide."""
        lines, line = self.options.lines, line_of(group.look, **VALIDATION)
        thin = {**line, "linewidth": 0.8 * scale(), "marker": "none"}
        if "train" in lines:
            self.line(axes, group, whose, TRAINING, {**thin, "alpha": 0.6})
        if "eval-train" in lines:
            dots = {"marker": ".", "markersize": 3.5 * scale()}
            self.line(axes, group, whose, PART, {**thin, **dots})
        if "val" in lines:
            points = max((len(run.measured("val_loss")) for run in sound(group.runs)), default=0)
            every = max(1, points // MARKERS)
            line["markevery"] = (place % every, every)
            self.line(axes, group, whose, MEASURED, line)
        for run in group.runs:
            if run.status == "diverged":
                self.cross(axes, group, whose, run)

    def cross(self, axes, group, whose, run):
        x = float(run.columns[self.options.x][run.columns["step"].index(run.diverged_at)])
        self.table.add(CHART, whose, "diverged", Point(x=x))
        if x > 0 or not self.options.log_x:
            axes.plot([x], [BEYOND], transform=axes.get_xaxis_transform(), clip_on=False,
                      **dot_of(group.look, **CROSS))


def line_notes(groups, options, single):
    """The legend's entries of the lines; with the last losses if there is a single panel."""
    handles = {}
    for group in groups:
        ended = final_runs(group.runs)
        last = f": {middle([run.losses()[-1] for run in ended], options.center):.3f}" if ended else ""
        text = group.label + (last + status_of(group.runs) if single else "")
        handles.setdefault(group.label, note(text, group.label, **line_of(group.look, **VALIDATION)))
    return list(handles.values())


def explanations(drawing, groups, single):
    """What the title of the legend and the axis do not say. A single panel's title names the seeds."""
    options, seeds, notes = drawing.options, seeds_of(groups), []
    runs, bold = runs_of(groups), {"linewidth": 1.8 * scale()}
    if "val" in options.lines and seeds:
        if not single:
            notes.append(note(f"{options.center} of {seeds}", linestyle="none"))
        if options.band in BANDS:
            notes.append(Patch(alpha=0.25, linewidth=0, label=f"band: {BANDS[options.band]}", **GREY))
            notes[-1].brief = f"band: {options.band}"
    if "train" in options.lines:
        smoothing = f", running mean of {drawing.width} logged values" if drawing.width > 1 else ""
        notes.append(note("training" + smoothing, "training", linewidth=0.8 * scale(), alpha=0.8))
    if "eval-train" in options.lines and any(run.measured("eval_train_loss") for run in runs):
        notes.append(note("training split, evaluated", marker=".", linewidth=0.8 * scale(),
                          markersize=3.5 * scale()))
    if drawing.pale:
        notes.append(note("paler: fewer seeds", alpha=PALE, **bold))
    if any(run.status == "diverged" for run in runs):
        notes.append(note("diverged", linestyle="none", **CROSS))
    return notes


def draw_curves(row, facets, options, table):
    """Training losses are thin lines, validation losses bold ones. All panels have the same axes."""
    groups = [group for facet in facets for group in facet.parts]
    unit, drawing = unit_of(runs_of(groups)), Drawing(runs_of(groups), options, table)
    single = len(facets) == 1
    labels = list(dict.fromkeys(group.label for group in groups))
    for axes, facet in zip(row, facets):
        if axes is not row[0]:
            axes.sharex(row[0])
            axes.sharey(row[0])
            axes.tick_params(labelleft=False)
        if options.log_x:
            axes.set_xscale("log")
        if options.log_y:
            axes.set_yscale("log")
        for group in facet.parts:
            whose = ", ".join(part.label for part in (facet.group, group) if part)
            drawing.group(axes, group, whose, labels.index(group.label))
        if facet.group:
            axes.set_title(literal(facet.group.label), fontsize="medium")
        axes.set_xlabel(X_LABELS[options.x].format(unit=unit))
    notes = explanations(drawing, groups, single)
    first = row[0]
    kind = "validation loss" if options.lines == ["val"] else "loss"
    first.set_ylabel(f"{kind} (nats per {unit})")
    if options.xlim:
        first.set_xlim(options.xlim)
    if options.x == "tokens" and not options.log_x:
        first.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    left, right = first.get_xlim()
    shown = [y for x, y in drawing.drawn if left <= x <= right]
    bounds = limits(shown, drawing.cap, options.log_y)
    lines, near = draw_near_entropies(first.axhline, groups, CHART, *bounds, table)
    for axes in row[1:]:
        draw_near_entropies(axes.axhline, groups, CHART, *bounds, None)
    first.set_ylim(options.ylim or limits([*shown, *near], drawing.cap, options.log_y))
    loss_ticks(first.yaxis, options.log_y)
    handles = line_notes(groups, options, single)
    seeds = seeds_of(groups)
    title = "last validation loss" + (f", {options.center} of {seeds}" if seeds else "")
    return Legend(handles + notes + lines, len(handles), title if single else None)
