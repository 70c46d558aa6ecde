import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics.hits import clean_neighbors, count_hits, count_hits_tied, is_hit, rank_in_truth


def tied_hits(neighbors, distances, truth, kth):
    return count_hits_tied(rank_in_truth(neighbors, truth), distances, kth)


@st.composite
def answers(draw):
    """(n, answer rows with repeats and -1, truth rows) of a small base; the truth may be narrower than the answer."""
    n, k, nq = draw(st.integers(1, 12)), draw(st.integers(1, 8)), draw(st.integers(1, 4))
    row = st.lists(st.integers(-1, n - 1), min_size=k, max_size=k)
    ids = draw(st.lists(row, min_size=nq, max_size=nq))
    truth = [draw(st.permutations(range(n)))[: min(k, n)] for _ in range(nq)]
    return n, np.array(ids, draw(st.sampled_from(["i4", "i8"]))), np.array(truth, "i4")


@given(answers())
def test_cleaning_against_a_loop(case):
    n, ids, _ = case
    expected, repeated = [], 0
    for row in ids.tolist():
        seen, cleaned = set(), []
        for item in row:
            again = item >= 0 and item in seen
            repeated += again
            cleaned.append(-1 if again else item)
            seen.add(item)
        expected.append(cleaned)
    before = ids.copy()
    cleaned = clean_neighbors(ids, n)
    assert cleaned.neighbors.tolist() == expected and cleaned.neighbors.dtype == np.int32
    assert (cleaned.repeated, cleaned.missing) == (repeated, int((ids == -1).sum()))
    np.testing.assert_array_equal(ids, before)


@given(answers())
def test_hits_against_sets(case):
    n, ids, truth = case
    hits = count_hits(clean_neighbors(ids, n).neighbors, truth)
    assert hits.tolist() == [
        len(set(row) & set(exact)) for row, exact in zip(ids.tolist(), truth.tolist(), strict=True)
    ]
    assert hits.dtype == np.uint16


@given(answers())
def test_which_ids_hit(case):
    n, ids, truth = case
    neighbors = clean_neighbors(ids, n).neighbors
    expected = [
        [item in set(exact) for item in row] for row, exact in zip(neighbors.tolist(), truth.tolist(), strict=True)
    ]
    assert is_hit(neighbors, truth).tolist() == expected


@given(answers(), st.data())
def test_tied_hits_against_sets(case, data):
    n, ids, truth = case
    near = [[float(data.draw(st.integers(-2, 2))) for _ in range(n)] for _ in ids]
    near = np.array(
        [
            np.sort(row)[np.argsort([*exact, *(set(range(n)) - set(exact))])]
            for row, exact in zip(near, truth.tolist(), strict=True)
        ]
    )  # the truth is what is nearest
    neighbors = clean_neighbors(ids, n).neighbors
    distances = np.where(neighbors < 0, np.inf, np.take_along_axis(near, np.maximum(neighbors, 0), axis=1))
    kth = np.take_along_axis(near, truth[:, -1:], axis=1)[:, 0]
    expected = [
        min(len(exact), len({item for item in row if item >= 0 and distance[item] <= limit}))
        for row, exact, distance, limit in zip(neighbors.tolist(), truth.tolist(), near, kth, strict=True)
    ]
    tied = tied_hits(neighbors, distances, truth, kth)
    assert tied.tolist() == expected and tied.dtype == np.uint16
    assert (tied >= count_hits(neighbors, truth)).all()


@pytest.mark.parametrize(
    ("kth", "distance", "counts"),
    [
        (1.0, 1.0, True),
        (1.0, 0.5, True),
        (1.0, 1 + 9e-7, True),
        (1.0, 1 + 1.1e-6, False),
        (1.0, 2.0, False),
        (-1.0, -1.0, True),
        (-1.0, -1 + 9e-7, True),
        (-1.0, -1 + 1.1e-6, False),
        (-1.0, 0.0, False),
        (0.0, 0.0, True),
        (0.0, 1e-300, False),
        (1e12, 1e12 + 1e5, True),
        (1e12, 1e12 + 1e7, False),
        (1e-12, 1e-12 * (1 + 9e-7), True),
        (1e-12, 1.1e-12, False),
    ],
)
def test_a_tie_is_as_near_as_the_kth_and_nothing_else(kth, distance, counts):
    """Id 5 is not in the truth {0, 1}; only its distance can make it count."""
    tied = tied_hits(np.array([[0, 5]], "i4"), np.array([[0.0, distance]]), np.array([[0, 1]], "i4"), np.array([kth]))
    assert tied.tolist() == [2 if counts else 1]


def test_an_id_of_the_truth_counts_whatever_its_rounded_distance():
    tied = tied_hits(np.array([[1]], "i4"), np.array([[1.1]]), np.array([[1]], "i4"), np.array([1.0]))
    assert tied.tolist() == [1]


def test_no_place_is_a_tie_even_without_a_finite_kth():
    tied = tied_hits(np.array([[-1, -1]], "i4"), np.full((1, 2), np.inf), np.array([[0, 1]], "i4"), np.array([np.inf]))
    assert tied.tolist() == [0]


@pytest.mark.parametrize(
    ("ids", "row", "bad"),
    [
        ([[0, 1], [2, 10]], 1, 10),
        ([[-2, 1], [2, 3]], 0, -2),
        ([[0, 1], [2**40, 3]], 1, 2**40),
        ([[0, -(2**31)], [0, 0]], 0, -(2**31)),
    ],
)
def test_ids_out_of_range_name_query_and_id(ids, row, bad):
    with pytest.raises(ValueError, match=f"1 ids lie outside the 10 base vectors; the first is {bad}, of query {row}$"):
        clean_neighbors(np.array(ids, np.int64), 10)


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_minus_one_as_unsigned_is_out_of_range(dtype):
    with pytest.raises(ValueError, match="of query 0"):
        clean_neighbors(np.array([[0, -1]], np.int64).astype(dtype), 10)


def test_the_last_row_of_the_base_is_in_range():
    assert clean_neighbors(np.array([[9, 0]]), 10).neighbors.tolist() == [[9, 0]]


def test_nothing_found():
    cleaned = clean_neighbors(np.full((2, 3), -1), 10)
    assert (cleaned.repeated, cleaned.missing) == (0, 6)
    assert count_hits(cleaned.neighbors, np.array([[0, 1, 2], [3, 4, 5]], "i4")).tolist() == [0, 0]
