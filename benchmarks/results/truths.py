"""The exact neighbours beside the results that were judged by them, once for all results of a data set."""

import sys
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

import numpy as np

from benchmarks import paths
from benchmarks.errors import UserError
from benchmarks.groundtruth.store import read_arrays, write_arrays
from benchmarks.results.schema import Identity, ResultRecord


@dataclass(frozen=True, eq=False)
class ResultTruth:
    """The exact top K of every query, nearest first, equal distances by the lower id; K is n where n < K.

    Distances are squared for l2, the negative product for ip, 1 - cosine for cosine: the smaller, the nearer.
    """

    ids: np.ndarray  # int32 (nq, K)
    distances: np.ndarray  # float64 (nq, K)

    @cached_property
    def kth(self) -> np.ndarray:
        """float64 (nq): distance of the last."""
        return np.ascontiguousarray(self.distances[:, -1])

    @cached_property
    def roots(self) -> np.ndarray:
        """float64 (nq, K): square roots of the distances, which for l2 are Euclidean ones."""
        return np.sqrt(self.distances)


def truth_path(folder: Path, key: str, k: int) -> Path:
    """Where the truth of that key lies in the folder of a data set's results."""
    return folder / f"truth-{key}-k{k}.hdf5"


def write_truth(folder: Path, identity: Identity, key: str, ids: np.ndarray, distances: np.ndarray) -> Path:
    """Put the truth there, whole or not at all, unless it is there already.

    Args:
        folder: of the data set's results; it is made if need be.
        identity: of any of the results; for its K and hashes.
        key: of the truth.
        ids: (nq, at least K), of which the first K are kept.
        distances: the same for their exact distances.
    """
    path, shape = truth_path(folder, key, identity.k), (len(ids), min(identity.k, ids.shape[1]))
    try:
        _read(path, ("ids", "distances"), _facts(identity), shape)
    except UserError:  # there is none, or it is damaged
        arrays = {
            "ids": np.ascontiguousarray(ids[:, : identity.k], np.int32),
            "distances": np.ascontiguousarray(distances[:, : identity.k], np.float64),
        }
        write_arrays(path, arrays, {**_facts(identity), "truth": key, "dataset": identity.dataset})
    return path


def find_truth(folder: Path, record: ResultRecord) -> ResultTruth | None:
    """The truth that a result was judged by: beside it, else out of the cache of data, else None and a warning.

    Results that have the same truth share the arrays.
    """
    identity, shape = record.identity, (record.nq, record.denominator)
    beside, cached = truth_path(folder, record.truth, identity.k), paths.DATA / "truth" / f"{record.truth}.hdf5"
    damage = []
    for path, names in ((beside, ("ids", "distances")), (cached, ("neighbors", "distances"))):
        if path.is_file():
            status = path.stat()
            try:
                found = _cached(path, names, tuple(_facts(identity).items()), shape, status.st_mtime_ns, status.st_size)
            except UserError as error:
                damage.append(str(error))
            else:
                if damage:
                    _warn(damage[0])
                return found
    _warn(
        f"{'; '.join(damage) or f'{beside}: is not there'}; metrics that need the exact neighbours are left out; the "
        "run.py command that measured these results puts it there, and measures nothing again"
    )
    return None


def _facts(identity: Identity) -> dict[str, str]:
    return {
        "distance": identity.distance,
        "base_sha256": identity.base_sha256,
        "queries_sha256": identity.queries_sha256,
    }


def _read(path: Path, names: tuple[str, str], facts: dict[str, str], shape: tuple[int, int]) -> ResultTruth:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    ids, distances = read_arrays(path, names, facts)
    if ids.shape != distances.shape or len(ids) != shape[0] or ids.shape[1] < shape[1]:
        raise UserError(f"{path}: holds neighbours {ids.shape}, {shape} are needed")
    if ids.shape[1] > shape[1]:
        ids, distances = np.ascontiguousarray(ids[:, : shape[1]]), np.ascontiguousarray(distances[:, : shape[1]])
    return ResultTruth(ids, distances)


@lru_cache(maxsize=4)  # of 100,000 queries and K = 100 one takes 120 MB
def _cached(path, names, facts, shape, mtime_ns, size_bytes) -> ResultTruth:
    return _read(path, names, dict(facts), shape)


@cache
def _warn(line: str) -> None:
    """To standard error, once."""
    print("warning: " + " ".join(line.split()), file=sys.stderr)
