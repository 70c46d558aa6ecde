"""Runs workers in the library's own virtual environment on this machine, without a container."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.cards import Algorithm
from benchmarks.hardware import thread_environment
from benchmarks.paths import ENVIRONMENTS, ROOT
from benchmarks.runner.environment import Environment, ensure_environment


class VenvProcess:
    """A running worker, and all it has started."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def memory_bytes(self) -> int:
        """Memory that is its own: resident, less what it maps from files."""
        total = 0
        try:
            top = psutil.Process(self._process.pid)
            for process in (top, *top.children(recursive=True)):
                memory = process.memory_info()
                total += memory.rss - getattr(memory, "shared", 0)
        except psutil.Error:
            pass
        return total

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


class VenvRunner:
    """`--runner venv`."""

    name = "venv"

    def prepare(self, algorithm: Algorithm, building: Callable[[], None]) -> Environment:
        """The environment of the library; `building` is told if it must be made. Raises EnvironmentFailure."""
        return ensure_environment(algorithm.directory, ENVIRONMENTS, building=building)

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
        return VenvProcess(process)


RUNNERS = {"venv": VenvRunner}
