"""Exact nearest neighbours: a float32 pass that proves itself, and a float64 one where it cannot.

Each worker owns a slice of the queries and streams the base in tiles through one-thread sgemm. It keeps
`depth` + `SLACK` candidates a query, re-ranks them in float64, and accepts the first `depth` only if a bound
on the float32 rounding error proves that no other row reaches or ties with them. For the remaining queries it
streams the base again, evaluating in float64 every row that the same bound cannot rule out.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.groundtruth.distances import Scores, check_distance, exact_distances, row_distances

SLACK = 28  # candidates beyond depth: what lets the proof succeed although float32 swaps near neighbours
QUERY_ROWS = 512  # queries in one sgemm: its 512 x 1024 scores are 2 MiB
SLICE_ELEMENTS = 1 << 21  # components, or buffered candidates, of the queries a worker holds
PAIR_ELEMENTS = 1 << 17  # components of the (query, row) pairs that the float64 pass evaluates at a time
PENDING_PAIRS = 1 << 19  # pairs that the float64 pass gathers before it sorts them
DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True)
class Truth:
    """The exact neighbours of each query: nearest first, equal distances by the lower id."""

    neighbors: np.ndarray  # int32 (nq, depth)
    distances: np.ndarray  # float64 (nq, depth), as benchmarks.groundtruth.distances defines them
    widened: int  # queries that float32 could not settle: the base was scanned again in float64


def exact_neighbors(
    base: np.ndarray,
    queries: np.ndarray,
    distance: str,
    depth: int,
    *,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """Return the `min(depth, n)` nearest base rows of each query, as a float64 brute force would.

    base (n, d) and queries (nq, d) are float32, uint8 or int8 arrays or memory maps, free of NaN and
    infinity. `progress(done, total)` is called in the caller's thread, up to five times a second, in
    comparisons of a query with a row; total grows by those of the queries that are scanned again. Memory
    beyond the inputs and the result is about 30 MiB a thread, whatever n. Raises ValueError for an empty
    base, empty queries, dimensions or dtypes that do not fit, an unknown distance, depth or threads below 1.
    """
    base, queries = np.asarray(base), np.asarray(queries)
    _check(base, queries, distance, depth, threads)
    depth = min(depth, len(base))
    neighbors = np.empty((len(queries), depth), np.int32)
    distances = np.empty((len(queries), depth))
    scores = Scores(base, distance)
    work = _Work(len(queries) * len(base))

    def settle(rows: slice) -> int:
        with np.errstate(all="ignore"):  # float32 may overflow: the bound then accepts nothing
            neighbors[rows], distances[rows], widened = _settle(base, queries[rows], scores, depth, work)
        return widened

    # Several slices a thread, so that a thread which loses its core does not make the others wait long.
    most = max(QUERY_ROWS, SLICE_ELEMENTS // max(base.shape[1], 4 * (depth + SLACK)))
    size = min(most, -(-len(queries) // threads), max(1024, -(-len(queries) // (4 * threads))))
    slices = [slice(start, start + size) for start in range(0, len(queries), size)]
    # Threads with a BLAS thread each: no barriers, so a busy neighbour costs only its own share.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        try:
            running = [pool.submit(settle, rows) for rows in slices]
            pending = running
            while pending:
                ended, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                if progress is not None:
                    progress(work.done, work.total)
        finally:
            work.stopped = True
    return Truth(neighbors, distances, sum(future.result() for future in running))


def _check(base: np.ndarray, queries: np.ndarray, distance: str, depth: int, threads: int) -> None:
    check_distance(distance)
    for name, vectors in (("base", base), ("queries", queries)):
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise ValueError(f"{name} of shape {vectors.shape}: expected (rows, dimension), neither 0")
        if vectors.dtype not in DTYPES:
            raise ValueError(f"{name} are {vectors.dtype}, expected float32, uint8 or int8")
    if base.shape[1] != queries.shape[1]:
        raise ValueError(f"base has dimension {base.shape[1]}, queries have dimension {queries.shape[1]}")
    if len(base) > np.iinfo(np.int32).max:
        raise ValueError(f"base has {len(base)} rows, more than int32 ids can name")
    for name, number in (("depth", depth), ("threads", threads)):
        if number < 1:
            raise ValueError(f"{name} is {number}, expected at least 1")


class _Work:
    """What the workers share with the caller: progress one way, the wish to stop the other."""

    def __init__(self, total: int):
        self.done, self.total, self.stopped, self.lock = 0, total, False, Lock()

    def add(self, done: int = 0, total: int = 0) -> None:
        with self.lock:
            self.done += done
            self.total += total
        if self.stopped:
            raise CancelledError


def _settle(base, queries, scores, depth, work) -> tuple[np.ndarray, np.ndarray, int]:
    """Exact ids and distances, (q, depth), of a slice of the queries, and how many had to be widened."""
    found = _Candidates(len(queries), depth + SLACK)
    coded = scores.queries(queries)
    largest = 0.0
    for first, tile, norm in scores.tiles(base):
        largest = np.maximum(largest, norm)  # a NaN stays, and accepts nothing
        for start, block in _products(coded, tile):
            found.offer(start, block, first)
        work.add(done=len(queries) * len(tile))
    ids, dropped = found.best()
    near = exact_distances(base, queries, ids, scores.distance)
    order = np.lexsort((ids, near), axis=-1)[:, :depth]
    ids, near = np.take_along_axis(ids, order, 1), np.take_along_axis(near, order, 1)

    cut = scores.cut(queries, near[:, -1], largest)
    unsure = ~(dropped < cut)
    if scores.distance == "cosine":  # a zero query: everything is at distance 1
        zero = ~queries.any(axis=1)
        ids[zero], near[zero], unsure[zero] = np.arange(depth), 1.0, False
    again = np.flatnonzero(unsure)
    if len(again):
        work.add(total=len(again) * len(base))
        ids[again], near[again] = _scan(base, queries[again], scores, cut[again], depth, work)
    return ids, near, len(again)


def _products(coded: np.ndarray, tile: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first query, float32 scores of up to QUERY_ROWS queries with the tile), in a reused buffer."""
    buffer = np.empty((min(QUERY_ROWS, len(coded)), len(tile)), np.float32)
    for start in range(0, len(coded), QUERY_ROWS):
        part = coded[start : start + QUERY_ROWS]
        yield start, np.matmul(part, tile.T, out=buffer[: len(part)])


