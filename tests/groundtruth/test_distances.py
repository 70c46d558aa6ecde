import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances

from benchmarks.groundtruth.distances import DISTANCES, Scores, exact_distances
from benchmarks.groundtruth.rows import Rows

METRICS = {"l2": "sqeuclidean", "cosine": "cosine"}


def vectors(rng, rows, dimension, dtype):
    if dtype == "float32":
        return rng.standard_normal((rows, dimension), dtype=np.float32)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    return rng.integers(low, high, (rows, dimension)).astype(dtype)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("dimension", [1, 3, 96, 300])
def test_distances_agree_with_scikit_learn(distance, dtype, dimension):
    rng = np.random.default_rng(1)
    base, queries = vectors(rng, 200, dimension, dtype), vectors(rng, 30, dimension, dtype)
    ids = rng.integers(0, len(base), (30, 17))
    wide_base, wide_queries = base.astype(np.float64), queries.astype(np.float64)
    if distance == "ip":
        full = -wide_queries @ wide_base.T
    else:
        full = pairwise_distances(wide_queries, wide_base, metric=METRICS[distance])
    expected = np.take_along_axis(full, ids, 1)
    got = exact_distances(base, queries, ids, distance)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


def test_l2_does_not_cancel_far_from_the_origin():
    base = np.array([[1e4, 1e4], [1e4 + 0.0009765625, 1e4]], np.float32)  # one unit in the last place apart
    got = exact_distances(base, base[:1], np.array([[0, 1]]), "l2")
    assert got.tolist() == [[0.0, 2.0**-20]]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dimension", [1, 2, 7, 8, 9, 31, 96, 129, 1000, 9001])
def test_equal_rows_have_bit_identical_distances(distance, dimension):
    rng = np.random.default_rng(2)
    row = rng.standard_normal(dimension, dtype=np.float32)
    base = rng.standard_normal((64, dimension), dtype=np.float32)
    copies = np.sort(rng.choice(64, 40, replace=False))
    base[copies] = row
    query = rng.standard_normal((3, dimension), dtype=np.float32)
    lone = exact_distances(base, query, np.full((3, 1), copies[0]), distance)
    for width in (1, 2, 5, 40):
        ids = np.tile(copies[-width:], (3, 1))
        np.testing.assert_array_equal(exact_distances(base, query, ids, distance), np.tile(lone, (1, width)))
    mixed = exact_distances(base, query, np.tile(np.arange(64), (3, 1)), distance)[:, copies]
    np.testing.assert_array_equal(mixed, np.tile(lone, (1, 40)))


@pytest.mark.parametrize("distance", DISTANCES)
def test_threads_blocks_and_memory_maps_change_nothing(distance, tmp_path):
    rng = np.random.default_rng(3)
    base, queries = vectors(rng, 500, 40, "float32"), vectors(rng, 333, 40, "float32")
    ids = rng.integers(-1, 500, (333, 21))
    expected = np.vstack([exact_distances(base, queries[i : i + 1], ids[i : i + 1], distance) for i in range(333)])
    base.tofile(tmp_path / "base")
    mapped = np.memmap(tmp_path / "base", np.float32, "r", shape=base.shape)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(exact_distances(mapped, queries, ids, distance, threads=threads), expected)
    wide = np.tile(ids, (1, 200))  # one query is more than one block
    np.testing.assert_array_equal(exact_distances(base, queries[:3], wide[:3], distance)[:, :21], expected[:3])


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_missing_id_is_infinitely_far(distance):
    base, queries = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
    got = exact_distances(base, queries, np.array([[-1, 0], [1, -1]]), distance)
    assert np.isinf(got).tolist() == [[True, False], [False, True]] and (got[np.isinf(got)] > 0).all()
    assert exact_distances(base, queries, np.empty((2, 0), int), distance).shape == (2, 0)
    assert np.isinf(exact_distances(base[:0], queries, np.full((2, 1), -1), distance)).all()


def test_cosine_with_a_zero_vector_is_one_and_with_itself_zero():
    base = np.array([[0, 0, 0], [0.1, 0.2, 0.3], [-0.1, -0.2, -0.3], [1e-38, 0, 0]], np.float32)
    ids = np.tile(np.arange(4), (2, 1))
    got = exact_distances(base, base[:2], ids, "cosine")
    assert got[0].tolist() == [1.0] * 4
    assert got[1, :3].tolist() == [1.0, 0.0, 2.0]
    assert got[1, 3] == pytest.approx(1 - 1 / math.sqrt(14), abs=1e-7)


