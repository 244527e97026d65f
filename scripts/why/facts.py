"""From judged runs to facts (mean and interval of each condition), and from facts to the verdict on each prediction.

A loss is compared with the baseline's, seed by seed. A measure that needs no baseline is taken as it is.
"""
import csv
import fnmatch
import os

from study.statistics import t_interval
from common.command_line import csv_text, write_whole
from why.experiments import EXPERIMENTS

COLUMNS = ("experiment", "group", "text", "condition", "x", "seed", "init-std", "learning-rate", "at_end", "status",
           "val_loss", "train_loss", "train_mean", "own_loss", "gain", "above_frequencies", "branch_share")
MEASURES = COLUMNS[COLUMNS.index("val_loss"):]
FACT_COLUMNS = ("experiment", "text", "condition", "x", "measure", "compared", "mean", "low", "high", "seeds", "recipe", "at_end")
STUCK = -0.1  # nats: a model that is not this far below the loss of frequencies has learned nothing else
COMPARED = {"val_loss", "train_loss", "train_mean", "own_loss"}  # with the baseline's val_loss or own kind
HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    """The rows of judged.csv, [{column: text}]; none if there is no file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


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


def losses(rows, measure):
    """{seed: value} of one condition."""
    return {row["seed"]: float(row[measure]) for row in rows if row[measure]}


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


def of(rows):
    """The facts: {experiment, group, text, condition, x, measure, mean, low, high, seeds, ...}."""
    found = []
    names = dict.fromkeys((row["experiment"], row["group"], row["text"]) for row in rows)
    for experiment, place, text in names:
        group = EXPERIMENTS[experiment]()[int(place)]
        rows_of = {}
        for row in rows:
            if (row["experiment"], row["group"], row["text"]) == (experiment, place, text):
                rows_of.setdefault((row["condition"], row["x"]), []).append(row)
        for (condition, x), members in rows_of.items():
            against = baseline_of(group, condition, x, rows_of)
            for measure in MEASURES:
                values = losses(members, measure)
                if not values:
                    continue
                beside = losses(against, "val_loss" if measure == "own_loss" else measure) if against else {}
                if against and measure in COMPARED:
                    values = {seed: value - beside[seed] for seed, value in values.items() if seed in beside}
                mean, low, high, _ = t_interval(list(values.values())) if len(values) > 1 else (*values.values(),) * 3 + (0,)
                one = {"experiment": experiment, "group": place, "text": text, "condition": condition, "x": x,
                       "measure": measure, "compared": bool(against and measure in COMPARED), "mean": mean,
                       "low": low, "high": high, "seeds": len(values), "values": values,
                       "lost": sum(row["status"] not in ("done", "stuck") for row in members),
                       "recipe": f"{members[0]['init-std']} {members[0]['learning-rate']}".strip(),
                       "at_end": members[0]["at_end"]}
                found.append(one)
                if measure == "above_frequencies":
                    share = sum(value < STUCK for value in values.values()) / len(values)
                    found.append({**one, "measure": "trained", "mean": share, "low": share, "high": share})
    return found + growths(found) + rooms(found)


def growths(found):
    """W4: by how much what BatchNorm loses is more than at the lowest x of its line."""
    grown, lines = [], {}
    for fact in found:
        if fact["experiment"] == "W4" and fact["measure"] == "val_loss" and fact["compared"]:
            lines.setdefault((fact["text"], fact["condition"]), []).append(fact)
    for line in lines.values():
        first, *others = sorted(line, key=lambda fact: float(fact["x"]))
        for fact in others:
            common = fact["values"].keys() & first["values"].keys()
            mean, low, high, seeds = t_interval([fact["values"][seed] - first["values"][seed] for seed in common])
            grown.append({**fact, "measure": "growth", "mean": mean, "low": low, "high": high, "seeds": seeds})
    return grown


NEAR, HALF = 0.1, 0.5  # nats above a norm's own best loss: the room of a norm, and a wider one


def rooms(found):
    """How many cells of W6's grid are near the best one, of each norm, and how many more than LayerNorm's: all of them, within
    NEAR and within HALF; along the initial std at the best rate; along the rate at the best std."""
    rooms = {}
    for text in dict.fromkeys(fact["text"] for fact in found):
        for norm in ("ln", "none", "rms", "bn", "dyt", "ln, detached"):
            cells = {tuple(map(float, fact["x"].split())): fact["mean"] for fact in found if fact["experiment"] == "W6"
                     and fact["text"] == text and fact["condition"] == norm and not fact["lost"]}
            if cells:
                best = min(cells, key=cells.get)
                near = [cell for cell in cells if cells[cell] <= cells[best] + NEAR]
                rooms[text, norm] = {"room": len(near), "room_half": sum(loss <= cells[best] + HALF for loss in cells.values()),
                                     "room_std": sum(cell[1] == best[1] for cell in near),
                                     "room_rate": sum(cell[0] == best[0] for cell in near)}
    return [{"experiment": "W6", "group": "", "text": text, "condition": norm, "x": "", "measure": name + suffix,
             "compared": bool(suffix), "mean": value, "low": value, "high": value, "seeds": 2, "lost": 0, "recipe": "", "at_end": ""}
            for (text, norm), counts in rooms.items() for name, count in counts.items()
            for suffix, value in (("", count), ("_beyond_ln", count - rooms[text, "ln"][name])) if (text, "ln") in rooms]


def judge(found):
    """[(prediction, text, holds or None, the facts that decide)]."""
    with open(os.path.join(HERE, "predictions.csv"), encoding="utf-8", newline="") as file:
        predictions = list(csv.DictReader(file))
    verdicts = []
    for one in predictions:
        for text in dict.fromkeys(fact["text"] for fact in found):
            facts = [fact for fact in found if fact["text"] == text and fact["experiment"] == one["experiment"]
                     and fact["condition"] == one["condition"] and fnmatch.fnmatch(fact["x"], one["x"])
                     and fact["measure"] == one["measure"]]
            facts.sort(key=lambda fact: float(fact["x"] or 0) if " " not in fact["x"] else 0)
            sign = 1 if one["relation"] == ">" else -1
            holds = all(sign * (fact[one["quantity"]] - float(one["bound"])) > 0 for fact in facts) if facts else None
            verdicts.append((one, text, holds, facts))
    return verdicts


def verdicts(found):
    """A row for each prediction and text, below the titles."""
    rows = [("prediction", "text", "says", "rule", "verdict", "measured")]
    for one, text, holds, facts in judge(found):
        shown = "; ".join(f"{fact['x']}: {fact['mean']:+.3f} [{fact['low']:+.3f}, {fact['high']:+.3f}]" for fact in facts)
        rows.append((one["id"], text, one["says"], f"{one['quantity']} of {one['measure']} {one['relation']} {one['bound']}",
                     {True: "holds", False: "FAILS", None: "not run"}[holds], shown))
    return rows


def publish(folder, found):
    """Writes facts.csv, the mean and the interval of every condition, and verdicts.csv."""
    facts = [[f"{fact[name]:.4f}" if name in ("mean", "low", "high") else fact[name] for name in FACT_COLUMNS] for fact in found]
    write_whole(os.path.join(folder, "facts.csv"), csv_text([FACT_COLUMNS, *facts]))
    write_whole(os.path.join(folder, "verdicts.csv"), csv_text(verdicts(found)))
