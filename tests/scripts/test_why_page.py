"""why.html in a headless browser: its outputs are those of normlab.py, and it fits a phone."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import needs

torch = needs("torch")

from pytorch.norms import make_norm
from pytorch.options import Config

PAGE = Path(__file__).resolve().parents[2] / "scripts" / "why" / "why.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium (scripts/deps.sh browser)")
X = [10, 20, 999, -5, 2, 5, -1, 3, 1, 0, 4, -2, 0, 3, 2, 1, 4, -1, 0, 2, -3, 1, 5, 2]
B, T, C = 2, 3, 4

# formula and set of the page: the options of the same norm in normlab.py.
NORMS = {("centred", "token"): {"norm": "ln"}, ("about-zero", "token"): {"norm": "rms"},
         ("centred", "group"): {"norm": "gn", "norm_groups": 2}, ("centred", "batch"): {"norm": "bn"},
         ("about-zero", "batch"): {"norm": "pn-v"}, ("centred", "sequence"): {"norm": "in"},
         ("centred", "position"): {"norm": "bn", "bn_axis": "batch"},
         ("centred", "past"): {"norm": "ts", "norm_groups": C}}


def opened(tmp_path, address, *words, then=""):
    """The page after its script has run, and after that the script `then`."""
    copy = tmp_path / "why.html"
    copy.write_text(PAGE.read_text(encoding="utf-8").replace("</body>", f"<script>{then}</script></body>"), encoding="utf-8")
    return subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", *words,
                           "--dump-dom", f"file://{copy}#{address}"], capture_output=True, text=True, check=True, timeout=600).stdout


def outputs(page):
    found = dict(re.findall(r'id="y(\d+)" class="out[^"]*" data-y="([^"]+)"', page))
    return [float(found[str(i)]) for i in range(B * T * C)]


@pytest.mark.parametrize("pads", [(), (5,)], ids=["no pads", "a pad"])
@pytest.mark.parametrize("formula, over", NORMS)
def test_outputs_are_those_of_normlab(tmp_path, formula, over, pads):
    options = NORMS[formula, over]
    norm = make_norm(options["norm"], C, Config(n_embd=C, n_head=1, block_size=T, **options)).double().train()
    valid = torch.tensor([token not in pads for token in range(B * T)]).view(B, T)
    wanted = norm(torch.tensor(X, dtype=torch.double).view(B, T, C), valid if pads else None).detach().view(-1)
    page = opened(tmp_path, f"formula={formula}&over={over}&x={','.join(map(str, X))}&pads={','.join(map(str, pads))}")
    for i, (found, want) in enumerate(zip(outputs(page), wanted.tolist())):
        if i // C in pads:
            assert found != found, "a pad has no output"
        else:
            assert found == pytest.approx(want, abs=1e-9), f"element {i}"


# What a change of the last token of a sequence moves: outputs of earlier tokens, of the other sequence.
@pytest.mark.parametrize("over, leaks, elsewhere", [("token", 0, 0), ("group", 0, 0), ("batch", 8, 12), ("sequence", 8, 0),
                                                    ("position", 0, 4), ("past", 0, 0)])
def test_a_change_shows_what_moved(tmp_path, over, leaks, elsewhere):
    page = opened(tmp_path, f"formula=centred&over={over}", then="element('later').click()")
    classes = [re.search(f'id="y{i}" class="([^"]*)"', page)[1].split() for i in range(B * T * C)]
    assert sum("leak" in one for one in classes) == leaks
    assert sum("moved" in one for one in classes[T * C:]) == elsewhere
    said = re.search(r'<p id="said"[^>]*>([^<]*)', page)[1]
    assert ("sees the token that it should predict" in said) == (leaks > 0)
    assert ("other sequence, but none" in said) == (elsewhere > 0 and not leaks)


@pytest.mark.parametrize("over, count", [("token", 4), ("group", 2), ("batch", 6), ("sequence", 3), ("position", 2), ("past", 3)])
def test_the_keyboard_selects_what_shares_a_statistic(tmp_path, over, count):
    """The last token of the first sequence, third channel."""
    page = opened(tmp_path, f"formula=centred&over={over}", then="element('x10').firstChild.focus()")
    assert len(re.findall(r'id="x\d+" class="share"', page)) == count
    assert f"statistic of {count} numbers" in page


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_as_wide_as_its_window(tmp_path, width):
    page = opened(tmp_path, "over=batch", f"--window-size={width},900",
                  then="document.title = `${document.documentElement.scrollWidth} of ${innerWidth}`")
    wide, window = map(int, re.search(r"<title>(\d+) of (\d+)", page).groups())
    assert wide <= window <= max(width, 500)  # Chromium makes no narrower window
