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

from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth.kernels import centred, gathered, normalised, norms
from benchmarks.groundtruth.rows import Rows, as_rows

DISTANCES = ("l2", "ip", "cosine")
BLOCK_ELEMENTS = 1 << 16  # vector components a thread works on at a time: half a megabyte of float64
CENTRE_ROWS = 256  # rows whose median is the centre


def exact_distances(
    base: np.ndarray | VectorFile | Rows, queries: np.ndarray, ids: np.ndarray, distance: str, *, threads: int = 1
) -> np.ndarray:
    """Return the distance of each query to the base rows that `ids` names for it.

    base (n, d) and queries (nq, d) are float32, uint8 or int8 arrays or memory maps, base may be a file; ids
    (nq, k) are integers in [-1, n). The result is float64 (nq, k), +inf where an id is -1. Each thread needs about
    a megabyte (some rows, if a row is larger). Raises ValueError for an unknown distance, for shapes that
    do not fit, and for an id outside [-1, n); UserError for a file that was cut short.
    """
    base, queries, ids = as_rows(base), np.asarray(queries), np.asarray(ids)
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
            wide = queries[block].astype(np.float64)
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


def _gathered(base: Rows, wide: np.ndarray, ids: np.ndarray, distance: str) -> np.ndarray:
    """Distances of the block; an id of -1 reads row 0, to be overwritten by the caller."""
    if distance == "cosine":
        rows = base.take(ids.ravel()).astype(np.float64)
        return row_distances(rows.reshape(*ids.shape, base.shape[1]), wide[:, None], distance)
    terms = np.empty((*ids.shape, base.shape[1]))
    gathered(base.mapped(), ids, wide, distance == "l2", terms)
    return terms.sum(axis=-1) if distance == "l2" else 0.0 - terms.sum(axis=-1)


