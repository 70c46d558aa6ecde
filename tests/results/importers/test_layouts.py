"""Each layout: what is read of a whole file, of older variants, and of damaged ones."""

import json
import os
import signal
import time

import h5py
import numpy as np
import pandas as pd
import pytest

from benchmarks.errors import UserError
from benchmarks.results.crashes import require_harmless
from benchmarks.results.importers import Options, files_below, find_formats, format_of_file, require_readable
from tests.results.importers.layouts import (
    NQ,
    K,
    exact_ids,
    make_times,
    told_distances,
    worse_ids,
    write_ann,
    write_big,
    write_detail,
    write_qdrant,
    write_vibe,
)

OPTIONS = Options(nq=NQ)
FORMATS = find_formats()


@pytest.fixture(scope="module")
def ids(vectors):
    return worse_ids(exact_ids(*vectors))


def read(path, name, options=OPTIONS):
    """The only point of a file."""
    (part,) = FORMATS[name].parts(path)
    return FORMATS[name].read(path, part.name, options)


def test_every_format_is_found_and_recognises_its_own(tmp_path, ids):
    recall = np.full(NQ, 0.5)
    files = {
        "ann-benchmarks": write_ann(tmp_path / "a.hdf5", ids),
        "vibe": write_vibe(tmp_path / "v.hdf5", {"64": ids}),
        "big-ann": write_big(tmp_path / "b.hdf5", ids),
        "vibe-parquet": write_detail(tmp_path / "d.parquet", {"64": recall}),
        "qdrant": write_qdrant(tmp_path / "q.json", recall),
    }
    assert set(FORMATS) == set(files)
    for name, path in files.items():
        assert name == format_of_file(path).NAME
        assert [part.dataset for part in FORMATS[name].parts(path)] == ["tiny"]


def test_what_is_no_result_is_not_recognised(tmp_path, ids):
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        file["train"] = file["test"] = file["distances"] = np.zeros((5, 2), np.float32)
        file["neighbors"] = np.zeros((5, 2), np.int32)
        file.attrs["distance"] = "euclidean"
    (tmp_path / "config.json").write_text('{"params": 1}')
    (tmp_path / "list.json").write_text("[1]")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    for name in ("data.hdf5", "config.json", "list.json", "other.parquet"):
        assert format_of_file(tmp_path / name) is None


def test_ann_benchmarks(tmp_path, ids, vectors):
    times = make_times(seed=3)
    point = read(write_ann(tmp_path / "M_16_40.hdf5", ids, told_distances(ids, *vectors), times), "ann-benchmarks")
    assert (point.algorithm, point.k, point.mode, point.distance) == ("hnswlib", K, "single", "euclidean")
    assert point.search_params == {"M": 16, "efConstruction": 500, "run": "M_16_40"} and point.build_params == {}
    np.testing.assert_array_equal(point.neighbors, ids)
    np.testing.assert_array_equal(point.latency, times[None])
    total = times.astype(np.float64).sum()
    assert point.search_seconds == pytest.approx([total])  # of the last run, whose ids these are
    assert point.best_search_seconds == pytest.approx(0.9 * total, rel=1e-6)  # a mean in the file, a total here
    assert point.build_seconds == 12.5 and point.attributes["dist_comps"] == 12345


def test_vibe(tmp_path, ids):
    path = write_vibe(tmp_path / "R_32.hdf5", {"32": ids, "64": ids[:, ::-1]})
    assert [part.name for part in FORMATS["vibe"].parts(path)] == ["32", "64"]
    point = FORMATS["vibe"].read(path, "64", OPTIONS)
    assert point.build_params == {"index": "R_32"} and point.search_params == {"R": 32, "run": "64"}
    np.testing.assert_array_equal(point.neighbors, ids[:, ::-1])
    total = make_times(seed=1).astype(np.float64).sum()
    assert point.search_seconds == pytest.approx([total])
    assert point.best_search_seconds == pytest.approx(0.9 * total, rel=1e-6)


def test_vibe_without_best_qps_is_older(tmp_path, ids):
    new = read(write_vibe(tmp_path / "a.hdf5", {"32": ids}), "vibe")
    old = read(write_vibe(tmp_path / "b.hdf5", {"32": ids}, leave_out=("best_qps", "gpu_mode")), "vibe")
    assert old.best_search_seconds == pytest.approx(new.best_search_seconds) and old.mode == "single"


