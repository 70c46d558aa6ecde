import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.neighbors import NearestNeighbors

from benchmarks.groundtruth import exact, scan, search
from benchmarks.groundtruth.distances import DISTANCES
from benchmarks.groundtruth.exact import exact_neighbors, exact_truths


def brute_force(base, queries, distance, depth):
    """Every distance in float64 as its definition says, then a stable sort: ties go to the lower id."""
    rows = base.astype(np.float64)
    squares = (rows * rows).sum(1)
    ids, near = [], []
    for query in queries.astype(np.float64):
        if distance == "l2":
            d = ((rows - query) ** 2).sum(1)
        else:
            d = -(rows * query).sum(1)
        if distance == "cosine":
            d = -d
            both = squares * (query * query).sum()
            ratio = np.where(both > 0, d * d / np.where(both > 0, both, 1), 0)
            d = 1 - np.sign(d) * np.sqrt(np.minimum(ratio, 1))
        order = np.argsort(d, kind="stable")[:depth]
        ids.append(order)
        near.append(d[order])
    return np.array(ids), np.array(near)


def check(base, queries, distance, depth, **options):
    truth = exact_neighbors(base, queries, distance, depth, **options)
    ids, near = brute_force(base, queries, distance, depth)
    assert truth.neighbors.dtype == np.int32 and truth.distances.dtype == np.float64
    np.testing.assert_array_equal(truth.distances, near)
    np.testing.assert_array_equal(truth.neighbors, ids)
    return truth


def normal(seed, *shape, offset=0.0, scale=1.0):
    return ((np.random.default_rng(seed).standard_normal(shape) + offset) * scale).astype(np.float32)


def integers(seed, low, high, shape, dtype):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def duplicates():
    base = normal(1, 3000, 20)
    base[np.random.default_rng(2).permutation(3000)[:600]] = base[7]  # found on both sides of tile borders
    queries = normal(3, 25, 20)
    queries[:5] = base[7]  # all 600 at distance 0
    queries[5:10] = base[7] + queries[5:10] / 100
    return base, queries


def near_copies():
    """900 rows that differ by units in the last place: float32 products cannot tell them apart."""
    base = normal(4, 3000, 32)
    rng = np.random.default_rng(5)
    twins = rng.permutation(3000)[:900]
    base[twins] = np.nextafter(base[3], np.where(rng.random((900, 32)) < 0.5, -9, 9).astype(np.float32))
    return base, np.concatenate([base[3] + normal(6, 20, 32, scale=0.5), normal(7, 5, 32)])


def zeros():
    base, queries = normal(8, 1500, 12), normal(9, 20, 12)
    base[np.random.default_rng(10).permutation(1500)[:200]] = 0
    queries[3] = queries[11] = 0
    queries[5] = -100  # far from everything under cosine, unless the base is zero
    base[:900] = np.abs(base[:900])
    return base, queries


def parallel():
    """Small multiples of few directions: exact cosine ties between rows of different length."""
    base = integers(11, -2, 3, (2000, 3), np.int8) * integers(12, 1, 12, (2000, 1), np.int8)
    return base, integers(13, -2, 3, (30, 3), np.int8)


def many_lengths(exponents):
    base, queries = normal(14, 2000, 16), normal(15, 20, 16)
    return [
        (x * 10 ** np.random.default_rng(s).uniform(*exponents, (len(x), 1))).astype(np.float32)
        for s, x in ((16, base), (17, queries))
    ]


def with_outlier(value):
    base = normal(18, 1200, 8)
    base[777] *= value
    return base, normal(19, 10, 8)


def farthest_first():
    base = normal(20, 5000, 10)
    return base[np.argsort(-(base**2).sum(1))], normal(21, 10, 10, scale=0.1)


