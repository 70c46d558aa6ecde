import numpy as np
import pytest

from benchmarks.analysis.equal import match
from benchmarks.analysis.select import average_recall
from benchmarks.analysis.stations import Station
from benchmarks.figures.curve import curve_of, draw_curve
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from benchmarks.statistics.bands import robustness_band
from tests.factories import graph_hits, make_result, partition_hits


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    make_result(store, algorithm="graph", search={"ef": 20}, hits=graph_hits(0.9, 400))
    make_result(store, algorithm="partition", search={"n_probe": 4}, hits=partition_hits(0.9, 400))
    make_result(store, algorithm="partition", search={"n_probe": 8}, status="timeout", nq=400)
    return store


def drawn(store, **options):
    results = list(store.results())
    ks = sorted({result.identity.k for result in results})
    matches = {k: match([each for each in results if each.identity.k == k], 0.9, 0.02) for k in ks}
    return draw_curve(matches, results, **options)


@pytest.mark.parametrize("k, n", [(10, 1000), (100, 1000), (10, 7)])
def test_mean_of_the_curve_is_the_average_recall(tmp_path, k, n):
    hits = partition_hits(0.8, 200, min(k, n))
    result = make_result(Store(tmp_path), hits=hits, k=k, n=n)
    curve = curve_of(Station((result,)))
    assert len(curve) == min(k, n)
    assert np.mean([item.value for item in curve]) == pytest.approx(float(average_recall(result)), abs=1e-12)


def test_line_and_band_are_the_metric_with_its_interval(store):
    (panel,) = drawn(store).figure.axes
    results = [result for result in store.results() if result.ok]
    for line, band, result in zip(panel.get_lines(), panel.collections, results, strict=True):
        corners = {tuple(np.round(point, 9)) for point in band.get_paths()[0].vertices}
        whole = robustness_band(result.hits, 10)
        for j in range(1, 11):
            measured = parse_metric(f"robustness-{j / 10}").compute(result)
            assert line.get_ydata()[j] == measured.value and line.get_xdata()[j] == j / 10
            assert {(j / 10, round(whole.low[j - 1], 9)), (j / 10, round(whole.high[j - 1], 9))} <= corners
        assert line.get_drawstyle() == "steps-pre" and line.get_xdata()[0] == 0


def test_legend_names_point_recall_and_failures(store):
    words = [text.get_text() for legend in drawn(store).figure.legends for text in legend.get_texts()]
    assert words[0] == "partition: 1 failed (timeout: n_probe=8)"
    assert words[1].startswith("graph ef=20 (recall 0.") and words[2].startswith("partition n_probe=4 (recall 0.")


def words_of(figure):
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def test_notes_tell_what_the_area_is_and_who_is_not_at_this_recall(store):
    make_result(store, algorithm="far", hits=np.full(400, 5))
    figure = drawn(store).figure
    assert "is its average recall" in words_of(figure)
    assert "Not shown, since no point is at or on both sides of this recall: far (nearest 0.500)" in words_of(figure)
    assert len(figure.axes[0].get_lines()) == 2


def test_each_k_has_its_panel_with_its_own_points(store):
    make_result(store, algorithm="graph", search={"ef": 200}, k=100, hits=graph_hits(0.9, 400, 100))
    drawing = drawn(store)
    first, second = drawing.figure.axes
    assert [panel.get_title(loc="left") for panel in (first, second)] == ["(a) K = 10", "(b) K = 100"]
    assert [panel.get_ylabel() for panel in (first, second)] == ["Robustness-δ@10", "Robustness-δ@100"]
    assert len(first.get_lines()) == 2 and len(second.get_lines()) == 1
    words = [text.get_text() for legend in drawing.figure.legends for text in legend.get_texts()]
    assert sum(word.startswith("K=10: ") for word in words) == 2 and words[-1].startswith("K=100: graph ef=200 (recall")


def test_the_table_is_what_is_drawn(store):
    drawing = drawn(store)
    table = drawing.table[drawing.table.status == "ok"]
    for line, (_, rows) in zip(drawing.figure.axes[0].get_lines(), table.groupby("algorithm"), strict=True):
        assert list(rows.delta) == list(line.get_xdata()[1:]) and list(rows.robustness) == list(line.get_ydata()[1:])
        assert (rows.robustness_low <= rows.robustness).all() and (rows.robustness <= rows.robustness_high).all()
    failed = drawing.table[drawing.table.status != "ok"]
    assert list(failed.algorithm) == ["partition"] and list(failed.status) == ["timeout"]


def test_interpolated_points_are_open_and_said_to_be(tmp_path):
    store = Store(tmp_path)
    for probes, hits in ((1, 7), (2, 10)):
        make_result(store, algorithm="partition", search={"n_probe": probes}, hits=np.full(200, hits))
    make_result(store, algorithm="graph", search={"ef": 20}, hits=np.full(200, 9))
    figure = drawn(store).figure
    graph, partition = figure.axes[0].get_lines()
    assert partition.get_markerfacecolor() == "white" and graph.get_markerfacecolor() != "white"
    assert list(partition.get_ydata()) == pytest.approx([1.0] * 8 + [2 / 3] * 3)
    assert np.mean(partition.get_ydata()[1:]) == pytest.approx(0.9)
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert words[1] == "partition n_probe=1…2 (recall 0.900, interpolated between 0.700 and 1.000)"
    assert "open markers" in words_of(figure)


def test_mixed_points_are_told_apart(store):
    make_result(store, algorithm="graph", search={"ef": 20}, threads=4, hits=graph_hits(0.9, 400))
    figure = drawn(store, mixed="mixed: threads 1 and 4").figure
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any("threads 4)" in word for word in words) and len(set(words)) == len(words)
