"""The float64 pass by itself."""

import numpy as np
import pytest

from benchmarks.groundtruth import scan as module
from benchmarks.groundtruth.distances import DISTANCES, Scores, exact_distances
from benchmarks.groundtruth.rows import as_rows
from benchmarks.groundtruth.scan import scan


def integers(seed, rows):
    """Few values: equal distances abound."""
    return np.random.default_rng(seed).integers(-2, 3, (rows, 4)).astype(np.float32)


def nearest(base, rows, queries, distance, depth):
    ids = np.tile(np.array(rows), (len(queries), 1))
    near = exact_distances(base, queries, ids, distance)
    order = np.lexsort((ids, near), axis=-1)[:, :depth]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(near, order, 1)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("pending", [1, 300, 1 << 17])
def test_without_a_bound_it_is_brute_force(distance, pending, monkeypatch):
    monkeypatch.setattr(module, "PENDING_PAIRS", pending)
    monkeypatch.setattr(module, "PAIR_ELEMENTS", 4 * pending)
    base, queries, told = integers(0, 2500), integers(1, 7), []
    rows, scores = range(100, 2400), Scores(as_rows(base), as_rows(queries), distance)
    cut = np.full(7, -np.inf, np.float32)
    ids, near = scan(as_rows(base), rows, queries, scores, cut, 50, told.append)
    expected = nearest(base, rows, queries, distance, 50)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(near, expected[1])
    assert sum(told) == len(rows) * len(queries)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_bound_saves_work_and_no_more(distance, monkeypatch):
    base = np.random.default_rng(2).normal(size=(3000, 8)).astype("f4")
    queries = np.random.default_rng(3).normal(size=(5, 8)).astype("f4")
    scores = Scores(as_rows(base), as_rows(queries), distance)
    expected = nearest(base, range(3000), queries, distance, 20)
    largest = max(norm for *_, norm in scores.tiles(as_rows(base), range(3000), 500))
    cut = scores.cut(queries, expected[1][:, -1], largest)
    pairs, original = [], module.row_distances
    monkeypatch.setattr(module, "row_distances", lambda rows, *more: pairs.append(len(rows)) or original(rows, *more))
    ids, near = scan(as_rows(base), range(3000), queries, scores, cut, 20, lambda done: None)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(near, expected[1])
    assert 5 * 20 <= sum(pairs) < 5 * 40


def test_scores_that_are_no_number_are_evaluated():
    base = np.full((40, 8), 3e38, np.float32)
    base[1::2] *= -1
    queries = np.full((1, 8), 2e38, np.float32)
    scores = Scores(as_rows(base), as_rows(queries), "ip")
    with np.errstate(all="ignore"):
        ids, near = scan(as_rows(base), range(40), queries, scores, np.zeros(1, np.float32), 20, lambda done: None)
    assert ids[0].tolist() == list(range(0, 40, 2)) and np.isfinite(near).all()