def test_vibe_on_a_gpu_is_a_batch(tmp_path, ids):
    point = read(write_vibe(tmp_path / "a.hdf5", {"32": ids}, gpu_mode=True, best_qps=4000.0), "vibe")
    assert point.mode == "batch" and point.latency is None and point.search_seconds is None
    assert any("wall time is not known" in note for note in point.notes)


def test_big_ann(tmp_path, ids):
    point = read(write_big(tmp_path / "L_40.hdf5", ids), "big-ann")
    assert (point.algorithm, point.k, point.mode) == ("diskann", K, "batch")
    np.testing.assert_array_equal(point.neighbors, ids)
    assert point.search_seconds.tolist() == [0.9, 0.5, 0.6, 0.8, 0.7] and point.best_search_seconds is None
    assert point.build_seconds is None and point.hits is None  # the index was loaded; its cached counts are not used
    assert point.search_params == {"L": 40, "run": "L_40"}


def test_big_ann_of_2021_knows_the_fastest_run_alone(tmp_path, ids):
    path = write_big(tmp_path / "a.hdf5", ids, leave_out=("search_times", "type", "private_queries", "run_count"))
    assert format_of_file(path).NAME == "big-ann"
    point = read(path, "big-ann")
    assert point.search_seconds is None and point.best_search_seconds == 0.5


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"type": "range"}, "range"),
        ({"type": "knn_filtered"}, "knn_filtered"),
        ({"private_queries": True}, "private"),
        ({"count": "ten"}, "count"),
        ({"count": 0}, "count"),
    ],
)
def test_big_ann_of_another_question_is_refused(tmp_path, ids, refusal, attributes, said):
    assert said in refusal(read, write_big(tmp_path / "a.hdf5", ids, **attributes), "big-ann")


def test_streaming_is_refused(tmp_path, ids, refusal):
    path = write_big(tmp_path / "a.hdf5", ids, leave_out=("neighbors",), num_searches=1, step_0=3)
    with h5py.File(path, "a") as file:
        file["neighbors_step3"] = ids
    assert "streaming" in refusal(read, path, "big-ann")


def test_attributes_are_bytes_in_old_files(tmp_path, ids):
    as_bytes = {"name": b"annoy(n_trees=100)", "algo": np.bytes_("annoy"), "dataset": b"tiny", "distance": b"euclidean"}
    path = write_ann(tmp_path / "a.hdf5", ids, **as_bytes)
    assert FORMATS["ann-benchmarks"].parts(path)[0].dataset == "tiny"
    point = read(path, "ann-benchmarks")
    assert (point.algorithm, point.distance) == ("annoy", "euclidean") and point.search_params["n_trees"] == 100
    assert point.attributes["algo"] == "annoy"


def test_what_the_attributes_do_not_say_the_folders_do(tmp_path, ids):
    path = tmp_path / "results" / "tiny" / "10" / "annoy" / "a_100.hdf5"
    write_ann(path, ids, leave_out=("algo", "dataset", "count", "batch_mode", "run_count", "distance"))
    assert format_of_file(path).NAME == "ann-benchmarks" and FORMATS["ann-benchmarks"].parts(path)[0].dataset == "tiny"
    point = read(path, "ann-benchmarks")
    assert (point.algorithm, point.k, point.mode, point.distance) == ("annoy", K, "single", None)


def test_attributes_that_json_has_not(tmp_path, ids):
    odd = {"a": np.nan, "b": np.inf, "c": np.float32(1.5), "d": np.arange(3), "e": h5py.Empty("f"), "f": b"\xff\xfe"}
    odd |= {"g": np.array(["x", "y"], dtype=object), "h": "x" * 5000, "i": np.uint64(2**63), "j": np.array([7])}
    found = read(write_ann(tmp_path / "a.hdf5", ids, **odd), "ann-benchmarks").attributes
    assert (found["a"], found["b"], found["c"], found["d"], found["i"]) == ("nan", "inf", 1.5, "[0, 1, 2]", 2**63)
    assert "e" not in found and len(found["h"]) == 1000 and json.loads(found["g"]) == ["x", "y"] and found["j"] == 7
    json.dumps(found, allow_nan=False).encode()


