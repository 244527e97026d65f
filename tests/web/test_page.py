"""The page itself: one file, as wide as its window; answers, addresses, the keyboard."""
import re

import pytest
from selenium.webdriver.common.keys import Keys

from conftest import PAGE

SHORT = "EXPERIMENTS.forEach(one => { one.shared = { ...one.shared, 'max-iters': 20, 'eval-interval': 10 }; });"


def test_it_is_one_small_file_with_its_licences():
    text = PAGE.read_text(encoding="utf-8")
    assert PAGE.stat().st_size <= 1_600_000
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", text), "something would be loaded"
    assert "Chart.js v" in text and "MIT License" in text


@pytest.mark.parametrize("width", [400, 640, 1280, 1600])
def test_it_is_as_wide_as_its_window(browser, width):
    browser.resize(width)
    browser.result(SHORT + "return normlab.start('one-sequence')")
    browser.run("for (const open of document.querySelectorAll('#experiment .runs button')) open.click()")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.resize(1280)


def test_a_reader_answers_by_the_keyboard_and_learns_what_happened(browser):
    browser.run(SHORT)
    choices = browser.driver.find_elements("css selector", ".answers button")
    assert browser.run("return document.querySelector('.result').getAttribute('aria-live')") == "polite"
    choices[0].send_keys(Keys.ENTER)
    browser.wait("document.querySelector('.result h4')")
    assert browser.run("return document.querySelector('.answers [aria-pressed=true]').textContent") == choices[0].text
    said = browser.run("return document.querySelector('.result').innerText")
    assert "You expected otherwise" in said and "WHY.md" in said
    choices[1].send_keys(Keys.ENTER)
    browser.wait("document.querySelector('.result').innerText.includes('As you expected')")


def test_a_claim_that_fails_is_said(browser):
    """After 20 updates no effect is there yet."""
    claims = browser.result(SHORT + "return normlab.start('outlier-channel')")
    assert not all(claim["holds"] for claim in claims)
    assert "Not in this run" in browser.run("return document.querySelector('.result').innerText")


def test_an_experiment_goes_to_the_laboratory(browser):
    browser.result(SHORT + "return normlab.start('random-text')")
    browser.run("[...document.querySelectorAll('.result button')].find(one => one.textContent.includes('laboratory')).click()")
    assert browser.run("return [laboratory.text, laboratory.shared['n-embd'], laboratory.variants[1].options]") == [
        "random", 32, {"norm": "bn", "batch-size": 1}]


def test_an_address_starts_an_experiment(chromium):
    chromium.open("#experiment=random-text")
    chromium.wait("normlab.runs.length > 0")
    assert {run["experiment"] for run in chromium.run("return normlab.runs")} == {"random-text"}


def test_an_unknown_experiment_is_named(browser):
    said = browser.run("try { normlab.start('nothing'); } catch (fault) { return fault.message; }")
    assert "no experiment nothing" in said and "one-sequence" in said


def test_curves_have_values_and_a_logarithmic_axis(browser):
    browser.result(SHORT + "return normlab.start('one-sequence')")
    browser.run("document.querySelector('#experiment input[type=checkbox]').click()")
    browser.wait("Chart.getChart(document.querySelector('#experiment canvas')).options.scales.y.type === 'logarithmic'")
    label = browser.run("return document.querySelector('#experiment canvas').getAttribute('aria-label')")
    assert re.search(r"LayerNorm: \d\.\d+ in training, \d\.\d+ on new text", label)
    drawn = browser.run("return Chart.getChart(document.querySelector('#experiment canvas')).data.datasets.map(set => set.data.length)")
    assert len(drawn) == 8 and min(drawn) >= 2
