"""`python -m benchmarks compare`: what it prints and writes, and what a gate makes of real shapes of results."""

import json
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.cli import compare as verb
from benchmarks.paths import ROOT
from benchmarks.results.store import Store
from tests.factories import make_result, partition_hits
from tests.harness import call, finish, gaussian, run, start, write_data

RULES = ("--max-drop", "robustness-0.1@10=0.002", "recall@10=0.005")
N = 5000


@pytest.fixture
def sides(tmp_path):
    """Two stores."""
    return Store(tmp_path / "base"), Store(tmp_path / "new")


def compare(sides, *options):
    return call(verb.main, *(store.folder for store in sides), *options)


def crossover(n=N, seed=0):
    """Hits as of a partition index on crossover-20k at recall 0.9: hardly a query without any."""
    return np.maximum(1, partition_hits(0.9, n, seed=seed))


def with_hidden_tail(hits, share=0.02):
    """The worst queries lose all they had, and as many hits as that are found by others: the average is the same."""
    worse = hits.copy()
    worst = np.argsort(hits, kind="stable")[: round(share * len(hits))]
    lost = int(hits[worst].sum())
    worse[worst] = 0
    rest = np.setdiff1d(np.flatnonzero(worse < 10), worst)
    assert len(rest) >= lost
    worse[rest[:lost]] += 1
    assert worse.sum() == hits.sum()
    return worse


def test_a_hidden_tail_is_failed_by_robustness_and_passed_by_recall(sides):
    hits = crossover()
    for store, found in zip(sides, (hits, with_hidden_tail(hits)), strict=True):
        make_result(store, dataset="crossover-20k", algorithm="faiss-ivfflat", search={"n_probe": 2}, hits=found)
    done = compare(sides, *RULES)
    assert done.code == 1, done.out + done.err
    lines = {line.split()[1].partition("=")[0]: line.split()[0] for line in done.out.splitlines() if "=0.00" in line}
    assert lines == {"robustness-0.1@10": "fail", "recall@10": "pass"}
    assert "-0.0200 [-0.02" in done.out and "gate: fail" in done.out


def test_identical_runs_pass_200_times(sides, monkeypatch):
    """The same answers again, in other time, for 200 indexes of other answers."""
    monkeypatch.setattr(verb, "print_report", lambda report: None)
    random = np.random.default_rng(0)
    codes = []
    for seed in range(200):
        hits = crossover(seed=seed)
        for store in sides:
            make_result(store, hits=hits, qps=1000 * random.uniform(0.98, 1.02))
        codes.append(compare(sides, *RULES, "qps=10%", "--metric", "recall").code)
    assert codes == [0] * 200


def test_a_hundred_queries_are_too_few(sides):
    hits = crossover(100)
    for store in sides:
        make_result(store, hits=hits)
    done = compare(sides, *RULES)
    assert done.code == 3 and "gate: inconclusive" in done.out
    assert "n = 100 queries" in done.out and "queries or more" in done.out


def test_few_queries_and_a_large_loss_are_enough_to_fail(sides):
    hits = crossover(100)
    make_result(sides[0], hits=hits)
    make_result(sides[1], hits=np.where(np.arange(100) < 30, 0, hits))
    assert compare(sides, *RULES).code == 1


def test_the_table(sides):
    make_result(sides[0], hits=crossover(), qps=1000)
    make_result(sides[1], hits=with_hidden_tail(crossover()), qps=1500)
    done = compare(sides)
    assert (done.code, done.err) == (0, "")
    for part in ("recall", "robustness-0.1", "<0.0001", "detectable", "+50.0%", "5,000", "paired on the queries"):
        assert part in done.out
    assert "gate" not in done.out


def test_a_share_that_n_cannot_show_is_said(sides):
    hits = np.full(1000, 10)
    hits[0] = 0
    for store in sides:
        make_result(store, hits=hits)
    assert "1,000 queries cannot show 0.999: if all of them reached it, they would show 0.9962" in compare(sides).out


def test_markdown_json_and_junit(sides, tmp_path):
    make_result(sides[0], hits=crossover(), algorithm="a|b<c")
    make_result(sides[1], hits=with_hidden_tail(crossover()), algorithm="a|b<c")
    files = [tmp_path / name for name in ("s.md", "s.json", "s.xml")]
    done = compare(sides, *RULES, "qps=10%", "--markdown", files[0], "--json", files[1], "--junit", files[2])
    assert done.code == 1
    summary = files[0].read_text()
    assert "❌ fail" in summary and "✅ pass" in summary and "a\\|b&lt;c" in summary
    tables = [line for line in summary.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} == {5, 10}
    content = json.loads(files[1].read_text())
    assert content["outcome"] == "fail"
    verdicts = {item["rule"]: item for item in content["verdicts"]}
    assert verdicts["robustness-0.1@10=0.002"]["loss"] == pytest.approx(0.02)
    assert verdicts["robustness-0.1@10=0.002"]["n"] == N and verdicts["qps=10%"]["outcome"] == "pass"
    assert {item["metric"] for item in content["changes"]} >= {"recall", "robustness-0.9", "qps"}
    suite = xml.parse(files[2]).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("3", "1", "0")
    assert len(suite.findall(".//failure")) == 1 and len(suite.findall(".//testcase")) == 3


def test_a_gate_file_and_flags_together(sides, tmp_path):
    hits = crossover()
    for store in sides:
        make_result(store, hits=hits)
    path = tmp_path / "gate.yml"
    path.write_text("rules:\n  - {metric: robustness-0.9, max_drop: 0.01}\n")
    done = compare(sides, "--gate", path, *RULES)
    assert done.code == 0 and done.out.count("pass  ") == 3
    path.write_text("rules:\n  - {metric: robustness-0.9, maxdrop: 0.01}\n")
    done = compare(sides, "--gate", path)
    assert done.code == 2 and f"{path}:2: unknown key" in done.err and done.err.count("\n") == 1