def test_speed_of_a_batch(tmp_path, ids):
    even = np.full(NQ, 0.001, np.float32)
    point = read(write_ann(tmp_path / "a.hdf5", ids, times=even, batch_mode=True), "ann-benchmarks")
    assert point.mode == "batch" and point.latency is None and point.search_seconds == pytest.approx([0.04])
    point = read(write_ann(tmp_path / "b.hdf5", ids, batch_mode=True), "ann-benchmarks")
    assert point.search_seconds is None and point.best_search_seconds is None  # 1 / mean latency is no QPS


@pytest.mark.parametrize("times", [np.zeros(NQ), np.full(NQ, np.nan), np.full(NQ, -1.0), np.ones(NQ - 1)])
def test_times_that_are_none(tmp_path, ids, times):
    point = read(write_ann(tmp_path / "a.hdf5", ids, times=times, best_search_time=0.002), "ann-benchmarks")
    assert point.search_seconds is None and point.latency is None
    assert point.best_search_seconds == pytest.approx(0.002 * NQ)


def test_a_fastest_run_that_is_slower_than_the_last_is_left_out(tmp_path, ids):
    point = read(write_ann(tmp_path / "a.hdf5", ids, best_search_time=99.0), "ann-benchmarks")
    assert point.best_search_seconds is None and any("left out" in note for note in point.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.pop("neighbors"), "no array 'neighbors'"),
        (lambda file: (file.pop("neighbors"), file.create_group("neighbors")), "no array 'neighbors'"),
        (lambda file: (file.pop("neighbors"), file.create_dataset("neighbors", data=np.zeros((NQ, K)))), "float64"),
        (lambda file: (file.pop("neighbors"), file.create_dataset("neighbors", data=np.zeros(NQ, "i"))), "shape (40,)"),
        (
            lambda file: (file.pop("neighbors"), file.create_dataset("neighbors", data=np.zeros((7, K), "i"))),
            "7 queries",
        ),
        (lambda file: (file.pop("neighbors"), file.create_dataset("neighbors", data=h5py.Empty("i"))), "shape"),
    ],
)
@pytest.mark.parametrize("name", ["ann-benchmarks", "big-ann", "vibe"])
def test_damaged_arrays_are_refused(tmp_path, ids, refusal, name, change, said):
    write = {"ann-benchmarks": write_ann, "big-ann": write_big, "vibe": lambda path, ids: write_vibe(path, {"32": ids})}
    path = write[name](tmp_path / "a.hdf5", ids)
    with h5py.File(path, "a") as file:
        change(file["32"] if name == "vibe" else file)
    assert said in refusal(read, path, name)


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.9])
def test_cut_files_are_refused(tmp_path, ids, refusal, share):
    path = write_ann(tmp_path / "a.hdf5", ids)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "may be truncated" in refusal(format_of_file, path)
    assert "may be truncated" in refusal(FORMATS["vibe"].parts, path)


def test_vibe_parquet(tmp_path):
    hits = np.arange(NQ) % (K + 1)
    path = write_detail(tmp_path / "tiny__detail.parquet", {"32": hits / K, "64": np.ones(NQ)})
    parts = FORMATS["vibe-parquet"].parts(path)
    assert len(parts) == 2 and {part.dataset for part in parts} == {"tiny"}
    point = FORMATS["vibe-parquet"].read(path, parts[0].name, OPTIONS)
    assert point.hits.dtype == np.uint16 and point.hits.tolist() == hits.tolist() and point.neighbors is None
    assert (point.k, point.mode, point.algorithm, point.build_seconds) == (K, "single", "glass", 3.5)
    assert point.search_params == {"R": 32, "run": "32"} and point.best_search_seconds is None
    assert point.search_seconds == pytest.approx([make_times().astype(float).sum()])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"recall": np.full(NQ, 0.55)}, "no multiples of 1/10"),
        ({"recall": np.full(NQ, 1.1)}, "no multiples of 1/10"),
        ({"recall": np.full(NQ, np.nan)}, "no multiples of 1/10"),
        ({"query_index": np.zeros(NQ, int)}, "one row for each query"),
    ],
)
def test_vibe_parquet_that_contradicts_itself(tmp_path, refusal, columns, said):
    path = write_detail(tmp_path / "d.parquet", {"32": np.ones(NQ)}, **columns)
    assert said in refusal(read, path, "vibe-parquet")


