"""A search on disk, so that one that was killed goes on."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from benchmarks.groundtruth.search import State

FORMAT = 2  # to be raised when the bounds or the meaning of an array of `State` change
ARRAYS = ("best", "ids", "dropped", "largest", "done")


class Checkpoint:
    """A file that holds a `State`: one line of JSON, then the arrays as they lie in memory."""

    def __init__(self, path: Path, key: str):
        """`key` names all that decides the result of the search."""
        self.path, self.key = path, key

    def save(self, state: State) -> None:
        """Replace what was saved before. The arrays are written as they lie: a copy could be large.

        Raises:
            OSError: for lack of space, say. What was saved before is still there.
        """
        arrays = [np.ascontiguousarray(getattr(state, name)) for name in ARRAYS]
        head = {
            "format": FORMAT,
            "key": self.key,
            "rows": [state.rows.start, state.rows.stop],
            "shape": state.ids.shape,
            "steps": state.steps,
            "sha256": _hash(arrays),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(json.dumps(head).encode() + b"\n")
                for array in arrays:
                    file.write(array.data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, state: State) -> bool:
        """Fill in what was saved, and say so; anything but a whole file of this search is as good as none."""
        try:
            with self.path.open("rb") as file:
                head = json.loads(file.readline(10_000))
                steps = tuple(head["steps"])
                saved = State(state.rows, state.ids.shape, steps)
                expected = {
                    "format": FORMAT,
                    "key": self.key,
                    "rows": [state.rows.start, state.rows.stop],
                    "shape": list(state.ids.shape),
                    "steps": list(steps),
                }
                arrays = [getattr(saved, name) for name in ARRAYS]
                whole = all(file.readinto(array.data.cast("B")) == array.nbytes for array in arrays) and not file.read(
                    1
                )
            if not whole or head != {**expected, "sha256": _hash(arrays)}:
                return False
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, MemoryError):
            return False
        state.steps = steps
        for name in ARRAYS:
            setattr(state, name, getattr(saved, name))
        return True

    def remove(self) -> None:
        """Forget what was saved, if anything was."""
        self.path.unlink(missing_ok=True)


def _hash(arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest()
