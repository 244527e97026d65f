"""The templates of HTML pages, and figures of matplotlib as SVG elements of a page."""
import io
import os
import re

import matplotlib

from common.command_line import legible

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBER, REFERENCE = re.compile(r"-?\d+\.\d{3,}"), re.compile(r'href="#([^"]*)|url\(#([^)]*)')
# What a page does not need, and the rule for all elements of the page, which the picture inherits instead.
NEEDLESS = re.compile(r'<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>|\n\s*(?=<)|'
                      r' transform="rotate\(-0 [^"]*"', re.DOTALL)
INHERITED = 'stroke-linejoin="round" stroke-linecap="butt"'


def compact(figure, name, **options):
    """The figure as an element of a page, with ids that no picture of another name has."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "font.sans-serif": ["DejaVu Sans"]}):
        figure.savefig(text, format="svg", metadata={"Date": None}, **options)
    svg = NEEDLESS.sub("", text.getvalue().partition("<svg ")[2])
    names = {name for found in REFERENCE.findall(svg) for name in found}
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in names else "", svg)

    def rounded(tag):
        return NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag[0])

    return re.sub("<[^>]*>", rounded, f"<svg {INHERITED} {svg}")


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
