import gzip
import inspect
import io
import json
import shutil
import subprocess
import tarfile

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from benchmarks.cards.datasets import DatasetCard, Recipe, load_dataset_card
from benchmarks.data.prepare import prepare
from benchmarks.data.recipes import RECIPES, icons, pictures, words
from benchmarks.data.recipes.kitchen import Kitchen, needed
from benchmarks.data.verify import OK, verify
from benchmarks.errors import UserError
from benchmarks.paths import DATASETS
from benchmarks.progress import Progress

RANDOM = np.random.default_rng(0)
DERIVED = sorted(path.stem for path in DATASETS.glob("*.yml") if "\nrecipe:" in path.read_text())


class Larder(Kitchen):
    """A kitchen whose sources are files that lie there; what is not a path is the error that comes instead."""

    def __init__(self, folder, **files):
        super().__init__(Recipe(name="tiny"), folder / "cache", Progress())
        self.folder.mkdir(parents=True)
        self.files = files

    def file(self, source):
        if isinstance(self.files[source], Exception):
            raise self.files[source]
        return self.files[source]

    def read(self, array):
        return np.load(self.path(array))


def packed(path, members: dict[str, bytes]):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


# --- cards and cache ------------------------------------------------------------------------------------------------


@pytest.fixture
def cooked(monkeypatch):
    """A recipe `tiny` that makes `base` and `queries`; the seeds it was called with."""
    calls = []

    def tiny(kitchen, wanted, seed, *, rows=20):
        calls.append(seed)
        random = np.random.default_rng(seed)
        for name, count in (("base", rows), ("queries", 3)):
            kitchen.write(name, [random.normal(size=(count, 4))], (count, 4), "float32")

    monkeypatch.setitem(RECIPES, "tiny", tiny)
    return calls


@pytest.fixture
def ready(tmp_path):
    def of(force=False, name="tiny", recipe=None, **fields):
        fields = {
            "base": {"made": "base"},
            "queries": {"made": "queries"},
            "recipe": {"name": "tiny", **(recipe or {})},
            **fields,
        }
        card = DatasetCard(name=name, directory=tmp_path, title="x", distance="l2", **fields)
        return prepare(card, tmp_path / "cache", Progress(), force)

    return of


def test_a_recipe_is_made_once_for_all_cards_that_say_the_same(cooked, ready):
    one, other = ready(), ready(name="other", queries={"held_out": 5})
    assert (one.n, one.nq, other.n, other.nq) == (20, 3, 15, 5) and cooked == [0]
    assert ready(recipe={"seed": 1}).base_check != one.base_check and cooked == [0, 1]
    assert ready(recipe={"parameters": {"rows": 9}}).n == 9 and cooked == [0, 1, 0]


@pytest.mark.parametrize("queries", [{"made": "queries"}, {"held_out": 5}])
def test_what_a_recipe_made_is_verified_like_any_other(cooked, tmp_path, queries):
    fields = {"base": {"made": "base"}, "queries": queries, "recipe": {"name": "tiny"}}
    card = DatasetCard(name="tiny", directory=tmp_path, title="x", distance="l2", **fields)
    findings = list(verify(card, tmp_path / "cache", 10, 1, Progress()))
    assert {finding.level for finding in findings} == {OK} and "base norms" in {finding.check for finding in findings}


def test_what_a_recipe_made_is_made_again_where_it_is_asked_for_or_gone(cooked, ready):
    one = ready()
    ready(force=True)
    assert cooked == [0, 0]
    one.base.path.unlink()
    assert ready().base_check == one.base_check and cooked == [0, 0, 0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"recipe": {"name": "tinny"}}, "unknown recipe 'tinny'; known: "),
        ({"base": {"made": "bases"}}, "makes no array 'bases'"),
        ({"recipe": {"parameters": {"row": 1}}}, "recipe 'tiny': "),
        ({"base": {"made": "base", "rows": 21}}, "holds 20 rows"),
        ({"base": {"made": "base", "sha256": "0" * 64}}, "the card says 000"),
        ({"dtype": "uint8"}, "is float32"),
    ],
)
def test_a_card_that_says_something_else_is_refused(cooked, ready, refusal, fields, words):
    assert words in refusal(ready, **fields)


def test_a_source_that_the_card_lacks(tmp_path, refusal):
    kitchen = Kitchen(Recipe(name="tiny"), tmp_path, Progress())
    assert refusal(kitchen.file, "icons") == "recipe 'tiny' needs a source 'icons'"


def test_what_is_missing_is_named_with_the_command_that_installs_it(refusal):
    assert "pip install -e '.[recipes]'" in refusal(needed, "no_such_module")


