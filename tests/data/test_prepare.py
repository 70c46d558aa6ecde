import os

import h5py
import numpy as np
import pytest

from benchmarks.cards.datasets import DatasetCard, Source
from benchmarks.data import fetch as fetching
from benchmarks.data import prepare as module
from benchmarks.data.prepare import cache_folder, prepare, resolve_dataset
from benchmarks.paths import DATASETS
from benchmarks.progress import Progress

RANDOM = np.random.default_rng(0)
BASE, QUERIES = RANDOM.normal(size=(40, 3)).astype("f4"), RANDOM.normal(size=(7, 3)).astype("f4")


@pytest.fixture
def folder(tmp_path):
    """A folder with base.npy and queries.npy."""
    np.save(tmp_path / "base.npy", BASE)
    np.save(tmp_path / "queries.npy", QUERIES)
    return tmp_path


@pytest.fixture
def ready(folder):
    """Prepare a card of that folder; `force` and fields of the card may be given."""

    def of(force=False, **fields):
        fields = {
            "name": "tiny",
            "directory": folder,
            "title": "x",
            "distance": "l2",
            "base": {"path": "base.npy"},
            "queries": {"path": "queries.npy"},
            **fields,
        }
        return prepare(DatasetCard(**fields), folder / "cache", Progress(), force)

    return of


@pytest.fixture
def checks(monkeypatch):
    """Roles of the vectors that were read through."""
    roles, check = [], module.check_vectors
    monkeypatch.setattr(
        module, "check_vectors", lambda vectors, role, *rest: roles.append(role) or check(vectors, role, *rest)
    )
    return roles


def rewrite(path, rows):
    """Other content of the same size, later."""
    before = path.stat()
    np.save(path, rows)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10_000_000))


# --- what comes out ------------------------------------------------------------------------------------------------


def test_files_become_a_data_set(ready):
    dataset = ready(distance="cosine")
    assert (dataset.name, dataset.distance, dataset.n, dataset.nq, dataset.dimension) == ("tiny", "cosine", 40, 7, 3)
    np.testing.assert_array_equal(dataset.base.open(), BASE)
    np.testing.assert_array_equal(dataset.queries.open(), QUERIES)


def test_the_first_rows_of_a_larger_file(ready, folder):
    dataset = ready(
        base={"path": "base.npy", "rows": 40, "crop_rows": 25}, queries={"path": "queries.npy", "crop_rows": 3}
    )
    np.testing.assert_array_equal(dataset.base.open(), BASE[:25])
    np.testing.assert_array_equal(dataset.queries.open(), QUERIES[:3])
    np.save(folder / "small.npy", BASE[:25])
    assert dataset.base_check == ready(base={"path": "small.npy"}).base_check


def test_queries_are_held_out_of_the_first_rows(ready):
    dataset = ready(base={"path": "base.npy", "crop_rows": 25}, queries={"held_out": 5})
    both = np.concatenate([dataset.base.open(), dataset.queries.open()])
    assert dataset.n == 20 and sorted(map(tuple, both)) == sorted(map(tuple, BASE[:25]))


def test_a_file_of_fewer_rows_than_are_taken(ready, refusal):
    assert "holds 40 rows, the card of tiny takes the first 41" in refusal(
        ready, base={"path": "base.npy", "crop_rows": 41}
    )


def test_learn_vectors_come_along(ready, folder):
    np.save(folder / "learn.npy", QUERIES[:2])
    np.testing.assert_array_equal(ready(learn={"path": "learn.npy"}).learn.open(), QUERIES[:2])


def test_zero_vectors_are_counted(ready, folder):
    np.save(folder / "base.npy", np.vstack([BASE, np.zeros((3, 3), "f4")]))
    dataset = ready()
    assert (dataset.base_check.zero_vectors, dataset.queries_check.zero_vectors) == (3, 0)


def test_a_generator_is_prepared(ready):
    spec = {"name": "gaussian-clusters", "rows": 30, "queries": 4, "parameters": {"clusters": 3, "centre_scale": 1.0}}
    one, other = (ready(name=name, base=None, queries=None, generator=spec, dimension=5) for name in ("one", "other"))
    assert (one.n, one.nq, one.dimension, one.base.dtype) == (30, 4, 5, "float32")
    assert one.base_check == other.base_check and one.queries_check == other.queries_check


def test_a_generator_needs_a_dimension(ready, refusal):
    spec = {"name": "gaussian-clusters", "rows": 30, "queries": 4, "parameters": {"clusters": 3, "centre_scale": 1.0}}
    assert "needs the dimension" in refusal(ready, base=None, queries=None, generator=spec)


# --- fingerprint ---------------------------------------------------------------------------------------------------


