import hashlib
import inspect

import numpy as np
import pytest

from benchmarks.cards.datasets import Generator, find_datasets, load_dataset_card
from benchmarks.data.generators import GENERATORS, generate

CLUSTERS = {"clusters": 5, "centre_scale": 3.0}


def spec(**changes):
    return Generator(**{"name": "gaussian-clusters", "rows": 50, "queries": 7, "parameters": CLUSTERS, **changes})


def test_shape_and_type():
    base, queries = generate(spec(), 4)
    assert base.shape == (50, 4) and queries.shape == (7, 4) and base.dtype == queries.dtype == np.float32


def test_one_seed_makes_identical_bits():
    for one, other in zip(generate(spec(), 4), generate(spec(), 4), strict=True):
        assert one.tobytes() == other.tobytes()


def test_these_bits_never_change():
    base, queries = generate(spec(), 4)
    digest = hashlib.sha256(base.tobytes() + queries.tobytes()).hexdigest()
    assert digest == "b751a612c3290d62aa662166e70c29d912abfdfa895b95e31ac8e4552af81863"


def test_another_seed_makes_other_vectors():
    assert not np.array_equal(generate(spec(seed=1), 4)[0], generate(spec(), 4)[0])


def test_queries_are_fresh_draws():
    base, queries = generate(spec(), 4)
    assert not {row.tobytes() for row in base} & {row.tobytes() for row in queries}


@pytest.mark.parametrize("scale", [0.0, 3.0])
def test_variance_is_that_of_centres_and_clusters(scale):
    for rows in generate(spec(rows=4000, queries=4000, parameters={"clusters": 1000, "centre_scale": scale}), 16):
        assert rows.var() == pytest.approx(1 + scale**2, rel=0.1)


def test_unknown_generator(refusal):
    assert refusal(generate, spec(name="gausian"), 4).startswith("unknown generator 'gausian'; known: ")


@pytest.mark.parametrize("parameters", [{}, {"clusters": 5}, {**CLUSTERS, "cluster": 3}])
def test_wrong_parameters(refusal, parameters):
    assert "generator 'gaussian-clusters'" in refusal(generate, spec(parameters=parameters), 4)


@pytest.mark.parametrize(
    "parameters",
    [
        {**CLUSTERS, "clusters": 0},
        {**CLUSTERS, "clusters": -1},
        {**CLUSTERS, "clusters": 2.5},
        {**CLUSTERS, "centre_scale": "wide"},
    ],
    ids=str,
)
def test_senseless_values(refusal, parameters):
    assert "generator 'gaussian-clusters'" in refusal(generate, spec(parameters=parameters), 4)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_has_a_docstring(name):
    assert inspect.getdoc(GENERATORS[name])


@pytest.mark.parametrize("path", find_datasets().values(), ids=lambda path: path.stem)
def test_cards_give_what_their_generator_takes(path):
    card = load_dataset_card(path)
    if card.generator:
        small = card.generator.model_copy(update={"rows": 10, "queries": 3})
        base, queries = generate(small, card.dimension)
        assert base.shape == (10, card.dimension) and queries.shape == (3, card.dimension)
        assert base.dtype == (card.dtype or base.dtype)
