from pathlib import Path

import numpy as np
import pytest

from benchmarks.analysis.checks.registry import Comparison, Finding, check, kinds, settle
from benchmarks.analysis.claims import (
    VERDICTS,
    ClaimSuite,
    commands,
    judge,
    load_claims,
    open_after_all,
    verdict_of,
)
from benchmarks.analysis.contrast import Estimate
from benchmarks.analysis.measured import Measured
from benchmarks.analysis.verdicts import as_data, as_markdown, as_text, counts_line, number
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.results.store import Store
from benchmarks.yamlfile import Strict
from tests.factories import graph_hits, make_result, partition_hits

YES, NO, OPEN, NONE = VERDICTS

HEAD = """
title: Claims of a toy
paper: arXiv 0000.00000
scales:
  small:
    datasets: {toys: toyset, others: otherset, lost: null}
    indexes: {Graph: faiss-hnsw, Lists: faiss-ivfflat, Third: hnswlib}
claims:
"""


def claim(check: str, name: str = "one") -> str:
    return f"- id: {name}\n  where: §1\n  says: A is above B.\n  figures: none\n  check: {check}\n"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


@pytest.fixture
def suite(tmp_path):
    def load(*checks: str) -> ClaimSuite:
        path = tmp_path / "claims.yml"
        path.write_text(HEAD + "".join(claim(text, f"c{number}") for number, text in enumerate(checks)))
        return load_claims(path)

    return load


@pytest.fixture
def judged(store, suite):
    """Judge one check against what is in the store."""

    def of(check: str):
        loaded = suite(check)
        return judge(loaded, Measured(store, loaded.scales["small"], find_algorithms()))[0]

    return of


def curve(store, make, algorithm="faiss-hnsw", recalls=(0.8, 0.88, 0.93, 0.96), nq=2000, dataset="toyset", **more):
    """Points of one build around recall 0.9; the queries of all curves of a data set are the same."""
    parameter = "n_probe" if algorithm == "faiss-ivfflat" else "efSearch" if algorithm == "faiss-hnsw" else "ef"
    for step, recall in enumerate(recalls):
        options = {"build": {"M": 8}, "qps": 8000 / 2**step, **more}
        make_result(
            store,
            algorithm=algorithm,
            search={parameter: 2**step},
            hits=make(recall, nq, seed=step + 10 * len(algorithm)),
            dataset=dataset,
            base=dataset,
            queries=dataset,
            **options,
        )


def flat(recall, nq, seed):
    """Every query finds about the same."""
    return np.full(nq, int(recall * 10)) + (np.arange(nq) < (recall * 10 % 1) * nq)


def both(store, nq=2000, **more):
    curve(store, graph_hits, nq=nq, **more)
    curve(store, partition_hits, "faiss-ivfflat", nq=nq, **more)


ORDER = "{kind: order, dataset: toys, metric: robustness-0.1, recall: 0.9, higher: [%s], lower: [%s]}"


def test_order(store, judged):
    both(store)
    right, wrong = judged(ORDER % ("Lists", "Graph")), judged(ORDER % ("Graph", "Lists"))
    assert (right.verdict, wrong.verdict) == (YES, NO) and not right.partial
    (comparison,) = right.finding.comparisons
    assert comparison.estimate.n == 2000 and 0.02 < comparison.estimate.low < comparison.estimate.value < 0.1
    assert right.p < 0.001 and wrong.finding.comparisons[0].estimate.value == -comparison.estimate.value
    assert judged(ORDER % ("partition", "graph")).verdict == YES


def test_order_at_a_small_n_is_undecided_and_says_what_n_could_show(store, judged):
    both(store, nq=40)
    found = judged(ORDER % ("Lists", "Graph"))
    assert found.verdict == OPEN and found.p is None
    assert found.finding.comparisons[0].estimate.detectable > found.finding.comparisons[0].estimate.value


def test_what_is_missing_is_named_and_the_rest_judged(store, judged):
    both(store)
    found = judged(ORDER % ("Lists", "Graph, Third"))
    assert found.verdict == YES and found.partial and len(found.finding.lacks) == 1
    assert commands(found.finding.lacks) == [
        "python run.py --dataset toyset --algorithm hnswlib --k 10 --threads 1 --target recall@10=0.9"
    ]


