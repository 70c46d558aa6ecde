"""From a user's file to a figure, without code; and what `verify` and `--supplied-truth` say on the way."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.cli import plot, truth, verify
from benchmarks.groundtruth.exact import exact_neighbors
from tests.harness import call, gaussian, read_results, run, write_bin


def measure(folder, *options):
    return run(
        *("--algorithm", "toy", "--threads", 1, "--repeats", 1, "--set", "toy.drop=0.0,0.4"),
        *("--results-dir", folder / "results", "--data-dir", folder / "data"),
        *options,
    )


def test_a_parquet_file_of_50_000_vectors_becomes_a_robustness_plot(tmp_path):
    vectors = gaussian(50_000)
    table = {"title": [f"document {row}" for row in range(50_000)], "embedding": pa.array(list(vectors))}
    pq.write_table(pa.table(table), tmp_path / "my.parquet", row_group_size=7000)
    finished = measure(tmp_path, "--dataset", tmp_path / "my.parquet", "--distance", "cosine")
    assert finished.code == 0, finished.err
    results = read_results(tmp_path / "results")
    assert {(item.identity.dataset, item.record.n, item.record.nq) for item in results} == {("my", 49_000, 1000)}
    assert sorted(item.hits.mean() / 10 for item in results) == [0.6, 1.0]
    finished = call(
        plot.main,
        *("--dataset", tmp_path / "my.parquet", "--metric", "robustness-0.5", "--results-dir", tmp_path / "results"),
        *("--out", tmp_path / "plot.png"),
    )
    assert finished.code == 0 and (tmp_path / "plot.png").stat().st_size > 10_000, finished.err


def test_a_card_of_ten_lines(tmp_path):
    rows = gaussian(3000)
    pq.write_table(pa.table({"title": pa.array(list(rows)), "body": pa.array(list(rows + 1))}), tmp_path / "a.parquet")
    (tmp_path / "mine.yml").write_text(
        "title: Products\ndistance: ip\nbase: {path: a.parquet, array: body}\nqueries: {held_out: 200, seed: 7}\n"
    )
    assert measure(tmp_path, "--dataset", tmp_path / "mine.yml").code == 0
    assert "choose one of title, body" in measure(tmp_path, "--dataset", tmp_path / "a.parquet").err


@pytest.mark.parametrize("suffix", ["fvecs", "bvecs"])
def test_a_texmex_file(tmp_path, suffix):
    rows = np.zeros(3000, [("dimension", "<i4"), ("row", "<f4" if suffix == "fvecs" else "u1", 16)])
    rows["dimension"], rows["row"] = 16, gaussian(3000, dtype="uint8")
    (tmp_path / f"mine.{suffix}").write_bytes(rows.tobytes())
    assert measure(tmp_path, "--dataset", tmp_path / f"mine.{suffix}").code == 0


@pytest.fixture
def hdf5(tmp_path):
    """Options for an HDF5 file with its own ground truth, which `wrong` makes wrong."""

    def of(wrong=False, width=100):
        base, queries = gaussian(3000), gaussian(60, seed=1)
        exact = exact_neighbors(base, queries, "l2", width)
        with h5py.File(tmp_path / "own.hdf5", "w") as file:
            file["train"], file["test"], file["distances"] = base, queries, np.sqrt(exact.distances)
            file["neighbors"] = (exact.neighbors + 1) % 3000 if wrong else exact.neighbors
            file.attrs["distance"] = "euclidean"
        return ["--dataset", tmp_path / "own.hdf5"]

    return of


def truths(folder):
    return {item.record.truth for item in read_results(folder / "results")}


def test_ground_truth_is_computed_unless_the_supplied_is_asked_for(tmp_path, hdf5):
    options = hdf5()
    finished = measure(tmp_path, *options, "--supplied-truth")
    assert finished.code == 0 and "warning" not in finished.err
    (supplied,) = truths(tmp_path)
    before = times(tmp_path)
    assert measure(tmp_path, *options, "--supplied-truth").code == 0 and times(tmp_path) == before
    assert measure(tmp_path, *options).code == 0  # what was counted against another's truth is measured again
    (ours,) = truths(tmp_path)
    assert supplied.startswith("supplied-") and not ours.startswith("supplied-")
    assert sorted(item.hits.mean() for item in read_results(tmp_path / "results")) == [6, 10]
    before = times(tmp_path)
    assert measure(tmp_path, *options, "--supplied-truth").code == 0 and times(tmp_path) == before
    assert measure(tmp_path, *options, "--supplied-truth", "--force").code == 0
    assert truths(tmp_path) == {ours}  # it is here, so it is taken


def times(folder):
    return [item.record.provenance.measured_at for item in read_results(folder / "results")]


@pytest.mark.parametrize(("how", "words"), [({"wrong": True}, "other neighbours"), ({"width": 90}, "100 are needed")])
def test_supplied_ground_truth_that_fails_is_replaced_with_a_warning(tmp_path, hdf5, how, words):
    finished = measure(tmp_path, *hdf5(**how), "--supplied-truth")
    (line,) = [line for line in finished.err.splitlines() if line.startswith("warning: ")]
    assert finished.code == 0 and words in line and "it is computed instead" in line
    assert not truths(tmp_path).pop().startswith("supplied-")


def test_supplied_ground_truth_where_there_is_none(tmp_path):
    write_bin(tmp_path / "base.fbin", gaussian(300))
    finished = measure(tmp_path, "--dataset", tmp_path / "base.fbin", "--supplied-truth")
    assert finished.code == 2 and "comes without ground truth" in finished.err


def test_the_truth_verb_takes_it_too(tmp_path, hdf5):
    finished = call(truth.main, *hdf5(), "--supplied-truth", "--k", 10, "--data-dir", tmp_path / "data")
    assert finished.code == 0 and "supplied-" in finished.out


def test_verify_says_one_line_for_each_check(tmp_path, hdf5):
    finished = call(verify.main, *hdf5(), "--data-dir", tmp_path / "data", "--threads", 1)
    lines = finished.out.splitlines()
    assert finished.code == 0 and len(lines) == 14 and lines[-1] == "own: passed 13, warnings 0, failures 0"
    assert all(line.startswith("ok  ") for line in lines[:-1]) and "60 × 100 ids and distances" in lines[-2]


def test_verify_ends_with_1_where_a_check_failed(tmp_path, hdf5):
    finished = call(verify.main, *hdf5(wrong=True), "--data-dir", tmp_path / "data")
    assert finished.code == 1 and "FAILURE supplied truth: " in finished.out
    assert finished.out.splitlines()[-1] == "own: passed 12, warnings 0, failures 1"
    assert call(verify.main, "--dataset", tmp_path / "no.npy").code == 2
