"""scripts/compare.py on planted folders: intervals, verdicts, runs that did not train, tuning, names, and what is
refused. test_inference.py tests its statistics."""
import json
import os
import re
import sys
from pathlib import Path

import pytest

from conftest import SCRIPTS, needs
from written import put_run

needs("scipy")

LN = ("--baseline", "norm=ln")


def put(norm, seed, loss, rate=0.01, reason="done"):
    put_run(f"runs/{norm}-{rate:g}-s{seed}", loss, seed, reason, norm=norm, learning_rate=rate)


def plant(norm, mean, spread):
    """Five seeds of ln; and a norm with differences of this mean, `spread` from one to the next."""
    for seed in range(1, 6):
        put("ln", seed, 2 + 0.1 * seed)
        put(norm, seed, 2 + 0.1 * seed + mean + spread * (seed - 3))


@pytest.fixture
def compare(run):
    """compare(*words): the output of compare.py, which must succeed and say nothing else."""
    def output(*words):
        ending = run("compare.py", *words)
        assert ending.status == 0 and not ending.err, ending.err
        return ending.out
    return output


# ---- verdicts ------------------------------------------------------------------------------------

def test_verdicts(compare):
    for norm, mean, spread in (("bn", 0.1, 0.001), ("rms", 0.001, 0.001), ("gn", -0.3, 0.01), ("dyt", 0.05, 0.04)):
        plant(norm, mean, spread)
    put("ln", 8, 1), put("bn", 9, 3)  # seeds that one side lacks do not count
    out = compare("runs", *LN, "--csv=a.csv")
    # The 0.995 quantile of Student's t with 4 degrees of freedom is 4.604095, and the standard deviation of
    # the differences 0.001 x sqrt(2.5): 0.1 +- 0.003256.
    assert "| bn  | ln | 5     | +0.1000 | +0.0967 to +0.1033 | 1.5e-08   | 5.998e-08 | higher " in out
    assert "| +0.0010 | -0.0023 to +0.0043 | 0.2302    | 0.3037    | equal within 0.02 " in out
    assert "| lower " in out and "\nMore seeds needed: for a decision with probability 0.9, " in out
    assert 2 <= int(re.search(r"\| undecided: about (\d+) more seeds needed \|", out)[1]) <= 50
    assert "The interval decides: it excludes 0 where p < 0.01." in out and "Holm: p, adjusted for the 4 comparisons shown." in out
    table = open("a.csv", encoding="utf-8").read()
    assert "\nbn,ln,1 2 3 4 5,0.098 0.099 0.1 0.101 0.102,0.1,0.0967444" in table
    assert ",1.49950013e-08,5.99800052e-08,higher,,5,5,2.4,5,5,2.3\n" in table


def test_the_margin_is_the_users(compare):
    plant("rms", 0.03, 0.001)
    assert "| higher " in compare("runs", "--a", "norm=rms", "--b", "norm=ln")
    assert "| equal within 0.05 " in compare("runs", "--a", "norm=rms", "--b", "norm=ln", "--margin=0.05")
    assert "| ln | rms | 5     | -0.0300 | -0.0333 to -0.0267 |" in compare("runs", "--a", "norm=ln", "--b", "norm=rms")


# ---- runs that did not train ---------------------------------------------------------------------

def test_fractions_decide_where_runs_diverged(compare):
    for seed in range(1, 9):
        put("ln", seed, 2)
        put("bn", seed, 3, reason="diverged")
        put("rms", seed, 1, reason="done" if seed > 3 else "diverged")
    out = compare("runs", *LN, "--csv=a.csv")
    assert "| bn  | ln | 0 of 8 |         |                    |   |      | trains less often: 0 and 8 of 8 " \
        "trained " in out
    # Five differences of -1: the interval has no width, and decides nothing.
    assert "| rms | ln | 5 of 8 | -1.0000 | -1.0000 to -1.0000 |   |      | undecided: 5 and 8 of 8 " \
        "trained " in out
    # 1 - 0.005^(1/8) and 0.005^(1/8)
    assert "\nbn: 0 of 8 trained, 8 diverged (fraction 0.00 to 0.48)\n" in out
    assert "\nln: 8 of 8 trained (fraction 0.52 to 1.00), median 2.0000\n" in out
    assert "\nrms: 5 of 8 trained, 3 diverged (fraction " in out
    table = open("a.csv", encoding="utf-8").read()
    assert "\nrms,ln,1 2 3 4 5 6 7 8,nan nan nan -1 -1 -1 -1 -1,-1,-1,-1,,,undecided,,5,8,1,8,8,2\n" in table


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("last, verdict", [(3.94, "higher"), (4, "undecided: 2 and 3 of 3 trained"),
                                           (9, "undecided: 2 and 3 of 3 trained")])
