"""scripts/report.py --claim and --list-claims: what a claim costs, and what is told of it. Nothing is trained."""
import pytest

pytest.importorskip("scipy", reason="scripts/deps.sh report installs it")
pytest.importorskip("jinja2", reason="scripts/deps.sh report installs it")

from claims import costs


@pytest.mark.parametrize("seconds, text", [(0.2, "0 seconds"), (1, "1 second"), (40, "40 seconds"), (58, "1 minute"),
                                           (60, "1 minute"), (150, "2 minutes"), (3600, "1 hour"),
                                           (9000, "2.5 hours")])
def test_durations_have_one_or_many(seconds, text):
    assert costs.duration(seconds) == text


def test_each_claim_is_listed_with_its_cost(run):
    ending = run("report.py", "--size=mini", "--list-claims", "--jobs=2")
    assert ending.status == 0 and not ending.err, ending.err
    lines = {line.split()[0]: line for line in ending.out.splitlines()}
    assert " E11 " in lines["B4"] and " no runs " in lines["B4"]
    assert " E1 E3 " in lines["A17"] and " runs, " in lines["A17"] and " on 2 cores " in lines["A17"]
    assert len(lines) > 60


def test_the_list_of_a_claims_runs_starts_with_the_same_cost(run, tmp_path):
    claims = run("report.py", "--size=mini", "--list-claims", "--jobs=2").out.splitlines()
    line, = (line for line in claims if line.startswith("A17"))
    ending = run("report.py", "--size=mini", "--claim=A17", "--list", "--jobs=2", "--out=r")
    assert ending.status == 0 and f" {ending.err.removeprefix('report: ').strip()} " in line, ending.err
    listed = len((tmp_path / "r/wanted.txt").read_text().splitlines())
    assert ending.out.startswith(f"r/wanted.txt: {listed} runs; runs at tuned learning rates are listed once")
    assert listed < int(ending.err.split()[2])


@pytest.mark.parametrize("words", [["--list"], []])
def test_a_claim_without_runs_in_a_fresh_folder(run, tmp_path, words):
    ending = run("report.py", "--size=mini", "--claim=D9", "--out=r", *words)
    assert ending.status == 0, ending.err
    if words:
        assert ending.out == "no runs are missing: nothing to list\n"
        return
    assert "report: no runs\n" in ending.err
    verdict, first, *rest = ending.out.splitlines()
    assert verdict.split()[:2] == ["D9", "false"]
    assert first.startswith("  decided by ") and first.endswith(": fails")
    assert not any("decided by" in line for line in rest)
    page = (tmp_path / "r/report.html").read_text()
    assert 0 < page.find("The claim that was asked for: D9") < page.find("<section", page.find("<section") + 1)
    assert "The role of LayerNorm in the Transformer architecture" in page
