"""Pictures of the page: a row of dots for each variant, a metric over an option, or a difference over training, and the
small interval beside a verdict.

Points are seeds, and intervals are 99 %; two seeds have none, since it would fill the picture. A grey band is the margin
within which losses count as equal. Pictures are SVG with text as text. The same facts give the same bytes.

The page links claims and pictures. A picture belongs to one experiment, cell and spec (experiments.py). It shows a
claim's facts if the claim reads the picture's metric of one of its variants. A picture of a difference over training shows
them if the claim reads the losses of both its norms.
"""
import math
import textwrap

import matplotlib
from matplotlib.figure import Figure
import numpy as np

from claims.fact_table import variant_options, variant_text
from claims.findings import name_of
from claims.inference import BOOTSTRAP_LEAST, MARGIN, bootstrap_interval
from claims.quantities import LOSSES, NATS, RATIOS, exponential, over_seeds
from plots.looks import COLOURS, literal
from plots.svg import compact

# ---- which picture shows what a claim reads ------------------------------------------------------

def fits(options, spec):
    """Whether a variant with these options is in a picture. In `where` True is any value of the option, and None
    is without it."""
    return all(name in options if value is True else options.get(name) == (value and str(value))
               for name, value in spec["where"].items())


def course_variants(spec):
    """The two variants of the difference in a picture."""
    return [variant_text({"norm": norm, "rate": "tuned"}) for norm in spec["pair"]]


def shows(spec, experiment, needs):
    """needs: {(experiment, metric, variant)}, as those of a claim."""
    read = [(metric, variant) for one, metric, variant in needs if one == experiment]
    if spec["kind"] == "course":
        return set(course_variants(spec)) <= {variant for metric, variant in read
                                         if metric.startswith(spec["metric"])}
    return any(metric == spec["metric"] and fits(variant_options(variant), spec) and
               ("x" not in spec or spec["x"] in variant_options(variant)) for metric, variant in read)


def of_claim(claim, outcome, pictures):
    """The pictures that show what the claim reads, first those of the outcome that decides it. A picture is a
    dictionary with "experiment", "cell" and "spec"."""
    def decides(picture):
        return outcome is not None and picture["cell"] == outcome.cell and \
            shows(picture["spec"], picture["experiment"], outcome.reading.needs())
    found = [one for one in pictures if shows(one["spec"], one["experiment"], claim.needs())]
    return sorted(found, key=lambda one: not decides(one))


# ---- the pictures --------------------------------------------------------------------------------

ROWS_MAX = 24
LABEL_WIDTH = 34          # characters of an upright label, about the height of a picture
PERPLEXITY_RANGE = 1.5  # nats, beyond which per cents of perplexity say nothing
NORMS = ("none", "ln", "bn", "rms", "gn", "scale", "dyt", "in")
PLACES = {"pre": COLOURS[-2], "post": COLOURS[-1]}
ALSO_NATS = ("own_gap", "noise_cost", "rate_sensitivity", "gap_at", "weights_", "activations_")  # how metrics in nats begin
AXES = {"rate": "learning rate", "batch": "sequences in a batch", "depth": "layers", "width": "channels",
        "length": "characters in a sequence"}  # options over which pictures are drawn
LOGARITHMIC = ("stream_growth_start", "gradient_ratio_start")  # axes


def colour_of(value):
    """The norm's colour, the same in every picture."""
    return COLOURS[NORMS.index(value)] if value in NORMS else PLACES.get(value, COLOURS[-2])


def colours_of(names):
    """{line: its colour}. Lines that are no norms or placements have different ones, in their order."""
    rest = [name for name in sorted(names) if name not in (*NORMS, *PLACES)]
    return {name: COLOURS[rest.index(name) % len(COLOURS)] if name in rest else colour_of(name) for name in names}


def matching(facts, experiment, cell, spec):
    """{variant: options} that are in a picture."""
    found = {variant: variant_options(variant) for variant in facts.variants(experiment, cell, spec["metric"])}
    return {variant: options for variant, options in found.items() if fits(options, spec)}


def label_of(options, without):
    names = sorted((name for name in options if name not in without),
                   key=lambda name: (name != "norm", name != "placement"))
    return ", ".join(options[name] if name in ("norm", "placement") else f"{name} {options[name]}"
                     for name in names)