class _Candidates:
    """The `keep` best scores of each query so far, in a buffer twice as wide that is cut back when full."""

    def __init__(self, queries: int, keep: int):
        self.keep, self.width = keep, 2 * keep
        self.scores = np.full((queries, self.width), -np.inf, np.float32)
        self.ids = np.full((queries, self.width), -1, np.int32)
        self.count = np.zeros(queries, np.int64)
        self.dropped = np.full(queries, -np.inf, np.float32)  # no row left out had a larger score

    def offer(self, start: int, block: np.ndarray, first: int) -> None:
        """Take scores (m, rows) of the queries from `start` on with the base rows from `first` on."""
        part = slice(start, start + len(block))
        hits = np.flatnonzero(block > self.dropped[part, None])
        if not len(hits):
            return
        row, column = np.divmod(hits, block.shape[1])
        added = np.bincount(row, minlength=len(block))
        crowded = self.count[part] + added > self.width
        if crowded.any():  # in the first tiles, and when the base happens to come farthest first
            self._cut_back(np.flatnonzero(crowded) + start, block[crowded], first)
            stays = ~crowded[row]
            hits, row, column = hits[stays], row[stays], column[stays]
            added[crowded] = 0
        slot = np.arange(len(hits)) + (self.count[part] - np.cumsum(added) + added)[row]
        self.scores[row + start, slot] = block.ravel()[hits]
        self.ids[row + start, slot] = column + first
        self.count[part] += added
        filled = np.flatnonzero(self.count[part] > self.width - self.keep // 4)
        if len(filled):
            self._cut_back(filled + start)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ids (q, keep), -1 where there are fewer, and the bound on all scores left out, (q,)."""
        self._cut_back(np.flatnonzero(self.count > self.keep))
        return self.ids[:, : self.keep], self.dropped

    def _cut_back(self, rows: np.ndarray, block: np.ndarray | None = None, first: int = 0) -> None:
        """Keep the best of what the rows hold, and of the scores in `block` if it is given."""
        width = self.width + (0 if block is None else block.shape[1])
        step = max(1, (1 << 19) // width)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            scores = self.scores[part]
            if block is not None:
                scores = np.concatenate([scores, block[start : start + step]], axis=1)
            best = np.argpartition(scores, width - self.keep, axis=1)[:, -self.keep :]
            held = np.take_along_axis(self.ids[part], np.minimum(best, self.width - 1), 1)
            self.ids[part, : self.keep] = np.where(best < self.width, held, best - self.width + first)
            scores = np.take_along_axis(scores, best, 1)
            self.scores[part, : self.keep] = scores
            self.scores[part, self.keep :] = -np.inf
            self.count[part] = self.keep
            self.dropped[part] = scores.min(axis=1)


def _scan(base, queries, scores, cut, depth, work) -> tuple[np.ndarray, np.ndarray]:
    """Ids and distances, (q, depth), from a float64 evaluation of every row that `cut` does not rule out."""
    coded, wide = scores.queries(queries), queries.astype(np.float64)
    best = _Sorted(len(queries), depth)
    step = max(1, PAIR_ELEMENTS // base.shape[1])
    for first, tile, _ in scores.tiles(base):
        for start, block in _products(coded, tile):
            hits = np.flatnonzero(~(block < cut[start : start + len(block), None]))  # NaN is a hit
            for at in range(0, len(hits), step):
                row, column = np.divmod(hits[at : at + step], len(tile))
                row, column = row + start, column + first
                vectors = base.take(column, axis=0).astype(np.float64)
                best.offer(row, column, row_distances(vectors, wide[row], scores.distance))
        work.add(done=len(queries) * len(tile))
    return best.result()


class _Sorted:
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
