"""From files to results: the numbers are those of the raw ids, whoever wrote them."""

import json
from hashlib import sha256

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.metrics.registry import definitions, parse_metric
from benchmarks.results.importers import Options, find_formats
from benchmarks.results.importing import SourceFile, fitted, import_point, marked_name, same_vectors
from benchmarks.results.store import Missing, Store
from tests.factories import make_result
from tests.results.importers.layouts import (
    NQ,
    K,
    N,
    all_distances,
    exact_ids,
    make_times,
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

DELTAS = ("0.1", "0.3", "0.5", "0.6", "0.7", "0.9", "1")
WITH_IDS = {
    "ann-benchmarks": lambda path, ids, **more: write_ann(path, ids, **more),
    "vibe": lambda path, ids, distances=None, **more: write_vibe(
        path, {"64": ids}, distances=None if distances is None else {"64": distances}, **more
    ),
    "big-ann": lambda path, ids, distances=None, **more: write_big(path, ids, **more),
}


def import_file(path, name, target, **options):
    """Import every point of a file; the outcomes."""
    module = find_formats()[name]
    options = Options(target.dataset.nq, **options)
    return [
        import_point(module.read(path, part.name, options), SourceFile(path.name, "0" * 64, part.name), target)
        for part in module.parts(path)
    ]


def import_one(path, name, target, **options):
    """The result of a file with one point, read back."""
    (outcome,) = import_file(path, name, target, **options)
    return target.store.read(target.store.path(outcome.record.identity))


@pytest.mark.parametrize("name", WITH_IDS)
@pytest.mark.parametrize("seed", range(3))
def test_robustness_is_that_of_the_raw_ids(tmp_path, target, vectors, name, seed):
    truth = exact_ids(*vectors)
    ids = worse_ids(truth, seed)
    path = WITH_IDS[name](tmp_path / "a.hdf5", ids, distances=told_distances(ids, *vectors))
    result = import_one(path, name, target)
    assert result.ok and result.hits.tolist() == numpy_hits(ids, truth).tolist()
    for delta in DELTAS:
        assert parse_metric(f"robustness-{delta}").compute(result).value == numpy_robustness(ids, truth, delta)
    assert parse_metric("recall").compute(result).value == pytest.approx(numpy_hits(ids, truth).mean() / K, abs=1e-12)
    assert result.record.missing_ids == (ids < 0).sum() and result.record.repeated_ids >= 3


@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
def test_any_distance_with_those_that_are_told(tmp_path, make_dataset, make_target, vectors, distance):
    target = make_target(make_dataset(*vectors, distance))
    truth = exact_ids(*vectors, distance=distance)
    ids = worse_ids(truth)
    stated = {"l2": "euclidean", "ip": "ip", "cosine": "cosine"}[distance]
    told = told_distances(ids, *vectors, distance)
    path = write_vibe(tmp_path / "a.hdf5", {"64": ids}, distances={"64": told}, distance=stated)
    result = import_one(path, "vibe", target)
    assert result.hits.tolist() == numpy_hits(ids, truth).tolist()
    assert "its distances agree with those of the vectors here" in result.record.provenance.imported.notes
    every = all_distances(*vectors, distance)
    rows, places = np.nonzero(result.neighbors >= 0)
    np.testing.assert_allclose(
        result.distances[rows, places], every[rows, result.neighbors[rows, places]], rtol=1e-6, atol=1e-6
    )


@given(seed=st.integers(0, 10**6), width=st.integers(1, 14), k=st.integers(1, 12), share=st.floats(0, 1))
@settings(max_examples=40)
def test_any_ids_give_the_numbers_of_numpy(tmp_path_factory, target_of_laws, vectors, seed, width, k, share):
    """Ids at random, too few, too many, twice and -1, with a K that is another than their number."""
    rng = np.random.default_rng(seed)
    truth = exact_ids(*vectors, k=k)
    ids = rng.integers(-1, N, (NQ, width)).astype(np.int32)
    copied = min(k, width)
    ids[:, :copied] = np.where(rng.random((NQ, copied)) < share, truth[:, :copied], ids[:, :copied])
    path = write_big(tmp_path_factory.mktemp("law") / f"run_{seed}.hdf5", ids, count=k)
    result = import_one(path, "big-ann", target_of_laws)
    expected = numpy_hits(ids[:, :k], truth)
    assert result.identity.k == k and result.hits.tolist() == expected.tolist()
    for delta in DELTAS:
        found = parse_metric(f"robustness-{delta}").compute(result).value
        assert found == numpy_robustness(ids, truth, delta, k)
    if width != k:
        assert any("are stored where" in note for note in result.record.provenance.imported.notes)


@pytest.fixture(scope="module")
def target_of_laws(make_target, dataset):
    return make_target(dataset)


def test_the_record_says_what_it_is(tmp_path, target, vectors, dataset):
    ids = exact_ids(*vectors)
    result = import_one(write_ann(tmp_path / "M_16.hdf5", ids, told_distances(ids, *vectors)), "ann-benchmarks", target)
    identity, provenance = result.identity, result.record.provenance
    assert identity.algorithm == "hnswlib@ann-benchmarks" and provenance.runner == "imported"
    assert identity.seed is None and identity.threads is None and provenance.machine is None
    assert identity.base_sha256 == dataset.base_check.sha256 and result.record.truth == target.truth_for(K).key
    assert provenance.imported.file == "M_16.hdf5" and provenance.imported.attributes["index_size"] == 4096.0
    assert result.record.index_bytes is None and result.record.build_seconds == 12.5  # theirs is growth of memory
    assert result.truth.ids.tolist() == ids.tolist()


def test_qps_is_of_the_last_run_and_qps_best_of_the_best(tmp_path, target, vectors):
    ids, times = exact_ids(*vectors), make_times()
    total = times.astype(np.float64).sum()
    path = write_ann(tmp_path / "a.hdf5", ids, told_distances(ids, *vectors), times, best_search_time=total / NQ / 2)
    result = import_one(path, "ann-benchmarks", target)
    assert parse_metric("qps").compute(result).value == pytest.approx(NQ / total)
    assert parse_metric("qps-best").compute(result).value == pytest.approx(2 * NQ / total)
    assert parse_metric("latency-p50").compute(result).value == pytest.approx(np.median(times) * 1e3, rel=1e-6)


def test_qps_of_big_ann_is_the_median_of_all_runs(tmp_path, target, vectors):
    result = import_one(write_big(tmp_path / "a.hdf5", exact_ids(*vectors)), "big-ann", target)
    qps = parse_metric("qps").compute(result)
    assert (qps.value, qps.low, qps.high) == pytest.approx((NQ / 0.7, NQ / 0.9, NQ / 0.5)) and qps.n == 5
    assert parse_metric("qps-best").compute(result).value == pytest.approx(NQ / 0.5)
    assert parse_metric("latency-p99").compute(result) is None


def test_without_times_only_the_best_is_known(tmp_path, target, vectors):
    path = write_ann(tmp_path / "a.hdf5", exact_ids(*vectors), leave_out=("times", "distances"))
    result = import_one(path, "ann-benchmarks", target)
    for name in ("qps", "latency-p50"):
        assert parse_metric(name).compute(result) is None
    assert parse_metric("qps-best").compute(result).value == pytest.approx(1 / (make_times().mean() * 0.9), rel=1e-6)


def test_no_metric_fails_on_what_is_not_known(tmp_path, target, vectors):
    ids = exact_ids(*vectors)
    bare = import_one(
        write_big(tmp_path / "a.hdf5", ids, leave_out=("search_times", "best_search_time", "build_time")),
        "big-ann",
        target,
    )
    counted = import_one(write_qdrant(tmp_path / "q.json", np.ones(NQ)), "qdrant", target)
    values = {"delta": "0.5", "percentile": "50"}
    for definition in definitions():
        name = definition.template
        for argument in definition.arguments:
            name = name.replace("{" + argument + "}", values.get(argument, "5"))
        metric = parse_metric(name)
        for result in (bare, counted):
            metric.compute(result)
            metric.per_query(result)
    assert parse_metric("qps-best").compute(bare) is None and parse_metric("recall_tied").compute(counted) is None
    with pytest.raises(Missing):
        counted.array("neighbors")


@pytest.mark.parametrize("bad", [N, 2**31 - 1, -2])
def test_an_id_that_is_no_row_makes_the_point_invalid(tmp_path, target, vectors, bad):
    ids = exact_ids(*vectors)
    ids[3, 4] = bad
    result = import_one(write_big(tmp_path / "a.hdf5", ids), "big-ann", target)
    assert result.record.status == "invalid" and f"{bad}, of query 3" in result.record.reason
    assert parse_metric("recall").compute(result) is None
    assert not import_file(tmp_path / "a.hdf5", "big-ann", target)[0].new


def test_the_same_file_twice_is_one_result_and_is_not_written_again(tmp_path, target, vectors):
    path = write_vibe(
        tmp_path / "a.hdf5", {"32": worse_ids(exact_ids(*vectors)), "64": exact_ids(*vectors)}, leave_out=["distances"]
    )
    assert [outcome.new for outcome in import_file(path, "vibe", target)] == [True, True]
    before = {file: file.stat().st_mtime_ns for file in target.store.files()}
    with h5py.File(path, "a") as file:  # what plotting scripts do: they keep what they count in the file
        file["32"]["more"] = np.zeros(3)
    assert [outcome.new for outcome in import_file(path, "vibe", target)] == [False, False]
    assert {file: file.stat().st_mtime_ns for file in target.store.files()} == before and len(before) == 2


def test_a_damaged_result_is_imported_again(tmp_path, target, vectors):
    path = write_big(tmp_path / "a.hdf5", exact_ids(*vectors))
    import_file(path, "big-ann", target)
    (file,) = target.store.files()
    file.write_bytes(file.read_bytes()[:500])
    assert import_file(path, "big-ann", target)[0].new and target.store.read(file).ok


def test_files_of_one_name_do_not_meet(tmp_path, target, vectors):
    """Long parameters are cut and unlike ones become equal names over there: the content tells them apart here."""
    truth = exact_ids(*vectors)
    for seed in range(3):
        import_file(write_big(tmp_path / str(seed) / "same.hdf5", worse_ids(truth, seed)), "big-ann", target)
    assert len(target.store.files()) == 3


def test_other_vectors_are_noticed_by_their_distances(tmp_path, target, vectors, refusal):
    ids = exact_ids(*vectors)
    shifted = (ids + 1) % N  # numbered from 1
    for told in (told_distances(shifted, *vectors), told_distances(ids, vectors[0] * 3, vectors[1])):
        path = write_ann(tmp_path / "a.hdf5", ids, told)
        assert "numbered otherwise" in refusal(import_file, path, "ann-benchmarks", target)
    assert target.store.files() == []


@pytest.mark.parametrize("stated", ["angular", "ip", "hamming", "jaccard"])
def test_another_distance_is_refused(tmp_path, target, vectors, refusal, stated):
    path = write_big(tmp_path / "a.hdf5", exact_ids(*vectors), distance=stated)
    assert f"'{stated}'" in refusal(import_file, path, "big-ann", target)


@pytest.mark.parametrize("stated", ["eculidean", "normalized", ""])
def test_an_unknown_or_fitting_distance_passes(tmp_path, target, vectors, stated):
    assert import_one(write_big(tmp_path / "a.hdf5", exact_ids(*vectors), distance=stated), "big-ann", target).ok


def test_counts_of_others_are_never_under_our_truth(tmp_path, target, vectors):
    hits = np.arange(NQ) % (K + 1)
    parquet = import_one(write_detail(tmp_path / "d.parquet", {"32": hits / K}), "vibe-parquet", target)
    detailed = import_one(write_qdrant(tmp_path / "q.json", hits / K), "qdrant", target)
    assert (parquet.record.truth, detailed.record.truth) == ("theirs-vibe-parquet", "theirs-qdrant")
    for result in (parquet, detailed):
        assert result.hits.tolist() == hits.tolist() and not result.record.provenance.imported.recounted
        assert parse_metric("robustness-0.5").compute(result).value == (hits >= 5).mean()
        assert result.truth is None


def test_ids_are_cut_or_filled_up():
    ids = np.array([[3, 2**32 - 1]], np.uint32)
    assert fitted(ids, 1).tolist() == [[3]] and fitted(ids, 3).tolist() == [[3, 2**32 - 1, -1]]
    assert fitted(np.array([[2**64 - 1]], np.uint64), 1).tolist() == [[2**63 - 1]]


def test_names_cannot_be_mistaken_for_ours():
    assert marked_name("faiss-hnsw", "vibe") == "faiss-hnsw@vibe"
    assert marked_name("../a b/ü", "vibe") == "a_b@vibe" and marked_name("…", "vibe") == "unnamed@vibe"
    assert len(marked_name("x" * 300, "vibe")) == 85


@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
def test_same_vectors(distance):
    rng = np.random.default_rng(0)
    ours = rng.uniform(0.1, 1.9, (20, 5))
    theirs = {"l2": np.sqrt(ours), "ip": 1 + ours, "cosine": ours}[distance]
    theirs[0], ours[1] = np.nan, np.inf
    assert same_vectors(theirs.astype(np.float32), ours, distance) is True
    assert same_vectors(rng.permuted(theirs), ours, distance) is False
    assert same_vectors(np.full((20, 5), np.inf), ours, distance) is None


def test_points_that_are_measured_here_keep_their_hashes(tmp_path):
    """The field that tells imported points apart is not in the hash of others."""
    identity = make_result(Store(tmp_path)).identity
    content = identity.model_dump(exclude={"dataset", "source"})
    assert identity.hash() == sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    assert identity.model_copy(update={"source": "0" * 16}).hash() != identity.hash()
