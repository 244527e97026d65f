#!/usr/bin/env python3
"""Finds broken links and tables of documents, and ten phrases that make a reader stop. `make lint` runs it.

Phrases are searched in documents, help texts, messages, comments and the report's page, across line breaks. Run it at the
top of the project.
"""
import re
import subprocess
import sys
from pathlib import Path

INSTEAD = {  # a phrase, as a regular expression: what to write instead
    "anew": "again",
    "likewise": "name what is meant",
    "cannot be told(?: from| apart)": "no measurable difference",
    "the whole of": "all of",
    "from nothing": "from scratch",
    "in turns": "alternately",
    "goes? without it": "cannot be combined with it",
    "less (?:that|the|its)": "minus, or: lower than",
    "taken away|took away": "removed, or replaced by the default",
    "loses? least": "say by how much, and compared with what",
}
EXEMPT = "tests/scripts/test_upkeep.py", __file__.split("/")[-1]  # have such phrases themselves
GAP = r'''(?:\s|"\s*"|\n\s*(?://|#|\*))+'''    # between two words: also the end of a line of a comment or string


def phrases():
    for words, instead in INSTEAD.items():
        yield re.compile(r"\b(?:" + words.replace(" ", GAP) + r")\b", re.I), instead


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)", path.read_text(), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(path, text):
    text = re.sub(r"^```.*?^```", lambda code: re.sub(r"[^\n]", "", code.group()), text, flags=re.M | re.S)
    for match in re.finditer(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        target = path.parent / match[1] if match[1] else path
        if ":" in match[1]:
            continue
        if not target.exists() or match[2] and match[2][1:] not in anchors(target):
            yield match.start(), f"no such file or heading: {match[1]}{match[2] or ''}"


def errors(path, text):
    for phrase, instead in phrases():
        for match in phrase.finditer(text):
            yield match.start(), f'"{" ".join(match.group().split())}" (write: {instead})'
    if path.suffix == ".md":
        yield from broken_links(path, text)
        for match in re.finditer(r"(?<=\n\n)\|.*\n(?!\|[-:|]+\|\n)", text):
            yield match.start(), "a row without the head of its table"


def main():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md", "*.c", "*.h", "*.py", "*.sh", "*.slurm",
                            "*/page.html", "Makefile"],
                           capture_output=True, text=True, check=True).stdout.split()
    found = 0
    for path in filter(Path.exists, map(Path, names)):
        if not str(path).endswith(EXEMPT):
            text = path.read_text()
            for at, what in sorted(errors(path, text)):
                print(f"{path}:{text.count(chr(10), 0, at) + 1}: {what}", file=sys.stderr)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
