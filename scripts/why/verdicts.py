"""What became of the predictions (frozen/predictions.py)."""
from evidence import rules
from frozen.predictions import PREDICTIONS


def judge(facts):
    """[(number, text, says, rule, the rule's Judged on this text)]"""
    texts = {text: facts.where(lambda cell, text=text: cell[0] == text) for text in facts.texts()}
    return [(number, text, says, rule, rules.judge(rule, part)) for number, (says, rule) in enumerate(PREDICTIONS, 1)
            for text, part in texts.items()]


def rule_text(rule):
    """Which end of the interval is compared; the number of settings in a room has none."""
    metric, _ = rule.quantity.needs[0]
    if rule.form == "within":
        return f"|{' - '.join(name for name, _ in rule.quantity.needs)}| < {rule.high:g}"
    end = "mean" if metric.startswith("room") else "low" if rule.form == "above" else "high"
    return f"{end} of {metric} > {rule.low:g}" if rule.form == "above" else f"{end} of {metric} < {rule.high:g}"


def table(facts):
    """A row for each prediction and text, below the titles."""
    rows = [("prediction", "text", "says", "rule", "verdict", "measured")]
    for number, text, says, rule, judged in judge(facts):
        shown = "; ".join(f"{cell[1]}: {one.estimate.value:+.3f} [{one.estimate.low:+.3f}, {one.estimate.high:+.3f}]"
                          for cell, one in judged.known[rule].items())
        word = "not run" if judged.value is None else "holds" if judged.value == rules.HOLDS else "FAILS"
        rows.append((f"P{number}", text, says, rule_text(rule), word, shown))
    return rows
