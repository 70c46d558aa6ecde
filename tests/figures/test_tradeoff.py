import io
import json

import numpy as np
import pytest

from benchmarks.errors import UserError
from benchmarks.figures.axes import log_ticks, round_down, short
from benchmarks.figures.panels import Floor, Panel, lines_of, measure, metrics_of, split_at_front
from benchmarks.figures.theme import styles
from benchmarks.figures.tradeoff import draw_tradeoff
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
    return drawing_of(store, [Panel(parse_metric(versus), (parse_metric(name),)) for name in names], **options).figure


def drawing_of(store, panels, **options):
    return draw_tradeoff(measure(store.results(), metrics_of(panels)), panels, **options)


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
        make_result(store, algorithm="faiss-hnsw", build={"M": 8}, search={"efSearch": 10}, seed=seed, k=k, nq=300)
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


def floored(store, floor, x="robustness-0.5", y="qps", **options):
    return drawing_of(store, [Panel(parse_metric(x), (parse_metric(y),), floor)], **options)


def test_two_thresholds_are_a_dashed_line_and_a_solid_one(store):
    drawing = floored(store, Floor(parse_metric("recall"), (0.78, 0.88)))
    (panel,) = drawing.figure.axes
    assert panel.get_title(loc="left") == "dashed: Recall@10 ≥ 0.78\nsolid: Recall@10 ≥ 0.88"
    joined = [line for line in plotted(panel, "faiss-ivfflat") if line.get_alpha() is None]
    dashed, solid = joined
    assert (len(dashed.get_xdata()), len(solid.get_xdata())) == (4, 3)
    assert solid.get_linestyle() == "-" and dashed.get_linestyle() == "--"
    assert solid.get_markerfacecolor() != "white" == dashed.get_markerfacecolor()
    assert set(solid.get_xdata()) < set(dashed.get_xdata())
    assert "Only points with Recall@10 ≥ 0.78, 2 points left out." in words_of(drawing.figure)


def test_one_threshold_leaves_out_what_misses_it_and_says_how_much(store):
    drawing = floored(store, Floor(parse_metric("robustness-0.9"), (0.7,)), "recall", "robustness-0.5")
    expected = [
        each for each in store.results() if each.ok and parse_metric("robustness-0.9").compute(each).value >= 0.7
    ]
    shown = [place for line in drawing.figure.axes[0].get_lines() for place in line.get_xdata()]
    assert sorted(shown) == sorted(parse_metric("recall").compute(each).value for each in expected)
    assert f"{10 - len(expected)} points left out" in words_of(drawing.figure)


def test_the_rest_may_be_drawn_dashed(store):
    (panel,) = floored(store, Floor(parse_metric("recall"), (0.88,), rest=True)).figure.axes
    counts = {line.get_linestyle(): 0 for line in panel.get_lines()}
    for line in panel.get_lines():
        counts[line.get_linestyle()] += len(line.get_xdata())
    assert counts["-"] == 6 and counts["--"] + counts.get("None", 0) == 10


def test_a_panel_that_no_point_reaches_says_so(store):
    recall, qps, robustness = (parse_metric(name) for name in ("recall", "qps", "robustness-0.5"))
    panels = [Panel(robustness, (qps,), Floor(recall, (0.5,))), Panel(recall, (robustness,), Floor(qps, (1e9,)))]
    figure = drawing_of(store, panels).figure
    assert [text.get_text() for text in figure.axes[1].texts] == ["no point has\nQPS ≥ 1G"]
    assert "(b) QPS ≥ 1G, 10 points left out" in words_of(figure)


def test_thresholds_that_leave_nothing_are_an_error(store, refusal):
    message = refusal(floored, store, Floor(parse_metric("recall"), (0.9999,)))
    assert "no point has Recall@10 ≥ 0.9999; the best has 0.9" in message and "--at-least recall=VALUE" in message


def test_a_limit_on_what_is_better_lower_is_an_upper_one(store):
    floor = Floor(parse_metric("index_bytes"), (100_000,))
    assert len(floored(store, floor).table) == 11  # ten points at the limit, and the failed one
    make_result(store, algorithm="large", index_bytes=200_000, nq=300)
    assert "large" not in set(floored(store, floor).table.algorithm)


