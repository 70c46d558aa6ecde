"""One isolated environment per library folder, built by uv from its requirements.txt and reused.

Its name is a hash of the requirements, of what the user supplied and of the Python version, so a changed pin is
another environment.
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
from packaging.specifiers import SpecifierSet
from uv import find_uv_bin

from benchmarks.cards.algorithms import LibraryCard

THIS_PYTHON = "{}.{}".format(*sys.version_info[:2])
BUILD_TIMEOUT_SECONDS = 1800


class EnvironmentFailure(Exception):
    """An environment cannot be built; the message is one line and names the log."""


@dataclass(frozen=True)
class Environment:
    """A Python that has the library."""

    key: str
    python: Path


def environment_key(requirements: Path, version: str = THIS_PYTHON, supplied: Path | None = None) -> str:
    """Hash of the pins, the interpreter and the platform (a compiled library fits one machine type)."""
    content = f"{requirements.read_text(errors='replace')}|{version}|{sysconfig.get_platform()}|{compiled_for()}"
    if supplied:
        content += f"|{content_hash(supplied)}"
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def content_hash(path: Path) -> str:
    """Hash of a file, or of every file in a folder with its name."""
    content = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            content.update(f"{file.relative_to(path)}|".encode() + file.read_bytes())
    return content.hexdigest()


def supplied_path(library: LibraryCard) -> Path | None:
    """What the user supplies for this library: a wheel or a folder.

    Raises:
        EnvironmentFailure: nothing is named, or what is named is neither.
    """
    if library.supplied is None:
        return None
    missing = library.unavailable(os.environ)
    if missing:
        raise EnvironmentFailure(missing)
    path = Path(os.path.abspath(os.path.expanduser(os.environ[library.supplied.variable])))
    if not (path.is_dir() or (path.is_file() and path.suffix == ".whl")):
        raise EnvironmentFailure(f"{library.supplied.variable}={path}: is neither a wheel (.whl) nor a folder")
    return path


def find_python(specifier: str | None) -> tuple[str, str]:
    """An interpreter that fits, and its version: this one if it does, else one that uv finds on this machine.

    Raises:
        EnvironmentFailure: there is none.
    """
    if specifier is None or THIS_PYTHON in SpecifierSet(specifier):
        return sys.executable, THIS_PYTHON
    found = subprocess.run(
        [find_uv_bin(), "python", "find", "--system", "--no-config", specifier],
        capture_output=True,
        text=True,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
    )
    if found.returncode:
        raise EnvironmentFailure(f"needs Python {specifier}, and this machine has none; --runner docker needs none")
    python = found.stdout.strip()
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return python, subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def compiled_for() -> str:
    """Some libraries compile for the very CPU they are built on; an environment does not move to another one."""
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return platform.machine()
    return flags


def ensure_environment(
    library: LibraryCard, folder: Path, rebuild: bool = False, building: Callable[[], None] = lambda: None
) -> Environment:
    """The environment of one library, built if it is not there.

    Args:
        library: its folder holds requirements.txt.
        folder: where environments live.
        rebuild: build it afresh.
        building: told if it is built, which takes its time.

    Raises:
        EnvironmentFailure: uv or a compiler failed; the reason is the last telling line, the rest is in the log.
    """
    requirements, supplied = library.directory / "requirements.txt", supplied_path(library)
    try:
        interpreter, version = find_python(library.python)
        key = environment_key(requirements, version, supplied)
    except OSError as error:
        raise EnvironmentFailure(f"{error.filename}: {error.strerror}") from None
    home = folder / f"{library.directory.name}-{key}"
    python, mark, log = home / "bin" / "python", home / "complete", folder / f"{home.name}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{home.name}.lock"):
            if mark.exists() and python.exists() and not rebuild:
                return Environment(key, python)
            building()
            shutil.rmtree(home, ignore_errors=True)
            with log.open("w") as output:
                install = ["pip", "install", "--python", str(python)]
                _uv(["venv", "--python", interpreter, str(home)], output, log)
                _uv([*install, "-r", str(requirements)], output, log)
                if supplied and supplied.is_file():
                    _uv([*install, "--no-deps", str(supplied)], output, log)
                elif supplied:
                    shutil.copytree(supplied, next(home.glob("lib/python*/site-packages")), dirs_exist_ok=True)
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
    for sign in (": fatal error:", ": error:", "No solution found", "ERROR:", "error:", "Failed", "failed"):
        for line, following in zip(lines, [*lines[1:], ""], strict=False):
            if sign in line:
                more = line.endswith(":") or following.startswith("cause:")
                return f"{line} {following}"[:300].strip() if more else line[:200]
    return lines[-1][:200] if lines else "the installer said nothing"
