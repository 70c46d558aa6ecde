import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cards.algorithms import Algorithm, AlgorithmOffer, Grid, LibraryCard
from benchmarks.plan import DataFacts, Request, make_plan
from benchmarks.results.schema import Identity, label

FACTS = {
    "name": "tiny",
    "distance": "l2",
    "dtype": "float32",
    "n": 1000,
    "nq": 10,
    "dimension": 4,
    "base_sha256": "b",
    "queries_sha256": "q",
}


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "algorithm.py").write_text("class Graph: pass\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.2.6\n")
    offer = AlgorithmOffer.model_validate(
        {
            "class": "Graph",
            "family": "graph",
            "distances": ["l2", "ip"],
            "dtypes": ["float32"],
            "smoke": {},
            "constraints": ["ef >= k", "M <= n / 4", "M*2 <= 64"],
            "parameters": {
                "M": {"stage": "build", "type": "int", "default": 8},
                "alpha": {"stage": "build", "type": "float", "default": 1},
                "ef": {"stage": "search", "type": "int", "default": 10},
                "slack": {"stage": "search", "type": "float", "default": 0.5},
            },
        }
    )
    card = LibraryCard(
        directory=tmp_path, library="x", upstream="x", version="1", licence="x", algorithms={"graph": offer}
    )
    return Algorithm(name="graph", library=card, offer=offer)


@pytest.fixture
def plan(graph):
    """Plan grids of the graph; keyword arguments change the request or, by name, the data."""

    def of(*grids, complete=frozenset(), data=None, **changes):
        fields = {"k": 10, "mode": "batch", "repeats": 3, "threads": 2, "seeds": [0], **changes}
        request = Request(data=DataFacts(**{**FACTS, **(data or {})}), algorithms=[(graph, list(grids))], **fields)
        return make_plan(request, complete)

    return of


def parameters(made):
    """[(build values, [search values of each point])] in order."""
    return [
        (tuple(job.build_params.values()), [tuple(point.search_params.values()) for point in job.points])
        for job in made.jobs
    ]


def test_a_grid_expands_in_the_order_of_the_card(plan):
    grid = Grid(search={"slack": [0.1, 0.2], "ef": [20, 10]}, build={"M": [4, 2]})
    searches = [(20, 0.1), (20, 0.2), (10, 0.1), (10, 0.2)]
    assert parameters(plan(grid)) == [((4, 1.0), searches), ((2, 1.0), searches)]
    assert list(plan(grid).jobs[0].points[0].search_params) == ["ef", "slack"]


def test_defaults_are_filled_in(plan):
    point = plan(Grid()).jobs[0].points[0]
    assert point.build_params == {"M": 8, "alpha": 1.0} and point.search_params == {"ef": 10, "slack": 0.5}


def test_a_default_and_its_value_written_out_are_one_point(plan):
    assert plan(Grid()).jobs[0].points == plan(Grid(build={"M": 8}, search={"ef": 10})).jobs[0].points


def test_an_identity_says_what_was_asked(plan):
    point = plan(Grid(), seeds=[5], mode="single", k=7).jobs[0].points[0]
    assert point == Identity(
        dataset="tiny",
        base_sha256="b",
        queries_sha256="q",
        distance="l2",
        algorithm="graph",
        seed=5,
        k=7,
        mode="single",
        threads=2,
        build_params={"M": 8, "alpha": 1.0},
        search_params={"ef": 10, "slack": 0.5},
    )


@pytest.mark.parametrize(("values", "same"), [([1], [1.0]), ([2], [2.0])])
def test_whole_and_decimal_spelling_of_a_float_are_one_identity(plan, values, same):
    for stage, name in (("build", "alpha"), ("search", "slack")):
        one, other = (plan(Grid(**{stage: {name: spelt}})).jobs[0].points[0] for spelt in (values, same))
        assert one.hash() == other.hash() and one.label() == other.label()


