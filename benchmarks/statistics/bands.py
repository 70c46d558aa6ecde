"""A band that holds the whole robustness curve at once, not each of its points by itself."""

from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.intervals import CONFIDENCE

RESAMPLES = 1000


@dataclass(frozen=True)
class Band:
    """Robustness-(j/K)@K for j = 1 … K, and a band around it; arrays of float64 (K)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: int
    level: float  # confidence of each single interval that makes them hold together


def robustness_band(hits: np.ndarray, denominator: int, confidence: float = CONFIDENCE, seed: int = 0) -> Band:
    """Simultaneous band over the robustness curve: with this confidence all of the true curve lies within it.

    An exact (Clopper-Pearson) interval at every δ, all of one level, which is chosen so that they hold together: the
    band of equal local levels (Aldor-Noiman et al., American Statistician 67, 2013), calibrated on resampled queries.
    Neighbouring δ share most of their queries, so the level is far from that of K independent tests.

    Args:
        hits: integers (nq), of at most `denominator`.
        denominator: K, or the number of base vectors where that is smaller.
        confidence: that the whole curve is inside.
        seed: of the resampling.
    """
    from scipy.special import bdtr, betaincinv

    hits = np.asarray(hits)
    n = len(hits)
    counts = np.bincount(hits, minlength=denominator + 1)
    # One query more at each end: that a δ was reached by all, or by none, is no certainty.
    model = counts + np.eye(denominator + 1)[[0, -1]].sum(axis=0)
    truth = _reached(model) / model.sum()
    draws = _reached(np.random.default_rng(seed).multinomial(n, model / model.sum(), size=RESAMPLES))
    tails = np.minimum(bdtr(draws, n, truth), 1 - np.where(draws > 0, bdtr(np.maximum(draws - 1, 0), n, truth), 0.0))
    tail = min((1 - confidence) / 2, float(np.quantile(tails.min(axis=1), 1 - confidence)))
    reached = _reached(counts)
    low, high = np.zeros(denominator), np.ones(denominator)
    some, all_ = reached > 0, reached == n
    low[some] = betaincinv(reached[some], n - reached[some] + 1, tail)
    high[~all_] = betaincinv(reached[~all_] + 1, n - reached[~all_], 1 - tail)
    return Band(reached / n, low, high, n, 1 - 2 * tail)


def _reached(counts: np.ndarray) -> np.ndarray:
    """From how many queries have 0, 1, … K hits (along the last axis) to how many have at least 1, … K."""
    return np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1][..., 1:]
