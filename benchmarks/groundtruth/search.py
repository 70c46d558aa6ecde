"""The float32 pass: the best candidates of every query, and a bound on the scores of all other rows."""

import math
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from benchmarks.groundtruth.distances import Scores
from benchmarks.groundtruth.kernels import merge_heaps, select
from benchmarks.groundtruth.rows import Rows

TILE_ROWS, BLOCK_QUERIES = 1024, 512  # of the base and of the queries in one sgemm: 2 MiB of products
PART_BYTES = 6 << 20  # of the queries of a part, and of their candidates, at most
PART_WORK = 1 << 38  # products in a part, at most: some seconds
PART_READS = 1 << 31  # bytes of the base in a part, at most
PARTS, LEAST_ROWS = 4, 1 << 14  # parts a thread, so that one which loses its core is not waited for; unless too small
SAMPLE_ROWS = 1024  # rows that give the first thresholds


class Part(NamedTuple):
    """What one thread does at a time, for the distance of that number."""

    at: tuple[int, int, int]  # where it is in `State.done`
    number: int
    rows: range
    queries: slice


class State:
    """What is known of the neighbours, and from which parts; all that a pass that was interrupted needs to go on.

    best float32 and ids int32 (D, nq, keep) are heaps of candidates, `dropped` float32 (D, nq) bounds the scores of all
    other rows, and `largest` float64 (D,) is the largest |b|, each of the parts that are `done`, bool (steps over the
    rows, D, steps over the queries).
    """

    def __init__(self, rows: range, shape: tuple[int, int, int], steps: tuple[int, int]):
        distances, nq, _ = shape
        self.rows, self.nq, self.steps = rows, nq, steps
        self.best, self.ids = np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int32)
        self.dropped, self.largest = np.full(shape[:2], -np.inf, np.float32), np.zeros(distances)
        self.done = np.zeros((-(-len(rows) // steps[0]), distances, -(-nq // steps[1])), bool)
        self.lock = Lock()

    def legs(self) -> list[range]:
        """The steps over the rows."""
        return [self.rows[start : start + self.steps[0]] for start in range(0, len(self.rows), self.steps[0])]

    def parts(self) -> list[Part]:
        """What is to be done, in the order of the rows: the base is read once, if the memory holds a step of it."""
        legs, step = self.legs(), self.steps[1]
        return [
            Part((i, j, k), j, legs[i], slice(k * step, min((k + 1) * step, self.nq)))
            for i, j, k in np.argwhere(~self.done).tolist()
        ]


def good_steps(base: Rows, queries: Rows, rows: range, distances: int, keep: int, threads: int) -> tuple[int, int]:
    """How many rows and queries a part should have."""
    nq, dimension = queries.shape
    slices = -(-nq // max(64, PART_BYTES // max(4 * dimension, 8 * keep)))
    step_queries = -(-nq // slices)
    step_rows = min(PART_WORK // (step_queries * dimension), PART_READS // (dimension * base.dtype.itemsize))
    if threads > 1:
        step_rows = min(step_rows, max(LEAST_ROWS, len(rows) * slices * distances // (PARTS * threads)))
    return min(len(rows), max(TILE_ROWS, step_rows)), step_queries


class Search:
    """The pass, and what its threads share."""

    def __init__(
        self, base: Rows, queries: Rows, scores: Sequence[Scores], state: State, report: Callable[[int], None]
    ):
        """`report` is told how many products were formed; what it raises ends the part."""
        self.base, self.queries, self.scores, self.state, self.report = base, queries, scores, state, report
        self.bound = _below(state.best[:, :, 0])  # what is not above it is dropped
        self.lock, self.sampling = Lock(), Lock()

    def do(self, part: Part) -> None:
        """Find the candidates of the part and merge them into the state."""
        scores, own = self.scores[part.number], (part.number, part.queries)
        bound, state = self.bound[own], self.state
        queries = self.queries.read(range(part.queries.start, part.queries.stop))
        vectors, factors = scores.queries(queries)
        with self.sampling:
            if np.isneginf(bound).all():
                bound[:] = self._sampled(scores, vectors, factors)
        best = np.full((len(queries), state.best.shape[2]), -np.inf, np.float32)
        ids = np.full(best.shape, -1, np.int32)
        dropped, largest = bound.copy(), 0.0
        for first, some, block, terms, norm in products(self.base, scores, part.rows, vectors):
            largest = np.maximum(largest, norm)  # a NaN stays, and proves nothing
            select(block, terms, factors[some], first, dropped[some], best[some], ids[some])
            with self.lock:
                # Just below: of rows that tie, another part may have the one with the lower id.
                np.maximum(bound[some], _below(best[some, 0]), out=bound[some])
                np.maximum(bound[some], dropped[some], out=dropped[some])
            self.report(block.size)
        with state.lock:
            merge_heaps(state.best[own], state.ids[own], best, ids)
            # The merge drops candidates too, which may be above all that either side had dropped.
            worst = state.best[own][:, 0]
            state.dropped[own] = np.maximum.reduce([state.dropped[own], dropped, worst])
            state.largest[part.number] = np.maximum(state.largest[part.number], largest)
            state.done[part.at] = True

    def _sampled(self, scores: Scores, vectors: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Float32 (q,): below a score that so many rows of a sample reach that more than are kept will of all.

        Where that is wrong, once in millions of queries, nothing is proved and everything is scanned. -inf where the
        sample is too small.
        """
        bound = np.full(len(vectors), -np.inf, np.float32)
        rows, keep = self.state.rows, self.state.best.shape[2]
        size = min(SAMPLE_ROWS, -(-len(rows) // 8))
        sample = np.unique(np.random.default_rng(0).integers(rows.start, rows.stop, size))
        expected = keep * len(sample) / len(rows)
        drop = len(sample) - math.ceil(min(keep, expected + 6 * math.sqrt(expected) + 8))
        if drop > 0:
            tile, terms, _ = scores.encode(self.base.take(sample))
            for start in range(0, len(vectors), BLOCK_QUERIES):
                some = slice(start, start + BLOCK_QUERIES)
                block = vectors[some] @ tile.T
                block += factors[some, None] * terms
                block.partition(drop, axis=1)
                bound[some] = _below(block[:, drop])
        return bound


def products(base: Rows, scores: Scores, rows: range, vectors: np.ndarray) -> Iterator[tuple]:
    """Yield first id, some of the queries, products (m, q) in a reused buffer, terms (m,), and the largest |b|."""
    buffer = np.empty(TILE_ROWS * BLOCK_QUERIES, np.float32)
    for first, tile, terms, largest in scores.tiles(base, rows, TILE_ROWS):
        for start in range(0, len(vectors), BLOCK_QUERIES):
            some = slice(start, min(start + BLOCK_QUERIES, len(vectors)))
            block = buffer[: len(tile) * (some.stop - start)].reshape(len(tile), -1)
            yield first, some, np.matmul(tile, vectors[some].T, out=block), terms, largest


def _below(scores: np.ndarray) -> np.ndarray:
    return np.nextafter(scores, np.float32(-np.inf))
