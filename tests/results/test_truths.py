import os

import h5py
import numpy as np
import pytest

from benchmarks import paths
from benchmarks.groundtruth.cache import write_truth
from benchmarks.metrics.registry import parse_metric
from benchmarks.results import truths
from benchmarks.results.relevance import find_relevance, write_relevance
from benchmarks.results.store import Store
from tests.factories import make_result
from tests.harness import gaussian, run, write_data


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Warnings are told again, and no truth of this machine is found."""
    truths._warn.cache_clear()
    monkeypatch.setattr(paths, "DATA", tmp_path / "no-data")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def test_results_of_one_truth_share_it(store):
    results = [make_result(store, search={"ef": ef}) for ef in range(5)]
    shared = [result.truth for result in results]
    assert all(truth is shared[0] for truth in shared)
    assert shared[0].ids.dtype == np.int32 and shared[0].distances.dtype == np.float64
    assert shared[0].ids.shape == shared[0].distances.shape == (200, 10)
    folder = store.folder / "toyset"
    assert [path.name for path in folder.glob("*.hdf5")] == [f"truth-{results[0].record.truth}-k10.hdf5"]
    assert len(store.files()) == 5 and len(list(store.results())) == 5  # it is no result


def test_another_k_is_another_file(store):
    one, other = make_result(store, k=10), make_result(store, k=20)
    assert one.truth.ids.shape == (200, 10) and other.truth.ids.shape == (200, 20)


def test_a_base_smaller_than_k(store):
    result = make_result(store, k=10, n=4, hits=[4, 2])
    assert result.truth.ids.shape == (2, 4) and parse_metric("map").compute(result).value == 0.75


def test_older_results_lack_what_needs_the_truth_and_nothing_else(store, capsys):
    results = [make_result(store, with_truth=False, search={"ef": ef}) for ef in range(3)]
    for result in results:
        assert parse_metric("map").compute(result) is None and parse_metric("map").per_query(result) is None
        assert parse_metric("inverse-ratio").compute(result) is None
        assert parse_metric("recall").compute(result).value == pytest.approx(0.9)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("warning: ") and "run.py" in lines[0]


def test_the_truth_of_prepared_data_is_found(store, monkeypatch, tmp_path):
    result = make_result(store, with_truth=False)
    identity = result.identity
    facts = {name: getattr(identity, name) for name in ("distance", "base_sha256", "queries_sha256")}
    deep = np.tile(np.arange(100, dtype=np.int32), (200, 1))
    write_truth(tmp_path / "data" / "truth" / f"{result.record.truth}.hdf5", deep, deep + 1.0, facts)
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    assert result.truth.ids.shape == (200, 10) and parse_metric("map").compute(result).value == pytest.approx(0.9)


@pytest.mark.parametrize("damage", ["cut", "changed", "other queries", "no HDF5"])
def test_a_damaged_truth_is_not_used_and_written_anew(store, damage, capsys):
    result = make_result(store)
    path = next((store.folder / "toyset").glob("truth-*"))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif damage == "no HDF5":
        path.write_text("truth")
    else:
        with h5py.File(path, "r+") as file:
            if damage == "changed":
                file["ids"][3, 3] = 77
            else:
                file.attrs["queries_sha256"] = "0" * 64
    os.utime(path, ns=(1, 1))
    assert parse_metric("map").compute(store.read(result.path)) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: is not a") and "is not there" not in line
    assert "left out" in line and "run.py" in line
    ids = np.tile(np.arange(10), (200, 1))
    store.keep_truth(result.identity, result.record.truth, ids, ids + 1.0)
    assert parse_metric("map").compute(store.read(result.path)).value == pytest.approx(0.9)


def test_a_sound_truth_is_left_alone(store):
    result = make_result(store)
    path = next((store.folder / "toyset").glob("truth-*"))
    before = path.stat()
    store.keep_truth(result.identity, result.record.truth, np.zeros((200, 10)), np.zeros((200, 10)))
    assert path.stat() == before


def test_a_run_keeps_the_truth_and_a_second_one_puts_it_back(tmp_path):
    data = write_data(tmp_path, gaussian(300), gaussian(20, seed=1))
    options = [*data, "--algorithm", "faiss-flat", "--k", "5", "--threads", "1", "--runner", "venv"]
    options += ["--results-dir", tmp_path / "results"]
    assert run(*options).code == 0
    (path,) = (tmp_path / "results").glob("*/truth-*-k5.hdf5")
    (result,) = Store(tmp_path / "results").results()
    for name in ("map", "ndcg", "ndcg_by_answer", "mrr", "inverse-ratio", "within-0", "recall-1"):
        assert parse_metric(name).compute(result).value == 1, name
    path.unlink()
    assert run(*options).code == 0 and path.is_file()  # nothing is measured again
    assert len(list(Store(tmp_path / "results").results())) == 1


# --- judgments ------------------------------------------------------------------------------------------------------


def test_judgments_beside_the_results(store):
    result = make_result(store, hits=[10, 5, 0])
    assert result.relevance is None and parse_metric("judged-precision").compute(result) is None
    folder, queries = result.path.parent.parent, result.identity.queries_sha256
    write_relevance(folder, queries, [2, 0, 0, 1], [1, 3, 99, 9], [1, 2, 1, 1])
    assert find_relevance(folder, "f" * 64) is None
    relevance = result.relevance
    assert relevance.query.tolist() == [0, 0, 1, 2] and relevance.id.tolist() == [3, 99, 9, 1]
    precision = parse_metric("judged-precision")
    assert precision.per_query(result).tolist() == [0.1, 0, 0] and precision.compute(result).n == 3
    best = 2 / np.log2(2) + 1 / np.log2(3)
    assert parse_metric("judged-ndcg").per_query(result) == pytest.approx([2 / np.log2(5) / best, 0, 0])
    assert precision.definition.kind == "relevance" and "human" in precision.title(10)


def test_queries_that_nobody_judged_do_not_count(store):
    result = make_result(store, hits=[10, 5, 0])
    write_relevance(result.path.parent.parent, result.identity.queries_sha256, [1], [0], [1])
    measured = parse_metric("judged-precision").compute(result)
    assert (measured.value, measured.n) == (0.1, 1) and parse_metric("judged-precision").per_query(result) is None


@pytest.mark.parametrize(
    ("judgments", "words"),
    [
        (([], [], []), "no judgments"),
        (([0, 1], [0], [1]), "no judgments"),
        (([0, -1], [0, 1], [1, 1]), "rows from 0 on"),
        (([0, 1], [0, 1], [1, np.nan]), "finite grades"),
        (([3, 3], [4, 4], [1, 2]), "query 3 and id 4 are judged twice"),
    ],
)
def test_what_is_no_judgment(refusal, tmp_path, judgments, words):
    message = refusal(write_relevance, tmp_path, "0" * 64, *judgments)
    assert words in message and "relevance-00000000.hdf5" in message and not list(tmp_path.iterdir())
