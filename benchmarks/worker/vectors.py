"""Vectors that lie in a file as one contiguous block, whatever container is around them."""

from __future__ import annotations

import numpy as np


def map_vectors(spec):
    """Memory-map the rows that `spec` describes, read-only.

    Args:
        spec: mapping with path, dtype, rows, dimension and offset_bytes.

    Returns:
        array (rows, dimension) of that dtype.
    """
    return np.memmap(
        spec["path"],
        dtype=np.dtype(spec["dtype"]),
        mode="r",
        offset=spec["offset_bytes"],
        shape=(spec["rows"], spec["dimension"]),
    )
