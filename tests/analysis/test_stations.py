from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.analysis.stations import recall_axis, speed_axis, station_at, with_settings
from benchmarks.metrics.registry import Measured, parse_metric
from benchmarks.results.store import Store
from tests.factories import make_result

RECALL = parse_metric("recall")


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Make one point of an average recall of total / (10 × 100)."""
    store = Store(tmp_path_factory.mktemp("stations"))

    def make(total: int, ef: int, qps: float = 1000, shuffle: int = 0, repeats: int = 3):
        hits = np.full(100, total // 100) + (np.arange(100) < total % 100)
        hits = np.random.default_rng(shuffle).permutation(hits)
        return make_result(store, build={"M": 8}, search={"efSearch": ef}, hits=hits, qps=qps, repeats=repeats)

    return make


@settings(max_examples=20)
@given(st.integers(300, 950), st.integers(1, 45), st.floats(0.01, 0.99))
def test_a_mixture_has_the_wanted_recall_on_these_queries(points, low, gap, share):
    line = [points(low, 1), points(low + gap, 2, shuffle=1)]
    wanted = recall_axis(line[0]) + share * (recall_axis(line[1]) - recall_axis(line[0]))
    station = station_at([line], wanted)
    assert station.values(RECALL).mean() == pytest.approx(wanted)
    assert sum(station.weights) == pytest.approx(1) and all(0 <= weight <= 1 for weight in station.weights)


def test_a_point_that_has_it_stands_alone(points):
    line = [points(800, 1), points(900, 2), points(950, 3)]
    station = station_at([line], 0.9)
    assert station.points == (line[1],) and station.error(RECALL.compute) == 0
    assert "efSearch=2" in station.describe()


def test_the_nearest_neighbours_are_mixed(points):
    line = [points(700, 1), points(860, 2), points(920, 3), points(990, 4)]
    station = station_at([line], 0.9)
    assert station.points == (line[1], line[2]) and station.others == (line[0], line[3])
    text = station.describe()
    assert "between efSearch=2 and efSearch=3" in text and "0.8600 and 0.9200" in text and "67%" in text


def test_out_of_reach_is_nothing_and_an_end_within_tolerance_stands(points):
    line = [points(700, 1), points(890, 2)]
    assert station_at([line], 0.9) is None
    station = station_at([line], 0.9, tolerance=0.015)
    assert station.points == (line[1],)
    assert station.error(RECALL.compute) == pytest.approx(0.01)  # the slope of recall over itself, times the distance
    assert station_at([line], 0.69, tolerance=0.015).points == (line[0],)
    assert station_at([], 0.9) is None


def test_of_several_lines_the_tightest(points):
    coarse, tight = [points(700, 1), points(950, 2)], [points(880, 3), points(910, 4)]
    ends_near = [points(800, 5), points(899, 6)]
    assert station_at([coarse, tight], 0.9).points == tuple(tight)
    assert "the tightest of 2 builds" in station_at([coarse, tight], 0.9).describe()
    assert "tightest" not in station_at([coarse], 0.9).describe()
    assert station_at([ends_near, coarse], 0.9).points == tuple(coarse)


def test_the_error_bounds_what_a_bent_curve_has_between(points):
    """Values that follow a parabola over recall: the error is twice what the straight line is off."""
    metric = parse_metric("robustness-1")

    def curve(recall):
        return recall**2

    class Bent:
        name, k = "bent", None

        def per_query(self, result):
            return np.full(result.record.nq, curve(recall_axis(result)))

        def compute(self, result):
            return Measured(self.per_query(result).mean())

    line = [points(600, 1), points(700, 2), points(800, 3)]
    station = station_at([line], 0.74)
    straight = station.values(Bent()).mean()
    assert 2 * abs(straight - curve(0.74)) == pytest.approx(station.error(Bent().compute), rel=1e-6)
    two = station_at([line[1:]], 0.74)
    assert two.error(Bent().compute) >= abs(two.values(Bent()).mean() - curve(0.74))
    assert station_at([line], 0.74).error(metric.compute) >= 0


def test_on_the_axis_of_speed_the_repeats_count(points):
    line = [points(900, 1, qps=1000), points(700, 2, qps=4000)]
    station = station_at([sorted(line, key=speed_axis)], np.log(2000), speed_axis)
    assert station.weights == pytest.approx((0.5, 0.5))
    assert station.error(RECALL.compute) > 0.1 * 0.99  # without a neighbour, half of the way; more by the repeats


def test_settings_choose_by_build_and_search(points):
    several = [points(900, 1), points(900, 2)]
    assert with_settings(several, {"M": 8, "efSearch": 2}) == [several[1]]
    assert with_settings(several, {"M": 16}) == [] == with_settings(several, {"other": 1})


def test_lines_without_a_seed_are_as_good_as_any(tmp_path):
    """Another harness did not say; two of its runs of one setting are two lines."""
    store = Store(tmp_path)
    made = [make_result(store, search={"e": e}, hits=[h] * 50, seed=s) for s in (0, 1) for e, h in ((1, 8), (2, 10))]

    def unknown(result):
        identity = result.identity.model_copy(update={"seed": None})
        return replace(result, record=result.record.model_copy(update={"identity": identity}))

    lines = [[unknown(each) for each in made[:2]], [unknown(each) for each in made[2:]]]
    assert station_at(lines, 0.9).lines == 2
    assert station_at([*lines, made[:2]], 0.9).lines == 1
