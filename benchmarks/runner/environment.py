"""One isolated environment per library folder, built by uv from its requirements.txt and reused.

Its name is a hash of the requirements and the Python version, so a changed pin is another environment.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from uv import find_uv_bin

BUILD_TIMEOUT_SECONDS = 1800


class EnvironmentFailure(Exception):
    """An environment cannot be built; the message is one line and names the log."""


@dataclass(frozen=True)
class Environment:
    """A Python that has the library."""

    key: str
    python: Path


def environment_key(requirements: Path) -> str:
    """Hash of the pins, the interpreter and the platform (a compiled library fits one machine type)."""
    content = (
        f"{requirements.read_text()}|{sys.version_info[:2]}|{sysconfig.get_platform()}|{_compiled_for(requirements)}"
    )
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _compiled_for(requirements: Path) -> str:
    """Some libraries compile for the very CPU they are built on; an environment does not move to another one."""
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return platform.machine()
    return flags


def ensure_environment(
    library: Path, folder: Path, rebuild: bool = False, building: Callable[[], None] = lambda: None
) -> Environment:
    """The environment of one library folder, built if it is not there.

    Args:
        library: folder with requirements.txt.
        folder: where environments live.
        rebuild: build it afresh.
        building: told if it is built, which takes its time.

    Raises:
        EnvironmentFailure: uv or a compiler failed; the reason is the last telling line, the rest is in the log.
    """
    requirements = library / "requirements.txt"
    key = environment_key(requirements)
    home = folder / f"{library.name}-{key}"
    python, mark, log = home / "bin" / "python", home / "complete", folder / f"{home.name}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{home.name}.lock"):
            if mark.exists() and python.exists() and not rebuild:
                return Environment(key, python)
            building()
            shutil.rmtree(home, ignore_errors=True)
            with log.open("w") as output:
                for command in (
                    ["venv", "--python", sys.executable, str(home)],
                    ["pip", "install", "--python", str(python), "-r", str(requirements)],
                ):
                    _uv(command, output, log)
            mark.touch()
    except OSError as error:
        raise EnvironmentFailure(f"{error.filename or folder}: {error.strerror or error}") from None
    return Environment(key, python)


def _uv(arguments: list[str], output, log: Path) -> None:
    command = [find_uv_bin(), *arguments, "--no-config", "--no-progress", "--color", "never"]
    variables = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    output.flush()
    try:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            stdin=subprocess.DEVNULL,
            timeout=BUILD_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(f"took longer than {BUILD_TIMEOUT_SECONDS} s (log: {log})") from None
    if done.returncode:
        raise EnvironmentFailure(f"{telling_line(log.read_text(errors='replace'))} (log: {log})")


def telling_line(text: str) -> str:
    """The line of an installer's output that tells a person most: the compiler's error, else uv's first complaint."""
    lines = [line.strip(" ×╰─▶│├") for line in text.splitlines() if line.strip()]
    for sign in (": fatal error:", ": error:", "No solution found", "error:", "Failed", "failed"):
        for line, following in zip(lines, [*lines[1:], ""], strict=False):
            if sign in line:
                return f"{line} {following}"[:200].strip() if line.endswith(":") else line[:200]
    return lines[-1][:200] if lines else "the installer said nothing"
