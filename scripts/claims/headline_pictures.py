"""The pictures of FINDINGS.md: each has its finding as title. SVG with text as text; the same facts give the same
bytes."""
from dataclasses import dataclass
import math

from matplotlib.figure import Figure

from claims.experiments import lines
from claims.fact_table import cell_order
from claims.figures import colour_of, draw_line, points_of
from claims.findings import NORMS, TEXTS
from claims.quantities import Quantity, over_seeds
from plots.looks import COLOURS

WIDTH = 6.4  # inches
KEYS = {name: key for key, name in NORMS.items()}


def titled(title, height, columns=1, **share):
    """(Figure, axes) with the finding as title."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(1, columns, **share)
    figure.suptitle(title, fontsize=10, fontweight="bold", x=0.01, ha="left")
    return figure, axes


def margin_over(gain, gap, factor):
    """gain - factor * gap, seed by seed."""
    def compute(view):
        first, second = gain.compute(view), gap.compute(view)
        if first is None or second is None:
            return None
        return over_seeds({seed: number - factor * second.seeds[seed] for seed, number in first.seeds.items()
                           if seed in second.seeds})
    return Quantity(f"[{gain.text}] - {factor:g} [{gap.text}]", gain.experiment,
                    (*gain.needs, *gap.needs), compute, gain.unit)


@dataclass(frozen=True)
class Growth(Quantity):
    """By how much a quantity is larger at a size than at the next smaller one of the same text, seed by seed. It is not
    defined at the smallest size. Seeds of different sizes share only their number."""
    of: Quantity = None

    def estimate(self, facts, cell):
        sizes = [one for one in estimates(self.of, facts) if one[0] == cell[0]]
        place = sizes.index(cell) if cell in sizes else 0
        if place == 0:
            return None
        now, before = (self.of.estimate(facts, one).seeds for one in (cell, sizes[place - 1]))
        return over_seeds({seed: now[seed] - before[seed] for seed in now if seed in before})


def growth(quantity):
    return Growth(f"[{quantity.text}] - the same at the next smaller size", quantity.experiment, quantity.needs,
                  quantity.compute, quantity.unit, of=quantity)


def estimates(quantity, facts):
    """{cell: Estimate} of the cells in which it was measured."""
    found = {cell: quantity.estimate(facts, cell) for cell in facts.cells(quantity.experiment)}
    return {cell: one for cell, one in found.items() if one is not None}


def bar_of(axes, x, y, estimate, colour, upright=True, **look):
    """The mean with its interval; an end that is not finite has none."""
    ends = [abs(estimate.value - end) if math.isfinite(end) else 0 for end in (estimate.low, estimate.high)]
    axes.errorbar(x, y, **{"yerr" if upright else "xerr": [[ends[0]], [ends[1]]]}, **{"fmt": "o", "markersize": 5, **look},
                  color=colour, capsize=2, linewidth=1.2)


def cells_with_rates(facts):
    """The cells of which tuning runs are known."""
    return [one for one in facts.cells("E20") if any("init=best" in text for text in facts.variants("E20", one, "val_loss"))]


def over_rates(facts, title):
    """Losses of tuning runs over the learning rate, a line for each norm: with nanoGPT's initialization, and with each
    norm's best one."""
    panels = {"0.02": "initial standard deviation 0.02", "best": "each norm's best standard deviation"}
    figure, axes = titled(title, 3.0, len(panels), sharey=True)
    cell = cells_with_rates(facts)[0]
    groups = {start: points_of(facts, "E20", cell, lines("rate", "val_loss", init=start, placement=None))
              for start in panels}
    for place, (axis, start) in enumerate(zip(axes, panels)):
        for name, key in (pair for pair in KEYS.items() if pair[1] in groups[start]):
            draw_line(axis, groups[start][key], colour_of(key), marker="o", markersize=4, label=name if place == 0 else None)
        axis.set_xscale("log")
        axis.set_xlabel("learning rate")
        axis.set_title(panels[start], fontsize=9)
    lowest = min(one.value for group in groups.values() for points in group.values() for _, one in points)
    axes[0].set_ylim(lowest - 0.05, lowest + 0.8)
    axes[0].set_ylabel(f"loss of tuning runs\n{place_text('', cell)} (nats)")
    axes[1].legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="upper center")
    return figure