def finite_estimate(facts, experiment, cell, metric, variant):
    """The estimate over the seeds whose values are finite, and the number of the others."""
    series = facts.series(experiment, cell, metric, variant)
    finite = {seed: value for seed, value in series.items() if math.isfinite(value)}
    return mean_of(metric, finite), len(series) - len(finite)


def mean_of(metric, values):
    """Over seeds, with its interval: of a ratio the geometric one, as rules take it, unless a value is 0."""
    if metric in RATIOS and all(value > 0 for value in values.values()):
        return exponential(over_seeds({seed: math.log(value) for seed, value in values.items()}))
    return over_seeds(values)


def draw_estimate(axes, estimate, place, colour, upright):
    def spots(values):
        return ([place] * len(values), values)[::1 if upright else -1]
    axes.plot(*spots(list(estimate.seeds.values())), "o", markerfacecolor="white", markeredgecolor=colour, markersize=3.5, zorder=3)
    if math.isfinite(estimate.low) and estimate.n > 2:
        axes.plot(*spots([estimate.low, estimate.high]), "-", color=colour, linewidth=1.6)
    axes.plot(*spots([estimate.value]), "D", color=colour, markersize=4.5, zorder=4)


def view_limits(axes, values, along, cut=True):
    """Limits that show the seeds; cut: except for those far outside (Tukey's outer fences: three times the
    distance of the quartiles beyond them), as losses of runs that failed; long intervals run out of the
    picture. Returns what is to be said of the values left out."""
    first, third = np.percentile(values, [25, 75])
    fence = 3 * (third - first)
    near = [value for value in values if first - fence <= value <= third + fence] if fence and cut else values
    low, high = min(near), max(near)
    room = (0.25 if len(near) == len(values) else 0.1) * (high - low) or abs(high) * 0.05 or 0.1
    least = max(low - room, 0) if low >= 0 else low - room
    (axes.set_xlim if along == "x" else axes.set_ylim)(least, high + room)
    far = [value for value in values if not low <= value <= high]
    ends = " to ".join(dict.fromkeys(f"{value:.4g}" for value in (min(far), max(far)))) if far else ""
    return f" Outside of the picture: {len(far)} of {len(values)} runs, {ends}." if far else ""


