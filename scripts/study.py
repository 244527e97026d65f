#!/usr/bin/env python3
"""Answers a question about variants of a model: tunes each, trains its best settings with fresh seeds, and compares them.

  scripts/study.py --norm=rms,dyt --optimizer=adamw,muon --tune=learning-rate,init-std --baseline=norm=rms -- CORPUS
  scripts/study.py FOLDER [--baseline=...] [--within=...] [--metric=...]      the answer again, without a run

Lists before -- are factors: --NAME=A,B,... with any option of ./train, or --NAME,NAME=A:B,C:D,... for options that vary
together. Each combination of their values is a variant. Words after -- are for every run: options, and the corpus.
FOLDER/ has answer.md, answer.tex, answer.csv, judged.csv, figure.svg, figure.pdf and page.html. After a kill the same
command continues; with more values or seeds it trains only what is missing.
"""
import shlex
import sys

from common import command_line

if __name__ == "__main__":
    command_line.require("study", "study", "numpy", "scipy", "pandas", "statsmodels", "matplotlib")

from ablate.plan import duration
from common.command_line import Parser, UsageError, count, labels, number, option_names, run, settings, words
from common.factors import factor_name
from common.run_options import file_value
from common.runs import RunError
from common.variants import WHERE
from study import Study, design
from study.answer import Answer
from study.judging import Listed, say
from study.tuning import FAR

fraction = number(float, lambda value: 0 < value < 1, "a number between 0 and 1")
margin = number(float, lambda value: value >= 0, "a number from 0 on")


def parser_of():
    parser = Parser(allow_abbrev=False, description=__doc__, usage="scripts/study.py [OPTION]... --NAME=A,B,... "
                    "[--NAME=A,B,...]... -- [OPTION of ./train]... [CORPUS]\n       scripts/study.py FOLDER [OPTION]...")
    add = parser.add_argument
    add("--tune", type=design.read_tune, default={}, metavar="NAME[=A,B,...],...", help="tune these options for "
        f"each variant; {' and '.join(design.DEFAULT_AXES)} need no values")
    add("--baseline", metavar="NAME=LEVEL,...", help="compare the others with this variant (default: the first value of the first "
        "factor)")
    add("--within", type=words, metavar="NAME,...", help="show differences for each value of these factors, and average over "
        "the other factors (default: all factors but the baseline's)")
    add("--metric", default="val_loss", metavar="NAME", help="compare this number of summary.json (default: val_loss)")
    add("--margin", type=margin, metavar="X", help="call variants equal within this difference (default: 0.02 nats for losses)")
    add("--answer", metavar="NAME", help="names of the answer's files begin so (default: answer, and the question if it is "
        "not the study's)")
    add("--where", type=settings, **WHERE)
    add("--labels", type=labels, default={}, metavar="NAME=TEXT,...", help="what an option, a level or OPTION=LEVEL is called, "
        "in later answers too")
    add("--columns", choices=("one", "page"), default="one", help="the figure and the first table of answer.tex fit one column of a "
        "paper, or its page (default: one)")
    add("--stable", default=(), metavar="NAME[=A,B,...]", help="tune this number, and train all seeds at each of its values: "
        "the largest stable one, and how sensitive the loss is")
    add("--stable-margin", type=margin, default=FAR, metavar="X", help="a value is stable if all seeds train and end at most this far "
        f"above the variant's best loss (default: {FAR:g})")
    add("--rows", type=option_names, default=[], metavar="NAME,...", help="panels of --stable are in rows by these factors")
    add("--seeds", default="8", metavar="N", help="number of fresh seeds for the comparison, or a list of them (default: 8)")
    add("--tuning-seeds", type=count, default=4, metavar="N", help="number of seeds that the best settings get in tuning (default: 4)")
    add("--hold-out", type=fraction, default=0.1, metavar="X", help="validate on this fraction of the training split while tuning "
        "(default: 0.1)")
    add("--search", choices=("grid", "axes"), help="tune on a grid, or one option after another (default: a grid of at most two)")
    add("--budget", metavar="TIME", help="take at most this time, such as 90s, 20min or 2h, with fewer seeds and trials")
    add("--out", metavar="DIR", help="folder of the study (default: runs/study-..., named by the words after --)")
    add("--jobs", type=count, metavar="N", help="number of runs side by side (default: one per core)")
    add("--sshlogin", default="", metavar="LIST", help="distribute the runs over machines that share the folder, with GNU parallel")
    add("--list", action="store_true", help="write DIR/grid.txt, the next round of runs, for scripts/ablate.slurm; train nothing")
    add("--dry-run", action="store_true", help="say how many runs and minutes it takes, and train nothing")
    return parser


def factors_of(given):
    """{name: text} of the words --NAME=A,B,... that are no options of this program."""
    found = {}
    for word in given:
        name, equals, values = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or not values:
            raise UsageError(f"{word}: not --NAME=A,B,... (options of every run and the corpus belong after --)")
        if name in found:
            raise UsageError(f"--{name}: is given twice")
        found[name] = values
    return found


def print_plan(options, study):
    counts, seconds = study.prepare()
    few, many = (f"{number} runs" if number == counts[1] else str(number) for number in counts)
    times = " to ".join(dict.fromkeys(map(duration, seconds)))
    runs = few if few == many else f"{few} to {many}"
    text = f"{len(study.variants)} variants, {runs}, about {times}, {study.runner.how.jobs} side by side"
    if options.dry_run:
        print(text)
    else:
        say(f"{text}; folder {study.out}")


def show(folder, options):
    answer = Answer(folder, options.baseline, options.within and list(map(factor_name, options.within)), options.metric,
                    options.labels, options.margin, options.where)
    print(answer)
    say(f"{folder}/: {' '.join(answer.write(options.columns, options.rows, options.answer or name_of(answer, options)))}")


def name_of(answer, options):
    """The name of this answer's files: one of its own for another question than the study's."""
    asked = {**(answer.baseline if answer.baseline != answer.record["baseline"] else {}), **(options.where or {})}
    parts = [f"{name}={file_value(name, text)}" for name, text in asked.items()]
    parts += [f"within={','.join(options.within or ())}"] * bool(options.within)
    return "-".join(["answer", *parts, *[options.metric] * (options.metric != "val_loss")]).replace("/", "_")


def main(arguments):
    own, base = arguments, []
    if "--" in arguments:
        place = arguments.index("--")
        own, base = arguments[:place], arguments[place + 1:]
    options, rest = parser_of().parse_known_args(own)
    if len(rest) == 1 and not rest[0].startswith("-") and not base:
        return show(rest[0], options)
    factors = factors_of(rest)
    if not factors and not options.tune and not options.stable:
        raise UsageError("nothing to compare or to tune: give --NAME=A,B,... or --tune=NAME,... (or the folder of a study)")
    study = Study(command=shlex.join(["scripts/study.py", *arguments]), factors=factors, tune=options.tune,
                  baseline=options.baseline, seeds=options.seeds, base=base, out=options.out, hold_out=options.hold_out,
                  tuning_seeds=options.tuning_seeds, stable=options.stable, stable_margin=options.stable_margin,
                  search=options.search, budget=options.budget, jobs=options.jobs,
                  sshlogin=options.sshlogin, only_list=options.list)
    print_plan(options, study)
    if not options.dry_run:
        study.run()
        show(study.out, options)


if __name__ == "__main__":
    sys.exit(run(say, lambda: main(sys.argv[1:]), RunError, Listed, interrupted="interrupted; the same command continues"))
