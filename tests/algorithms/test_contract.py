"""What every index must do here, asked of whatever lies in algorithms/; nothing is named."""

import json
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.metrics.table import points_table
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.results.store import Result
from benchmarks.runner.environment import ensure_environment
from tests.harness import Finished, gaussian, leftovers, params, read_results, run, write_data

ALGORITHMS = find_algorithms()
EXACT = [name for name, algorithm in ALGORITHMS.items() if algorithm.offer.family == "exact"]
N, NQ, K = 2000, 200, 10


@dataclass(frozen=True)
class Measurement:
    """A run of one algorithm: how it ended, its results with the weakest point first, and what it was run on."""

    name: str
    finished: Finished
    results: list[Result]
    base: np.ndarray
    queries: np.ndarray

    @property
    def recalls(self):
        return [result.hits.mean() / result.record.denominator for result in self.results]


def monotone(name):
    """The parameter whose larger values search more, if the algorithm has one."""
    return next((key for key, item in ALGORITHMS[name].offer.parameters.items() if item.monotone), None)


def strongest_search(name):
    """The smoke sweep's build values, and each of its search combinations, weakest first."""
    smoke, key = ALGORITHMS[name].offer.smoke, monotone(name)
    search = dict(smoke.search)
    if key in search:
        low, high = min(search[key]), max(search[key])
        between = (low * high) ** 0.5
        whole = ALGORITHMS[name].offer.parameters[key].type == "int"
        search[key] = list(dict.fromkeys([low, round(between) if whole else between, high]))
    return {"build": smoke.build, "search": search}


def measure(folder, name, base, queries, distance="l2", *options):
    """`run.py` with the algorithm's smoke sweep and one point between its two."""
    config = folder / "sweep.yml"
    config.write_text(json.dumps({"k": K, "repeats": 2, "algorithms": {name: strongest_search(name)}}))
    results = folder / "results"
    finished = run(
        *write_data(folder, base, queries),
        "--distance",
        distance,
        "--algorithm",
        name,
        "--config",
        config,
        "--threads",
        1,
        "--results-dir",
        results,
        *options,
    )
    order = sorted(read_results(results), key=lambda result: params(result).get(monotone(name), 0))
    return Measurement(name, finished, order, base, queries)


@pytest.fixture(autouse=True)
def brought(request, bring):
    """What the tested algorithm needs from outside is there."""
    if "name" in request.fixturenames:
        bring(ALGORITHMS[request.getfixturevalue("name")])


@pytest.fixture(
    scope="module",
    ids=lambda value: "-".join(value),
    params=[(name, distance) for name, item in ALGORITHMS.items() for distance in item.offer.distances],
)
def measured(request, tmp_path_factory, bring):
    name, distance = request.param
    bring(ALGORITHMS[name])
    return measure(tmp_path_factory.mktemp(name), name, gaussian(N), gaussian(NQ, seed=1), distance)


def check_answers(measurement):
    """Every point is ok, and its ids are rows of the base, each once per query, with the distances that are theirs."""
    assert measurement.finished.code == 0, measurement.finished.out + measurement.finished.err
    assert measurement.results
    for result in measurement.results:
        assert result.record.status == "ok" and result.record.repeated_ids == 0
        ids = result.array("neighbors")
        assert ids.min() >= -1 and ids.max() < len(measurement.base)
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in ids)
        distances = exact_distances(measurement.base, measurement.queries, ids, result.identity.distance)
        np.testing.assert_allclose(result.array("distances"), distances, rtol=1e-6, atol=1e-6)


def test_some_algorithms_are_found():
    assert len(ALGORITHMS) >= 4 and EXACT


def test_smoke_sweep(measured):
    check_answers(measured)
    offer = ALGORITHMS[measured.name].offer
    assert len(measured.results) == np.prod(
        [len(v) for v in strongest_search(measured.name)["search"].values()], initial=1
    )
    for result in measured.results:
        assert set(params(result)) == set(offer.parameters)
        assert result.record.build_seconds > 0 and not result.record.answers_vary
        assert result.record.provenance.affinity and len(result.record.provenance.affinity) == 1