def test_a_point_that_vanished_is_no_pass(sides):
    for ef in (1, 2):
        make_result(sides[0], hits=crossover(), search={"ef": ef})
    make_result(sides[1], hits=crossover(), search={"ef": 1})
    done = compare(sides, *RULES)
    assert done.code == 3 and "measured in BASE, not in NEW" in done.out


def test_speed_of_another_machine_is_left_out_or_refused(sides):
    make_result(sides[0], hits=crossover())
    make_result(sides[1], hits=crossover(), cpu="Other CPU")
    done = compare(sides)
    assert done.code == 0 and "speed is left out: machine differ" in done.out and "qps" not in done.out
    done = compare(sides, "--metric", "qps")
    assert done.code == 2 and "unlike: machine Toy CPU (8 CPUs) in BASE, Other CPU (8 CPUs) in NEW" in done.err
    assert compare(sides, "--max-drop", "qps=10%").code == 2
    done = compare(sides, "--metric", "qps", "--mix")
    assert done.code == 0 and "compared nevertheless: machine" in done.out


@pytest.mark.parametrize(
    "options, part",
    [
        (("--metric", "recal"), "unknown metric 'recal'"),
        (("--max-drop", "recall"), "the form is metric=drop"),
        (("--confirm", "2", "--max-drop", "qps=5%"), "at least 3 rounds"),
        (("--confirm", "5"), "--gate or --max-drop"),
        (("--junit", "x.xml"), "--gate or --max-drop"),
        (("--base-command", "make {out}"), "go together"),
        (("--algorithm", "scan"), "no results of algorithm 'scan'"),
        (("--gate", "nowhere.yml"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line(sides, options, part):
    for store in sides:
        make_result(store)
    done = compare(sides, *options)
    assert done.code == 2 and part in done.err and done.err.count("\n") == 1 and done.out == ""


def test_the_committed_baseline_can_be_read_and_its_gate_applies():
    done = call(verb.main, "ci", "ci", "--gate", ROOT / "configs" / "gates" / "ci.yml")
    assert done.code == 0 and "gate: pass" in done.out and "faiss-hnsw" in done.out and "faiss-ivfflat" in done.out


@pytest.mark.parametrize(
    "hits, n, inconclusive, code, found",
    [
        (crossover, N, "fail", 0, "pass"),
        (lambda n: with_hidden_tail(crossover(n)), N, "pass", 1, "fail"),
        (crossover, 100, "fail", 3, "inconclusive"),
        (crossover, 100, "pass", 0, "inconclusive"),
    ],
)
def test_the_script_of_the_action(sides, tmp_path, hits, n, inconclusive, code, found):
    make_result(sides[0], hits=crossover(n))
    make_result(sides[1], hits=hits(n))
    (tmp_path / "gate.yml").write_text("rules: [{metric: robustness-0.1@10, max_drop: 0.002}]")
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (step,) = yaml.safe_load((ROOT / ".github/actions/regression/action.yml").read_text())["runs"]["steps"]
    inputs = {"BASE": sides[0].folder, "NEW": sides[1].folder, "GATE": "gate.yml", "INCONCLUSIVE": inconclusive}
    inputs |= {"CONFIRM": "", "BASE_COMMAND": "", "NEW_COMMAND": "", "RUNNER_TEMP": tmp_path}
    assert set(step["env"]) <= set(inputs)
    inputs |= {"GITHUB_STEP_SUMMARY": tmp_path / "summary", "GITHUB_OUTPUT": tmp_path / "output"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, **{name: str(value) for name, value in inputs.items()}},
        capture_output=True,
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"outcome={found}\n"
    assert found in (tmp_path / "summary").read_text() and (tmp_path / "regression.xml").exists()


def test_unknown_sources_are_one_line(tmp_path):
    done = call(verb.main, tmp_path / "nothing", tmp_path)
    assert done.code == 2 and "no such file or folder" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("metric", ["latency-p50", "recall@20"])
def test_a_metric_that_no_pair_has_is_named(sides, metric):
    for store in sides:
        make_result(store)
    done = compare(sides, "--metric", "recall", "--metric", metric)
    assert done.code == 2 and f"--metric {metric}" in done.err and done.err.count("\n") == 1 and not done.out


@pytest.mark.slow
def test_a_slower_index_is_confirmed_by_real_runs(tmp_path):
    """Fewer probes against more: both measured anew, in turns, and the one that is truly slower fails."""
    data = [*write_data(tmp_path, gaussian(20_000, 64), gaussian(2000, 64, seed=1)), "--algorithm", "faiss-ivfflat"]
    commands = []
    for name, probes in (("base", 1), ("new", 64)):
        setting = ["--set", "faiss-ivfflat.n_list=64", "--set", f"faiss-ivfflat.n_probe={probes}", "--threads", "1"]
        assert run(*data, *setting, "--results-dir", tmp_path / name).code == 0
        commands.append(shlex.join([sys.executable, "run.py", *data, *setting, "--results-dir"]) + " {out}")
    process = start(
        *("compare", tmp_path / "base", tmp_path / "new", "--max-drop", "qps=20%", "--confirm", "3", "--metric", "qps"),
        *("--base-command", commands[0], "--new-command", commands[1]),
        script=("-m", "benchmarks"),
    )
    done = finish(process, timeout=300)
    assert done.code == 1 and "3 rounds of fresh runs" in done.out and "round 3 of 3" in done.err, done.out + done.err
