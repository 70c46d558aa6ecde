import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from benchmarks.statistics.intervals import bootstrap_mean, bootstrap_mean_of_counts, wilson


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 10, 97, 1000, 10**6])
def test_wilson_is_that_of_statsmodels(n, confidence):
    for successes in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        expected = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
        assert wilson(successes, n, confidence) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_wilson_of_the_literature():
    """Newcombe 1998, table I: 81 of 263."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(case):
    successes, n = case
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_wilson_at_the_ends(n):
    assert wilson(0, n)[0] == 0.0 and 0 < wilson(0, n)[1] < 1
    assert wilson(n, n)[1] == 1.0 and 0 < wilson(n, n)[0] < 1


def test_95_percent_is_the_default():
    assert wilson(3, 10) == wilson(3, 10, 0.95) != wilson(3, 10, 0.9)


SAMPLES = {
    "skewed": [400, 30, 20, 10, 5, 5, 5, 5, 10, 10],
    "even": [50] * 10,
    "two values": [300, 0, 0, 0, 0, 0, 0, 0, 0, 200],
    "small": [1, 0, 2, 0, 0, 3, 0, 0, 1, 1],
}


@pytest.mark.parametrize("counts", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_bootstrap_is_that_of_resampled_queries(counts, confidence):
    hits = np.repeat(np.arange(len(counts)), counts)
    means = np.random.default_rng(7).choice(hits, (8000, len(hits))).mean(axis=1)
    tail = 50 * (1 - confidence)
    expected = np.percentile(means, [tail, 100 - tail])
    width = expected[1] - expected[0]
    assert bootstrap_mean_of_counts(np.array(counts), confidence) == pytest.approx(expected, abs=0.08 * width)


def test_bootstrap_covers_the_mean():
    share = np.array([0.3, 0.0, 0.05, 0.05, 0.6])
    mean, random, covered = share @ np.arange(5), np.random.default_rng(0), 0
    for seed in range(300):
        low, high = bootstrap_mean_of_counts(random.multinomial(200, share), seed=seed)
        covered += low <= mean <= high
    assert 0.91 <= covered / 300 <= 0.98


@pytest.mark.parametrize(("counts", "mean"), [([5, 0, 0], 0.0), ([0, 0, 9], 2.0), ([0, 1], 1.0)])
def test_bootstrap_without_spread(counts, mean):
    assert bootstrap_mean_of_counts(np.array(counts)) == (mean, mean)


def test_bootstrap_is_reproducible():
    counts = np.array([3, 4, 5])
    assert (
        bootstrap_mean_of_counts(counts) == bootstrap_mean_of_counts(counts) != bootstrap_mean_of_counts(counts, seed=1)
    )


def test_bootstrap_narrows_with_n():
    narrow, wide = (bootstrap_mean_of_counts(np.array([3, 4, 5]) * times) for times in (100, 1))
    assert narrow[1] - narrow[0] == pytest.approx((wide[1] - wide[0]) / 10, rel=0.15)


# --- the mean of any values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 150, 250, 2000])
@pytest.mark.parametrize("shape", ["even", "beta", "mostly 1"])
def test_the_bootstrap_of_values_is_that_of_resamples(shape, n):
    random = np.random.default_rng(n)
    values = {"even": random.random(n), "beta": random.beta(5, 0.5, n), "mostly 1": 1 - random.random(n) ** 8}[shape]
    draws = np.random.default_rng(1)
    means = np.concatenate([draws.choice(values, (500, n)).mean(axis=1) for _ in range(16)])
    low, high = np.percentile(means, [2.5, 97.5])
    assert bootstrap_mean(values) == pytest.approx((low, high), abs=0.08 * (high - low))


@pytest.mark.parametrize("n", [1, 3, 500])
@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3])
def test_the_bootstrap_of_values_without_spread(n, value):
    assert bootstrap_mean(np.full(n, value)) == pytest.approx((value, value), abs=1e-15)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=400))
def test_the_bootstrap_of_values_lies_between_them(values):
    low, high = bootstrap_mean(np.array(values))
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


@pytest.mark.parametrize("n", [100, 1000])
def test_the_bootstrap_of_values_covers_their_mean(n):
    random, covered = np.random.default_rng(n), 0
    for _ in range(500):
        low, high = bootstrap_mean(np.minimum(1, random.beta(4, 0.5, n)))
        covered += low <= 4 / 4.5 <= high
    assert 0.91 <= covered / 500 <= 0.98


def test_counts_and_values_agree():
    counts = np.array([20, 5, 5, 30, 400])
    one, other = bootstrap_mean_of_counts(counts), bootstrap_mean(np.repeat(np.arange(5.0), counts))
    assert one == pytest.approx(other)
