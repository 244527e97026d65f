"""The pictures of FINDINGS.md."""
from dataclasses import dataclass
import math

from matplotlib.figure import Figure
import numpy as np

from claims.experiments import lines
from claims.fact_table import cell_order
from claims.figures import BAND, COLOUR_OF, draw_line, label_rows, points_of
from claims.findings import NORMS, TEXTS
from claims.quantities import Quantity, over_seeds
from plots.looks import COLOURS

WIDTH = 6.4  # inches
KEYS = {name: key for key, name in NORMS.items()}


def panels_of(height, columns=1, **share):
    """(Figure, axes)"""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(1, columns, **share)


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


def range_of(quantities):
    """The highest minus the lowest of these quantities of one experiment, seed by seed."""
    def compute(view):
        found = [one.compute(view) for one in quantities]
        if None in found:
            return None
        seeds = set.intersection(*[set(one.seeds) for one in found])
        return over_seeds({seed: float(np.ptp([one.seeds[seed] for one in found])) for seed in sorted(seeds)})
    return Quantity(f"range of {', '.join(one.text for one in quantities)}", quantities[0].experiment,
                    tuple(need for one in quantities for need in one.needs), compute, quantities[0].unit)


@dataclass(frozen=True)
class AtSizes(Quantity):
    """A quantity at some sizes only."""
    of: Quantity = None
    sizes: tuple = ()

    def estimate(self, facts, cell):
        return self.of.estimate(facts, cell) if cell[1] in self.sizes else None


def at_sizes(quantity, *sizes):
    return AtSizes(f"[{quantity.text}] at {' and '.join(sizes)}", quantity.experiment, quantity.needs, quantity.compute,
                   quantity.unit, of=quantity, sizes=sizes)


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


def draw_norms(axes, groups, names, label, **look):
    """The lines of these norms in points_of(), over an axis with this label."""
    for name in names:
        draw_line(axes, groups[KEYS[name]], COLOUR_OF[KEYS[name]], label=name, **look)
    axes.set_xlabel(label)


def over_rates(facts):
    """Losses of tuning runs over the learning rate, a line for each norm: with nanoGPT's initialization, and with each
    norm's best one."""
    starts, lowest = {"0.02": "initial standard deviation 0.02", "best": "each norm's best standard deviation"}, math.inf
    figure, panels = panels_of(3.0, len(starts), sharey=True)
    cell = cells_with_rates(facts)[0]
    for axes, start in zip(panels, starts):
        groups = points_of(facts, "E20", cell, lines("rate", "val_loss", init=start, placement=None))
        draw_norms(axes, groups, [name for name in KEYS if KEYS[name] in groups], "learning rate", marker="o", markersize=4)
        axes.set_xscale("log")
        axes.set_title(starts[start], fontsize=9)
        lowest = min([lowest, *(one.value for points in groups.values() for _, one in points)])
    panels[0].set_ylim(lowest - 0.05, lowest + 0.8)
    panels[0].set_ylabel(f"loss of tuning runs\n{place_text(cell)} (nats)")
    panels[1].legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="upper center")
    return figure


def over_batches(facts):
    """Losses over the batch size, a panel for each size."""
    cells, names = facts.cells("E3"), ("LayerNorm", "GroupNorm", "BatchNorm")
    figure, panels = panels_of(2.8, len(cells), squeeze=False)
    for axes, cell in zip(panels[0], cells):
        groups = points_of(facts, "E3", cell, lines("batch", "val_loss", block="full"))
        for name in names:
            draw_norms(axes, groups, [name], "sequences per batch")
            for x, one in groups[KEYS[name]]:
                bar_of(axes, x, one.value, one, COLOUR_OF[KEYS[name]])
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8, 32], ["1", "2", "4", "8", "32"])
        axes.set_title(place_text(cell), fontsize=9)
    panels[0][0].set_ylabel("validation loss (nats)")
    panels[0][-1].legend(fontsize=8)
    return figure


def place_text(cell):
    return f"{TEXTS.get(cell[0], cell[0])}, {cell[1]}"


def forest(axes, norms, labels, quantity):
    """Rows of estimates about 0. norms: [(norm, its look, {height: estimate})]; the look's label is for the legend."""
    for norm, look, places in norms:
        for height, one in places.items():
            bar_of(axes, one.value, height, one, COLOUR_OF[norm], upright=False, **look)
            look = {**look, "label": None}
    label_rows(axes, labels, quantity)
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)


def rows(quantities, label, facts, margin=None):
    """A row for each text and size, with a mark for each quantity, {norm or "norm, recipe": quantity}: the norm's colour, and
    the recipe's shape. Recipes are one below the other. margin: what counts as equal, or as little."""
    measured = {name: estimates(quantity, facts) for name, quantity in quantities.items()}
    cells, norms = sorted(set().union(*measured.values()), key=cell_order), []
    recipes = list(dict.fromkeys(name.partition(", ")[2] for name in quantities))
    for name, found in measured.items():
        norm, _, recipe = name.partition(", ")
        below = recipes.index(recipe)
        look = {"fmt": "osD"[below], "markerfacecolor": "white" if below else None, "markersize": 4 if below else 5, "label": name}
        shift = 0.5 * (below + 0.5) / len(recipes) - 0.25
        norms.append((KEYS[norm], look, {cells.index(cell) + shift: one for cell, one in found.items()}))
    figure, axes = panels_of(0.9 + (0.2 + 0.04 * len(recipes)) * len(cells))
    forest(axes, norms, map(place_text, cells), label + (f"\ngrey: at most {margin:g} from 0" if margin else ""))
    if margin:
        axes.axvspan(-margin, margin, **BAND)
    if len(quantities) > 1:
        axes.legend(fontsize=8)
    return figure


def by_optimizer(optimizers, facts):
    """Losses minus AdamW's, a panel for each of {name of an optimizer: {norm: quantity}}, a row for each norm, text and
    size."""
    measured = {name: {norm: estimates(gap, facts) for norm, gap in gaps.items()} for name, gaps in optimizers.items()}
    first, second = measured.values()
    places = [(norm, cell) for norm in first for cell in facts.cells("E22") if cell in first[norm] or cell in second[norm]]
    figure, panels = panels_of(0.9 + 0.2 * len(places), 2, sharey=True)
    for axes, (name, gaps) in zip(panels, measured.items()):
        norms = [(norm, {}, {places.index((norm, cell)): one for cell, one in found.items()}) for norm, found in gaps.items()]
        forest(axes, norms, [f"{NORMS[norm]}: {place_text(cell)}" for norm, cell in places], "loss minus AdamW's (nats)")
        axes.set_title(name, fontsize=9)
    return figure


def seeds(quantities, label, facts):
    """A row for each of {name: quantity}: all its seeds, of all texts and sizes. Post-LN has a colour of its own."""
    figure, axes = panels_of(1.9)
    for row, (name, quantity) in enumerate(quantities.items()):
        for one in estimates(quantity, facts).values():
            axes.plot([*one.seeds.values()], [row] * one.n, "o", markerfacecolor="none", color=COLOURS["Post-LN" in name],
                      markersize=5)
    label_rows(axes, quantities, label)
    return figure
