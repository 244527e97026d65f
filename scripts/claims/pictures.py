"""Pictures: those of findings, by matplotlib, and the evidence of a claim, as a small SVG with an axis.

Marks are means over seeds with 99 % intervals. A norm has one colour everywhere, as in WHY.md; a grey band is what counts as
equal. Pictures are narrow enough for a phone, with texts as text, and the same facts give the same bytes.
"""
import itertools
import math
from xml.sax.saxutils import escape, quoteattr

from frozen.findings import BN, BN_ACROSS, deep, optimizer, outlier_cost
from claims.findings import NORMS, name_of, place_of, table
from claims.forms import gap
from evidence.estimates import over_seeds
from evidence.facts import cell_order
from plots.looks import COLOURS, norm_colours, svg_figure
from plots.svg import compact
from study.statistics import MARGIN

WIDTH, ROW = 4.8, 0.17  # inches: of a picture, and of a row
COLOUR_OF = norm_colours(("ln", "bn", "rms", "none", "gn"))
BAND = {"color": "0.92", "zorder": 0}
MINUS_LN = "loss minus LayerNorm's (nats)"
RECIPES = ("its own recipe", "tiny Shakespeare's")


def figure_of(height, columns=1, **share):
    """(Figure, [axes])"""
    figure = svg_figure(WIDTH, height)
    return figure, figure.subplots(1, columns, squeeze=False, **share)[0]


def mark(axes, x, y, one, colour, upright=True, **look):
    """A mean with its interval; an end that is not finite has none."""
    ends = [[abs(one.value - end) if math.isfinite(end) else 0] for end in (one.low, one.high)]
    axes.errorbar(x, y, **{"yerr" if upright else "xerr": ends}, **{"fmt": "o", "markersize": 4, **look}, color=colour, capsize=1.5,
                  linewidth=1)


def label_ends(axes, ends):
    """Names beside the right ends of lines, apart from each other. ends: {name: (y, colour)}."""
    low, high = axes.get_ylim()
    gap_of, place = (high - low) / 16, -math.inf
    for name, (y, colour) in sorted(ends.items(), key=lambda one: one[1][0]):
        place = max(min(max(y, low), high), place + gap_of)
        axes.annotate(name, (1.02, place), xycoords=("axes fraction", "data"), color=colour, fontsize=8, va="center")


def key_above(axes, looks):
    """What marks mean, above the axes. looks: {name: (colour, look)}."""
    for name, (colour, look) in looks.items():
        axes.plot([], [], linestyle="none", **{"marker": "o", "markersize": 4, **look}, color=colour, label=name)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(looks), borderpad=0, columnspacing=1, handletextpad=0)


def grouped_rows(axes, groups, label):
    """{key: height} of rows below headings. groups: {heading: {key: row's label}}."""
    names, heights = [], {}
    for heading, rows in groups.items():
        names.append((heading, True))
        for key, name in rows.items():
            heights[key] = len(names)
            names.append((name, False))
    axes.set_yticks(range(len(names)), [name for name, _ in names])
    for (_, is_heading), tick in zip(names, axes.get_yticklabels()):
        tick.set_fontweight("bold" if is_heading else "normal")
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel(label)
    return heights


def by_size(cells):
    """Groups of rows, as grouped_rows() takes them: the texts of each size."""
    cells = sorted(cells, key=cell_order)
    return {size: {cell: name_of(cell[0]) for cell in cells if cell[1] == size} for size in dict.fromkeys(size for _, size in cells)}


def forest(groups, rows, label, margin=None):
    """Means in rows below headings. groups: as for grouped_rows(). rows: {name: [({key of a row: Estimate}, norm, look)]}; in a row,
    what has a name of its own stands below the one before."""
    figure, (axes,) = figure_of(0.9 + ROW * sum(1 + len(keys) for keys in groups.values()))
    for key, height in grouped_rows(axes, groups, label).items():
        here = [marks for marks in ([(found[key], *how) for found, *how in drawn if key in found] for drawn in rows.values()) if marks]
        for place, marks in enumerate(here):
            for one, norm, look in marks:
                mark(axes, one.value, height + 0.22 * (place - (len(here) - 1) / 2), one, COLOUR_OF[norm], upright=False, **look)
    if margin:
        axes.axvspan(-margin, margin, **BAND)
    key_above(axes, {name: (COLOUR_OF[norm], {key: value for key, value in look.items() if key != "fmt"} | {"marker": look.get("fmt", "o")})
                     for name, [(_, norm, look), *_] in rows.items()})
    return figure


HOLLOW = {"markerfacecolor": "white", "markersize": 3.5}


