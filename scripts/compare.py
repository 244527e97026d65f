#!/usr/bin/env python3
"""Compares variants, paired by seed: scripts/compare.py FOLDER --baseline norm=ln, or --a norm=bn --b norm=ln.
Prints for each pair the mean difference of the final validation losses (first minus second), its 99 %
Student-t interval, p of the paired t test, Holm's p over all pairs shown, and a verdict.

  lower, higher           the interval excludes 0
  equal                   the interval is within --margin of 0, even if it excludes 0
  undecided               neither; an estimate follows of how many more seeds are needed
  trains less/more often  some runs diverged, failed or are stuck (they learned only how frequent characters are), and the
                          fractions of runs that trained differ (their 99 % Clopper-Pearson intervals do not overlap)
  neither trained         no run of either variant trained

Runs of one seed start from the same weights and see the same batches, so only they are paired. If one run of a
pair did not train, the interval leaves the pair out.
"""
import math
import re
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("compare", "report", "numpy", "scipy.stats", "statsmodels")

from common.command_line import PICTURES, Parser, UsageError, aligned, csv_text, markdown, run, settings, write_whole
from study.statistics import CONFIDENCE, MARGIN, POWER
from ablate.comparisons import LOSSES, compare_all, pairs_of, variants_of, verdict_text
from common.ablations import ended_runs
from common.runs import RunError
from common.variants import WHERE, unit_of, varying, where, without_copies


PERCENT = f"{100 * CONFIDENCE:.0f} %"


say = command_line.teller("compare")


# ---- words ---------------------------------------------------------------------------------------

def number(value, form):
    return format(value, form) if math.isfinite(value) else ""


def cells_of(comparison):
    """A row of the table."""
    mean, low, high, measured = comparison.interval
    count = len(comparison.seeds)
    seeds = str(count) if measured == count else f"{measured} of {count}"
    return [comparison.a.label, comparison.b.label, seeds, number(mean, "+.4f"),
            f"{low:+.4f} to {high:+.4f}" if math.isfinite(low) else "", number(comparison.p, ".4g"),
            number(comparison.holm, ".4g"), verdict_text(comparison)]


def side_text(label, side):
    """A variant's numbers of runs that trained and that did not, with the median."""
    count = side.trained + sum(side.other.values())
    others = "".join(f", {number} {status}" for status, number in side.other.items())
    median = f", median {side.median:.4f}" if math.isfinite(side.median) else ""
    return (f"{label}: {side.trained} of {count} trained{others} (fraction {side.interval.low:.2f} to "
            f"{side.interval.high:.2f}){median}")


def print_notes(comparisons):
    """Prints the notes that a reader of the table needs."""
    notes = list(dict.fromkeys(side_text(variant.label, side) for comparison in comparisons
                               if any(side.other for side in comparison.sides)
                               for variant, side in zip((comparison.a, comparison.b), comparison.sides)))
    if notes:
        notes.append("A run without a final loss counts as the worst in a median. A seed is in the interval if both its runs trained.")
    tested = [len(comparison.seeds) for comparison in comparisons if math.isfinite(comparison.p)]
    if tested:
        notes.append("The interval decides: it excludes 0 where p < 0.01. Both assume that differences are normally distributed.")
    if len(tested) > 1:
        notes.append(f"Holm: p, adjusted for the {len(tested)} comparisons shown.")
    if any(comparison.more for comparison in comparisons):
        notes.append(f"More seeds needed: for a decision with probability {POWER:g}, if the measured mean and "
                     "standard deviation are the true ones. Adding runs until a difference is decided raises the "
                     "rate of false positives.")
    for note in notes:
        print(note)


# ---- files ---------------------------------------------------------------------------------------

def csv_rows(comparisons):
    header = ["a", "b", "seeds", "differences", "mean", "low", "high", "p", "p_holm", "verdict",
              "seeds_more"]
    header += [f"{name}_{side}" for side in "ab" for name in ("trained", "ended", "median")]
    yield header
    for comparison in comparisons:
        numbers = [*comparison.interval[:3], comparison.p, comparison.holm]
        row = [comparison.a.label, comparison.b.label, " ".join(map(str, comparison.seeds)),
               " ".join(f"{comparison.values.get(seed, math.nan):.9g}" for seed in comparison.seeds)]
        row += [number(value, ".9g") for value in numbers]
        row += [comparison.verdict, "" if comparison.more is None else comparison.more]
        for side in comparison.sides:
            row += [side.trained, side.trained + sum(side.other.values()), number(side.median, ".9g")]
        yield row


