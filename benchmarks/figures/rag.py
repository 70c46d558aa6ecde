"""What indexes cost an application: accuracy against recall and against robustness, in the manner of Figure 12."""

from collections.abc import Sequence

import numpy as np

from benchmarks.figures.axes import set_share_axis
from benchmarks.figures.drawing import Drawing
from benchmarks.figures.panels import Panel, Point
from benchmarks.figures.theme import GREY, SMALL, Style
from benchmarks.figures.tradeoff import draw_tradeoff
from benchmarks.rag.study import accuracy_of
from benchmarks.rag.table import CONTROLS, EXACT, Verdicts


def draw_answers(
    points: Sequence[Point],
    panels: Sequence[Panel],
    verdicts: Verdicts,
    *,
    title: str,
    scale: str = "linear",
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Drawing:
    """A trade-off of accuracy, with the accuracy of the exact neighbours as a line; all controls are in the notes.

    Args:
        points, panels, title, scale, mixed, look: of `draw_tradeoff`.
        verdicts: with those of the controls.
    """
    known = verdicts.complete(list(verdicts.of))  # the questions that the points are drawn by
    controls = {name: accuracy_of(verdicts.of[name][known]) for name in CONTROLS if name in verdicts.of}
    said = ", ".join(f"{name} {each.value:.4f} [{each.low:.4f}, {each.high:.4f}]" for name, each in controls.items())
    asked = max(point.values[panels[0].ys[0].name].n for point in points if point.values[panels[0].ys[0].name])
    notes = [f"Accuracy over {asked:,} questions" + (f"; with controls as documents: {said}." if said else ".")]
    judged = int((~np.isnan(list(verdicts.of.values()))).any(axis=0).sum())
    if judged > known.sum():
        notes.append(
            f"{judged - known.sum():,} more questions have verdicts, but not of every point: they are left out."
        )
    drawing = draw_tradeoff(points, panels, title=title, scale=scale, mixed=mixed, look=look, notes=notes)
    exact = controls.get(EXACT)
    for axis in drawing.figure.axes:
        axis.set_ylabel(panels[0].ys[0].title())  # without K: it is of the application
        if exact is None:
            continue
        low, high = axis.get_ylim()
        set_share_axis(axis, "y", min(low, exact.value), max(high, exact.value))
        axis.axhline(exact.value, color=GREY, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1)
        axis.annotate(
            "exact neighbours",
            (0.02, exact.value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2.5),
            textcoords="offset points",
            fontsize=SMALL,
            color=GREY,
        )
    rows = [
        {"line": f"{name} documents", "y_metric": panels[0].ys[0].name, "queries": each.n, "y": each.value}
        | {"y_low": each.low, "y_high": each.high, "status": "control"}
        for name, each in controls.items()
    ]
    return Drawing(drawing.figure, drawing.rows + rows)
