"""The chart of final losses: a row for each group, a dot for each seed."""
from matplotlib import ticker

from groups import (BEYOND, draw_near_entropies, label_rows, row_places, runs_of, seed_place,
                    seeds_of)
from legends import Legend
from looks import CROSS, PALE, dot_of, loss_ticks, note, unit_of
from runs import ENDED
from series import Point, final_runs, limits, loss_cap, middle


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
    lines, near = draw_near_entropies(axes.axvline, groups, "dots",
                                      *limits(shown, cap, options.log_y), table)
    axes.set_xlim(limits([*shown, *near], cap, options.log_y))
    loss_ticks(axes.xaxis, options.log_y)
    axes.set_xlabel(f"final validation loss (nats per {unit_of(runs_of(groups))})")

    dot = {"marker": "o", "linestyle": "none", "markersize": 5}
    entries = {"seed": note("one seed" if seeds_of(groups) else "one run", **dot),
               "center": note(options.center, marker="|", linestyle="none", markersize=8,
                              markeredgewidth=1.5, color="black"),
               "best": note("line to its best loss", linewidth=0.8, marker="|", markevery=[0]),
               "pale": note("paler: unfinished", alpha=PALE, **dot),
               "above": note("off the scale", **{**dot, "marker": ">"}),
               "diverged": note("diverged", linestyle="none", **CROSS)}
    return Legend([entries[name] for name in entries if name in used] + lines, 0, None)
