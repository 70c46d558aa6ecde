"""Synthetic data sets. A generator is one function with a decorator; a card names it."""

from collections.abc import Callable

import numpy as np

from benchmarks.cards.datasets import Generator
from benchmarks.errors import UserError

GENERATORS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {}


def generator(function: Callable) -> Callable:
    """Register a function (rows, queries, dimension, seed, **parameters) → (base, queries), float32."""
    GENERATORS[function.__name__.replace("_", "-")] = function
    return function


def generate(spec: Generator, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Base (rows, dimension) and queries of a card's generator.

    Raises:
        UserError: no such generator, or it does not take these parameters.
    """
    if spec.name not in GENERATORS:
        raise UserError(f"unknown generator '{spec.name}'; known: {', '.join(GENERATORS)}")
    function = GENERATORS[spec.name]
    try:
        return function(spec.rows, spec.queries, dimension, spec.seed, **spec.parameters)
    except (TypeError, ValueError) as error:
        raise UserError(f"generator '{spec.name}': {error}") from None


@generator
def gaussian_clusters(rows: int, queries: int, dimension: int, seed: int, *, clusters: int, centre_scale: float):
    """Isotropic Gaussians of unit variance around Gaussian centres; queries are fresh draws from the same mixture."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension)) * centre_scale

    def draw(count):
        return (centres[random.integers(clusters, size=count)] + random.normal(size=(count, dimension))).astype(
            np.float32
        )

    return draw(rows), draw(queries)