class Scores:
    """Float32 scores, larger is nearer: a product, plus a term of the row times a factor of the query.

    With centre c, a = q - c and b = x - c, the exact score is s = a.b - |b|^2 / 2 for l2, where the distance
    is |a|^2 - 2 s; the same for cosine on normalised vectors, whose distance is |a|^2 / 2 - s, if a zero row
    gets (1 + |c|^2) / 2 in place of |b|^2 / 2; and s = q.b for ip, where it is -s - q.c.

    The computed score t is made optimistic. Let u = 2^-24 and g = m u / (1 - m u), m = d + 8. Rounding a and
    b to float32 and adding d + 1 products in any order errs by at most g (|a||b| + w), w being the size of
    the added term. For l2 and cosine w = (1 - 4 g) |b|^2 / 2, itself computed with an error of g, gives
    s <= t + g (|a||b| - |b|^2 / 2), at most t + g r (|a| - r / 2) with r = min(|a|, R), R the largest |b|.
    For ip the added term is 2 g |q||b| and s <= t. Underflow adds 8 m 2^-126 (1 + |a| + R) at most.

    If both sides are integers and d is not too large, the sums are multiples of 1/2 below 2^23 (of 1 below 2^24 for
    ip): t = s then, in any order, and `exact` says so.
    """

    def __init__(self, base: Rows, queries: Rows, distance: str):
        dimension = base.shape[1]
        margin = dimension + 8
        self.distance = distance
        self.error = margin * 2.0**-24 / (1 - margin * 2.0**-24)
        self.tiny = 8 * margin * 2.0**-126  # more than can be lost where squares underflow
        self.wide = 8 * margin * 2.0**-53  # covers the float64 arithmetic, here and above, twice
        centre = 128 if base.dtype == np.uint8 else 0
        self.exact = distance != "cosine" and _small_integers(base.dtype, queries.dtype, centre, distance, dimension)
        self.as_is = False  # rows are float32, not far from the origin, and multiplied as they are
        if self.exact:
            self.error = self.tiny = self.wide = 0.0
            self.centre = np.full(dimension, centre, np.float32)
        else:
            # The median of some rows: unlike the mean it stays with the bulk if there are huge outliers.
            sample = self._wide(base.take(spread(range(len(base)), CENTRE_ROWS)))
            self.centre = np.median(sample, axis=0).astype(np.float32)
            if base.dtype.kind in "iu" and distance != "cosine":
                self.centre = np.rint(self.centre)  # differences of integers are then exact
            if base.dtype == np.float32 and distance != "cosine":
                from_origin, from_centre = (
                    np.median(np.linalg.norm(x, axis=1)) for x in (sample, sample - self.centre)
                )
                self.as_is = bool(from_origin <= 2 * from_centre)
        if self.as_is:
            self.centre[:] = 0
        self.wide_centre = self.centre.astype(np.float64)
        with np.errstate(all="ignore"):
            _, _, self.usual = self.encode(base.take(spread(range(len(base)), CENTRE_ROWS)))  # |b| of most rows

    def tiles(self, base: Rows, rows: range, size: int) -> Iterator[tuple[int, np.ndarray, np.ndarray, float]]:
        """Yield the first id and what `encode` returns, in reused buffers, over consecutive rows."""
        terms = np.empty(size, np.float32)
        coded = None if self.as_is else np.empty((size, base.shape[1]), np.float32)
        for first, block in base.blocks(rows, size):
            yield first, *self.encode(block, coded, terms)

    def encode(
        self, block: np.ndarray, coded: np.ndarray | None = None, terms: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return b as float32 (m, d), the terms (m,) and the largest |b|; the arguments are buffers to use."""
        terms = np.empty(len(block), np.float32) if terms is None else terms[: len(block)]
        if self.as_is:
            coded = block
            norms(block, terms)
        else:
            coded = np.empty(block.shape, np.float32) if coded is None else coded[: len(block)]
            self._centred(block, coded, terms)
        terms += np.float32(self.tiny)
        if self.distance == "cosine":
            zero = np.isnan(terms)
            terms[zero] = 1 + self.wide_centre @ self.wide_centre  # not less than their |b|^2
        largest = float(np.sqrt(terms.max())) * (1 + self.error)
        if self.distance == "ip":
            np.sqrt(terms, out=terms)
        else:
            terms *= np.float32((1 - 4 * self.error) / -2)
        return coded, terms, largest

    def queries(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a (q for ip) as float32 (q, d), and the factors (q,)."""
        if self.distance == "ip":
            return queries.astype(np.float32, copy=False), (2 * self.error * np.sqrt(self._squares(queries))).astype(
                np.float32
            )
        factors = np.ones(len(queries), np.float32)
        if self.as_is and queries.dtype == np.float32:
            return queries, factors
        coded = np.empty(queries.shape, np.float32)
        self._centred(queries, coded, np.empty_like(factors))
        return coded, factors

    def cut(self, queries: np.ndarray, kth: np.ndarray, largest: float) -> np.ndarray:
        """Return float32 (q,): a row with a score below it is, in float64, farther than distance `kth`.

        If scores are `exact`, this is the score of that distance. -inf, which nothing is below, where nothing can be
        proved.
        """
        squares = self._squares(queries)
        norms = np.sqrt(squares)
        tiny = self.tiny * (1 + norms + largest)
        if self.distance == "ip":
            centre = self.wide_centre
            cut = -kth - np.einsum("ij,j->i", queries, centre, dtype=np.float64)
            cut -= self.wide * norms * (largest + np.sqrt(centre @ centre)) + tiny
        else:
            radius = np.minimum(norms, largest)
            scale = 2 if self.distance == "cosine" else 1
            cut = (squares * (1 - self.wide) - scale * kth * (1 + self.wide)) / 2 - tiny
            cut -= self.error * (1 + self.wide) * radius * (norms - radius / 2)
            if self.distance == "cosine":
                cut -= 4 * self.wide
        cut[~((norms + largest) < 2.0**60)] = -np.inf  # so that no product or sum can overflow
        cut[np.isnan(cut)] = -np.inf
        cut = cut.astype(np.float32)
        return cut if self.exact else np.nextafter(cut, np.float32(-np.inf))

    def _centred(self, vectors: np.ndarray, out: np.ndarray, squares: np.ndarray) -> None:
        if self.distance == "cosine":
            normalised(vectors, self.wide_centre, out, squares)
        else:
            centred(vectors, self.centre, out, squares)

    def _squares(self, queries: np.ndarray) -> np.ndarray:
        """Float64 |a|^2, (q,): |q|^2 for ip."""
        squares = np.empty(len(queries))
        step = max(1, BLOCK_ELEMENTS // queries.shape[1])
        for start in range(0, len(queries), step):
            wide = self._wide(queries[start : start + step])
            if self.distance != "ip":
                wide -= self.wide_centre
            squares[start : start + step] = np.einsum("ij,ij->i", wide, wide)
        return squares

    def _wide(self, vectors: np.ndarray) -> np.ndarray:
        """In float64, for cosine divided by their norms; zero rows stay zero."""
        wide = vectors.astype(np.float64)
        if self.distance == "cosine":
            norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            norms[norms == 0] = 1
            wide /= norms[:, None]
        return wide


def spread(rows: range, count: int) -> np.ndarray:
    """Up to `count` ids, evenly spread over `rows`."""
    return np.arange(rows.start, rows.stop, max(1, -(-len(rows) // count)))


def _small_integers(base: np.dtype, queries: np.dtype, centre: int, distance: str, dimension: int) -> bool:
    """Whether all sums of `Scores` are exact because the values are integers that are small enough."""
    if base.kind not in "iu" or queries.kind not in "iu":
        return False
    row = _reach(base, centre)
    if distance == "ip":
        return dimension * row * _reach(queries, 0) <= 2**24
    return dimension * row * (_reach(queries, centre) + row / 2) <= 2**23


def _reach(dtype: np.dtype, centre: int) -> int:
    """The largest difference of an integer of that dtype from the centre."""
    return max(abs(np.iinfo(dtype).min - centre), abs(np.iinfo(dtype).max - centre))
