"""Results as a pandas table: one row per operating point, one column per metric."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.metrics.registry import Measured, Metric, parse_metric
from benchmarks.results.store import Result

if TYPE_CHECKING:
    import pandas as pd

DELTAS = ("0.1", "0.3", "0.5", "0.7", "0.9")
DEFAULT_METRICS = (  # every definition, with the arguments that are asked for most
    "recall",
    "recall_tied",
    *(f"robustness-{delta}" for delta in DELTAS),
    "zero-recall",
    "recall-p50",
    "recall-p95",
    "recall-p99",
    "recall-min",
    "worst-1",
    "worst-5",
    "recall-1",
    "recall-eps-0.01",
    "recall-eps-0.1",
    "map",
    "ndcg",
    "ndcg_by_answer",
    "mrr",
    "inverse-ratio",
    "within-0.01",
    "within-0.1",
    "judged-precision",
    "judged-ndcg",
    "accuracy-extractive-normalised",
    "qps",
    "qps-best",
    "latency-p50",
    "latency-p95",
    "latency-p99",
    "build_seconds",
    "index_bytes",
    "peak_memory_bytes",
    "distance_computations",
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
    "code": "hash of the adapter and its pins",
    "versions": "version of each package in the library's environment",
    "machine_profile": "how the CPUs were chosen",
    "deviations": "what the worker was given otherwise than asked, which makes speed doubtful; empty if nothing",
    "runner": "docker, venv, or imported where another harness measured",
    "environment": "id of the image, or key of the virtual environment",
    "cpu": "processor model",
    "logical_cpus": "hardware threads of the machine",
    "measured_at": "when, in UTC; of an imported point, when it was imported",
    "imported_from": "the other harness that measured it; empty where this one did",
    "imported_file": "its file there",
    "notes": "what cannot be known of an imported point, and what is odd about it",
    "file": "result file",
}

STRUCTURED = ("build", "search", "versions", "deviations", "notes")  # those that are dicts and lists
INTEGERS = ("seed", "threads", "logical_cpus")  # unknown of imported points


def point_row(result: Result) -> dict:
    """The columns of `POINT_COLUMNS` for one result; parameters as dicts."""
    record, identity = result.record, result.identity
    machine, imported = record.provenance.machine, record.provenance.imported
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
        "code": record.provenance.code_sha256[:16],
        "versions": record.provenance.versions,
        "machine_profile": record.provenance.machine_profile,
        "deviations": record.deviations,
        "runner": record.provenance.runner,
        "environment": record.provenance.environment,
        "cpu": machine.cpu if machine else None,
        "logical_cpus": machine.logical_cpus if machine else None,
        "measured_at": record.provenance.measured_at,
        "imported_from": imported.harness if imported else None,
        "imported_file": imported.file if imported else None,
        "notes": imported.notes if imported else [],
        "file": str(result.path),
    }


def points_table(results: Iterable[Result], metrics: Iterable[Metric | str]) -> "pd.DataFrame":
    """One row per result: `POINT_COLUMNS`, then each metric, with `_low` and `_high` where it has an interval.

    A metric that a point does not have is NaN.
    """
    import pandas as pd  # here, since most commands make no table

    metrics = [parse_metric(item) if isinstance(item, str) else item for item in metrics]
    pairs = [(point_row(result), [value for item in metrics for value in _cells(item, result)]) for result in results]
    pairs.sort(key=lambda pair: [pair[0][name] for name in ("dataset", "algorithm", "k", "mode")])
    rows, values = [row for row, _ in pairs], [cells for _, cells in pairs]
    columns = [name for item in metrics for name in metric_columns(item)]
    measured = pd.DataFrame(np.array(values, float).reshape(len(rows), len(columns)), columns=columns)
    points = pd.DataFrame(rows, columns=[*POINT_COLUMNS])
    points = points.astype({name: "Int64" for name in INTEGERS if points[name].isna().any()})
    return pd.concat([points, measured], axis=1)


def _cells(metric: Metric, result: Result) -> tuple[float | None, ...]:
    """What one metric fills its columns with."""
    measured = metric.compute(result) or Measured(np.nan)
    return (measured.value, measured.low, measured.high) if metric.definition.interval else (measured.value,)


def metric_columns(metric: Metric) -> list[str]:
    """Names of the columns that one metric fills."""
    return [metric.name + end for end in (("", "_low", "_high") if metric.definition.interval else ("",))]


def parameters_as_text(table: "pd.DataFrame") -> "pd.DataFrame":
    """Columns of dicts and lists as JSON text, for CSV and Parquet."""
    columns = {name: table[name].map(lambda value: json.dumps(value)) for name in STRUCTURED}
    return table.assign(**columns)
