"""Metrics of information retrieval, with the exact top K as what is relevant (paper §4)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.metrics.answers import answers_of
from benchmarks.metrics.registry import Measured, measure_mean, metric
from benchmarks.results.store import Result


class Scores(NamedTuple):
    """What the ranks of a result's hits are worth, each float64 (nq) in [0, 1]."""

    average_precision: np.ndarray
    gain: np.ndarray
    gain_by_answer: np.ndarray
    reciprocal_rank: np.ndarray


def score(ranks: np.ndarray, denominator: int) -> Scores:
    """Average precision, NDCG by either place and reciprocal rank of each query.

    Args:
        ranks: (nq, k), of `rank_in_truth`.
        denominator: K, or n where the base has fewer vectors.
    """
    from benchmarks.metrics.kernels import score_ranks  # here, since a figure drawn from kept values needs no compiler

    discounts = 1 / np.log2(np.arange(max(denominator, ranks.shape[1])) + 2)
    scores = [np.empty(len(ranks)) for _ in Scores._fields]
    score_ranks(ranks, discounts, denominator, _sum_in_order(discounts[:denominator]), *scores)
    return Scores(*scores)


def _sum_in_order(values: np.ndarray) -> float:
    """As the kernel adds, so that a perfect answer has a gain of exactly 1."""
    return float(np.cumsum(values)[-1])


def scores_of(result: Result) -> Scores | None:
    """The scores of a result; None without its truth."""
    return None if answers_of(result) is None else _scores(result)


@lru_cache(maxsize=2)
def _scores(result: Result) -> Scores:
    return score(answers_of(result).ranks, result.record.denominator)


def average_precision(result: Result) -> np.ndarray | None:
    """float64 (nq)."""
    return None if (scores := scores_of(result)) is None else scores.average_precision


def gain(result: Result) -> np.ndarray | None:
    """float64 (nq), discounted by the place in the truth."""
    return None if (scores := scores_of(result)) is None else scores.gain


def gain_by_answer(result: Result) -> np.ndarray | None:
    """float64 (nq), discounted by the place in the answer."""
    return None if (scores := scores_of(result)) is None else scores.gain_by_answer


def reciprocal_rank(result: Result) -> np.ndarray | None:
    """float64 (nq)."""
    return None if (scores := scores_of(result)) is None else scores.reciprocal_rank


@metric(
    "map",
    title="MAP",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=average_precision,
)
def mean_average_precision(result: Result) -> Measured | None:
    """Mean over queries of the sum, over the hits, of hits so far / place in the answer, divided by K (paper §4).

    The paper "averages these values" and does not say over what. Over the hits alone, one hit in the first place would
    be worth as much as K of them, and for answers sorted by exact distance it would be their MRR, from which the
    paper's MAP differs (Figure 3). Divided by K, the number of relevant ids, it is what trec_eval calls map_cut, and
    for answers sorted by exact distance it is the recall.
    """
    return measure_mean(average_precision(result))


@metric("ndcg", title="NDCG", unit="1", better="higher", kind="quality", interval=True, per_query=gain)
def ndcg(result: Result) -> Measured | None:
    """Mean over queries of DCG / IDCG, where DCG sums 1 / log(place + 1) over the hits, and IDCG over 1 … K (paper §4).

    The place is that "in the ground-truth list", as the paper writes, so that what counts is how near the missed
    neighbours are, and not the order of the answer. `ndcg_by_answer` takes the other reading.
    """
    return measure_mean(gain(result))


@metric(
    "ndcg_by_answer",
    title="NDCG (by place in the answer)",
    unit="1",
    better="higher",
    kind="quality",
    interval=True,
    per_query=gain_by_answer,
)
def ndcg_by_answer(result: Result) -> Measured | None:
    """As ndcg, but the place of a hit is that in the answer: NDCG as trec_eval computes it with the top K as relevant.

    The paper's first sentence on NDCG (§4), "the rank positions of relevant items in the retrieved list", says this;
    its formula says the other.
    """
    return measure_mean(gain_by_answer(result))


@metric("mrr", title="MRR", unit="1", better="higher", kind="quality", interval=True, per_query=reciprocal_rank)
def mean_reciprocal_rank(result: Result) -> Measured | None:
    """Mean over queries of 1 / place in the answer of its first id that is in the exact top K, else 0 (paper §4)."""
    return measure_mean(reciprocal_rank(result))
