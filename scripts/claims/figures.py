"""Pictures of the page: a row of dots for each variant, a metric over an option, or a difference over training, and the
small interval beside a verdict.

Points are seeds, and intervals are 99 %; two seeds have none, since it would fill the picture. A grey band is the margin
within which losses count as equal. Pictures are SVG with text as text. The same facts give the same bytes.

The page links claims and pictures. A picture belongs to one experiment, cell and spec (experiments.py). It shows a
claim's facts if the claim reads the picture's metric of one of its variants. A picture of a difference over training shows
them if the claim reads the losses of both its norms.
"""
from collections import namedtuple
import itertools
import math
import textwrap
from xml.sax.saxutils import quoteattr

from matplotlib.figure import Figure
import numpy as np

from claims.fact_table import variant_options, variant_text
from claims.findings import name_of
from study.statistics import BOOTSTRAP_LEAST, MARGIN, bootstrap_interval
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
    def showing(needs):
        return [one for one in pictures if shows(one["spec"], one["experiment"], needs)]
    decisive = [one for one in showing(outcome.reading.needs()) if one["cell"] == outcome.cell] if outcome else []
    return sorted(showing(claim.needs()), key=lambda one: one not in decisive)


# ---- what a picture shows ------------------------------------------------------------------------

ROWS_MAX = 24
LABEL_WIDTH = 34          # characters of an upright label, about the height of a picture
PERPLEXITY_RANGE = 1.5  # nats, beyond which per cents of perplexity say nothing
COLOUR_OF = {**dict(zip(("none", "ln", "bn", "rms", "gn", "scale", "dyt", "in"), COLOURS)),
             "pre": COLOURS[-2], "post": COLOURS[-1]}  # the same in every picture
ALSO_NATS = ("own_gap", "noise_cost", "rate_sensitivity", "gap_at", "weights_", "activations_")  # how metrics in nats begin
AXES = {"rate": "learning rate", "batch": "sequences in a batch", "depth": "layers", "width": "channels",
        "length": "characters in a sequence"}  # options over which pictures are drawn
LOGARITHMIC = ("stream_growth_start", "gradient_ratio_start")  # axes
BAND = {"color": "0.92", "zorder": 0}  # of what counts as equal


def colours_of(names):
    """{line: its colour}. Lines that are no norms or placements have different ones, in their order."""
    rest = sorted(name for name in names if name not in COLOUR_OF)
    return {name: COLOUR_OF.get(name) or COLOURS[rest.index(name) % len(COLOURS)] for name in names}


# An estimate in a picture: its norm or line, its place (a row, or x), its name in a sentence and on an axis, and the
# Estimate, or None where all runs diverged.
Mark = namedtuple("Mark", "line place name tick estimate")


def matching(facts, experiment, cell, spec):
    """{variant: options} that are in a picture."""
    found = {variant: variant_options(variant) for variant in facts.variants(experiment, cell, spec["metric"])}
    return {variant: options for variant, options in found.items() if fits(options, spec)}


def label_of(options, without):
    names = sorted((name for name in options if name not in without),
                   key=lambda name: (name != "norm", name != "placement"))
    return ", ".join(options[name] if name in ("norm", "placement") else f"{name} {options[name]}"
                     for name in names)


def finite(series):
    return {seed: value for seed, value in series.items() if math.isfinite(value)}


def mean_of(metric, values):
    """Over seeds, with its interval: of a ratio the geometric one, as rules take it, unless a value is 0."""
    if metric in RATIOS and all(value > 0 for value in values.values()):
        return exponential(over_seeds({seed: math.log(value) for seed, value in values.items()}))
    return over_seeds(values)


def dots(facts, experiment, cell, spec):
    """A row for each variant."""
    fixed = [name for name, value in spec["where"].items() if value is not True]
    for place, (variant, options) in enumerate([*matching(facts, experiment, cell, spec).items()][:ROWS_MAX]):
        series, name = facts.series(experiment, cell, spec["metric"], variant), label_of(options, fixed) or variant
        missing = len(series) - len(finite(series))
        yield Mark(options.get("norm"), place, name, f"{name} ({missing} diverged)" if missing else name,
                   mean_of(spec["metric"], finite(series)))


