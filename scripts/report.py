#!/usr/bin/env python3
"""Measures the claims of five articles on normalization, and writes a page of verdicts.

experiments -> list of runs (FOLDER/wanted.txt) -> scripts/ablate.sh --grid -> measurements
  -> FOLDER/facts.csv -> rules -> verdicts.csv -> report.html, and a table in the terminal

Everything is resumable: the same command continues after a kill, and what is known is not run again.
"""
from collections import namedtuple
from dataclasses import replace
import math
import os
import sys
import tempfile
import time

from common import command_line, run_options

command_line.require("report", "report", "numpy", "scipy", "statsmodels", "jinja2", "matplotlib")

from common.command_line import Parser, number, some_of  # noqa: E402
from claims import claims, summary, texts  # noqa: E402
from claims.headlines import FindingError  # noqa: E402
from claims.experiments import BY_ID, EXPERIMENTS  # noqa: E402
from claims.fact_table import FactError, read_facts  # noqa: E402
from claims.facts import (ALONE_RUN, CANARY, Records, add_times, gather, is_missing, measure_all,  # noqa: E402
                          measure_alone, program_of, waiting_seeds)
from claims.lab import RANDOM, TOY, Lab, LabError, labelled, run_grid, write_wanted  # noqa: E402
from claims.measures import ending  # noqa: E402
from claims.plan import FULL_SIZES, Study, grid_line, words_of  # noqa: E402
from claims.summary import FACTS, expect_own  # noqa: E402
from pytorch.model_file import ModelError  # noqa: E402
from common.runs import RunError  # noqa: E402

CORPORA = os.path.join("data", "corpora")
MEASURED = "measured.jsonl"
QUICK = "E20"  # the experiment of --quick
NEAR = 2e-3  # what a run may end apart on another machine: nats, a tenth of the margin within which losses are equal;
             # or the fraction of characters that are predicted
say = command_line.teller("report")
at_least_one = number(int, lambda value: value >= 1, "a whole number from 1 on")
from_2_to_100 = number(int, lambda value: 2 <= value <= 100, "a whole number from 2 to 100")


def sizes_of(text):
    return [text] if text == "mini" else some_of(*FULL_SIZES)(text)


def options_of(words):
    parser = Parser(
        prog="scripts/report.py", description=__doc__.split("\n\n", maxsplit=1)[0],
        epilog="Exit status: 0 done; 1 a run failed, or a claim whose verdict is known (a canary) got another; 2 wrong "
        "usage; 130, 143 interrupted.")
    parser.add_argument("--full", action="store_true", help="train models of all sizes with all seeds, which takes hours "
                        "(default: small models, minutes)")
    parser.add_argument("--quick", action="store_true", help="only find the best norm, placement, learning rate and "
                        "initialization for one text (--corpus=FILE), in at most ten minutes on two cores")
    parser.add_argument("--size", type=sizes_of, metavar="SIZE,...", help="with --full, train only models of these sizes: XS (with "
        "deep and timed models), S, M; --size=mini: tiny models, to test the report (default: all)")
    parser.add_argument("--only", type=some_of(*BY_ID), metavar="NAME,...", help="run only these experiments, such as E3,E8")
    parser.add_argument("--claim", metavar="NAME", help="run only the experiments that this claim needs, such as A21")
    parser.add_argument("--list-claims", action="store_true", help="show every claim with the number of its runs and their "
                        "time, and run nothing")
    parser.add_argument("--corpus", action="append", default=[], metavar="FILE",
                        help="text to train on, may be repeated (default: the first of data/corpora, or all with "
                             "--full)")
    parser.add_argument("--other-corpus", action="append", default=[], metavar="FILE",
                        help="another text, for the experiments E23 and E26 only, may be repeated")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default: runs/report-LEVEL)")
    parser.add_argument("--jobs", type=at_least_one, metavar="N",
                        help="number of runs side by side (default: one per core)")
    parser.add_argument("--seeds", type=from_2_to_100, metavar="N",
                        help="number of seeds, from 2 to 100 (default: as planned for each experiment)")
    parser.add_argument("--long", action="store_true",
                        help="with --full, also train LayerNorm and BatchNorm for 10000 updates")
    parser.add_argument("--sshlogin", metavar="LIST", help="distribute runs over machines, as in scripts/ablate.sh")
    parser.add_argument("--list", action="store_true",
                        help="write the list of runs for scripts/ablate.slurm, and run nothing")
    parser.add_argument("--page", action="store_true", help="write the page from finished runs, which are measured if need be; "
        "train nothing")
    parser.add_argument("--continue", dest="other", metavar="FILE", help="reuse the measurements of another report, in its "
        "measured.jsonl or measured.jsonl.xz, and run only what is missing")
    parser.add_argument("--facts", metavar="FILE", help="judge the facts in FILE (facts.csv of a report); train and measure nothing")
    parser.add_argument("--texts", action="store_true", help="only rewrite FINDINGS.md and the findings in README.md, from published facts")
    parser.add_argument("--publish", metavar="DIR", help="also write the files to publish (facts, list of runs, verdicts, "
        "page) to DIR")
    options = parser.parse_args(words)
    options.level = "mini" if options.size == ["mini"] else "text" if options.quick else "full" if options.full else "quick"
    options.out = options.out or os.path.join("runs", f"report-{options.level}")
    options.jobs = options.jobs or run_options.cores_here()
    expect_compatible({**vars(options), "continue": options.other}, parser)
    if options.size and options.full == (options.level == "mini"):
        parser.error("--size: XS, S and M need --full, and mini cannot be combined with it")
    if options.long and not (options.full and FULL_SIZES[-1] in (options.size or FULL_SIZES)):
        parser.error(f"--long: needs --full with models of size {FULL_SIZES[-1]}")
    if options.other == "":
        parser.error("--continue: must not be empty")
    if options.quick:
        if len(options.corpus) != 1:
            parser.error("--quick: needs exactly one text (--corpus=FILE)")
        options.only = [QUICK]
    return options, parser


