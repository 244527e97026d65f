"""The page that `make web` builds, in headless Chromium. A test fails if the console has an error."""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(os.environ.get("PAGE", ROOT / "build" / "web" / "index.html")).resolve()
sys.path.insert(0, str(ROOT / "scripts"))


def found(*names):
    """The first of these commands that this machine has."""
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    """A window of Chromium with the page."""

    def __init__(self, width=1280, height=900):
        options = Options()
        options.binary_location = found("chromium", "chromium-browser", "google-chrome")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(found("chromedriver")), options=options)

    def open(self, state=""):
        """Loads the page with this state in its address, until the laboratory has its lists."""
        self.driver.get("about:blank")
        self.driver.get(f"file://{PAGE}{state}")
        self.wait("document.querySelectorAll('#lab-variants select').length > 0")

    def run(self, script, *values):
        """What a script returns."""
        return self.driver.execute_script(script, *values)

    def result(self, script, *values):
        """What a promise gives. It is asked again and again, since a command that takes minutes may lose the browser."""
        self.run(f"const of = arguments; window.got = null; (async () => {{ {script} }})()"
                 ".then(value => { got = { value }; }, fault => { got = { fault: String(fault) }; })", *values)
        end = time.monotonic() + 600  # a busy machine is slow
        while not (got := self.run("return window.got")):
            assert time.monotonic() < end, f"no end: {script}"
            time.sleep(0.1)
        assert "fault" not in got, got["fault"]
        return got.get("value")

    def wait(self, condition):
        """Until a condition holds."""
        self.result(f"while (!({condition})) await new Promise(resolve => setTimeout(resolve, 50));")

    def resize(self, width, height=900):
        """Gives the page another size, also one smaller than Chromium's windows."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests, since it starts slowly."""
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(chromium):
    """The page, just opened."""
    chromium.driver.get_log("browser")  # of an earlier test
    chromium.open()
    yield chromium
    errors = [entry["message"] for entry in chromium.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors


@pytest.fixture(scope="session")
def train():
    """./train as a function of its words: the text that it prints."""
    program = Path(os.environ.get("TRAIN", ROOT / "train")).resolve()

    def run(*words, cwd=None):
        return subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True, check=True, timeout=600).stdout
    return run