def test_strongest_point_finds_nearly_all(measured):
    if ALGORITHMS[measured.name].offer.family not in ("graph", "partition", "exact"):
        pytest.skip("not promised by this family")
    assert measured.recalls[-1] >= 0.99


def test_more_search_finds_no_less(measured):
    if monotone(measured.name) is None:
        pytest.skip("no monotone parameter")
    assert (np.diff(measured.recalls) >= -0.005).all(), measured.recalls
    assert measured.recalls[-1] > measured.recalls[0] or measured.recalls[0] == 1


def test_answers_come_nearest_first(measured):
    distances = measured.results[-1].array("distances")
    scale = np.abs(distances).max()
    assert (np.diff(distances, axis=1) >= -1e-5 * scale).mean() > 0.999


@pytest.mark.parametrize("name", ALGORITHMS)
def test_single_mode_answers_as_batch_mode_does(tmp_path, name):
    distance = ALGORITHMS[name].offer.distances[-1]
    base, queries = gaussian(N), gaussian(60, seed=1)
    (tmp_path / "batch").mkdir()
    (tmp_path / "single").mkdir()
    batch = measure(tmp_path / "batch", name, base, queries, distance)
    single = measure(tmp_path / "single", name, base, queries, distance, "--mode", "single")
    check_answers(batch)
    check_answers(single)
    for one, all in zip(single.results, batch.results, strict=True):
        assert params(one) == params(all)
        if ALGORITHMS[name].offer.reproducible:
            np.testing.assert_array_equal(one.array("neighbors"), all.array("neighbors"))
        else:  # another index, and no other quality
            assert abs(one.hits.mean() - all.hits.mean()) <= 0.05 * K
        assert one.latency.shape == (2, 60) and (one.latency > 0).all() and all.latency is None
        assert (one.latency.sum(axis=1) <= one.search_seconds * (1 + 1e-5)).all()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, item in ALGORITHMS.items() for dtype in item.offer.dtypes if dtype != "float32"],
)
def test_dtype(tmp_path, name, dtype):
    measurement = measure(tmp_path, name, gaussian(N, dtype=dtype), gaussian(NQ, dtype=dtype, seed=1))
    check_answers(measurement)
    if ALGORITHMS[name].offer.family in ("graph", "partition", "exact"):
        tied = measurement.results[-1].hits_tied.mean() / K
        assert tied >= 0.99


@pytest.mark.parametrize("name", ALGORITHMS)
def test_fewer_vectors_than_k(tmp_path, name):
    measurement = measure(tmp_path, name, gaussian(5), gaussian(20, seed=1))
    if not measurement.results:
        assert (
            measurement.finished.code == 2
            and "skipped:" in measurement.finished.out
            and "breaks" in measurement.finished.out
        )
        return
    check_answers(measurement)
    ids = measurement.results[-1].array("neighbors")
    assert (ids[:, 5:] == -1).all() and measurement.results[-1].record.denominator == 5
    if ALGORITHMS[name].offer.family in ("graph", "partition", "exact"):
        assert measurement.recalls[-1] == 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_hundred_copies_of_one_row(tmp_path, name):
    base = np.concatenate([np.repeat(gaussian(1), 200, axis=0), gaussian(300, seed=2)])
    measurement = measure(tmp_path, name, base, np.concatenate([base[:1], gaussian(50, seed=3)]))
    check_answers(measurement)
    if ALGORITHMS[name].offer.family == "exact":
        assert measurement.recalls[-1] == 1


ROUND_TRIP = """
import json, sys, tempfile
import numpy as np
from benchmarks.worker.__main__ import can_save, load_adapter
from benchmarks.worker.vectors import map_vectors

job = json.loads(sys.argv[1])
base, queries = map_vectors(job["base"]), np.array(map_vectors(job["queries"]))
built = load_adapter(job["adapter"], job["class_name"])
if not can_save(built):
    sys.exit("cannot save")
built.build(base, distance=job["distance"], threads=1, seed=0, **job["build"])
before = [np.asarray(built.search(queries, 10, **params)) for params in job["searches"]]
with tempfile.TemporaryDirectory() as folder:
    built.save(folder)
    loaded = load_adapter(job["adapter"], job["class_name"])
    loaded.load(folder, threads=1)
    for ids, params in zip(before, job["searches"]):
        np.testing.assert_array_equal(loaded.search(queries, 10, **params), ids)
        np.testing.assert_array_equal(built.search(queries, 10, **params), ids)
"""


