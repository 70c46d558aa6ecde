"""One metric against another: operating points, joined per build, a panel for each metric."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from benchmarks.analysis.pareto import pareto_front
from benchmarks.analysis.select import FIELDS, comparable, describe, failures, listed, require_ok, varying
from benchmarks.errors import UserError
from benchmarks.figures.theme import Style, failure_handles, sheet, styles, themed
from benchmarks.metrics.registry import Measured, Metric
from benchmarks.results.store import Result

SMALLEST_SPAN = 0.02  # of a share's axis, lest noise fill the panel
COLUMNS = 3


@dataclass(frozen=True)
class Point:
    """A result and its metrics by name; None where it does not have one."""

    result: Result
    values: dict[str, Measured | None]


@dataclass(frozen=True)
class Line:
    """The points of one build of one algorithm."""

    label: str
    style: Style
    variant: int
    points: list[Point]


def measure(results: Iterable[Result], metrics: Sequence[Metric]) -> list[Point]:
    """Every metric of every result.

    Raises:
        UserError: every result failed, or none has one of the metrics.
    """
    results = list(results)
    require_ok(results)
    points = [Point(each, {metric.name: metric.compute(each) for metric in metrics}) for each in results]
    for metric in metrics:
        if not any(point.values[metric.name] for point in points):
            raise UserError(
                f"none of the {len(points)} selected results has a value of '{metric.name}', "
                f"which is: {metric.definition.meaning}"
            )
    return points


def shows_speed(metrics: Iterable[Metric]) -> bool:
    """Whether threads and machine bear on what is shown."""
    return any(metric.definition.kind == "speed" for metric in metrics)


def lines_of(points: Sequence[Point], look: dict[str, Style], speed: bool) -> list[Line]:
    """Group points by build; labelled by algorithm, and by what its builds differ in where it has several.

    Failed points belong to no line, and unlike results that were mixed are never joined.
    """
    names = [name for name, field in FIELDS.items() if speed or not field.speed_only]
    lines = []
    for algorithm in sorted({point.result.identity.algorithm for point in points}):
        builds: dict[str, list[Point]] = {}
        traits: dict[str, dict] = {}
        for point in points:
            identity = point.result.identity
            if identity.algorithm != algorithm or not point.result.ok:
                continue
            kind = dict(zip(names, comparable(point.result, speed), strict=True))
            trait = {**identity.build_params, "seed": identity.seed, **kind}
            key = repr(sorted(trait.items()))
            builds.setdefault(key, []).append(point)
            traits[key] = trait
        shown = varying(list(traits.values()))
        ranks = {key: [_sortable(trait.get(name)) for name in shown] for key, trait in traits.items()}
        for variant, key in enumerate(sorted(builds, key=ranks.__getitem__)):
            what = ", ".join(f"{name}={str(traits[key][name])[:24]}" for name in shown if name in traits[key])
            lines.append(Line(f"{algorithm} {what}".strip(), look[algorithm], variant, builds[key]))
    return lines


def _sortable(value: object) -> tuple:
    return (0, value, "") if isinstance(value, (int, float)) else (1, 0, str(value))


def split_at_front(points: Sequence[Point], x: Metric, y: Metric) -> tuple[list[Point], list[Point]]:
    """Points of a line in drawing order: those that are joined, and those that are not.

    Where an axis is a speed the Pareto front is joined; else all points are, by ascending x.
    """
    present = [point for point in points if point.values[x.name] and point.values[y.name]]
    present.sort(key=lambda point: (point.values[x.name].value, point.values[y.name].value))
    if not shows_speed([x, y]):
        return present, []
    chosen = pareto_front(
        [point.values[x.name].value for point in present],
        [point.values[y.name].value for point in present],
        x.definition.better,
        y.definition.better,
    )
    rest = [point for index, point in enumerate(present) if index not in chosen]
    return [present[index] for index in chosen], rest


@themed
def draw_tradeoff(
    points: Sequence[Point],
    metrics: Sequence[Metric],
    versus: Metric,
    *,
    scale: str = "linear",
    mixed: str | None = None,
    look: dict[str, Style] | None = None,
) -> Figure:
    """One panel for each metric, against `versus`.

    Args:
        points: from `measure`, failed ones included.
        metrics: for the vertical axes.
        versus: for the horizontal axis.
        scale: of shares: `linear`, zoomed to the points; or `tail`, logarithmic in the distance to 1.
        mixed: note for a figure of unlike results.
        look: style of each algorithm; by those that are drawn if not given.
    """
    results = [point.result for point in points]
    look = look or styles(result.identity.algorithm for result in results)
    lines = lines_of(points, look, shows_speed([versus, *metrics]))
    ks = {result.identity.k for result in results}
    k = ks.pop() if len(ks) == 1 else None
    stems = listed(dict.fromkeys(_stem(metric) for metric in metrics))
    columns = min(len(metrics), COLUMNS)
    figure, panels = sheet(
        f"{results[0].identity.dataset}: {stems} against {_word(versus.name.split('@')[0])}",
        describe(results),
        alert=mixed,
        rows=math.ceil(len(metrics) / columns),
        columns=columns,
        used=len(metrics),
        panel=(7.2, 4.2) if columns == 1 else (5.2, 3.9) if columns == 2 else (4.1, 3.5),
        legend=[Line2D([], [], label=line.label, **line.style.line(line.variant)) for line in lines],
        failed=failure_handles(failures(results), look),
        notes=_notes(points, metrics, versus),
    )
    for panel, metric in zip(panels, metrics, strict=True):
        drawn = []
        for line in lines:
            joined, loose = split_at_front(line.points, versus, metric)
            _draw_points(panel, joined, versus, metric, line, faint=False)
            _draw_points(panel, loose, versus, metric, line, faint=True)
            drawn += joined + loose
        for axis, item in (("x", versus), ("y", metric)):
            set_axis(
                panel,
                axis,
                item,
                [point.values[item.name] for point in drawn],
                k,
                scale,
                max(result.record.nq for result in results),
            )
    return figure


def _stem(metric: Metric) -> str:
    """Name without its arguments: `robustness`, `latency`, `qps-best`."""
    template = metric.definition.template
    return _word(template.split("-")[0] if "{" in template else template)


def _word(name: str) -> str:
    """A metric's name inside a sentence."""
    return name.replace("qps", "QPS")


