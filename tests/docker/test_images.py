"""Every image is built from nothing, and an index in its image answers as it does in its environment."""

import json

import numpy as np
import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli import install as install_verb
from benchmarks.metrics.table import DEFAULT_METRICS
from benchmarks.runner.images import REPOSITORY
from tests.harness import call, export, read_results, run

pytestmark = pytest.mark.docker
ALGORITHMS = find_algorithms()
LIBRARIES = {item.directory.name: item for item in ALGORITHMS.values()}
OF_TIME = ("qps", "qps-best", "latency-p50", "latency-p95", "latency-p99", "build_seconds", "peak_memory_bytes")
OF_PLACE = ("measured_at", "file", "runner", "environment", "python")


def install(*options):
    return call(install_verb.main, "--runner", "docker", *options)


@pytest.fixture(scope="module")
def images(engine, bring):
    """What `install` says when nothing is there, library by library."""
    for image in engine.images.list():
        for tag in image.tags:
            if tag.startswith(REPOSITORY):
                engine.images.remove(tag, force=True)
    for algorithm in LIBRARIES.values():
        if algorithm.library.supplied:
            bring(algorithm)
    finished = install()
    return dict(line.split(": ", 1) for line in finished.out.splitlines() if ": " in line), finished


def test_every_image_is_built(images):
    said, finished = images
    assert finished.code == 0, finished.out
    assert set(said) == set(LIBRARIES)
    assert all(line.startswith("ready (sha256:") for line in said.values())


def test_what_is_built_is_not_built_again(images):
    said, _ = images
    again = dict(line.split(": ", 1) for line in install().out.splitlines())
    for library, line in again.items():
        assert line.split(",")[0] == said[library].split(",")[0] and line.endswith(", 0 s)")


def test_an_image_that_cannot_be_built_stops_no_other(images, tmp_path, monkeypatch):
    for name, pin in (("broken", "nonexistent-package-xyz==1\n"), ("sound", "# nothing\n")):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("algorithm.py", "Dockerfile", "algorithm.yml"):
            (folder / file).write_text((LIBRARIES["toy"].directory / file).read_text().replace("toy:", f"toy-{name}:"))
        (folder / "requirements.txt").write_text(pin)
    monkeypatch.setattr(install_verb, "find_algorithms", lambda: find_algorithms(tmp_path))
    finished = install()
    broken, sound = finished.out.splitlines()
    assert finished.code == 1 and sound.startswith("sound: ready")
    assert broken.startswith("broken: failed: ") and "nonexistent-package-xyz" in broken and "(log: " in broken


def measured(folder, name, runner):
    """The smoke sweep on crossover-20k, and its rows in the export."""
    (folder / "sweep.yml").write_text(json.dumps({"algorithms": {}}))
    smoke = ALGORITHMS[name].offer.smoke.model_dump()
    (folder / "sweep.yml").write_text(json.dumps({"repeats": 1, "algorithms": {name: smoke}}))
    results = folder / runner
    arguments = ["--dataset", "crossover-20k", "--algorithm", name, "--threads", 1, "--config", folder / "sweep.yml"]
    finished = run(*arguments, "--runner", runner, "--results-dir", results)
    assert finished.code == 0, finished.out + finished.err
    rows = json.loads(export("--results-dir", results, "--format", "json").out)
    assert len(rows) == len(read_results(results)) >= 1
    return sorted(rows, key=lambda row: json.dumps(row["search"])), read_results(results)


@pytest.mark.parametrize("name", [name for name, item in ALGORITHMS.items() if item.offer.family != "test"])
def test_the_table_is_the_same_as_from_venv(tmp_path, images, bring, name):
    bring(ALGORITHMS[name])
    docker, in_docker = measured(tmp_path, name, "docker")
    venv, in_venv = measured(tmp_path, name, "venv")
    reproducible = ALGORITHMS[name].offer.reproducible
    for one, other in zip(docker, venv, strict=True):
        assert list(one) == list(other)
        versions, of_venv = one.pop("versions"), other.pop("versions")
        assert all(of_venv[package] == version for package, version in versions.items() if package in of_venv)
        same = {
            key: value for key, value in one.items() if key.split("_low")[0].split("_high")[0] not in OF_TIME + OF_PLACE
        }
        if reproducible:
            assert same == {key: other[key] for key in same}
        for metric in ("recall", "robustness-0.1", "robustness-0.9"):
            assert abs(one[metric] - other[metric]) <= (0 if reproducible else 0.03)
    assert max(row["recall"] for row in docker) >= 0.99
    for one, other in zip(in_docker, in_venv, strict=True):
        if reproducible and one.identity == other.identity:
            np.testing.assert_array_equal(one.array("neighbors"), other.array("neighbors"))
    assert set(DEFAULT_METRICS) <= set(docker[0])
