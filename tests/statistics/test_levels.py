import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from benchmarks.statistics.intervals import wilson
from benchmarks.statistics.levels import compare_builds, split_variance, two_level
from benchmarks.statistics.power import largest_provable_share


def table(builds, n, build=0.1, query=0.2, rest=0.3, repeats=None, repeat=0.0, seed=0):
    """Normal values whose parts have these standard deviations."""
    random = np.random.default_rng(seed)
    shape = (builds, repeats or 1, n)
    values = (
        random.normal(0, build, (builds, 1, 1)) + random.normal(0, query, (1, 1, n)) + random.normal(0, rest, shape)
    )
    values = values + random.normal(0, repeat, shape[:2])[:, :, None]
    return values if repeats else values[:, 0]


def test_the_split_is_that_of_statsmodels():
    """Expected mean squares of a crossed table, from the analysis of variance that statsmodels makes."""
    import pandas as pd

    values = table(4, 30)
    rows = pd.DataFrame(
        [(value, build, query) for (build, query), value in np.ndenumerate(values)], columns=["y", "build", "query"]
    )
    squares = anova_lm(ols("y ~ C(build) + C(query)", rows).fit())["mean_sq"]
    split = split_variance(values)
    assert split.rest == pytest.approx(squares["Residual"])
    assert split.build == pytest.approx(max(0, (squares["C(build)"] - squares["Residual"]) / 30))
    assert split.query == pytest.approx(max(0, (squares["C(query)"] - squares["Residual"]) / 4))
    assert split.repeat is None


def test_the_split_finds_what_was_put_in():
    split = split_variance(table(200, 300, 0.1, 0.2, 0.3, repeats=4, repeat=0.15))
    assert split.build == pytest.approx(0.1**2, rel=0.25) and split.query == pytest.approx(0.2**2, rel=0.2)
    assert split.repeat == pytest.approx(0.15**2, rel=0.1) and split.rest == pytest.approx(0.3**2, rel=0.02)


def test_the_split_of_speed_has_builds_and_repeats():
    values = table(300, 1, 0.2, 0, 0, repeats=5, repeat=0.1)
    split = split_variance(values)
    assert split.query is None and split.rest is None
    assert split.build == pytest.approx(0.2**2, rel=0.2) and split.repeat == pytest.approx(0.1**2, rel=0.1)


def test_what_one_build_cannot_tell():
    values = table(1, 50)
    split = split_variance(values)
    assert split.build is None and split.repeat is None and split.rest is None
    assert split.query == pytest.approx(values.var(ddof=1))


def test_one_build_is_the_interval_over_queries():
    found = (np.arange(500) % 20 != 0).astype(float)[None]
    level = two_level(found)
    assert (level.low, level.high) == pytest.approx(wilson(475, 500), abs=2e-4)
    assert math.isnan(level.new_low) and level.builds == 1


def test_builds_that_are_all_alike_add_nothing():
    found = (np.arange(500) % 20 != 0).astype(float)
    level = two_level(np.stack([found] * 5))
    assert (level.low, level.high) == pytest.approx(wilson(475, 500), abs=2e-4)
    assert level.split.build == level.split.rest == 0


def test_builds_that_differ_widen_it_and_a_new_build_more():
    random = np.random.default_rng(0)
    found = np.stack([random.random(2000) < share for share in (0.90, 0.95, 0.93)]).astype(float)
    level = two_level(found)
    low, high = wilson(int(found.sum()), found.size)
    assert level.new_low < level.low < low < level.value < high < level.high < level.new_high
    assert level.split.build > 1e-4


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_varies(value):
    level = two_level(np.full((3, 100), value))
    assert level.value == value and (level.low, level.high) == pytest.approx(wilson(int(value * 100), 100))


def test_more_builds_are_no_more_queries():
    """One answer in 20,000 is bad, of another query in one build: 5,000 queries still show no more than they can."""
    found = np.ones((4, 5000))
    found[1, 7] = 0
    assert two_level(found).low <= largest_provable_share(5000)


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(2, 40), st.booleans())
def test_ends_lie_around_the_value_and_within_bounds(seed, builds, n, shares):
    random = np.random.default_rng(seed)
    values = random.random((builds, n))
    values = np.round(values) if shares else values
    level = two_level(values)
    assert 0 <= level.low <= level.value <= level.high <= 1
    if builds > 1:
        assert level.new_low <= level.low + 1e-12 and level.high <= level.new_high + 1e-12


def test_builds_compared_where_builds_are_all_that_varies():
    """Without queries' part it is the t-test of Welch over the builds' means."""
    random = np.random.default_rng(0)
    base, new = (np.repeat(random.uniform(0.4, 0.6, size)[:, None], 400, axis=1) for size in (6, 9))
    found = compare_builds(base, new)
    expected = ttest_ind(new[:, 0], base[:, 0], equal_var=False)
    assert found.difference == pytest.approx(new.mean() - base.mean())
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    low, high = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high))


def test_builds_that_cannot_be_compared():
    with pytest.raises(ValueError, match="at least two builds"):
        compare_builds(np.ones((1, 10)), np.ones((3, 10)))
    with pytest.raises(ValueError, match="same queries"):
        compare_builds(np.ones((2, 10)), np.ones((2, 11)))
