"""Checks of an application's answers, with results and verdicts whose truth is known."""

import numpy as np
import pytest

from benchmarks.analysis.claims import judge, load_claims
from benchmarks.analysis.measured import Measured
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.rag.table import Verdicts, write_verdicts
from benchmarks.results.store import Store
from tests.factories import graph_hits, make_result

HEAD = """title: Toy
paper: none
scales: {small: {datasets: {toys: toyset}, indexes: {Graph: faiss-hnsw}}}
claims: [{id: one, where: here, says: it, figures: none, check: %s}]
"""
NQ = 4000


@pytest.fixture
def judged(tmp_path):
    store = Store(tmp_path / "results")
    recalls = np.linspace(0.5, 0.95, 8)
    results = [
        make_result(store, search={"efSearch": step}, hits=graph_hits(recall, NQ, seed=step))
        for step, recall in enumerate(recalls)
    ]

    def of(check, relative=lambda recall: np.where(recall < 0.4, 0.2, 1.0), write=True):
        rng = np.random.default_rng(0)
        exact = rng.random(NQ) < 0.6
        luck = rng.random(NQ)
        verdicts = {"exact": exact, "gold": exact | (luck < 0.3), "empty": np.zeros(NQ)}
        for result in results:
            verdicts[result.identity.hash()] = exact & (luck < relative(result.hits / 10))
        if write:
            path = tmp_path / "results" / "toyset" / "rag" / "extractive-normalised.csv"
            write_verdicts(path, Verdicts(NQ, {name: np.asarray(each, float) for name, each in verdicts.items()}))
        (tmp_path / "claims.yml").write_text(HEAD % check)
        suite = load_claims(tmp_path / "claims.yml")
        return judge(suite, Measured(store, suite.scales["small"], find_algorithms()))[0]

    return of


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ("{kind: controls, dataset: toys, higher: gold, lower: exact}", "reproduced"),
        ("{kind: controls, dataset: toys, higher: exact, lower: gold}", "not reproduced"),
        ("{kind: controls, dataset: toys, higher: exact, lower: exact}", "undecided at this n"),
        ("{kind: controls, dataset: toys, lower: empty, at_most: 0.01}", "reproduced"),
        ("{kind: controls, dataset: toys, lower: exact, at_most: 0.01}", "not reproduced"),
        ("{kind: at-recall, dataset: toys, recall: 0.2, at_most: 0.4}", "reproduced"),
        ("{kind: at-recall, dataset: toys, recall: 0.7, at_least: 0.9}", "reproduced"),
        ("{kind: at-recall, dataset: toys, recall: 0, at_least: 0.6, at_most: 0.8}", "not reproduced"),
        ("{kind: foretells, dataset: toys, k: 100, delta: '0.2'}", "not measured"),
        ("{kind: at-recall, dataset: toys, answers: others, recall: 0, at_most: 0.8}", "not measured"),
    ],
)
def test_verdicts(judged, check, verdict):
    assert judged(check).verdict == verdict


def test_what_is_missing_names_the_verb(judged):
    found = judged("{kind: foretells, dataset: toys, delta: '0.2'}", write=False)
    assert found.verdict == "not measured" and "benchmarks rag --dataset toyset" in found.finding.lacks[0].what


def test_accuracy_is_a_metric_of_other_checks(judged):
    check = "{kind: level, dataset: toys, metric: accuracy-extractive-normalised, recall: 0.9, indexes: [Graph], %s}"
    assert judged(check % "at_least: 0.5").verdict == "reproduced"
    assert judged(check % "at_most: 0.5").verdict == "not reproduced"


@pytest.mark.parametrize(
    "check",
    [
        "{kind: controls, dataset: toys, higher: god, lower: exact}",
        "{kind: controls, dataset: toys, lower: exact}",
        "{kind: at-recall, dataset: toys, recall: 0.2}",
        "{kind: foretells, dataset: toys, delta: '2'}",
    ],
)
def test_nonsense_is_refused(judged, refusal, check):
    assert "claims.yml:" in refusal(judged, check)
