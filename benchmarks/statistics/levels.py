"""Several builds of one index: how much of what is measured comes from the build, the queries and the repeat.

An interval over queries says how far other queries could move the number. Build the index again and it moves too: with
HNSW on `crossover-20k` as far as with other queries. Every build answers the same queries, so the values are a table
with builds and queries crossed, and the balanced analysis of variance splits it (Searle, Casella and McCulloch,
Variance Components, 1992, ch. 4).
"""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.paired import Difference
from benchmarks.statistics.power import detectable_difference, largest_provable_share


@dataclass(frozen=True)
class Split:
    """Variances of one single value, by where they come from; their sum is its variance.

    None where the table cannot tell: of one build, one query, or one repeat.
    """

    build: float | None
    query: float | None
    repeat: float | None
    rest: float | None  # what only this build does with only this query, such as a query that this build lost


@dataclass(frozen=True)
class Levels:
    """A mean over builds and queries."""

    value: float
    low: float  # interval of the mean over all builds and all queries
    high: float
    new_low: float  # interval of what one more build would have over all queries
    new_high: float
    builds: int
    n: int  # queries
    split: Split


@dataclass(frozen=True)
class _Squares:
    """Mean squares of the analysis of variance with their degrees of freedom; 0 where there are none."""

    build: float
    query: float
    repeat: float
    rest: float
    freedom: tuple[int, int, int, int]


def split_variance(values: np.ndarray) -> Split:
    """Split the variance of a table into build, query and repeat.

    Args:
        values: float (builds, repeats, queries), or (builds, queries) where there is one repeat. For the QPS of each
            repeat, (builds, repeats, 1).
    """
    values = _table(values)
    builds, repeats, n = values.shape
    squares = _squares(values)
    # In a table of one query, or of one repeat of one build, the rest cannot be told from the others.
    rest = squares.rest if squares.freedom[3] else 0.0
    repeat = max(0.0, (squares.repeat - rest) / n) if squares.freedom[2] else None
    below = squares.repeat if squares.freedom[2] else rest
    return Split(
        build=max(0.0, (squares.build - below) / (repeats * n)) if builds > 1 else None,
        query=max(0.0, (squares.query - rest) / (builds * repeats)) if n > 1 else None,
        repeat=repeat,
        rest=squares.rest if squares.freedom[3] else None,
    )


def two_level(values: np.ndarray, confidence: float = CONFIDENCE) -> Levels:
    """Mean over builds and queries, with the interval of both and that of one more build.

    The variance of the mean is that of the crossed table, its degrees of freedom are Satterthwaite's. For values of 0
    and 1 the interval is Wilson's with as many queries as would have that variance (as for surveys, Korn and Graubard
    1998), so that it holds near 0 and 1 too. With one build it is the interval over queries alone, and nothing is
    known of another build.

    Args:
        values: float (builds, queries) within [0, 1], all of the same queries.
        confidence: of both intervals.
    """
    values = np.asarray(values, dtype=float)
    builds, n = values.shape
    value, squares = float(values.mean()), _squares(_table(values))
    shares = bool(((values == 0) | (values == 1)).all())
    if builds == 1:
        ends = _interval(value, squares.query / n, n - 1, n, shares, confidence)
        return Levels(value, *ends, math.nan, math.nan, 1, n, split_variance(values))
    variance, freedom = _combine(squares, (1, 1, -1), builds * n)
    within = squares.query / (builds * n), n - 1
    mean_variance, mean_freedom = max((variance, freedom), within)  # other builds cannot make it surer
    low, high = _interval(value, mean_variance, mean_freedom, n, shares, confidence)
    variance, freedom = _combine(squares, (1 + builds, 1, -1), builds * n)  # with the luck of its own queries
    new_variance, new_freedom = max((variance, freedom), (mean_variance, mean_freedom))
    new_low, new_high = _interval(value, new_variance, new_freedom, n, shares, confidence)
    return Levels(value, low, high, min(low, new_low), max(high, new_high), builds, n, split_variance(values))


