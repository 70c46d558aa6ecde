import numpy as np
import pytest

from benchmarks.analysis.select import (
    average_recall,
    choose,
    describe,
    failures,
    nearest,
    of_newest_code,
    require_alike,
    varying,
    with_values,
)
from benchmarks.errors import UserError
from benchmarks.results.store import Store
from tests.factories import make_result


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def with_recall(hits, nq=100):
    """Hits per query that sum to `hits`."""
    return np.full(nq, hits // nq) + (np.arange(nq) < hits % nq)


def test_choose_by_each_filter(store):
    for algorithm, k, mode, threads in (
        ("a", 10, "batch", 1),
        ("a", 100, "batch", 1),
        ("b", 10, "single", 1),
        ("b", 10, "batch", 4),
    ):
        make_result(store, algorithm=algorithm, k=k, mode=mode, threads=threads)
    every = list(store.results())
    assert len(choose(every)) == 4
    assert {result.identity.algorithm for result in choose(every, algorithms=["b"])} == {"b"}
    assert len(choose(every, algorithms=["a", "b"])) == 4
    assert [result.identity.k for result in choose(every, ks=[100])] == [100]
    assert [result.identity.mode for result in choose(every, mode="single")] == ["single"]
    assert [result.identity.threads for result in choose(every, threads=4)] == [4]


def test_nothing_found_says_what_there_is(store):
    make_result(store, algorithm="faiss-hnsw", k=10)
    make_result(store, algorithm="faiss-hnsw", k=100)
    every = list(store.results())
    with pytest.raises(UserError) as error:
        choose(every, ks=[5], mode="single")
    for part in ("--k 5", "--mode single", "faiss-hnsw (2)", "10 (1), 100 (1)", "batch (2)", "toyset (2)"):
        assert part in str(error.value)
    with pytest.raises(UserError, match="'faiss-hsnw'; did you mean faiss-hnsw"):
        choose(every, algorithms=["faiss-hsnw"])
    with pytest.raises(UserError, match="no readable results"):
        choose([])


@pytest.mark.parametrize(
    "name, unlike, values, flag",
    [
        ("data", {"base": "other"}, None, "--data"),
        ("queries", {"queries": "other", "truth": "t"}, None, "--data"),
        ("truth", {"truth": "abc", "seed": 1}, "abc", "--results-dir"),
        ("distance", {"distance": "ip"}, "ip (1 points), l2 (1 points)", "--distance"),
        ("threads", {"threads": 4}, "1 (1 points), 4 (1 points)", "--threads"),
        ("k", {"k": 100}, "10 (1 points), 100 (1 points)", "--k"),
        ("mode", {"mode": "single"}, "batch (1 points), single (1 points)", "--mode"),
    ],
)
def test_unlike_results_are_refused(store, name, unlike, values, flag):
    results = [make_result(store), make_result(store, **unlike)]
    with pytest.raises(UserError) as error:
        require_alike(results, speed=False)
    message = str(error.value)
    assert "\n" not in message and f"{name} " in message and flag in message and "--mix" in message
    assert values is None or values in message
    assert require_alike(results, speed=False, mix=True).startswith("mixed: ")


@pytest.mark.parametrize(
    "unlike, part",
    [
        ({"cpu": "Other CPU", "seed": 1}, "Other CPU (8 CPUs)"),
        ({"logical_cpus": 64, "seed": 1}, "Toy CPU (64 CPUs)"),
    ],
)
def test_the_machine_matters_only_for_speed(store, unlike, part):
    results = [make_result(store), make_result(store, **unlike)]
    assert require_alike(results, speed=False) is None
    with pytest.raises(UserError) as error:
        require_alike(results, speed=True)
    assert part in str(error.value)


def test_newest_code_alone_is_shown(store):
    old = make_result(store, search={"efSearch": 16}, code="old", measured_at="2026-01-01T00:00:00+00:00")
    new = make_result(store, search={"efSearch": 32}, code="new", measured_at="2026-01-02T00:00:00+00:00")
    other = make_result(store, algorithm="hnswlib", code="old", measured_at="2025-01-01T00:00:00+00:00")
    assert of_newest_code([old, new, other]) == ([new, other], [old])


def test_data_and_distance_choose(store):
    one, two = make_result(store), make_result(store, base="other", distance="ip", search={"efSearch": 99})
    assert choose([one, two], data=one.identity.base_sha256[:8]) == [one]
    assert choose([one, two], distance="ip") == [two]
    with pytest.raises(UserError, match="--data ffff"):
        choose([one], data="ffff")


def test_mix_is_noted(store):
    results = [make_result(store, k=k) for k in (100, 10, 20)]
    assert require_alike(results, speed=True, mix=True) == "mixed: k 10, 20 and 100"
    assert require_alike(results[:1], speed=True) is None
    assert describe(results) == "K = 10, 20 and 100 · batch mode · 1 thread · n = 200 queries"


def test_nearest_point_of_each_algorithm(store):
    for ef, hits in ((10, 700), (20, 890), (30, 930)):
        make_result(store, algorithm="a", search={"ef": ef}, hits=with_recall(hits))
    make_result(store, algorithm="b", search={"ef": 1}, hits=with_recall(500))
    make_result(store, algorithm="b", search={"ef": 2}, status="timeout")
    make_result(store, algorithm="c", status="failed")
    found = nearest(store.results())
    assert [(result.identity.algorithm, result.identity.search_params) for result in found] == [
        ("a", {"ef": 20}),
        ("b", {"ef": 1}),
    ]
    assert float(average_recall(found[0])) == 0.89
    assert [result.identity.search_params for result in nearest(store.results(), 0.95)][0] == {"ef": 30}


def test_of_equally_near_points_the_higher_recall(store):
    make_result(store, search={"ef": 10}, hits=with_recall(870))
    make_result(store, search={"ef": 20}, hits=with_recall(930))  # 0.93 - 0.9 is not 0.9 - 0.87 in floats
    assert nearest(store.results())[0].identity.search_params == {"ef": 20}


def test_nearest_of_each_kind_where_mixed(store):
    for k in (10, 100):
        make_result(store, k=k)
    assert [result.identity.k for result in nearest(store.results())] == [10, 100]


def test_nearest_of_failed_points_is_an_error(store):
    make_result(store, search={"ef": 1}, status="timeout")
    with pytest.raises(UserError, match="every selected point failed: faiss-hnsw: 1 failed"):
        nearest(store.results())


def test_failures_name_points_and_reasons(store):
    make_result(store, search={"efSearch": 32})
    assert failures(list(store.results())) == {}
    make_result(store, search={"efSearch": 64}, status="out-of-memory")
    assert failures(list(store.results())) == {"faiss-hnsw": "faiss-hnsw: 1 failed (out-of-memory: efSearch=64)"}
    for ef in (1, 2, 3, 4):
        make_result(store, algorithm="b", build={"M": ef}, search={"ef": ef}, status="failed")
    make_result(store, algorithm="b", build={"M": 5}, search={"ef": 5}, status="timeout")
    text = failures(list(store.results()), limit=2)["b"]
    assert text == "b: all 5 failed (M=1,ef=1 and M=2,ef=2; and 3 more)"


def test_varying():
    assert varying([{"M": 8, "ef": 1}, {"M": 8, "ef": 2, "heuristic": True}]) == ["ef", "heuristic"]
    assert varying([{"M": 8}]) == varying([]) == []


def test_only_some_values_of_a_parameter(store):
    for m in (8, 16):
        for ef in (10, 20):
            make_result(store, algorithm="a", build={"M": m}, search={"ef": ef})
    make_result(store, algorithm="b", build={"M": 32})
    every = list(store.results())
    assert with_values(every, []) == every
    assert len(with_values(every, [("a", "M", [16])])) == 3
    assert len(with_values(every, [("a", "M", [16]), ("a", "ef", [10, 20])])) == 3
    assert {each.identity.label() for each in with_values(every, [("a", "M", [8, 64]), ("a", "ef", [20])])} == {
        "M=8,ef=20",
        "M=32",
    }
    assert with_values(every, [("c", "M", [1])]) == every
    with pytest.raises(UserError, match="no results of a have M = 9; there are: 16, 8"):
        with_values(every, [("a", "M", [9])])
    with pytest.raises(UserError, match="there are: none with a parameter R"):
        with_values(every, [("a", "R", [9])])
