"""Small readers of what the kernel tells in /sys and /proc; what is not there is None."""

from collections.abc import Iterable
from pathlib import Path


def read_text(path: Path) -> str | None:
    """A file without the white space around it."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """A file that holds one number."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


def read_numbers(path: Path) -> list[int] | None:
    """A file that holds a list such as `0-3,8`."""
    text = read_text(path)
    return None if text is None else parse_numbers(text)


def read_fields(path: Path, separator: str | None = None) -> dict[str, str]:
    """Lines of `name value` or, with a separator, of `name: value`."""
    pairs = (line.split(separator, 1) for line in (read_text(path) or "").splitlines())
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def parse_numbers(text: str) -> list[int]:
    """`0-3,8` as numbers in rising order; what is no number is left out."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdecimal() and (not dash or last.isdecimal()):
            numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def show_numbers(numbers: Iterable[int]) -> str:
    """Numbers as `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
