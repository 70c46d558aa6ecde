"""Vectors in a list column of a Parquet file, read a block at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.errors import UserError

BLOCK_BYTES = 16 << 20
TYPES = {
    pa.float32(): "float32",
    pa.float64(): "float32",
    pa.float16(): "float32",
    pa.uint8(): "uint8",
    pa.int8(): "int8",
}


def count_rows(path: Path) -> int:
    """Rows of the file, by its footer."""
    with _open(path) as file:
        return file.metadata.num_rows


def read_column(path: Path, column: str | None) -> tuple[tuple[int, int], str, Iterator[np.ndarray]]:
    """((rows, dimension), dtype, blocks of rows) of a list column: the one that is named, or the only one there is.

    Numbers of 8 bits stay what they are, float16 and float64 become float32.

    Raises:
        UserError: no such column, or none or several to choose from; while the blocks are read: a row that is missing,
            has another length or holds a missing number.
    """
    with _open(path) as file:
        field = _field(path, file.schema_arrow, column)
        rows = file.metadata.num_rows
        if rows == 0:
            raise UserError(f"{path}: has no rows")
        first = next(file.iter_batches(1, columns=[field.name])).column(field.name)
    dimension = pc.list_value_length(first)[0].as_py()
    if not dimension:
        raise UserError(f"{path}: row 0 of column '{field.name}' holds no numbers")
    dtype = TYPES[field.type.value_type]
    return (rows, dimension), dtype, _blocks(path, field, dimension, dtype)


def _blocks(path: Path, field: pa.Field, dimension: int, dtype: str) -> Iterator[np.ndarray]:
    start = 0
    with _open(path) as file:
        size = max(1, BLOCK_BYTES // (dimension * np.dtype(field.type.value_type.to_pandas_dtype()).itemsize))
        for batch in file.iter_batches(size, columns=[field.name]):
            rows = batch.column(field.name)
            lengths = pc.fill_null(pc.list_value_length(rows), -1).to_numpy(zero_copy_only=False)
            odd = np.flatnonzero(lengths != dimension)
            if len(odd):
                found = "is missing" if lengths[odd[0]] < 0 else f"has {lengths[odd[0]]} numbers"
                raise UserError(
                    f"{path}: row {start + odd[0]} of column '{field.name}' {found}, row 0 has {dimension}; take such "
                    "rows out first"
                )
            numbers = rows.flatten()
            if numbers.null_count:
                row = int(pc.index(numbers.is_null(), True).as_py()) // dimension
                raise UserError(f"{path}: row {start + row} of column '{field.name}' lacks a number")
            with np.errstate(over="ignore"):  # what does not fit float32 becomes inf and is refused by the check
                yield numbers.to_numpy(zero_copy_only=False).reshape(-1, dimension).astype(dtype, copy=False)
            start += len(rows)


def _field(path: Path, schema: pa.Schema, column: str | None) -> pa.Field:
    lists = [field for field in schema if _is_list(field.type) and field.type.value_type in TYPES]
    if column is None and len(lists) == 1:
        return lists[0]
    names = ", ".join(field.name for field in lists)
    if column is None and lists:
        raise UserError(f"{path}: has several columns of vectors; choose one of {names} as `array:` in a card")
    for field in lists:
        if field.name == column:
            return field
    wanted = f"column '{column}'" if column else "column"
    others = ", ".join(f"{field.name} ({field.type})" for field in schema) or "nothing"
    raise UserError(f"{path}: has no {wanted} of lists of numbers (float or 8 bits); it holds {others}")


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


@contextmanager
def _open(path: Path):
    try:
        # A buffer and no look-ahead: a row group may be larger than the memory.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{path}: is not a readable Parquet file ({reason})") from None