def test_nothing_measured(store, judged):
    found = judged(ORDER % ("Lists", "Graph"))
    assert found.verdict == NONE and not found.partial
    assert commands(found.finding.lacks) == [
        "python run.py --dataset toyset --algorithm faiss-ivfflat --algorithm faiss-hnsw --k 10 --target recall@10=0.9"
    ]
    assert judged((ORDER % ("Lists", "Graph")).replace("toys", "lost")).verdict == NONE


def test_out_of_reach_says_what_there_is(store, judged):
    curve(store, graph_hits, recalls=(0.5, 0.6))
    curve(store, partition_hits, "faiss-ivfflat")
    (lack,) = judged(ORDER % ("Lists", "Graph")).finding.lacks
    assert "(there: 0.5" in lack.what


def test_failed_points_and_those_of_another_k_do_not_count(store, judged):
    both(store, status="out-of-memory", nq=200)
    both(store, k=100, nq=200)
    assert judged(ORDER % ("Lists", "Graph")).verdict == NONE


def test_order_across_data_sets(store, judged):
    curve(store, graph_hits)
    curve(store, partition_hits, dataset="otherset")
    text = (
        "{kind: order, metric: robustness-0.1, recall: 0.9, higher: {indexes: [Graph], dataset: %s}, "
        "lower: {indexes: [Graph], dataset: %s}}"
    )
    assert judged(text % ("others", "toys")).verdict == YES
    assert judged(text % ("toys", "others")).verdict == NO


CHANGE = (
    "{kind: change, dataset: toys, metric: robustness-0.1, from: {recall: 0.82}, to: {recall: 0.95}, "
    "larger: %s, smaller: %s}"
)


def test_change(store, judged):
    both(store)
    assert judged(CHANGE % ("Graph", "Lists")).verdict == YES
    assert judged(CHANGE % ("Lists", "Graph")).verdict == NO
    lags = CHANGE % ("{indexes: [Graph], metric: recall}", "{indexes: [Graph]}")
    assert judged(lags).finding.comparisons[0].shown.keys() == {
        f"Graph on toyset: {metric}@10 at recall {recall}"
        for metric in ("recall", "robustness-0.1")
        for recall in (0.82, 0.95)
    }


def test_change_between_indexes_on_two_data_sets(store, judged):
    both(store)
    curve(store, partition_hits, dataset="otherset")
    curve(store, partition_hits, "faiss-ivfflat", dataset="otherset")
    text = (
        "{kind: change, metric: robustness-0.1, recall: 0.9, larger: {dataset: %s, from_index: Graph, "
        "to_index: Lists}, smaller: {dataset: %s, from_index: Graph, to_index: Lists}}"
    )
    assert judged(text % ("toys", "others")).verdict == YES
    assert judged(text % ("others", "toys")).verdict == NO


def test_change_of_the_same_for_both_is_undecided(store, judged):
    curve(store, partition_hits, "faiss-ivfflat")
    curve(store, partition_hits, "hnswlib")
    assert judged(CHANGE % ("Third", "Lists")).verdict == OPEN


LEVEL = "{kind: level, dataset: toys, metric: robustness-0.1, recall: 0.9, indexes: [Graph], %s}"


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [("at_most: 0.99", YES), ("at_least: 0.99", NO), ("at_least: 0.9", YES), ("at_least: 0.945", OPEN)],
)
def test_level(store, judged, bound, verdict):
    both(store)
    assert judged(LEVEL % bound).verdict == verdict


def test_level_that_n_cannot_carry(store, judged):
    curve(store, flat, nq=1000)
    assert judged(LEVEL % "at_least: 0.9997").verdict == OPEN


def test_level_at_a_ratio_takes_the_largest(store, judged):
    for n_probe in (1, 2, 8):
        make_result(
            store,
            algorithm="faiss-ivfflat",
            build={"n_list": 1000},
            search={"n_probe": n_probe},
            hits=np.full(500, n_probe),
        )
    text = (
        "{kind: level, dataset: toys, metric: robustness-0.2, indexes: [Lists], at_least: 0.9, "
        "ratio: {part: n_probe, whole: n_list, at_most: %s}}"
    )
    assert judged(text % 0.002).verdict == YES
    assert judged(text % 0.001).verdict == NO
    assert judged(text % 0.0001).verdict == NONE


