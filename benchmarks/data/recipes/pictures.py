"""Fashion-MNIST from the Debian package where there is one, and from the file of ann-benchmarks elsewhere."""

import gzip
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data.formats import locate
from benchmarks.data.recipes.kitchen import Kitchen, recipe
from benchmarks.errors import UserError

FOLDER = "./usr/share/datasets/fashion-mnist"
FILES = {"base": "train-images-idx3-ubyte.gz", "queries": "t10k-images-idx3-ubyte.gz"}
ARRAYS = {"base": "train", "queries": "test"}  # in the HDF5 file
MAGIC = 2051  # three dimensions of unsigned bytes


@recipe
def fashion_mnist(kitchen: Kitchen, wanted: str, seed: int) -> None:
    """Arrays `base` (60,000) and `queries` (10,000), float32 (n, 784), the split of ann-benchmarks.

    Args:
        kitchen: sources `debian` and `hdf5`; the second is taken where the first cannot be had.
        wanted: both are made.
        seed: is not needed.
    """
    try:
        archive = kitchen.file("debian")
    except UserError as no_package:
        try:
            file = kitchen.file("hdf5")
        except UserError as no_file:
            raise UserError(f"{no_package}; {no_file}") from None
        for array, inside in ARRAYS.items():
            values = locate(file, "hdf5", inside, kitchen.folder / f"{array}-converted.npy")
            kitchen.write(array, _sliced(values.open()), (values.rows, values.dimension), "float32")
        return
    for array, content in _members(archive):
        pixels = images(content)
        kitchen.write(array, _sliced(pixels), pixels.shape, "float32")


def images(content: bytes) -> np.ndarray:
    """The rows (n, height * width) of an IDX file, uint8."""
    magic, count, height, width = np.frombuffer(content, ">i4", 4)
    if magic != MAGIC or len(content) != 16 + count * height * width:
        raise UserError("an IDX file of images is damaged")
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, height * width)


def _members(package: Path) -> Iterator[tuple[str, bytes]]:
    """(array, unpacked IDX file) of a Debian package."""
    if shutil.which("dpkg-deb") is None:
        raise UserError(f"{package}: dpkg-deb is not installed, which unpacks it")
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], capture_output=True)
    if done.returncode:
        raise UserError(f"{package}: is no Debian package; remove it to fetch it anew")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for array, name in FILES.items():
            try:
                yield array, gzip.decompress(archive.extractfile(f"{FOLDER}/{name}").read())
            except KeyError:
                raise UserError(f"{package}: holds no {name}") from None


def _sliced(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), 4096):
        yield rows[start : start + 4096]
