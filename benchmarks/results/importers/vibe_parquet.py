"""What VIBE publishes of its results as Parquet: recall and time of each query, without ids."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pyarrow import ArrowException

from benchmarks.errors import UserError
from benchmarks.results.foreign import ForeignPoint, Part, parameters_in, plain, require_queries
from benchmarks.results.importers import Options

NAME = "vibe-parquet"
SUFFIXES = (".parquet",)
MEANING = "<data set>__detail.parquet; no ids: recall (by distance, within 0.001) and time of each query"

POINT = ["dataset", "algorithm", "params", "k"]
DETAIL = [*POINT, "query_index", "time", "recall"]
SUMMARY = [*POINT, "qps", "recall"]


def _columns(path: Path) -> list[str]:
    try:
        return pq.read_schema(path).names
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(f"is not a readable Parquet file ({str(error).splitlines()[0]})") from None


def recognise(path: Path) -> bool:
    """Whether it has the columns of the detail file, or of the summary."""
    return any({*names} <= {*_columns(path)} for names in (DETAIL, SUMMARY))


@lru_cache(maxsize=1)
def _groups(path: Path, stamp: tuple) -> dict[str, pd.DataFrame]:
    """Rows of each point, by its name."""
    names = _columns(path)
    if not {*DETAIL} <= {*names}:
        raise UserError(
            "holds averages only, from which no robustness follows; give <data set>__detail.parquet, or the HDF5 "
            "files that it was made from"
        )
    try:
        table = pq.read_table(path, columns=[*DETAIL, *({"build_time", "index_size"} & {*names})])
        frame = table.replace_schema_metadata().to_pandas()  # what pandas wrote into it may be damaged too
    except (ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise UserError(f"is not a readable Parquet file ({str(error).splitlines()[0]})") from None
    return {" ".join(map(str, key)): rows for key, rows in frame.groupby(POINT, sort=True, observed=True)}


def _load(path: Path) -> dict[str, pd.DataFrame]:
    found = path.stat()
    return _groups(path, (found.st_size, found.st_mtime_ns))


def parts(path: Path) -> list[Part]:
    """The points, by data set, algorithm, parameters and K."""
    return [Part(name, str(rows["dataset"].iloc[0])) for name, rows in _load(path).items()]


def read(path: Path, part: str, options: Options) -> ForeignPoint:
    """One point.

    Raises:
        UserError: there is not one row for each query, or a recall is no multiple of 1 / K.
    """
    rows = _load(path)[part].sort_values("query_index", kind="stable")
    require_queries(len(rows), options.nq)
    if not np.array_equal(rows["query_index"], np.arange(options.nq)):
        raise UserError("has not one row for each query")
    first, k = rows.iloc[0], int(rows["k"].iloc[0])
    found = rows["recall"].to_numpy(np.float64) * k
    hits = np.rint(found)
    if (
        k < 1
        or not np.isfinite(found).all()
        or (np.abs(found - hits) > 1e-6 * k).any()
        or not 0 <= hits.min() <= hits.max() <= k
    ):
        raise UserError(f"has recalls that are no multiples of 1/{k} from 0 to 1")
    times = rows["time"].to_numpy(np.float64)
    timed = bool(np.isfinite(times).all() and (times >= 0).all() and times.sum() > 0)
    single = len(times) == 1 or np.ptp(times) > 0  # a batch has one time, divided by its queries
    name, _, search = str(first["params"]).rpartition("|")
    build = first.get("build_time")
    return ForeignPoint(
        harness=NAME,
        algorithm=str(first["algorithm"]),
        k=k,
        mode="single" if single else "batch",
        search_params={**parameters_in(name), "run": search or str(first["params"])},
        hits=hits.astype(np.uint16),
        search_seconds=np.array([times.sum()]) if timed else None,
        latency=times.astype(np.float32)[None] if timed and single else None,
        build_seconds=float(build) if build is not None and np.isfinite(build) and build > 0 else None,
        attributes={
            str(column): value
            for column in first.index
            if column not in ("query_index", "time", "recall") and (value := plain(first[column])) is not None
        },
        notes=("recall counts what is no farther than the K-th exact distance + 0.001; one id twice counts twice",),
    )
