"""The effect that this harness is for (arXiv 2507.00379), end to end: at equal average recall a graph index leaves
some queries with nothing, a partition index leaves none but has fewer that are complete."""

import json

import pytest

from tests.harness import export, run

DECIMALS = ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    results = tmp_path_factory.mktemp("crossover")
    finished = run(
        "--dataset",
        "crossover-20k",
        "--algorithm",
        "faiss-hnsw",
        "--algorithm",
        "faiss-ivfflat",
        "--algorithm",
        "faiss-flat",
        "--set",
        "faiss-hnsw.efSearch=12,16,20,24,32",
        "--set",
        "faiss-ivfflat.n_probe=2,3,4,6,8",
        "--threads",
        1,
        "--repeats",
        1,
        "--results-dir",
        results,
    )
    assert finished.code == 0, finished.out + finished.err
    names = [f"robustness-{delta}" for delta in DECIMALS]
    exported = export(
        "--results-dir", results, "--format", "json", *(part for name in names for part in ("--metric", name))
    )
    rows = json.loads(exported.out)
    assert len(rows) == 11 and all(row["status"] == "ok" and row["threads"] == 1 for row in rows)
    return rows


def nearest(rows, algorithm, recall):
    """The operating point whose average recall is nearest."""
    return min((row for row in rows if row["algorithm"] == algorithm), key=lambda row: abs(row["recall"] - recall))


def test_the_order_at_low_delta_is_reversed_at_high_delta(rows):
    graph, partition = nearest(rows, "faiss-hnsw", 0.91), nearest(rows, "faiss-ivfflat", 0.91)
    assert abs(graph["recall"] - partition["recall"]) < 0.02, "not at equal recall"
    assert partition["robustness-0.1"] >= 0.99 and graph["robustness-0.1"] <= 0.97
    assert partition["robustness-0.1_low"] > graph["robustness-0.1_high"]
    assert graph["robustness-0.9_low"] > partition["robustness-0.9_high"]


def test_mean_recall_is_the_mean_robustness(rows):
    for row in rows:
        assert row["k"] == 10
        assert abs(row["recall"] - sum(row[f"robustness-{delta}"] for delta in DECIMALS) / 10) <= 1e-12, row["search"]


def test_intervals_hold_their_values(rows):
    for row in rows:
        for name in ("recall", "qps", *(f"robustness-{delta}" for delta in DECIMALS)):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], (name, row["search"])


def test_exhaustive_search_is_exact(rows):
    (flat,) = (row for row in rows if row["algorithm"] == "faiss-flat")
    assert all(flat[name] == 1.0 for name in ("recall", "recall_tied", *(f"robustness-{delta}" for delta in DECIMALS)))
