#!/usr/bin/env python3
"""The table of runs: scripts/table.py FOLDER | RUN... prints one row per variant, in Markdown.

FOLDER is an ablation's (scripts/ablate.sh), whose grid says which options differ. A RUN is the folder of
a run, or a folder of runs; then the options count that make a difference (run_options.py), and if every
variant is a single run, a column names it. A row holds the final validation loss (median, mean and
standard deviation, range over seeds), the best validation loss, the numbers of runs that are done,
diverged or failed, and the seconds of a run. Losses are those of runs that are done, in nats per
character.
"""
import argparse
import csv
import json
import os
import shlex
import signal
import statistics
import sys

import checksums
from arguments import Parser, UsageError
from run_options import ABSENT, PLACES, WATCHING, differing, is_active
from runs import is_run, read_options, runs_inside

RESULTS = ["steps", "train_loss", "val_loss", "best_val_loss", "best_step", "seconds",
           "tokens_per_second"]


def say(text):
    print(f"table: {text}", file=sys.stderr)


def read_summary(run):
    """The run's summary.json, or None while there is none. Warns if the run's log was changed."""
    try:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        checksums.check(run, "log.csv", say)
        return summary
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        sys.exit(f"table: {run}: {error}")


def read_status(folder, name):
    """The exit status of an ablation's run, or None if it is under way or its script was killed."""
    try:
        with open(os.path.join(folder, "driver", name + ".status"), encoding="utf-8") as file:
            words = file.read().split()
    except FileNotFoundError:
        return None
    return int(words[1]) if len(words) > 1 and words[0] == "ended" else None


def record(name, options, summary, status):
    """A run as a dictionary: name, options, seed, exit_status, exit_reason, results."""
    reason = summary["exit_reason"] if summary else None
    if reason in ("done", "diverged"):
        status = 3 if reason == "diverged" else 0
    elif status is not None and reason != "interrupted":
        reason = "failed"
    run = {key: summary.get(key) if summary else None for key in [*RESULTS, "corpus_crc32"]}
    return {**run, "run": name, "options": options, "seed": options.get("seed"),
            "exit_status": status, "exit_reason": reason or "unfinished"}


def is_list(folder):
    """Whether the ablation's runs were given as a list (--grid=FILE), not as combinations of options."""
    try:
        with open(os.path.join(folder, "driver", "shape"), encoding="utf-8", errors="replace") as file:
            return file.read().startswith("--grid ")
    except OSError:
        return False


