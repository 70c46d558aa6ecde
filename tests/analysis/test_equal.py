import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.analysis.equal import match, names_of
from benchmarks.analysis.series import series
from benchmarks.analysis.stations import station_at
from benchmarks.metrics.registry import Measured, parse_metric
from benchmarks.results.store import Store
from tests.factories import make_result, partition_hits

RECALL, NINE = parse_metric("recall"), parse_metric("robustness-0.9")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def flat(store, hits, nq=100, **options):
    """A point at which every query has so many hits, of ten."""
    return make_result(store, hits=np.full(nq, hits), **options)


def test_a_point_that_has_it_is_taken_as_it_is(store):
    there = flat(store, 9, search={"ef": 1})
    flat(store, 8, search={"ef": 2})
    matches = match(list(store.results()), 0.9)
    (point,) = matches.found
    assert [each.path for each in point.points] == [there.path] and not point.interpolated
    assert point.combine(RECALL.compute) == RECALL.compute(there) and point.search == "ef=1"
    assert matches.note() == ["Compared at average recall 0.9."]


def test_a_point_beside_it_is_no_exception_but_at_the_end_of_a_sweep(store):
    """Figures and claims have one rule: 0.002 of recall are more of robustness-0.9 than many differences."""
    near = make_result(store, hits=np.repeat([9, 8], [99, 1]), search={"ef": 2})  # 0.899
    flat(store, 8, search={"ef": 1})
    assert "the last is shown as it is" in match(list(store.results()), 0.9).note()[0]
    (point,) = match(list(store.results()), 0.9).found
    assert point.result.path == near.path and point.recall == 0.899
    flat(store, 10, search={"ef": 3})
    (point,) = match(list(store.results()), 0.9).found
    assert point.search == "ef=2…3" and point.recall == pytest.approx(0.9)
    station = station_at([each.points for each in series(store.results(), {})], 0.9)
    assert station.values(NINE).mean() == pytest.approx(point.combine(NINE.compute).value)


def test_the_lowest_seed_that_has_it_is_shown(store):
    for seed, hits in ((0, (5, 8)), (1, (7, 10)), (2, (8, 10))):
        for ef, each in enumerate(hits):
            flat(store, each, search={"ef": ef}, seed=seed)
    (point,) = match(list(store.results()), 0.9).found
    assert point.result.identity.seed == 1 and point.lines == 1


def test_else_it_lies_between_the_two_nearest_of_a_sweep(store):
    for probes, hits in ((1, 5), (2, 8), (4, 10)):
        flat(store, hits, search={"n_probe": probes})
    (point,) = match(list(store.results()), 0.95).found
    assert point.weights == pytest.approx((0.25, 0.75)) and point.search == "n_probe=2…4"
    assert point.recall == pytest.approx(0.95)
    assert point.combine(RECALL.compute).value == pytest.approx(0.95)
    assert point.combine(parse_metric("robustness-0.9").compute).value == pytest.approx(0.75)
    assert names_of([point], [point.result]) == [
        "faiss-hnsw n_probe=2…4 (recall 0.950, interpolated between 0.800 and 1.000)"
    ]


def test_only_points_of_one_build_and_sweep_are_joined(store):
    flat(store, 8, build={"M": 8}, search={"ef": 1})
    flat(store, 10, build={"M": 16}, search={"ef": 1})
    flat(store, 10, build={"M": 8}, search={"ef": 2, "reorder": 5})
    flat(store, 10, build={"M": 8}, search={"ef": 2}, seed=1)
    assert len(match([*store.results(), *others(store)], 0.9).off) == 1


def others(store):
    """A point of another algorithm at recall 0.9, so that there is something to find."""
    return [flat(Store(store.folder / "more"), 9, algorithm="other")]


def test_an_algorithm_on_one_side_alone_is_named_and_not_compared(store):
    flat(store, 9)
    flat(store, 10, algorithm="faiss-flat")
    make_result(store, algorithm="dead", status="timeout", nq=100)
    matches = match(list(store.results()), 0.9)
    assert [each.result.identity.algorithm for each in matches.found] == ["faiss-hnsw"]
    assert (
        "Not shown, since no point is at or on both sides of this recall: faiss-flat (nearest 1.000)." in matches.note()
    )


def test_too_few_are_an_error_that_says_what_to_do(store, refusal):
    flat(store, 10)
    message = refusal(match, list(store.results()), 0.9)
    assert "nearest: faiss-hnsw (nearest 1.000)" in message and "--recall" in message and "run.py --set" in message
    flat(store, 9, algorithm="other")
    message = refusal(match, list(store.results()), 0.9, at_least=2)
    assert (
        "2 indexes are needed" in message
        and "there: other; nearest of the others: faiss-hnsw (nearest 1.000)" in message
    )


def test_the_error_is_nothing_on_a_line_and_twice_what_a_parabola_has(store):
    for probes, hits in ((1, 4), (2, 6), (4, 10)):
        flat(store, hits, search={"n_probe": probes})
    (point,) = match(list(store.results()), 0.9).found
    assert [each.identity.search_params["n_probe"] for each in point.others] == [1]

    def of(function):
        return lambda result: Measured(function(RECALL.compute(result).value))

    assert point.error(of(lambda recall: 3 * recall + 1)) == pytest.approx(0)
    square = of(lambda recall: recall**2)
    assert point.combine(square).value - point.error(square) / 2 == pytest.approx(0.9**2)


def test_without_a_third_point_the_error_is_the_way_to_the_farther_end(store):
    for probes, hits in ((1, 6), (2, 10)):
        flat(store, hits, search={"n_probe": probes})
    (point,) = match(list(store.results()), 0.9).found
    of = parse_metric("robustness-0.8").compute
    measured = point.combine(of)
    assert measured.value == pytest.approx(0.75) and point.error(of) == pytest.approx(0.75)
    assert measured.low == pytest.approx(0, abs=0.01) and measured.high == 1


@settings(max_examples=20)
@given(seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)), target=st.floats(0.75, 0.85))
def test_the_curve_of_a_mixture_has_the_wanted_mean(tmp_path_factory, seeds, target):
    store = Store(tmp_path_factory.mktemp("results"))
    target = round(target, 3)
    for probes, (recall, seed) in enumerate(zip((0.6, 0.95), seeds, strict=True)):
        make_result(store, search={"n_probe": probes}, hits=partition_hits(recall, 80, seed=seed))
    (point,) = match(list(store.results()), target, tolerance=0.0001).found
    curve = [point.combine(parse_metric(f"robustness-{j}/10").compute) for j in range(1, 11)]
    assert np.mean([each.value for each in curve]) == pytest.approx(target)
    assert all(each.low <= each.value <= each.high for each in curve)
