from pathlib import Path

import pytest

from benchmarks.cards.datasets import DatasetCard, HeldOut, Source, find_datasets, load_dataset_card
from benchmarks.data.formats import SUFFIXES
from benchmarks.data.generators import GENERATORS
from benchmarks.paths import DATASETS

DATASET_CARDS = sorted(DATASETS.glob("*.yml"))

# --- contract of every data set card -------------------------------------------------------------------------------


def test_there_are_cards():
    assert DATASET_CARDS and list(find_datasets()) == [path.stem for path in DATASET_CARDS]


@pytest.fixture(params=DATASET_CARDS, ids=lambda path: path.stem)
def dataset_card(request):
    return load_dataset_card(request.param)


def test_dataset_card_says_what_it_is(dataset_card):
    assert dataset_card.title.strip() and dataset_card.licence and dataset_card.licence.strip()
    assert dataset_card.citation or dataset_card.notes
    if not dataset_card.generator:
        assert dataset_card.citation and dataset_card.homepage.startswith(("https://", "http://"))


def test_dataset_card_states_type_and_size(dataset_card):
    base, queries = dataset_card.expected_rows()
    assert dataset_card.dtype and dataset_card.dimension
    assert base and queries and 0 < queries <= base


def test_dataset_sources_are_pinned(dataset_card):
    sources = dataset_card.sources() + ([dataset_card.truth] if dataset_card.truth else [])
    assert sources or dataset_card.generator
    for source in sources:
        assert not source.package or source.sha256
        for url in filter(None, [source.url, *source.mirrors]):
            assert url.startswith(("https://", "http://"))
        assert not source.path or (dataset_card.directory / source.path).is_file()
        name = (source.member or source.url or source.path or "").rsplit("/", 1)[-1]
        assert source.made or source.format or Path(name).suffix in SUFFIXES


PAPER = {
    "text2image": ("ip", "float32", 200, 100_000, "128 dimensions"),
    "msspacev": ("l2", "int8", 100, 29_316, "uint8"),
    "deep": ("l2", "float32", 96, 10_000, None),
}


@pytest.mark.parametrize("size", ["1M", "10M", "100M"])
@pytest.mark.parametrize("name", PAPER)
def test_the_data_sets_of_the_paper(name, size):
    card = load_dataset_card(DATASETS / f"{name}-{size}.yml")
    distance, dtype, dimension, queries, discrepancy = PAPER[name]
    assert (card.distance, card.dtype, card.dimension) == (distance, dtype, dimension)
    assert card.expected_rows() == (int(size[:-1]) * 10**6, queries) and card.base.rows == 10**9
    assert discrepancy is None or discrepancy in card.notes
    assert (card.truth is None) == (size == "1M" and name != "msspacev")


def test_dataset_generator_exists(dataset_card):
    assert dataset_card.generator is None or dataset_card.generator.name in GENERATORS


# --- data set cards ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": "http://x/a.npy", "path": "a.npy"},
        {"package": "x"},
        {"package": "x>=1"},
        {"package": "x==1.*"},
        {"package": "-r evil==1"},
        {"path": "a", "sha256": "abc"},
        {"path": "a", "sha256": "A" * 64},
        {"path": "a", "rows": 0},
        {"path": "a", "crop_rows": 0},
        {"path": "a", "rows": 5, "crop_rows": 6},
        {"path": "a", "size_bytes": -1},
        {"path": "a", "format": "csv"},
        {"path": "a", "crop": 3},
        {"path": "a", "mirrors": ["http://x/a.npy"]},
        {"url": "http://x/a.npy", "crop_sha256": "0" * 64},
    ],
)
def test_a_wrong_source_is_refused(fields):
    with pytest.raises(ValueError):
        Source(**fields)


@pytest.mark.parametrize("fields", [{"url": "http://x/a.npy"}, {"package": "x-y==1.0.post1"}, {"path": "a.npy"}])
def test_a_source_has_one_origin(fields):
    assert Source(**fields)