def store(path, rows):
    if path.suffix == ".fbin":
        path.write_bytes(np.array(rows.shape, "<u4").tobytes() + rows.tobytes())
    elif path.suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("train", data=rows, compression="gzip")
    else:
        np.save(path, rows)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("b.fbin", lambda rows: rows),
        ("b.hdf5", lambda rows: rows),
        ("b.npy", np.asfortranarray),
        ("b.npy", lambda rows: rows.astype("f8")),
        ("b.npy", lambda rows: rows.astype(">f4")),
    ],
    ids=["fbin", "hdf5", "Fortran", "float64", "big-endian"],
)
def test_fingerprint_does_not_depend_on_the_container(ready, folder, name, change):
    store(folder / name, change(BASE))
    other = ready(name="other", base={"path": name, "array": "train" if name.endswith("hdf5") else None})
    assert other.base_check == ready().base_check


def test_fingerprint_depends_on_the_type(ready, folder):
    rows = np.ones((4, 3))
    hashes = set()
    for dtype in ("f4", "u1", "i1"):
        np.save(folder / "base.npy", rows.astype(dtype))
        np.save(folder / "queries.npy", rows[:1].astype(dtype))
        hashes.add(ready(name=dtype).base_check.sha256)
    assert len(hashes) == 3


# --- held-out queries ----------------------------------------------------------------------------------------------


def split(ready, **held_out):
    dataset = ready(queries={"held_out": 9, **held_out})
    return dataset.base.open(), dataset.queries.open()


def places(rows):
    """Where in BASE each row stands."""
    return [int(np.flatnonzero((row == BASE).all(axis=1))[0]) for row in rows]


def test_held_out_queries_and_base_are_a_partition_in_order(ready):
    base, queries = split(ready)
    assert len(queries) == 9 and sorted(places(base) + places(queries)) == list(range(40))
    assert places(base) == sorted(places(base)) and places(queries) == sorted(places(queries))


def test_held_out_queries_follow_the_seed(ready, folder):
    first = places(split(ready)[1])
    assert places(split(ready, seed=1)[1]) != first
    assert places(split(ready, seed=0)[1]) == first


def test_held_out_queries_are_not_the_first_rows(ready):
    assert places(split(ready)[1]) != list(range(9))


def test_held_out_in_several_blocks(ready, folder):
    rows = np.arange(70_000, dtype="f4")[:, None]
    np.save(folder / "base.npy", rows)
    dataset = ready(queries={"held_out": 1000})
    both = np.concatenate([dataset.base.open(), dataset.queries.open()])
    np.testing.assert_array_equal(np.sort(both, axis=0), rows)
    assert dataset.queries.open().max() > 66_000


@pytest.mark.parametrize("count", [40, 41])
def test_a_base_must_remain(ready, refusal, count):
    assert f"{count} queries cannot be held out of 40 rows" in refusal(ready, queries={"held_out": count})
    assert ready(queries={"held_out": 39}).n == 1


# --- cache ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [{"path": "queries.npy"}, {"held_out": 5}], ids=["files", "split"])
def test_a_second_time_nothing_is_done(ready, checks, queries):
    first = ready(queries=queries)
    assert checks == ["base", "queries"]
    assert ready(queries=queries) == first and checks == ["base", "queries"]


def test_another_distance_needs_no_work(ready, checks):
    ready()
    assert ready(distance="ip").distance == "ip" and len(checks) == 2


@pytest.mark.parametrize(
    "change",
    [{"dtype": "float32"}, {"dimension": 3}, {"queries": {"held_out": 3}}, {"base": {"path": "base.npy", "rows": 40}}],
    ids=str,
)
def test_another_card_is_prepared_again(ready, checks, change):
    ready()
    ready(**change)
    assert len(checks) == 4


def test_another_card_of_the_project_is_prepared_again(ready, folder, checks, monkeypatch):
    """Its cache is named by the card alone, so only the digest tells."""
    monkeypatch.setattr(module, "find_datasets", lambda: {"tiny": folder / "tiny.yml"})
    first, again = ready(queries={"held_out": 3}), ready(queries={"held_out": 4})
    assert first.base.path == again.base.path == folder / "cache" / "tiny" / "base.npy"
    assert again.nq == 4 and len(checks) == 4


def test_force_forgets_a_download_of_ground_truth(ready, folder):
    truth = Source(url="http://127.0.0.1:9/gt.ibin")
    ready(truth=truth)
    place = fetching._place(truth, folder / "cache")
    place.mkdir(parents=True)
    download = place / fetching._file_name(truth)
    download.write_text("old")
    ready(truth=truth)
    assert download.exists()
    ready(truth=truth, force=True)
    assert not download.exists()


