"""File formats of vectors. Nothing is read but headers: the answer says where the rows lie.

The size of a file must agree with its header to the byte, since none of these formats carries a checksum.
"""

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.files import naming

SUFFIXES = {".npy": "npy", ".fbin": "fbin", ".u8bin": "u8bin", ".i8bin": "i8bin", ".hdf5": "hdf5", ".h5": "hdf5"}
DTYPES = ("float32", "uint8", "int8")
CONVERTED = ("float64", "float16")
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
        raise UserError(f"{path}: unknown kind of file; vectors are read from {', '.join(SUFFIXES)}") from None


def locate(path: Path, format: str, array: str | None, converted: Path) -> VectorFile:
    """Find the rows in a file.

    Args:
        path: the file.
        format: npy, fbin, u8bin, i8bin or hdf5.
        array: data set inside an HDF5 file.
        converted: where to write a .npy copy if the rows cannot be mapped as they lie (compressed, Fortran order,
            float64).

    Raises:
        UserError: the file is truncated, mislabelled or holds something else than vectors.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    return _READERS[format](path, array, converted)


def _bin(dtype: str) -> Callable[[Path, str | None, Path], VectorFile]:
    """uint32 rows, uint32 dimension, then the rows, all little-endian (the big-ann-benchmarks family)."""

    def read(path: Path, array: str | None, converted: Path) -> VectorFile:
        size = path.stat().st_size
        if size < 8:
            raise UserError(f"{path}: {size} bytes are too few for a header of 8 bytes; the file is truncated")
        rows, dimension = (int(number) for number in np.fromfile(path, "<u4", 2))
        expected = 8 + rows * dimension * np.dtype(dtype).itemsize
        if rows == 0 or dimension == 0:
            raise UserError(f"{path}: the header says {rows} rows of {dimension} dimensions; there is nothing to read")
        if size != expected:
            trouble = "the file is truncated" if size < expected else "the header or the file's suffix is wrong"
            raise UserError(
                f"{path}: the header says {rows} rows of {dimension} {dtype} = {expected} bytes, "
                f"the file has {size}; {trouble}"
            )
        return VectorFile(path=path, dtype=dtype, rows=rows, dimension=dimension, offset_bytes=8)

    return read


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
    """Number of rows, without converting anything."""
    return len(_map_npy(path)) if format == "npy" else locate(path, format, None, path).rows


def _npy(path: Path, array: str | None, converted: Path) -> VectorFile:
    values = _map_npy(path)
    if values.dtype.name not in DTYPES or not values.dtype.isnative or not values.flags.c_contiguous:
        return _convert(values, converted)
    return VectorFile(
        path=path, dtype=values.dtype.name, rows=values.shape[0], dimension=values.shape[1], offset_bytes=values.offset
    )


def _hdf5(path: Path, array: str | None, converted: Path) -> VectorFile:
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
            return _convert(values, converted)
        return VectorFile(
            path=path, dtype=values.dtype.name, rows=values.shape[0], dimension=values.shape[1], offset_bytes=offset
        )


_READERS = {"npy": _npy, "fbin": _bin("float32"), "u8bin": _bin("uint8"), "i8bin": _bin("int8"), "hdf5": _hdf5}


@contextmanager
def open_hdf5(path: Path):
    """Open for reading; a file that is not HDF5 or is cut short is a `UserError`."""
    try:
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


def _require_matrix(shape: tuple, dtype: np.dtype, name: str) -> None:
    if shape is None or len(shape) != 2 or 0 in shape:
        raise UserError(f"{name}: vectors form a matrix (rows, dimension); this array has shape {shape}")
    if dtype.name not in DTYPES + CONVERTED:
        raise UserError(f"{name}: holds {dtype}; vectors are {', '.join(DTYPES + CONVERTED)}")


def _convert(values, path: Path) -> VectorFile:
    """Copy rows block by block into a .npy file that can be mapped; float64 and float16 become float32."""
    dtype = "float32" if values.dtype.name in CONVERTED else values.dtype.name
    blocks = (values[start : start + 65536] for start in range(0, values.shape[0], 65536))
    return write_npy(path, blocks, values.shape, dtype)


def write_npy(path: Path, blocks, shape: tuple[int, int], dtype: str) -> VectorFile:
    """Write an iterable of row blocks as one .npy file, under a temporary name until it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
