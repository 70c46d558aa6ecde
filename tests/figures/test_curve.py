import numpy as np
import pytest

from benchmarks.analysis.select import average_recall, nearest
from benchmarks.figures.curve import curve_of, draw_curve
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
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
    return draw_curve(nearest(results), results, **options)


@pytest.mark.parametrize("k, n", [(10, 1000), (100, 1000), (10, 7)])
def test_mean_of_the_curve_is_the_average_recall(tmp_path, k, n):
    hits = partition_hits(0.8, 200, min(k, n))
    result = make_result(Store(tmp_path), hits=hits, k=k, n=n)
    curve = curve_of(result)
    assert len(curve) == min(k, n)
    assert np.mean([item.value for item in curve]) == pytest.approx(float(average_recall(result)), abs=1e-12)


def test_line_and_band_are_the_metric_with_its_interval(store):
    figure = drawn(store)
    (panel,) = figure.axes
    for line, band, result in zip(panel.get_lines(), panel.collections, nearest(store.results()), strict=True):
        corners = {tuple(np.round(point, 9)) for point in band.get_paths()[0].vertices}
        for j in range(1, 11):
            measured = parse_metric(f"robustness-{j / 10}").compute(result)
            assert line.get_ydata()[j] == measured.value and line.get_xdata()[j] == j / 10
            assert {(j / 10, round(measured.low, 9)), (j / 10, round(measured.high, 9))} <= corners
        assert line.get_drawstyle() == "steps-pre" and line.get_xdata()[0] == 0


def test_legend_names_point_recall_and_failures(store):
    words = [text.get_text() for legend in drawn(store).legends for text in legend.get_texts()]
    assert words[0] == "partition: 1 failed (timeout: n_probe=8)"
    assert words[1].startswith("graph ef=20 (recall 0.") and words[2].startswith("partition n_probe=4 (recall 0.")


def test_notes_tell_what_the_area_is_and_when_recalls_differ(store):
    make_result(store, algorithm="far", hits=np.full(400, 5))
    words = " ".join(" ".join(text.get_text() for text in drawn(store).texts).split())
    assert "is its average recall" in words and "They span recall 0.500 to" in words


def test_mixed_points_are_told_apart(store):
    make_result(store, algorithm="graph", search={"ef": 20}, k=100, hits=graph_hits(0.9, 400, 100))
    figure = drawn(store, mixed="mixed: k 10 and 100")
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any("k 100)" in word for word in words) and len(set(words)) == len(words)
    assert "Robustness-δ@K" in figure.axes[0].get_ylabel()
