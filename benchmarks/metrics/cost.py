"""Speed, time and memory."""

from statistics import median

import numpy as np

from benchmarks.metrics.registry import Measured, metric
from benchmarks.results.store import Result


def parse_percentile(text: str) -> float:
    """A percentile such as 50 or 99.9.

    Raises:
        ValueError: not a number between 0 and 100.
    """
    try:
        percentile = float(text)
    except ValueError:
        percentile = -1
    if not 0 < percentile < 100:
        raise ValueError(f"a percentile is a number between 0 and 100, not '{text}'")
    return percentile


@metric("qps", title="QPS", interval=True, unit="1/s", better="higher", kind="speed", axis="log")
def qps(result: Result) -> Measured:
    """Queries per second: queries / wall time of a whole pass, the median of the repeats.

    Its interval is the slowest and the fastest repeat.
    """
    passes = result.record.nq / result.search_seconds
    return Measured(median(passes.tolist()), float(passes.min()), float(passes.max()), len(passes))


@metric("qps-best", title="QPS, best repeat", unit="1/s", better="higher", kind="speed", axis="log")
def qps_best(result: Result) -> Measured:
    """Queries per second of the fastest repeat, as other harnesses report it."""
    if result.record.best_search_seconds is not None:  # another harness, which kept no times of that pass
        return Measured(result.record.nq / result.record.best_search_seconds, n=1)
    return Measured(float(result.record.nq / result.search_seconds.min()), n=len(result.search_seconds))


@metric(
    "latency-p{percentile}",
    title="Latency, p{percentile}",
    unit="ms",
    better="lower",
    kind="speed",
    axis="log",
    percentile=parse_percentile,
)
def latency(result: Result, percentile: float) -> Measured | None:
    """Percentile of the time of one query, over all queries and repeats; only where queries were sent one by one."""
    if result.latency is None:
        return None
    return Measured(float(np.percentile(result.latency, percentile)) * 1e3, n=result.latency.size)


@metric("build_seconds", title="Build time", unit="s", better="lower", kind="speed", axis="log")
def build_seconds(result: Result) -> Measured | None:
    """Wall time of the library's own build, on the threads of the run."""
    return _recorded(result.record.build_seconds)


@metric("index_bytes", title="Index size", unit="bytes", better="lower", kind="cost", axis="log")
def index_bytes(result: Result) -> Measured | None:
    """Size of the saved index on disk; nothing where the index cannot be saved."""
    return _recorded(result.record.index_bytes)


@metric("peak_memory_bytes", title="Peak memory", unit="bytes", better="lower", kind="cost", axis="log")
def peak_memory_bytes(result: Result) -> Measured | None:
    """Peak resident memory, of building or of searching, whichever was larger; mapped base vectors included."""
    peaks = [peak for peak in (result.record.build_peak_bytes, result.record.search_peak_bytes) if peak]
    return _recorded(max(peaks, default=None))


@metric("distance_computations", title="Distance computations", unit="1/query", better="lower", kind="cost", axis="log")
def distance_computations(result: Result) -> Measured | None:
    """Distances that the index computed for a query, on average over the last pass, where the library counts them
    (`stats` of the adapter) and got all queries in one call.
    """
    counted = result.record.stats.get("distance_computations")
    if result.identity.mode != "batch" or not isinstance(counted, (int, float)):
        return None
    return Measured(counted / result.record.nq, n=result.record.nq)


def _recorded(value: float | None) -> Measured | None:
    return None if value is None else Measured(value, n=1)