def dots(axes, facts, experiment, cell, spec):
    """Draws a row for each variant. Returns [(label, value)], the height, and what the picture leaves out,
    as all of KINDS."""
    rows = list(matching(facts, experiment, cell, spec).items())[:ROWS_MAX]
    fixed = [name for name, value in spec["where"].items() if value is not True]
    shown, values, places = [], [], []
    for place, (variant, options) in enumerate(rows):
        estimate, missing = finite_estimate(facts, experiment, cell, spec["metric"], variant)
        label = label_of(options, fixed) or variant
        if estimate is not None:
            draw_estimate(axes, estimate, place, colour_of(options.get("norm")), False)
            values += estimate.seeds.values()
            shown.append((label, estimate.value))
        rows[place] = f"{label} ({missing} diverged)" if missing else label
        places.append((place, estimate))
    axes.set_yticks(range(len(rows)), [literal(label) for label in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", color="0.92")
    axes.set_xlabel(literal(words_of(spec["metric"])))
    height, outside = 0.7 + 0.24 * len(rows), ""
    if values:
        outside = view_limits(axes, values, "x", spec["metric"] in LOSSES)
        draw_rows_outside(axes, places)
        if spec["metric"] in LOSSES:
            draw_margin(axes.axvspan, dict(shown).get("ln"))
            height += perplexity_axis(axes.secondary_xaxis, "top", shown, values)
    return shown, height, outside


def draw_rows_outside(axes, rows):
    """An arrow and the mean, in the rows all of whose seeds are outside of the picture. rows: [(place, estimate)]"""
    low, high = axes.get_xlim()
    for place, estimate in rows:
        if estimate is not None and not any(low <= value <= high for value in estimate.seeds.values()):
            right = estimate.value > high
            text = f"{estimate.value:.3g} →" if right else f"← {estimate.value:.3g}"
            axes.text(0.99 if right else 0.01, place, text, transform=axes.get_yaxis_transform(),
                      ha="right" if right else "left", va="center", fontsize=8)


def draw_points_outside(axes, groups, colours):
    """An arrow and the mean where that is above or below the picture. groups: {line: [(x, estimate)]}"""
    low, high = axes.get_ylim()
    for place, (name, points) in enumerate(groups.items()):
        for x, estimate in points:
            if not low <= estimate.value <= high:
                above = estimate.value > high
                axes.annotate(f"{estimate.value:.3g} {'↑' if above else '↓'}", (x, above),
                              xycoords=axes.get_xaxis_transform(), xytext=(0, (-9 if above else 9) * (place + 1)),
                              textcoords="offset points", ha="center", va="center", fontsize=8,
                              color=colours[name])


def draw_margin(span, middle):
    """A band of the losses that count as equal to LayerNorm's, if that is in the picture."""
    if middle is not None:
        span(middle - MARGIN, middle + MARGIN, color="0.92", zorder=0)


def perplexity_axis(secondary, side, shown, values):
    """A second axis for losses: by how many per cent the perplexity is above that of the lowest mean, unless
    the losses are far apart. Returns the height that it needs."""
    lowest = min(value for _, value in shown)
    if max(values) - min(values) > PERPLEXITY_RANGE:
        return 0

    def per_cent(loss):
        return 100 * np.expm1(np.clip(np.asarray(loss, float) - lowest, -30, 30))

    def nats(part):
        return lowest + np.log1p(np.maximum(np.asarray(part, float) / 100, 1e-12 - 1))
    axis = secondary(side, functions=(per_cent, nats))
    (axis.set_xlabel if side == "top" else axis.set_ylabel)("perplexity above the lowest mean (%)",
                                                           fontsize=8)
    axis.tick_params(labelsize=8)
    return 0.45 if side == "top" else 0


def number_of(text):
    try:
        return float(text)
    except ValueError:
        return None


def points_of(facts, experiment, cell, spec):
    """{line: [(x, estimate)]}: a line for each value of spec["line"] over spec["x"]. One without has the name of its
    other options."""
    groups = {}
    for variant, options in matching(facts, experiment, cell, spec).items():
        x = number_of(options.get(spec["x"], ""))
        estimate, _ = finite_estimate(facts, experiment, cell, spec["metric"], variant)
        if x is not None and estimate is not None:
            name = options.get(spec["line"]) or label_of(options, (spec["x"], *spec["where"]))
            groups.setdefault(name, []).append((x, estimate))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in sorted(groups.items())}


def draw_line(axes, points, colour, **look):
    """A line through the means of [(x, estimate)]."""
    axes.plot([x for x, _ in points], [one.value for _, one in points], "-", color=colour, linewidth=1.2, **look)


def lines(axes, facts, experiment, cell, spec):
    """Draws the lines of points_of()."""
    groups, shown, values, outside = points_of(facts, experiment, cell, spec), [], [], ""
    colours = colours_of(groups)
    for name, points in groups.items():
        colour = colours[name]
        draw_line(axes, points, colour, label=literal(name))
        for x, estimate in points:
            draw_estimate(axes, estimate, x, colour, True)
            values += estimate.seeds.values()
        shown += [(f"{name} at {x:g}", one.value) for x, one in points]
    axes.set_xscale("log")
    ticks = sorted({x for points in groups.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(AXES.get(spec["x"], spec["x"]))
    axes.set_ylabel(literal(textwrap.fill(words_of(spec["metric"]), LABEL_WIDTH)))
    if values:
        if spec["metric"] in LOGARITHMIC:
            axes.set_yscale("log")
        else:
            outside = view_limits(axes, values, "y", spec["metric"] in LOSSES)
            draw_points_outside(axes, groups, colours)
        axes.legend(fontsize=8, loc="upper center" if outside else "best")
        if spec["metric"] in LOSSES:
            perplexity_axis(axes.secondary_yaxis, "right", shown, values)
    return shown, 2.8, outside


def course(axes, facts, experiment, cell, spec):
    """Draws the difference of two variants' losses over the course of training, paired by seed."""
    a, b = course_variants(spec)
    shown, values, outside = [], [], ""
    for tenth in range(1, 11):
        first, second = (facts.series(experiment, cell, f"val_loss_{10 * tenth}%", variant)
                         for variant in (a, b))
        estimate = over_seeds({seed: first[seed] - second[seed] for seed in first
                               if seed in second and math.isfinite(first[seed] - second[seed])})
        if estimate is not None:
            draw_estimate(axes, estimate, 10 * tenth, colour_of(spec["pair"][0]), True)
            values += estimate.seeds.values()
            shown.append((f"at {10 * tenth} % of the steps", estimate.value))
    axes.axhline(0, color="0.4", linewidth=0.8)
    draw_margin(axes.axhspan, 0.0)
    axes.set_xlabel("per cent of the steps")
    axes.set_ylabel(f"{' − '.join(spec['pair'])} (nats)")
    if values:
        outside = view_limits(axes, [*values, 0.0], "y")
    return shown, 2.4, outside


def words_of(metric):
    """The metric's name and unit."""
    return name_of(metric) + " (nats)" * (metric in NATS or metric.startswith(ALSO_NATS))


KINDS = {"dots": dots, "lines": lines, "course": course}


def picture(facts, experiment, cell, spec, name):
    """(SVG text, its sentence), or None without facts. name: a prefix of ids, unique on the page."""
    if spec["kind"] != "course" and not matching(facts, experiment, cell, spec):
        return None
    figure = Figure(figsize=(6.4, 3))
    axes = figure.add_subplot()
    shown, height, outside = KINDS[spec["kind"]](axes, facts, experiment, cell, spec)
    if not shown:
        return None
    figure.set_size_inches(6.4, height)
    figure.set_layout_engine("constrained")
    low, high = (choose(shown, key=lambda pair: pair[1]) for choose in (min, max))
    what = " − ".join(spec["pair"]) + " (nats)" if "pair" in spec else words_of(spec["metric"])
    where = "".join(f", {key} {value}" for key, value in spec["where"].items() if value and value is not True)
    axes.set_title(literal(f"{cell[0]}, {cell[1]}{where}"), fontsize=9, loc="left")
    sentence = f"{what}{where}, {cell[0]}, {cell[1]}: lowest {low[0]} ({low[1]:.4g}), " \
               f"highest {high[0]} ({high[1]:.4g}).{outside}"
    return svg_text(figure, name, sentence), sentence


def svg_text(figure, name, sentence):
    """The figure as an element of a page: no header, ids of its own, a name for screen readers."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        text = compact(figure, name)
    escaped = sentence.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escaped}" ', 1)


# ---- the interval beside a verdict ---------------------------------------------------------------

WIDTH, HEIGHT = 220, 26


def interval_svg(outcome):
    """A small forest plot: seeds as ticks, the interval, the point, the threshold or the margin; above, with
    many seeds, the bootstrap's interval."""
    estimate, reading = outcome.estimate, outcome.reading
    marks = [mark for mark in (reading.low, reading.high) if math.isfinite(mark)]
    seeds = [value for value in estimate.seeds.values() if math.isfinite(value)]
    if not seeds or not math.isfinite(estimate.value):
        return ""
    shown = [*seeds, estimate.value, *marks]
    low, high = min(shown), max(shown)
    room = 0.15 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room

    def at(value):
        part = (min(max(value, low), high) - low) / (high - low)
        return f"{4 + part * (WIDTH - 8):.1f}"
    def strokes(name, places, way):
        moves = "".join(f"M{at(value)} {way}" for value in places)
        return f'<path class="{name}" d="{moves}"/>' if moves else ""
    if reading.form == "within":
        width = float(at(reading.high)) - float(at(reading.low))
        parts = [f'<rect class="band" x="{at(reading.low)}" y="2" width="{width:.1f}" height="22"/>']
    else:
        parts = [strokes("mark", marks, "2V24")]
    parts.append(strokes("seed", seeds, "17V23"))
    if reading.form != "exact":
        parts.append(strokes("span", [estimate.low], f"12H{at(estimate.high)}"))
        if estimate.kind == "mean" and len(seeds) == estimate.n >= BOOTSTRAP_LEAST:
            to, back = (np.log, np.exp) if estimate.ratio else (np.asarray, float)
            ends = bootstrap_interval(to(seeds))
            parts.append(strokes("boot", [back(ends.low)], f"6H{at(back(ends.high))}"))
    parts.append(f'<circle class="point" cx="{at(estimate.value)}" cy="12" r="4"/>')
    return (f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'aria-hidden="true">{"".join(parts)}</svg>')