def points_of(facts, experiment, cell, spec):
    """{line: [(x, estimate)]}: a line for each value of spec["line"] over spec["x"]. One without has the name of its
    other options."""
    groups = {}
    for variant, options in matching(facts, experiment, cell, spec).items():
        x = number_of(options.get(spec["x"], ""))
        estimate = mean_of(spec["metric"], finite(facts.series(experiment, cell, spec["metric"], variant)))
        if x is not None and estimate is not None:
            name = options.get(spec["line"]) or label_of(options, (spec["x"], *spec["where"]))
            groups.setdefault(name, []).append((x, estimate))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in sorted(groups.items())}


def number_of(text):
    try:
        return float(text)
    except ValueError:
        return None


def lines(facts, experiment, cell, spec):
    """The lines of points_of()."""
    return [Mark(name, x, f"{name} at {x:g}", f"{x:g}", estimate)
            for name, points in points_of(facts, experiment, cell, spec).items() for x, estimate in points]


def course(facts, experiment, cell, spec):
    """The difference of two variants' losses over the course of training, paired by seed."""
    for part in range(10, 101, 10):
        first, second = (facts.series(experiment, cell, f"val_loss_{part}%", variant) for variant in course_variants(spec))
        gaps = finite({seed: first[seed] - second[seed] for seed in first if seed in second})
        yield Mark(spec["pair"][0], part, f"at {part} % of the steps", f"{part}", over_seeds(gaps))


KINDS = {"dots": dots, "lines": lines, "course": course}


# ---- the pictures --------------------------------------------------------------------------------

def draw_estimate(axes, estimate, place, colour, upright):
    def spots(values):
        return ([place] * len(values), values)[::1 if upright else -1]
    axes.plot(*spots(list(estimate.seeds.values())), "o", markerfacecolor="white", markeredgecolor=colour, markersize=3.5, zorder=3)
    if math.isfinite(estimate.low) and estimate.n > 2:
        axes.plot(*spots([estimate.low, estimate.high]), "-", color=colour, linewidth=1.6)
    axes.plot(*spots([estimate.value]), "D", color=colour, markersize=4.5, zorder=4)


def draw_line(axes, points, colour, **look):
    """A line through the means of [(x, estimate)]."""
    axes.plot([x for x, _ in points], [one.value for _, one in points], "-", color=colour, linewidth=1.2, **look)


def label_rows(axes, labels, quantity):
    """The labels of rows, the first one on top, and of what is measured."""
    labels = list(map(literal, labels))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(literal(quantity))


def label_axes(axes, marks, spec):
    """The scales and labels of a picture's axes. Returns its height in inches."""
    quantity = words_of(spec["metric"])
    if spec["kind"] == "dots":
        label_rows(axes, [mark.tick for mark in marks], quantity)
        axes.grid(axis="y", color="0.92")
        return 0.7 + 0.24 * len(marks)
    if spec["kind"] == "course":
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.set_xlabel("per cent of the steps")
        axes.set_ylabel(f"{' − '.join(spec['pair'])} (nats)")
        return 2.4
    ticks = dict(sorted((mark.place, mark.tick) for mark in marks))
    axes.set_xscale("log")
    axes.set_xticks([*ticks], [*ticks.values()])
    axes.minorticks_off()
    axes.set_xlabel(AXES.get(spec["x"], spec["x"]))
    axes.set_ylabel(literal(textwrap.fill(quantity, LABEL_WIDTH)))
    return 2.8


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


def note_outside(axes, marks, colours, upright):
    """An arrow and the mean: of rows none of whose seeds are in the picture, and of points whose mean is not."""
    low, high = axes.get_ylim() if upright else axes.get_xlim()
    for mark in marks:
        mean, beyond = mark.estimate.value, mark.estimate.value > high
        if any(low <= value <= high for value in ([mean] if upright else mark.estimate.seeds.values())):
            continue
        if upright:
            lines_up = 9 * (1 + [*colours].index(mark.line))
            axes.annotate(f"{mean:.3g} {'↑' if beyond else '↓'}", (mark.place, beyond), xycoords=axes.get_xaxis_transform(),
                          xytext=(0, -lines_up if beyond else lines_up), textcoords="offset points", ha="center", va="center",
                          fontsize=8, color=colours[mark.line])
        else:
            axes.text(0.99 if beyond else 0.01, mark.place, f"{mean:.3g} →" if beyond else f"← {mean:.3g}",
                      transform=axes.get_yaxis_transform(), ha="right" if beyond else "left", va="center", fontsize=8)


