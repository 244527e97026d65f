#!/usr/bin/env python3
"""The table of runs: scripts/table.py FOLDER | RUN... prints one row per variant, in Markdown.

FOLDER is an ablation's (scripts/ablate.sh), a RUN the folder of a run. A variant is what differs but
the seed. Its row: final validation loss (median, mean, standard deviation, range over seeds), best
validation loss, runs that are done, diverged or failed, seconds of a run. Losses are those of runs
that are done, in nats per character.
--csv=FILE writes one row per run instead of the table.
"""
import csv
import json
import os
import shlex
import statistics
import sys

# ./train derives these from others, unless they are given.
DERIVED = {"min-lr": lambda options: options["learning-rate"] / 10,
           "lr-decay-iters": lambda options: options["max-iters"]}
RESULTS = ["steps", "train_loss", "val_loss", "best_val_loss", "best_step", "seconds",
           "tokens_per_second"]


def read_summary(run):
    """The run's summary.json, or None while there is none."""
    try:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        sys.exit(f"table: {run}: {error}")


def read_status(folder, name):
    """The exit status of an ablation's run, or None: it is under way, or was killed unseen."""
    try:
        with open(os.path.join(folder, "driver", name + ".status"), encoding="utf-8") as file:
            words = file.read().split()
    except FileNotFoundError:
        return None
    return int(words[1]) if len(words) > 1 and words[0] == "ended" else None


def record(name, options, summary, status):
    """What is known of a run: name, options, seed, exit_status, exit_reason, results."""
    reason = summary["exit_reason"] if summary else None
    if reason in ("done", "diverged"):
        status = 3 if reason == "diverged" else 0
    elif status is not None and reason != "interrupted":
        reason = "failed"
    run = {key: summary.get(key) if summary else None for key in [*RESULTS, "corpus_crc32"]}
    return {**run, "run": name, "options": options, "seed": options.get("seed"),
            "exit_status": status, "exit_reason": reason or "unfinished"}


def read_ablation(folder):
    """The runs of grid.txt, with the options as they were given."""
    runs = []
    with open(os.path.join(folder, "grid.txt"), encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            name, *words = shlex.split(line)
            last = next(i for i, word in enumerate(words) if word.startswith("--seed="))
            options = dict(word[2:].split("=", 1) for word in words[:last + 1])
            summary = read_summary(os.path.join(folder, "runs", name))
            runs.append(record(name, options, summary, read_status(folder, name)))
    return runs


def read_runs(folders):
    """The runs of these folders, with the options that ./train resolved."""
    runs = []
    for folder in folders:
        summary = read_summary(folder)
        if summary is None:
            print(f"table: {folder}: has not ended", file=sys.stderr)
            continue
        options = dict(summary["options"])
        runs.append(record(os.path.basename(os.path.abspath(folder)), options, summary, None))
    for name, rule in DERIVED.items():
        if all(abs(run["options"][name] - rule(run["options"])) < 1e-12 for run in runs):
            for run in runs:
                del run["options"][name]
    return runs


def varied(runs):
    """The names of options in which the runs differ, seed left out; norm and placement if none."""
    names = [name for name in (runs[0]["options"] if runs else {}) if name != "seed"
             and len({str(run["options"][name]) for run in runs}) > 1]
    return names or ["norm", "placement"]


def text_of(value):
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def write_results(path, runs):
    """One row per run; a reader sees the old file or the new one."""
    names = varied(runs)
    rows = [["run", *names, "seed", "exit_status", "exit_reason", *RESULTS]]
    for run in runs:
        row = [run["run"], *(text_of(run["options"][name]) for name in names)]
        row += [run[name] for name in rows[0][len(row):]]
        rows.append(row)
    try:
        with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
    except OSError as error:
        sys.exit(f"table: {path}: {error.strerror}")


def mean_and_spread(losses):
    spread = statistics.stdev(losses) if len(losses) > 1 else 0
    return f"{statistics.mean(losses):.4f} ± {spread:.4f}"


def print_table(runs):
    names = varied(runs)
    groups = {}
    for run in runs:
        key = tuple(text_of(run["options"][name]) for name in names)
        groups.setdefault(key, []).append(run)
    titles = [*names, "median", "mean ± sd", "range", "best ± sd", "seeds", "diverged", "failed", "s/run"]
    print("| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for key, group in groups.items():
        done = [run for run in group if run["exit_reason"] == "done"]
        losses = [run["val_loss"] for run in done]
        cells = list(key)
        if done:
            cells += [f"{statistics.median(losses):.4f}", mean_and_spread(losses),
                      f"{min(losses):.4f} to {max(losses):.4f}",
                      mean_and_spread([run["best_val_loss"] for run in done])]
        else:
            cells += [""] * 4
        count = {reason: sum(run["exit_reason"] == reason for run in group)
                 for reason in ("diverged", "failed")}
        ended = [run["seconds"] for run in group if run["exit_reason"] in ("done", "diverged")]
        cells += [str(len(done)), str(count["diverged"]), str(count["failed"]),
                  f"{statistics.median(ended):.0f}" if ended else ""]
        print("| " + " | ".join(cells) + " |")
    unfinished = sum(run["exit_reason"] not in ("done", "diverged", "failed") for run in runs)
    if unfinished:
        print(f"table: {unfinished} of {len(runs)} runs have not ended", file=sys.stderr)
    if len({run.get("corpus_crc32") for run in runs} - {None}) > 1 and "corpus" not in names:
        print("table: the runs saw different texts: the corpus changed in between", file=sys.stderr)


def main(arguments):
    output = None
    if arguments and arguments[0].startswith("--csv="):
        output = arguments.pop(0)[len("--csv="):]
    if not arguments or arguments[0].startswith("-") or output == "":
        sys.exit("Usage: scripts/table.py [--csv=FILE] FOLDER | RUN...")
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    is_ablation = len(arguments) == 1 and os.path.exists(os.path.join(arguments[0], "grid.txt"))
    runs = read_ablation(arguments[0]) if is_ablation else read_runs(arguments)
    if output:
        write_results(output, runs)
    else:
        print_table(runs)


if __name__ == "__main__":
    main(sys.argv[1:])
