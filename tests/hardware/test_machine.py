import os
import shutil

import pytest

from benchmarks.hardware import allowed_cpus, describe_machine, machine, memory_binding, place_here, thread_environment
from tests.hardware.trees import make_machine, paper


def test_this_process_may_use_a_cpu():
    assert allowed_cpus()


def test_a_place_on_this_machine():
    placement = place_here("single")
    assert placement.threads == 1 and set(placement.cpus) <= allowed_cpus()
    assert 1 <= place_here().threads <= 64


def test_more_threads_than_cpus_names_the_flag(refusal):
    there = len(allowed_cpus())
    assert f"pass --threads {there}" in refusal(place_here, "all", there + 1)


def test_every_runtime_is_held_to_the_threads():
    variables = thread_environment(3)
    held = {name for name, value in variables.items() if value == "3"}
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"} <= held
    assert variables["OMP_DYNAMIC"] == variables["MKL_DYNAMIC"] == "FALSE"


@pytest.fixture
def numactl(tmp_path, monkeypatch):
    """A numactl that does as it is told by an environment variable."""
    file = tmp_path / "bin" / "numactl"
    file.parent.mkdir()
    file.write_text('#!/bin/sh\nshift\n[ -n "$FORBIDDEN" ] && exit 1\nexec "$@"\n')
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")
    machine._works.cache_clear()
    return str(file)


def test_memory_is_bound_where_there_is_a_choice(tmp_path, numactl):
    root = paper(tmp_path)
    assert memory_binding([1], root) == [numactl, "--membind=1"]
    assert memory_binding([0, 1], root) == [] and memory_binding([], root) == []
    assert memory_binding([0], make_machine(tmp_path / "small")) == []


def test_memory_is_not_bound_where_that_is_forbidden(tmp_path, numactl, monkeypatch):
    monkeypatch.setenv("FORBIDDEN", "1")
    assert memory_binding([0], paper(tmp_path)) == []


def test_memory_is_not_bound_without_numactl(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert memory_binding([0], paper(tmp_path)) == []


def test_machine_is_described():
    described = describe_machine()
    assert described.cpu and described.kernel and described.logical_cpus >= 1 and described.memory_bytes > 2**20
