import csv
import json
import signal

import h5py
import numpy as np
import pandas as pd
import pytest

from benchmarks.cli import compare as compare_verb
from benchmarks.cli import headroom as headroom_verb
from benchmarks.cli import import_ as import_verb
from benchmarks.cli import list as list_verb
from benchmarks.cli import plot as plot_verb
from benchmarks.figures.theme import RC
from tests.harness import call, export, finish, gaussian, read_results, run, start, wait_for, write_data
from tests.results.importers.layouts import (
    NQ,
    K,
    exact_ids,
    make_vectors,
    numpy_hits,
    numpy_robustness,
    told_distances,
    worse_ids,
    write_ann,
    write_big,
    write_detail,
    write_qdrant,
    write_vibe,
)


@pytest.fixture(scope="module")
def vectors():
    return make_vectors()


@pytest.fixture
def data(tmp_path, vectors):
    """Options that name the data set `tiny`."""
    return write_data(tmp_path / "vectors", *vectors)


@pytest.fixture
def imports(tmp_path, data):
    """Run the verb on paths and options."""

    def run(*arguments, results="results"):
        return call(import_verb.main, *arguments, *data, "--results-dir", tmp_path / results)

    return run


@pytest.fixture
def mixed(tmp_path, vectors):
    """A folder of 12 good points in every layout, 3 bad files, and what is none of it."""
    base, truth = tmp_path / "theirs", exact_ids(*vectors)
    answers = [worse_ids(truth, seed) for seed in range(4)]
    for seed, ids in enumerate(answers):
        write_ann(base / f"ann/tiny/10/hnswlib/M_{seed}.hdf5", ids, told_distances(ids, *vectors))
        write_big(base / f"big/tiny/10/diskann/L_{seed}.hdf5", ids)
    groups = {str(seed): ids for seed, ids in enumerate(answers)}
    told = {name: told_distances(ids, *vectors, last_row=False) for name, ids in groups.items()}
    write_vibe(base / "vibe/tiny/10/glass/R_32.hdf5", groups, distances=told)
    write_ann(base / "other/10/annoy/a.hdf5", answers[0], dataset="glove-100-angular")
    (base / "bad.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n cut")
    write_big(base / "short.hdf5", truth[:5])
    write_big(base / "range.hdf5", truth, type="range")
    (base / "config.json").write_text("{}")
    (base / "notes.txt").write_text("no result")
    return base


def test_a_folder_of_everything(imports, mixed, tmp_path, vectors):
    finished = imports(mixed)
    assert finished.code == 1, finished.err
    assert "12 operating points imported (4 of ann-benchmarks, 4 of big-ann, 4 of vibe)" in finished.out
    assert "3 files or parts of files not imported" in finished.out
    assert "of other data sets: glove-100-angular (1)" in finished.out and "1 files without results" in finished.out
    warnings = [line for line in finished.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    for line, (name, said) in zip(
        sorted(warnings), [("bad.hdf5", "truncated"), ("range.hdf5", "range"), ("short.hdf5", "5 queries")], strict=True
    ):
        assert name in line and said in line and line.count(name) == 1
    truth = exact_ids(*vectors)
    expected = sorted(numpy_hits(worse_ids(truth, seed), truth).tolist() for seed in range(4) for _ in range(3))
    assert sorted(result.hits.tolist() for result in read_results(tmp_path / "results")) == expected


def test_import_again_changes_nothing(imports, mixed, tmp_path):
    imports(mixed)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.hdf5")}
    finished = imports(mixed)
    assert finished.code == 1 and "0 operating points imported; 12 were there already" in finished.out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.hdf5")} == before
    assert len(before) == 13  # and the truth beside them


def test_theirs_are_only_read(imports, mixed):
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in mixed.rglob("*")}
    imports(mixed)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in mixed.rglob("*")} == before


def test_one_file_and_several_paths(imports, mixed):
    finished = imports(mixed / "ann/tiny/10/hnswlib/M_0.hdf5", mixed / "vibe", "--from", "ann-benchmarks")
    assert finished.code == 1 and "1 operating points imported" in finished.out  # VIBE's groups are none of it
    finished = imports(mixed / "ann/tiny/10/hnswlib/M_0.hdf5", mixed / "vibe")
    assert finished.code == 0 and "4 operating points imported (4 of vibe); 1 were there already" in finished.out
    assert finished.err.count("warning") == 0


