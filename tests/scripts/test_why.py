"""WHY.md and scripts/why.py: the experiments, how a prediction is judged, the numbers of the page, and its commands."""
import csv
import json
import math
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from conftest import SCRIPTS, TRAIN, needs
from written import put_log, put_summary

needs("pandas", "statsmodels")

from study.axis import value_of
from plots.svg import compact
from frozen import predictions
from why import experiments, facts, measures, page, pictures, verdicts
from why.experiments import Group, Model
from why.runs import Judged, Lab

PAGES = [Path(path).read_text(encoding="utf-8") for path in page.PAGES]
PUBLISHED = facts.of(facts.read(os.path.join(page.PUBLISHED, "judged.csv")))
TEXT = "the cat sees a dog, and the dog sees the cat. " * 100


# ---- experiments ---------------------------------------------------------------------------------

def test_every_group_is_one_that_train_accepts(run):
    """Every model of every experiment, as far as --show-options checks it."""
    for groups in experiments.EXPERIMENTS.values():
        for group in groups():
            for model in group.models:
                words = [f"--{name}={value}" for name, value in {**group.common, **model.options}.items()]
                ended = run("train", "--show-options=json", *words)
                assert ended.status == 0, f"{model}: {ended.err}"


def test_a_group_is_trained_measured_and_kept(tmp_path, monkeypatch):
    """A tuned group: its rows have the settings that were found, and a second call trains nothing."""
    text = tmp_path / "cats.txt"
    text.write_text(TEXT)
    monkeypatch.setenv("TRAIN", str(TRAIN))
    tiny = {"n-layer": 1, "n-head": 2, "n-embd": 8, "block-size": 8, "batch-size": 4, "max-iters": 8, "warmup-iters": 0,
            "eval-iters": 2, "threads": 1, "log-interval": 1}
    models = [Model("LayerNorm", 8, {"norm": "ln"}), Model("one sequence", 8, {"norm": "bn", "bn-shards": 4})]
    group = Group(models, tiny, {"learning-rate": (1e-3, 1e-2)}, "LayerNorm", range(1, 3),
                  ("val_loss", "own_loss", "train_mean", "above_frequencies", "branch_share"))
    rows = list(Lab(str(tmp_path / "out"), text).rows(group, "one"))
    assert [(row["condition"], row["seed"]) for row in rows] == [
        ("LayerNorm", 1), ("LayerNorm", 2), ("one sequence", 1), ("one sequence", 2)]
    lab = Lab(str(tmp_path / "out"), text)
    split = int(0.9 * len(TEXT))
    known = Counter(TEXT[1:split])
    frequencies = -sum(math.log(known[one] / (split - 1)) for one in TEXT[split + 1:]) / (len(TEXT) - split - 1)
    for row in rows:
        assert row["learning-rate"] > 0 and math.isfinite(row["own_loss"]) and math.isfinite(row["train_mean"])
        assert row["above_frequencies"] == pytest.approx(row["val_loss"] - frequencies)
        assert (row["branch_share"] is None) == (row["seed"] != 1)

    def kept():
        """The files that training and measuring change."""
        return {path: path.stat().st_mtime_ns for name in ("summary.json", "measured.jsonl") for path in (tmp_path / "out").rglob(name)}

    before = kept()
    assert list(lab.rows(group, "one")) == rows
    assert before == kept() and len(before) > 5


@pytest.mark.parametrize("words, status, fault", [
    ([], 2, "why: the following arguments are required: TEXT (--help lists the options)\n"),
    (["short.txt", "--jobs=0"], 2, "why: --jobs: '0' is not a whole number from 1 on (--help lists the options)\n"),
    (["binary"], 1, "why: binary: not UTF-8 at byte 4\n"),
    (["nofile"], 1, "why: nofile: No such file or directory\n"),
    (["short.txt"], 1, "why: short.txt: has 4600 characters, fewer than 100000\n")])
def test_what_cannot_be_measured_is_refused(run, words, status, fault):
    Path("short.txt").write_text(TEXT)
    Path("binary").write_bytes(b"text\xff")
    ended = run("why.py", *words)
    assert (ended.status, ended.err) == (status, fault) and not Path("runs").exists()


