"""Vectors from any server with OpenAI's `embeddings`: a company's, or vLLM, llama.cpp, Ollama and others at home.

encoder: {name: openai, model: text-embedding-3-small}
ROBUST_ANN_EMBEDDINGS_URL   base address such as http://127.0.0.1:8080/v1; before `url:` of the card
ROBUST_ANN_EMBEDDINGS_KEY   sent as bearer token; never written down
ROBUST_ANN_EMBEDDINGS_MODEL before `model:` of the card
"""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.cards.datasets import Encoder
from benchmarks.endpoint import Endpoint, Malformed, in_threads
from benchmarks.errors import UserError
from benchmarks.progress import Progress

PREFIX = "ROBUST_ANN_EMBEDDINGS"
BATCH, THREADS = 64, 4  # texts of a request; requests at a time


class EndpointEncoder:
    """See `benchmarks.data.embedding`; vectors are as the server gives them."""

    def __init__(self, card: Encoder, data_dir: Path, progress: Progress, environment: Mapping[str, str] = os.environ):
        self._card, self._environment = card, environment
        self._batch = card.batch or BATCH
        self.block = self._batch * THREADS
        self.model = environment.get(f"{PREFIX}_MODEL") or card.model
        if not self.model:
            raise UserError(f"the encoder needs the name of a model: `model:` in the card, or {PREFIX}_MODEL")

    @cached_property
    def _endpoint(self) -> Endpoint:
        return Endpoint.of_environment(PREFIX, self._card.url, self._environment)

    @property
    def identity(self) -> str:
        """Model and server: what two servers call the same need not be the same."""
        prefixes = f"{self._card.document_prefix!r} {self._card.question_prefix!r}"
        return f"openai {self.model} {self._endpoint.shown} {prefixes}"

    def load(self) -> None:
        """There is nothing to load."""

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray:
        """float32 (len(texts), dimension).

        Raises:
            UserError: the server refuses, or gave no usable answer in all attempts.
        """
        prefix = self._card.document_prefix if role == "documents" else self._card.question_prefix
        batches = [texts[start : start + self._batch] for start in range(0, len(texts), self._batch)]
        found: list[np.ndarray | None] = [None] * len(batches)
        for place, vectors in in_threads(
            lambda batch: self._ask([prefix + text for text in batch]), batches, THREADS, self._endpoint.stopped
        ):
            found[place] = vectors
        self._endpoint.stopped.clear()
        if len({vectors.shape[1] for vectors in found}) > 1:
            raise UserError(f"{self._endpoint.shown}: gives vectors of different dimensions")
        return np.concatenate(found)

    def _ask(self, texts: list[str]) -> np.ndarray:
        content = {"model": self.model, "input": texts, "encoding_format": "float"}
        return self._endpoint.ask("embeddings", content, lambda answer: vectors_of(answer, len(texts)))


def vectors_of(answer: dict, rows: int) -> np.ndarray:
    """The vectors of an answer, in the order of the texts, float32 (rows, dimension).

    Raises:
        Malformed: they are not as many, are no numbers, or not equally long.
    """
    data = answer.get("data")
    if not isinstance(data, list) or len(data) != rows:
        raise Malformed(f"it gives {len(data) if isinstance(data, list) else 'no'} vectors for {rows} texts")
    try:
        order = [item.get("index", place) for place, item in enumerate(data)]
        with np.errstate(over="ignore"):  # what does not fit becomes infinite
            vectors = np.array([item["embedding"] for item in data], np.float32)
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError):
        raise Malformed("its vectors are no lists of numbers of one length") from None
    if vectors.ndim != 2 or vectors.shape[1] == 0 or sorted(map(str, order)) != sorted(map(str, range(rows))):
        raise Malformed("its vectors are no lists of numbers of one length, or their order is unknown")
    if not np.isfinite(vectors).all():
        raise Malformed("its vectors hold NaN or infinity")
    return vectors[np.argsort(order, kind="stable")]