# {option: those that it cannot be combined with}. --quick is the report of one experiment on one text.
CONFLICTS = {"quick": ("full", "size", "only", "claim", "facts", "publish", "texts"), "list": ("page", "facts"),
             "continue": ("facts",), "publish": ("facts", "list", "only", "claim")}


def expect_compatible(given, parser):
    """given: {name of an option: its value}."""
    for name, others in CONFLICTS.items():
        other = next((other for other in others if given[name] and given[other]), None)
        if other:
            parser.error(f"--{name}: cannot be combined with --{other}")


def chosen(options, parser):
    """The experiments that --only and --claim leave."""
    names = list(options.only or ())
    if options.claim is not None:
        claim = claims.find(options.claim)
        if claim is None:
            parser.error(f"--claim={options.claim}: no such claim (--list-claims shows them)")
        deciding = [name for name in claim.experiments() if name in BY_ID]
        if not deciding:
            parser.error(f"--claim={options.claim}: no experiment decides it "
                         f"({claim.out or claim.note or 'a canary of E1'})")
        names += deciding
    found = [one for one in EXPERIMENTS if not names or one.id in names]
    if not any(one.sizes(options.level, options.size) for one in found):
        parser.error(f"--size: {', '.join(names)} has no run of the size {', '.join(options.size)}")
    return found


def corpora_of(options, experiments):
    """{label: path}. A trial does with an invented text, and if there is no other, so do measurements without
    runs."""
    paths = options.corpus
    if not paths and options.level == "mini":
        return {TOY: None}
    if not paths and os.path.isdir(CORPORA):
        found = sorted(name for name in os.listdir(CORPORA) if name.endswith(".txt"))
        found.sort(key=lambda name: name != "tinyshakespeare.txt")
        paths = [os.path.join(CORPORA, name) for name in (found if options.full else found[:1])]
    if not paths and all(one.alone for one in experiments):
        return {TOY: None}
    if not paths:
        raise LabError("data/corpora has no text (make data gets some, or --corpus=FILE)")
    return labelled(paths, "--corpus")


# planned: [(experiment, size, label, run)]. missing: {name: run} of what has to be run. runs: {name: run} of all that
# is tuned with or planned, once for all who ask, with all their measures.
Plan = namedtuple("Plan", "planned missing runs")


def plan_of(lab, experiments, options, sizes, supposed=None):
    """The Plan of these experiments. Only the first text is for all of them; those that are run everywhere take every
    text. sizes: their names, or none for all. supposed: the loss of runs that have not ended, for estimates."""
    planned, missing, tried = [], {}, []
    for experiment, label in ((one, label) for label in lab.bases for one in experiments
                              if one.everywhere or label == lab.bases[0]):
        for size in experiment.sizes(options.level, sizes):
            size = replace(size, seeds=options.seeds or size.seeds, long=options.long and size.name == FULL_SIZES[-1])
            study = Study(size, label, lab, supposed)
            runs = list(experiment.runs(study))
            planned += [(experiment, size, lab.text_of(run) if experiment.across else label, run) for run in runs]
            tried += study.wanted
            waiting = waiting_seeds(lab, runs)
            missing |= {lab.name_of(run): run for run in [*study.wanted, *runs] if is_missing(lab, run, waiting)}
    runs = {}
    for run in [*tried, *(run for _, _, _, run in planned)]:
        one = runs.setdefault(lab.name_of(run), run)
        runs[lab.name_of(run)] = one._replace(measures=tuple(dict.fromkeys([*one.measures, *run.measures])))
    return Plan(planned, missing, runs)


