from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.analysis.headroom import adaptive_seconds, headroom
from benchmarks.analysis.series import series
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.results.store import Store
from tests.factories import make_result


@given(
    arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 30))),
    st.randoms(use_true_random=False),
)
def test_the_perfect_choice_beats_every_fixed_effort(reached, random):
    seconds = np.array([[random.uniform(0.1, 2) for _ in range(reached.shape[1])] for _ in range(reached.shape[0])])
    adaptive = adaptive_seconds(reached, seconds)
    assert len(adaptive) == reached.any(axis=0).sum() + 1
    assert (np.diff(adaptive) >= -1e-12).all()  # more queries never cost less
    for row, cost in zip(reached, seconds, strict=True):
        assert adaptive[row.sum()] <= cost.mean() + 1e-12


def test_by_hand():
    # The first query is easy, the second needs the dear point, the third nobody finds.
    reached = np.array([[True, False, False], [True, True, False]])
    seconds = np.array([[1.0, 1.0, 1.0], [4.0, 4.0, 4.0]])
    assert adaptive_seconds(reached, seconds) * 3 == pytest.approx([3, 3, 6])


def test_a_sweep(tmp_path):
    store = Store(tmp_path)
    for effort, hits, qps in [(10, [9, 2, 2, 2], 1000), (40, [9, 9, 9, 2], 100)]:
        make_result(store, build={"M": 8}, search={"efSearch": effort}, hits=hits, qps=qps)
    (each,) = series(store.results(), find_algorithms())
    found = headroom(each, Fraction("0.9"))
    assert [(step.robustness, round(step.qps), round(step.adaptive_qps)) for step in found.steps] == [
        (0.25, 1000, 1000),
        (0.75, 100, 182),  # two queries at 1 ms, two at 10 ms
    ]
    assert found.steps[1].headroom == pytest.approx(4 / 2.2)
    assert found.robustness.tolist() == [0, 0.25, 0.5, 0.75]


def test_latencies_are_used_where_there_are_any(tmp_path):
    store = Store(tmp_path)
    for effort in (10, 40):
        make_result(store, search={"efSearch": effort}, hits=[9] * 50, qps=1000 / effort, mode="single")
    (each,) = series(store.results(), find_algorithms())
    fixed = headroom(each, Fraction("0.9")).steps
    assert fixed[0].adaptive_qps >= fixed[0].qps and fixed[0].adaptive_qps == fixed[1].adaptive_qps


def test_series_hold_one_build_each(tmp_path):
    store = Store(tmp_path)
    for build in (8, 16):
        for effort in (40, 10, 20):
            make_result(store, build={"M": build}, search={"efSearch": effort}, threads=2)
    make_result(store, build={"M": 8}, search={"efSearch": 10}, seed=1)
    make_result(store, build={"M": 8}, search={"efSearch": 10}, k=20, status="failed")
    make_result(store, algorithm="unknown", search={"ratio": 0.5})
    found = series(store.results(), find_algorithms())
    assert [(each.name(), [each.value(point) for point in each.points]) for each in found] == [
        ("faiss-hnsw M=16", [10, 20, 40]),
        ("faiss-hnsw M=8", [10, 20, 40]),
        ("faiss-hnsw M=8,seed=1", [10]),
        ("unknown ratio=0.5", [0]),
    ]
    assert found[0].family == "graph" and found[0].knob == "efSearch" and found[3].family is None


def test_a_knob_with_a_value_that_is_no_number_is_no_knob(tmp_path):
    store = Store(tmp_path)
    for effort in (10, 20, "many"):
        make_result(store, search={"efSearch": effort})
    found = series(store.results(), find_algorithms())
    assert [len(each.points) for each in found] == [1, 1, 1]
