"""One streaming pass over vectors: fingerprint, NaN and infinity, zero vectors."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.yamlfile import Strict

BLOCK_BYTES = 16 << 20


class Checked(Strict):
    """What the pass found."""

    sha256: str
    zero_vectors: int


def require_finite(block: np.ndarray, first: int, role: str, path: Path) -> None:
    """Raise a UserError that names the first row of `block` with NaN or infinity; its row in `path` is `first` + i."""
    if block.dtype.kind != "f":
        return
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        bad = block[row][~np.isfinite(block[row])][0]
        raise UserError(
            f"{path}: {role} row {first + row} holds {bad}; vectors must be finite, so take such rows out first"
        )


def check_vectors(
    vectors: VectorFile, role: str, advance: Callable[[int], None] = lambda amount: None, path: Path | None = None
) -> Checked:
    """Read every row once.

    The fingerprint is of dtype, shape and values, so it does not depend on the container.

    Args:
        vectors: where the rows lie.
        role: base, queries or learn, for messages.
        advance: told of rows.
        path: the file that messages name, if not the one the rows lie in.

    Raises:
        UserError: a value is NaN or infinite; the message names the first row.
    """
    digest = hashlib.sha256(f"{vectors.dtype} {vectors.rows} {vectors.dimension}".encode())
    zero_vectors = 0
    for start, block in vectors.blocks(BLOCK_BYTES):
        digest.update(block.data)
        require_finite(block, start, role, path or vectors.path)
        zero_vectors += int((~block.any(axis=1)).sum())
        advance(len(block))
    return Checked(sha256=digest.hexdigest(), zero_vectors=zero_vectors)
