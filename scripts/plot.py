#!/usr/bin/env python3
"""Loss curves of runs: scripts/plot.py RUN... [-o FILE] draws each run folder's log.csv.

A run has one colour (Okabe and Ito 2008, told apart by colour-blind eyes too) and one marker. Its
training loss is a thin light line, a running mean; its validation loss is bold, with a marker per
evaluation. Where summary.json gives grammar_entropy, the loss that no model can beat, it is a
dashed line.
"""
import argparse
import csv
import json
import os
import sys

try:
    import matplotlib
    import numpy as np
except ImportError as error:
    # The first python3 on PATH may be a user's own, while scripts/deps.sh installs for the system's.
    system = "/usr/bin/python3"
    if __name__ == "__main__" and sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, *sys.argv])
    sys.exit(f"plot: {sys.executable}: {error} (scripts/deps.sh plot installs it)")

matplotlib.use("Agg")  # draws into files, needs no screen
matplotlib.rcParams.update({"pdf.fonttype": 42, "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "legend.frameon": False})
from matplotlib import pyplot, ticker  # noqa: E402 (the backend is chosen first)
from matplotlib.lines import Line2D  # noqa: E402

# Grey stands for their yellow, which is too faint on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
LINES = ["-", (0, (4, 1)), (0, (1, 1))]  # the next one each time the colours are used up
X_LABELS = {"step": "training step", "tokens": "characters seen in training",
            "seconds": "training time (s)"}
RUNS_INSIDE = 4  # with more runs the legend stands beside the picture


class PlotError(Exception):
    """What is wrong with a run folder or the output, as one line for the user."""


def read_log(run):
    """The columns of RUN/log.csv as arrays: NaN where a cell is empty, infinity where it diverged.

    A log is readable at any moment: a last line without its end, of a run under way, is left out.
    """
    path = os.path.join(run, "log.csv")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror} (a RUN is a folder that ./train --out made)")
    except UnicodeDecodeError:
        raise PlotError(f"{path}: not a text file")
    if "\n" not in text:
        raise PlotError(f"{path}: empty (has the run started?)")
    lines = list(csv.reader(text[:text.rfind("\n")].split("\n")))
    header = lines[0]
    absent = {*X_LABELS, "train_loss", "val_loss"} - set(header)
    if absent:
        raise PlotError(f"{path}: line 1: no column {', '.join(sorted(absent))} (a run's log?)")
    if len(lines) == 1:
        raise PlotError(f"{path}: only the header: no step is logged yet")
    rows = []
    for number, cells in enumerate(lines[1:], 2):
        if len(cells) != len(header):
            raise PlotError(f"{path}: line {number}: {len(cells)} cells, but {len(header)} columns")
        try:
            row = [float(cell) if cell else None for cell in cells]
        except ValueError as error:
            raise PlotError(f"{path}: line {number}: {error}")
        rows.append([np.nan if value is None else value if np.isfinite(value) else np.inf
                     for value in row])
    return dict(zip(header, np.array(rows).T))


def read_entropy(run):
    """grammar_entropy of RUN/summary.json, or None: the file comes when the run ends."""
    path = os.path.join(run, "summary.json")
    try:
        with open(path, encoding="utf-8") as file:
            entropy = json.load(file).get("grammar_entropy")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise PlotError(f"{path}: {error}")
    is_number = isinstance(entropy, (int, float)) and not isinstance(entropy, bool)
    return entropy if is_number else None


def smooth(values, width):
    """Running mean over `width` (odd) values around each.

    At the steep start it takes only as many after a value as there are before it; at the end it
    takes all there are.
    """
    i = np.arange(len(values))
    before = np.minimum(i, width // 2)
    after = np.minimum(before, i[::-1])
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[i + after + 1] - sums[i - before]) / (before + after + 1)


def measured(log, x, column):
    """x and y of a column where it was measured and is finite."""
    there = np.isfinite(log[column]) & np.isfinite(log[x])
    return log[x][there], log[column][there]


def draw_loss(axes, runs, x):
    """Draws runs, a list of (name, log, entropy), over the log's column x."""
    handles = []
    widths = []
    for number, (name, log, _) in enumerate(runs):
        style = {"color": COLOURS[number % len(COLOURS)],
                 "linestyle": LINES[number // len(COLOURS) % len(LINES)]}
        at, loss = measured(log, x, "train_loss")
        widths.append(len(loss) // 50 | 1)
        axes.plot(at, smooth(loss, widths[-1]), linewidth=0.8, alpha=0.5, **style)
        at, loss = measured(log, x, "val_loss")
        last = f"{loss[-1]:.3f}" if len(loss) else "none yet"
        if np.isinf([log["train_loss"], log["val_loss"]]).any():
            last += ", then diverged"
        handles += axes.plot(at, loss, linewidth=1.8, marker=MARKERS[number % len(MARKERS)],
                             markersize=4.5, label=f"{name}: {last}", **style)
    width = " to ".join(str(width) for width in sorted({min(widths), max(widths)}))
    mean = f", running mean of {width} logged values" if max(widths) > 1 else ""
    grey = {"color": "0.3"}
    handles += [Line2D([], [], linewidth=1.8, label="validation", **grey),
                Line2D([], [], linewidth=0.8, alpha=0.7, label="training" + mean, **grey)]
    for entropy in sorted({entropy for _, _, entropy in runs if entropy is not None}):
        handles.append(axes.axhline(entropy, linewidth=1, linestyle="--",
                                    label=f"entropy of the grammar: {entropy:.3f}", **grey))
    axes.set_xlabel(X_LABELS[x])
    axes.set_ylabel("loss (nats per character)")
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if len(runs) > RUNS_INSIDE else {}
    axes.legend(handles=handles, title="run: last validation loss", alignment="left", **beside)


def plot(folders, output, x="step", log_scale=False, title=None):
    """Reads the run folders and writes the picture."""
    names = [os.path.basename(os.path.abspath(folder)) for folder in folders]
    if len(set(names)) < len(names):
        names = folders
    runs = [(name, read_log(folder), read_entropy(folder)) for name, folder in zip(names, folders)]
    size = (9.4, 4.0) if len(runs) > RUNS_INSIDE else (6.4, 4.0)
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    draw_loss(axes, runs, x)
    if log_scale:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 2.5, 3, 4, 5, 7)))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    if x == "tokens":
        axes.xaxis.set_major_formatter(ticker.EngFormatter())
    if title:
        axes.set_title(title)
    try:
        figure.savefig(output, dpi=200)
    except OSError as error:
        raise PlotError(f"{output}: {error.strerror}")
    except ValueError as error:
        raise PlotError(f"{output}: {error}")
    finally:
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Draw the loss curves of runs.")
    parser.add_argument("run", nargs="+", help="run folder, as made by ./train --out")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="picture to write, .png, .svg or .pdf "
                             "(default: RUN/loss.png, or loss.png for several runs)")
    parser.add_argument("--x", choices=list(X_LABELS), default="step",
                        help="horizontal axis (default: step)")
    parser.add_argument("--log", action="store_true", help="logarithmic loss axis")
    parser.add_argument("--title", help="title above the picture")
    options = parser.parse_args()
    folder = options.run[0] if len(options.run) == 1 else ""
    output = options.output or os.path.join(folder, "loss.png")
    if not os.path.splitext(output)[1]:
        output += ".png"
    try:
        plot(options.run, output, options.x, options.log, options.title)
    except PlotError as error:
        sys.exit(f"plot: {error}")
    print(output)


if __name__ == "__main__":
    main()
