"""What holds for every metric of answers, whatever they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.metrics.hits import clean_neighbors
from benchmarks.metrics.registry import parse_metric
from benchmarks.metrics.table import DEFAULT_METRICS
from tests.metrics.worlds import METRICS, random_answers, world

SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=25)


def value(name: str, result) -> float:
    return parse_metric(name).compute(result).value


@st.composite
def cases(draw):
    """(distances, answers, their kind of distance): ties, short answers, repeats, and bases smaller than K."""
    random = np.random.default_rng(draw(SEEDS))
    nq, n, k = draw(st.integers(1, 12)), draw(st.integers(2, 30)), draw(st.integers(1, 8))
    distance = draw(st.sampled_from(["l2", "ip", "cosine"]))
    distances = random.random((nq, n)) * 2
    if draw(st.booleans()):
        distances = np.floor(distances * 4) / 4
    if distance == "ip":
        distances -= 2.5
    return distances, random_answers(random, distances, k), distance


def test_the_laws_are_of_every_metric_of_answers():
    every = [parse_metric(name).definition for name in DEFAULT_METRICS]
    quality = {item.template for item in every if item.kind == "quality"}
    assert {parse_metric(name).definition.template for name in METRICS} == quality


@few
@given(cases())
def test_values_lie_between_0_and_1_in_their_interval_and_are_the_mean_over_queries(case):
    result = world(*case)
    for name in METRICS:
        measured, values = parse_metric(name).compute(result), parse_metric(name).per_query(result)
        if measured is None:
            assert name == "recall-3" and result.identity.k < 3
            continue
        assert 0 <= measured.low <= measured.value <= measured.high <= 1 and measured.n == len(case[0]), name
        if values is not None:
            assert values.mean() == pytest.approx(measured.value, abs=1e-12), name


@few
@given(cases(), SEEDS)
def test_the_names_of_ids_do_not_matter(case, seed):
    distances, ids, distance = case
    distances = distances + np.arange(distances.shape[1]) * 1e-4  # with ties, the lower name is nearer
    names = np.random.default_rng(seed).permutation(distances.shape[1])
    renamed = np.empty_like(distances)
    renamed[:, names] = distances
    one, other = world(distances, ids, distance), world(renamed, np.where(ids < 0, -1, names[ids]), distance)
    for name in METRICS:
        assert parse_metric(name).compute(one) == parse_metric(name).compute(other), name


@few
@given(cases(), SEEDS)
def test_the_order_of_the_queries_does_not_matter(case, seed):
    distances, ids, distance = case
    order = np.random.default_rng(seed).permutation(len(ids))
    one, other = world(distances, ids, distance), world(distances[order], ids[order], distance)
    for name in METRICS:
        before, after = parse_metric(name).per_query(one), parse_metric(name).per_query(other)
        if before is not None:
            np.testing.assert_array_equal(before[order], after)
        elif parse_metric(name).compute(one) is not None:
            assert value(name, one) == value(name, other), name


@few
@given(cases(), SEEDS)
def test_repeats_and_gaps_never_help(case, seed):
    """An answer is overwritten by a copy of one before it, or by -1: no metric gains, in no query."""
    distances, ids, distance = case
    random = np.random.default_rng(seed)
    worse = ids.copy()
    for row in worse:
        at = random.integers(len(row))
        row[at] = row[random.integers(at)] if at and random.random() < 0.5 else -1
    one, other = world(distances, ids, distance), world(distances, worse, distance)
    for name in METRICS:
        metric = parse_metric(name)
        if metric.compute(one) is None:
            continue
        sign = 1 if metric.definition.better == "higher" else -1
        assert sign * value(name, other) <= sign * value(name, one) + 1e-12, name
        if metric.per_query(one) is not None:
            assert (sign * metric.per_query(other) <= sign * metric.per_query(one) + 1e-12).all(), name


@few
@given(cases())
def test_a_perfect_answer_is_worth_1_and_none_is_worth_0(case):
    distances, ids, distance = case
    exact = np.full(ids.shape, -1)
    order = np.argsort(distances, axis=1, kind="stable")[:, : ids.shape[1]]
    exact[:, : order.shape[1]] = order
    best, none = world(distances, exact, distance), world(distances, np.full_like(ids, -1), distance)
    for name in METRICS:
        if parse_metric(name).compute(best) is None:
            continue
        good, bad = (1, 0) if parse_metric(name).definition.better == "higher" else (0, 1)
        assert (value(name, best), value(name, none)) == (good, bad), name


@few
@given(cases())
def test_what_asks_for_less_is_no_smaller(case):
    result = world(*case)
    for names in (
        ("robustness-1", "robustness-0.5", "robustness-0.1"),
        ("recall-min", "recall-p95", "recall-p50", "recall-p5"),
        ("worst-1", "worst-5", "worst-50", "worst-99", "recall"),
        ("recall", "recall_tied", "recall-eps-0.1", "recall-eps-1"),
        ("within-0", "within-0.1", "within-1"),
    ):
        values = [value(name, result) for name in names]
        assert all(less <= more + 1e-12 for less, more in zip(values, values[1:], strict=False)), names


@few
@given(cases())
def test_robustness_at_1_over_k_is_what_zero_recall_leaves(case):
    result = world(*case)
    least = f"robustness-1/{result.record.denominator}"
    assert value(least, result) == pytest.approx(1 - value("zero-recall", result))
    curve = [
        value(f"robustness-{j}/{result.record.denominator}", result) for j in range(1, result.record.denominator + 1)
    ]
    assert value("recall", result) == pytest.approx(np.mean(curve)) and curve == sorted(curve, reverse=True)


@few
@given(cases())
def test_answers_by_exact_distance_have_their_recall_as_map(case):
    distances, ids, distance = case
    distances = distances + np.arange(distances.shape[1]) * 1e-6
    ids = clean_neighbors(ids, distances.shape[1]).neighbors
    found = np.where(ids < 0, np.inf, np.take_along_axis(distances, np.maximum(ids, 0), axis=1))
    result = world(distances, np.take_along_axis(ids, np.argsort(found, axis=1, kind="stable"), axis=1), distance)
    assert value("map", result) == pytest.approx(value("recall", result))
    assert value("mrr", result) == pytest.approx(1 - value("zero-recall", result))
