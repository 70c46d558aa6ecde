"""From the ids that an index returned to integer hits per query: the one place where recall is decided."""

from typing import NamedTuple

import numpy as np

TIE_TOLERANCE = 1e-6  # relative, on the K-th exact distance


class Cleaned(NamedTuple):
    """Answers that can be counted."""

    neighbors: np.ndarray  # int32 (nq, k); -1 where there is none
    repeated: int
    missing: int


def clean_neighbors(ids: np.ndarray, n: int) -> Cleaned:
    """Take ids as the library returned them to ids that count at most once.

    Args:
        ids: integers (nq, k); -1 is "none found".
        n: number of base vectors.

    Raises:
        ValueError: an id lies outside [-1, n); the message names query and id.
    """
    ids = np.asarray(ids)
    bad = (ids < -1) | (ids >= n)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{int(bad.sum())} ids lie outside the {n} base vectors; the first is {ids[row, column]}, of query {row}"
        )
    neighbors = ids.astype(np.int32)
    order = np.argsort(neighbors, axis=1, kind="stable")
    ranked = np.take_along_axis(neighbors, order, axis=1)
    again = np.zeros(ids.shape, bool)
    again[:, 1:] = (ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)
    repeated = np.zeros_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    missing = int((neighbors < 0).sum())
    neighbors[repeated] = -1
    return Cleaned(neighbors, int(again.sum()), missing)


def count_hits(neighbors: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How many of each row's ids are in the exact top K.

    Args:
        neighbors: cleaned ids (nq, k).
        truth: exact ids (nq, K'), K' = min(k, n); ties are already broken by the lower id.

    Returns:
        uint16 (nq).
    """
    return is_hit(neighbors, truth).sum(axis=1).astype(np.uint16)


def is_hit(neighbors: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """bool (nq, k): which ids are in the exact top K; -1 never is, and of equal ids the first."""
    return rank_in_truth(neighbors, truth) > 0


def rank_in_truth(neighbors: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """uint16 (nq, k): place of each answer among the exact top K, from 1 on; 0 where it is not, or came before."""
    from benchmarks.metrics.kernels import rank_answers  # here, since most commands need no compiler

    ranks = np.empty(neighbors.shape, np.uint16)
    rank_answers(np.ascontiguousarray(neighbors, np.int32), np.ascontiguousarray(truth, np.int32), ranks)
    return ranks


def count_hits_tied(ranks: np.ndarray, distances: np.ndarray, kth: np.ndarray) -> np.ndarray:
    """As `count_hits`, but an id whose exact distance is no larger than the K-th, up to rounding, counts too.

    Args:
        ranks: (nq, k), of `rank_in_truth`.
        distances: exact distances of the answers, float (nq, k), smaller is nearer, infinite where there is none.
        kth: exact distance of the K-th, or of the last where the base is smaller, float64 (nq).

    Returns:
        uint16 (nq).
    """
    return count_within(ranks, distances, kth + TIE_TOLERANCE * np.abs(kth)).astype(np.uint16)


def count_within(ranks: np.ndarray, distances: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """int64 (nq): how many answers are hits, or finite and no farther than the limit (nq) of their query."""
    from benchmarks.metrics.kernels import count_near  # here, since most commands need no compiler

    counts = np.empty(len(ranks), np.int64)
    count_near(ranks, distances, limits, counts)
    return counts