def test_cosine_stays_between_zero_and_two():
    rng = np.random.default_rng(5)
    base = rng.standard_normal((300, 50), dtype=np.float32)
    for scale, limit in ((1.7, 0.0), (-1.7, 2.0)):
        got = exact_distances(base, (base * scale).astype(np.float32), np.arange(300)[:, None], "cosine")
        assert got.min() >= 0 and got.max() <= 2
        np.testing.assert_allclose(got, limit, atol=1e-13)
    longer = np.full((300, 50), 0.1, np.float32) * np.arange(1, 301, dtype=np.float32)[:, None]
    assert exact_distances(longer, longer[:1], np.arange(300)[None], "cosine").min() >= 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=12))
def test_cosine_orders_small_integers_as_rational_arithmetic_does(rows):
    base = np.array(rows, np.int8)
    query, n = base[0].tolist(), len(base)

    def similarity(row):  # the square of it with its sign: the same order, and rational
        squares = sum(x * x for x in row) * sum(x * x for x in query)
        product = sum(x * y for x, y in zip(row, query, strict=True))
        return Fraction(product * abs(product), squares) if squares else Fraction(0)

    exact = [similarity(row) for row in rows]
    got = exact_distances(base, base[:1], np.arange(n)[None], "cosine")[0]
    for i in range(n):
        for j in range(n):
            assert (got[i] < got[j]) == (exact[i] > exact[j])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(
    "offset,scale,query_scale",
    [
        (0, 1, 1),
        (100, 1, 1),
        (1e4, 1, 1),
        (0, 1e-3, 1e-3),
        (0, 1e-22, 1e-22),
        (0, 1e15, 1e15),
        (0, 1e30, 1e30),
    ]
    + [(0, 1e-25, 1), (0, 1e-25, 1e-3), (0, 1e-3, 1e-25)],  # squares underflow, products do not
)
@pytest.mark.parametrize("far", [0, 50])
def test_the_bound_holds_for_every_row(distance, offset, scale, query_scale, far):
    """A row whose float32 score is below the cut of a distance must be farther than that distance."""
    rng = np.random.default_rng(4)
    spread = np.exp(rng.uniform(-3, 3, (400, 1)))
    base = ((rng.standard_normal((400, 24)) * spread + offset) * scale).astype(np.float32)
    toward = np.where(rng.random((200, 24)) < 0.5, -np.inf, np.inf).astype(np.float32)
    base[200:] = np.nextafter(base[1], toward)  # a unit in the last place from each other
    base[::50] = 0
    queries = ((rng.standard_normal((20, 24)) + offset + far) * query_scale).astype(np.float32)
    scores = Scores(Rows(base), Rows(queries), distance)
    with np.errstate(all="ignore"):
        tile, terms, largest = scores.encode(base)
        coded, factors = scores.queries(queries)
        block = coded @ tile.T + factors[:, None] * terms
        near = exact_distances(base, queries, np.tile(np.arange(400), (20, 1)), distance)
        ruled_out = 0
        for j in range(400):
            below = block < scores.cut(queries, near[:, j], largest)[:, None]
            assert not (below & (near <= near[:, j : j + 1])).any()
            ruled_out += below.sum()
    farther = (near[:, :, None] > near[:, None, :]).sum()
    if offset == 0 and 1e-10 < scale < 1e20 and scale == query_scale and not far:
        assert ruled_out > 0.7 * farther  # and it must be of use
    if scale == 1e30 and distance != "cosine":
        assert ruled_out == 0


@pytest.mark.parametrize(
    "change,message",
    [
        ({"distance": "hamming"}, "unknown distance 'hamming'"),
        ({"queries": np.ones((2, 4), np.float32)}, "same dimension"),
        ({"ids": np.zeros((3, 1), int)}, "one row for each of 2 queries"),
        ({"ids": np.zeros((2, 1))}, "not integers"),
        ({"ids": np.full((2, 1), 5)}, "do not fit a base of 5 rows"),
        ({"ids": np.full((2, 1), -2)}, "do not fit a base of 5 rows"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    right = {"base": np.ones((5, 3), np.float32), "queries": np.ones((2, 3), np.float32)}
    right |= {"ids": np.zeros((2, 1), int), "distance": "l2"}
    with pytest.raises(ValueError, match=message):
        exact_distances(**(right | change))
