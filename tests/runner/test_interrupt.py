"""A run that is stopped at any moment leaves whole results, no process, and goes on where it stopped."""

import signal
import time

import pytest

from benchmarks.worker.protocol import BUILD_FILE
from tests.harness import (
    finish,
    gaussian,
    leftovers,
    params,
    processes_naming,
    read_results,
    result_files,
    run,
    start,
    wait_for,
    write_data,
)

DROPS = [number / 20 for number in range(20)]


def options(folder, rows=4000, queries=600):
    (folder / "sweep.yml").write_text(f"algorithms: {{toy: {{search: {{drop: {DROPS}}}}}}}\n")
    return [
        *write_data(folder, gaussian(rows), gaussian(queries, seed=1)),
        "--config",
        folder / "sweep.yml",
        "--threads",
        1,
        "--results-dir",
        folder / "results",
    ]


def times(folder):
    return {path: path.stat().st_mtime_ns for path in result_files(folder / "results")}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 130),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_interrupted_in_mid_sweep(tmp_path, number, code):
    process = start(*options(tmp_path))
    wait_for(lambda: len(result_files(tmp_path / "results")) >= 2)
    workers = wait_for(lambda: processes_naming(tmp_path / "results" / ".work"))
    assert len(workers) == 1
    process.send_signal(number)
    finished = finish(process, 10)
    wait_for(lambda: not processes_naming(tmp_path / "results" / ".work"), 2)
    assert finished.code == code and "Traceback" not in finished.err

    before = times(tmp_path)
    assert 2 <= len(before) < len(DROPS)
    assert len(read_results(tmp_path / "results")) == len(before)  # each one opens and validates
    if number != signal.SIGKILL:
        (index,) = leftovers(tmp_path / "results")  # the built index is kept, so that it is not built again
        assert (index / BUILD_FILE).exists()
        assert finished.err.splitlines()[-1] == "interrupted"

    again = run(*options(tmp_path))
    assert again.code == 0 and f"{len(before)} complete already" in again.out
    assert "toy: building" not in again.out
    assert {**times(tmp_path), **before} == times(tmp_path)
    results = read_results(tmp_path / "results")
    assert sorted(params(result)["drop"] for result in results) == DROPS and all(result.ok for result in results)
    assert leftovers(tmp_path / "results") == []


def test_interrupted_while_an_index_hangs(tmp_path):
    process = start(*options(tmp_path, 300, 20), "--set", "toy.build_failure=hang")
    wait_for(lambda: processes_naming(tmp_path / "results" / ".work"))
    process.send_signal(signal.SIGINT)
    assert finish(process, 10).code == 130
    assert processes_naming(tmp_path / "results") == [] and result_files(tmp_path / "results") == []
    assert leftovers(tmp_path / "results") == []  # half an index is of no use


def test_interrupted_while_the_environment_is_made(tmp_path):
    environments = tmp_path / "environments"
    process = start(*options(tmp_path, 300, 20), ROBUST_ANN_ENVIRONMENTS=str(environments))
    wait_for(lambda: list(environments.glob("toy-*/pyvenv.cfg")))
    process.send_signal(signal.SIGINT)
    assert finish(process, 10).code == 130
    assert processes_naming(environments) == [] and list(environments.glob("toy-*/complete")) == []
    assert result_files(tmp_path / "results") == []
    again = finish(start(*options(tmp_path, 300, 20), ROBUST_ANN_ENVIRONMENTS=str(environments)))
    assert again.code == 0 and len(result_files(tmp_path / "results")) == len(DROPS)


def test_interrupted_while_ground_truth_is_computed(tmp_path):
    large = options(tmp_path, 100_000, 3000)
    process = start(*large)
    for line in process.stderr:
        if "ground truth" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    finished = finish(process, 30)
    assert finished.code == 130 and time.monotonic() - begin < 5
    assert finished.err.splitlines()[-1] == "interrupted" and "Traceback" not in finished.err
    assert not list((tmp_path / "data" / "truth").glob("*")) and not list((tmp_path / "data").rglob("*.partial"))


def test_second_run_on_one_results_folder(tmp_path):
    first = start(*options(tmp_path))
    wait_for(lambda: result_files(tmp_path / "results"))
    second = run(*options(tmp_path))
    assert second.code == 2 and len(second.err.splitlines()) == 1
    assert second.err.startswith("error: ") and str(tmp_path / "results") in second.err and "another run" in second.err
    assert first.poll() is None, "the first was done already, so nothing was tested"
    first.send_signal(signal.SIGINT)
    assert finish(first, 10).code == 130
    assert all(result.ok for result in read_results(tmp_path / "results"))


def test_a_lock_without_a_run_is_no_hindrance(tmp_path):
    assert run(*options(tmp_path, 300, 20)).code == 0
    assert (tmp_path / "results" / ".lock").exists()
    assert run(*options(tmp_path, 300, 20), "--force").code == 0
