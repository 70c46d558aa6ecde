"""How every figure looks: colours, markers, dashes, a sheet with room for its words, and saving."""

import io
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

from benchmarks.files import write_whole

# Okabe and Ito (2008), told apart with any colour vision; without its yellow, too pale for a line.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")  # ten and seven have no common divisor: 70 pairs
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 3)), (0, (8, 2, 2, 2, 2, 2)))
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")  # eight: with seven colours, 56 pairs
MISSED = (0, (3.5, 1.8))  # dash of a threshold that is not met
TIER_STEP = 2  # markers between two builds of one algorithm; even, since 7 places on the colour comes again
ALERT, GREY, LIGHT = "#C00000", "#555555", "#DDDDDD"
FORMATS = ("png", "svg", "pdf")
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
TITLE, TEXT, SMALL = 13, 10, 8.5

RC = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that figures are the same everywhere
    "text.parse_math": False,  # a $ in a name is a $
    "font.size": TEXT,
    "axes.labelsize": TEXT + 0.5,
    "xtick.labelsize": TEXT - 0.5,
    "ytick.labelsize": TEXT - 0.5,
    "legend.fontsize": TEXT,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "axes.grid": True,
    "grid.color": LIGHT,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "lines.linewidth": 1.7,
    "lines.markersize": 6.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "robust-ann-benchmarks",
    "pdf.fonttype": 42,  # the same bytes each time; text to edit
}
themed = matplotlib.rc_context(RC)  # decorates what draws or saves


@dataclass(frozen=True)
class Style:
    """Colour, marker and place of one algorithm."""

    colour: str
    marker: str
    place: int

    def line(self, variant: int = 0) -> dict:
        """Line2D keywords of the algorithm's build number `variant`: its own dash, filled or open."""
        face = self.colour if variant % 2 == 0 else "white"
        dash = DASHES[(self.place + variant) % len(DASHES)]
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": dash,
            "markerfacecolor": face,
            "markeredgecolor": self.colour,
            "markeredgewidth": 1.2,
        }

    def bar(self) -> dict:
        """Patch keywords: colour, and a hatch that tells bars apart in grey."""
        hatch = HATCHES[self.place % len(HATCHES)]
        return {"facecolor": self.colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}

    def tier(self, variant: int, met: bool) -> dict:
        """Line2D keywords where the dash tells a threshold: solid and filled if met, else dashed and open.

        Builds of one algorithm then differ in their marker.
        """
        marker = MARKERS[(MARKERS.index(self.marker) + TIER_STEP * variant) % len(MARKERS)]
        face = self.colour if met else "white"
        return self.line() | {"marker": marker, "linestyle": "-" if met else MISSED, "markerfacecolor": face}


def styles(algorithms: Iterable[str]) -> dict[str, Style]:
    """A style for each name, given out in sorted order: the same algorithms look the same in every figure."""
    return {
        name: Style(PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)], place)
        for place, name in enumerate(sorted(set(algorithms)))
    }


def failure_handles(lines: dict[str, str], look: dict[str, Style]) -> list[Line2D]:
    """Legend entries that name each algorithm's failed points."""
    drawn = {"marker": "x", "linestyle": "none", "markeredgewidth": 2}
    return [Line2D([], [], color=look[name].colour, label=text, **drawn) for name, text in lines.items()]


