import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import parquet as module
from benchmarks.data.formats import locate, rows_of
from benchmarks.errors import UserError

ROWS = np.random.default_rng(0).integers(0, 100, (1000, 7))
KINDS = {
    "list": lambda values: pa.list_(values),
    "large list": lambda values: pa.large_list(values),
    "fixed-size list": lambda values: pa.list_(values, 7),
}


def column(rows, kind=None, values=None):
    kind = kind or pa.list_(values or pa.float32())
    return pa.array([None if row is None else list(row) for row in rows], kind)


@pytest.fixture
def write(tmp_path):
    def of(columns: dict, **options):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet", **options)
        return tmp_path / "a.parquet"

    return of


def read(path, name=None):
    return locate(path, "parquet", name, path.with_name("converted.npy"))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (pa.float32(), "float32"),
        (pa.float64(), "float32"),
        (pa.float16(), "float32"),
        (pa.uint8(), "uint8"),
        (pa.int8(), "int8"),
    ],
    ids=str,
)
def test_a_column_of_lists(write, kind, values, dtype):
    found = read(write({"id": np.arange(1000), "v": column(ROWS.astype("f2"), kind(values))}, row_group_size=300))
    assert (found.rows, found.dimension, found.dtype) == (1000, 7, dtype) and found.path.name == "converted.npy"
    np.testing.assert_array_equal(found.open(), ROWS)


def test_several_blocks(write, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    np.testing.assert_array_equal(read(write({"v": column(ROWS)}, row_group_size=77)).open(), ROWS)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_compressions(write, compression):
    np.testing.assert_array_equal(read(write({"v": column(ROWS)}, compression=compression)).open(), ROWS)


@pytest.mark.parametrize("name", ["v", "a.b", "v.list.element", "日本", " ", ""])
def test_names_of_columns(write, name):
    path = write({"other": [[0.0]] * 1000, name: column(ROWS)})
    np.testing.assert_array_equal(read(path, name).open(), ROWS)


def test_one_of_several_columns_must_be_named(write, refusal):
    path = write({"v": column(ROWS), "title": column(ROWS + 1), "tags": [["x"]] * 1000, "id": np.arange(1000)})
    assert "choose one of v, title as `array:`" in refusal(read, path)
    np.testing.assert_array_equal(read(path, "title").open(), ROWS + 1)


@pytest.mark.parametrize("name", [None, "no", "id", "tags", "long"])
def test_no_such_column(write, refusal, name):
    path = write({"id": np.arange(5), "tags": [["x"]] * 5, "long": column(ROWS[:5], values=pa.int64())})
    message = refusal(read, path, name)
    assert "id (int64)" in message and "tags (list<element: string>)" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.__setitem__(500, None), "row 500 of column 'v' is missing, row 0 has 7"),
        (lambda rows: rows.__setitem__(500, [1.0]), "row 500 of column 'v' has 1 numbers, row 0 has 7"),
        (lambda rows: rows.__setitem__(500, []), "row 500 of column 'v' has 0 numbers"),
        (lambda rows: rows.__setitem__(500, [1, 2, 3, 4, 5, 6, None]), "row 500 of column 'v' lacks a number"),
        (lambda rows: rows.__setitem__(0, None), "row 0 of column 'v' holds no numbers"),
        (lambda rows: rows.__setitem__(0, []), "row 0 of column 'v' holds no numbers"),
        (lambda rows: rows.clear(), "has no rows"),
    ],
)
def test_rows_that_are_no_vectors(write, refusal, monkeypatch, change, words):
    monkeypatch.setattr(module, "BLOCK_BYTES", 7 * 4 * 300)
    rows = ROWS.tolist()
    change(rows)
    path = write({"v": column(rows)})
    assert words in refusal(read, path)
    assert [item.name for item in path.parent.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("row", [0, 500])
def test_rows_missing_from_fixed_size_lists(write, refusal, row):
    """The library refuses them itself, in words of its own."""
    rows = ROWS.tolist()
    rows[row] = None
    assert "a.parquet: " in refusal(read, write({"v": column(rows, pa.list_(pa.float32(), 7))}))


def test_the_number_of_rows_is_known_beforehand(write):
    assert rows_of(write({"v": column(ROWS)}), "parquet") == 1000


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 5, b"hello" * 99])
def test_other_files_are_refused(tmp_path, refusal, content):
    (tmp_path / "a.parquet").write_bytes(content)
    assert "is not a readable Parquet file" in refusal(read, tmp_path / "a.parquet")
    assert "is not a readable Parquet file" in refusal(rows_of, tmp_path / "a.parquet", "parquet")


def test_every_truncation_is_refused(write, refusal):
    path = write({"v": column(ROWS)})
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        refusal(read, path)


def test_a_damaged_file_is_refused_or_read(write):
    path = write({"v": column(ROWS)})
    whole, chance, surprises = path.read_bytes(), random.Random(0), {}
    for _ in range(200):
        place = chance.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([chance.randrange(256)]) + whole[place + 1 :])
        try:
            read(path)
        except UserError:
            pass
        except Exception as error:
            surprises.setdefault(type(error).__name__, f"byte {place}: {error}")
    assert surprises == {}
