"""One metric against another: operating points, joined per build, in any number of panels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.analysis.select import describe, failures, listed, varying
from benchmarks.errors import UserError
from benchmarks.figures.axes import set_axis
from benchmarks.figures.drawing import Drawing, all_rows, identity_columns, value_columns
from benchmarks.figures.names import name_points
from benchmarks.figures.panels import (
    Floor,
    Line,
    Panel,
    Point,
    lines_of,
    metrics_of,
    shows_speed,
    split_at_front,
    split_by_sweep,
)
from benchmarks.figures.theme import GREY, TEXT, Style, failure_handles, sheet, styles, themed
from benchmarks.metrics.registry import Measured, Metric

COLUMNS = 3


@themed
def draw_tradeoff(
    points: Sequence[Point],
    panels: Sequence[Panel],
    *,
    title: str | None = None,
    scale: str = "linear",
    sweep: bool = False,
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
    notes: Sequence[str] = (),
) -> Drawing:
    """Operating points of every algorithm in each panel.

    Args:
        points: from `measure`, failed ones included.
        panels: what to draw against what; several get letters. All show one metric, or all the same several.
        title: what it shows; made from the metrics if not given.
        scale: of shares: `linear`, zoomed to the points; or `tail`, logarithmic in the distance to 1.
        sweep: a figure of parameters: every line has its own colour, all its points are joined, and they are named.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.
        notes: more of them.

    Raises:
        UserError: no point reaches the floor of any panel, or a floor that was asked for.
    """
    results = [point.result for point in points]
    look = look or styles(result.identity.algorithm for result in results)
    ks = {result.identity.k for result in results}
    k = ks.pop() if len(ks) == 1 else None
    _require_points(points, panels, k)
    lines = _looking_apart(lines_of(points, look, shows_speed(metrics_of(panels))), panels[0].ys, k, sweep)
    marks = [_marks(panel, lines, sweep) for panel in panels]
    columns = min(len(panels), COLUMNS)
    figure, axes = sheet(
        f"{results[0].identity.dataset}: {title or _title(panels)}",
        describe(results),
        alert=mixed,
        rows=math.ceil(len(panels) / columns),
        columns=columns,
        used=len(panels),
        panel=(7.2, 4.2) if columns == 1 else (5.2, 3.9) if columns == 2 else (4.1, 3.5),
        legend=[Line2D([], [], label=line.label, **_look(line, panels[0], sweep, met=True)) for line in lines],
        failed=failure_handles(failures(results), look),
        notes=[*_notes(points, panels, sweep, k), *notes],
    )
    letters = [f"({chr(ord('a') + place)})" if len(panels) > 1 else "" for place in range(len(panels))]
    rows = []
    for axis, panel, letter, drawn in zip(axes, panels, letters, marks, strict=True):
        axis.set_title(f"{letter} {panel.heading(k)}".strip(), loc="left", fontsize=TEXT)
        for mark in drawn:
            _draw_mark(axis, panel, mark, sweep)
            rows += [{"panel": letter.strip("()"), **row} for row in _rows(panel, mark, k)]
        _set_axes(axis, panel, drawn, k, scale, max(result.record.nq for result in results))
    if sweep:
        figure.draw_without_rendering()  # places are known only after the layout
        names = _names(points)
        for axis, drawn in zip(axes, marks, strict=True):
            places = {(each.x.value, each.y.value): names[id(each.point)] for mark in drawn for each in mark.places}
            name_points(axis, places)
    return Drawing(figure, all_rows(rows, results))


@dataclass(frozen=True)
class _Place:
    """Where a point is drawn."""

    point: Point
    x: Measured
    y: Measured


@dataclass(frozen=True)
class _Mark:
    """What is drawn at once: points of a line that reach a level, joined or loose."""

    line: Line
    y: Metric
    level: float | None
    met: bool  # the last level of the floor, if there is one
    joined: bool
    places: list[_Place]


def _marks(panel: Panel, lines: Sequence[Line], sweep: bool) -> list[_Mark]:
    """All that a panel shows, in drawing order; fronts of a speed, else sweeps of a parameter, are joined."""
    steps = panel.floor.steps if panel.floor else [None]
    marks = []
    for number, level in enumerate(steps):
        for line in lines:
            points = [each for each in line.points if not panel.floor or panel.floor.passes(each, level)]
            for y in panel.ys:
                if line.y not in (None, y.name):
                    continue
                if sweep or not shows_speed([panel.x, y]):
                    groups = [(True, each) for each in split_by_sweep(points, panel.x, y)]
                else:
                    groups = list(zip((True, False), split_at_front(points, panel.x, y), strict=True))
                for joined, some in groups:
                    places = [_Place(each, each.values[panel.x.name], each.values[y.name]) for each in some]
                    if places:
                        marks.append(_Mark(line, y, level, number == len(steps) - 1, joined, places))
    return marks


def _looking_apart(lines: Sequence[Line], ys: Sequence[Metric], k: int | None, sweep: bool) -> list[Line]:
    """Lines split by metric where a panel shows several; each with its own colour in a figure of parameters."""
    if len(ys) > 1:
        lines = [
            replace(line, label=f"{line.label} {y.title(k)}", variant=line.variant * len(ys) + place, y=y.name)
            for line in lines
            for place, y in enumerate(ys)
        ]
    if not sweep:
        return list(lines)
    own = styles(f"{place:04}" for place in range(len(lines))).values()
    return [replace(line, style=style, variant=0) for line, style in zip(lines, own, strict=True)]


def _look(line: Line, panel: Panel, sweep: bool, met: bool) -> dict:
    """Line2D keywords; where dashes tell thresholds apart, builds differ in their marker instead."""
    return line.style.tier(line.variant, met) if sweep or panel.tiered else line.style.line(line.variant)


def _draw_mark(axis: Axes, panel: Panel, mark: _Mark, sweep: bool) -> None:
    """Markers with their intervals, joined, or faint where they are loose."""
    at = [place.x.value for place in mark.places], [place.y.value for place in mark.places]
    drawn = _look(mark.line, panel, sweep, mark.met) | ({} if mark.joined else {"linestyle": "none", "alpha": 0.35})
    axis.errorbar(
        *at,
        xerr=_reach([place.x for place in mark.places]),
        yerr=_reach([place.y for place in mark.places]),
        fmt="none",
        ecolor=mark.line.style.colour,
        elinewidth=0.9,
        alpha=0.5 if mark.joined else 0.2,
        zorder=2,
    )
    axis.plot(*at, zorder=4 if mark.met else 3, clip_on=False, label=mark.line.label, **drawn)


def _rows(panel: Panel, mark: _Mark, k: int | None) -> list[dict]:
    """The table's rows of a mark."""
    level = {"threshold": panel.floor.text(mark.level, k) if mark.level is not None else "none"} if panel.floor else {}
    return [
        {
            "line": mark.line.label,
            **level,
            **identity_columns(place.point.result),
            "x_metric": panel.x.name,
            **value_columns("x", place.x),
            "y_metric": mark.y.name,
            **value_columns("y", place.y),
            "joined": mark.joined,
        }
        for place in mark.places
    ]


