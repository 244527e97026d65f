"""What scripts/plot.py draws: loss curves, dots of final losses, sweeps of an option.

A chart draws groups, each a variant with its seeds or one run, and notes in a table what it draws.

A mean over seeds leaves diverged runs out and says so; they are crosses beyond the end of the loss
axis. Losses far above the untrained model's do not stretch that axis, or they would flatten the rest.
"""
from collections import namedtuple

import numpy as np
from matplotlib import ticker
from matplotlib.patches import Patch

from looks import (CROSS, GREY, PALE, X_LABELS, dot_of, how_it_stands, line_of, literal,
                   loss_ticks, note, option_label, put_legend, unit_of)
from series import Curve, curve_of, final_runs, limits, loss_cap, middle, sound

BEYOND = 1.03  # where marks beyond the loss axis stand, in lengths of the axis
STORY = 0.045  # from one row of them to the next
BANDS = {"range": "lowest to highest", "sd": "± standard deviation"}

Group = namedtuple("Group", "label key runs look")


def runs_of(groups):
    return [run for group in groups for run in group.runs]


def seeds_of(groups):
    """"5 seeds" or "3 to 5 seeds"; "" if each line is one run."""
    counts = sorted({len(group.runs) for group in groups})
    if counts[-1] == 1:
        return ""
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seeds"


def entropies_of(groups):
    return sorted({float(run.entropy) for run in runs_of(groups)
                   if isinstance(run.entropy, (int, float))})


def draw_entropies(draw, entropies, chart, table):
    """A dashed line for each; `draw` is axhline or axvline."""
    for entropy in entropies:
        table.add(chart, "", "entropy of the grammar", y=entropy)
    return [draw(entropy, linewidth=1, linestyle="--", zorder=1,
                 label=f"entropy of the grammar: {entropy:.3f}", **GREY) for entropy in entropies]


def draw_near_entropies(draw, groups, chart, low, high, table):
    """The same, but a line so far away that it would flatten what lies between low and high stands
    in the legend alone. Returns the lines' places too."""
    entropies = entropies_of(groups)
    near = [entropy for entropy in entropies if entropy > low - (high - low)]
    return draw_entropies(draw, near, chart, table) + [
        note(f"entropy of the grammar: {entropy:.3f} (further down)", linestyle="none")
        for entropy in entropies if entropy not in near], near


# ---- loss curves ---------------------------------------------------------------------------------

def draw_line(axes, curve, style, band_below):
    """The curve, paler from where on some of its runs are missing; True if there is such a part."""
    x, y, low, high, runs = curve
    fewer = np.flatnonzero(runs < max(runs, default=0))
    whole = fewer[0] if len(fewer) else len(x)
    axes.plot(x[:whole], y[:whole], **style)
    axes.fill_between(x[:whole], low[:whole], high[:whole], where=high[:whole] <= band_below,
                      color=style["color"], alpha=0.18, linewidth=0)
    if whole < len(x):
        axes.plot(x[max(whole - 1, 0):], y[max(whole - 1, 0):],
                  **{**style, "alpha": PALE * style.get("alpha", 1), "marker": "none"})
    return whole < len(x)


