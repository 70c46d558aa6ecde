"""A gigabyte of vectors under half a gigabyte of memory."""

import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paths import ROOT

ROWS, DIMENSION, QUERIES, K = 2_000_000, 128, 64, 100
LIMIT = 512 << 20
MOST_ANONYMOUS_MIB = 64  # above what a process has that has compiled and searched something small

CHILD = """
import sys
import numpy as np
from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth.exact import exact_neighbors

folder, rows, dimension, k, distance = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
queries = np.load(folder + "/queries.npy")
exact_neighbors(queries, queries, distance, k, threads=2)
print("ready", flush=True)
sys.stdin.readline()
base = VectorFile(path=folder + "/base", dtype="float32", rows=rows, dimension=dimension)
truth = exact_neighbors(base, queries, distance, k, threads=2)
np.savez(folder + "/truth.npz", ids=truth.neighbors, near=truth.distances)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of real vectors, no two alike, and queries."""
    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    centres = rng.standard_normal((1000, DIMENSION), np.float32)
    with (folder / "base").open("wb") as file:
        for _ in range(0, ROWS, 100_000):
            block = rng.standard_normal((100_000, DIMENSION), np.float32)
            file.write(block + centres[rng.integers(0, 1000, 100_000)])
        file.flush()
        os.fsync(file.fileno())
    assert (folder / "base").stat().st_size == ROWS * DIMENSION * 4 > 1e9
    noise = rng.standard_normal((QUERIES, DIMENSION), np.float32)
    np.save(folder / "queries.npy", noise + centres[rng.integers(0, 1000, QUERIES)])
    yield folder
    (folder / "base").unlink()


@pytest.fixture
def memory_group():
    """A control group (version 1 or 2) that holds its processes to the limit; None where none can be made."""
    name = f"groundtruth-{uuid.uuid4().hex[:8]}"
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(LIMIT))
            yield group
            return
        except OSError:
            continue
        finally:
            for _ in range(50):  # until the kernel knows that its process has ended
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)
    yield None


def anonymous_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0  # it has ended


def nearest(folder, distance):
    """In float64 and blocks."""
    queries, best = np.load(folder / "queries.npy").astype(np.float64), None
    base = np.memmap(folder / "base", np.float32, "r", shape=(ROWS, DIMENSION))
    for start in range(0, ROWS, 50_000):
        rows = base[start : start + 50_000].astype(np.float64)
        near = -queries @ rows.T
        if distance == "l2":
            near = 2 * near + (rows * rows).sum(1) + (queries * queries).sum(1)[:, None]
        ids = np.argpartition(near, K)[:, :K]
        some = np.take_along_axis(near, ids, 1), ids + start
        if best is not None:
            some = [np.concatenate([one, other], axis=1) for one, other in zip(best, some, strict=True)]
        order = np.argsort(some[0], axis=1)[:, :K]
        best = [np.take_along_axis(one, order, 1) for one in some]
    return best


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["l2", "ip"])
def test_a_file_of_a_gigabyte_under_512_megabytes(folder, memory_group, distance):
    with (folder / "base").open("rb") as file:  # what the page cache holds of it would be charged to this process
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [sys.executable, "-c", CHILD, folder, str(ROWS), str(DIMENSION), str(K), distance]
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if memory_group:
            (memory_group / "cgroup.procs").write_text(str(child.pid))
        assert child.stdout.readline() == "ready\n"
        before, peak, over = anonymous_mib(child.pid), [0.0], threading.Event()

        def look():
            while not over.wait(0.01):
                peak[0] = max(peak[0], anonymous_mib(child.pid))

        watcher = threading.Thread(target=look)
        watcher.start()
        child.stdin.write("\n")
        child.stdin.close()
        code = child.wait(600)
        over.set()
        watcher.join()
        assert code == 0
        assert 0 < peak[0] - before < MOST_ANONYMOUS_MIB
        assert peak[0] < LIMIT >> 20
    finally:
        child.kill()
        child.wait()
    near, ids = nearest(folder, distance)
    with np.load(folder / "truth.npz") as found:
        np.testing.assert_array_equal(found["ids"], ids)
        np.testing.assert_allclose(found["near"], near, rtol=1e-9, atol=1e-9)
