"""study.py and the package study: a study of small models by ./train, its answer, what it refuses, and how it continues."""
from concurrent.futures import ThreadPoolExecutor
import io
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import SMALL, ended_runs, needs

needs("pandas", "matplotlib")

import study
from common.command_line import UsageError
from study.answer import Contrast, Question, row_of
from study.judging import Runner
from study.statistics import holm

TUNED = ["study.py", "--norm=ln,none", "--optimizer=adamw,muon", "--tune=lr=1e-2,3e-2", "--tuning-seeds=2", "--seeds=2",
         "--baseline=norm=ln", "--out=out", "--", *SMALL]


def test_a_study_tunes_judges_answers_and_continues(run, text):
    ended = run(*TUNED)
    assert ended.status == 0, ended.err
    summaries = ended_runs()
    tuning = [name for name in summaries if "hold-out" in name]
    assert tuning and all(re.search(r"-s10[12]$", name) for name in tuning)
    judging = [name for name in summaries if name not in tuning]
    assert len(judging) == 4 * 2 and all(re.search(r"-s[12]$", name) for name in judging)
    assert "none minus ln" in ended.out and "interaction" in ended.out and "Partial" not in ended.out
    files = {path.name for path in Path("out").iterdir() if path.is_file()}
    assert files >= {"answer.md", "answer.tex", "answer.csv", "judged.csv", "figure.svg", "figure.pdf", "page.html"}

    times = {name: path.stat().st_mtime_ns for name, path in summaries.items()}
    removed = sorted(summaries)[::3]  # as if they had not ended when it was killed
    for name in removed:
        summaries[name].unlink()
    (Path("out/runs") / judging[0] / "summary.json").write_text("{")  # and one is damaged
    partial = run("study.py", "out")
    assert partial.status == 0 and "Partial answer: " in partial.out
    assert sum("left out" in line for line in partial.err.splitlines()) == 1
    again = run(*TUNED)
    assert again.status == 0 and again.out == ended.out, again.err
    changed = [name for name, path in ended_runs().items() if path.stat().st_mtime_ns != times[name]]
    assert sorted(changed) == sorted({*removed, judging[0]})

    more = run(*(word.replace("--seeds=2", "--seeds=3").replace("ln,none", "ln,none,rms") for word in TUNED))
    assert more.status == 0, more.err
    kept = {name: path.stat().st_mtime_ns for name, path in ended_runs().items() if name in summaries}
    assert len(ended_runs()) > len(summaries) and all(kept[name] == times[name] for name in kept if name not in changed)


def test_the_question_changes_without_a_run(run, text):
    options = ["--norm=ln,none", "--placement=pre,post", "--seeds=3", "--out=out", "--", *SMALL]
    assert run("study.py", *options).status == 0
    before = ended_runs()
    ended = run("study.py", "out", "--baseline=placement=post", "--labels=none=No norm")
    assert ended.status == 0 and "pre minus post" in ended.out and "No norm" in ended.out, ended.err
    ended = run("study.py", "out", "--within=", "--metric=val_accuracy")
    assert ended.status == 2
    ended = run("study.py", "out", "--baseline=norm=none,placement=pre", "--metric=val_accuracy")
    assert ended.status == 0 and "perplexity" not in ended.out
    assert "ln, post minus No norm, pre" in ended.out  # labels are remembered
    first = Path("out/answer.md").read_text()
    assert "No norm" not in first and "pre minus post" not in first  # other questions have files of their own
    names = {path.name for path in Path("out").iterdir()}
    assert {"answer-placement=post.md", "answer-norm=none-placement=pre-val_accuracy-figure.svg"} <= names
    ended = run("study.py", "out", "--where=placement=post", "--answer=mine")
    assert ended.status == 0 and "No norm minus ln" in ended.out and "post minus" not in ended.out and "main effect" not in ended.out
    assert Path("out/mine.md").exists() and first == Path("out/answer.md").read_text()
    ended = run("study.py", "out", "--where=placement=peri")
    assert ended.status == 1 and ended.err == "study: --where=placement=peri: no such run (there are pre, post)\n"
    assert before == ended_runs()


