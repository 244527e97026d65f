"""The charts of losses: curves over steps, tokens or seconds, a panel for each facet; the final loss against an
option; a dot for each seed.
"""
from collections import Counter, namedtuple
from functools import partial
import math

from matplotlib import ticker
import numpy as np

from common.runs import ENDED
from common.variants import number_text
from plots.groups import (STORY, Curve, beyond, center_of, curve_of, draw_line, final_runs, label_rows, living_runs, notes_of,
                          row_places, runs_of, seed_notes, seed_place, seeds_of, sound)
from plots.looks import (CROSS, GREY, OPTION_LABELS, PALE, STUCK, Look, X_LABELS, dot_of, line_of, note, scale, status_of,
                         whole_ticks)

# ---- curves --------------------------------------------------------------------------------------

VALIDATION = {"linewidth": 1.8, "markersize": 4.5}
MARKERS = 12      # on a line, about
FEW = 2           # points that are dots, not a line: a line would show a course that nobody measured

# A column of log.csv, its name in the table, and how its lines look.
Loss = namedtuple("Loss", "column series style")
LOSSES = {"train": Loss("train_loss", "training", {"linewidth": 0.8, "marker": "none", "alpha": 0.6}),
          "eval-train": Loss("eval_train_loss", "training split", {"linewidth": 0.8, "marker": ".", "markersize": 3.5}),
          "val": Loss("val_loss", "validation", VALIDATION)}


