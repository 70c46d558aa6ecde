"""Files that hold rows and nothing else: where a row lies follows from its number, so the first of them are a prefix.

None of these formats carries a checksum or a type, so header, suffix and size must agree to the byte.
"""

import struct
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RowFile:
    """The big-ann family (uint32 rows, uint32 dimension, rows) or texmex's (before each row its int32 dimension).

    All little-endian.
    """

    dtype: str
    header_bytes: int  # of the file, or else of each row

    def shape(self, head: bytes, total: int | None) -> tuple[int | None, int]:
        """(rows, dimension) by the first bytes and the size of a file; rows are None if only the size could tell.

        Raises:
            ValueError: they do not fit together; says how, and what that means.
        """
        needed = self.header_bytes or 4
        if len(head) < needed:
            raise ValueError(f"{len(head)} bytes are too few for a header of {needed} bytes; the file is truncated")
        if not self.header_bytes:
            return self._shape_of_records(int.from_bytes(head[:4], "little", signed=True), total)
        rows, dimension = struct.unpack("<II", head[:8])
        if rows == 0 or dimension == 0:
            raise ValueError(f"the header says {rows} rows of {dimension} dimensions; there is nothing to read")
        expected = self.size(rows, dimension)
        if total is not None and total != expected:
            trouble = "the file is truncated" if total < expected else "the header or the file's suffix is wrong"
            raise ValueError(
                f"the header says {rows} rows of {dimension} {self.dtype} = {expected} bytes, "
                f"the file has {total}; {trouble}"
            )
        return rows, dimension

    def _shape_of_records(self, dimension: int, total: int | None) -> tuple[int | None, int]:
        if dimension < 1:
            raise ValueError(f"the first row says that it has {dimension} dimensions; there is nothing to read")
        if total is None:
            return None, dimension
        rows, rest = divmod(total, self.size(1, dimension))
        if rest or not rows:
            raise ValueError(
                f"the first row has {dimension} {self.dtype}, and no number of such rows has the {total} bytes of "
                "the file; it is truncated, or its suffix is wrong"
            )
        return rows, dimension

    def size(self, rows: int, dimension: int) -> int:
        """Bytes of a file of so many rows."""
        row = dimension * np.dtype(self.dtype).itemsize
        return self.header_bytes + rows * (row if self.header_bytes else 4 + row)

    def header(self, rows: int, dimension: int) -> bytes:
        """What such a file begins with, before its first row."""
        return struct.pack("<II", rows, dimension) if self.header_bytes else b""

    def records(self, dimension: int) -> np.dtype:
        """Type of one row of a file without a header, its dimension in front."""
        return np.dtype([("dimension", "<i4"), ("row", np.dtype(self.dtype).newbyteorder("<"), dimension)])


ROW_FILES = {
    "fbin": RowFile("float32", 8),
    "u8bin": RowFile("uint8", 8),
    "i8bin": RowFile("int8", 8),
    "fvecs": RowFile("float32", 0),
    "bvecs": RowFile("uint8", 0),
    "ivecs": RowFile("int32", 0),
}
