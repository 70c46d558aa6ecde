import io

import numpy as np
import pytest
from matplotlib.colors import to_hex

from benchmarks.analysis.equal import match
from benchmarks.analysis.stations import Station
from benchmarks.figures.distribution import bins_of, draw_distribution, spread_of
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
    return drawing_of(store, **options).figure


def drawing_of(store, recall=0.9, tolerance=0.05, **options):
    results = list(store.results())
    return draw_distribution(match(results, recall, tolerance), results, **options)


def test_each_recall_of_a_small_k_has_its_bin():
    labels, counts = bins_of(np.array([0, 3, 3, 10]), 10)
    assert labels == ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    assert list(counts) == [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1]


def test_bins_of_a_large_k_leave_both_ends_alone():
    assert dict(zip(*bins_of(np.array([0, 1, 29, 30, 69, 70, 99, 100, 100]), 100), strict=True)) == {
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
    labels, counts = bins_of(hits, k)
    assert counts.sum() == len(hits) and len(labels) == len(counts)
    assert counts[0] == counts[-1] == 3


def test_intervals_are_wilsons(tmp_path):
    result = make_result(Store(tmp_path), hits=[0, 3, 3, 10])
    spread = spread_of(Station((result,)))
    assert (spread.shares[3], spread.low[3], spread.high[3]) == (0.5, *wilson(2, 4))


def test_the_table_is_what_is_drawn(store):
    make_result(store, algorithm="dead", search={"a": 1}, status="timeout", nq=100)
    drawing = drawing_of(store)
    table = drawing.table[drawing.table.status == "ok"]
    heights = sorted(round(bar.get_height(), 6) for bar in drawing.figure.axes[0].patches)
    inner, full = table[table.bin != "1"], table[table.bin == "1"]
    assert set(np.round(100 * inner.share, 6)) <= set(heights) and len(table) == 22
    assert {f"{100 * share:.1f}%" for share in full.share} <= {text.get_text() for text in drawing.figure.axes[0].texts}
    assert table.groupby("algorithm").share.sum().round(9).tolist() == [1, 1]
    assert list(drawing.table[drawing.table.status != "ok"].status) == ["timeout"]


def test_what_is_interpolated_is_pale_and_has_the_wanted_recall(tmp_path):
    store = Store(tmp_path)
    for probes, hits in ((1, 6), (2, 10)):
        make_result(store, search={"n_probe": probes}, hits=np.full(100, hits))
    drawing = drawing_of(store)
    shares = dict(zip(drawing.table.bin, drawing.table.share, strict=True))
    assert shares["0.6"] == pytest.approx(0.25) and shares["1"] == pytest.approx(0.75)
    assert {bar.get_alpha() for bar in drawing.figure.axes[0].patches} == {0.55, None}


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
    panel = drawn(store, recall=0.5).axes[0]
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
    figure = drawn(store, recall=max(value / 10, 0.01))
    figure.savefig(io.BytesIO())
    assert {"100.0%", "0.0%"} == {text.get_text() for text in figure.axes[0].texts}


def test_failed_points_are_named(store):
    make_result(store, algorithm="dead", search={"a": 1}, status="timeout", nq=100)
    words = [text.get_text() for legend in drawn(store).legends for text in legend.get_texts()]
    assert "dead: 1 failed (timeout: a=1)" in words
