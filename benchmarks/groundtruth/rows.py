"""Rows of an array, or of a file that is read and not mapped.

A mapped file that is cut while it is in use ends the process with SIGBUS; reading it ends in a `UserError`.
"""

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError


class Rows:
    """Rows (n, d) of an array, a memory map or a file.

    Raises:
        UserError: the file is shorter than it says.
    """

    def __init__(self, source: np.ndarray | VectorFile):
        self.file = source if isinstance(source, VectorFile) else None
        self._require_whole()
        self.array = np.asarray(source.open() if self.file else source)  # no memmap: its views are slow to make
        self.shape, self.ndim, self.dtype = self.array.shape, self.array.ndim, self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def blocks(self, rows: range, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, up to `size` rows) over consecutive rows; the next block may overwrite the one before.

        Raises:
            UserError: the file was cut short.
        """
        starts = range(rows.start, rows.stop, size)
        if self.file is None:
            for start in starts:
                yield start, np.ascontiguousarray(self.array[start : min(start + size, rows.stop)])
            return
        buffer = np.empty((min(size, len(rows)), self.shape[1]), self.dtype)
        with self.file.path.open("rb", buffering=0) as file:
            for start in starts:
                block = buffer[: min(size, rows.stop - start)]
                at, rest = self.file.offset_bytes + start * block[0].nbytes, memoryview(block).cast("B")
                while rest:
                    read = os.preadv(file.fileno(), [rest], at)
                    if read == 0:
                        raise self._cut_short()
                    at, rest = at + read, rest[read:]
                yield start, block

    def read(self, rows: range) -> np.ndarray:
        """Consecutive rows. Raises UserError if the file was cut short."""
        return next(self.blocks(rows, len(rows)))[1]

    def mapped(self) -> np.ndarray:
        """All rows, for those that are far between: a read of each would take longer than its distances.

        The size of a file is looked at first, so only a cut within the next millisecond could end the process.

        Raises:
            UserError: the file was cut short.
        """
        self._require_whole()
        return self.array

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows (len(ids), d) from `mapped`; an id of -1 stands for 0."""
        return self.mapped().take(ids, axis=0, mode="clip")

    def _require_whole(self) -> None:
        if self.file is None:
            return
        size = self.file.rows * self.file.dimension * np.dtype(self.file.dtype).itemsize
        if self.file.path.stat().st_size < self.file.offset_bytes + size:
            raise self._cut_short()

    def _cut_short(self) -> UserError:
        return UserError(f"{self.file.path}: was cut short while it was in use; run again when it stays as it is")


def as_rows(source: "np.ndarray | VectorFile | Rows") -> Rows:
    """`source` itself if it is `Rows`."""
    return source if isinstance(source, Rows) else Rows(source)
