"""Two points on the same queries: how far apart they are, how sure that is, and what this n could have shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.intervals import CONFIDENCE, two_sided_z
from benchmarks.statistics.power import detectable_difference

RESAMPLES, FEWER_RESAMPLES = 10_000, 2_000  # also the resolution of a bootstrap p; fewer where each takes long
ROUNDING = 1e-9
DRAWN_AT_ONCE = 1 << 22  # numbers that a bootstrap holds in memory


@dataclass(frozen=True)
class Difference:
    """New minus base, of the means of per-query values."""

    difference: float
    low: float
    high: float
    p: float  # two-sided, of no difference; before any adjustment for several tests
    n: int  # queries
    effect: float  # mean of the paired differences over their standard deviation (Cohen's d_z)
    detectable: float  # the smallest difference that this n shows with power 0.8 at alpha 0.05


def compare_shares(base: np.ndarray, new: np.ndarray, confidence: float = CONFIDENCE) -> Difference:
    """Difference of two shares of the same queries: exact McNemar p, Tango's score interval.

    Args:
        base, new: bool (nq), whether each query reached it.
        confidence: of the interval.

    Raises:
        ValueError: they are not of the same queries, or of none.
    """
    base, new = _same_queries(np.asarray(base, dtype=bool), np.asarray(new, dtype=bool))
    gained, lost, n = int((new & ~base).sum()), int((base & ~new).sum()), len(base)
    low, high = paired_share_interval(gained, lost, n, confidence)
    mean, square = (gained - lost) / n, (gained + lost) / n
    return Difference(
        mean, low, high, mcnemar(gained, lost), n, _effect(mean, square, n), detectable_difference(n, square)
    )


def mcnemar(gained: int, lost: int) -> float:
    """Exact two-sided p of McNemar's test: the queries that differ went either way with probability 1/2."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(gained, lost), gained + lost, 0.5))) if gained + lost else 1.0


def paired_share_interval(gained: int, lost: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Score interval of the difference of two paired shares (Tango, Statistics in Medicine 17, 1998).

    Right also where no query differs: 0 of 1,000 leaves room for a difference of 0.0038 either way.
    """
    z = two_sided_z(confidence)
    mean = (gained - lost) / n

    def score(delta: float) -> float:
        linear = -gained - lost + (2 * n - gained + lost) * delta
        share = (math.sqrt(max(0.0, linear**2 + 8 * n * lost * delta * (1 - delta))) - linear) / (4 * n)
        variance = n * (2 * share + delta * (1 - delta))
        if variance <= 0:
            return math.copysign(math.inf, mean - delta) if mean != delta else 0.0
        return (gained - lost - n * delta) / math.sqrt(variance)

    def end(inside: float, outside: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if abs(score(middle)) <= z else (inside, middle)
        return inside

    return end(mean, -1.0), end(mean, 1.0)


def compare_means(base: np.ndarray, new: np.ndarray, confidence: float = CONFIDENCE, seed: int = 0) -> Difference:
    """Difference of two means of the same queries: paired bootstrap over queries.

    What a sample does not hold no resampling of it can show: with probability 1 − confidence, a share of up to
    3.7 / n of all queries could have lost everything and not be among these n (95 %). The interval is never narrower
    than that, so that few queries without any difference do not prove that there is none.

    Args:
        base, new: float (nq) within [0, 1].
        confidence: of the interval.
        seed: of the bootstrap.

    Raises:
        ValueError: they are not of the same queries, of none, or not within [0, 1].
    """
    base, new = _same_queries(np.asarray(base, dtype=float), np.asarray(new, dtype=float))
    if not all(item.min() >= -ROUNDING and item.max() <= 1 + ROUNDING for item in (base, new)):
        raise ValueError("per-query values must be numbers from 0 to 1")
    differences, n = new - base, len(base)
    mean, square = float(differences.mean()), float((differences**2).mean())
    means = bootstrap_means(differences, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    unseen = 1 - tail ** (1 / n)
    p = (1 + int((np.abs(means - mean) >= abs(mean) - 1e-12).sum())) / (1 + len(means))
    differ = int((np.abs(differences) > ROUNDING).sum())  # all of them may have gone one way by chance
    p = min(1.0, max(p, 2.0 ** (1 - differ)))
    return Difference(
        mean,
        max(-1.0, min(float(low), mean - unseen)),
        min(1.0, max(float(high), mean + unseen)),
        p,
        n,
        _effect(mean, square, n),
        detectable_difference(n, square),
    )


def bootstrap_means(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """Means of 10,000 samples of len(values) with replacement; of 2,000 where most values are distinct.

    Where few are distinct, drawing how often each comes is the same, and its cost does not grow with n.
    """
    distinct, counts = np.unique(np.round(values, 12), return_counts=True)
    random, n = np.random.default_rng(seed), len(values)
    few = len(distinct) <= n / 4
    resamples = RESAMPLES if few else FEWER_RESAMPLES
    at_once = max(1, DRAWN_AT_ONCE // (len(distinct) if few else n))
    means = []
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        if few:
            means.append(random.multinomial(n, counts / n, size) @ distinct / n)
        else:
            means.append(values[random.integers(n, size=(size, n), dtype=np.int32)].mean(axis=1))
    return np.concatenate(means)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p-values of one family, in the order given (Scand. J. Statist. 6, 1979)."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def _same_queries(base: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if base.shape != new.shape or base.ndim != 1 or not len(base):
        raise ValueError(f"one value per query and the same queries are needed, not {base.shape} and {new.shape}")
    return base, new


def _effect(mean: float, square: float, n: int) -> float:
    variance = (square - mean**2) * n / max(1, n - 1)
    if variance <= 1e-15:
        return math.copysign(math.inf, mean) if abs(mean) > 1e-12 else 0.0
    return mean / math.sqrt(variance)
