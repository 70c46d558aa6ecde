"""What a container may do, how its end is named, and that nothing of it is left."""

import json
import os
import shutil
import signal

import pytest

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli import choice
from benchmarks.cli import run as run_verb
from benchmarks.paths import ALGORITHMS
from benchmarks.runner.docker import HOST_LABEL
from tests.harness import (
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
    wait_for,
    write_data,
)
from tests.runner import test_execute
from tests.runner.test_execute import everything_fails, require_small_disk

pytestmark = pytest.mark.docker
KILLED = "the kernel killed it at its memory limit of 0.40 GB"
LONG = "took longer than 15 s"  # a container starts more slowly than a process
FAILURES = test_execute.FAILURES | {
    "eat-memory": ("out-of-memory", f"while searching: {KILLED}"),
    "hang": ("timeout", f"while searching: {LONG}"),
}
BUILD_FAILURES = test_execute.BUILD_FAILURES | {
    "eat-memory": ("out-of-memory", f"while building: {KILLED}"),
    "hang": ("timeout", f"while building: {LONG}"),
}


def containers(engine):
    return engine.containers.list(all=True, ignore_removed=True, filters={"label": HOST_LABEL})


def hosts(engine):
    """Process ids of the runs that the containers belong to."""
    return {int(item.labels[HOST_LABEL].split("-")[0]) for item in containers(engine)}


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory, engine):
    folder = tmp_path_factory.mktemp("failures")
    with small_disk(folder / "search"), small_disk(folder / "build"):
        yield folder, everything_fails(folder, "--runner", "docker", "--timeout", 15)
        assert not containers(engine)


@pytest.mark.parametrize("failure", FAILURES)
def test_search_failure(failed_run, failure):
    check(failed_run[0], "search", failure, *FAILURES[failure])


@pytest.mark.parametrize("failure", BUILD_FAILURES)
def test_build_failure(failed_run, failure):
    check(failed_run[0], "build", failure, *BUILD_FAILURES[failure])


def check(folder, stage, failure, status, words):
    require_small_disk(failure, folder / stage)
    parameter = {"search": "failure", "build": "build_failure"}[stage]
    found = [result.record for result in read_results(folder / stage) if params(result)[parameter] == failure]
    assert found
    for record in found:
        assert record.status == status and record.provenance.runner == "docker"
        assert record.reason is None if words is None else words in record.reason


def test_the_run_says_so_and_leaves_nothing_behind(failed_run):
    folder, finished = failed_run
    for stage, ended in finished.items():
        assert ended.code == 1 and "Traceback" not in ended.err
        assert leftovers(folder / stage) == []


PROBE = """
import errno, json, os
from pathlib import Path
from algorithms_toy import Toy


def refused(path, mode="a"):
    try:
        open(path, mode).close()
        return "allowed"
    except OSError as error:
        return errno.errorcode[error.errno]


class Probe(Toy):
    def search(self, queries, k, **search_params):
        os.write(1, b"\\xff\\xfe not text\\n")
        return super().search(queries, k, **search_params)

    def stats(self):
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        files = Path("/proc/self/maps").read_text()
        base = next(line.split()[-1] for line in files.splitlines() if ".fbin" in line)
        limits = [Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory.max")]
        pids = [Path("/sys/fs/cgroup/pids/pids.max"), Path("/sys/fs/cgroup/pids.max")]
        return {
            "uid": os.getuid(),
            "gid": os.getgid(),
            "capabilities": int(status["CapEff"], 16),
            "bounding": int(status["CapBnd"], 16),
            "no_new_privileges": int(status["NoNewPrivs"]),
            "cpus": status["Cpus_allowed_list"].strip(),
            "root": refused("/file"),
            "code": refused(__file__),
            "data": refused(base),
            "output": refused("probe", "w"),
            "interfaces": " ".join(sorted(os.listdir("/sys/class/net"))),
            "memory_limit": next(path.read_text().strip() for path in limits if path.exists()),
            "processes_limit": next(path.read_text().strip() for path in pids if path.exists()),
            "omp": os.environ["OMP_NUM_THREADS"],
            "secret": os.environ.get("SECRET_OF_THE_HOST", "none"),
            "tmp": refused("/tmp/file", "w"),
        }
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """The toy, in the same image, that also tells what it sees."""
    folder = tmp_path / "algorithms" / "toy"
    shutil.copytree(ALGORITHMS / "toy", folder, ignore=shutil.ignore_patterns("__pycache__"))
    toy = (folder / "algorithm.py").read_text()
    (folder / "algorithm.py").write_text(toy + PROBE.replace("from algorithms_toy import Toy\n", ""))
    card = folder / "algorithm.yml"
    card.write_text(card.read_text().replace("class: Toy", "class: Probe"))
    monkeypatch.setattr(choice, "find_algorithms", lambda: find_algorithms(tmp_path / "algorithms"))
    monkeypatch.setenv("SECRET_OF_THE_HOST", "secret")
    return tmp_path


def probe_run(folder, *options):
    (folder / "sweep.yml").write_text("algorithms: {}\n")
    data = write_data(folder, gaussian(300), gaussian(20, seed=1))
    arguments = ["--algorithm", "toy", "--threads", 1, "--config", folder / "sweep.yml", "--runner", "docker"]
    return run(*data, *arguments, "--results-dir", folder / "results", *options)


def test_what_a_worker_may_do(probe, engine):
    finished = probe_run(probe, "--memory-limit", "500MB")
    assert finished.code == 0, finished.out + finished.err
    results = read_results(probe / "results")
    image = engine.images.get(results[0].record.provenance.environment)
    assert any("toy" in tag for tag in image.tags)
    for result in results:
        stats, provenance = result.record.stats, result.record.provenance
        assert (stats["uid"], stats["gid"]) == (os.getuid(), os.getgid())
        assert stats["capabilities"] == stats["bounding"] == 0 and stats["no_new_privileges"] == 1
        assert stats["cpus"] == ",".join(map(str, provenance.affinity)) and len(provenance.affinity) == 1
        assert stats["root"] == stats["code"] == stats["data"] == "EROFS"
        assert stats["output"] == stats["tmp"] == "allowed"
        assert stats["interfaces"] == "lo"
        assert abs(int(stats["memory_limit"]) - 500_000_000) < 5000 and int(stats["processes_limit"]) < 10_000
        assert stats["omp"] == "1" and stats["secret"] == "none"
        assert result.path.stat().st_uid == os.getuid()
        log = (probe / "results" / result.record.log).read_text(encoding="utf-8")
        assert "\ufffd\ufffd not text" in log


def test_files_belong_to_the_caller(probe, monkeypatch):
    """The engine is root's; what a container writes is not. Files of another user can be made by root alone."""
    if os.getuid() != 0:
        pytest.skip("shown by root alone")
    seen = {}
    real = run_verb.execute

    def execute(session):
        session.runner.user = "1234:1235"
        folder = session.store.folder
        (folder / ".indexes").mkdir(parents=True)
        (folder / ".work").mkdir()

        def mkdir(path, *arguments, **options):
            plain(path, *arguments, **options)
            if folder in path.parents:
                os.chown(path, 1234, 1235)

        plain = type(folder).mkdir
        monkeypatch.setattr(type(folder), "mkdir", mkdir)
        started = session.runner.start

        def start(environment, work):
            if work.index_exists:
                seen.update({path: path.stat() for path in work.index.rglob("*")})
            return started(environment, work)

        session.runner.start = start
        return real(session)

    monkeypatch.setattr(run_verb, "execute", execute)
    finished = probe_run(probe)
    assert finished.code == 0, finished.out + finished.err
    assert seen and {(stat.st_uid, stat.st_gid) for stat in seen.values()} == {(1234, 1235)}
    assert {result.record.stats["uid"] for result in read_results(probe / "results")} == {1234}


