"""A real scheduler and real workers, processes that Dask's own command starts."""

import json
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from benchmarks.cli import truth as truth_verb
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.groundtruth import cluster
from benchmarks.groundtruth.cache import ground_truth
from benchmarks.groundtruth.cluster import Job, cluster_neighbors, engine, look, shard_truth, split
from benchmarks.groundtruth.exact import exact_neighbors
from benchmarks.paths import ROOT
from benchmarks.progress import Progress
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
    """A scheduler, and workers that nobody starts again."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "s.json")
        until(lambda: (folder / "s.json").exists())
        time.sleep(0.1)
        self.address = json.loads((folder / "s.json").read_text())["address"]

    def start(self, *arguments, python=sys.executable, **variables) -> subprocess.Popen:
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        command = [python, "-m", "dask", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log))
        return self.processes[-1]

    def worker(self, **options) -> subprocess.Popen:
        options = {"PYTHONPATH": str(ROOT), **options}
        arguments = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        return self.start("worker", self.address, *arguments, **options)

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


@pytest.mark.slow
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
    one, many = (list((tmp_path / folder / "truth").iterdir()) for folder in ("one", "many"))
    assert [file.name for file in one] == [file.name for file in many] and len(one) == 1
    attributes = []
    for path in (*one, *many):
        with h5py.File(path) as file:
            attributes.append({name: file.attrs[name] for name in file.attrs if name != "widened"})  # by parts or shards
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
def test_scheduler_and_workers_without_the_package(tmp_path, dataset, refusal):
    pytest.importorskip("distributed")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise ModuleNotFoundError('No module named benchmarks')")
    running = Cluster(tmp_path)
    try:
        running.worker(PYTHONPATH=str(tmp_path))
        line = refusal(cluster_neighbors, running.address, dataset.base, dataset.queries, "l2", 100)
    finally:
        running.close()
    assert "cannot import this package" in line and "dask" in line
