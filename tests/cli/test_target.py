"""`run.py --target` end to end: the points that are asked for, one build, going on from what is there."""

import re
import shutil

import pytest

from benchmarks.analysis.select import average_recall
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli import choice
from benchmarks.paths import ALGORITHMS
from tests.harness import export, gaussian, leftovers, params, read_results, run, write_data

CARD = """
library: dial
upstream: none
version: "1"
licence: none
algorithms:
  dial:
    class: Dial
    family: test
    distances: [l2]
    dtypes: [float32]
    parameters:
      size: {stage: build, type: int, min: 1, default: 1}
      effort: {stage: search, type: int, min: 1, default: 40, monotone: true}
      worse: {stage: search, type: int, min: 0, default: 0}
      breaks_at: {stage: search, type: int, min: 0, default: 0}
    constraints: ["effort >= k", "effort <= 500"]
    smoke: {search: {effort: [20, 400]}}
"""
# Recall is effort / (effort + 10 + worse) but for rounding: exact for a share of the queries, nothing for the others.
CODE = """
import numpy as np

from benchmarks.worker import Algorithm


class Dial(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, size):
        with open(__file__ + ".builds", "a") as file:
            file.write("x")
        self.base = np.asarray(base)

    def search(self, queries, k, *, effort, worse, breaks_at):
        if breaks_at and effort >= breaks_at:
            raise RuntimeError("too much")
        order = np.argsort(((queries[:, None] - self.base) ** 2).sum(axis=2), axis=1)
        ids = order[:, :k].copy()
        lost = round(len(queries) * (10 + worse) / (effort + 10 + worse))
        ids[:lost] = order[:lost, k : 2 * k]
        return ids
"""


@pytest.fixture
def dial(tmp_path, monkeypatch):
    """Run an index that cannot be saved, and whose recall is known; `builds` counts how often it was built."""
    folder = tmp_path / "algorithms" / "dial"
    folder.mkdir(parents=True)
    (folder / "algorithm.yml").write_text(CARD)
    (folder / "algorithm.py").write_text(CODE)
    shutil.copy(ALGORITHMS / "toy" / "requirements.txt", folder)
    monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))
    data = write_data(tmp_path, gaussian(600, 8), gaussian(400, 8, seed=1))

    def start(*options, sweep="algorithms: {dial: {}}"):
        (tmp_path / "sweep.yml").write_text(sweep)
        common = ["--config", tmp_path / "sweep.yml", "--threads", "1", "--repeats", "1"]
        return run(*data, *common, "--results-dir", tmp_path / "results", *options)

    start.builds = lambda: len((folder / "algorithm.py.builds").read_text())
    start.efforts = lambda: sorted(params(each)["effort"] for each in read_results(tmp_path / "results"))
    start.results = tmp_path / "results"
    return start


def row(finished, start):
    """The row of the table at the end that begins so, as words."""
    (line,) = (line for line in finished.out.splitlines() if line.strip().startswith(start) and ":" not in line)
    return line.split()


def test_the_point_is_found_on_one_build_and_found_again(dial):
    done = dial("--target", "recall@10=0.9")
    assert done.code == 0, done.err
    assert dial.builds() == 1  # though it cannot be saved
    efforts = dial.efforts()
    assert len(efforts) <= 6 and efforts[0] >= 10
    near = min(read_results(dial.results), key=lambda each: abs(float(average_recall(each)) - 0.9))
    assert abs(float(average_recall(near)) - 0.9) <= 0.002
    words = row(done, f"dial effort={params(near)['effort']} ")
    assert words[2:6] == ["0.9", "±", "0.002", "met"] and words[6] == f"{float(average_recall(near)):.4f}"
    # The same command has nothing to do and says the same; a second target uses what is there.
    again = dial("--target", "recall@10=0.9")
    assert again.code == 0 and dial.builds() == 1 and dial.efforts() == efforts
    assert row(again, "dial effort=")[:7] == words[:7]
    more = dial("--target", "recall@10=0.9", "--target", "recall=0.8")
    assert more.code == 0 and dial.builds() == 2 and set(efforts) < set(dial.efforts())
    assert "0.8" in more.out and leftovers(dial.results) == []


