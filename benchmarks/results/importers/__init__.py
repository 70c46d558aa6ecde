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
from benchmarks.results.crashes import require_harmless
from benchmarks.results.foreign import touch

HDF5 = (".hdf5", ".h5")
PATIENCE_SECONDS, SLOWEST_BYTES_PER_SECOND = 20, 5_000_000  # after which a file is taken to be damaged


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
    modules = [module for module in find_formats().values() if path.suffix.lower() in module.SUFFIXES]
    return next((module for module in modules if module.recognise(path)), None)


def require_readable(path: Path) -> None:
    """Raises UserError where reading the file would end the process; other damage shows when it is read."""
    if path.suffix.lower() in HDF5:
        require_harmless(lambda: touch(path), PATIENCE_SECONDS + path.stat().st_size // SLOWEST_BYTES_PER_SECOND)


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
