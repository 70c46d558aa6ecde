"""Against loops that say what the definitions say."""

import h5py
import numpy as np
import pytest

from benchmarks.cli import truth as truth_verb
from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth import difficulty as module
from benchmarks.groundtruth.cache import ground_truth, query_difficulty
from benchmarks.groundtruth.difficulty import Difficulty, lengths, lid, margin, measure
from benchmarks.groundtruth.distances import DISTANCES
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.progress import Progress
from tests.harness import call

RANDOM = np.random.default_rng(0)
BASE, QUERIES = RANDOM.normal(1, 1, (600, 6)).astype("f4"), RANDOM.normal(1, 1, (40, 6)).astype("f4")


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def all_lengths(base, queries, distance):
    """(q, n) of everything, in float64."""
    base, queries = base.astype(np.float64), queries.astype(np.float64)
    if distance == "ip":
        return -queries @ base.T
    if distance == "cosine":
        base, queries = unit(base), unit(queries)
    return np.array([np.linalg.norm(base - query, axis=1) for query in queries])


def distances_of(base, queries, distance, depth=120):
    return exact_neighbors(base, queries, distance, depth).distances


@pytest.mark.parametrize("distance", DISTANCES)
def test_lengths_are_those_of_a_metric(distance):
    expected = np.sort(all_lengths(BASE, QUERIES, distance), axis=1)[:, :120]
    np.testing.assert_allclose(lengths(distances_of(BASE, QUERIES, distance), distance), expected, rtol=1e-6)


@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_lid_is_its_definition(distance):
    queries = np.concatenate([QUERIES, BASE[:3]])  # with neighbours at distance 0
    found = lid(distances_of(BASE, queries, distance), distance)
    for query, near in enumerate(np.sort(all_lengths(BASE, queries, distance), axis=1)[:, :100]):
        near = near[near > 1e-7]
        assert found[query] == pytest.approx(-1 / np.mean([np.log(r / near[-1]) for r in near]), rel=1e-5)


@pytest.mark.parametrize("dimension", [2, 6])
def test_lid_of_a_uniform_cube_is_its_dimension(dimension):
    rng = np.random.default_rng(1)
    base = rng.random((20_000, dimension), np.float32)
    queries = (0.25 + rng.random((300, dimension), np.float32) / 2).astype("f4")
    assert np.mean(lid(distances_of(base, queries, "l2", 100), "l2")) == pytest.approx(dimension, rel=0.05)


def test_lid_where_there_is_none():
    assert np.isnan(lid(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [3.0, 3.0, 3.0]]), "l2")).all()
    assert np.isnan(lid(np.array([[-3.0, -2.0, -1.0]]), "ip")).all()
    assert lid(np.array([[0.0, 1.0, 4.0]]), "l2") == pytest.approx(2 / np.log(2))


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("k", [1, 10, 119, 120, 500])
def test_margin(distance, k):
    found = margin(distances_of(BASE, QUERIES, distance), distance, k)
    if k >= 120:
        assert np.isnan(found).all()
    else:
        near = np.sort(all_lengths(BASE, QUERIES, distance), axis=1)
        np.testing.assert_allclose(found, near[:, k] - near[:, k - 1], atol=1e-6)


@pytest.mark.parametrize("offset", [0, 1e4])
@pytest.mark.parametrize("distance", DISTANCES)
def test_contrast_is_the_mean_length_over_the_nearest(distance, offset):
    base, queries = (x + np.float32(offset) for x in (BASE, QUERIES))
    found = measure(base, queries, distance, distances_of(base, queries, distance)).contrast
    if distance == "ip":
        assert np.isnan(found).all()
    elif distance == "l2" or not offset:
        every = all_lengths(base, queries, distance)  # the sample is all but what is held out, a tenth
        np.testing.assert_allclose(found, every.mean(axis=1) / every.min(axis=1), rtol=0.05)


def test_contrast_of_known_lengths():
    base = np.array([[3, 4], [-3, -4], [5, 0]], np.float32)  # too few for any to be held out
    queries = np.array([[0, 0], [3, 4]], np.float32)
    found = measure(base, queries, "l2", distances_of(base, queries, "l2"))
    assert found.contrast.tolist() == [1.0, np.inf]
    assert found.nearest.tolist() == [5.0, 0.0]
    assert found.held_out.size == 0 and np.isnan(found.out_of_distribution)
    assert "too small a base" in found.describe()


