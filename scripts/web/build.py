#!/usr/bin/env python3
"""Writes the page: scripts/web/build.py PROGRAM PAGE, where Emscripten made PROGRAM and PROGRAM.wasm of ./train.

page.html names its parts as {{NAME}}: {{style.css}} and {{curves.js}} are files beside it, {{train-js}} and {{train-wasm}}
the program, and {{chart.js}} the library that draws, from Debian's libjs-chart.js. So the page is one file, which needs no
network and works from a disk.
"""
import base64
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHARTS = Path("/usr/share/javascript/chart.js/chart.min.js")
LARGEST = 1_600_000  # bytes


def part(name, program):
    """The text of a part of the page."""
    if name == "train-js":
        return program.read_text(encoding="utf-8")
    if name == "train-wasm":
        return base64.b64encode(program.with_suffix(".wasm").read_bytes()).decode()
    if name == "chart.js":
        return CHARTS.read_text(encoding="utf-8")
    return (HERE / name).read_text(encoding="utf-8")


def escaped(text):
    """Without what would end the element that it stands in."""
    return re.sub(r"</(script|style)", r"<\\/\1", text, flags=re.I)


def main():
    """Writes the page, or says why not."""
    if len(sys.argv) != 3:
        sys.exit(f"Usage: {sys.argv[0]} PROGRAM PAGE")
    program, page = map(Path, sys.argv[1:])
    if not CHARTS.exists():
        sys.exit(f"build.py: {CHARTS}: not found (scripts/deps.sh web)")
    text = re.sub(r"\{\{([\w.-]+)\}\}", lambda match: escaped(part(match[1], program)), part("page.html", program))
    size = len(text.encode())
    if size > LARGEST:
        sys.exit(f"build.py: the page has {size} bytes, more than {LARGEST} (a smaller program or library)")
    page.parent.mkdir(parents=True, exist_ok=True)
    new = page.with_suffix(".new")  # a browser that loads the page meanwhile has the old one
    new.write_text(text, encoding="utf-8")
    new.replace(page)
    print(f"{page}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
