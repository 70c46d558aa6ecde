"""Where figures are written, and in which formats."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.errors import UserError
from benchmarks.figures.theme import FORMATS
from benchmarks.files import resolved
from benchmarks.paths import PLOTS

OTHER_FORMATS = ("jpg", "jpeg", "gif", "eps", "ps", "tif", "tiff", "webp", "bmp", "html", "pgf")


def formats_of(out: str | None, formats: str | None) -> list[str]:
    """Formats to write, from the suffix of --out, else from --format.

    Raises:
        UserError: a format is not known, or the two contradict each other.
    """
    suffix = Path(out).suffix.lstrip(".").lower() if out else ""
    wanted = list(dict.fromkeys(item.strip().lower() for item in (formats or "png").split(",")))
    unknown = [item for item in wanted if item not in FORMATS]
    unknown += [suffix] if suffix in OTHER_FORMATS else []
    if unknown:
        raise UserError(f"unknown format '{unknown[0]}'; known: {', '.join(FORMATS)}")
    if suffix not in FORMATS:
        return wanted
    if formats and wanted != [suffix]:
        raise UserError(f"--out {out} and --format {formats} contradict each other; leave the suffix or --format out")
    return [suffix]


def paths_of(out: str | None, name: str, formats: Sequence[str]) -> list[Path]:
    """Absolute paths to write; a folder given as --out takes the default name."""
    name = re.sub(r"[^A-Za-z0-9._+@-]+", "_", name)
    path = resolved(out) if out else PLOTS / name
    if out and (path.is_dir() or out.endswith("/")):
        path = path / name
    if path.suffix.lstrip(".").lower() in FORMATS:
        return [path]
    return [path.with_name(f"{path.name}.{each}") for each in formats]


def table_path(paths: Sequence[Path]) -> Path:
    """Where the table goes: beside the figure, under the same stem."""
    first = paths[0]
    return first.with_name(first.name.removesuffix(first.suffix) + ".csv")