def lines_of(lab, missing):
    """The list of runs, by seed first: whatever has run when somebody stops is a smaller report."""
    for run in missing.values():
        if "start" in run.options:
            lab.make_start(run.options["start"])
    return [grid_line(name, run, lab.paths) for name, run in sorted(missing.items(), key=lambda item: item[1].seed)]


def run_list(options, lab, missing, alone):
    """Does the runs; alone: one after another on this machine, since their times are what counts."""
    words = [f"--jobs={1 if alone else options.jobs}"]
    words += [f"--sshlogin={options.sshlogin}"] if options.sshlogin and not alone else []
    run_grid(options.out, lines_of(lab, missing), words, lab.train)


def expect_same_numbers(options, lab, runs):
    """Of the runs {name: run} whose measurements are taken over, repeats the shallowest one of each norm and of each
    optimizer. Another compiler or vector width, or a program that has changed, gives other numbers, which must not be
    mixed with these. Depth and high rates amplify rounding."""
    taken = [(name, run) for name, run in runs.items() if any(lab.records.is_taken_over(name, measure)
                                                              for measure in run.measures)]
    if not lab.records.known.keys() - lab.records.programs.keys():
        raise LabError(f"--continue={options.other}: has no measurement, or none by today's code")
    if not taken:
        say(f"--continue={options.other}: has nothing of these runs")
    some = {}
    for name, run in sorted(taken, key=lambda one: (int(one[1].options["n-layer"]),
                                                    float(one[1].options.get("learning-rate", 0)))):
        if not options.page and lab.records.is_taken_over(name, "ending") and not lab.ended(run):
            for part in ("norm", run.options["norm"]), ("optimizer", run.options.get("optimizer", "adamw")):
                some.setdefault(part, (name, run))
    repeated = dict(some.values())
    if repeated:
        run_list(options, lab, repeated, False)
    for name, run in repeated.items():
        if not lab.ended(run):
            raise LabError(f"--continue={options.other}: {name}, which is repeated first, failed (see "
                           f"{options.out}/ablate.log)")
        here = ending(lab, lab.folder_of(run), run)
        for metric, what in ("val_loss", "ended at"), ("accuracy", "has an accuracy of"):
            a, b = lab.records.find(name, "ending").get(metric, math.nan), here[metric]
            if not math.isnan(a) and not abs(a - b) <= NEAR and a != b:
                raise LabError(f"--continue={options.other}: {name} {what} {a:.9g} there and {b:.9g} here, so the "
                               "program computes other numbers")
        lab.records.keep(name, "ending", here, program_of(lab.train))


def run_missing(options, lab, experiments, sizes, alone):
    """Plans and runs until nothing of these experiments is missing."""
    before = None
    while (missing := plan_of(lab, experiments, options, sizes).missing) and before != set(missing):
        before = set(missing)
        run_list(options, lab, missing, alone)
    if missing:
        lab.failed += len(missing)
        say(f"{len(missing)} runs failed (see {options.out}/ablate.log); their facts are not measured")


def list_missing(options, lab, experiments):
    """Writes the list of what can be run now, and prints the commands that run it. Timed runs are only counted: they have to
    be alone on one machine."""
    timed, others = ([one for one in experiments if one.timed == is_timed] for is_timed in (True, False))
    missing = plan_of(lab, others, options, options.size).missing
    say(words_of(plan_of(lab, others, options, options.size, supposed=0.0).missing.values(), options.jobs))
    left = len(plan_of(lab, timed, options, options.size).missing)
    if left:
        say(f"{left} timed runs ({timed[0].id}) are not listed: the report does them itself, one after another")
    if missing:
        path = write_wanted(options.out, lines_of(lab, missing))
        print(f"{path}: {len(missing)} runs; runs at tuned learning rates are listed once these have ended\n"
              f"scripts/ablate.sh --grid={path} --out={options.out}/ablation --list\n"
              f"sbatch --array=1-$(wc -l <{options.out}/ablation/grid.txt)%20 --cpus-per-task=1 "
              f"scripts/ablate.slurm {options.out}/ablation")
    else:
        print("no runs are missing: nothing to list")
    return 0


