"""What can break in the libraries that search a Vamana graph, beyond what every index is asked for."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import content_hash, ensure_environment
from tests.harness import gaussian, params, read_results, run, write_data

NAMES = ("diskann", "diskann-rust", "zilliz")


def start(folder, name, base, queries, distance="l2", k=10, threads=1, R=32, Ls=(512,)):
    """Measure one build with search lists of several lengths; how that ended, and the shortest list's result first."""
    folder.mkdir(exist_ok=True)
    config = folder / "sweep.yml"
    grid = {"build": {"R": R, "L": 100}, "search": {"Ls": list(Ls)}}
    config.write_text(json.dumps({"k": k, "repeats": 1, "algorithms": {name: grid}}))
    where = ["--config", config, "--results-dir", folder / "results", "--threads", threads]
    finished = run(*write_data(folder, base, queries), "--algorithm", name, "--distance", distance, *where)
    results = read_results(folder / "results")
    return finished, sorted(results, key=lambda result: params(result)["Ls"])


def search(*what, **how):
    """The results, of which every one must be ok."""
    finished, results = start(*what, **how)
    assert finished.code == 0, finished.out + finished.err
    assert results and all(result.record.repeated_ids == 0 for result in results)
    return results


def recall_tied(result):
    return result.hits_tied.mean() / result.record.denominator


@pytest.mark.parametrize("distance", ["l2", "ip"])
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_in_pieces_gives_what_can_be_reached_and_nothing_else(tmp_path, name, distance):
    base, queries = gaussian(300, dimension=15), gaussian(40, dimension=15, seed=1)
    results = search(tmp_path / "more", name, base, queries, distance, k=100, R=2, Ls=(150, 300))
    for result in results:
        ids = result.array("neighbors")
        found = int((ids[0] >= 0).sum())
        assert 1 < found < 100 and (ids[:, found:] == -1).all()
        assert all(set(row) == set(ids[0, :found]) for row in ids[:, :found])
        assert (np.diff(result.array("distances")[:, :found], axis=1) >= -1e-5).all()
    np.testing.assert_array_equal(results[0].array("neighbors"), results[1].array("neighbors"))
    # As many as there are: zilliz would rank half as many again.
    (exactly,) = search(tmp_path / "exactly", name, base, queries, distance, k=found, R=2, Ls=(150,))
    np.testing.assert_array_equal(exactly.array("neighbors"), ids[:, :found])


@pytest.mark.parametrize(("name", "least"), [("diskann", 10), ("diskann-rust", 11), ("zilliz", 15)])
def test_the_shortest_list_allowed_fills_every_row(tmp_path, name, least):
    base, queries = gaussian(2000), gaussian(300, seed=1)
    finished, (result,) = start(tmp_path, name, base, queries, R=4, Ls=(least - 1, least))
    assert finished.code == 0 and "breaks Ls" in finished.out and params(result)["Ls"] == least
    assert (result.array("neighbors") >= 0).all()
    assert (np.diff(result.array("distances"), axis=1) >= -1e-5).all()


@pytest.mark.parametrize(("dimension", "distance"), [(7, "cosine"), (15, "l2"), (97, "ip")])
@pytest.mark.parametrize("name", NAMES)
def test_odd_dimensions(tmp_path, name, dimension, distance):
    base, queries = gaussian(1000, dimension), gaussian(50, dimension, seed=1)
    (result,) = search(tmp_path, name, base, queries, distance, R=64)
    assert recall_tied(result) >= 0.99


@pytest.mark.parametrize("name", NAMES)
def test_two_threads(tmp_path, name):
    (result,) = search(tmp_path, name, gaussian(2000), gaussian(200, seed=1), threads=2)
    assert recall_tied(result) >= 0.99 and len(result.record.provenance.affinity) == 2


@pytest.mark.parametrize("name", NAMES)
def test_zero_vectors_under_cosine(tmp_path, name):
    base, queries = gaussian(500), gaussian(50, seed=1)
    base[::7], queries[::5] = 0, 0
    (result,) = search(tmp_path, name, base, queries, "cosine")
    assert name == "diskann" or recall_tied(result) >= 0.99


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_next_to_no_vectors(tmp_path, name, rows):
    finished, results = start(tmp_path, name, gaussian(rows), gaussian(20, seed=1))
    if rows == 1 and name != "diskann-rust":
        assert finished.code == 2 and "breaks n >= 2" in finished.out and not results
    else:
        assert finished.code == 0 and recall_tied(results[0]) == 1


@pytest.mark.parametrize(("name", "dtype"), [("diskann-rust", "int8"), ("diskann-rust", "uint8"), ("zilliz", "int8")])
def test_inner_product_of_bytes(tmp_path, name, dtype):
    (result,) = search(tmp_path, name, gaussian(2000, dtype=dtype), gaussian(100, dtype=dtype, seed=1), "ip")
    assert recall_tied(result) >= 0.99


def test_codes_do_not_depend_on_how_long_a_query_is(tmp_path):
    base, queries = gaussian(2000), gaussian(100, seed=1)
    (short,) = search(tmp_path / "short", "zilliz", base, queries * np.float32(2**-12), "ip")
    (long,) = search(tmp_path / "long", "zilliz", base, queries * np.float32(2**12), "ip")
    np.testing.assert_array_equal(short.array("neighbors"), long.array("neighbors"))
    assert recall_tied(short) >= 0.99


WORKER = """
import json, sys
import numpy as np
from benchmarks.worker.__main__ import load_adapter

step, adapter, class_name, folder, base, answers = json.loads(sys.argv[1])
queries = np.random.default_rng(1).normal(size=(100, 7)).astype(np.float32)
index = load_adapter(adapter, class_name)
if step == "build":
    index.build(np.load(base, mmap_mode="r"), distance="cosine", threads=1, seed=0, R=16, L=50, alpha=1.2)
    index.save(folder)
    np.save(answers, index.search(queries, 10, Ls=32))
else:
    index.load(folder, threads=1)
    np.testing.assert_array_equal(index.search(queries, 10, Ls=32), np.load(answers))
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_index_may_be_moved_and_is_only_read(tmp_path, name):
    algorithm = find_algorithms()[name]
    python = ensure_environment(algorithm.library, ENVIRONMENTS).python
    np.save(tmp_path / "base.npy", gaussian(500, 7))
    files = [str(tmp_path / "base.npy"), str(tmp_path / "answers.npy")]

    def step(what, folder):
        job = [what, str(algorithm.directory / "algorithm.py"), algorithm.offer.class_name, str(folder), *files]
        done = subprocess.run([python, "-c", WORKER, json.dumps(job)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    built, moved = tmp_path / "built", tmp_path / "elsewhere" / "moved"
    built.mkdir()
    step("build", built)
    moved.parent.mkdir()
    built.rename(moved)
    before = content_hash(moved)
    for path in (*moved.iterdir(), moved):
        path.chmod(0o555)
    try:
        step("load", moved)
    finally:
        moved.chmod(0o755)
    assert content_hash(moved) == before
    assert not list(Path(moved).glob("*vectors*"))
