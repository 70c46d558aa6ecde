import os
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.paths import ROOT
from benchmarks.worker import process
from tests.harness import alive, wait_for

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a Linux facility")


def python(code, *arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, text=True, stdout=subprocess.PIPE, **more
    )


CHILD = (
    "import os, sys, time; from benchmarks.worker import process; process.die_with(int(sys.argv[1])); "
    "print(os.getpid(), flush=True); time.sleep(60)"
)
PARENT = f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {CHILD!r}, str(os.getpid())]).wait()"


@linux
def test_worker_goes_with_a_host_that_is_killed():
    with python(PARENT) as host:
        worker = int(host.stdout.readline())
        assert alive(worker)
        host.kill()
        start = time.monotonic()
        wait_for(lambda: not alive(worker), 5)
        assert time.monotonic() - start < 2


@linux
def test_worker_whose_host_is_gone_already_ends_at_once():
    with python(CHILD, 1) as worker:
        assert worker.wait(10) == 1 and worker.stdout.read() == ""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
@pytest.mark.parametrize("cpu", sorted(getattr(os, "sched_getaffinity", lambda pid: [])(0))[:2])
def test_pin(cpu):
    code = (
        "import sys, threading; from benchmarks.worker import process; process.pin([int(sys.argv[1])]); "
        "t = threading.Thread(target=lambda: print(process.observe()['affinity'])); t.start(); t.join()"
    )
    with python(code, cpu) as child:
        assert child.stdout.read().strip() == f"[{cpu}]"


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda pid: [])(0)) < 2, reason="takes two CPUs")
def test_pin_takes_the_threads_that_are_there_already():
    code = (
        "import threading, time; from benchmarks.worker import process; "
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); "
        "cpu = min(process.observe()['affinity']); process.pin([cpu]); facts = process.observe_threads(); "
        "assert facts['process_threads'] >= 2 and facts['affinity_of_threads'] == [cpu], facts; print('fine')"
    )
    with python(code) as child:
        assert child.stdout.read().strip() == "fine"


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda pid: [])(0)) < 2, reason="takes two CPUs")
def test_a_thread_that_goes_elsewhere_is_seen():
    code = (
        "import os, threading, time; from benchmarks.worker import process; cpus = process.observe()['affinity']; "
        "process.pin(cpus[:1]); "
        "threading.Thread(target=lambda: (os.sched_setaffinity(0, cpus), time.sleep(60)), daemon=True).start(); "
        "time.sleep(0.5); assert process.observe_threads()['affinity_of_threads'] == cpus; print('fine')"
    )
    with python(code) as child:
        assert child.stdout.read().strip() == "fine"


@linux
def test_memory_nodes_and_policy():
    facts = process.observe()
    assert facts["memory_allowed"] is None or facts["memory_allowed"] == sorted(set(facts["memory_allowed"]))
    assert facts["memory_policy"] in (None, "default") or ":" in facts["memory_policy"]


def test_what_the_kernel_does_not_tell_is_none(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nCpus_allowed_list:\t0-2,7\n")
    assert process._status_numbers(status, "Cpus_allowed_list") == [0, 1, 2, 7]
    assert process._status_numbers(status, "Mems_allowed_list") is None
    assert process._status_numbers(tmp_path / "nowhere", "Name") is None


def test_observe_tells_versions_and_thread_variables(monkeypatch):
    monkeypatch.setenv("TOY_NUM_THREADS", "3")
    facts = process.observe()
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["thread_variables"]["TOY_NUM_THREADS"] == "3"
    assert facts["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")


@linux
def test_peak_memory_since_the_last_reset():
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the kernel does not reset the peak here")
    process.reset_peak_memory()
    before = process.peak_memory_bytes()
    block = np.ones(25_000_000)
    del block
    assert 190_000_000 < process.peak_memory_bytes() - before < 300_000_000
    process.reset_peak_memory()
    assert process.peak_memory_bytes() - before < 100_000_000


@linux
def test_worker_is_the_first_victim_when_memory_runs_out():
    code = (
        "from benchmarks.worker import process; process.prefer_as_oom_victim(); "
        "print(open('/proc/self/oom_score_adj').read())"
    )
    with python(code) as child:
        assert child.stdout.read().strip() == "1000"
