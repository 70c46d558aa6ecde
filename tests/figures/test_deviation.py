import numpy as np
import pytest

from benchmarks.analysis.equal import match
from benchmarks.analysis.stations import Station
from benchmarks.figures.deviation import deviation_of, draw_deviation
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from tests.factories import graph_hits, make_result, partition_hits

METRICS = [parse_metric(name) for name in ("map", "ndcg", "mrr", "robustness-0.1", "robustness-0.9", "recall-p95")]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    make_result(store, algorithm="graph", search={"ef": 20}, hits=graph_hits(0.9, 400))
    make_result(store, algorithm="partition", search={"n_probe": 4}, hits=partition_hits(0.9, 400))
    make_result(store, algorithm="partition", search={"n_probe": 8}, status="timeout", nq=400)
    return store


def drawing_of(store, metrics=METRICS, tolerance=0.02):
    results = list(store.results())
    return draw_deviation(match(results, 0.9, tolerance, 2), metrics, results)


def points_of(store):
    return [Station((result,)) for result in store.results() if result.ok]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_deviations_are_relative_to_the_mean_and_sum_to_nothing(store, metric):
    points = points_of(store)
    values = [metric.compute(point.result).value for point in points]
    found = deviation_of(metric, points)
    assert [each.value for each in found.deviations] == pytest.approx([value / np.mean(values) - 1 for value in values])
    assert sum(each.value for each in found.deviations) == pytest.approx(0)


def test_intervals_agree_with_a_paired_bootstrap(store):
    metric, points = parse_metric("robustness-0.9"), points_of(store)
    values = np.array([metric.per_query(point.result) for point in points])
    rng = np.random.default_rng(0)
    draws = values[:, rng.integers(0, 400, (4000, 400))].mean(axis=2)
    expected = np.quantile(draws / draws.mean(axis=0) - 1, [0.025, 0.975], axis=1).T
    for each, (low, high) in zip(deviation_of(metric, points).deviations, expected, strict=True):
        assert (each.low, each.high) == pytest.approx((low, high), abs=0.004)


def test_what_is_no_mean_over_queries_has_no_interval(store):
    assert {each.low for each in deviation_of(parse_metric("recall-p95"), points_of(store)).deviations} == {None}


def test_a_bar_for_each_index_and_metric_and_the_table_is_what_is_drawn(store):
    drawing = drawing_of(store)
    (panel,) = drawing.figure.axes
    table = drawing.table[drawing.table.status == "ok"]
    assert len(panel.patches) == len(table) == 12
    assert [bar.get_height() for bar in panel.patches] == pytest.approx(list(100 * table.deviation))
    labels = [label.get_text() for label in panel.get_xticklabels()]
    assert labels[0] == f"MAP@10\n{table['mean'].iloc[0]:.4f}" and labels[4].startswith("Robustness-0.9@10\n")
    hatches = {bar.get_hatch() for bar in panel.patches}
    assert len(hatches) == 2
    words = [text.get_text() for legend in drawing.figure.legends for text in legend.get_texts()]
    assert words[0] == "partition: 1 failed (timeout: n_probe=8)" and "graph ef=20 (recall 0." in words[1]


def test_robustness_separates_the_families_and_map_does_not(store):
    table = drawing_of(store).table
    spread = table.groupby("metric").deviation.max()
    assert spread["robustness-0.9"] > 5 * spread["map"] and spread["robustness-0.1"] > 2 * spread["ndcg"]


def test_an_interpolated_index_is_pale(store):
    for probes, recall in ((1, 0.8), (2, 0.97)):
        make_result(store, algorithm="coarse", search={"n_probe": probes}, hits=partition_hits(recall, 400))
    drawing = drawing_of(store)
    assert sum(bar.get_alpha() == 0.55 for bar in drawing.figure.axes[0].patches) == len(METRICS)
    coarse = drawing.table[drawing.table.algorithm == "coarse"]
    assert coarse.recall.to_numpy() == pytest.approx(0.9) and set(coarse.search_above) == {'{"n_probe": 2}'}


def test_one_index_alone_cannot_be_compared(tmp_path, refusal):
    store = Store(tmp_path)
    make_result(store, hits=np.full(50, 9))
    assert "2 indexes are needed at average recall 0.9" in refusal(drawing_of, store)


def test_a_metric_without_a_value_is_an_error(store, refusal):
    assert "'latency-p99' cannot be compared" in refusal(drawing_of, store, [parse_metric("latency-p99")])
