import dataclasses

import h5py
import numpy as np
import pytest

from benchmarks.cards.datasets import DatasetCard, Source
from benchmarks.data import supplied as module
from benchmarks.data.prepare import prepare
from benchmarks.data.supplied import Supplied, check_supplied, convention, read_supplied, supplied_truth
from benchmarks.groundtruth.cache import ground_truth
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.progress import Progress
from tests.harness import gaussian, vector_file

IDS = np.arange(12, dtype="<i4").reshape(3, 4)
NEAR = IDS.astype("<f4") + 0.5


# --- reading --------------------------------------------------------------------------------------------------------


def header(rows=3, width=4):
    return np.array([rows, width], "<u4").tobytes()


def of(path, content: bytes, **source):
    path.write_bytes(content)
    return read_supplied(path, Source(path=str(path), **source))


@pytest.mark.parametrize("name", ["gt.ibin", "GT_10M", "gt.bin"])
@pytest.mark.parametrize("distances", [True, False])
def test_ids_alone_or_with_distances_are_told_apart_by_the_size(tmp_path, name, distances):
    found = of(tmp_path / name, header() + IDS.tobytes() + (NEAR.tobytes() if distances else b""), format="ibin")
    np.testing.assert_array_equal(found.neighbors, IDS)
    assert found.width == 4 and (found.distances is not None) == distances
    if distances:
        np.testing.assert_array_equal(found.distances, NEAR)


def test_every_other_size_is_refused(tmp_path, refusal):
    whole = header() + IDS.tobytes() + NEAR.tobytes() + b"1"
    for size in set(range(len(whole) + 1)) - {8 + 48, 8 + 96}:
        assert "gt.ibin" in refusal(of, tmp_path / "gt.ibin", whole[:size])
    assert "0 queries" in refusal(of, tmp_path / "gt.ibin", header(0, 4))


def test_texmex_ids(tmp_path, refusal):
    records = np.zeros(3, [("width", "<i4"), ("ids", "<i4", 4)])
    records["width"], records["ids"] = 4, IDS
    found = of(tmp_path / "gt.ivecs", records.tobytes())
    np.testing.assert_array_equal(found.neighbors, IDS)
    assert found.distances is None
    records["width"][1] = 3
    assert "not all 4 wide" in refusal(of, tmp_path / "gt.ivecs", records.tobytes())
    assert "truncated" in refusal(of, tmp_path / "gt.ivecs", records.tobytes()[:-1])


@pytest.mark.parametrize("kind", ["i4", "i8", "u4"])
def test_hdf5(tmp_path, kind):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["neighbors"], file["distances"], file["others"] = IDS.astype(kind), NEAR.astype("f8"), IDS + 1
    found = read_supplied(tmp_path / "a.hdf5", Source(path="a.hdf5"))
    np.testing.assert_array_equal(found.neighbors, IDS)
    np.testing.assert_array_equal(found.distances, NEAR)
    others = read_supplied(tmp_path / "a.hdf5", Source(path="a.hdf5", array="others"))
    assert others.distances is None and others.neighbors[0, 0] == 1


@pytest.mark.parametrize(
    "arrays",
    [{}, {"neighbors": NEAR}, {"neighbors": IDS[0]}, {"neighbors": IDS, "distances": NEAR[:2]}, {"neighbors": IDS[:0]}],
)
def test_hdf5_without_ids(tmp_path, refusal, arrays):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    assert "a.hdf5" in refusal(read_supplied, tmp_path / "a.hdf5", Source(path="a.hdf5"))


@pytest.mark.parametrize("name", ["gt.npy", "gt.fbin", "gt", "no.ibin"])
def test_other_files(tmp_path, refusal, name):
    if not name.startswith("no"):
        (tmp_path / name).write_bytes(header() + IDS.tobytes())
    refusal(read_supplied, tmp_path / name, Source(path=name))


# --- checks ---------------------------------------------------------------------------------------------------------

N, NQ, WIDTH = 3000, 150, 20


@pytest.fixture(scope="module", params=["l2", "ip", "cosine"])
def world(request, tmp_path_factory):
    """Base, queries, distance, and ground truth as others would write it."""
    folder = tmp_path_factory.mktemp("world")
    base, queries = (
        vector_file(folder / "base.fbin", gaussian(N)),
        vector_file(folder / "queries.fbin", gaussian(NQ, seed=1)),
    )
    exact = exact_neighbors(base.open(), queries.open(), request.param, WIDTH)
    near = -exact.distances if request.param == "ip" else exact.distances
    return base, queries, request.param, Supplied(folder / "gt.ibin", exact.neighbors, near.astype("f4"))