def test_another_name_of_the_data_set(imports, tmp_path, vectors):
    ids = exact_ids(*vectors)
    for name in ("sift-128-euclidean", "random-xs"):
        write_big(tmp_path / f"theirs/{name}.hdf5", ids, dataset=name)
    finished = imports(tmp_path / "theirs")
    assert (
        finished.code == 2
        and "random-xs (1), sift-128-euclidean (1)" in finished.err
        and "--their-name" in finished.err
    )
    finished = imports(tmp_path / "theirs", "--their-name", "random-xs")
    assert finished.code == 0 and "1 operating points imported" in finished.out and "sift-128" in finished.out


def test_bad_input_is_one_line(imports, tmp_path, vectors):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.json").write_text("{}")
    for path, said in (("absent", "no such file"), ("empty", "holds no files"), ("x.json", "holds no results")):
        finished = imports(tmp_path / path)
        errors = [line for line in finished.err.splitlines() if line.startswith("error: ")]
        assert finished.code == 2 and len(errors) == 1 and said in errors[0]
    finished = call(import_verb.main, tmp_path, "--from", "nmslib", "--dataset", "tiny")
    assert finished.code == 2 and "ann-benchmarks" in finished.err and len(finished.err.splitlines()) == 1
    finished = call(import_verb.main, tmp_path, "--dataset", "glove-50-6c")
    assert finished.code == 2 and "glove-50-6b" in finished.err


def test_ids_of_another_base(imports, tmp_path, vectors):
    write_big(tmp_path / "theirs/a.hdf5", exact_ids(*vectors) + 10**6)
    write_big(tmp_path / "theirs/b.hdf5", np.zeros((NQ, K), np.int32) - 1)
    finished = imports(tmp_path / "theirs")
    assert finished.code == 1 and "1 invalid" in finished.out
    assert "imported as invalid: 400 ids lie outside the 300 base vectors" in finished.err
    assert "1 points have an average recall below 0.01" in finished.err


def test_figures_of_imported_points(imports, mixed, tmp_path, monkeypatch):
    monkeypatch.setitem(RC, "savefig.dpi", 50)
    imports(mixed)
    here = ["--results-dir", tmp_path / "results", "--out", tmp_path / "figure.png"]
    ann = ["--algorithm", "hnswlib@ann-benchmarks"]
    for options in (
        (),
        ("--metric", "qps"),
        ("--curve", "--recall", "0.69", "--tolerance", "0.01"),
        ("--distribution", "--recall", "0.69", "--tolerance", "0.01"),
        ("--metric", "recall", "--versus", "qps"),
    ):
        finished = call(plot_verb.main, *here, *ann, *options)
        assert finished.code == 0, finished.err
        assert "hnswlib@ann-benchmarks" in finished.out and (tmp_path / "figure.png").stat().st_size > 3000
    finished = call(plot_verb.main, *here)
    assert finished.code == 2 and "mode batch (4 points), single (8 points)" in finished.err
    assert call(plot_verb.main, *here, "--mix").code == 0
    assert call(plot_verb.main, *here, "--mode", "batch").code == 0
    assert call(plot_verb.main, *here, "--mode", "single").code == 0  # recall of two harnesses
    finished = call(plot_verb.main, *here, "--mode", "single", "--metric", "qps")  # but not speed
    assert finished.code == 2 and "unknown, of ann-benchmarks (4 points), unknown, of vibe (4 points)" in finished.err


def test_imported_speed_is_not_mixed_with_ours(imports, tmp_path, data, vectors):
    where = ["--results-dir", tmp_path / "results"]
    ours = [*data, "--algorithm", "toy", "--k", K, "--set", "toy.drop=0.0", *where, "--threads", 1]
    assert run(*ours).code == 0
    assert imports(write_big(tmp_path / "a.hdf5", worse_ids(exact_ids(*vectors)))).code == 0
    here = [*where, "--out", tmp_path / "figure.png"]
    finished = call(plot_verb.main, *here, "--metric", "qps")
    assert finished.code == 2 and "--mix" in finished.err and "1 points are imported" in finished.err
    assert "runner imported (1 points), venv (1 points)" in finished.err
    finished = call(plot_verb.main, *here, "--metric", "qps", "--mix")
    assert finished.code == 0 and "diskann@big-ann" in finished.out and "toy" in finished.out
    assert "tiny" in call(list_verb.main, "results", *where).out
    rows = json.loads(export(*where, "--format", "json").out)
    assert [(row["threads"], row["seed"]) for row in rows] == [(None, None), (1, 0)]


