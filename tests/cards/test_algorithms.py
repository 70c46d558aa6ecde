import ast
import re

import pytest
import yaml

from benchmarks.cards.algorithms import Algorithm, Grid, LibraryCard, Parameter, find_algorithms
from benchmarks.errors import UserError
from benchmarks.paths import ALGORITHMS
from benchmarks.plan import DataFacts, Request, make_plan
from benchmarks.yamlfile import load_yaml

LIBRARIES = sorted(path.parent for path in ALGORITHMS.glob("*/algorithm.yml"))


def offers():
    """(library folder, algorithm name) of every card that can be read; the others fail their own test."""
    for folder in LIBRARIES:
        try:
            card = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder})
        except UserError:
            continue
        for name in card.algorithms:
            yield pytest.param(folder, name, id=name)


# --- contract of every library folder ------------------------------------------------------------------------------


def test_there_are_libraries():
    assert LIBRARIES


@pytest.mark.parametrize("folder", LIBRARIES, ids=lambda path: path.name)
def test_library_card_loads(folder):
    card = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder})
    assert card.algorithms and card.licence and card.upstream


@pytest.mark.parametrize("folder", LIBRARIES, ids=lambda path: path.name)
def test_library_folder_holds_its_files_and_nothing_else(folder):
    names = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
    assert {"algorithm.yml", "algorithm.py", "requirements.txt"} <= names
    assert names <= {"algorithm.yml", "algorithm.py", "requirements.txt", "Dockerfile"}


@pytest.mark.parametrize("folder", LIBRARIES, ids=lambda path: path.name)
def test_every_requirement_is_pinned(folder):
    lines = [line.split("#")[0].strip() for line in (folder / "requirements.txt").read_text().splitlines()]
    requirements = [line for line in lines if line and not line.startswith("-")]
    assert requirements
    assert [line for line in requirements if not re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[0-9][^*\s;]*", line)] == []


@pytest.mark.parametrize("folder", LIBRARIES, ids=lambda path: path.name)
def test_the_card_states_the_pinned_version(folder):
    card = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder})
    pins = re.findall(r"^([A-Za-z0-9._-]+)\S*==([^\s;#]+)", (folder / "requirements.txt").read_text(), re.MULTILINE)
    pinned = dict(pins)
    if card.library in pinned:
        assert pinned[card.library] == card.version


def test_algorithm_names_are_unique_and_all_are_found():
    found = find_algorithms()
    assert sorted(found) == sorted(offer.values[1] for offer in offers())
    assert all(algorithm.name == name for name, algorithm in found.items())


@pytest.mark.parametrize(("folder", "name"), offers())
def test_algorithm_class_exists(folder, name):
    offer = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder}).algorithms[name]
    tree = ast.parse((folder / "algorithm.py").read_text())
    assert offer.class_name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize(("folder", "name"), offers())
def test_smoke_sweep_has_two_points(folder, name):
    card = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder})
    offer = card.algorithms[name]
    facts = DataFacts(name="smoke", distance=offer.distances[0], dtype=offer.dtypes[0], n=2000, nq=10, dimension=16)
    plan = make_plan(
        Request(
            data=facts,
            k=10,
            mode="batch",
            repeats=1,
            threads=1,
            seeds=[0],
            algorithms=[(Algorithm(name=name, library=card, offer=offer), [offer.smoke])],
        )
    )
    assert not plan.skips and len(plan.jobs) == 1
    assert plan.points == (1 if offer.family == "exact" and not offer.parameters else 2)


@pytest.mark.parametrize(("folder", "name"), offers())
def test_approximate_algorithms_have_a_monotone_search_parameter(folder, name):
    offer = load_yaml(folder / "algorithm.yml", LibraryCard, {"directory": folder}).algorithms[name]
    monotone = [item for item in offer.parameters.values() if item.monotone]
    assert all(item.stage == "search" and item.type in ("int", "float") for item in monotone)
    assert monotone or offer.family not in ("graph", "partition")


# --- finding libraries ---------------------------------------------------------------------------------------------

LIBRARY = {
    "library": "leaf",
    "upstream": "none",
    "version": "1",
    "licence": "MIT",
    "algorithms": {
        "leaf-graph": {
            "class": "Leaf",
            "family": "graph",
            "distances": ["l2"],
            "dtypes": ["float32"],
            "parameters": {
                "links": {"stage": "build", "type": "int", "default": 8, "min": 2},
                "width": {"stage": "search", "type": "int", "default": 10, "monotone": True},
            },
            "constraints": ["width >= k"],
            "smoke": {"search": {"width": [10, 20]}},
        }
    },
}


@pytest.fixture
def write_library(tmp_path):
    """Write a library folder, with `change(card)` applied to the good card."""

    def write(change=lambda card: None, folder="leaf"):
        card = yaml.safe_load(yaml.safe_dump(LIBRARY))
        change(card)
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "algorithm.yml").write_text(yaml.safe_dump(card))
        (tmp_path / folder / "algorithm.py").write_text("class Leaf: pass\n")
        (tmp_path / folder / "requirements.txt").write_text("numpy==2.2.6\n")
        return tmp_path / folder

    return write


def test_a_folder_is_found(write_library, tmp_path):
    folder = write_library()
    found = find_algorithms(tmp_path)
    assert list(found) == ["leaf-graph"] and found["leaf-graph"].directory == folder