def test_force_prepares_again(ready, checks):
    ready()
    ready(force=True)
    assert len(checks) == 4


CASES = {
    "mapped": (np.asarray, {"path": "queries.npy"}),
    "split": (np.asarray, {"held_out": 5}),
    "converted": (np.asfortranarray, {"path": "queries.npy"}),
}


@pytest.mark.parametrize(("layout", "queries"), CASES.values(), ids=CASES)
def test_a_changed_base_is_prepared_again(ready, folder, layout, queries):
    np.save(folder / "base.npy", layout(BASE))
    before = np.array(ready(queries=queries).base.open())
    rewrite(folder / "base.npy", layout(BASE + 1))
    np.testing.assert_array_equal(ready(queries=queries).base.open(), before + 1)


def test_changed_queries_are_prepared_again(ready, folder):
    before = ready()
    rewrite(folder / "queries.npy", QUERIES + 1)
    assert ready().queries_check != before.queries_check


@pytest.mark.parametrize("content", ["", "{", "{}", "[1]", "\0"])
def test_a_damaged_record_is_prepared_again(ready, folder, content):
    first = ready()
    (folder / "cache" / cache_folder_name(folder) / "prepared.json").write_text(content)
    assert ready() == first


def cache_folder_name(folder):
    return next(path.name for path in (folder / "cache").iterdir() if path.is_dir())


def test_a_lost_file_of_the_cache_is_made_again(ready):
    first = ready(queries={"held_out": 5})
    first.base.path.unlink()
    again = ready(queries={"held_out": 5})
    assert again.base_check == first.base_check and again.base.path.is_file()


def test_cards_of_one_name_do_not_share_a_cache(tmp_path):
    cards = [
        DatasetCard(
            name="tiny",
            directory=tmp_path / place,
            title="x",
            distance="l2",
            base={"path": "b.npy"},
            queries={"held_out": 1},
        )
        for place in ("one", "other")
    ]
    assert len({cache_folder(card, tmp_path) for card in cards}) == 2


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "role"), [("base.npy", "base"), ("queries.npy", "queries"), ("learn.npy", "learn")])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_must_be_finite(ready, folder, refusal, file, role, bad):
    rows = QUERIES.copy()
    np.save(folder / "learn.npy", rows)
    rows[5, 1] = bad
    np.save(folder / file, rows)
    assert f"{role} row 5 holds {bad}" in refusal(ready, learn={"path": "learn.npy"})


def test_a_float64_that_overflows_is_refused(ready, folder, refusal):
    np.save(folder / "base.npy", BASE.astype("f8") * 1e300)
    assert "base row 0 holds" in refusal(ready)


@pytest.mark.parametrize("role", ["queries", "learn"])
def test_dimensions_must_agree(ready, folder, refusal, role):
    np.save(folder / "wide.npy", np.ones((5, 4), "f4"))
    assert f"{role} has 4 dimensions, the base has 3" in refusal(ready, **{role: {"path": "wide.npy"}})


@pytest.mark.parametrize("role", ["queries", "learn"])
def test_types_must_agree(ready, folder, refusal, role):
    np.save(folder / "bytes.npy", np.ones((5, 3), "u1"))
    assert f"{role} is uint8, the base is float32" in refusal(ready, **{role: {"path": "bytes.npy"}})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dimension": 4}, "base has 3 dimensions, the card of tiny says 4"),
        ({"dtype": "uint8"}, "base is float32, the card of tiny says uint8"),
        ({"base": {"path": "base.npy", "rows": 41}}, "holds 40 rows, the card of tiny says 41"),
        ({"queries": {"path": "queries.npy", "rows": 6}}, "holds 7 rows, the card of tiny says 6"),
        ({"base": {"path": "no.npy"}}, "no such file"),
        ({"base": {"path": "base"}}, "unknown kind of file"),
    ],
)
def test_the_card_must_be_true(ready, refusal, fields, words):
    assert words in refusal(ready, **fields)


def test_signed_and_unsigned_bytes_are_told_apart_by_the_card(ready, folder, refusal):
    (folder / "a.i8bin").write_bytes(np.array([5, 3], "<u4").tobytes() + bytes(15))
    source = {"path": "a.i8bin"}
    assert "base is int8, the card of tiny says uint8" in refusal(ready, dtype="uint8", base=source, queries=source)
    assert ready(dtype="uint8", base={**source, "format": "u8bin"}, queries={**source, "format": "u8bin"}).n == 5


def test_nothing_is_remembered_of_what_was_refused(ready, folder, refusal):
    np.save(folder / "base.npy", BASE * np.nan)
    refusal(ready)
    refusal(ready)
    np.save(folder / "base.npy", BASE)
    assert ready().n == 40