def _set_axes(axis: Axes, panel: Panel, marks: Sequence[_Mark], k: int | None, scale: str, n: int) -> None:
    """Both axes of a panel; one that no point reaches says so."""
    if not marks:
        axis.set(xlabel=panel.x.title(k), ylabel=panel.ys[0].title(k), xticks=[], yticks=[])
        reason = f"no point has\n{panel.floor.text(panel.floor.levels[0], k)}" if panel.floor else "no point"
        axis.text(0.5, 0.5, reason, ha="center", va="center", color=GREY, transform=axis.transAxes)
        return
    places = [place for mark in marks for place in mark.places]
    set_axis(axis, "x", panel.x, [place.x for place in places], k, scale, n)
    set_axis(axis, "y", panel.ys[0], [place.y for place in places], k, scale, n)
    if len(panel.ys) > 1:
        axis.set_ylabel(listed(y.title(k) for y in panel.ys))


def _require_points(points: Sequence[Point], panels: Sequence[Panel], k: int | None) -> None:
    """Raises UserError where no point reaches a level that was asked for, or the floors leave nothing to draw."""
    floors = [panel.floor for panel in panels]
    for floor in filter(None, floors):
        for level in floor.levels if floor.asked else ():
            if not any(floor.passes(each, level) for each in points):
                raise UserError(_unreached(points, floor, level, k))
    if not any(floor is None or any(floor.passes(each, floor.steps[0]) for each in points) for floor in floors):
        raise UserError(_unreached(points, floors[0], floors[0].levels[0], k))


