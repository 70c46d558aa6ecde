from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics.hits import count_hits
from benchmarks.metrics.quality import hits_needed, mean_recall, parse_delta, robustness_of
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from benchmarks.statistics.intervals import wilson
from tests.factories import make_result

DENOMINATORS = [1, 2, 3, 7, 10, 20, 50, 99, 100, 1000]


@st.composite
def hits_of(draw, denominators=DENOMINATORS):
    denominator = draw(st.sampled_from(denominators))
    values = draw(st.lists(st.integers(0, denominator), min_size=1, max_size=60))
    return np.array(values, np.uint16), denominator


# --- laws ----------------------------------------------------------------------------------------------------------


@given(hits_of())
def test_mean_recall_is_the_mean_of_robustness(case):
    hits, denominator = case
    curve = [robustness_of(hits, Fraction(j, denominator), denominator).value for j in range(1, denominator + 1)]
    assert abs(mean_recall(hits, denominator).value - np.mean(curve)) < 1e-12


@given(hits_of(), st.lists(st.fractions(Fraction(1, 1000), 1), min_size=2, max_size=5))
def test_robustness_falls_as_delta_grows(case, deltas):
    hits, denominator = case
    values = [robustness_of(hits, delta, denominator).value for delta in sorted(deltas)]
    assert values == sorted(values, reverse=True)


@given(hits_of(), st.fractions(Fraction(1, 1000), 1))
def test_robustness_is_the_share_of_queries_at_or_above_delta(case, delta):
    hits, denominator = case
    reached = sum(Fraction(int(item), denominator) >= delta for item in hits)
    measured = robustness_of(hits, delta, denominator)
    assert measured.value == reached / len(hits) and measured.n == len(hits)
    assert (measured.low, measured.high) == wilson(reached, len(hits))


@given(hits_of(), st.randoms())
def test_the_order_of_queries_does_not_matter(case, random):
    hits, denominator = case
    shuffled = hits.copy()
    random.shuffle(shuffled)
    assert mean_recall(shuffled, denominator) == mean_recall(hits, denominator)
    assert robustness_of(shuffled, Fraction(1, 3), denominator) == robustness_of(hits, Fraction(1, 3), denominator)


@given(st.integers(0, 2**32 - 1))
def test_the_names_of_ids_do_not_matter(seed):
    random = np.random.default_rng(seed)
    truth = np.array([random.permutation(30)[:5] for _ in range(6)], np.int32)
    ids = np.array([random.permutation(30)[:5] for _ in range(6)], np.int32)
    names = random.permutation(30).astype(np.int32)
    np.testing.assert_array_equal(count_hits(names[ids], names[truth]), count_hits(ids, truth))
    np.testing.assert_array_equal(count_hits(ids[:, ::-1], truth[:, random.permutation(5)]), count_hits(ids, truth))


@given(hits_of(), hits_of())
def test_recall_lies_in_its_interval(case, _):
    hits, denominator = case
    measured = mean_recall(hits, denominator)
    assert 0 <= measured.low <= measured.high <= 1 and measured.n == len(hits)
    assert hits.min() / denominator - 1e-12 <= measured.low and measured.high <= hits.max() / denominator + 1e-12


def test_recall_is_a_count():
    assert mean_recall(np.array([3, 7, 10], np.uint16), 10).value == 20 / 30
    assert mean_recall(np.full(200_000, 1000, np.uint16), 1000).value == 1.0  # more than 32 bits hold


# --- thresholds ----------------------------------------------------------------------------------------------------


def decimals(denominator: int):
    """Every j / K as a person types it, where it is a finite decimal: ("0.3", 3)."""
    digits = {10: 1, 20: 2, 50: 2, 100: 2, 1000: 3}[denominator]
    for j in range(1, denominator + 1):
        yield f"{j * 10**digits // denominator / 10**digits:.{digits}f}", j


@pytest.mark.parametrize("denominator", [10, 20, 50, 100, 1000])
def test_every_threshold_is_exact(denominator):
    wrong = [(text, j) for text, j in decimals(denominator) if hits_needed(parse_delta(text), denominator) != j]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "denominator", "needed"),
    [
        ("0.3", 10, 3),
        ("0.6", 10, 6),
        ("0.7", 10, 7),
        ("0.9", 10, 9),
        ("0.07", 100, 7),
        ("0.29", 100, 29),
        ("0.58", 100, 58),
        ("0.3333", 3, 1),
        ("0.3333", 9, 3),
        ("0.3334", 3, 2),
        ("0.33333333333333333334", 3, 2),
        ("0.3333", 10, 4),
        ("0.3333", 10_000, 3333),
        ("0.1", 7, 1),
        ("0.15", 7, 2),
        ("0.5", 7, 4),
        ("1", 10, 10),
        ("1.0", 7, 7),
        ("1e-9", 1000, 1),
        ("0.30000000000000000001", 10, 4),
        ("0.2999999999999999999", 10, 3),
        (".5", 10, 5),
        ("0.50", 10, 5),
    ],
)
def test_thresholds_of_any_decimal(text, denominator, needed):
    assert hits_needed(parse_delta(text), denominator) == needed


@given(st.fractions(Fraction(1, 10**6), 1), st.integers(1, 10_000))
def test_a_threshold_is_the_least_that_reaches_delta(delta, denominator):
    needed = hits_needed(delta, denominator)
    assert Fraction(needed, denominator) >= delta > Fraction(needed - 1, denominator)


@pytest.mark.parametrize("text", ["0", "0.0", "-0.1", "1.01", "2", "x", "", " ", "nan", "inf", "0,5", "50%", "1/0"])
def test_what_is_no_delta(text):
    with pytest.raises(ValueError, match="δ must be"):
        parse_delta(text)


# --- as metrics of a result ----------------------------------------------------------------------------------------


@pytest.fixture
def measure(tmp_path):
    def of(metric: str, **options):
        return parse_metric(metric).compute(make_result(Store(tmp_path), **options))

    return of


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("recall", 0.5),
        ("recall_tied", 0.75),
        ("robustness-0.1", 0.75),
        ("robustness-0.5", 0.5),
        ("robustness-0.51", 0.5),
        ("robustness-0.7", 0.5),
        ("robustness-0.71", 0.25),
        ("robustness-1", 0.25),
    ],
)
def test_metrics_of_a_result(measure, metric, value):
    measured = measure(metric, hits=[0, 3, 7, 10], hits_tied=[2, 8, 10, 10])
    assert measured.value == value and measured.n == 4 and measured.low <= value <= measured.high


@pytest.mark.parametrize(("metric", "value"), [("recall", 0.75), ("robustness-0.5", 1.0), ("robustness-1", 0.5)])
def test_a_base_smaller_than_k_is_the_denominator(measure, metric, value):
    assert measure(metric, hits=[2, 4], k=10, n=4).value == value


@pytest.mark.parametrize("status", ["failed", "timeout", "out-of-memory", "invalid"])
def test_a_failed_point_has_no_quality(measure, status):
    assert measure("recall", status=status) is None and measure("robustness-0.5", status=status) is None
