"""The chart of a sweep: the final loss against an option of ./train."""
import numpy as np
from matplotlib import ticker

from groups import BEYOND, STORY, draw_near_entropies, runs_of
from legends import Legend
from looks import CROSS, PALE, dot_of, line_of, loss_ticks, note, option_label, unit_of
from series import final_runs, limits, loss_cap, middle

def scale_option(axes, values, forced):
    """Logarithmic where values grow by factors; a tick at every value if there is room for it.
    Returns a function that moves a value by a share of the axis."""
    logarithmic = forced or (min(values) > 0 and max(values) / min(values) >= 10)
    if logarithmic:
        axes.set_xscale("log")
    to_axis, from_axis = (np.log, np.exp) if logarithmic else (np.array, np.array)
    places = to_axis([value for value in values if value > 0 or not logarithmic])
    length = np.ptp(places) or 1.0
    axes.set_xlim(from_axis(places[0] - 0.06 * length), from_axis(places[-1] + 0.06 * length))
    if len(places) < 2 or np.diff(places).min() >= 0.07 * length:
        axes.xaxis.set_major_locator(ticker.FixedLocator(from_axis(places)))
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    return lambda value, share: from_axis(to_axis(value) + share * length)


LOST = {"diverged": CROSS, "above": {"marker": "^"}}


def draw_lost(axes, look, place, name, counts):
    """A mark above the axis for runs that are not on it, and how many of how many they are."""
    axes.plot(*([at] for at in place), transform=axes.get_xaxis_transform(), clip_on=False,
              **dot_of(look, **LOST[name]))
    if counts[1] > 1:
        axes.annotate(f"{counts[0]}/{counts[1]}", place, xytext=(4.5, 0),
                      xycoords=axes.get_xaxis_transform(), va="center", textcoords="offset points",
                      fontsize="x-small", color=look.color, annotation_clip=False)


def notes_of(used, options):
    """The legend's entries that explain what was used."""
    seed = {"marker": "o", "markersize": 3.5, "linestyle": "none"}
    notes = []
    if "seed" in used:
        notes.append(note("one seed", **seed))
        notes.append(note(f"{options.center} of the seeds that did not diverge", options.center,
                          linewidth=1.5, marker="_", markersize=8))
    if "pale" in used:
        notes.append(note("paler: not at its end", alpha=PALE, **seed))
    if "diverged" in used:
        notes.append(note("diverged", linestyle="none", **CROSS))
    if "above" in used:
        notes.append(note("off the scale", marker="^", linestyle="none", markersize=5))
    return notes


def draw_sweep(row, facets, options, table):
    """The final loss against an option: a dot for each seed, a line through the means; diverged
    runs are crosses above the axis, a row of them for each group."""
    (axes,), groups = row, facets[0].parts
    option, cap = options.sweep, loss_cap(runs_of(groups))
    unit = unit_of(runs_of(groups))
    values = sorted({run.options[option] for run in runs_of(groups)})
    moved = scale_option(axes, values, options.log_x)
    if options.log_y:
        axes.set_yscale("log")
    handles, shown, used, story = [], [], set(), 0
    for number, group in enumerate(groups):
        share = 0.012 * (number - (len(groups) - 1) / 2) * min(1, 5 / len(groups))
        line, top = [], BEYOND + STORY * story
        for value in values:
            if value <= 0 and axes.get_xscale() == "log":
                continue
            runs = [run for run in group.runs if run.options[option] == value]
            x = moved(value, share)
            for run in runs:
                if run.status != "diverged" and run.losses():
                    loss = run.losses()[-1]
                    table.add("sweep", group.label, "final", x=float(value), y=loss)
                    done = run.status == "done"
                    axes.plot([x], [loss], **dot_of(group.look, markersize=3.5,
                                                    alpha=0.7 if done else PALE))
                    used.update([] if done else ["pale"])
                    shown.append(loss)
            ended = final_runs(runs)
            if ended:
                losses = [run.losses()[-1] for run in ended]
                line.append((x, middle(losses, options.center), value))
                table.add("sweep", group.label, options.center, x=float(value), y=line[-1][1],
                          low=min(losses), high=max(losses), runs=len(losses))
            lost = {"diverged": [run for run in runs if run.status == "diverged"],
                    "above": [run for run in ended if run.losses()[-1] > cap]}
            for name, which in lost.items():
                if which:
                    used.add(name)
                    story = max(story, round((top - BEYOND) / STORY) + 1)
                    draw_lost(axes, group.look, (x, top), name, (len(which), len(runs)))
            if lost["diverged"]:
                table.add("sweep", group.label, "diverged", x=float(value), runs=len(lost["diverged"]))
        axes.plot([x for x, _, _ in line], [y for _, y, _ in line],
                  **line_of(group.look, linewidth=1.5, marker="_", markersize=8))
        _, lowest, where = min(line, key=lambda point: point[1], default=(0, None, 0))
        best = "" if lowest is None else f": lowest {lowest:.3f} at {where:g}"
        handles.append(note(group.label + best, group.label,
                            **line_of(group.look, linewidth=1.5, markersize=4.5)))
    if max(len([run for run in group.runs if run.options[option] == value])
           for group in groups for value in values) > 1:
        used.add("seed")
    handles += notes_of(used, options)
    lines, near = draw_near_entropies(axes.axhline, groups, "sweep",
                                      *limits(shown, cap, options.log_y), table)
    handles += lines
    axes.set_ylim(options.ylim or limits([*shown, *near], cap, options.log_y))
    loss_ticks(axes.yaxis, options.log_y)
    left_out = [value for value in values if value <= 0 and axes.get_xscale() == "log"]
    axes.set_xlabel(option_label(option, unit) + (" (0 is not shown)" if left_out else ""))
    axes.set_ylabel(f"final validation loss (nats per {unit})")
    return Legend(handles, len(groups), None)
