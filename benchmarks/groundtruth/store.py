"""Arrays in an HDF5 file that is written whole, says what it is of, and shows when it is damaged."""

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np

from benchmarks.data.formats import open_hdf5
from benchmarks.errors import UserError
from benchmarks.files import write_whole


def write_arrays(path: Path, arrays: dict[str, np.ndarray], facts: dict) -> None:
    """One data set for each array and one attribute for each fact, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()  # HDF5 can crash the process when a disk is full
    with h5py.File(content, "w") as file:
        file.attrs["sha256"] = _hash(arrays.values())
        for name, array in arrays.items():
            file[name] = array
        file.attrs.update(facts)
    write_whole(path, content.getbuffer())


def read_arrays(path: Path, names: Iterable[str], facts: dict) -> list[np.ndarray]:
    """The arrays of those names, all that there are, if these facts are among those of the file.

    Raises:
        UserError: the file is something else, of something else, or damaged.
    """
    with open_hdf5(path) as file:
        try:
            arrays = [file[name][...] for name in names]
            if file.attrs["sha256"] != _hash(arrays) or any(file.attrs[name] != fact for name, fact in facts.items()):
                raise KeyError
        except (KeyError, OSError, TypeError, ValueError):
            raise UserError(f"{path}: is not a ground truth file") from None
    return arrays


def _hash(arrays: Iterable[np.ndarray]) -> str:
    arrays = list(arrays)
    digest = hashlib.sha256(" ".join(str(array.dtype) for array in arrays).encode())
    for array in arrays:
        for start in range(0, len(array), 1024):
            digest.update(array[start : start + 1024].tobytes())  # not all at once: it is a copy
    return digest.hexdigest()
