"""A matrix of vectors in a file, as the host describes it to itself and to the worker."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.errors import UserError
from benchmarks.worker.vectors import map_vectors
from benchmarks.yamlfile import Strict


class VectorFile(Strict):
    """Rows of one dtype that lie contiguously in a file, from `offset_bytes` on."""

    path: Path
    dtype: str
    rows: int
    dimension: int
    offset_bytes: int = 0

    def open(self) -> np.memmap:
        """Read-only memory map (rows, dimension)."""
        return map_vectors(self.model_dump())

    def blocks(self, size_bytes: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, rows) from the first to the last, read and not mapped: the memory is that of one block.

        Raises:
            UserError: the file was cut short meanwhile.
        """
        step = max(1, size_bytes // (self.dimension * np.dtype(self.dtype).itemsize))
        with self.path.open("rb") as file:
            file.seek(self.offset_bytes)
            for first in range(0, self.rows, step):
                count = min(step, self.rows - first)
                values = np.fromfile(file, self.dtype, count * self.dimension)
                if len(values) < count * self.dimension:
                    raise UserError(f"{self.path}: was cut short while it was read")
                yield first, values.reshape(count, self.dimension)

    def crop(self, rows: int) -> "VectorFile":
        """The first `rows` rows."""
        return self.model_copy(update={"rows": min(rows, self.rows)})
