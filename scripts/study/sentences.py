"""The answer of a study in sentences: who wins, by how much, with which interval, how many runs trained, and what is undecided."""
import math

from ablate.comparisons import HIGHER_IS_BETTER, LEARNED
from common.variants import number_text
from study.design import at


def number(value, answer, sign=""):
    """A loss with three decimals, or another metric with four digits, with a real minus sign."""
    if value is None or math.isnan(value):
        return "–"
    return format(value, f"{sign}.3f" if answer.unit and abs(value) < 1e6 else f"{sign}.4g").replace("-", "−")


def interval(row, answer, sign=""):
    mean = number(row["mean"], answer, sign)
    return mean if math.isnan(row["low"]) else f"{mean} [{number(row['low'], answer, sign)}, {number(row['high'], answer, sign)}]"


def listed(texts, last="and"):
    """"a, b and c"."""
    *first, end = texts
    return f"{', '.join(first)} {last} {end}" if first else end


def ratio_text(row):
    """How many times as large a variant's largest stable value is as its baseline's."""
    def text(value):
        return "∞" if math.isinf(value) else number_text(float(f"{value:.3g}"))
    return "–" if math.isnan(row["ratio"]) else f"{text(row['ratio'])} [{text(row['ratio_low'])}, {text(row['ratio_high'])}]"


def sides(row):
    what, _, base = row["contrast"].partition(" minus ")
    return what, base


def claim(answer, row):
    """Who wins a comparison, as a clause."""
    (what, base), verdict, shown = sides(row), row["verdict"], f"{interval(row, answer, '+')} {answer.unit}".rstrip()
    if verdict in ("lower", "higher"):
        better = (verdict == "higher") == (answer.metric in HIGHER_IS_BETTER)
        says = f"{'beats' if better else 'loses to'} {base}" if answer.metric in LEARNED else f"is {verdict} than {base}"
        return f"{what} {says}: its {answer.quantity} differs by {shown}"
    if verdict.startswith("equal"):
        return f"{what} and {base} are {verdict} {answer.unit}".rstrip() + f": {what}'s {answer.quantity} differs by {shown}"
    if verdict == "neither trained":
        return f"neither {what} nor {base} trained"
    if verdict.startswith("trains"):
        return f"{what} {verdict} than {base}"
    seen = f"the {answer.quantity} differs by {shown}" if row["seeds"] else "no seed trained on both sides"
    return f"whether {what} or {base} is better is undecided: {seen}"


def counted(row):
    """The seeds and the runs that trained."""
    some = int(0 < row["kept"] < row["of"])
    left = f"; the mean is over {row['kept']} of {row['of']} combinations, in the others not all runs trained" * some
    trained, theirs = (f"{row[name]} of {row['runs']}" for name in ("trained", "trained_baseline"))
    runs = f"all {row['runs']} runs of each trained" if trained == theirs == f"{row['runs']} of {row['runs']}" else \
        f"{trained} and {theirs} runs trained"
    return f"{row['seeds']} seeds, paired; {runs}{left}"


def capital(text):
    return text[:1].upper() + text[1:]


def comparison(answer, rows):
    """What is compared with the baseline: on average if there are several combinations, then in each of them."""
    effects, apart = rows[rows["kind"] == "main effect"], rows[rows["kind"] == "difference"]
    if not len(effects):
        at = f"at {apart.iloc[0]['where']}: " if apart.iloc[0]["where"] else ""
        return [f"{capital(at + claim(answer, row))} ({counted(row)})." for _, row in apart.iterrows()]
    effect = effects.iloc[0]
    by_verdict = {}
    for _, row in apart.iterrows():
        by_verdict.setdefault(row["verdict"], []).append(f"({row['where']})")
    parts = "; ".join(f"{verdict} in all {len(places)}" if len(by_verdict) == 1 else f"{verdict} at {listed(places)}"
                      for verdict, places in by_verdict.items())
    return [f"Averaged over {listed(effect['where'].split(', '))}, {claim(answer, effect)} ({counted(effect)}).",
            f"Verdicts on the {answer.quantity} in single combinations: {parts}."]


def interactions(answer, rows):
    """How what is compared depends on other factors."""
    found, open_ = [], []
    for _, row in rows.iterrows():
        there, _, here = row["where"].partition(" minus ")
        if row["verdict"] in ("lower", "higher"):
            found.append(f"The difference between {listed(sides(row))} is {row['verdict']} with {there} than with {here}: "
                         f"{interval(row, answer, '+')} {answer.unit}".rstrip() + ".")
        elif row["verdict"].startswith("equal"):
            found.append(f"The difference between {listed(sides(row))} is the same with {there} and {here}, {row['verdict']}.")
        else:
            open_.append(f"from {here} to {there}")
    return found + [f"Whether the difference changes {', or '.join(open_)}, is undecided."] * bool(open_)


def value(number, beyond="–"):
    return beyond if not math.isfinite(number) else number_text(float(f"{number:.3g}"))


def trained_at(answer):
    """How many runs train at each value of the option of --stable, for each level that is compared."""
    names, found = list(answer.baseline), {}
    for levels, curve in answer.swept.items():
        own = found.setdefault(tuple(level for name, level in zip(answer.factors, levels) if name in names), {})
        for number, runs in curve.items():
            own.setdefault(number, []).extend(run.status == "done" for run in runs.values())
    parts = (f"{listed([str(sum(runs)) for runs in of.values()])} of {max(map(len, of.values()))} with {answer.label(levels, names)}"
             for levels, of in found.items())
    return f"Runs that train at {listed(list(map(value, next(iter(found.values())))))}: {'; '.join(parts)}."


def stable(answer):
    """The ratios of the largest stable values, a sentence for each level that is compared."""
    names, found = list(answer.baseline), {}
    others = [name for name in answer.factors if name not in names]
    rows = {tuple(row[name] for name in answer.factors): row for _, row in answer.stability.iterrows()}
    for levels, row in rows.items():
        base = rows.get(at(levels, list(answer.factors), answer.baseline))
        if base is None or base is row:
            continue
        word = "it is larger" if row["ratio_low"] > 1 else "it is smaller" if row["ratio_high"] < 1 else "no difference is shown"
        where = answer.label([row[name] for name in others], others) + ": " if others else ""
        ratio = "" if math.isnan(row["ratio"]) else f", a ratio of {ratio_text(row)}"
        found.setdefault(answer.label([row[name] for name in names], names), {}).setdefault(word, []).append(
            f"{where}{value(row['largest'], 'none')} and {value(base['largest'], 'none')}{ratio}")
    base, option = answer.label(answer.baseline.values(), names), answer.record["stable"]["name"]
    return [f"The largest stable {option} of {what}, against that of {base}: "
            + "; ".join(f"{word} ({'; '.join(places)})" for word, places in words.items()) + "." for what, words in found.items()]


def sentences(answer):
    rows, factor = answer.contrasts, " x ".join(answer.baseline)
    if not len(rows):
        return []
    asked, found = rows[rows["factor"] == factor], []
    for _, of in asked.groupby("contrast", sort=False):
        found += comparison(answer, of[of["kind"] != "interaction"]) + interactions(answer, of[of["kind"] == "interaction"])
    return [*stable(answer), trained_at(answer), *found] if len(answer.stability) else found
