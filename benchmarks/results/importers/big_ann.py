"""Results of big-ann-benchmarks: an HDF5 file for each operating point, ids only."""

from pathlib import Path

import numpy as np

from benchmarks.data.formats import open_hdf5
from benchmarks.errors import UserError
from benchmarks.results.foreign import (
    ForeignPoint,
    Part,
    folders_above,
    parameters_in,
    plain_attributes,
    read_ids,
    seconds,
    text,
)
from benchmarks.results.importers import Options

NAME = "big-ann"
SUFFIXES = (".hdf5", ".h5")
MEANING = "results/…/<data set>/<count>/<algorithm>/*.hdf5 of k-NN tracks; ids and the times of all runs, no distances"

_OWN_ATTRIBUTES = ("best_search_time", "search_times", "run_count", "private_queries", "num_searches")


def recognise(path: Path) -> bool:
    """Whether there are attributes of a run, and neither the times of queries nor a data set."""
    with open_hdf5(path) as file:
        return not {"times", "train", "test"} & {*file} and bool({*_OWN_ATTRIBUTES} & {*file.attrs})


def parts(path: Path) -> list[Part]:
    """The one point."""
    with open_hdf5(path) as file:
        return [Part("", text(plain_attributes(file.attrs), "dataset") or folders_above(path)[0])]


def read(path: Path, part: str, options: Options) -> ForeignPoint:
    """The point; `best_search_time` and `search_times` are of whole passes, the ids are of the fastest.

    Raises:
        UserError: it answers another question: range, filtered or streaming search, or private queries.
    """
    with open_hdf5(path) as file:
        attributes = plain_attributes(file.attrs)
        kind = text(attributes, "type") or "knn"
        if "lims" in file or kind == "range":
            raise UserError("holds a range search, which has no K; only k-NN results can be imported")
        if any(name.startswith("neighbors_step") for name in file):
            raise UserError("holds a streaming run, whose base changed meanwhile; only k-NN results can be imported")
        if kind != "knn":
            raise UserError(f"holds a search of type '{kind}'; the ground truth here is of k-NN without filters")
        if attributes.get("private_queries") not in (None, False):
            raise UserError("holds answers to private queries, which the data set here has not")
        neighbors, _, k = read_ids(file, options.nq)
        runs = _passes(file.attrs.get("search_times"))
    best = seconds(attributes, "best_search_time")
    notes = ["no distances are stored, so that the ids are of these vectors cannot be checked"]
    if runs is None:
        notes.append("only the time of the fastest run is known")
    elif best is not None and not np.isclose(runs.min(), best, rtol=1e-6):
        notes.append(
            f"the fastest run is said to take {best:.6g} s, but of its runs the fastest takes {runs.min():.6g} s"
        )
    return ForeignPoint(
        harness=NAME,
        algorithm=text(attributes, "algo") or folders_above(path)[1] or "unnamed",
        k=k,
        mode="batch",
        search_params={**parameters_in(text(attributes, "name") or ""), "run": path.stem},
        distance=text(attributes, "distance"),
        neighbors=neighbors,
        search_seconds=runs,
        best_search_seconds=best if runs is None else None,
        build_seconds=seconds(attributes, "build_time"),  # -1 where an index was loaded
        attributes=attributes,
        notes=tuple(notes),
    )


def _passes(stored: object) -> np.ndarray | None:
    """float64 (runs) seconds; None where they are absent, or no times."""
    try:
        runs = np.atleast_1d(np.asarray(stored, dtype=np.float64)) if stored is not None else np.empty(0)
    except (TypeError, ValueError):
        return None
    return runs if runs.ndim == 1 and runs.size and np.isfinite(runs).all() and (runs > 0).all() else None