def test_what_a_branch_adds(tmp_path):
    """Twice the branch is twice the share; ReZero's branches add nothing at the start."""
    text = tmp_path / "cats.txt"
    text.write_text(TEXT)
    small = ["--n-layer=4", "--n-head=2", "--n-embd=16", "--block-size=16", "--init=xavier", "--warmup-iters=0", str(text)]
    lab = Lab(tmp_path, text)
    Path(lab.folder).mkdir()

    def measured(*words):
        return measures.branch_share(lab, "", Judged("", 1, [*words, *small], ()))

    def share(*words):
        return measured(*words)["branch_share"]

    tenth = measured("--init-branch-scale=0.01", "--placement=post")
    assert tenth["gradient_expected"] == pytest.approx(-4 * math.log10(1 + tenth["branch_share"] ** 2), rel=0.5)
    one, two = (share(f"--init-branch-scale={scale}", "--placement=post") for scale in (0.01, 0.02))
    assert two == pytest.approx(2 * one, rel=0.02) and one > 0
    assert share("--placement=rezero") == 0
    words = ["--placement=deepnorm", *small]
    run = str(tmp_path / "deepnorm")
    lab.call("--quiet", *words, "--max-iters=0", "--sample=0", f"--out={run}")
    arrays = {name: np.array(array, dtype=float) for name, array in lab.dump(run, None, "--eval-iters=1").items()}
    factor, shares = (2 * 4) ** 0.25, []  # of the straight path: its sum is factor x + F(x), and the norm's input
    for place in range(8):
        stream, added = arrays[f"stream.{place}"], arrays[f"transformer.h.{place // 2}.ln_{place % 2 + 1}.input"]
        shares.append(np.sqrt(((added - factor * stream) ** 2).mean() / (stream ** 2).mean()) / factor)
    assert share("--placement=deepnorm") == pytest.approx(np.mean(shares), rel=0.05) and 0 < np.mean(shares) < 0.2


def test_what_reaches_the_first_layer(tmp_path):
    rows = ("step,layer,site,metric,value", "0,,embd,stream_rms,1", "0,,embd,stream_grad,0.1", "0,0,mlp,stream_rms,2",
            "0,0,mlp,stream_grad,1", "9,,embd,stream_rms,1", "9,,embd,stream_grad,4", "9,0,mlp,stream_rms,6", "9,0,mlp,stream_grad,4")
    (tmp_path / "probes.csv").write_text("\n".join(rows) + "\n")
    assert measures.along_depth(None, tmp_path, None) == pytest.approx({"stream_growth": 3, "gradient_start": -1, "gradient_end": 0})


def test_a_training_loss_is_that_of_the_last_quarter(tmp_path):
    put_log(tmp_path, [(step, 10 - step, None) for step in range(8)])
    put_summary(tmp_path, "done", 2, 1)
    assert measures.train_mean(None, tmp_path, None) == {"train_mean": 3.5}  # of 4 and 3
    assert measures.gain(None, tmp_path, None) == {"gain": math.log(64) - 3.5}


# ---- facts and verdicts --------------------------------------------------------------------------

def row_of(experiment, condition, x, seed, **more):
    return {"experiment": experiment, "group": "0", "text": "t", "condition": condition, "x": str(x), "seed": str(seed),
            **dict.fromkeys(facts.COLUMNS[6:], ""), "status": "done", **{name: str(value) for name, value in more.items()}}


def losses(condition, x, values, **more):
    return [row_of("W1", condition, x, seed, val_loss=value, **more) for seed, value in enumerate(values)]


def test_a_column_that_an_older_program_did_not_write_is_empty(tmp_path):
    path, rows = tmp_path / "judged.csv", losses("LayerNorm", 32, [2, 3])
    names = [name for name in facts.COLUMNS if name != "muon-lr"]
    path.write_text("\n".join(",".join(line) for line in (names, *([row[name] for name in names] for row in rows))) + "\n")
    assert facts.read(path) == rows and facts.of(facts.read(path)).lines


def test_differences_are_paired_by_seed():
    """Each seed's baseline has its own loss, and the differences are all 0.5."""
    found = facts.of(losses("LayerNorm", 32, [2, 3, 4, 5]) + losses("one sequence", 32, [2.5, 3.5, 4.5, 5.5])).lines
    one = next(fact for fact in found if fact["condition"] == "one sequence" and fact["measure"] == "val_loss")
    assert one["compared"] and one["mean"] == one["low"] == one["high"] == 0.5
    assert not next(fact for fact in found if fact["condition"] == "LayerNorm")["compared"]