def _draw_points(panel: Axes, points: Sequence[Point], x: Metric, y: Metric, line: Line, faint: bool) -> None:
    """Markers with their intervals, joined unless faint."""
    if not points:
        return
    xs, ys = ([point.values[metric.name] for point in points] for metric in (x, y))
    at = [item.value for item in xs], [item.value for item in ys]
    drawn = line.style.line(line.variant) | ({"linestyle": "none", "alpha": 0.35} if faint else {})
    panel.errorbar(
        *at,
        xerr=_reach(xs),
        yerr=_reach(ys),
        fmt="none",
        ecolor=line.style.colour,
        elinewidth=0.9,
        alpha=0.2 if faint else 0.5,
        zorder=2,
    )
    panel.plot(*at, zorder=3, clip_on=False, label=line.label, **drawn)


def _reach(values: Sequence[Measured]) -> np.ndarray | None:
    """Lengths of the error bars, (2, points); NaN where there is no interval."""
    lengths = [
        (math.nan, math.nan)
        if item.low is None or item.high is None
        else (max(0.0, item.value - item.low), max(0.0, item.high - item.value))
        for item in values
    ]
    return None if all(math.isnan(low) for low, _ in lengths) else np.array(lengths).T


def _notes(points: Sequence[Point], metrics: Sequence[Metric], versus: Metric) -> list[str]:
    """What the bars and the faint points are."""
    kinds = {
        metric.definition.kind
        for metric in (*metrics, versus)
        for point in points
        if (value := point.values[metric.name]) and value.low is not None
    }
    parts = ["95 % intervals over queries"] if "quality" in kinds else []
    parts += ["slowest and fastest repeat of QPS"] if "speed" in kinds else []
    notes = [f"Bars: {'; '.join(parts)}."] if parts else []
    if shows_speed([*metrics, versus]):
        notes.append(
            "Where an axis is a speed, the points of a build that no other of its points beats are "
            "joined; the rest are faint."
        )
    return notes


