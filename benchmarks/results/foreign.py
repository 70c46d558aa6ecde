"""One operating point as another harness left it, and what the readers of such files share."""

import contextlib
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from benchmarks.cards.values import Value
from benchmarks.data.formats import open_hdf5
from benchmarks.errors import UserError

LONGEST_TEXT = 1000  # characters of one attribute that are kept
MOST_ATTRIBUTES = 200
ARRAYS = ("neighbors", "distances", "times")
_PAIR = re.compile(r"""['"]?([A-Za-z_]\w*)['"]?\s*[:=]\s*['"]?([+-]?[\d.]+(?:[eE][+-]?\d+)?|[A-Za-z_][\w.-]*)""")


@dataclass(frozen=True)
class Part:
    """One operating point inside a file; `name` is empty where the file holds just one."""

    name: str
    dataset: str | None  # as the other harness calls it; None where it does not say


@dataclass(frozen=True)
class ForeignPoint:
    """What one harness says of one operating point; None is what it does not say. Nothing of it is checked yet."""

    harness: str
    algorithm: str
    k: int
    mode: str
    build_params: dict[str, Value] = field(default_factory=dict)
    search_params: dict[str, Value] = field(default_factory=dict)
    distance: str | None = None
    neighbors: np.ndarray | None = None  # integers (nq, any width), nearest first, -1 for none
    distances: np.ndarray | None = None  # of the neighbours, by the other harness' convention, same shape
    hits: np.ndarray | None = None  # uint16 (nq); only where there are no ids
    search_seconds: np.ndarray | None = None  # float64 (repeats): wall time of passes over all queries
    best_search_seconds: float | None = None  # wall time of the fastest pass, where it is not among those
    latency: np.ndarray | None = None  # float32 (repeats, nq) seconds
    build_seconds: float | None = None
    attributes: dict[str, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def plain(value: object) -> Value | None:
    """An attribute as a bool, number or text: bytes are decoded, lists become JSON text; None for an empty one.

    A number that JSON does not have (NaN, infinity) becomes text.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or isinstance(value, h5py.Empty):
        return None
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")[:LONGEST_TEXT]
    if isinstance(value, list | dict):
        value = json.dumps(value, default=lambda item: plain(item) if isinstance(item, bytes) else str(item))
    return str(value)[:LONGEST_TEXT].encode(errors="replace").decode()  # h5py lets bytes that are no UTF-8 through


def plain_attributes(attributes) -> dict[str, Value]:
    """All attributes of a file or group as they can be kept; one that cannot be read is left out."""
    found = {}
    for name in list(attributes)[:MOST_ATTRIBUTES]:
        try:
            value = plain(attributes[name])
        except (OSError, TypeError, ValueError, KeyError):
            continue  # a type that h5py does not know
        if value is not None:
            found[str(name)] = value
    return found


def touch(path: Path) -> None:
    """Read all that a reader of an HDF5 file may want of it, whatever the format, and make nothing of it."""
    with open_hdf5(path) as file:
        groups = [file, *(item for item in map(file.get, file) if isinstance(item, h5py.Group))]
        for group in groups:
            for name in group.attrs:
                with contextlib.suppress(Exception):
                    plain(group.attrs[name])
            for name in group:
                with contextlib.suppress(Exception):
                    group[name][...] if name in ARRAYS else group.get(name)


def text(attributes: dict[str, Value], name: str) -> str | None:
    """A text attribute; None where it is absent or empty."""
    value = attributes.get(name)
    return str(value).strip() or None if value is not None else None


def seconds(attributes: dict[str, Value], name: str) -> float | None:
    """A positive, finite number of seconds; None where there is none."""
    value = attributes.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def parameters_in(name: str) -> dict[str, Value]:
    """The `parameter=value` and `'parameter': value` pairs of a name such as `hnswlib ({'M': 16}) ef=40`, typed.

    It is the only place where other harnesses write parameters down; one that comes twice, unlike, is left out.
    """
    found: dict[str, Value] = {}
    unlike = set()
    for parameter, shown in _PAIR.findall(name):
        value = _typed(shown)
        if found.setdefault(parameter, value) != value:
            unlike.add(parameter)
    return {parameter: value for parameter, value in found.items() if parameter not in unlike}


def _typed(shown: str) -> Value:
    if shown.lower() in ("true", "false"):
        return shown.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(shown)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    return shown


def read_ids(group: h5py.Group, nq: int) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Neighbours, their distances where they are there, and K as the attribute `count` or else the width says.

    Raises:
        UserError: there are none, or they are no answers to `nq` queries.
    """
    found = group.get("neighbors")
    if not isinstance(found, h5py.Dataset):
        raise UserError(f"has no array 'neighbors'; it holds {', '.join(group) or 'nothing'}")
    if len(found.shape or ()) != 2 or found.dtype.kind not in "iu":
        raise UserError(f"'neighbors' is {found.dtype} of shape {found.shape}; integers (queries, K) are needed")
    require_queries(len(found), nq)
    stated = plain(group.attrs["count"]) if "count" in group.attrs else None
    if stated is not None and (isinstance(stated, bool | str) or stated < 1 or stated != int(stated)):
        raise UserError(f"attribute count is {stated!r}; a number of neighbours is needed")
    k = int(stated or found.shape[1])
    if k < 1:
        raise UserError("'neighbors' has no columns, and there is no attribute count")
    distances = group.get("distances")
    same = isinstance(distances, h5py.Dataset) and distances.shape == found.shape and distances.dtype.kind == "f"
    return found[...], distances[...] if same else None, k


def require_queries(found: int, nq: int) -> None:
    """Raises UserError unless the file answers as many queries as the data set has."""
    if found != nq:
        raise UserError(f"answers {found:,} queries, the data set has {nq:,}")


def read_times(group: h5py.Group, nq: int) -> np.ndarray | None:
    """float64 (nq): seconds of each query, from the array `times`; None where they are absent or no times."""
    found = group.get("times")
    if not isinstance(found, h5py.Dataset) or found.shape != (nq,) or found.dtype.kind not in "fiu":
        return None
    times = found[...].astype(np.float64)
    return times if np.isfinite(times).all() and (times >= 0).all() and times.sum() > 0 else None


def timed_per_query(times: np.ndarray | None, best: float | None, single: bool) -> dict:
    """What ann-benchmarks and VIBE tell of speed: `times` are of the last run, `best` is of the fastest.

    Args:
        times: seconds of each query in the last run, whose ids the file holds; None where they are absent.
        best: seconds of the fastest pass over all queries; None where it is not known.
        single: whether queries were sent one by one.

    Returns:
        `search_seconds`, `best_search_seconds`, `latency` and `notes` of a point.
    """
    speed: dict = {"notes": []}
    if times is not None and not single and np.ptp(times) > 1e-3 * times.mean():
        # The library's own latencies, which overlap, and their mean is what was taken for the time of the run.
        speed["notes"].append("queries ran at once and only their latencies are told: the wall time is not known")
        return speed
    if times is not None:
        total = float(times.sum())
        speed["search_seconds"] = np.array([total])
        if single:
            speed["latency"] = times.astype(np.float32)[None]
        speed["notes"].append("ids and times are of the last run; of the others only the fastest one's time is known")
        if best is not None and best > total * 1.01:
            speed["notes"].append(f"the fastest run is said to take {best:.4g} s, longer than the last: left out")
            best = None
    else:
        speed["notes"].append("only the time of the fastest run is known; the ids are of the last")
    speed["best_search_seconds"] = best
    return speed


def folders_above(path: Path) -> tuple[str | None, str | None]:
    """(data set, algorithm) by `<data set>/<count>/<algorithm>/<file>`; None where the folders are not so."""
    parts = path.parts
    if len(parts) >= 4 and parts[-3].isdecimal():
        return parts[-4], parts[-2]
    return None, None
