"""Results of ann-benchmarks: an HDF5 file for each operating point, its arrays and attributes at the root."""

from pathlib import Path

from benchmarks.data.formats import open_hdf5
from benchmarks.results.foreign import (
    ForeignPoint,
    Part,
    folders_above,
    parameters_in,
    plain_attributes,
    read_ids,
    read_times,
    seconds,
    text,
    timed_per_query,
)
from benchmarks.results.importers import Options

NAME = "ann-benchmarks"
SUFFIXES = (".hdf5", ".h5")
MEANING = "results/<data set>/<count>/<algorithm>/*.hdf5; ids, distances, times of the last run"

_OWN_ATTRIBUTES = ("batch_mode", "expect_extra", "candidates")  # which no other harness puts at the root


def recognise(path: Path) -> bool:
    """Whether there are the times of queries, or attributes that only this harness writes, and no data set."""
    with open_hdf5(path) as file:
        return "train" not in file and ("times" in file or bool({*_OWN_ATTRIBUTES} & {*file.attrs}))


def parts(path: Path) -> list[Part]:
    """The one point."""
    with open_hdf5(path) as file:
        return [Part("", text(plain_attributes(file.attrs), "dataset") or folders_above(path)[0])]


def read(path: Path, part: str, options: Options) -> ForeignPoint:
    """The point; `best_search_time` is the mean time of a query in the fastest run, `times` are of the last."""
    with open_hdf5(path) as file:
        attributes = plain_attributes(file.attrs)
        neighbors, distances, k = read_ids(file, options.nq)
        times = read_times(file, options.nq)
    best = seconds(attributes, "best_search_time")
    single = attributes.get("batch_mode") in (None, False)
    return ForeignPoint(
        harness=NAME,
        algorithm=text(attributes, "algo") or folders_above(path)[1] or "unnamed",
        k=k,
        mode="single" if single else "batch",
        search_params={**parameters_in(text(attributes, "name") or ""), "run": path.stem},
        distance=text(attributes, "distance"),
        neighbors=neighbors,
        distances=distances,
        build_seconds=seconds(attributes, "build_time"),
        attributes=attributes,
        **timed_per_query(times, best * options.nq if best else None, single),
    )
