"""Which runner a run takes: the one asked for, else docker where everything is there for it, else venv."""

import os
from collections.abc import Iterable
from pathlib import Path

from benchmarks.cards.algorithms import LibraryCard
from benchmarks.errors import UserError
from benchmarks.runner.environment import EnvironmentFailure
from benchmarks.runner.venv import VenvRunner

RUNNERS = ("docker", "venv")


def choose_runner(asked: str | None, libraries: Iterable[LibraryCard]):
    """A runner, and in a few words why it is this one.

    Raises:
        UserError: docker is asked for and no engine answers.
    """
    if asked == "venv":
        return VenvRunner(), "as asked"
    if asked is None and not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        return VenvRunner(), "no Docker engine here"
    # Imported late: a run without containers does not wait for it.
    from benchmarks.runner.docker import DockerRunner
    from benchmarks.runner.images import find_image

    if asked == "docker":
        return DockerRunner(), "as asked"
    try:
        runner = DockerRunner()
        missing = sorted({library.directory.name for library in libraries if not find_image(runner.client, library)})
    except UserError:
        return VenvRunner(), "no Docker engine answers"
    except EnvironmentFailure as failure:
        return VenvRunner(), str(failure)
    if missing:
        return VenvRunner(), f"no image of {', '.join(missing)} yet; python -m benchmarks install --runner docker"
    return runner, "every image is there"
