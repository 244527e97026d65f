"""The parts of a page of scripts/page.py: pictures in SVG, texts, and attention weights.

Losses and probes are drawn as by scripts/plot.py. Smaller pictures show other columns of the logs. Curves carry their
numbers and their place in the picture. The script in page.html reads these and shows the values under the pointer.

Texts come from samples.txt, sample.txt or ./train --generate, and attention weights from ./train --evaluate --dump.
"""
from collections import namedtuple
import json
import math
import os
import re

from matplotlib import ticker
import numpy as np

from common.run_options import RunError, call
from common.runs import read_bytes, read_text
from evidence.lab import attention, dump
from common.variants import number_text, twins, unit_of, variants, varying, without_copies
from plot import compose, groups_of, swept_option
from plots.groups import Table, center_of, curve_of, living_runs, sound
from plots.looks import literal, new_figure, step_ticks
from plots.plot_options import read_command
from plots.probe_charts import magnitude_axis
from plots.svg import compact

# ---- pictures ------------------------------------------------------------------------------------

POINTS = 400      # of a curve, at most
DOTS = 72         # of an inch: SVG is in points
PAGE = "run", "-o", "page.svg"  # words of plot.py: the text of pictures stays text

# An SVG, what it shows in a sentence, and the JSON of its curves for the script in page.html.
Picture = namedtuple("Picture", "name svg says hover", defaults=("",))


def svg_of(figure, name):
    """The figure as an element of a page. It is as wide as the page."""
    figure.set_dpi(DOTS)
    return re.sub(r' (?:width|height)="[^"]*"', "", compact(figure, name, transparent=True), count=2)


