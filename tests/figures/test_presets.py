import pytest

from benchmarks.figures import presets
from benchmarks.figures.panels import Floor
from benchmarks.figures.presets import FIGURES, PLAIN, find_figure, panels_of
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from tests.factories import make_result


def shown(figure, **options):
    return [(panel.x.name, [y.name for y in panel.ys]) for panel in panels_of(FIGURES[figure], **options)]


def test_every_figure_of_the_paper_that_shows_results_is_there():
    assert {"1", "3", "6", "7", "8", "9", "10", "11", "13", "14"} <= set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_every_metric_and_kind_is_known(name):
    preset = FIGURES[name]
    assert preset.shows and "\n" not in preset.shows
    assert bool(preset.panels) == (preset.kind == "tradeoff") and bool(preset.metrics) == (preset.kind == "deviation")
    panels_of(preset)
    presets.metrics_of_comparison(preset)


@pytest.mark.parametrize("figure", ["6", "7", "8"])
def test_five_panels_of_robustness_against_recall(figure):
    assert shown(figure) == [("recall", [f"robustness-{delta}"]) for delta in ("0.1", "0.3", "0.5", "0.7", "0.9")]


def test_six_panels_of_the_three_way_tradeoff():
    names = ("recall", *(f"robustness-{delta}" for delta in ("0.1", "0.3", "0.5", "0.7", "0.9")))
    assert shown("10") == [(name, ["qps"]) for name in names]


def test_one_metric_held_and_the_other_two_shown():
    panels = panels_of(FIGURES["11"])
    assert [(each.floor.metric.name, each.floor.levels) for each in panels] == [
        ("recall", (0.85, 0.9)),
        ("robustness-0.3", (0.95, 0.99)),
        ("qps", ()),
    ]
    for panel in panels:
        assert {panel.x.name, panel.ys[0].name, panel.floor.metric.name} == {"recall", "robustness-0.3", "qps"}


def test_sweeps_of_hnsw_and_ivf():
    (hnsw,), (ivf,) = panels_of(FIGURES["13"]), panels_of(FIGURES["14"])
    assert hnsw.floor.rest and hnsw.floor.levels == (0.9,) and [y.name for y in hnsw.ys] == ["robustness-0.3"]
    assert not ivf.floor.rest and [y.name for y in ivf.ys] == ["robustness-0.3", "robustness-0.9"]


def test_any_delta():
    assert [ys for _, ys in shown("6", deltas=("0.2", "1"))] == [["robustness-0.2"], ["robustness-1"]]
    assert shown("14", deltas=("0.2", "0.8")) == [("qps", ["robustness-0.2", "robustness-0.8"])]
    names = [metric.name for metric in presets.metrics_of_comparison(FIGURES["3"], ("0.5",))]
    assert names == ["map", "ndcg", "mrr", "robustness-0.5"]


def test_thresholds_replace_those_of_their_metric_or_join_panels_without():
    panels = panels_of(FIGURES["11"], floors={"qps": (5.0, 9.0), "robustness_0.3": (0.5,)})
    assert [each.floor.levels for each in panels] == [(0.85, 0.9), (0.5,), (5.0, 9.0)]
    plain = panels_of(PLAIN, floors={"recall": (0.5,)})
    assert [each.floor for each in plain] == [Floor(parse_metric("recall"), (0.5,), asked=True)] * 3


def test_thresholds_that_are_for_no_panel_are_an_error(refusal):
    message = refusal(panels_of, FIGURES["11"], floors={"map": (0.5,)})
    assert "no threshold of 'map'" in message and "qps, recall and robustness-0.3" in message
    assert "one metric's" in refusal(panels_of, PLAIN, floors={"recall": (0.5,), "qps": (5.0,)})


def test_thresholds_of_speed_come_from_what_was_measured(tmp_path):
    store = Store(tmp_path)
    for place, qps in enumerate((1100, 2200, 3300, 4400, 5500, 6600)):
        make_result(store, search={"ef": place}, qps=qps)
    done = presets.with_levels(panels_of(FIGURES["11"]), list(store.results()))
    assert done[2].floor.levels == (3000, 5000) and done[0].floor.levels == (0.85, 0.9)


def test_unknown_figures_are_an_error(refusal):
    assert "there is no figure '5' to draw from results; known: 1, 3, 6" in refusal(find_figure, "5")


def test_the_first_group_that_was_measured_is_shown(refusal):
    present = {"faiss-hnsw", "faiss-ivfflat", "scann"}
    assert presets.algorithms_of(FIGURES["1"], present, "") == ("faiss-ivfflat", "faiss-hnsw")
    assert presets.algorithms_of(FIGURES["1"], present | {"diskann"}, "") == ("scann", "diskann")
    assert presets.algorithms_of(FIGURES["6"], present, "") == ()
    message = refusal(presets.algorithms_of, FIGURES["14"], {"scann"}, "measure more: python run.py")
    assert "shows faiss-ivfflat; measured: scann" in message and message.endswith("python run.py")
