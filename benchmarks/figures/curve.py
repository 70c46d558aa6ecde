"""Robustness against δ: the whole curve of one operating point of each algorithm, a panel for each K."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.analysis.equal import Matches, names_of
from benchmarks.analysis.select import describe, failures
from benchmarks.analysis.stations import Station
from benchmarks.figures.axes import set_share_axis
from benchmarks.figures.drawing import Drawing, all_rows, operating_columns, value_columns
from benchmarks.figures.theme import TEXT, Style, failure_handles, sheet, styles, themed
from benchmarks.metrics.registry import Measured
from benchmarks.results.store import Result
from benchmarks.statistics.bands import robustness_band

MARKERS = 10  # on a curve, about


def curve_of(point: Station) -> list[Measured]:
    """Robustness-(j/K)@K for j = 1 … K with a band that holds for all at once; their mean is the average recall."""
    steps = point.result.record.denominator
    ends = (*point.points, *point.others)
    bands = {each.path: robustness_band(each.hits, steps) for each in ends}

    def at(result: Result, j: int) -> Measured:
        band = bands[result.path]
        return Measured(float(band.value[j]), float(band.low[j]), float(band.high[j]), band.n)

    return [point.combine(lambda result, j=j: at(result, j)) for j in range(steps)]


@themed
def draw_curve(
    matches: Mapping[int, Matches],
    results: Sequence[Result],
    *,
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Drawing:
    """Robustness for every δ of one operating point of each algorithm.

    Args:
        matches: what is drawn for each K, a panel each, from `match`.
        results: all that were selected; the failed ones among them are named.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.
    """
    look = look or styles(result.identity.algorithm for result in results)
    drawn = {
        k: list(zip(each.found, _variants(each.found), names_of(each.found, results), strict=True))
        for k, each in matches.items()
    }
    points = [point.result for each in matches.values() for point in each.found]
    several = len(matches) > 1
    recall = next(iter(matches.values())).recall
    figure, axes = sheet(
        f"{points[0].identity.dataset}: robustness against δ at average recall {recall:g}",
        describe(points),
        alert=mixed,
        rows=1,
        columns=len(matches),
        panel=(5.6, 4.2) if several else (8.4, 4.6),
        legend=[
            Line2D([], [], label=f"{f'K={k}: ' if several else ''}{name}", **_look(look, point, variant))
            for k, each in drawn.items()
            for point, variant, name in each
        ],
        failed=failure_handles(failures(results), look),
        notes=[
            *_notes(matches),
            "The mean of a curve over δ = 1/K, 2/K, …, 1, which is the area under its steps down to 0, is "
            "its average recall. A band holds a whole curve at once, with 95 % confidence.",
        ],
    )
    rows = []
    for place, (axis, (k, each)) in enumerate(zip(axes, drawn.items(), strict=True)):
        curves = [curve_of(point) for point, _, _ in each]
        for curve, (point, variant, name) in zip(curves, each, strict=True):
            _draw(axis, curve, _look(look, point, variant), name, 0.07 if point.interpolated else 0.14)
            rows += [
                {**operating_columns(point), "delta": j / len(curve), **value_columns("robustness", measured)}
                for j, measured in enumerate(curve, 1)
            ]
        ends = [end for curve in curves for item in curve for end in (item.low, item.high)]
        set_share_axis(axis, "y", min(ends), max(ends))
        axis.set(xlim=(0, 1.01), xticks=[tick / 10 for tick in range(11)], xlabel="δ")
        axis.set_ylabel(f"Robustness-δ@{k}" + ("" if several else ": share of queries with recall ≥ δ"))
        if several:
            axis.set_title(f"({chr(ord('a') + place)}) K = {k}", loc="left", fontsize=TEXT)
    return Drawing(figure, all_rows(rows, results))


def _draw(axis: Axes, curve: Sequence[Measured], style: dict, name: str, alpha: float) -> None:
    """One curve with its band; for δ up to 1/K it is level."""
    denominator = len(curve)
    deltas = [j / denominator for j in range(denominator + 1)]
    steps = [curve[0], *curve]
    values, low, high = ([getattr(item, end) for item in steps] for end in ("value", "low", "high"))
    axis.fill_between(deltas, low, high, step="pre", color=style["color"], alpha=alpha, linewidth=0)
    every = max(1, denominator // MARKERS)
    axis.step(deltas, values, where="pre", markevery=(every, every), label=name, clip_on=False, zorder=3, **style)


def _look(look: dict[str, Style], point: Station, variant: int) -> dict:
    """Of the algorithm; open markers for what is interpolated."""
    style = look[point.result.identity.algorithm]
    return style.line(variant) | {"markerfacecolor": "white" if point.interpolated else style.colour}


def _notes(matches: Mapping[int, Matches]) -> list[str]:
    """Those of each K, once where they are the same."""
    if len(matches) == 1:
        return next(iter(matches.values())).note()
    return list(
        dict.fromkeys(
            line if "Not shown" not in line else f"K = {k}: {line}"
            for k, each in matches.items()
            for line in each.note()
        )
    )


def _variants(points: Sequence[Station]) -> list[int]:
    """Number of each point among those of its algorithm; above 0 only where unlike results are mixed."""
    seen: dict[str, int] = {}
    numbers = []
    for point in points:
        name = point.result.identity.algorithm
        numbers.append(seen.get(name, 0))
        seen[name] = numbers[-1] + 1
    return numbers