def test_a_stuck_run_is_in_no_mean(compare, run, last, verdict, known):
    """./train says which are stuck. The interval has the seeds whose two runs trained, and pictures and tables say the same.
    Of an older run, which starts at 4, only is known that its loss did not fall."""
    for seed in (1, 2, 3):
        put("ln", seed, 2)
        put("bn", seed, last if seed == 3 else 3.9)
    for path in Path("runs").glob("*/summary.json"):
        if not known:
            path.write_text(re.sub('"stuck": (true|false), ', "", path.read_text()))
    out, stuck = compare("runs", *LN), int(last >= 4)
    assert f"| {verdict} " in out and ("| bn | ln | 2 of 3 | +1.9000 |" if stuck else "| bn | ln | 3     | +1.9133 |") in out
    assert ("\nbn: 2 of 3 trained, 1 stuck (fraction " in out) == bool(stuck)
    compare("runs", *LN, "--plot=a.svg")
    assert f"bn ({verdict})" in " ".join(re.findall("<text[^>]*>([^<]*)<", Path("a.svg").read_text(encoding="utf-8")))
    ending = run("table.py", "runs")
    assert f" | {3 - stuck} | {stuck} | 0 | 0 | 2 |\n" in ending.out, ending.out


def test_variants_that_both_learned_nothing_are_not_equal(compare, run):
    for seed in range(1, 9):
        put("ln", seed, 3.97)
        put("bn", seed, 3.97)
    out = compare("runs", *LN, "--csv=a.csv")
    assert re.search(r"\| bn \| ln \| 0 of 8 \|( *\|){4} neither trained \|", out), out
    assert "\nbn: 0 of 8 trained, 8 stuck (fraction 0.00 to 0.48)" in out and "equal" not in out
    assert ",neither trained,,0,8," in Path("a.csv").read_text()
    assert "| equal within 1 " in compare("runs", *LN, "--metric=seconds", "--margin=1")  # says nothing about learning
    ending = run("table.py", "runs")
    assert "| bn |  |  |  |  | 0 | 8 | 0 | 0 | 2 |\n" in ending.out, ending.out
    ending = run("page.py", "runs", "-o", "a.html")
    assert ending.status == 0 and "(8 of 8 stuck)" in Path("a.html").read_text()


def test_failed_and_unfinished_runs(run, tmp_path):
    """Of an ablation: its grid names the runs, driver/ has their exit status."""
    plant("bn", 0.1, 0.001)
    put("ln", 6, 2)
    put("ln", 7, 2)
    for name in "678":
        (tmp_path / f"runs/bn-0.01-s{name}").mkdir()
    (tmp_path / "runs/bn-0.01-s6/config.ini").write_text("norm = bn\nlearning-rate = 0.01\nseed = 6\nsample = 0\n")
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/bn-0.01-s6.status").write_text("ended 1 0\n")
    (tmp_path / "driver/bn-0.01-s7.status").write_text("ended 2 0\n")  # before it wrote its config.ini
    (tmp_path / "grid.txt").write_text("".join(f"{path.name} --norm={path.name[:2]}\n" for path in (tmp_path / "runs").iterdir()))
    ending = run("compare.py", ".", "--a", "norm=bn", "--b", "norm=ln")
    assert ending.status == 1
    assert "compare: ./runs/bn-0.01-s7: failed before it started: it is not counted\n" in ending.err
    assert "compare: 1 of 15 runs have not ended: they are left out\n" in ending.err
    assert "| 5 of 6 | +0.1000 |" in ending.out and "| undecided: 5 and 6 of 6 trained |" in ending.out
    assert "\nbn: 5 of 6 trained, 1 failed (fraction " in ending.out


# ---- names ---------------------------------------------------------------------------------------

def test_full_names_are_those_of_train(compare):
    plant("bn", 0.1, 0.001)
    assert compare("runs", "--baseline", "norm=layernorm") == compare("runs", *LN)


def test_cells_of_a_table_are_escaped(run):
    """Every table is written by one function. A run is named by its folder if each variant is a single run."""
    for place, name in enumerate(("p|q", "line\nbreak", "r")):
        put_run(name, 2 + place, 1, norm=("ln", "bn", "rms")[place])
    ending = run("table.py", "p|q", "line\nbreak", "r")
    assert ending.status == 0
    rows = [re.split(r"(?<!\\)\|", line) for line in ending.out.splitlines()]
    assert {row[1] for row in rows[2:]} == {" p\\|q ", " line\\nbreak ", " r "}
    assert len(rows) == 5 and len(set(map(len, rows))) == 1, ending.out


