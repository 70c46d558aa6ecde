import pytest

from benchmarks import hardware
from benchmarks.hardware import (
    MOST_THREADS,
    allowed_cpus,
    available_memory_bytes,
    choose_cpus,
    describe_machine,
    memory_limit_bytes,
    thread_environment,
)


@pytest.mark.parametrize(
    ("allowed", "threads", "cpus"),
    [
        ({3, 1, 2}, None, [1, 2, 3]),
        ({3, 1, 2}, 2, [1, 2]),
        ({5}, 1, [5]),
        (set(range(100)), None, list(range(MOST_THREADS))),
        (set(range(100)), 80, list(range(80))),
    ],
)
def test_one_cpu_per_thread_of_those_allowed(allowed, threads, cpus):
    assert choose_cpus(allowed, threads) == cpus


def test_more_threads_than_cpus_names_the_flag(refusal):
    assert "pass --threads 2 or fewer" in refusal(choose_cpus, {0, 1}, 3)


def test_this_process_may_use_a_cpu():
    assert allowed_cpus()


def test_every_runtime_is_held_to_the_threads():
    variables = thread_environment(3)
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"} <= set(variables)
    assert set(variables.values()) == {"3"}


def test_memory_limit(refusal):
    assert memory_limit_bytes(1000, None) == 900
    assert memory_limit_bytes(1000, 1000) == 1000
    assert "--memory-limit 1001" in refusal(memory_limit_bytes, 1000, 1001)


@pytest.fixture
def host_memory(monkeypatch):
    monkeypatch.setattr(hardware.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 1000}))


@pytest.mark.parametrize(
    ("limit", "current", "available"),
    [
        ("max\n", "10\n", 1000),
        ("800\n", "300\n", 500),
        ("5000\n", "10\n", 1000),
        (None, None, 1000),
        ("nonsense", "1", 1000),
    ],
)
def test_available_memory_is_the_lesser_of_host_and_cgroup(host_memory, tmp_path, limit, current, available):
    for name, text in (("memory.max", limit), ("memory.current", current)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert available_memory_bytes(tmp_path) == available


def test_machine_is_described():
    machine = describe_machine()
    assert machine.cpu and machine.kernel and machine.logical_cpus >= 1 and machine.memory_bytes > 2**20