def _unreached(points: Sequence[Point], floor: Floor, level: float, k: int | None) -> str:
    """What the best point has instead, and the way out."""
    values = [value.value for each in points if (value := each.values[floor.metric.name])]
    higher = floor.metric.definition.better == "higher"
    best, change = (max(values), "lower") if higher else (min(values), "raise")
    return (
        f"no point has {floor.text(level, k)}; the best has {best:.6g}: {change} the threshold with "
        f"--at-least {floor.metric.name}=VALUE, or measure settings that search {'more' if higher else 'less'} "
        "(run.py --set)"
    )


def _names(points: Sequence[Point]) -> dict[int, str]:
    """What to write at each point, by its id: the values of the search parameters that its algorithm varies."""
    varied = _varied(points)
    return {
        id(each): "/".join(
            str(each.result.identity.search_params[name])
            for name in varied.get(each.result.identity.algorithm, ())
            if name in each.result.identity.search_params
        )
        for each in points
    }


def _varied(points: Sequence[Point]) -> dict[str, list[str]]:
    """Names of the search parameters that vary, by algorithm."""
    params: dict[str, list[dict]] = {}
    for each in points:
        if each.result.ok:
            params.setdefault(each.result.identity.algorithm, []).append(each.result.identity.search_params)
    return {algorithm: varying(each) for algorithm, each in params.items()}


def _title(panels: Sequence[Panel]) -> str:
    """`robustness and recall against QPS`."""
    ys = listed(dict.fromkeys(_stem(y) for panel in panels for y in panel.ys))
    return f"{ys} against {listed(dict.fromkeys(_word(panel.x.name.split('@')[0]) for panel in panels))}"


def _stem(metric: Metric) -> str:
    """Name without its arguments: `robustness`, `latency`, `qps-best`."""
    template = metric.definition.template
    return _word(template.split("-")[0] if "{" in template else template)


def _word(name: str) -> str:
    """A metric's name inside a sentence."""
    return name.replace("qps", "QPS")


def _reach(values: Sequence[Measured]) -> np.ndarray | None:
    """Lengths of the error bars, (2, points); NaN where there is no interval."""
    lengths = [
        (math.nan, math.nan)
        if item.low is None or item.high is None
        else (max(0.0, item.value - item.low), max(0.0, item.high - item.value))
        for item in values
    ]
    return None if all(math.isnan(low) for low, _ in lengths) else np.array(lengths).T


def _notes(points: Sequence[Point], panels: Sequence[Panel], sweep: bool, k: int | None) -> list[str]:
    """What the bars, the faint and the open points are, what is left out, and what the numbers at points are."""
    axes = {metric.name: metric for panel in panels for metric in (panel.x, *panel.ys)}.values()
    kinds = {
        metric.definition.kind
        for metric in axes
        for point in points
        if (value := point.values[metric.name]) and value.low is not None
    }
    parts = ["95 % intervals over queries"] if "quality" in kinds else []
    parts += ["slowest and fastest repeat of QPS"] if "speed" in kinds else []
    notes = [f"Bars: {'; '.join(parts)}."] if parts else []
    if any(shows_speed([panel.x, *panel.ys]) for panel in panels) and not sweep:
        notes.append(
            "Where an axis is a speed, the points of a build that no other of its points beats are "
            "joined; the rest are faint."
        )
    floors = [panel.floor for panel in panels if panel.floor]
    if any(len(floor.steps) > 1 for floor in floors):
        notes.append("Open markers and dashes: points that miss the threshold of the solid lines.")
    names = dict.fromkeys("/".join(each) for each in _varied(points).values() if each)
    if sweep and names:
        notes.append(f"Numbers at points: {listed(names)}.")
    limits: dict[tuple, list[int]] = {}
    for place, floor in enumerate(floors):
        missed = sum(each.result.ok and not floor.passes(each, floor.steps[0]) for each in points)
        if not floor.rest:
            limits.setdefault((floor.text(floor.levels[0], k), missed), []).append(place)
    parts = []
    for (text, missed), places in limits.items():
        where = "" if len(places) == len(panels) else f"({', '.join(chr(ord('a') + place) for place in places)}) "
        parts.append(f"{where}{text}, {missed or 'no'} point{'' if missed == 1 else 's'} left out")
    return [*notes, f"Only points with {'; '.join(parts)}."] if parts else notes
