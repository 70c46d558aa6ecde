import numpy as np
import pytest

from benchmarks.analysis.compare import change, changes, difference, load, match, notes, ratio_interval, require_like
from benchmarks.analysis.confirm import Commands, alternate, check_commands, run_py
from benchmarks.analysis.gate import Gate, Rule
from benchmarks.analysis.rules import judge, outcome
from benchmarks.errors import UserError
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.store import Store
from benchmarks.statistics.levels import compare_builds
from benchmarks.statistics.paired import compare_means, compare_shares
from tests.factories import make_result, partition_hits

RECALL, TAIL, QPS = (parse_metric(name) for name in ("recall", "robustness-0.5", "qps"))


@pytest.fixture
def sides(tmp_path):
    """Two stores."""
    return Store(tmp_path / "base"), Store(tmp_path / "new")


def pairs_of(base: Store, new: Store):
    return match(base.results(), new.results())


def quiet(line):
    raise AssertionError(line)


def test_points_are_matched_by_what_they_are(sides):
    for store in sides:
        for ef in (10, 20):
            make_result(store, search={"efSearch": ef})
    make_result(sides[0], search={"efSearch": 30})
    make_result(sides[1], search={"efSearch": 40}, algorithm="hnswlib")
    matched = pairs_of(*sides)
    assert [pair.name for pair in matched.pairs] == [
        "toyset faiss-hnsw efSearch=10 @10",
        "toyset faiss-hnsw efSearch=20 @10",
    ]
    assert matched.only_base == ["toyset faiss-hnsw efSearch=30 @10"]
    assert matched.only_new == ["toyset hnswlib efSearch=40 @10"]


def test_one_point_against_one_is_a_pair_whatever_they_are(sides):
    make_result(sides[0], search={"efSearch": 10})
    make_result(sides[1], algorithm="faiss-ivfflat", search={"n_probe": 2})
    (pair,) = pairs_of(*sides).pairs
    assert pair.name == "toyset faiss-hnsw efSearch=10 @10 → toyset faiss-ivfflat n_probe=2 @10"


def test_nothing_in_common(sides, refusal):
    for ef in (10, 20):
        make_result(sides[0], search={"efSearch": ef})
        make_result(sides[1], search={"efSearch": 10 * ef})
    line = refusal(pairs_of, *sides)
    assert "no operating point in common" in line and "efSearch=20" in line and "efSearch=200" in line


def test_points_that_failed(sides, refusal):
    make_result(sides[0], search={"ef": 1})
    make_result(sides[0], search={"ef": 2})
    make_result(sides[1], search={"ef": 1})
    make_result(sides[1], search={"ef": 2}, status="timeout", reason="too slow")
    matched = pairs_of(*sides)
    assert len(matched.pairs) == 1 and matched.failed == [("toyset faiss-hnsw ef=2 @10", "timeout: too slow")]
    gate = Gate(rules=[Rule(metric="recall", max_drop=0.5)])
    assert outcome(judge(matched, gate)) == "fail"
    assert "NEW holds no point that was measured" in refusal(
        match, sides[0].results(), [item for item in sides[1].results() if not item.ok]
    )


@pytest.mark.parametrize(
    "name, unlike",
    [
        ("k", {"k": 20}),
        ("mode", {"mode": "single"}),
        ("threads", {"threads": 4}),
        ("data", {"base": "other", "truth": "t"}),
        ("truth", {"truth": "other"}),
        ("distance", {"distance": "ip", "truth": "t"}),
    ],
)
def test_unlike_runs_are_refused(sides, refusal, name, unlike):
    for ef in (10, 20):
        make_result(sides[0], search={"ef": ef}, **({"truth": "t"} if "truth" in unlike and name != "truth" else {}))
        make_result(sides[1], search={"ef": ef}, **unlike)
    pairs = pairs_of(*sides).pairs
    assert len(pairs) == 2
    line = refusal(require_like, pairs, False, False)
    assert f"unlike: {name} " in line and "in BASE" in line and "--mix" in line
    assert require_like(pairs, False, True)[0].startswith(f"{name} ")