EASY = {  # float32 must settle these, whatever the distance
    "random": lambda: (normal(30, 4000, 48), normal(31, 40, 48)),
    "one query": lambda: (normal(32, 3000, 24), normal(33, 1, 24)),
    "one row": lambda: (normal(34, 1, 24), normal(35, 5, 24)),
    "fewer rows than depth": lambda: (normal(36, 30, 24), normal(37, 5, 24)),
    "depth plus slack rows": lambda: (normal(38, 68, 6), normal(39, 5, 6)),
    "uint8": lambda: (integers(40, 0, 256, (4000, 64), np.uint8), integers(41, 0, 256, (20, 64), np.uint8)),
    "int8": lambda: (
        integers(42, -128, 128, (4000, 64), np.int8),
        integers(43, -128, 128, (20, 64), np.int8),
    ),
    "uint8 and float32": lambda: (
        integers(44, 0, 256, (4000, 64), np.uint8),
        normal(45, 20, 64, offset=2, scale=50),
    ),
    "1500 dimensions": lambda: (normal(46, 1500, 1500), normal(47, 7, 1500)),
    "farthest first": farthest_first,
    "strided": lambda: (normal(48, 6000, 40)[::2, ::2], normal(49, 10, 40)[:, 1::2]),
}
HARD = {
    "offset 1e3": lambda: (normal(50, 3000, 32, offset=1e3), normal(51, 20, 32, offset=1e3)),
    "offset 1e4": lambda: (normal(52, 3000, 32, offset=1e4), normal(53, 20, 32, offset=1e4)),
    "queries 1e4 away": lambda: (normal(54, 3000, 32), normal(55, 20, 32, offset=1e4)),
    "duplicates": duplicates,
    "near copies": near_copies,
    "all rows equal": lambda: (np.full((2500, 5), 0.1, np.float32), normal(56, 6, 5)),
    "zero vectors": zeros,
    "zero base": lambda: (np.zeros((1500, 4), np.float32), normal(57, 4, 4)),
    "parallel": parallel,
    "binary": lambda: (integers(58, 0, 2, (5000, 3), np.uint8), integers(59, 0, 2, (30, 3), np.uint8)),
    "binary float32": lambda: (
        integers(60, 0, 2, (5000, 3), np.float32),
        integers(61, 0, 2, (30, 3), np.float32),
    ),
    "one dimension": lambda: (integers(62, -9, 9, (3000, 1), np.int8), integers(63, -9, 9, (20, 1), np.int8)),
    "lengths 1e-3 to 1e3": lambda: many_lengths((-3, 3)),
    "lengths 1e-30 to 1e30": lambda: many_lengths((-30, 30)),
    "all at 1e30": lambda: (normal(64, 900, 8, scale=1e30), normal(65, 10, 8, scale=1e30)),
    "all at 1e38": lambda: (normal(66, 900, 8, scale=5e37), normal(67, 10, 8, scale=5e37)),
    "products overflow": lambda: (normal(72, 25, 8, scale=1e15), normal(73, 30, 8, scale=1e30)),
    "all at 1e-23": lambda: (normal(68, 900, 8, scale=1e-23), normal(69, 10, 8, scale=1e-23)),
    "subnormal": lambda: (normal(70, 900, 8, scale=1e-41), normal(71, 10, 8, scale=1e-41)),
    "outlier 1e6": lambda: with_outlier(1e6),
    "outlier 1e35": lambda: with_outlier(1e35),
}


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", EASY)
def test_float32_settles_easy_data(name, distance):
    base, queries = EASY[name]()
    assert check(base, queries, distance, 40).widened == 0


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("depth", [1, 100])
def test_hard_data_agrees_with_brute_force(name, distance, depth):
    base, queries = HARD[name]()
    check(base, queries, distance, depth, threads=2)


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_centring_settles_data_far_from_the_origin(offset):
    base, queries = normal(80, 3000, 32, offset=offset), normal(81, 20, 32, offset=offset)
    for distance in ("l2", "ip"):
        assert check(base, queries, distance, 20).widened == 0
    base, queries = normal(80, 3000, 32, offset=100), normal(81, 20, 32, offset=100)
    assert check(base, queries, "cosine", 20).widened == 0


