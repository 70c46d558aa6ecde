"""From a worker's raw ids to the arrays of a result file; the only place that compares answers with the truth."""

from typing import NamedTuple

import numpy as np

from benchmarks.data.prepare import Dataset
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.metrics.hits import clean_neighbors, count_hits, count_hits_tied


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
    distances = exact_distances(
        dataset.base.open(), dataset.queries.open(), cleaned.neighbors, dataset.distance, threads=threads
    )
    top = min(k, dataset.n)
    exact, kth = truth.neighbors[:, :top], truth.distances[:, top - 1]
    arrays = {
        "neighbors": cleaned.neighbors,
        "distances": distances.astype(np.float32),
        "hits": count_hits(cleaned.neighbors, exact),
        "hits_tied": count_hits_tied(cleaned.neighbors, distances, exact, kth),
    }
    return Judged(arrays, cleaned.repeated, cleaned.missing)
