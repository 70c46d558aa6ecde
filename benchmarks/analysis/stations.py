"""An index at one average recall: an operating point that has it, or a mixture of the two on either side."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.analysis.select import average_recall
from benchmarks.metrics.registry import Measured, Metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result

TOLERANCE = 0.002  # of average recall, where no point lies on the other side
EXACT = 1e-9  # on any axis: a point that is there

Axis = Callable[[Result], float]


def recall_axis(result: Result) -> float:
    """Average recall."""
    return float(average_recall(result))


def speed_axis(result: Result) -> float:
    """Natural logarithm of the median queries per second."""
    return math.log(result.record.nq / float(np.median(result.search_seconds)))


def speed_range(result: Result) -> tuple[float, float]:
    """Queries per second of the slowest and of the fastest repeat."""
    return tuple(result.record.nq / float(end) for end in (result.search_seconds.max(), result.search_seconds.min()))


@dataclass(frozen=True)
class Station:
    """One operating point, or two of one build of which each query is answered by the one or the other.

    A mixture of weights (1 − w, w) is what an index does that sends a share w of its queries to the second setting: its
    average recall is the wanted one on these very queries, and its values per query are expectations. What the setting
    between the two would do may differ from it; `error` bounds that.
    """

    points: tuple[Result, ...]
    weights: tuple[float, ...] = (1.0,)
    others: tuple[Result, ...] = ()  # of the same line, next to the points, that show how it bends
    wanted: float | None = None  # on the axis
    axis: Axis = recall_axis
    lines: int = 1  # that have the place, this one included

    @property
    def interpolated(self) -> bool:
        return len(self.points) > 1

    @property
    def result(self) -> Result:
        """For all that its points have in common."""
        return self.points[0]

    @property
    def recall(self) -> float:
        """Average recall."""
        return self._mix(map(recall_axis, self.points))

    @property
    def search(self) -> str:
        """`n_probe=4`, or `n_probe=1…2` for what lies between; `default` where nothing is set."""
        below, above = (point.identity.search_params for point in (self.points[0], self.points[-1]))
        return label({name: v if v == above[name] else f"{v}…{above[name]}" for name, v in below.items()})

    def values(self, metric: Metric) -> np.ndarray | None:
        """float64 (nq): the metric per query; None where a point does not have it."""
        parts = [metric.per_query(point) for point in self.points]
        return None if any(part is None for part in parts) else self._mix(parts)

    def combine(self, of: Callable[[Result], Measured | None]) -> Measured | None:
        """A value of the points, mixed; its interval is wider by the error of that. A single point's is its own."""
        if not self.interpolated:
            return of(self.result)
        parts = [of(point) for point in self.points]
        if None in parts:
            return None
        value, n = self._mix(part.value for part in parts), parts[0].n
        ends = [end for part in parts for end in (part.low, part.high)]
        if None in ends:
            return Measured(value, n=n)
        error = self.error(of)
        low, high = self._mix(ends[::2]) - error, self._mix(ends[1::2]) + error
        # what is monotone in between stays in between
        return Measured(value, min(value, max(low, min(ends))), max(value, min(high, max(ends))), n)

    def error(self, of: Callable[[Result], Measured | None]) -> float:
        """How far a value may be from that of the wanted place: by how the line bends.

        Between two points, twice what the parabola through them and a neighbour says otherwise than the straight line
        (the larger of both neighbours; without any, the rest of the way to the farther point). On real curves, points
        left out and predicted so lay within it in 352 of 420 cases, and within it and their interval in 418. At a
        single point beside the wanted place, the slope to its neighbour times the distance. On the axis of speed, also
        the slope times half of the spread of the repeats.
        """
        if self.wanted is None:
            return 0.0
        x, y = [self.axis(point) for point in self.points], [of(point).value for point in self.points]
        others = [(self.axis(other), found.value) for other in self.others if (found := of(other))]
        if len(x) == 1:
            off = abs(x[0] - self.wanted)
            return max((abs((y2 - y[0]) / (x2 - x[0])) for x2, y2 in others), default=0.0) * off
        (x0, x1), (y0, y1) = x, y
        slope = (y1 - y0) / (x1 - x0)
        bends = [
            ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0) * (self.wanted - x0) * (self.wanted - x1) for x2, y2 in others
        ]
        error = 2 * max(map(abs, bends)) if bends else abs(y1 - y0) * max(self.weights)
        if self.axis is speed_axis:
            spread = max(math.log(fast / slow) / 2 for slow, fast in map(speed_range, self.points))
            error += abs(slope) * spread
        return error

    def describe(self, name: Callable[[dict], str] = label) -> str:
        """`efSearch=64 (M=8), average recall 0.9`, or between which two; `name` makes text of parameters."""
        settings = [name(point.identity.search_params) for point in self.points]
        build = name(self.points[0].identity.build_params)
        more = f"; the tightest of {self.lines} builds that have it" if self.lines > 1 else ""
        if len(settings) == 1:
            return f"{settings[0]} ({build}), average recall {recall_axis(self.points[0]):.4f}{more}"
        recalls = " and ".join(f"{recall_axis(point):.4f}" for point in self.points)
        both = " and ".join(settings)
        return f"between {both} ({build}), average recall {recalls}, {self.weights[1]:.0%} to the second{more}"

    def _mix(self, parts: Iterable):
        return sum(weight * part for weight, part in zip(self.weights, parts, strict=True))