CROSSOVER = (
    "{kind: crossover, dataset: toys, recall: 0.9, first: %s, second: %s, above_at: ['0.1', '0.2'], below_at: ['1']}"
)


def test_crossover(store, judged):
    both(store)
    found = judged(CROSSOVER % ("partition", "graph"))
    assert found.verdict == YES and len(found.finding.comparisons) == 3
    assert "last above at δ = 0.2" in found.finding.notes[0]
    assert judged(CROSSOVER % ("graph", "partition")).verdict == NO


def test_crossover_of_twins_is_undecided(store, judged):
    curve(store, partition_hits, "faiss-ivfflat")
    curve(store, partition_hits, "hnswlib")
    assert judged(CROSSOVER % ("partition", "[Third]")).verdict == OPEN


def trend(way, metric="robustness-0.9"):
    return f"{{kind: trend, dataset: toys, indexes: [Graph], {way}: {metric}, between: [0.7, 0.97]}}"


def test_trend(store, judged):
    curve(store, graph_hits)
    assert judged(trend("rises")).verdict == YES
    assert judged(trend("falls")).verdict == NO
    assert judged(trend("falls", "qps")).verdict == YES
    assert judged(trend("rises", "qps")).verdict == NO


def test_trend_with_one_step_back(store, judged):
    """Recall rises from point to point, and the number of empty answers with it in the second step."""
    for step, (empty, rest) in enumerate(((100, 7), (0, 8), (150, 10))):
        hits = np.full(1000, rest)
        hits[:empty] = 0
        make_result(store, search={"efSearch": 2**step}, hits=hits)
    found = judged(trend("rises", "robustness-0.1").replace("0.7,", "0.5,"))
    assert found.verdict == NO and "1 of them shown to go the other way" in found.finding.notes[0]


def test_steps_of_next_to_no_recall_are_skipped(store, judged):
    """Speeds of points of one recall say nothing about what recall costs."""
    for step, (recall, qps) in enumerate(((0.8, 4000), (0.802, 9000), (0.9, 1000))):
        make_result(store, search={"efSearch": step}, hits=flat(recall, 500, 0), qps=qps)
    assert judged(trend("falls", "qps")).verdict == YES
    assert judged(trend("falls", "qps").replace("between", "step: 0, between")).verdict == NO


def test_a_speed_that_differs_by_less_than_a_tenth_is_open(store, judged):
    """Beyond their repeats; an hour later the machine may be that much slower."""
    curve(store, graph_hits, qps=1180)
    curve(store, partition_hits, "faiss-ivfflat", qps=1000)
    assert judged(CHOICE % ("Graph", "Lists")).verdict == OPEN


def test_of_two_builds_the_trend_takes_what_spans_more(store, judged):
    curve(store, graph_hits, recalls=(0.85, 0.86, 0.87, 0.88, 0.89), build={"M": 4})
    curve(store, graph_hits, build={"M": 16})
    (station,) = judged(trend("rises")).finding.stations.values()
    assert station.startswith("4 points")


def test_places_do_not_name_what_is_default(store, judged):
    """M = 32 is the default of the card, efConstruction = 7 is not."""
    curve(store, graph_hits, build={"M": 32, "efConstruction": 7})
    (place,) = judged(LEVEL % "at_least: 0.5").finding.stations.values()
    assert "(efConstruction=7)" in place


def test_trend_that_is_flat_is_undecided(store, judged):
    curve(store, flat)
    assert judged(trend("rises", "robustness-0.1")).verdict == OPEN


def test_speeds_of_two_machines_are_not_compared(store, judged):
    make_result(store, search={"efSearch": 1}, hits=flat(0.8, 100, 0), qps=2000, cpu="One")
    make_result(store, search={"efSearch": 2}, hits=flat(0.9, 100, 0), qps=1000, cpu="Two")
    found = judged(trend("falls", "qps"))
    assert found.verdict == NONE


