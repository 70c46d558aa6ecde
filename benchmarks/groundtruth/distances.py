"""Exact distances in float64, and float32 scores with a proof of how far off they can be.

A *distance* is a float64 number and smaller is nearer, for every name in `DISTANCES`:

- `l2`: the squared Euclidean distance, from differences (never from the expansion |x|^2 - 2 x.q + |q|^2);
- `ip`: the negative inner product;
- `cosine`: 1 - the cosine similarity, from 0 to 2. A zero vector has similarity 0 with everything: its
  distance is exactly 1.

Equal rows have bit-identical distances wherever they stand: each row is an elementwise product summed over
its own contiguous last axis, an order of additions that depends on the dimension alone. BLAS does not
promise that, which is why it is not used here.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

DISTANCES = ("l2", "ip", "cosine")
TILE_ROWS, TILE_ELEMENTS = 1024, 1 << 20  # rows and components of a tile of the base, at most
BLOCK_ELEMENTS = 1 << 16  # vector components a thread works on at a time: half a megabyte of float64


def exact_distances(
    base: np.ndarray, queries: np.ndarray, ids: np.ndarray, distance: str, *, threads: int = 1
) -> np.ndarray:
    """Return the distance of each query to the base rows that `ids` names for it.

    base (n, d) and queries (nq, d) are float32, uint8 or int8 arrays or memory maps; ids (nq, k) are
    integers in [-1, n). The result is float64 (nq, k), +inf where an id is -1. Each thread needs about
    a megabyte (some rows, if a row is larger). Raises ValueError for an unknown distance, for shapes that
    do not fit, and for an id outside [-1, n).
    """
    base, queries, ids = np.asarray(base), np.asarray(queries), np.asarray(ids)
    check_distance(distance)
    if base.ndim != 2 or queries.ndim != 2 or base.shape[1] != queries.shape[1]:
        raise ValueError(f"base {base.shape} and queries {queries.shape} do not have the same dimension")
    if ids.ndim != 2 or len(ids) != len(queries):
        raise ValueError(f"ids {ids.shape} do not have one row for each of {len(queries)} queries")
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"ids are {ids.dtype}, not integers")
    result = np.full(ids.shape, np.inf)
    if ids.size == 0:
        return result
    if ids.min() < -1 or ids.max() >= len(base):
        raise ValueError(f"ids from {ids.min()} to {ids.max()} do not fit a base of {len(base)} rows")
    if len(base) == 0:
        return result

    columns = max(1, min(ids.shape[1], BLOCK_ELEMENTS // max(1, base.shape[1])))
    rows = max(1, BLOCK_ELEMENTS // max(1, columns * base.shape[1]))
    starts = range(0, len(ids), rows)

    def fill(part: range) -> None:
        for start in part:
            block = slice(start, start + rows)
            wide = queries[block].astype(np.float64)[:, None, :]
            for left in range(0, ids.shape[1], columns):
                cell = (block, slice(left, left + columns))
                result[cell] = _gathered(base, wide, ids[cell], distance)

    if threads <= 1 or len(starts) == 1:
        fill(starts)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, [starts[i::threads] for i in range(threads)]))
    result[ids == -1] = np.inf
    return result


def row_distances(rows: np.ndarray, queries: np.ndarray, distance: str) -> np.ndarray:
    """Return the distances of float64 rows (..., d) to float64 queries that broadcast against them.

    The result is float64 (...). `rows` must be C-contiguous; it is used as scratch and its content is lost.
    """
    if distance == "l2":
        rows -= queries
        rows *= rows
        return rows.sum(axis=-1)
    if distance == "ip":
        rows *= queries
        return 0.0 - rows.sum(axis=-1)  # not -sum: no negative zeros
    squares = np.square(rows).sum(axis=-1) * np.square(queries).sum(axis=-1)
    rows *= queries
    products = rows.sum(axis=-1)
    # The root is taken last: on small integers everything below it is exact, so parallel vectors of
    # different length tie exactly, and a vector is at distance exactly 0 from its copies.
    ratio = np.divide(products * products, squares, out=np.zeros_like(products), where=squares > 0)
    return 1.0 - np.copysign(np.sqrt(np.minimum(ratio, 1.0)), products)


def check_distance(distance: str) -> None:
    """Raise ValueError unless `distance` is one of `DISTANCES`."""
    if distance not in DISTANCES:
        raise ValueError(f"unknown distance {distance!r}, expected one of {', '.join(DISTANCES)}")


def _gathered(base: np.ndarray, wide: np.ndarray, ids: np.ndarray, distance: str) -> np.ndarray:
    """Distances of the block; an id of -1 reads row 0, to be overwritten by the caller."""
    rows = base.take(ids.ravel(), axis=0, mode="clip").astype(np.float64)
    return row_distances(rows.reshape(*ids.shape, base.shape[1]), wide, distance)


class Scores:
    """Float32 scores, larger is nearer, as one product with a column added; and what they prove.

    With centre c, a = q - c and b = x - c, the exact score is s = a.b - |b|^2 / 2 for l2, where the distance
    is |a|^2 - 2 s; the same for cosine on normalised vectors, whose distance is |a|^2 / 2 - s, if a zero row
    gets (1 + |c|^2) / 2 in place of |b|^2 / 2; and s = q.b for ip, where it is -s - q.c.

    The computed score t is made optimistic. Let u = 2^-24 and g = m u / (1 - m u), m = d + 8. Rounding a and
    b to float32 and adding d + 1 products in any order errs by at most g (|a||b| + w), w being the size of
    the added term. For l2 and cosine w = (1 - 4 g) |b|^2 / 2, itself computed with an error of g, gives
    s <= t + g (|a||b| - |b|^2 / 2), at most t + g r (|a| - r / 2) with r = min(|a|, R), R the largest |b|.
    For ip the added term is 2 g |q||b| and s <= t. Underflow adds 8 m 2^-126 (1 + |a| + R) at most.
    """

    def __init__(self, base: np.ndarray, distance: str):
        self.distance = distance
        self.margin = base.shape[1] + 8
        self.error = self.margin * 2.0**-24 / (1 - self.margin * 2.0**-24)
        # The median of some rows: unlike the mean it stays with the bulk if there are huge outliers.
        sample = base[:: -(-len(base) // 1000)].astype(np.float64)
        if distance == "cosine":
            sample = _normalised(sample)
        centre = np.median(sample, axis=0)
        if base.dtype.kind in "iu" and distance != "cosine":
            centre = np.rint(centre)  # differences of integers are then exact
        self.centre = centre.astype(np.float32)
        self.wide_centre = self.centre.astype(np.float64)

    def tiles(self, base: np.ndarray) -> Iterator[tuple[int, np.ndarray, float]]:
        """Yield (first id, float32 rows (m, d + 1) in a reused buffer, the largest |b|) over the base."""
        size = max(1, min(TILE_ROWS, TILE_ELEMENTS // base.shape[1]))
        buffer = np.empty((min(size, len(base)), base.shape[1] + 1), np.float32)
        for first in range(0, len(base), size):
            block = base[first : first + size]
            tile = buffer[: len(block)]
            self._centred(block, tile[:, :-1])
            squares = np.einsum("ij,ij->i", tile[:, :-1], tile[:, :-1])
            squares += self.margin * 2.0**-126  # as much as can be lost where squares underflow
            largest = float(np.sqrt(squares.max())) * (1 + self.error)
            if self.distance == "ip":
                tile[:, -1] = np.sqrt(squares)
            else:
                if self.distance == "cosine":
                    squares[~block.any(axis=1)] = 1 + self.wide_centre @ self.wide_centre
                tile[:, -1] = squares * ((1 - 4 * self.error) / -2)
            yield first, tile, largest

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """Return the queries as float32 (q, d + 1), to be multiplied with the tiles."""
        coded = np.ones((len(queries), queries.shape[1] + 1), np.float32)
        if self.distance == "ip":
            coded[:, :-1] = queries
            coded[:, -1] = 2 * self.error * np.sqrt(self._squares(queries))
        else:
            self._centred(queries, coded[:, :-1])
        return coded

    def cut(self, queries: np.ndarray, kth: np.ndarray, largest: float) -> np.ndarray:
        """Return float32 (q,): a row with a score below it is, in float64, farther than distance `kth`.

        -inf, which nothing is below, where nothing can be proved.
        """
        squares = self._squares(queries)
        norms = np.sqrt(squares)
        wide = 8 * self.margin * 2.0**-53  # covers the float64 arithmetic, here and in distances.py, twice
        tiny = 8 * self.margin * 2.0**-126 * (1 + norms + largest)
        if self.distance == "ip":
            centre = self.wide_centre
            cut = -kth - np.einsum("ij,j->i", queries.astype(np.float64), centre)
            cut -= wide * norms * (largest + np.sqrt(centre @ centre)) + tiny
        else:
            radius = np.minimum(norms, largest)
            scale = 2 if self.distance == "cosine" else 1
            cut = (squares * (1 - wide) - scale * kth * (1 + wide)) / 2 - tiny
            cut -= self.error * (1 + wide) * radius * (norms - radius / 2)
            if self.distance == "cosine":
                cut -= 4 * wide
        cut[~((norms + largest) < 2.0**60)] = -np.inf  # so that no product or sum can overflow
        cut[np.isnan(cut)] = -np.inf
        return np.nextafter(cut.astype(np.float32), np.float32(-np.inf))

    def _centred(self, vectors: np.ndarray, out: np.ndarray) -> None:
        if self.distance == "cosine":
            wide = _normalised(vectors.astype(np.float64))
            np.subtract(wide, self.wide_centre, out=out, casting="same_kind")
        else:
            np.subtract(vectors, self.centre, out=out, dtype=np.float32)

    def _squares(self, queries: np.ndarray) -> np.ndarray:
        """Float64 |a|^2, (q,): |q|^2 for ip."""
        wide = queries.astype(np.float64)
        if self.distance == "cosine":
            wide = _normalised(wide)
        if self.distance != "ip":
            wide -= self.wide_centre
        return np.einsum("ij,ij->i", wide, wide)


def _normalised(vectors: np.ndarray) -> np.ndarray:
    """Divide float64 rows by their norms, in place; zero rows stay zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    norms[norms == 0] = 1
    vectors /= norms[:, None]
    return vectors