def test_contrasts_are_those_of_the_runs(text):
    """Against sums over the table of judged runs, by hand."""
    base = [word for word in SMALL if not word.startswith(("--n-layer", "--max-iters"))]
    one = study.Study(factors={"norm": ["ln", "none"], "n-layer": [1, 2]}, seeds=3, out="out",
                      base=[*base, "--max-iters=60", "--learning-rate=0.03"]).run().answer()
    assert one.complete and len(one.judged) == 12 and set(one.judged["exit_reason"]) == {"done"}
    loss = {(row["norm"], row["n-layer"], row["seed"]): row["val_loss"] for _, row in one.judged.iterrows()}
    by_depth = {depth: [loss["none", depth, seed] - loss["ln", depth, seed] for seed in (1, 2, 3)] for depth in "12"}
    expected = {("difference", "n-layer 1"): by_depth["1"], ("difference", "n-layer 2"): by_depth["2"],
                ("main effect", "n-layer"): [sum(both) / 2 for both in zip(*by_depth.values())],
                ("interaction", "n-layer 2 minus n-layer 1"): [two - first for first, two in zip(*by_depth.values())]}
    found = one.contrasts[one.contrasts["factor"] == "norm"].set_index(["kind", "where"])
    assert set(found.index) == set(expected)
    for key, values in expected.items():
        mean = sum(values) / 3
        half = 9.924843 * math.sqrt(sum((value - mean) ** 2 for value in values) / 2 / 3)
        assert [found.loc[key][name] for name in ("mean", "low", "high")] == pytest.approx([mean, mean - half, mean + half])
    assert (found["p_holm"] >= found["p"]).all() and found["p_holm"].max() <= 1
    for _, family in one.contrasts.groupby("factor"):
        assert list(family["p_holm"]) == pytest.approx(list(holm(family["p"])))
    assert list(one.contrasts["p_holm"]) != pytest.approx(list(holm(one.contrasts["p"])))  # which is one family
    opened = study.open("out")
    assert {"run", "path", "norm", "n-layer", "seed", "val_loss"} <= set(opened.runs(varying=True)) and len(set(opened.runs())) > 60
    assert "n-head" not in opened.runs(varying=True) and str(opened.answer()) == str(one)
    shown = opened.answer(baseline={"n-layer": "1"})._repr_html_()
    assert "n-layer 2" in shown and "<svg" in shown and "<table>" in shown
    with pytest.raises(UsageError, match="with --max-iters=60 where this command has --max-iters=61"):
        study.Study(factors={"norm": ["ln", "none"]}, out="out", base=[*base, "--max-iters=61", "--learning-rate=0.03"]).answer()
    frame = study.runs("out")
    assert len(frame) == 12 and set(frame["exit_reason"]) <= {"done", "stuck"} and {"val_loss", "seed", "norm", "path"} <= set(frame)


def test_other_machines_do_the_same_runs(run, text):
    words = ["study.py", "--norm=ln,none", "--tune=lr=1e-2,3e-2", "--tuning-seeds=2", "--seeds=2", "--out=out"]
    here = run(*words, "--", *SMALL)
    Path("out").rename("here")
    there = run(*words, "--sshlogin=2/:", "--", *SMALL)
    assert (there.status, there.out) == (0, here.out), there.err


def test_listed_variants_have_their_own_baselines(text):
    variants = [{"norm": norm, "batch-size": size} for norm, size in (("ln", 4), ("bn", 4), ("ln", 8), ("bn", 8), ("rms", 8))]
    one = study.Study(variants=variants, baseline={"norm": "ln"}, seeds=2, out="out",
                      base=[word for word in SMALL if "batch-size" not in word]).run().answer()
    found = one.contrasts[one.contrasts["kind"] == "difference"]
    assert list(zip(found["contrast"], found["where"])) == [
        ("bn minus ln", "batch-size 4"), ("bn minus ln", "batch-size 8"), ("rms minus ln", "batch-size 8")]


def test_tied_options_are_one_factor(run, text):
    words = [word for word in SMALL if "-size" not in word]
    ended = run("study.py", "--batch-size,block-size=4:8,8:4", "--seeds=2", "--out=out", "--", *words)
    assert ended.status == 0, ended.err
    assert sorted(set(zip(*study.runs("out")[["batch-size", "block-size"]].values.T))) == [(4, 8), (8, 4)]