@pytest.mark.parametrize("loss, holds", [(2.9, False), (2.0, True)])
def test_a_prediction_holds_or_fails(loss, holds):
    """P2: over one position of 32 sequences the loss is at most 0.2 above LayerNorm's."""
    known = facts.of(losses("LayerNorm", 32, [2, 2.1, 2]) + losses("one position", 32, [loss, loss + 0.1, loss]))
    words = {row[0]: row[4] for row in verdicts.table(known.facts)}
    assert words["P2"] == ("holds" if holds else "FAILS") and words["P1"] == "not run"


def test_runs_that_did_not_train_are_judged_as_those_of_claims():
    """A stuck run is worse by an unknown amount, and one that diverged infinitely so: their losses widen no interval."""
    base, ended = losses("LayerNorm", 32, [2, 2.1, 2, 2.1, 2]), losses("one sequence", 32, [2.5, 2.6, 2.5, 2.6, 9])
    line = {fact["condition"]: fact for fact in facts.of(base + ended).lines if fact["measure"] == "val_loss"}["one sequence"]
    assert line["low"] < 0.3
    for status, loss in ("stuck", "9"), ("diverged", ""):
        ended[-1] |= {"status": status, "val_loss": loss}
        known = facts.of(base + ended)
        line = {fact["condition"]: fact for fact in known.lines if fact["measure"] == "val_loss"}["one sequence"]
        assert line["high"] == math.inf and line["seeds"] == 5
        verdict = {row[0]: row[4] for row in verdicts.table(known.facts)}["P1"]
        assert verdict == ("holds" if status == "stuck" else "FAILS")  # of 5 seeds the median has no interval


def test_a_prediction_that_models_train_reads_whether_they_are_stuck():
    """P26: Pre-LN of 16 layers trains with Xavier's weights."""
    for stuck, share in (9, 1), (3, 0.75):
        known = facts.of([{**row_of("W3", "pre, warm-up 0, depth 16", 1, seed, above_frequencies=-1), "group": "2",
                           "status": "stuck" if seed == stuck else "done"} for seed in range(4)])
        one = next(line for line in known.lines if line["measure"] == "trained")
        assert (one["mean"], one["trained"], one["seeds"]) == (share, 4 * share, 4)
        assert ({row[0]: row[4] for row in verdicts.table(known.facts)}["P26"] == "holds") == (share == 1)


def test_each_prediction_names_what_some_experiment_measures():
    for says, rule in predictions.PREDICTIONS:
        groups = experiments.EXPERIMENTS[rule.quantity.experiment]()
        conditions = {facts.BASELINE, *(model.condition for group in groups for model in group.models)}
        points = {str(model.x) for group in groups for model in group.models}
        measured = {name for group in groups for name in group.measures}
        assert {condition for _, condition in rule.quantity.needs} <= conditions, says
        assert set(rule.quantity.sizes) <= points, says
        assert all(name in measured or name.startswith(("room", "growth", "best_of", "trained")) for name, _ in rule.quantity.needs), says


def test_the_room_of_a_norm():
    """Cells within 0.1 nats of a norm's best: two of three, and one of three."""
    rows = [row_of("W6", norm, f"{std} 0.001", seed, val_loss=value)
            for norm, values in (("ln", (2, 2.05, 2.3)), ("none", (2, 2.2, 2.3)))
            for std, value in zip((0.02, 0.04, 0.08), values) for seed in (1, 2)]
    found = {(fact["condition"], fact["measure"]): fact["mean"] for fact in facts.of(rows).lines}
    assert found["ln", "room"] == 2 and found["none", "room"] == 1 and found["none", "room_beyond_ln"] == -1
    assert not [fact for fact in facts.of(rows[6:]).lines if "room" in fact["measure"]]  # LayerNorm is still missing
    for row in rows[:2]:
        row["status"] = "stuck"  # LayerNorm's best pair has a loss, and stays in its room
    assert {fact["mean"] for fact in facts.of(rows).lines if fact["condition"] == "ln" and fact["measure"] == "room"} == {2}


