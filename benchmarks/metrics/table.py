"""Results as a pandas table: one row per operating point, one column per metric."""

import json
from collections.abc import Iterable

import pandas as pd

from benchmarks.metrics.registry import Metric, parse_metric
from benchmarks.results.store import Result

DELTAS = ("0.1", "0.3", "0.5", "0.7", "0.9")
DEFAULT_METRICS = (
    "recall",
    "recall_tied",
    *(f"robustness-{delta}" for delta in DELTAS),
    "qps",
    "qps-best",
    "latency-p50",
    "latency-p95",
    "latency-p99",
    "build_seconds",
    "index_bytes",
    "peak_memory_bytes",
)

# Columns before the metrics, with what they mean.
POINT_COLUMNS = {
    "dataset": "name of the data set",
    "algorithm": "name of the algorithm",
    "build": "build parameters",
    "search": "search parameters",
    "seed": "build seed",
    "k": "neighbours asked for",
    "mode": "batch (all queries in one call) or single (one call per query)",
    "threads": "threads the index was given",
    "status": "ok, failed, timeout, out-of-memory or invalid",
    "reason": "why, where the status is not ok",
    "queries": "number of queries, the n of every quality metric",
    "repeats": "passes over all queries",
    "distance": "l2, ip or cosine",
    "base_sha256": "hash of the base vectors",
    "queries_sha256": "hash of the queries",
    "truth": "key of the exact ground truth",
    "versions": "version of each package in the library's environment",
    "cpu": "processor model",
    "measured_at": "when, in UTC",
    "file": "result file",
}


def point_row(result: Result) -> dict:
    """The columns of `POINT_COLUMNS` for one result; parameters as dicts."""
    record, identity = result.record, result.identity
    return {
        "dataset": identity.dataset,
        "algorithm": identity.algorithm,
        "build": identity.build_params,
        "search": identity.search_params,
        "seed": identity.seed,
        "k": identity.k,
        "mode": identity.mode,
        "threads": identity.threads,
        "status": record.status,
        "reason": record.reason,
        "queries": record.nq,
        "repeats": record.repeats,
        "distance": identity.distance,
        "base_sha256": identity.base_sha256,
        "queries_sha256": identity.queries_sha256,
        "truth": record.truth,
        "versions": record.provenance.versions,
        "cpu": record.provenance.machine.cpu,
        "measured_at": record.provenance.measured_at,
        "file": str(result.path),
    }


def points_table(results: Iterable[Result], metrics: Iterable[Metric | str]) -> pd.DataFrame:
    """One row per result: `POINT_COLUMNS`, then for each metric its value, and `_low` and `_high` of its interval.

    A metric that a point does not have is NaN.
    """
    metrics = [parse_metric(item) if isinstance(item, str) else item for item in metrics]
    rows = []
    for result in results:
        row = point_row(result)
        for item in metrics:
            measured = item.compute(result)
            row[item.name] = measured.value if measured else None
            row[f"{item.name}_low"] = measured.low if measured else None
            row[f"{item.name}_high"] = measured.high if measured else None
        rows.append(row)
    columns = [*POINT_COLUMNS, *(item.name + end for item in metrics for end in ("", "_low", "_high"))]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(
        ["dataset", "algorithm", "k", "mode"], kind="stable", ignore_index=True, key=lambda column: column.map(str)
    )


def without_empty_intervals(table: pd.DataFrame, metrics: Iterable[Metric]) -> pd.DataFrame:
    """Drop the `_low` and `_high` columns of metrics that never have an interval."""
    empty = [
        f"{item.name}{end}"
        for item in metrics
        for end in ("_low", "_high")
        if item.definition.kind == "cost" or item.name.startswith(("qps-best", "latency", "build_seconds"))
    ]
    return table.drop(columns=[name for name in empty if name in table])


def parameters_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Dict columns as JSON text, for CSV and Parquet."""
    columns = {name: table[name].map(lambda value: json.dumps(value)) for name in ("build", "search", "versions")}
    return table.assign(**columns)
