"""Ground truth on disk, under a key made of all that decides it: base, queries, distance and depth."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from benchmarks.data.formats import open_hdf5
from benchmarks.data.prepare import Dataset
from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.groundtruth.cluster import cluster_neighbors
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.progress import Progress

LEAST_DEPTH = 100


@dataclass(frozen=True)
class GroundTruth:
    """Exact neighbours of every query: ids int32 and distances float64, both (nq, depth), nearest first."""

    key: str
    path: Path
    neighbors: np.ndarray
    distances: np.ndarray


def depth_for(k: int, n: int) -> int:
    """Twice K, so that ties at rank K are seen, at least 100, at most n."""
    return min(n, max(LEAST_DEPTH, 2 * k))


def truth_key(dataset: Dataset, depth: int) -> str:
    """16 hexadecimal digits."""
    content = f"{dataset.base_check.sha256} {dataset.queries_check.sha256} {dataset.distance} {depth}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def ground_truth(
    dataset: Dataset, k: int, data_dir: Path, threads: int, progress: Progress, scheduler: str | None = None
) -> GroundTruth:
    """Exact ground truth for K = k, computed unless it is cached: here, or by the workers of a Dask scheduler.

    Raises:
        UserError: the cached file is damaged and cannot be replaced, or the cluster fails.
    """
    depth = depth_for(k, dataset.n)
    key = truth_key(dataset, depth)
    path = data_dir / "truth" / f"{key}.hdf5"
    facts = {
        "dataset": dataset.name,
        "distance": dataset.distance,
        "base_sha256": dataset.base_check.sha256,
        "queries_sha256": dataset.queries_check.sha256,
    }
    if path.is_file():
        try:
            return read_truth(path, key, (dataset.nq, depth), facts)
        except UserError:
            pass  # damaged: computed again
    with progress.task(f"exact ground truth of {dataset.name}", None) as task:
        if scheduler:
            vectors = dataset.base, dataset.queries
            truth = cluster_neighbors(scheduler, *vectors, dataset.distance, depth, progress=task.update)
        else:
            vectors = dataset.base.open(), dataset.queries.open()
            truth = exact_neighbors(*vectors, dataset.distance, depth, threads=threads, progress=task.update)
    dataset.require_unchanged()
    write_truth(path, truth.neighbors, truth.distances, {**facts, "widened": truth.widened})
    return GroundTruth(key, path, truth.neighbors, truth.distances)


def write_truth(path: Path, neighbors: np.ndarray, distances: np.ndarray, facts: dict) -> None:
    """HDF5 with `neighbors` and `distances`, whole or not at all.

    Distances are those of `benchmarks.groundtruth.distances`: squared for l2, the negative product for ip, 1 - cosine.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()  # HDF5 can crash the process when a disk is full
    with h5py.File(content, "w") as file:
        file.attrs["sha256"] = _content_hash(neighbors, distances)
        file["neighbors"], file["distances"] = neighbors, distances
        file.attrs.update(facts)
    write_whole(path, content.getbuffer())


def _content_hash(neighbors: np.ndarray, distances: np.ndarray) -> str:
    return hashlib.sha256(
        f"{neighbors.dtype} {distances.dtype}".encode() + neighbors.tobytes() + distances.tobytes()
    ).hexdigest()


def read_truth(path: Path, key: str, shape: tuple[int, int], facts: dict) -> GroundTruth:
    """What `write_truth` wrote, if it is that of these facts.

    Raises:
        UserError: the file is something else, of something else, or damaged.
    """
    with open_hdf5(path) as file:
        try:
            neighbors, distances = file["neighbors"][...], file["distances"][...]
            if file.attrs["sha256"] != _content_hash(neighbors, distances):
                raise KeyError
            if any(file.attrs[name] != facts[name] for name in ("distance", "base_sha256", "queries_sha256")):
                raise KeyError  # the truth of something else under this name
        except (KeyError, OSError, TypeError):
            raise UserError(f"{path}: is not a ground truth file") from None
    if neighbors.shape != shape or distances.shape != shape:
        raise UserError(f"{path}: holds {neighbors.shape} neighbours, {shape} are needed")
    return GroundTruth(key, path, neighbors, distances)
