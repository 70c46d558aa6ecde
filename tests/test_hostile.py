"""Adapters, files and moments that nothing else tries; each of these was a traceback, a hang or a wrong number."""

import os
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import psutil
import pytest

from benchmarks import bootstrap
from benchmarks.cards.algorithms import Algorithm, find_algorithms
from benchmarks.cli import plot, prepare, truth
from benchmarks.groundtruth import cache
from benchmarks.paths import ALGORITHMS, ROOT
from benchmarks.runner.venv import end_orphans
from tests.harness import call, export, finish, gaussian, read_results, run, start, wait_for, write_bin, write_data

ADAPTER = """
import os, subprocess, sys, threading, time
import numpy as np
from benchmarks.worker import Algorithm

class Hostile(Algorithm):
    def build(self, base, *, distance, threads, seed, learn=None, start):
        self.base = np.asarray(base, np.float32)
        if start == "session":
            self.helper = subprocess.Popen(["sleep", "{nap}"], start_new_session=True)
        if start == "daemon" and os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "{nap}"])
            os._exit(0)
        if start == "thread":
            threading.Thread(target=time.sleep, args=(600,)).start()
    def search(self, queries, k, *, how):
        self.how = how
        ids = np.argsort(-(queries @ self.base.T - np.square(self.base).sum(axis=1) / 2), axis=1)[:, :k]
        if how == "exit":
            os._exit(0)
        if how == "slow":
            time.sleep(1)
        if how == "fork":
            os.fork()
        if how == "buffer":
            if getattr(self, "buffer", ids).shape != ids.shape or not hasattr(self, "buffer"):
                self.buffer = ids.copy()
            self.buffer[:] = ids
            return self.buffer
        return ids
    def stats(self):
        return {{"note": "\\udcff"}} if self.how == "stats" else {{}}
"""
CARD = """
library: hostile
upstream: none
version: "1"
licence: none
algorithms:
  hostile:
    class: Hostile
    family: test
    distances: [l2]
    dtypes: [float32]
    parameters:
      start: {stage: build, type: str, default: nothing}
      how: {stage: search, type: str, default: well}
      share: {stage: search, type: float, default: 0.0}
    smoke: {}
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """Options of a run on an adapter that misbehaves, and the length of the nap by which its helpers are known."""
    folder, nap = tmp_path / "algorithms" / "hostile", f"{600 + os.getpid()}.5"
    folder.mkdir(parents=True)
    (folder / "algorithm.py").write_text(ADAPTER.format(nap=nap).replace("*, how)", "*, how, share)"))
    (folder / "algorithm.yml").write_text(CARD)
    shutil.copy(ALGORITHMS / "toy" / "requirements.txt", folder)
    find = find_algorithms
    monkeypatch.setattr("benchmarks.cli.choice.find_algorithms", lambda: find(tmp_path / "algorithms"))
    options = [*write_data(tmp_path, gaussian(200), gaussian(20, seed=1)), "--results-dir", tmp_path / "results"]
    return [*options, "--algorithm", "hostile", "--threads", 1, "--repeats", 1], nap


def recalls(folder):
    return {
        result.identity.search_params["how"]: result.hits.mean() / 10 if result.ok else result.record.status
        for result in read_results(folder)
    }


def test_exit_code_0_amid_a_point_costs_that_point_alone(hostile, tmp_path):
    finished = run(*hostile[0], "--set", "hostile.how=exit,well,slow")
    assert finished.code == 1
    assert recalls(tmp_path / "results") == {"exit": "failed", "well": 1, "slow": 1}


@pytest.mark.parametrize("how", ["buffer", "fork", "stats"])
def test_odd_answers_are_counted_right(hostile, tmp_path, how):
    mode = "batch" if how == "fork" else "single"  # a fork for each query would be a bomb
    assert run(*hostile[0], "--mode", mode, "--set", f"hostile.how={how},well").code == 0
    assert recalls(tmp_path / "results") == {how: 1, "well": 1}


@pytest.mark.parametrize("how", ["session", "daemon"])
def test_helpers_that_left_group_and_parent_are_ended(hostile, how):
    assert run(*hostile[0], "--set", f"hostile.start={how}").code == 0
    assert not [
        process for process in psutil.process_iter(["cmdline"]) if hostile[1] in (process.info["cmdline"] or ())
    ]


def napping(nap):
    """Helpers of the adapter that are still there."""
    return [process for process in psutil.process_iter(["cmdline"]) if nap in (process.info["cmdline"] or ())]


def test_helpers_of_a_killed_run_are_ended_by_the_next(hostile, tmp_path):
    options, nap = hostile
    code = (
        "from pathlib import Path; from benchmarks.cards.algorithms import find_algorithms; "
        "from benchmarks.cli import choice, run; "
        f"choice.find_algorithms = lambda: find_algorithms(Path({str(tmp_path / 'algorithms')!r})); run.main()"
    )
    host = start(*options, "--set", "hostile.start=daemon", "--set", "hostile.how=slow", script=("-c", code))
    (helper,) = wait_for(lambda: napping(nap))
    mark = helper.environ()["ROBUST_ANN_WORKER"]
    assert mark.startswith(f"{host.pid}-") and end_orphans() == [], "its host is alive"
    host.kill()
    host.wait()
    time.sleep(0.5)
    assert napping(nap) == [helper], "it outlives the worker, or nothing is tested"
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "ROBUST_ANN_WORKER": "1-1-elsewhere-word"})
    finished = run(*options)
    assert finished.code == 0 and napping(nap) == []
    assert f"ended process {helper.pid} (sleep), left behind by a run that was killed" in finished.out
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_thread_that_runs_on_does_not_hold_up_the_run(hostile, monkeypatch):
    monkeypatch.setattr("benchmarks.runner.execute.LINGER_SECONDS", 0.2)
    begin = time.monotonic()
    assert run(*hostile[0], "--set", "hostile.start=thread", "--timeout", 60).code == 0
    assert time.monotonic() - begin < 20


def test_markup_in_a_value_is_only_text(hostile, tmp_path):
    (tmp_path / "sweep.yml").write_text('algorithms: {hostile: {search: {how: ["[/x]", "[red]"]}}}\n')
    finished = run(*hostile[0], "--config", tmp_path / "sweep.yml")
    assert finished.code == 0 and "[/x]" in finished.out and "[red]" in finished.out


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "!!bool maybe", '!!int ""', "!!timestamp x"])
def test_values_that_are_none(hostile, value):
    finished = run(*hostile[0], "--set", f"hostile.share={value}")
    assert finished.code == 2 and finished.err.startswith("error: --set hostile.share")


@pytest.mark.parametrize("text", ["k: !!bool maybe", 'k: !!int ""', "k: !!timestamp x", "algorithms: {hostile: []}"])
def test_sweeps_that_are_none(hostile, tmp_path, text):
    (tmp_path / "sweep.yml").write_text(text)
    finished = run(*hostile[0], "--config", tmp_path / "sweep.yml", "--set", "hostile.share=1")
    assert finished.code == 2 and "sweep.yml:1" in finished.err and len(finished.err.splitlines()) == 1


def test_an_adapter_that_is_edited_meanwhile(hostile, tmp_path, monkeypatch):
    hashes = iter("abcdefgh")
    monkeypatch.setattr(Algorithm, "code_hash", lambda self: next(hashes))
    finished = run(*hostile[0])
    assert finished.code == 1 and "changed during the run" in finished.out


def test_base_that_is_edited_meanwhile(tmp_path, monkeypatch):
    options = write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    exact = cache.exact_truths

    def meanwhile(*arguments, **more):
        np.memmap(tmp_path / "tiny.fbin", "f4", "r+", 8)[:] = 1
        return exact(*arguments, **more)

    monkeypatch.setattr(cache, "exact_truths", meanwhile)
    finished = call(truth.main, *options)
    assert finished.code == 2 and "tiny.fbin: was changed" in finished.err
    assert not list((tmp_path / "data").glob("truth/*"))


def test_a_file_of_the_same_size_and_time(tmp_path):
    options = write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    os.utime(tmp_path / "tiny.fbin", (1e9, 1e9))
    first = call(prepare.main, *options).out
    write_bin(tmp_path / "tiny.fbin", gaussian(200, seed=7))
    os.utime(tmp_path / "tiny.fbin", (1e9, 1e9))
    assert call(prepare.main, *options).out != first


def test_truth_under_the_name_of_another(tmp_path):
    options = write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    folder = tmp_path / "data" / "truth"
    assert call(truth.main, *options, "--distance", "l2").code == 0
    [l2] = {*folder.iterdir()} - {*folder.glob("*.difficulty.hdf5")}
    assert call(truth.main, *options, "--distance", "ip", "--out", tmp_path / "ip.hdf5").code == 0
    [ip] = {*folder.iterdir()} - {*folder.glob("*.difficulty.hdf5")} - {l2}
    shutil.copy(l2, ip)
    assert call(truth.main, *options, "--distance", "ip", "--out", tmp_path / "again.hdf5").code == 0
    with h5py.File(tmp_path / "ip.hdf5") as one, h5py.File(tmp_path / "again.hdf5") as two:
        np.testing.assert_array_equal(one["neighbors"][...], two["neighbors"][...])


@pytest.mark.parametrize("name", ["~nosuchuser/x.npy", os.fsdecode(b"/tmp/\xff.npy"), "loop/x.npy"])
@pytest.mark.parametrize("option", ["--dataset", "--queries", "--data-dir"])
def test_paths_that_are_none(tmp_path, monkeypatch, name, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    options = write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    finished = call(prepare.main, *options, option, name)
    assert finished.code == 2 and finished.err.startswith("error: ") and len(finished.err.splitlines()) == 1


def test_hash_of_a_local_file_is_checked(tmp_path):
    write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    (tmp_path / "card.yml").write_text(
        f"title: t\ndistance: l2\nbase: {{path: tiny.fbin, sha256: '{'0' * 64}'}}\n"
        "queries: {path: tiny-queries.fbin}\n"
    )
    finished = call(prepare.main, "--dataset", tmp_path / "card.yml", "--data-dir", tmp_path / "data")
    assert finished.code == 2 and "tiny.fbin: sha256" in finished.err


def test_ctrl_c_while_modules_are_imported(monkeypatch, capsys):
    monkeypatch.setattr("importlib.import_module", lambda name: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(bootstrap, "tame_streams", lambda: None)
    with pytest.raises(SystemExit) as end:
        bootstrap.start("benchmarks.cli.run")
    assert end.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_sigterm_where_sigint_is_ignored(tmp_path):
    options = write_data(tmp_path, gaussian(200), gaussian(20, seed=1))
    process = subprocess.Popen(
        [sys.executable, "run.py", *options, "--results-dir", tmp_path / "r", "--algorithm", "toy", "--threads", "1"]
        + ["--set", "toy.failure=hang"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    time.sleep(4)
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 130


def test_a_terminal_that_lacks_letters():
    variables = {"PYTHONIOENCODING": "ascii"}
    assert finish(start("list", script=("-m", "benchmarks"), **variables)).code == 0
    assert finish(start("--help", **variables)).code == 0


def test_a_closed_output():
    for command in ("run.py --dataset crossover-20k --dry-run >&-", "-m benchmarks list >&- 2>&-"):
        assert subprocess.run(f"{sys.executable} {command}", shell=True, cwd=ROOT).returncode == 0


def test_a_relative_folder_of_environments(tmp_path):
    code = "from benchmarks.paths import ENVIRONMENTS, DATA; print(ENVIRONMENTS.is_absolute(), DATA.is_absolute())"
    variables = {**os.environ, "ROBUST_ANN_ENVIRONMENTS": "envs", "ROBUST_ANN_DATA": "data"}
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True).stdout
    assert out.split() == ["True", "True"]


def test_a_failed_export_or_figure_leaves_what_was_there(hostile, tmp_path, monkeypatch):
    assert run(*hostile[0]).code == 0

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for verb, name, more in (
        (export, "a.csv", ["--format", "csv"]),
        (export, "a.json", ["--format", "json"]),
        (export, "a.parquet", ["--format", "parquet"]),
        (lambda *options: call(plot.main, *options), "a.pdf", []),
    ):
        (tmp_path / name).write_text("before")
        finished = verb("--results-dir", tmp_path / "results", "--out", tmp_path / name, *more)
        assert finished.code == 2 and "partial" in finished.err or name in finished.err
        assert (tmp_path / name).read_text() == "before"


def test_out_that_is_a_pipe_is_written_to(tmp_path):
    options = write_data(tmp_path, gaussian(50), gaussian(5, seed=1))
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    assert call(truth.main, *options, "--out", tmp_path / "pipe").code == 0
    assert reader.communicate(timeout=20)[0].startswith(b"\x89HDF")
    assert (tmp_path / "pipe").is_fifo()
