import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics.intervals import wilson
from benchmarks.statistics.paired import mcnemar
from benchmarks.statistics.power import (
    detectable_difference,
    largest_provable_share,
    queries_to_detect,
    queries_to_prove,
    unsupported,
)


@pytest.mark.parametrize("n", [1, 100, 1000, 10**5])
def test_largest_share_is_where_wilsons_interval_of_all_begins(n):
    assert largest_provable_share(n) == pytest.approx(wilson(n, n)[0], abs=1e-12)


@given(st.floats(0, 0.99999))
def test_queries_to_prove_are_the_fewest(share):
    n = queries_to_prove(share)
    assert largest_provable_share(n) >= share - 1e-9
    assert n == 1 or largest_provable_share(n - 1) < share


def test_a_thousand_queries_cannot_show_the_papers_share():
    line = unsupported(0.9997, 1000)
    assert "1,000 queries cannot show 0.9997" in line and "0.9962" in line and "12,802" in line
    assert unsupported(0.9997, 12_802) is None and unsupported(0.9, 1000) is None
    assert "cannot show 1, only more than 0.9962" in unsupported(1, 1000)
    with pytest.raises(ValueError):
        queries_to_prove(1)


@pytest.mark.parametrize("n, square, expected", [(1000, 0.02, 0.0125), (10**4, 0.005, 0.0020), (10**5, 0.005, 0.0006)])
def test_detectable_differences_that_were_measured_for_this_project(n, square, expected):
    assert detectable_difference(n, square) == pytest.approx(expected, abs=5e-5)


@given(st.integers(10, 10**6), st.floats(0, 1))
def test_queries_to_detect_is_the_inverse(n, square):
    difference = detectable_difference(n, square)
    if difference < 1:
        assert queries_to_detect(difference, square) == pytest.approx(n, abs=1, rel=1e-6)


@given(st.integers(20, 10**5), st.floats(0, 1))
def test_more_queries_and_less_spread_show_more(n, square):
    assert detectable_difference(2 * n, square) <= detectable_difference(n, square)
    assert detectable_difference(n, square / 2) <= detectable_difference(n, square)


def test_a_difference_to_detect_has_a_size():
    with pytest.raises(ValueError):
        queries_to_detect(0, 0.1)


@pytest.mark.parametrize("n, discordant", [(1000, 0.02), (5000, 0.1)])
def test_the_power_is_what_it_says(n, discordant):
    """Of simulated pairs whose shares differ by the detectable difference McNemar's exact test finds about 80 %."""
    difference = detectable_difference(n, discordant)
    shares = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    draws = np.random.default_rng(0).multinomial(n, shares, 2000)
    found = np.mean([mcnemar(gained, lost) < 0.05 for gained, lost, _ in draws])
    assert 0.74 <= found <= 0.84  # the exact test is a little more careful than the formula
