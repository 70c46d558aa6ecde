"""What a trade-off shows: operating points, the lines that join them, panels, and the floors that points must reach."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.analysis.pareto import pareto_front
from benchmarks.analysis.select import FIELDS, comparable, require_ok, varying
from benchmarks.errors import UserError
from benchmarks.figures.axes import short
from benchmarks.figures.theme import Style
from benchmarks.metrics.registry import Measured, Metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result


@dataclass(frozen=True)
class Point:
    """A result and its metrics by name; None where it does not have one. `between` names an interpolated setting."""

    result: Result
    values: dict[str, Measured | None]
    between: str | None = None

    @property
    def search(self) -> str:
        """Search parameters, for people."""
        return self.between or label(self.result.identity.search_params)


@dataclass(frozen=True)
class Line:
    """The points of one build of one algorithm; of one metric, `y`, where a panel shows several."""

    label: str
    style: Style
    variant: int
    points: list[Point]
    y: str | None = None


@dataclass(frozen=True)
class Floor:
    """What a point must reach to be drawn: `levels` of a metric, ascending.

    Points that reach the last level are joined by a solid line, those that reach the first by a dashed one. With
    `rest`, those that reach none are drawn too, dashed. One that was `asked` for must be reached, at every level.
    """

    metric: Metric
    levels: tuple[float, ...]
    rest: bool = False
    asked: bool = False

    @property
    def steps(self) -> list[float | None]:
        """Levels in drawing order, dashed ones first; None lets all points pass."""
        return [None, *self.levels] if self.rest else list(self.levels)

    def passes(self, point: Point, level: float | None) -> bool:
        """Whether the point reaches the level; for a metric that is better lower, stays at or under it."""
        if level is None:
            return True
        value = point.values[self.metric.name]
        if value is None:
            return False
        return value.value >= level if self.metric.definition.better == "higher" else value.value <= level

    def text(self, level: float, k: int | None) -> str:
        """`Recall@10 ≥ 0.9`."""
        sign = "≥" if self.metric.definition.better == "higher" else "≤"
        number = f"{level:g}" if self.metric.definition.unit == "1" else short(level)
        return f"{self.metric.title(k).split(' [')[0]} {sign} {number}"


@dataclass(frozen=True)
class Panel:
    """One pair of axes: `ys` against `x`, of the points that reach the floor."""

    x: Metric
    ys: tuple[Metric, ...]
    floor: Floor | None = None

    @property
    def metrics(self) -> list[Metric]:
        """All that it shows or filters by."""
        return [self.x, *self.ys, *([self.floor.metric] if self.floor else [])]

    def heading(self, k: int | None) -> str:
        """What the floor asks for; nothing without one."""
        if not self.tiered:
            return ""
        first, *more = (self.floor.text(level, k) for level in self.floor.levels)
        if self.floor.rest:
            return f"solid: {first}"
        return f"dashed: {first}\nsolid: {more[-1]}"

    @property
    def tiered(self) -> bool:
        """Whether dashes tell which threshold a line is for."""
        return self.floor is not None and len(self.floor.steps) > 1


def metrics_of(panels: Iterable[Panel]) -> list[Metric]:
    """Every metric of the panels, once."""
    return list({metric.name: metric for panel in panels for metric in panel.metrics}.values())


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
    """Points of a line in drawing order, where an axis is a speed: the Pareto front, and the rest."""
    present = _present(points, x, y)
    chosen = pareto_front(
        [point.values[x.name].value for point in present],
        [point.values[y.name].value for point in present],
        x.definition.better,
        y.definition.better,
    )
    rest = [point for index, point in enumerate(present) if index not in chosen]
    return [present[index] for index in chosen], rest


def split_by_sweep(points: Sequence[Point], x: Metric, y: Metric) -> list[list[Point]]:
    """Points of a line in drawing order: a list for each sweep of the search parameter that has most values.

    A sweep is in the order of that parameter, where that is a number, else of x.
    """
    present = _present(points, x, y)
    params = [point.result.identity.search_params for point in present]
    names = sorted(varying(params), key=lambda name: -len({repr(each.get(name)) for each in params}))
    swept, held = names[:1], names[1:]
    sweeps: dict[str, list[Point]] = {}
    for point, each in zip(present, params, strict=True):
        sweeps.setdefault(repr([each.get(name) for name in held]), []).append(point)
    numbers = swept and all(isinstance(each.get(swept[0]), (int, float)) for each in params)
    if numbers:
        for sweep in sweeps.values():
            sweep.sort(key=lambda point: point.result.identity.search_params[swept[0]])
    return list(sweeps.values())


def _present(points: Sequence[Point], x: Metric, y: Metric) -> list[Point]:
    """Those that have both values, by ascending x."""
    both = [point for point in points if point.values[x.name] and point.values[y.name]]
    return sorted(both, key=lambda point: (point.values[x.name].value, point.values[y.name].value))
