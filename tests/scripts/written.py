"""Folders of runs written by hand."""
import json
from pathlib import Path

HEADER = "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n"


def put_log(folder, rows):
    """log.csv with rows of (step, training loss, validation loss), where None is an empty cell."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cells = ["" if value is None else f"{value:.9g}" for row in rows for value in row[1:]]
    text = "".join(f"{step},{step / 10:g},{step * 96},0.01,{train},{val},1,960\n"
                   for (step, *_), train, val in zip(rows, cells[::2], cells[1::2]))
    (folder / "log.csv").write_text(HEADER + text)


def put_summary(folder, reason, loss, seed, inactive=(), auto=(), **options):
    """summary.json of a run on the built-in grammar, stuck from a loss of 3.95 on. inactive, auto: options without an effect,
    and those that have the value of "auto"."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    options = {name.replace("_", "-"): value for name, value in options.items()}
    known = {"grammar_entropy": 0.527, "unigram_entropy": 4, "stuck": loss is not None and loss >= 3.95}
    (folder / "summary.json").write_text(json.dumps({
        "exit_reason": reason, **known, "val_loss": loss, "best_val_loss": loss, "seconds": 2,
        "inactive": list(inactive), "auto": list(auto), "options": {"corpus": None, **options, "seed": seed, "sample": seed * 10}}) + "\n")


def put_run(folder, loss, seed=1, reason="done", **options):
    """A run that has ended: validation losses 4 at step 0 and `loss` at step 10. Its options are in Python's
    spelling: norm="ln", learning_rate=0.01; `inactive` and `auto` are those of put_summary()."""
    put_log(folder, [(0, 4, 4), (5, 3, None), (10, None, loss)])
    put_summary(folder, reason, loss, seed, **{"norm": "ln", **options})
