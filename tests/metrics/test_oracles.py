"""Ranking metrics against ir-measures; recalls against the definitions of others, and where those are wrong."""

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, nDCG

from benchmarks.metrics.judged import judge_answers
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.relevance import Relevance
from tests.metrics.worlds import random_world, world
from tests.performance.metrics import ann_benchmarks_recall, big_ann_recall


def as_run(rows) -> dict:
    """Ids in order, as scores that fall; -1 is left out, and its place with it is taken by an id that nobody knows."""
    return {
        str(query): {str(item) if item >= 0 else f"none{place}": float(-place) for place, item in enumerate(row)}
        for query, row in enumerate(rows.tolist())
    }


def as_qrels(rows) -> dict:
    """Every id is relevant, and those that are missing would have been."""
    return {
        str(query): {str(item) if item >= 0 else f"missing{place}": 1 for place, item in enumerate(row)}
        for query, row in enumerate(rows.tolist())
    }


def by_query(measure, qrels, run) -> np.ndarray:
    values = {int(item.query_id): item.value for item in ir_measures.iter_calc([measure], qrels, run)}
    return np.array([values[query] for query in range(len(qrels))])


@pytest.mark.parametrize("k", [1, 5, 10, 50])
@pytest.mark.parametrize("seed", range(4))
def test_ranking_is_that_of_ir_measures(seed, k):
    result = random_world(seed, nq=40, n=80, k=k)
    answers, truth = as_run(result.neighbors), as_qrels(result.truth.ids)
    for name, measure in (("map", AP @ k), ("mrr", RR @ k), ("ndcg_by_answer", nDCG @ k)):
        expected = by_query(measure, truth, answers)
        np.testing.assert_allclose(parse_metric(name).per_query(result), expected, atol=1e-12, err_msg=name)
        assert parse_metric(name).compute(result).value == pytest.approx(
            ir_measures.calc_aggregate([measure], truth, answers)[measure]
        )
    # The paper's place is that in the truth: what is ranked is the truth, and relevant is what was returned.
    expected = by_query(nDCG @ k, as_qrels(result.neighbors), as_run(result.truth.ids))
    np.testing.assert_allclose(parse_metric("ndcg").per_query(result), expected, atol=1e-12)


def test_ranking_by_hand():
    """Truth 0, 1, 2, 3; the answer has 2 in front, a miss, and 0 in the third place."""
    result = world(np.arange(9.0)[None], np.array([[2, 8, 0, 7]]))
    log = np.log2
    ideal = sum(1 / log(place + 1) for place in (1, 2, 3, 4))
    for name, value in (
        ("map", (1 / 1 + 2 / 3) / 4),
        ("mrr", 1),
        ("ndcg", (1 / log(4) + 1 / log(2)) / ideal),
        ("ndcg_by_answer", (1 / log(2) + 1 / log(4)) / ideal),
        ("recall-1", 1),
        ("recall-2", 1 / 2),
        ("recall-3", 2 / 3),
    ):
        assert parse_metric(name).compute(result).value == pytest.approx(value), name


# --- human judgments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("seed", range(4))
def test_judged_metrics_are_those_of_ir_measures(seed, k):
    random = np.random.default_rng(seed)
    nq, n = 30, 60
    neighbors = np.array([random.permutation(n)[:k] for _ in range(nq)])
    neighbors[random.random((nq, k)) < 0.1] = -1
    pairs = np.argwhere(random.random((nq, n)) < 0.2)
    pairs = pairs[pairs[:, 0] % 7 != 3]  # nobody judged some of the queries
    grades = random.integers(0, 4, len(pairs))
    judged = judge_answers(neighbors, Relevance(pairs[:, 0], pairs[:, 1], grades.astype(float)))
    qrels: dict = {}
    for (query, item), grade in zip(pairs.tolist(), grades.tolist(), strict=True):
        qrels.setdefault(str(query), {})[str(item)] = grade
    run = {query: found for query, found in as_run(neighbors).items() if query in qrels}
    for values, measure in ((judged.precision, P @ k), (judged.ndcg, nDCG @ k)):
        found = {int(item.query_id): item.value for item in ir_measures.iter_calc([measure], qrels, run)}
        np.testing.assert_allclose(values, [found[query] for query in sorted(found)], atol=1e-12)