def outcome(status, loss):
    return SimpleNamespace(options={}, status=status, summary={"val_loss": loss})


def test_a_contrast_without_one_of_its_seeds_has_no_p():
    """Three seeds decide; if one of them diverged, no p stands beside the two that are left."""
    contrast = Contrast("difference", "norm", "bn minus ln", "", [{("bn",): 1, ("ln",): -1}])
    runs = {("ln",): {seed: outcome("done", 2 + 0.1 * seed) for seed in (1, 2, 3)},
            ("bn",): {seed: outcome("done", 2.5 + 0.11 * seed) for seed in (1, 2, 3)}}
    row = row_of(contrast, runs, "val_loss", 0.02)
    assert row["seeds"] == 3 and row["verdict"] == "higher" and row["p"] < 0.01
    for status in "diverged", "stuck":
        runs[("bn",)][3] = outcome(status, 9)
        row = row_of(contrast, runs, "val_loss", 0.02)
        assert math.isnan(row["p"]) and row["seeds"] == 2
        assert (row["verdict"], row["why"]) == ("undecided", "2 and 3 of 3 trained")


def test_an_effect_is_over_the_levels_that_trained():
    """At the second learning rate nothing trained: the effect of the norm is that at the first, and says so."""
    cells = [(norm, rate) for norm in ("ln", "bn") for rate in ("1e-3", "30")]
    runs = {cell: {seed: outcome("done" if cell[1] == "1e-3" else "diverged", 2 + (cell[0] == "bn") * (0.1 + seed / 1000))
                   for seed in range(1, 9)} for cell in cells}
    found = {(one.kind, one.what): row_of(one, runs, "val_loss", 0.02)
             for one in Question({"norm": ["ln", "bn"], "learning-rate": ["1e-3", "30"]}, cells, {"norm": "ln"}, None,
                                 lambda levels, names: " ".join(levels)).contrasts()}
    norm, rate = found["main effect", "bn minus ln"], found["main effect", "30 minus 1e-3"]
    assert norm["verdict"] == "higher" and norm["mean"] == pytest.approx(0.1045) and (norm["kept"], norm["of"]) == (1, 2)
    assert (norm["trained"], norm["trained_baseline"], norm["runs"]) == (8, 8, 16)
    assert rate["verdict"] == "trains less often" and (rate["trained"], rate["trained_baseline"]) == (0, 16) and math.isnan(rate["mean"])


def test_the_answer_is_a_sentence_on_top(run, text):
    """Who wins, by how much, with how many runs; its unit is the metric's."""
    words = ["study.py", "--norm=ln,rms", "--min-lr,learning-rate=1e-3:1e-2,0:0", "--seeds=3", "--out=out", "--", *SMALL]
    ended = run(*words)
    first, second, *_ = ended.out.split("\n\n")
    assert re.match(r"Averaged over min-lr,learning-rate, (rms (beats|loses to) ln: its|rms and ln are equal within 0.02 nats: rms's|"
                    r"whether rms or ln is better is undecided: the) validation loss differs by \S+ \[\S+, \S+\] nats \(3 seeds, paired; "
                    r"3 of 6 and 3 of 6 runs trained; the mean is over 1 of 2 combinations, in the others not all runs trained\)\.$",
                    first), first
    assert second.startswith("Verdicts on the validation loss in single combinations: ")
    assert "neither trained at (min-lr,learning-rate 0:0)" in second
    for name in "answer.md", "page.html":
        found = Path(f"out/{name}").read_text()
        assert 0 < found.index("Averaged over") < found.index("neither trained") < found.index("4 variants, judged by seeds")
        assert re.search("CRC-32 [0-9a-f]{8}", found) and "Build: " in found
        assert re.search("Made by: .{0,6}scripts/study.py --norm=ln,rms", found)
    ended = run("study.py", "out", "--metric=val_accuracy", "--margin=0.01")
    assert ended.status == 0 and "nats" not in ended.out and "validation accuracy" in ended.out, ended.out
    assert "nats" not in Path("out/answer-val_accuracy.tex").read_text() + Path("out/answer-val_accuracy-figure.svg").read_text()
    assert "nan" not in ended.out


