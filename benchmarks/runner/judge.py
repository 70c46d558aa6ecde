"""From a worker's raw ids to the arrays of a result file; the only place that compares answers with the truth."""

from typing import NamedTuple

import numpy as np

from benchmarks.data.prepare import Dataset
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.metrics.hits import clean_neighbors, count_hits_tied, is_hit


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
    hit = is_hit(cleaned.neighbors, exact)
    with np.errstate(over="ignore"):  # a distance beyond float32 is stored as infinity
        stored = distances.astype(np.float32)
    arrays = {
        "neighbors": cleaned.neighbors,
        "distances": stored,
        "hits": hit.sum(axis=1).astype(np.uint16),
        "hits_tied": count_hits_tied(hit, cleaned.neighbors, distances, kth),
    }
    return Judged(arrays, cleaned.repeated, cleaned.missing)
