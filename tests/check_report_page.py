"""What check_report.py checks of a report's page."""
import html.parser
import re

from claims import claims


class Page(html.parser.HTMLParser):
    """The elements, ids and addresses of a page."""
    EMPTY = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses, self.faults = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.note(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.note(tag, attrs)

    def note(self, tag, attrs):
        for name, text in attrs:
            if name == "id":
                self.ids.append(text)
            if name in ("href", "xlink:href", "src", "data", "action"):
                self.addresses.append(text)
            self.addresses += re.findall(r"url\((.*?)\)", text or "")
        if tag in ("script", "iframe", "object", "link"):
            self.faults.append(f"<{tag}>")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")


def link_faults(text):
    """A claim's line leads to a figure or to numbers, and a figure back to the lines that lead to it."""
    figures = {name: set(re.findall(r'href="#a-(\w+)"', rest)) for name, rest in
               re.findall(r'<figure id="f-([\w.]+)">.*?<figcaption>(.*?)</figcaption>', text, re.DOTALL)}
    lines = re.findall(r'<div class="row" id="a-(\w+)">(.*?)\n(?=<div class="row"|</section>)', text, re.DOTALL)
    found = [] if figures and lines else ["no figure, or no line of a claim"]
    for claim, line in lines:
        led = re.findall(r'href="#f-([\w.]+)"', line)
        found += [f"figure {name} does not lead back to {claim}" for name in led
                  if claim not in figures.get(name, ())]
        if claims.find(claim).experiments() and not led and 'href="#e-' not in line:
            found.append(f"the line of {claim} leads nowhere")
    return found


def faults(path):
    """What is wrong with a report's page: it must be well formed, every link must resolve, and nothing is
    loaded from elsewhere."""
    page, found = Page(), []
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page.feed(text)
    if page.faults or page.open:
        found.append(f"{page.faults[:3]} {page.open[:3]}")
    ids = set(page.ids)
    if len(ids) < len(page.ids):
        found.append("an id is there twice")
    found += [f"links to {address}" for address in page.addresses
              if not address.startswith("#") or address[1:] not in ids]
    if "@import" in text or len(text) >= 5e6:
        found.append(f"imports something, or is large: {len(text)}")
    found += [f"has no claim {claim.id}" for claim in claims.CLAIMS if f'id="c-{claim.id}"' not in text]
    return [f"{path}: {fault}" for fault in found + link_faults(text)]