def test_exports_of_imported_points(imports, mixed, tmp_path, vectors):
    imports(mixed)
    where = ["--results-dir", tmp_path / "results"]
    rows = json.loads(export(*where, "--format", "json").out)
    truth = exact_ids(*vectors)
    expected = sorted(numpy_robustness(worse_ids(truth, seed), truth, "0.7") for seed in range(4) for _ in range(3))
    assert sorted(row["robustness-0.7"] for row in rows) == expected
    row = next(row for row in rows if row["imported_from"] == "vibe")
    assert row["imported_file"] == "vibe/tiny/10/glass/R_32.hdf5" and row["runner"] == "imported" and row["notes"]
    assert row["threads"] is row["seed"] is row["cpu"] is row["index_bytes"] is None
    lines = list(csv.DictReader(export(*where, "--format", "csv").out.splitlines()))
    assert {line["threads"] for line in lines} == {""} and json.loads(lines[0]["notes"])
    assert export(*where, "--out", tmp_path / "t.parquet").code == 0
    assert pd.read_parquet(tmp_path / "t.parquet")["seed"].isna().all()
    described = export("--columns").out
    assert all(f"\n{name}: " in described for name in ("imported_from", "imported_file", "notes"))


def test_counts_without_ids_stand_apart(imports, tmp_path, vectors):
    recall = (np.arange(NQ) % (K + 1)) / K
    write_detail(tmp_path / "theirs/tiny__detail.parquet", {"32": recall, "64": np.ones(NQ)})
    write_qdrant(tmp_path / "theirs/x-search-0.json", recall)
    write_qdrant(tmp_path / "theirs/x-search-1.json")
    finished = imports(tmp_path / "theirs")
    assert finished.code == 1 and "3 operating points imported (1 of qdrant, 2 of vibe-parquet)" in finished.out
    assert "x-search-1.json" in finished.err and "averages only" in finished.err
    where = ["--results-dir", tmp_path / "results"]
    rows = json.loads(export(*where, "--format", "json").out)
    assert {row["truth"] for row in rows} == {"theirs-qdrant", "theirs-vibe-parquet"}
    assert all(row["recall_tied"] is None for row in rows)
    assert sorted(row["robustness-0.5"] for row in rows) == [np.mean(recall >= 0.5)] * 2 + [1]
    finished = call(plot_verb.main, *where, "--out", tmp_path / "figure.png")
    assert finished.code == 2 and "truth" in finished.err
    assert call(plot_verb.main, *where, "--out", tmp_path / "f.png", "--algorithm", "glass@vibe-parquet").code == 0


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_export_to_ann_benchmarks_and_back(imports, tmp_path, data, mode):
    where = ["--results-dir", tmp_path / "ours"]
    options = [*data, "--algorithm", "toy", "--k", K, "--mode", mode, "--threads", 1, "--set", "toy.drop=0.0,0.3,1.0"]
    assert run(*options, *where).code == 0
    if mode == "batch":
        assert run(*options[:-1], "toy.failure=raise", *where).code == 1
    finished = export(*where, "--format", "ann-benchmarks", "--out", tmp_path / "theirs")
    assert finished.code == 0 and "3 operating points" in finished.err
    assert ("2 that failed" in finished.err) == (mode == "batch")
    files = sorted((tmp_path / "theirs").rglob("*.hdf5"))
    ours = [result for result in read_results(tmp_path / "ours") if result.ok]
    assert len(files) == len(ours) == 3
    folder = tmp_path / "theirs" / "tiny" / str(K) / ("toy-batch" if mode == "batch" else "toy")
    assert {path.parent for path in files} == {folder}
    for path in files:
        with h5py.File(path) as file:
            kinds = {name: (array.dtype.str, array.shape) for name, array in file.items()}
            assert kinds == {"times": ("<f4", (NQ,)), "neighbors": ("<i4", (NQ, K)), "distances": ("<f4", (NQ, K))}
            stated = dict(file.attrs)
            assert np.isinf(file["distances"][...][file["neighbors"][...] == -1]).all()
        assert set(stated) == {
            *("batch_mode", "best_search_time", "candidates", "expect_extra", "name", "run_count", "distance", "count"),
            *("build_time", "index_size", "algo", "dataset"),
        }
        assert stated["batch_mode"] == (mode == "batch") and stated["count"] == K and stated["distance"] == "euclidean"
        best = min(result.search_seconds.min() for result in ours) / NQ
        assert stated["best_search_time"] >= best * 0.999
    finished = imports(tmp_path / "theirs")
    assert finished.code == 0, finished.err
    back = read_results(tmp_path / "results")
    assert sorted(result.hits.tolist() for result in back) == sorted(result.hits.tolist() for result in ours)
    assert sorted(result.hits_tied.tolist() for result in back) == sorted(result.hits_tied.tolist() for result in ours)
    assert {result.identity.mode for result in back} == {mode} and {result.identity.distance for result in back} == {
        "l2"
    }
    for name in ("neighbors", "distances"):
        assert {result.array(name).tobytes() for result in back} == {result.array(name).tobytes() for result in ours}
    first = [result.search_seconds[0] if mode == "batch" else result.latency[0].astype(float).sum() for result in ours]
    assert sorted(result.search_seconds[0] for result in back) == pytest.approx(sorted(first), rel=1e-6)
    best = sorted(result.search_seconds.min() for result in ours)
    assert sorted(result.record.best_search_seconds for result in back) == pytest.approx(best, rel=1e-6)


