import pytest
from pydantic import Field, ValidationError

from benchmarks.yamlfile import Strict, load_yaml


class Leaf(Strict):
    size: int = Field(1, gt=0)
    weight: float = 1.0
    kind: str = Field("green", alias="class")


class Tree(Strict):
    name: str
    title: str = "none"
    leaf: Leaf = Leaf()
    leaves: list[Leaf] = []
    named: dict[str, Leaf] = {}


@pytest.fixture
def load(tmp_path):
    def of(text: str):
        path = tmp_path / "tree.yml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_yaml(path, Tree, {"name": "oak"})

    return of


@pytest.fixture
def refused(load, refusal, tmp_path):
    """The message without the file's path, which must come first."""

    def of(text: str) -> str:
        message, start = refusal(load, text), f"{tmp_path / 'tree.yml'}:"
        assert message.startswith(start)
        return message.removeprefix(start)

    return of


def test_a_file_becomes_a_model(load):
    tree = load("title: Oak\nleaf: {size: 3, class: red}\nleaves: [{size: 2}]\nnamed:\n  a: {size: 5}\n")
    assert (tree.name, tree.title, tree.leaf.size, tree.leaf.kind) == ("oak", "Oak", 3, "red")
    assert tree.leaves[0].size == 2 and tree.named["a"].size == 5


def test_an_empty_file_is_an_empty_mapping(load):
    assert load("") == load("# nothing\n") == Tree(name="oak")


def test_a_model_is_frozen(load):
    with pytest.raises(ValidationError):
        load("").title = "other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel: x\n", "1: unknown key 'titel'; did you mean 'title'?"),
        ("title: x\n\nleaf:\n  size: 1\n  wieght: 2\n", "5: unknown key 'leaf.wieght'; did you mean 'weight'?"),
        ("leaf: {size: 1, sise: 2}\n", "1: unknown key 'leaf.sise'; did you mean 'size'?"),
        ("leaves:\n- size: 1\n- size: 2\n  siez: 3\n", "4: unknown key 'leaves.1.siez'; did you mean 'size'?"),
        ("named:\n  a:\n    size: 1\n    clas: x\n", "4: unknown key 'named.a.clas'; did you mean 'class'?"),
        ("title: x\nqqqqqq: 1\n", "2: unknown key 'qqqqqq'"),
        ("title: x\nsize: 1\n", "2: unknown key 'size'"),  # which leaves have
        ("title: x\nname: elm\n", "2: unknown key 'name'"),
    ],
)
def test_unknown_key_names_line_and_nearest_key(refused, text, message):
    assert refused(text) == message


def test_a_key_that_the_caller_supplies_is_not_suggested(refused):
    assert "'name'" not in refused("names: x\n")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("title: x\ntitle: y\n", 2, "'title' is given twice"),
        ("leaf:\n  size: 1\n  size: 1\n", 3, "'size' is given twice"),
        ("leaves:\n- {size: 1, size: 2}\n", 2, "'size' is given twice"),
    ],
)
def test_duplicate_key(refused, text, line, words):
    message = refused(text)
    assert message.startswith(f"{line}: ") and words in message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("title: x\nleaf:\n  size: many\n", 3, "leaf.size"),
        ("title: x\nleaf:\n  size: 0\n", 3, "leaf.size"),
        ("title: x\nleaf:\n  weight: .nan\n", 3, "leaf.weight"),
        ("title: [1, 2]\n", 1, "title"),
        ("title: 3\n", 1, "title"),
        ("title: x\nleaf: 3\n", 2, "leaf"),
        ("title: x\nleaves: {a: 1}\n", 2, "leaves"),
        ("leaves:\n- size: 1\n- 7\n", 3, "leaves.1"),
        ("title: x\n1: 2\n", 2, "1"),
        ("title: x\nleaf:\n  size: yes\n", 3, "leaf.size"),  # a truth value is not the number 1
    ],
)
def test_wrong_type_names_line_and_field(refused, text, line, words):
    message = refused(text)
    assert message.startswith(f"{line}: ") and words in message


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "hello\n", "42\n", "null\n"])
def test_top_level_must_be_a_mapping(refused, text):
    assert "a mapping of keys to values is expected" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "title:\tx\n\tleaf: 1\n",
        "\ttitle: x\n",
        "leaf: {size: 1\n",
        "title: 'open\n",
        "a: 1\n---\nb: 2\n",
        "title: \x01\n",
        b"title: \xff\n",
        "title: *nothing\n",
        "title: !!python/object:os.system x\n",
        "]\n",
        "title: x: y\n",
        "%\n",
        "title: 2020-13-45\n",
        "title: !!int abc\n",
        "title: 0b_\n",
        "? [a, b]\n: 1\n",
        "? {a: b}\n: 1\n",
        "leaf: &a [*a]\n",
        "title: " + "[" * 3000 + "\n",
    ],
    ids=lambda text: repr(text)[:30],
)
def test_garbage_is_refused_in_one_line(refused, text):
    refused(text)


def test_missing_file(tmp_path, refusal):
    assert refusal(load_yaml, tmp_path / "no.yml", Tree).startswith(f"{tmp_path / 'no.yml'}: cannot be read")


def test_folder_in_place_of_a_file(tmp_path, refusal):
    assert refusal(load_yaml, tmp_path, Tree).startswith(f"{tmp_path}: cannot be read")
