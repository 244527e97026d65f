#!/usr/bin/env python3
"""Judges the claims of five articles on normalization by measurements, and writes what follows from them.

runs -> measured.jsonl -> facts.csv -> frozen/claims.py -> verdicts.csv, report.html; --texts: findings.md, tables

Without --train it judges the published facts, in a second. With it, it trains what is missing, measures it, and judges that.
The same command continues after a kill.
"""
import os
import sys

from common import command_line, run_options

command_line.require("report", "report", "numpy", "scipy", "statsmodels", "pandas", "jinja2", "matplotlib", "tomllib")

from common.command_line import Parser, UsageError, csv_text, number, some_of, write_whole  # noqa: E402
from claims import page, texts  # noqa: E402
from claims.designs import EXPERIMENTS  # noqa: E402
from claims.exact import ALONE  # noqa: E402
from evidence.facts import EXACT_CELL, NO_SEED, FactError, Facts, facts_text, read_facts  # noqa: E402
from claims.instruments import INSTRUMENTS  # noqa: E402
from claims.lab import TOY, Lab, labelled, say  # noqa: E402
from claims.measures import MEASURES  # noqa: E402
from claims.plan import FULL, MINI, Study  # noqa: E402
from claims.texts import FindingError  # noqa: E402
from evidence.lab import Records  # noqa: E402
from evidence.rules import OPEN  # noqa: E402
from claims.verdicts import UNDECIDED, UNMEASURED, VERDICTS, articles, cell_name, claims, find, telling, verdicts  # noqa: E402
from common.ablations import lock  # noqa: E402
from common.runs import RunError  # noqa: E402
from pytorch.model_file import ModelError  # noqa: E402
from study import judging  # noqa: E402

MEASURED, FACTS = "measured.jsonl", "facts.csv"
FEW = 4  # pairs of seeds; a canary that is open with fewer has not failed
at_least_one = number(int, lambda value: value >= 1, "a whole number from 1 on")


def options_of(words):
    parser = Parser(prog="scripts/report.py", description=__doc__, epilog="Exit status: 0 done; 1 a run failed, or a claim whose "
                    "verdict is known (a canary) got another; 2 wrong usage; 130, 143 interrupted.")
    parser.add_argument("--claim", metavar="NAME", help="explain one verdict, such as A21; with --train, run only what it needs")
    parser.add_argument("--facts", metavar="FILE", help="judge the facts in FILE (default: the published ones)")
    parser.add_argument("--texts", action="store_true", help="only write findings.md, tables, pictures and the published page")
    parser.add_argument("--train", action="store_true", help="train and measure what is missing; all of it takes days")
    parser.add_argument("--only", type=some_of(*EXPERIMENTS), metavar="NAME,...", help="with --train: these experiments, such as E3,E8")
    parser.add_argument("--size", type=some_of(*(size.name for size in (*FULL, MINI))), metavar="SIZE,...", help="with --train: models "
                        "of these sizes: XS (with deep and timed models), S, M; mini: tiny models, to test the report (default: all)")
    parser.add_argument("--corpus", action="append", default=[], metavar="FILE", help="text to train on, may be repeated")
    parser.add_argument("--other-corpus", action="append", default=[], metavar="FILE",
                        help="another text, for the experiments E23 and E26 only, may be repeated")
    parser.add_argument("--continue", dest="other", metavar="FILE", help="reuse the measurements of another report, in its "
                        "measured.jsonl or measured.jsonl.xz, and run only what is missing")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default with --train: runs/report)")
    parser.add_argument("--jobs", type=at_least_one, metavar="N", help="number of runs side by side (default: one per core)")
    parser.add_argument("--sshlogin", metavar="LIST", default="", help="distribute runs over machines, as in scripts/ablate.sh")
    parser.add_argument("--list", action="store_true", help="write the list of the next runs for scripts/ablate.slurm, and run nothing")
    options = parser.parse_args(words)
    for name in ("only", "size", "corpus", "other_corpus", "other", "jobs", "sshlogin", "list"):
        if getattr(options, name) and not options.train:
            parser.error(f"--{name.replace('other_', 'other-') if name != 'other' else 'continue'}: needs --train")
    if options.train and options.facts:
        parser.error("--facts: cannot be combined with --train")
    if options.claim and not find(options.claim):
        parser.error(f"--claim={options.claim}: no such claim (claims.toml has all)")
    if "mini" in (options.size or ()) and len(options.size) > 1:
        parser.error("--size: mini cannot be combined with others")
    return options


# ---- training and measuring ------------------------------------------------------------------------

def chosen(options):
    """{name: Experiment} that --only and --claim leave."""
    names = list(options.only or ())
    if options.claim:
        names += [name for name in find(options.claim).experiments() if name in EXPERIMENTS]
        if not names:
            raise UsageError(f"--claim={options.claim}: no run decides it ({find(options.claim).out or 'see its note'})")
    return {name: one for name, one in EXPERIMENTS.items() if not names or name in names}


def lab_of(options):
    """The Lab with the texts and the folder of these options."""
    if not options.corpus and options.size != [MINI.name]:
        raise UsageError("--corpus: missing (a file, such as those that make data gets; the first one is for all experiments)")
    labels = labelled(options.corpus, "--corpus") if options.corpus else {TOY: None}
    others = labelled(options.other_corpus, "--other-corpus")
    if others.keys() & labels.keys():
        raise RunError("--other-corpus: a text has the name of one of --corpus")
    if os.path.isdir(options.out) and os.listdir(options.out) and MEASURED not in os.listdir(options.out):
        raise RunError(f"{options.out}: is not a report's folder (give another --out)")
    run_options.expect_train()
    os.makedirs(options.out, exist_ok=True)
    folder_lock = lock(options.out, "lock", "report")
    with open(os.path.join(options.out, MEASURED), "ab"):  # which tells a report's folder
        records = Records(os.path.join(options.out, MEASURED), options.other)
    if options.other and not records.known:
        raise RunError(f"{options.other}: has no measurement")
    how = judging.How(str(options.jobs or ""), options.jobs or run_options.cores_here(), options.sshlogin, options.list)
    lab = Lab(options.out, labels, others, records, {**MEASURES, **INSTRUMENTS}, how)
    lab.lock = folder_lock  # keeps other reports out as long as the lab lives
    return lab


