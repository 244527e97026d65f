"""Figures of matplotlib, in a window or not, and their files."""
import os

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from runs import RunError


def new_figure(show):
    if not show:
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        return figure
    try:
        from matplotlib import pyplot, rcsetup
        figure = pyplot.figure(layout="constrained")
    except ImportError as error:
        raise RunError(f"--show: no window: {error} (-o writes a file)")
    if pyplot.get_backend().lower() not in [name.lower() for name in rcsetup.interactive_bk]:
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        why = "matplotlib has no toolkit (python3-tk is one)" if display else "there is no display"
        raise RunError(f"--show: no window: {why} (-o writes a file)")
    return figure


def write_picture(figure, output, dpi):
    """Writes the picture. A viewer sees the old file or the new one."""
    ending = os.path.splitext(output)[1][1:].lower()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    temporary = f"{output}.tmp"
    try:
        figure.savefig(temporary, dpi=dpi, format=ending, metadata=metadata)
        os.replace(temporary, output)
    except OSError as error:
        raise RunError(f"{output}: {error.strerror}")
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
