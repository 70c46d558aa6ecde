"""`doctor`, and what run.py says and stores of the machine."""

import json
import os

import pytest

from benchmarks.cli import choice, doctor
from benchmarks.cli import run as run_verb
from benchmarks.cli.choice import placed_alike
from benchmarks.cli.doctor import describe_spread
from benchmarks.hardware import Placement, allowed_cpus, machine
from benchmarks.hardware.conditions import Conditions
from tests.harness import call, export, gaussian, leftovers, read_results, run, write_data

ONE = str(min(allowed_cpus()))


@pytest.fixture
def conditions(monkeypatch):
    """What the machine is like, whatever it is like."""

    def be(**facts):
        def read(cpus, seconds):
            return Conditions(cpus=cpus, **{"governors": {"performance": cpus}, **facts})

        for module in (doctor, run_verb):
            monkeypatch.setattr(module, "read_conditions", read)

    return be


def test_findings_with_reason_and_remedy(conditions):
    conditions(huge_pages="always", load=9.0)
    finished = call(doctor.main, "--threads", 1)
    assert finished.code == 0 and finished.err == ""
    for line in (
        f"machine auto: CPU {ONE} of socket",
        "load: 9 over the last minute",
        "  why:  memory comes in huge pages or not",
        "  mend: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        "2 things that may make timings unstable",
    ):
        assert line in finished.out


def test_nothing_to_find(conditions):
    conditions()
    assert "nothing that makes timings unstable was found" in call(doctor.main, "--machine", "single").out


def test_measured(conditions, monkeypatch):
    conditions()
    monkeypatch.setattr("benchmarks.hardware.repeat.ROWS", 1000)
    assert "the same work 5 times: " in call(doctor.main, "--machine", "single", "--measure", 5).out


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ([0.1, 0.1005, 0.0995], "coefficient of variation 0.4%: timings repeat here"),
        ([0.1, 0.104, 0.096], "a difference in speed of less than 7% means nothing"),
        (
            [0.1, 0.2, 0.3],
            "200.0 ms on average, 100.0 to 300.0 ms, coefficient of variation 40.8%: timings do not repeat",
        ),
    ],
)
def test_what_a_spread_means(seconds, told):
    assert told in describe_spread(seconds)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--machine", "socket65"], "did you mean socket64?"),
        (["--machine", "single", "--threads", "2"], "--threads 2: machine profile single is made for 1"),
        (["--machine", "all", "--threads", "9999"], "--threads 9999: this process may use "),
    ],
)
@pytest.mark.parametrize("verb", [doctor.main, run_verb.main])
def test_a_machine_that_cannot_be(options, told, verb):
    data = ["--dataset", "crossover-20k"] if verb is run_verb.main else []
    finished = call(verb, *data, *options)
    assert finished.code == 2 and told in finished.err and len(finished.err.splitlines()) == 1


# -- run.py


@pytest.fixture
def toy(tmp_path):
    """Options of a short run."""
    return [
        *write_data(tmp_path, gaussian(300), gaussian(20, seed=1)),
        *("--algorithm", "toy", "--runner", "venv", "--results-dir", tmp_path / "results"),
        *("--set", "toy.drop=0.0", "--set", "toy.failure=none"),
    ]


def test_a_run_says_and_stores_where_it_was(tmp_path, toy, conditions):
    conditions(huge_pages="always", load=9.0)
    finished = run(*toy, "--machine", "single")
    assert finished.code == 0, finished.err
    assert f"  machine single: CPU {ONE} of socket" in finished.out
    assert "2 things may make timings unstable here (load, huge pages); see python -m benchmarks doctor" in finished.out
    (result,) = read_results(tmp_path / "results")
    provenance = result.record.provenance
    assert provenance.machine_profile == "single" and provenance.affinity == [int(ONE)]
    assert provenance.findings == ["load: 9 over the last minute", "huge pages: transparent huge pages are always on"]
    assert result.record.deviations == [] and 1 <= result.record.process_threads < 8
    assert "speed is doubtful" not in finished.out
    (row,) = json.loads(export("--results-dir", tmp_path / "results", "--format", "json").out)
    assert row["deviations"] == [] and row["machine_profile"] == "single"