def test_short_names_of_options_are_those_of_train(compare):
    for seed in (1, 2, 3):
        for rate, more in (0.01, 0.5), (0.1, 0), (1, 0.5):
            put("ln", seed, 2 + more, rate), put("bn", seed, 3 + more, rate)
    assert compare("runs", "--a=lr=0.1", "--b=lr=0.01") == compare("runs", "--a=learning-rate=0.1", "--b=--learning-rate=0.01")
    assert compare("runs", "--baseline=norm=ln,--lr=0.01") == compare("runs", "--baseline=norm=ln,learning-rate=0.01")


# ---- the picture ---------------------------------------------------------------------------------

def test_the_picture(compare):
    for norm, mean, spread in (("bn", 0.1, 0.001), ("rms", 0.001, 0.001), ("dyt", 0.05, 0.1)):
        plant(norm, mean, spread)
    for name, part in ("a.png", b"\x89PNG"), ("a.svg", b">rms (equal within 0.02)<"), ("a.svg", b" minus that of ln "):
        compare("runs", *LN, f"--plot={name}")
        assert part in open(name, "rb").read()


def test_the_baseline_agrees_in_everything_else(compare, run):
    """An option that has no effect on one of two variants, as bn-momentum on ln, may differ."""
    for norm, place, momentum, loss in (("ln", "pre", 0.1, 2), ("ln", "post", 0.1, 3), ("bn", "pre", 0.1, 2.25),
                                        ("bn", "post", 0.1, 3.5), ("bn", "pre", 0.01, 2.5)):
        for seed in (1, 2):
            put_run(f"runs/{norm}-{place}-{momentum}-s{seed}", loss + 0.1 * seed, seed, norm=norm, placement=place,
                    bn_momentum=momentum, inactive=["bn-momentum"] if norm == "ln" else [])
    for baseline, rows in (("norm=ln", {"bn, pre, bn-momentum 0.1": 0.25, "bn, post, bn-momentum 0.1": 0.5,
                                        "bn, pre, bn-momentum 0.01": 0.5}),
                           ("norm=ln,placement=pre", {"ln, post": 1, "bn, post, bn-momentum 0.1": 1.5}),
                           ("norm=bn,bn-momentum=1e-1", {"ln, pre": -0.25})):
        out = compare("runs", "--baseline", baseline)
        assert all(re.search(rf"\| {name} +\| [^|]* \| 2     \| [+]?{loss:.4f} \|", out) for name, loss in rows.items()), out
    ending = run("compare.py", "runs", "--baseline=norm=bn")
    assert ending.status == 1 and ("compare: --baseline: bn, pre, bn-momentum 0.01 and bn, pre, bn-momentum 0.1 could both be the "
                                   "baseline of ln, pre") in ending.err


# ---- what is refused -----------------------------------------------------------------------------

@pytest.mark.parametrize("status, words, part", [
    (2, "runs", "compare: no comparison is given (--baseline norm=ln, or --a norm=bn --b norm=ln)"),
    (2, "runs --a bn --b norm=ln", "'bn' is not NAME=VALUE,..."),
    (2, "runs --baseline norm=ln --a norm=bn", "compare: --baseline: cannot be combined with --a and --b"),
    (2, "runs --baseline norm=ln --margin=0", "--margin: '0' is not a number above 0"),
    (2, "runs --baseline norm=ln --metric=seconds", "compare: --metric=seconds: needs --margin"),
    (2, "runs --baseline norm=ln --plot=a.gif", "compare: --plot=a.gif: not a kind of picture"),
    (1, "runs --a norm=rms --b norm=ln", "compare: --a=norm=rms: no such run (there are bn, ln)"),
    (1, "runs --a norm=bn --b act=relu", "compare: --b=act=relu: these runs do not differ in act"),
    (1, "runs --a norm=bn --b norm=bn", "compare: --a and --b: name the same variant"),
    (1, "runs --baseline norm=ln --metric=x --margin=1", "/summary.json has no such number (it has grammar_entropy, "),
    (1, "nosuch --baseline norm=ln", "compare: nosuch: no such folder"),
    (1, "empty --baseline norm=ln", "compare: empty: no run in it"),
    (1, "runs runs/bn-0.01-s2 --baseline norm=ln", "another run of bn has the same seed 2 (leave one "),
    (1, "runs/ln-0.01-s1 runs/bn-0.01-s2 --baseline norm=ln", "compare: no common seeds: nothing can be decided")])
def test_wrong_commands(run, tmp_path, status, words, part):
    plant("bn", 0.1, 0.001)
    (tmp_path / "empty").mkdir()
    ending = run("compare.py", *words.split())
    assert ending.status == status and part in ending.err, ending.err
    assert ending.err.count("\n") == 1, ending.err


