"""The pictures of WHY.md. The title is the message; the caption stands in WHY.md, below the picture."""
import math

from matplotlib.lines import Line2D
import numpy as np

from plots.looks import COLOURS, norm_colours, svg_figure
from why.experiments import DEPTHS, RATES, STDS
from why.facts import NEAR


NAMES = {"ln": "LayerNorm", "bn": "BatchNorm", "rms": "RMSNorm", "none": "no norm", "gn": "GroupNorm", "dyt": "DyT"}
COLOUR_OF = norm_colours(("ln", "bn", "rms", "none", "gn"))
LINES = ("-", "--", ":")  # of the texts
SIZES = "W8-2x64"
WHOSE = {"token": "the token's", "batch": "the batch's", "none": "no"}
NAMED = {("token", "token"): "LayerNorm", ("batch", "batch"): "BatchNorm", ("none", "token"): "RMSNorm with beta"}  # (mean, size)
CURVES = {"one sequence": (COLOURS[1], "o", "one sequence"),
          "two sequences": (COLOURS[4], "^", "two sequences"),
          "one position": (COLOURS[0], "s", "one position (no future)"),
          "the past": (COLOURS[2], "D", "the past (no future)")}


def selected(facts, experiment, measure, text, condition):
    """The facts of a condition in the order of x."""
    return sorted((fact for fact in facts if fact["experiment"] == experiment and fact["measure"] == measure
                   and fact["text"] == text and fact["condition"] == condition), key=lambda fact: float(fact["x"]))


def errors(found):
    """The lengths of the error bars; an end that is not finite has none."""
    return [[abs(fact["mean"] - fact[end]) if math.isfinite(fact[end]) else 0 for fact in found] for end in ("low", "high")]


def draw(axes, found, colour, marker, line, label):
    axes.errorbar([float(fact["x"]) for fact in found], [fact["mean"] for fact in found], yerr=errors(found), color=colour,
                  marker=marker, markersize=4, linestyle=line, linewidth=1.3, capsize=2, label=label)


def signed_scale(axes, ticks):
    """Linear near 0, logarithmic beyond."""
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set_yscale("symlog", linthresh=0.1, linscale=0.8)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def shapes(facts, texts):
    """W1. What BatchNorm loses against LayerNorm, over the tokens that share a statistic: at LayerNorm's settings, and each
    point at its own. Last: what it gains in training and loses in validation with one sequence, over the learning rate."""
    figure = svg_figure(7.4, 3.3)
    untuned, tuned, over_rates = figure.subplots(1, 3)
    for text, line in zip(texts, LINES):
        for axes, experiment in ((untuned, "W1-untuned"), (tuned, "W1")):
            for condition, (colour, marker, label) in CURVES.items():
                draw(axes, selected(facts, experiment, "val_loss", text, condition), colour, marker, line,
                     label if text == texts[0] else None)
        for measure, colour, marker, label in (("val_loss", COLOURS[1], "o", "validation"), ("train_mean", COLOURS[6], "v", "training")):
            draw(over_rates, selected(facts, "W1-rates", measure, text, "one sequence"), colour, marker, line,
                 label if text == texts[0] else None)
    for axes, title in ((untuned, "at LayerNorm's settings"), (tuned, "each point tuned")):
        axes.set_xscale("log", base=2)
        axes.set_xticks([8, 32, 128], ["8", "32", "128"])
        axes.set_xlabel("tokens that share a statistic")
        axes.set_title(title, fontsize=9)
        signed_scale(axes, [0, 0.1, 1, 10])
        axes.set_ylim(-0.12, 60)
    untuned.set_ylabel("BatchNorm's loss above LayerNorm's (nats)")
    tuned.legend(fontsize=7.5, loc="upper right")
    over_rates.set_xscale("log")
    over_rates.set_xlabel("learning rate")
    over_rates.set_title("one sequence of 32 tokens", fontsize=9)
    signed_scale(over_rates, [-1, -0.1, 0, 0.1, 1, 10])
    over_rates.legend(fontsize=7.5)
    figure.suptitle("BatchNorm fails where its statistic reveals the future of short sequences", fontsize=10)
    return figure


