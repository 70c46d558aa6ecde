"""Every bad shape is made with a real index, bent on purpose, and is named; the same index unbent has none."""

import shutil

import numpy as np
import pytest

from benchmarks.analysis.diagnose import diagnose, shapes
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.paths import ALGORITHMS
from benchmarks.results.store import Store
from benchmarks.runner.judge import distance_error
from tests.factories import make_result
from tests.harness import gaussian, read_results, run, write_data

ADAPTER = """
import faiss
import numpy as np

from benchmarks.worker import Algorithm


class Bent(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, fault):
        faiss.omp_set_num_threads(1 if fault == "one-thread" else threads)
        product = distance == "ip" and fault != "other-metric"
        metric = faiss.METRIC_INNER_PRODUCT if product else faiss.METRIC_L2
        kept = base[: len(base) * 3 // 4] if fault == "missing" else base
        self.fault, dimension = fault, base.shape[1]
        if fault == "poor":
            self.index = faiss.IndexHNSWPQ(dimension, 4, 16)
        elif fault == "exact":
            self.index = faiss.IndexFlat(dimension, metric)
        else:
            self.index = faiss.IndexHNSWFlat(dimension, 16, metric)
            self.index.hnsw.rng = faiss.RandomGenerator(seed)
        self.index.train(kept)
        self.index.add(kept)

    def search(self, queries, k, *, effort):
        effort = {"ignored": 16, "backwards": 640 // effort}.get(self.fault, effort)
        if hasattr(self.index, "hnsw"):
            self.index.hnsw.efSearch = effort
        self.told, ids = self.index.search(queries, k)
        if self.fault == "told":
            self.told = np.roll(self.told, 1, axis=0)
        return ids

    def distances(self):
        return self.told
"""
CARD = """
library: faiss
upstream: none
version: "1"
licence: none
algorithms:
  bent:
    class: Bent
    family: graph
    distances: [l2, ip]
    dtypes: [float32]
    parameters:
      fault: {stage: build, type: str, default: none}
      effort: {stage: search, type: int, min: 1, default: 16, monotone: true}
    smoke: {}
"""


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measure the bent index with some faults; the findings by fault, each as (shape, line)."""
    folder = tmp_path / "algorithms" / "faiss"
    folder.mkdir(parents=True)
    (folder / "algorithm.py").write_text(ADAPTER)
    (folder / "algorithm.yml").write_text(CARD)
    shutil.copy(ALGORITHMS / "faiss" / "requirements.txt", folder)
    find = find_algorithms
    monkeypatch.setattr("benchmarks.cli.choice.find_algorithms", lambda: find(tmp_path / "algorithms"))

    def of(base, queries, *faults, effort="10,20,40,80,160", distance="l2", threads=2):
        results = tmp_path / "results"
        finished = run(
            *write_data(tmp_path, base, queries),
            *("--distance", distance, "--algorithm", "bent", "--threads", threads, "--results-dir", results),
            *("--set", f"bent.fault={','.join(faults)}", "--set", f"bent.effort={effort}"),
        )
        assert finished.code == 0, finished.err
        found = {fault: [] for fault in faults}
        for finding in diagnose(read_results(results), find(tmp_path / "algorithms")):
            found[finding.where.partition("fault=")[2]].append((finding.shape, finding.line()))
        return found

    return of


def test_bent_indexes_are_named_and_a_sound_one_is_not(measure):
    faults = ["none", "ignored", "backwards", "missing", "poor", "one-thread", "told"]
    found = measure(gaussian(4000), gaussian(1000, seed=1), *faults)
    assert found["none"] == []
    ((shape, line),) = found["ignored"]
    assert shape == "knob without effect" and "does not reach the library" in line
    assert {shape for shape, _ in found["backwards"]} == {"recall falls"}
    ((shape, line),) = found["missing"]
    assert shape == "plateau" and "vectors are missing from the index" in line and "are in none" in line
    assert "or by a coarse code of the vectors" in dict(found["poor"])["plateau"]
    ((shape, line),) = found["one-thread"]
    assert shape == "threads not honoured" and "2 threads were asked for" in line
    ((shape, line),) = found["told"]
    assert shape == "reported distances"


def test_another_distance_than_asked(measure):
    base = gaussian(4000) * np.linspace(0.3, 3, 4000, dtype=np.float32)[:, None]
    found = measure(base, gaussian(500, seed=1), "none", "other-metric", distance="ip", threads=1)
    shapes_found = dict(found["other-metric"])
    assert "ranks by another distance than ip" in shapes_found["plateau"]
    assert "reported distances" in shapes_found
    assert "plateau" not in dict(found["none"])


def test_an_exact_path(measure):
    base, queries = gaussian(20_000, 48), gaussian(1000, 48, seed=1)  # enough work for a steady time
    found = measure(base, queries, "exact", threads=1)
    ((shape, line),) = found["exact"]
    assert shape == "flat 1.0" and "takes an exact path, or ignores the knob" in line


def test_queries_in_the_base(measure):
    base = gaussian(3000)
    found = measure(base, base[:500], "none", effort="400,800", threads=1)
    ((shape, line),) = found["none"]
    assert shape == "flat 1.0" and "100% of them are at distance 0" in line


def test_a_hidden_tail(tmp_path):
    """The graph index of the data set that was made to have one; nothing is bent."""
    finished = run(
        *("--dataset", "crossover-20k", "--algorithm", "faiss-hnsw", "--algorithm", "faiss-ivfflat", "--threads", 1),
        *("--set", "faiss-hnsw.efSearch=14", "--set", "faiss-ivfflat.n_probe=3", "--results-dir", tmp_path),
    )
    assert finished.code == 0, finished.err
    (finding,) = diagnose(read_results(tmp_path), find_algorithms())
    assert finding.shape == "hidden tail" and "faiss-hnsw" in finding.where and "efSearch=14" in finding.text


def test_a_build_that_does_not_allow_more(tmp_path):
    store, rng = Store(tmp_path), np.random.default_rng(0)
    for effort, recall in [(10, 0.5), (20, 0.7), (40, 0.78), (80, 0.79), (160, 0.79)]:
        make_result(
            store,
            algorithm="faiss-hnsw",
            build={"M": 4},
            search={"efSearch": effort},
            hits=rng.binomial(10, recall, 2000),
        )
    (finding,) = diagnose(store.results(), find_algorithms())
    assert finding.shape == "plateau" and "its build parameters: M" in finding.text


def test_distances_of_another_scale_are_no_error():
    rng = np.random.default_rng(0)
    exact = np.sort(rng.random((50, 10)), axis=1)
    ids = np.zeros((50, 10), int)
    for told in (exact, np.sqrt(exact), 7 - 3 * exact, exact + rng.random((50, 1)), exact * rng.random((50, 1))):
        assert distance_error(told, exact, ids) < 1e-6
    assert distance_error(rng.random((50, 10)), exact, ids) > 0.5
    assert distance_error(None, exact, ids) is None
    assert distance_error(np.ones((50, 10)), exact, ids) is None
    assert distance_error(exact, exact, ids - 1) is None


def test_every_shape_is_provoked_above():
    assert set(shapes()) == {
        "knob without effect",
        "recall falls",
        "plateau",
        "flat 1.0",
        "hidden tail",
        "reported distances",
        "threads not honoured",
    }
