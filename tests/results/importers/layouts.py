"""Result files of other harnesses, from their documented layouts, and what their ids are worth by plain numpy."""

import json
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

NQ, N, K, DIMENSION = 40, 300, 10, 8


def make_vectors(seed: int = 0, n: int = N, nq: int = NQ) -> tuple[np.ndarray, np.ndarray]:
    """Base and queries, float32."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(rows, DIMENSION)).astype(np.float32) for rows in (n, nq))


def all_distances(base, queries, distance: str = "l2") -> np.ndarray:
    """float64 (nq, n), by brute force: squared, negative product or 1 - cosine."""
    base, queries = base.astype(np.float64), queries.astype(np.float64)
    if distance == "l2":
        return ((queries[:, None] - base) ** 2).sum(axis=2)
    products = queries @ base.T
    if distance == "ip":
        return -products
    return 1 - products / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(base, axis=1)


def exact_ids(base, queries, k: int = K, distance: str = "l2") -> np.ndarray:
    """Ids of the k nearest, ties by the lower id."""
    return np.argsort(all_distances(base, queries, distance), axis=1, kind="stable")[:, :k]


def worse_ids(truth: np.ndarray, seed: int = 0, n: int = N, lost: float = 0.3) -> np.ndarray:
    """An answer: some of the truth in another order, some wrong ids, some -1 at the end, some ids twice."""
    rng = np.random.default_rng(seed)
    ids = np.where(rng.random(truth.shape) < lost, rng.integers(0, n, truth.shape), truth).astype(np.int32)
    ids = rng.permuted(ids, axis=1)
    ids[:5, -3:] = -1
    ids[5:8, 1] = ids[5:8, 0]
    ids[8] = -1
    return ids


def numpy_hits(ids, truth) -> np.ndarray:
    """How many different ids of each row are among the truth; -1 is none."""
    pairs = zip(ids.tolist(), truth.tolist(), strict=True)
    return np.array([len((set(row) - {-1}) & set(exact)) for row, exact in pairs])


def numpy_robustness(ids, truth, delta: str, k: int = K) -> float:
    """Share of queries whose recall is at least delta, by fractions."""
    return float(np.mean([Fraction(int(hits), k) >= Fraction(delta) for hits in numpy_hits(ids[:, :k], truth)]))


def told_distances(ids, base, queries, distance: str = "l2", last_row: bool = True) -> np.ndarray:
    """float32, as ann-benchmarks and VIBE compute them: Euclidean; of -1 that of the last row, or infinity."""
    every = all_distances(base, queries, distance)
    found = np.take_along_axis(every, np.clip(ids, -1, len(base) - 1) % len(base), axis=1)
    found = np.sqrt(found) if distance == "l2" else found
    return np.where((ids < 0) & (not last_row), np.inf, found).astype(np.float32)


def make_times(nq: int = NQ, seed: int = 0) -> np.ndarray:
    """Seconds of each query."""
    return np.random.default_rng(seed).lognormal(-7, 0.3, nq).astype(np.float32)


def write_ann(path: Path, ids, distances=None, times=None, *, k: int | None = None, leave_out=(), **attributes) -> Path:
    """ann-benchmarks: everything at the root."""
    times = make_times(len(ids)) if times is None else times
    distances = np.zeros(ids.shape, np.float32) if distances is None else distances
    stated = {
        "batch_mode": False,
        "best_search_time": float(times.mean()) * 0.9,
        "candidates": 10.0,
        "expect_extra": False,
        "name": "hnswlib ({'M': 16, 'efConstruction': 500})",
        "run_count": 5,
        "distance": "euclidean",
        "count": k or ids.shape[1],
        "build_time": 12.5,
        "index_size": 4096.0,
        "algo": "hnswlib",
        "dataset": "tiny",
        "dist_comps": 12345,
    } | attributes
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        _write(file, stated, {"times": times, "neighbors": ids, "distances": distances}, leave_out)
    return path


def write_vibe(path: Path, groups: dict[str, np.ndarray], *, distances=None, leave_out=(), **attributes) -> Path:
    """VIBE: a group for each search parameter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for seed, (name, ids) in enumerate(groups.items()):
            times = make_times(len(ids), seed)
            stated = {
                "gpu_mode": False,
                "best_search_time": float(times.mean()) * 0.9,
                "best_qps": 1 / (float(times.mean()) * 0.9),
                "candidates": 10.0,
                "expect_extra": False,
                "name": "glass(R=32)",
                "run_count": 5,
                "distance": "euclidean",
                "count": ids.shape[1],
                "build_time": 3.5,
                "index_size": 512.0,
                "algo": "glass",
                "dataset": "tiny",
            } | attributes
            told = np.zeros(ids.shape, np.float32) if distances is None else distances[name]
            arrays = {"times": times, "neighbors": ids, "distances": told, "recalls": np.full(len(ids), 10.0)}
            _write(file.create_group(name), stated, arrays, leave_out)
    return path


def write_big(path: Path, ids, *, leave_out=(), **attributes) -> Path:
    """big-ann-benchmarks: ids, and a cache of hit counts by a rule of its own."""
    stated = {
        "best_search_time": 0.5,
        "name": "diskann(L=40)",
        "run_count": 5,
        "distance": "euclidean",
        "type": "knn",
        "count": ids.shape[1],
        "search_times": [0.9, 0.5, 0.6, 0.8, 0.7],
        "private_queries": False,
        "build_time": -1.0,
        "index_size": 2048,
        "algo": "diskann",
        "dataset": "tiny",
        "mean_latency": 812.0,
    } | attributes
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w", libver="latest") as file:
        _write(file, stated, {"neighbors": ids}, leave_out)
        cache = file.create_group("metrics").create_group("knn")
        cache.attrs["mean"] = 20.0
        cache["recalls"] = np.full(len(ids), 20.0)
    return path


def write_detail(path: Path, recalls: dict[str, np.ndarray], **columns) -> Path:
    """VIBE's Parquet of each query."""
    frames = [
        pd.DataFrame(
            {
                "dataset": "tiny",
                "query_index": np.arange(len(recall)),
                "k": K,
                "algorithm": "glass",
                "params": f"glass(R=32)|{name}",
                "time": make_times(len(recall), seed),
                "recall": recall,
                "build_time": 3.5,
                "index_size": 512.0,
            }
            | columns
        )
        for seed, (name, recall) in enumerate(recalls.items())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.concat(frames).to_parquet(path, index=False)
    return path


def write_qdrant(path: Path, precisions=None, *, leave_out=(), results=None, **params) -> Path:
    """vector-db-benchmark: JSON, with DETAILED_RESULTS where there are precisions."""
    found = {"total_time": 0.25, "mean_time": 0.005, "mean_precisions": 0.9, "rps": 160.0, "p95_time": 0.01}
    if precisions is not None:
        found |= {"precisions": list(map(float, precisions)), "latencies": make_times(len(precisions)).tolist()}
    stated = {
        "dataset": "tiny",
        "experiment": "qdrant-m-16",
        "engine": "qdrant",
        "parallel": 1,
        "top": K,
        "config": {"hnsw_ef": 64},
    } | params
    for name in leave_out:
        stated.pop(name, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"params": stated, "results": found | (results or {})}))
    return path


def _write(group, attributes: dict, arrays: dict, leave_out) -> None:
    for name, value in attributes.items():
        if name not in leave_out:
            group.attrs[name] = value
    kinds = {"times": "f", "neighbors": "i", "distances": "f", "recalls": "d"}
    for name, array in arrays.items():
        if name not in leave_out:
            group.create_dataset(name, array.shape, kinds[name], data=array)
