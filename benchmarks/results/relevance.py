"""What people judged relevant to each query, beside the results of a data set that has such judgments."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.errors import UserError
from benchmarks.groundtruth.store import read_arrays, write_arrays

NAMES = ("query", "id", "grade")


@dataclass(frozen=True, eq=False)
class Relevance:
    """Judgments, sorted by query and id, one for a pair of them; what is not judged is not relevant."""

    query: np.ndarray  # int64 (judgments,): row of the queries
    id: np.ndarray  # int64 (judgments,): row of the base
    grade: np.ndarray  # float64 (judgments,): 0 is not relevant, the higher the more


def relevance_path(folder: Path, queries_sha256: str) -> Path:
    """Where judgments of these queries lie in the folder of a data set's results."""
    return folder / f"relevance-{queries_sha256[:8]}.hdf5"


def write_relevance(folder: Path, queries_sha256: str, query, id, grade) -> Path:
    """Put judgments (three arrays of one length, in any order) there, whole or not at all.

    Raises:
        UserError: they are none, differ in length, name a negative row, have a grade that is no finite number from 0
            on, or judge a pair twice.
    """
    path = relevance_path(folder, queries_sha256)
    query, id, grade = np.asarray(query, np.int64), np.asarray(id, np.int64), np.asarray(grade, np.float64)
    if not len(query) == len(id) == len(grade) > 0:
        raise UserError(f"{path}: {len(query)} queries, {len(id)} ids and {len(grade)} grades are no judgments")
    if min(query.min(), id.min()) < 0 or not (np.isfinite(grade).all() and grade.min() >= 0):
        raise UserError(f"{path}: judgments name rows from 0 on, with finite grades from 0 on")
    order = np.lexsort((id, query))
    query, id, grade = query[order], id[order], grade[order]
    twice = (query[1:] == query[:-1]) & (id[1:] == id[:-1])
    if twice.any():
        at = int(twice.argmax())
        raise UserError(f"{path}: query {query[at]} and id {id[at]} are judged twice; keep one grade")
    write_arrays(path, dict(zip(NAMES, (query, id, grade), strict=True)), {"queries_sha256": queries_sha256})
    return path


def find_relevance(folder: Path, queries_sha256: str) -> Relevance | None:
    """Judgments of these queries, or None where there are none.

    Raises:
        UserError: the file is damaged, or of other queries.
    """
    path = relevance_path(folder, queries_sha256)
    if not path.is_file():
        return None
    status = path.stat()
    return _cached(path, queries_sha256, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _cached(path: Path, queries_sha256: str, mtime_ns: int, size_bytes: int) -> Relevance:
    return Relevance(*read_arrays(path, NAMES, {"queries_sha256": queries_sha256}))
