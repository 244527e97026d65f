"""The command line of scripts/plot.py."""
import math
import os

from common.command_line import (PICTURES, Parser, UsageError, number, option_names, pair, settings, some_of,
                                 whole_numbers, words)
from common.run_options import own_name
from common.variants import WHERE
from plots.charts import CHARTS
from plots.looks import DPI
from plots.probe_charts import KINDS

LINES = ("train", "val", "eval-train")


span = pair(":", lambda low, high: -math.inf < low < high < math.inf, "LOW:HIGH, with LOW below HIGH")
odd = number(int, lambda value: value > 0 and value % 2 == 1, "an odd number above 0")
size = pair("x", lambda width, height: 1 <= width <= 100 and 1 <= height <= 100, "WIDTHxHEIGHT in inches, from 1x1 to 100x100")


def check_probes(options, parser):
    """Refuses options that cannot be used with --probes, and those that need it."""
    kinds, draws = options.probes, {KINDS[kind].draw for kind in options.probes or []}
    given = {name for name, value in vars(options).items() if value != parser.get_default(name)}
    excluded = {"chart", "sweep", "rows", "lines", "x", "log_y", "watch"} if kinds else \
        {"metrics", "sites", "steps"}
    if excluded & given:
        name = min(excluded & given).replace("_", "-")
        raise UsageError(f"--{name}: {'cannot be combined' if kinds else 'works only'} with --probes")
    if len(draws) > 1:
        raise UsageError(f"--probes={','.join(kinds)}: cannot be in one picture (give one kind)")
    if options.columns and kinds and "layers" not in kinds or \
            (options.columns or options.rows) and not kinds and (options.chart or ["curves"]) not in (["curves"], ["sweep"]):
        raise UsageError("--columns: works only with --probes=layers and --chart=curves or sweep, --rows only with these charts")


def check_together(options):
    """Refuses other options that cannot be combined."""
    if options.watch and (options.show or options.each or options.table):
        raise UsageError("--watch: cannot be combined with --show, --each or --table (look at the picture with a "
                         "viewer that reloads it)")
    if options.each and (options.output or options.table or options.show):
        raise UsageError("--each: cannot be combined with -o, --table or --show (each picture is loss.png)")
    if (options.log_x and options.xlim and options.xlim[0] <= 0 or
            options.log_y and options.ylim and options.ylim[0] <= 0):
        raise UsageError("--xlim, --ylim: LOW must be above 0 on a logarithmic axis")
    if not 20 <= options.dpi <= 2000:
        raise UsageError(f"--dpi={options.dpi:g}: must be from 20 to 2000")


def add_options(add):
    """Declares the options; `add` is the parser's add_argument."""
    add("run", nargs="+", metavar="RUN", help="a run's folder, or a folder of runs")
    add("--where", type=settings, **WHERE)
    add("-o", "--output", metavar="FILE", help="write the picture to FILE, a .png, .svg or .pdf (default: loss.png, "
        "or KIND.png with --probes; in RUN, or for several RUNs in the current folder)")
    add("--title", help="title of the picture")
    add("--size", type=size, metavar="WxH", help="size of the picture in inches (default: what the charts need)")
    add("--dpi", type=float, default=DPI, help=f"dots per inch of a .png, from 20 to 2000 (default: {DPI})")
    add("--table", metavar="FILE", help="also write the plotted numbers to FILE, as CSV; - is standard output")
    add("--show", action="store_true", help="show a window; a picture is written only with -o")
    add("--watch", action="store_true", help="redraw as the logs grow, until the runs have ended")
    add("--each", action="store_true",
        help="draw one picture per folder of runs (RUN and the folders in it), into that folder")


def add_chart_options(add):
    """Declares the options that choose what is drawn."""
    add("--chart", type=some_of(*CHARTS), metavar="CHART,...",
        help="charts to draw: curves (losses over time), dots (final loss of every seed), sweep (final loss "
             "against an option) (default: sweep if a numeric option has at least three values, otherwise curves, and dots too if variants "
             "have several seeds; only dots if there are more than 12 lines)")
    add("--sweep", type=own_name, metavar="OPTION", help="draw final losses against this option of ./train, such as learning-rate")
    add("--probes", type=some_of(*KINDS), metavar="KIND,...",
        help="draw probes (./train --probe-interval), a column per variant. Over steps: distance (between "
             "batch and running statistics), discrepancy (this distance in standard deviations), terms (gradient terms "
             "that flow through the statistics), saturation (of dyt, derf and bhyt), updates (relative to weights). "
             "Over depth: layers (residual stream, "
             "sub-layers, gradients). Per head: attention")
    add("--metrics", type=words, metavar="NAME,...", help="with --probes, draw only these metrics (model/instruments/probe.h lists them)")
    add("--sites", type=words, metavar="NAME,...", help="with --probes, draw only these norms or weights, such as ln_1")
    add("--steps", type=whole_numbers, metavar="N,...",
        help="steps to draw with --probes=layers (default: first and last) or --probes=attention (default: last)")
    add("--columns", type=option_names, metavar="OPTION,...",
        help="with --chart=curves, --sweep or --probes=layers, draw a column of charts for each value of these options of "
             "./train")
    add("--rows", type=option_names, metavar="OPTION,...", help="with --chart=curves or --sweep, draw a row of charts for each value "
        "of these options")


def add_line_options(add):
    """Declares the options of lines and axes."""
    add("--by", choices=["variant", "run"], help="draw a line per variant or per run (default: variant, or run if "
        "two runs have the same options and seed)")
    add("--center", choices=["mean", "median"], default="mean", help="line of a variant: mean or median over seeds (default: mean)")
    add("--band", choices=["range", "sd", "none"], default="range",
        help="band over seeds: range (lowest to highest), sd (one standard deviation) or none (default: range)")
    add("--lines", type=some_of(*LINES), default=list(LINES), metavar=",".join(LINES),
        help="losses in curves: train (of training batches), val (validation split), eval-train (training split, "
             "from ./train --eval-train) (default: all that exist)")
    add("--smooth", type=odd, metavar="N", help="smooth training losses by running means over N logged values, an "
        "odd number; 1: no smoothing (default: a fiftieth of all values)")
    add("--x", choices=["step", "tokens", "seconds"], default="step",
        help="horizontal axis of curves (default: step)")
    add("--log-x", action="store_true", help="use a logarithmic horizontal axis")
    add("--log-y", action="store_true", help="use a logarithmic loss axis")
    add("--xlim", type=span, metavar="LOW:HIGH", help="range of the horizontal axis in curves")
    add("--ylim", type=span, metavar="LOW:HIGH", help="range of losses in curves and sweep")


def read_command(arguments):
    parser = Parser(prog="plot.py", allow_abbrev=False, usage="scripts/plot.py [OPTION]... RUN...",
                    description="Draws the losses of runs, or their probes.")
    add_options(parser.add_argument)
    add_chart_options(parser.add_argument_group("what is drawn").add_argument)
    add_line_options(parser.add_argument_group("lines and axes").add_argument)
    options = parser.parse_args(arguments)
    check_probes(options, parser)
    if options.output and not os.path.splitext(options.output)[1]:
        options.output += ".png"
    if options.output and not options.output.lower().endswith(PICTURES):
        raise UsageError(f"-o {options.output}: not a kind of picture ({', '.join(PICTURES)})")
    check_together(options)
    return options
