import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress

import psutil
import pytest

from benchmarks.runner import venv
from benchmarks.runner.supervise import Ending, Limits, watch
from benchmarks.runner.venv import VenvProcess
from tests.harness import alive, wait_for

NO_LIMITS = Limits(timeout_seconds=60, memory_bytes=10**15)


@pytest.fixture
def shell(tmp_path):
    """Starts a shell script, with the events file as $1; what is left of it is killed after the test."""
    started = []

    def start(script, *arguments):
        process = subprocess.Popen(
            ["sh", "-c", script, "sh", str(tmp_path / "events"), *arguments], start_new_session=True
        )
        started.append(process)
        return VenvProcess(process), tmp_path / "events"

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def seen(process, file, limits=NO_LIMITS):
    *events, ending = watch(process, file, limits)
    assert process.poll() is not None
    return events, ending


SAY = """echo '{"event": "a"}' >> "$1"; """


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("exit 0", None, None),
        ("exit 3", "failed", "exit code 3"),
        ("kill -SEGV $$", "failed", "signal 11 (SIGSEGV)"),
        ("kill -KILL $$", "failed", "signal 9 (SIGKILL)"),
        ("kill -ABRT $$", "failed", "signal 6 (SIGABRT)"),
    ],
)
def test_how_a_worker_ends(shell, script, status, words):
    events, ending = seen(*shell(SAY + SAY + script))
    assert events == [{"event": "a"}] * 2  # nothing that was said just before is lost
    assert ending.status == status and (ending.reason is None if words is None else words in ending.reason)


def test_kill_by_the_kernel_for_memory_is_told_apart(shell, tmp_path, monkeypatch):
    counter = tmp_path / "vmstat"
    counter.write_text("nr_free_pages 12\noom_kill 4\n")
    monkeypatch.setattr(venv, "OOM_COUNTER", counter)
    _, ending = seen(*shell('sleep 0.2; echo "oom_kill 5" > "$2"; kill -KILL $$', str(counter)))
    assert ending.status == "out-of-memory" and "kernel" in ending.reason


def test_half_a_line_waits_for_its_other_half(shell):
    events, ending = seen(*shell("""printf '{"event": ' >> "$1"; sleep 0.2; printf '"a"}\\n{"ev' >> "$1" """))
    assert events == [{"event": "a"}] and ending == Ending(None, None)


def test_a_worker_that_says_nothing(shell):
    assert seen(*shell("exit 0")) == ([], Ending(None, None))


def test_many_events_at_once(shell):
    events, _ = seen(*shell('for i in $(seq 500); do echo "{\\"event\\": $i}"; done >> "$1"'))
    assert [event["event"] for event in events] == list(range(1, 501))


def test_timeout(shell):
    start = time.monotonic()
    events, ending = seen(*shell(SAY + "sleep 60"), Limits(0.3, 10**15))
    assert events == [{"event": "a"}] and ending == Ending("timeout", "took longer than 0.3 s")
    assert 0.3 <= time.monotonic() - start < 5


def test_clock_starts_anew_at_every_event(shell):
    events, ending = seen(*shell((SAY + "sleep 0.4; ") * 4), Limits(1.2, 10**15))
    assert len(events) == 4 and ending.status is None


def test_time_of_the_host_is_not_the_workers(shell):
    endings = []
    for event in watch(*shell(SAY + "sleep 0.3"), Limits(0.8, 10**15)):
        endings.append(event)
        time.sleep(1)  # the host judges
    assert endings[-1] == Ending(None, None)


def test_memory_limit(shell):
    process, file = shell(SAY + "sleep 60")
    process.memory_bytes = lambda: 2_000_000_001
    events, ending = seen(process, file, Limits(60, 2_000_000_000))
    assert ending == Ending("out-of-memory", "used 2.00 GB, the limit is 2.00 GB")


def test_memory_of_children_counts():
    code = "x = bytearray(150_000_000); print('x', flush=True); import time; time.sleep(60)"
    with subprocess.Popen(
        ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        shell.stdout.read(1)
        process = VenvProcess(shell)
        assert 150_000_000 < process.memory_bytes() < 250_000_000
        process.kill()


def test_mapped_files_are_not_its_own_memory(tmp_path):
    (tmp_path / "big").write_bytes(bytes(150_000_000))
    code = (
        "import mmap, sys, time; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); "
        "sum(m[::4096]); print('x', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "big")], stdout=subprocess.PIPE) as child:
        child.stdout.read(1)
        assert psutil.Process(child.pid).memory_info().rss > 150_000_000
        assert VenvProcess(child).memory_bytes() < 100_000_000
        child.kill()


def test_whoever_stops_watching_ends_the_worker_and_its_children(shell):
    process, file = shell('sleep 60 & echo "{\\"event\\": $!}" >> "$1"; wait')
    with closing(watch(process, file, NO_LIMITS)) as events:
        helper = next(events)["event"]
        assert alive(helper) and process.poll() is None
    assert process.poll() is not None
    wait_for(lambda: not alive(helper), 2)


def test_an_exception_while_watching_ends_the_worker(shell):
    process, file = shell(SAY + "sleep 60")
    with pytest.raises(KeyboardInterrupt), closing(watch(process, file, NO_LIMITS)) as events:
        for _ in events:
            raise KeyboardInterrupt
    assert process.poll() is not None


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -SEGV $$"])
def test_helpers_of_a_worker_that_is_gone_are_ended_too(shell, end):
    process, file = shell('sleep 60 & echo "{\\"event\\": $!}" >> "$1"; ' + end)
    (event,), _ = seen(process, file)
    wait_for(lambda: not alive(event["event"]), 2)


def test_events_are_json_objects(shell):
    events, _ = seen(*shell("""echo '{"event": "built", "index_bytes": null, "é": [1.5]}' >> "$1" """))
    assert json.dumps(events) == json.dumps([{"event": "built", "index_bytes": None, "é": [1.5]}])
