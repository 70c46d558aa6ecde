import io
import random

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.data import formats
from benchmarks.data.formats import (
    DTYPES,
    HDF5_DISTANCES,
    format_of,
    hdf5_distance,
    locate,
    open_hdf5,
    rows_of,
    write_npy,
)
from benchmarks.errors import UserError

BIN = {"fbin": "float32", "u8bin": "uint8", "i8bin": "int8"}
KINDS = [(kind, dtype) for kind, dtype in BIN.items()] + [(kind, dtype) for kind in ("npy", "hdf5") for dtype in DTYPES]


def bin_bytes(rows: np.ndarray) -> bytes:
    return np.array(rows.shape, "<u4").tobytes() + rows.tobytes()


def write(path, kind: str, rows: np.ndarray):
    """Write rows in a format, as other programs write them."""
    if kind == "npy":
        np.save(path, rows)
    elif kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["train"] = rows
    else:
        path.write_bytes(bin_bytes(rows))
    return path


def read(path, kind: str, converted=None, array="train"):
    return locate(path, kind, array if kind == "hdf5" else None, converted or path.with_name("converted.npy"))


def some(dtype: str, shape=(5, 3)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_round_trip_without_a_copy(tmp_path, kind, dtype):
    rows = some(dtype)
    found = read(write(tmp_path / f"a.{kind}", kind, rows), kind)
    assert (found.rows, found.dimension, found.dtype) == (5, 3, dtype) and found.path == tmp_path / f"a.{kind}"
    assert found.open().dtype == dtype
    np.testing.assert_array_equal(found.open(), rows)


@given(data=st.data(), kind_dtype=st.sampled_from(KINDS))
def test_any_matrix_comes_back(tmp_path_factory, data, kind_dtype):
    kind, dtype = kind_dtype
    rows = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)))
    path = tmp_path_factory.mktemp("any") / f"a.{kind}"
    np.testing.assert_array_equal(read(write(path, kind, rows), kind).open(), rows)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_cropping_keeps_the_first_rows(tmp_path, kind, dtype):
    rows = some(dtype)
    found = read(write(tmp_path / f"a.{kind}", kind, rows), kind)
    np.testing.assert_array_equal(found.crop(2).open(), rows[:2])
    assert found.crop(99).rows == 5


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_every_truncation_is_refused(tmp_path, refusal, kind, dtype):
    whole = write(tmp_path / f"a.{kind}", kind, some(dtype)).read_bytes()
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(whole)
    for size in range(len(whole) - 1, -1, -1):
        with path.open("r+b") as file:
            file.truncate(size)
        assert str(path) in refusal(read, path, kind)


@pytest.mark.parametrize(("kind", "dtype"), [item for item in KINDS if item[0] != "hdf5"])
def test_bytes_after_the_last_row_are_refused(tmp_path, refusal, kind, dtype):
    path = write(tmp_path / f"a.{kind}", kind, some(dtype))
    path.write_bytes(path.read_bytes() + b"\0")
    assert str(path) in refusal(read, path, kind)


@pytest.mark.parametrize(
    ("rows", "dimension", "words"),
    [
        (6, 3, "truncated"),
        (4, 3, "suffix is wrong"),
        (5, 4, "truncated"),
        (2**32 - 1, 2**32 - 1, "truncated"),
        (0, 3, "nothing to read"),
        (5, 0, "nothing to read"),
    ],
)
def test_header_that_does_not_match_the_size(tmp_path, refusal, rows, dimension, words):
    path = tmp_path / "a.fbin"
    path.write_bytes(np.array([rows, dimension], "<u4").tobytes() + some("float32").tobytes())
    assert words in refusal(read, path, "fbin")


@pytest.mark.parametrize(
    ("kind", "dtype"), [("i8bin", "float32"), ("u8bin", "float32"), ("fbin", "uint8"), ("fbin", "int8")]
)
def test_wrong_suffix_is_told_by_the_size(tmp_path, refusal, kind, dtype):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(bin_bytes(some(dtype)))
    refusal(read, path, kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.npy", "npy"),
        ("a.FBIN", "fbin"),
        ("a.b.u8bin", "u8bin"),
        ("a.i8bin", "i8bin"),
        ("a.fvecs", "fvecs"),
        ("a.bvecs", "bvecs"),
        ("a.ivecs", "ivecs"),
        ("a.ibin", "ibin"),
        ("a.Parquet", "parquet"),
        ("a.hdf5", "hdf5"),
        ("a.h5", "hdf5"),
    ],
)
def test_format_by_suffix(tmp_path, name, kind):
    assert format_of(tmp_path / name) == kind


