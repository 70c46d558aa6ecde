import pytest

from benchmarks.data import download
from tests.data.server import running


@pytest.fixture
def server(monkeypatch):
    """A web server of which `put(path, content)` gives an address; nobody waits long for it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.5)
    with running() as server:
        yield server
