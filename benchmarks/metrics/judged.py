"""Metrics against what people judged relevant: of the data and its embedding as much as of the index.

They are no index recall. Exact search has its own value, mostly far below 1, and an index may exceed it.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.metrics.registry import Measured, measure_mean, metric
from benchmarks.results.relevance import Relevance
from benchmarks.results.store import Result


class Judged(NamedTuple):
    """Grades of the queries that have judgments, each with its precision and NDCG, float64 (judged queries,)."""

    precision: np.ndarray
    ndcg: np.ndarray


def judge_answers(neighbors: np.ndarray, relevance: Relevance) -> Judged:
    """Grade the answers.

    Args:
        neighbors: cleaned ids (nq, k), -1 for none.
        relevance: judgments; those of queries beyond nq count for nothing.
    """
    nq, k = neighbors.shape
    counts = relevance.query < nq
    query, id, grade = relevance.query[counts], relevance.id[counts], relevance.grade[counts]
    rows, start = np.unique(query, return_index=True)
    keys, asked = (query << 32) + id, (rows[:, None] << 32) + neighbors[rows]
    at = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    found = np.where((neighbors[rows] >= 0) & (keys[at] == asked), grade[at], 0.0)
    discounts = 1 / np.log2(np.arange(k) + 2)
    best = np.zeros((len(rows), k))
    order = np.lexsort((-grade, query))
    place = np.arange(len(query)) - np.repeat(start, np.diff(np.append(start, len(query))))
    within = place < k
    best[np.searchsorted(rows, query[within]), place[within]] = grade[order][within]
    gain, ideal = found @ discounts, best @ discounts
    return Judged(np.count_nonzero(found, axis=1) / k, np.divide(gain, ideal, out=np.zeros(len(rows)), where=ideal > 0))


def judged_of(result: Result) -> Judged | None:
    """The graded answers of a result, or None where nobody judged."""
    relevance = result.relevance
    if relevance is None or not (relevance.query < result.record.nq).any():
        return None
    return _judged(result, relevance)


@lru_cache(maxsize=2)
def _judged(result: Result, relevance: Relevance) -> Judged:
    return judge_answers(result.neighbors, relevance)


def _of_all(result: Result, name: str) -> np.ndarray | None:
    """Values per query where every query has judgments."""
    judged = judged_of(result)
    return getattr(judged, name) if judged and len(judged.precision) == result.record.nq else None


@metric(
    "judged-precision",
    title="Precision (human judgments)",
    unit="1",
    better="higher",
    kind="relevance",
    interval=True,
    per_query=lambda result: _of_all(result, "precision"),
)
def judged_precision(result: Result) -> Measured | None:
    """Mean of the share of K answers that people judged relevant (a grade above 0), over the queries with judgments:
    P_K of trec_eval. Not index recall: exact search is mostly far below 1 too.
    """
    return measure_mean((judged := judged_of(result)) and judged.precision)


@metric(
    "judged-ndcg",
    title="NDCG (human judgments)",
    unit="1",
    better="higher",
    kind="relevance",
    interval=True,
    per_query=lambda result: _of_all(result, "ndcg"),
)
def judged_ndcg(result: Result) -> Measured | None:
    """Mean of DCG / IDCG over the queries with judgments: grades summed, each over log2(place in the answer + 1), and
    the same of the K best grades (ndcg_cut of trec_eval). Not index recall, as judged-precision.
    """
    return measure_mean((judged := judged_of(result)) and judged.ndcg)
