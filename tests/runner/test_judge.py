from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.groundtruth.cache import GroundTruth
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.runner.judge import judge

K = 4


def truth_of(dataset, depth=100) -> GroundTruth:
    exact = exact_neighbors(dataset.base.open(), dataset.queries.open(), dataset.distance, min(depth, dataset.n))
    return GroundTruth("key", dataset.base.path, exact.neighbors, exact.distances)


def rank(row, query, distance) -> Fraction:
    """Exact for small integers: what sorts rows from near to far."""
    row, query = [int(value) for value in row], [int(value) for value in query]
    product = sum(a * b for a, b in zip(row, query, strict=True))
    if distance == "l2":
        return Fraction(sum((a - b) ** 2 for a, b in zip(row, query, strict=True)))
    if distance == "ip":
        return Fraction(-product)
    squares = sum(a * a for a in row) * sum(b * b for b in query)  # -sign(cos) cos² sorts as -cos does
    return Fraction(-product * abs(product), squares) if squares else Fraction(0)


def real_distance(row, query, distance) -> float:
    row, query = row.astype(np.float64), query.astype(np.float64)
    if distance == "l2":
        return ((row - query) ** 2).sum()
    if distance == "ip":
        return -(row @ query)
    lengths = np.linalg.norm(row) * np.linalg.norm(query)
    return 1 - row @ query / lengths if lengths else 1.0


@pytest.fixture(scope="module", params=["l2", "ip", "cosine"])
def dataset(request, make_dataset):
    """Small integers: many ties, repeated rows and zero vectors."""
    random = np.random.default_rng(0)
    base, queries = random.integers(-2, 3, (40, 3)), random.integers(-2, 3, (8, 3))
    base[20:25], base[30:33], queries[7] = base[0:5], 0, 0
    return make_dataset(base.astype("f4"), queries.astype("f4"), request.param)


@pytest.fixture(scope="module")
def tiny(make_dataset):
    """Fewer vectors than K."""
    return make_dataset(np.array([[0], [1], [3]], "f4"), np.array([[0], [2]], "f4"))


@settings(max_examples=60)
@given(data=st.data())
def test_judged_as_a_slow_oracle_does(dataset, data):
    k = data.draw(st.integers(1, 8))
    row = st.lists(st.integers(-1, dataset.n - 1), min_size=k, max_size=k)
    ids = np.array(data.draw(st.lists(row, min_size=dataset.nq, max_size=dataset.nq)), np.int64)
    arrays, repeated, missing = judge(ids, dataset, truth_of(dataset), k, threads=1)
    base, queries = dataset.base.open(), dataset.queries.open()
    for number, (answer, query) in enumerate(zip(ids.tolist(), queries, strict=True)):
        ranks = [rank(row, query, dataset.distance) for row in base]
        exact = sorted(range(dataset.n), key=lambda item: (ranks[item], item))[:k]  # noqa: B023
        given = {item for item in answer if item >= 0}
        assert arrays["hits"][number] == len(given & set(exact))
        as_near = {item for item in given if ranks[item] <= ranks[exact[-1]]}
        assert arrays["hits_tied"][number] == min(k, len(as_near))
        for place, item in enumerate(arrays["neighbors"][number].tolist()):
            first = item >= 0 and answer.index(item) == place
            assert item == -1 or first
            expected = real_distance(base[item], query, dataset.distance) if item >= 0 else np.inf
            assert arrays["distances"][number, place] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert missing == (ids == -1).sum() and repeated == ids.size - missing - (arrays["neighbors"] >= 0).sum()


def test_types_are_those_of_a_result_file(dataset):
    arrays, _, _ = judge(np.zeros((dataset.nq, K), np.int64), dataset, truth_of(dataset), K, threads=1)
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "neighbors": "int32",
        "distances": "float32",
        "hits": "uint16",
        "hits_tied": "uint16",
    }


def test_the_truth_itself_is_all_hits(dataset):
    truth = truth_of(dataset)
    arrays, repeated, missing = judge(truth.neighbors[:, :K], dataset, truth, K, threads=2)
    assert arrays["hits"].tolist() == arrays["hits_tied"].tolist() == [K] * dataset.nq and (repeated, missing) == (0, 0)
    np.testing.assert_array_equal(arrays["distances"], truth.distances[:, :K].astype(np.float32))


def test_the_order_within_an_answer_does_not_matter(dataset):
    truth = truth_of(dataset)
    arrays, _, _ = judge(truth.neighbors[:, K - 1 :: -1].astype(np.int64), dataset, truth, K, threads=1)
    assert arrays["hits"].tolist() == [K] * dataset.nq


def test_neighbours_after_the_kth_are_no_hits_unless_tied(make_dataset):
    dataset = make_dataset(np.array([[0], [1], [1], [2], [5]], "f4"), np.array([[0]], "f4"))
    arrays, _, _ = judge(np.array([[2, 3]]), dataset, truth_of(dataset), 2, threads=1)
    assert arrays["hits"].tolist() == [0] and arrays["hits_tied"].tolist() == [1]


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_deeper_truth_changes_nothing(make_dataset, depth):
    dataset = make_dataset(np.array([[0], [1], [1], [2], [5]], "f4"), np.array([[0]], "f4"))
    arrays, _, _ = judge(np.array([[0, 2]]), dataset, truth_of(dataset, depth), 2, threads=1)
    assert arrays["hits"].tolist() == [1] and arrays["hits_tied"].tolist() == [2]


@pytest.mark.parametrize(
    ("answer", "hits"),
    [([0, 1, 2, -1], 3), ([2, 1, 0, 0], 3), ([-1, -1, -1, -1], 0), ([1, 1, 1, 1], 1), ([2, -1, -1, 0], 2)],
)
def test_a_base_smaller_than_k(tiny, answer, hits):
    arrays, _, _ = judge(np.array([answer, answer]), tiny, truth_of(tiny), K, threads=1)
    assert arrays["hits"].tolist() == arrays["hits_tied"].tolist() == [hits, hits]
    assert arrays["neighbors"].shape == (2, K)


def test_repeats_and_gaps_are_counted(tiny):
    judged = judge(np.array([[0, 0, 1, -1], [-1, -1, 2, 2]]), tiny, truth_of(tiny), K, threads=1)
    assert (judged.repeated, judged.missing) == (2, 3)


@pytest.mark.parametrize("shape", [(2, K - 1), (2, K + 1), (1, K), (3, K), (2,), (2, K, 1), (0, K)])
def test_a_wrong_shape_is_refused(tiny, shape):
    with pytest.raises(ValueError, match="the answer has shape"):
        judge(np.zeros(shape, np.int64), tiny, truth_of(tiny), K, threads=1)


@pytest.mark.parametrize("bad", [3, -2, 2**31, 2**32, -(2**40)])
def test_an_id_that_is_no_row_is_refused(tiny, bad):
    with pytest.raises(ValueError, match=f"the first is {bad}, of query 1"):
        judge(np.array([[0, 1, 2, -1], [0, bad, 2, -1]]), tiny, truth_of(tiny), K, threads=1)
