import numpy as np
import pytest

from benchmarks.worker import unit_rows
from benchmarks.worker.vectors import map_vectors
from tests.harness import gaussian


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("offset", [0, 8, 13])
def test_map_vectors(tmp_path, dtype, offset):
    vectors = gaussian(7, 3, dtype)
    (tmp_path / "file").write_bytes(b"x" * offset + vectors.tobytes() + b"behind")
    mapped = map_vectors(
        {"path": str(tmp_path / "file"), "dtype": dtype, "rows": 7, "dimension": 3, "offset_bytes": offset}
    )
    np.testing.assert_array_equal(mapped, vectors)
    assert not mapped.flags.writeable


def test_unit_rows_keeps_zero_rows():
    rows = unit_rows(np.array([[3, 4], [0, 0], [-5, 0]], np.float32))
    np.testing.assert_array_equal(rows, np.array([[0.6, 0.8], [0, 0], [-1, 0]], np.float32))
    assert rows.dtype == np.float32


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_unit_rows_of_extreme_length(scale):  # their squares do not fit float32
    rows = unit_rows(np.array([[0.3, 0.4]], np.float32) * np.float32(scale))
    np.testing.assert_allclose(rows, [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_unit_rows_in_blocks(dtype):
    vectors = gaussian(100, 16, dtype)
    rows = unit_rows(vectors, block=7)
    np.testing.assert_array_equal(rows, unit_rows(vectors))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