@pytest.mark.parametrize("distance", DISTANCES)
def test_nearest_of_the_sample(distance):
    found = measure(BASE, QUERIES, distance, distances_of(BASE, QUERIES, distance))
    ids = np.random.default_rng(module.SEED).choice(600, 600, replace=False)
    apart, sample = BASE[np.sort(ids[:60])], BASE[np.sort(ids[60:])]
    for values, queries in ((found.nearest, QUERIES), (found.held_out, apart)):
        every = all_lengths(sample, queries, distance)
        scale = np.linalg.norm(queries, axis=1) if distance == "ip" else 1
        np.testing.assert_allclose(values, every.min(axis=1) / scale, rtol=1e-5)


def test_out_of_distribution_is_how_often_a_query_is_farther():
    rng = np.random.default_rng(2)
    nearest, held_out = rng.integers(0, 9, 70).astype(float), rng.integers(0, 9, 50).astype(float)
    won = [(query > vector) + (query == vector) / 2 for query in nearest for vector in held_out]
    found = Difficulty(lid=nearest, contrast=nearest, nearest=nearest, held_out=held_out)
    assert found.out_of_distribution == pytest.approx(np.mean(won))


@pytest.mark.parametrize("distance", DISTANCES)
def test_queries_like_the_base_and_others(distance):
    rng = np.random.default_rng(3)
    base = np.concatenate([rng.normal(size=(8000, 4)), rng.normal(0, 0.01, (8000, 8))[:, :4]], axis=1)
    like, unlike = base[:500].astype("f4"), rng.normal(size=(500, 8)).astype("f4")
    base = base[500:].astype("f4")
    shares = [
        measure(base, queries, distance, distances_of(base, queries, distance)).out_of_distribution
        for queries in (like, unlike)
    ]
    assert 0.4 < shares[0] < 0.6 and shares[1] > 0.8


def test_threads_files_and_types_change_nothing(tmp_path):
    base, queries = (np.clip(x * 40 + 100, 0, 255).astype(np.uint8) for x in (BASE, QUERIES))
    near = distances_of(base, queries, "l2")
    base.tofile(tmp_path / "base")
    file = VectorFile(path=tmp_path / "base", dtype="uint8", rows=600, dimension=6)
    one, two, three = (
        measure(base, queries, "l2", near),
        measure(file, queries, "l2", near, threads=2),
        measure(base.astype("f4"), queries.astype("f4"), "l2", near),
    )
    for name, value in vars(one).items():
        np.testing.assert_array_equal(value, getattr(two, name))
        np.testing.assert_allclose(value, getattr(three, name))


@pytest.mark.parametrize("distance", DISTANCES)
def test_it_stands_beside_the_truth_and_is_read_again(make_dataset, tmp_path, distance, monkeypatch):
    data = make_dataset(BASE, QUERIES, distance)
    truth = ground_truth(data, 60, tmp_path, 1, Progress())
    path = truth.path.with_suffix(".difficulty.hdf5")
    expected = measure(BASE, QUERIES, distance, truth.distances)
    with h5py.File(path) as file:
        for name, value in vars(expected).items():
            np.testing.assert_array_equal(file[name], value)
        assert file.attrs["k"].tolist() == [1, 10, 100] and file.attrs["truth"] == truth.key
        for column, k in enumerate(file.attrs["k"]):
            np.testing.assert_array_equal(file["margin"][:, column], margin(truth.distances, distance, k))
        assert np.isfinite(file["margin"]).all()

    measured = []
    monkeypatch.setattr("benchmarks.groundtruth.cache.measure", lambda *a, **o: measured.append(1) or expected)
    again = query_difficulty(data, truth, 1)
    assert not measured and again.describe() == expected.describe()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])  # damaged: measured again
    query_difficulty(data, truth, 1)
    assert measured and path.read_bytes() == content


def test_the_verb_says_how_hard_the_queries_are(tmp_path):
    np.save(tmp_path / "mine.npy", BASE)
    done = call(truth_verb.main, "--dataset", tmp_path / "mine.npy", "--data-dir", tmp_path / "data", "--k", 10)
    assert done.code == 0
    line = done.out.splitlines()[-1]
    assert line.startswith("queries: LID ") and "contrast" in line and "out of distribution" in line
