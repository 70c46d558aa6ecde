"""Results of VIBE: an HDF5 file for each index, with a group for each setting of its search parameters."""

from pathlib import Path

import h5py

from benchmarks.data.formats import open_hdf5
from benchmarks.errors import UserError
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

NAME = "vibe"
SUFFIXES = (".hdf5", ".h5")
MEANING = (
    "results/<data set>/<count>/<algorithm>/*.hdf5, a group for each search; ids, distances, times of the last run"
)


def _groups(file: h5py.File) -> list[str]:
    return [name for name in file if isinstance(file.get(name), h5py.Group)]


def recognise(path: Path) -> bool:
    """Whether there are groups that hold answers."""
    with open_hdf5(path) as file:
        return "neighbors" not in file and any("neighbors" in file[name] for name in _groups(file))


def parts(path: Path) -> list[Part]:
    """The groups."""
    with open_hdf5(path) as file:
        return [
            Part(name, text(plain_attributes(file[name].attrs), "dataset") or folders_above(path)[0])
            for name in _groups(file)
        ]


def read(path: Path, part: str, options: Options) -> ForeignPoint:
    """One group; `best_search_time` is the mean time of a query, or where several run at once `best_qps` counts."""
    with open_hdf5(path) as file:
        group = file.get(part)
        if not isinstance(group, h5py.Group):
            raise UserError(f"has no group '{part}'")
        attributes = plain_attributes(group.attrs)
        neighbors, distances, k = read_ids(group, options.nq)
        times = read_times(group, options.nq)
    rate, mean = seconds(attributes, "best_qps"), seconds(attributes, "best_search_time")
    best = options.nq / rate if rate else mean * options.nq if mean else None
    single = not attributes.get("gpu_mode", False)
    return ForeignPoint(
        harness=NAME,
        algorithm=text(attributes, "algo") or folders_above(path)[1] or "unnamed",
        k=k,
        mode="single" if single else "batch",
        build_params={"index": path.stem},
        search_params={**parameters_in(text(attributes, "name") or ""), "run": part},
        distance=text(attributes, "distance"),
        neighbors=neighbors,
        distances=distances,
        build_seconds=seconds(attributes, "build_time"),
        attributes=attributes,
        **timed_per_query(times, best, single),
    )