def problems(world, k=10, **changes):
    base, queries, distance, supplied = world
    return check_supplied(dataclasses.replace(supplied, **changes), base, queries, distance, k)


def test_what_is_right_passes(world):
    assert problems(world) == [] and problems(world, distances=None) == [] and problems(world, k=WIDTH) == []


def test_width(world):
    assert problems(world, k=WIDTH + 1) == [f"it has {WIDTH} neighbours per query, {WIDTH + 1} are needed"]


def test_number_of_queries(world):
    supplied = world[3]
    (line,) = problems(world, neighbors=supplied.neighbors[:100], distances=supplied.distances[:100])
    assert line == f"it is for 100 queries, there are {NQ}"


def test_ids_of_a_larger_base(world):
    ids = world[3].neighbors.copy()
    ids[7, 3] = N
    assert problems(world, neighbors=ids) == [f"it names row {N}, the base has {N}: it belongs to a larger base"]


def test_padding(world):
    ids = world[3].neighbors.copy()
    ids[[4, 9], -1] = -1
    assert problems(world, neighbors=ids) == ["2 queries lack neighbours (id -1)"]


def test_duplicates(world):
    ids = world[3].neighbors.copy()
    ids[5, 3] = ids[5, 0]
    assert problems(world, neighbors=ids) == ["1 queries have a neighbour twice"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_distances_that_are_not_finite(world, bad):
    near = world[3].distances.copy()
    near[5, 3] = bad
    assert "1 queries have distances that are not finite" in problems(world, distances=near)


def test_distances_in_no_order(world):
    near = world[3].distances.copy()
    near[5, [3, 4]] = near[5, [4, 3]]
    assert problems(world, distances=near) == ["1 queries have distances in no order"]


def test_farthest_first(world):
    supplied = world[3]
    (line,) = problems(world, neighbors=supplied.neighbors[:, ::-1], distances=supplied.distances[:, ::-1])
    assert line == "its neighbours are sorted farthest first"


def test_neighbours_of_another_distance(world):
    base, queries, distance, supplied = world
    other = {"l2": "ip", "ip": "l2", "cosine": "ip"}[distance]
    ids = exact_neighbors(base.open(), queries.open(), other, WIDTH).neighbors
    (line,) = problems(world, neighbors=ids, distances=None)
    assert line.startswith("100 of 100 recomputed queries have other neighbours; the first is query ")


def test_a_few_wrong_rows_are_seen(world):
    ids = world[3].neighbors.copy()
    ids[::15, -1] = np.setdiff1d(np.arange(N), ids[::15])[-1]
    (line,) = problems(world, neighbors=ids, distances=None)
    assert "recomputed queries have other neighbours" in line


def test_ties_may_be_broken_in_any_way(tmp_path):
    base = vector_file(tmp_path / "b.fbin", np.repeat(gaussian(40), 30, axis=0))
    queries = vector_file(tmp_path / "q.fbin", gaussian(5, seed=1))
    ids = exact_neighbors(base.open(), queries.open(), "l2", 20).neighbors
    assert check_supplied(Supplied(tmp_path, ids + 10, None), base, queries, "l2", 10) == []


def test_distances_of_something_else(world):
    near = np.sort(np.random.default_rng(0).normal(size=(NQ, WIDTH)), axis=1)
    (line,) = problems(world, distances=near)
    assert "its distances are not the" in line


STORED = {
    ("l2", "Euclidean"): np.sqrt,
    ("l2", "squared"): lambda near: near,
    ("ip", "products"): lambda near: -near,
    ("ip", "negative products"): lambda near: near,
    ("cosine", "1 - cosine"): lambda near: near,
    ("cosine", "cosines"): lambda near: 1 - near,
    ("cosine", "squared, of normalised vectors"): lambda near: 2 * near,
    ("cosine", "Euclidean, of normalised vectors"): lambda near: np.sqrt(2 * near),
}


@pytest.mark.parametrize(("kind", "store"), STORED.items(), ids=str)
def test_known_ways_to_store_a_distance(kind, store):
    near = np.sort(np.random.default_rng(0).uniform(0.1, 0.9, (100, 20)), axis=1)
    assert convention(store(near).astype("f4"), near, kind[0]) == kind[1]


# --- use ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def prepared(tmp_path):
    """A data set with ground truth in a file, made of what `change` makes of the exact one."""

    def make(base, queries, distance="l2", width=120, change=lambda ids: ids):
        files = {"base": base, "queries": queries}
        for name, rows in files.items():
            vector_file(tmp_path / f"{name}.fbin", rows)
        exact = exact_neighbors(base, queries, distance, width)
        ids = change(exact.neighbors)
        (tmp_path / "gt.ibin").write_bytes(header(*ids.shape) + ids.astype("<i4").tobytes())
        card = DatasetCard(
            name="tiny",
            directory=tmp_path,
            title="x",
            distance=distance,
            base={"path": "base.fbin"},
            queries={"path": "queries.fbin"},
            truth={"path": "gt.ibin"},
        )
        return card, prepare(card, tmp_path / "cache", Progress())

    return make


def use(card, dataset, k=10):
    return supplied_truth(card, dataset, k, card.directory / "cache", 1, Progress())


def ours(card, dataset, k=10):
    return ground_truth(dataset, k, card.directory / "cache", 1, Progress())


def shuffled(ids):
    return np.random.default_rng(3).permuted(ids, axis=1)


@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("k", [1, 10, 50])
def test_it_is_ranked_like_ours(prepared, distance, k):
    data = prepared(gaussian(3000), gaussian(150, seed=1), distance)
    found, exact = use(*data, k), ours(*data, k)
    np.testing.assert_array_equal(found.neighbors, exact.neighbors)
    np.testing.assert_array_equal(found.distances, exact.distances)
    assert found.key.startswith("supplied-") and found.key != exact.key and len(found.key) < 30


def test_what_is_made_once_is_read_the_next_time(prepared, monkeypatch):
    data = prepared(gaussian(3000), gaussian(150, seed=1))
    first = use(*data)
    monkeypatch.setattr(module, "check_supplied", None)
    again = use(*data)
    assert again.key == first.key
    np.testing.assert_array_equal(again.neighbors, first.neighbors)


def test_another_file_is_another_truth(prepared):
    data = prepared(gaussian(3000), gaussian(150, seed=1))
    first = use(*data)
    data = prepared(gaussian(3000), gaussian(150, seed=1), width=130)
    assert use(*data).key != first.key


@pytest.mark.parametrize("k", [10, 50])
def test_ties_at_the_end_of_a_list_are_computed(prepared, k):
    """Some queries have more equal neighbours than a list is long, of which others chose any."""
    base = gaussian(3000)
    base[100:400] = base[100]
    queries = gaussian(150, seed=1)
    queries[[3, 8]] = base[100] + 0.01

    def others(ids):
        ids = ids.copy()
        ids[[3, 8]] = np.arange(399, 399 - 120, -1)  # tied too
        return ids

    data = prepared(base, queries, change=others)
    found, exact = use(*data, k), ours(*data, k)
    np.testing.assert_array_equal(found.neighbors, exact.neighbors)


def test_too_many_ties_are_refused(prepared):
    data = prepared(np.repeat(gaussian(20), 150, axis=0), gaussian(150, seed=1))
    assert "150 of its 150 lists end within a tie with rank 50" in use(*data)


def test_a_list_too_short_for_k(prepared):
    data = prepared(gaussian(3000), gaussian(150, seed=1))
    assert "120 neighbours per query, 122 are needed" in use(*data, k=61)
    assert "100 are needed" in use(*prepared(gaussian(3000), gaussian(150, seed=1), width=90))


def test_a_small_base_is_computed(prepared):
    assert "soon compared" in use(*prepared(gaussian(90), gaussian(10, seed=1), width=90))


def test_a_file_that_fails_is_a_reason(prepared):
    data = prepared(gaussian(3000), gaussian(150, seed=1), change=lambda ids: (ids + 1) % 3000)
    assert "recomputed queries have other neighbours" in use(*data)
    (data[0].directory / "gt.ibin").unlink()
    assert "no such file" in use(*data)


def test_the_order_of_a_list_does_not_matter_where_it_is_used(prepared):
    """The check wants the nearest first, which a shuffled list almost never breaks for all."""
    data = prepared(gaussian(3000), gaussian(150, seed=1))
    supplied = module.read_supplied(data[0].directory / "gt.ibin", data[0].truth)
    neighbors, _ = module._ranked(
        dataclasses.replace(supplied, neighbors=shuffled(supplied.neighbors)), data[1], 100, 1, Progress()
    )
    np.testing.assert_array_equal(neighbors, ours(*data).neighbors)
