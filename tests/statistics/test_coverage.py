"""Over 2,000 simulated result sets: how often an interval of 95 % holds the truth, how often a test raises a false
alarm. With 2,000 sets the share itself is known to within one percentage point."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.metrics.quality import mean_recall, robustness_of
from benchmarks.statistics.bands import robustness_band
from benchmarks.statistics.intervals import wilson
from benchmarks.statistics.levels import compare_builds, two_level
from benchmarks.statistics.paired import compare_means, compare_shares, mcnemar

SETS, K = 2000, 10
COVERED = pytest.approx(0.95, abs=0.02)


def populations(k=K):
    """For each result set the probabilities of 0 … k hits: graphs, which lose some queries, and partitions."""
    random = np.random.default_rng(0)
    for number in range(SETS):
        if number % 2:
            lost, found = random.uniform(0.005, 0.15), random.uniform(0.85, 0.995)
            shares = np.array([comb(k, j) * found**j * (1 - found) ** (k - j) for j in range(k + 1)]) * (1 - lost)
            shares[0] += lost
        else:
            shares = np.exp(-np.arange(k + 1)[::-1] / random.uniform(0.5, 5))
        yield random, shares / shares.sum(), int(random.integers(300, 5000))


def curve(shares):
    """True robustness for δ = 1/k … 1."""
    return np.cumsum(shares[::-1])[::-1][1:]


def test_robustness_and_recall():
    covered = np.zeros((SETS, 4), bool)
    for index, (random, shares, n) in enumerate(populations()):
        hits = np.repeat(np.arange(K + 1), random.multinomial(n, shares))
        for column, delta in enumerate(("0.1", "0.5", "0.9")):
            found = robustness_of(hits, Fraction(delta), K)
            covered[index, column] = found.low <= curve(shares)[int(Fraction(delta) * K) - 1] <= found.high
        found = mean_recall(hits, K)
        covered[index, 3] = found.low <= shares @ np.arange(K + 1) / K <= found.high
    assert list(covered.mean(axis=0)) == [COVERED] * 4, covered.mean(axis=0)


def paired_populations():
    """Hits of base and new on the same queries: both depend on how hard a query is, and on luck of their own."""
    random = np.random.default_rng(1)
    for _ in range(SETS):
        base, new, spread = random.uniform(0.5, 2.5), random.uniform(0.5, 2.5), random.uniform(0.3, 1.5)
        yield random, base, new, spread, int(random.integers(300, 3000))


@pytest.mark.slow
def test_differences_of_means():
    grid, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    covered = []
    for index, (random, base, new, spread, n) in enumerate(paired_populations()):
        hard = random.normal(0, spread, n)
        found = compare_means(*(random.binomial(K, ndtr(level + hard)) / K for level in (base, new)), seed=index)
        covered.append(found.low <= weights @ (ndtr(new + spread * grid) - ndtr(base + spread * grid)) <= found.high)
    assert np.mean(covered) == COVERED, np.mean(covered)


def test_differences_of_shares():
    covered = []
    for random, base, new, spread, n in paired_populations():
        hard, total = random.normal(0, spread, n), np.sqrt(1 + spread**2)
        found = compare_shares(*(level + hard + random.normal(0, 1, n) > 0 for level in (base, new)))
        covered.append(found.low <= ndtr(new / total) - ndtr(base / total) <= found.high)
    assert np.mean(covered) == COVERED, np.mean(covered)


def test_mcnemar_does_not_cry_wolf():
    random = np.random.default_rng(2)
    alarms = []
    for _ in range(SETS):
        n, discordant = int(random.integers(300, 20_000)), random.uniform(0.001, 0.2)
        gained, lost, _ = random.multinomial(n, [discordant / 2, discordant / 2, 1 - discordant])
        alarms.append(mcnemar(gained, lost) < 0.05)
    assert 0.02 < np.mean(alarms) <= 0.06


@pytest.mark.slow
def test_bootstrap_does_not_cry_wolf():
    alarms = []
    for index, (random, base, _, spread, n) in enumerate(paired_populations()):
        chance = ndtr(base + random.normal(0, spread, n))
        alarms.append(compare_means(*(random.binomial(K, chance) / K for _ in range(2)), seed=index).p < 0.05)
    assert 0.035 < np.mean(alarms) <= 0.06


def builds_of(random, level, builds, n, spread, hard):
    """bool (builds, n): whether each build answers each query well, and what each build does over all queries."""
    shift = random.normal(0, spread, (builds, 1))
    chance = random.normal(0, 0.8, (builds, n))
    return (level + shift + hard + chance > 0).astype(float)


def test_two_levels_cover_a_new_build_where_queries_alone_do_not():
    random = np.random.default_rng(3)
    covered = np.zeros((SETS, 4), bool)
    for index in range(SETS):
        level, spread = random.uniform(1.2, 2.2), random.uniform(0.08, 0.2)
        n, builds = int(random.integers(1000, 4000)), int(random.integers(4, 9))
        hard_spread = random.uniform(0.2, 0.9)
        values = builds_of(random, level, builds, n, spread, random.normal(0, hard_spread, n))
        within = np.sqrt(hard_spread**2 + 0.8**2)
        over_all = ndtr(level / np.sqrt(within**2 + spread**2))
        new_build = ndtr((level + random.normal(0, spread)) / within)
        found, alone = two_level(values), wilson(int(values[0].sum()), n)
        covered[index] = (
            found.low <= over_all <= found.high,
            found.new_low <= new_build <= found.new_high,
            alone[0] <= new_build <= alone[1],
            alone[0] <= over_all <= alone[1],
        )
    shares = covered.mean(axis=0)
    assert list(shares[:2]) == [COVERED] * 2, shares
    assert shares[2] < 0.7 and shares[3] < 0.8, shares


def test_two_levels_of_builds_that_do_not_differ():
    """Then they are no wider than needed: builds share the queries, and are no more queries than there are."""
    random = np.random.default_rng(4)
    covered = []
    for _ in range(SETS):
        level, n, hard_spread = random.uniform(1, 2), int(random.integers(500, 2000)), random.uniform(0.5, 1)
        found = two_level(builds_of(random, level, 4, n, 0.0, random.normal(0, hard_spread, n)))
        covered.append(found.low <= ndtr(level / np.sqrt(hard_spread**2 + 0.8**2)) <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.98


def test_differences_over_builds():
    random = np.random.default_rng(5)
    covered, alarms = [], []
    for _ in range(SETS):
        level, n, spread = random.uniform(1, 2), int(random.integers(500, 2000)), random.uniform(0.05, 0.2)
        builds, hard = random.integers(3, 8, 2), random.normal(0, 0.6, n)
        sides = [builds_of(random, level, size, n, spread, hard) for size in builds]
        found = compare_builds(*sides)
        covered.append(found.low <= 0 <= found.high)
        alarms.append(found.p < 0.05)
    assert np.mean(covered) == COVERED and np.mean(alarms) <= 0.07, (np.mean(covered), np.mean(alarms))


def band_coverage(k, every):
    """How often the band, and how often single intervals, hold the whole curve; of every so many of the sets."""
    covered, single = [], []
    for index, (random, shares, n) in enumerate(populations(k)):
        counts = random.multinomial(n, shares)
        if index % every in (0, 1):
            hits = np.repeat(np.arange(k + 1), counts)
            band, true = robustness_band(hits, k, seed=index), curve(shares)
            covered.append(((band.low <= true) & (true <= band.high)).all())
            ends = np.array([wilson(int(round(value * n)), n) for value in band.value])
            single.append(((ends[:, 0] <= true) & (true <= ends[:, 1])).all())
    return np.mean(covered), np.mean(single)


@pytest.mark.slow
def test_the_band_holds_the_whole_curve():
    covered, single = band_coverage(K, 2)
    assert covered == COVERED and single < 0.9, (covered, single)


@pytest.mark.slow
def test_the_band_of_a_hundred_deltas():
    covered, single = band_coverage(100, 10)  # 400 sets, which know the share to three percentage points
    assert 0.92 <= covered <= 0.98 and single < 0.8, (covered, single)
