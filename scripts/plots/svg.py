"""The templates of HTML pages, and figures of matplotlib as small SVG elements of a page. Coordinates are rounded to
tenths of a point, there is one short list of fonts, and needless groups are removed. Neighbours that look the same are
joined, and shared attributes are written once.
"""
import io
import itertools
import os
import re
from xml.etree import ElementTree

from common.command_line import legible

HERE = os.path.dirname(os.path.abspath(__file__))
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
GROUP, DEFS, PATH, USE = (SVG + tag for tag in ("g", "defs", "path", "use"))
NUMBER, REFERENCE = re.compile(r"-?\d+\.\d+"), re.compile(r'(?<=href="#)[^"]*|(?<=url\(#)[^)]*')
CIRCLE = re.compile(r"M0 ([\d.]+)(C[^CLz]*){8}z$")
FONT = re.compile(r"font: ([\d.]+)px 'DejaVu Sans',[^;]*")
VERTEX = re.compile(r"([ML ]?)(-?[\d.]+) (-?[\d.]+)")
POLYGONS = re.compile(r"[-\d. ML]*")  # paths without curves, open ones
ROW_OF_MARKS = 5  # from which on a path is shorter
# What matplotlib writes as CSS of every element, and as a list of fonts in every text.
INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt", "font-family": "'DejaVu Sans', sans-serif"}


def rounded(text, digits):
    return NUMBER.sub(lambda found: f"{round(float(found.group()), digits) + 0:.{digits}f}".rstrip("0").rstrip("."), text)


def straight(path):
    """A path of M, L and vertices alone, with H and V along the axes: its vertices stay, and so do marks at them."""
    short, last, command = [], (None, None), ""
    for move, x, y in VERTEX.findall(path):
        way = "M" if move == "M" else "H" if y == last[1] else "V" if x == last[0] else "L"
        places = {"H": x, "V": y}.get(way, f"{x} {y}")
        short.append((way if way == "M" or way != command else " ") + places)
        last, command = (x, y), way
    return "".join(short)


def shorten(element, digits=1):
    """The attributes of an element and of those below it, without white space between elements. Marks are small and drawn
    often: they keep hundredths."""
    digits = 2 if element.tag == DEFS else digits
    element.text, element.tail = element.text if (element.text or "").strip() else None, None
    for key, value in element.attrib.items():
        if key == "d":
            value = re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(value.split()))
        if key == "style":
            value = FONT.sub(r"font-size: \1px", value).replace(": ", ":").replace("; ", ";")
        elif key != "id":
            value = rounded(value, digits)
        element.set(key, value)
    radius = CIRCLE.match(element.get("d", ""))
    if radius:
        del element.attrib["d"]
        element.tag, element.attrib = SVG + "circle", {**element.attrib, "r": radius.group(1)}
    if LINK in element.attrib:
        element.attrib = {"href": element.attrib.pop(LINK), **element.attrib}
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for child in element:
        shorten(child, digits)


def leaves(group, defs):
    """The elements of a group that are drawn, without the groups between. Of an axis: the grid, the ticks, the labels."""
    found = []
    for child in group:
        below = child
        if child.tag == DEFS:
            defs.extend(child)
        elif child.tag == GROUP:
            below = leaves(child, defs)
            if child.get("id", "").startswith("matplotlib.axis"):
                below.sort(key=lambda leaf: (leaf.tag != PATH, leaf.tag != USE))
            moved = "clip-path" in child.attrib and any("transform" in leaf.attrib for leaf in below)  # the clip would move too
            if set(child.attrib) <= {"id", "clip-path"} and not moved:
                for leaf in below:
                    leaf.attrib.update({key: value for key, value in child.attrib.items() if key != "id"})
                found += below
            else:
                child[:] = below
                found.append(child)
        elif child.tag != PATH or child.get("d"):
            found.append(child)
    return found


def looks(leaf):
    """All but the place of a leaf."""
    return leaf.tag, {key: value for key, value in leaf.attrib.items() if key not in ("d", "x", "y", "id")}


def joined(found, marks):
    """Lines that look the same become one path, and a row of equal marks a path with a marker at each vertex."""
    drawn = []
    for (tag, look), run in itertools.groupby(found, looks):
        run = list(run)
        if tag == USE and len(run) >= ROW_OF_MARKS and "style" not in look:
            mark = look.pop("href")
            marks[mark[1:]] = True
            points = " ".join(f"{use.get('x')} {use.get('y')}" for use in run)
            run = [ElementTree.Element(PATH, d=f"M{points}", style=f"fill:none;marker:url({mark}m)", **look)]
        elif tag == PATH and "fill:none" in look.get("style", "") and "opacity" not in look["style"]:
            run = [ElementTree.Element(PATH, d="".join(path.get("d") for path in run), **look)]
        drawn += run
    return drawn


def grouped(found, key):
    """Neighbours with the same attribute become a group that has it. So does a mark alone with its clip, which its x and y would
    move."""
    drawn = []
    for value, run in itertools.groupby(found, lambda leaf: leaf.get(key)):
        run = list(run)
        moving = key == "clip-path" and run[0].tag == USE
        if value and (len(run) > 1 or moving) and "opacity" not in value:
            group = ElementTree.Element(GROUP, {key: value})
            group.extend(run)
            for leaf in run:
                del leaf.attrib[key]
            run = [group]
        drawn += run
    return drawn


def lighter(svg, name):
    """A picture as matplotlib writes it, as a small element. Ids start with the name."""
    root, defs, rows = ElementTree.fromstring(svg), [], {}
    for child in (*root.findall(SVG + "metadata"), *root.findall(f"{DEFS}[{SVG}style]")):
        root.remove(child)
    shorten(root)
    found, uses = leaves(root, defs), {}
    for use in root.iter(USE):
        uses.setdefault(use.get("href")[1:], []).append(use)
    for mark in defs:
        of_mark = uses.get(mark.get("id"), ())
        if len({use.get("style") for use in of_mark}) == 1:
            for use in of_mark:
                mark.attrib.update({"style": use.attrib.pop("style")} if "style" in use.attrib else {})
    drawn = grouped(joined(found, rows), "clip-path")
    root[:] = [ElementTree.Element(DEFS), *grouped(drawn, "style")]
    for mark in defs:
        if mark.get("id") in rows:
            marker = ElementTree.SubElement(root[0], SVG + "marker", id=mark.get("id") + "m", overflow="visible")
            marker.append(mark)
        else:
            root[0].append(mark)
    root.attrib.update(INHERITED)
    ElementTree.register_namespace("", SVG[1:-1])
    for path in root.iter(PATH):
        if POLYGONS.fullmatch(path.get("d")):
            path.set("d", straight(path.get("d")))
    text = ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")
    names = {old: f"{name}-{place}" for place, old in enumerate(dict.fromkeys(REFERENCE.findall(text)))}
    text = REFERENCE.sub(lambda found: names[found.group()], text)
    return re.sub(r' id="([^"]*)"', lambda found: f' id="{names[found[1]]}"' if found[1] in names else "", text)


def compact(figure, name, **options):
    """The figure as an element of a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, **options)
    return lighter(text.getvalue(), name)


def shown(value):
    """A value for a page. Texts of runs and models may have characters that no page can hold."""
    return legible(value, keep="\n\t") if type(value) is str else value  # and not the SVG of a picture


def template(folder=HERE, **functions):
    """page.html of a folder, which may call these functions and include files of this module's folder."""
    import jinja2  # which pictures do not need
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader([folder, HERE]), autoescape=True, finalize=shown,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(functions)
    return environment.get_template("page.html")