SEPARATION = "{kind: separation, dataset: toys, recall: 0.9, indexes: [Graph, Lists], alike: [%s], apart: [%s]}"


def test_separation(store, judged):
    both(store, recalls=(0.8, 0.895, 0.905, 0.96))
    assert judged(SEPARATION % ("recall", "robustness-0.1, robustness-1")).verdict == YES
    assert judged(SEPARATION % ("robustness-1", "recall")).verdict == NO
    assert judged(SEPARATION % ("robustness-0.1", "robustness-0.2")).verdict == OPEN


def test_separation_needs_two_indexes(store, judged):
    curve(store, graph_hits)
    assert judged(SEPARATION % ("recall", "robustness-0.1")).verdict == NONE


STABILITY = (
    "{kind: stability, dataset: toys, indexes: [Lists], factor: %s, recall_at_least: 0.7, stable: %s, changing: %s, "
    "share: 0.5}"
)


def test_stability(store, judged):
    curve(store, partition_hits, "faiss-ivfflat")
    assert judged(STABILITY % (4, "robustness-0.1", "robustness-0.9")).verdict == YES
    assert judged(STABILITY % (4, "robustness-0.9", "robustness-0.1")).verdict == NO
    narrow = judged(STABILITY % (20, "robustness-0.1", "robustness-0.9"))
    assert narrow.verdict == NONE and "8.0-fold" in narrow.finding.lacks[0].what


def test_stability_of_few_queries_is_undecided(store, judged):
    curve(store, partition_hits, "faiss-ivfflat", nq=8)
    assert judged(STABILITY.replace("0.7", "0.0") % (4, "robustness-0.1", "robustness-0.9")).verdict == OPEN


CHOICE = (
    "{kind: choice, dataset: toys, among: {metric: recall, at_least: 0.85}, fastest: %s, indexes: [%s], "
    "price: robustness-0.1}"
)


def test_choice(store, judged):
    curve(store, graph_hits, qps=5000)
    curve(store, partition_hits, "faiss-ivfflat", qps=1000)
    assert judged(CHOICE % ("Graph", "Lists")).verdict == YES
    assert judged(CHOICE % ("Lists", "Graph")).verdict == NO


def test_choice_of_speeds_that_overlap_is_undecided(store, judged):
    curve(store, graph_hits, qps=1020)
    curve(store, partition_hits, "faiss-ivfflat", qps=1000)
    assert judged(CHOICE % ("Graph", "Lists")).verdict == OPEN


def test_choice_without_points_that_reach_the_bound(store, judged):
    curve(store, graph_hits, recalls=(0.5, 0.6))
    found = judged(CHOICE % ("Graph", "Lists"))
    assert found.verdict == NONE and len(found.finding.lacks) == 2


def test_builds_at_one_speed(store, judged):
    """With M = 8 every query of a given speed finds more than with M = 4."""
    for m, extra in ((4, 0), (8, 1)):
        for step in range(4):
            hits = np.full(800, 4 + step + extra) - (np.arange(800) < 300)
            make_result(store, build={"M": m}, search={"efSearch": step}, hits=hits, qps=1000 / 2**step, repeats=1)
    text = (
        "{kind: order, dataset: toys, metric: recall, speed_of: {settings: {M: 8}, metric: recall, value: 0.62}, "
        "higher: {indexes: [Graph], settings: {M: %d}}, lower: {indexes: [Graph], settings: {M: %d}}}"
    )
    assert judged(text % (8, 4)).verdict == YES
    assert judged(text % (4, 8)).verdict == NO
    assert judged(text.replace("0.62", "0.99") % (8, 4)).verdict == NONE


def test_several_points_where_one_is_meant(store, suite, refusal):
    curve(store, graph_hits, nq=50)
    loaded = suite("{kind: level, dataset: toys, metric: recall, indexes: [Graph], settings: {M: 8}, at_least: 0.5}")
    measured = Measured(store, loaded.scales["small"], find_algorithms())
    message = refusal(judge, loaded, measured)
    assert message.startswith("claim c0: Graph: 4 operating points have the settings M=8")