def set_axis(
    panel: Axes, axis: str, metric: Metric, values: Sequence[Measured], k: int | None, scale: str, n: int
) -> None:
    """Label, scale, range and ticks of one axis, from the metric and what is drawn.

    Args:
        panel: the axes.
        axis: "x" or "y".
        metric: what it shows.
        values: all that is drawn along it.
        k: for the label; None where several are mixed.
        scale: of shares, `linear` or `tail`.
        n: queries; the tail scale tells 1 from 1 - 1/n.
    """
    ends = [end for item in values for end in (item.value, item.low, item.high) if end is not None]
    low, high = min(ends), max(ends)
    worse = "" if metric.definition.better == "higher" else " (lower is better)"
    panel.set(**{f"{axis}label": metric.title(k) + worse})
    if metric.definition.unit == "1" and scale == "tail":
        set_tail_axis(panel, axis, low, high, n)
    elif metric.definition.unit == "1":
        set_share_axis(panel, axis, low, high)
    elif metric.definition.axis == "log" and low > 0:
        pad = max(1.08, (high / low) ** 0.05)
        panel.set(**{f"{axis}scale": "log", f"{axis}lim": (low / pad, high * pad)})
        _set_ticks(panel, axis, log_ticks(low / pad, high * pad), short)
    else:
        pad = (high - low or abs(high) or 1) * 0.06
        panel.set(**{f"{axis}lim": (low - pad, high + pad)})


def set_share_axis(panel: Axes, axis: str, low: float, high: float) -> None:
    """Zoom to the data, never narrower than `SMALLEST_SPAN`; room for marks beyond 1, but no ticks there."""
    if high - low < SMALLEST_SPAN:
        low, high = max(0.0, high - SMALLEST_SPAN), max(high, SMALLEST_SPAN)
    pad = 0.05 * (high - low)
    bottom, top = max(low - pad, -0.03), min(high + pad, 1 + pad)
    panel.set(**{f"{axis}lim": (bottom, top)})
    ticks = [
        tick
        for tick in MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]).tick_values(bottom, top)
        if max(bottom, 0) - 1e-9 <= tick <= min(top, 1) + 1e-9
    ]
    digits = next((few for few in range(1, 6) if np.allclose(ticks, np.round(ticks, few), 0, 1e-9)), 6)
    _set_ticks(panel, axis, ticks, lambda value: f"{value:.{digits}f}")


def set_tail_axis(panel: Axes, axis: str, low: float, high: float, n: int) -> None:
    """Logarithmic in the distance to 1, with 1 itself half a query beyond the last step."""
    half = 0.5 / n

    def forward(share):
        return -np.log10(np.maximum(1 - np.asarray(share, dtype=float) + half, half / 2))

    def inverse(place):
        return 1 + half - 10.0 ** -np.asarray(place, dtype=float)

    bottom, top = float(forward(low)), float(forward(high))
    pad = max(0.05 * (top - bottom), 0.02)
    (panel.set_xscale if axis == "x" else panel.set_yscale)("function", functions=(forward, inverse))
    panel.set(**{f"{axis}lim": (float(inverse(bottom - pad)), float(inverse(top + pad)))})
    decades = [10.0**-power for power in range(0, 1 + math.ceil(math.log10(n)))]
    steps = (1,) if top - bottom > 2 else (1, 0.5, 0.2)
    ticks = [1.0] + [1 - decade * step for decade in decades for step in steps if decade * step >= 1 / n]
    ticks = [tick for tick in ticks if bottom - pad <= forward(tick) <= top + pad]
    _set_ticks(panel, axis, sorted(ticks), lambda value: f"{value:.6g}")


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ends: powers of ten, or more where these are few."""
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [step * power for power in powers for step in steps if low <= step * power <= high]
        if len(ticks) >= 3:
            return ticks if len(ticks) <= 8 else ticks[:: math.ceil(len(ticks) / 8)]
    return [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high and tick > 0]


def short(value: float) -> str:
    """`1500` as 1.5k, `2e6` as 2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def _set_ticks(panel: Axes, axis: str, ticks: Sequence[float], text) -> None:
    along = panel.xaxis if axis == "x" else panel.yaxis
    along.set_major_locator(FixedLocator(list(ticks)))
    along.set_minor_locator(NullLocator())
    along.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
