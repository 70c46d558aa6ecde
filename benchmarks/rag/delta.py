"""δ from the application: how right its answers are for queries of each recall, and which metric foretells them.

All is counted over pairs of an operating point and a query; intervals are of the queries, which are drawn anew whole,
with all their points, since one hard query is hard at every point.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np

RESAMPLES, CHUNK = 1000, 50  # CHUNK × nq weights are in memory at a time
MOST_SPREAD = 0.3  # of δ, between the ends of the change point's interval, that still names one
MOST_LEVELS = 20  # beyond so large a K a level is a tenth
FEWEST_RIGHT = 10  # answers that are right with the exact neighbours, which a level needs to count in the change point
MOST_EVEN = 0.05  # of the samples, where a change point is named
KEPT = 0.7  # relative accuracy at the δ that the paper chose
FEWEST_POINTS = 6  # operating points that a rank correlation needs to mean anything


@dataclass(frozen=True)
class Level:
    """Queries that found `hits` of their K neighbours; of a large K, those from there to the next tenth."""

    hits: int
    recall: float
    pairs: int  # of an operating point and a query
    queries: int  # distinct ones among them
    accuracy: float
    exact_accuracy: float  # of the same queries with their exact neighbours
    relative: float | None  # accuracy / exact_accuracy; None where the exact neighbours answer none of them
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ChangePoint:
    """Where the relative accuracy breaks: the best step from one height below δ to another from δ on."""

    delta: float
    low: float
    high: float
    below: float  # relative accuracy below δ, the mean over the levels
    above: float  # and from δ on
    drop: float  # above - below
    drop_low: float
    drop_high: float
    even: float  # share of the samples that a straight line fits at least as well as the step
    clear: bool  # there is a drop, the interval of δ is narrow, and hardly any sample is even


@dataclass(frozen=True)
class Predictor:
    """How well one metric orders the operating points by accuracy."""

    name: str  # recall, or robustness-j/K
    delta: float | None
    correlation: float | None  # Spearman's; None where metric or accuracy is the same at all points
    low: float | None
    high: float | None
    gain: float | None  # over that of average recall
    gain_low: float | None
    gain_high: float | None


@dataclass(frozen=True)
class Analysis:
    """All of it, for points with the same K on the same queries."""

    points: int
    queries: int
    k: int
    levels: list[Level]
    change: ChangePoint | None  # None where fewer than two levels have pairs
    predictors: list[Predictor]  # average recall first

    @property
    def kept_from(self) -> float | None:
        """The lowest recall from which on all levels keep `KEPT` of the accuracy with exact neighbours, or None."""
        found = None
        for level in reversed([level for level in self.levels if level.relative is not None]):
            if level.relative < KEPT:
                break
            found = level.recall
        return found

    @property
    def can_rank(self) -> bool:
        """Whether there are enough points for the correlations to mean anything."""
        return self.points >= FEWEST_POINTS


def analyse(hits: np.ndarray, correct: np.ndarray, exact: np.ndarray, k: int, seed: int = 0) -> Analysis:
    """Accuracy by recall, the change point, and the metrics that foretell accuracy.

    Args:
        hits: integers (points, nq), of K.
        correct: bool (points, nq), whether the application was right.
        exact: bool (nq), whether it was with the exact neighbours.
        k: what hits are divided by.
        seed: of the resampling.

    Raises:
        ValueError: shapes do not belong together, or hits are outside 0 to K.
    """
    hits, correct, exact = np.asarray(hits, np.int64), np.asarray(correct, np.float64), np.asarray(exact, np.float64)
    if hits.ndim != 2 or hits.shape != correct.shape or exact.shape != hits.shape[1:] or not hits.size:
        raise ValueError(f"hits {hits.shape}, correct {correct.shape} and exact {exact.shape} do not belong together")
    if hits.min() < 0 or hits.max() > k:
        raise ValueError(f"hits must lie between 0 and K = {k}")
    sums = _Sums(hits, correct, exact, k)
    resampled = [sums.of(weights) for weights in _weights(hits.shape[1], np.random.default_rng(seed))]
    levels, points = (np.concatenate(parts) for parts in zip(*resampled, strict=True))
    observed_levels, observed_points = (part[0] for part in sums.of(np.ones((1, hits.shape[1]))))
    return Analysis(
        points=hits.shape[0],
        queries=hits.shape[1],
        k=k,
        levels=_levels(sums.level, observed_levels, levels, k),
        change=_change(observed_levels, levels),
        predictors=_predictors(observed_points, points, k),
    )


def _weights(nq: int, rng: np.random.Generator):
    """How often each query is drawn, float64 (CHUNK, nq) at a time."""
    for _ in range(RESAMPLES // CHUNK):
        yield np.array([np.bincount(rng.integers(0, nq, nq), minlength=nq) for _ in range(CHUNK)], np.float64)


class _Sums:
    """What is counted of each query, once; a resample is a product with its weights."""

    def __init__(self, hits: np.ndarray, correct: np.ndarray, exact: np.ndarray, k: int):
        points, nq = hits.shape
        levels = k if k <= MOST_LEVELS else 10
        self.level = hits * levels // k
        at_level = np.zeros((3, nq, levels + 1))  # pairs, right ones, those right with the exact neighbours
        for row in range(points):
            place = (np.arange(nq), self.level[row])
            at_level[0][place] += 1
            at_level[1][place] += correct[row]
            at_level[2][place] += exact
        self.at_level = at_level
        self.correct, self.hits, self.k = correct.T, hits.T, k

    def of(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Args: weights (b, nq). Returns: (b, 3, levels) sums by level; (b, 2 + K, points) accuracy and metrics."""
        levels = np.stack([weights @ part for part in self.at_level], axis=1)
        # Made anew each time: all at once they are K times as large as the hits.
        reached = ((need <= self.hits).astype(np.float64) for need in range(1, self.k + 1))
        shares = [weights @ part for part in chain((self.correct, self.hits / self.k), reached)]
        return levels, np.stack(shares, axis=1) / weights.sum(axis=1)[:, None, None]


