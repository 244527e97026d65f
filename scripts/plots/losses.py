"""The charts of losses: curves over steps, tokens or seconds, a panel for each facet; the final loss against an
option; a dot for each seed.
"""
from collections import namedtuple

from matplotlib import ticker
import numpy as np

from common.runs import ENDED, number_text
from plots.groups import (BEYOND, Curve, Point, STORY, curve_of, draw_line,
                          draw_entropies, final_runs, label_rows, loss_cap, middle,
                          row_places, runs_of, seed_notes, seed_place, seeds_of, sound)
from plots.looks import (CROSS, PALE, X_LABELS, dot_of, line_of, literal, loss_ticks, note,
                         option_label, scale, status_of, unit_of)

# ---- curves --------------------------------------------------------------------------------------

CHART = "curves"  # in the table
VALIDATION = {"linewidth": 1.8, "markersize": 4.5}
MARKERS = 12      # on a line, about

# A column of log.csv, its name in the table, and how its lines look.
Loss = namedtuple("Loss", "column series style")
LOSSES = {"train": Loss("train_loss", "training", {"linewidth": 0.8, "marker": "none", "alpha": 0.6}),
          "eval-train": Loss("eval_train_loss", "training split", {"linewidth": 0.8, "marker": ".", "markersize": 3.5}),
          "val": Loss("val_loss", "validation", VALIDATION)}


