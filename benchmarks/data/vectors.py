"""A matrix of vectors in a file, as the host describes it to itself and to the worker."""

from pathlib import Path

import numpy as np

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

    def crop(self, rows: int) -> "VectorFile":
        """The first `rows` rows."""
        return self.model_copy(update={"rows": min(rows, self.rows)})
