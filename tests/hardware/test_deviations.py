import pytest
from packaging.specifiers import SpecifierSet

from benchmarks.hardware import thread_environment
from benchmarks.hardware.deviations import Asked, deviations, read_pins
from benchmarks.worker import process

ASKED = Asked([2, 3], [0], {"faiss-cpu": SpecifierSet("==1.15.1"), "numpy": SpecifierSet("==2.4.6")})
AS_ASKED = {
    "affinity": [2, 3],
    "affinity_of_threads": [2, 3],
    "process_threads": 5,
    "thread_variables": {**thread_environment(2), "OTHER_NUM_THREADS": "9"},
    "memory_allowed": [0],
    "memory_policy": "default",
    "versions": {"Faiss_CPU": "1.15.1", "numpy": "2.4.6", "packaging": "1"},
}


def test_as_asked():
    assert deviations(ASKED, AS_ASKED) == []


def test_what_is_not_told_is_no_deviation():
    assert deviations(ASKED, {}) == deviations(ASKED, dict.fromkeys(AS_ASKED)) == []


@pytest.mark.parametrize(
    ("observed", "line"),
    [
        ({"affinity": [2]}, "CPUs 2-3 were asked for, the worker had 2"),
        ({"affinity": [0, 1, 2, 3]}, "CPUs 2-3 were asked for, the worker had 0-3"),
        (
            {"affinity_of_threads": [0, 1, 2, 3]},
            "CPUs 2-3 were asked for, threads of the library may use 0-3",
        ),
        ({"process_threads": 128}, "the process had 128 threads after the search; 2 were asked for"),
        (
            {"thread_variables": {**thread_environment(2), "OMP_NUM_THREADS": "64"}},
            "OMP_NUM_THREADS should be 2, and was 64",
        ),
        (
            {"thread_variables": {**thread_environment(2), "MKL_DYNAMIC": "TRUE"}},
            "MKL_DYNAMIC should be FALSE, and was TRUE",
        ),
        ({"memory_allowed": [0, 1]}, "memory of node 0 was asked for, the worker could use 0-1"),
        (
            {"memory_allowed": [0, 1], "memory_policy": "bind:1"},
            "memory of node 0 was asked for, the worker could use 1",
        ),
        ({"versions": {"faiss-cpu": "1.14.0", "numpy": "2.4.6"}}, "faiss-cpu==1.15.1 is pinned, and 1.14.0 was there"),
        ({"versions": {"numpy": "2.4.6"}}, "faiss-cpu==1.15.1 is pinned, and none was there"),
    ],
)
def test_each_deviation_is_a_line(observed, line):
    assert deviations(ASKED, {**AS_ASKED, **observed}) == [line]


def test_a_variable_that_is_not_set():
    variables = {name: value for name, value in thread_environment(2).items() if name != "OMP_NUM_THREADS"}
    assert deviations(ASKED, {"thread_variables": variables}) == ["OMP_NUM_THREADS should be 2, and was not set"]


def test_memory_that_numactl_binds():
    assert deviations(ASKED, {"memory_allowed": [0, 1], "memory_policy": "bind:0"}) == []
    assert deviations(Asked([2, 3]), {"memory_allowed": [0, 1], "memory_policy": "default"}) == []


def test_the_worker_reports_every_variable_that_it_is_given(monkeypatch):
    for name, value in thread_environment(7).items():
        monkeypatch.setenv(name, value)
    assert thread_environment(7).items() <= process.observe()["thread_variables"].items()


def test_pins(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text(
        "# a comment\n--no-binary :all:\nfaiss-cpu==1.15.1\nNumPy == 2.4.6  # why\nold==1; python_version < '3.8'\n\n"
        "wheel @ https://example.org/w.whl\n"
    )
    assert read_pins(file) == {"faiss-cpu": SpecifierSet("==1.15.1"), "numpy": SpecifierSet("==2.4.6")}
