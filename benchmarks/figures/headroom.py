"""Robustness against speed: each build as it was measured, and were the effort chosen perfectly for every query."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.analysis.headroom import Headroom
from benchmarks.analysis.select import describe
from benchmarks.figures.theme import GREY, sheet, styles, themed


@themed
def draw_headroom(found: Sequence[Headroom]) -> Figure:
    """One panel: solid lines through the points measured, dashed ones of the perfect choice.

    Args:
        found: of one δ and one data set.
    """
    results = [point for each in found for point in each.series.points]
    look, delta = styles(each.series.algorithm for each in found), f"{float(found[0].delta):g}"
    seen, variants = {}, []
    for each in found:
        variants.append(seen.get(each.series.algorithm, 0))
        seen[each.series.algorithm] = variants[-1] + 1
    handles = [
        Line2D([], [], label=each.series.name(), **{**look[each.series.algorithm].line(variant), "linestyle": "-"})
        for each, variant in zip(found, variants, strict=True)
    ]
    figure, (panel,) = sheet(
        f"{results[0].identity.dataset}: what adaptive search could gain at δ = {delta}",
        describe(results),
        rows=1,
        columns=1,
        panel=(8.4, 4.8),
        legend=[*handles, Line2D([], [], color=GREY, linestyle="--", label="effort chosen perfectly for each query")],
        notes=[
            "Dashed: every query costs the cheapest measured setting of its build that finds δ of its neighbours, and "
            "the cheapest of all where none does. It cannot be known beforehand: a bound, not a method.",
        ],
    )
    lowest = 1.0
    for each, variant in zip(found, variants, strict=True):
        style = {**look[each.series.algorithm].line(variant), "linestyle": "-"}
        panel.plot([step.robustness for step in each.steps], [step.qps for step in each.steps], **style, zorder=3)
        panel.plot(each.robustness, each.qps, color=style["color"], linestyle="--", zorder=2)
        lowest = min(lowest, *(step.robustness for step in each.steps))
    panel.set_xlim(max(0.0, lowest - 0.03 * (1 - lowest) - 0.002), 1.002)
    panel.set_yscale("log")
    panel.set(xlabel=f"Robustness-{delta}@{results[0].identity.k}", ylabel="QPS [1/s]")
    return figure
