import numpy as np
import pytest

from benchmarks.metrics.quality import robustness_of
from benchmarks.statistics.bands import robustness_band


def hits(k=10, n=1000, seed=0):
    random = np.random.default_rng(seed)
    return np.where(random.random(n) < 0.05, 0, random.binomial(k, 0.95, n))


@pytest.mark.parametrize("k", [1, 2, 10, 100])
def test_the_curve_and_the_bands_around_it(k):
    from fractions import Fraction

    found = hits(k)
    band = robustness_band(found, k)
    assert len(band.value) == len(band.low) == len(band.high) == k and band.n == 1000
    for j in (1, (k + 1) // 2, k):
        single = robustness_of(found, Fraction(j, k), k)
        assert band.value[j - 1] == single.value
        if k > 1:  # together they must be wider than each by itself
            assert band.low[j - 1] < single.low <= single.high < band.high[j - 1] or single.high == 1
    for curve in (band.value, band.low, band.high):
        assert (np.diff(curve) <= 0).all()
    assert ((band.low >= 0) & (band.low <= band.value) & (band.value <= band.high) & (band.high <= 1)).all()
    assert 0.95 <= band.level < 1


def test_many_deltas_cost_far_less_than_as_many_independent_tests():
    level = robustness_band(hits(100), 100).level
    assert 0.95 < level < 1 - 0.05 / 20


def test_all_and_none():
    everything = robustness_band(np.full(200, 10), 10)
    assert (everything.value == 1).all() and (everything.high == 1).all() and (everything.low < 1).all()
    nothing = robustness_band(np.zeros(200, np.uint16), 10)
    assert (nothing.value == 0).all() and (nothing.low == 0).all() and (nothing.high > 0).all()


def test_it_is_reproducible_and_the_order_of_queries_does_not_matter():
    found = hits()
    one, other = robustness_band(found, 10), robustness_band(found[::-1], 10)
    assert (one.low == other.low).all() and (one.high == other.high).all()
