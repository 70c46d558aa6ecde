import io

import numpy as np
import pytest
from matplotlib.colors import to_hex

from benchmarks.analysis.select import nearest
from benchmarks.figures.distribution import draw_distribution, spread_of
from benchmarks.figures.theme import ALERT
from benchmarks.results.store import Store
from benchmarks.statistics.intervals import wilson
from tests.factories import graph_hits, make_result, partition_hits


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    make_result(store, algorithm="graph", search={"ef": 20}, hits=np.repeat([0, 8, 9, 10], [5, 5, 10, 80]))
    make_result(store, algorithm="partition", search={"n_probe": 4}, hits=partition_hits(0.9, 100))
    return store


def drawn(store, **options):
    results = list(store.results())
    return draw_distribution(nearest(results), results, **options)


def test_each_recall_of_a_small_k_has_its_bin():
    spread = spread_of(np.array([0, 3, 3, 10]), 10)
    assert spread.labels == ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    assert list(spread.counts) == [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1]


def test_bins_of_a_large_k_leave_both_ends_alone():
    spread = spread_of(np.array([0, 1, 29, 30, 69, 70, 99, 100, 100]), 100)
    assert dict(zip(spread.labels, spread.counts, strict=True)) == {
        "0": 1,
        "0–0.1": 1,
        "0.1–0.2": 0,
        "0.2–0.3": 1,
        "0.3–0.4": 1,
        "0.4–0.5": 0,
        "0.5–0.6": 0,
        "0.6–0.7": 1,
        "0.7–0.8": 1,
        "0.8–0.9": 0,
        "0.9–1": 1,
        "1": 2,
    }


@pytest.mark.parametrize("k", [1, 2, 10, 20, 21, 64, 100])
def test_every_query_is_in_one_bin(k):
    hits = np.arange(k + 1).repeat(3)
    spread = spread_of(hits, k)
    assert spread.counts.sum() == len(hits) and len(spread.labels) == len(spread.counts)
    assert spread.counts[0] == spread.counts[-1] == 3


def test_intervals_are_wilsons():
    spread = spread_of(np.array([0, 3, 3, 10]), 10)
    assert tuple(spread.intervals()[:, 3]) == wilson(2, 4)


def test_the_bar_of_recall_one_is_cut_and_its_value_written(store):
    panel = drawn(store).axes[0]
    assert panel.get_ylim()[1] < 60  # 80 % of the queries would flatten the rest
    heights = {round(bar.get_height(), 6) for bar in panel.patches}
    assert 80.0 not in heights and {5.0, 10.0} <= heights
    assert "80.0%" in [text.get_text() for text in panel.texts]
    assert max(panel.get_yticks()) < panel.get_ylim()[1]


def test_queries_without_a_hit_have_a_red_frame_and_their_share(store):
    panel = drawn(store).axes[0]
    frames = [bar for bar in panel.patches if to_hex(bar.get_edgecolor()) == ALERT.lower()]
    assert [frame.get_height() for frame in frames] == [5.0, 0.0]
    assert {"5.0%", "0.0%"} <= {text.get_text() for text in panel.texts if text.get_color() == ALERT}


def test_nothing_is_cut_where_nothing_is_flattened(tmp_path):
    store = Store(tmp_path)
    make_result(store, hits=np.arange(11).repeat(10))
    panel = drawn(store).axes[0]
    assert {round(bar.get_height(), 6) for bar in panel.patches} == {round(100 / 11, 6)}


@pytest.mark.parametrize("count, panels", [(1, 1), (3, 1), (4, 4), (6, 6)])
def test_many_algorithms_get_a_panel_each(tmp_path, count, panels):
    store = Store(tmp_path)
    for number in range(count):
        make_result(store, algorithm=f"index-{number}", hits=graph_hits(0.9, 100, seed=number))
    figure = drawn(store)
    assert len(figure.axes) == panels
    assert len(figure.legends[0].get_texts()) == count


@pytest.mark.parametrize("value", [0, 10])
def test_all_queries_alike(tmp_path, value):
    store = Store(tmp_path)
    make_result(store, hits=np.full(50, value))
    figure = drawn(store)
    figure.savefig(io.BytesIO())
    assert {"100.0%", "0.0%"} == {text.get_text() for text in figure.axes[0].texts}


def test_failed_points_are_named(store):
    make_result(store, algorithm="dead", search={"a": 1}, status="timeout", nq=100)
    words = [text.get_text() for legend in drawn(store).legends for text in legend.get_texts()]
    assert "dead: 1 failed (timeout: a=1)" in words