@pytest.mark.parametrize("grid", [Grid(search={"slack": [1, 1.0]}), Grid(build={"alpha": [1, 1.0]})])
def test_two_spellings_of_one_value_are_one_point(plan, grid):
    assert plan(grid).points == 1


def test_a_repeated_seed_is_built_once(plan):
    assert len(plan(Grid(), seeds=[0, 0]).jobs) == 1


def test_several_seeds_are_several_builds(plan):
    made = plan(Grid(build={"M": [4, 8]}, search={"ef": [10, 20]}), seeds=[0, 1, 2])
    assert [(job.build_params["M"], job.seed) for job in made.jobs] == [(m, seed) for m in (4, 8) for seed in (0, 1, 2)]
    assert all(point.seed == job.seed for job in made.jobs for point in job.points)
    assert len({job.hash() for job in made.jobs}) == 6


def test_grids_of_one_build_share_it(plan):
    made = plan(Grid(search={"ef": [10, 20]}), Grid(build={"M": 4}), Grid(build={"M": 8}, search={"ef": [20, 30]}))
    assert parameters(made) == [((8, 1.0), [(10, 0.5), (20, 0.5), (30, 0.5)]), ((4, 1.0), [(10, 0.5)])]


def test_no_point_comes_twice(plan):
    made = plan(
        Grid(build={"M": [4, 8]}, search={"ef": [10, 20]}),
        Grid(build={"M": [8, 4]}, search={"ef": [20, 10]}),
        seeds=[0, 1],
    )
    hashes = [point.hash() for job in made.jobs for point in job.points]
    assert len(hashes) == len(set(hashes)) == made.points == 8


def test_a_broken_constraint_is_a_skip_with_its_reason(plan):
    made = plan(Grid(search={"ef": [5, 10]}))
    assert parameters(made) == [((8, 1.0), [(10, 0.5)])]
    assert [(skip.algorithm, skip.params["ef"], skip.reason) for skip in made.skips] == [
        ("graph", 5, "breaks ef >= k (ef = 5, k = 10)")
    ]


def test_a_skip_names_values_however_the_constraint_is_spaced(plan):
    assert plan(Grid(build={"M": 33})).skips[0].reason == "breaks M*2 <= 64 (M = 33)"


def test_a_build_without_points_is_no_job(plan):
    made = plan(Grid(build={"M": [8, 300]}))
    assert [job.build_params["M"] for job in made.jobs] == [8]
    assert [skip.reason for skip in made.skips] == ["breaks M <= n / 4 (M = 300, n = 1000)"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"distance": "cosine"}, "has no distance cosine, only l2, ip"),
        ({"dtype": "uint8"}, "takes no uint8, only float32"),
    ],
)
def test_data_that_an_algorithm_cannot_take_is_one_skip(plan, data, reason):
    made = plan(Grid(search={"ef": [10, 20]}), data=data)
    assert made.jobs == [] and [(skip.params, skip.reason) for skip in made.skips] == [({}, reason)]


def test_complete_points_are_left_out(plan):
    grid = Grid(build={"M": [4, 8]}, search={"ef": [10, 20]})
    points = [point for job in plan(grid).jobs for point in job.points]
    made = plan(grid, complete=frozenset({points[0].hash(), points[2].hash(), points[3].hash(), "other"}))
    assert [job.points for job in made.jobs] == [[points[1]]]
    assert made.complete == [points[0], points[2], points[3]] and made.points == 1


def test_a_dry_run_needs_no_data(plan):
    unknown = {"dtype": None, "n": None, "nq": None, "dimension": None, "base_sha256": "", "queries_sha256": ""}
    made = plan(Grid(build={"M": [8, 30]}, search={"ef": [5, 10]}), data=unknown)
    assert parameters(made) == [((8, 1.0), [(10, 0.5)]), ((30, 1.0), [(10, 0.5)])] and len(made.skips) == 2


# --- identity ------------------------------------------------------------------------------------------------------

