"""Results of qdrant's vector-db-benchmark: a JSON file for each search, without ids.

With DETAILED_RESULTS=1 it holds the precision of each query, |answer ∩ ground truth| / K of its own ground truth. From
these hits follow. Without it there are averages alone.
"""

import json
from pathlib import Path

import numpy as np

from benchmarks.errors import UserError
from benchmarks.results.foreign import ForeignPoint, Part, plain, require_queries, text
from benchmarks.results.importers import Options

NAME = "qdrant"
SUFFIXES = (".json",)
MEANING = "*-search-*.json written with DETAILED_RESULTS=1 and one client; no ids: precision and time of each query"

LARGEST_BYTES = 1 << 30


def _load(path: Path) -> dict | None:
    """The file's object; None if it is not one of a run."""
    if path.stat().st_size > LARGEST_BYTES:
        raise UserError(f"has {path.stat().st_size:,} bytes, too many for a result file")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not readable JSON ({str(error).splitlines()[0]})") from None
    alike = isinstance(content, dict) and all(isinstance(content.get(name), dict) for name in ("params", "results"))
    return content if alike else None


def recognise(path: Path) -> bool:
    """Whether it has `params` with an engine, and `results`."""
    content = _load(path)
    return content is not None and "engine" in content["params"]


def parts(path: Path) -> list[Part]:
    """The one search; none where the file is of an upload."""
    content = _load(path) or {"params": {}, "results": {}}
    if not {"mean_precisions", "precisions", "rps"} & content["results"].keys():
        return []
    return [Part("", plain(content["params"].get("dataset")))]


def read(path: Path, part: str, options: Options) -> ForeignPoint:
    """The search.

    Raises:
        UserError: it has averages only, several clients searched (the order of the queries is then lost), K is not
            known, or the precisions are no multiples of 1 / K.
    """
    content = _load(path)
    if content is None:
        raise UserError("has not the objects params and results")
    params, results = content["params"], content["results"]
    precisions = _numbers(results.get("precisions"))
    if precisions is None:
        raise UserError(
            "holds averages only, from which no robustness follows; measure again with DETAILED_RESULTS=1, which keeps "
            "the precision of each query"
        )
    if params.get("parallel", 1) != 1:
        raise UserError(
            f"{params['parallel']} clients searched at once and the order of the queries is not kept; import the run "
            "with parallel 1"
        )
    require_queries(len(precisions), options.nq)
    k = params.get("top") or options.k
    if not isinstance(k, int) or k < 1:
        raise UserError("does not say how many neighbours were asked for; give --k")
    found = precisions * k
    hits = np.rint(found)
    if (np.abs(found - hits) > 1e-6 * k).any() or hits.min() < 0 or hits.max() > k:
        raise UserError(f"its precisions are no multiples of 1/{k} from 0 to 1; give the K that was asked for as --k")
    latencies, total = _numbers(results.get("latencies")), results.get("total_time")
    timed = latencies is not None and len(latencies) == len(precisions)
    attributes = {
        name: plain(value) for name, value in {**params, **results}.items() if name not in ("precisions", "latencies")
    }
    settings = {name: plain(value) for name, value in _flat(params) if name not in ("dataset", "engine")}
    return ForeignPoint(
        harness=NAME,
        algorithm=text(attributes, "engine"),
        k=k,
        mode="single",
        search_params={name: value for name, value in settings.items() if value is not None},
        hits=hits.astype(np.uint16),
        search_seconds=np.array([float(total)]) if isinstance(total, int | float) and total > 0 else None,
        latency=latencies.astype(np.float32)[None] if timed else None,
        attributes={name: value for name, value in attributes.items() if value is not None},
        notes=("its filters, if any, and its ground truth are not known here",),
    )


def _numbers(found: object) -> np.ndarray | None:
    """A list of finite numbers as float64; None if it is none."""
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return numbers if numbers.ndim == 1 and numbers.size and np.isfinite(numbers).all() else None


def _flat(params: dict, before: str = ""):
    """(name, value) of all parameters; those of objects as `config.hnsw_ef`."""
    for name, value in params.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
