"""Intervals for what is measured on a sample of queries."""

from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000


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
