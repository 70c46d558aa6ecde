"""How hard each query is, and whether the queries are like the base; from the ground truth and a sample of the base.

Lengths are those of a metric: Euclidean for l2, and for cosine between normalised vectors. A negative product is none,
as it has no zero to be in proportion to: ratios are NaN for ip.

- `lid`: local intrinsic dimensionality, -1 / mean(ln(r_i / r_k)) over the lengths r_1 to r_k to the k = 100 nearest
  that are not copies (maximum likelihood: Levina and Bickel, NIPS 2004; Amsaleg et al., KDD 2015). NaN where there are
  fewer than two, or all are equal.
- `contrast`: the mean length to the base, of a sample, over that to the nearest (He, Kumar and Chang, ICML 2012). The
  nearer to 1, the harder; infinite if the nearest is a copy, and NaN if all the sample are copies too.
- `margin`: r_(K+1) - r_K, how clear rank K is; of products for ip. NaN where there is no neighbour K + 1.
- `nearest`: the length to the nearest of a sample of the base, and `held_out` that of base vectors which are not in the
  sample. Queries of another distribution are farther from the base than its own vectors are from each other (Chen et
  al., RoarGraph, PVLDB 2024); `out_of_distribution` says how often. For ip it is the largest product of the normalised
  query, negative: the length of a query means nothing there.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.groundtruth.rows import Rows, as_rows
from benchmarks.groundtruth.store import read_arrays, write_arrays

LID_NEIGHBORS = 100
MARGIN_RANKS = (1, 10, 100)
SEED = 20250700
SAMPLE_ROWS, SAMPLE_BYTES = 10_000, 16 << 20  # of the base, at most
HELD_OUT_ROWS = 1000
MEAN_ROWS = 1000  # of the sample, for the mean length
BLOCK_QUERIES = 512


@dataclass(frozen=True)
class Difficulty:
    """Of each query (nq,), float64, but for `held_out`."""

    lid: np.ndarray
    contrast: np.ndarray
    nearest: np.ndarray
    held_out: np.ndarray  # (m,)

    @property
    def out_of_distribution(self) -> float:
        """The chance that a query is farther from the sample than a base vector that is not in it.

        0.5 says that they are alike, and 1 that each query is farther than each vector; ties are half. NaN where the
        base is too small.
        """
        if not len(self.held_out):
            return np.nan
        held_out = np.sort(self.held_out)
        below, up_to = (np.searchsorted(held_out, self.nearest, side) for side in ("left", "right"))
        return float((below + up_to).mean() / 2 / len(held_out))

    def describe(self) -> str:
        """One line, of medians."""
        ratios = [
            f"{name} {np.nanmedian(values):.3g}"
            for name, values in (("LID", self.lid), ("contrast", self.contrast))
            if not np.isnan(values).all()
        ]
        unlike = f"{self.out_of_distribution:.0%} out of distribution (50% is like the base)"
        return "queries: " + ", ".join([*ratios, unlike] if len(self.held_out) else [*ratios, "too small a base"])


def lengths(distances: np.ndarray, distance: str) -> np.ndarray:
    """Distances of a ground truth as those of a metric; for ip as they are."""
    if distance == "ip":
        return distances
    return np.sqrt(distances * (2 if distance == "cosine" else 1))  # |a - b|^2 = 2 - 2 cos for normalised a and b


def lid(distances: np.ndarray, distance: str) -> np.ndarray:
    """`lid` of distances (nq, depth), nearest first."""
    if distance == "ip":
        return np.full(len(distances), np.nan)
    near = lengths(distances[:, :LID_NEIGHBORS], distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.where(near > 0, np.log(near / near[:, -1:]), 0.0)
        estimate = -(near > 0).sum(axis=1) / logarithms.sum(axis=1)
    return np.where(np.isfinite(estimate), estimate, np.nan)


def margin(distances: np.ndarray, distance: str, k: int) -> np.ndarray:
    """`margin` of distances (nq, depth), nearest first."""
    if k >= distances.shape[1]:
        return np.full(len(distances), np.nan)
    here, beyond = (lengths(distances[:, i], distance) for i in (k - 1, k))
    return beyond - here


def measure(
    base: np.ndarray | VectorFile,
    queries: np.ndarray | VectorFile,
    distance: str,
    distances: np.ndarray,
    *,
    threads: int = 1,
) -> Difficulty:
    """Measure the queries (nq, d), of which distances (nq, depth) are those to the nearest of the base (n, d)."""
    base, queries = as_rows(base), as_rows(queries)
    most = min(SAMPLE_ROWS, SAMPLE_BYTES // (base.shape[1] * base.dtype.itemsize))
    held_out = min(HELD_OUT_ROWS, len(base) // 10)
    ids = np.random.default_rng(SEED).choice(len(base), min(len(base), held_out + most), replace=False)
    sample, apart = base.take(np.sort(ids[held_out:])), base.take(np.sort(ids[:held_out]))
    return Difficulty(
        lid=lid(distances, distance),
        contrast=_contrast(sample, queries, distance, distances),
        nearest=_nearest(sample, queries, distance, threads),
        held_out=_nearest(sample, as_rows(apart), distance, threads),
    )


def write_difficulty(path: Path, difficulty: Difficulty, distance: str, distances: np.ndarray, facts: dict) -> None:
    """HDF5 with a data set for each field, and `margin` (nq, ranks) for the ranks K that its attribute `k` names."""
    margins = np.stack([margin(distances, distance, k) for k in MARGIN_RANKS], axis=1)
    write_arrays(path, {**vars(difficulty), "margin": margins}, {**facts, "k": MARGIN_RANKS, "seed": SEED})


def read_difficulty(path: Path, nq: int, facts: dict) -> Difficulty:
    """What `write_difficulty` wrote, if it is that of these facts.

    Raises:
        UserError: the file is something else, of something else, or damaged.
    """
    *fields, _ = read_arrays(path, (*Difficulty.__annotations__, "margin"), {**facts, "seed": SEED})
    if len(fields[0]) != nq:
        raise UserError(f"{path}: is of {len(fields[0])} queries, {nq} are needed")
    return Difficulty(*fields)


def _nearest(sample: np.ndarray, queries: Rows, distance: str, threads: int) -> np.ndarray:
    if not len(queries):
        return np.empty(0)
    found = lengths(exact_neighbors(sample, queries, distance, 1, threads=threads).distances[:, 0], distance)
    if distance == "ip":
        norms = np.concatenate([np.linalg.norm(block, axis=1) for block in _blocks(queries)])
        found = np.divide(found, norms, out=np.zeros_like(found), where=norms > 0)
    return found


def _contrast(sample: np.ndarray, queries: Rows, distance: str, distances: np.ndarray) -> np.ndarray:
    if distance == "ip":
        return np.full(len(queries), np.nan)
    some = sample[np.random.default_rng(SEED).permutation(len(sample))[:MEAN_ROWS]].astype(np.float64)
    some = _normalised(some) if distance == "cosine" else some
    middle = some.mean(axis=0)
    means = []
    for block in _blocks(queries):
        if distance == "cosine":
            squares = 2 - 2 * _normalised(block) @ some.T
        else:  # near the origin, where the expansion of |a - b|^2 cancels little
            a, b = block - middle, some - middle
            squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
        means.append(np.sqrt(np.maximum(squares, 0)).mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate(means) / lengths(distances[:, 0], distance)


def _blocks(rows: Rows):
    """All rows in float64, some at a time."""
    return (block.astype(np.float64) for _, block in rows.blocks(range(len(rows)), BLOCK_QUERIES))


def _normalised(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