def test_unlike_results_are_refused(store, suite, refusal):
    both(store, nq=50)
    curve(store, graph_hits, nq=50, threads=4)
    loaded = suite(ORDER % ("Lists", "Graph"))
    message = refusal(judge, loaded, Measured(store, loaded.scales["small"], find_algorithms()))
    assert "threads 1 (8 points), 4 (4 points)" in message and message.endswith("choose with --threads")
    chosen = Measured(store, loaded.scales["small"], find_algorithms(), selection={"threads": 1})
    assert judge(loaded, chosen)[0].verdict in VERDICTS


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (ORDER.replace("toys", "tois") % ("Lists", "Graph"), "unknown data set 'tois'; did you mean toys?"),
        (ORDER % ("Lists", "Grap"), "unknown index 'Grap'; did you mean Graph?"),
        (ORDER.replace("dataset: toys, ", "") % ("Lists", "Graph"), "the check names no dataset"),
        (CHOICE % ("Nobody", "Graph"), "unknown index 'Nobody'"),
    ],
)
def test_names_that_the_scale_lacks(store, suite, refusal, check, words):
    loaded = suite(check)
    message = refusal(judge, loaded, Measured(store, loaded.scales["small"], find_algorithms()))
    assert message.startswith("claim c0: ") and words in message


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("{kind: ordr}", "unknown kind 'ordr'; known: at-recall, change"),
        ("{kind: [1]}", "unknown kind"),
        ("7", "check"),
        (ORDER.replace("recall:", "recal:") % ("A", "B"), "unknown key 'claims.0.check.recal'; did you mean 'recall'?"),
        (ORDER.replace("0.9", "1.5") % ("A", "B"), "an average recall is above 0 and at most 1, not 1.5"),
        (ORDER.replace("robustness-0.1", "robustness-7") % ("A", "B"), "δ must be above 0 and at most 1"),
        (ORDER.replace("robustness-0.1", "qps") % ("A", "B"), "'qps' is no mean over queries"),
        ("{kind: order, metric: recall, higher: [A]}", "claims.0.check.lower"),
        ("{kind: level, indexes: [A], metric: recall}", "either at_least or at_most is needed"),
        (CROSSOVER.replace("'1'", "'0.2'") % ("A", "B"), "every δ of above_at is smaller"),
        ("{kind: change, metric: recall, larger: [A], smaller: [A]}", "from and to say between which places"),
        ("{kind: trend, indexes: [A]}", "either rises or falls is needed"),
    ],
)
def test_a_wrong_check_is_one_line_with_file_and_line(suite, refusal, tmp_path, check, words):
    message = refusal(suite, ORDER % ("Lists", "Graph"), check)
    path, line, text = message.split(":", 2)
    assert path == str(tmp_path / "claims.yml") and words.replace("claims.0", "claims.1") in text
    assert (tmp_path / "claims.yml").read_text().splitlines()[int(line) - 1].strip() in (
        f"check: {check}",
        f"check: {check}".split(":")[0],
    )


def test_two_claims_of_one_name(tmp_path, refusal):
    path = tmp_path / "claims.yml"
    path.write_text(HEAD + claim(ORDER % ("A", "B")) * 2)
    assert "two claims have the id one" in refusal(load_claims, path)


def test_a_module_can_add_a_kind(suite, store, monkeypatch):
    from benchmarks.analysis.checks import registry

    monkeypatch.setattr(registry, "_KINDS", dict(kinds()))

    class Parameters(Strict):
        answer: int

    @check("other-table", Parameters)
    def judge_other(parameters, measured):
        """From a table of its own, beside the results."""
        answer = int((measured.store.folder / "answers.txt").read_text())
        estimate = Estimate(answer - parameters.answer, answer - parameters.answer, 99, 0.001, 10)
        return Finding(settle([Comparison("the answer is large", {"answer": answer}, estimate)]))

    store.folder.mkdir()
    (store.folder / "answers.txt").write_text("42")
    loaded = suite("{kind: other-table, answer: 41}", "{kind: other-table, answer: 42}")
    verdicts = [item.verdict for item in judge(loaded, Measured(store, loaded.scales["small"], {}))]
    assert verdicts == [YES, OPEN]


