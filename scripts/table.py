#!/usr/bin/env python3
"""Prints a table of runs, one row per variant, in Markdown: scripts/table.py FOLDER | RUN...

FOLDER is an ablation's folder (scripts/ablate.sh), and its grid names the options that differ. RUN is a
run's folder, or a folder of runs, whose options are compared (run_options.py). If every variant is a
single run, a column names it. A row has the final validation loss (median, mean and standard deviation,
range over seeds), the best validation loss, the seconds per run, and how many runs trained, are stuck (the model
learned only how frequent characters are), diverged or failed. Losses are those of runs that trained, in nats per character.
"""
import itertools
import os
import statistics
import sys
from types import SimpleNamespace

from common import command_line
from common.ablations import grid_of, is_list, runs_at
from common.command_line import Parser, csv_text, markdown, settings, teller, write_whole
from common.run_options import ABSENT
from common.runs import ENDED, FINAL_STATES, RunError
from common.variants import FIRST, WHERE, number_text, varying, where

RESULTS = ["steps", "train_loss", "val_loss", "best_val_loss", "best_step", "seconds",
           "tokens_per_second"]


say = teller("table")


def record(run, path, options, status):
    """A run as a dictionary: run (its name), options, seed, exit_status, exit_reason, results. run: a Run, or None."""
    reason, summary = run.status if run else "unfinished", run.summary if run else {}
    if reason in FINAL_STATES:
        status = 3 if reason == "diverged" else 0
    return {**{key: summary.get(key) for key in [*RESULTS, "corpus_crc32"]}, "run": os.path.basename(os.path.abspath(path)),
            "options": options, "seed": options.get("seed"), "exit_status": status,
            "exit_reason": "unfinished" if reason == "running" else reason}


def given_options(words, path, folder):
    """The options of a run's line in a grid, which ends with the options of all runs."""
    own = list(itertools.takewhile(lambda word: not word.startswith("--seed="), words))
    given = words[:len(own) + 1]
    if not all(word.startswith("--") and "=" in word for word in given):
        raise RunError(f"{folder}/grid.txt: damaged: {os.path.basename(path)}: has a word that is not --NAME=VALUE before its seed")
    return dict(word[2:].split("=", 1) for word in given)


def read_runs(folders, grid):
    """The runs of these folders with their options, and whether some are damaged, which are reported and left out. Options are
    those of the grid's lines if there is a grid."""
    runs, (found, damaged) = [], runs_at(folders, say)
    for run, path, status, words in found:
        known = run.options if run else {}
        try:
            options = given_options(words, path, folders[0]) if grid else known
        except RunError as error:
            say(error)
            damaged = True
            continue
        if options:
            runs.append({**record(run, path, options, status), "known": {**options, **known}})
        else:
            say(f"{path}: {'failed before it started' if status else 'has not ended'}")
    return runs, damaged


def told_apart(runs, names):
    """Further options, by which runs differ that are equal in their seed and in the options of these
    names: they are about what is watched or stored."""
    groups = {}
    for run in runs:
        options = run["options"]
        key = tuple(str(options.get(name)) for name in [*names, "seed"])
        groups.setdefault(key, []).append(options)
    return [name for name in runs[0]["options"]
            if name not in names and name != "seed" and any(
                len({str(options.get(name)) for options in group}) > 1 for group in groups.values())]


def columns_of(runs, grid):
    """The options in which the runs differ, without the seed; norm and placement if there are none. Those of a grid are
    compared as they are given; of others, an option that has no effect in a run becomes empty."""
    if grid:
        names = [name for name in runs[0]["options"] if name != "seed"
                 and len({str(run["options"].get(name)) for run in runs}) > 1]
        return names or FIRST
    names = varying([SimpleNamespace(options=run["options"]) for run in runs])
    names = (names + told_apart(runs, names)) or FIRST
    for run in runs:
        options = run["options"]
        run["options"] = {name: "" if name in options.inactive else options[name] for name in names}
    return names


def text_of(value, name):
    """The value of the option `name` as text."""
    if value is None:
        return ABSENT.get(name, "none")
    return number_text(value) if isinstance(value, float) else str(value)


def write_results(path, runs, names):
    """Writes one row per run as CSV, with these options. A reader sees the old file or the new one."""
    rows = [["run", *names, "seed", "exit_status", "exit_reason", *RESULTS]]
    for run in runs:
        row = [run["run"], *(text_of(run["options"][name], name) for name in names)]
        row += [run[name] for name in rows[0][len(row):]]
        rows.append(row)
    write_whole(path, csv_text(rows))


def mean_and_spread(losses):
    """Mean and standard deviation; a single loss has none."""
    spread = f" ± {statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.4f}{spread}"


def print_table(runs, names, by_hand):
    groups = {}
    for run in runs:
        key = tuple(text_of(run["options"][name], name) for name in names)
        groups.setdefault(key, []).append(run)
    if by_hand and len(groups) == len(runs):
        names = ["run", *names]
        groups = {(run["run"], *key): [run] for key, (run,) in groups.items()}
    titles = [*names, "median", "mean ± sd", "range", "best ± sd", "trained", "stuck", "diverged", "failed", "s/run"]
    rows = [titles]
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
        lost = [sum(run["exit_reason"] == reason for run in group) for reason in ("stuck", "diverged", "failed")]
        ended = [run["seconds"] for run in group if run["exit_reason"] in (*ENDED, "diverged")]
        cells += [*map(str, (len(done), *lost)),
                  f"{statistics.median(ended):.0f}" if ended else ""]
        rows.append(cells)
    print("\n".join(markdown(rows)))
    for key, group in groups.items():
        if len({run["seed"] for run in group}) < len(group):
            say(f"several runs of {', '.join(key)} have the same seed")
    unfinished = sum(run["exit_reason"] not in (*ENDED, "diverged", "failed") for run in runs)
    if unfinished:
        say(f"{unfinished} of {len(runs)} runs have not ended")
    if len({run.get("corpus_crc32") for run in runs} - {None}) > 1 and "corpus" not in names:
        say("the runs were trained on different texts: the corpus changed in between")


def read_command():
    parser = Parser(allow_abbrev=False, description=__doc__, usage="scripts/table.py [OPTION]... FOLDER | RUN...")
    parser.add_argument("folders", nargs="+", metavar="FOLDER | RUN", help="an ablation's folder, or "
                        "folders of runs")
    parser.add_argument("--where", type=settings, **WHERE)
    parser.add_argument("--csv", metavar="FILE", help="write a row per run to FILE instead of the table")
    options = parser.parse_args()
    if options.csv == "":
        parser.error("--csv: must name a file")
    return options


def main():
    options = read_command()
    folders = options.folders
    grid = grid_of(folders[0]) if len(folders) == 1 and not is_list(folders[0]) else None
    runs, damaged = read_runs(folders, grid)
    if not runs:
        raise RunError(f"{', '.join(folders)}: no run has ended")
    runs = where(runs, options.where, lambda run: run["known"])
    names = columns_of(runs, grid)
    if options.csv:
        write_results(options.csv, runs, names)
    else:
        print_table(runs, names, by_hand=not grid)
    return int(damaged)


if __name__ == "__main__":
    sys.exit(command_line.run(say, main, RunError))