@pytest.mark.parametrize("name", ["a", "a.npz", "a.csv", ".npy", "npy", "a.npy.gz"])
def test_unknown_suffix(tmp_path, refusal, name):
    assert ".fbin" in refusal(format_of, tmp_path / name)


@pytest.mark.parametrize("kind", ["npy", "fbin", "hdf5"])
def test_missing_file_and_folder(tmp_path, refusal, kind):
    assert "no such file" in refusal(read, tmp_path / f"no.{kind}", kind)
    assert "no such file" in refusal(read, tmp_path, kind)


@pytest.mark.parametrize("kind", ["npy", "fbin", "hdf5"])
@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04" + b"\0" * 50, b"\x80\x04K\x01."], ids=["empty", "text", "zip", "pickle"]
)
def test_other_files_are_refused(tmp_path, refusal, kind, content):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(content)
    refusal(read, path, kind)


# --- what is converted ---------------------------------------------------------------------------------------------

CONVERTED = {
    "Fortran order": (lambda rows: np.asfortranarray(rows), "float32"),
    "float64": (lambda rows: rows.astype("f8"), "float32"),
    "float16": (lambda rows: rows.astype("f2"), "float32"),
    "big-endian": (lambda rows: rows.astype(">f4"), "float32"),
    "big-endian float64": (lambda rows: rows.astype(">f8"), "float32"),
    "Fortran uint8": (lambda rows: np.asfortranarray(rows.astype("u1")), "uint8"),
    "Fortran float64": (lambda rows: np.asfortranarray(rows.astype("f8")), "float32"),
}


@pytest.mark.parametrize(("change", "dtype"), CONVERTED.values(), ids=CONVERTED)
@pytest.mark.parametrize("kind", ["npy", "hdf5"])
def test_converted_to_what_can_be_mapped(tmp_path, kind, change, dtype):
    rows = some("float32")
    path = write(tmp_path / f"a.{kind}", kind, change(rows))
    before = path.read_bytes()
    found = read(path, kind)
    assert found.dtype == dtype and found.open().dtype == dtype
    np.testing.assert_array_equal(found.open(), rows)
    assert path.read_bytes() == before
    assert {item.name for item in tmp_path.iterdir()} <= {path.name, "converted.npy"}


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"chunks": (2, 3)},
        {"chunks": (2, 1), "compression": "gzip"},
        {"shuffle": True, "compression": "lzf"},
        {"fletcher32": True},
        {"maxshape": (None, 3)},
        {"chunks": (2, 3), "dtype": "f8"},
        {"compression": "gzip", "dtype": ">f4"},
    ],
    ids=str,
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_chunked_hdf5(tmp_path, monkeypatch, options, block_bytes):
    monkeypatch.setattr(formats, "BLOCK_BYTES", block_bytes)
    rows = some("float32")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("train", data=rows, **options)
    found = read(tmp_path / "a.hdf5", "hdf5")
    assert found.path.name == "converted.npy" and found.dtype == "float32"
    np.testing.assert_array_equal(found.open(), rows)