def comparison(low, high, p, holds=None):
    return Comparison("x", {}, Estimate((low + high) / 2, low, high, p, 100), holds=holds)


def test_holm_over_the_comparisons_of_a_claim():
    alone = settle([comparison(0.1, 0.2, 0.03)])
    among = settle([comparison(0.1, 0.2, 0.03), comparison(0.1, 0.2, 0.04)])
    assert [item.holds for item in alone] == [True] and [item.holds for item in among] == [None, None]
    assert [item.adjusted for item in among] == [0.06, 0.06]


def test_an_interval_that_straddles_decides_nothing_whatever_p_is():
    assert settle([comparison(-0.1, 0.2, 1e-9)])[0].holds is None


@pytest.mark.parametrize(
    ("held", "verdict"),
    [([], NONE), ([True, True], YES), ([True, None], OPEN), ([True, None, False], NO), ([None], OPEN)],
)
def test_the_rule(held, verdict):
    assert verdict_of(Finding([comparison(0, 1, None, holds) for holds in held])) == verdict


def test_holm_over_all_claims(store, suite):
    """A claim that is carried by a hair alone is open among many."""
    base, new = np.full(400, 5), np.full(400, 5)
    base[:8], new[8:9] = 0, 0  # 8 against 1: p = 0.039
    make_result(store, hits=base, search={"efSearch": 1})
    make_result(store, algorithm="faiss-ivfflat", hits=new, search={"n_probe": 1})
    one = ORDER.replace("recall: 0.9, ", "") % ("Lists", "Graph")
    loaded = suite(one, one)
    judgements = judge(loaded, Measured(store, loaded.scales["small"], find_algorithms()))
    assert [item.verdict for item in judgements] == [YES, YES]
    assert [round(item.p, 3) for item in judgements] == [0.039, 0.039]
    assert open_after_all(judgements) == judgements
    assert open_after_all(judge(loaded, Measured(store, loaded.scales["small"], find_algorithms()), ["c0"])) == []


def test_every_output_holds_paper_ours_interval_n_and_verdict(store, suite):
    both(store)
    loaded = suite(ORDER % ("Lists", "Graph, Third"), CROSSOVER % ("partition", "[Graph]"))
    scale = loaded.scales["small"]
    judgements = judge(loaded, Measured(store, scale, find_algorithms()))
    text, markdown = as_text(loaded, judgements, scale, None), as_markdown(loaded, judgements, scale)
    for output in (text, markdown):
        for part in ("c0", "figures", "none", "2,000", "robustness-0.1@10 at recall 0.9", "[+0.0", "p < 0.0001"):
            assert part in output or part == "figures"
        assert "here Graph is faiss-hnsw" in output and "lost is not here" in " ".join(output.split())
        assert counts_line(judgements) in output and "2 reproduced (1 in part)" in output
    assert "toyset" in text and " on toyset: robustness" not in text
    assert len({line.count("|") for line in markdown.splitlines() if line.startswith("|")}) == 1
    data = as_data(loaded, judgements, scale, None)["claims"][0]
    assert data["verdict"] == YES and data["partial"] and data["comparisons"][0]["estimate"]["n"] == 2000
    assert data["missing"] and data["run"] and data["check"]["kind"] == "order"


@pytest.mark.parametrize(
    ("value", "text"), [(0.9997, "0.99970"), (0.99, "0.9900"), (1.0, "1.0000"), (0.00031, "0.00031"), (0.0, "0.0000")]
)
def test_numbers_near_one_are_not_rounded_to_it(value, text):
    assert number(value) == text


def test_the_papers_claims_load_and_name_what_there_is():
    loaded = load_claims()
    assert len(loaded.claims) > 30 and {"small", "10M"} <= loaded.scales.keys()
    algorithms = find_algorithms()
    for scale in loaded.scales.values():
        assert set(scale.indexes.values()) <= algorithms.keys()
        nowhere = Measured(Store(Path(__file__).parent / "nowhere"), scale, algorithms)
        assert {item.verdict for item in judge(loaded, nowhere)} == {NONE}
