import numpy as np
import pytest

from benchmarks.data import check
from benchmarks.data.check import check_vectors
from benchmarks.data.formats import write_npy


@pytest.fixture
def check_of(tmp_path):
    def of(rows: np.ndarray, role: str = "base", **options):
        return check_vectors(write_npy(tmp_path / "a.npy", [rows], rows.shape, rows.dtype.name), role, **options)

    return of


ROWS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 2, 3])
def test_the_first_bad_row_is_named(check_of, refusal, bad, row):
    rows = ROWS.copy()
    rows[row:, 1] = bad
    assert f"queries row {row} holds {bad}; " in refusal(check_of, rows, "queries")


def test_a_bad_row_is_named_in_a_later_block_too(check_of, refusal, monkeypatch):
    monkeypatch.setattr(check, "BLOCK_BYTES", 24)  # two rows of 12 bytes
    rows = np.tile(ROWS, (5, 1))
    rows[13, 2] = np.nan
    assert "base row 13 holds nan; " in refusal(check_of, rows)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_zero_vectors_are_counted(check_of, dtype):
    rows = np.array([[0, 0], [0, 1], [0, 0], [1, 1]], dtype)
    assert check_of(rows).zero_vectors == 2


def test_a_negative_zero_vector_is_a_zero_vector(check_of):
    assert check_of(np.array([[-0.0, 0.0], [1, 0]], np.float32)).zero_vectors == 1


def test_blocks_change_nothing(check_of, monkeypatch):
    rows = np.tile(ROWS, (5, 1))
    rows[7] = 0
    whole = check_of(rows)
    monkeypatch.setattr(check, "BLOCK_BYTES", 30)
    assert check_of(rows) == whole and whole.zero_vectors == 1


@pytest.mark.parametrize(
    "other",
    [ROWS.reshape(3, 4), ROWS[:3], ROWS[::-1], ROWS + 1, ROWS.view(np.uint8), ROWS.astype(np.uint8)],
    ids=["shape", "rows", "order", "values", "bytes", "dtype"],
)
def test_fingerprint_follows_type_shape_and_values(check_of, other):
    assert check_of(other).sha256 != check_of(ROWS).sha256


def test_progress_counts_rows(check_of):
    told = []
    check_of(ROWS, advance=told.append)
    assert sum(told) == 4
