import io

import numpy as np
import pytest

from benchmarks.errors import UserError
from benchmarks.figures.theme import styles
from benchmarks.figures.tradeoff import draw_tradeoff, lines_of, log_ticks, measure, short, split_at_front
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from tests.factories import graph_hits, make_result, make_two_families, partition_hits

RECALLS = (0.7, 0.8, 0.9, 0.95, 0.98)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    make_two_families(store, RECALLS, 300)
    make_result(store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 640}, status="out-of-memory")
    return store


def draw(store, names=("robustness-0.5",), versus="recall", **options):
    metrics = [parse_metric(name) for name in names]
    versus = parse_metric(versus)
    return draw_tradeoff(measure(store.results(), [versus, *metrics]), metrics, versus, **options)


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def words_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


def plotted(panel, label):
    """Lines of data with that label."""
    return [line for line in panel.get_lines() if line.get_label() == label]


def bars(panel):
    """Error bars as {(start, end)} in data coordinates."""
    return {
        tuple(np.round(segment.ravel(), 9)) for collection in panel.collections for segment in collection.get_segments()
    }


def test_one_panel_for_each_metric(store):
    figure = draw(store, ["robustness-0.1", "robustness-0.5", "robustness-0.7", "robustness-0.9"])
    assert [panel.get_ylabel() for panel in figure.axes] == [
        f"Robustness-{delta}@10" for delta in ("0.1", "0.5", "0.7", "0.9")
    ]
    assert {panel.get_xlabel() for panel in figure.axes} == {"Recall@10"}


def test_head_states_what_the_data_are(store):
    words = words_of(draw(store))
    for part in ("toyset", "K = 10", "batch mode", "1 thread", "n = 200 and 300 queries"):
        assert part in words
    assert "mixed: k 10 and 100" in words_of(draw(store, mixed="mixed: k 10 and 100"))


def test_failed_points_are_named_in_the_legend(store):
    assert "faiss-hnsw: 1 failed (out-of-memory: efSearch=640)" in legend_of(draw(store))


def test_values_and_intervals_are_the_metrics(store):
    x, y = parse_metric("recall"), parse_metric("robustness-0.5")
    panel = draw(store).axes[0]
    drawn, segments = [], bars(panel)
    for name in ("faiss-hnsw", "faiss-ivfflat"):
        (line,) = plotted(panel, name)
        drawn += list(zip(*line.get_data(), strict=True))
    expected = []
    for result in store.results():
        if not result.ok:
            continue
        across, up = x.compute(result), y.compute(result)
        expected.append((across.value, up.value))
        assert tuple(np.round([across.low, up.value, across.high, up.value], 9)) in segments
        assert tuple(np.round([across.value, up.low, across.value, up.high], 9)) in segments
    assert sorted(drawn) == sorted(expected)


def test_lines_are_joined_by_ascending_recall(store):
    (line,) = plotted(draw(store).axes[0], "faiss-ivfflat")
    assert list(line.get_xdata()) == sorted(line.get_xdata()) and line.get_linestyle() != "None"


def test_against_a_speed_only_the_front_is_joined(store):
    make_result(
        store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 5}, hits=graph_hits(0.5, 300), qps=10
    )  # slow and bad
    panel = draw(store, ["recall"], "qps").axes[0]
    joined, loose = plotted(panel, "faiss-hnsw")
    assert joined.get_linestyle() != "None" and loose.get_linestyle() == "None" and loose.get_alpha() < 0.5
    assert list(loose.get_xdata()) == [pytest.approx(10)] and len(joined.get_xdata()) == len(RECALLS)
    assert panel.get_xscale() == "log" and panel.get_xlabel() == "QPS [1/s]"


