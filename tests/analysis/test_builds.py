import io

import numpy as np
import pytest
from rich.console import Console

from benchmarks.analysis.builds import group_builds, parts, pool, pool_speed
from benchmarks.cli.builds import print_builds, print_limit
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from benchmarks.statistics.levels import Split, two_level
from tests.factories import make_result, partition_hits


@pytest.fixture
def builds(tmp_path):
    """Three builds of one point, and two points that are none of it."""
    store = Store(tmp_path)
    for seed in (2, 0, 1):
        hits = partition_hits(0.85 + 0.04 * seed, 400, seed=seed)
        make_result(store, search={"ef": 8}, hits=hits, seed=seed, qps=1000 * (1 + seed))
    make_result(store, search={"ef": 9}, hits=partition_hits(0.9, 400))
    make_result(store, search={"ef": 8}, seed=5, status="timeout")
    make_result(store, search={"ef": 8}, seed=6, nq=400, threads=2)
    return list(store.results())


def test_groups_are_equal_up_to_the_seed(builds):
    groups = group_builds(builds)
    assert sorted([result.identity.seed for result in group] for group in groups) == [[0], [0, 1, 2], [6]]


def test_runs_of_another_harness_are_points_of_their_own(tmp_path):
    store = Store(tmp_path)
    for source in ("one", "other"):
        make_result(store, algorithm="hnswlib@ann-benchmarks", search={"ef": 8}, seed=None, source=source)
    groups = group_builds(store.results())
    assert sorted([result.identity.source for result in group] for group in groups) == [["one"], ["other"]]


def test_pooled_values_are_those_of_both_levels(builds):
    (group,) = (group for group in group_builds(builds) if len(group) > 1)
    hits = np.stack([result.hits for result in group])
    assert pool(group, parse_metric("recall")) == two_level(hits / 10)
    assert pool(group, parse_metric("robustness-0.5")) == two_level((hits >= 5).astype(float))
    assert pool(group, parse_metric("qps")) is None


def test_speed_over_builds(builds):
    (group,) = (group for group in group_builds(builds) if len(group) > 1)
    speed = pool_speed(group)
    assert (speed.low, speed.value, speed.high) == pytest.approx((1000, 2000, 3000))
    assert sum(parts(speed.split).values()) == pytest.approx(1) and parts(speed.split)["build"] > 0.9
    assert set(parts(speed.split)) == {"build", "repeat"}


def test_parts_are_those_of_what_one_build_shows():
    split = Split(build=0.01, query=1.0, repeat=None, rest=3.0)
    assert parts(split, n=100) == pytest.approx({"build": 0.2, "query": 0.2, "rest": 0.6})
    assert parts(Split(0.0, None, 0.0, None)) == {}


def printed(show, results):
    console = Console(file=io.StringIO(), width=200)
    show(console, results)
    return console.file.getvalue()


def test_the_table_of_builds(builds):
    text = printed(print_builds, builds)
    assert text.count("ef=8") == 1 and "ef=9" not in text
    assert "one more build" in text and "robustness-0.9" in text and "2,000" in text and "%" in text
    assert printed(print_builds, [result for result in builds if result.identity.seed == 0]) == ""


def test_what_n_cannot_show(tmp_path):
    store = Store(tmp_path)
    good = make_result(store, hits=np.full(1000, 10))
    bad = make_result(store, hits=np.arange(1000) % 10, search={"ef": 1})
    assert "1,000 queries cannot show a robustness above 0.9962" in printed(print_limit, [good, bad])
    assert printed(print_limit, [bad]) == ""
