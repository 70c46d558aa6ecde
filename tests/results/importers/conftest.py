import pytest

from benchmarks.groundtruth.cache import ground_truth
from benchmarks.progress import Progress
from benchmarks.results.importing import Target
from benchmarks.results.store import Store
from tests.results.importers.layouts import make_vectors


@pytest.fixture(scope="session")
def vectors():
    """Base and queries that the files of the tests answer."""
    return make_vectors()


@pytest.fixture(scope="session")
def dataset(make_dataset, vectors):
    return make_dataset(*vectors)


@pytest.fixture(scope="session")
def make_target(tmp_path_factory):
    """What points are imported into, for any data set; each call has a store of its own."""
    data_dir = tmp_path_factory.mktemp("truth")

    def make(dataset) -> Target:
        truths = {}

        def truth_for(k):
            if k not in truths:
                truths[k] = ground_truth(dataset, k, data_dir, 1, Progress())
            return truths[k]

        store = Store(tmp_path_factory.mktemp("results"))
        return Target(
            dataset=dataset, store=store, truth_for=truth_for, threads=1, command="python -m benchmarks import"
        )

    return make


@pytest.fixture
def target(make_target, dataset):
    return make_target(dataset)