def test_a_map_needs_layer_norm_s():
    """As after a kill behind the first group: its room is none yet, and nothing fails."""
    lines = facts.of([row_of("W6", "none", f"{std} 0.001", seed, val_loss=2) for std in (0.02, 0.04) for seed in (1, 2)]).lines
    assert {line["measure"] for line in lines} == {"val_loss"}


def test_each_norm_at_its_best_setting():
    """LayerNorm is best at a, and BatchNorm at b, where it beats LayerNorm; best against best it loses by one nat."""
    plain, batch = "token mean, token size", "batch mean, batch size"
    rows = [row_of("W8-settings", norm, x, seed, val_loss=loss + seed) for norm, losses_of in ((plain, (2, 3.5)), (batch, (9, 3)))
            for x, loss in zip("ab", losses_of) for seed in (1, 2)]
    found = [line for line in facts.of(rows).lines if line["measure"] == "best_of_settings"]
    assert [(line["condition"], line["recipe"], line["mean"]) for line in found] == [(batch, "b", 1)]
    assert not [line for line in facts.of(rows[4:]).lines if line["measure"] == "best_of_settings"]  # LayerNorm is still missing


# ---- the page ------------------------------------------------------------------------------------

def test_the_numbers_of_the_page_follow_from_the_published_runs():
    assert PUBLISHED.lines
    blocks = {name: make(PUBLISHED) for name, make in page.BLOCKS.items()}
    assert all(any(f"<!-- {name} -->" in one and f"<!-- end of {name} -->" in one for one in PAGES) for name in blocks)
    assert [page.filled(one, blocks) for one in PAGES] == PAGES


def test_the_published_tables_follow_from_the_published_runs(tmp_path):
    facts.publish(tmp_path, PUBLISHED, verdicts.table(PUBLISHED.facts))
    for name in "facts.csv", "verdicts.csv":
        assert (tmp_path / name).read_bytes() == (Path(page.PUBLISHED) / name).read_bytes()


def test_the_worked_example_is_normlab_s():
    needs("torch")
    assert [page.filled(one, {"example": page.example(), "later": page.later()}) for one in PAGES] == PAGES


def test_pictures_follow_from_the_published_runs(tmp_path):
    """Their text, which a version of matplotlib does not change: titles, axes and legends."""
    for name, draw in pictures.PICTURES.items():
        drawn, stored = (re.findall(r">([^<>]+)</text>", text) for text in (
            compact(draw(PUBLISHED.lines, PUBLISHED.facts.texts()), name),
            (Path(page.PUBLISHED) / f"{name}.svg").read_text(encoding="utf-8")))
        assert drawn == stored and drawn, name


BLOCK = r"<!-- (?!end)[\w-]+ -->(.*?)<!-- end of [\w-]+ -->"


def test_numbers_in_sentences_were_measured():
    """A number with a sign or three decimals that neither a block nor a fact has would be out of date without a word. DETAILS.md
    also quotes the report."""
    blocks = "".join(one for text in PAGES for one in re.findall(BLOCK, text, re.DOTALL))
    blocks += " ".join(page.number(fact) for fact in PUBLISHED.lines if fact["experiment"] in ("W1", "W2", "W4", "W5", "W7")
                       and fact["measure"] in ("val_loss", "own_loss") and fact["compared"])
    tables = {f"{abs(float(number)):.{digits}f}" for number in re.findall(r"[-+]?\d+\.\d+", blocks) for digits in (1, 2, 3)}
    for number in re.findall(r"[-+−]\d+\.\d+|\b\d+\.\d\d+\b", re.sub(rf"{BLOCK}|```.*?```", "", PAGES[0], flags=re.DOTALL)):
        assert number.lstrip("-+−") in tables, number


# ---- its commands --------------------------------------------------------------------------------

def commands(text):
    """The blocks of commands of a page by section: {heading: [text]}."""
    found = {}
    for heading, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE):
        blocks = [block for block in re.findall(r"^```\n(.*?)\n```", section, re.DOTALL | re.MULTILINE)
                  if re.match(r"\./train|scripts/|seq |data/", block)]
        if blocks:
            found[heading] = blocks
    return found