def read_ablation(folder):
    """The runs in grid.txt, with their options as given there; those of a list with the options that
    ./train resolved."""
    states, grid = [], []
    with open(os.path.join(folder, "grid.txt"), encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            name, *words = shlex.split(line)
            states.append((os.path.join(folder, "runs", name), read_status(folder, name)))
            grid.append((name, words))
    if is_list(folder):
        return resolved(states)
    runs = []
    for (name, words), (path, status) in zip(grid, states):
        last = next(i for i, word in enumerate(words) if word.startswith("--seed="))
        options = dict(word[2:].split("=", 1) for word in words[:last + 1])
        runs.append(record(name, options, read_summary(path), status))
    return runs


def read_runs(folders):
    """The runs of these folders, with the options that ./train resolved."""
    paths = []
    for folder in folders:
        inside = [folder] if is_run(folder) else runs_inside(folder)
        if not inside:
            sys.exit(f"table: {folder}: no run in it (a RUN is a folder that ./train --out made)")
        paths += inside
    return resolved([(path, None) for path in paths])


def resolved(states):
    """The runs [(folder, exit status or None)] with the options of their summaries, or of config.ini if
    they failed before they had one."""
    runs = []
    for folder, status in states:
        summary = read_summary(folder)
        options = read_options(folder, summary or {}) if summary or status else {}
        if not options:
            say(f"{folder}: {'failed before it started' if status else 'has not ended'}")
            continue
        runs.append(record(os.path.basename(os.path.abspath(folder)), options, summary, status))
    names = ["norm", "placement", *(name for name in differing([run["options"] for run in runs])
                                    if name not in ("seed", "norm", "placement"))]
    names += told_apart(runs, names)
    for run in runs:
        options = run["options"]
        run["options"] = {name: options[name] if name in WATCHING or is_active(name, options) else ""
                          for name in names if name in options}
    return runs


def told_apart(runs, names):
    """Further options, by which runs differ that are equal in their seed and in the options of these
    names: they are about what is watched or stored."""
    groups = {}
    for run in runs:
        options = run["options"]
        key = tuple(str(options.get(name)) for name in [*names, "seed"])
        groups.setdefault(key, []).append(options)
    return [name for name in (runs[0]["options"] if runs else ())
            if name not in names and name not in ("seed", *PLACES) and any(
                len({str(options.get(name)) for options in group}) > 1 for group in groups.values())]


def varied(runs):
    """The options in which the runs differ, without the seed; norm and placement if there are none."""
    names = [name for name in (runs[0]["options"] if runs else {}) if name != "seed"
             and len({str(run["options"][name]) for run in runs}) > 1]
    return names or ["norm", "placement"]


def text_of(value, name):
    """An option's value as text."""
    if value is None:
        return ABSENT.get(name, "none")
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def write_results(path, runs):
    """Writes one row per run as CSV. A reader sees the old file or the new one."""
    names = varied(runs)
    rows = [["run", *names, "seed", "exit_status", "exit_reason", *RESULTS]]
    for run in runs:
        row = [run["run"], *(text_of(run["options"][name], name) for name in names)]
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
    """Mean and standard deviation; a single loss has none."""
    spread = f" ± {statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.4f}{spread}"


def print_table(runs, by_hand):
    names = varied(runs)
    groups = {}
    for run in runs:
        key = tuple(text_of(run["options"][name], name) for name in names)
        groups.setdefault(key, []).append(run)
    if by_hand and len(groups) == len(runs):
        names = ["run", *names]
        groups = {(run["run"], *key): [run] for key, (run,) in groups.items()}
    titles = [*names, "median", "mean ± sd", "range", "best ± sd", "seeds", "diverged", "failed", "s/run"]
    print("| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for key, group in groups.items():
        done = [run for run in group if run["exit_reason"] == "done"]
        losses = [run["val_loss"] for run in done]
        cells = list(key)
        if done:
            cells += [f"{statistics.median(losses):.4f}", mean_and_spread(losses),
                      f"{min(losses):.4f} to {max(losses):.4f}" if len(losses) > 1 else "",
                      mean_and_spread([run["best_val_loss"] for run in done])]
        else:
            cells += [""] * 4
        count = {reason: sum(run["exit_reason"] == reason for run in group)
                 for reason in ("diverged", "failed")}
        ended = [run["seconds"] for run in group if run["exit_reason"] in ("done", "diverged")]
        cells += [str(len(done)), str(count["diverged"]), str(count["failed"]),
                  f"{statistics.median(ended):.0f}" if ended else ""]
        print("| " + " | ".join(cells) + " |")
    for key, group in groups.items():
        if len({run["seed"] for run in group}) < len(group):
            say(f"several runs of {', '.join(key)} have the same seed")
    unfinished = sum(run["exit_reason"] not in ("done", "diverged", "failed") for run in runs)
    if unfinished:
        say(f"{unfinished} of {len(runs)} runs have not ended")
    if len({run.get("corpus_crc32") for run in runs} - {None}) > 1 and "corpus" not in names:
        say("the runs were trained on different texts: the corpus changed in between")


def read_command():
    parser = Parser(prog="table.py", allow_abbrev=False, description=__doc__,
                    usage="scripts/table.py [--csv=FILE] FOLDER | RUN...",
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER | RUN", help="an ablation's folder, or "
                        "folders of runs")
    parser.add_argument("--csv", metavar="FILE", help="write a row per run there instead of the table")
    try:
        options = parser.parse_args()
        if options.csv == "":
            parser.error("--csv: must name a file")
    except UsageError as error:
        say(error)
        sys.exit(2)
    return options


def main():
    options = read_command()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    folders = options.folders
    is_ablation = len(folders) == 1 and os.path.exists(os.path.join(folders[0], "grid.txt"))
    runs = read_ablation(folders[0]) if is_ablation else read_runs(folders)
    if not runs:
        sys.exit(f"table: {', '.join(folders)}: no run has ended")
    if options.csv:
        write_results(options.csv, runs)
    else:
        print_table(runs, by_hand=not is_ablation or is_list(folders[0]))


if __name__ == "__main__":
    main()
