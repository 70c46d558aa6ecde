"""File formats of vectors: where the rows lie in a file, or in a copy of it if they cannot be mapped as they lie."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from benchmarks.data.rowfiles import ROW_FILES, RowFile
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.files import naming, require_space
from benchmarks.progress import Progress

SUFFIXES = {
    ".npy": "npy",
    ".fbin": "fbin",
    ".u8bin": "u8bin",
    ".i8bin": "i8bin",
    ".ibin": "ibin",
    ".fvecs": "fvecs",
    ".bvecs": "bvecs",
    ".ivecs": "ivecs",
    ".hdf5": "hdf5",
    ".h5": "hdf5",
    ".parquet": "parquet",
}
DTYPES = ("float32", "uint8", "int8")
CONVERTED = ("float64", "float16")
IDS = ("ibin", "ivecs")  # ids, of ground truth; not vectors
BLOCK_BYTES = 16 << 20
# What ann-benchmarks and VIBE call their distances.
HDF5_DISTANCES = {"euclidean": "l2", "angular": "cosine", "cosine": "cosine", "ip": "ip", "normalized": "cosine"}


def format_of(path: Path) -> str:
    """Format by suffix.

    Raises:
        UserError: no format has that suffix.
    """
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise UserError(f"{path}: unknown kind of file; vectors are read from {_vector_suffixes()}") from None


def _vector_suffixes() -> str:
    return ", ".join(suffix for suffix, format in SUFFIXES.items() if format not in IDS)


def locate(path: Path, format: str, array: str | None, converted: Path, progress: Progress | None = None) -> VectorFile:
    """Find the rows in a file.

    Args:
        path: the file.
        format: npy, fbin, u8bin, i8bin, fvecs, bvecs, hdf5 or parquet.
        array: data set inside an HDF5 file, list column of a Parquet file.
        converted: where to write a .npy copy if the rows cannot be mapped as they lie (fvecs, Parquet, compressed,
            Fortran order, float64).
        progress: told of rows that are copied.

    Raises:
        UserError: the file is truncated, mislabelled or holds something else than vectors.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if format in IDS:
        raise UserError(f"{path}: holds ids, as ground truth does; vectors are read from {_vector_suffixes()}")
    if format == "npy":
        found = _npy(path)
    elif format == "hdf5":
        return _hdf5(path, array, converted, progress)
    elif format == "parquet":
        from benchmarks.data.parquet import read_column  # here, since only these files need pyarrow

        found = _Copied(*read_column(path, array))
    else:
        found = _rows(path, ROW_FILES[format])
    return found if isinstance(found, VectorFile) else _copy(found, path, converted, progress)


@dataclass(frozen=True)
class _Copied:
    """Rows that must be copied to be mapped."""

    shape: tuple[int, int]
    dtype: str
    blocks: Iterable[np.ndarray]


def _rows(path: Path, layout: RowFile) -> VectorFile | _Copied:
    rows, dimension = _shape(path, layout)
    if layout.header_bytes:
        return VectorFile(path=path, dtype=layout.dtype, rows=rows, dimension=dimension, offset_bytes=8)

    def blocks():
        records = np.memmap(path, layout.records(dimension), "r")
        for start, block in _sliced(records, layout.size(1, dimension)):
            odd = np.flatnonzero(block["dimension"] != dimension)
            if len(odd):
                raise UserError(
                    f"{path}: row {start + odd[0]} says that it has {block['dimension'][odd[0]]} dimensions, row 0 has "
                    f"{dimension}; the file is damaged, or its suffix is wrong"
                )
            yield block["row"]

    return _Copied((rows, dimension), layout.dtype, blocks())


def _shape(path: Path, layout: RowFile) -> tuple[int, int]:
    with path.open("rb") as file:
        head = file.read(8)
    try:
        return layout.shape(head, path.stat().st_size)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _map_npy(path: Path) -> np.memmap:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of absurd sizes before it refuses them
            values = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy lets zipfile's, tokenize's and other errors of a damaged header through
        raise UserError(f"{path}: is not a readable .npy file ({str(error).splitlines()[0]})") from None
    if not isinstance(values, np.ndarray):
        raise UserError(f"{path}: is an archive of arrays, not one .npy array")
    _require_matrix(values.shape, values.dtype, str(path))
    if path.stat().st_size != values.offset + values.nbytes:
        raise UserError(f"{path}: has {path.stat().st_size} bytes, the header says {values.offset + values.nbytes}")
    return values


def rows_of(path: Path, format: str) -> int:
    """Number of rows, without converting anything; of an HDF5 file nobody knows."""
    if format == "npy":
        return len(_map_npy(path))
    if format == "parquet":
        from benchmarks.data.parquet import count_rows  # here, since only these files need pyarrow

        return count_rows(path)
    return _shape(path, ROW_FILES[format])[0]


