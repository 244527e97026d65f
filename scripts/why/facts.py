"""From judged runs to facts, which the predictions are judged by, and to lines: the mean and interval of each condition.

A loss is compared with the baseline's, seed by seed. A measure that needs no baseline is taken as it is.
"""
from collections import namedtuple
import csv
import functools
import math
import os
from statistics import mean

from common.command_line import csv_text, write_whole
from evidence.estimates import over_seeds
from evidence.facts import NO_SEED, Facts
from evidence.quantities import measured
from why.experiments import EXPERIMENTS

TUNED = ("init-std", "learning-rate", "muon-lr")
COLUMNS = ("experiment", "group", "text", "condition", "x", "seed", *TUNED, "at_end", "status",
           "val_loss", "train_loss", "train_mean", "own_loss", "gain", "above_frequencies", "branch_share",
           "size_spread", "final_spread", "size_entropy", "size_frequency", "stream_growth",
           "gradient_expected", "gradient_start", "gradient_100", "gradient_end")
MEASURES = COLUMNS[COLUMNS.index("val_loss"):]
# compared: whether the mean is a difference from the baseline's loss. own_loss: with the batch's own statistics. trained: how many
# runs are not stuck. at_end: tuned options whose best value is at an end of the grid. The other measures: measures.py.
FACT_COLUMNS = ("experiment", "text", "condition", "x", "measure", "compared", "mean", "low", "high", "seeds", "trained", "recipe",
                "at_end")
COMPARED = {"val_loss", "train_loss", "train_mean", "own_loss"}  # with the baseline's val_loss or own kind
BASELINE = "baseline"  # the condition that others are compared with

# facts: evidence.facts.Facts with the cells (text, x, group). lines: [{FACT_COLUMNS, group, values: {seed: value}}].
Known = namedtuple("Known", "facts lines")


def above(experiment, condition, measure="val_loss"):
    """A loss of a condition minus the one of the baseline; with the batch's own statistics, minus its validation loss."""
    return measured(experiment, measure, condition) - measured(experiment, "val_loss" if measure == "own_loss" else measure, BASELINE)


# ---- judged.csv ----------------------------------------------------------------------------------

