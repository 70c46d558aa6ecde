import pytest

from benchmarks import sweeps
from benchmarks.cards.algorithms import Algorithm, AlgorithmOffer, Grid, LibraryCard, find_algorithms
from benchmarks.cards.datasets import load_dataset_card
from benchmarks.paths import DATASETS, SWEEPS
from benchmarks.plan import DataFacts, Request, make_plan
from benchmarks.sweeps import Sweep, apply_overrides, grids_for, load_sweep, parse_override


@pytest.fixture
def graph(tmp_path):
    offer = AlgorithmOffer.model_validate(
        {
            "class": "Graph",
            "family": "graph",
            "distances": ["l2"],
            "dtypes": ["float32"],
            "smoke": {"search": {"ef": [1, 2]}},
            "parameters": {
                "M": {"stage": "build", "type": "int", "default": 8},
                "alpha": {"stage": "build", "type": "float", "default": 1.0},
                "ef": {"stage": "search", "type": "int", "default": 10, "max": 1000},
            },
        }
    )
    card = LibraryCard(
        directory=tmp_path, library="x", upstream="x", version="1", licence="x", algorithms={"graph": offer}
    )
    return Algorithm(name="graph", library=card, offer=offer)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of sweeps in place of configs/sweeps."""
    monkeypatch.setattr(sweeps, "SWEEPS", tmp_path)
    (tmp_path / "default.yml").write_text("k: 7\nalgorithms: {graph: {search: {ef: 70}}}\n")
    return tmp_path


# --- sweeps of this project ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yml")), ids=lambda path: path.stem)
def test_every_sweep_of_the_project_fits_the_cards(path):
    sweep, read = load_sweep(path.stem, None, find_algorithms())
    assert read == path and sweep.algorithms


# Figure 5 of arXiv 2507.00379: per data set the build values, and the ends of every range that is searched.
FIGURE_5 = {
    "text2image-10M": {
        "faiss-hnsw": ({"M": 32, "efConstruction": 300}, {"efSearch": (64, 512)}),
        "hnswlib": ({"M": 32, "ef_construction": 300}, {"ef": (64, 512)}),
        "diskann": ({"R": 64, "L": 500}, {"Ls": (20, 400)}),
        "zilliz": ({"R": 48, "L": 500}, {"Ls": (20, 200)}),
        "faiss-ivfflat": ({"n_list": 10000}, {"n_probe": (10, 80)}),
        "scann": ({"num_leaves": 40000}, {"reorder": (30, 150), "num_leaves_to_search": (10, 100)}),
        "puck": ({}, {"search_coarse_count": (10, 10), "tinker_search_range": (30, 350)}),
    },
    "msspacev-10M": {
        "faiss-hnsw": ({"M": 32, "efConstruction": 300}, {"efSearch": (20, 300)}),
        "hnswlib": ({"M": 32, "ef_construction": 300}, {"ef": (20, 300)}),
        "diskann": ({"R": 32, "L": 300}, {"Ls": (10, 250)}),
        "zilliz": ({"R": 32, "L": 500}, {"Ls": (10, 100)}),
        "faiss-ivfflat": ({"n_list": 10000}, {"n_probe": (10, 200)}),
        "scann": ({"num_leaves": 40000}, {"reorder": (50, 150), "num_leaves_to_search": (10, 200)}),
        "puck": ({}, {"search_coarse_count": (10, 10), "tinker_search_range": (10, 100)}),
    },
    "deep-10M": {
        "faiss-hnsw": ({"M": 16, "efConstruction": 300}, {"efSearch": (20, 300)}),
        "hnswlib": ({"M": 16, "ef_construction": 300}, {"ef": (20, 300)}),
        "diskann": ({"R": 16, "L": 300}, {"Ls": (10, 250)}),
        "zilliz": ({"R": 16, "L": 300}, {"Ls": (10, 80)}),
        "faiss-ivfflat": ({"n_list": 10000}, {"n_probe": (6, 40)}),
        "scann": ({"num_leaves": 40000}, {"reorder": (50, 150), "num_leaves_to_search": (10, 200)}),
        "puck": ({}, {"search_coarse_count": (10, 10), "tinker_search_range": (15, 90)}),
    },
}


@pytest.mark.parametrize(("dataset", "name"), [(dataset, name) for dataset in FIGURE_5 for name in FIGURE_5[dataset]])
def test_figure_5_of_the_paper(dataset, name):
    sweep, _ = load_sweep(dataset, None, find_algorithms())
    (grid,) = sweep.algorithms[name]
    build, ends = FIGURE_5[dataset][name]
    assert (sweep.k, sweep.mode) == (10, "batch")
    assert {**grid.build, **{parameter: [value] for parameter, value in build.items()}} == grid.build
    assert {parameter: (values[0], values[-1]) for parameter, values in grid.search.items()} == ends
    for parameter, values in grid.search.items():
        assert values == sorted(values) and (len(values) <= 2 or 6 <= len(values) <= 8), parameter


@pytest.mark.parametrize("dataset", FIGURE_5)
def test_all_of_figure_5_is_planned_without_data(dataset):
    sweep, _ = load_sweep(dataset, None, find_algorithms())
    card = load_dataset_card(DATASETS / f"{dataset}.yml")
    n, nq = card.expected_rows()
    assert n == 10_000_000 and set(sweep.algorithms) == {*FIGURE_5[dataset], "faiss-imi"}
    facts = DataFacts(name=dataset, distance=card.distance, dtype=card.dtype, n=n, nq=nq, dimension=card.dimension)
    known = find_algorithms()
    algorithms = [(known[name], grids) for name, grids in sweep.algorithms.items()]
    request = Request(data=facts, k=10, mode="batch", repeats=3, threads=64, seeds=[0], algorithms=algorithms)
    plan = make_plan(request)
    assert {job.algorithm.name for job in plan.jobs} == set(sweep.algorithms)
    # The reconstruction of Zilliz's entry cannot search with the shortest list of two of the data sets.
    assert {(skip.algorithm, skip.params["Ls"]) for skip in plan.skips} <= {("zilliz", 10)}


# --- which sweep ---------------------------------------------------------------------------------------------------


def test_a_data_set_has_its_own_sweep(folder, graph):
    (folder / "mine.yml").write_text("k: 3\nalgorithms: {graph: {}}\n")
    assert load_sweep("mine", None, {"graph": graph})[0].k == 3
    assert load_sweep("other", None, {"graph": graph})[0].k == 7


def test_a_named_file_wins(folder, graph, tmp_path):
    (folder / "mine.yml").write_text("k: 3\n")
    path = tmp_path / "named.yml"
    path.write_text("k: 4\n")
    assert load_sweep("mine", path, {"graph": graph}) == (Sweep(k=4), path)


@pytest.mark.parametrize(
    ("text", "count"),
    [("graph:", 1), ("graph: {}", 1), ("graph: {build: {M: 4}}", 1), ("graph: [{build: {M: 4}}, {build: {M: 8}}]", 2)],
)
def test_an_algorithm_has_one_grid_or_several(folder, graph, text, count):
    (folder / "mine.yml").write_text(f"algorithms:\n  {text}\n")
    assert len(load_sweep("mine", None, {"graph": graph})[0].algorithms["graph"]) == count


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("algorithms: {grpah: {}}", "unknown algorithm 'grpah'; did you mean graph?"),
        ("algorithms: {graph: {build: {alhpa: 1}}}", "graph: unknown parameter alhpa; did you mean alpha?"),
        ("algorithms: {graph: {build: {ef: 1}}}", "ef is a search parameter"),
        ("algorithms: {graph: {search: {ef: 1001}}}", "ef must be at most 1000"),
        ("algorithms: {graph: [{}, {search: {ef: x}}]}", "ef must be int, not 'x'"),
        ("algorithms: [graph]", "a mapping of algorithms to grids is expected"),
        ("algorithms: {graph: 3}", "algorithms.graph"),
        ("algorithms: {graph: {serach: {ef: 1}}}", "'algorithms.graph.0.serach'; did you mean 'search'?"),
        ("repaets: 3", "unknown key 'repaets'; did you mean 'repeats'?"),
        ("k: 0", "k: "),
        ("repeats: 0", "repeats: "),
        ("build_seeds: []", "build_seeds: "),
        ("mode: parallel", "mode: "),
    ],
)
def test_a_wrong_sweep_is_refused(folder, graph, refusal, text, words):
    (folder / "mine.yml").write_text(f"# a comment\n{text}\n")
    message = refusal(load_sweep, "mine", None, {"graph": graph})
    assert message.startswith(f"{folder / 'mine.yml'}:") and words in message


def test_where_grids_come_from(folder, graph):
    own = Sweep(algorithms={"graph": {"search": {"ef": 5}}})
    assert grids_for(graph, own) == ([Grid(search={"ef": [5]})], "sweep")
    assert grids_for(graph, Sweep()) == ([Grid(search={"ef": [70]})], "default sweep")
    (folder / "default.yml").write_text("k: 7\n")
    assert grids_for(graph, Sweep()) == ([graph.offer.smoke], "smoke sweep of its card")


# --- --set ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("graph.ef=16", ("graph", "ef", [16])),
        ("graph.ef=16,32", ("graph", "ef", [16, 32])),
        ("graph.ef=16, 32", ("graph", "ef", [16, 32])),
        ("faiss-1.5.ef=1", ("faiss-1.5", "ef", [1])),
        ("graph.alpha=1.5,2", ("graph", "alpha", [1.5, 2])),
        ("graph.keep=true,false", ("graph", "keep", [True, False])),
        ("graph.kind=pq,sq8", ("graph", "kind", ["pq", "sq8"])),
        ("graph.kind=a=b", ("graph", "kind", ["a=b"])),
    ],
)
def test_parse_override(text, expected):
    parsed = parse_override(text)
    assert parsed == expected and list(map(type, parsed[2])) == list(map(type, expected[2]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "graph",
        "graph.ef",
        "ef=3",
        ".ef=3",
        "graph.=3",
        "graph.ef=",
        "=3",
        "graph.ef={",
        "graph.ef=[1,2]",
        "graph.ef='",
        "graph.ef=2020-13-45",
        "graph.ef=!!int x",
        "graph.ef=0b_",
    ],
)
def test_a_wrong_override_is_refused(text, refusal):
    assert refusal(parse_override, text).startswith(f"--set {text}: ")


def test_overrides_replace_values(graph):
    grids = [Grid(build={"M": 4}, search={"ef": [1, 2]})]
    changed = apply_overrides(graph, grids, [("graph", "ef", [5, 6]), ("graph", "alpha", [2])])
    assert changed == [Grid(build={"M": [4], "alpha": [2]}, search={"ef": [5, 6]})]


def test_overrides_of_another_algorithm_change_nothing(graph):
    grids = [Grid(search={"ef": [1, 2]})]
    assert apply_overrides(graph, grids, [("other", "ef", [5])]) == grids


def test_grids_that_become_equal_are_one(graph):
    grids = [Grid(search={"ef": 1}), Grid(search={"ef": 2}), Grid(build={"M": 4}, search={"ef": 2})]
    assert apply_overrides(graph, grids, [("graph", "ef", [9])]) == [
        Grid(search={"ef": [9]}),
        Grid(build={"M": [4]}, search={"ef": [9]}),
    ]


@pytest.mark.parametrize(
    ("parameter", "values", "words"),
    [
        ("alhpa", [1], "unknown parameter alhpa; did you mean alpha?"),
        ("ef", ["x"], "ef must be int, not 'x'"),
        ("ef", [1.5], "ef must be int, not 1.5"),
        ("ef", [1, 1], "ef names a value twice"),
        ("ef", [2000], "ef must be at most 1000"),
        ("ef", [1, None], ""),
        ("ef", [{"a": 1}], ""),
    ],
)
def test_overrides_that_do_not_fit_are_refused(graph, refusal, parameter, values, words):
    message = refusal(apply_overrides, graph, [Grid()], [("graph", parameter, values)])
    assert message.startswith(f"--set graph.{parameter}: ") and words in message