def _npy(path: Path) -> VectorFile | _Copied:
    values = _map_npy(path)
    if values.dtype.name not in DTYPES or not values.dtype.isnative or not values.flags.c_contiguous:
        return _Copied(*_blocks(values))
    return VectorFile(
        path=path, dtype=values.dtype.name, rows=values.shape[0], dimension=values.shape[1], offset_bytes=values.offset
    )


def _hdf5(path: Path, array: str | None, converted: Path, progress: Progress | None) -> VectorFile:
    with open_hdf5(path) as file:
        if array is None or not isinstance(file.get(array), h5py.Dataset):
            raise UserError(f"{path}: has no data set '{array}'; it holds {', '.join(file) or 'nothing'}")
        values = file[array]
        if Path(values.file.filename) != path or values.external or values.is_virtual:
            raise UserError(
                f"{path}: '{array}' lies in another file, of which a change would not be seen; "
                "give that file, or copy the array into this one"
            )
        _require_matrix(values.shape, values.dtype, f"{path}:{array}")
        offset = values.id.get_offset()
        if offset is None or values.dtype.name not in DTYPES or not values.dtype.isnative:
            return _copy(_Copied(*_blocks(values)), path, converted, progress)
        return VectorFile(
            path=path, dtype=values.dtype.name, rows=values.shape[0], dimension=values.shape[1], offset_bytes=offset
        )


@contextmanager
def open_hdf5(path: Path, opened: h5py.File | None = None):
    """Open for reading, or go on with it where it is open; what is not HDF5 or is cut short is a `UserError`."""
    try:
        if opened:
            yield opened
            return
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = str(error).split("(")[-1].rstrip(")")
        raise UserError(f"{path}: is not a readable HDF5 file ({reason}); it may be truncated") from None


def hdf5_distance(path: Path) -> str | None:
    """Distance that an ann-benchmarks or VIBE file states, in our words; None if it states none."""
    with open_hdf5(path) as file:
        stated = file.attrs.get("distance")
    if stated is None:
        return None
    stated = stated.decode(errors="replace") if isinstance(stated, bytes) else str(stated)
    if stated not in HDF5_DISTANCES:
        raise UserError(f"{path}: distance '{stated}' is not supported; supported are {', '.join(HDF5_DISTANCES)}")
    return HDF5_DISTANCES[stated]


def hdf5_matrices(path: Path) -> set[str]:
    """Names of the data sets with two dimensions."""
    with open_hdf5(path) as file:
        return {name for name in file if isinstance(file.get(name), h5py.Dataset) and file[name].ndim == 2}


def _require_matrix(shape: tuple, dtype: np.dtype, name: str) -> None:
    if shape is None or len(shape) != 2 or 0 in shape:
        raise UserError(f"{name}: vectors form a matrix (rows, dimension); this array has shape {shape}")
    if dtype.name not in DTYPES + CONVERTED:
        raise UserError(f"{name}: holds {dtype}; vectors are {', '.join(DTYPES + CONVERTED)}")


def _blocks(values) -> tuple[tuple[int, int], str, Iterator[np.ndarray]]:
    """Shape, dtype and row blocks of an array that is too large to be read whole."""
    dtype = "float32" if values.dtype.name in CONVERTED else values.dtype.name
    chunk = (getattr(values, "chunks", None) or (1,))[0]  # of a compressed HDF5 file: unpacked as a whole
    blocks = (block for _, block in _sliced(values, values.shape[1] * values.dtype.itemsize, chunk))
    return values.shape, dtype, blocks


def _sliced(values, row_bytes: int, multiple: int = 1) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, block), of about BLOCK_BYTES and a multiple of so many rows."""
    step = max(1, BLOCK_BYTES // (row_bytes * multiple)) * multiple
    for start in range(0, len(values), step):
        yield start, values[start : start + step]


def _copy(found: _Copied, path: Path, converted: Path, progress: Progress | None) -> VectorFile:
    shown = progress.task(f"converting {path.name}", found.shape[0]) if progress else nullcontext()
    with shown as task:

        def counted():
            for block in found.blocks:
                yield block
                if task:
                    task.advance(len(block))

        return write_npy(converted, counted(), found.shape, found.dtype)


def write_npy(path: Path, blocks, shape: tuple[int, int], dtype: str) -> VectorFile:
    """Write an iterable of row blocks as one .npy file, under a temporary name until it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    require_space(path.parent, shape[0] * shape[1] * np.dtype(dtype).itemsize, str(path))
    partial = path.with_name(f".{path.name}.partial")
    try:
        with naming(path), partial.open("wb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            offset = file.tell()
            for block in blocks:
                with np.errstate(over="ignore"):  # what does not fit float32 becomes inf and is refused by the check
                    file.write(np.ascontiguousarray(block, dtype).data)
        if partial.stat().st_size != offset + shape[0] * shape[1] * np.dtype(dtype).itemsize:
            raise UserError(f"{path}: fewer or more rows came than the {shape[0]} announced")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return VectorFile(path=path, dtype=dtype, rows=shape[0], dimension=shape[1], offset_bytes=offset)