def curves_of(table, groups):
    """The curves in a table of plotted numbers, with at most about POINTS of their points, the last one included."""
    found, colours = {}, {group.label: group.look.color for group in groups}
    for _, line, series, x, y, *_ in table.rows:
        if line and y != "":
            found.setdefault((line, series), []).append((int(float(x)), float(f"{float(y):.6g}")))
    curves = []
    for (line, series), points in found.items():
        every = -(-len(points) // POINTS)
        x, y = zip(*points[(len(points) - 1) % every::every])
        curves.append({"name": f"{line} {series}".strip(), "colour": colours[line], "x": x, "y": y})
    return curves


def picture_of(figure, name, says, table, groups):
    """The Picture with the data for page.html: the axes' box in the picture, its steps, and the curves."""
    figure.set_dpi(DOTS)
    figure.canvas.draw()
    axes, (width, height) = figure.axes[0], figure.get_size_inches() * DOTS
    box = axes.get_window_extent()
    hover = {"box": [round(float(v), 2) for v in (box.x0, height - box.y1, box.x1, height - box.y0)],
             "width": float(width), "steps": list(map(float, axes.get_xlim())), "curves": curves_of(table, groups)}
    return Picture(name, svg_of(figure, name.replace("_", "-")), says, json.dumps(hover))


def way_of(runs):
    return "--by=run" if by_run(runs) else "--by=variant"


def swept(runs):
    """The option of a sweep over at least three values, or None."""
    return None if by_run(runs) else swept_option(runs, varying(runs), None, 3)


def best_runs(runs, option):
    """The runs of each variant at its best value of the swept option: the lowest mean loss, where all seeds train if they do anywhere."""
    def rank(item):
        living = living_runs(item[1])
        return len(living) < len(item[1]), center_of(living, "mean") if living else math.inf

    return [run for _, members in variants(runs, [name for name in varying(runs) if name != option])
            for run in min(variants(members, [option]), key=rank)[1]]


def sweep_picture(runs, option):
    """The final losses against the swept option, as scripts/plot.py draws them."""
    figure = compose(runs, read_command([*PAGE, f"--sweep={option}"]), Table())
    return Picture("sweep", svg_of(figure, "sweep"), f"Final validation losses by {option}, every seed.")


def loss_picture(runs, groups, says):
    """The losses as scripts/plot.py draws them."""
    losses = [loss for run in runs for loss in run.losses()]
    logarithmic = losses and max(losses) > 4 * min(losses) > 0
    table = Table()
    figure = compose(runs, read_command([*PAGE, "--chart=curves", way_of(runs), *["--log-y"] * bool(logarithmic)]), table)
    return picture_of(figure, "loss", says, table, groups) if table.rows else None


def small_pictures(runs, groups):
    """The learning rate, the gradient's norm and the speed."""
    unit, found = unit_of(runs), []
    for name, label in (("lr", "learning rate"), ("grad_norm", "norm of the gradient"),
                        ("tokens_per_second", f"{unit}s per second")):
        figure, table = new_figure(), Table()
        figure.set_size_inches(3.6, 2.3)
        axes, values = figure.subplots(), []
        for group in groups:
            width = max(len(run.measured(name)) for run in group.runs) // 50 | 1 if name == "grad_norm" else 1
            curve = curve_of(sound(group.runs), "step", name, "mean", "none", width)
            table.add_curve(name, group.label, "", curve)
            axes.plot(curve.x, curve.y, color=group.look.color, linewidth=1.4)
            values += list(curve.y)
        if not values:
            continue
        axes.set(xlabel="training step", ylabel=label)
        step_ticks(axes, 5)
        if name == "grad_norm" and min(values) > 0:
            magnitude_axis([axes])
        else:
            axes.set_ylim(0, 1.08 * max(values))
        if name == "tokens_per_second":
            axes.yaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        speeds = [run.columns["tokens_per_second"][row] for run in runs for row in run.measured("tokens_per_second")]
        says = {"lr": f"The learning rate is at most {number_text(max(values))}.",
                "grad_norm": "Norm of the gradient before clipping, smoothed.",
                "tokens_per_second": f"Half of the time, training is faster than {np.median(speeds or [0]):,.0f} {unit}s per "
                                     "second."}[name]
        found.append(picture_of(figure, name, says, table, groups))
    return found


PROBES = {  # what a picture of plot.py --probes shows
    "layers": "Residual stream, outputs of sub-layers and gradients over depth, at the first and the last probe.",
    "attention": "Attention by layer and head at the last probe: entropy, largest logit, and the fraction of queries "
                 "with one weight above 0.99.",
    "saturation": "Fraction of channels that dyt, derf or bhyt saturates, and the learned slope of its curve.",
    "updates": "Adam's steps relative to the weights, by layer.",
    "terms": "Terms of the gradient that flow through a norm's statistics.",
    "distance": "Distance of the batch's statistics from the running ones.",
    "discrepancy": "The same distance, relative to the running standard deviation."}


def probe_pictures(runs):
    """A picture of each kind of probes that these runs have measured."""
    found = []
    for kind, says in PROBES.items():
        try:
            figure = compose(runs, read_command([*PAGE, f"--probes={kind}", way_of(runs)]), Table())
        except RunError:
            continue  # none of the runs has measured it
        found.append(Picture(kind, svg_of(figure, f"probes-{kind}"), says))
    return found


def lines_of(runs, say):
    """The groups that are drawn: a line for each variant with its seeds, or for each run where two have the same seed."""
    runs = without_copies(runs, say)
    return groups_of(runs, varying(runs), by_run(runs))


def by_run(runs):
    return not all(run.options for run in runs) or bool(twins(runs))


def heat_picture(weights, letters, name):
    """Attention weights (layers, heads, T, T) of a text, a panel for each head: rows are queries, columns keys."""
    figure = new_figure()
    layers, heads, T = weights.shape[:3]
    side = max(1.2, min(2.4, 0.11 * T))
    figure.set_size_inches(0.4 + side * heads, 0.4 + (side + 0.15) * layers)
    grid = figure.subplots(layers, heads, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        axes.imshow(weights[layer, head], cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(f"layer {layer}, head {head}", fontsize="small")
        for axis, is_outer in ((axes.yaxis, head == 0), (axes.xaxis, layer == layers - 1)):
            ticks = list(map(literal, letters)) if is_outer and T <= 40 else []
            axis.set_ticks(range(len(ticks)), ticks, fontsize=72 * 0.7 * side / T)
        axes.tick_params(length=0, pad=1)
    return Picture(name, svg_of(figure, name), "")


# ---- texts and attention -------------------------------------------------------------------------

ROWS = 12     # of samples.txt
TEXT = 600    # characters of a sample
MODELS = ("model.safetensors", "best.safetensors", "checkpoint.safetensors")


SIGNS = {"\\n": "⏎", "\\t": "⇥", "\\\\": "\\"}  # of the escapes in samples.txt


def samples_of(run):
    """[(step, text)] of samples.txt: at most ROWS, from the first to the last."""
    text = read_text(os.path.join(run.folder, "samples.txt")) or ""
    rows = [line.split("\t", 1) for line in text[:text.rfind("\n") + 1].splitlines()[1:]]
    rows = [(int(row[0]), re.sub(r"\\[nt\\]", lambda escape: SIGNS[escape.group()], row[1]))
            for row in rows if len(row) == 2 and row[0].isdigit()]
    if len(rows) <= ROWS:
        return rows
    return [rows[round(i * (len(rows) - 1) / (ROWS - 1))] for i in range(ROWS)]


def model_of(run):
    """The file of the run's model, or None."""
    paths = (os.path.join(run.folder, name) for name in MODELS)
    return next((path for path in paths if os.path.isfile(path)), None)


def sample_of(run):
    """The text that the run wrote at its end, or that its model writes now."""
    text = read_bytes(os.path.join(run.folder, "sample.txt"))  # of a model of bytes, any bytes
    if text is None and model_of(run) and not samples_of(run):
        text = call(f"--generate={model_of(run)}", "--quiet")
    return (text if isinstance(text, str) else (text or b"").decode(errors="replace"))[:TEXT]


def attention_of(run, prompt):
    """What the run's model attends to in the prompt: weights (layers, heads, T, T) and the T letters."""
    path = model_of(run)
    if not path:
        raise RunError(f"{run.folder}: has no model yet, so --prompt cannot show its attention")
    try:
        arrays = dump(path, prompt + prompt[-1], "--batch-size=1", "--quiet")  # the last letter is a target only
    except RunError as error:
        raise RunError(f"{run.folder}: --prompt: {re.sub('^train: |corpus: [^ ]*: ', '', str(error))}") from None
    T, read = int(arrays["valid"][0].sum()), run.options
    layers = [attention(arrays[f"transformer.h.{layer}.attn.qkv"][:1, :T].astype(float), read["n-head"], read.get("n-kv-head"),
                        read.get("attn-softcap"))[0] for layer in range(read["n-layer"])]
    return np.array(layers), list(prompt[:T])