@pytest.mark.parametrize(
    ("name", "distance"), [(name, distance) for name, item in ALGORITHMS.items() for distance in item.offer.distances]
)
def test_loaded_index_answers_as_the_built_one(tmp_path, name, distance):
    algorithm = ALGORITHMS[name]
    write_data(tmp_path, gaussian(N), gaussian(NQ, seed=1))
    stages = {
        stage: {key: item.default for key, item in algorithm.offer.parameters.items() if item.stage == stage}
        for stage in ("build", "search")
    }
    grid = strongest_search(name)
    build = {**stages["build"], **{key: values[0] for key, values in grid["build"].items()}}
    searches = [{**stages["search"], **{key: values[end] for key, values in grid["search"].items()}} for end in (0, -1)]
    files = {
        role: {"path": str(tmp_path / file), "dtype": "float32", "rows": rows, "dimension": 16, "offset_bytes": 8}
        for role, file, rows in (("base", "tiny.fbin", N), ("queries", "tiny-queries.fbin", NQ))
    }
    job = {
        **files,
        "adapter": str(algorithm.directory / "algorithm.py"),
        "class_name": algorithm.offer.class_name,
        "distance": distance,
        "build": build,
        "searches": searches,
    }
    python = ensure_environment(algorithm.library, ENVIRONMENTS).python
    done = subprocess.run([python, "-c", ROUND_TRIP, json.dumps(job)], cwd=ROOT, capture_output=True, text=True)
    if "cannot save" in done.stderr:
        pytest.skip("the adapter does not save")
    assert done.returncode == 0, done.stderr


def shifted():
    return gaussian(N) + np.float32(1000), gaussian(50, seed=1) + np.float32(1000)


def repeated():
    base = gaussian(100)[np.random.default_rng(5).integers(100, size=1000)]
    return base, np.concatenate([base[:30], gaussian(20, seed=1)])


def with_zeros():
    base, queries = gaussian(500), gaussian(50, seed=1)
    base[::7] = 0
    queries[::5] = 0
    return base, queries


ORACLE_CASES = {
    "offset": (shifted, "l2"),
    "offset-ip": (shifted, "ip"),
    "offset-cosine": (shifted, "cosine"),
    "duplicates": (repeated, "l2"),
    "duplicates-ip": (repeated, "ip"),
    "duplicates-cosine": (repeated, "cosine"),
    "uint8": (lambda: (gaussian(N, dtype="uint8"), gaussian(50, dtype="uint8", seed=1)), "l2"),
    "int8": (lambda: (gaussian(N, dtype="int8"), gaussian(50, dtype="int8", seed=1)), "ip"),
    "int8-cosine": (lambda: (gaussian(N, dtype="int8"), gaussian(50, dtype="int8", seed=1)), "cosine"),
    "zeros-cosine": (with_zeros, "cosine"),
    "zeros": (with_zeros, "l2"),
    "zeros-ip": (with_zeros, "ip"),
    "one-vector": (lambda: (gaussian(1), gaussian(3, seed=1)), "l2"),
    "seven-vectors": (lambda: (gaussian(7), gaussian(50, seed=1)), "cosine"),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("case", ORACLE_CASES)
def test_oracle_is_exact_to_the_last_id(tmp_path, name, case):
    vectors, distance = ORACLE_CASES[case]
    base, queries = vectors()
    if base.dtype.name not in ALGORITHMS[name].offer.dtypes or distance not in ALGORITHMS[name].offer.distances:
        pytest.skip("not offered")
    measurement = measure(tmp_path, name, base, queries, distance)
    check_answers(measurement)
    names = ["recall", "recall_tied", *(f"robustness-{j / K}" for j in range(1, K + 1))]
    table = points_table(measurement.results, names)
    assert (table[names] == 1.0).all(axis=None), table[names].T
    assert not leftovers(tmp_path / "results")
