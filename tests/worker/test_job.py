"""The worker as a process, told by one job.json, under every Python that is at hand."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.paths import ALGORITHMS, ROOT
from benchmarks.worker.protocol import BUILD_FILE, EVENTS_FILE, JUDGED_FILE
from tests.harness import gaussian, vector_file, wait_for


def usable(python):
    """Whether an interpreter of that name works and has numpy."""
    path = shutil.which(python)
    return bool(path) and subprocess.run([path, "-c", "import numpy"], capture_output=True).returncode == 0


PYTHONS = [
    sys.executable,
    *(
        pytest.param(name, marks=pytest.mark.skipif(not usable(name), reason=f"no {name} with numpy"))
        for name in ("python3.9", "python3.13")
    ),
]


class Job:
    """A job of the toy and the worker that does it."""

    def __init__(self, folder, points, build_failure="none", mode="batch"):
        self.output, self.index = folder / "output", folder / "index"
        self.output.mkdir(parents=True, exist_ok=True)
        self.base, self.queries = gaussian(300), gaussian(20, seed=1)
        files = {
            role: vector_file(folder / f"{role}.fbin", array).model_dump(mode="json")
            for role, array in (("base", self.base), ("queries", self.queries))
        }
        search = {"drop": 0.0, "empty": 0.0, "failure": "none"}
        self.file = self.output / "job.json"
        self.file.write_text(
            json.dumps(
                {
                    **files,
                    "learn": None,
                    "host_pid": os.getpid(),
                    "cpus": [min(os.sched_getaffinity(0))],
                    "threads": 1,
                    "adapter": str(ALGORITHMS / "toy" / "algorithm.py"),
                    "class_name": "Toy",
                    "distance": "l2",
                    "k": 5,
                    "mode": mode,
                    "repeats": 2,
                    "seed": 0,
                    "build_params": {"build_failure": build_failure},
                    "index_directory": str(self.index),
                    "output": str(self.output),
                    "points": [{"id": name, "search_params": {**search, **params}} for name, params in points.items()],
                }
            )
        )

    def start(self, python=sys.executable):
        (self.output / EVENTS_FILE).unlink(missing_ok=True)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.Popen(
            [shutil.which(python), "-m", "benchmarks.worker", str(self.file)],
            cwd=self.output,
            env={**variables, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )

    def events(self):
        file = self.output / EVENTS_FILE
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def names(self):
        return [event["event"] for event in self.events()]

    def judge(self, point):
        (self.output / point / JUDGED_FILE).touch()


@pytest.mark.parametrize("python", PYTHONS)
def test_build_then_search_in_another_process(tmp_path, python):
    job = Job(tmp_path, {"first": {}, "second": {"drop": 0.4}}, mode="single")
    assert job.start(python).wait(30) == 0
    assert job.names() == ["started", "building", "built"]
    assert job.events()[-1]["index_bytes"] > job.base.nbytes
    assert json.loads((job.index / BUILD_FILE).read_text())["build_seconds"] > 0

    worker = job.start(python)
    wait_for(lambda: job.names()[-1:] == ["point_done"])
    assert job.names() == ["started", "loaded", "point_started", "point_done"]
    with pytest.raises(subprocess.TimeoutExpired):  # it computes nothing while the host judges
        worker.wait(0.3)
    assert job.names()[-1] == "point_done"
    job.judge("first")
    wait_for(lambda: job.names().count("point_done") == 2)
    job.judge("second")
    assert worker.wait(30) == 0 and job.names()[-1] == "finished"

    exact = np.argsort(((job.queries[:, None] - job.base) ** 2).sum(axis=2), axis=1)[:, :5]
    np.testing.assert_array_equal(np.load(job.output / "first" / "neighbors.npy"), exact)
    assert np.load(job.output / "first" / "latency.npy").shape == (2, 20)
    assert np.load(job.output / "first" / "search_seconds.npy").shape == (2,)
    misses = np.load(job.output / "second" / "neighbors.npy") != exact
    np.testing.assert_array_equal(misses, [[False] * 3 + [True] * 2] * 20)


def test_started_tells_what_the_worker_got(tmp_path):
    job = Job(tmp_path, {})
    job.start().wait(30)
    started = job.events()[0]
    assert started["affinity"] == [min(os.sched_getaffinity(0))] and started["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("points", "build_failure", "stage", "point"),
    [
        ({}, "raise", "build", None),
        ({"p": {"failure": "raise"}}, "none", "search", "p"),
    ],
)
def test_error_is_told_with_its_stage(tmp_path, points, build_failure, stage, point):
    job = Job(tmp_path, points, build_failure)
    job.start().wait(30)
    worker = job.start()
    _, log = worker.communicate(timeout=30)
    raised = job.events()[-1]
    assert worker.returncode == 1 and "Traceback" in log
    assert {
        **raised,
        "event": "raised",
        "stage": stage,
        "point": point,
        "type": "RuntimeError",
        "message": "the toy was asked to raise",
        "memory": False,
    } == raised


def test_index_is_not_saved_half(tmp_path):
    job = Job(tmp_path, {})
    (job.index / "index" / "toy.npz").mkdir(parents=True)  # so that saving fails
    assert job.start().wait(30) == 1
    assert job.names()[-1] == "raised" and not (job.index / BUILD_FILE).exists()