def draw_loss(chart, axes, group, whose, name, width, place):
    """Draws one of the LOSSES of a group as a running mean of `width` values. A validation loss has markers and a band;
    `place` shifts the markers, so that those of different groups do not coincide. Returns the points [(x, y)]."""
    options, loss, style = chart.options, LOSSES[name], line_of(group.look, **LOSSES[name].style)
    curve = curve_of(sound(group.runs), options.x, loss.column, options.center, options.band, width)
    there = curve.x > 0 if options.log_x else curve.x >= 0
    curve = Curve(*(values[there] for values in curve))
    chart.table.add_curve(chart.name, whose, loss.series, curve)
    if len(curve.x) <= FEW:
        style.update(linestyle="none", marker=group.look.marker, markersize=4.5 * scale(), alpha=1)
    if name == "val":
        points = max((len(run.measured("val_loss")) for run in sound(group.runs)), default=0)
        every = max(1, points // MARKERS)
        style["markevery"] = (place % every, every)
    if draw_line(axes, curve, style, band_below=chart.cap if name == "val" else -1) and final_runs(group.runs):
        chart.used.add("pale")
    return list(zip(curve.x, curve.y))


def draw_cross(chart, axes, group, whose, run):
    x = float(run.columns[chart.options.x][run.columns["step"].index(run.diverged_at)])
    chart.add(whose, "diverged", x=x)
    if x > 0 or not chart.options.log_x:
        axes.plot([x], [1], transform=beyond(axes, False), clip_on=False, **dot_of(group.look, **CROSS))


def line_notes(groups, options, single):
    """The legend's entries of the lines; with the last losses if there is a single panel."""
    handles = {}
    for group in groups:
        ended = final_runs(group.runs)
        last = f": {center_of(ended, options.center):.3f}" if ended else ""
        text = group.label + (last + status_of(group.runs) if single else "")
        handles.setdefault(group.label, note(text, group.label, **line_of(group.look, **VALIDATION)))
    return list(handles.values())


def explanations(chart, width, single):
    """Explanations that the title of the legend and the axis lack. A single panel's title names the seeds."""
    notes = seed_notes(chart.groups, chart.options, not single) if "val" in chart.options.lines else []
    if "train" in chart.options.lines:
        smoothing = f", running mean of {width} logged values" if width > 1 else ""
        notes.append(note("training" + smoothing, "training", linewidth=0.8 * scale(), alpha=0.8))
    if "eval-train" in chart.options.lines and any(run.measured("eval_train_loss") for run in chart.runs):
        notes.append(note("training split, evaluated", marker=".", linewidth=0.8 * scale(),
                          markersize=3.5 * scale()))
    if "pale" in chart.used:
        notes.append(note("paler: fewer seeds", alpha=PALE, linewidth=1.8 * scale()))
    if any(run.status == "diverged" for run in chart.runs):
        notes.append(note("diverged", linestyle="none", **CROSS))
    stuck = sum(run.status == "stuck" for run in chart.runs)
    if stuck and not single:  # else each line's label has its number
        notes.append(note(f"{stuck} of {len(chart.runs)} runs are stuck, and in no mean with others", f"{stuck} stuck",
                          linestyle="none"))
    return notes


def draw_curves(chart):
    """Training losses are thin lines, validation losses bold ones. All panels have the same axes."""
    options, groups, first, drawn = chart.options, chart.groups, chart.row[0], []
    width = options.smooth or max(len(run.measured("train_loss")) for run in chart.runs) // 50 | 1
    single = len(chart.facets) == 1
    labels = list(dict.fromkeys(group.label for group in groups))
    for axes, facet in zip(chart.row, chart.facets):
        if options.log_x:
            axes.set_xscale("log")
        for group in facet.parts:
            whose = ", ".join(part.label for part in (facet.group, group) if part)
            for name in LOSSES:
                if name in options.lines:
                    drawn += draw_loss(chart, axes, group, whose, name, width if name == "train" else 1,
                                       labels.index(group.label))
            for run in group.runs:
                if run.status == "diverged":
                    draw_cross(chart, axes, group, whose, run)
        axes.set_xlabel(X_LABELS[options.x].format(unit=chart.unit))
    if options.x != "seconds" and not options.log_x:
        whole_ticks(first)
    if options.xlim:
        first.set_xlim(options.xlim)
    if options.x == "tokens" and not options.log_x:
        first.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    left, right = first.get_xlim()
    chart.shown += [y for x, y in drawn if left <= x <= right]
    entropies = chart.loss_axis("validation loss" if options.lines == ["val"] else "loss", options.ylim)
    chart.title_panels()
    notes = line_notes(groups, options, single) + explanations(chart, width, single) + entropies
    seeds = seeds_of(groups)
    title = "last validation loss" + (f", {options.center} of {seeds}" if seeds else "")
    return notes, title if single else None


# ---- the final loss: over an option, or in a row for each group ----------------------------------

def put(chart, at, losses, **style):
    """Draws a line or dots at these places of the axis that is not the loss axis."""
    chart.axes.plot(*((losses, at) if chart.rows else (at, losses)), **style)


MARKS_MAX = 0.25  # of a panel's height for marks above its axis
TOGETHER = Look(GREY["color"], "-", "o", False)  # of marks for several groups


def opacity(run):
    return {} if run.status in ENDED else {"alpha": PALE}


def put_final(chart, group, run, at, x, **style):
    """Draws the run's final loss as a dot, or as an open cross if it is stuck. x: its place in the table."""
    final, pale, stuck = run.losses()[-1], opacity(run), run.status == "stuck"
    chart.used.update(["pale"] * bool(pale) + ["stuck"] * stuck)
    chart.add(chart.whose(group), "stuck" if stuck else "final", x=x, y=final)
    chart.shown.append(final)
    put(chart, [at], [final], **dot_of(group.look, **{**style, **pale, **(STUCK if stuck else {})}))


def put_beyond(chart, look, name, at, story=0, **style):
    """Draws a mark beyond the loss axis: for a run that "diverged", is "stuck", or whose final loss is "above" the cap."""
    mark = {"diverged": CROSS, "stuck": STUCK}.get(name) or {"marker": ">" if chart.rows else "^"}
    chart.used.add(name)
    put(chart, [at], [1], clip_on=False, **dot_of(look, **mark, **style), transform=beyond(chart.axes, chart.rows, story))


def final_notes(chart, one, size, center):
    """The legend's entries. one, size: what a dot is, and its size; center: an entry."""
    dot = {"marker": "o", "linestyle": "none", "markersize": size}
    return notes_of({
        "seed": note(one, **dot), "center": center,
        "best": note("line to its best loss", linewidth=0.8, marker="|", markevery=[0]),
        "pale": note("paler: unfinished", alpha=PALE, **dot),
        "above": note("off the scale", marker=">" if chart.rows else "^", linestyle="none", markersize=5),
        "stuck": note("stuck: learned only how frequent characters are", "stuck", linestyle="none", **STUCK),
        "diverged": note("diverged", linestyle="none", **CROSS),
        "lost": note("1/2: one of two runs did not train", "1/2: 1 of 2 untrained", linestyle="none")}, chart.used)


def scale_option(axes, values, forced):
    """Sets a logarithmic axis where the values grow by factors, with a tick at each value (fit_ticks() leaves out what has no
    room). Returns a function that moves a value by a fraction of the axis; None if it has no place there."""
    logarithmic = forced or (min(values) > 0 and max(values) / min(values) >= 10)
    if logarithmic:
        axes.set_xscale("log")
    to_axis, from_axis = (np.log, np.exp) if logarithmic else (np.array, np.array)
    values = [value for value in values if value > 0 or not logarithmic]
    places = to_axis(values)
    length = np.ptp(places) or 1.0
    axes.set_xticks(values, map(number_text, values))
    axes.minorticks_off()
    axes.set_xlim(from_axis(places[0] - 0.06 * length), from_axis(places[-1] + 0.06 * length))
    return lambda value, fraction: from_axis(to_axis(value) + fraction * length) if value in values else None


def lost_at(chart, runs):
    """{value of the option: (those of its runs that did not train {why: number}, all of them)}."""
    found = {}
    for run in runs:
        lost, count = found.get(run.options[chart.options.sweep], (Counter(), 0))
        above = run in living_runs([run]) and run.losses()[-1] > chart.cap
        lost.update([run.status] * (run.status in ("diverged", "stuck")) + ["above"] * above)
        found[run.options[chart.options.sweep]] = lost, count + 1
    return found


def mark_lost(chart, look, lost, place, story=0):
    """Marks in a row above the axis how many runs of lost_at() did not train. place(value): where."""
    for value, (why, count) in lost.items():
        x = place(value)
        if not why or x is None:
            continue
        chart.used.add("lost")
        marked = next(filter(why.get, ("diverged", "above")), None)  # those that are stuck have marks at their losses
        if marked:
            put_beyond(chart, look, marked, x, story)
        chart.axes.annotate(f"{sum(why.values())}/{count}", (x, 1), xytext=(0, 3.5 * bool(marked)),
                            xycoords=beyond(chart.axes, False, story), textcoords="offset points", ha="center",
                            va="bottom" if marked else "center", fontsize="x-small", color=look.color, annotation_clip=False)


def draw_value(chart, group, value, runs, x):
    """Draws a dot for each of a group's runs with this value of the option. Returns the center of the final losses, or NaN."""
    for run in runs:
        if run.losses() and run.status != "diverged":
            put_final(chart, group, run, x, float(value), markersize=3.5, alpha=0.7)
    diverged, ended = sum(run.status == "diverged" for run in runs), living_runs(runs)
    if diverged:
        chart.add(chart.whose(group), "diverged", x=float(value), runs=diverged)
    if not ended:
        return math.nan
    losses, center = [run.losses()[-1] for run in ended], center_of(ended, chart.options.center)
    chart.add(chart.whose(group), chart.options.center, float(value), center, min(losses), max(losses), len(losses))
    return center


def draw_swept(chart, group, place, lost):
    """Draws a group's means, and a line with a gap where some seeds did not train: a mean of those that are left says little.
    Returns the lowest (loss, value) at which all seeds trained, or None."""
    means, whole = [], []
    for value in filter(lambda value: place(value) is not None, sorted(lost)):
        runs = [run for run in group.runs if run.options[chart.options.sweep] == value]
        means.append((place(value), draw_value(chart, group, value, runs, place(value))))
        whole.append((math.nan if lost[value][0] else means[-1][1], value))
        chart.used.update(["seed", "center"] if len(runs) > 1 else [])
    style = line_of(group.look, linewidth=1.5, marker="_", markersize=8)
    chart.axes.plot(*zip(*means), **{**style, "linestyle": "none"})
    chart.axes.plot([x for x, _ in means], [loss for loss, _ in whole], **{**style, "marker": "none"})
    return min((one for one in whole if one[0] == one[0]), default=None)


def draw_sweep(chart):
    """The final loss against an option, in a panel for each facet: a dot for each seed, a line through the means. Runs that did
    not train are counted above the axis: in a row for each group, or in one for all if these would squash the panel."""
    options, option, handles, stories = chart.options, chart.options.sweep, {}, 0
    values = sorted({run.options[option] for run in chart.runs})
    place_of = scale_option(chart.row[0], values, options.log_x)
    labels = list(dict.fromkeys(group.label for group in chart.groups))
    step = 0.012 * min(1, 5 / len(labels))  # from the dots of one group to those of the next
    for chart.axes, chart.facet in zip(chart.row, chart.facets):
        rows = []
        for group in chart.facet.parts:
            place = partial(place_of, fraction=step * (labels.index(group.label) - (len(labels) - 1) / 2))
            lost = lost_at(chart, group.runs)
            best = draw_swept(chart, group, place, lost)
            rows += [(group.look, lost, place)] if any(why for why, _ in lost.values()) else []
            text = f": lowest {best[0]:.3f} at {number_text(best[1])}" if best and len(chart.facets) == 1 else ""
            handles.setdefault(group.label, note(group.label + text, group.label, **line_of(group.look, linewidth=1.5, markersize=4.5)))
        if len(rows) * STORY > MARKS_MAX * 72 * chart.axes.figure.get_figheight() / chart.axes.get_gridspec().nrows:
            rows = [(TOGETHER, lost_at(chart, runs_of(chart.facet.parts)), partial(place_of, fraction=0))]
        for story, row in enumerate(rows):
            mark_lost(chart, *row, story)
        stories = max(len(rows), stories)
    entropies = chart.loss_axis("final validation loss", options.ylim)
    hidden = [value for value in values if place_of(value, 0) is None]
    label = OPTION_LABELS.get(option, option.replace("-", " "))
    for axes in chart.row:
        axes.set_xlabel(label.format(unit=chart.unit) + (" (0 is not shown)" if hidden else ""))
    chart.title_panels(stories)
    center = note(f"{options.center} of the seeds that trained; a line where all did", options.center, linewidth=1.5, marker="_",
                  markersize=8)
    return [*handles.values(), *final_notes(chart, "one seed", 3.5, center), *entropies], None


def draw_seed(chart, group, run, place, y):
    """Draws one seed's dot, or its mark beyond the axis."""
    seed, losses = run.options.get("seed", place + 1), run.losses()
    if run.status == "diverged":
        chart.add(group.label, "diverged", x=seed)
        put_beyond(chart, group.look, "diverged", y)
    elif losses:
        final, best = losses[-1], min(losses)
        put_final(chart, group, run, y, seed)
        chart.add(group.label, "best", x=seed, y=best)
        if final > chart.cap:
            put_beyond(chart, group.look, "above", y, **opacity(run))
        else:
            chart.used.add("seed")
        if best < final:
            put(chart, [y, y], [best, final], linewidth=0.8, zorder=1, color=group.look.color, marker="|",
                markevery=[0], **opacity(run))
            chart.used.add("best")
            chart.shown.append(best)


def draw_dots(chart):
    """A dot at the final loss of each seed, a thin line to its best loss if that is lower."""
    axes, groups, center = chart.axes, chart.groups, chart.options.center
    places = row_places(groups)
    for group, at in zip(groups, places):
        for place, run in enumerate(group.runs):
            draw_seed(chart, group, run, place, seed_place(at, place, len(group.runs)))
        ended = living_runs(group.runs)
        if ended:
            loss = center_of(ended, center)
            chart.add(group.label, center, y=loss, runs=len(ended))
            if len(ended) > 1 and loss <= chart.cap:
                chart.used.add("center")
                axes.plot([loss, loss], [at - 0.36, at + 0.36], color="black", linewidth=1.5)
    label_rows(axes, places, [group.label for group in groups])
    if not chart.options.log_y:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    entropies = chart.loss_axis("final validation loss")
    center = note(center, marker="|", linestyle="none", markersize=8, markeredgewidth=1.5, color="black")
    return final_notes(chart, "one seed" if seeds_of(groups) else "one run", 5, center) + entropies, None
