"""Small worlds of queries and base vectors, each with a result and its truth, in which everything can be computed."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.metrics.hits import clean_neighbors, count_hits_tied, rank_in_truth
from benchmarks.results.schema import ResultRecord
from benchmarks.results.store import Result
from benchmarks.results.truths import ResultTruth

METRICS = (  # every one that needs no more than answers and truth
    *("recall", "recall_tied", "robustness-0.1", "robustness-0.5", "robustness-1", "zero-recall", "recall-p95"),
    *("recall-p50", "recall-min", "worst-5", "worst-50", "recall-1", "recall-3", "recall-eps-0", "recall-eps-0.3"),
    *("map", "ndcg", "ndcg_by_answer", "mrr", "inverse-ratio", "within-0", "within-0.2"),
)


class World(Result):
    """A result that lies in no file."""

    def arrays(self, *names):
        return [self.held[name].copy() for name in names]

    @property
    def truth(self):
        return self.exact

    @property
    def relevance(self):
        return None


def world(distances: np.ndarray, ids: np.ndarray, distance: str = "l2") -> World:
    """The result of an index that returned the ids.

    Args:
        distances: of each query to each base vector, float64 (nq, n), as the harness defines them.
        ids: as the library returned them, int (nq, k).
    """
    (nq, n), k = distances.shape, ids.shape[1]
    top = min(k, n)
    order = np.argsort(distances, axis=1, kind="stable")[:, :top]
    exact = ResultTruth(order.astype(np.int32), np.take_along_axis(distances, order, axis=1))
    neighbors = clean_neighbors(ids, n).neighbors
    found = np.where(neighbors < 0, np.inf, np.take_along_axis(distances, np.maximum(neighbors, 0), axis=1))
    ranks = rank_in_truth(neighbors, exact.ids)
    record = ResultRecord.model_construct(
        identity=SimpleNamespace(k=k, distance=distance, mode="batch", queries_sha256="0" * 64),
        status="ok",
        n=n,
        nq=nq,
    )
    result = World(Path("nowhere"), record)
    held = {
        "neighbors": neighbors,
        "distances": found.astype(np.float32),
        "hits": np.count_nonzero(ranks, axis=1).astype(np.uint16),
        "hits_tied": count_hits_tied(ranks, found, exact.distances[:, -1]),
    }
    result.__dict__.update(held=held, exact=exact, small=held)
    return result


def random_world(seed: int, nq: int = 8, n: int = 40, k: int = 6, distance: str = "l2", ties: bool = False) -> World:
    """Answers that are sorted by a noisy distance, with some missing and some repeated."""
    random = np.random.default_rng(seed)
    distances = random.random((nq, n)) * 10
    if ties:
        distances = np.floor(distances)
    if distance == "ip":
        distances -= 11
    return world(distances, random_answers(random, distances, k), distance)


def random_answers(random, distances: np.ndarray, k: int) -> np.ndarray:
    """int64 (nq, k): what an index that sees distances badly returns; short rows and repeats too."""
    noisy = distances + random.normal(0, random.choice([0, 0.5, 5]), distances.shape)
    ids = np.full((len(distances), k), -1)
    found = np.argsort(noisy, axis=1)[:, :k]
    ids[:, : found.shape[1]] = found
    ids[random.random(ids.shape) < 0.1] = -1
    again = random.random(len(ids)) < 0.2
    ids[again, -1] = ids[again, 0]
    return ids