@pytest.mark.parametrize("name", DERIVED)
def test_a_card_gives_what_its_recipe_takes(name):
    card = load_dataset_card(DATASETS / f"{name}.yml")
    code = RECIPES[card.recipe.name]
    taken = inspect.signature(code).parameters.values()
    assert set(card.recipe.parameters) == {item.name for item in taken if item.kind is item.KEYWORD_ONLY}
    assert all(source.made in code.__doc__ for source in card.sources())
    assert all(source.sha256 for source in card.recipe.sources.values() if source.npm or source.package)


def test_the_cards_of_icons_share_one_recipe():
    cards = [load_dataset_card(DATASETS / f"{name}.yml") for name in DERIVED if name.startswith("icons-")]
    assert len(cards) == 4 and len({card.recipe.model_dump_json() for card in cards}) == 1


# --- word vectors ---------------------------------------------------------------------------------------------------

WORDS = ["the", '"', "]", "[", '":[1]', "\\", "a"]
VECTORS = RANDOM.normal(size=(len(WORDS), 4)).astype("f4")


def json_of_words(order=(0, 1, 2, 3, 4, 5, 6), size=7) -> bytes:
    vectors = {WORDS[row]: [*map(float, VECTORS[row]), 1.5, row] for row in order}
    content = {"size": size, "dimensions": 4, "words": WORDS, "vectors": vectors, "unkVector": [0, 0, 0, 0, 0, -1]}
    return json.dumps(content, separators=(",", ":")).encode()


@pytest.fixture
def read_words(tmp_path):
    def of(content):
        larder = Larder(tmp_path, archive=packed(tmp_path / "words.tgz", {"package/words.json": content}))
        words.word_vectors(larder, "vectors", 0, member="package/words.json")
        return larder.read("vectors")

    return of


@pytest.mark.parametrize("block_bytes", [7, 60, 1 << 20])
def test_word_vectors(read_words, monkeypatch, block_bytes):
    monkeypatch.setattr(words, "BLOCK_BYTES", block_bytes)
    np.testing.assert_array_equal(read_words(json_of_words()), VECTORS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json_of_words([1, 0, 2, 3, 4, 5, 6]), "another order or form"),
        (json_of_words(size=9), "another order or form"),
        (json_of_words()[:-90], "ends after 6 of 7"),
        (b"{}", "holds none"),
    ],
    ids=["order", "size", "truncated", "empty"],
)
def test_a_damaged_file_of_word_vectors(read_words, refusal, content, message):
    assert message in refusal(read_words, content)


# --- Fashion-MNIST --------------------------------------------------------------------------------------------------

PHOTOS = {
    "base": RANDOM.integers(256, size=(5, 6), dtype="u1"),
    "queries": RANDOM.integers(256, size=(2, 6), dtype="u1"),
}


def idx(rows) -> bytes:
    return np.array([2051, len(rows), 2, 3], ">i4").tobytes() + rows.tobytes()


def debian_package(folder, files):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    content = folder / "content"
    (content / "DEBIAN").mkdir(parents=True)
    control = "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    (content / "DEBIAN" / "control").write_text(control)
    place = content / pictures.FOLDER
    place.mkdir(parents=True)
    for name, data in files.items():
        (place / name).write_bytes(gzip.compress(data))
    subprocess.run(["dpkg-deb", "-b", str(content), str(folder / "tiny.deb")], check=True, capture_output=True)
    return folder / "tiny.deb"


def check_photos(larder):
    pictures.fashion_mnist(larder, "base", 0)
    for array, rows in PHOTOS.items():
        np.testing.assert_array_equal(larder.read(array), rows.astype("f4"))
        assert larder.read(array).dtype == "f4"


def test_fashion_mnist_of_the_debian_package(tmp_path):
    files = {pictures.FILES[array]: idx(rows) for array, rows in PHOTOS.items()}
    check_photos(Larder(tmp_path, debian=debian_package(tmp_path, files), hdf5=UserError("not needed")))


@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_fashion_mnist_where_there_is_no_debian(tmp_path, dtype):
    with h5py.File(tmp_path / "photos.hdf5", "w") as file:
        for array, rows in PHOTOS.items():
            file[pictures.ARRAYS[array]] = rows.astype(dtype)
    check_photos(Larder(tmp_path, debian=UserError("no apt-get"), hdf5=tmp_path / "photos.hdf5"))


def test_fashion_mnist_that_is_nowhere(tmp_path, refusal):
    larder = Larder(tmp_path, debian=UserError("no apt-get"), hdf5=UserError("no network"))
    assert refusal(pictures.fashion_mnist, larder, "base", 0) == "no apt-get; no network"


