"""Other harnesses' points become results of ours: ids are judged by our ground truth, the rest is kept as told.

An imported result says so: its runner is `imported`, its algorithm is `<name>@<harness>`, machine, threads and seed are
None, and its provenance holds what the other harness wrote. Where that gives no ids, hits are its own count, under the
key `theirs-<harness>` in place of a truth, so that they are not mixed with ours.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from benchmarks.data.prepare import Dataset
from benchmarks.errors import UserError
from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.results.foreign import ForeignPoint
from benchmarks.results.schema import Identity, Imported, Provenance, ResultRecord
from benchmarks.results.store import Store
from benchmarks.runner.judge import Judged, judge

RUNNER = "imported"
VERSION = 1  # of this module's rules: results of another version are imported again
MOST_K = 65535  # hits are stored as uint16
DISTANCES = {  # as the harnesses call them
    "euclidean": "l2",
    "l2": "l2",
    "angular": "cosine",
    "cosine": "cosine",
    "ip": "ip",
    "dot": "ip",
    "hamming": "hamming",
    "jaccard": "jaccard",
}
# Other harnesses' distances as functions of ours; each grows where ours does.
CONVENTIONS = {
    "l2": (np.sqrt, lambda ours: ours, lambda ours: ours / 2),
    "ip": (lambda ours: ours, lambda ours: 1 + ours),
    "cosine": (lambda ours: ours, lambda ours: 2 * ours, lambda ours: np.sqrt(2 * np.maximum(ours, 0))),
}
AGREEING = 0.99  # share of distances that must agree for the vectors to be the same
CHANCE = 0.01  # average recall of ids that may well be of another data set


@dataclass(frozen=True)
class SourceFile:
    """The file that a point comes from, as it is remembered."""

    name: str
    sha256: str
    part: str = ""


@dataclass(frozen=True)
class Target:
    """What points are imported into; the same for all of one command."""

    dataset: Dataset
    store: Store
    truth_for: Callable[[int], GroundTruth]  # by K
    threads: int
    command: str
    git: tuple[str | None, bool | None] = (None, None)
    kept: set[int] = field(default_factory=set)  # K whose truth lies beside the results


@dataclass(frozen=True)
class Outcome:
    """What became of a point."""

    record: ResultRecord
    new: bool  # False where the result was there already
    average_recall: float | None  # None where it is invalid


def import_point(point: ForeignPoint, source: SourceFile, target: Target) -> Outcome:
    """Judge one point and write its result, unless just that is there already.

    Ids outside the base make the point `invalid`. An answer of more than K ids is cut, one of fewer misses the rest.

    Raises:
        UserError: it is a point of other vectors or another distance, or cannot be one at all.
    """
    dataset = target.dataset
    if point.k > MOST_K:
        raise UserError(f"k = {point.k}: hits are counted up to {MOST_K}")
    require_distance(point.distance, dataset)
    identity = identity_of(point, dataset)
    recounted = point.neighbors is not None
    truth = target.truth_for(point.k) if recounted else None
    key = truth.key if truth else f"theirs-{point.harness}"
    there = _there_already(identity, key, target.store)
    if there:
        return there
    notes, arrays, judged, reason = list(point.notes), _speed_arrays(point), None, None
    if truth is not None:
        notes += _width_notes(point)
        try:
            judged = judge(fitted(point.neighbors, point.k), dataset, truth, point.k, target.threads)
        except ValueError as error:
            reason, arrays = " ".join(str(error).split()), {}
        else:
            notes += _require_same_vectors(point, judged, dataset)
            arrays |= judged.arrays
    else:
        if point.hits.max() > min(point.k, dataset.n):
            raise UserError(f"counts {point.hits.max()} hits of {min(point.k, dataset.n)} neighbours")
        arrays["hits"] = point.hits
    record = ResultRecord(
        identity=identity,
        status="invalid" if reason else "ok",
        reason=reason,
        n=dataset.n,
        nq=dataset.nq,
        truth=key,
        repeats=len(arrays.get("search_seconds", ())),
        best_search_seconds=point.best_search_seconds,
        build_seconds=point.build_seconds,
        repeated_ids=judged.repeated if judged else 0,
        missing_ids=judged.missing if judged else 0,
        provenance=_provenance(point, source, recounted, notes, target),
    )
    target.store.write(record, arrays)
    if truth is not None and point.k not in target.kept:
        target.store.keep_truth(identity, truth.key, truth.neighbors, truth.distances)
        target.kept.add(point.k)
    return Outcome(record, True, None if reason else _average(arrays["hits"], record))


def identity_of(point: ForeignPoint, dataset: Dataset) -> Identity:
    """Identity of the result; `source` is a hash of the content: equal content is one result, wherever it lies."""
    content = hashlib.sha256()
    for array in (point.neighbors, point.hits, point.search_seconds, point.latency):
        content.update(b"-" if array is None else f"{array.shape} ".encode() + np.asarray(array, "<f8").tobytes())
    content.update(f"{point.harness} {point.best_search_seconds} {point.build_seconds}".encode())
    return Identity(
        dataset=dataset.name,
        base_sha256=dataset.base_check.sha256,
        queries_sha256=dataset.queries_check.sha256,
        distance=dataset.distance,
        algorithm=marked_name(point.algorithm, point.harness),
        build_params=point.build_params,
        search_params=point.search_params,
        seed=None,
        k=point.k,
        mode=point.mode,
        threads=None,
        source=content.hexdigest()[:16],
    )


def marked_name(algorithm: str, harness: str) -> str:
    """`hnswlib@ann-benchmarks`, which no algorithm of ours can be called; also a plain file name."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]+', '_', algorithm).strip('._')[:80] or 'unnamed'}@{harness}"


