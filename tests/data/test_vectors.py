import numpy as np
import pytest

from tests.harness import gaussian, vector_file


@pytest.mark.parametrize("size_bytes", [1, 64, 200, 640, 10**9])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_blocks_are_all_rows_in_order(tmp_path, dtype, size_bytes):
    rows = gaussian(33, dtype=dtype)
    blocks = list(vector_file(tmp_path / "a.bin", rows).blocks(size_bytes))
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), rows)
    assert [first for first, _ in blocks] == np.cumsum([0, *(len(block) for _, block in blocks[:-1])]).tolist()


def test_blocks_of_a_crop(tmp_path):
    rows = gaussian(33)
    blocks = vector_file(tmp_path / "a.bin", rows).crop(10).blocks(256)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), rows[:10])


def test_a_file_that_is_cut_short(tmp_path, refusal):
    file = vector_file(tmp_path / "a.bin", gaussian(33))
    blocks = file.blocks(64)
    next(blocks)
    with file.path.open("r+b") as content:
        content.truncate(200)
    assert "cut short" in refusal(list, blocks)
