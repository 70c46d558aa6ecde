"""Exact nearest neighbours: a float32 pass that proves itself, and a float64 one where it cannot.

The work is cut into parts, some rows of the base for some of the queries, and each is done by one thread with
one-thread sgemm. A part keeps `depth` + `SLACK` candidates a query, re-ranks them in float64, and accepts the first
`depth` only if a bound on the float32 rounding error proves that no other row of the part reaches or ties with them.
For the remaining queries it reads its rows again, evaluating in float64 every one that the same bound cannot rule out.
What the parts found is merged by (distance, id), so neither their sizes nor their order can be seen in the result.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth.distances import Scores, check_distance, exact_distances, row_distances, spread
from benchmarks.groundtruth.kernels import select
from benchmarks.groundtruth.rows import Rows, as_rows

SLACK = 28  # candidates beyond depth: what lets the proof succeed although float32 swaps near neighbours
TILE_ROWS, BLOCK_QUERIES = 1024, 512  # of the base and of the queries in one sgemm: 2 MiB of scores
PART_BYTES = 4 << 20  # of the queries of a part, and of their candidates, at most
PART_WORK = 1 << 38  # products in a part, at most: some seconds
PART_READS = 1 << 32  # bytes of the base in a part, at most
PARTS, LEAST_ROWS = 4, 1 << 16  # parts a thread, so that one which loses its core is not waited for; unless too small
SAMPLE_ROWS = 2048  # rows that give the first thresholds
PAIR_ELEMENTS = 1 << 16  # components of the (query, row) pairs that the float64 pass evaluates at a time
PENDING_PAIRS = 1 << 17  # pairs that the float64 pass gathers before it sorts them
DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True)
class Truth:
    """The exact neighbours of each query: nearest first, equal distances by the lower id."""

    neighbors: np.ndarray  # int32 (nq, depth)
    distances: np.ndarray  # float64 (nq, depth), as benchmarks.groundtruth.distances defines them
    scanned: np.ndarray  # bool (nq,): float32 could not settle the query, rows were read again in float64

    @property
    def widened(self) -> int:
        """How many queries were scanned in float64."""
        return int(self.scanned.sum())


def exact_neighbors(
    base: np.ndarray | VectorFile,
    queries: np.ndarray | VectorFile,
    distance: str,
    depth: int,
    *,
    rows: range | None = None,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """Return the nearest base rows of each query, `min(depth, rows)` of them, as a float64 brute force would.

    base (n, d) and queries (nq, d) are float32, uint8 or int8, free of NaN and infinity: arrays, memory maps, or
    files, which are read in blocks. `rows` (default: all, step 1) are those that count; ids are those of the base all
    the same, so that `merge` of the truths of shards is the truth of the whole. `progress(done, total)` is called in
    the caller's thread, up to five times a second, in comparisons of a query with a row; total grows by those of the
    queries that are scanned again. Memory beyond the inputs and the result is about 25 MiB a thread, whatever n.

    Raises:
        ValueError: an empty base, empty queries, dimensions or dtypes that do not fit, an unknown distance, rows that
            the base has not, depth or threads below 1.
        UserError: a file was cut short meanwhile.
    """
    return exact_truths(base, queries, (distance,), depth, rows=rows, threads=threads, progress=progress)[distance]


def exact_truths(
    base: np.ndarray | VectorFile,
    queries: np.ndarray | VectorFile,
    distances: Sequence[str],
    depth: int,
    *,
    rows: range | None = None,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    resume: Callable[["State"], None] | None = None,
    save: Callable[["State"], None] | None = None,
    save_seconds: float = 30,
) -> dict[str, Truth]:
    """`exact_neighbors` for several distances in one pass over the base: they take turns on some rows at a time.

    `resume` may fill in the state from which to go on; `save` gets the state every `save_seconds`, which nobody else
    touches meanwhile. Both are called in the caller's thread.
    """
    base, queries = as_rows(base), as_rows(queries)
    rows = range(len(base)) if rows is None else rows
    _check(base, queries, distances, depth, rows, threads)
    state = State.new(base, queries, distances, min(depth, len(rows)), rows, threads)
    if resume is not None:
        resume(state)
    run = _Run(base, queries, state, [Scores(base, queries, distance) for distance in distances])
    # Threads with a BLAS thread each: no barriers, so a busy neighbour costs only its own share.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        try:
            pending = [pool.submit(run.settle, part) for part in state.parts()]
            saved = monotonic()
            while pending:
                ended, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                if progress is not None:
                    progress(run.done, run.total)
                if save is not None and pending and monotonic() - saved >= save_seconds:
                    with state.lock:
                        save(state)
                    saved = monotonic()
        finally:
            run.stopped = True
            pool.shutdown(cancel_futures=True)
    return {
        distance: Truth(*arrays)
        for distance, *arrays in zip(distances, state.ids, state.near, state.scanned, strict=True)
    }


def merge(truths: Sequence[Truth], depth: int) -> Truth:
    """The truth of the union of shards that have no row in common, `depth` at most; bit for bit that of one machine."""
    ids, near = truths[0].neighbors, truths[0].distances
    for truth in truths[1:]:
        ids, near = _merged(ids, near, truth.neighbors, truth.distances, depth)
    return Truth(ids[:, :depth], near[:, :depth], np.logical_or.reduce([truth.scanned for truth in truths]))


def _merged(ids, near, more_ids, more_near, depth: int) -> tuple[np.ndarray, np.ndarray]:
    ids, near = np.concatenate([ids, more_ids], axis=1), np.concatenate([near, more_near], axis=1)
    order = np.lexsort((ids, near), axis=-1)[:, :depth]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(near, order, 1)


def _check(base, queries, distances, depth, rows, threads) -> None:
    for distance in distances:
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
    if not len(rows) or rows.step != 1 or rows.start < 0 or rows.stop > len(base):
        raise ValueError(f"rows {rows.start} to {rows.stop} by {rows.step} are not rows of a base of {len(base)}")
    for name, number in (("depth", depth), ("threads", threads)):
        if number < 1:
            raise ValueError(f"{name} is {number}, expected at least 1")


class Part(NamedTuple):
    """What one thread does at a time."""

    at: tuple[int, int, int]  # where it is in `State.done`
    rows: range
    queries: range


class State:
    """What is known, and from which parts.

    For each of the distances `ids`, `near` (D, nq, depth) and `scanned` (D, nq) are what a `Truth` of the rows that
    are done would hold, -1 and infinity where there are too few; `done` is (steps over the rows, D, steps over the
    queries).
    """

    def __init__(self, rows: range, nq: int, distances: int, depth: int, step_rows: int, step_queries: int):
        self.rows, self.nq, self.step_rows, self.step_queries = rows, nq, step_rows, step_queries
        self.ids = np.full((distances, nq, depth), -1, np.int32)
        self.near = np.full((distances, nq, depth), np.inf)
        self.scanned = np.zeros((distances, nq), bool)
        self.done = np.zeros((-(-len(rows) // step_rows), distances, -(-nq // step_queries)), bool)
        self.lock = Lock()

    @classmethod
    def new(cls, base: Rows, queries: Rows, distances: Sequence[str], depth: int, rows: range, threads: int) -> "State":
        """Nothing is known, and the parts are of a good size."""
        nq, dimension = queries.shape
        most = max(64, min(PART_BYTES // (4 * (dimension + 1)), PART_BYTES // (16 * (depth + SLACK))))
        slices = -(-nq // most)
        step_queries = -(-nq // slices)
        step_rows = min(PART_WORK // (step_queries * dimension), PART_READS // (dimension * base.dtype.itemsize))
        if threads > 1:
            steps = -(-PARTS * threads // (slices * len(distances)))
            step_rows = min(step_rows, max(LEAST_ROWS, -(-len(rows) // steps)))
        steps = -(-len(rows) // max(TILE_ROWS, step_rows))
        return cls(rows, nq, len(distances), depth, -(-len(rows) // steps), step_queries)

    def parts(self) -> list[Part]:
        """What is to be done, in the order of the rows: the base is read once, if the memory holds some of it."""
        rows = [self.rows[start : start + self.step_rows] for start in range(0, len(self.rows), self.step_rows)]
        queries = [range(self.nq)[start : start + self.step_queries] for start in range(0, self.nq, self.step_queries)]
        return [Part((i, j, k), rows[i], queries[k]) for i, j, k in np.argwhere(~self.done).tolist()]


class _Run:
    """What the threads share."""

    def __init__(self, base: Rows, queries: Rows, state: State, scores: list[Scores]):
        self.base, self.queries, self.state, self.scores = base, queries, state, scores
        self.done, self.total = 0, sum(len(part.rows) * len(part.queries) for part in state.parts())
        self.stopped, self.lock = False, Lock()

    def add(self, done: int = 0, total: int = 0) -> None:
        """Report progress, and stop if that is wanted."""
        with self.lock:
            self.done += done
            self.total += total
        if self.stopped:
            raise CancelledError

    def settle(self, part: Part) -> None:
        """Find the exact neighbours among the rows of the part and merge them into the state."""
        _, number, _ = part.at
        state, scores, own = self.state, self.scores[number], slice(part.queries.start, part.queries.stop)
        depth = state.ids.shape[2]
        _, queries = next(self.queries.blocks(part.queries, len(part.queries)))
        with state.lock:
            known = state.near[number, own].copy()
        with np.errstate(all="ignore"):  # float32 may overflow: the bound then accepts nothing
            coded = scores.queries(queries)
            dropped = self._threshold(part, scores, queries, coded, known[:, -1])  # no score left out is larger
            best = np.full((len(queries), depth + SLACK), -np.inf, np.float32)
            ids = np.full(best.shape, -1, np.int32)
            largest = 0.0
            for first, some, products, terms, norm in self._products(scores, part.rows, coded):
                largest = np.maximum(largest, norm)  # a NaN stays, and accepts nothing
                select(products, terms, coded[1][some], first, dropped[some], best[some], ids[some])
            ids = np.sort(ids, axis=1)[:, ::-1][:, : max(1, int((ids >= 0).sum(axis=1).max()))]
            near = exact_distances(self.base, queries, ids, scores.distance)
            ids, near = _merged(ids, near, ids[:, :0], near[:, :0], depth)

            kth = np.partition(np.concatenate([known, near], axis=1), depth - 1, axis=1)[:, depth - 1]
            cut = scores.cut(queries, kth, largest)
            unsure = ~((dropped <= cut) if scores.exact else (dropped < cut))
            zero = ~queries.any(axis=1) & (scores.distance == "cosine")  # everything is at distance 1 from them
            unsure &= ~zero
            if zero.any() or unsure.any():
                ids, near = _wide(ids, near, min(depth, len(part.rows)))
            ids[zero], near[zero] = part.rows[: ids.shape[1]], 1.0
            again = np.flatnonzero(unsure)
            if len(again):
                self.add(total=len(again) * len(part.rows))
                ids[again], near[again] = self._scan(part, scores, queries[again], cut[again], ids.shape[1])
        with state.lock:
            before = state.ids[number, own], state.near[number, own]
            state.ids[number, own], state.near[number, own] = _merged(*before, ids, near, depth)
            state.scanned[number, own] |= unsure
            state.done[part.at] = True

    def _threshold(self, part: Part, scores: Scores, queries: np.ndarray, coded: np.ndarray, kth: np.ndarray):
        """Float32 (q,): scores that are hopeless, by what is known of other parts or by a sample of this one."""
        if np.isfinite(kth).all():
            return np.nextafter(scores.cut(queries, kth, 2 * scores.usual), np.float32(-np.inf))
        keep, threshold = self.state.ids.shape[2] + SLACK, np.full(len(queries), -np.inf, np.float32)
        sample = spread(part.rows, max(1, min(SAMPLE_ROWS, len(part.rows) // 8)))
        if len(sample) > keep:
            vectors, factors = coded
            tile, terms, _ = scores.encode(self.base.take(sample))
            for start in range(0, len(queries), BLOCK_QUERIES):
                some = slice(start, start + BLOCK_QUERIES)
                block = vectors[some] @ tile.T
                block += factors[some, None] * terms
                block.partition(len(sample) - keep, axis=1)
                threshold[some] = block[:, len(sample) - keep]
        return np.nextafter(threshold, np.float32(-np.inf))

    def _scan(self, part: Part, scores: Scores, queries: np.ndarray, cut: np.ndarray, depth: int):
        """Ids and distances, (q, depth), from a float64 evaluation of every row that `cut` does not rule out."""
        coded, wide = scores.queries(queries), queries.astype(np.float64)
        best = _Sorted(len(queries), depth)
        step = max(1, PAIR_ELEMENTS // queries.shape[1])
        for first, some, products, terms, _ in self._products(scores, part.rows, coded):
            hits = np.flatnonzero(~(products + terms[:, None] * coded[1][some] < cut[some]))  # NaN is a hit
            for at in range(0, len(hits), step):
                row, query = np.divmod(hits[at : at + step], products.shape[1])
                row, query = row + first, query + some.start
                vectors = self.base.take(row).astype(np.float64)
                best.offer(query, row, row_distances(vectors, wide[query], scores.distance))
        return best.result()

    def _products(self, scores: Scores, rows: range, coded: tuple[np.ndarray, np.ndarray]) -> Iterator[tuple]:
        """Yield (first id, some queries, float32 products (m, q) in a reused buffer, terms, the largest |b|)."""
        buffer, (vectors, _) = np.empty(TILE_ROWS * BLOCK_QUERIES, np.float32), coded
        for first, tile, terms, largest in scores.tiles(self.base, rows, TILE_ROWS):
            for start in range(0, len(vectors), BLOCK_QUERIES):
                some = slice(start, min(start + BLOCK_QUERIES, len(vectors)))
                products = buffer[: len(tile) * (some.stop - start)].reshape(len(tile), -1)
                yield first, some, np.matmul(tile, vectors[some].T, out=products), terms, largest
                self.add(done=products.size)


def _wide(ids: np.ndarray, near: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """As many columns as `depth`, filled up with nothing."""
    add = ((0, 0), (0, depth - ids.shape[1]))
    return np.pad(ids, add, constant_values=-1), np.pad(near, add, constant_values=np.inf)


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
