"""The charts of losses: curves over steps, tokens or seconds, a panel for each facet; the final loss against an
option; a dot for each seed.
"""
from collections import namedtuple

from matplotlib import ticker
import numpy as np

from common.runs import ENDED
from common.variants import number_text
from plots.groups import (BEYOND, Curve, STORY, center_of, curve_of, draw_line, final_runs, label_rows, living_runs, notes_of,
                          row_places, seed_notes, seed_place, seeds_of, sound)
from plots.looks import (CROSS, OPTION_LABELS, PALE, STUCK, X_LABELS, dot_of, line_of, literal, note, scale, status_of,
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
        axes.plot([x], [BEYOND], transform=axes.get_xaxis_transform(), clip_on=False, **dot_of(group.look, **CROSS))


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
        if facet.group:
            axes.set_title(literal(facet.group.label), fontsize="medium")
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
    notes = line_notes(groups, options, single) + explanations(chart, width, single) + entropies
    seeds = seeds_of(groups)
    title = "last validation loss" + (f", {options.center} of {seeds}" if seeds else "")
    return notes, title if single else None


# ---- the final loss: over an option, or in a row for each group ----------------------------------

def put(chart, at, losses, **style):
    """Draws a line or dots at these places of the axis that is not the loss axis."""
    chart.row[0].plot(*((losses, at) if chart.rows else (at, losses)), **style)


def opacity(run):
    return {} if run.status in ENDED else {"alpha": PALE}


def put_final(chart, group, run, at, x, **style):
    """Draws the run's final loss as a dot, or as an open cross if it is stuck. x: its place in the table."""
    final, pale, stuck = run.losses()[-1], opacity(run), run.status == "stuck"
    chart.used.update(["pale"] * bool(pale) + ["stuck"] * stuck)
    chart.add(group.label, "stuck" if stuck else "final", x=x, y=final)
    chart.shown.append(final)
    put(chart, [at], [final], **dot_of(group.look, **{**style, **pale, **(STUCK if stuck else {})}))


def put_beyond(chart, look, name, at, story=0, **style):
    """Draws a mark beyond the loss axis: for a run that "diverged", is "stuck", or whose final loss is "above" the cap."""
    axes = chart.row[0]
    mark = {"diverged": CROSS, "stuck": STUCK}.get(name) or {"marker": ">" if chart.rows else "^"}
    chart.used.add(name)
    put(chart, [at], [BEYOND + STORY * story], clip_on=False, **dot_of(look, **mark, **style),
        transform=axes.get_yaxis_transform() if chart.rows else axes.get_xaxis_transform())


def final_notes(chart, one, size, center):
    """The legend's entries. one, size: what a dot is, and its size; center: an entry."""
    dot = {"marker": "o", "linestyle": "none", "markersize": size}
    return notes_of({
        "seed": note(one, **dot), "center": center,
        "best": note("line to its best loss", linewidth=0.8, marker="|", markevery=[0]),
        "pale": note("paler: unfinished", alpha=PALE, **dot),
        "above": note("off the scale", marker=">" if chart.rows else "^", linestyle="none", markersize=5),
        "stuck": note("stuck: learned only how frequent characters are", "stuck", linestyle="none", **STUCK),
        "diverged": note("diverged", linestyle="none", **CROSS)}, chart.used)


def scale_option(axes, values, forced):
    """Sets a logarithmic axis where the values grow by factors, and a tick at each value if there is
    room. Returns a function that moves a value by a fraction of the axis; None if it has no place there."""
    logarithmic = forced or (min(values) > 0 and max(values) / min(values) >= 10)
    if logarithmic:
        axes.set_xscale("log")
    to_axis, from_axis = (np.log, np.exp) if logarithmic else (np.array, np.array)
    if not logarithmic and all(isinstance(value, int) for value in values):
        whole_ticks(axes)
    values = [value for value in values if value > 0 or not logarithmic]
    places = to_axis(values)
    length = np.ptp(places) or 1.0
    if len(places) < 2 or np.diff(places).min() >= 0.07 * length:
        axes.set_xticks(values, map(number_text, values))
        axes.minorticks_off()
    axes.set_xlim(from_axis(places[0] - 0.06 * length), from_axis(places[-1] + 0.06 * length))
    return lambda value, fraction: from_axis(to_axis(value) + fraction * length) if value in values else None


def draw_value(chart, group, value, runs, x, story):
    """Draws a dot for each of a group's runs with this value of the option, and counts those without one by marks in this
    row above the axis. Returns the center of the final losses, or None, and whether there are such marks."""
    axes, ended, center = chart.row[0], living_runs(runs), None
    lost = {"diverged": [run for run in runs if run.status == "diverged"], "stuck": [run for run in runs if run.status == "stuck"],
            "above": [run for run in ended if run.losses()[-1] > chart.cap]}
    for run in runs:
        if run.losses() and run not in lost["diverged"]:
            put_final(chart, group, run, x, float(value), markersize=3.5, alpha=0.7)
    if ended:
        losses, center = [run.losses()[-1] for run in ended], center_of(ended, chart.options.center)
        chart.add(group.label, chart.options.center, float(value), center, min(losses), max(losses), len(losses))
    for name in filter(lost.get, lost):
        put_beyond(chart, group.look, name, x, story)
        if len(runs) > 1:
            axes.annotate(f"{len(lost[name])}/{len(runs)}", (x, BEYOND + STORY * story), xytext=(4.5, 0),
                          xycoords=axes.get_xaxis_transform(), textcoords="offset points", va="center",
                          fontsize="x-small", color=group.look.color, annotation_clip=False)
    if lost["diverged"]:
        chart.add(group.label, "diverged", x=float(value), runs=len(lost["diverged"]))
    return center, any(lost.values())


def draw_sweep(chart):
    """The final loss against an option: a dot for each seed, a line through the means. Diverged runs
    are crosses above the axis, a row of them for each group."""
    (axes,), groups, options, option = chart.row, chart.groups, chart.options, chart.options.sweep
    values = sorted({run.options[option] for run in chart.runs})
    place_of = scale_option(axes, values, options.log_x)
    step = 0.012 * min(1, 5 / len(groups))  # from the dots of one group to those of the next
    handles, story = [], 0
    for number, group in enumerate(groups):
        line, whole, lost = [], [], False
        for value in values:
            runs = [run for run in group.runs if run.options[option] == value]
            x = place_of(value, step * (number - (len(groups) - 1) / 2))
            if x is not None and runs:
                center, marked = draw_value(chart, group, value, runs, x, story)
                lost |= marked
                line += [(x, center)] if center is not None else []
                whole += [(center, value)] if center is not None and not marked else []  # all of its seeds trained
                chart.used.update(["seed", "center"] if len(runs) > 1 else [])
        story += lost
        axes.plot([x for x, _ in line], [y for _, y in line],
                  **line_of(group.look, linewidth=1.5, marker="_", markersize=8))
        lowest, where = min(whole, default=(None, 0))
        best = "" if lowest is None else f": lowest {lowest:.3f} at {number_text(where)}"
        handles.append(note(group.label + best, group.label, **line_of(group.look, linewidth=1.5, markersize=4.5)))
    entropies = chart.loss_axis("final validation loss", options.ylim)
    hidden = [value for value in values if place_of(value, 0) is None]
    label = OPTION_LABELS.get(option, option.replace("-", " "))
    axes.set_xlabel(label.format(unit=chart.unit) + (" (0 is not shown)" if hidden else ""))
    center = note(f"{options.center} of the seeds that trained", options.center, linewidth=1.5, marker="_",
                  markersize=8)
    return handles + final_notes(chart, "one seed", 3.5, center) + entropies, None


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
    (axes,), groups, center = chart.row, chart.groups, chart.options.center
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
