"""Ground truth that came with a data set: read, checked against the vectors, and never believed before.

A supplied list of neighbours is right in what it claims if no row outside it is nearer than one inside. That is shown
for a sample of the queries by computing their neighbours anew; everything else is checked for every query.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from benchmarks.cards.datasets import DatasetCard, Source
from benchmarks.data.fetch import fetch, sha256_of
from benchmarks.data.formats import format_of, open_hdf5
from benchmarks.data.prepare import Dataset
from benchmarks.data.rowfiles import ROW_FILES
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.groundtruth.cache import GroundTruth, depth_for, read_truth, truth_key, write_truth
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.groundtruth.rows import as_rows
from benchmarks.metrics.hits import TIE_TOLERANCE
from benchmarks.progress import Progress

SAMPLE, SEED = 100, 0
# What other programs store for a distance of ours, and how far rounding may move it.
CONVENTIONS = {
    "l2": {"squared": lambda near: near, "Euclidean": np.sqrt},
    "ip": {"products": np.negative, "negative products": lambda near: near},
    "cosine": {
        "1 - cosine": lambda near: near,
        "cosines": lambda near: 1 - near,
        "squared, of normalised vectors": lambda near: 2 * near,
        "Euclidean, of normalised vectors": lambda near: np.sqrt(2 * np.maximum(near, 0)),
    },
}
ROUNDING = 1e-3
PREFIX = "supplied-"  # of the keys of such truths
CLEAR = 1e-4  # relative: by so much a list must reach beyond the rank that counts


@dataclass(frozen=True)
class Supplied:
    """Neighbours as a file has them."""

    path: Path
    neighbors: np.ndarray  # integers (nq, width)
    distances: np.ndarray | None  # (nq, width), by whatever convention

    @property
    def width(self) -> int:
        return self.neighbors.shape[1]


def read_supplied(path: Path, source: Source) -> Supplied:
    """Read ids, and distances if there are any.

    An `.ibin` file is uint32 rows, uint32 width, int32 ids and, if its size says so, float32 distances; `.ivecs` has
    ids alone; of an HDF5 file `neighbors` and `distances` are taken, or the ids that the card names as `array`.

    Raises:
        UserError: the file is something else.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    format = source.format or format_of(path)
    if format == "hdf5":
        return _read_hdf5(path, source.array or "neighbors")
    size = path.stat().st_size
    if format == "ivecs":
        try:
            with path.open("rb") as file:
                rows, width = ROW_FILES["ivecs"].shape(file.read(4), size)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None
        records = np.fromfile(path, ROW_FILES["ivecs"].records(width))
        if (records["dimension"] != width).any():
            raise UserError(f"{path}: its rows are not all {width} wide; the file is damaged, or its suffix is wrong")
        return Supplied(path, np.ascontiguousarray(records["row"]), None)
    if format != "ibin":
        raise UserError(f"{path}: is {format}; ground truth is read from ibin, ivecs and hdf5 (`format:` in the card)")
    if size < 8:
        raise UserError(f"{path}: {size} bytes are too few for a header of 8 bytes; the file is truncated")
    rows, width = (int(number) for number in np.fromfile(path, "<u4", 2))
    bare, full = 8 + rows * width * 4, 8 + rows * width * 8
    if size not in (bare, full) or not rows * width:
        raise UserError(
            f"{path}: the header says {rows} queries with {width} neighbours, which takes {bare} bytes, or {full} with "
            f"distances; the file has {size}"
        )
    ids = np.fromfile(path, "<i4", rows * width, offset=8).reshape(rows, width)
    if size == bare:
        return Supplied(path, ids, None)
    near = np.fromfile(path, "<f4", rows * width, offset=bare).reshape(rows, width)
    return Supplied(path, ids, near)