def compare_builds(base: np.ndarray, new: np.ndarray, confidence: float = CONFIDENCE) -> Difference:
    """Difference of two indexes that were each built several times, over builds and queries at once.

    Args:
        base, new: float (builds, queries) within [0, 1]; the numbers of builds may differ, the queries are the same.
        confidence: of the interval.

    Raises:
        ValueError: other queries, or one of them was built once, so that its builds have no spread to be known.
    """
    from scipy.special import stdtr

    base, new = np.asarray(base, dtype=float), np.asarray(new, dtype=float)
    if base.shape[1:] != new.shape[1:]:
        raise ValueError(f"one value per query and the same queries are needed, not {base.shape} and {new.shape}")
    if min(len(base), len(new)) < 2:
        raise ValueError("at least two builds of each are needed")
    n = base.shape[1]
    differences = new.mean(axis=0) - base.mean(axis=0)
    mean, between = float(differences.mean()), float(differences.var(ddof=1))
    # Queries are paired and builds are not: the spread of the paired differences over queries holds the rests of both
    # sides once, and the spread of each side's builds holds its rest again.
    parts = [(between / n, n - 1)]
    for side in (base, new):
        squares = _squares(_table(side))
        parts += [(squares.build / side.size, len(side) - 1), (-squares.rest / side.size, squares.freedom[3])]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / max(1e-300, sum(part**2 / count for part, count in parts))
    if variance < between / n:
        variance, freedom = between / n, n - 1
    unseen = 1 - ((1 - confidence) / 2) ** (1 / n)
    half = max(_quantile(freedom, confidence) * math.sqrt(variance), unseen)
    p = 1.0 if mean == 0 else 0.0
    if variance > 1e-15:
        p = 2 * float(stdtr(max(1.0, freedom), -abs(mean) / math.sqrt(variance)))
    return Difference(
        mean,
        max(-1.0, mean - half),
        min(1.0, mean + half),
        p,
        n,
        mean / math.sqrt(between) if between > 1e-15 else (math.copysign(math.inf, mean) if mean else 0.0),
        detectable_difference(n, min(1.0, variance * n)),
    )


def _table(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    return values[:, None, :] if values.ndim == 2 else values


def _squares(values: np.ndarray) -> _Squares:
    """Mean squares of (builds, repeats, queries): repeats within builds, both crossed with queries."""
    builds, repeats, n = values.shape
    grand, by_build, by_query = values.mean(), values.mean(axis=(1, 2)), values.mean(axis=(0, 1))
    by_repeat = values.mean(axis=2)
    sums = (
        repeats * n * ((by_build - grand) ** 2).sum(),
        builds * repeats * ((by_query - grand) ** 2).sum(),
        n * ((by_repeat - by_build[:, None]) ** 2).sum(),
        ((values - by_repeat[:, :, None] - by_query + grand) ** 2).sum(),
    )
    freedom = (builds - 1, n - 1, builds * (repeats - 1), (builds * repeats - 1) * (n - 1))
    means = [float(total / count) if count else 0.0 for total, count in zip(sums, freedom, strict=True)]
    return _Squares(*means, freedom)


def _combine(squares: _Squares, weights: tuple[int, int, int], total: int) -> tuple[float, float]:
    """Variance as a weighted sum of the mean squares of build, query and rest, and its degrees of freedom."""
    counts = (squares.freedom[0], squares.freedom[1], squares.freedom[3])
    means = (squares.build, squares.query, squares.rest)
    parts = [weight * square / total for weight, square in zip(weights, means, strict=True)]
    variance = sum(parts)
    spread = sum(part**2 / count for part, count in zip(parts, counts, strict=True) if count)
    return variance, variance**2 / spread if spread > 0 else counts[1]


def _quantile(freedom: float, confidence: float) -> float:
    """Of Student's t; with hardly any degrees of freedom it is as if there were one."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1.0, freedom), (1 + confidence) / 2))


def _interval(
    value: float, variance: float, freedom: float, n: int, shares: bool, confidence: float
) -> tuple[float, float]:
    t = _quantile(freedom, confidence)
    if not shares:
        unseen = 1 - ((1 - confidence) / 2) ** (1 / n)  # queries that lose everything and are not among these n
        half = max(t * math.sqrt(variance), unseen)
        return max(0.0, value - half), min(1.0, value + half)
    # More builds are no more queries: one that every build fails may be missing among the n.
    limit = largest_provable_share(n, confidence)
    low, high = value * limit, 1 - (1 - value) * limit
    if variance > 1e-15:
        # Wilson's interval with t in place of z, of so many queries that the share has this variance.
        queries = value * (1 - value) / variance
        centre = (value + t * t / (2 * queries)) / (1 + t * t / queries)
        half = t / (1 + t * t / queries) * math.sqrt(variance + t * t / (4 * queries * queries))
        low, high = min(low, centre - half), max(high, centre + half)
    return max(0.0, low), min(1.0, high)
