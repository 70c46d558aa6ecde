import shutil

import pytest

from benchmarks.cards.datasets import load_dataset_card
from benchmarks.data.corpus import load_corpus
from benchmarks.data.prepare import prepare
from benchmarks.progress import Progress
from tests.harness import read_results
from tests.rag.world import measure_world


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Folder of a world that was measured; not to be written to."""
    folder = tmp_path_factory.mktemp("world")
    measure_world(folder)
    return folder


@pytest.fixture
def world(measured, tmp_path):
    """A copy of it to write to."""
    shutil.copytree(measured, tmp_path / "world", dirs_exist_ok=True)
    return tmp_path / "world"


@pytest.fixture
def where(world):
    """The options that name it."""
    return [
        *("--dataset", world / "capitals.yml", "--data-dir", world / "data", "--results-dir", world / "results"),
    ]


@pytest.fixture(scope="session")
def corpus(measured):
    return load_corpus(prepare(load_dataset_card(measured / "capitals.yml"), measured / "data", Progress()))


@pytest.fixture(scope="session")
def results(measured):
    """By ascending share of what they miss."""
    return sorted(read_results(measured / "results"), key=lambda result: result.identity.search_params["drop"])
