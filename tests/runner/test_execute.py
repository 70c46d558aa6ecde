"""The toy fails in every way an index can; each is a status with a reason, and none disturbs the others."""

import re
import shutil

import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli import choice
from benchmarks.paths import ALGORITHMS
from benchmarks.runner.environment import EnvironmentFailure
from benchmarks.runner.venv import VenvRunner
from tests.harness import (
    Finished,
    finish,
    gaussian,
    leftovers,
    params,
    processes_naming,
    read_results,
    result_files,
    run,
    small_disk,
    start,
    write_data,
)

FAILURES = {  # of a search: status and what the reason says
    "none": ("ok", None),
    "raise": ("failed", "while searching: RuntimeError: the toy was asked to raise"),
    "crash": ("failed", "while searching: the worker was killed by signal 11 (SIGSEGV)"),
    "exit": ("failed", "while searching: the worker ended with exit code 7"),
    "hang": ("timeout", "while searching: took longer than 4 s"),
    "eat-memory": ("out-of-memory", "while searching: used "),
    "fill-disk": ("failed", "while searching: the disk is full (OSError: [Errno 28] No space left on device)"),
    "repeat": ("ok", None),
    "short": ("ok", None),
    "minus-one": ("ok", None),
    "out-of-range": ("invalid", "outside the 300 base vectors; the first is 300, of query 0"),
    "negative": ("invalid", "the first is -7, of query 0"),
    "wrong-shape": ("failed", "while searching: ValueError: search returned 19 rows for 20 queries"),
    "floats": ("failed", "while searching: ValueError: search must return an integer array (queries, k), not float64"),
}
BUILD_FAILURES = {
    "none": ("ok", None),
    "raise": ("failed", "while building: RuntimeError: the toy was asked to raise"),
    "crash": ("failed", "while building: the worker was killed by signal 11 (SIGSEGV)"),
    "hang": ("timeout", "while building: took longer than 4 s"),
    "eat-memory": ("out-of-memory", "while building: used "),
    "fill-disk": ("failed", "while building: the disk is full (OSError: [Errno 28] No space left on device)"),
}
LIMITS = ["--timeout", 4, "--memory-limit", "400MB"]


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory):
    """Everything goes wrong once; the run as a process, so that what it leaves behind is seen."""
    folder = tmp_path_factory.mktemp("failures")
    with small_disk(folder / "search"), small_disk(folder / "build"):
        yield folder, everything_fails(folder)


def everything_fails(folder, *more):
    """How two runs of the toy end, one that fails in search and one in build."""
    options = [*data(folder), "--algorithm", "toy", "--threads", 1, *LIMITS, *more]
    search = start(
        *options,
        "--results-dir",
        folder / "search",
        "--set",
        "toy.drop=0.0",
        "--set",
        f"toy.failure={','.join(FAILURES)}",
    )
    build = start(
        *options,
        "--results-dir",
        folder / "build",
        "--set",
        "toy.drop=0.0,0.5",
        "--set",
        f"toy.build_failure={','.join(BUILD_FAILURES)}",
    )
    return {"search": finish(search, 180), "build": finish(build, 180)}


def require_small_disk(failure, folder):
    if failure == "fill-disk" and not folder.is_mount():
        pytest.skip("this user may not mount a small disk")


def data(folder, rows=300):
    return write_data(folder, gaussian(rows), gaussian(20, seed=1))


def by(folder, parameter):
    return {params(result)[parameter]: result for result in read_results(folder)}


def toy_run(folder, *options) -> Finished:
    (folder / "sweep.yml").write_text("algorithms: {}\n")  # so that the toy's smoke sweep is taken
    return run(
        *data(folder),
        "--algorithm",
        "toy",
        "--threads",
        1,
        "--results-dir",
        folder / "results",
        "--config",
        folder / "sweep.yml",
        *options,
    )


def times(folder):
    """Modification time of every result file."""
    return {path.name: path.stat().st_mtime_ns for path in result_files(folder / "results")}


def test_the_lists_are_complete():
    parameters = find_algorithms()["toy"].offer.parameters
    assert parameters["failure"].choices == list(FAILURES)
    assert parameters["build_failure"].choices == list(BUILD_FAILURES)


@pytest.mark.parametrize("failure", FAILURES)
def test_search_failure(failed_run, failure):
    folder, _ = failed_run
    record = by(folder / "search", "failure")[failure].record
    require_small_disk(failure, folder / "search")
    status, words = FAILURES[failure]
    assert record.status == status
    assert record.reason is None if words is None else words in record.reason
    assert (folder / "search" / record.log).is_file()


@pytest.mark.parametrize("failure", BUILD_FAILURES)
def test_build_failure(failed_run, failure):
    folder, _ = failed_run
    require_small_disk(failure, folder / "build")
    status, words = BUILD_FAILURES[failure]
    points = [result.record for result in read_results(folder / "build") if params(result)["build_failure"] == failure]
    assert len(points) == 2  # every point of the build has its file
    for record in points:
        assert record.status == status and (record.reason is None if words is None else words in record.reason)
        assert (folder / "build" / record.log).is_file()


