"""Metrics beside each other: how far each index is from the mean of all, in the manner of the paper's Figure 3."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from benchmarks.analysis.equal import Matches, names_of
from benchmarks.analysis.select import describe, failures
from benchmarks.analysis.stations import Station
from benchmarks.errors import UserError
from benchmarks.figures.drawing import Drawing, all_rows, operating_columns, value_columns
from benchmarks.figures.theme import GREY, Style, failure_handles, sheet, styles, themed
from benchmarks.metrics.registry import Measured, Metric
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import CONFIDENCE

ROOM = 0.72  # of the way to the next metric that bars take


@dataclass(frozen=True)
class Deviation:
    """Of one metric: value of each index, their mean, and value / mean - 1 with its interval."""

    metric: Metric
    values: list[Measured]
    mean: float
    deviations: list[Measured]


def deviation_of(metric: Metric, points: Sequence[Station]) -> Deviation | None:
    """How far each index is from the mean over the indexes, relative to it (paper §4).

    Its interval is over queries that are the same for all indexes, so that it is one of the difference and not of
    the values. It is None for a metric that is no mean over queries. Where a point is interpolated it is wider by
    the error of that.

    Returns:
        None where a point has no value, or their mean is 0.
    """
    values = [point.combine(metric.compute) for point in points]
    if None in values or not any(value.value for value in values):
        return None
    centres = np.array([value.value for value in values])
    deviations = centres / centres.mean() - 1
    low, high = np.full((2, len(points)), np.nan)
    queries = [point.values(metric) for point in points]
    if all(each is not None for each in queries):
        low, high = _intervals(np.array(queries))
    for place, point in enumerate(points):
        error = point.error(metric.compute) / centres.mean()
        low[place], high[place] = low[place] - error, high[place] + error
    ends = [(None, None) if np.isnan(pair).any() else tuple(map(float, pair)) for pair in zip(low, high, strict=True)]
    return Deviation(
        metric,
        values,
        float(centres.mean()),
        [Measured(float(each), *pair, value.n) for each, pair, value in zip(deviations, ends, values, strict=True)],
    )


def _intervals(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each row's deviation from the mean of the rows, by the delta method for a ratio of means; (indexes) each.

    Args:
        values: (indexes, nq), of the same queries.
    """
    together = values.mean(axis=0)
    ratios = values.mean(axis=1) / together.mean()
    influence = (values - ratios[:, None] * together) / together.mean()
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * influence.std(axis=1) / np.sqrt(values.shape[1])
    return ratios - 1 - half, ratios - 1 + half


@themed
def draw_deviation(
    matches: Matches,
    metrics: Sequence[Metric],
    results: Sequence[Result],
    *,
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Drawing:
    """For each metric a bar for each index: its relative deviation from the mean of the indexes.

    Args:
        matches: the indexes at equal recall, from `match`; at least two.
        metrics: from left to right.
        results: all that were selected; the failed ones among them are named.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.

    Raises:
        UserError: a metric has no value at one of the points.
    """
    look = look or styles(result.identity.algorithm for result in results)
    points = matches.found
    found = []
    for metric in metrics:
        deviation = deviation_of(metric, points)
        if deviation is None:
            raise UserError(
                f"'{metric.name}' cannot be compared: one of the points has no value of it, or all are 0; it is: "
                f"{metric.definition.meaning}"
            )
        found.append(deviation)
    k = {point.result.identity.k for point in points}
    figure, (panel,) = sheet(
        f"{points[0].result.identity.dataset}: metrics compared at average recall {matches.recall:g}",
        describe([point.result for point in points]),
        alert=mixed,
        rows=1,
        columns=1,
        panel=(max(7.2, 1.8 * len(metrics)), 4.2),
        legend=[
            Patch(label=name, **_bar_look(look, point))
            for point, name in zip(points, names_of(points, results), strict=True)
        ],
        failed=failure_handles(failures(results), look),
        notes=[
            *matches.note(),
            "Beneath each metric, its mean over the indexes. Whiskers: 95 % intervals of the deviation, over the "
            "queries, which are the same for all indexes; none where a metric is no mean over queries.",
        ],
    )
    for place, deviation in enumerate(found):
        _draw_bars(panel, place, deviation, points, look)
    panel.axhline(0, color=GREY, linewidth=0.9)
    titles = [f"{each.metric.title(min(k) if len(k) == 1 else None)}\n{each.mean:.4f}" for each in found]
    panel.set_xticks(range(len(found)), titles)
    panel.set(xlim=(-0.5, len(found) - 0.5), ylabel="Deviation from the mean of the indexes [%]")
    panel.grid(False, axis="x")
    panel.tick_params(axis="x", length=0)
    rows = [
        {
            "metric": each.metric.name,
            **operating_columns(point),
            **value_columns("value", value),
            "mean": each.mean,
            **value_columns("deviation", deviation),
        }
        for each in found
        for point, value, deviation in zip(points, each.values, each.deviations, strict=True)
    ]
    return Drawing(figure, all_rows(rows, results))


def _draw_bars(
    panel: Axes, place: int, deviation: Deviation, points: Sequence[Station], look: dict[str, Style]
) -> None:
    """The bars of one metric, in per cent."""
    width = ROOM / len(points)
    for number, (point, value) in enumerate(zip(points, deviation.deviations, strict=True)):
        x = place + (number - (len(points) - 1) / 2) * width
        panel.bar(x, 100 * value.value, width * 0.94, **_bar_look(look, point))
        if value.low is not None:
            reach = [[max(0, 100 * (value.value - value.low))], [max(0, 100 * (value.high - value.value))]]
            panel.errorbar(x, 100 * value.value, yerr=reach, fmt="none", ecolor=GREY, elinewidth=0.9)


def _bar_look(look: dict[str, Style], point: Station) -> dict:
    """Of the algorithm, paler where interpolated."""
    return look[point.result.identity.algorithm].bar() | ({"alpha": 0.55} if point.interpolated else {})