def test_hdf5_behind_a_user_block(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w", userblock_size=512) as file:
        file["train"] = some("float32")
    np.testing.assert_array_equal(read(tmp_path / "a.hdf5", "hdf5").open(), some("float32"))


@pytest.mark.parametrize("kind", ["external storage", "external link", "virtual data set"])
def test_hdf5_in_another_file_is_refused(tmp_path, monkeypatch, refusal, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.bin").write_bytes(some("float32").tobytes())
    with h5py.File("other.hdf5", "w") as file:
        file["train"] = some("float32")
    with h5py.File("a.hdf5", "w") as file:
        file["padding"] = np.ones(9000)  # so that the offset in the other file is one in this file too
        if kind == "external storage":
            file.create_dataset("train", (5, 3), "f4", external=[("raw.bin", 0, h5py.h5f.UNLIMITED)])
        elif kind == "external link":
            file["train"] = h5py.ExternalLink("other.hdf5", "train")
        else:
            layout = h5py.VirtualLayout((5, 3), "f4")
            layout[:] = h5py.VirtualSource("other.hdf5", "train", (5, 3))
            file.create_virtual_dataset("train", layout)
    assert "another file" in refusal(read, tmp_path / "a.hdf5", "hdf5")


def test_several_blocks_are_converted(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1 << 17)
    rows = np.arange(2 * 70_001, dtype="f8").reshape(70_001, 2)
    found = read(write(tmp_path / "a.npy", "npy", rows), "npy")
    np.testing.assert_array_equal(found.open(), rows.astype("f4"))


VECS = {"fvecs": "float32", "bvecs": "uint8"}


def vecs(path, rows: np.ndarray, dimensions=None):
    """A file of the texmex family, each row with its dimension in front."""
    records = np.zeros(len(rows), [("dimension", "<i4"), ("row", rows.dtype.newbyteorder("<"), rows.shape[1])])
    records["dimension"], records["row"] = rows.shape[1] if dimensions is None else dimensions, rows
    path.write_bytes(records.tobytes())
    return path


@pytest.mark.parametrize(("kind", "dtype"), VECS.items())
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 128)])
def test_texmex_files_are_converted(tmp_path, kind, dtype, shape):
    rows = some(dtype, shape)
    path = vecs(tmp_path / f"a.{kind}", rows)
    found = read(path, kind)
    assert (found.rows, found.dimension, found.dtype) == (*shape, dtype) and found.path.name == "converted.npy"
    assert rows_of(path, kind) == shape[0]
    np.testing.assert_array_equal(found.open(), rows)


def test_a_texmex_file_of_several_blocks(tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 16 * 4)
    rows = some("float32", (11, 3))
    np.testing.assert_array_equal(read(vecs(tmp_path / "a.fvecs", rows), "fvecs").open(), rows)
    for row in (0, 6, 10):
        dimensions = np.full(11, 3)
        dimensions[row] = 4
        message = refusal(read, vecs(tmp_path / "a.fvecs", rows, dimensions), "fvecs")
        assert "a.fvecs: " in message and (row == 0 or f"row {row} says that it has 4 dimensions" in message)


