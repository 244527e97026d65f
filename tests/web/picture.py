#!/usr/bin/env python3
"""Draws README's picture of the page, scripts/web/page.png: tests/web/picture.py, after `make web`."""
from conftest import ROOT, Browser

CURVES = "#experiment > div:not(.answers):not(.result)"


def main():
    """Trains the first experiment and takes its curves and its table."""
    browser = Browser()
    try:
        browser.resize(1080, 1600)
        browser.open()
        browser.result("return normlab.start('one-sequence')")
        browser.run("arguments[0].style.padding = '15px'", browser.driver.find_element("css selector", CURVES))
        browser.result("for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);")
        browser.driver.find_element("css selector", CURVES).screenshot(str(ROOT / "scripts" / "web" / "page.png"))
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
