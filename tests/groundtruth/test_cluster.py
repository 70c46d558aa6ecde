"""A real scheduler and real workers, processes that Dask's own command starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import h5py
import numpy as np
import pytest

from benchmarks.cli import truth as truth_verb
from benchmarks.data.vectors import VectorFile
from benchmarks.groundtruth import cluster
from benchmarks.groundtruth.cluster import Job, cluster_neighbors, engine, look, shard_truth, split
from benchmarks.groundtruth.exact import exact_neighbors, merge
from benchmarks.paths import ROOT
from tests.harness import call

RANDOM = np.random.default_rng(0)


def vectors(rows: int, dimension: int) -> np.ndarray:
    """Small integers: equal distances abound, within shards and across them."""
    return RANDOM.integers(0, 3, (rows, dimension)).astype(np.float32)


@pytest.fixture(scope="module")
def dataset(make_dataset):
    return make_dataset(vectors(60_000, 12), vectors(300, 12))


@pytest.fixture(scope="module")
def expected(dataset):
    return exact_neighbors(dataset.base, dataset.queries, "l2", 100)


@pytest.fixture
def many_shards(monkeypatch):
    monkeypatch.setattr(cluster, "LEAST_ROWS", 1500)


class Cluster:
    """A scheduler, which cannot import this package, and workers that nobody starts again."""

    def __init__(self, folder):
        self.bare, self.folder, self.processes = folder / "bare", folder / "workers", []
        self.folder.mkdir()
        (self.bare / "benchmarks").mkdir(parents=True)
        (self.bare / "benchmarks" / "__init__.py").write_text("raise ImportError('no package here')")
        file = folder / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
        self.start(self.bare, "scheduler", *options)
        until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def start(self, folder, *arguments) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", *arguments]  # the folder is first on its path
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (folder / f"{len(self.processes)}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
        return self.processes[-1]

    def worker(self, folder=None) -> subprocess.Popen:
        arguments = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        return self.start(folder or self.folder, "worker", self.address, *arguments)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def until(condition, seconds: float = 60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


@pytest.fixture
def dask(tmp_path):
    pytest.importorskip("distributed")
    running = Cluster(tmp_path)
    yield running
    running.close()


def same(found, expected):
    for one, other in ((found.neighbors, expected.neighbors), (found.distances, expected.distances)):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


@pytest.fixture
def job(dataset):
    files = {file.path: look(file.path) for file in (dataset.base, dataset.queries)}
    return Job(dataset.base, dataset.queries, "l2", 100, files, engine())


@pytest.mark.parametrize("distance", ["l2", "ip", "cosine"])
def test_merged_shards_are_the_truth_of_the_whole(job, many_shards, distance):
    job = replace(job, distance=distance)
    rows = split(job.base, job.queries, 1)
    found = merge([shard_truth(job, some) for some in rows[::-1]], 100)
    assert len(rows) == 8
    same(found, exact_neighbors(job.base, job.queries, distance, 100))


@pytest.mark.parametrize(
    ("rows", "dimension", "queries", "threads"),
    [(10, 2, 1, 1), (65_537, 2, 1, 50), (10**6, 96, 1000, 3), (10**8, 128, 10_000, 64), (10**9, 96, 29_316, 512)],
)
def test_shards_are_all_rows_and_not_too_large(rows, dimension, queries, threads):
    base, asked = (VectorFile(path="x", dtype="float32", rows=count, dimension=dimension) for count in (rows, queries))
    shards = split(base, asked, threads)
    assert [shard.start for shard in shards] == [0, *(shard.stop for shard in shards[:-1])]
    assert shards[-1].stop == rows
    lengths = {len(shard) for shard in shards}
    assert min(lengths) > 0 and max(lengths) - min(lengths) <= 1
    assert max(lengths) <= cluster.LEAST_ROWS or max(lengths) * dimension * queries <= cluster.SHARD_WORK
    assert max(lengths) * dimension * 4 <= cluster.SHARD_BYTES
    assert len(shards) <= 8 * threads or min(lengths) * dimension * queries > cluster.SHARD_WORK / 2


def test_a_worker_without_the_files(job, tmp_path, refusal):
    away = tmp_path / "away.npy"
    line = refusal(shard_truth, replace(job, files={away: job.files[job.base.path]}), range(10))
    assert str(away) in line and "cannot be read on the worker on" in line


def test_a_worker_with_another_file_of_that_name(job, tmp_path, refusal):
    for position in (0, 1):  # size, time
        seen = list(job.files[job.base.path])
        seen[position] -= 1
        line = refusal(shard_truth, replace(job, files={job.base.path: tuple(seen)}), range(10))
        assert str(job.base.path) in line and "is not the file that it is here" in line


@pytest.mark.parametrize("at", [0, 2**21 - 1])
def test_a_sample_sees_both_ends_of_a_file(tmp_path, at):
    path = tmp_path / "file"
    path.write_bytes(bytes(2**21))
    before = look(path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"x")
    os.utime(path, ns=(before[1], before[1]))
    assert before[:2] == look(path)[:2] and before != look(path)


def test_a_worker_with_other_code(job, refusal):
    assert "another version" in refusal(shard_truth, replace(job, engine="0"), range(10))


def test_without_dask(dataset, monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refusal(cluster_neighbors, "tcp://127.0.0.1:1", dataset.base, dataset.queries, "l2", 100)
    assert "pip install -e '.[cluster]'" in line


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "nonsense", "http://a:1", "tcp://", "tcp://a", "tcp://a:b", "tcp://[1"]
)
def test_no_address(dataset, refusal, address):
    pytest.importorskip("distributed")
    line = refusal(cluster_neighbors, address, dataset.base, dataset.queries, "l2", 100)
    assert f"'{address}' is no address like tcp://HOST:8786" in line


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://no.such.host.invalid:8786"])
def test_no_scheduler(dataset, refusal, address):
    pytest.importorskip("distributed")
    line = refusal(cluster_neighbors, address, dataset.base, dataset.queries, "l2", 100)
    assert f"no Dask scheduler answers at {address} within" in line


def test_something_else_listens(dataset, refusal, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        line = refusal(cluster_neighbors, address, dataset.base, dataset.queries, "l2", 100)
    assert f"no Dask scheduler answers at {address} within 0.5 s" in line


def test_threads_are_those_of_the_cluster(dataset):
    finished = call(truth_verb.main, "--dataset", dataset.base.path, "--scheduler", "tcp://x:1", "--threads", 2)
    assert finished.code == 2 and finished.err.startswith("error: --threads: with --scheduler")


def test_a_worker_killed_in_mid_run_changes_nothing(dask, dataset, expected, many_shards, tmp_path, monkeypatch):
    workers = [dask.worker() for _ in range(3)]
    with cluster._connected(dask.address) as client:
        until(lambda: len(client.nthreads()) == 3)
    killed = []

    def update(done, total):
        if done >= total / 4 and not killed:
            workers[1].send_signal(signal.SIGKILL)
            killed.append(done / total)

    found = cluster_neighbors(dask.address, dataset.base, dataset.queries, "l2", 100, update)
    assert killed and killed[0] < 0.9 and workers[1].wait(10) == -signal.SIGKILL
    same(found, expected)


@pytest.mark.slow
def test_the_verb_writes_what_one_machine_writes(dask, dataset, many_shards, tmp_path):
    dask.worker()
    base, queries = dataset.base.path, dataset.queries.path
    data = ("--dataset", base, "--queries", queries, "--data-dir")
    for folder, more in (("one", ["--threads", "2"]), ("many", ["--scheduler", dask.address])):
        finished = call(truth_verb.main, *data, tmp_path / folder, "--out", tmp_path / f"{folder}.hdf5", *more)
        assert finished.code == 0, finished.err
    one, many = (sorted((tmp_path / folder / "truth").iterdir()) for folder in ("one", "many"))
    assert [file.name for file in one] == [file.name for file in many] and len(one) == 2  # the truth and its difficulty
    one, many = ([file for file in files if "difficulty" not in file.name] for files in (one, many))
    attributes = []
    for path in (*one, *many):
        with h5py.File(path) as file:
            attributes.append(
                {name: file.attrs[name] for name in file.attrs if name != "widened"}
            )  # by parts or shards
    assert attributes[0] == attributes[1] and "sha256" in attributes[0]
    assert (tmp_path / "one.hdf5").read_bytes() == (tmp_path / "many.hdf5").read_bytes()


@pytest.mark.slow
def test_all_workers_lost(dask, dataset, many_shards, monkeypatch, refusal):
    monkeypatch.setattr(cluster, "NO_WORKER_SECONDS", 3)
    worker = dask.worker()
    with cluster._connected(dask.address) as client:
        until(client.nthreads)
    line = refusal(
        cluster_neighbors, dask.address, dataset.base, dataset.queries, "l2", 100, lambda done, total: worker.kill()
    )
    assert "has had no worker for 3 s" in line and dask.address in line


@pytest.mark.slow
def test_the_scheduler_is_lost(dask, dataset, many_shards, refusal):
    dask.worker()

    def update(done, total):
        dask.processes[0].kill()

    line = refusal(cluster_neighbors, dask.address, dataset.base, dataset.queries, "l2", 100, update)
    assert "was lost" in line and dask.address in line


@pytest.mark.slow
def test_ctrl_c_leaves_no_tasks(dask, dataset, many_shards):
    dask.worker()

    def update(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster_neighbors(dask.address, dataset.base, dataset.queries, "l2", 100, update)
    with cluster._connected(dask.address) as client:
        until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0, 10)


@pytest.mark.slow
def test_a_worker_without_the_package(dask, dataset, refusal):
    dask.worker(dask.bare)
    line = refusal(cluster_neighbors, dask.address, dataset.base, dataset.queries, "l2", 100)
    assert "cannot import this package (no package here)" in line


@pytest.mark.slow
def test_what_a_worker_refuses_is_told(dask, dataset, refusal, monkeypatch):
    dask.worker()
    monkeypatch.setattr(cluster, "look", lambda path: (1, 2, "3"))
    line = refusal(cluster_neighbors, dask.address, dataset.base, dataset.queries, "l2", 100)
    assert line.startswith(f"{dataset.base.path}: on the worker on ")