def hanging(folder):
    (folder / "sweep.yml").write_text(json.dumps({"algorithms": {"toy": {"search": {"drop": [0.0, 0.1, 0.2]}}}}))
    data = write_data(folder, gaussian(300), gaussian(20, seed=1))
    options = ["--algorithm", "toy", "--threads", 1, "--config", folder / "sweep.yml", "--runner", "docker"]
    return [*data, *options, "--results-dir", folder / "results", "--set", "toy.failure=none,hang"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted(tmp_path, engine, number):
    process = start(*hanging(tmp_path))
    wait_for(lambda: result_files(tmp_path / "results"))
    assert len(wait_for(lambda: containers(engine))) == 1
    process.send_signal(number)
    finished = finish(process, 30)
    assert finished.code == 130 and "Traceback" not in finished.err
    assert not containers(engine) and not processes_naming(tmp_path / "results" / ".work")
    assert read_results(tmp_path / "results")


def test_orphans_of_a_killed_host_are_removed_at_the_next_start(tmp_path, engine):
    process = start(*hanging(tmp_path))
    wait_for(lambda: result_files(tmp_path / "results"))
    (orphan,) = wait_for(lambda: containers(engine))
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    assert containers(engine) == [orphan]
    before = len(result_files(tmp_path / "results"))

    other = start(*hanging(tmp_path)[:-1], "toy.failure=hang", "--results-dir", tmp_path / "other")  # still in use
    try:
        wait_for(lambda: hosts(engine) == {other.pid})
        again = run(*hanging(tmp_path)[:-1], "toy.failure=none")
        assert again.code == 0 and f"{before} complete already" in again.out
        assert hosts(engine) == {other.pid}
    finally:
        other.send_signal(signal.SIGINT)
        finish(other, 30)
    assert not containers(engine)
    assert leftovers(tmp_path / "results") == []


def test_the_runner_that_is_taken_by_itself(tmp_path):
    """Docker, since the image is there; what venv measured is measured again, since speed is not the same in both."""
    (tmp_path / "sweep.yml").write_text("algorithms: {}\n")
    data = write_data(tmp_path, gaussian(300), gaussian(20, seed=1))
    arguments = [*data, "--algorithm", "toy", "--threads", 1, "--config", tmp_path / "sweep.yml"]
    arguments += ["--results-dir", tmp_path / "results"]
    assert "runner: venv (as asked)" in run(*arguments, "--runner", "venv").out
    finished = run(*arguments)
    assert "runner: docker (every image is there)" in finished.out and "complete already" not in finished.out
    assert {result.record.provenance.runner for result in read_results(tmp_path / "results")} == {"docker"}
    assert "2 complete already" in run(*arguments).out