def test_damaged_debian_packages(tmp_path, refusal):
    (tmp_path / "a").write_bytes(b"no package")
    assert "is no Debian package" in refusal(pictures.fashion_mnist, Larder(tmp_path, debian=tmp_path / "a"), "base", 0)
    package = debian_package(tmp_path, {pictures.FILES["base"]: idx(PHOTOS["base"])[:-1]})
    (tmp_path / "b").mkdir()
    assert "damaged" in refusal(pictures.fashion_mnist, Larder(tmp_path / "b", debian=package), "base", 0)


# --- icons ----------------------------------------------------------------------------------------------------------


def test_an_icon_has_the_box_of_itself_or_of_its_set():
    assert 'viewBox="0 0 24 16"' in icons.svg_of({"body": "<g/>"}, {"width": 24})
    assert 'viewBox="1 2 8 9"' in icons.svg_of({"body": "<g/>", "left": 1, "top": 2, "width": 8, "height": 9}, {})


def test_words_of_a_name():
    assert icons.words_of("mdi-light/arrow-left_2-Bold") == ["arrow", "left", "2", "bold"]


def test_shrinking_rounds_the_mean_of_four():
    drawing = np.zeros((1, 32, 32), "u1")
    drawing[0, :2, :2] = [[255, 255], [255, 253]]
    drawing[0, 0, 2] = 2
    small = icons.shrink(drawing)
    assert small.shape == (1, 16, 16) and small[0, 0, :3].tolist() == [255, 1, 0]


def test_shapes_against_a_plain_computation():
    drawings = RANDOM.integers(256, size=(3, 32, 32), dtype="u1")
    features = icons.shape_features(drawings)
    assert features.shape == (3, 400) and features.dtype == "f4"
    for drawing, row in zip(drawings.astype(int), features, strict=True):
        edges, wide = np.zeros((4, 4, 9)), np.pad(drawing, 1)
        for y in range(32):
            for x in range(32):
                across, down = wide[y + 1, x + 2] - wide[y + 1, x], wide[y + 2, x + 1] - wide[y, x + 1]
                degrees = np.degrees(np.arctan2(down, across)) + 5
                edges[y // 8, x // 8, int(degrees % 180 // 20)] += np.hypot(across, down)
        np.testing.assert_allclose(row[:144], (edges / np.linalg.norm(edges)).ravel(), rtol=1e-4, atol=1e-7)
        small = icons.shrink(drawing[None].astype("u1")).ravel()
        np.testing.assert_allclose(row[144:], small / np.linalg.norm(small.astype(float)), rtol=1e-5)


def test_a_turned_drawing_has_the_same_directions():
    """Light on dark or dark on light, from left or from right: an edge is an edge."""
    drawing = np.zeros((1, 32, 32), "u1")
    drawing[:, 8:24, 8:24] = 255
    edges = icons.shape_features(drawing)[0, :144].reshape(4, 4, 9)
    np.testing.assert_allclose(edges, edges[::-1, ::-1], atol=1e-6)
    assert set(np.flatnonzero(edges.sum(axis=(0, 1)) > 0.3)) == {0, 4}  # upright and level


def test_texts_are_pooled():
    vectors = {"a": np.array([1.0, -2.0], "f4"), "b": np.array([3.0, 0.0], "f4")}
    one, none, same = icons.text_features([["a", "?", "b"], ["?"], ["a"]], vectors)
    unit = [np.array(pair) / np.linalg.norm(pair) for pair in ([2, -1], [3, 0], [1, -2])]
    np.testing.assert_allclose(one, np.concatenate(unit), rtol=1e-6)
    assert not none.any() and np.allclose(same, np.tile(np.array([1, -2]) / 5**0.5, 3))


def test_whole_small_sets_are_held_out(monkeypatch):
    monkeypatch.setattr(icons, "LARGEST_SET_HELD_OUT", 50)
    sets = np.array(["large"] * 60 + ["a"] * 10 + ["b"] * 20 + ["c"] * 30)
    masks = [icons._hold_out(list(sets), 25, seed) for seed in range(20)]
    for mask in masks:
        assert mask.sum() >= 25 and not mask[:60].any()
        assert all(mask[sets == name].min() == mask[sets == name].max() for name in "abc")
    assert len({mask.tobytes() for mask in masks}) > 1
    np.testing.assert_array_equal(masks[3], icons._hold_out(list(sets), 25, 3))


def test_a_query_has_words_and_a_name_of_its_own():
    texts = [["a"], ["b", "a"], ["?"], ["a"], ["a", "b"], ["b"], ["b", "?"]]
    assert icons._with_own_words(np.arange(1, 7), texts, {"a", "b"}).tolist() == [1, 3, 5]


def test_the_fit_finds_what_two_sides_share():
    shared = RANDOM.normal(size=(4000, 2))
    left = np.hstack([shared, RANDOM.normal(size=(4000, 3))]) @ RANDOM.normal(size=(5, 5)) + 7
    right = np.hstack([shared + 0.1 * RANDOM.normal(size=(4000, 2)), RANDOM.normal(size=(4000, 2))])
    blocks = np.array_split(np.arange(4000), 7)
    of_left, of_right = icons.fit(left.__getitem__, right.__getitem__, blocks, 2, 1e-6)
    one, other = of_left(left), of_right(right)
    assert one.dtype == "f4" and np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-6)
    assert np.median((one * other).sum(axis=1)) > 0.99


