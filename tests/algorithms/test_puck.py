"""How the Puck adapter deals with its module's traps, in this process, with the stand-in for the module."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.groundtruth.distances import exact_distances
from benchmarks.worker.__main__ import load_adapter
from tests.algorithms.supplies.puck import provide
from tests.harness import gaussian

CARD = find_algorithms()["puck"]
BUILD = {name: value for name, (value,) in CARD.offer.smoke.build.items()}
SEARCH = {"search_coarse_count": 10, "tinker_search_range": 2000}


@pytest.fixture
def puck(tmp_path, monkeypatch):
    """Makes instances of the adapter, all in one module."""
    with provide(tmp_path) as variables:
        monkeypatch.syspath_prepend(variables["PY_PUCK_API"])
        monkeypatch.delitem(sys.modules, "py_puck_api", raising=False)
        kind = type(load_adapter(CARD.directory / "algorithm.py", CARD.offer.class_name))
        yield kind
        del sys.modules["py_puck_api"]


def built(kind, base, distance):
    index = kind()
    index.build(base, distance=distance, threads=1, seed=0, **BUILD)
    return index


def exact(base, queries, k, distance):
    every = np.tile(np.arange(len(base)), (len(queries), 1))
    return np.argsort(exact_distances(base, queries, every, distance), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
def test_every_distance_is_reduced_to_l2(puck, distance, dtype):
    base, queries = gaussian(500, dtype=dtype), gaussian(50, dtype=dtype, seed=1)
    if dtype == "float32":
        base *= np.linspace(1e-3, 1e3, 500, dtype=np.float32)[:, None]
        queries *= np.float32(1e4)
    found = built(puck, base, distance).search(queries, 10, **SEARCH)
    expected = exact(base, queries, 10, distance)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, expected, strict=True)]) >= 9.9


def test_vectors_are_handed_over_as_fvecs(puck):
    base = gaussian(100, dimension=7)
    index = built(puck, base, "l2")
    rows = np.fromfile(index.index / "all_data.feat.bin", np.int32).reshape(100, 8)
    assert (rows[:, 0] == 7).all()
    np.testing.assert_array_equal(rows[:, 1:].view(np.float32), base)


def test_settings_take_effect_at_once_whatever_another_index_did(puck):
    base, queries = gaussian(500), gaussian(50, seed=1)
    one, other = built(puck, base, "l2"), built(puck, base[::-1].copy(), "ip")
    narrow = {**SEARCH, "tinker_search_range": 10}
    few = one.search(queries, 10, **narrow)
    other.search(queries, 100, **SEARCH)
    expected = exact(base, queries, 100, "l2")
    np.testing.assert_array_equal(one.search(queries, 100, **SEARCH), expected)
    np.testing.assert_array_equal(one.search(queries, 10, **SEARCH), expected[:, :10])
    np.testing.assert_array_equal(one.search(queries, 10, **narrow), few)
    assert (few != expected[:, :10]).any()


def test_what_the_module_leaves_out_is_minus_one(puck):
    queries = gaussian(3, seed=1)
    queries[1] = 0  # it cannot be scaled to length 1, which the module says in its log alone
    found = built(puck, gaussian(500), "cosine").search(queries, 10, **SEARCH)
    assert (found[1] == -1).all() and found[[0, 2]].min() >= 0
    found = built(puck, gaussian(40), "l2").search(queries, 50, **SEARCH)
    assert (found[:, 40:] == -1).all() and (np.sort(found[:, :40]) == np.arange(40)).all()


def test_a_failed_build_says_so_and_leaves_the_working_directory(puck):
    before = os.getcwd()
    with pytest.raises(RuntimeError, match="could not build"):
        built(puck, gaussian(10), "l2")  # fewer than there are clusters
    assert os.getcwd() == before


def test_a_loaded_folder_is_only_read(puck, tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    original = built(puck, gaussian(500), "ip")
    original.save(saved)

    def state():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in Path(saved).rglob("*")}

    before, loaded = state(), puck()
    loaded.load(saved, threads=1)
    loaded.search(gaussian(3, seed=1), 10, **SEARCH)
    assert state() == before
