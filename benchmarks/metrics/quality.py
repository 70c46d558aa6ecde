"""Recall and robustness: counted from integer hits, divided once."""

import re
from fractions import Fraction

import numpy as np

from benchmarks.metrics.registry import Measured, metric
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import bootstrap_mean_of_counts, wilson


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
    counts = np.bincount(hits, minlength=denominator + 1)
    low, high = bootstrap_mean_of_counts(counts)
    return Measured(
        int(hits.sum(dtype=np.int64)) / (len(hits) * denominator), low / denominator, high / denominator, len(hits)
    )


def robustness_of(hits: np.ndarray, delta: Fraction, denominator: int) -> Measured:
    """Share of queries with hits / denominator ≥ δ with its Wilson interval."""
    reached = int((hits >= hits_needed(delta, denominator)).sum())
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
    return mean_recall(result.hits, result.record.denominator)


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