def test_where_the_parameter_is_too_coarse_both_sides_are_shown(dial):
    done = dial("--target", "recall=0.55", "--tolerance", "0.0001")
    (lower,), (upper,) = (
        [line.split() for line in done.out.splitlines() if re.search(rf" {word} ", line) and "dial effort" in line]
        for word in ("below", "above")
    )
    first, second = (int(words[1].removeprefix("effort=")) for words in (lower, upper))
    assert second == first + 1 and float(lower[6]) < 0.55 < float(upper[6])
    (between,) = (line.split() for line in done.out.splitlines() if "interpolated" in line and "dial" in line)
    assert between[1] == f"effort={first}…{second}" and between[6] == "0.5500"
    # is the recall of this index, so that it is known between the two, and its interval lies in theirs.
    low, high = (float(part) for part in between[9].split("–"))
    assert between[8] == "0.5500"
    assert float(lower[9].split("–")[0]) <= low < 0.55 < high <= float(upper[9].split("–")[1])


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("recall@10=0.3", (), "more even at effort=10, the least"),
        ("recall@10=0.999", (), "less even at effort=500, the most"),
        ("recall@10=0.9", ("--set", "dial.worse=100000"), "less even at effort=500, the most"),
    ],
)
def test_a_recall_that_is_out_of_reach(dial, target, options, words):
    done = dial("--target", target, "--tolerance", "0.001", *options)
    assert done.code == 0 and words in done.out


def test_a_point_that_fails_ends_the_search_and_is_told(dial):
    done = dial("--target", "recall=0.97", "--set", "dial.breaks_at=150", "--set", "dial.effort=20")
    assert done.code == 1 and "failed" in done.out and "RuntimeError: too much" in done.out
    failed = [each for each in read_results(dial.results) if not each.ok]
    assert len(failed) == 1 and params(failed[0])["effort"] >= 150


def test_every_build_and_every_other_search_parameter_has_its_search(dial):
    done = dial("--target", "recall=0.8", "--set", "dial.size=1,2", "--set", "dial.worse=0,5")
    assert done.code == 0 and dial.builds() == 2
    found = [each for each in read_results(dial.results) if abs(float(average_recall(each)) - 0.8) <= 0.002]
    assert {(params(each)["size"], params(each)["worse"]) for each in found} == {(1, 0), (1, 5), (2, 0), (2, 5)}


def test_a_target_of_the_sweep_beside_points(dial):
    sweep = """
algorithms:
  dial:
    - {search: {effort: [10, 30]}}
    - {search: {effort: [30, 60, 90]}, target: {recall: 0.95, tolerance: 0.004}}
"""
    done = dial(sweep=sweep)
    assert done.code == 0 and dial.builds() == 1, done.err
    assert {10, 30, 60} <= set(dial.efforts())
    assert "0.95 ± 0.004" in done.out and "met" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "recall=1.2"], "must be such as recall@10=0.9"),
        (["--target", "robustness-0.1=0.9"], "must be such as recall@10=0.9"),
        (["--target", "recall@10"], "must be such as recall@10=0.9"),
        (["--target", "recall=0.9", "--tolerance", "x"], "must be a number such as 0.002"),
        (["--tolerance", "0.1"], "--tolerance goes with --target"),
        (["--target", "recall@10=0.9", "--k", "5"], "name different K (5, 10)"),
        (["--target", "recall@10=0.9", "--target", "recall@5=0.9"], "name different K (5, 10)"),
    ],
)
def test_bad_input(options, words):
    refused = run("--dataset", "crossover-20k", *options)
    assert refused.code == 2 and words in refused.err and len(refused.err.splitlines()) == 1


def test_an_index_without_such_a_parameter_is_skipped():
    done = run("--dataset", "crossover-20k", "--algorithm", "faiss-flat", "--target", "recall=0.9", "--dry-run")
    assert done.code == 0 and "skipped: faiss-flat has no parameter that searches more as it grows" in done.out


@pytest.mark.slow
def test_real_indexes_at_equal_recall(tmp_path):
    """Two families on data where they differ: the points found are equal in recall, and unlike in the tails."""
    done = run(
        *("--dataset", "crossover-20k", "--algorithm", "faiss-hnsw", "--algorithm", "faiss-ivfflat"),
        *("--target", "recall@10=0.915", "--tolerance", "0.01", "--threads", "1", "--repeats", "1"),
        *("--results-dir", tmp_path / "r"),
    )
    assert done.code == 0, done.err
    results = read_results(tmp_path / "r")
    assert len(results) <= 10
    found = {}
    for name in ("faiss-hnsw", "faiss-ivfflat"):
        own = [each for each in results if each.identity.algorithm == name]
        found[name] = min(own, key=lambda each: abs(float(average_recall(each)) - 0.915))
        assert len({each.record.build_seconds for each in own}) == 1
        assert abs(float(average_recall(found[name])) - 0.915) <= 0.01
    none = {name: (each.hits == 0).mean() for name, each in found.items()}
    assert none["faiss-hnsw"] > 10 * none["faiss-ivfflat"]
    assert export("--results-dir", tmp_path / "r").code == 0
