"""Intervals for what is measured on a sample of queries."""

from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
EXPAND_FROM = 200  # values: from so many on an expansion replaces the resamples of a mean


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927); right also at 0 and n successes."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def bootstrap_mean_of_counts(counts: np.ndarray, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the mean of integers 0, 1, …, len(counts)-1 that came counts[i] times each.

    Resampling queries with replacement is a multinomial draw of the histogram, so the cost does not grow with n.
    """
    n = int(counts.sum())
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=RESAMPLES)
    means = draws @ np.arange(len(counts)) / n
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_mean(values: np.ndarray, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the mean of float64 (n), n ≥ 1.

    From `EXPAND_FROM` values on the percentiles are those to which more and more resamples would tend, by the
    Cornish-Fisher expansion: the mean of a resample has the cumulants of the values, over powers of n.
    """
    values = np.asarray(values, float)
    n, mean, ends = len(values), values.mean(), np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if n < EXPAND_FROM:
        draws = np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
        low, high = np.quantile(values[draws].mean(axis=1), ends)
        return float(low), float(high)
    centred = values - mean
    squares = centred * centred
    variance = squares.mean()
    if variance == 0:
        return float(mean), float(mean)
    skewness = (squares @ centred) / n / variance**1.5 / n**0.5
    excess = ((squares @ squares) / n / variance**2 - 3) / n
    z = np.array([NormalDist().inv_cdf(end) for end in ends])
    z = z + skewness * (z**2 - 1) / 6 + excess * (z**3 - 3 * z) / 24 - skewness**2 * (2 * z**3 - 5 * z) / 36
    low, high = np.clip(mean + z * (variance / n) ** 0.5, values.min(), values.max())
    return float(low), float(high)