def draw_group(axes, group, options, width, cap, table):
    """A group's lines and crosses; returns its losses as drawn [(x, y)], and whether some are pale."""
    line = line_of(group.look, linewidth=1.8, markersize=4.5)
    drawn, paler = [], False

    def curve_over(column, width):
        curve = curve_of(sound(group.runs), options.x, column, options.center, options.band, width)
        there = curve.x > 0 if options.log_x else curve.x >= 0
        return Curve(*(values[there] for values in curve))

    if "train" in options.lines:
        curve = curve_over("train_loss", width)
        table.add_curve("curves", group.label, "training", curve)
        thin = {**line, "linewidth": 0.8, "alpha": 0.6, "marker": "none"}
        paler |= draw_line(axes, curve, thin, band_below=-1)
        drawn += zip(curve.x, curve.y)
    if "val" in options.lines:
        curve = curve_over("val_loss", 1)
        table.add_curve("curves", group.label, "validation", curve)
        line["markevery"] = max(1, len(curve.x) // 12)
        paler |= draw_line(axes, curve, line, band_below=cap)
        drawn += zip(curve.x, curve.y)
    for run in group.runs:
        if run.status != "diverged":
            continue
        x = float(run.columns[options.x][run.columns["step"].index(run.diverged_at)])
        table.add("curves", group.label, "diverged", x=x)
        if x > 0 or not options.log_x:
            axes.plot([x], [BEYOND], transform=axes.get_xaxis_transform(), clip_on=False,
                      **dot_of(group.look, **CROSS))
    return drawn, paler


def draw_curves(axes, groups, options, table):
    """Losses over steps, tokens or seconds: training thin, validation bold."""
    unit, cap = unit_of(runs_of(groups)), loss_cap(runs_of(groups))
    width = options.smooth or max(len(run.measured("train_loss"))
                                  for run in runs_of(groups)) // 50 | 1
    if options.log_x:
        axes.set_xscale("log")
    if options.log_y:
        axes.set_yscale("log")
    handles, drawn, paler = [], [], False
    for group in groups:
        points, pale = draw_group(axes, group, options, width, cap, table)
        drawn += points
        paler |= pale and bool(final_runs(group.runs))
        ended = final_runs(group.runs)
        last = f": {middle([run.losses()[-1] for run in ended], options.center):.3f}" if ended else ""
        handles.append(note(group.label + last + how_it_stands(group.runs),
                            **line_of(group.look, linewidth=1.8, markersize=4.5)))
    seeds = seeds_of(groups)
    if "val" in options.lines:
        handles.append(note(f"validation, {options.center} of {seeds}" if seeds else "validation",
                            linewidth=1.8))
        if seeds and options.band in BANDS:
            handles.append(Patch(alpha=0.25, linewidth=0, label=f"band: {BANDS[options.band]}", **GREY))
    if "train" in options.lines:
        smoothing = f", running mean of {width} logged values" if width > 1 else ""
        handles.append(note("training" + smoothing, linewidth=0.8, alpha=0.8))
    if paler:
        handles.append(note("paler: fewer seeds", linewidth=1.8, alpha=PALE))
    if any(run.status == "diverged" for run in runs_of(groups)):
        handles.append(note("diverged", linestyle="none", **CROSS))
    entropies = entropies_of(groups)
    handles += draw_entropies(axes.axhline, entropies, "curves", table)

    axes.set_xlabel(X_LABELS[options.x].format(unit=unit))
    axes.set_ylabel(f"loss (nats per {unit})")
    if options.xlim:
        axes.set_xlim(options.xlim)
    if options.x == "tokens" and not options.log_x:
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    left, right = axes.get_xlim()
    shown = [y for x, y in drawn if left <= x <= right] + entropies
    axes.set_ylim(options.ylim or limits(shown, cap, options.log_y))
    loss_ticks(axes.yaxis, options.log_y)
    title = f"last validation loss, {options.center}" if seeds else "last validation loss"
    return put_legend(axes, handles, title, len(groups))


# ---- dots of final losses ------------------------------------------------------------------------

def draw_seed(axes, group, run, place, y, cap, table):
    """One seed's dot; returns what of it the legend has to explain, and the losses shown."""
    seed = run.options.get("seed", place + 1)
    losses = run.losses()
    aside = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    if run.status == "diverged":
        table.add("dots", group.label, "diverged", x=seed)
        axes.plot([BEYOND], [y], **aside, **dot_of(group.look, **CROSS))
        return {"diverged"}, []
    if not losses:
        return set(), []
    final, best = losses[-1], min(losses)
    table.add("dots", group.label, "final", x=seed, y=final)
    table.add("dots", group.label, "best", x=seed, y=best)
    pale = {} if run.status == "done" else {"alpha": PALE}
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


def draw_dots(axes, groups, options, table):
    """A row for each group, a dot for each seed: the final loss, and the best where it is lower."""
    cap = loss_cap(runs_of(groups))
    if options.log_y:
        axes.set_xscale("log")
    rows, shown, used, at = [], [], set(), 0.0
    for group, before in zip(groups, [groups[0], *groups]):
        if len(group.key) > 1 and group.key[0] != before.key[0]:
            at += 0.4  # a gap between norms
        for place, run in enumerate(group.runs):
            y = at + 0.6 * (place + 0.5) / len(group.runs) - 0.3
            more_used, more_shown = draw_seed(axes, group, run, place, y, cap, table)
            used |= more_used
            shown += more_shown
        ended = final_runs(group.runs)
        if ended:
            center = middle([run.losses()[-1] for run in ended], options.center)
            table.add("dots", group.label, options.center, y=center, runs=len(ended))
            if len(ended) > 1 and center <= cap:
                used.add("center")
                axes.plot([center, center], [at - 0.36, at + 0.36], color="black", linewidth=1.5)
        rows.append(at)
        at += 1
    axes.set_yticks(rows, [literal(group.label) for group in groups])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(rows[-1] + 0.6, -0.6)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if not options.log_y:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    lines, near = draw_near_entropies(axes.axvline, groups, "dots",
                                      *limits(shown, cap, options.log_y), table)
    axes.set_xlim(limits([*shown, *near], cap, options.log_y))
    loss_ticks(axes.xaxis, options.log_y)
    axes.set_xlabel(f"final validation loss (nats per {unit_of(runs_of(groups))})")

    dot = {"marker": "o", "linestyle": "none", "markersize": 5}
    entries = {"seed": note("one seed" if seeds_of(groups) else "one run", **dot),
               "center": note(options.center, marker="|", linestyle="none", markersize=10,
                              markeredgewidth=1.5, color="black"),
               "best": note("from its best loss", linewidth=0.8, marker="|", markevery=[0]),
               "pale": note("paler: not at its end", alpha=PALE, **dot),
               "above": note("off the scale", **{**dot, "marker": ">"}),
               "diverged": note("diverged", linestyle="none", **CROSS)}
    handles = [entries[name] for name in entries if name in used] + lines
    for columns in range(min(3, len(handles)), 0, -1):  # as many as there is room for
        legend = axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=columns,
                             handletextpad=0.4, columnspacing=1.2)
        if legend.get_window_extent(axes.figure.canvas.get_renderer()).width <= axes.bbox.width:
            break


