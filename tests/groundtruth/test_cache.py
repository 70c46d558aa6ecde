import random

import h5py
import numpy as np
import pytest

from benchmarks.groundtruth import cache
from benchmarks.groundtruth.cache import depth_for, ground_truth, ground_truths, truth_key, write_truth
from benchmarks.groundtruth.exact import exact_neighbors, exact_truths
from benchmarks.progress import Progress

RANDOM = np.random.default_rng(0)
BASE, QUERIES = RANDOM.normal(size=(150, 3)).astype("f4"), RANDOM.normal(size=(4, 3)).astype("f4")


@pytest.fixture(scope="module")
def dataset(make_dataset):
    return make_dataset(BASE, QUERIES)


@pytest.fixture
def computed(monkeypatch):
    """Depths that were really computed."""
    depths = []

    def counting(base, queries, distances, depth, **options):
        depths.append(depth)
        return exact_truths(base, queries, distances, depth, **options)

    monkeypatch.setattr(cache, "exact_truths", counting)
    return depths


@pytest.fixture
def truth_of(dataset, tmp_path):
    return lambda k=10, data=dataset: ground_truth(data, k, tmp_path, 1, Progress())


@pytest.mark.parametrize(
    ("k", "n", "depth"),
    [
        (1, 10**6, 100),
        (10, 10**6, 100),
        (50, 10**6, 100),
        (51, 10**6, 102),
        (100, 10**6, 200),
        (1000, 1500, 1500),
        (10, 7, 7),
        (10, 100, 100),
        (200, 1, 1),
    ],
)
def test_depth(k, n, depth):
    assert depth_for(k, n) == depth


def test_truth_is_that_of_exact_search(truth_of):
    truth, exact = truth_of(), exact_neighbors(BASE, QUERIES, "l2", 100)
    np.testing.assert_array_equal(truth.neighbors, exact.neighbors)
    np.testing.assert_array_equal(truth.distances, exact.distances)


def test_a_second_time_it_is_read(truth_of, computed):
    first, second = truth_of(), truth_of()
    assert computed == [100] and second.key == first.key and second.path == first.path
    np.testing.assert_array_equal(second.neighbors, first.neighbors)
    np.testing.assert_array_equal(second.distances, first.distances)
    assert second.neighbors.dtype == first.neighbors.dtype and second.distances.dtype == np.float64


def test_one_file_serves_every_k_of_its_depth(truth_of, computed):
    assert truth_of(1).path == truth_of(50).path != truth_of(60).path
    assert computed == [100, 120]


def test_several_are_stored_as_if_they_were_computed_one_by_one(dataset, truth_of, computed, tmp_path):
    distances, ks = ["l2", "ip", "cosine"], [10, 60, 70]
    one = ground_truth(dataset, 60, tmp_path, 1, Progress())  # is not computed again
    several = ground_truths(dataset, distances, ks, tmp_path, 1, Progress())
    assert computed == [120, 140] and several["l2", 60].path == one.path
    for (distance, k), truth in several.items():
        data = dataset.model_copy(update={"distance": distance})
        single = ground_truth(data, k, tmp_path / "other", 1, Progress())
        for found in (truth, truth_of(k, data)):  # from memory, and from the file
            assert found.key == single.key and found.neighbors.shape == (4, depth_for(k, 150))
            np.testing.assert_array_equal(found.neighbors, single.neighbors)
            np.testing.assert_array_equal(found.distances, single.distances)


def test_the_key_follows_all_that_decides(make_dataset, dataset):
    others = [
        make_dataset(BASE + 1, QUERIES),
        make_dataset(BASE, QUERIES + 1),
        make_dataset(BASE, QUERIES, "ip"),
        make_dataset(BASE, QUERIES, "cosine"),
        make_dataset(QUERIES, BASE),
        make_dataset(BASE[::-1], QUERIES),
    ]
    keys = [truth_key(item, 100) for item in (dataset, *others)] + [truth_key(dataset, 101)]
    assert len(set(keys)) == len(keys)


def test_the_key_ignores_the_name(dataset):
    assert truth_key(dataset.model_copy(update={"name": "other"}), 100) == truth_key(dataset, 100)


def test_nothing_but_the_truth_and_the_difficulty_is_left(truth_of, tmp_path):
    path = truth_of().path
    assert {item for item in tmp_path.rglob("*") if item.is_file()} == {path, path.with_suffix(".difficulty.hdf5")}


def cut(path, size):
    with path.open("r+b") as file:
        file.truncate(size)


def replace(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


GOOD = {"neighbors": np.zeros((4, 100), "i4"), "distances": np.zeros((4, 100))}
DAMAGE = {
    "empty": lambda path: cut(path, 0),
    "cut": lambda path: cut(path, 2000),
    "one byte short": lambda path: cut(path, path.stat().st_size - 1),
    "text": lambda path: path.write_text("hello"),
    "no arrays": lambda path: replace(path),
    "no distances": lambda path: replace(path, neighbors=GOOD["neighbors"]),
    "narrow": lambda path: replace(path, neighbors=GOOD["neighbors"][:, :50], distances=GOOD["distances"][:, :50]),
    "few rows": lambda path: replace(path, neighbors=GOOD["neighbors"][:3], distances=GOOD["distances"]),
    "ids out of range": lambda path: replace(path, **{**GOOD, "neighbors": GOOD["neighbors"] + 150}),
    "ids as decimals": lambda path: replace(path, **{**GOOD, "neighbors": GOOD["neighbors"] + 0.5}),
    "not a number": lambda path: replace(path, **{**GOOD, "distances": GOOD["distances"] * np.nan}),
    "a group": lambda path: replace(path, **{"neighbors/x": GOOD["neighbors"], "distances": GOOD["distances"]}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_computed_again(truth_of, computed, damage):
    first = truth_of()
    damage(first.path)
    again = truth_of()
    np.testing.assert_array_equal(again.neighbors, first.neighbors)
    np.testing.assert_array_equal(again.distances, first.distances)
    truth_of()
    assert computed == [100, 100]


def test_a_flipped_bit_never_changes_the_truth(truth_of):
    first = truth_of()
    whole, chance = first.path.read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        first.path.write_bytes(damaged)
        again = truth_of()
        np.testing.assert_array_equal(again.neighbors, first.neighbors)
        np.testing.assert_array_equal(again.distances, first.distances)


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_truth(tmp_path / "a.hdf5", GOOD["neighbors"], GOOD["distances"], {"bad": object()})
    assert list(tmp_path.iterdir()) == []
