"""Bad input: one clear message beside the variant, nothing hangs, and other variants go on."""
import urllib.parse

import pytest

from conftest import PAGE
from test_laboratory import TINY, TRAIN, trained

FAULTS = "[...document.querySelectorAll('#lab-watch .fault')].map(row => row.hidden ? '' : row.textContent)"
# What a browser may refuse: options of a variant, and what is done in its worker.
REFUSALS = {
    "memory to start with": ({}, "WebAssembly.instantiate = () => Promise.reject(new RangeError('could not allocate memory'));"),
    "more memory": ({"n-embd": 1024}, "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('no more memory'); };"),
    "memory for files": ({}, """const post = postMessage; postMessage = message => {
        if (message.files && !("status" in message)) throw new RangeError("Array buffer allocation failed"); post(message); };"""),
}


@pytest.mark.parametrize("options, error", [
    ({"norm": "gamma * x / foo(x)"}, "--norm: there is no function foo"),
    ({"norm": "gamma * (x"}, "--norm: expected )"),
    ({"norm": ""}, "--norm=: must be one of"),
    ({"dropout": 2}, "--dropout=2: must be a number from 0 to 0.99"),
    ({"n-embd": 17}, "--n-embd=17: must be a multiple of --n-head=2"),
    ({"nonsense": 1}, "--nonsense: no such option"),
    ({"max-iters": "many"}, "--max-iters=many: must be a whole number"),
    ({"n-embd": 20000}, "memory: these sizes need more than a program of 32 bits can address"),
    ({"n-embd": 1000000}, "memory: transformer.h.0.attn.c_attn.weight has more elements"),
    ({"norm": "none", "learning-rate": 1000, "grad-clip": 0}, "diverged at step "),
], ids=str)
def test_a_variant_says_what_is_wrong_with_it(browser, options, error):
    wrong, right = trained(browser, options, {"norm": "ln"})
    assert wrong["state"] == "failed" and wrong["error"].startswith(error)
    assert right["state"] == "done" and not right["error"]
    browser.wait(f"{FAULTS}[0]")
    assert browser.run(f"return {FAULTS}") == [wrong["error"], ""]
    if "diverged" not in error and "memory" not in error:  # which the program knows before it trains
        browser.wait("document.querySelector('#lab-variants .error').textContent")
        assert browser.run("return document.querySelector('#lab-variants .error').textContent") == wrong["error"]


@pytest.mark.parametrize("text, error", [("", "is empty"), ("too short", "text"), ("a\0b" * 100, "a NUL byte at byte 1")])
def test_a_text_that_cannot_be_learned(browser, text, error):
    browser.run("Object.assign(laboratory, { text: 'pasted', pasted: arguments[0] })", text)
    run, = trained(browser, {"norm": "ln"})
    assert run["state"] == "failed" and error in run["error"]


def test_a_text_of_the_reader(browser):
    browser.run("Object.assign(laboratory, { text: 'pasted', pasted: arguments[0] })", "to be or not to be, that is the question\n" * 100)
    run, = trained(browser, {"norm": "ln"})
    assert run["state"] == "done" and run["rows"][-1]["val_loss"] < run["rows"][0]["val_loss"]


@pytest.mark.parametrize("content, said", [
    (b"na\xefve" * 100, "no text in UTF-8"), (None, "larger than 20 MB"), ("naïve".encode(), "5 characters")])
def test_a_file_of_the_reader(browser, tmp_path, content, said):
    path = tmp_path / "a text.txt"
    with open(path, "wb") as file:
        file.write(content or b"")
        file.truncate(len(content) if content else 20_000_001)
    browser.driver.find_element("id", "lab-file").send_keys(str(path))
    browser.wait(f"document.getElementById('lab-said').textContent.startsWith('a text.txt: {said}')")
    assert browser.run("return laboratory.pasted") == ("naïve" if "5" in said else "")


