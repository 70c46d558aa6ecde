"""What every recipe works with: sources that are fetched when they are asked for, and a folder for what it makes.

A recipe derives a data set's arrays from packages. Its result is cached under a hash of what the card says of it, so
that cards which say the same share one result.
"""

import hashlib
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.cards.datasets import Recipe
from benchmarks.data.fetch import fetch
from benchmarks.data.formats import write_npy
from benchmarks.errors import UserError
from benchmarks.files import naming
from benchmarks.progress import Progress

RECIPES: dict[str, Callable] = {}


class Kitchen:
    """What a recipe is given.

    Attributes:
        folder: for the arrays, and whatever else is worth keeping.
        progress: told of all work of more than a second.
    """

    def __init__(self, recipe: Recipe, data_dir: Path, progress: Progress):
        digest = hashlib.sha256(recipe.model_dump_json().encode()).hexdigest()[:8]
        self.folder = data_dir / "recipes" / f"{recipe.name}-{digest}"
        self.progress = progress
        self._recipe, self._data_dir = recipe, data_dir

    def file(self, source: str) -> Path:
        """The file of one of the card's sources, fetched unless it is there."""
        if source not in self._recipe.sources:
            raise UserError(f"recipe '{self._recipe.name}' needs a source '{source}'")
        return fetch(self._recipe.sources[source], self._data_dir, self._data_dir, self.progress)

    def path(self, array: str) -> Path:
        """Where an array is, or is to be; a table has its suffix in its name."""
        return self.folder / (array if array.endswith(".parquet") else f"{array}.npy")

    def write(self, array: str, blocks: Iterable[np.ndarray], shape: tuple[int, int], dtype: str) -> None:
        """Write an array, block by block; it is there whole or not at all."""
        write_npy(self.path(array), blocks, shape, dtype)

    def write_table(self, name: str, rows: Iterable[dict]) -> None:
        """Write rows of texts as a Parquet file, all in one go; it is there whole or not at all."""
        path = self.path(name)
        partial = path.with_name(f".{name}.partial")
        with naming(path):
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), partial)
            partial.replace(path)


def recipe(function: Callable) -> Callable:
    """Register a function (kitchen, wanted array, seed, **parameters) that writes at least that array."""
    RECIPES[function.__name__.replace("_", "-")] = function
    return function


def needed(module: str) -> None:
    """Raise a UserError where an optional package is missing."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"this data set is made with {module}, which is not installed; run `pip install -e '.[recipes]'`"
        ) from None
