"""Runs workers in the library's own virtual environment on this machine, without a container."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.cards.algorithms import Algorithm, LibraryCard
from benchmarks.hardware import FOREIGN_VARIABLES, memory_binding, thread_environment
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import (
    Environment,
    EnvironmentFailure,
    content_hash,
    ensure_environment,
    supplied_path,
)
from benchmarks.runner.host import is_gone, this_host
from benchmarks.runner.workload import Workload

# Looking for children reads every process of the machine, on CPUs that are being timed.
CHILDREN_SECONDS = 0.2
OOM_COUNTER = Path("/proc/vmstat")
# Environment variable that all that a worker starts inherits; its value is the host, a hyphen and one word more.
MARK = "ROBUST_ANN_WORKER"
ROUNDS, ROUND_SECONDS = 20, 0.05  # of looking for what a killed host left: it may start more meanwhile


class VenvProcess:
    """A running worker, and all it has started."""

    def __init__(self, process: subprocess.Popen, mark: str | None = None):
        self._process, self._mark = process, mark
        self._family: list[psutil.Process] = []
        self._looked = -CHILDREN_SECONDS
        self._oom_kills = _oom_kills()

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def memory_bytes(self) -> int:
        """Memory that is its own: resident, less what it maps from files."""
        total = 0
        if time.monotonic() - self._looked >= CHILDREN_SECONDS:
            self._family, self._looked = self._look_for_family(), time.monotonic()
        for process in self._family:
            try:
                memory = process.memory_info()
            except psutil.Error:
                continue
            total += memory.rss - getattr(memory, "shared", 0)
        return total

    def cause(self, code: int) -> tuple[str, str] | None:
        """Status and reason of an ending that its exit code does not explain."""
        if code == -signal.SIGKILL and self._oom_kills is not None and (_oom_kills() or 0) > self._oom_kills:
            return "out-of-memory", "the kernel ran out of memory and killed the worker"
        return None

    def _look_for_family(self) -> list[psutil.Process]:
        try:
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.Error:
            return []

    def kill(self) -> None:
        """End it and everything it started, now."""
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            children = []
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a group of its own
        except ProcessLookupError:
            pass
        for child in children:  # those that left the group
            try:
                child.kill()
            except psutil.Error:
                pass
        self._process.wait()
        while self._mark and any([_ended(process) for process in psutil.process_iter() if self._started(process)]):
            pass

    def _started(self, process: psutil.Process) -> bool:
        """Whether it inherited the worker's mark: so do those that left group and parent."""
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark
        except (psutil.Error, OSError):
            return False


def _oom_kills() -> int | None:
    """How often the kernel killed for want of memory since it started."""
    try:
        for line in OOM_COUNTER.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def _ended(process: psutil.Process) -> bool:
    try:
        process.kill()
    except psutil.Error:
        return False
    return True


def end_orphans() -> list[str]:
    """End what workers of hosts that are gone have left running; returns a line for each process.

    A worker dies with its host, but helpers that its library has started need not.
    """
    ended: dict[int, str] = {}
    for _ in range(ROUNDS):
        orphans = [process for process in psutil.process_iter(["pid", "name"]) if _is_orphan(process)]
        ended |= {process.info["pid"]: process.info["name"] for process in orphans if _ended(process)}
        if not orphans:
            break
        time.sleep(ROUND_SECONDS)
    return [f"ended process {pid} ({name}), left behind by a run that was killed" for pid, name in ended.items()]


def _is_orphan(process: psutil.Process) -> bool:
    try:
        host, _, word = process.environ().get(MARK, "").rpartition("-")
        return bool(host and word) and is_gone(host) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


class VenvRunner:
    """`--runner venv`."""

    name = "venv"
    workers_are_children = True

    def prepare(self, algorithm: Algorithm, building: Callable[[], None] = lambda: None) -> Environment:
        """The environment of the library; `building` is told if it must be made. Raises EnvironmentFailure."""
        return ensure_environment(algorithm.library, ENVIRONMENTS, building=building)

    def supplied_sha256(self, library: LibraryCard) -> str | None:
        """Hash of what the user supplies for a library; None where there is nothing, or it cannot be read."""
        try:
            path = supplied_path(library)
            return content_hash(path) if path else None
        except (EnvironmentFailure, OSError):
            return None

    def unavailable(self, library: LibraryCard) -> str | None:
        """What the user has to bring before a library can run."""
        return library.unavailable(os.environ)

    def start(self, environment: Environment, work: Workload) -> VenvProcess:
        """Start one worker; it dies with this process."""
        work.temporary.mkdir(exist_ok=True)
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", *FOREIGN_VARIABLES))
        }
        variables |= {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(work.temporary),
            **thread_environment(work.threads),
            MARK: (mark := f"{this_host()}-{uuid.uuid4().hex}"),
        }
        with work.log.open("ab") as output:
            process = subprocess.Popen(
                [*memory_binding(work.memory_nodes), str(environment.python), "-m", "benchmarks.worker", work.job_file],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=work.output,
                start_new_session=True,
            )
        return VenvProcess(process, mark)

    def close(self) -> None:
        """Nothing is left of a run that has ended."""

    def clear(self) -> list[str]:
        """Nothing: workers die with their host, and `end_orphans` sees to what their libraries have started."""
        return []
