"""Every experiment of the page ends, and what it says holds, by its own numbers, for three seeds."""
import re

import pytest

from conftest import ROOT

SOURCE = (ROOT / "scripts" / "web" / "experiments.js").read_text(encoding="utf-8")
NAMES = re.findall(r'^    name: "([^"]+)"', SOURCE, re.M)


def test_the_list_is_that_of_the_page(browser):
    assert browser.run("return normlab.experiments") == NAMES
    assert len(NAMES) >= 8


def test_each_names_a_section_of_why():
    sections = re.findall(r'section: "([^"]+)"', SOURCE)
    headings = re.findall(r"^## (.+)$", (ROOT / "WHY.md").read_text(encoding="utf-8"), re.M)
    assert len(sections) == len(NAMES) and set(sections) <= set(headings)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_claims_hold(browser, name, seed):
    claims = browser.result("return normlab.start(of[0], { seed: of[1] })", name, seed)
    runs = browser.run("return normlab.runs")
    assert len(runs) >= 2 and all(run["state"] == "done" and run["seed"] == seed for run in runs), [run["error"] for run in runs]
    assert all(run["rows"][-1]["step"] == run["options"]["max-iters"] for run in runs)
    assert len(claims) >= 2
    assert not [claim["text"] for claim in claims if not claim["holds"]]
    shown = browser.run("return document.getElementById('experiment').innerText")
    assert all(claim["text"] in shown for claim in claims)