def station_at(
    lines: Iterable[Sequence[Result]], wanted: float, axis: Axis = recall_axis, tolerance: float = TOLERANCE
) -> Station | None:
    """The station at a wanted place on the axis; None where no line reaches it.

    The one rule of everything that is shown at equal recall: only a point that is there stands alone. Points beside it,
    however near, are mixed with the next one on the other side; 0.002 more of recall is about 0.005 of robustness-0.9.
    Of several lines, those of the lowest seed that has the place, and of these the one whose points are nearest to each
    other around it, the first of equals. A line that only ends within `tolerance` of the place is represented by its
    last point, where no other line has it.
    """
    found = [each for line in lines if (each := _on_line(sorted(line, key=axis), wanted, axis, tolerance))]
    lowest = lowest_seed(each.result for each in found)
    found = [each for each in found if each.result.identity.seed == lowest]
    return replace(min(found, key=_gap), lines=len(found)) if found else None


def lowest_seed(results: Iterable[Result]) -> int | None:
    """The lowest there is; None where another harness said none of any."""
    seeds = (result.identity.seed for result in results)
    return min((seed for seed in seeds if seed is not None), default=None)


def _gap(station: Station) -> tuple[bool, float]:
    """Whether it is beside its place, and how far its points are from each other, or from there."""
    ends = [station.axis(point) for point in station.points]
    off = abs(ends[0] - station.wanted)
    return not station.interpolated and off > EXACT, ends[-1] - ends[0] if station.interpolated else off


def _on_line(line: Sequence[Result], wanted: float, axis: Axis, tolerance: float) -> Station | None:
    places = [axis(point) for point in line]
    for number, place in enumerate(places):
        if math.isclose(place, wanted, rel_tol=0, abs_tol=EXACT):
            return Station((line[number],), wanted=wanted, axis=axis)
    above = next((number for number, place in enumerate(places) if place > wanted), len(places))
    if 0 < above < len(places):
        low, high = places[above - 1], places[above]
        weight = (wanted - low) / (high - low)
        beside = [number for number in (above - 2, above + 1) if 0 <= number < len(places)]
        others = tuple(line[number] for number in beside if places[number] not in (low, high))
        return Station((line[above - 1], line[above]), (1 - weight, weight), others, wanted, axis)
    end = 0 if above == 0 else len(places) - 1
    if places and abs(places[end] - wanted) <= tolerance:
        near = 1 if above == 0 else end - 1
        others = (line[near],) if 0 <= near < len(places) and places[near] != places[end] else ()
        return Station((line[end],), (1.0,), others, wanted, axis)
    return None


def with_settings(results: Iterable[Result], settings: Mapping[str, object]) -> list[Result]:
    """Results whose build and search parameters have these values."""
    return [
        result
        for result in results
        if all(
            {**result.identity.build_params, **result.identity.search_params}.get(name) == value
            for name, value in settings.items()
        )
    ]