IDENTITY = Identity(
    dataset="d",
    base_sha256="b",
    queries_sha256="q",
    distance="l2",
    algorithm="a",
    build_params={"M": 8},
    search_params={"ef": 10},
    seed=0,
    k=10,
    mode="batch",
    threads=1,
)
CHANGES = {
    "base_sha256": "c",
    "queries_sha256": "r",
    "distance": "ip",
    "algorithm": "b",
    "build_params": {"M": 9},
    "search_params": {"ef": 11},
    "seed": 1,
    "k": 11,
    "mode": "single",
    "threads": 2,
    "source": "f" * 64,
}


def test_every_field_of_an_identity_is_tested():
    assert set(CHANGES) | {"dataset"} == set(Identity.model_fields)


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_changes_the_identity(field):
    assert IDENTITY.model_copy(update={field: CHANGES[field]}).hash() != IDENTITY.hash()


@pytest.mark.parametrize(
    "update",
    [
        {"build_params": {"ef": 8}, "search_params": {"M": 10}},
        {"build_params": {"M": 8, "ef": 10}, "search_params": {}},
        {"build_params": {"M": "8"}},
        {"build_params": {"M": 8.5}},
        {"base_sha256": "q", "queries_sha256": "b"},
    ],
)
def test_alike_is_not_the_same(update):
    assert IDENTITY.model_copy(update=update).hash() != IDENTITY.hash()


def test_neither_name_nor_order_changes_the_identity():
    assert IDENTITY.model_copy(update={"dataset": "e"}).hash() == IDENTITY.hash()
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert (
        IDENTITY.model_copy(update={"build_params": one}).hash()
        == IDENTITY.model_copy(update={"build_params": other}).hash()
    )


VALUES = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8))


@given(
    st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.dictionaries(st.text(max_size=4), VALUES, max_size=4)
)
def test_an_identity_survives_json(build, search):
    identity = IDENTITY.model_copy(update={"build_params": build, "search_params": search})
    read = Identity.model_validate_json(identity.model_dump_json())
    assert read.hash() == identity.hash() and len(read.hash()) == 16
    assert [type(value) for value in read.build_params.values()] == [type(value) for value in build.values()]


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"k": 5}, True),
        ({"mode": "single"}, True),
        ({"repeats": 9}, True),
        ({"threads": 3}, False),
        ({"seeds": [1]}, False),
        ({"data": {"name": "other"}}, True),
        ({"data": {"queries_sha256": "r"}}, True),
        ({"data": {"base_sha256": "c"}}, False),
        ({"data": {"distance": "ip"}}, False),
    ],
)
def test_an_index_is_shared_by_what_does_not_change_it(plan, changes, same):
    assert (plan(Grid(), **changes).jobs[0].hash() == plan(Grid()).jobs[0].hash()) is same


def test_an_index_depends_on_build_values_and_code_but_not_on_search_values(plan, graph):
    before = plan(Grid()).jobs[0].hash()
    assert plan(Grid(search={"ef": [20, 30]})).jobs[0].hash() == before
    assert plan(Grid(build={"M": 9})).jobs[0].hash() != before
    (graph.directory / "algorithm.py").write_text("class Graph: changed = True\n")
    assert plan(Grid()).jobs[0].hash() != before


def test_a_plan_is_json(plan):
    assert json.loads(plan(Grid()).model_dump_json())["jobs"][0]["build_params"] == {"M": 8, "alpha": 1.0}


@pytest.mark.parametrize(
    ("params", "hidden", "expected"),
    [
        ({"M": 8, "a": 1.5, "kind": "pq"}, (), "M=8,a=1.5,kind=pq"),
        ({"M": 8, "keep": False, "fast": True, "zero": 0}, (), "M=8,fast,zero=0"),
        ({"M": 8, "ef": 1}, {"M"}, "ef=1"),
        ({"M": 8}, {"M"}, "default"),
        ({"keep": False}, (), "default"),
        ({}, (), "default"),
    ],
)
def test_label(params, hidden, expected):
    assert label(params, hidden) == expected