def test_answers_that_are_short_or_repeat_only_miss(failed_run):
    results = by(failed_run[0] / "search", "failure")
    assert (results["none"].hits == 10).all()
    assert (results["repeat"].hits == 1).all() and results["repeat"].record.repeated_ids == 20 * 9
    assert (results["short"].hits == 5).all() and results["short"].record.missing_ids == 20 * 5
    assert (results["minus-one"].hits == 5).all() and results["minus-one"].record.missing_ids == 20 * 5


@pytest.mark.parametrize("kind", ["search", "build"])
def test_the_run_says_so_and_leaves_nothing_behind(failed_run, kind):
    folder, finished = failed_run
    assert finished[kind].code == 1 and "Traceback" not in finished[kind].out + finished[kind].err
    assert leftovers(folder / kind) == [] and processes_naming(folder / kind) == []
    for failure, (status, words) in {"search": FAILURES, "build": BUILD_FAILURES}[kind].items():
        if status != "ok":
            assert re.search(rf"^toy .*{failure}.*: {status}", finished[kind].out, re.MULTILINE), failure
            assert words in finished[kind].out


def test_the_traceback_is_in_the_log(failed_run):
    folder, _ = failed_run
    record = by(folder / "search", "failure")["raise"].record
    assert "RuntimeError: the toy was asked to raise" in (folder / "search" / record.log).read_text()


def test_a_failed_point_has_what_is_known_of_its_build(failed_run):
    record = by(failed_run[0] / "search", "failure")["crash"].record
    assert record.build_seconds is not None and record.index_bytes > 0 and record.provenance.versions["numpy"]


def test_run_again_measures_what_failed_and_nothing_else(tmp_path):
    options = ["--set", "toy.drop=0.0", "--set", "toy.failure=none,raise,short"]
    assert toy_run(tmp_path, *options).code == 1
    before = times(tmp_path)
    again = toy_run(tmp_path, *options)
    after = times(tmp_path)
    assert again.code == 1 and "2 complete already" in again.out
    assert [name for name in before if before[name] != after[name]] == [
        name for name in before if "failure=raise" in name
    ]


def test_run_again_when_all_is_complete_starts_nothing(tmp_path):
    assert toy_run(tmp_path).code == 0
    before = times(tmp_path)
    again = toy_run(tmp_path)
    assert again.code == 0 and times(tmp_path) == before and "0 operating points" in again.out
    assert toy_run(tmp_path, "--set", "toy.drop=0.0,0.5,0.7").code == 0
    assert len(times(tmp_path)) == 3 and {**times(tmp_path), **before} == times(tmp_path)


def test_force_measures_again(tmp_path):
    assert toy_run(tmp_path).code == 0
    before = times(tmp_path)
    assert toy_run(tmp_path, "--force").code == 0
    after = times(tmp_path)
    assert after.keys() == before.keys() and all(after[name] > before[name] for name in before)


def test_a_failure_does_not_take_the_place_of_a_good_result(tmp_path, monkeypatch):
    assert toy_run(tmp_path).code == 0
    before = times(tmp_path)
    monkeypatch.setattr(VenvRunner, "prepare", lambda self, algorithm, building: fail_to_build())
    again = toy_run(tmp_path, "--force")
    assert again.code == 1 and "no compiler" in again.out and times(tmp_path) == before
    assert all(result.ok for result in read_results(tmp_path / "results"))


def test_a_failure_of_new_code_takes_the_place_of_what_older_code_measured(tmp_path, monkeypatch):
    shutil.copytree(ALGORITHMS / "toy", tmp_path / "algorithms" / "toy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))
    assert toy_run(tmp_path).code == 0
    with (tmp_path / "algorithms" / "toy" / "algorithm.py").open("a") as file:
        file.write("raise RuntimeError('the new code is broken')\n")
    assert toy_run(tmp_path).code == 1
    assert [result.record.status for result in read_results(tmp_path / "results")] == ["failed", "failed"]


def fail_to_build():
    raise EnvironmentFailure("no compiler")


def test_changed_code_makes_results_stale(tmp_path, monkeypatch):
    shutil.copytree(ALGORITHMS / "toy", tmp_path / "algorithms" / "toy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))
    assert toy_run(tmp_path).code == 0
    before = times(tmp_path)
    toy_run(tmp_path)
    assert times(tmp_path) == before
    with (tmp_path / "algorithms" / "toy" / "algorithm.py").open("a") as file:
        file.write("# changed\n")
    assert toy_run(tmp_path).code == 0
    after = times(tmp_path)
    assert after.keys() == before.keys() and all(after[name] > before[name] for name in before)


def test_more_repeats_than_stored_are_measured(tmp_path):
    assert toy_run(tmp_path, "--repeats", 2).code == 0
    before = times(tmp_path)
    toy_run(tmp_path, "--repeats", 1)
    assert times(tmp_path) == before
    toy_run(tmp_path, "--repeats", 4)
    assert all(times(tmp_path)[name] > before[name] for name in before)
    assert {result.record.repeats for result in read_results(tmp_path / "results")} == {4}


def test_a_damaged_result_is_measured_again(tmp_path):
    toy_run(tmp_path)
    damaged, whole = result_files(tmp_path / "results")
    damaged.write_bytes(damaged.read_bytes()[:1000])
    before = times(tmp_path)
    again = toy_run(tmp_path)
    assert again.code == 0 and damaged.name in again.err
    assert times(tmp_path)[whole.name] == before[whole.name] and len(read_results(tmp_path / "results")) == 2


@pytest.fixture
def broken_library(tmp_path, monkeypatch):
    """A second toy in a library that cannot be installed."""
    for name in ("toy", "broken"):
        shutil.copytree(
            ALGORITHMS / "toy", tmp_path / "algorithms" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "algorithms" / "broken" / "requirements.txt").write_text("nonexistent-package-xyz==1\n")
    card = tmp_path / "algorithms" / "broken" / "algorithm.yml"
    card.write_text(card.read_text().replace("  toy:\n", "  broken-toy:\n"))
    monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))
    monkeypatch.setattr("benchmarks.runner.venv.ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setattr("benchmarks.runner.environment.environment_key", lambda *what: "k")
    from benchmarks.paths import ENVIRONMENTS

    ready = next(path for path in ENVIRONMENTS.glob("toy-*") if (path / "complete").exists())
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "toy-k").symlink_to(ready)
    return ["--algorithm", "broken-toy"]