def over_batches(facts, title):
    """Losses over the batch size, a panel for each size."""
    cells = facts.cells("E3")
    figure, panels = titled(title, 2.8, len(cells), squeeze=False)
    for axes, cell in zip(panels[0], cells):
        groups = points_of(facts, "E3", cell, lines("batch", "val_loss", block="full"))
        for name in ("LayerNorm", "GroupNorm", "BatchNorm"):
            points = groups[KEYS[name]]
            draw_line(axes, points, colour_of(KEYS[name]), label=name)
            for x, one in points:
                bar_of(axes, x, one.value, one, colour_of(KEYS[name]))
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8, 32], ["1", "2", "4", "8", "32"])
        axes.set_xlabel("sequences per batch")
        axes.set_title(place_text("", cell), fontsize=9)
    panels[0][0].set_ylabel("validation loss (nats)")
    panels[0][-1].legend(fontsize=8)
    return figure


def rows(facts, title, quantities, label, margin=None):
    """A row for each text and size, with a mark for each quantity, {norm or "norm, recipe": quantity}: the norm's colour, and
    the recipe's shape. margin: what counts as equal, or as little."""
    cells = sorted({cell for quantity in quantities.values() for cell in estimates(quantity, facts)}, key=cell_order)
    recipes = list(dict.fromkeys(name.partition(", ")[2] for name in quantities))
    figure, axes = titled(title, 0.9 + (0.2 + 0.04 * len(recipes)) * len(cells))
    draw_rows(axes, facts, quantities, label + (f"\ngrey: at most {margin:g} from 0" if margin else ""),
              [("", cell) for cell in cells], recipes)
    if margin:
        axes.axvspan(-margin, margin, color="0.92", zorder=0)
    if len(quantities) > 1:
        axes.legend(fontsize=8)
    return figure


def place_text(name, cell):
    text = f"{TEXTS.get(cell[0], cell[0])}, {cell[1]}"
    return f"{name}: {text}" if name else text


def draw_rows(axes, facts, quantities, label, places, recipes=("",)):
    """places: [(name of a quantity, or "" of all, cell)] of all rows. Recipes are one below the other."""
    for name, quantity in quantities.items():
        norm, _, recipe = name.partition(", ")
        below = recipes.index(recipe) if recipe else 0
        told = name  # once, in the legend
        for cell, one in estimates(quantity, facts).items():
            row = places.index((name if places[0][0] else "", cell)) + 0.5 * (below + 0.5) / len(recipes) - 0.25
            bar_of(axes, one.value, row, one, colour_of(KEYS[norm]), upright=False, fmt="osD"[below], label=told,
                   markerfacecolor="white" if below else None, markersize=4 if below else 5)
            told = None
    axes.set_yticks(range(len(places)), [place_text(*place) for place in places])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(label)


def by_optimizer(facts, title, optimizers):
    """Losses minus AdamW's, a panel for each of {name of an optimizer: {norm: quantity}}, a row for each norm, text and
    size."""
    first, second = optimizers.values()
    places = [(NORMS[norm], cell) for norm in first for cell in facts.cells("E22") if
              any(cell in estimates(one[norm], facts) for one in (first, second))]
    figure, panels = titled(title, 0.9 + 0.2 * len(places), 2, sharey=True)
    for axes, (name, gaps) in zip(panels, optimizers.items()):
        draw_rows(axes, facts, {NORMS[norm]: gap for norm, gap in gaps.items()}, "loss minus AdamW's (nats)", places)
        axes.set_title(name, fontsize=9)
    return figure


def deep_losses(facts, title):
    """The loss of deep models without warm-up minus the entropy of the characters' frequencies: all texts and seeds, by
    placement and initialization."""
    figure, axes = titled(title, 1.9)
    labels = []
    for place, name in (("pre", "Pre-LN"), ("post", "Post-LN")):
        for init, words in (("0.08", "standard deviation 0.08"), ("xavier", "Xavier")):
            for cell in facts.cells("E26"):
                series = facts.series("E26", cell, "above_frequencies", f"depth=deep init={init} placement={place}")
                axes.plot([*series.values()], [len(labels)] * len(series), "o", markerfacecolor="none",
                          color=COLOURS[place == "post"], markersize=5)
            labels.append(f"{name}, {words}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel("loss minus the entropy of the characters' frequencies (nats)")
    return figure
