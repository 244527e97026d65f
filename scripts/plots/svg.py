"""Makes a picture of matplotlib a small SVG element of an HTML page: coordinates are rounded to tenths of a point, the
list of fonts is short, needless groups are removed, and a style that all marks of a series share is written once.
"""
import io
import itertools
import re
from xml.etree import ElementTree

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
NUMBER, REFERENCE = re.compile(r"-?\d+\.\d+"), re.compile(r"url\(#([^)]*)\)")
CIRCLE = re.compile(r"M0 ([\d.]+)(C[^CLz]*){8}z$")
FONT = re.compile(r"font: ([\d.]+)px 'DejaVu Sans',[^;]*")
ROW_OF_MARKS = 5  # from which on a path is shorter
# What matplotlib writes as CSS of every element, and as a list of fonts in every text.
INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt", "font-family": "'DejaVu Sans', sans-serif"}


def rounded(text, digits):
    return NUMBER.sub(lambda found: f"{round(float(found.group()), digits) + 0:.{digits}f}".rstrip("0").rstrip("."), text)


def shorten(element, names, digits=1):
    """The attributes of an element and of those below it. Marks are small and drawn often: they keep hundredths."""
    digits = 2 if element.tag == SVG + "defs" else digits
    own = names.get(element.attrib.pop("id", None))
    for key, value in element.attrib.items():
        if key == "d":
            value = re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(value.split()))
        if key == "style":
            value = FONT.sub(r"font-size: \1px", value).replace(": ", ":").replace("; ", ";")
        else:
            value = rounded(value, digits)
        element.set(key, REFERENCE.sub(lambda found: f"url(#{names[found.group(1)]})", value))
    radius = CIRCLE.match(element.get("d", ""))
    if radius:
        element.tag, element.attrib = SVG + "circle", {"r": radius.group(1), "style": element.get("style", "")}
    if own:
        element.set("id", own)
    if LINK in element.attrib:
        link = element.attrib.pop(LINK)  # of a mark, or an image's own bytes
        element.attrib = {"href": "#" + names[link[1:]] if link[0] == "#" else link, **element.attrib}
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for child in element:
        shorten(child, names, digits)


def join_marks(root):
    """A row of equal marks becomes a path that has the mark at each of its vertices."""
    joined = ElementTree.Element(SVG + "defs")
    for parent in list(root.iter()):
        children = []
        for href, group in itertools.groupby(parent, lambda child: "style" not in child.attrib and child.get("href")):
            group = list(group)
            if href and len(group) >= ROW_OF_MARKS:
                points = " ".join(f"{use.get('x')} {use.get('y')}" for use in group)
                group = [ElementTree.Element(SVG + "path", d=f"M{points}", style=f"fill:none;marker:url({href}m)")]
                if not any(marker.get("id") == href[1:] + "m" for marker in joined):
                    marker = ElementTree.SubElement(joined, SVG + "marker", id=href[1:] + "m", overflow="visible",
                                                    markerUnits="userSpaceOnUse")
                    ElementTree.SubElement(marker, SVG + "use", href=href)
            children += group
        parent[:] = children
    root.insert(0, joined)


def merge(element):
    """Drops groups that say nothing, joins neighbours that say the same, and moves a style of all children up."""
    children = []
    for child in element:
        merge(child)
        group = child.tag == SVG + "g"
        if group and not child.attrib:
            children += child
        elif group and children and children[-1].tag == child.tag and children[-1].attrib == child.attrib \
                and not child.get("style"):
            children[-1].extend(child)
        elif len(child) or child.text and child.text.strip() or child.tag not in (SVG + "g", SVG + "defs", SVG + "style"):
            children.append(child)
    element[:] = children
    styles = {child.get("style") for child in element}
    if element.tag == SVG + "g" and len(element) > 1 and len(styles) == 1 and None not in styles and \
            "style" not in element.attrib and not re.search(r"(^|;)opacity", *styles):
        element.set("style", styles.pop())
        for child in element:
            del child.attrib["style"]


def compact(figure, name, **options):
    """The figure as an element. Ids start with the name; those that nothing refers to go."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, **options)
    svg = text.getvalue()
    root = ElementTree.fromstring(svg)
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]*)', svg))
    shorten(root, {old: f"{name}-{place}" for place, old in enumerate(used)})
    for element in root.iter():
        element.tail = None
        element.text = element.text if element.text and element.text.strip() else None
    for child in list(root):
        if child.tag == SVG + "metadata" or child.tag == SVG + "defs" and child.find(SVG + "style") is not None:
            root.remove(child)
    marks = {"#" + mark.get("id"): mark for mark in root.iter() if mark.get("id")}
    styles = {}
    for use in root.iter(SVG + "use"):
        styles.setdefault(use.get("href"), set()).add(use.get("style"))
    for use in root.iter(SVG + "use"):
        if len(styles[use.get("href")]) == 1 and use.get("style"):
            marks[use.get("href")].set("style", use.attrib.pop("style"))
    join_marks(root)
    merge(root)
    root.attrib.update(INHERITED)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")
