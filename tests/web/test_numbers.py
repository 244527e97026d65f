"""The numbers that a reader edits: the outputs are those of normlab.py, and what moved is said."""
import pytest

torch = pytest.importorskip("torch")

from pytorch.norms import make_norm
from pytorch.options import Config

B, T, C = 2, 3, 4
# What a statistic is over, minus the mean or not: the options of the same norm in normlab.py.
NORMS = {("token", True): {"norm": "ln"}, ("token", False): {"norm": "rms"},
         ("group", True): {"norm": "gn", "norm_groups": 2}, ("batch", True): {"norm": "bn"}, ("batch", False): {"norm": "pn-v"},
         ("sequence", True): {"norm": "in"}, ("position", True): {"norm": "bn", "bn_axis": "batch"},
         ("past", True): {"norm": "ts", "norm_groups": C}}


def outputs(browser, panel):
    """The numbers of a panel, with NaN for pads."""
    texts = browser.run("return [...document.querySelectorAll('#number-outputs .norm')[arguments[0]].querySelectorAll('td')]"
                        ".map(cell => cell.dataset.y)", panel)
    return [float(text) for text in texts]


@pytest.mark.parametrize("pads", [(), (5,)], ids=["no pads", "a pad"])
@pytest.mark.parametrize("over, centred", NORMS)
def test_outputs_are_those_of_normlab(browser, over, centred, pads):
    x = browser.run("Object.assign(numbers, { pads: new Set(arguments[2]), extra: { over: arguments[0], centred: arguments[1] } });"
                    "numbers.draw(); return numbers.x", over, centred, pads)
    options = NORMS[over, centred]
    norm = make_norm(options["norm"], C, Config(n_embd=C, n_head=1, block_size=T, **options)).double().train()
    valid = torch.tensor([token not in pads for token in range(B * T)]).view(B, T)
    wanted = norm(torch.tensor(x, dtype=torch.double).view(B, T, C), valid if pads else None).detach().view(-1)
    for i, (found, want) in enumerate(zip(outputs(browser, 4), wanted.tolist())):
        if i // C in pads:
            assert found != found, "a pad has no output"
        else:
            assert found == pytest.approx(want, abs=1e-9), f"element {i}"


def test_batchnorm_on_new_text_keeps_the_statistics_of_training(browser):
    before = outputs(browser, 3)
    assert before == pytest.approx(outputs(browser, 2))
    browser.run("document.querySelector('#number-edits button').click()")
    moved = [i for i, (old, new) in enumerate(zip(before, outputs(browser, 3))) if old != new]
    assert moved == [8, 9, 10, 11]


# After 50 was added to every channel of the last token of a sequence, or to one of them: outputs of earlier tokens that moved,
# and sentences of LayerNorm and RMSNorm.
@pytest.mark.parametrize("edit, leaks, layer, root", [(0, 8, "nothing moved", "only the changed token moved, in 4"),
                                                      (1, 2, "only the changed token moved, in 4", "only the changed token moved, in 3")])
def test_a_change_shows_what_moved(browser, edit, leaks, layer, root):
    browser.run("document.querySelectorAll('#number-edits button')[arguments[0]].click()", edit)
    panels = "return [...document.querySelectorAll('#number-outputs .norm')].map(panel => panel.querySelectorAll('.leak').length)"
    assert browser.run(panels)[:4] == [0, 0, leaks, 0]
    said = browser.run("return [...document.querySelectorAll('#number-said li')].map(line => line.textContent)")
    assert layer in said[0] and root in said[1]
    assert f"{leaks} numbers of earlier tokens moved" in said[2]


@pytest.mark.parametrize("over, count", [("group", 2), ("sequence", 3), ("position", 2), ("past", 3)])
def test_the_keyboard_chooses_what_shares_a_statistic(browser, over, count):
    """The last token of the first sequence, third channel."""
    browser.run("numbers.extra.over = arguments[0]; numbers.fields[10].focus()", over)
    shared = "return [...document.querySelectorAll('#number-outputs .norm')].map(panel => panel.querySelectorAll('.share').length)"
    assert browser.run(shared) == [4, 4, 6, 0, count]
    steps = browser.run("return [...document.querySelectorAll('#number-steps tr')].map(row => row.innerText)")
    assert f"({count})" in steps[4] and "(4.00 − 0.75) / 2.17 = 1.50" in steps[0]