def _relative(levels: np.ndarray) -> np.ndarray:
    """(…, levels) of (…, 3, levels): right over right with the exact neighbours; NaN where that is nothing."""
    right, reference = levels[..., 1, :], levels[..., 2, :]
    return np.divide(right, reference, out=np.full(right.shape, np.nan), where=reference > 0)


def _interval(values: np.ndarray) -> tuple[float | None, float | None]:
    values = values[~np.isnan(values)]
    if len(values) < RESAMPLES // 2:
        return None, None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _levels(level_of: np.ndarray, observed: np.ndarray, resampled: np.ndarray, k: int) -> list[Level]:
    relative, spread = _relative(observed), _relative(resampled)
    found, last = [], observed.shape[1] - 1
    for level in range(last + 1):
        pairs, right, reference = observed[:, level]
        if pairs == 0:
            continue
        low, high = _interval(spread[:, level])
        found.append(
            Level(
                hits=-(-level * k // last),
                recall=level / last,
                pairs=int(pairs),
                queries=int((level_of == level).any(axis=0).sum()),
                accuracy=float(right / pairs),
                exact_accuracy=float(reference / pairs),
                relative=None if np.isnan(relative[level]) else float(relative[level]),
                low=low,
                high=high,
            )
        )
    return found


def _steps(levels: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The best step of each sample.

    The step at s has one height for the levels below s and one for the others; the best leaves the least squares.
    Levels count alike, however many queries are at each: that depends on which points were measured, and δ must not.

    Args:
        levels: float64 (b, 3, levels).
        counted: bool (levels), which of them count.

    Returns:
        s (b), 0 where there is no step; heights below and above (b); and whether a straight line fits as well (b).
    """
    relative = _relative(levels)
    known = ~np.isnan(relative) & counted
    relative = np.where(known, relative, 0.0)
    below_sum, below_count = np.cumsum(relative, axis=1)[:, :-1], np.cumsum(known, axis=1)[:, :-1]
    above_sum = relative.sum(axis=1, keepdims=True) - below_sum
    above_count = known.sum(axis=1, keepdims=True) - below_count
    both = (below_count > 0) & (above_count > 0)
    below = np.divide(below_sum, below_count, out=np.zeros_like(below_sum), where=both)
    above = np.divide(above_sum, above_count, out=np.zeros_like(above_sum), where=both)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    explained = np.where(both, below_count * above_count / count * np.square(above - below), -1.0)
    best = explained.argmax(axis=1)
    rows = np.arange(len(best))
    step = np.where(explained[rows, best] >= 0, best + 1, 0)
    even = _explained_by_line(relative, known, count) >= explained[rows, best]
    return step, below[rows, best], above[rows, best], even


def _explained_by_line(values: np.ndarray, known: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sum of squares (b) that the straight line of least squares through the known values (b, levels) explains."""
    places = np.where(known, np.arange(values.shape[1]), 0.0)
    x = np.where(known, places - places.sum(axis=1, keepdims=True) / count, 0.0)
    y = np.where(known, values - values.sum(axis=1, keepdims=True) / count, 0.0)
    squares = np.square(x).sum(axis=1)
    return np.divide(np.square((x * y).sum(axis=1)), squares, out=np.zeros(len(x)), where=squares > 0)


def _change(observed: np.ndarray, resampled: np.ndarray) -> ChangePoint | None:
    counted, last = observed[2] >= FEWEST_RIGHT, observed.shape[1] - 1
    (step,), (below,), (above,), _ = _steps(observed[None], counted)
    if step == 0:
        return None
    steps, lows, highs, evens = _steps(resampled, counted)
    there = steps > 0  # a sample of few queries may have none
    if not there.any():
        return None
    low, high = np.quantile(steps[there] / last, [0.025, 0.975])
    drop_low, drop_high = np.quantile((highs - lows)[there], [0.025, 0.975])
    return ChangePoint(
        delta=float(step / last),
        low=float(low),
        high=float(high),
        below=float(below),
        above=float(above),
        drop=float(above - below),
        drop_low=float(drop_low),
        drop_high=float(drop_high),
        even=float(evens[there].mean()),
        clear=bool(drop_low > 0 and high - low <= MOST_SPREAD and evens[there].mean() <= MOST_EVEN),
    )


def spearman(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Rank correlation of the rows of two arrays (b, points), ties at their average rank; NaN for constant ones."""
    from scipy.stats import rankdata  # here, since it takes half a second

    ranks = [rankdata(each, axis=1) for each in (values, others)]
    centred = [each - each.mean(axis=1, keepdims=True) for each in ranks]
    length = np.sqrt(np.prod([np.square(each).sum(axis=1) for each in centred], axis=0))
    product = (centred[0] * centred[1]).sum(axis=1)
    return np.divide(product, length, out=np.full(len(product), np.nan), where=length > 0)


def _predictors(observed: np.ndarray, resampled: np.ndarray, k: int) -> list[Predictor]:
    """Args: observed (2 + K, points), resampled (b, 2 + K, points)."""
    if observed.shape[1] < 3:
        return []
    found, baseline, baseline_spread = [], np.nan, np.array([])
    for place in range(1, len(observed)):
        (correlation,) = spearman(observed[None, 0], observed[None, place])
        spread = spearman(resampled[:, 0], resampled[:, place])
        if place == 1:
            baseline, baseline_spread = correlation, spread
        low, high = _interval(spread)
        gain_low, gain_high = _interval(spread - baseline_spread)
        known, both = not np.isnan(correlation), not np.isnan(correlation - baseline)
        found.append(
            Predictor(
                name="recall" if place == 1 else f"robustness-{place - 1}/{k}",
                delta=None if place == 1 else (place - 1) / k,
                correlation=float(correlation) if known else None,
                low=low if known else None,
                high=high if known else None,
                gain=float(correlation - baseline) if both and place > 1 else None,
                gain_low=gain_low if both and place > 1 else None,
                gain_high=gain_high if both and place > 1 else None,
            )
        )
    return found
