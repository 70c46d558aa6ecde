"""The folder of result files. A file appears whole under its name and is never written again, only superseded."""

import hashlib
import io
import os
import re
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
from h5py import h5a, h5d, h5s
from pydantic import ValidationError

from benchmarks.data.formats import open_hdf5
from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.results.relevance import Relevance, find_relevance
from benchmarks.results.schema import Identity, ResultRecord, label
from benchmarks.results.truths import ResultTruth, find_truth, write_truth

if TYPE_CHECKING:
    from filelock import FileLock

RECORD = "record"
CHUNK_BYTES = 1 << 20  # of whole rows; the library's own choice are small tiles, which take twice as long to read
SHAPES = {  # arrays of a complete point and their shapes
    "neighbors": ("nq", "k"),
    "distances": ("nq", "k"),
    "hits": ("nq",),
    "hits_tied": ("nq",),
    "search_seconds": ("repeats",),
    "latency": ("repeats", "nq"),
}
COUNTS = ("hits", "hits_tied")
WHOLE = ("neighbors", *COUNTS)  # arrays of integers; the others are of floats


class Missing(UserError):
    """A result has not the array that was asked for."""


@dataclass(frozen=True, eq=False)
class Result:
    """One result file: its record, and its arrays when asked for; those with a value per query are kept."""

    path: Path
    record: ResultRecord
    small: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # arrays that were read with the record
    file: h5py.File | None = field(default=None, repr=False)  # of use while it is open

    @property
    def ok(self) -> bool:
        return self.record.status == "ok"

    @property
    def identity(self) -> Identity:
        return self.record.identity

    @property
    def neighbors(self) -> np.ndarray:
        """int32 (nq, k): ids as the index returned them, each once; -1 where there is none."""
        return self.array("neighbors")

    @property
    def distances(self) -> np.ndarray:
        """float32 (nq, k): their exact distances, smaller is nearer; infinite where there is none."""
        return self.array("distances")

    @property
    def truth(self) -> ResultTruth | None:
        """The exact top K that the answers were judged by; None, and a warning, where it cannot be found.

        None without a warning where another harness counted the hits of an imported result.
        """
        imported = self.record.provenance.imported
        if imported is not None and not imported.recounted:
            return None
        found = self._known_truth[0]()
        if found is None:
            found = find_truth(self.path.parent.parent, self.record)
            if found is not None:
                self._known_truth[0] = weakref.ref(found)
        return found

    @cached_property
    def _known_truth(self) -> list:
        """A weak reference, since results of many data sets may be at hand at once, and truths are large."""
        return [lambda: None]

    @property
    def relevance(self) -> Relevance | None:
        """What people judged relevant to the queries, where the data set has such judgments."""
        return find_relevance(self.path.parent.parent, self.identity.queries_sha256)

    @cached_property
    def hits(self) -> np.ndarray:
        """uint16 (nq): how many of the exact top K each query found."""
        return self.array("hits")

    @cached_property
    def hits_tied(self) -> np.ndarray:
        """uint16 (nq): the same, with ids as near as the K-th counted too."""
        return self.array("hits_tied")

    @cached_property
    def tally(self) -> np.ndarray:
        """int64 (K + 1): how many queries have 0, 1, … hits."""
        return np.bincount(self.hits, minlength=self.record.denominator + 1)

    @cached_property
    def search_seconds(self) -> np.ndarray:
        """float64 (repeats): wall time of each pass over all queries."""
        return self.array("search_seconds")

    @cached_property
    def latency(self) -> np.ndarray | None:
        """float32 (repeats, nq) seconds per query; None in batch mode."""
        return self.array("latency") if self.identity.mode == "single" else None

    def array(self, name: str) -> np.ndarray:
        """One array of the file; raises as `arrays`."""
        return self.small[name] if name in self.small else self.arrays(name)[0]

    def arrays(self, *names: str) -> list[np.ndarray]:
        """Arrays of the file, which is opened once, or not at all while `Store.results` is at it.

        Raises:
            UserError: the file has gone or lost it.
            Missing: it is not there; of an imported result it may never have been.
        """
        with open_hdf5(self.path, self.file) as file:
            found = {name: _find(file, name) for name in names}
            for name, array in found.items():
                if array is None:
                    raise Missing(f"{self.path}: has no array '{name}'")
            return [_load(array) for array in found.values()]


# h5py's upper level takes longer over a small array, or an attribute, than reading it does.


def _find(file: h5py.File, name: str) -> h5d.DatasetID | None:
    try:
        return h5d.open(file.id, name.encode())
    except KeyError:
        return None


def _load(found: h5d.DatasetID | h5a.AttrID) -> np.ndarray:
    values = np.empty(found.shape, found.dtype)
    found.read(*([h5s.ALL, h5s.ALL] if isinstance(found, h5d.DatasetID) else []), values)
    return values