def test_export_to_ann_benchmarks_needs_a_folder(tmp_path):
    (tmp_path / "file").touch()
    for options, said in (
        ((), "--out DIR"),
        (("--out", tmp_path / "file"), "--out DIR"),
        (("--out", tmp_path / "x", "--metric", "recall"), "no columns"),
    ):
        finished = export("--format", "ann-benchmarks", "--results-dir", tmp_path, *options)
        assert finished.code == 2 and said in finished.err and len(finished.err.splitlines()) == 1


def test_ctrl_c_keeps_what_is_imported(tmp_path):
    base, queries = gaussian(2000, 8), gaussian(500, 8, seed=1)
    data = write_data(tmp_path / "vectors", base, queries)
    ids = np.random.default_rng(0).integers(0, 2000, (500, 50)).astype(np.int32)
    for number in range(60):
        write_big(tmp_path / "theirs" / f"{number}.hdf5", np.roll(ids, number, axis=0))
    command = ("import", tmp_path / "theirs", *data, "--results-dir", tmp_path / "results")
    process = start(*command, script=("-m", "benchmarks"))
    wait_for(lambda: len(list((tmp_path / "results").glob("tiny/*/*.hdf5"))) >= 3 or process.poll() is not None, 150)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130 and "what is imported is kept" in stopped.err and "Traceback" not in stopped.err
    kept = len(read_results(tmp_path / "results"))
    assert 3 <= kept < 60
    again = finish(start(*command, script=("-m", "benchmarks")), timeout=120)
    assert again.code == 0 and f"{60 - kept} operating points imported (" in again.out, again.err
    assert f"{kept} were there already" in again.out and "looking at 60 files" in again.err
    assert len(read_results(tmp_path / "results")) == 60


def test_a_format_that_a_file_is_plainly_not_of_is_refused(tmp_path, vectors, imports):
    """Both harnesses write best_search_time, one of a query and one of a pass."""
    ids = worse_ids(exact_ids(*vectors), 1)
    write_ann(tmp_path / "ann/tiny/10/hnswlib/x.hdf5", ids, told_distances(ids, *vectors))
    write_big(tmp_path / "big/tiny/10/diskann/x.hdf5", ids)
    for folder, said, truly in (("ann", "big-ann", "ann-benchmarks"), ("big", "ann-benchmarks", "big-ann")):
        done = imports(tmp_path / folder, "--from", said)
        assert done.code == 2 and f"is a file of {truly}" in done.err
        assert imports(tmp_path / folder, "--from", truly).code == 0


def test_two_runs_of_one_setting_elsewhere_are_compared_and_need_no_times(tmp_path, vectors, imports):
    """Their seeds are unknown, and one of them was not timed."""
    truth = exact_ids(*vectors)
    for seed in range(2):
        ids = worse_ids(truth, seed)
        path = write_ann(tmp_path / f"{seed}/tiny/10/hnswlib/x.hdf5", ids, told_distances(ids, *vectors))
    with h5py.File(path, "r+") as file:
        del file["times"]
    assert imports(tmp_path / "0", tmp_path / "1").code == 0
    results = tmp_path / "results"
    assert call(compare_verb.main, results, results, "--metric", "recall").code == 0
    done = call(headroom_verb.main, "--results-dir", results)
    assert done.code == 2 and "1 imported points have no times" in done.err and "error: no build" in done.err
