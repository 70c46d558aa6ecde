"""Must hold: where float32 goes wrong, the ids are those of a float64 brute force, all of them and in order."""

import numpy as np
import pytest

from benchmarks.groundtruth.distances import DISTANCES
from benchmarks.groundtruth.exact import exact_neighbors
from tests.groundtruth.precision import CASES, K, brute_force, vectors, wrong


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_float64(name, distance):
    base, queries = vectors(name)
    ids, near = brute_force(base, queries, distance, K)
    truth = exact_neighbors(base, queries, distance, K, threads=2)
    np.testing.assert_array_equal(truth.neighbors, ids)
    np.testing.assert_allclose(truth.distances, near, rtol=1e-12, atol=1e-12)
    assert not wrong(truth.neighbors, base, queries, distance).any()


def test_float32_does_go_wrong_here():
    for name in ("offset 1e3", "offset 1e4", "near-duplicates"):
        base, queries = vectors(name)
        scores = queries @ base.T - np.square(base).sum(1) / 2  # float32, as a BLAS would be used
        assert wrong(np.argsort(-scores, axis=1)[:, :K], base, queries, "l2").any()
