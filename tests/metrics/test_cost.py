import dataclasses

import numpy as np
import pytest

from benchmarks.metrics.cost import parse_percentile
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Result, Store
from tests.factories import make_result


def with_arrays(result: Result, **arrays) -> Result:
    """The result with its arrays replaced, as if they had been read from the file."""
    copy = dataclasses.replace(result)
    copy.__dict__.update(arrays)
    return copy


@pytest.fixture
def result(tmp_path):
    return make_result(Store(tmp_path), nq=100, mode="single")


def changed(result: Result, **fields) -> Result:
    return Result(result.path, result.record.model_copy(update=fields))


def test_qps_is_the_median_of_the_passes(result):
    measured = parse_metric("qps").compute(with_arrays(result, search_seconds=np.array([1.0, 4.0, 2.0])))
    assert (measured.value, measured.low, measured.high, measured.n) == (50.0, 25.0, 100.0, 3)


def test_qps_of_an_even_number_of_passes(result):
    assert parse_metric("qps").compute(with_arrays(result, search_seconds=np.array([1.0, 2.0]))).value == 75.0


def test_best_qps_is_the_fastest_pass(result):
    measured = parse_metric("qps-best").compute(with_arrays(result, search_seconds=np.array([2.0, 0.5, 1.0])))
    assert (measured.value, measured.n, measured.low) == (200.0, 3, None)


@pytest.mark.parametrize(
    ("name", "milliseconds"), [("latency-p50", 50.5), ("latency-p99", 99.01), ("latency-p99.9", 99.901)]
)
def test_latency_is_over_all_queries_and_repeats(result, name, milliseconds):
    seconds = (np.arange(1, 101) / 1000).reshape(2, 50)[::-1]
    measured = parse_metric(name).compute(with_arrays(result, latency=seconds))
    assert measured.value == pytest.approx(milliseconds) and measured.n == 100


def test_latency_only_where_it_was_measured(tmp_path):
    assert parse_metric("latency-p50").compute(make_result(Store(tmp_path), mode="batch")) is None


@pytest.mark.parametrize(
    ("build", "search", "peak"), [(5, 9, 9), (9, 5, 9), (None, 5, 5), (5, None, 5), (None, None, None)]
)
def test_peak_memory_is_the_larger_of_what_was_seen(result, build, search, peak):
    measured = parse_metric("peak_memory_bytes").compute(
        changed(result, build_peak_bytes=build, search_peak_bytes=search)
    )
    assert (measured and measured.value) == peak


@pytest.mark.parametrize(
    ("field", "value"), [("index_bytes", 123), ("index_bytes", 0), ("build_seconds", 1.5), ("build_seconds", 0.0)]
)
def test_what_was_recorded(result, field, value):
    assert parse_metric(field).compute(changed(result, **{field: value})).value == value


@pytest.mark.parametrize("field", ["index_bytes", "build_seconds"])
def test_what_was_not_recorded(result, field):
    assert parse_metric(field).compute(changed(result, **{field: None})) is None


@pytest.mark.parametrize(
    "name", ["qps", "qps-best", "latency-p50", "build_seconds", "index_bytes", "peak_memory_bytes"]
)
def test_a_failed_point_has_no_cost(tmp_path, name):
    assert parse_metric(name).compute(make_result(Store(tmp_path), status="failed", mode="single")) is None


@pytest.mark.parametrize(("text", "value"), [("50", 50.0), ("99.9", 99.9), ("0.1", 0.1)])
def test_percentile(text, value):
    assert parse_percentile(text) == value


@pytest.mark.parametrize("text", ["0", "100", "-1", "101", "x", "", "nan", "inf", "p50"])
def test_what_is_no_percentile(text):
    with pytest.raises(ValueError, match="between 0 and 100"):
        parse_percentile(text)
