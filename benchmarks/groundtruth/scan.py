"""The float64 pass: every row that a bound cannot rule out, evaluated."""

from collections.abc import Callable

import numpy as np

from benchmarks.groundtruth.distances import Scores, row_distances
from benchmarks.groundtruth.rows import Rows
from benchmarks.groundtruth.search import products

PAIR_ELEMENTS = 1 << 16  # components of the (query, row) pairs that are evaluated at a time
PENDING_PAIRS = 1 << 17  # pairs that are gathered before they are sorted


def scan(
    base: Rows,
    rows: range,
    queries: np.ndarray,
    scores: Scores,
    cut: np.ndarray,
    depth: int,
    report: Callable[[int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """Return ids and distances (q, depth) of the nearest of those rows that have no score below `cut` (q,)."""
    (vectors, factors), wide = scores.queries(queries), queries.astype(np.float64)
    nearest = _Nearest(len(queries), depth)
    step = max(1, PAIR_ELEMENTS // queries.shape[1])
    for first, some, block, terms, _ in products(base, scores, rows, vectors):
        hits = np.flatnonzero(~(block + terms[:, None] * factors[some] < cut[some]))  # NaN is a hit
        for at in range(0, len(hits), step):
            row, query = np.divmod(hits[at : at + step], block.shape[1])
            row, query = row + first, query + some.start
            vectors_there = base.take(row).astype(np.float64)
            nearest.offer(query, row, row_distances(vectors_there, wide[query], scores.distance))
        report(block.size)
    return nearest.result()


class _Nearest:
    """The `depth` nearest pairs of each query, for rows offered in the order of their ids."""

    def __init__(self, queries: int, depth: int):
        self.ids = np.full((queries, depth), -1, np.int32)
        self.near = np.full((queries, depth), np.inf)
        self.pending: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.size = 0

    def offer(self, query: np.ndarray, ids: np.ndarray, near: np.ndarray) -> None:
        closer = near < self.near[query, -1]  # an equal distance loses: its id is higher
        if closer.any():
            self.pending.append((query[closer], ids[closer], near[closer]))
            self.size += len(self.pending[-1][0])
            if self.size > PENDING_PAIRS:
                self.result()

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.pending:
            return self.ids, self.near
        query, ids, near = (np.concatenate(parts) for parts in zip(*self.pending, strict=True))
        touched = np.unique(query)
        depth = self.ids.shape[1]
        query = np.concatenate([np.repeat(touched, depth), query])
        ids = np.concatenate([self.ids[touched].ravel(), ids])
        near = np.concatenate([self.near[touched].ravel(), near])
        order = np.lexsort((ids, near, query))
        query, ids, near = query[order], ids[order], near[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        keep = rank < depth
        self.ids[query[keep], rank[keep]] = ids[keep]
        self.near[query[keep], rank[keep]] = near[keep]
        self.pending, self.size = [], 0
        return self.ids, self.near