def test_averages_alone_are_refused(tmp_path, refusal):
    summary = {"k": [10], "dataset": "tiny", "algorithm": "glass", "params": "x|y", "qps": 9.0, "recall": 0.9}
    pd.DataFrame(summary).to_parquet(tmp_path / "summary.parquet")
    assert format_of_file(tmp_path / "summary.parquet").NAME == "vibe-parquet"
    assert "averages only" in refusal(FORMATS["vibe-parquet"].parts, tmp_path / "summary.parquet")
    assert "averages only" in refusal(read, write_qdrant(tmp_path / "q.json"), "qdrant")


def test_a_parquet_file_that_is_cut(tmp_path, refusal):
    path = write_detail(tmp_path / "d.parquet", {"32": np.ones(NQ)})
    path.write_bytes(path.read_bytes()[:-100])
    assert "not a readable Parquet file" in refusal(format_of_file, path)


def test_qdrant(tmp_path):
    hits = np.arange(NQ) % (K + 1)
    point = read(write_qdrant(tmp_path / "q.json", hits / K), "qdrant")
    assert point.hits.tolist() == hits.tolist() and point.neighbors is None and point.k == K and point.mode == "single"
    assert point.search_params == {"experiment": "qdrant-m-16", "parallel": 1, "top": 10, "config.hnsw_ef": 64}
    assert point.search_seconds == [0.25] and point.latency.shape == (1, NQ)
    assert point.attributes["mean_precisions"] == 0.9 and "precisions" not in point.attributes


def test_qdrant_needs_k_and_the_order_of_the_queries(tmp_path, refusal):
    path = write_qdrant(tmp_path / "q.json", np.ones(NQ), leave_out=["top"])
    assert "--k" in refusal(read, path, "qdrant")
    assert read(path, "qdrant", Options(NQ, k=5)).hits.tolist() == [5] * NQ
    assert "100 clients" in refusal(read, write_qdrant(tmp_path / "p.json", np.ones(NQ), parallel=100), "qdrant")
    assert "no multiples of 1/10" in refusal(read, write_qdrant(tmp_path / "r.json", np.full(NQ, 0.99)), "qdrant")
    assert "3 queries" in refusal(read, write_qdrant(tmp_path / "s.json", np.ones(3)), "qdrant")


def test_an_upload_is_no_result_and_nonsense_is_a_line(tmp_path, refusal):
    upload = {"params": {"engine": "qdrant", "dataset": "tiny"}, "results": {"upload_time": 3.0, "total_time": 4.0}}
    (tmp_path / "u.json").write_text(json.dumps(upload))
    assert FORMATS["qdrant"].parts(tmp_path / "u.json") == []
    for content in (b"{", b"\xff\xfe\x00", b"[" * 100_000):
        (tmp_path / "bad.json").write_bytes(content)
        assert "not readable JSON" in refusal(format_of_file, tmp_path / "bad.json")


def test_files_below(tmp_path, ids, refusal):
    for name in ("b/c.hdf5", "a.HDF5", ".hidden/x.hdf5", "b/readme.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "a.hdf5.complete").mkdir()
    assert files_below(tmp_path, {".hdf5"}) == [tmp_path / "a.HDF5", tmp_path / "b" / "c.hdf5"]
    assert files_below(tmp_path / "b" / "readme.txt", {".hdf5"}) == [tmp_path / "b" / "readme.txt"]
    assert "no such file" in refusal(files_below, tmp_path / "absent", {".hdf5"})
    assert "that end in .json" in refusal(files_below, tmp_path, {".json"})


def test_bytes_that_crash_the_library_are_a_line(tmp_path, ids, refusal):
    """A few wrong bytes can end a process that opens an HDF5 file; it is another process that they end."""
    path = write_ann(tmp_path / "a.hdf5", ids)
    require_readable(path)  # nothing is said of a good one
    require_harmless(lambda: 1 / 0, 5)  # what raises is no crash: it raises again when it is done in earnest
    with pytest.raises(UserError, match=r"crashes \(SIGSEGV\)"):
        require_harmless(lambda: os.kill(os.getpid(), signal.SIGSEGV), 5)
    with pytest.raises(UserError, match="no end in 1 s"):
        require_harmless(lambda: time.sleep(30), 1)
    content, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(25):
        damaged = bytearray(content)
        for place in random.integers(0, 2500, 10):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            require_readable(path)
            module = format_of_file(path) or FORMATS["ann-benchmarks"]
            for part in module.parts(path):
                module.read(path, part.name, OPTIONS)
        except UserError as error:
            assert len(str(error).splitlines()) == 1
