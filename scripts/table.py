#!/usr/bin/env python3
"""The table of runs: scripts/table.py RUN... prints one row per norm and placement, in Markdown:
final validation loss (median, mean, standard deviation, range over seeds), seconds, runs that failed.
"""
import json
import os
import statistics
import sys


def read_summary(run):
    """The run's summary.json, or None while there is none."""
    try:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        sys.exit(f"table: {run}: {error}")


def main(runs):
    if not runs:
        sys.exit("Usage: scripts/table.py RUN...")
    groups, unfinished = {}, []
    for run in runs:
        summary = read_summary(run)
        if summary is None:
            unfinished.append(run)
            continue
        options = summary["options"]
        groups.setdefault((options["norm"], options["placement"]), []).append(summary)
    print("| norm | placement | median | mean ± sd | range | seeds | diverged | s/run |")
    print("|---|---|---|---|---|---|---|---|")
    for (norm, placement), summaries in sorted(groups.items()):
        done = [s["val_loss"] for s in summaries if s["exit_reason"] == "done"]
        seconds = statistics.median(s["seconds"] for s in summaries)
        spread = statistics.stdev(done) if len(done) > 1 else 0
        losses = (f"{statistics.median(done):.4f} | {statistics.mean(done):.4f} ± {spread:.4f} | "
                  f"{min(done):.4f} to {max(done):.4f}" if done else " | | ")
        diverged = sum(s["exit_reason"] == "diverged" for s in summaries)
        print(f"| {norm} | {placement} | {losses} | {len(done)} | {diverged} | {seconds:.0f} |")
    for run in unfinished:
        print(f"table: {run}: has not ended", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
