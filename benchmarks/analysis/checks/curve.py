"""Checks of the whole robustness curve, and of how far metrics set indexes apart."""

from fractions import Fraction

import numpy as np
from pydantic import Field, model_validator

from benchmarks.analysis.checks.registry import (
    Comparison,
    Finding,
    MetricName,
    Missing,
    Side,
    Where,
    check,
    checked_metric,
    settle,
)
from benchmarks.analysis.contrast import NORMAL, Estimate, Term, contrast
from benchmarks.statistics.intervals import CONFIDENCE, RESAMPLES


class Crossover(Where):
    """At equal average recall the mean of `first` is above that of `second` at small δ, and below at large δ."""

    first: Side
    second: Side
    above_at: list[str] = Field(min_length=1, description="δ at which first is above second")
    below_at: list[str] = Field(min_length=1, description="δ at which it is below")

    @model_validator(mode="after")
    def _curve(self):
        for delta in (*self.above_at, *self.below_at):
            checked_metric(f"robustness-{delta}")
        if max(map(Fraction, self.above_at)) >= min(map(Fraction, self.below_at)):
            raise ValueError("every δ of above_at is smaller than those of below_at")
        return self


@check("crossover", Crossover)
def judge_crossover(crossover: Crossover, measured) -> Finding:
    """The difference of the two means at each δ, paired by query, and where it changes its sign."""
    comparisons, lacks, stations = [], {}, {}
    for delta in (*crossover.above_at, *crossover.below_at):
        at = Where(metric=f"robustness-{delta}").over(crossover)
        groups = []
        for side in (crossover.first, crossover.second):
            terms = []
            for name in measured.members(side.indexes):
                try:
                    terms.append(measured.term(name, at, 1, stations))
                except Missing as missing:
                    lacks.update(dict.fromkeys(missing.lacks))
            groups.append([term.scaled(1 / len(terms)) for term in terms])
        first, second = groups
        if not first or not second:
            continue
        sign = 1 if delta in crossover.above_at else -1
        estimate = contrast([*first, *(term.scaled(-1) for term in second)])
        names = [" and ".join(term.label.split(" on ")[0] for term in group) for group in groups]
        shown = {
            f"mean of {who}": sum(term.times * term.mean for term in group)
            for who, group in zip(names, groups, strict=True)
        }
        what = f"δ = {delta}: first {'above' if sign > 0 else 'below'} second"
        comparisons.append(Comparison(what, shown, estimate if sign > 0 else estimate.negative()))
    return Finding(settle(comparisons), list(lacks), _crossing(comparisons, crossover), stations)


def _crossing(comparisons, crossover: Crossover) -> list[str]:
    """Where the first is last above the second, of the δ that were looked at."""
    deltas = [*crossover.above_at, *crossover.below_at]
    if len(comparisons) < len(deltas):
        return []
    signs = [1] * len(crossover.above_at) + [-1] * len(crossover.below_at)
    ahead = [sign * item.estimate.value > 0 for sign, item in zip(signs, comparisons, strict=True)]
    changes = sum(one != other for one, other in zip(ahead, ahead[1:], strict=False))
    if changes == 0:
        return [f"the first is {'above' if ahead[0] else 'below'} at every δ"]
    last = deltas[max(number for number, value in enumerate(ahead) if value)]
    times = "" if changes == 1 else f"; the sign changes {changes} times"
    return [f"the first is last above at δ = {last}{times}"]


class Separation(Side):
    """Each metric of `alike` sets the indexes less apart than each of `apart` does.

    How far: the largest deviation from the mean over the indexes, relative to that mean (as in the paper's Figure 3).
    """

    alike: list[MetricName] = Field(min_length=1)
    apart: list[MetricName] = Field(min_length=1)

    @model_validator(mode="after")
    def _metrics(self):
        if len(self.indexes) < 1:
            raise ValueError("indexes are needed")
        return self


@check("separation", Separation)
def judge_separation(separation: Separation, measured) -> Finding:
    """Every pair of metrics by a bootstrap that draws the same queries for all indexes and metrics."""
    terms: dict[str, list[Term]] = {}
    lacks, stations = {}, {}
    for metric in (*separation.alike, *separation.apart):
        at = Where(metric=metric).over(separation)
        for name in measured.members(separation.indexes):
            try:
                terms.setdefault(metric, []).append(measured.term(name, at, 1, stations))
            except Missing as missing:
                lacks.update(dict.fromkeys(missing.lacks))
    enough = {metric: group for metric, group in terms.items() if len(group) > 1}
    draws = _spread_draws(enough)
    comparisons = []
    for apart in separation.apart:
        for alike in separation.alike:
            if apart in enough and alike in enough and len(enough[apart]) == len(enough[alike]):
                shown = {f"spread of {name}": spread(_means(enough[name])) for name in (apart, alike)}
                error = sum(
                    2 * max(term.error / max(term.mean, 1e-12) for term in enough[name]) for name in (apart, alike)
                )
                estimate = _bootstrapped(
                    shown[f"spread of {apart}"] - shown[f"spread of {alike}"],
                    draws[apart] - draws[alike],
                    len(enough[apart][0].values),
                    error,
                )
                comparisons.append(Comparison(f"{apart} sets apart more than {alike}", shown, estimate))
    return Finding(settle(comparisons), list(lacks), (), stations)


def spread(means: np.ndarray) -> np.ndarray:
    """Largest deviation from the mean over the last axis, relative to it."""
    middle = means.mean(axis=-1, keepdims=True)
    return np.abs(means / np.maximum(middle, 1e-12) - 1).max(axis=-1)


def _error(terms: list[Term]) -> float:
    """Bound on the error of a spread: an index may be off, and so may the mean over all that it is related to."""
    errors = np.array([term.error for term in terms])
    return float((errors.max() + errors.mean()) / max(_means(terms).mean(), 1e-12))


def _means(terms: list[Term]) -> np.ndarray:
    return np.array([term.mean for term in terms])


def _spread_draws(groups: dict[str, list[Term]], at_once: int = 50) -> dict[str, np.ndarray]:
    """The spread of each metric in each of the resamples of the queries."""
    if not groups:
        return {}
    values = np.column_stack([term.values for group in groups.values() for term in group])
    nq = len(values)
    rng = np.random.default_rng(0)
    means = []
    for _ in range(0, RESAMPLES, at_once):
        counts = np.stack([np.bincount(rng.integers(nq, size=nq), minlength=nq) for _ in range(at_once)])
        means.append(counts @ values / nq)
    means, draws, start = np.concatenate(means), {}, 0
    for metric, group in groups.items():
        draws[metric] = spread(means[:, start : start + len(group)])
        start += len(group)
    return draws


def _bootstrapped(value: float, draws: np.ndarray, n: int, error: float) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    wrong = int(min((draws <= error).sum(), (draws >= -error).sum()))
    beyond = max(0.0, abs(value) - error) / max(float(draws.std()), 1e-12)
    p = min(1.0, 2 * (1 + wrong) / (1 + len(draws))) if wrong else 2 * NORMAL.cdf(-beyond)
    return Estimate(float(value), float(low) - error, float(high) + error, p, n, error)