def perplexity_axis(axes, upright, means, values):
    """A second axis for losses: by how many per cent the perplexity is above that of the lowest mean, unless
    the losses are far apart. Returns whether there is one."""
    lowest = min(means)
    if max(values) - min(values) > PERPLEXITY_RANGE:
        return False

    def per_cent(loss):
        return 100 * np.expm1(np.clip(loss - lowest, -30, 30))

    def nats(part):
        return lowest + np.log1p(np.maximum(part / 100, 1e-12 - 1))
    axis = (axes.secondary_yaxis if upright else axes.secondary_xaxis)("right" if upright else "top", functions=(per_cent, nats))
    (axis.set_ylabel if upright else axis.set_xlabel)("perplexity above the lowest mean (%)", fontsize=8)
    axis.tick_params(labelsize=8)
    return True


def draw(axes, marks, spec):
    """Draws the marks, of which one at least has an estimate. Returns the height in inches, and what is to be said of the
    values left out."""
    kind, is_loss, upright = spec["kind"], spec["metric"] in LOSSES, spec["kind"] != "dots"
    shown = [mark for mark in marks if mark.estimate is not None]
    names = list(dict.fromkeys(mark.line for mark in shown))
    colours = colours_of(names) if kind == "lines" else {name: COLOUR_OF.get(name, COLOURS[-2]) for name in names}
    for name, line in itertools.groupby(shown, lambda mark: mark.line):
        line = list(line)
        if kind == "lines":
            draw_line(axes, [(mark.place, mark.estimate) for mark in line], colours[name], label=literal(name))
        for mark in line:
            draw_estimate(axes, mark.estimate, mark.place, colours[name], upright)
    height, outside = label_axes(axes, marks, spec), ""
    values = [value for mark in shown for value in mark.estimate.seeds.values()]
    if spec["metric"] in LOGARITHMIC:
        axes.set_yscale("log")
    else:
        outside = view_limits(axes, values + [0.0] * (kind == "course"), "y" if upright else "x", is_loss)
    if kind == "course":
        axes.axhspan(-MARGIN, MARGIN, **BAND)
        return height, outside
    note_outside(axes, shown, colours, upright)
    means = {mark.name: mark.estimate.value for mark in shown}
    if kind == "lines":
        axes.legend(fontsize=8, loc="upper center" if outside else "best")
    elif is_loss and "ln" in means:  # what counts as equal to LayerNorm
        axes.axvspan(means["ln"] - MARGIN, means["ln"] + MARGIN, **BAND)
    if is_loss and perplexity_axis(axes, upright, means.values(), values) and kind == "dots":
        height += 0.45
    return height, outside


def words_of(metric):
    """The metric's name and unit."""
    return name_of(metric) + " (nats)" * (metric in NATS or metric.startswith(ALSO_NATS))


def picture(facts, experiment, cell, spec, name):
    """{"experiment", "cell", "spec", "svg", "sentence"}, or None without facts. name: a prefix of ids, unique on the page."""
    marks = list(KINDS[spec["kind"]](facts, experiment, cell, spec))
    means = [(mark.name, mark.estimate.value) for mark in marks if mark.estimate is not None]
    if not means:
        return None
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    height, outside = draw(axes, marks, spec)
    figure.set_size_inches(6.4, height)
    low, high = (choose(means, key=lambda pair: pair[1]) for choose in (min, max))
    what = " − ".join(spec["pair"]) + " (nats)" if "pair" in spec else words_of(spec["metric"])
    where = "".join(f", {key} {value}" for key, value in spec["where"].items() if value and value is not True)
    axes.set_title(literal(f"{cell[0]}, {cell[1]}{where}"), fontsize=9, loc="left")
    sentence = f"{what}{where}, {cell[0]}, {cell[1]}: lowest {low[0]} ({low[1]:.4g}), " \
               f"highest {high[0]} ({high[1]:.4g}).{outside}"
    return {"experiment": experiment, "cell": cell, "spec": spec, "svg": svg_text(figure, name, sentence), "sentence": sentence}


def svg_text(figure, name, sentence):
    """The figure as an element of a page: no header, ids of its own, a name for screen readers."""
    return compact(figure, name).replace("<svg ", f'<svg role="img" aria-label={quoteattr(sentence)} ', 1)


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
            scale, back = estimate.scales()
            ends = bootstrap_interval(list(map(scale, seeds)))
            parts.append(strokes("boot", [back(ends.low)], f"6H{at(back(ends.high))}"))
    parts.append(f'<circle class="point" cx="{at(estimate.value)}" cy="12" r="4"/>')
    return (f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'aria-hidden="true">{"".join(parts)}</svg>')
