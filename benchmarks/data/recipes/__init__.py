"""Data sets that are derived from packages; a card names a recipe, its sources and its seed."""

import shutil
from pathlib import Path

from filelock import FileLock

from benchmarks.cards.datasets import Recipe, Source
from benchmarks.data.fetch import check_file, discard
from benchmarks.data.recipes import dictionaries, icons, pictures, trivia, words  # noqa: F401  registers what they hold
from benchmarks.data.recipes.kitchen import RECIPES, Kitchen
from benchmarks.errors import UserError
from benchmarks.progress import Progress


def make(recipe: Recipe, source: Source, data_dir: Path, progress: Progress) -> Path:
    """The file of one array (`source.made`) of a recipe, made unless it is there.

    Raises:
        UserError: there is no such recipe or array, a package or source is missing, or the file is not what the card
            says.
    """
    if recipe.name not in RECIPES:
        raise UserError(f"unknown recipe '{recipe.name}'; known: {', '.join(RECIPES)}")
    kitchen = Kitchen(recipe, data_dir, progress)
    path = kitchen.path(source.made)
    kitchen.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(kitchen.folder.with_name(f".{kitchen.folder.name}.lock")):  # other data sets are made of it too
        if not path.exists():
            try:
                RECIPES[recipe.name](kitchen, source.made, recipe.seed, **recipe.parameters)
            except TypeError as error:
                raise UserError(f"recipe '{recipe.name}': {error}") from None
            if not path.exists():
                raise UserError(f"recipe '{recipe.name}' makes no array '{source.made}'")
    check_file(path, source, str(path))
    return path


def discard_recipe(recipe: Recipe, data_dir: Path) -> None:
    """Forget what a recipe made and what it was made of."""
    shutil.rmtree(Kitchen(recipe, data_dir, Progress()).folder, ignore_errors=True)
    for source in recipe.sources.values():
        discard(source, data_dir)