# ---- the command ---------------------------------------------------------------------------------

positive = command_line.number(float, lambda value: 0 < value < math.inf, "a number above 0")


def read_command(arguments):
    parser = Parser(allow_abbrev=False, description=__doc__, usage="scripts/compare.py [OPTION]... FOLDER...")
    add = parser.add_argument
    add("folder", nargs="+", metavar="FOLDER", help="an ablation's folder, or folders of runs")
    add("--where", type=settings, **WHERE)
    add("--a", type=settings, metavar="NAME=VALUE,...", help="compare the variants that have these values with "
        "those of --b")
    add("--b", type=settings, metavar="NAME=VALUE,...",
        help="compare with the variants that have these values and agree with --a's in all other options")
    add("--baseline", type=settings, metavar="NAME=VALUE,...", help="compare every variant with the one "
        "that has these values and agrees in all other options")
    add("--metric", default="val_loss", help="number in summary.json to compare (default: val_loss)")
    add("--margin", type=positive, help="largest difference that does not matter (default: "
        f"{MARGIN:g} nats; required with a metric other than a loss)")
    add("--any-build", action="store_true", help="also compare runs of different builds of ./train")
    add("--csv", metavar="FILE", help="write a row per comparison to FILE")
    add("--plot", metavar="FILE", help="draw the comparisons to FILE, a .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    check_command(options)
    return options


def check_command(options):
    if options.baseline and (options.a or options.b):
        raise UsageError("--baseline: cannot be combined with --a and --b")
    if not options.baseline and not (options.a and options.b):
        raise UsageError("no comparison is given (--baseline norm=ln, or --a norm=bn --b norm=ln)")
    if options.margin is None:
        if options.metric not in LOSSES:
            raise UsageError(f"--metric={options.metric}: needs --margin, the largest difference that does not "
                             f"matter (its default, {MARGIN:g}, is for losses)")
        options.margin = MARGIN
    if options.csv == "":
        raise UsageError("--csv: must name a file")
    if options.plot is not None and not options.plot.lower().endswith(PICTURES):
        raise UsageError(f"--plot={options.plot}: not a kind of picture ({', '.join(PICTURES)})")


def compared(options):
    """The comparisons, the runs, and whether some runs could not be read."""
    runs, bad = ended_runs(options.folder, say)
    if not runs:
        raise RunError(f"{', '.join(options.folder)}: no run has ended")
    runs = without_copies(where(runs, options.where), say)
    names = varying(runs)
    return compare_all(pairs_of(variants_of(runs, names), names, options), options), runs, bad


def main():
    options = read_command(sys.argv[1:])
    comparisons, runs, bad = compared(options)
    unit = f" in nats per {unit_of(runs)}" * (options.metric in LOSSES)
    print(f"{options.metric} at the end, a minus b{unit}, paired by seed; {PERCENT} intervals; margin "
          f"{options.margin:g}")
    header, _, *rows = markdown(aligned([
        ["a", "b", "seeds", "a - b", f"{PERCENT} interval", "p", "Holm", "verdict"],
        *map(cells_of, comparisons)]))
    print("", header, re.sub("[^|]", "-", header), *rows, "", sep="\n")
    print_notes(comparisons)
    if options.csv:
        write_whole(options.csv, csv_text(csv_rows(comparisons)))
    if options.plot:
        command_line.require("compare", "report plot", "matplotlib.backends.backend_agg")
        from plots import contrasts, looks  # matplotlib takes half a second to load
        figure = contrasts.draw_comparisons(comparisons, options, f"{options.metric}{unit}")
        looks.write_picture(figure, options.plot, looks.DPI, say)
    seeds = max(len(comparison.seeds) for comparison in comparisons)
    if seeds < 2:
        raise RunError(f"{'one common seed' if seeds else 'no common seeds'}: nothing can be decided (train "
                       "each variant with the same seeds, at least two)")
    return int(bad)


if __name__ == "__main__":
    sys.exit(run(say, main, RunError))