@pytest.mark.parametrize("status, loss", [("done", 2.5), ("diverged", math.inf), ("stuck", math.inf)])
def test_what_did_not_train_is_infinitely_bad_in_tuning(tmp_path, status, loss):
    runner = Runner(str(tmp_path), [])
    runner.outcome = lambda options, seed: outcome(status, 2.5)
    assert runner.loss_of({}, 1) == loss
    runner.outcome = lambda options, seed: None
    assert runner.loss_of({}, 1) is None


def test_a_study_may_run_in_any_thread(text):
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(lambda: study.Study(factors={"norm": ["ln", "none"]}, seeds=2, out="out", base=SMALL).run().answer())
    assert len(made.result().judged) == 4


def test_no_message_continues_the_line_of_progress(text, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    study.Study(factors={"norm": ["ln", "none"]}, tune={"learning-rate": ["1e-2", "3e-2"]}, tuning_seeds=2, seeds=2, out="out",
                base=SMALL).run()
    written = re.split("\r\x1b\\[K", sys.stderr.getvalue())
    progress = [line for line in written if "left" in line]
    assert len(progress) >= 4 and all(re.fullmatch(r"study: \d+/\d+ runs, \d+ s left", line) for line in progress), written
    assert any(line.endswith("\n") for line in written) and written[-1] not in progress


def test_variants_that_both_learned_nothing_are_not_equal(run, text):
    ended = run("study.py", "--norm=ln,none", "--tune=lr=1e-9,1e-8", "--tuning-seeds=2", "--seeds=2", "--out=out", "--", *SMALL)
    assert ended.status == 0 and "grows" not in ended.err and "nan" not in ended.out, ended.err
    assert re.search("none minus ln +– +– +– +neither trained", ended.out), ended.out
    assert ended.out.startswith("Neither none nor ln trained (0 seeds, paired; 0 of 2 and 0 of 2 runs trained).")
    shown = ended.out.partition("\nIntervals are")[0]
    assert shown.count("0 of 2") == 4 and "of 2 trained" not in shown and "equal" not in shown


def test_runs_that_do_not_train_are_told(text):
    one = study.Study(factors={"min-lr,learning-rate": [("1e-3", "1e-2"), (0, 0)]}, seeds=8, out="out", base=SMALL).run().answer()
    assert list(one.judged["exit_reason"]) == 8 * ["done"] + 8 * ["stuck"]
    assert list(one.contrasts["verdict"]) == ["trains less often"] and one.contrasts["p"].isna().all()


def test_a_dry_run_trains_nothing_and_a_budget_is_kept(run, text):
    words = ["--norm=ln,none", "--tune=learning-rate,init-std", "--out=out", "--", *SMALL]
    ended = run("study.py", "--dry-run", *words)
    assert ended.status == 0 and not Path("out").exists(), ended.err
    least, most = map(int, re.search(r"2 variants, (\d+) to (\d+) runs", ended.out).groups())
    assert 2 * (16 + 8) < least < most
    few = run("study.py", "--dry-run", "--seeds=4", *words)
    assert int(re.search(r"2 variants, (\d+) to", few.out)[1]) == least - 2 * 4
    short = run("study.py", "--dry-run", "--budget=0.001s", *words)
    assert short.status == 2 and "--budget" in short.err


def test_rounds_are_listed_for_a_cluster(run, text):
    words = ["study.py", "--norm=ln,none", "--tune=lr=1e-2,3e-2", "--tuning-seeds=2", "--seeds=2", "--out=out"]
    for rounds in range(20):
        ended = run(*words, "--list", "--", *SMALL)
        assert ended.status == 0, ended.err
        if ended.out:
            break
        count = len(ended_runs())
        assert run("ablate.sh", "--do-line", "1", "out", "1-99").status == 0
        assert len(ended_runs()) > count
    assert rounds >= 3 and "none minus ln" in ended.out
    assert run(*words, "--", *SMALL).out == ended.out


def test_another_study_in_the_folder_is_refused(run, text):
    words = ["study.py", "--norm=ln,none", "--seeds=2", "--out=out", "--", *SMALL]
    assert run(*words).status == 0
    for more in ["--dropout=0.1"], ["--max-iters=20"]:
        ended = run(*words, *more)
        assert ended.status == 2 and "other options" in ended.err
    Path("other").mkdir()
    Path("other/file").touch()
    ended = run("study.py", "--norm=ln,none", "--out=other", "--", *SMALL)
    assert ended.status == 2 and "not a study's folder" in ended.err
    holder = study.Study(factors={"norm": ["ln", "none"]}, seeds=2, out="out", base=SMALL)
    holder.runner.open()
    ended = run(*words)
    holder.runner.close()
    assert ended.status == 1 and "another study is running" in ended.err
    Path("out/study.json").write_text("{")
    ended = run("study.py", "out")
    assert ended.status == 1 and len(ended.err.splitlines()) == 1 and "damaged" in ended.err


@pytest.mark.parametrize("status, words, what", [
    (2, "--norm=ln,bm", "train: --norm=bm"),
    (2, "--nrom=ln,bn", "train: --nrom"),
    (2, "--lr=a,b", "train: --learning-rate=b"),
    (2, "--norm=ln,bn --tune=lr=-1,1", "train: --learning-rate=-1"),
    (1, "--norm=ln,bn -- nofile", "train: corpus: nofile"),
    (2, "--norm=ln,ln", "--norm: 'ln' is given twice"),
    (2, "--norm=ln,layernorm", "--norm: 'ln' is given twice"),
    (2, "--dropout=0.5,.5", "--dropout: '.5' is given twice"),
    (2, "--max-iters=1000,1e3", "--max-iters: '1e3' is given twice"),
    (2, "--batch-size,dropout=4:.10,4:0.1", "--batch-size,dropout: '4:0.1' is given twice"),
    (2, "--norm=ln,bn --tune=lr=1e-3,0.001", "--tune=lr: needs"),
    (2, "--corpus=a.txt,./a.txt", "--corpus: './a.txt' is given twice"),
    (2, "--norm=ln --norm=bn", "--norm: is given twice"),
    (2, "--lr=1,2 --learning-rate=1,2", "--learning-rate: is given twice"),
    (2, "--norm=ln,bn --tune=dyt-alpha", "no default axis"),
    (2, "--norm=ln,bn --tune=norm=ln,bn", "is a factor"),
    (2, "--norm=ln,bn --baseline=norm=rms", "no variant has this level (there are ln, bn)"),
    (2, "--norm=ln,bn --baseline=act=relu", "the variants do not differ in act"),
    (2, "--norm=ln,bn --seeds=1", "--seeds"),
    (2, "--norm=ln,bn --seeds=101", "--seeds"),
    (2, "--seed=1,2", "--seed"),
    (2, "--seeds=2", "nothing to compare or to tune"),
    (2, "--norm=ln,bn text.txt", "text.txt: not"),
    (2, "--norm=ln,bn -- --seed=3", "--seed=3"),
    (2, "--norm=ln,bn -- --norm=rms", "--norm=rms: is also"),
    (2, "--batch-size,block-size=4:8,4", "needs 2 values"),
    (1, "nofolder", "no study.json")])
def test_wrong_usage_is_refused_before_anything_is_trained(run, text, status, words, what):
    words = words.split() if " -- " in f" {words} " or words == "nofolder" else [*words.split(), "--", *SMALL]
    ended = run("study.py", *words)
    assert ended.status == status and what in ended.err.splitlines()[-1], ended.err
    assert not Path("runs").exists()


def test_an_axis_without_effect_is_none_of_the_variant(run, text):
    """./train --show-options=json says that RMSNorm has no --dyt-alpha."""
    ended = run("study.py", "--norm=rms,dyt", "--tune=lr=1e-2,3e-2,dyt-alpha=0.5,1", "--tuning-seeds=2", "--seeds=2", "--out=out",
                "--", *SMALL)
    assert ended.status == 0, ended.err
    found = {one["options"]["norm"]: one for one in json.loads(Path("out/study.json").read_text())["variants"]}
    assert set(found["rms"]["recipe"]) == {"learning-rate"} and set(found["dyt"]["recipe"]) == {"learning-rate", "dyt-alpha"}
    assert found["dyt"]["trials"] - 2 <= found["rms"]["trials"] <= found["dyt"]["trials"]
    assert "dyt-alpha has no effect here" in ended.out
    assert not [name for name in ended_runs() if "norm=rms" in name and "dyt-alpha" in name]