@themed
def sheet(
    title: str,
    subtitle: str,
    *,
    rows: int,
    columns: int,
    panel: tuple[float, float],
    legend: Sequence[Artist],
    failed: Sequence[Artist] = (),
    notes: Sequence[str] = (),
    alert: str | None = None,
    used: int | None = None,
    **subplots,
) -> tuple[Figure, list[Axes]]:
    """A figure with a head above the panels, and the legend and notes below, where they hide nothing.

    Args:
        title: bold first line.
        subtitle: what the data are.
        rows: of panels.
        columns: of panels.
        panel: width and height of one in inches, labels included.
        legend: labelled handles, in as many columns as fit.
        failed: labelled handles of what failed, one a line.
        notes: how to read the figure, small.
        alert: a warning that belongs to the figure, in red under the subtitle.
        used: number of panels needed, where fewer than rows × columns.
        **subplots: for `Figure.subplots`.

    Returns:
        the figure and its panels in reading order.
    """
    width, margin = columns * panel[0], 0.12
    figure = Figure(figsize=(width, 1))
    room = width - 2 * margin
    head = (
        _wrapped([title], room, TITLE, "bold"),
        _wrapped([subtitle], room, TEXT),
        _wrapped([alert], room, TEXT, "bold"),
    )
    lines = [text.count("\n") + 1 if text else 0 for text in head]
    top = 0.1 + 0.26 * lines[0] + 0.2 * (lines[1] + lines[2]) + 0.06

    bottom = 0.08
    if notes:
        text = _wrapped(notes, room, SMALL)
        figure.text(
            margin,
            bottom,
            text,
            transform=figure.dpi_scale_trans,
            fontsize=SMALL,
            color=GREY,
            va="bottom",
            linespacing=1.25,
        )
        bottom += 0.155 * (text.count("\n") + 1) + 0.08
    for handles, most in ((failed, 1), (legend, 4)):
        if handles:
            bottom += _place_legend(figure, handles, (margin, bottom), room, most) + 0.1

    height = bottom + rows * panel[1] + top
    figure.set_size_inches(width, height)
    y = height - 0.1
    looks = {"fontsize": TITLE, "fontweight": "bold"}, {"color": GREY}, {"color": ALERT, "fontweight": "bold"}
    for text, count, step, look in zip(head, lines, (0.26, 0.2, 0.2), looks, strict=True):
        if text:
            figure.text(margin, y, text, transform=figure.dpi_scale_trans, va="top", linespacing=1.15, **look)
            y -= step * count
    figure.set_layout_engine(
        ConstrainedLayoutEngine(
            rect=(0, bottom / height, 1, 1 - (bottom + top) / height), w_pad=0.1, h_pad=0.08, wspace=0.04, hspace=0.04
        )
    )
    axes = list(figure.subplots(rows, columns, squeeze=False, **subplots).flat)
    for spare in axes[used or len(axes) :]:
        spare.remove()
    return figure, axes[:used]


def _place_legend(
    figure: Figure, handles: Sequence[Artist], corner: tuple[float, float], room: float, most: int
) -> float:
    """Put the legend's lower left corner there, in as many columns as fit the room; its height in inches."""
    for handle in handles:
        handle.set_label(_wrapped([handle.get_label()], room - 0.5, TEXT))
    for columns in range(min(most, len(handles)), 0, -1):
        legend = figure.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=corner,
            ncols=columns,
            bbox_transform=figure.dpi_scale_trans,
            columnspacing=1.6,
            handlelength=4.5,
        )
        box = legend.get_window_extent()
        if box.width / figure.dpi <= room or columns == 1:
            return box.height / figure.dpi
        legend.remove()
    raise AssertionError("a legend of one column always returns")


def _wrapped(lines: Iterable[str | None], inches: float, size: float, weight: str = "normal") -> str:
    """Lines broken where they are too wide."""
    font = FontProperties(family=RC["font.family"], weight=weight)
    broken = []
    for line in filter(None, lines):
        width = _width([line], size, font)
        if width > inches:
            fits = int(0.97 * len(line) * inches / width)  # characters, were all of average width
            while fits > 20 and _width(textwrap.wrap(line, fits, break_on_hyphens=False), size, font) > inches:
                fits -= 2
            line = textwrap.fill(line, max(20, fits), break_on_hyphens=False)
        broken.append(line)
    return "\n".join(broken)


def _width(lines: Iterable[str], size: float, font: FontProperties) -> float:
    """Of the widest line, in inches."""
    return max(TextPath((0, 0), line, size=size, prop=font).vertices[:, 0].max(initial=0) for line in lines) / 72


@themed
def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write the figure to each path, in the format of its suffix; the same figure gives the same bytes.

    Raises:
        OSError: it cannot be written there.
    """
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = path.suffix.lstrip(".").lower()
        content = io.BytesIO()
        figure.savefig(content, format=kind, metadata=_METADATA[kind])
        write_whole(path, content.getvalue())