def test_a_library_that_cannot_be_installed_fails_its_points(tmp_path, broken_library):
    finished = toy_run(tmp_path, *broken_library)
    points = {(result.identity.algorithm, result.record.status) for result in read_results(tmp_path / "results")}
    assert finished.code == 1 and points == {("toy", "ok"), ("broken-toy", "failed")}
    reasons = {result.record.reason for result in read_results(tmp_path / "results") if not result.ok}
    assert len(reasons) == 1 and "environment of broken-toy cannot be built" in reasons.pop()


def test_skip_missing_leaves_it_out_with_one_line(tmp_path, broken_library):
    finished = toy_run(tmp_path, *broken_library, "--skip-missing")
    assert finished.code == 0
    assert {result.identity.algorithm for result in read_results(tmp_path / "results")} == {"toy"}
    assert len([line for line in finished.out.splitlines() if "cannot be built" in line]) == 1


@pytest.fixture
def changed_toy(tmp_path, monkeypatch):
    """A toy with more code in its class: a function of that code."""

    def change(code, behind=""):
        folder = tmp_path / "algorithms" / "toy"
        shutil.copytree(ALGORITHMS / "toy", folder, ignore=shutil.ignore_patterns("__pycache__"))
        adapter = folder / "algorithm.py"
        adapter.write_text(f"{adapter.read_text()}\n    {code}\n\n{behind}\n")
        monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))

    return change


@pytest.mark.parametrize(
    "answer", ["{'evaluations': 3, 'share': 0.5, 'kind': 'x', 'exact': True}", "{'evaluations': np.int64(3)}"]
)
def test_what_an_adapter_tells_of_itself(tmp_path, changed_toy, answer):
    changed_toy(f"def stats(self): return {answer}")
    assert toy_run(tmp_path).code == 0
    assert all(result.record.stats["evaluations"] == 3 for result in read_results(tmp_path / "results"))


@pytest.mark.parametrize(
    "code",
    [
        "return {'x': float('nan')}",
        "return {'x': [1, 2]}",
        "return {'x': None}",
        "return None",
        "return {'x': object()}",
        r"raise RuntimeError('not UTF-8: \udcff')",
        r"raise RuntimeError('zero: \x00 [red] \n')",
        "raise RuntimeError()",
        "raise SystemExit(0)",
        "raise KeyboardInterrupt",
    ],
)
def test_no_adapter_can_end_the_run(tmp_path, changed_toy, code):
    changed_toy(f"def stats(self): {code}")
    assert toy_run(tmp_path).code in (0, 1)
    assert len(read_results(tmp_path / "results")) == 2


def test_a_library_that_crashes_when_python_ends_loses_nothing(tmp_path, changed_toy):
    changed_toy("pass", "import atexit; atexit.register(os.abort)")
    finished = toy_run(tmp_path)
    assert finished.code == 0 and [result.ok for result in read_results(tmp_path / "results")] == [True, True]


def test_one_value_written_in_two_ways_is_one_point(tmp_path):
    finished = toy_run(tmp_path, "--set", "toy.drop=0,0.0")
    assert finished.code == 0 and len(read_results(tmp_path / "results")) == 1


@pytest.mark.parametrize("number", ["0.1", ".1", "1e-1", "1.0e-1", "1E-1"])
def test_numbers_of_set(tmp_path, number):
    assert "drop=0.1" in toy_run(tmp_path, "--dry-run", "--set", f"toy.drop={number}").out


def test_a_helper_that_the_index_started_goes_with_it(tmp_path, changed_toy):
    changed_toy("pass", f"import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; true', '{tmp_path}'])")
    assert toy_run(tmp_path, "--set", "toy.failure=none,crash").code == 1
    left = processes_naming(tmp_path)
    for process in left:
        process.kill()
    assert left == []