@pytest.mark.parametrize("refusal", REFUSALS)
def test_memory_that_a_browser_refuses(browser, refusal):
    options, spoil = REFUSALS[refusal]
    browser.run("""
        const [text, Whole] = [id => document.getElementById(id).textContent, Worker];
        const first = `addEventListener("message", ({ data }) => { if (data.args.includes("--norm=bn")) { ${arguments[0]} } });`;
        const address = URL.createObjectURL(new Blob([first, text("train-js"), text("worker-js")], { type: "text/javascript" }));
        window.Worker = function () { return new Whole(address); };""", spoil)
    wrong, right = trained(browser, {**options, "norm": "bn"}, {"norm": "ln"})
    assert wrong["state"] == "failed" and "memory" in wrong["error"]
    assert right["state"] == "done" and not right["error"]


def test_a_browser_that_cannot_run_the_program_is_told(browser):
    script = "WebAssembly.compile = () => Promise.reject(new WebAssembly.CompileError('invalid value type'));"
    kept = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    browser.driver.get("about:blank")
    browser.driver.get(f"file://{PAGE}")
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", kept)
    browser.wait("document.getElementById('lab-said').textContent.includes('needs WebAssembly with SIMD')")
    claims = browser.result("return normlab.start('one-sequence')")
    assert len(claims) == 4 and all("invalid value type" in claim["text"] and not claim["holds"] for claim in claims)


def test_numbers_of_updates_that_only_the_program_knows(browser):
    auto, many = trained(browser, {"max-iters": "auto", "max-tokens": 2560}, {"max-iters": 1000000000, "max-seconds": 1})
    assert auto["rows"][-1]["step"] == 40
    assert many["state"] == "done" and many["rows"][-1]["step"] > 40
    browser.wait(f"Chart.getChart(document.querySelector('#lab-watch canvas')).options.scales.x.max === {many['rows'][-1]['step']}")


def test_a_tab_that_is_closed_in_the_middle(browser):
    """The browser asks before it closes a tab, other tabs keep training, and the address keeps the variants to train them again."""
    leave = "const event = new Event('beforeunload', { cancelable: true }); window.dispatchEvent(event); return event.defaultPrevented"
    driver, first = browser.driver, browser.driver.current_window_handle
    assert not browser.run(leave)
    browser.result(TRAIN, {**TINY, "max-iters": 600}, [{"norm": "ln"}])
    driver.switch_to.new_window("tab")
    browser.open()
    browser.result(TRAIN + "while (!normlab.runs[0].rows.length) await new Promise(resolve => setTimeout(resolve, 5));",
                   {**TINY, "max-iters": 10**6}, [{"norm": "rms"}])
    assert browser.run(leave)
    address = driver.current_url
    driver.close()
    driver.switch_to.window(first)
    browser.result("await normlab.done")
    assert not browser.run(leave)
    browser.open("#" + address.split("#")[1])
    browser.wait("laboratory.variants[0].options.norm === 'rms'")
    assert browser.run("return laboratory.shared") == {**TINY, "max-iters": 10**6}


def test_a_stopped_variant_stops_and_others_go_on(browser):
    browser.result(TRAIN + """
        const [endless, other] = laboratory.lines.flatMap(line => line.runs);
        while (!endless.step) await new Promise(resolve => setTimeout(resolve, 5));
        endless.stop();
        await other.finished;""", TINY, [{"norm": "rms", "max-iters": 10**6}, {"norm": "ln"}])
    assert [run["state"] for run in browser.run("return normlab.runs")] == ["stopped", "done"]


@pytest.mark.parametrize("state, said", [
    ("{", "damaged"), ('{"shared": {}}', "damaged (no variants)"), ('{"variants": [null]}', "damaged"),
    ('{"variants": [{"options": {"norm": "ln"}}], "text": "pasted"}', "give it again")])
def test_a_link_that_lacks_something(browser, state, said):
    browser.open(f"#laboratory={urllib.parse.quote(state)}")
    browser.wait("document.getElementById('lab-said').textContent.length > 0")
    assert said in browser.run("return document.getElementById('lab-said').textContent")


def test_a_link_to_more_seeds_than_the_page_has(browser):
    state = urllib.parse.quote('{"variants": [{"options": {"norm": "ln"}}], "seeds": 1e9}')
    browser.open(f"#laboratory={state}")
    browser.wait("laboratory.seeds === 8")
