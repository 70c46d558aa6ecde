"""A result's answers against its truth: what the metrics that need more than hits begin with."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.metrics.hits import rank_in_truth
from benchmarks.results.store import Result
from benchmarks.results.truths import ResultTruth


class Answers(NamedTuple):
    """Answers and the exact top K; distances as the results have them, smaller is nearer."""

    ranks: np.ndarray  # uint16 (nq, k): place in the truth from 1 on, 0 for none
    distances: np.ndarray  # float32 (nq, k): infinite where there is no answer
    exact: np.ndarray  # float64 (nq, K)


def answers_of(result: Result) -> Answers | None:
    """The answers of a result; None without its truth."""
    truth = result.truth
    return None if truth is None else _answers(result, truth)


@lru_cache(maxsize=2)  # the metrics of one result are computed together, and these arrays are large
def _answers(result: Result, truth: ResultTruth) -> Answers:
    neighbors, distances = result.arrays("neighbors", "distances")
    ranks = rank_in_truth(neighbors, truth.ids)
    np.copyto(distances, np.inf, where=neighbors < 0)
    return Answers(ranks, distances, truth.distances)