def test_a_profile_of_ones_own(tmp_path, toy, conditions):
    conditions()
    mine = tmp_path / "mine.yml"
    mine.write_text("title: Mine\nthreads: 1\nmemory_limit: 400MB\n")
    finished = run(*toy, "--machine", mine)
    assert finished.code == 0 and "machine mine: CPU " in finished.out and "unstable" not in finished.out
    assert not leftovers(tmp_path / "results")
    mine.write_text("title: Mine\nthreads: 1\nmemory_limit: 900TB\n")
    assert "ask for less with --memory-limit" in run(*toy, "--machine", mine).err


def test_a_dry_run_says_where(toy, conditions):
    finished = run(*toy, "--dry-run", "--threads", 1)
    assert finished.code == 0 and f"machine auto: CPU {ONE} of socket" in finished.out


def test_another_placement_is_another_measurement(tmp_path, toy, monkeypatch, conditions):
    """By its name, unless it comes to the very same CPUs."""
    conditions()
    assert run(*toy, "--machine", "single").code == 0
    before = read_results(tmp_path / "results")[0].record.provenance
    assert run(*toy, "--machine", "auto", "--threads", 1).code == 0
    assert read_results(tmp_path / "results")[0].record.provenance == before
    if len(allowed_cpus()) > 1:
        monkeypatch.setattr(choice, "place_here", lambda *asked: Placement("elsewhere", [max(allowed_cpus())]))
        assert run(*toy).code == 0
        assert read_results(tmp_path / "results")[0].record.provenance.machine_profile == "elsewhere"


@pytest.mark.parametrize(
    ("profile", "affinity", "alike"),
    [("auto", [0], True), (None, None, True), ("socket", [0, 1], True), ("socket", [0, 2], False)],
)
def test_placed_alike(profile, affinity, alike):
    class Provenance:
        machine_profile = profile

    Provenance.affinity = affinity
    assert placed_alike(Provenance, Placement("auto", [1, 0])) is alike


def test_what_was_not_as_asked_marks_the_result(tmp_path, toy, monkeypatch, conditions):
    """Here: a variable that a worker does not get, and memory that nothing binds it to."""
    conditions()
    monkeypatch.setattr("benchmarks.runner.venv.thread_environment", lambda threads: {"OMP_NUM_THREADS": "7"})
    monkeypatch.setattr(machine, "THREAD_VARIABLES", ("OMP_NUM_THREADS",))
    monkeypatch.setattr(machine, "FIXED_VARIABLES", {})
    finished = run(*toy, "--threads", 1)
    line = "OMP_NUM_THREADS should be 1, and was 7"
    assert finished.code == 0 and f"its speed is doubtful: {line}" in finished.out
    (result,) = read_results(tmp_path / "results")
    assert result.record.deviations == [line]
    (row,) = json.loads(export("--results-dir", tmp_path / "results", "--format", "json").out)
    assert row["deviations"] == [line]


def test_variables_of_the_shell_do_not_reach_a_worker(tmp_path, toy, monkeypatch, conditions):
    conditions()
    for name in ("OMP_THREAD_LIMIT", "OMP_PLACES", "KMP_AFFINITY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "99")
    assert run(*toy, "--threads", 1).code == 0
    (result,) = read_results(tmp_path / "results")
    assert result.record.provenance.thread_variables["OMP_NUM_THREADS"] == "1" and result.record.deviations == []
    assert os.environ["OMP_NUM_THREADS"] == "99"


def test_a_worker_is_bound_to_its_memory(tmp_path, toy, monkeypatch, conditions):
    conditions()
    seen = []

    def binding(nodes):
        seen.append(nodes)
        return ["env", "TOY_NUM_THREADS=8"]

    monkeypatch.setattr("benchmarks.runner.venv.memory_binding", binding)
    assert run(*toy, "--threads", 1).code == 0
    (result,) = read_results(tmp_path / "results")
    assert result.record.provenance.thread_variables["TOY_NUM_THREADS"] == "8"
    assert seen[0] == result.record.provenance.memory_nodes
