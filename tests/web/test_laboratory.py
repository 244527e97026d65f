"""The laboratory: its lists are the program's, its runs are those of ./train, and what goes wrong is said."""
import csv
import json
import struct

import pytest

TINY = {"n-layer": 1, "n-embd": 16, "n-head": 2, "block-size": 16, "batch-size": 4, "max-iters": 40, "log-interval": 5,
        "eval-interval": 10, "eval-iters": 2, "warmup-iters": 5, "grammar-chars": 20000, "seed": 1}
# Other vector widths and libraries round differently, and training amplifies that. These are nats.
TOLERANCE = 0.01

TRAIN = """
const [shared, variants] = of;
Object.assign(laboratory, { shared, variants: variants.map((options, i) => ({ colour: PALETTE[i], options })) });
laboratory.draw();
document.getElementById("lab-train").click();
"""


def losses(rows):
    return [(row["step"], row["train_loss"], row["val_loss"]) for row in rows]


def trained(browser, *variants, **shared):
    """The runs of variants of TINY at their end."""
    return browser.result(TRAIN + "await normlab.done; return normlab.runs", {**TINY, **shared}, list(variants))


def test_its_lists_are_those_of_the_program(browser, train):
    table = {row["name"]: row for row in json.loads(train("--help=json"))["options"]}
    offered = browser.run("return [...document.querySelectorAll('#lab-variants select option')].map(option => option.value)")
    for name in ("placement", "connection", "optimizer", "bn-shards", "dropout", "schedule"):
        assert name in offered
        assert browser.run("return laboratory.table.find(row => row.name === arguments[0]).help", name) == table[name]["help"]
    norms = browser.run("return [...document.querySelectorAll('#norms option')].map(option => option.value)")
    assert set(norms) == set(table["norm"]["values"])


def test_the_same_variant_gives_the_same_bits_and_the_losses_of_the_native_program(browser, train, tmp_path):
    size = {"max-iters": 100, "n-layer": 2, "n-embd": 32, "block-size": 32, "batch-size": 12, "init-std": 0.1}
    first, second, bn = trained(browser, {"norm": "ln"}, {"norm": "ln"}, {"norm": "bn", "bn-shards": 2}, **size)
    assert losses(first["rows"]) == losses(second["rows"])
    for number, run in ((0, first), (2, bn)):
        command = browser.run("return laboratory.lines[arguments[0]].runs[0].command", number).split()
        assert command[0] == "./train"
        train(*command[1:], f"--out={tmp_path}/{number}")
        with open(tmp_path / str(number) / "log.csv", encoding="utf-8") as file:
            native = list(csv.DictReader(file))
        assert len(native) == len(run["rows"]) > 20
        for want, row in zip(native, run["rows"]):
            for name in ("train_loss", "val_loss"):
                assert (row[name] is None) == (want[name] == "")
                if want[name]:
                    assert row[name] == pytest.approx(float(want[name]), abs=TOLERANCE), f"{name} of step {want['step']}"


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(browser):
    options = {"max-iters": 600, "n-embd": 32, "batch-size": 12, "checkpoint-interval": 50}
    whole, = trained(browser, {"norm": "ln"}, **options)
    # In the turn of the message that brings a row, so that the program's end, however near, has not been heard.
    stopped = browser.result(TRAIN + """
        const [run] = laboratory.lines[0].runs;
        const found = text => [...document.querySelectorAll("#lab-watch button")].find(one => one.textContent === text);
        let isAsked = false;
        await new Promise(resolve => run.listeners.push(() => {
            if (!isAsked && run.step >= 50 && run.files["/run/checkpoint.safetensors"]) { isAsked = true; found("Stop").click(); }
            if (run.state === "stopped") resolve();
        }));
        const step = run.step;
        while (!found("Go on")) await new Promise(requestAnimationFrame);
        found("Go on").click();
        return step;""", {**TINY, **options}, [{"norm": "ln"}])
    assert 50 <= stopped < options["max-iters"]
    browser.result("await normlab.done")
    assert losses(browser.run("return normlab.runs[0].rows")) == losses(whole["rows"])


