"""The Docker suite wants a real engine: `make test-docker` runs it, and without an engine it fails."""

import os

import pytest

from benchmarks.runner.images import connect
from tests.algorithms.conftest import bring

__all__ = ["bring"]

ASKED = os.environ.get("ROBUST_ANN_TEST_DOCKER")
ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


@pytest.fixture(scope="package", autouse=True)
def engine(no_engine):
    """A client of the engine, which is the one that runs take during this suite."""
    if not ASKED:
        pytest.skip("needs a Docker engine: make test-docker")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DOCKER_HOST", ENGINE)
        yield connect()
