import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from benchmarks.analysis.contrast import Term, against, contrast, sign_flip_p
from benchmarks.statistics.intervals import wilson
from benchmarks.statistics.paired import compare_shares


def term(values, times=1.0, error=0.0, queries="q"):
    return Term("a", np.asarray(values, float), error, queries, times)


def shares(n, *ones):
    """0/1 per query: ones in the given ranges."""
    values = np.zeros(n)
    for start, end in ones:
        values[start:end] = 1
    return values


def test_two_shares_are_compared_exactly():
    base, new = shares(500, (0, 400)), shares(500, (10, 430))
    found, exact = contrast([term(new), term(base, -1)]), compare_shares(base > 0, new > 0)
    assert (found.value, found.low, found.high, found.p) == (exact.difference, exact.low, exact.high, exact.p)
    back = contrast([term(new, -1), term(base)])
    assert back.value == -found.value and back.p == found.p


@given(st.integers(1, 12), st.data())
def test_sign_flips_of_shares_are_mcnemar(differ, data):
    gained = data.draw(st.integers(0, differ))
    differences = np.array([1.0] * gained + [-1.0] * (differ - gained) + [0.0] * 50)
    assert sign_flip_p(differences) == pytest.approx(binomtest(gained, differ, 0.5).pvalue)


def test_a_few_queries_show_nothing_however_they_are_mixed():
    values = np.zeros(10_000)
    values[:4] = 0.9  # a bootstrap of these leaves out 0 with 97.5 %
    found = contrast([term(values), term(np.zeros(10_000), -1)])
    assert found.p == pytest.approx(0.125)


def test_no_difference_at_all():
    found = contrast([term(np.full(200, 0.5)), term(np.full(200, 0.5), -1)])
    assert found.value == 0 and found.low < 0 < found.high and found.p == 1


def test_an_error_widens_the_interval_and_raises_p():
    rng = np.random.default_rng(0)
    high, low = rng.uniform(0.1, 1, 400), rng.uniform(0, 0.9, 400)
    plain = contrast([term(high), term(low, -1)])
    widened = contrast([term(high, error=0.03), term(low, -1, error=0.02)])
    assert widened.low == pytest.approx(plain.low - 0.05) and widened.high == pytest.approx(plain.high + 0.05)
    assert plain.p < 1e-6 < 1e-4 < widened.p < 0.05
    assert contrast([term(high, error=0.1), term(low, -1, error=0.1)]).p == 1


def test_a_sum_of_many_terms_is_paired_by_query():
    """Difficulty of the queries, common to all, cancels."""
    rng = np.random.default_rng(1)
    hard = rng.uniform(0, 0.5, 3000)
    small = [rng.uniform(0, 0.01, 3000) for _ in range(4)]
    a, b, c, d = (hard + extra for extra in small)
    found = contrast([term(a + 0.1), term(b, -1), term(c, -1), term(d)])
    assert found.value == pytest.approx((a + 0.1 - b - c + d).mean())
    assert found.high - found.low < 0.01 and found.p < 0.001


def test_two_query_sets_are_independent():
    """Against the textbook's standard error of a difference of two independent means."""
    rng = np.random.default_rng(2)
    one, other = rng.uniform(0, 1, 2000), rng.uniform(0, 0.8, 500)
    found = contrast([term(one), term(other, -1, queries="r")])
    half = 1.96 * (one.var() / 2000 + other.var() / 500) ** 0.5
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)
    assert found.p < 1e-6 and found.n == 500


def test_no_failure_in_either_query_set_is_no_certainty():
    found = contrast([term(np.ones(50)), term(np.ones(40), -1, queries="r")])
    assert found.low < 0 < found.high


@given(st.integers(0, 200), st.floats(0.01, 0.99))
def test_against_a_bound_is_wilson(successes, bound):
    found = against(term(shares(200, (0, successes))), bound)
    low, high = wilson(successes, 200)
    assert found.low == pytest.approx(low - bound, abs=1e-12) and found.high == pytest.approx(high - bound, abs=1e-12)
    if abs(found.p - 0.05) > 1e-6:
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


def test_n_that_cannot_carry_a_bound():
    assert against(term(np.ones(1000)), 0.9997).low < 0
    assert against(term(np.ones(20_000)), 0.9997).low > 0


@pytest.mark.parametrize("interpolated", [False, True])
def test_false_alarms_are_at_most_as_many_as_said(interpolated):
    """Two indexes of the same distribution, as shares and as mixtures of two shares."""
    rng, alarms, runs = np.random.default_rng(3), 0, 400
    for _ in range(runs):
        sides = []
        for _ in range(2):
            first, second = (rng.random(300) < 0.97).astype(float), (rng.random(300) < 0.97).astype(float)
            sides.append(0.4 * first + 0.6 * second if interpolated else first)
        found = contrast([term(sides[0]), term(sides[1], -1)])
        alarms += found.p < 0.05 and not found.low <= 0 <= found.high
    assert alarms / runs <= 0.06
