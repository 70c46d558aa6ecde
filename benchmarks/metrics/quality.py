"""Recall and robustness: counted from integer hits, divided once."""

import math
import re
from fractions import Fraction

import numpy as np

from benchmarks.metrics.answers import answers_of
from benchmarks.metrics.hits import TIE_TOLERANCE, count_within
from benchmarks.metrics.registry import Measured, measure_mean, metric
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import (
    CONFIDENCE,
    bootstrap_mean,
    bootstrap_mean_of_counts,
    two_sided_z,
    wilson,
)


def parse_delta(text: str) -> Fraction:
    """δ as the decimal, or the fraction, that was typed, exactly.

    Raises:
        ValueError: not a number in (0, 1].
    """
    try:
        if not re.fullmatch(r"[0-9.]{1,40}(e-?[0-9]{1,2})?|[0-9]{1,9}/[0-9]{1,9}", text, re.IGNORECASE):
            raise ValueError
        delta = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"δ must be a decimal such as 0.3, not '{text}'") from None
    if not 0 < delta <= 1:
        raise ValueError(f"δ must be above 0 and at most 1, not {text} (every query has recall ≥ 0)")
    return delta


def hits_needed(delta: Fraction, denominator: int) -> int:
    """Fewest hits h with h / denominator ≥ δ; exact, unlike any comparison of floats."""
    return -((-delta.numerator * denominator) // delta.denominator)


def mean_recall(hits: np.ndarray, denominator: int) -> Measured:
    """Mean of hits / denominator with a bootstrap interval over queries."""
    return mean_of_tally(np.bincount(hits, minlength=denominator + 1))


def mean_of_tally(counts: np.ndarray) -> Measured:
    """The same from how many queries have 0, 1, …, denominator hits."""
    n, denominator = int(counts.sum()), len(counts) - 1
    low, high = bootstrap_mean_of_counts(counts)
    return Measured(int(counts @ np.arange(len(counts))) / (n * denominator), low / denominator, high / denominator, n)


def robustness_of(hits: np.ndarray, delta: Fraction, denominator: int) -> Measured:
    """Share of queries with hits / denominator ≥ δ with its Wilson interval."""
    reached = int(np.count_nonzero(hits >= hits_needed(delta, denominator)))
    low, high = wilson(reached, len(hits))
    return Measured(reached / len(hits), low, high, len(hits))


@metric(
    "recall",
    title="Recall",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=lambda result: result.hits / result.record.denominator,
)
def recall(result: Result) -> Measured:
    """Mean over queries of |answer ∩ exact top K| / K, ties broken by the lower id (paper §3); K is n if n < K."""
    return mean_of_tally(result.tally)


@metric(
    "recall_tied",
    title="Recall (ties counted)",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=lambda result: result.hits_tied / result.record.denominator,
)
def recall_tied(result: Result) -> Measured:
    """As recall, but an id whose exact distance is at most that of the K-th, up to a relative 1e-6, is a hit too."""
    return mean_recall(result.hits_tied, result.record.denominator)


@metric(
    "robustness-{delta}",
    title="Robustness-{delta}",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=lambda result, delta: result.hits >= hits_needed(delta, result.record.denominator),
    share=True,
    delta=parse_delta,
)
def robustness(result: Result, delta: Fraction) -> Measured:
    """Share of queries whose recall@K is at least δ (Robustness-δ@K, paper §3)."""
    return robustness_of(result.hits, delta, result.record.denominator)


@metric(
    "zero-recall",
    title="Zero-recall share",
    unit="1",
    better="lower",
    kind="quality",
    interval=True,
    per_query=lambda result: result.hits == 0,
    share=True,
)
def zero_recall(result: Result) -> Measured:
    """Share of queries that found none of their exact top K (paper §1, Figure 1)."""
    return measure_mean(result.hits == 0)


# --- other recalls --------------------------------------------------------------------------------------------------


def parse_nearest(text: str) -> int:
    """A number of neighbours.

    Raises:
        ValueError: not a positive whole number.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError(f"the number of nearest neighbours is a whole one, as in recall-1, not '{text}'")
    return int(text)


def parse_epsilon(text: str) -> float:
    """ε as it was typed.

    Raises:
        ValueError: not a decimal from 0 to 100.
    """
    try:
        epsilon = float(text) if re.fullmatch(r"[0-9.]{1,40}(e-?[0-9]{1,2})?", text, re.IGNORECASE) else -1.0
    except ValueError:
        epsilon = -1.0
    if not 0 <= epsilon <= 100:
        raise ValueError(f"ε must be a decimal such as 0.01, not '{text}'")
    return epsilon


def nearest_found(result: Result, nearest: int) -> np.ndarray | None:
    """float64 (nq): the share of the nearest that is among all k answers."""
    if nearest > result.identity.k or (answers := answers_of(result)) is None:
        return None
    from benchmarks.metrics.kernels import count_nearest  # here, since most commands need no compiler

    found = np.empty(len(answers.ranks), np.int64)
    count_nearest(answers.ranks, nearest, found)
    return found / min(nearest, result.record.denominator)


@metric(
    "recall-{nearest}",
    title="Recall-{nearest}",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=nearest_found,
    nearest=parse_nearest,
)
def recall_of_nearest(result: Result, nearest: int) -> Measured | None:
    """Mean over queries of the share of the n nearest that is among the K answers: n-recall@K, as "1-recall@10" of
    Jégou et al. (PAMI 2011) and n-recall@k of DiskANN (2019). None for an n above K.
    """
    return measure_mean(nearest_found(result, nearest))


def near_enough(result: Result, epsilon: float) -> np.ndarray | None:
    """float64 (nq): the share of K answers that are hits, or within 1 + ε of the K-th exact distance."""
    if (answers := answers_of(result)) is None:
        return None
    kth = result.truth.kth
    wide = kth * (1 + epsilon) ** 2 if result.identity.distance == "l2" else kth + epsilon * np.abs(kth)
    limit = wide + TIE_TOLERANCE * np.abs(wide)
    return count_within(answers.ranks, answers.distances, limit) / result.record.denominator


@metric(
    "recall-eps-{epsilon}",
    title="(1+{epsilon})-Recall",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=near_enough,
    epsilon=parse_epsilon,
)
def recall_within_epsilon(result: Result, epsilon: float) -> Measured | None:
    """Mean over queries of the share of K answers no farther than 1 + ε times the exact K-th distance (Aumüller et al.,
    ANN-Benchmarks, 2020). Distances are Euclidean for l2, 1 - cosine for cosine; for ip the product is at least that of
    the K-th less ε times its magnitude. Ties up to a relative 1e-6 count, as for recall_tied.
    """
    return measure_mean(near_enough(result, epsilon))


# --- the tail -------------------------------------------------------------------------------------------------------


def parse_share(text: str) -> Fraction:
    """A percentage, exactly.

    Raises:
        ValueError: not a decimal above 0 and below 100.
    """
    percent = Fraction(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", text) else Fraction(0)
    if not 0 < percent < 100:
        raise ValueError(f"a percentage is a number between 0 and 100, not '{text}'")
    return percent / 100


def hits_at(tally: np.ndarray, share: Fraction) -> tuple[int, int, int]:
    """Fewest hits of the best ⌈share · nq⌉ queries, and its interval, from how many queries have 0, 1, … hits.

    The interval is that of all shares from which the one asked for cannot be told by a score test (Wilson 1927).
    """
    n, most = int(tally.sum()), len(tally) - 1
    reached = np.cumsum(tally[::-1])  # queries with at least most, most - 1, … hits
    p, z = float(share), two_sided_z(CONFIDENCE)
    spread = z * (n * p * (1 - p)) ** 0.5
    at = math.ceil(share * n)
    last, first = max(at, math.ceil(n * p + spread)), min(at, math.floor(n * p - spread))
    found, low, high = (most - int(np.searchsorted(reached, place)) for place in (at, min(last, n), max(first, 1)))
    return found, low if last <= n else 0, high


@metric(
    "recall-p{percent}",
    title="Recall-p{percent}",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    percent=parse_share,
)
def recall_percentile(result: Result, percent: Fraction) -> Measured:
    """Recall that at least x % of the queries reach: recalls are sorted in descending order and the x-th percentile is
    taken (paper §4), which is the ⌈x n / 100⌉-th of n, without interpolation. p95 is low where the tail is bad.
    """
    return Measured(*(count / result.record.denominator for count in hits_at(result.tally, percent)), len(result.hits))


@metric("recall-min", title="Recall-min", unit="1", better="higher", kind="quality", interval=True)
def recall_min(result: Result) -> Measured:
    """Recall of the worst query. Its interval begins at 0: other queries may fare worse, and the least recall of all
    that could be asked is no higher than that of these.
    """
    least = int(result.hits.min()) / result.record.denominator
    return Measured(least, 0.0, least, len(result.hits))


def mean_of_worst(hits: np.ndarray, tally: np.ndarray, share: Fraction) -> tuple[float, float, float]:
    """Mean hits of the ⌈share · nq⌉ queries with the fewest, and its bootstrap interval over queries.

    `tally` is how many queries have 0, 1, … hits.

    It is the mean over all queries of v - max(0, v - hits) · nq / ⌈share · nq⌉, where v is the most that one of the
    worst has. That v moves with the sample changes the mean only in the second order (Rockafellar and Uryasev 2000), so
    the interval is that of these values.
    """
    n, worst = len(hits), math.ceil(share * len(hits))
    most = int(np.searchsorted(np.cumsum(tally), worst))
    short = np.maximum(0, most - np.arange(len(tally)))
    low, high = bootstrap_mean((most - short * (n / worst)).take(hits))
    mean = (most * worst - int(tally @ short)) / worst
    return mean, max(0.0, min(low, mean)), max(high, mean)


@metric(
    "worst-{percent}",
    title="Worst-{percent} % recall",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    percent=parse_share,
)
def worst(result: Result, percent: Fraction) -> Measured:
    """Mean recall of the x % of the queries with the lowest, ⌈x n / 100⌉ of n: the expected shortfall of recall."""
    means = mean_of_worst(result.hits, result.tally, percent)
    return Measured(*(mean / result.record.denominator for mean in means), len(result.hits))