def run_everything(options, lab, experiments):
    """Runs what is missing: small models first, so whatever has run when somebody stops is a report of smaller
    models; last and alone those runs whose times are measured."""
    if options.other:
        expect_same_numbers(options, lab, plan_of(lab, experiments, options, options.size).runs)
    if options.page:
        return
    say(words_of(plan_of(lab, experiments, options, options.size, supposed=0.0).missing.values(), options.jobs))
    sizes = dict.fromkeys(size.name for one in experiments for size in one.sizes(options.level, options.size))
    for timed in (False, True):
        for size in sizes:
            run_missing(options, lab, [one for one in experiments if one.timed == timed], [size], timed)


def progress_of(what):
    """progress(done, all): a line on the terminal with the time left, or one every 20 seconds."""
    start, said = time.monotonic(), [time.monotonic()]

    def progress(done, total):
        now = time.monotonic()
        end = "\r" if sys.stderr.isatty() else "\n"
        if done == total or now - said[0] > (0.5 if end == "\r" else 20):
            said[0] = now
            left = (now - start) / done * (total - done)
            print(f"report: {what} {done} of {total}, {left:.0f} s left   ",
                  end="\n" if done == total else end, file=sys.stderr, flush=True)
    return progress


def measured_facts(options, lab, experiments):
    """(facts, Plan): runs what is missing and measures it."""
    run_everything(options, lab, experiments)
    asked = plan_of(lab, experiments, options, options.size).runs
    measure_all(lab, asked.values(), options.jobs, say, progress_of("measuring"))
    if not options.page:
        measure_alone(lab, experiments, say)
    plan = plan_of(lab, EXPERIMENTS, options, None)  # others may have facts too
    if options.page or not asked:
        expect_runs(lab, [run for _, _, _, run in plan.planned])
    facts = gather(lab, plan.planned, EXPERIMENTS)
    if options.other:
        add_times(facts, EXPERIMENTS, os.path.join(os.path.dirname(options.other), f"{FACTS}.xz"))
    return facts, plan


def expect_runs(lab, runs):
    """Refuses to draw an empty page over another one: of a folder whose runs are all of other texts or sizes."""
    ours = [run for run in runs if run.corpus != RANDOM]
    known = {name for name, _ in lab.records.known}.union(lab.records.first)
    known = {name for name in known if not name.startswith(ALONE_RUN)}
    if ours and known and not any(lab.name_of(run) in known or lab.ended(run) for run in ours):
        raise LabError(f"{lab.folder}: its runs are of another text or size (--corpus=FILE, --full)")


def take_folder(folder):
    """Makes the report's folder, which has the file of its measurements from the start. Returns the path of this file."""
    expect_own(folder, {MEASURED}, "a report's folder", "--out")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, MEASURED)
    with open(path, "ab"):
        return path


def list_claims(options, lab):
    """Prints what each claim costs, as if the folder were empty."""
    known = {}
    for claim in claims.CLAIMS + claims.CANARIES:
        names = tuple(claim.experiments())
        if not names or not set(names) <= set(BY_ID):
            continue
        if names not in known:
            plan = plan_of(lab, [BY_ID[name] for name in names], options, options.size, supposed=0.0)
            known[names] = words_of(plan.missing.values(), options.jobs)
        print(f"{claim.ids:16.16} {' '.join(names):10} {known[names]:44} {claim.text[:88]}")
    return 0


def report(options, parser):
    if options.texts:
        print("\n".join(texts.write(*texts.published())))
        return 0
    given = read_facts(options.facts, {*BY_ID, CANARY}) if options.facts else None
    experiments, labels = chosen(options, parser), {}
    if options.publish:
        expect_own(options.publish, {"verdicts.csv", "measured.jsonl.xz"}, "a published report", "--publish")
    if not given:
        labels = corpora_of(options, experiments)
    if options.list_claims:
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(run_options.train(), folder, labels, options.level, Records(take_folder(folder)))
            return list_claims(options, lab)
    train, others = run_options.expect_train(), labelled(options.other_corpus, "--other-corpus")
    if others.keys() & labels.keys():
        raise LabError("--other-corpus: a text has the name of one of --corpus")
    lab = Lab(train, options.out, labels, options.level, Records(take_folder(options.out), options.other), others)
    if not given:
        lab.check_program()
    if options.list:
        return list_missing(options, lab, experiments)
    facts, plan = (given, Plan([], {}, {})) if given else measured_facts(options, lab, experiments)
    if not facts.index:
        raise LabError(f"{options.facts or options.out}: has no facts" +
                       ("" if given else " (the same command without --page measures some)"))
    return summary.conclude(options, lab, facts, plan)


if __name__ == "__main__":
    sys.exit(command_line.run(say, lambda: report(*options_of(sys.argv[1:])), LabError, FactError, FindingError, ModelError,
                              RunError, interrupted="interrupted; the same command continues"))
