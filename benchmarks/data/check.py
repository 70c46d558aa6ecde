"""One streaming pass over vectors: fingerprint, NaN and infinity, zero vectors."""

import hashlib
from collections.abc import Callable

import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.yamlfile import Strict

BLOCK_BYTES = 16 << 20


class Checked(Strict):
    """What the pass found."""

    sha256: str
    zero_vectors: int


def check_vectors(vectors: VectorFile, role: str, advance: Callable[[int], None] = lambda amount: None) -> Checked:
    """Read every row once.

    The fingerprint is of dtype, shape and values, so it does not depend on the container.

    Args:
        vectors: where the rows lie.
        role: base, queries or learn, for messages.
        advance: told of rows.

    Raises:
        UserError: a value is NaN or infinite; the message names the first row.
    """
    rows = vectors.open()
    digest = hashlib.sha256(f"{vectors.dtype} {vectors.rows} {vectors.dimension}".encode())
    zero_vectors = 0
    step = max(1, BLOCK_BYTES // (vectors.dimension * rows.itemsize))
    for start in range(0, vectors.rows, step):
        block = np.ascontiguousarray(rows[start : start + step])
        digest.update(block.data)
        if block.dtype.kind == "f":
            finite = np.isfinite(block).all(axis=1)
            if not finite.all():
                row = start + int(np.argmin(finite))
                bad = rows[row][~np.isfinite(rows[row])][0]
                raise UserError(
                    f"{vectors.path}: {role} row {row} holds {bad}; vectors must be finite, so take such rows out first"
                )
        zero_vectors += int((~block.any(axis=1)).sum())
        advance(len(block))
    return Checked(sha256=digest.hexdigest(), zero_vectors=zero_vectors)
