"""Results as ann-benchmarks writes them, for tools that read those: one HDF5 file for each operating point.

`<folder>/<data set>/<K>/<algorithm>[-batch]/<parameters>.hdf5` holds `neighbors` int32 and `distances` float32, both
(queries, K), -1 and infinity where there is none, `times` float32 (queries), and the attributes of that harness.
"""

import io
import json
import math
import re
from pathlib import Path

import h5py
import numpy as np

from benchmarks.files import write_whole
from benchmarks.results.store import Missing, Result, folder_name

DISTANCES = {"l2": "euclidean", "cosine": "angular", "ip": "ip"}
LONGEST_NAME = 150  # characters of the parameters in a file's name

MEANING = """\
ann-benchmarks writes a folder of HDF5 files into --out, laid out as its own results folder. ids and times are of the
first repeat, in batch mode every query has an equal share of its time; best_search_time is of the fastest. Distances
are Euclidean, 1 - cosine, or the negative product (which that harness does not know). index_size is the size of the
saved index in kB, where others write the growth of memory; what is not known is NaN. Failed points are left out."""


def write_result(result: Result, folder: Path) -> Path | None:
    """Write one point below `folder`; None where it failed, or has no ids because another harness gave none."""
    if not result.ok:
        return None
    try:
        neighbors, distances = result.neighbors, result.distances
    except Missing:
        return None
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, value in attributes_of(result).items():
            file.attrs[name] = value
        file.create_dataset("times", data=times_of(result).astype(np.float32))
        file.create_dataset("neighbors", data=neighbors.astype(np.int32))
        file.create_dataset("distances", data=told_distances(distances, result.identity.distance))
    path = path_of(result, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())
    return path


def path_of(result: Result, folder: Path) -> Path:
    """Where that harness would look for the point; with our hash, since its own names can meet."""
    identity = result.identity
    key = re.sub(r"\W+", "_", json.dumps([identity.build_params, identity.search_params], sort_keys=True)).strip("_")
    algorithm = identity.algorithm + ("-batch" if identity.mode == "batch" else "")
    name = f"{key[:LONGEST_NAME]}_{identity.hash()[:8]}.hdf5".lstrip("_")
    return folder / folder_name(identity.dataset) / str(identity.k) / algorithm / name


def attributes_of(result: Result) -> dict[str, bool | int | float | str]:
    """Attributes by the names, types and units of ann-benchmarks."""
    record, identity = result.record, result.identity
    passes = _passes(result)
    best = record.best_search_seconds or (float(passes.min()) if len(passes) else math.nan)
    found = (result.neighbors >= 0).sum()
    return {
        "batch_mode": identity.mode == "batch",
        "best_search_time": best / record.nq,
        "candidates": float(found / record.nq),
        "expect_extra": False,
        "name": f"{identity.algorithm}({identity.label()})",
        "run_count": max(1, len(passes)),
        "distance": DISTANCES[identity.distance],
        "count": identity.k,
        "build_time": math.nan if record.build_seconds is None else record.build_seconds,
        "index_size": math.nan if record.index_bytes is None else record.index_bytes / 1024,
        "algo": identity.algorithm,
        "dataset": identity.dataset,
    }


def times_of(result: Result) -> np.ndarray:
    """float64 (nq): seconds of each query in the first repeat, which the ids are of; NaN where they are not known."""
    try:
        if result.latency is not None:
            return result.latency[0].astype(np.float64)
    except Missing:
        pass
    passes = _passes(result)
    return np.full(result.record.nq, passes[0] / result.record.nq if len(passes) else math.nan)


def told_distances(distances: np.ndarray, distance: str) -> np.ndarray:
    """float32: ours by the convention of ann-benchmarks; l2 is not squared there."""
    wide = distances.astype(np.float64)
    return (np.sqrt(wide) if distance == "l2" else wide).astype(np.float32)


def _passes(result: Result) -> np.ndarray:
    try:
        return result.search_seconds
    except Missing:
        return np.empty(0)
