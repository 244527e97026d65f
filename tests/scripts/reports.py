"""What test_report.py checks of a report: its page, and that every fact which a rule reads is made by a planned run;
and the options of these runs."""
import json
import re

from claims import claims, experiments, lab, plan
from claims.fact_table import read_facts
from conftest import Page


def link_faults(text):
    """A claim's line leads to a figure or to numbers, and a figure back to the lines that lead to it."""
    figures = {name: set(re.findall(r'href="#a-(\w+)"', rest)) for name, rest in
               re.findall(r'<figure id="f-([\w.]+)">.*?<figcaption>(.*?)</figcaption>', text, re.DOTALL)}
    lines = re.findall(r'<div class="row" id="a-(\w+)">(.*?)\n(?=<div class="row"|</section>)', text, re.DOTALL)
    found = [] if figures and lines else ["no figure, or no line of a claim"]
    for claim, line in lines:
        led = re.findall(r'href="#f-([\w.]+)"', line)
        found += [f"figure {name} does not lead back to {claim}" for name in led
                  if claim not in figures.get(name, ())]
        if claims.find(claim).experiments() and not led and 'href="#e-' not in line:
            found.append(f"the line of {claim} leads nowhere")
    return found


def expect_page(path):
    text = path.read_text()
    Page(text)
    assert "<script" not in text and len(text) < 5e6
    assert not [claim.id for claim in claims.CLAIMS if f'id="c-{claim.id}"' not in text]
    assert not link_faults(text)


def without_pictures(page):
    """A page's bytes without its pictures and their classes: a published page has fewer, and those of findings beside it."""
    return re.sub(rb"(?s)\n*<figure .*?</figure>|<svg.*?</svg>|<img [^>]*>|\.s\d+ \{[^}]*\}\n", b"", page)


class AnyLab:
    """Every run has ended."""
    folder, bases, others = ".", ("text",), ("other",)

    def loss_of(self, run):
        return 2.0

    def with_start(self, run, factor):
        return run._replace(options={**run.options, "start": f"x{factor}"})

    def longest(self):
        return self.bases[0]

    def part(self, label, count):
        return f"{label}-first-{count}"

    def spread(self, label, more):
        return f"{label}-spread-{more}"


def quick_runs():
    """(experiment, run) of every run that the quick report could plan."""
    for experiment in experiments.EXPERIMENTS:
        for size in experiment.sizes("quick"):
            for run in experiment.runs(plan.Study(size, "text", AnyLab())):
                yield experiment, run


# What measures give that need a run which trained, time or PyTorch.
PROFILE = ("milliseconds", "norm_share", "norm_ms", "attention_ms", "linear_ms", "log2_norm",
           "log2_attention", "log2_linear")
MORE = {"profile": PROFILE, "overfitting": ("gap_at_equal_fit",),
        "depth": ("gradient_ratio_start", "gradient_ratio_end", "stream_growth_start"),
        "movement": ("movement",), "rounding": ("activations_4_cost",)}


def expect_needs(folder):
    """Every fact that a rule reads is made by a run of the quick report, or without runs."""
    metrics, made = {name: set(more) for name, more in MORE.items()}, set()
    with open(folder / "measured.jsonl", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if isinstance(record["values"], dict):
                metrics.setdefault(record["measure"], set()).update(record["values"])
    for row in read_facts(folder / "facts.csv").rows():
        if row[0] in ("canary", "E11", "E13", "E18"):
            made.add((row[0], row[5], row[3]))
    for experiment, run in quick_runs():
        made |= {(experiment.id, metric, run.variant) for measure in run.measures
                 for metric in metrics.get(measure, ())}
    for claim in claims.ALL:
        assert not claim.needs() - made, claim.id


def commands():
    """Options of all runs that the quick report could plan, except for the seed, and without updates."""
    seen = set()
    for _, run in quick_runs():
        options = {name: value for name, value in run.options.items()
                   if name not in ("start", "max-iters", "lr-decay-iters", "warmup-iters", "eval-interval",
                                   "probe-interval", "eval-iters")}
        words = re.sub(r"--seed=\d+", "", " ".join(plan.option_words(run._replace(
            options={**options, "max-iters": 0, "eval-iters": 1}))))
        corpus = "--corpus=random" if run.corpus == lab.RANDOM else ""
        seen.add(f"{words} {corpus}")
    return sorted(seen)
