"""One pass over vectors that stops at nothing: how many are not finite, zero, copies, or queries; and their norms."""

import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.files import require_space
from benchmarks.yamlfile import Strict

BLOCK_BYTES = 4 << 20
BUCKET_BYTES = 32 << 20  # of the digests that are compared at a time


class Survey(Strict):
    """What the pass found."""

    rows: int
    not_finite: int
    first_not_finite: int | None
    zero: int
    least_norm: float
    mean_norm: float
    largest_norm: float
    copies: int  # rows that equal an earlier one
    looks_signed: bool  # uint8 that fall off on both sides of 0, as signed bytes do that were read as unsigned


def survey(
    vectors: VectorFile, folder: Path, advance: Callable[[int], None], queries: np.ndarray | None = None
) -> tuple[Survey, np.ndarray | None]:
    """Read every row once, in a few megabytes of memory.

    Args:
        vectors: where the rows lie.
        folder: for temporary files, 8 bytes a row.
        advance: told of rows.
        queries: digests of other vectors that are looked for among these.

    Returns:
        What was found, and for each of the queries whether it is one of the rows.
    """
    bad = zero = 0
    first_bad, total, count = None, 0.0, 0
    least, largest = np.inf, 0.0
    levels = np.zeros(256, np.int64)
    known, place = (None, None) if queries is None else np.unique(queries, return_inverse=True)
    seen = None if queries is None else np.zeros(len(known), bool)
    with _Copies(folder, vectors.rows) as copies:
        for start, block in vectors.blocks(BLOCK_BYTES):
            digests = digest_rows(block)
            copies.add(digests)
            if queries is not None:
                at = np.minimum(np.searchsorted(known, digests), len(known) - 1)
                seen[at[known[at] == digests]] = True
            finite = np.isfinite(block).all(axis=1)
            if not finite.all():
                bad += int((~finite).sum())
                first_bad = start + int(np.argmin(finite)) if first_bad is None else first_bad
            if block.dtype == np.uint8:
                levels += np.bincount(block.ravel(), minlength=256)
            wide = block[finite].astype(np.float64)
            if len(wide):
                norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
                zero += int((~block[finite].any(axis=1)).sum())
                least, largest = min(least, float(norms.min())), max(largest, float(norms.max()))
                total, count = total + float(norms.sum()), count + len(norms)
            advance(len(block))
        found = Survey(
            rows=vectors.rows,
            not_finite=bad,
            first_not_finite=first_bad,
            zero=zero,
            least_norm=least if count else 0,
            mean_norm=total / count if count else 0,
            largest_norm=largest,
            copies=copies.count(),
            looks_signed=bool(levels[224:248].sum() > 8 * max(1, levels[116:140].sum())),
        )
    return found, None if queries is None else seen[place]


def digest_rows(block: np.ndarray) -> np.ndarray:
    """64-bit digests (rows,) that are equal where rows are, and by chance for one pair in 10^19; -0.0 equals 0.0."""
    content = np.ascontiguousarray(block + 0.0 if block.dtype.kind == "f" else block, block.dtype).tobytes()
    width = len(content) // max(1, len(block))
    parts = [blake2b(content[first : first + width], digest_size=8).digest() for first in range(0, len(content), width)]
    return np.frombuffer(b"".join(parts), np.uint64)


class _Copies:
    """Counts digests that were there before, some of them in memory at a time and the others in temporary files."""

    def __init__(self, folder: Path, rows: int):
        self.buckets = -(-rows * 8 // BUCKET_BYTES)
        folder.mkdir(parents=True, exist_ok=True)
        require_space(folder, rows * 8, "looking for copies")
        self.folder = tempfile.TemporaryDirectory(dir=folder, prefix=".survey-")
        self.paths = [Path(self.folder.name) / str(bucket) for bucket in range(self.buckets)]

    def __enter__(self):
        self.files = [path.open("wb") for path in self.paths]
        return self

    def __exit__(self, *error):
        for file in self.files:
            file.close()
        self.folder.cleanup()

    def add(self, digests: np.ndarray) -> None:
        bucket = digests % np.uint64(self.buckets)
        for number, file in enumerate(self.files):
            file.write(digests[bucket == number].tobytes())

    def count(self) -> int:
        copies = 0
        for file, path in zip(self.files, self.paths, strict=True):
            file.flush()
            digests = np.fromfile(path, np.uint64)
            copies += len(digests) - len(np.unique(digests))
        return copies