def require_distance(stated: str | None, dataset: Dataset) -> None:
    """Raises UserError where the other harness says that it searched by another distance; what is unknown passes."""
    meant = DISTANCES.get((stated or "").lower())
    if meant not in (None, dataset.distance):
        raise UserError(
            f"was measured by the distance '{stated}', {dataset.name} is of {dataset.distance}: other neighbours are "
            "right there"
        )


def fitted(ids: np.ndarray, k: int) -> np.ndarray:
    """(nq, k): cut, or filled up with -1."""
    if ids.dtype == np.uint64:
        ids = np.minimum(ids, np.uint64(2**63 - 1))
    ids = ids.astype(np.int64)
    if ids.shape[1] >= k:
        return ids[:, :k]
    return np.pad(ids, ((0, 0), (0, k - ids.shape[1])), constant_values=-1)


def same_vectors(theirs: np.ndarray, ours: np.ndarray, distance: str) -> bool | None:
    """Whether two arrays of distances are of the same pairs of vectors, whichever convention the other harness has.

    Args:
        theirs: of the other harness; what is not finite is not compared.
        ours: exact, of the same shape; infinite where there is no neighbour.
        distance: ours, `l2`, `ip` or `cosine`.

    Returns:
        None where nothing can be compared.
    """
    use = np.isfinite(theirs) & np.isfinite(ours)
    if not use.any():
        return None
    theirs, ours = theirs[use].astype(np.float64), ours[use].astype(np.float64)
    for convention in CONVENTIONS[distance]:
        expected = convention(ours)
        scale = np.median(np.abs(expected))
        if (np.abs(theirs - expected) <= 1e-3 * np.abs(expected) + 1e-4 * scale).mean() >= AGREEING:
            return True
    return False


def _require_same_vectors(point: ForeignPoint, judged: Judged, dataset: Dataset) -> list[str]:
    """Notes on the check of the distances; raises UserError where they are of other vectors."""
    if point.distances is None:
        return []
    ours = judged.arrays["distances"]
    width = min(point.k, point.distances.shape[1])
    same = same_vectors(point.distances[:, :width], ours[:, :width], dataset.distance)
    if same is False:
        query, place = np.argwhere(np.isfinite(point.distances[:, :width]) & np.isfinite(ours[:, :width]))[0]
        raise UserError(
            f"its distances are not those of the vectors of {dataset.name} (query {query}, id "
            f"{judged.arrays['neighbors'][query, place]}: {point.distances[query, place]:.6g} there, "
            f"{ours[query, place]:.6g} here as {dataset.distance}): it is of another data set, or numbered otherwise"
        )
    return ["its distances agree with those of the vectors here"] if same else []


def _width_notes(point: ForeignPoint) -> list[str]:
    width = point.neighbors.shape[1]
    if width == point.k:
        return []
    return [f"{width} ids for each query are stored where {point.k} were asked for"]


def _speed_arrays(point: ForeignPoint) -> dict[str, np.ndarray]:
    found = {"search_seconds": point.search_seconds, "latency": point.latency}
    return {name: array for name, array in found.items() if array is not None}


def _provenance(
    point: ForeignPoint, source: SourceFile, recounted: bool, notes: list[str], target: Target
) -> Provenance:
    return Provenance(
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=target.command,
        git_revision=target.git[0],
        git_dirty=target.git[1],
        runner=RUNNER,
        code_sha256=rules_of(point.harness),
        environment="unknown",
        machine=None,
        imported=Imported(
            harness=point.harness,
            file=source.name,
            part=source.part or None,
            sha256=source.sha256,
            recounted=recounted,
            attributes=point.attributes,
            notes=notes,
        ),
    )


def rules_of(harness: str) -> str:
    """In place of the hash of an adapter: of the rules by which the harness's files are read."""
    return hashlib.sha256(f"imported from {harness}, rules {VERSION}".encode()).hexdigest()


def _there_already(identity: Identity, key: str, store: Store) -> Outcome | None:
    """The outcome of an earlier import of the same content against the same truth."""
    path = store.path(identity)
    if not path.is_file():
        return None
    try:
        result = store.read(path)
    except UserError:
        return None  # damaged: imported again
    made = result.record.provenance
    if result.record.truth != key or made.code_sha256 != rules_of(made.imported.harness):
        return None
    return Outcome(result.record, False, _average(result.hits, result.record) if result.ok else None)


def _average(hits: np.ndarray, record: ResultRecord) -> float:
    return int(hits.sum(dtype=np.int64)) / (len(hits) * record.denominator)


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
