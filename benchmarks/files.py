"""Paths as people type them, and files that appear whole or not at all."""

import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.errors import UserError


def resolved(text: str | Path, start: Path | None = None) -> Path:
    """Absolute path of what was typed, `~` and links followed; a relative one begins at `start`.

    Raises:
        UserError: there is no such home, the links go in a circle, or the name cannot be written down.
    """
    try:
        path = Path(text).expanduser()
        path = ((start / path) if start else path).resolve()
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(text).encode("utf-8", "backslashreplace").decode()
        raise UserError(f"{shown}: the path is not UTF-8; rename it, or give a link that has a plain name") from None
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{str(text)!r}: is no usable path ({error})") from None
    return path


@contextmanager
def naming(path: Path):
    """An OSError of the block that names no file names `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def require_space(folder: Path, size_bytes: int, what: str) -> None:
    """Raise a UserError where the file system of `folder` has not so much left; `what` is it for."""
    free = shutil.disk_usage(folder).free
    if size_bytes > free:
        raise UserError(
            f"{what}: needs {size_bytes / 1e9:.1f} GB in {folder}, {free / 1e9:.1f} GB are free; free some space, or "
            "choose another --data-dir"
        )


def write_whole(path: Path, content: bytes) -> None:
    """Write under a temporary name, sync, rename; a device or pipe is written to as it is.

    Raises:
        OSError: it names the file.
    """
    if path.exists() and not path.is_file():
        with naming(path):
            path.write_bytes(content)
        return
    partial = path.with_name(f".{os.getpid()}.partial")
    try:
        with naming(path), partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial):  # which nobody has heard of
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
