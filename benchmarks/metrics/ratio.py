"""How far the answers are, beside how far they had to be: what recall does not see when neighbours are nearly tied."""

from functools import lru_cache

import numpy as np

from benchmarks.metrics.answers import answers_of
from benchmarks.metrics.quality import parse_epsilon
from benchmarks.metrics.registry import Measured, measure_mean, metric
from benchmarks.results.store import Result

ROUNDING = 1e-6  # relative: results keep distances as float32


def inverse_ratios(result: Result) -> np.ndarray | None:
    """float64 (nq) in [0, 1]: 1 / the mean ratio; None without a truth, or if a product of it is not positive."""
    return None if answers_of(result) is None else _inverse_ratios(result)


@lru_cache(maxsize=2)
def _inverse_ratios(result: Result) -> np.ndarray | None:
    from benchmarks.metrics.kernels import invert_ratios  # here, since most commands need no compiler

    answers = answers_of(result)
    distance, exact = result.identity.distance, answers.exact
    if distance == "ip" and (exact >= 0).any():
        return None
    if distance == "l2":
        exact = result.truth.roots
    inverses = np.empty(len(exact))
    invert_ratios(answers.ranks, answers.distances, exact, distance == "l2", distance != "ip", inverses)
    return inverses


@metric(
    "inverse-ratio",
    title="1/Ratio",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=inverse_ratios,
)
def inverse_ratio(result: Result) -> Measured | None:
    """Mean over queries of 1/ratio@K (arXiv 2606.04522), where the ratio is the mean over the places 1 … K of the
    distance of the answer there / the exact one there, answers sorted by distance (the overall ratio of Gan et al.,
    SIGMOD 2012). Distances are Euclidean for l2, 1 - cosine for cosine; for ip it is the exact product / that of the
    answer, and nothing where any exact one is not positive. A place without an answer makes the query's value 0.
    """
    return measure_mean(inverse_ratios(result))


def is_within(result: Result, epsilon: float) -> np.ndarray | None:
    """bool (nq): whether the query's ratio is at most 1 + ε."""
    inverses = inverse_ratios(result)
    return None if inverses is None else inverses * (1 + epsilon) >= 1 - ROUNDING


@metric(
    "within-{epsilon}",
    title="Ratio within 1+{epsilon}",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=is_within,
    share=True,
    epsilon=parse_epsilon,
)
def within(result: Result, epsilon: float) -> Measured | None:
    """Share of queries whose ratio@K, as inverse-ratio defines it, is at most 1 + ε (up to a relative 1e-6)."""
    return measure_mean(is_within(result, epsilon))
