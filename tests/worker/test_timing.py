import gc
import time

import numpy as np
import pytest

from benchmarks.worker.timing import WARMUP_BATCH, WARMUP_SINGLE, measure, stack_ids

QUERIES = np.arange(150, dtype=np.float32)[:, None]


class Fake:
    """Answers each query with its own number and those after it; notes every call."""

    def __init__(self, act=lambda call, queries: None, ids=None):
        self.calls, self.act, self.ids = [], act, ids

    def search(self, queries, k, **params):
        self.calls.append((len(queries), k, params, gc.isenabled()))
        answer = self.act(len(self.calls), queries)
        return queries.astype(np.int64) + np.arange(k) if answer is None else answer


def test_batch_is_one_call_per_pass_after_a_warm_up():
    fake = Fake()
    measured = measure(fake, QUERIES, 3, "batch", 4, {"ef": 7})
    assert [call[:3] for call in fake.calls] == [(150, 3, {"ef": 7})] * 5
    assert measured["search_seconds"].shape == (4,) and measured["latency"] is None
    np.testing.assert_array_equal(measured["neighbors"], QUERIES.astype(int) + np.arange(3))


def test_warm_up_takes_the_first_queries_only():
    fake = Fake()
    measure(fake, np.zeros((WARMUP_BATCH + 50, 1), np.float32), 1, "batch", 1, {})
    assert [call[0] for call in fake.calls] == [WARMUP_BATCH, WARMUP_BATCH + 50]


def test_single_is_one_call_per_query():
    fake = Fake()
    measured = measure(fake, QUERIES, 3, "single", 2, {"ef": 7})
    assert [call[:3] for call in fake.calls] == [(1, 3, {"ef": 7})] * (WARMUP_SINGLE + 2 * 150)
    assert measured["latency"].shape == (2, 150) and measured["latency"].dtype == np.float32
    assert (measured["latency"].sum(axis=1) <= measured["search_seconds"] * (1 + 1e-5)).all()
    np.testing.assert_array_equal(measured["neighbors"], QUERIES.astype(int) + np.arange(3))


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_warm_up_is_not_counted(mode):
    def slow_and_wrong_at_first(call, queries):
        if call == 1:
            time.sleep(0.5)
            return np.zeros((len(queries), 3), np.int64)

    measured = measure(Fake(slow_and_wrong_at_first), QUERIES, 3, mode, 3, {})
    assert measured["search_seconds"].max() < 0.5
    assert measured["neighbors"][9, 0] == 9 and not measured["answers_vary"]


def test_latency_belongs_to_its_query():
    measured = measure(
        Fake(lambda call, queries: time.sleep(0.05 * (queries[0, 0] == 120))), QUERIES, 1, "single", 2, {}
    )
    assert (measured["latency"].argmax(axis=1) == 120).all()
    assert (measured["latency"][:, 120] >= 0.05).all() and np.median(measured["latency"]) < 0.05


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_converting_the_answer_is_outside_the_clock(mode):
    class Lazy(list):
        def __array__(self, dtype=None, copy=None):
            time.sleep(0.2)
            return np.asarray(list(self), dtype)

    fake = Fake(lambda call, queries: Lazy([[0]] * len(queries)))
    assert measure(fake, QUERIES[:3], 1, mode, 1, {})["search_seconds"].max() < 0.2


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_answers_that_change_are_told_and_the_first_are_kept(mode):
    first = {"batch": 2, "single": 1 + 100 + 150}[mode]  # a call of the second timed pass

    def change(call, queries):
        if call > first:
            return np.zeros((len(queries), 3), np.int64)

    measured = measure(Fake(change), QUERIES, 3, mode, 3, {})
    assert measured["answers_vary"] and measured["neighbors"][9, 0] == 9


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_rests_while_the_clock_runs(collecting):
    fake = Fake()
    try:
        gc.enable() if collecting else gc.disable()
        measure(fake, QUERIES, 3, "batch", 2, {})
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    assert not any(call[3] for call in fake.calls[1:])


def test_the_collector_works_again_after_an_error():
    def fail(call, queries):
        if call == 2:
            raise RuntimeError("in the timed pass")

    with pytest.raises(RuntimeError, match="timed"):
        measure(Fake(fail), QUERIES, 3, "batch", 2, {})
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([np.array([[4, 5], [6, 7]])], [[4, 5], [6, 7]], id="as it is"),
        pytest.param([np.array([[4], [6]])], [[4, -1], [6, -1]], id="short"),
        pytest.param([np.empty((2, 0), int)], [[-1, -1], [-1, -1]], id="nothing"),
        pytest.param([np.array([[4, 5, 9], [6, 7, 9]])], [[4, 5], [6, 7]], id="beyond k"),
        pytest.param([np.array([[4, 5], [6, 7]], np.uint64)], [[4, 5], [6, 7]], id="uint64"),
        pytest.param([np.array([[4, -1], [6, 7]], np.int32)], [[4, -1], [6, 7]], id="int32"),
        pytest.param([[[4, 5], [6, 7]]], [[4, 5], [6, 7]], id="lists"),
        pytest.param([np.array([[4, 5]]), np.array([[6, 7]])], [[4, 5], [6, 7]], id="single"),
        pytest.param([np.array([[4]]), np.array([[6, 7, 8]])], [[4, -1], [6, 7]], id="single, ragged"),
        pytest.param([np.empty((1, 0), int), np.array([[6, 7]])], [[-1, -1], [6, 7]], id="single, one empty"),
        pytest.param([np.array([[4, 5]], np.uint64), np.array([[6, 7]])], [[4, 5], [6, 7]], id="single, mixed types"),
    ],
)
def test_stack_ids(answers, expected):
    ids = stack_ids(answers, 2, 2)
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([np.array([4, 5])], id="vector"),
        pytest.param([np.zeros((2, 2, 1), int)], id="cube"),
        pytest.param([np.zeros((2, 2))], id="floats"),
        pytest.param([np.zeros((2, 2), bool)], id="booleans"),
        pytest.param([np.array([[4, None], [6, 7]])], id="objects"),
        pytest.param([np.zeros((1, 2), int)], id="a query too few"),
        pytest.param([np.zeros((3, 2), int)], id="a query too many"),
        pytest.param([np.zeros((1, 2), int), np.array([6, 7])], id="single, vector"),
        pytest.param([np.zeros((2, 2), int), np.zeros((0, 2), int)], id="single, another query's row"),
    ],
)
def test_stack_ids_refuses(answers):
    with pytest.raises(ValueError, match="search returned|search must return"):
        stack_ids(answers, 2, 2)


def test_stack_ids_does_not_lend_out_the_library_buffer():
    buffer = np.zeros((2, 2), np.int64)
    ids = stack_ids([buffer], 2, 2)
    buffer[:] = 9
    assert (ids == 0).all()
