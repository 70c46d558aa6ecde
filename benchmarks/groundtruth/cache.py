"""Ground truth on disk, under a key made of all that decides it: base, queries, distance and depth."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data.prepare import Dataset
from benchmarks.errors import UserError
from benchmarks.groundtruth.checkpoint import Checkpoint
from benchmarks.groundtruth.cluster import cluster_neighbors
from benchmarks.groundtruth.difficulty import Difficulty, measure, read_difficulty, write_difficulty
from benchmarks.groundtruth.exact import Truth, exact_truths
from benchmarks.groundtruth.search import State
from benchmarks.groundtruth.store import read_arrays, write_arrays
from benchmarks.progress import Progress, Task

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
        UserError: a file changed or was cut meanwhile, the cached one cannot be replaced, or the cluster fails.
    """
    return ground_truths(dataset, [dataset.distance], [k], data_dir, threads, progress, scheduler)[dataset.distance, k]


def ground_truths(
    dataset: Dataset,
    distances: Sequence[str],
    ks: Sequence[int],
    data_dir: Path,
    threads: int,
    progress: Progress,
    scheduler: str | None = None,
) -> dict[tuple[str, int], GroundTruth]:
    """`ground_truth` for several distances and K in one pass over the base, by distance and K.

    What is not cached is searched for once, to the largest depth that is wanted; smaller ones are the first columns.
    """
    wanted = {(d, k): dataset.model_copy(update={"distance": d}) for d in distances for k in ks}
    found = {(d, k): _cached(data, depth_for(k, data.n), data_dir) for (d, k), data in wanted.items()}
    missing = {d: data for (d, k), data in wanted.items() if found[d, k] is None}
    if missing:
        depth = max(depth_for(k, dataset.n) for (_, k), truth in found.items() if truth is None)
        with progress.task(f"exact ground truth of {dataset.name}", None) as task:
            truths = _computed(list(missing.values()), depth, data_dir, threads, progress, task, scheduler)
        dataset.require_unchanged()
        for (d, k), truth in found.items():
            if truth is None:
                found[d, k] = _stored(wanted[d, k], truths[d], depth_for(k, dataset.n), data_dir)
                query_difficulty(wanted[d, k], found[d, k], threads)
        _checkpoint(list(missing.values()), depth, data_dir).remove()
    return found


def _computed(
    datasets: list[Dataset],
    depth: int,
    data_dir: Path,
    threads: int,
    progress: Progress,
    task: Task,
    scheduler: str | None,
) -> dict[str, Truth]:
    """The truth of data sets that differ in their distance alone, by distance."""
    dataset, distances = datasets[0], [data.distance for data in datasets]
    vectors = dataset.base, dataset.queries
    if scheduler:
        return {d: cluster_neighbors(scheduler, *vectors, d, depth, progress=task.update) for d in distances}
    checkpoint = _checkpoint(datasets, depth, data_dir)

    def resume(state: State) -> None:
        if checkpoint.load(state):
            progress.console.print(
                f"exact ground truth of {dataset.name}: {state.done.mean():.0%} is done already", highlight=False
            )

    def save(state: State) -> None:
        dataset.require_unchanged()
        try:
            checkpoint.save(state)
        except OSError:
            pass  # the search itself needs no disk

    return exact_truths(*vectors, distances, depth, threads=threads, progress=task.update, resume=resume, save=save)


def _checkpoint(datasets: list[Dataset], depth: int, data_dir: Path) -> Checkpoint:
    keys = " ".join(truth_key(data, depth) for data in datasets)
    key = keys if len(datasets) == 1 else hashlib.sha256(keys.encode()).hexdigest()[:16]
    return Checkpoint(data_dir / "truth" / f"{key}.checkpoint", keys)


def _facts(dataset: Dataset) -> dict[str, str]:
    return {
        "dataset": dataset.name,
        "distance": dataset.distance,
        "base_sha256": dataset.base_check.sha256,
        "queries_sha256": dataset.queries_check.sha256,
    }


def _path(key: str, data_dir: Path) -> Path:
    return data_dir / "truth" / f"{key}.hdf5"


def _cached(dataset: Dataset, depth: int, data_dir: Path) -> GroundTruth | None:
    """What is on disk; None if that is nothing, or damaged."""
    key = truth_key(dataset, depth)
    path = _path(key, data_dir)
    try:
        return read_truth(path, key, (dataset.nq, depth), _facts(dataset)) if path.is_file() else None
    except UserError:
        return None


def _stored(dataset: Dataset, truth: Truth, depth: int, data_dir: Path) -> GroundTruth:
    key = truth_key(dataset, depth)
    path, neighbors, distances = _path(key, data_dir), truth.neighbors[:, :depth], truth.distances[:, :depth]
    write_truth(path, neighbors, distances, {**_facts(dataset), "widened": truth.widened})
    return GroundTruth(key, path, neighbors, distances)


def write_truth(path: Path, neighbors: np.ndarray, distances: np.ndarray, facts: dict) -> None:
    """HDF5 with `neighbors` and `distances`, whole or not at all.

    Distances are those of `benchmarks.groundtruth.distances`: squared for l2, the negative product for ip, 1 - cosine.
    """
    write_arrays(path, {"neighbors": neighbors, "distances": distances}, facts)


def read_truth(path: Path, key: str, shape: tuple[int, int], facts: dict) -> GroundTruth:
    """What `write_truth` wrote, if it is that of these facts.

    Raises:
        UserError: the file is something else, of something else, or damaged.
    """
    facts = {name: facts[name] for name in ("distance", "base_sha256", "queries_sha256")}
    neighbors, distances = read_arrays(path, ("neighbors", "distances"), facts)
    if neighbors.shape != shape or distances.shape != shape:
        raise UserError(f"{path}: holds {neighbors.shape} neighbours, {shape} are needed")
    return GroundTruth(key, path, neighbors, distances)


def query_difficulty(dataset: Dataset, truth: GroundTruth, threads: int) -> Difficulty:
    """How hard the queries are; read from beside the truth, or measured and put there.

    Raises:
        UserError: a file changed or was cut meanwhile.
    """
    path, facts = truth.path.with_suffix(".difficulty.hdf5"), {**_facts(dataset), "truth": truth.key}
    del facts["dataset"]
    if path.is_file():
        try:
            return read_difficulty(path, dataset.nq, facts)
        except UserError:
            pass  # damaged: measured again
    difficulty = measure(dataset.base, dataset.queries, dataset.distance, truth.distances, threads=threads)
    dataset.require_unchanged()
    write_difficulty(path, difficulty, dataset.distance, truth.distances, facts)
    return difficulty