def over_recipes(facts):
    """RMSNorm's loss minus LayerNorm's with each recipe."""
    found = {name: [(which.estimates(facts), "rms", look)] for name, which, look in
             ((RECIPES[0], gap("E20", "rms", recipe="best"), {}), (RECIPES[1], gap("E23", "rms"), HOLLOW))}
    return forest(by_size(set().union(*(one for [(one, *_)] in found.values()))), found, f"{MINUS_LN}; grey: at most {MARGIN:g}", MARGIN)


def before_and_after(facts):
    """Losses minus LayerNorm's, with nanoGPT's recipe and with the best one of each norm."""
    rows = {NORMS[norm]: [(gap("E20", norm, **recipe).estimates(facts), norm, look)
                          for recipe, look in (({"recipe": "best"}, {}), ({"rate": "default"}, HOLLOW))] for norm in ("rms", "bn", "none")}
    return forest(by_size(BN.estimates(facts)), rows, f"{MINUS_LN}; hollow: nanoGPT's recipe")


def with_outlier(facts):
    """What an outlier costs: on every text, and from GPT-2's initialization with further norms."""
    found = {norm: outlier_cost(norm, "E26").estimates(facts) for norm in ("ln", "rms", "bn", "none")}
    plain = {norm: {("plain", *cell): one for cell, one in outlier_cost(norm, "E9").estimates(facts).items()} for norm in found}
    groups = by_size(found["ln"]) | {"GPT-2's initialization": {key: place_of(key[1:]) for key in sorted(plain["ln"], reverse=True)}}
    return forest(groups, {NORMS[norm]: [(found[norm] | plain[norm], norm, {})] for norm in found},
                  "loss with the outlier minus loss without it (nats)")


def over_batches(facts):
    """Losses over the batch size, a panel for each size."""
    cells, counts = facts.cells("E3"), (1, 2, 4, 8, 32)
    figure, panels = figure_of(2.8, len(cells))
    for axes, cell in zip(panels, cells):
        ends = {}
        for norm in ("ln", "gn", "bn"):
            points = {count: one for count in counts
                      if (one := over_seeds(facts.series("E3", cell, "val_loss", f"batch={count} block=full norm={norm}")))}
            axes.plot(points.keys(), [one.value for one in points.values()], linewidth=1.2, color=COLOUR_OF[norm])
            for count, one in points.items():
                mark(axes, count, one.value, one, COLOUR_OF[norm])
            ends[NORMS[norm]] = one.value, COLOUR_OF[norm]
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, map(str, counts))
        axes.set_xlabel("sequences per batch")
        axes.set_title(f"{name_of(cell[0])}, {cell[1]}", fontsize=9)
    panels[0].set_ylabel("validation loss (nats)")
    label_ends(panels[-1], ends)
    return figure


def over_sizes(facts):
    """BatchNorm's loss minus LayerNorm's: a line joins the sizes of a text."""
    figure, panels = figure_of(3.4, 2, sharey=True)
    for axes, which, title in zip(panels, (BN, BN_ACROSS), RECIPES):
        found, ends = which.estimates(facts), {}
        sizes = list(dict.fromkeys(size for _, size in sorted(found, key=cell_order)))
        for text in sorted({text for text, _ in found}):
            places = [(sizes.index(size), found[text, size]) for size in sizes if (text, size) in found]
            axes.plot([x for x, _ in places], [one.value for _, one in places], linewidth=1, color=COLOUR_OF["bn"])
            for x, one in places:
                mark(axes, x, one.value, one, COLOUR_OF["bn"])
            ends[name_of(text)] = places[-1][1].value, COLOUR_OF["bn"]
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set_xlim(-0.3, len(sizes) - 0.7)
        axes.axhline(0, color="0.3", linewidth=0.8)
        axes.axhspan(-MARGIN, MARGIN, **BAND)
        axes.set_title(title, fontsize=9)
        axes.ends = ends
    panels[0].set_ylabel("BatchNorm's " + MINUS_LN)
    for axes in panels:
        label_ends(axes, axes.ends)
    return figure


def over_optimizers(facts):
    """Losses minus AdamW's, a panel for each optimizer, rows of texts and sizes grouped by norm."""
    norms = ("ln", "rms", "bn", "none")
    cells = sorted({cell for norm in norms for cell in optimizer(norm, "muon").estimates(facts)}, key=cell_order)
    groups = {NORMS[norm]: {(norm, cell): f"{name_of(cell[0])}, {cell[1]}" for cell in cells} for norm in norms}
    figure, panels = figure_of(0.9 + ROW * len(norms) * (len(cells) + 1), 2, sharey=True)
    for axes, (name, title) in zip(panels, {"muon": "Muon", "sgd": "SGD with momentum"}.items()):
        heights = grouped_rows(axes, groups, "minus AdamW's (nats)")
        for norm in norms:
            for cell, one in optimizer(norm, name).estimates(facts).items():
                if (norm, cell) in heights:
                    mark(axes, one.value, heights[norm, cell], one, COLOUR_OF[norm], upright=False)
        axes.set_title(title, fontsize=9)
    return figure