def test_the_table_is_what_is_drawn(store):
    drawing = floored(store, Floor(parse_metric("recall"), (0.78, 0.88)))
    table = drawing.table[drawing.table.status == "ok"]
    marks = [place for line in drawing.figure.axes[0].get_lines() for place in zip(*line.get_data(), strict=True)]
    assert sorted(zip(table.x, table.y, strict=True)) == sorted(marks)
    assert table.threshold.value_counts().to_dict() == {"Recall@10 ≥ 0.78": 8, "Recall@10 ≥ 0.88": 6}
    first = table.iloc[0]
    result = next(each for each in store.results() if json.dumps(each.identity.search_params) == first.search)
    assert first.x == parse_metric("robustness-0.5").compute(result).value
    assert (first.y_low, first.y_high) == (
        parse_metric("qps").compute(result).low,
        parse_metric("qps").compute(result).high,
    )
    (failed,) = drawing.table[drawing.table.status != "ok"].to_dict("records")
    assert failed["status"] == "out-of-memory" and failed["search"] == '{"efSearch": 640}'


def test_each_sweep_of_a_second_parameter_is_a_line_of_its_own(tmp_path):
    store = Store(tmp_path)
    for reorder in (30, 150):
        for leaves, hits in ((1, 5), (2, 7), (4, 9)):
            recall = np.full(100, hits)
            recall[:50] += reorder == 150
            make_result(store, algorithm="scann", search={"leaves": leaves, "reorder": reorder}, hits=recall)
    lines = plotted(draw(store, ["robustness-0.9"]).axes[0], "scann")
    assert [len(line.get_xdata()) for line in lines] == [3, 3] and len({str(line.get_color()) for line in lines}) == 1


def test_a_figure_of_parameters_names_its_points_and_joins_them_all(store):
    make_result(
        store, algorithm="faiss-hnsw", build={"M": 16}, search={"efSearch": 10}, hits=graph_hits(0.8, 300), qps=9
    )
    drawing = drawing_of(
        store,
        [Panel(parse_metric("qps"), (parse_metric("robustness-0.5"),), Floor(parse_metric("recall"), (0.85,), True))],
        sweep=True,
    )
    (panel,) = drawing.figure.axes
    colours = {line.get_label(): line.get_color() for line in panel.get_lines()}
    assert len(set(colours.values())) == len(colours) == 3 and drawing.table[drawing.table.status == "ok"].joined.all()
    assert {text.get_text() for text in panel.texts} >= {"10", "20", "160"}
    assert "Numbers at points: efSearch and n_probe" in words_of(drawing.figure)


def test_several_metrics_share_a_panel(store):
    low, high = parse_metric("robustness-0.3"), parse_metric("robustness-0.9")
    drawing = drawing_of(store, [Panel(parse_metric("qps"), (low, high))], sweep=True)
    (panel,) = drawing.figure.axes
    assert panel.get_ylabel() == "Robustness-0.3@10 and Robustness-0.9@10"
    assert legend_of(drawing.figure)[1:] == [
        f"{name} Robustness-{delta}@10" for name in ("faiss-hnsw", "faiss-ivfflat") for delta in ("0.3", "0.9")
    ]
    for metric in (low, high):
        (line,) = plotted(panel, f"faiss-ivfflat {metric.title(10)}")
        values = [metric.compute(each).value for each in store.results() if each.identity.algorithm == "faiss-ivfflat"]
        assert sorted(line.get_ydata()) == sorted(values)


def test_names_of_points_cover_neither_points_nor_each_other(store):
    drawing = drawing_of(store, [Panel(parse_metric("recall"), (parse_metric("robustness-0.5"),))], sweep=True)
    (panel,) = drawing.figure.axes
    drawing.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) >= 5 and not any(
        one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place]
    )
    for line in panel.get_lines():
        for spot in panel.transData.transform(np.column_stack(line.get_data())):
            assert not any(box.contains(*spot) for box in boxes)


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


@pytest.mark.parametrize("value, rounded", [(3790, 3000), (0.97, 0.9), (3000, 3000), (0, 0), (12, 10)])
def test_round_down(value, rounded):
    assert round_down(value) == pytest.approx(rounded)


def test_short_numbers():
    assert [short(value) for value in (0.25, 999, 1500, 2e6, 3.5e9)] == ["0.25", "999", "1.5k", "2M", "3.5G"]
