import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import bootstrap
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels
from statsmodels.stats.multitest import multipletests

from benchmarks.statistics.paired import (
    bootstrap_means,
    compare_means,
    compare_shares,
    holm,
    mcnemar,
    paired_share_interval,
)

COUNTS = st.integers(0, 400)


def pair(both: int, gained: int, lost: int, neither: int):
    """Two bool arrays with so many queries of each kind."""
    base = np.repeat([True, False, True, False], [both, gained, lost, neither])
    new = np.repeat([True, True, False, False], [both, gained, lost, neither])
    return base, new


@given(COUNTS, COUNTS)
def test_mcnemar_is_that_of_statsmodels(gained, lost):
    expected = mcnemar_of_statsmodels([[7, lost], [gained, 5]], exact=True).pvalue
    assert mcnemar(gained, lost) == pytest.approx(min(1.0, expected), rel=1e-9)


def test_no_query_differs_is_no_evidence():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 5) == pytest.approx(2 / 2**5) and mcnemar(0, 6) == pytest.approx(2 / 2**6)


def tango(gained, lost, n, z):
    """Tango's interval by brute force: the likelihood maximised numerically, the score inverted by a root finder."""

    def score(delta):
        def minus_log_likelihood(share):
            with np.errstate(divide="ignore", invalid="ignore"):
                counts = np.array([gained, lost, n - gained - lost])
                shares = np.array([share + delta, share, 1 - 2 * share - delta])
                return -np.where(counts == 0, 0, counts * np.log(np.maximum(shares, 1e-300))).sum()

        bounds = max(0.0, -delta), (1 - delta) / 2
        share = minimize_scalar(minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        return (gained - lost - n * delta) / np.sqrt(n * (2 * share + delta - delta**2))

    mean = (gained - lost) / n
    return (
        brentq(lambda delta: score(delta) - z, -0.999999, mean),
        brentq(lambda delta: score(delta) + z, mean, 0.999999),
    )


@pytest.mark.parametrize("case", [(1, 7, 21), (30, 12, 200), (2, 1, 1000), (250, 400, 5000), (5, 40, 60)])
def test_paired_interval_is_tangos(case):
    assert paired_share_interval(*case) == pytest.approx(tango(*case, 1.959964), abs=2e-5)


def test_paired_interval_of_the_literature():
    """Airway hyper-responsiveness, Fagerland, Lydersen and Laake 2014, table of intervals: Tango -0.517 to -0.026."""
    assert paired_share_interval(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_paired_interval_holds_the_difference_and_mirrors(gained, lost, same):
    n = gained + lost + same
    if n:
        low, high = paired_share_interval(gained, lost, n)
        assert -1 <= low <= (gained - lost) / n <= high <= 1
        assert paired_share_interval(lost, gained, n) == pytest.approx((-high, -low), abs=1e-9)


def test_shares():
    found = compare_shares(*pair(900, 10, 40, 50))
    assert found.difference == pytest.approx(-0.03) and found.n == 1000
    assert found.low < -0.03 < found.high < 0
    assert found.p == pytest.approx(mcnemar(10, 40))
    differences = np.repeat([0, 1, -1, 0], [900, 10, 40, 50])
    assert found.effect == pytest.approx(differences.mean() / differences.std(ddof=1))


def test_shares_that_do_not_differ():
    found = compare_shares(*pair(90, 0, 0, 10))
    assert (found.difference, found.p, found.effect) == (0, 1, 0)
    assert found.high == -found.low == pytest.approx(3.8415 / 103.8415, abs=1e-4)
    assert found.detectable == pytest.approx(0.0757, abs=1e-3)
    everything = compare_shares(*pair(0, 20, 0, 0))
    assert everything.difference == everything.high == 1 and everything.effect == np.inf


@pytest.mark.parametrize("values", ["counts", "continuous"])
def test_means_are_those_of_scipys_bootstrap(values):
    random = np.random.default_rng(5)
    base = random.binomial(10, 0.9, 800) / 10 if values == "counts" else random.random(800)
    new = np.clip(base + random.choice([-0.1, -0.1, 0, 0.1], 800), 0, 1)
    found = compare_means(base, new)
    expected = bootstrap(
        (new - base,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.05 * width)
    assert found.difference == pytest.approx((new - base).mean())
    assert found.p < 0.001 and found.effect == pytest.approx((new - base).mean() / (new - base).std(ddof=1))


def test_bootstrap_by_counts_is_that_by_queries():
    values = np.random.default_rng(2).choice([-0.3, 0, 0.1], 400)
    by_counts, by_queries = bootstrap_means(values), bootstrap_means(values + np.arange(400) * 1e-9)
    assert (len(by_counts), len(by_queries)) == (10_000, 2_000)
    ends = [np.quantile(means, [0.025, 0.5, 0.975]) for means in (by_counts, by_queries)]
    assert ends[0] == pytest.approx(ends[1], abs=0.0015)


def test_few_queries_without_a_difference_prove_little():
    same = np.full(100, 0.9)
    found = compare_means(same, same)
    assert found.difference == 0 and found.p == 1 and found.effect == 0
    assert found.high == -found.low == pytest.approx(1 - 0.025 ** (1 / 100))  # none of 100: Clopper and Pearson
    assert compare_means(np.full(10_000, 0.9), np.full(10_000, 0.9)).high < 0.0004


@pytest.mark.parametrize("lost, least", [(1, 1.0), (3, 0.25), (5, 0.0625)])
def test_a_handful_that_went_one_way_may_be_chance(lost, least):
    new = np.ones(1000)
    new[:lost] = 0.5
    assert compare_means(np.ones(1000), new).p >= least


def test_one_lost_query_of_a_few_is_within_what_could_be_lost():
    base, new = np.ones(50), np.ones(50)
    new[3] = 0
    found = compare_means(base, new)
    assert found.low < -0.07 and found.high > 0


@pytest.mark.parametrize(
    "base, new", [([0.5], [0.5, 0.5]), ([], []), ([0.2, 3.0], [0.1, 0.1]), ([0.2], [np.nan]), ([[0.1]], [[0.1]])]
)
def test_what_cannot_be_compared(base, new):
    with pytest.raises(ValueError):
        compare_means(np.array(base), np.array(new))


def test_swapping_base_and_new_turns_the_sign():
    random = np.random.default_rng(0)
    base, new = random.random(300), random.random(300)
    there, back = compare_means(base, new), compare_means(new, base)
    assert there.difference == -back.difference and there.detectable == back.detectable
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=0.01)
    there, back = compare_shares(base > 0.5, new > 0.5), compare_shares(new > 0.5, base > 0.5)
    assert (there.low, there.high, there.p) == pytest.approx((-back.high, -back.low, back.p))


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_that_of_statsmodels(seed):
    random = np.random.default_rng(seed)
    p = list(np.round(random.beta(0.3, 1, random.integers(1, 30)), random.integers(1, 9)))  # with ties
    assert holm(p) == pytest.approx(list(multipletests(p, method="holm")[1]), abs=1e-12)


def test_holm_of_nothing():
    assert holm([]) == []