def steps_of(options, experiments, lab):
    """(name, size, label) of what is run: small models first, so whatever has run when somebody stops is a report of smaller
    models; last those whose times are measured."""
    names = options.size or [size.name for size in FULL]
    steps = [(name, size, label) for name, one in experiments.items() for size in one.sizes_named(options.size) if one.sizes
             for label in (lab.bases if one.everywhere else lab.bases[:1])]
    return sorted(steps, key=lambda step: (experiments[step[0]].timed, names.index(step[1].name)))


def trained(options):
    """The Facts: runs what is missing and measures it, one experiment after another."""
    experiments, lab, facts, recipes = chosen(options), lab_of(options), Facts(), {}
    for name, one in experiments.items():
        for measure in one.alone:
            for variant, metric, value in ALONE[measure](lab):
                facts.add(name, *EXACT_CELL, variant, NO_SEED, metric, value)
    for name, size, label in steps_of(options, experiments, lab):
        one = experiments[name]
        if one.timed:
            lab.how = lab.how._replace(jobs=1, sshlogin="")
        runs = list(one.runs(Study(size, label, lab, recipes)))
        lab.complete(runs)
        for run in runs:
            values = lab.values_of(run)
            for metric, value in {**values, **(recipe_facts(run) if values else {})}.items():
                facts.add(name, lab.text_of(run) if one.across else label, size.name, run.variant, run.seed, metric, value)
        say(f"{name} at {size.name} on {label}: {len(runs)} runs are measured")
        write_whole(os.path.join(options.out, FACTS), facts_text(facts))
    write_whole(os.path.join(options.out, FACTS), facts_text(facts))
    return facts


def recipe_facts(run):
    """Of a run with a tuned recipe: its initial standard deviation, and whether a value is at an end of its grid."""
    std = run.options.get("init-std") if run.at_end is not None else None
    return {**({"rate_at_end": 1.0} if run.at_end else {}), **({"init_std": std} if std else {})}


# ---- results ---------------------------------------------------------------------------------------

def verdicts_text(judged):
    """A row for each claim."""
    rows = [(claim.ids, judged[claim.id].word, claim.expected, page.reading_word(judged[claim.id].says),
             page.reading_word(judged[claim.id].meant), judged[claim.id].why, claim.text)
            for claim in claims()]
    return csv_text([("claim", "verdict", "expected", "says", "meant", "why", "text"), *rows])


def explained(claim, verdict):
    """The lines that explain one verdict: what decides it first."""
    deciding = telling(claim, verdict)
    outcomes = [one for found in {**verdict.said.known, **verdict.intended.known}.values() for one in found.values()]
    lines = [f"{claim.ids} {verdict.word}: {claim.text}"]
    for one in sorted(outcomes, key=lambda one: one != deciding):
        lines.append(f"  {'decided by ' * (one == deciding)}{one.atom.text}: {page.estimate_text(one)} ({cell_name(one.cell)}): "
                     f"{page.reading_word(one.value)}")
    return lines + [f"  {text}" for text in (verdict.why, claim.note) if text]


def failed_canaries(judged):
    """The canaries that got another verdict than they must. One that was not measured, or is open with few seeds, has not
    failed."""
    few = {claim.id for claim in claims() for found in judged[claim.id].said.known.values() for one in found.values()
           if one.value == OPEN and one.estimate.n < FEW}
    return [claim for claim in claims() if claim.canary and judged[claim.id].word not in (claim.canary, UNMEASURED)
            and not (judged[claim.id].word == UNDECIDED and claim.id in few)]


def conclude(options, facts):
    """Writes and prints the verdicts on facts; returns the exit status."""
    if not facts.index:
        raise RunError(f"{options.facts or options.out}: has no facts")
    judged, shown = verdicts(facts), find(options.claim) if options.claim else None
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        write_whole(os.path.join(options.out, "verdicts.csv"), verdicts_text(judged))
        write_whole(os.path.join(options.out, "report.html"), page.make(facts))
    lines = explained(shown, judged[shown.id]) if shown else [
        f"{claim.ids:16.16} {judged[claim.id].word:22} {claim.text[:88]}" for claim in claims() if judged[claim.id].word != UNMEASURED]
    words = [judged[claim.id].word for claim in articles()]
    print("\n".join([*lines, *([] if shown else [", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)])]))
    failed = failed_canaries(judged)
    for claim in failed:
        say(f"canary {claim.id} failed: {claim.text}: {judged[claim.id].word}, must be {claim.canary}")
    return int(bool(failed))


def report(options):
    if options.texts:
        print("\n".join(texts.write(verdicts_text)))
        return 0
    if options.train:
        options.out = options.out or os.path.join("runs", "report")
        return conclude(options, trained(options))
    return conclude(options, read_facts(options.facts or os.path.join(texts.PUBLISHED, f"{FACTS}.xz")))


if __name__ == "__main__":
    sys.exit(command_line.run(say, lambda: report(options_of(sys.argv[1:])), FactError, FindingError, ModelError, RunError,
                              judging.Listed, interrupted="interrupted; the same command continues"))