class Drawing:
    """What all panels have in common, and what was drawn in them.

    cap, width   losses above the cap are not shown; training losses are running means of `width`
    drawn, pale  points [(x, y)]; whether part of a line is a mean of fewer seeds than the rest
    """

    def __init__(self, runs, options, table):
        self.options, self.table, self.cap = options, table, loss_cap(runs)
        self.width = options.smooth or max(len(run.measured("train_loss")) for run in runs) // 50 | 1
        self.drawn, self.pale = [], False

    def line(self, axes, group, whose, name, place):
        """One of the LOSSES of a group; a validation loss has markers and a band. `place` shifts the markers along the line,
        so that those of different groups do not coincide."""
        options, loss, style = self.options, LOSSES[name], line_of(group.look, **LOSSES[name].style)
        curve = curve_of(sound(group.runs), options.x, loss.column, options.center, options.band,
                         self.width if name == "train" else 1)
        there = curve.x > 0 if options.log_x else curve.x >= 0
        curve = Curve(*(values[there] for values in curve))
        self.table.add_curve(CHART, whose, loss.series, curve)
        if name == "val":
            points = max((len(run.measured("val_loss")) for run in sound(group.runs)), default=0)
            every = max(1, points // MARKERS)
            style["markevery"] = (place % every, every)
        pale = draw_line(axes, curve, style, band_below=self.cap if name == "val" else -1)
        self.pale |= pale and bool(final_runs(group.runs))
        self.drawn += zip(curve.x, curve.y)

    def group(self, axes, group, whose, place):
        """The lines and crosses of a group."""
        for name in LOSSES:
            if name in self.options.lines:
                self.line(axes, group, whose, name, place)
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
    """Explanations that the title of the legend and the axis lack. A single panel's title names the seeds."""
    options, runs = drawing.options, runs_of(groups)
    notes = seed_notes(groups, options, not single) if "val" in options.lines else []
    if "train" in options.lines:
        smoothing = f", running mean of {drawing.width} logged values" if drawing.width > 1 else ""
        notes.append(note("training" + smoothing, "training", linewidth=0.8 * scale(), alpha=0.8))
    if "eval-train" in options.lines and any(run.measured("eval_train_loss") for run in runs):
        notes.append(note("training split, evaluated", marker=".", linewidth=0.8 * scale(),
                          markersize=3.5 * scale()))
    if drawing.pale:
        notes.append(note("paler: fewer seeds", alpha=PALE, linewidth=1.8 * scale()))
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
    lines, bounds = draw_entropies([axes.axhline for axes in row], groups, CHART, shown, drawing.cap, options.log_y, table)
    first.set_ylim(options.ylim or bounds)
    loss_ticks(first.yaxis, options.log_y)
    handles = line_notes(groups, options, single)
    seeds = seeds_of(groups)
    title = "last validation loss" + (f", {options.center} of {seeds}" if seeds else "")
    return handles + notes + lines, title if single else None


# ---- the final loss: against an option, and a dot for each seed ----------------------------------

SWEEP = "sweep"  # in the table
MARKS = {"diverged": CROSS, "above": {"marker": "^"}}  # of runs beyond the loss axis


def scale_option(axes, values, forced):
    """Sets a logarithmic axis where the values grow by factors, and a tick at each value if there is
    room. Returns a function that moves a value by a fraction of the axis."""
    logarithmic = forced or (min(values) > 0 and max(values) / min(values) >= 10)
    if logarithmic:
        axes.set_xscale("log")
    to_axis, from_axis = (np.log, np.exp) if logarithmic else (np.array, np.array)
    places = to_axis([value for value in values if value > 0 or not logarithmic])
    length = np.ptp(places) or 1.0
    axes.set_xlim(from_axis(places[0] - 0.06 * length), from_axis(places[-1] + 0.06 * length))
    if len(places) < 2 or np.diff(places).min() >= 0.07 * length:
        axes.xaxis.set_major_locator(ticker.FixedLocator(from_axis(places)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: number_text(x)))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    return lambda value, fraction: from_axis(to_axis(value) + fraction * length)


def runs_at(group, option, value):
    return [run for run in group.runs if run.options[option] == value]


def final_notes(used, one, center, size, above):
    """The legend's entries of what was used. one: what a dot is; center: an entry; size of dots; marker of losses above the
    cap."""
    dot = {"marker": "o", "linestyle": "none", "markersize": size}
    entries = {"seed": note(one, **dot),
               "center": center,
               "best": note("line to its best loss", linewidth=0.8, marker="|", markevery=[0]),
               "pale": note("paler: unfinished", alpha=PALE, **dot),
               "above": note("off the scale", marker=above, linestyle="none", markersize=5),
               "diverged": note("diverged", linestyle="none", **CROSS)}
    return [entries[name] for name in entries if name in used]


class SweepDrawing:
    """The chart under way.

    shown   the losses drawn on the axis
    used    what the legend has to explain
    story   the next free row of marks above the axis
    """

    def __init__(self, axes, groups, options, table):
        self.axes, self.options, self.table = axes, options, table
        self.option, self.cap = options.sweep, loss_cap(runs_of(groups))
        self.values = sorted({run.options[self.option] for run in runs_of(groups)})
        self.moved = scale_option(axes, self.values, options.log_x)
        if options.log_y:
            axes.set_yscale("log")
        self.shown, self.used, self.story = [], set(), 0
        if max(len(runs_at(group, self.option, value))
               for group in groups for value in self.values) > 1:
            self.used.update(["seed", "center"])

    def place_of(self, value, shift):
        """The value's place on the axis, or None: a logarithmic axis has no place for it."""
        return None if value <= 0 and self.axes.get_xscale() == "log" else self.moved(value, shift)

    def group(self, group, shift):
        """A dot for each seed and a line through the centers. Returns the legend's entry."""
        line, story = [], self.story
        for value in self.values:
            x = self.place_of(value, shift)
            if x is None:
                continue
            runs = runs_at(group, self.option, value)
            self.seeds(group, value, x, runs)
            ended = final_runs(runs)
            if ended:
                losses = [run.losses()[-1] for run in ended]
                line.append((x, middle(losses, self.options.center), value))
                self.table.add(SWEEP, group.label, self.options.center,
                               Point(float(value), line[-1][1], min(losses), max(losses), len(losses)))
            self.lost(group, value, (x, BEYOND + STORY * story), runs)
        self.axes.plot([x for x, _, _ in line], [y for _, y, _ in line],
                       **line_of(group.look, linewidth=1.5, marker="_", markersize=8))
        _, lowest, where = min(line, key=lambda point: point[1], default=(0, None, 0))
        best = "" if lowest is None else f": lowest {lowest:.3f} at {number_text(where)}"
        return note(group.label + best, group.label,
                    **line_of(group.look, linewidth=1.5, markersize=4.5))

    def seeds(self, group, value, x, runs):
        for run in runs:
            if run.status != "diverged" and run.losses():
                loss, done = run.losses()[-1], run.status in ENDED
                self.table.add(SWEEP, group.label, "final", Point(x=float(value), y=loss))
                self.axes.plot([x], [loss], **dot_of(group.look, markersize=3.5,
                                                     alpha=0.7 if done else PALE))
                self.used.update([] if done else ["pale"])
                self.shown.append(loss)

    def lost(self, group, value, place, runs):
        """Marks above the axis for runs that diverged, and for runs whose final loss is above the cap."""
        lost = {"diverged": [run for run in runs if run.status == "diverged"],
                "above": [run for run in final_runs(runs) if run.losses()[-1] > self.cap]}
        for name, which in lost.items():
            if which:
                self.used.add(name)
                self.story = max(self.story, round((place[1] - BEYOND) / STORY) + 1)
                self.mark(group.look, name, place, (len(which), len(runs)))
        if lost["diverged"]:
            self.table.add(SWEEP, group.label, "diverged",
                           Point(x=float(value), runs=len(lost["diverged"])))

    def mark(self, look, name, place, counts):
        """A mark, with the numbers of the lost runs and of all runs."""
        above = self.axes.get_xaxis_transform()
        self.axes.plot(*([at] for at in place), transform=above, clip_on=False,
                       **dot_of(look, **MARKS[name]))
        if counts[1] > 1:
            self.axes.annotate(f"{counts[0]}/{counts[1]}", place, xytext=(4.5, 0), xycoords=above,
                               va="center", textcoords="offset points", fontsize="x-small",
                               color=look.color, annotation_clip=False)


def draw_sweep(row, facets, options, table):
    """The final loss against an option: a dot for each seed, a line through the means. Diverged runs
    are crosses above the axis, a row of them for each group."""
    (axes,), groups = row, facets[0].parts
    drawing, unit = SweepDrawing(axes, groups, options, table), unit_of(runs_of(groups))
    step = 0.012 * min(1, 5 / len(groups))  # from the dots of one group to those of the next
    handles = [drawing.group(group, step * (number - (len(groups) - 1) / 2))
               for number, group in enumerate(groups)]
    lines, bounds = draw_entropies([axes.axhline], groups, SWEEP, drawing.shown, drawing.cap, options.log_y, table)
    axes.set_ylim(options.ylim or bounds)
    loss_ticks(axes.yaxis, options.log_y)
    hidden = [value for value in drawing.values if drawing.place_of(value, 0) is None]
    axes.set_xlabel(option_label(options.sweep, unit) + (" (0 is not shown)" if hidden else ""))
    axes.set_ylabel(f"final validation loss (nats per {unit})")
    center = note(f"{options.center} of the seeds that did not diverge", options.center, linewidth=1.5, marker="_",
                  markersize=8)
    return handles + final_notes(drawing.used, "one seed", center, 3.5, "^") + lines, None


def draw_seed(axes, group, run, place, y, cap, table):
    """Draws one seed's dot. Returns the legend's entries that it needs, and the losses shown."""
    seed = run.options.get("seed", place + 1)
    losses = run.losses()
    aside = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    if run.status == "diverged":
        table.add("dots", group.label, "diverged", Point(x=seed))
        axes.plot([BEYOND], [y], **aside, **dot_of(group.look, **CROSS))
        return {"diverged"}, []
    if not losses:
        return set(), []
    final, best = losses[-1], min(losses)
    table.add("dots", group.label, "final", Point(x=seed, y=final))
    table.add("dots", group.label, "best", Point(x=seed, y=best))
    pale = {} if run.status in ENDED else {"alpha": PALE}
    used, shown = {"pale"} if pale else set(), []
    if final <= cap:
        axes.plot([final], [y], **dot_of(group.look, **pale))
        used.add("seed")
        shown.append(final)
    else:
        axes.plot([BEYOND], [y], **aside, **dot_of(group.look, marker=">", **pale))
        used.add("above")
    if best < final:
        axes.plot([best, final], [y, y], linewidth=0.8, zorder=1, color=group.look.color, marker="|",
                  markevery=[0], **pale)
        used.add("best")
        shown.append(best)
    return used, shown


def draw_dots(row, facets, options, table):
    """A dot at the final loss of each seed, a thin line to its best loss if that is lower."""
    (axes,), groups = row, facets[0].parts
    cap = loss_cap(runs_of(groups))
    if options.log_y:
        axes.set_xscale("log")
    places, shown, used = row_places(groups), [], set()
    for group, at in zip(groups, places):
        for place, run in enumerate(group.runs):
            y = seed_place(at, place, len(group.runs))
            more_used, more_shown = draw_seed(axes, group, run, place, y, cap, table)
            used |= more_used
            shown += more_shown
        ended = final_runs(group.runs)
        if ended:
            center = middle([run.losses()[-1] for run in ended], options.center)
            table.add("dots", group.label, options.center, Point(y=center, runs=len(ended)))
            if len(ended) > 1 and center <= cap:
                used.add("center")
                axes.plot([center, center], [at - 0.36, at + 0.36], color="black", linewidth=1.5)
    label_rows(axes, places, [group.label for group in groups])
    if not options.log_y:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    lines, bounds = draw_entropies([axes.axvline], groups, "dots", shown, cap, options.log_y, table)
    axes.set_xlim(bounds)
    loss_ticks(axes.xaxis, options.log_y)
    axes.set_xlabel(f"final validation loss (nats per {unit_of(runs_of(groups))})")
    center = note(options.center, marker="|", linestyle="none", markersize=8, markeredgewidth=1.5, color="black")
    return final_notes(used, "one seed" if seeds_of(groups) else "one run", center, 5, ">") + lines, None