def test_the_machine_matters_for_speed_alone(sides, refusal):
    make_result(sides[0])
    make_result(sides[1], cpu="Other CPU")
    pairs = pairs_of(*sides).pairs
    assert require_like(pairs, False, False) == []
    assert "leave the speed metrics out" in refusal(require_like, pairs, True, False)
    assert require_like(pairs, True, True) == ["machine Toy CPU (8 CPUs) in BASE, Other CPU (8 CPUs) in NEW"]


def test_other_queries_are_never_paired(sides, refusal):
    make_result(sides[0], truth="t")
    make_result(sides[1], queries="other", truth="t")
    assert "not even with --mix" in refusal(require_like, pairs_of(*sides).pairs, False, True)


def test_differences_are_those_of_the_statistics(sides):
    base, new = partition_hits(0.9, 500, seed=1), partition_hits(0.88, 500, seed=2)
    make_result(sides[0], hits=base)
    make_result(sides[1], hits=new)
    (pair,) = pairs_of(*sides).pairs
    assert difference(pair, RECALL) == compare_means(base / 10, new / 10)
    assert difference(pair, TAIL) == compare_shares(base >= 5, new >= 5)
    assert difference(pair, QPS) is None


def test_several_builds_are_compared_over_builds_and_queries(sides):
    tables = []
    for store, recall in zip(sides, (0.9, 0.88), strict=True):
        tables.append(np.stack([partition_hits(recall, 300, seed=seed) for seed in range(3)]) / 10)
        for seed, values in enumerate(tables[-1]):
            make_result(store, hits=np.round(values * 10).astype(int), seed=seed)
    (pair,) = pairs_of(*sides).pairs
    assert difference(pair, RECALL) == compare_builds(*tables)
    assert "over 3 builds of BASE, 3 of NEW" in notes([pair])[0]


def test_one_build_is_compared_with_that_of_its_seed(sides):
    for seed in (0, 1):
        make_result(sides[0], hits=partition_hits(0.9, 300, seed=seed), seed=seed)
    make_result(sides[1], hits=partition_hits(0.9, 300, seed=1), seed=1)
    (pair,) = pairs_of(*sides).pairs
    assert difference(pair, RECALL).difference == 0
    assert "one of each is compared" in notes([pair])[0]


def test_speed_and_cost_are_relative(sides):
    make_result(sides[0], qps=1000, index_bytes=100)
    make_result(sides[1], qps=800, index_bytes=110)
    (pair,) = pairs_of(*sides).pairs
    speed, size = change(pair, QPS), change(pair, parse_metric("index_bytes"))
    assert speed.difference == pytest.approx(-0.2) and speed.loss == pytest.approx(0.2)
    assert speed.low < -0.2 < speed.high < 0 and speed.p is None
    assert size.difference == pytest.approx(0.1) and size.loss == pytest.approx(0.1) and size.low is None


def test_ratio_of_repeats():
    assert ratio_interval(np.array([1.0]), np.array([1.0, 2.0]), 0.95) == (None, None)
    low, high = ratio_interval(np.array([100.0, 101, 99]), np.array([90.0, 91, 89]), 0.95)
    assert low < -0.1 < high < 0
    assert ratio_interval(np.array([2.0, 2]), np.array([1.0, 1]), 0.95) == pytest.approx((-0.5, -0.5))


def test_holm_over_everything_that_is_tested(sides):
    make_result(sides[0], hits=partition_hits(0.9, 500, seed=1))
    make_result(sides[1], hits=partition_hits(0.85, 500, seed=2))
    found = changes(pairs_of(*sides).pairs, [RECALL, TAIL, QPS])
    assert [item.p is None for item in found] == [False, False, True]
    assert all(item.p_adjusted >= item.p for item in found[:2])
    assert min(item.p_adjusted for item in found[:2]) == pytest.approx(2 * min(item.p for item in found[:2]))