def read(path):
    """The rows of judged.csv, [{column: text}]; none if there is no file. A column that an older program did not write is empty."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return [dict.fromkeys(COLUMNS, "") | row for row in csv.DictReader(file)]


def text_of(value):
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def write(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, csv_text([COLUMNS, *([row.get(name, "") for name in COLUMNS] for row in rows)]))


def replaced(rows, found):
    """The rows with those of the same experiment, group and text replaced."""
    key = ("experiment", "group", "text")
    new = [{name: text_of(row.get(name)) for name in COLUMNS} for row in found]
    return [row for row in rows if not new or any(row[name] != new[0][name] for name in key)] + new


# ---- facts and lines -----------------------------------------------------------------------------

def values_of(rows, measure):
    """{seed: value} of one condition. A run that diverged has an infinite loss. Branches of initial weights are measured once."""
    lost = {row["seed"]: math.inf for row in rows if measure == "val_loss" and row["status"] == "diverged"}
    found = lost | {row["seed"]: float(row[measure]) for row in rows if row.get(measure)}
    return {NO_SEED: value for value in found.values()} if measure in ("branch_share", "gradient_expected") and len(found) == 1 else found


def baseline_of(group, condition, x, rows_of):
    """The rows that this condition is compared with, by `rows_of`, {(condition, x): rows}."""
    if isinstance(group.baseline, str):
        named = [key for key in rows_of if key[0] == group.baseline]
        like = named if len({key[1] for key in named}) == 1 else [key for key in named if key[1] == x]
        return rows_of[like[0]] if like and condition != group.baseline else None
    if group.baseline is not None:
        alike = [key for key in rows_of if key[1] == str(group.baseline)]
        return rows_of[alike[0]] if alike and x != str(group.baseline) else None
    return None


def add(facts, place, condition, rows):
    """Adds what was measured of a condition. place: experiment, text, x, group."""
    for measure in MEASURES:
        for seed, value in values_of(rows, measure).items():
            facts.add(*place, condition, seed, measure, value)
    for row in rows:
        facts.add(*place, condition, row["seed"], "trained", row["status"] == "done")


def numbers(estimate):
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high, "seeds": estimate.n, "values": estimate.seeds}


def lines_of(facts, place, condition, rows, is_compared):
    """The lines of a condition in one place."""
    experiment, text, x, group = place
    trained = sum(row["status"] == "done" for row in rows)
    for measure in MEASURES:
        compared = is_compared and measure in COMPARED
        which = above(experiment, condition, measure) if compared else measured(experiment, measure, condition)
        estimate = which.compute(functools.partial(facts.series, experiment, (text, x, group)))
        if estimate:
            line = {"experiment": experiment, "group": group, "text": text, "condition": condition, "x": x, "measure": measure,
                    "compared": compared, **numbers(estimate), "trained": trained,
                    "recipe": " ".join(filter(None, (rows[0][name] for name in TUNED))), "at_end": rows[0]["at_end"]}
            yield line
            if measure == "above_frequencies":
                share = trained / len(rows)
                yield {**line, "measure": "trained", "mean": share, "low": share, "high": share}


def of(rows):
    """What judged runs show."""
    known, groups = Known(Facts(), []), {}
    for row in rows:
        group = groups.setdefault((row["experiment"], row["text"], row["group"]), {})
        group.setdefault((row["condition"], row["x"]), []).append(row)
    for (experiment, text, place), rows_of in groups.items():
        group = EXPERIMENTS[experiment]()[int(place)]
        for (condition, x), members in rows_of.items():
            where, against = (experiment, text, x, place), baseline_of(group, condition, x, rows_of)
            add(known.facts, where, condition, members)
            add(known.facts, where, BASELINE, against or [])
            known.lines.extend(lines_of(known.facts, where, condition, members, bool(against)))
    for line in [*growths(known.lines), *rooms(known.lines), *bests(known)]:
        known.lines.append(line)
        for seed, value in line["values"].items():
            known.facts.add(*(line[name] for name in ("experiment", "text", "x", "group", "condition")), seed, line["measure"], value)
    return known


def growths(lines):
    """W4: by how much what BatchNorm loses is more than at the lowest x of its line."""
    series = {}
    for line in lines:
        if line["experiment"] == "W4" and line["measure"] == "val_loss" and line["compared"]:
            series.setdefault((line["text"], line["condition"]), []).append(line)
    for members in series.values():
        first, *others = sorted(members, key=lambda line: float(line["x"]))
        for line in others:
            values = {seed: value - first["values"][seed] for seed, value in line["values"].items() if seed in first["values"]}
            yield {**line, "measure": "growth", **numbers(over_seeds(values))}


def bests(known):
    """Experiments at given settings: the loss of each norm at its best setting minus that of LayerNorm at its own. The same losses
    choose the settings and are compared."""
    found = {}
    for line in known.lines:
        if line["experiment"].endswith("-settings") and line["measure"] == "val_loss":
            cell = line["text"], line["x"], line["group"]
            losses = known.facts.series(line["experiment"], cell, "val_loss", line["condition"])
            settings = found.setdefault((line["experiment"], line["text"]), {})
            settings.setdefault(line["condition"], []).append((mean(losses.values()), losses, line))
    for (experiment, _), settings in found.items():
        best = {condition: min(ones, key=lambda one: one[0]) for condition, ones in settings.items()}
        _, plain, _ = best.pop(EXPERIMENTS[experiment]()[0].baseline, (None, {}, None))
        for _, losses, line in best.values() if plain else ():
            yield {**line, "x": "", "measure": "best_of_settings", "compared": True, "recipe": line["x"],
                   **numbers(over_seeds({seed: losses[seed] - plain[seed] for seed in losses if seed in plain}))}


NEAR, HALF = 0.1, 0.5  # nats above a norm's own best loss: the room of a norm, and a wider one


def rooms(lines):
    """How many cells of W6's grid are near the best one, of each norm, and how many more than LayerNorm's: all of them, within
    NEAR and within HALF; along the initial std at the best rate; along the rate at the best std."""
    grids, counts = {}, {}
    for line in lines:
        if line["experiment"] == "W6" and line["measure"] == "val_loss":
            grids.setdefault((line["text"], line["condition"]), {})[tuple(map(float, line["x"].split()))] = line
    for key, grid in grids.items():
        cells = {cell: line["mean"] for cell, line in grid.items()}
        best = min(cells, key=cells.get)
        near = [cell for cell in cells if cells[cell] <= cells[best] + NEAR]
        counts[key] = {"room": len(near), "room_half": sum(loss <= cells[best] + HALF for loss in cells.values()),
                       "room_std": sum(cell[1] == best[1] for cell in near), "room_rate": sum(cell[0] == best[0] for cell in near)}
    for text, norm in sorted(counts, key=lambda key: (key[0], key[1] != "ln")):
        for name, count in counts[text, norm].items() if (text, "ln") in counts else ():
            for measure, value in ((name, count), (f"{name}_beyond_ln", count - counts[text, "ln"][name])):
                seeds = dict.fromkeys(next(iter(grids[text, norm].values()))["values"], float(value))
                yield {"experiment": "W6", "group": "", "text": text, "condition": norm, "x": "", "measure": measure,
                       "compared": measure != name, **numbers(over_seeds(seeds)), "trained": "", "recipe": "", "at_end": ""}


def publish(folder, known, verdicts):
    """Writes facts.csv, the mean and the interval of every condition, and verdicts.csv."""
    lines = [[f"{line[name]:.4f}" if name in ("mean", "low", "high") else line[name] for name in FACT_COLUMNS] for line in known.lines]
    write_whole(os.path.join(folder, "facts.csv"), csv_text([FACT_COLUMNS, *lines]))
    write_whole(os.path.join(folder, "verdicts.csv"), csv_text(verdicts))
