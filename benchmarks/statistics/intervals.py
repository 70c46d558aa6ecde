"""Intervals for what is measured on a sample of queries."""

from functools import cache
from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
EXPAND_FROM = 200  # values: from so many on an expansion replaces the resamples of a mean
SKEWED = 0.2  # skewness of a mean from which on its distribution is not left to an expansion


@cache
def two_sided_z(confidence: float) -> float:
    """Normal quantile of a two-sided interval: 1.96 for 95 %."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927); right also at 0 and n successes."""
    z = two_sided_z(confidence)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def bootstrap_mean_of_counts(counts: np.ndarray, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the mean of integers 0, 1, …, len(counts)-1 that came counts[i] times each.

    Resampling queries with replacement is a multinomial draw of the histogram, so the cost does not grow with n. Where
    there are enough of them, and not nearly all alike, the expansion of `bootstrap_mean` says the same without draws.
    """
    n, values = int(counts.sum()), np.arange(len(counts))
    mean = float(counts @ values / n)
    centred = values - mean
    moments = [float(counts @ centred**power / n) for power in (2, 3, 4)]
    if n >= EXPAND_FROM and moments[0] > 0 and abs(moments[1]) / moments[0] ** 1.5 / n**0.5 < SKEWED:
        return _expand(mean, moments, n, confidence)
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=RESAMPLES)
    means = draws @ values / n
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_mean(values: np.ndarray, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the mean of float64 (n), n ≥ 1.

    From `EXPAND_FROM` values on the percentiles are those to which more and more resamples would tend, by the
    Cornish-Fisher expansion (1938): the mean of a resample has the cumulants of the values, over powers of n.
    """
    values = np.asarray(values, float)
    n = len(values)
    mean = float(values.sum()) / n
    if n < EXPAND_FROM:
        draws = np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
        low, high = np.quantile(values[draws].mean(axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)
    centred = values - mean
    squares = centred * centred
    moments = [float(centred @ centred) / n, float(squares @ centred) / n, float(squares @ squares) / n]
    if moments[0] <= 1e-30 * mean * mean:  # all alike, up to rounding
        return mean, mean
    low, high = _expand(mean, moments, n, confidence)
    return max(low, float(values.min())), min(high, float(values.max()))


def _expand(mean: float, moments: list[float], n: int, confidence: float) -> tuple[float, float]:
    """Quantiles of the mean of n values with these central moments, the second to the fourth."""
    variance, third, fourth = moments
    skewness, excess = third / variance**1.5 / n**0.5, (fourth / variance**2 - 3) / n
    ends, tail = [], two_sided_z(confidence)
    for z in (-tail, tail):
        bent = z + skewness * (z**2 - 1) / 6 + excess * (z**3 - 3 * z) / 24 - skewness**2 * (2 * z**3 - 5 * z) / 36
        ends.append(mean + bent * (variance / n) ** 0.5)
    return ends[0], ends[1]