def folder_name(dataset: str) -> str:
    """The data set's name, or where it is no plain file name, as much of it as is plain and a hash of it."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", dataset)
    if safe == dataset and not safe.startswith("."):
        return safe
    return f"{safe.strip('.')[:60]}-{hashlib.sha256(dataset.encode()).hexdigest()[:8]}"


def _check_values(path: Path, small: dict[str, np.ndarray], denominator: int) -> None:
    """Raises UserError where hits or times are none that could have been measured."""
    for name in COUNTS:
        if name in small and not 0 <= small[name].min() <= small[name].max() <= denominator:
            low, high = small[name].min(), small[name].max()
            raise UserError(f"{path}: array '{name}' should be from 0 to {denominator}, found {low} to {high}")
    seconds = small.get("search_seconds", np.ones(1))
    if not len(seconds) or not np.isfinite(seconds).all() or seconds.min() <= 0:
        raise UserError(f"{path}: array 'search_seconds' should be times above 0, found {seconds[:3].tolist()}")


class Store:
    """Result files below one folder: `<dataset>/<algorithm>/<label>-<hash>.hdf5`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, identity: Identity) -> Path:
        """Where the point's file is, whether it exists or not."""
        name = re.sub(r"[^A-Za-z0-9=.,_-]+", "_", identity.label())[:100]
        return self.folder / folder_name(identity.dataset) / identity.algorithm / f"{name}-{identity.hash()}.hdf5"

    def log_path(self, identity: Identity, build_hash: str) -> Path:
        """Log of the workers that build and search the identity's index."""
        folder = self.path(identity).parent / "logs"
        name = re.sub(r"[^A-Za-z0-9=.,_-]+", "_", label(identity.build_params))[:100]
        return folder / f"{name}-{build_hash[:8]}.log"

    def good(self, identity: Identity) -> Result | None:
        """The point's result if its file is there, is valid and has status ok; else None."""
        try:
            result = self.read(self.path(identity))
        except UserError:
            return None
        return result if result.ok else None

    def write(self, record: ResultRecord, arrays: dict[str, np.ndarray]) -> Path:
        """Seal one point: written under a temporary name, synced, renamed."""
        path = self.path(record.identity)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()  # HDF5 can crash the process when a disk is full
        with h5py.File(content, "w") as file:
            file.attrs[RECORD] = record.model_dump_json()
            for name, array in arrays.items():
                rows = max(1, min(len(array), CHUNK_BYTES // max(1, array[:1].nbytes)))
                chunks = (rows, *array.shape[1:]) if array.size else None
                # Not packed: ids shrink by a third and take twice as long to read, distances hardly shrink at all.
                file.create_dataset(name, data=array, fletcher32=True, chunks=chunks)
        write_whole(path, content.getbuffer())
        return path

    def keep_truth(self, identity: Identity, key: str, ids: np.ndarray, distances: np.ndarray) -> Path:
        """Put the exact neighbours (nq, at least K) beside the results of the identity's data set, if need be."""
        return write_truth(self.folder / folder_name(identity.dataset), identity, key, ids, distances)

    def read(self, path: Path) -> Result:
        """Read and validate one file.

        Raises:
            UserError: it is no result of ours, is damaged, or of a newer version.
        """
        with open_hdf5(path) as file:
            return self._read(path, file)

    def _read(self, path: Path, file: h5py.File) -> Result:
        if not h5a.exists(file.id, RECORD.encode()):
            raise UserError(f"{path}: is not a result file of this harness")
        try:
            record = ResultRecord.model_validate_json(_load(h5a.open(file.id, RECORD.encode())).item())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"{path}: is not a valid result ({where}: {first['msg']})") from None
        small = {}
        if record.status == "ok":
            sizes = {"nq": record.nq, "k": record.identity.k, "repeats": record.repeats}
            for name, axes in SHAPES.items():
                if name == "latency" and record.identity.mode != "single":
                    continue
                array = _find(file, name)
                if array is None and record.provenance.imported and name != "hits":
                    continue  # the other harness did not say
                shape = tuple(sizes[axis] for axis in axes)
                found = array.shape if array else "nothing"
                if found != shape:
                    raise UserError(f"{path}: array '{name}' should have shape {shape}, found {found}")
                if array.dtype.kind not in ("iu" if name in WHOLE else "f"):
                    raise UserError(f"{path}: array '{name}' has the type {array.dtype}")
                if len(axes) == 1:
                    small[name] = _load(array)  # while the file is open, which takes longer than this
            _check_values(path, small, record.denominator)
        return Result(path, record, small, file)

    def files(self, dataset: str | None = None) -> list[Path]:
        """Result files, of one data set or of all."""
        folder = folder_name(dataset) if dataset is not None else "*"
        return sorted(path for path in self.folder.glob(f"{folder}/*/*.hdf5") if not path.name.startswith("."))

    def results(self, dataset: str | None = None, warn=lambda line: None) -> Iterator[Result]:
        """Every readable result; one bad file, or a copy of another, is one line to `warn`, not the end."""
        seen: dict[tuple[Path, str], Path] = {}
        for path in self.files(dataset):
            try:
                with open_hdf5(path) as file:
                    result = self._read(path, file)
                    first = seen.setdefault((path.parent.parent, result.identity.hash()), path)
                    if first is path:
                        yield result  # its arrays are mostly asked for now
                    else:
                        warn(f"{path}: is the same point as {first} and is left out; remove one of them")
            except UserError as error:
                warn(str(error))

    def require_writable(self) -> None:
        """Raises UserError unless files can be made in the folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"{self.folder}: results cannot be written there ({error.strerror}); "
                "give another folder with --results-dir"
            ) from None

    def lock(self) -> "FileLock":
        """Hold the folder for one run, so that two runs neither disturb each other's times nor files.

        Raises:
            UserError: another run holds it.
        """
        from filelock import FileLock, Timeout  # here, since reading locks nothing

        lock = FileLock(self.folder / ".lock", timeout=0)
        try:
            return lock.acquire().lock
        except Timeout:
            raise UserError(
                f"{self.folder}: another run is writing results there; wait for it, or give another "
                "folder with --results-dir"
            ) from None

    def sweep(self) -> None:
        """Remove what an interrupted run left half-written; only while the folder is locked."""
        for pattern in ("*/*/.*.partial", "*/.*.partial"):
            for partial in self.folder.glob(pattern):
                partial.unlink(missing_ok=True)