def test_zero_rows_do_not_crowd_the_candidates_under_cosine():
    base, queries = normal(90, 4000, 48), normal(91, 20, 48)
    base[::5] = 0  # 800 rows at distance 1, farther than the nearest but nearer than most
    assert check(base, queries, "cosine", 40).widened == 0


def test_a_zero_query_is_not_scanned_again_under_cosine():
    base, queries = normal(89, 3000, 8), np.zeros((2, 8), np.float32)
    assert check(base, queries, "cosine", 100).widened == 0


def test_only_queries_that_float32_cannot_settle_are_widened():
    base, queries = duplicates()
    assert 5 <= check(base, queries, "l2", 100).widened < len(queries)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_small_integers_with_many_ties(data):
    dtype = data.draw(st.sampled_from([np.int8, np.uint8, np.float32]))
    dimension = data.draw(st.integers(1, 4))
    values = st.integers(0 if dtype == np.uint8 else -2, 2)
    shapes = (
        st.tuples(st.integers(1, 150), st.just(dimension)),
        st.tuples(st.integers(1, 4), st.just(dimension)),
    )
    base, queries = (data.draw(hnp.arrays(dtype, shape, elements=values, fill=values)) for shape in shapes)
    for distance in DISTANCES:
        check(base, queries, distance, data.draw(st.integers(1, 160)))


@pytest.mark.parametrize("distance", DISTANCES)
def test_threads_and_slices_change_nothing(distance, monkeypatch):
    base, queries = duplicates()
    queries = np.concatenate([queries, normal(82, 1200, 20)])
    one = exact_neighbors(base, queries, distance, 30)
    monkeypatch.setattr(scan, "PENDING_PAIRS", 200)
    monkeypatch.setattr(scan, "PAIR_ELEMENTS", 1000)
    monkeypatch.setattr(exact, "SETTLE_QUERIES", 31)
    monkeypatch.setattr(exact, "BLOCK_QUERIES", 21)
    for name, value in (("PART_BYTES", 1), ("LEAST_ROWS", 700), ("TILE_ROWS", 350), ("BLOCK_QUERIES", 47)):
        monkeypatch.setattr(search, name, value)
    three = exact_neighbors(base, queries, distance, 30, threads=3)
    np.testing.assert_array_equal(three.neighbors, one.neighbors)
    np.testing.assert_array_equal(three.distances, one.distances)


@pytest.mark.parametrize("name", ["random", "uint8", "duplicates", "near copies", "zero vectors", "many parts"])
@pytest.mark.parametrize("threads", [1, 2])
def test_several_truths_from_one_pass_are_the_single_ones(name, threads, monkeypatch):
    if name == "many parts":
        for limit, value in (("PART_WORK", 1), ("PART_BYTES", 1), ("LEAST_ROWS", 700), ("TILE_ROWS", 350)):
            monkeypatch.setattr(search, limit, value)
        base, queries = normal(94, 4000, 12), normal(95, 150, 12)
    else:
        base, queries = (EASY | HARD)[name]()
    truths = exact_truths(base, queries, DISTANCES, 60, threads=threads)
    assert list(truths) == list(DISTANCES)
    for distance, truth in truths.items():
        for depth in (1, 25, 60):
            single = exact_neighbors(base, queries, distance, depth)
            np.testing.assert_array_equal(truth.neighbors[:, :depth], single.neighbors)
            np.testing.assert_array_equal(truth.distances[:, :depth], single.distances)


@pytest.mark.parametrize("distance", DISTANCES)
def test_candidates_that_a_merge_of_parts_drops_are_not_forgotten(distance, monkeypatch):
    for name, value in (("PART_WORK", 1), ("LEAST_ROWS", 64), ("TILE_ROWS", 64)):
        monkeypatch.setattr(search, name, value)
    for seed in range(10):
        base, rng = normal(seed, 256, 8), np.random.default_rng(seed)
        twins = rng.permutation(256)[:90]  # more of them than one part keeps, in every part
        base[twins] = np.nextafter(base[3], np.where(rng.random((90, 8)) < 0.5, -9, 9).astype(np.float32))
        check(base, base[3] + normal(seed + 100, 4, 8, scale=0.5), distance, 3)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_sample_that_misleads_costs_time_alone(distance, dtype, monkeypatch):
    monkeypatch.setattr(search.Search, "_sampled", lambda self, scores, vectors, factors: np.float32(1e30))
    base, queries = (integers(seed, 0, 9, (rows, 5), dtype) for seed, rows in ((92, 3000), (93, 20)))
    assert check(base, queries, distance, 40).widened == 20


