"""Exact nearest neighbours: a float32 pass that proves itself, and a float64 one where it cannot.

1. Search: every product of a query and a row, in one-thread sgemm on tiles. `depth` + `SLACK` candidates a query stay.
   The work is cut into parts, some rows for some queries; a thread does one at a time, and what they know of the worst
   candidates they share.
2. Settle: the candidates are re-ranked in float64. The first `depth` are accepted if a bound on the float32 rounding
   error proves that no other row reaches or ties with them.
3. Scan: for the remaining queries the base is read again. Every row that the same bound cannot rule out is evaluated
   in float64.

Whatever the threads, parts, tiles and shards, the result is the same to the bit: the best by (float64 distance, id).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from time import monotonic

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth.distances import Scores, check_distance, exact_distances
from benchmarks.groundtruth.rows import Rows, as_rows
from benchmarks.groundtruth.scan import scan
from benchmarks.groundtruth.search import BLOCK_QUERIES, Search, State, good_steps

SLACK = 28  # candidates beyond depth: what lets the proof succeed although float32 swaps near neighbours
SETTLE_QUERIES = 256  # that are re-ranked together
DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True)
class Truth:
    """The exact neighbours of each query: nearest first, equal distances by the lower id."""

    neighbors: np.ndarray  # int32 (nq, depth)
    distances: np.ndarray  # float64 (nq, depth), as benchmarks.groundtruth.distances defines them
    scanned: np.ndarray  # bool (nq,): float32 could not settle the query, the base was read again in float64

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
    files, which are read in blocks. `rows` (default: all; step 1) are those that count; ids are those of the base all
    the same, so that `merge` of the truths of shards is the truth of the whole. `progress(done, total)` is called in
    the caller's thread, up to five times a second, in comparisons of a query with a row; total grows by those of the
    queries that are scanned again. Memory beyond the inputs and the result is 20 nq (depth + 28) bytes and about
    20 MiB a thread, whatever n.

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
    resume: Callable[[State], None] | None = None,
    save: Callable[[State], None] | None = None,
    save_seconds: float = 60,
) -> dict[str, Truth]:
    """`exact_neighbors` for several distances in one pass over the base: they take turns on some rows at a time.

    `resume` may fill in the state from which the search goes on; `save` is given it every `save_seconds` and on Ctrl-C,
    while nobody else touches it. Both are called in the caller's thread.
    """
    base, queries = as_rows(base), as_rows(queries)
    rows = range(len(base)) if rows is None else rows
    _check(base, queries, distances, depth, rows, threads)
    depth, keep = min(depth, len(rows)), min(depth, len(rows)) + SLACK
    steps = good_steps(base, queries, rows, len(distances), keep, threads)
    state = State(rows, (len(distances), len(queries), keep), steps)
    if resume is not None:
        resume(state)
    scores = [Scores(base, queries, distance) for distance in distances]
    # Threads with a BLAS thread each: no barriers, so a busy neighbour costs only its own share.
    with threadpool_limits(1, user_api="blas"), _Work(threads, progress) as work:
        parts = state.parts()
        work.total = sum(len(part.rows) * (part.queries.stop - part.queries.start) for part in parts)
        search = Search(base, queries, scores, state, work.report)
        try:
            work.run(search.do, parts, save and (lambda: _saved(state, save)), save_seconds)
        except KeyboardInterrupt:
            if save is not None and state.done.any():
                _saved(state, save)
            raise
        settle = _Settle(base, queries, scores, state, depth, work)
        work.run(settle.rank, settle.slices())
        work.run(settle.scan, settle.unsettled())
        work.tell()
    return {distance: settle.truth(number) for number, distance in enumerate(distances)}


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


def _saved(state: State, save: Callable[[State], None]) -> None:
    with state.lock:
        save(state)


class _Work:
    """Threads, and what they share with the caller: progress one way, the wish to stop the other."""

    def __init__(self, threads: int, progress: Callable[[int, int], None] | None):
        self.pool, self.progress = ThreadPoolExecutor(threads), progress
        self.done, self.total, self.stopped, self.lock = 0, 0, False, Lock()

    def __enter__(self) -> "_Work":
        return self

    def __exit__(self, *error) -> None:
        self.stopped = True
        self.pool.shutdown(cancel_futures=True)

    def report(self, done: int) -> None:
        """Count, and stop if that is wanted."""
        with self.lock:
            self.done += done
        if self.stopped:
            raise CancelledError

    def run(self, task: Callable, items: Iterable, save: Callable[[], None] | None = None, seconds: float = 0) -> None:
        """Do the task for each item, telling of progress and saving now and then."""
        pending, saved = [self.pool.submit(_quietly, task, item) for item in items], monotonic()
        while pending:
            ended, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
            self.tell()
            if save is not None and pending and monotonic() - saved >= seconds:
                save()
                saved = monotonic()

    def tell(self) -> None:
        if self.progress is not None:
            self.progress(self.done, self.total)


def _quietly(task: Callable, item) -> None:
    with np.errstate(all="ignore"):  # float32 may overflow: the bound then accepts nothing
        task(item)


class _Settle:
    """From candidates to the truth."""

    def __init__(self, base: Rows, queries: Rows, scores: list[Scores], state: State, depth: int, work: _Work):
        self.base, self.queries, self.scores, self.state, self.work = base, queries, scores, state, work
        shape = (len(scores), len(queries), depth)
        self.ids, self.near = np.empty(shape, np.int32), np.empty(shape)
        self.unsure, self.cut = np.zeros(shape[:2], bool), np.empty(shape[:2], np.float32)
        self.lock = Lock()

    def slices(self) -> list[tuple[int, slice]]:
        starts = range(0, len(self.queries), SETTLE_QUERIES)
        return [(number, slice(i, i + SETTLE_QUERIES)) for number in range(len(self.scores)) for i in starts]

    def rank(self, item: tuple[int, slice]) -> None:
        """Re-rank the candidates of some queries in float64, and see whether they are proved."""
        number, some = item
        scores, depth = self.scores[number], self.ids.shape[2]
        queries = self.queries.read(range(*some.indices(len(self.queries))))
        candidates = np.sort(self.state.ids[item], axis=1)[:, ::-1]
        near = exact_distances(self.base, queries, candidates, scores.distance)
        self.ids[item], self.near[item] = _merged(candidates[:, :0], near[:, :0], candidates, near, depth)
        self.cut[item] = scores.cut(queries, self.near[item][:, -1], self.state.largest[number])
        # Of exact scores no proof is needed, if there are enough.
        proved = np.isfinite(self.near[item][:, -1]) if scores.exact else self.state.dropped[item] < self.cut[item]
        self.unsure[item] = ~proved
        if scores.distance == "cosine":  # everything is at distance 1 from a zero query
            zero = ~queries.any(axis=1)
            self.ids[item][zero] = self.state.rows[:depth]
            self.near[item][zero] = 1.0
            self.unsure[item][zero] = False
        self.work.report(0)

    def unsettled(self) -> list[tuple[int, np.ndarray, range]]:
        """What to scan: parts of the base for some of the queries that are not settled."""
        items = []
        for number in range(len(self.scores)):
            which = np.flatnonzero(self.unsure[number])
            self.ids[number, which], self.near[number, which] = -1, np.inf
            self.work.total += len(which) * len(self.state.rows)
            groups = [which[start : start + BLOCK_QUERIES] for start in range(0, len(which), BLOCK_QUERIES)]
            items += [(number, group, leg) for leg in self.state.legs() for group in groups]
        return items

    def scan(self, item: tuple[int, np.ndarray, range]) -> None:
        """Find the nearest of some rows in float64."""
        number, which, rows = item
        queries, cut = self.queries.take(which), self.cut[number, which]
        depth = self.ids.shape[2]
        found = scan(self.base, rows, queries, self.scores[number], cut, min(depth, len(rows)), self.work.report)
        with self.lock:
            before = self.ids[number, which], self.near[number, which]
            self.ids[number, which], self.near[number, which] = _merged(*before, *found, depth)

    def truth(self, number: int) -> Truth:
        return Truth(self.ids[number], self.near[number], self.unsure[number])
