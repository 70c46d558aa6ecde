"""What a perfect choice of effort for each query would bring, from a sweep that is already measured.

Every query is charged the cheapest point that reaches δ for it. No search can know that beforehand, so the curve is a
bound: what lies between it and a fixed effort is the most that adaptive search could gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.analysis.series import Series
from benchmarks.metrics.quality import hits_needed
from benchmarks.results.store import Missing, Result


@dataclass(frozen=True)
class Step:
    """One fixed effort beside the perfect choice that reaches δ for as many queries."""

    point: Result
    robustness: float  # share of queries that reach δ
    qps: float  # of the fixed effort
    adaptive_qps: float

    @property
    def headroom(self) -> float:
        """How many times faster the perfect choice is."""
        return self.adaptive_qps / self.qps


@dataclass(frozen=True)
class Headroom:
    """Of one series and one δ."""

    series: Series
    delta: Fraction
    steps: list[Step]  # by robustness
    robustness: np.ndarray  # float64 (m): shares that the perfect choice can reach
    qps: np.ndarray  # float64 (m): its speed there


def seconds_per_query(points: Sequence[Result]) -> np.ndarray:
    """float64 (points, nq): of each query where they were timed one by one, else the average of the pass, medians."""
    rows = []
    for point in points:
        try:
            latency = point.latency
        except Missing:  # of another harness, which kept none
            latency = None
        if latency is not None:
            rows.append(np.median(latency, axis=0).astype(np.float64))
        else:
            rows.append(np.full(point.record.nq, np.median(point.search_seconds) / point.record.nq))
    return np.array(rows)


def adaptive_seconds(reached: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Average seconds per query of the perfect choice, for each number of queries that are to reach δ.

    Args:
        reached: bool (points, nq), whether a point reaches δ for a query.
        seconds: float64 (points, nq), what the point costs.

    Returns:
        float64 (m + 1), m the number of queries that any point reaches: a query that is to reach δ costs the cheapest
        point that does, one that is given up the cheapest of all; the cheapest to bring there come first.
    """
    least = seconds.min(axis=0)
    enough = np.where(reached, seconds, np.inf).min(axis=0)
    extra = np.sort((enough - least)[np.isfinite(enough)])
    return (least.sum() + np.concatenate([[0.0], np.cumsum(extra)])) / seconds.shape[1]


def headroom(series: Series, delta: Fraction) -> Headroom:
    """Compare every fixed effort of a series with the perfect choice among them.

    Args:
        series: points of one build on the same queries.
        delta: recall that a query is to reach.
    """
    points = series.points
    needed = hits_needed(delta, points[0].record.denominator)
    reached = np.array([point.hits >= needed for point in points])
    seconds = seconds_per_query(points)
    adaptive = adaptive_seconds(reached, seconds)
    nq = seconds.shape[1]
    steps = [
        Step(point, count / nq, 1 / seconds[row].mean(), 1 / adaptive[count])
        for row, (point, count) in enumerate(zip(points, reached.sum(axis=1).tolist(), strict=True))
    ]
    steps.sort(key=lambda step: (step.robustness, -step.qps))
    return Headroom(series, delta, steps, np.arange(len(adaptive)) / nq, 1 / adaptive)
