import csv
import importlib
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest

from benchmarks.__main__ import VERBS, module_of
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cards.datasets import find_datasets
from benchmarks.cli import install, prepare, truth
from benchmarks.cli import list as list_verb
from benchmarks.metrics.table import STRUCTURED
from benchmarks.paths import ALGORITHMS, ENVIRONMENTS, ROOT
from tests.harness import call, export, finish, gaussian, run, start, write_data

FIRST = ["dataset", "algorithm", "build", "search", "k", "mode", "status"]
METRICS = [
    "recall",
    "recall_tied",
    "robustness-0.1",
    "robustness-0.9",
    "qps",
    "qps-best",
    "latency-p50",
    "latency-p99",
    "build_seconds",
    "index_bytes",
    "peak_memory_bytes",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two good points and a failed one, in batch mode and in single mode."""
    folder = tmp_path_factory.mktemp("verbs")
    options = [
        *write_data(folder, gaussian(300), gaussian(50, seed=1)),
        "--algorithm",
        "toy",
        "--threads",
        1,
        "--k",
        5,
        "--results-dir",
        folder / "results",
    ]
    for mode in ("batch", "single"):
        assert run(*options, "--mode", mode, "--set", "toy.drop=0.0,0.4", "--set", "toy.failure=none").code == 0
        assert run(*options, "--mode", mode, "--set", "toy.drop=0.0", "--set", "toy.failure=raise").code == 1
    return folder / "results"


def rows_of(results, *options):
    finished = export("--results-dir", results, "--format", "json", *options)
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


@pytest.mark.parametrize("verb", VERBS)
def test_help(verb):
    finished = call(importlib.import_module(module_of(verb)).main, "--help")
    assert finished.code == 0 and finished.out.startswith("usage: ") and finished.err == ""
    assert len(finished.out.splitlines()) > 5


@pytest.mark.parametrize("script", [("run.py",), ("plot.py",), ("-m", "benchmarks"), ("-m", "benchmarks", "list")])
def test_help_as_a_process(script):
    finished = finish(start("--help", script=script))
    assert finished.code == 0 and finished.out.startswith("usage: ") and finished.err == ""


def test_help_of_all_names_every_verb():
    finished = finish(start("--help", script=("-m", "benchmarks")))
    assert all(verb in finished.out and importlib.util.find_spec(module_of(verb)) for verb in VERBS)


def test_list_names_everything(results):
    finished = call(list_verb.main, "--results-dir", results)
    assert finished.code == 0
    for name in (*find_datasets(), *find_algorithms(), "tiny", "single"):
        assert name in finished.out, name


@pytest.mark.parametrize(
    ("what", "there", "not_there"),
    [
        ("datasets", "crossover-20k", "hnswlib"),
        ("algorithms", "hnswlib", "crossover-20k"),
        ("results", "tiny", "hnswlib"),
    ],
)
def test_list_one_kind(results, what, there, not_there):
    finished = call(list_verb.main, what, "--results-dir", results)
    assert finished.code == 0 and there in finished.out and not_there not in finished.out


def test_list_counts_points_and_failures(results):
    finished = call(list_verb.main, "results", "--results-dir", results)
    line = next(line for line in finished.out.splitlines() if " single " in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["tiny", "toy", "5", "single", "1", "2", "1"]


def test_list_of_an_empty_folder_and_of_nonsense(tmp_path):
    assert "none yet" in call(list_verb.main, "results", "--results-dir", tmp_path).out
    finished = call(list_verb.main, "dataset")
    assert finished.code == 2 and finished.err.startswith("error: ") and len(finished.err.splitlines()) == 1


def test_prepare_once(tmp_path):
    options = ["--dataset", "crossover-20k", "--data-dir", tmp_path / "data"]
    finished = call(prepare.main, *options)
    base = tmp_path / "data" / "crossover-20k" / "base.npy"
    assert finished.code == 0 and "20,000 base vectors and 5,000 queries of 32 dimensions" in finished.out
    assert str(base) in finished.out and np.load(base, mmap_mode="r").shape == (20000, 32)
    before = base.stat().st_mtime_ns
    assert call(prepare.main, *options).out == finished.out and base.stat().st_mtime_ns == before
    assert call(prepare.main, *options, "--force").out == finished.out and base.stat().st_mtime_ns > before


def test_prepare_warns_of_zero_vectors(tmp_path):
    base = gaussian(100)
    base[3] = 0
    finished = call(prepare.main, *write_data(tmp_path, base, gaussian(10)), "--distance", "cosine")
    warning = [line for line in finished.err.splitlines() if line.startswith("warning: ")]
    assert finished.code == 0 and len(warning) == 1 and "1 of the base vectors" in warning[0] and "cosine" in warning[0]


def brute_force(base, queries, distance):
    base, queries = base.astype(np.float64), queries.astype(np.float64)
    if distance == "l2":
        return ((queries[:, None] - base) ** 2).sum(axis=2)
    if distance == "ip":
        return -queries @ base.T
    return 1 - (queries @ base.T) / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(base, axis=1)


@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("rows", [400, 3])
def test_truth_is_brute_force(tmp_path, distance, rows):
    base, queries = gaussian(rows), gaussian(20, seed=1)
    finished = call(
        truth.main,
        *write_data(tmp_path, base, queries),
        "--distance",
        distance,
        "--k",
        7,
        "--out",
        tmp_path / "truth.hdf5",
    )
    assert finished.code == 0 and str(tmp_path / "truth.hdf5") in finished.out
    distances = brute_force(base, queries, distance)
    order = np.argsort(distances, axis=1, kind="stable")[:, :7]
    with h5py.File(tmp_path / "truth.hdf5") as file:
        assert file["neighbors"].dtype == np.int32 and file["distances"].dtype == np.float64
        np.testing.assert_array_equal(file["neighbors"], order)
        np.testing.assert_allclose(
            file["distances"], np.take_along_axis(distances, order, axis=1), rtol=1e-12, atol=1e-12
        )
        assert file.attrs["distance"] == distance and file.attrs["k"] == min(rows, 7)


def test_install(monkeypatch, tmp_path):
    finished = call(install.main, "--algorithm", "toy")
    assert finished.code == 0 and finished.out.startswith("toy: ready (") and str(ENVIRONMENTS) in finished.out
    wrong = call(install.main, "--algorithm", "tyo")
    assert wrong.code == 2 and "did you mean toy" in wrong.err


def test_install_goes_on_after_a_failure(monkeypatch, tmp_path):
    for name in ("atoy", "toy"):
        shutil.copytree(ALGORITHMS / "toy", tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    card = tmp_path / "atoy" / "algorithm.yml"
    card.write_text(card.read_text().replace("  toy:\n", "  atoy:\n"))
    (tmp_path / "atoy" / "requirements.txt").write_text("nonexistent-package-xyz==1\n")
    (tmp_path / "toy" / "requirements.txt").write_text("# nothing\n")
    monkeypatch.setattr(install, "find_algorithms", lambda: find_algorithms(tmp_path))
    monkeypatch.setattr(install, "ENVIRONMENTS", tmp_path / "environments")
    finished = call(install.main)
    failed, ready = finished.out.splitlines()
    assert finished.code == 1 and failed.startswith("atoy: failed: ") and ready.startswith("toy: ready ")


def test_export_json(results):
    rows = rows_of(results)
    assert len(rows) == 6 and {row["mode"] for row in rows} == {"batch", "single"}
    for row in rows:
        assert [name for name in row if name in FIRST] == FIRST and not set(METRICS) - set(row)
        assert (row["dataset"], row["algorithm"], row["k"]) == ("tiny", "toy", 5)
        assert row["build"] == {"build_failure": "none"} and set(row["search"]) == {"drop", "empty", "failure"}
        assert os.path.exists(row["file"])
    good = {(row["mode"], row["search"]["drop"]): row for row in rows if row["status"] == "ok"}
    assert good["batch", 0.0]["recall"] == 1 and good["batch", 0.4]["recall"] == 0.6
    assert good["batch", 0.4]["robustness-0.5"] == 1 and good["batch", 0.4]["robustness-0.7"] == 0
    assert good["batch", 0.4]["robustness-0.7_high"] > 0
    assert good["batch", 0.0]["latency-p99"] is None and good["single", 0.0]["latency-p99"] > 0


def test_failed_points_are_rows_without_metrics(results):
    failed = [row for row in rows_of(results) if row["status"] == "failed"]
    assert len(failed) == 2
    for row in failed:
        assert "asked to raise" in row["reason"]
        assert all(row[name] is None for name in METRICS if name.startswith(("recall", "robust", "qps", "latency")))


def test_export_csv_and_parquet_say_the_same_as_json(results, tmp_path):
    rows = rows_of(results)
    text = export("--results-dir", results, "--format", "csv").out
    table = list(csv.DictReader(text.splitlines()))
    assert export("--results-dir", results, "--format", "parquet", "--out", tmp_path / "t.parquet").code == 0
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert list(table[0]) == list(rows[0]) == list(frame.columns)
    for row, line, (_, record) in zip(rows, table, frame.iterrows(), strict=True):
        for name in STRUCTURED:
            assert json.loads(line[name]) == json.loads(record[name]) == row[name]
        for name in ("recall", "robustness-0.9", "qps", "latency-p50", "recall_low"):
            assert (float(line[name]) if line[name] else None) == row[name]
            assert (None if np.isnan(record[name]) else record[name]) == row[name]


def test_export_into_a_file(results, tmp_path):
    finished = export("--results-dir", results, "--format", "json", "--out", tmp_path / "table.json")
    assert finished.code == 0 and finished.out == "" and str(tmp_path / "table.json") in finished.err
    assert json.loads((tmp_path / "table.json").read_text()) == rows_of(results)


def test_export_by_the_ending(results, tmp_path):
    refused = export("--results-dir", results, "--out", tmp_path / "table.foo")
    assert refused.code == 2 and refused.out == "" and not (tmp_path / "table.foo").exists()
    assert "table.foo: the endings are .csv, .json, .parquet" in refused.err and len(refused.err.splitlines()) == 1
    text = export("--results-dir", results).out
    for name, options in (("table.CSV", ()), ("table", ()), ("table.foo", ("--format", "csv"))):
        assert export("--results-dir", results, *options, "--out", tmp_path / name).code == 0
        assert (tmp_path / name).read_text() == text


def test_export_of_more_metrics(results):
    rows = rows_of(
        results,
        "--metric",
        "robustness-0.2",
        "--metric",
        "latency-p99.9",
        "--metric",
        "recall@5",
        "--metric",
        "recall@10",
    )
    single = next(row for row in rows if row["status"] == "ok" and row["mode"] == "single")
    assert single["robustness-0.2"] == 1 and single["latency-p99.9"] >= single["latency-p99"]
    assert single["recall@5"] == single["recall"] and single["recall@10"] is None


def test_export_columns_names_every_column(results):
    described = {line.split(":")[0].split(" [")[0] for line in export("--columns").out.splitlines()}
    for name in rows_of(results)[0]:
        assert name.removesuffix("_low").removesuffix("_high") in described, name


def test_export_to_a_closed_pipe(results):
    command = f"'{sys.executable}' -m benchmarks export --format json --results-dir '{results}' --metric robustness-0.2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == "" and done.returncode == 0


def test_dry_run_touches_nothing(tmp_path):
    options = write_data(tmp_path, gaussian(300), gaussian(50))
    before = sorted(tmp_path.rglob("*"))
    finished = run(*options, "--algorithm", "toy", "--dry-run", "--results-dir", tmp_path / "results")
    assert finished.code == 0 and "toy: 2 operating points on 1 build" in finished.out
    assert "drop=0.0" in finished.out and "drop=0.5" in finished.out
    finished = run(
        "--dataset", "crossover-20k", "--dry-run", "--results-dir", tmp_path / "results", "--data-dir", tmp_path / "d"
    )
    assert finished.code == 0 and "20,000 × 32 float32, l2, 5,000 queries" in finished.out
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_says_what_is_skipped_and_why(tmp_path):
    finished = run(
        "--dataset",
        "crossover-20k",
        "--algorithm",
        "faiss-hnsw",
        "--k",
        100,
        "--set",
        "faiss-hnsw.efSearch=50,200",
        "--dry-run",
        "--results-dir",
        tmp_path,
    )
    assert "faiss-hnsw: 1 operating point on 1 build" in finished.out
    assert "skipped: faiss-hnsw" in finished.out and "breaks efSearch >= k (efSearch = 50, k = 100)" in finished.out


def lacks_packages(python):
    path = shutil.which(python)
    return path and subprocess.run([path, "-c", "import pydantic, h5py"], capture_output=True).returncode == 1


POOR = [name for name in ("/usr/bin/python3", "python3", "python3.9", "python3.13") if lacks_packages(name)]


@pytest.mark.skipif(not (ROOT / ".venv" / "bin" / "python").exists(), reason="no .venv")
@pytest.mark.parametrize("python", POOR)
@pytest.mark.parametrize(
    "script", [["run.py", "--dataset", "crossover-20k", "--dry-run"], ["-m", "benchmarks", "list", "datasets"]]
)
def test_any_python_will_do(python, script):
    done = subprocess.run([python, *script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "crossover-20k" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("python", POOR)
def test_without_packages_and_without_venv_one_line_says_what_to_do(tmp_path, python):
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "run.py", tmp_path)
    for name in ("__init__.py", "bootstrap.py"):
        shutil.copy(ROOT / "benchmarks" / name, tmp_path / "benchmarks")
    done = subprocess.run([python, "run.py", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1 and "make env" in done.stderr
    assert done.returncode == 2