@pytest.mark.parametrize("member, part", [
    ("corpus_crc32", "compare: runs/bn-0.01-s1 and runs/ln-0.01-s1: trained on different texts; their losses cannot be "
                     ""),
    ("compiler", "trained by different builds (bn-*, vectors of ? bits, numbers of ?; ln-*, vectors of ? bits, numbers "
     "of ?): the difference is not the options' alone (--any-build compares them)")])
def test_runs_of_different_texts_or_builds_are_no_pair(run, tmp_path, member, part):
    plant("bn", 0.1, 0.001)
    for value in "ln-*", "bn-*":
        for path in (tmp_path / "runs").glob(f"{value}/summary.json"):
            path.write_text(json.dumps({member: value, **json.loads(path.read_text())}))
    ending = run("compare.py", "runs", *LN)
    assert ending.status == 1 and part in ending.err and ending.err.count("\n") == 1 and not ending.out
    assert run("compare.py", "runs", *LN, "--any-build").status == (member == "corpus_crc32")


@pytest.mark.parametrize("script, module, group", [("compare.py", "scipy", "report"), ("normlab.py", "torch", "pytorch")])
def test_without_a_module_one_line_says_what_to_do(run, tmp_path, script, module, group):
    (tmp_path / "nos" / module).mkdir(parents=True)
    (tmp_path / "nos" / module / "__init__.py").write_text(f"raise ImportError(\"No module named '{module}'\")\n")
    ending = run(sys.executable, SCRIPTS / script, "--help", env={"PYTHONPATH": "nos"})
    assert ending.status == 1 and ending.err.count("\n") == 1
    assert f": No module named '{module}' (scripts/deps.sh {group} installs it)\n" in ending.err


# ---- damaged files -------------------------------------------------------------------------------

WORDS = {"compare.py": LN, "table.py": (), "plot.py": ("-o", "a.svg"), "page.py": ("-o", "a.svg")}
LOGS = ("compare.py", "plot.py", "page.py")
HEADER = "step,seconds,tokens,train_loss,val_loss\n"
DAMAGE = {"a long cell": ("log.csv", HEADER + "1" * 200000 + "\n2,2,2,2,2\n", LOGS),
          "endless seconds": ("log.csv", HEADER + "2,1e999,2,2,2\n", LOGS),
          "tokens that are no number": ("log.csv", HEADER + "2,2,nan,2,2\n", LOGS),
          "a list": ("summary.json", "[1, 2]", WORDS),
          "deep": ("summary.json", "[" * 100000, WORDS),
          "no loss": ("summary.json", '{"exit_reason": "done", "options": {"norm": "ln"}}', WORDS)}
GOOD = {"exit_reason": "done", "val_loss": 2, "best_val_loss": 2, "seconds": 2, "options": {"norm": "bn", "seed": 1}}
DAMAGE |= {f"{name} {value:.9}": ("summary.json", json.dumps({**GOOD, name: "@"}).replace('"@"', value), WORDS)
           for name, value in (("seconds", '"a"'), ("seconds", "[]"), ("seconds", "1" * 400), ("val_loss", "1e999"),
                               ("best_val_loss", "NaN"), ("val_loss", "null"), ("exit_reason", "[]"), ("exit_reason", '"do"'),
                               ("corpus_crc32", "{}"), ("options", "[]"), ("options", '{"norm": ["ln"]}'),
                               ("options", '{"norm": "bn", "seed": "a"}'))}


@pytest.mark.parametrize("script, kind", [(script, kind) for kind, (*_, scripts) in DAMAGE.items()
                                          for script in scripts])
def test_a_damaged_run_is_named_and_the_others_are_shown(run, tmp_path, script, kind):
    plant("bn", 0.1, 0.001)
    name, text, _ = DAMAGE[kind]
    (tmp_path / "runs/bn-0.01-s1" / name).write_text(text)
    ending = run(script, "runs", *WORDS[script])
    assert ending.status == 1 and "Traceback" not in ending.err
    assert f"runs/bn-0.01-s1/{name}: damaged: " in ending.err, ending.err
    assert "| bn " in ending.out or (tmp_path / "a.svg").exists(), ending.out


@pytest.mark.parametrize("script", WORDS)
def test_a_fifo_among_the_files_of_a_run_is_not_waited_for(run, tmp_path, script):
    plant("bn", 0.1, 0.001)
    folder = tmp_path / "runs/bn-0.01-s1"
    (folder / "summary.json").unlink()
    for name in ("summary.json", "log.crc32"):
        os.mkfifo(folder / name)
    ending = run(script, "runs", *WORDS[script])
    assert "runs/bn-0.01-s1/summary.json: is not a regular file" in ending.err and "Traceback" not in ending.err, ending.err
