"""The first rows of a file that holds rows and nothing else: where they end, and the header that they then need."""

import hashlib
from pathlib import Path

from benchmarks.cards.datasets import Source
from benchmarks.data.download import Choose, Kept, Unavailable
from benchmarks.data.rowfiles import ROW_FILES

BLOCK = 1 << 20


def plan_of(url: str, source: Source, format: str | None, cropped: bool, dimension: int | None) -> Choose:
    """What to keep of a remote file, decided on its first bytes.

    The header, the size of the file and the card must agree, before anything large is fetched. The plan raises
    `Unavailable` where they do not.
    """

    def plan(head: bytes, total: int | None) -> Kept:
        if source.size_bytes and total not in (None, source.size_bytes):
            raise Unavailable(f"{url}: has {total} bytes, the card says {source.size_bytes}")
        if format not in ROW_FILES or source.member:
            return Kept(total)
        layout = ROW_FILES[format]
        try:
            rows, columns = layout.shape(head, total)
        except ValueError as error:
            raise Unavailable(f"{url}: {error}") from None
        if rows is not None and source.rows and rows != source.rows:
            raise Unavailable(f"{url}: holds {rows} rows, the card says {source.rows}")
        if rows is not None and cropped and rows < source.crop_rows:
            raise Unavailable(f"{url}: holds {rows} rows, the card takes the first {source.crop_rows}")
        if dimension and columns != dimension:
            raise Unavailable(f"{url}: has {columns} dimensions, the card says {dimension}")
        if cropped:
            return Kept(layout.size(source.crop_rows, columns), layout.header(source.crop_rows, columns))
        return Kept(total)

    return plan


def crop_sha256(file: Path, format: str, rows: int) -> str:
    """SHA-256 of the file that the first rows of `file` would be on their own."""
    layout = ROW_FILES[format]
    with file.open("rb") as content:
        _, columns = layout.shape(content.read(8), file.stat().st_size)
        header, end = layout.header(rows, columns), layout.size(rows, columns)
        digest = hashlib.sha256(header)
        content.seek(len(header))
        left = end - len(header)
        while left and (block := content.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
