"""What most tests need: the one way to check a refusal, and data sets of a few vectors."""

import signal

import numpy as np
import pytest
from hypothesis import settings

from benchmarks.cards.datasets import DatasetCard, Source
from benchmarks.data.prepare import Dataset, prepare
from benchmarks.errors import UserError
from benchmarks.progress import Progress

# A shell has its background jobs ignore Ctrl-C, and what they start inherits that; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes any deadline a coin toss.
settings.register_profile("project", deadline=None)
settings.load_profile("project")


@pytest.fixture(autouse=True, scope="session")
def no_engine(tmp_path_factory):
    """Whatever images this machine has, a run here takes venv; the Docker suite names the engine itself."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path_factory.mktemp('no-engine') / 'docker.sock'}")
        yield


@pytest.fixture(scope="session")
def refusal():
    """Call something that must end in a `UserError` of one line; the answer is the line."""

    def of(action, *arguments, **options) -> str:
        with pytest.raises(UserError) as caught:
            action(*arguments, **options)
        message = str(caught.value)
        assert len(message.splitlines()) == 1, f"more than one line: {message!r}"
        return message

    return of


@pytest.fixture(scope="session")
def make_dataset(tmp_path_factory):
    """Prepare two matrices as a data set."""

    def make(base, queries, distance: str = "l2") -> Dataset:
        folder = tmp_path_factory.mktemp("dataset")
        np.save(folder / "base.npy", base)
        np.save(folder / "queries.npy", queries)
        card = DatasetCard(
            name="tiny",
            directory=folder,
            title="Tiny",
            distance=distance,
            base=Source(path="base.npy"),
            queries=Source(path="queries.npy"),
        )
        return prepare(card, folder / "cache", Progress())

    return make
