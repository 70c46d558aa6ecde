"""Files that are cut while they are used: a child process, as a map of such a file would end it with SIGBUS."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth.rows import Rows
from benchmarks.paths import ROOT

CHILD = """
import os, sys
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.groundtruth import exact, search
from benchmarks.groundtruth.exact import exact_neighbors
import numpy as np

path, when, rows, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
base = VectorFile(path=path, dtype="float32", rows=rows, dimension=16)
owner, name = {"search": (search.Search, "do"), "rank": (exact._Settle, "rank"), "scan": (exact._Settle, "scan")}[when]
original = getattr(owner, name)

def cut(*arguments):
    os.truncate(path, size)
    return original(*arguments)

setattr(owner, name, cut)
try:
    exact_neighbors(base, np.zeros((3, 16), np.float32), "l2", 10)
except UserError as error:
    sys.exit(f"error: {error}")
"""


@pytest.mark.parametrize("when", ["search", "rank", "scan"])
@pytest.mark.parametrize("size", [0, 2_000_000])
def test_a_base_that_is_cut_meanwhile_ends_in_one_line(tmp_path, when, size):
    base = np.ones((100_000, 16), np.float32)  # all equal: every query is scanned
    base.tofile(tmp_path / "base")
    command = [sys.executable, "-c", CHILD, tmp_path / "base", when, "100000", str(size)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"error: {tmp_path}/base: was cut short while it was in use; run again when it stays as it is\n"
    )


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_blocks_of_a_file_are_those_of_its_array(tmp_path, dtype):
    array = np.random.default_rng(0).integers(0, 100, (50, 3)).astype(dtype)
    (tmp_path / "x").write_bytes(b"12345678" + array.tobytes() + b"more")
    rows = Rows(VectorFile(path=tmp_path / "x", dtype=dtype, rows=50, dimension=3, offset_bytes=8))
    assert len(rows) == 50 and rows.shape == (50, 3) and rows.dtype == dtype
    for other in (rows, Rows(array)):
        blocks = [(first, block.copy()) for first, block in other.blocks(range(5, 42), 10)]
        assert [first for first, _ in blocks] == [5, 15, 25, 35]
        np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), array[5:42])
        np.testing.assert_array_equal(other.read(range(7, 9)), array[7:9])
        np.testing.assert_array_equal(other.take(np.array([3, -1, 49])), array[[3, 0, 49]])


def test_a_file_that_is_too_short_is_refused(tmp_path, refusal):
    (tmp_path / "x").write_bytes(bytes(99))
    assert "x: was cut short" in refusal(Rows, VectorFile(path=tmp_path / "x", dtype="int8", rows=50, dimension=2))