# --- names ---------------------------------------------------------------------------------------------------------


def test_resolve_a_name():
    assert resolve_dataset("crossover-20k").directory == DATASETS.resolve()


def test_resolve_a_misspelt_name(refusal):
    assert refusal(resolve_dataset, "crosover-20k").startswith(
        "unknown data set 'crosover-20k'; did you mean crossover-20k?"
    )


@pytest.mark.parametrize("name", ["no.yml", "no.npy", "no/such", "no/such.hdf5", "~/no.fbin", "", "no.xyz"])
def test_resolve_what_is_not_there(refusal, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    refusal(resolve_dataset, name)


@pytest.mark.parametrize("suffix", ["", ".npy", ".yml", ".hdf5"])
def test_resolve_a_folder(refusal, tmp_path, suffix):
    (tmp_path / f"folder{suffix}").mkdir()
    refusal(resolve_dataset, str(tmp_path / f"folder{suffix}"))


def test_resolve_a_card_by_its_path(tmp_path):
    (tmp_path / "mine.yml").write_text("title: x\ndistance: ip\nbase: {path: a.npy}\nqueries: {held_out: 3}\n")
    card = resolve_dataset(str(tmp_path / "mine.yml"))
    assert (card.name, card.directory, card.distance) == ("mine", tmp_path, "ip")


@pytest.mark.parametrize("options", [{"distance": "ip"}, {"queries": "q.npy"}])
def test_a_card_states_distance_and_queries_itself(refusal, options):
    assert "is a card and states both" in refusal(resolve_dataset, "crossover-20k", **options)


def test_resolve_vectors(folder):
    card = resolve_dataset(str(folder / "base.npy"), "cosine", str(folder / "queries.npy"))
    dataset = prepare(card, folder / "cache", Progress())
    assert (dataset.name, dataset.distance, dataset.n, dataset.nq) == ("base", "cosine", 40, 7)


@pytest.mark.parametrize(("rows", "held_out"), [(2, 1), (40, 4), (9_990, 999), (20_000, 1000)])
@pytest.mark.parametrize("suffix", [".npy", ".fbin"])
def test_without_queries_some_are_held_out(tmp_path, rows, held_out, suffix):
    store(tmp_path / f"mine{suffix}", np.ones((rows, 1), "f4"))
    card = resolve_dataset(str(tmp_path / f"mine{suffix}"))
    assert card.distance == "l2" and card.queries.held_out == held_out
    assert prepare(card, tmp_path / "cache", Progress()).n == rows - held_out


@pytest.mark.parametrize(
    ("stated", "asked", "distance"),
    [("angular", None, "cosine"), ("euclidean", None, "l2"), (None, None, "l2"), ("angular", "ip", "ip")],
)
def test_resolve_an_hdf5_file(tmp_path, stated, asked, distance):
    with h5py.File(tmp_path / "mine.hdf5", "w") as file:
        file["train"], file["test"] = BASE, QUERIES
        if stated:
            file.attrs["distance"] = stated
    dataset = prepare(resolve_dataset(str(tmp_path / "mine.hdf5"), asked), tmp_path / "cache", Progress())
    assert (dataset.distance, dataset.n, dataset.nq) == (distance, 40, 7)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY"])
@pytest.mark.parametrize("suffix", [".npy", ".fbin", ".u8bin", ".hdf5"])
def test_resolve_a_file_that_is_no_vectors(tmp_path, refusal, content, suffix):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    assert str(path) in refusal(resolve_dataset, str(path))


@pytest.mark.parametrize(
    "values", [np.float32(1), np.ones(3, "f4"), np.array([[{}]], object)], ids=["0-D", "1-D", "objects"]
)
def test_resolve_an_array_that_is_no_vectors(tmp_path, refusal, values):
    np.save(tmp_path / "bad.npy", values, allow_pickle=True)
    refusal(lambda: prepare(resolve_dataset(str(tmp_path / "bad.npy")), tmp_path / "cache", Progress()))


def test_resolve_an_archive_named_npy(tmp_path, refusal):
    np.savez(tmp_path / "a.npz", BASE)
    refusal(resolve_dataset, str((tmp_path / "a.npz").rename(tmp_path / "bad.npy")))


@pytest.mark.parametrize("name", ["...npy", "..npy", "a b.npy", "日本.npy"])
def test_odd_file_names(tmp_path, name):
    np.save(tmp_path / "x.npy", BASE)
    (tmp_path / "x.npy").rename(tmp_path / name)
    dataset = prepare(resolve_dataset(str(tmp_path / name)), tmp_path / "cache", Progress())
    assert (tmp_path / "cache") in dataset.base.path.parents
