"""Texts into vectors, block by block: what is done stays done, and is found again by what it was made of.

    vectors = embed(texts, make_encoder(card.retrieval.encoder, data_dir, progress), "documents", data_dir, progress)

The answer is a `VectorFile`, float32, one row for each text. It lies in `embeddings/` of the data folder under a hash
of the texts and the encoder, so that sets which share a corpus share its vectors, and a text that changes makes new
ones. After Ctrl-C, `kill -9` or an endpoint that gave up, the same call goes on with the block that was not finished.

An encoder (`benchmarks.data.embedding_local`, `benchmarks.data.embedding_endpoint`) offers

    identity   str, all that decides its vectors
    block      int, texts that are encoded in one call and saved together
    load()     whatever takes time before the first text: packages, models
    encode(texts, role) -> float32 (len(texts), dimension); role is "documents" or "questions"
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from filelock import FileLock

from benchmarks.cards.datasets import Encoder
from benchmarks.data.corpus import digest_texts
from benchmarks.data.embedding_endpoint import PREFIX, EndpointEncoder
from benchmarks.data.embedding_local import MiniLM, SentenceTransformers, StaticMiniLM
from benchmarks.data.vectors import VectorFile
from benchmarks.errors import UserError
from benchmarks.files import naming, require_space
from benchmarks.progress import Progress

FOLDER = "embeddings"
ENCODERS = {
    "minilm": MiniLM,
    "minilm-static": StaticMiniLM,
    "sentence-transformers": SentenceTransformers,
    "openai": EndpointEncoder,
}


class TextEncoder(Protocol):
    """See the module."""

    identity: str
    block: int

    def load(self) -> None: ...

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray: ...


def make_encoder(card: Encoder, data_dir: Path, progress: Progress) -> TextEncoder:
    """The encoder that a card means; models are loaded when the first text comes."""
    return ENCODERS[card.name](card, data_dir, progress)


def names_other_model(card: Encoder | None, made_by: str | None) -> bool:
    """Whether the environment names another model than the one that vectors were made by."""
    model = os.environ.get(f"{PREFIX}_MODEL")
    return bool(card and card.name == "openai" and model and f"openai {model} " != (made_by or "")[: len(model) + 8])


def embed(
    texts: Sequence[str], encoder: TextEncoder, role: str, data_dir: Path, progress: Progress, anew: bool = False
) -> VectorFile:
    """Vectors of all texts, made unless they are there and not wanted `anew`.

    Raises:
        UserError: the encoder cannot be had, or its vectors are not what they must be; finished blocks are kept.
    """
    with progress.task(f"looking for vectors of {role}", None):
        folder = place_of(texts, encoder, role, data_dir)
    path = folder / "vectors.npy"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):  # another data set may want the same
        if anew:
            path.unlink(missing_ok=True)
            _partial(path).unlink(missing_ok=True)
        if not path.exists():
            _make(path, texts, encoder, role, progress)
    rows = np.load(path, mmap_mode="r")
    return VectorFile(path=path, dtype="float32", rows=rows.shape[0], dimension=rows.shape[1], offset_bytes=rows.offset)


def place_of(texts: Sequence[str], encoder: TextEncoder, role: str, data_dir: Path) -> Path:
    """Folder of the vectors of these texts by this encoder."""
    return data_dir / FOLDER / digest_texts(texts, f"{encoder.identity}|{role}")[:16]


def _make(path: Path, texts: Sequence[str], encoder: TextEncoder, role: str, progress: Progress) -> None:
    partial = _partial(path)
    encoder.load()
    done, dimension = _resume(partial, len(texts), encoder.block)
    with naming(partial), progress.task(f"encoding {role}", len(texts), done=done) as task:
        while done < len(texts):
            block = texts[done : done + encoder.block]
            vectors = _checked(encoder.encode(block, role), len(block), dimension, encoder)
            if dimension is None:
                dimension = vectors.shape[1]
                require_space(path.parent, len(texts) * dimension * 4, f"vectors of {role}")
                _begin(partial, len(texts), dimension)
            with partial.open("ab") as file:
                file.write(vectors.tobytes())
                file.flush()
                os.fsync(file.fileno())
            done += len(block)
            task.update(done)
    partial.replace(path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _begin(partial: Path, rows: int, dimension: int) -> None:
    with partial.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
        np.lib.format.write_array_header_1_0(file, header)


def _resume(partial: Path, rows: int, block: int) -> tuple[int, int | None]:
    """(rows that are there, a multiple of the block; dimension if it is known)."""
    try:
        with partial.open("r+b") as file:
            np.lib.format.read_magic(file)
            shape, _, _ = np.lib.format.read_array_header_1_0(file)
            start, width = file.tell(), shape[1] * 4
            if shape[0] == rows:
                there = (partial.stat().st_size - start) // width
                done = there if there >= rows else there // block * block
                file.truncate(start + done * width)
                return done, shape[1]
    except (OSError, ValueError, IndexError):
        pass  # nothing is there, or not even the header
    partial.unlink(missing_ok=True)
    return 0, None


def _checked(vectors: np.ndarray, rows: int, dimension: int | None, encoder: TextEncoder) -> np.ndarray:
    if vectors.ndim != 2 or len(vectors) != rows or vectors.shape[1] == 0:
        raise UserError(f"encoder {encoder.identity}: gave an array {vectors.shape} for {rows} texts")
    if dimension not in (None, vectors.shape[1]):
        raise UserError(f"encoder {encoder.identity}: gives {vectors.shape[1]} dimensions, before it gave {dimension}")
    if not np.isfinite(vectors).all():
        raise UserError(f"encoder {encoder.identity}: gives NaN or infinity")
    return np.ascontiguousarray(vectors, np.float32)