def _read_hdf5(path: Path, array: str) -> Supplied:
    with open_hdf5(path) as file:
        ids, near = file.get(array), file.get("distances") if array == "neighbors" else None
        if not isinstance(ids, h5py.Dataset) or ids.dtype.kind not in "iu" or ids.ndim != 2 or 0 in ids.shape:
            raise UserError(f"{path}: has no matrix of ids '{array}'; it holds {', '.join(file) or 'nothing'}")
        if near is not None and (near.dtype.kind != "f" or near.shape != ids.shape):
            raise UserError(f"{path}: its distances do not belong to its neighbours")
        return Supplied(path, ids[...], None if near is None else near[...])


# --- checks ---------------------------------------------------------------------------------------------------------


def check_supplied(
    supplied: Supplied,
    base: VectorFile,
    queries: VectorFile,
    distance: str,
    k: int,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> list[str]:
    """What is wrong with it, one line each; nothing if it is right as far as can be told.

    Args:
        supplied: what is checked.
        base, queries: free of NaN.
        distance: l2, ip or cosine.
        k: neighbours that are needed.
        threads: for the recomputed sample.
        progress: told of the sample.
    """
    problems = list(_shape_problems(supplied, base.rows, queries.rows, k))
    if not problems:
        problems += _sample_problems(supplied, base, queries, distance, threads, progress or Progress())
    return problems


def _shape_problems(supplied: Supplied, n: int, nq: int, k: int) -> Iterator[str]:
    ids, near = supplied.neighbors, supplied.distances
    if len(ids) != nq:
        yield f"it is for {len(ids)} queries, there are {nq}"
    if supplied.width < min(k, n):
        yield f"it has {supplied.width} neighbours per query, {min(k, n)} are needed"
    if ids.max() >= n:
        yield f"it names row {ids.max()}, the base has {n}: it belongs to a larger base"
    if ids.min() < 0:
        yield f"{int((ids < 0).any(axis=1).sum())} queries lack neighbours (id {ids.min()})"
    ranked = np.sort(ids, axis=1)
    repeated = int((ranked[:, 1:] == ranked[:, :-1]).any(axis=1).sum())
    if repeated:
        yield f"{repeated} queries have a neighbour twice"
    if near is not None:
        if not np.isfinite(near).all():
            yield f"{int((~np.isfinite(near)).any(axis=1).sum())} queries have distances that are not finite"
        else:
            steps = np.diff(near, axis=1)
            falling, rising = (steps <= 0).all(axis=1), (steps >= 0).all(axis=1)
            if not falling.all() and not rising.all():
                either = int((~falling).sum()), int((~rising).sum())
                yield f"{min(either)} queries have distances in no order"


def _sample_problems(supplied, base, queries, distance, threads, progress) -> Iterator[str]:
    chosen = np.sort(np.random.default_rng(SEED).permutation(queries.rows)[:SAMPLE])
    rows = queries.open()[chosen]
    with progress.task(f"recomputing {len(chosen)} rows of {supplied.path.name}", None) as task:
        exact = exact_neighbors(base, rows, distance, supplied.width, threads=threads, progress=task.update)
    near = exact_distances(base, rows, supplied.neighbors[chosen], distance)
    last = exact.distances[:, -1:]
    wrong = (near > last + TIE_TOLERANCE * np.abs(last)).any(axis=1)
    if wrong.any():
        first = chosen[np.argmax(wrong)]
        yield (
            f"{int(wrong.sum())} of {len(chosen)} recomputed queries have other neighbours; the first is query {first}"
        )
    elif (near[:, 0] > near[:, -1]).any():
        yield "its neighbours are sorted farthest first"
    if (
        supplied.distances is not None
        and not wrong.any()
        and convention(supplied.distances[chosen], near, distance) is None
    ):
        yield f"its distances are not the {distance} distances of its neighbours, in no known way of storing them"


def convention(stored: np.ndarray, near: np.ndarray, distance: str) -> str | None:
    """How distances were stored, given what they should be, (queries, width) each; None if in no known way."""
    for name, of in CONVENTIONS[distance].items():
        expected = of(np.maximum(near, 0) if distance == "l2" else near)
        scale = np.abs(expected).max(axis=1, keepdims=True)
        if np.mean(np.abs(stored - expected) <= ROUNDING * scale) > 0.9:  # the rest may be tiny and all rounding error
            return name
    return None


# --- use ------------------------------------------------------------------------------------------------------------


def is_supplied(key: str) -> bool:
    """Whether a truth of this key is one that came with a data set."""
    return key.startswith(PREFIX)


def supplied_truth(
    card: DatasetCard, dataset: Dataset, k: int, data_dir: Path, threads: int, progress: Progress
) -> GroundTruth | str:
    """Ground truth for K = k made of what came with the data set, or why it cannot be.

    All rows are ranked anew by (exact distance, id), so order and ties within a list are ours. What is taken on trust
    is that no row is missing from a list, and only as far as it matters: where a list ends so near to rank K that a
    tie, or the rounding of whoever made it, could have cut it short, the query is computed. The key of such a truth
    begins with `supplied-`, so that results counted against it can be told apart, and are not mixed with others.
    """
    depth = depth_for(k, dataset.n)
    if depth == dataset.n:
        return f"the base has {depth} vectors, which are soon compared"
    try:
        path = fetch(card.truth, card.directory, data_dir.resolve(), progress)
        supplied = read_supplied(path, card.truth)
    except UserError as error:
        return str(error)
    digest = sha256_of(path)
    key = f"{PREFIX}{truth_key(dataset, depth)[:7]}{digest[:8]}"
    target = data_dir / "truth" / f"{key}.hdf5"
    facts = {
        "dataset": dataset.name,
        "distance": dataset.distance,
        "base_sha256": dataset.base_check.sha256,
        "queries_sha256": dataset.queries_check.sha256,
    }
    if target.is_file():
        try:
            return read_truth(target, key, (dataset.nq, depth), facts)
        except UserError:
            pass  # damaged: made again
    problems = check_supplied(
        supplied, dataset.base, dataset.queries, dataset.distance, depth, threads=threads, progress=progress
    )
    if problems:
        return "; ".join(problems)
    neighbors, distances = _ranked(supplied, dataset, depth, threads, progress)
    middle, last = distances[:, depth // 2 - 1], distances[:, -1]
    unclear = np.flatnonzero(last <= middle + CLEAR * np.abs(middle))
    if len(unclear) > dataset.nq // 10:
        return f"{len(unclear)} of its {dataset.nq} lists end within a tie with rank {depth // 2}"
    if len(unclear):
        rows = dataset.queries.open()[unclear]
        exact = exact_neighbors(dataset.base, rows, dataset.distance, depth, threads=threads)
        neighbors[unclear], distances[unclear] = exact.neighbors, exact.distances
    dataset.require_unchanged()
    write_truth(target, neighbors, distances, {**facts, "supplied_sha256": digest, "computed": len(unclear)})
    return GroundTruth(key, target, neighbors, distances)


def _ranked(supplied: Supplied, dataset: Dataset, depth: int, threads: int, progress: Progress):
    """Ids int32 and exact distances, (nq, depth), by (distance, id)."""
    base, queries = as_rows(dataset.base), dataset.queries.open()
    neighbors, distances = np.empty((dataset.nq, depth), np.int32), np.empty((dataset.nq, depth))
    with progress.task(f"ranking the supplied neighbours of {dataset.name}", dataset.nq) as task:
        for start in range(0, dataset.nq, 4096):
            part = slice(start, start + 4096)
            ids = supplied.neighbors[part]
            near = exact_distances(base, queries[part], ids, dataset.distance, threads=threads)
            order = np.lexsort((ids, near), axis=-1)[:, :depth]
            neighbors[part], distances[part] = (np.take_along_axis(item, order, 1) for item in (ids, near))
            task.advance(len(ids))
    return neighbors, distances
