"""What pages and pictures must be: well formed, whole, and with texts that fit."""
import html.parser
import itertools
import json
import re
import warnings


class Page(html.parser.HTMLParser):
    """A page that is well formed, whose links resolve, and that loads nothing: its ids, addresses and curves."""
    EMPTY = {"meta", "link", "br", "hr", "img", "input"}
    UNCLOSED = {"td", "th", "tr"}  # what the next one or the table's end closes

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.curves = [], [], [], []
        self.feed(text)
        assert not self.open and "@import" not in text
        assert len(set(self.ids)) == len(self.ids), "an id is given twice"
        assert not [address for address in self.addresses
                    if not address.startswith("data:") and (address[:1] != "#" or address[1:] not in self.ids)]

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in self.EMPTY else []
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        for name, text in attrs:
            self.ids += [text] if name == "id" else []
            self.curves += [json.loads(text)] if name == "data-curves" else []
            self.addresses += [text] if name in ("href", "xlink:href", "src", "data", "action") else []
            self.addresses += re.findall(r"url\((.*?)\)", text or "")

    def handle_endtag(self, tag):
        while self.open[-1] != tag and self.open[-1] in self.UNCLOSED:
            self.open.pop()
        assert self.open.pop() == tag, f"</{tag}> closes nothing"


# ---- pictures ----

def texts_of(figure):
    """The texts that are drawn: ticks, labels, titles, notes and the legend."""
    found = [text for legend in figure.legends for text in (legend.get_title(), *legend.get_texts())]
    for axes in filter(lambda axes: axes.get_visible(), figure.axes):
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label, axes.xaxis.get_offset_text(), axes.yaxis.get_offset_text()]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text().strip() and text.get_visible()]


def expect_fit(draw):
    """Draws a figure: without a warning, and no text is cut or covers another one by more than a point. Returns it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw()
        figure.canvas.draw()
    point = figure.dpi / 72
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    assert len(boxes) > 3
    for text, box in boxes:
        assert box.x0 >= -point and box.y0 >= -point and box.x1 <= figure.bbox.x1 + point and box.y1 <= figure.bbox.y1 + point, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert min(a.x1, b.x1) - max(a.x0, b.x0) < point or min(a.y1, b.y1) - max(a.y0, b.y0) < point, (one, other)
    return figure
