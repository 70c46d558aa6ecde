"""Sums of metrics over operating points, such as A − B or (A − B) − (C − D), with interval and p; paired by query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist

import numpy as np

from benchmarks.statistics.intervals import CONFIDENCE, RESAMPLES, wilson
from benchmarks.statistics.paired import bootstrap_means, compare_means, compare_shares

NORMAL = NormalDist()
FEW = 12  # queries that differ, up to which every assignment of signs is counted


@dataclass(frozen=True)
class Term:
    """A metric of one index at one place, with its factor in the sum.

    `values` is float64 (nq); `error` bounds how far their mean may be off because the place was interpolated;
    `queries` names the query set: terms of one set are paired.
    """

    label: str
    values: np.ndarray
    error: float
    queries: str
    times: float = 1.0

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    def scaled(self, times: float) -> "Term":
        return Term(self.label, self.values, self.error, self.queries, self.times * times)


@dataclass(frozen=True)
class Estimate:
    """A sum with its interval, which `error` has widened at both ends; p is two-sided, of a sum of 0.

    `detectable` is the smallest sum that n queries show with a power of 0.8, where that is known.
    """

    value: float
    low: float
    high: float
    p: float | None
    n: int
    error: float = 0.0
    detectable: float | None = None

    def negative(self) -> "Estimate":
        """Of the sum with the other sign."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)


def contrast(terms: Sequence[Term]) -> Estimate:
    """The sum of the terms.

    On one query set it is a mean over queries, tested as such; over several sets the parts are independent, and their
    sum is taken as normal. Two plain shares are compared by the exact McNemar test.
    """
    error = sum(abs(term.times) * term.error for term in terms)
    groups: dict[str, list[Term]] = {}
    for term in terms:
        groups.setdefault(term.queries, []).append(term)
    parts = [_within(group, error if len(groups) == 1 else 0.0) for group in groups.values()]
    if len(parts) == 1:
        return parts[0]
    z = NORMAL.inv_cdf((1 + CONFIDENCE) / 2)
    value = sum(part.value for part in parts)
    # Where no query differs a bootstrap sees no spread; one query more or less is always possible.
    half = sum(max((part.high - part.low) / (2 * z), 1 / part.n) ** 2 for part in parts) ** 0.5
    p = 2 * NORMAL.cdf(-max(0.0, abs(value) - error) / half)
    n = min(part.n for part in parts)
    return Estimate(value, value - z * half - error, value + z * half + error, p, n, error)


def _within(terms: Sequence[Term], error: float) -> Estimate:
    """The sum on one query set."""
    new, base = (sum(max(0.0, sign * term.times) * term.values for term in terms) for sign in (1, -1))
    if _two_shares(terms) and not error:
        found = compare_shares(base > 0.5, new > 0.5)
        return Estimate(found.difference, found.low, found.high, found.p, found.n, 0.0, found.detectable)
    sums = new - base
    size = max(sum(max(0.0, sign * term.times) for term in terms) for sign in (1, -1))  # values become shares of it
    found = compare_means(np.broadcast_to(base / size, sums.shape), np.broadcast_to(new / size, sums.shape))
    value, p = size * found.difference, found.p
    if abs(value) <= error:
        p = 1.0
    elif error:
        means = bootstrap_means(sums)
        p = (1 + int((np.abs(means - value) >= abs(value) - error).sum())) / (1 + len(means))
    # A bootstrap's p ends at the number of its draws; beyond that the other test alone says how small it is.
    p = max(p if p > 1 / RESAMPLES else 0.0, sign_flip_p(sums, error))
    low, high = size * found.low - error, size * found.high + error
    return Estimate(value, low, high, p, len(sums), error, size * found.detectable)


def _two_shares(terms: Sequence[Term]) -> bool:
    return sorted(term.times for term in terms) == [-1, 1] and all(
        np.isin(term.values, (0.0, 1.0)).all() for term in terms
    )


def sign_flip_p(differences: np.ndarray, error: float = 0.0) -> float:
    """Two-sided p of the paired randomisation test: how often random signs give as large a sum, less n × error.

    Of 0/1 data it is the exact McNemar test. It says what a bootstrap does not: three queries that differ, all the
    same way, show nothing. Beyond `FEW` queries that differ the sum is taken as normal.
    """
    differ = differences[np.abs(differences) > 1e-12]
    total = abs(differ.sum()) - error * len(differences)
    if not len(differ) or total <= 0:
        return 1.0
    if len(differ) > FEW:
        return 2 * NORMAL.cdf(-total / float(np.sqrt((differ**2).sum())))
    signs = np.array(list(product((-1, 1), repeat=len(differ))))
    return float((np.abs(signs @ differ) >= total - 1e-9).mean())


def against(term: Term, bound: float) -> Estimate:
    """How far the mean of values in [0, 1] is above a bound: Wilson's interval and its score test.

    Values between 0 and 1 scatter less than 0s and 1s of the same mean, so that both are conservative for them.
    """
    n, mean, error = len(term.values), term.mean, term.error
    low, high = wilson(float(term.values.sum()), n)
    distance = max(0.0, abs(mean - bound) - error)
    spread = (bound * (1 - bound) / n) ** 0.5
    p = 2 * NORMAL.cdf(-distance / spread) if spread else float(distance == 0)
    return Estimate(mean - bound, low - error - bound, high + error - bound, p, n, error)