def test_front_follows_the_direction_of_each_metric(store):
    x, y = parse_metric("recall"), parse_metric("build_seconds")  # lower is better
    make_result(store, algorithm="slow", build_seconds=9.0, hits=partition_hits(0.7, 300))
    make_result(store, algorithm="slow", search={"a": 1}, build_seconds=5.0, hits=partition_hits(0.9, 300))
    points = [point for point in measure(store.results(), [x, y]) if point.result.identity.algorithm == "slow"]
    joined, loose = split_at_front(points, x, y)
    assert [point.values["build_seconds"].value for point in joined] == [5.0]
    assert [point.values["build_seconds"].value for point in loose] == [9.0]


def test_several_builds_are_lines_of_one_colour(store):
    make_result(store, algorithm="faiss-hnsw", build={"M": 16}, search={"efSearch": 10}, hits=graph_hits(0.8, 300))
    figure = draw(store)
    assert legend_of(figure)[1:] == ["faiss-hnsw M=8", "faiss-hnsw M=16", "faiss-ivfflat"]
    one, other = (plotted(figure.axes[0], f"faiss-hnsw M={m}")[0] for m in (8, 16))
    assert one.get_color() == other.get_color() and one.get_linestyle() != other.get_linestyle()
    assert one.get_markerfacecolor() != other.get_markerfacecolor()


def test_seeds_and_mixed_results_are_lines_of_their_own(store):
    x, y = parse_metric("recall"), parse_metric("robustness-0.5")
    for seed, k in ((1, 10), (0, 100)):
        make_result(store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 10}, seed=seed, k=k)
    points = measure(store.results(), [x, y])
    lines = lines_of(points, styles(["faiss-hnsw", "faiss-ivfflat"]), speed=False)
    assert [line.label for line in lines] == [
        "faiss-hnsw seed=0, k=10",
        "faiss-hnsw seed=0, k=100",
        "faiss-hnsw seed=1, k=10",
        "faiss-ivfflat",
    ]


def test_shares_are_zoomed_and_stay_at_most_one(store):
    panel = draw(store, ["robustness-0.1"]).axes[0]
    low, high = panel.get_ylim()
    assert low > 0.5 and 1 < high < 1.05
    assert max(panel.get_yticks()) <= 1 and len(panel.get_yticks()) >= 3


def test_tail_scale_spreads_what_is_near_one(store):
    figure = draw(store, ["robustness-0.1"], scale="tail")
    panel = figure.axes[0]
    figure.savefig(io.BytesIO())
    step = panel.transData.transform([(0.9, 0.9), (0.9, 0.99), (0.9, 1.0)])[:, 1]
    assert 0.5 < (step[1] - step[0]) / (step[2] - step[1]) < 2
    assert {0.9, 1.0} <= set(np.round(panel.get_yticks(), 6))


def test_all_values_equal_still_draw(tmp_path):
    store = Store(tmp_path)
    make_result(store, hits=np.full(50, 10))
    for scale in ("linear", "tail"):
        draw(store, ["robustness-0.1"], scale=scale).savefig(io.BytesIO())
    draw(store, ["index_bytes"], "qps").savefig(io.BytesIO())


def test_a_metric_that_nothing_has_is_an_error(store):
    with pytest.raises(UserError, match="'latency-p99'.*one by one"):
        draw(store, ["latency-p99"])


def test_only_failed_points_is_an_error(tmp_path):
    store = Store(tmp_path)
    make_result(store, search={"ef": 1}, status="timeout")
    with pytest.raises(UserError, match="every selected point failed"):
        draw(store)


@pytest.mark.parametrize("low, high", [(900, 60000), (1000, 1100), (3.1e-5, 9.9e7), (5, 30)])
def test_log_ticks_are_few_and_inside(low, high):
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 8 and low <= min(ticks) and max(ticks) <= high
    assert len({short(tick) for tick in ticks}) == len(ticks)


def test_short_numbers():
    assert [short(value) for value in (0.25, 999, 1500, 2e6, 3.5e9)] == ["0.25", "999", "1.5k", "2M", "3.5G"]
