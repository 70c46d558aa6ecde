import io
import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.metrics.registry import parse_metric
from benchmarks.metrics.table import (
    DEFAULT_METRICS,
    POINT_COLUMNS,
    STRUCTURED,
    metric_columns,
    parameters_as_text,
    point_row,
    points_table,
)
from benchmarks.results.store import Store
from tests.factories import make_result

METRIC_COLUMNS = [column for name in DEFAULT_METRICS for column in metric_columns(parse_metric(name))]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_every_column_is_documented(store):
    table = points_table([make_result(store)], DEFAULT_METRICS)
    assert list(table.columns) == [*POINT_COLUMNS, *METRIC_COLUMNS] and all(POINT_COLUMNS.values())
    assert list(point_row(make_result(store))) == list(POINT_COLUMNS)


def test_an_empty_table_has_all_columns():
    table = points_table([], ["recall"])
    assert len(table) == 0 and list(table.columns) == [*POINT_COLUMNS, "recall", "recall_low", "recall_high"]


def test_a_row_says_what_was_measured(store):
    result = make_result(
        store, build={"M": 8}, search={"ef": 10}, k=5, n=3, seed=4, threads=2, hits=[1, 2, 3], repeats=2
    )
    row = points_table([result], ["recall", "qps"]).iloc[0]
    assert (row.build, row.search) == ({"M": 8}, {"ef": 10})
    assert (row.k, row.seed, row.threads, row.queries, row.repeats) == (5, 4, 2, 3, 2)
    assert (row.status, row.reason, row.recall, row.file) == ("ok", None, 2 / 3, str(result.path))
    assert row.recall_low <= row.recall <= row.recall_high


@pytest.mark.parametrize("status", ["failed", "timeout", "out-of-memory", "invalid"])
def test_a_failed_point_is_a_row_without_metrics(store, status):
    table = points_table(
        [make_result(store), make_result(store, search={"ef": 1}, status=status, reason="why")], DEFAULT_METRICS
    )
    failed = table[table.status == status].iloc[0]
    assert failed.reason == "why"
    assert failed[METRIC_COLUMNS].isna().all()
    assert table[table.status == "ok"].iloc[0].recall == 0.9


def test_a_metric_that_no_point_has_is_a_column_of_nan(store):
    table = points_table([make_result(store, mode="batch")], ["latency-p50", "recall"])
    assert table["latency-p50"].dtype == np.float64 and table["latency-p50"].isna().all()


def test_rows_are_sorted(store):
    options = [
        {"dataset": "b"},
        {"dataset": "a", "algorithm": "z"},
        {"dataset": "a", "algorithm": "y", "k": 100},
        {"dataset": "a", "algorithm": "y", "k": 20},
        {"dataset": "a", "algorithm": "y", "k": 3},
    ]
    table = points_table([make_result(store, **item) for item in options], [])
    assert list(zip(table.dataset, table.algorithm, table.k, strict=True)) == [
        ("a", "y", 3),
        ("a", "y", 20),
        ("a", "y", 100),
        ("a", "z", 10),
        ("b", "faiss-hnsw", 10),
    ]


def test_at_k_is_nan_for_other_ks(store):
    table = points_table([make_result(store, k=10), make_result(store, k=20)], ["recall@10"])
    assert table.set_index("k")["recall@10"].isna().to_dict() == {10: False, 20: True}


def test_intervals_stand_where_a_metric_has_one(store):
    table = points_table([make_result(store, mode="single")], DEFAULT_METRICS)
    unknown = {name for name in METRIC_COLUMNS if name.startswith(("judged", "accuracy", "distance_computations"))}
    assert {"recall_low", "recall_high", "robustness-0.1_low", "qps_high"} <= set(table.columns)
    assert not {"latency-p50_low", "index_bytes_high", "qps-best_low"} & set(table.columns)
    assert table[[name for name in METRIC_COLUMNS if name not in unknown]].notna().all(axis=None)
    assert table[sorted(unknown)].isna().all(axis=None)


ODD = {"M": 8, "keep": False, "alpha": 1.0, "kind": 'say "a,b"\n日本', "scale": 1e-9}


@pytest.fixture
def table(store):
    results = [make_result(store, build=ODD, search={"ef": ef}) for ef in (1, 2)]
    results.append(make_result(store, status="failed", reason='line "one", two'))
    return points_table(results, DEFAULT_METRICS)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_text_comes_back_as_parameters(table, form):
    text = parameters_as_text(table)
    if form == "csv":
        back = pd.read_csv(io.StringIO(text.to_csv(index=False)))
    else:
        back = pd.read_parquet(io.BytesIO(text.to_parquet(index=False)))
    for name in STRUCTURED:
        assert back[name].map(json.loads).tolist() == table[name].tolist()
    assert type(json.loads(back.build[0])["alpha"]) is float and type(json.loads(back.build[0])["M"]) is int
    assert back.reason.fillna("").tolist() == table.reason.fillna("").tolist()
    np.testing.assert_array_equal(back.recall.to_numpy(float), table.recall.to_numpy(float))
    assert list(back.columns) == list(table.columns)


def test_text_changes_nothing_else(table):
    before = table.copy(deep=True)
    assert parameters_as_text(table).drop(columns=[*STRUCTURED]).equals(before.drop(columns=[*STRUCTURED]))
    assert table.build.tolist() == before.build.tolist()
