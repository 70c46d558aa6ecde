import numpy as np
import pytest

from benchmarks.metrics.registry import parse_metric
from tests.metrics.worlds import random_world, world


def per_query(name, result):
    return parse_metric(name).per_query(result)


@pytest.mark.parametrize("distance", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("seed", range(4))
def test_against_the_definition_in_a_loop(seed, distance):
    result = random_world(seed, nq=20, n=50, k=5, distance=distance)
    expected = []
    for found, exact in zip(np.sort(result.distances.astype(float), axis=1), result.truth.distances, strict=True):
        if distance == "ip":
            ratios = [near / far if far < 0 else np.inf for near, far in zip(exact, found, strict=True)]
        else:
            root = np.sqrt if distance == "l2" else float
            ratios = [root(far) / root(near) for near, far in zip(exact, found, strict=True)]
        expected.append(1 / np.mean(ratios))
    np.testing.assert_allclose(per_query("inverse-ratio", result), expected, rtol=1e-6)
    for epsilon in (0.05, 0.5):
        within = np.array(expected) >= 1 / (1 + epsilon)
        np.testing.assert_array_equal(per_query(f"within-{epsilon}", result), within)


@pytest.mark.parametrize(
    ("distances", "ids", "value"),
    [
        ([1, 4, 9], [0, 1], 1),
        ([1, 4, 9], [1, 0], 1),  # the order of the answer does not matter
        ([1, 4, 9], [0, 2], 1 / ((1 + 3 / 2) / 2)),
        ([1, 4, 9], [2, 1], 1 / ((2 / 1 + 3 / 2) / 2)),
        ([1, 4, 9], [0, -1], 0),
        ([1, 4, 9], [0, 0], 0),
        ([0, 0, 9], [0, 1], 1),  # copies of the query
        ([0, 1, 9], [1, 2], 0),
        ([2, 2, 2], [1, 2], 1),  # ties
        ([1, 4], [0, 1, -1], 1),  # the base is smaller than K
    ],
)
def test_by_hand(distances, ids, value):
    result = world(np.array([distances], float), np.array([ids]))
    assert per_query("inverse-ratio", result)[0] == pytest.approx(value)
    assert per_query("within-0", result)[0] == (value == 1)


def test_products_need_a_sign():
    for products, value in (([-3, -2, -1], 1 / ((3 / 2 + 2 / 1) / 2)), ([-3, -2, 0.5], 0), ([-3, 0, 1], None)):
        measured = parse_metric("inverse-ratio").compute(world(np.array([products], float), np.array([[1, 2]]), "ip"))
        assert (measured and measured.value) == (value if value is None else pytest.approx(value))
    assert parse_metric("within-0.1").compute(world(np.array([[-3.0, 0, 1]]), np.array([[0, 1]]), "ip")) is None