def test_scikit_learn_finds_the_same():
    base, queries = normal(83, 3000, 24), normal(84, 50, 24)
    for distance, metric in (("l2", "sqeuclidean"), ("cosine", "cosine")):
        truth = exact_neighbors(base, queries, distance, 50, threads=2)
        oracle = NearestNeighbors(n_neighbors=50, algorithm="brute", metric=metric).fit(base.astype(np.float64))
        near, ids = oracle.kneighbors(queries.astype(np.float64))
        np.testing.assert_array_equal(truth.neighbors, ids)
        np.testing.assert_allclose(truth.distances, near, rtol=1e-9)


def test_progress_counts_every_comparison_in_the_callers_thread():
    base, queries = duplicates()
    calls = []
    truth = exact_neighbors(base, queries, "l2", 100, threads=2, progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1] == ((len(queries) + truth.widened) * len(base),) * 2


def test_an_interrupted_progress_stops_the_workers(monkeypatch):
    class Interrupt(Exception):
        pass

    def stop(done, total):
        if done:
            raise Interrupt

    tiles = []
    original = search.select
    monkeypatch.setattr(search, "select", lambda *arguments: tiles.append(1) or original(*arguments))
    base, queries = normal(85, 40_000, 64), normal(86, 20_000, 64)  # seconds of work
    with pytest.raises(Interrupt):
        exact_neighbors(base, queries, "l2", 10, threads=2, progress=stop)
    assert len(tiles) < 0.5 * (40_000 / search.TILE_ROWS) * (20_000 / search.BLOCK_QUERIES)


@pytest.mark.parametrize("distance", ["l2", "cosine"])
@pytest.mark.parametrize("copies", [False, True])  # a third of the rows equal: the float64 pass has to run
def test_memory_does_not_grow_with_the_base(distance, copies, tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "PENDING_PAIRS", 50_000)
    queries = normal(87, 60, 32)
    if copies:
        queries[:50] = queries[0]
    peaks = []
    for rows in (10_000, 80_000):
        base = normal(88, rows, 32)
        if copies:
            base[::3] = queries[0]
        base.tofile(tmp_path / "base")
        base = np.memmap(tmp_path / "base", np.float32, "r", shape=base.shape)
        tracemalloc.start()
        truth = exact_neighbors(base, queries, distance, 50)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (truth.widened > 0) == copies
    assert peaks[1] < peaks[0] + (1 << 20) < 24 << 20
    assert peaks[1] < 80_000 * 32 * 4  # less than a float32 copy of the base


@pytest.mark.parametrize(
    "change,message",
    [
        ({"base": np.ones((0, 3), np.float32)}, "base of shape"),
        ({"queries": np.ones((0, 3), np.float32)}, "queries of shape"),
        ({"queries": np.ones(3, np.float32)}, "queries of shape"),
        ({"base": np.ones((2, 0), np.float32)}, "base of shape"),
        ({"queries": np.ones((2, 4), np.float32)}, "base has dimension 3, queries have dimension 4"),
        ({"base": np.ones((2, 3))}, "base are float64"),
        ({"distance": "euclidean"}, "unknown distance 'euclidean'"),
        ({"depth": 0}, "depth is 0"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    right = {"base": np.ones((5, 3), np.float32), "queries": np.ones((2, 3), np.float32)}
    with pytest.raises(ValueError, match=message) as caught:
        exact_neighbors(**(right | {"distance": "l2", "depth": 2} | change))
    assert "\n" not in str(caught.value)