def printed():
    """The tables that stand below commands of both pages: [(name of the run's folder, [cells of a row])], the first row the titles."""
    for name, table in re.findall(r"--out=runs/why/(\w+) [^`]*```\n```\n(\|.*?)\n```", "".join(PAGES), re.DOTALL):
        yield name, [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def results(folder):
    """{(values of what varies): mean final loss} of an ablation, by its results.csv."""
    with open(folder / "results.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(rows[0])[1:list(rows[0]).index("seed")]
    found = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(float(row["val_loss"]))
    return {key: sum(values) / len(values) for key, values in found.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder in which every command of the pages was run, but those that download a text, and what they printed."""
    folder = tmp_path_factory.mktemp("why")
    (folder / "train").symlink_to(TRAIN)
    (folder / "scripts").symlink_to(SCRIPTS)
    (folder / "runs" / "why").mkdir(parents=True)
    text = "\n".join(block for one in PAGES for blocks in commands(one).values() for block in blocks if not block.startswith("data/"))
    ended = subprocess.run(["bash", "-e", "-c", text], cwd=folder, text=True, capture_output=True, timeout=1500, check=False,
                           env={**os.environ, "TRAIN": str(TRAIN)})
    assert ended.returncode == 0, ended.stderr
    return folder / "runs" / "why", ended.stdout


def test_every_section_has_its_commands_and_what_they_print(made):
    """Last digits depend on the processor."""
    assert [heading.split(".")[0] for heading in commands(PAGES[0])] == list("12345")
    tables = {name: table for name, table in printed() if name != "size"}  # section 2's is of the Bible, which is not here
    assert set(tables) == {"future", "channel", "deep", "default", "detached"}
    assert len(list(printed())) == len(tables) + 1
    for name, (titles, *rows) in tables.items():
        width = titles.index("mean ± sd")
        losses = {tuple(map(value_of, key)): loss for key, loss in results(made[0] / name).items()}
        assert len(rows) == len(losses), name
        for row in rows:
            key, mean, stuck = tuple(map(value_of, row[:width])), row[width], row[titles.index("stuck")]
            loss = losses[key]
            assert (loss > 2.9) == (mean == "") == (stuck != "0"), (name, key, loss)
            assert not mean or abs(loss - float(mean.split()[0])) < 0.15, (name, key, loss)


def test_a_model_reads_the_future_of_random_text(made):
    with open(made[0] / "random" / "summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    assert summary["train_loss"] < 4 and summary["val_loss"] > 20


def test_one_sequence_fails_and_two_do_not(made):
    losses = results(made[0] / "future")
    assert losses["bn", "32"] - losses["ln", "1"] > 2
    assert abs(losses["bn", "16"] - losses["ln", "1"]) < 0.3 and abs(losses["bn", "1"] - losses["ln", "1"]) < 0.3


def test_running_statistics_fit(made):
    losses = dict(re.findall(r"^(running|own) +(\d+\.\d+)", made[1], re.MULTILINE))
    assert abs(float(losses["own"]) - float(losses["running"])) < 0.1


def test_pads_that_are_counted_cost_little(made):
    losses = results(made[0] / "pads")
    assert abs(losses["include",] - losses["mask",]) < 0.05


def test_outliers_harm_what_does_not_divide_by_them(made):
    channel, position = results(made[0] / "channel"), results(made[0] / "position")
    cost = {(norm, name): losses[norm, "1000"] - losses[norm, "1"] for name, losses in (("channel", channel), ("position", position))
            for norm in ("ln", "bn")}
    assert min(cost["ln", "channel"], cost["bn", "position"]) > 0.5, cost
    assert max(cost["bn", "channel"], cost["ln", "position"]) < 0.3, cost


def test_the_size_of_branches_switches_deep_post_ln(made):
    losses = results(made[0] / "deep")
    assert losses["5",] - losses["1",] > 1


def test_a_norm_makes_poor_settings_better(made):
    losses = {(norm, std): loss for (norm, std, _), loss in results(made[0] / "default").items()}
    assert losses["none", "0.02"] - losses["ln", "0.02"] > 0.5 > 0.1 > abs(losses["none", "0.2"] - losses["ln", "0.2"]), losses


def test_a_norm_needs_the_gradient_through_its_statistics(made):
    losses = results(made[0] / "detached")
    assert losses["ln", "on"] - max(losses["ln", "off"], losses["none", "off"]) > 0.1, losses


def test_batch_norm_needs_beta(made):
    losses = results(made[0] / "beta")
    assert losses["bn", "off"] - losses["ln", "off"] > 0.03 + losses["bn", "on"] - losses["ln", "on"]
