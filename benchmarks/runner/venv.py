"""Runs workers in the library's own virtual environment on this machine, without a container."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.cards import Algorithm
from benchmarks.hardware import thread_environment
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import Environment, ensure_environment

# Looking for children reads every process of the machine, on CPUs that are being timed.
CHILDREN_SECONDS = 0.2
MARK = "ROBUST_ANN_WORKER"  # environment variable whose value all that a worker starts inherits


class VenvProcess:
    """A running worker, and all it has started."""

    def __init__(self, process: subprocess.Popen, mark: str | None = None):
        self._process, self._mark = process, mark
        self._family: list[psutil.Process] = []
        self._looked = -CHILDREN_SECONDS

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


def _ended(process: psutil.Process) -> bool:
    try:
        process.kill()
    except psutil.Error:
        return False
    return True


class VenvRunner:
    """`--runner venv`."""

    name = "venv"

    def prepare(self, algorithm: Algorithm, building: Callable[[], None] = lambda: None) -> Environment:
        """The environment of the library; `building` is told if it must be made. Raises EnvironmentFailure."""
        return ensure_environment(algorithm.library, ENVIRONMENTS, building=building)

    def start(self, environment: Environment, job_file: Path, log: Path, threads: int) -> VenvProcess:
        """Start one worker on a job; it dies with this process."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        variables |= {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **thread_environment(threads),
            MARK: (mark := uuid.uuid4().hex),
        }
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(environment.python), "-m", "benchmarks.worker", str(job_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=job_file.parent,
                start_new_session=True,
            )
        return VenvProcess(process, mark)


RUNNERS = {"venv": VenvRunner}