GENERATOR = {"name": "gaussian-clusters", "rows": 10, "queries": 2}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "exactly one of base, generator and retrieval.encoder"),
        (
            {"base": {"path": "a.npy"}, "queries": {"held_out": 1}, "generator": GENERATOR},
            "exactly one of base, generator and retrieval.encoder",
        ),
        ({"base": {"path": "a.npy"}}, "queries are needed"),
        (
            {"base": {"path": "a.npy"}, "queries": {"held_out": 1}, "truth": {"path": "gt.ibin"}},
            "truth goes with queries from a source",
        ),
        ({"base": {"made": "base"}, "queries": {"held_out": 1}}, "recipe and made go together"),
        (
            {"base": {"path": "a.npy"}, "queries": {"held_out": 1}, "recipe": {"name": "x"}},
            "recipe and made go together",
        ),
        (
            {
                "base": {"made": "base"},
                "queries": {"held_out": 1},
                "recipe": {"name": "x", "sources": {"a": {"path": "a"}}},
            },
            "packages and addresses",
        ),
    ],
)
def test_a_data_set_needs_one_origin(fields, words):
    with pytest.raises(ValueError, match=words):
        DatasetCard(name="x", directory="/", title="x", distance="l2", **fields)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"generator": GENERATOR}, (10, 2)),
        ({"base": {"path": "a", "rows": 100}, "queries": {"held_out": 30}}, (70, 30)),
        ({"base": {"path": "a"}, "queries": {"held_out": 30}}, (None, 30)),
        ({"base": {"path": "a", "rows": 100}, "queries": {"path": "b", "rows": 7}}, (100, 7)),
        ({"base": {"path": "a"}, "queries": {"path": "b"}}, (None, None)),
        ({"base": {"path": "a", "rows": 100, "crop_rows": 60}, "queries": {"path": "b", "crop_rows": 7}}, (60, 7)),
        ({"base": {"path": "a", "crop_rows": 60}, "queries": {"held_out": 20}}, (40, 20)),
    ],
)
def test_expected_rows(fields, rows):
    assert DatasetCard(name="x", directory="/", title="x", distance="l2", **fields).expected_rows() == rows


def dataset_card_of(**changes):
    fields = {
        "name": "x",
        "directory": "/a",
        "title": "x",
        "distance": "l2",
        "base": {"path": "a.npy"},
        "queries": {"held_out": 3},
    }
    return DatasetCard(**{**fields, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"name": "y"},
        {"directory": "/b"},
        {"dtype": "uint8"},
        {"dimension": 3},
        {"base": {"path": "b.npy"}},
        {"base": {"path": "a.npy", "sha256": "0" * 64}},
        {"queries": HeldOut(held_out=4)},
        {"queries": HeldOut(held_out=3, seed=1)},
        {"queries": {"path": "q.npy"}},
        {"learn": {"path": "l.npy"}},
    ],
    ids=lambda change: str(change)[:40],
)
def test_digest_follows_what_decides_the_vectors(change):
    assert dataset_card_of(**change).digest() != dataset_card_of().digest()


@pytest.mark.parametrize("change", [{"title": "y"}, {"distance": "ip"}, {"licence": "MIT"}, {"notes": "n"}])
def test_digest_ignores_what_does_not(change):
    assert dataset_card_of(**change).digest() == dataset_card_of().digest()


@pytest.mark.parametrize(
    ("queries", "line", "words"),
    [
        ("  held_out: 3\n  sede: 1\n", 5, "'queries.sede'; did you mean 'seed'?"),
        ("  path: q.npy\n  fromat: npy\n", 5, "'queries.fromat'; did you mean 'format'?"),
        ("  held_out: -3\n", 4, "queries.held_out: "),
        ("  path: q.npy\n  rows: 0\n", 5, "queries.rows: "),
    ],
)
def test_an_error_in_the_queries_is_told_in_the_words_of_the_card(tmp_path, refusal, queries, line, words):
    path = tmp_path / "c.yml"
    path.write_text(f"title: x\ndistance: l2\nqueries:\n{queries}base: {{path: a.npy}}\n")
    message = refusal(load_dataset_card, path)
    assert message.startswith(f"{path}:{line}: ") and words in message