def outliers(facts, texts):
    """W2: what an outlier of a growing factor costs each norm."""
    figure = svg_figure(6.4, 3.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, where in zip(panels, ("channel", "position")):
        for norm, colour in COLOUR_OF.items():
            for text, line in zip(texts, LINES):
                found = selected(facts, "W2", "val_loss", text, f"{norm}, {where}")
                if not found:
                    continue
                axes.errorbar([1, *(float(fact["x"]) for fact in found)], [0, *(fact["mean"] for fact in found)],
                              yerr=[[0, *side] for side in errors(found)], color=colour, linestyle=line, marker="o",
                              markersize=3.5, linewidth=1.2, capsize=2, label=NAMES.get(norm, norm) if text == texts[0] else None)
        axes.set_xscale("log")
        axes.set_xlabel(f"factor of one {where}")
        axes.axhline(0, color="0.6", linewidth=0.8)
    panels[0].set_title("an outlier channel", fontsize=9)
    panels[1].set_title("an outlier position", fontsize=9)
    panels[0].set_ylabel("loss above that without it (nats)")
    panels[0].legend(fontsize=7.5)
    figure.suptitle("LayerNorm suffers from an outlier channel, BatchNorm from an outlier position", fontsize=10)
    return figure


def depths(facts, texts):
    """W3: which Post-LN models train, over depth and what a branch adds at the start, without and with warm-up."""
    figure = svg_figure(6.4, 3.2)
    for axes, warmup in zip(figure.subplots(1, 2, sharey=True, sharex=True), (0, 100)):
        for depth in DEPTHS:
            name = f"post, warm-up {warmup}, depth {depth}"
            shares = {fact["x"]: fact["mean"] for fact in selected(facts, "W3", "branch_share", texts[0], name)}
            for fact in selected(facts, "W3", "trained", texts[0], name):
                marker, colour = ("o", COLOURS[0]) if fact["mean"] == 1 else ("X", COLOURS[1]) if fact["mean"] == 0 else ("d", COLOURS[4])
                axes.plot(shares[fact["x"]], depth, marker=marker, markersize=7, linestyle="none", color=colour)
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.set_yticks(DEPTHS, list(map(str, DEPTHS)))
        axes.set_ylim(1.4, 45)
        axes.set_xlabel("branch over stream at the start")
        axes.set_title("with a warm-up of 100 updates" if warmup else "without warm-up", fontsize=9)
        axes.minorticks_off()
    figure.axes[0].set_ylabel("layers of Post-LN")
    handles = [Line2D([], [], color=colour, marker=marker, linestyle="none", label=label) for colour, marker, label in (
        (COLOURS[0], "o", "trains"), (COLOURS[4], "d", "trains with some seeds"), (COLOURS[1], "X", "stuck at the frequencies"))]
    figure.axes[1].legend(handles=handles, fontsize=7.5, loc="lower right")
    figure.suptitle("Deep Post-LN needs branches that start small, and warm-up", fontsize=10)
    return figure


def whose(facts, texts):
    """W8: what a norm loses against LayerNorm, by whose size it divides by and whose mean it subtracts, at 2 layers and 64 channels."""
    figure = svg_figure(6.4, 2.9)
    axes = figure.subplots()
    texts = [text for text in texts if selected(facts, SIZES, "val_loss", text, "batch mean, batch size")]
    for row, size in enumerate(WHOSE):
        for shift, mean in enumerate(WHOSE):
            for text, filled in zip(texts, (True, False)):
                place = row + 0.22 * (shift - 1) + 0.08 * (0 if filled else 1)
                found = selected(facts, SIZES, "val_loss", text, f"{mean} mean, {size} size")
                base = not found[0]["compared"]
                axes.errorbar(0 if base else found[0]["mean"], place, xerr=None if base else errors(found), color=COLOURS[shift],
                              marker="o", markersize=4.5, markerfacecolor=COLOURS[shift] if filled else "white", capsize=2,
                              linestyle="none", label=f"{WHOSE[mean]} mean" if row == 1 and filled else None)
                if filled and (mean, size) in NAMED:
                    axes.text((0 if base else found[0]["high"]) + 0.001, place, NAMED[mean, size], fontsize=7.5, va="center")
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_yticks(range(len(WHOSE)), [f"divides by\n{name} size" for name in WHOSE.values()])
    axes.set_xlabel("loss above LayerNorm's (nats)")
    axes.legend(fontsize=7.5, title="subtracts", title_fontsize=7.5)
    figure.suptitle("At 2 layers and 64 channels, norms that divide by each token's size end lowest", fontsize=10)
    return figure


BASINS = ("ln", "rms", "bn", "none", "dyt")
ABOVE = 1.2  # nats above the best loss of all norms: darker is not told apart


def basins(facts, texts):
    """W6: the loss of every initialization with every learning rate, a map for each norm."""
    figure = svg_figure(7.4, 2.2)
    panels = figure.subplots(1, len(BASINS), sharey=True)
    losses = {norm: {tuple(map(float, fact["x"].split())): fact["mean"]
                     for fact in facts if fact["experiment"] == "W6" and fact["measure"] == "val_loss"
                     and fact["text"] == texts[0] and fact["condition"] == norm} for norm in BASINS}
    best = min(min(cells.values()) for cells in losses.values())
    for axes, norm in zip(panels, BASINS):
        above = np.array([[losses[norm].get((std, rate), math.inf) - best for rate in RATES] for std in STDS])
        image = axes.imshow(np.minimum(above, ABOVE), origin="lower", cmap="viridis_r", vmin=0, vmax=ABOVE)
        near = np.argwhere(above <= above.min() + NEAR)
        axes.plot(near[:, 1], near[:, 0], "o", color="white", markersize=3)
        axes.set_title(NAMES[norm], fontsize=9)
        axes.set_xticks(range(0, len(RATES), 2), [f"$10^{{{math.log10(rate):.0f}}}$" for rate in RATES[::2]], fontsize=7)
        axes.set_yticks(range(0, len(STDS)), [f"{std:g}" for std in STDS], fontsize=7)
        axes.set_xlabel("learning rate", fontsize=8)
    panels[0].set_ylabel("initial std", fontsize=8)
    bar = figure.colorbar(image, ax=list(panels), fraction=0.03, ticks=[0, ABOVE])
    bar.ax.set_yticklabels(["best of all", f"{ABOVE:g} nats worse,\nor did not train"], fontsize=7)
    figure.suptitle("In the smallest model a norm does not lower the best loss; it makes more settings good", fontsize=10)
    return figure


PICTURES = {"basins": basins, "whose": whose, "shapes": shapes, "outliers": outliers, "depths": depths}
