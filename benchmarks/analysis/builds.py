"""Points that were built with several seeds, taken together: values over builds and queries, and what varies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.analysis.select import comparable
from benchmarks.metrics.registry import Metric
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.levels import Levels, Split, split_variance, two_level


def group_builds(results: Iterable[Result]) -> list[list[Result]]:
    """Measured points that are equal up to their seed, each group by ascending seed; in order of appearance.

    Builds of an older adapter, of other pins, or of another harness's run are other points, and so is what is unlike in
    K, threads, data or machine.
    """
    groups: dict[tuple, list[Result]] = {}
    for result in results:
        if result.ok:
            identity = result.identity
            params = repr(identity.build_params), repr(identity.search_params)
            made = identity.source, result.record.provenance.code_sha256
            key = (identity.dataset, identity.algorithm, *params, *made, *comparable(result, speed=True))
            groups.setdefault(key, []).append(result)
    return [sorted(group, key=lambda result: result.identity.seed) for group in groups.values()]


def pool(builds: Sequence[Result], metric: Metric, confidence: float = CONFIDENCE) -> Levels | None:
    """A metric over builds and queries; None where it is no mean over queries, or a build does not have it."""
    values = [metric.per_query(result) for result in builds]
    return None if any(each is None for each in values) else two_level(np.stack(values), confidence)


@dataclass(frozen=True)
class Speed:
    """QPS over builds: the median of the builds' medians, the slowest and the fastest of them."""

    value: float
    low: float
    high: float
    builds: int
    split: Split | None  # of the logarithm, into build and repeat; None where builds have not the same repeats


def pool_speed(builds: Sequence[Result]) -> Speed:
    """QPS of several builds, and how much of its scatter they are."""
    passes = [result.record.nq / result.search_seconds for result in builds]
    medians = [float(np.median(each)) for each in passes]
    alike = len({len(each) for each in passes}) == 1
    split = split_variance(np.log(np.stack(passes))[:, :, None]) if alike else None
    return Speed(float(np.median(medians)), min(medians), max(medians), len(builds), split)


def parts(split: Split, n: int = 1, repeats: int = 1) -> dict[str, float]:
    """Where the variance of what one build shows comes from, as shares that sum to 1; empty if nothing varies.

    Args:
        split: of single values.
        n: queries that it is the mean of.
        repeats: passes that it is the mean of.
    """
    counts = {"build": 1, "query": n, "repeat": repeats, "rest": n * repeats}
    known = {name: value / counts[name] for name, value in vars(split).items() if value is not None}
    total = sum(known.values())
    return {name: value / total for name, value in known.items()} if total > 0 else {}