def test_two_folders_may_not_offer_one_name(write_library, tmp_path, refusal):
    write_library(folder="a")
    write_library(folder="b")
    message = refusal(find_algorithms, tmp_path)
    assert "leaf-graph" in message and str(tmp_path / "a") in message and str(tmp_path / "b") in message


@pytest.mark.parametrize("file", ["algorithm.py", "requirements.txt"])
def test_missing_file_of_a_library(write_library, tmp_path, refusal, file):
    path = write_library() / file
    path.unlink()
    assert refusal(find_algorithms, tmp_path).startswith(f"{path}: missing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda offer: offer["smoke"]["search"].update(widht=1), "unknown parameter widht; did you mean width?"),
        (lambda offer: offer["smoke"].update(build={"width": 1}), "width is a search parameter, not a build parameter"),
        (lambda offer: offer["smoke"].update(build={"links": 1}), "links must be at least 2, not 1"),
        (lambda offer: offer["smoke"]["search"].update(width=["a"]), "width must be int, not 'a'"),
        (lambda offer: offer["parameters"]["links"].update(default=1), "default must be at least 2, not 1"),
        (lambda offer: offer["parameters"]["links"].update(stage="serch"), "stage"),
        (lambda offer: offer["constraints"].append("widht >= k"), "names unknown widht"),
        (lambda offer: offer["constraints"].append("width"), "is not a comparison"),
        (lambda offer: offer.update(distances=["hamming"]), "distances"),
        (lambda offer: offer.pop("class"), "class"),
        (
            lambda offer: offer["parameters"].update(bad={"stage": "build", "type": "str", "default": "a", "min": 1}),
            "parameters.bad",
        ),
    ],
)
def test_a_wrong_offer_is_refused(write_library, tmp_path, refusal, change, words):
    folder = write_library(lambda card: change(card["algorithms"]["leaf-graph"]))
    message = refusal(find_algorithms, tmp_path)
    assert re.match(re.escape(f"{folder / 'algorithm.yml'}:") + r"\d+: ", message) and words in message


@pytest.mark.parametrize("name", ["a/b", "../up", "", ".", ".."])
def test_an_algorithm_is_also_a_folder_name(write_library, tmp_path, refusal, name):
    write_library(lambda card: card.update(algorithms={name: card["algorithms"]["leaf-graph"]}))
    refusal(find_algorithms, tmp_path)


@pytest.mark.parametrize("file", ["algorithm.py", "requirements.txt"])
def test_code_hash_follows_adapter_and_pins(write_library, tmp_path, file):
    folder = write_library()
    before = find_algorithms(tmp_path)["leaf-graph"].code_hash()
    assert find_algorithms(tmp_path)["leaf-graph"].code_hash() == before
    (folder / file).write_text((folder / file).read_text() + "# changed\n")
    assert find_algorithms(tmp_path)["leaf-graph"].code_hash() != before


# --- parameters and grids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "default", "good"),
    [("int", 1, [0, 5, -3]), ("float", 0.5, [0, 1, 1.5]), ("bool", True, [True, False]), ("str", "a", ["", "b"])],
)
def test_parameter_takes_values_of_its_type(type, default, good):
    parameter = Parameter(stage="build", type=type, default=default)
    assert [parameter.check("x", value) for value in good] == good


def test_a_float_that_yaml_reads_as_text_is_a_float():
    assert Parameter(stage="build", type="float", default=0.5).check("x", "1e-3") == 0.001


@pytest.mark.parametrize(
    ("type", "default", "bad"),
    [
        ("int", 1, [1.0, "1", True, None, [1]]),
        ("float", 0.5, ["x", True, None]),
        ("bool", True, [1, 0, "yes", None]),
        ("str", "a", [1, True, None]),
    ],
)
def test_parameter_refuses_other_types(type, default, bad):
    parameter = Parameter(stage="build", type=type, default=default)
    for value in bad:
        with pytest.raises(ValueError, match=f"x must be {type}, not "):
            parameter.check("x", value)


def test_a_float_parameter_makes_floats():
    value = Parameter(stage="build", type="float", default=1).check("x", 2)
    assert value == 2.0 and isinstance(value, float)


def test_parameter_range_includes_its_ends():
    parameter = Parameter(stage="build", type="int", default=3, min=2, max=4)
    assert [parameter.check("x", value) for value in (2, 4)] == [2, 4]
    for value, words in ((1, "at least 2"), (5, "at most 4")):
        with pytest.raises(ValueError, match=words):
            parameter.check("x", value)


def test_parameter_choices():
    parameter = Parameter(stage="build", type="str", default="a", choices=["a", "b"])
    assert parameter.check("x", "b") == "b"
    with pytest.raises(ValueError, match="one of a, b, not 'c'"):
        parameter.check("x", "c")


def test_a_lone_value_is_a_list_of_one():
    assert Grid(build={"M": 8}, search={"ef": [1, 2]}).build == {"M": [8]}


@pytest.mark.parametrize("build", [{"M": []}, {"M": [8, 8]}, {"M": [[8]]}, {"M": None}, {"M": {"a": 1}}, [8], 3])
def test_a_wrong_grid_is_refused(build):
    with pytest.raises(ValueError):
        Grid(build=build)


def test_a_grid_keeps_the_types_of_its_values():
    values = Grid(search={"x": [True, 1, 1.5, "1"]}).search["x"]
    assert [type(value) for value in values] == [bool, int, float, str]