def test_seeds_are_a_mean_and_a_band(browser):
    browser.run("laboratory.seeds = 3")
    runs = trained(browser, {"norm": "ln"})
    assert [run["seed"] for run in runs] == [1, 2, 3]
    browser.wait("Chart.getChart(document.querySelector('#lab-watch canvas')).data.datasets.length === 4")
    _, val, low, high = browser.run(
        "return Chart.getChart(document.querySelector('#lab-watch canvas')).data.datasets.map(set => set.data.at(-1).y)")
    last = [run["rows"][-1]["val_loss"] for run in runs]
    assert [low, high] == [min(last), max(last)]
    assert val == pytest.approx(sum(last) / 3)


def test_a_run_can_be_taken_and_writes_on(browser, tmp_path, train):
    trained(browser, {"norm": "rms"})
    kept = browser.run("return [...laboratory.lines[0].runs[0].files['/run/model.safetensors']]")
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(kept))
    header = json.loads(path.read_bytes()[8:8 + struct.unpack("<Q", bytes(kept[:8]))[0]])
    assert header["transformer.h.0.ln_1.weight"]["shape"] == [16]
    browser.run("document.querySelector('#lab-watch .runs button').click()")
    browser.run("document.querySelector('#lab-watch .details input').value = 'The owl'")
    press = "[...document.querySelectorAll('#lab-watch .details button')].find(one => one.textContent === arguments[0]).click()"
    browser.run(press, "write on")
    browser.wait("document.querySelector('#lab-watch .sample').textContent.startsWith('The owl')")
    assert train(f"--generate={path}", "--prompt=The owl", "--num-chars=20").startswith("The owl")


@pytest.mark.parametrize("place", ["#lab-variants > li", "#lab-watch .details"])
def test_a_variant_s_layer_and_norm_are_shown(browser, place):
    """Also before it trains; what is open stays open, and follows its options."""
    browser.run("Object.assign(laboratory, { variants: [{ colour: 'bn', options: { norm: 'bn' } }] }); laboratory.draw()")
    if "watch" in place:
        trained(browser, {"norm": "bn"})
        browser.run("document.querySelector('#lab-watch .runs button').click()")
    said = f"[...document.querySelectorAll('{place} .listing')].map(text => text.textContent)"
    browser.run(f"document.querySelector('{place} summary').click()")
    browser.wait(f"{said}.length === 2")
    layer, norm = browser.run(f"return {said}")
    assert "normed = bn(u)" in layer and "attention(q, k, v)" in layer
    assert "t1 = mean_n(x)" in norm and "dx = " in norm
    if "watch" not in place:
        browser.run("Object.assign(laboratory.variants[0].options, { norm: 'gamma * x / foo(x)' }); laboratory.draw()")
        browser.wait(f"{said}.length === 2 && {said}.every(text => text.includes('no function foo'))")


def test_a_link_keeps_the_state(browser, chromium):
    trained(browser, {"norm": "gn"}, {"norm": "bn", "bn-momentum": 0.2})
    state = browser.run("return laboratory.state")
    chromium.open(f"#laboratory={state}")
    chromium.wait("laboratory.variants[0].options.norm === 'gn'")
    assert chromium.run("return [laboratory.shared, laboratory.variants[1].options]") == [TINY, {"norm": "bn", "bn-momentum": 0.2}]


def test_options_are_added_changed_and_removed(browser):
    browser.run("""const more = document.querySelector('#lab-variants select[aria-label="add an option"]');
                   more.value = 'placement'; more.dispatchEvent(new Event('change'));""")
    assert browser.run("return laboratory.variants[0].options") == {"norm": "ln", "placement": "pre"}
    browser.run("""const field = document.querySelector('#lab-variants select[aria-label=placement]');
                   field.value = 'post'; field.dispatchEvent(new Event('change'));""")
    assert browser.run("return laboratory.variants[0].options.placement") == "post"
    browser.run("document.querySelector('#lab-variants [aria-label=\"without placement\"]').click()")
    assert browser.run("return laboratory.variants[0].options") == {"norm": "ln"}
    browser.run("document.querySelector('#lab-variants [aria-label=\"copy variant 1\"]').click()")
    assert browser.run("return laboratory.variants.map(one => one.options.norm)") == ["ln", "bn", "ln"]
    browser.run("document.querySelector('#lab-variants [aria-label=\"remove variant 2\"]').click()")
    assert browser.run("return laboratory.variants.map(one => one.options.norm)") == ["ln", "ln"]