@pytest.fixture
def icon_archive(tmp_path):
    """Two sets for the base, one that is held out, one under a licence that is left out."""

    def square(x, size):
        return {"body": f'<path fill="currentColor" d="M{x} 2h{size}v{size}h-{size}z"/>'}

    sets = {
        "large": {f"{word}-{x}": square(x, size) for x in range(1, 12) for size, word in ((3, "box"), (8, "block"))},
        "small": {"box": square(5, 4), "block": square(5, 9), "broken": {"body": "<path"}, "blank": {"body": ""}},
        "closed": {"box": square(2, 5)},
    }
    sets["large"]["copy"] = sets["large"]["box-1"]
    licences = {"large": "MIT", "small": "Apache-2.0", "closed": "CC-BY-NC-4.0"}
    collections = {name: {"total": len(sets[name]), "license": {"spdx": licences[name]}} for name in sets}
    members = {f"package/json/{name}.json": {"icons": sets[name], "width": 24, "height": 24} for name in sets}
    members["package/collections.json"] = collections
    return packed(tmp_path / "icons.tgz", {name: json.dumps(content).encode() for name, content in members.items()})


def test_icons_from_archive_to_vectors(tmp_path, icon_archive, monkeypatch):
    pytest.importorskip("resvg_py", reason="the extra `recipes` is not installed")
    monkeypatch.setattr(icons, "LARGEST_SET_HELD_OUT", 10)
    table = pyarrow.table({"word": ["box", "block", *map(str, range(1, 12))]})
    pyarrow.parquet.write_table(table, tmp_path / "words.parquet")
    np.save(tmp_path / "words.npy", RANDOM.normal(size=(len(table), 6)).astype("f4"))
    sources = {"icons": icon_archive, "vectors": tmp_path / "words.npy", "vocabulary": tmp_path / "words.parquet"}
    parameters = {"dimension": 4, "held_out": 2, "ridge": 0.01}
    made = []
    for name in ("one", "other"):
        larder = Larder(tmp_path / name, **sources)
        icons.icons(larder, "pixels", 0, **parameters)
        icons.icons(larder, "base", 0, **parameters)
        made.append([larder.read(array) for array in ("pixels", "pixel-queries", "base", "images", "texts")])
        drawn = (larder.folder / "names.txt").read_text().split()
        assert drawn[-2:] == ["small/box", "small/block"] and len(drawn) == 24  # no copies, no blanks
    shapes = [(array.shape, array.dtype.name) for array in made[0]]
    assert shapes == [((22, 256), "uint8"), ((2, 256), "uint8"), *[((n, 4), "float32") for n in (22, 2, 2)]]
    assert all(one.tobytes() == other.tobytes() for one, other in zip(*made, strict=True))
    # Ink is dark on white: a square of 4 of 24 units is about 7 % of the drawing.
    assert 0.02 < made[0][1][0].mean() / 255 < 0.035


# --- the real ones --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_data_set_is_what_its_card_says(name, tmp_path_factory):
    data = tmp_path_factory.getbasetemp() / "derived"  # the cards of icons share their drawings
    card = load_dataset_card(DATASETS / f"{name}.yml")
    try:
        dataset = prepare(card, data, Progress())
    except UserError as error:
        if "cannot be fetched" in str(error) or "pip install" in str(error):
            pytest.skip(str(error))
        raise
    assert (dataset.n, dataset.nq) == card.expected_rows()
    assert (dataset.dimension, dataset.base.dtype) == (card.dimension, card.dtype)
    assert dataset.base_check.zero_vectors == dataset.queries_check.zero_vectors == 0