# ---- the loss against an option ------------------------------------------------------------------

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


def draw_sweep(axes, groups, options, table):
    """The final loss against an option: a dot for each seed, a line through the means; diverged
    runs are crosses above the axis, a row of them for each group."""
    option, cap = options.sweep, loss_cap(runs_of(groups))
    unit = unit_of(runs_of(groups))
    values = sorted({run.options[option] for run in runs_of(groups)})
    moved = scale_option(axes, values, options.log_x)
    if options.log_y:
        axes.set_yscale("log")
    handles, shown, used, story = [], [], set(), 0
    for number, group in enumerate(groups):
        aside = {"transform": axes.get_xaxis_transform(), "clip_on": False}
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
            lost = [("diverged", CROSS, [run for run in runs if run.status == "diverged"]),
                    ("above", {"marker": "^"}, [run for run in ended if run.losses()[-1] > cap])]
            for name, marker, which in lost:
                if not which:
                    continue
                used.add(name)
                story = max(story, round((top - BEYOND) / STORY) + 1)
                if name == "diverged":
                    table.add("sweep", group.label, name, x=float(value), runs=len(which))
                axes.plot([x], [top], **aside, **dot_of(group.look, **marker))
                if len(runs) > 1:
                    axes.annotate(f"{len(which)}/{len(runs)}", (x, top), xytext=(4.5, 0),
                                  xycoords=axes.get_xaxis_transform(), va="center",
                                  textcoords="offset points", fontsize="x-small",
                                  color=group.look.color, annotation_clip=False)
        axes.plot([x for x, _, _ in line], [y for _, y, _ in line],
                  **line_of(group.look, linewidth=1.5, marker="_", markersize=8))
        _, lowest, where = min(line, key=lambda point: point[1], default=(0, None, 0))
        best = "" if lowest is None else f": lowest {lowest:.3f} at {where:g}"
        handles.append(note(group.label + best, **line_of(group.look, linewidth=1.5, markersize=4.5)))
    seeds = max(len([run for run in group.runs if run.options[option] == value])
                for group in groups for value in values) > 1
    if seeds:
        handles.append(note("one seed", marker="o", markersize=3.5, linestyle="none"))
        handles.append(note(f"{options.center} of the seeds that did not diverge", linewidth=1.5,
                            marker="_", markersize=8))
    if "pale" in used:
        handles.append(note("paler: not at its end", marker="o", markersize=3.5, linestyle="none",
                            alpha=PALE))
    if "diverged" in used:
        handles.append(note("diverged", linestyle="none", **CROSS))
    if "above" in used:
        handles.append(note("off the scale", marker="^", linestyle="none", markersize=5))
    lines, near = draw_near_entropies(axes.axhline, groups, "sweep",
                                      *limits(shown, cap, options.log_y), table)
    handles += lines
    axes.set_ylim(options.ylim or limits([*shown, *near], cap, options.log_y))
    loss_ticks(axes.yaxis, options.log_y)
    left_out = [value for value in values if value <= 0 and axes.get_xscale() == "log"]
    axes.set_xlabel(option_label(option, unit) + (" (0 is not shown)" if left_out else ""))
    axes.set_ylabel(f"final validation loss (nats per {unit})")
    return put_legend(axes, handles, None, len(groups))


CHARTS = {"curves": (draw_curves, 6.4), "dots": (draw_dots, 4.6), "sweep": (draw_sweep, 6.4)}  # inches
