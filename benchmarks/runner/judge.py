"""From a worker's raw ids to the arrays of a result file; the only place that compares answers with the truth."""

from typing import NamedTuple

import numpy as np

from benchmarks.data.prepare import Dataset
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.metrics.hits import clean_neighbors, count_hits_tied, rank_in_truth


class Judged(NamedTuple):
    """What a point's ids are worth."""

    arrays: dict[str, np.ndarray]
    repeated: int
    missing: int


def judge(ids: np.ndarray, dataset: Dataset, truth: GroundTruth, k: int, threads: int) -> Judged:
    """Clean the ids, recompute their distances from the vectors, count hits.

    Args:
        ids: integers (nq, k) as the worker wrote them.
        dataset: for base and queries.
        truth: exact neighbours, at least min(k, n) deep.
        k: neighbours asked for.
        threads: for the distances.

    Raises:
        ValueError: the shape is wrong or an id is no row of the base.
    """
    if ids.shape != (dataset.nq, k):
        raise ValueError(f"the answer has shape {ids.shape}, ({dataset.nq}, {k}) is needed")
    cleaned = clean_neighbors(ids, dataset.n)
    queries = dataset.queries.open()
    distances = exact_distances(dataset.base, queries, cleaned.neighbors, dataset.distance, threads=threads)
    top = min(k, dataset.n)
    exact, kth = truth.neighbors[:, :top], truth.distances[:, top - 1]
    ranks = rank_in_truth(cleaned.neighbors, exact)
    with np.errstate(over="ignore"):  # a distance beyond float32 is stored as infinity
        stored = distances.astype(np.float32)
    arrays = {
        "neighbors": cleaned.neighbors,
        "distances": stored,
        "hits": np.count_nonzero(ranks, axis=1).astype(np.uint16),
        "hits_tied": count_hits_tied(ranks, distances, kth),
    }
    return Judged(arrays, cleaned.repeated, cleaned.missing)


def distance_error(told: np.ndarray | None, exact: np.ndarray, neighbors: np.ndarray) -> float | None:
    """How far a library's distances are from any multiple of the exact ones plus an offset, each of its own per query.

    So the sign of a product, a missing norm of the query and a root taken or not are no error.

    Args:
        told: float64 (nq, k), or None where the library does not tell.
        exact: float (nq, k).
        neighbors: (nq, k), -1 for none.

    Returns:
        the residual's root mean square over the spread's, 0 to 1; None where nothing was told that could be compared.
    """
    if told is None or told.shape != exact.shape:
        return None
    whole = (neighbors >= 0).all(axis=1) & np.isfinite(told).all(axis=1) & np.isfinite(exact).all(axis=1)
    told, exact = told[whole], exact[whole].astype(np.float64)
    spread = told - told.mean(axis=1, keepdims=True)
    clear = np.abs(spread).max(axis=1, initial=0) > 1e-3 * np.abs(told).max(axis=1, initial=0)
    told, exact, spread = told[clear], exact[clear], spread[clear]
    if not len(told) or told.shape[1] < 3:
        return None
    errors = []
    for scale in (exact, np.sqrt(np.maximum(exact, 0))):
        line = scale - scale.mean(axis=1, keepdims=True)
        squares = np.maximum(np.square(line).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        slope = (line * spread).sum(axis=1, keepdims=True) / squares
        errors.append(float(np.sqrt(np.square(spread - slope * line).sum() / np.square(spread).sum())))
    return min(errors)