# --- other harnesses ------------------------------------------------------------------------------------------------


def recalls(result, name="recall") -> np.ndarray:
    return parse_metric(name).per_query(result)


@pytest.mark.parametrize("seed", range(5))
def test_recall_is_that_of_big_ann_benchmarks_without_gaps(seed):
    result = random_world(seed, nq=30, n=60, k=10)
    answers = np.where(result.neighbors < 0, -2, result.neighbors)
    expected = big_ann_recall(result.truth.ids, result.truth.distances, answers, 10)
    np.testing.assert_array_equal(recalls(result), expected)


@pytest.mark.parametrize("seed", range(5))
def test_tied_recall_is_that_of_big_ann_benchmarks_where_distances_are_small_whole_numbers(seed):
    result = random_world(seed, nq=30, n=60, k=10, ties=True)
    deep = random_world(seed, nq=30, n=60, k=60, ties=True).truth  # the truth to its end, so that every tie is seen
    np.testing.assert_array_equal(deep.ids[:, :10], result.truth.ids)
    answers = np.where(result.neighbors < 0, -2, result.neighbors)
    expected = big_ann_recall(deep.ids, deep.distances, answers, 10)
    np.testing.assert_array_equal(recalls(result, "recall_tied"), expected)


@pytest.mark.parametrize("seed", range(5))
def test_tied_recall_is_that_of_ann_benchmarks_where_distances_are_far_apart(seed):
    result = random_world(seed, nq=30, n=60, k=10, ties=True)
    expected = ann_benchmarks_recall(result.truth.distances, result.distances.astype(float), 10)
    np.testing.assert_array_equal(recalls(result, "recall_tied"), expected)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1])
@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_epsilon_recall_is_that_of_ann_benchmarks(distance, epsilon):
    """Their distances are Euclidean, ours squared."""
    result = random_world(3, nq=50, n=80, k=10, distance=distance)
    root = np.sqrt if distance == "l2" else np.asarray
    limit = root(result.truth.distances[:, -1:]) * (1 + epsilon)
    expected = (root(result.distances.astype(float)) <= limit).sum(axis=1) / 10
    np.testing.assert_array_equal(recalls(result, f"recall-eps-{epsilon}"), expected)


def test_where_big_ann_benchmarks_is_wrong():
    """A gap hits a gap of the truth; answers beyond K count, up to a recall of 2; large distances hardly tie."""
    gaps = np.array([[0, -1]]), np.array([[0.0, 1.0]])
    assert big_ann_recall(*gaps, np.array([[5, -1]]), 2).tolist() == [0.5]
    near, wide = np.arange(4.0)[None], np.array([[0, 1, 2, 3]])
    assert big_ann_recall(wide, np.zeros((1, 4)), wide, 2).tolist() == [2.0]
    distances = np.array([[1e6, 1e6 + 0.01, 1e6 + 0.02, 2e6]])  # of squared float32: equal up to rounding
    result = world(distances, np.array([[0, 2]]))
    assert big_ann_recall(wide, distances, result.neighbors, 2).tolist() == [0.5]
    assert recalls(result, "recall_tied").tolist() == [1.0]
    assert recalls(world(near, np.array([[3, -1]]))).tolist() == [0.0]


def test_where_ann_benchmarks_is_wrong():
    """The same id K times is worth K; 1e-3 is far for angular distances; and epsilon shrinks a negative distance."""
    near = np.array([[0.0001, 0.0003, 0.0009, 0.9]])
    again = world(near, np.array([[0, 0]]), "cosine")
    assert ann_benchmarks_recall(again.truth.distances, np.array([[0.0001, 0.0001]]), 2).tolist() == [1.0]
    assert recalls(again, "recall_tied").tolist() == [0.5] == recalls(again).tolist()
    missed = world(near, np.array([[0, 2]]), "cosine")
    assert ann_benchmarks_recall(missed.truth.distances, missed.distances, 2).tolist() == [1.0]
    assert recalls(missed, "recall_tied").tolist() == [0.5]
    products = world(np.array([[-2.0, -1.0, -0.95]]), np.array([[0, 2]]), "ip")
    theirs = (products.distances <= products.truth.distances[:, -1:] * (1 + 0.1)).mean(axis=1)
    assert theirs.tolist() == [0.5] and recalls(products, "recall-eps-0.1").tolist() == [1.0]