@pytest.mark.parametrize(("kind", "dtype"), VECS.items())
def test_every_truncation_of_a_texmex_file_is_refused_or_ends_at_a_row(tmp_path, refusal, kind, dtype):
    rows = some(dtype)
    path = vecs(tmp_path / f"a.{kind}", rows)
    whole, record = path.read_bytes(), 4 + rows[0].nbytes
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size % record or not size:
            assert str(path) in refusal(read, path, kind)
        else:
            np.testing.assert_array_equal(read(path, kind).open(), rows[: size // record])


@pytest.mark.parametrize("dimension", [0, -1, 2**31 - 1])
def test_a_texmex_file_of_an_impossible_dimension(tmp_path, refusal, dimension):
    assert (
        "dimensions" in refusal(read, vecs(tmp_path / "a.fvecs", some("float32"), dimension), "fvecs") or dimension > 0
    )


@pytest.mark.parametrize("kind", ["ibin", "ivecs"])
def test_ids_are_no_vectors(tmp_path, refusal, kind):
    (tmp_path / f"a.{kind}").write_bytes(bin_bytes(some("int32")))
    assert "holds ids" in refusal(read, tmp_path / f"a.{kind}", kind)


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "hdf5"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint16", "bool", "complex64", "longdouble", "S3"])
def test_other_types_are_refused(tmp_path, refusal, kind, dtype):
    assert "vectors are float32" in refusal(read, write(tmp_path / f"a.{kind}", kind, np.ones((2, 2), dtype)), kind)


@pytest.mark.parametrize("kind", ["npy", "hdf5"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (3, 0), (2, 2, 2), (0,)])
def test_what_is_no_matrix_is_refused(tmp_path, refusal, kind, shape):
    assert f"has shape {shape}" in refusal(read, write(tmp_path / f"a.{kind}", kind, np.ones(shape, "f4")), kind)


def test_pickled_objects_are_never_opened(tmp_path, refusal):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    np.save(tmp_path / "a.npy", np.array([[Bomb()]], object), allow_pickle=True)
    refusal(read, tmp_path / "a.npy", "npy")


def test_records_and_archives_are_refused(tmp_path, refusal):
    np.save(tmp_path / "a.npy", np.zeros((2, 2), [("x", "f4")]))
    refusal(read, tmp_path / "a.npy", "npy")
    np.savez(tmp_path / "b.npz", some("float32"))
    assert "archive" in refusal(read, (tmp_path / "b.npz").rename(tmp_path / "b.npy"), "npy")


@pytest.mark.parametrize("array", ["nothing", "folder", "link", "elsewhere", None])
def test_hdf5_without_the_array(tmp_path, refusal, array):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"], file["link"], file["elsewhere"] = 1, h5py.SoftLink("/no"), h5py.ExternalLink("no.hdf5", "/a")
        file.create_group("folder")
    assert "it holds elsewhere, folder, link, train" in refusal(read, tmp_path / "a.hdf5", "hdf5", array=array)


def test_hdf5_with_an_empty_dataspace(tmp_path, refusal):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"] = h5py.Empty("f4")
    refusal(read, tmp_path / "a.hdf5", "hdf5")


def tolerates(action, whole: bytes, path, attempts: int, seed: int = 0, end: int | None = None):
    """Damage one byte at a time: the action may succeed or refuse, nothing else. Returns what else it did."""
    chance, surprises = random.Random(seed), {}
    for _ in range(attempts):
        place, value = chance.randrange(end or len(whole)), chance.randrange(256)
        path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
        try:
            action(path)
        except UserError:
            pass
        except Exception as error:
            surprises.setdefault(type(error).__name__, f"byte {place} = {value}: {error}")
    return surprises


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_npy_header_is_refused(tmp_path):
    whole = write(tmp_path / "a.npy", "npy", some("float32")).read_bytes()
    assert tolerates(lambda path: read(path, "npy"), whole, tmp_path / "b.npy", 600, end=128) == {}


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["contiguous", "compressed"])
def test_a_damaged_hdf5_file_is_refused(tmp_path, options):
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype("f4")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("train", data=rows, **options)
        file.attrs["distance"] = "angular"

    def action(path):
        hdf5_distance(path)
        read(path, "hdf5")

    assert tolerates(action, (tmp_path / "a.hdf5").read_bytes(), tmp_path / "b.hdf5", 300) == {}


# --- distances of HDF5 files and writing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "distance"), [*HDF5_DISTANCES.items(), (np.bytes_(b"angular"), "cosine"), (None, None)]
)
def test_stated_distance(tmp_path, stated, distance):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        if stated is not None:
            file.attrs["distance"] = stated
    assert hdf5_distance(tmp_path / "a.hdf5") == distance


@pytest.mark.parametrize("stated", ["hamming", 3, ["euclidean"]])
def test_unknown_distance(tmp_path, refusal, stated):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.attrs["distance"] = stated
    assert "is not supported" in refusal(hdf5_distance, tmp_path / "a.hdf5")


def test_open_hdf5_names_the_file(tmp_path, refusal):
    def read_it():
        with open_hdf5(tmp_path / "no.hdf5"):
            pass

    assert refusal(read_it).startswith(str(tmp_path / "no.hdf5"))


@pytest.mark.parametrize("blocks", [[(2, 3), (2, 3)], [(6, 3)], []])
def test_write_npy_wants_the_announced_rows(tmp_path, refusal, blocks):
    assert "5 announced" in refusal(
        write_npy, tmp_path / "a.npy", [np.zeros(shape, "f4") for shape in blocks], (5, 3), "float32"
    )
    assert list(tmp_path.iterdir()) == []


def test_write_npy_leaves_nothing_when_interrupted(tmp_path):
    def blocks():
        yield np.zeros((2, 3), "f4")
        raise KeyboardInterrupt

    (tmp_path / "a.npy").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_npy(tmp_path / "a.npy", blocks(), (5, 3), "float32")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"] and (tmp_path / "a.npy").read_bytes() == b"old"


def test_what_write_npy_writes_is_an_npy_file(tmp_path):
    rows = some("int8")
    found = write_npy(tmp_path / "deep" / "a.npy", [rows[:2], rows[2:]], rows.shape, "int8")
    np.testing.assert_array_equal(np.load(io.BytesIO(found.path.read_bytes())), rows)
    np.testing.assert_array_equal(found.open(), rows)


def test_mapped_rows_cannot_be_written(tmp_path):
    rows = read(write(tmp_path / "a.npy", "npy", some("float32")), "npy").open()
    with pytest.raises(ValueError):
        rows[0, 0] = 1