def over_starts(facts):
    """Deep models with both initializations: a mark for each text."""
    figure, (axes,) = figure_of(2.2)
    rows = {"Xavier": {("post", "xavier"): "Post-LN", ("pre", "xavier"): "Pre-LN"},
            "standard deviation 0.08": {("post", "0.08"): "Post-LN", ("pre", "0.08"): "Pre-LN"}}
    heights = grouped_rows(axes, rows, "loss minus the unigram entropy (nats)")
    for key, height in heights.items():
        found = deep(*key).estimates(facts)
        for turn, one in enumerate(found.values()):
            shift = 0.7 * (turn / max(1, len(found) - 1) - 0.5)
            mark(axes, one.value, height + shift, one, COLOURS[6 if key[0] == "post" else 5], upright=False, markersize=2.5)
    return figure


PICTURES = {
    "no-norm": before_and_after, "rms": over_recipes, "optimizer": over_optimizers, "batch": over_batches,
    "deep": over_starts, "size": over_sizes, "outlier": with_outlier}


def of_finding(finding, facts):
    """The SVG of a finding. Its title stands where it is shown."""
    return compact(PICTURES[finding.id](facts), finding.id).replace("<svg ", f'<svg role="img" aria-label={quoteattr(finding.claim)} ', 1)


def of_findings(facts):
    """{file: SVG}"""
    return {f"{one.id}.svg": of_finding(one, facts) + "\n" for one in table()}


# ---- the evidence of a claim -----------------------------------------------------------------------

SPAN, LEFT, LINE = 380, 138, 15  # pixels: the width, where the axis starts, the height of a row
ROWS_MAX = 12


def ticks_of(low, high):
    """About four round numbers in a range."""
    step = 10 ** math.floor(math.log10((high - low) / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= 4)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def evidence(outcomes, label):
    """An SVG of an atom in its cells, {cell: Outcome}: the mean with its interval, the thresholds dashed, what counts as equal
    grey, an axis with this label below. Exact values are points. "" if nothing is finite."""
    shown = dict(itertools.islice(((cell, one) for cell, one in outcomes.items() if math.isfinite(one.estimate.value)), ROWS_MAX))
    if not shown:
        return ""
    atom = next(iter(shown.values())).atom
    limits = [limit for limit in (atom.low, atom.high) if math.isfinite(limit)]
    values = [end for one in shown.values() for end in (one.estimate.value, one.estimate.low, one.estimate.high) if math.isfinite(end)]
    low, high = min(values + limits), max(values + limits)
    room = 0.08 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    bottom = LINE * len(shown) + 4

    def at(value):
        return f"{LEFT + (min(max(value, low), high) - low) / (high - low) * (SPAN - LEFT - 12):.1f}"
    parts = [f'<rect class="band" x="{at(atom.low)}" y="0" width="{float(at(atom.high)) - float(at(atom.low)):.1f}" height="{bottom}"/>'
             if atom.form == "within" else "".join(f'<path class="mark" d="M{at(limit)} 0V{bottom}"/>' for limit in limits)]
    for row, ((text, size), one) in enumerate(shown.items()):
        y, found = LINE * row + 9, one.estimate
        name = escape(f"{name_of(text)} {size}" if size != "-" else "exact")
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{name}</text>')
        if atom.form != "exact":
            parts.append(f'<path class="span" d="M{at(found.low)} {y}H{at(found.high)}"/>')
        parts.append(f'<circle class="point" cx="{at(found.value)}" cy="{y}" r="3"/>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{SPAN - 12}"/>')
    for tick in ticks_of(low, high):
        parts.append(f'<path class="axis" d="M{at(tick)} {bottom}v3"/>'
                     f'<text x="{at(tick)}" y="{bottom + 13}" text-anchor="middle">{tick:.6g}</text>')
    parts.append(f'<text x="{SPAN - 12}" y="{bottom + 26}" text-anchor="end">{escape(label)}</text>')
    return f'<svg class="evidence" role="img" aria-label={quoteattr(atom.text)} viewBox="0 0 {SPAN} {bottom + 30}">{"".join(parts)}</svg>'
