"""Readers of other harnesses' result files: one module for each format, found by being here.

A module has

- `NAME`, as typed after --from, `SUFFIXES` of its files, and `MEANING`, a line for --help;
- `recognise(path) -> bool`: whether the file is of this format, by a look at it;
- `parts(path) -> list[Part]`: the operating points in it, none if it holds something else of that harness;
- `read(path, part, options) -> ForeignPoint`: one of them. `options` has `nq` and `k`, see `Options`.

All but the name raise UserError, whose message need not name the file.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from benchmarks.errors import UserError


@dataclass(frozen=True)
class Options:
    """What a reader may need to know beyond its file."""

    nq: int  # queries of the data set
    k: int | None = None  # neighbours that were asked for, where the user says so


@cache
def find_formats() -> dict[str, ModuleType]:
    """Every format by its name."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return {module.NAME: module for module in modules}


def format_of_file(path: Path) -> ModuleType | None:
    """The format of a file by a look into it; None if it is of none.

    Raises:
        UserError: the file cannot be read.
    """
    for module in find_formats().values():
        if path.suffix.lower() in module.SUFFIXES and module.recognise(path):
            return module
    return None


def files_below(path: Path, suffixes: set[str]) -> list[Path]:
    """The file itself, or all files of these suffixes in a folder and those below, hidden ones aside.

    Raises:
        UserError: there is no such file or folder, or none is in it.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in suffixes
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        raise UserError(f"{path}: holds no files that end in {', '.join(sorted(suffixes))}")
    return found
