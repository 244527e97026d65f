"""Reads probes.csv, which ./train --probe-interval=N writes, and computes the lines of its charts.

model/instruments/probe.h defines the metrics. An incomplete last row is left out, as in log.csv. A resumed run measures
the updates after its checkpoint again. Of several rows for one step, the last counts.
"""
import csv
import math
import os

import numpy as np

from common.runs import NotStarted, RunError, check_table, read_text
from plots.groups import CENTERS, merge, smooth, sound

HEADER = ["step", "layer", "site", "metric", "value"]
STREAM = "stream"  # the line of metrics whose sites are places along the residual stream


class Probes:
    """What a run measured.

    series  {(metric, site, layer): {step: value}}: finite values; layer None outside of the layers
    steps   the probed steps, in order
    """

    def __init__(self, folder):
        path = os.path.join(folder, "probes.csv")
        text = read_text(path)
        if text is None:
            raise RunError(f"{path}: No such file or directory (./train --probe-interval=K writes it)")
        rows = list(csv.reader(text[:text.rfind("\n") + 1].splitlines()))
        if not rows:
            raise NotStarted(f"{path}: empty (has the run started?)")
        if rows[0] != HEADER:
            raise RunError(f"{path}: damaged: line 1 is not {','.join(HEADER)}")
        self.series, steps = {}, set()
        for number, cells in enumerate(rows[1:], 2):
            if len(cells) != len(HEADER):
                raise RunError(f"{path}: damaged: line {number} has {len(cells)} cells, "
                               f"but there are {len(HEADER)} columns")
            step, layer, site, metric, value = cells
            try:
                step, layer, value = int(step), int(layer) if layer else None, float(value)
            except ValueError as error:
                raise RunError(f"{path}: damaged: line {number}: {error}")
            steps.add(step)
            if math.isfinite(value):
                self.series.setdefault((metric, site, layer), {})[step] = value
        if not steps:
            raise NotStarted(f"{path}: only the header: nothing is probed yet")
        self.steps = sorted(steps)

    def of(self, metric, sites):
        """[(site, layer, {step: value})] of a metric; of these sites if any are given."""
        return [(site, layer, values) for (name, site, layer), values in self.series.items()
                if name == metric and (not sites or site in sites)]


def probed(runs, say):
    """The runs with probes, which become run.probes; and whether some have none. say(text) reports
    those."""
    found = []
    for run in runs:
        try:
            run.probes = Probes(run.folder)
            found.append(run)
            check_table(run.folder, "probes.csv", say)
        except RunError as error:
            say(str(error))
    return found, len(found) < len(runs)


def merged(runs, options, points_of, width=1):
    """{line: curve} of {line: {x: value}} of each run, as points_of(probes) gives them; values are running means of `width`."""
    logs = {}
    for run in sound(runs):
        for line, points in points_of(run.probes).items():
            x, values = np.array(sorted(points.items())).T
            logs.setdefault(line, []).append((x, x, smooth(values, width)))
    return {line: merge(of, options.center, options.band) for line, of in logs.items()}


def lines_over_steps(runs, row, options, width):
    """{(layer, site): curve}"""
    return merged(runs, options, lambda probes: {(layer, site): values for site, layer, values
                                                 in probes.of(row.metric, row.sites)}, width)


def depth_of(site, layer):
    """The number of layers that a token has passed: attention counts half a layer, and so does the
    MLP."""
    if layer is None:
        return 0 if site == "embd" else None
    return layer + (1 if site.startswith(("mlp", "ln_2")) else 0.5)


def lines_over_layers(runs, row, step, options):
    """{site: curve}. The residual stream is one line through its sites."""
    def points_of(probes):
        points = {}
        for site, layer, values in probes.of(row.metric, row.sites):
            depth = depth_of(site, layer)
            if depth is not None and step in values:
                line = STREAM if row.metric in ("stream_rms", "stream_grad") else site
                points.setdefault(line, {})[depth] = values[step]
        return points
    return merged(runs, options, points_of)


def head_map(runs, metric, step, options):
    """(layers, heads) over seeds, or None. Head 0 of one seed is unrelated to head 0 of another: with
    several seeds the heads of each layer are in the order of their values."""
    maps = []
    for run in sound(runs):
        found = {(layer, int(site.split(".")[1])): values[step]
                 for site, layer, values in run.probes.of(metric, ()) if step in values}
        if found:
            cells = np.full(np.max(list(found), axis=0) + 1, np.nan)
            for place, value in found.items():
                cells[place] = value
            maps.append(cells)
    if not maps or len({cells.shape for cells in maps}) > 1:
        return None
    if len(maps) > 1:
        maps = [np.sort(cells, axis=1) for cells in maps]
    return CENTERS[options.center](maps, axis=0)