def test_sources(sides, tmp_path, refusal):
    result = make_result(sides[0])
    sides[0].keep_truth(result.identity, "k", np.zeros((200, 10), np.int32), np.zeros((200, 10)))
    baselines = tmp_path / "baselines"
    make_result(Store(baselines / "ci"), search={"ef": 7})
    for text in (sides[0].folder, sides[0].folder / "toyset", result.path):
        assert [item.identity for item in load(str(text), baselines, quiet)] == [result.identity]
    assert load("ci", baselines, quiet)[0].identity.search_params == {"ef": 7}
    assert "baselines: ci" in refusal(load, "cl", baselines, quiet)
    (tmp_path / "empty").mkdir()
    assert "holds no readable result" in refusal(load, str(tmp_path / "empty"), baselines, quiet)
    (sides[0].folder / "toyset" / "faiss-hnsw" / "bad.hdf5").write_text("x")
    lines = []
    assert len(load(str(sides[0].folder), baselines, lines.append)) == 1 and "bad.hdf5" in lines[0]


def test_rules_that_cannot_be_judged(sides, refusal):
    for store in sides:
        make_result(store)
    matched = pairs_of(*sides)
    for rule, part in (
        (Rule(metric="recall@100", max_drop=0.1), "none of the points has this metric"),
        (Rule(metric="recall", max_drop=0.1, algorithms=["scann"]), "only of faiss-hnsw"),
        (Rule(metric="recall-p95", max_drop=0.1), "no mean over queries"),
    ):
        assert part in refusal(judge, matched, Gate(rules=[rule]))


def test_speed_is_screened_then_confirmed(sides):
    make_result(sides[0], qps=1000)
    make_result(sides[1], qps=850)
    matched, gate = pairs_of(*sides), Gate(rules=[Rule(metric="qps", max_drop="10%")])
    asked = []

    def confirm(values):
        def measure(wanted):
            asked.append(wanted)
            return [values]

        return measure

    assert outcome(judge(matched, gate)) == "inconclusive"
    slow = [(1000, 700), (990, 710), (1010, 690), (1000, 705)]
    assert outcome(judge(matched, gate, confirm(slow))) == "fail"
    fast = [(1000, 1000), (990, 995), (1010, 1005), (1000, 1002)]  # the stored repeats were of a busy hour
    assert outcome(judge(matched, gate, confirm(fast))) == "pass"
    unsure = [(1000, 700), (700, 1000), (1000, 1000)]
    assert outcome(judge(matched, gate, confirm(unsure))) == "inconclusive"
    assert len(asked) == 3
    lenient = Gate(rules=[Rule(metric="qps", max_drop="40%")])
    assert outcome(judge(matched, lenient, confirm(slow))) == "pass" and len(asked) == 3  # cleared by the screen


def test_fresh_runs_alternate(sides, tmp_path):
    make_result(sides[0], qps=1000)
    make_result(sides[1], qps=500)
    pairs = pairs_of(*sides).pairs
    ran = []

    def run(command):
        side, folder = command.split()
        ran.append(side)
        make_result(Store(type(tmp_path)(folder)), qps=1000 if side == "old" else 500 + len(ran))

    rounds = alternate([(pairs[0], QPS)], 3, Commands("old {out}", "new {out}"), run)
    assert ran == ["old", "new", "new", "old", "old", "new"]
    assert rounds == [[(pytest.approx(1000), pytest.approx(500 + number)) for number in (2, 3, 6)]]


def test_a_confirming_run_that_measured_something_else(sides, tmp_path, refusal):
    make_result(sides[0])
    make_result(sides[1])

    def run(command):
        make_result(Store(type(tmp_path)(command)), search={"other": 1})

    wanted = [(pairs_of(*sides).pairs[0], QPS)]
    assert "did not measure qps" in refusal(alternate, wanted, 3, Commands("{out}", "{out}"), run)


def test_commands_that_do_not_fit(refusal):
    check_commands(Commands(None, None))
    check_commands(Commands("a {out}", "b {out}"))
    assert "go together" in refusal(check_commands, Commands("a {out}", None))
    assert "put {out}" in refusal(check_commands, Commands("a", "b {out}"))


def test_points_of_another_adapter_are_not_measured_anew(sides, tmp_path, refusal):
    make_result(sides[0], code="of another time")
    assert "--base-command" in refusal(run_py, list(sides[0].results()), tmp_path)


def test_several_data_of_one_name(sides):
    make_result(sides[0], truth="t")
    make_result(sides[0], base="other", truth="t", search={"ef": 1})
    make_result(sides[0], base="third", truth="t", search={"ef": 1})
    make_result(sides[1])
    with pytest.raises(UserError, match="several data in one folder"):
        pairs_of(*sides)
