"""The texts behind a retrieval set: what base vectors and queries are of, and which answers are right.

What is offered to those who judge answers:

    dataset = prepare(card, data_dir, progress)      # or the Dataset that a run gets
    if dataset.corpus is None: ...                   # no retrieval set: vectors alone
    corpus = load_corpus(dataset)

    corpus.documents[row]      str; row is a row of the base, as in `neighbors` of a result: `title: text`
    corpus.titles[row]         str, "" where the corpus has none; in reverse-dictionary the headword
    corpus.document_ids[row]   str
    corpus.questions[query]    str; query is a row of the queries
    corpus.question_ids[query] str
    corpus.answers[query]      tuple[str, ...], all of them right; () where only documents are known
    corpus.gold[query]         int64 array, ascending: base rows of the documents that answer it; empty if none is known
    corpus.grades[query]       dict[int, int]: base row → grade of a human judgment; {} without judgments
    corpus.gold_kind           "stated" (by the data set) or "containing" (they contain an answer word for word, the
                               rule of open-domain question answering: right by accident at times, and then many)
    corpus.find_gold(neighbors)   bool (nq, k): which of the retrieved rows are gold; -1 never is

All are sequences: documents are read from a memory-mapped file, so eight million of them cost no memory.
`benchmarks.data.answers` says when two answers are the same and when a text contains one.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.cards.datasets import Retrieval
from benchmarks.data.answers import find_containing
from benchmarks.data.texts import list_of, read_rows, text_of
from benchmarks.errors import UserError
from benchmarks.files import naming
from benchmarks.progress import Progress
from benchmarks.yamlfile import Strict

BATCH = 8192  # rows that are written at a time
TEXT, TEXTS, NUMBERS = pa.large_string(), pa.list_(pa.string()), pa.list_(pa.int64())
DOCUMENTS = pa.schema([("id", TEXT), ("title", TEXT), ("text", TEXT)])
QUESTIONS = pa.schema(
    [("id", TEXT), ("text", TEXT), ("answers", TEXTS), ("gold", NUMBERS), ("judged", NUMBERS), ("grades", NUMBERS)]
)


class CorpusFiles(Strict):
    """Where the texts of a prepared data set are."""

    documents: Path
    questions: Path
    document_rows: int
    question_rows: int
    left_out: int  # questions without a gold document
    gold_kind: str
    encoder: str | None = None  # what made the vectors


class Column(Sequence):
    """One column of a memory-mapped table of texts, read where it is asked for."""

    def __init__(self, column: pa.ChunkedArray, convert: Callable = lambda value: value):
        self._chunks, self._convert = column.chunks, convert
        self._ends = list(accumulate(len(chunk) for chunk in self._chunks))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, row):
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        row = int(row)
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        chunk = int(np.searchsorted(self._ends, row, side="right"))
        first = self._ends[chunk - 1] if chunk else 0
        return self._convert(self._chunks[chunk][row - first].as_py())

    def __iter__(self) -> Iterator:
        for chunk in self._chunks:
            yield from map(self._convert, chunk.to_pylist())


class _Joined(Sequence):
    """Title and text as one."""

    def __init__(self, titles: Column, texts: Column):
        self._titles, self._texts = titles, texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row):
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        return _join(self._titles[row], self._texts[row])

    def __iter__(self) -> Iterator:
        return map(_join, self._titles, self._texts)


def _join(title: str, text: str) -> str:
    return f"{title}: {text}" if title else text


class Corpus:
    """See the module."""

    def __init__(self, files: CorpusFiles):
        documents, questions = _open(files.documents), _open(files.questions)
        self.gold_kind = files.gold_kind
        self.document_ids = Column(documents["id"])
        self.titles = Column(documents["title"])
        self.texts = Column(documents["text"])
        self.documents = _Joined(self.titles, self.texts)
        self.question_ids = Column(questions["id"])
        self.questions = Column(questions["text"])
        self.answers = Column(questions["answers"], tuple)
        self.gold = Column(questions["gold"], lambda rows: np.array(rows, np.int64))
        self._judged, self._grades = Column(questions["judged"]), Column(questions["grades"])

    @property
    def grades(self) -> list[dict[int, int]]:
        """Base row → grade, for every question."""
        pairs = zip(self._judged, self._grades, strict=True)
        return [dict(zip(rows, grades, strict=True)) for rows, grades in pairs]

    def find_gold(self, neighbors: np.ndarray) -> np.ndarray:
        """bool (nq, k): which of the base rows that were retrieved are gold documents of their question."""
        if len(neighbors) != len(self.questions):
            raise ValueError(f"{len(neighbors)} lists of neighbours for {len(self.questions)} questions")
        return np.array([np.isin(row, gold) for row, gold in zip(neighbors, self.gold, strict=True)])


def load_corpus(dataset) -> Corpus:
    """The texts of a prepared `Dataset`.

    Raises:
        UserError: it has none; its card needs a `retrieval:` section.
    """
    if dataset.corpus is None:
        raise UserError(
            f"data set {dataset.name} has vectors alone, no documents and questions; its card needs `retrieval:`"
        )
    return Corpus(dataset.corpus)


def write_corpus(retrieval: Retrieval, paths: dict[str, Path], folder: Path, progress: Progress) -> CorpusFiles:
    """Read documents, questions and judgments, find the gold documents, and write all into `folder`.

    Args:
        retrieval: of the card.
        paths: of `corpus`, `questions` and perhaps `judgments`.
        folder: of the prepared data set.
        progress: told of documents.

    Raises:
        UserError: a row lacks what it must have, names what is not there, or comes twice; rows are not as many as the
            card says.
    """
    documents, questions = folder / "documents.arrow", folder / "questions.arrow"
    with progress.task("reading documents", retrieval.corpus.taken_rows) as task:
        rows = _write(documents, DOCUMENTS, _documents(retrieval, paths["corpus"], task.advance))
    _require_rows(paths["corpus"], rows, retrieval.corpus)
    row_of = {name: row for row, name in enumerate(Column(_open(documents)["id"]))}
    asked = list(_questions(retrieval, paths["questions"], row_of))
    _require_rows(paths["questions"], len(asked), retrieval.questions)
    if retrieval.judgments:
        _judge(asked, paths["judgments"], retrieval, row_of)
    if retrieval.gold == "containing":
        table = _open(documents)
        texts = _Joined(Column(table["title"]), Column(table["text"]))
        with progress.task("looking for answers in documents", rows) as task:
            found = find_containing(texts, [question["answers"] for question in asked], task.advance)
        for question, gold in zip(asked, found, strict=True):
            question["gold"] = gold
    kept = [question for question in asked if question["gold"]] if retrieval.only_answerable else asked
    if not kept:
        raise UserError(f"{paths['questions']}: no question has a gold document")
    if retrieval.answerable_rows and len(kept) != retrieval.answerable_rows:
        raise UserError(
            f"{paths['questions']}: {len(kept)} questions have a gold document, the card says "
            f"{retrieval.answerable_rows}"
        )
    _write(questions, QUESTIONS, kept)
    return CorpusFiles(
        documents=documents,
        questions=questions,
        document_rows=rows,
        question_rows=len(kept),
        left_out=len(asked) - len(kept),
        gold_kind=retrieval.gold,
    )


def _documents(retrieval: Retrieval, path: Path, advance: Callable[[int], None]) -> Iterator[dict]:
    seen: set[str] = set()
    for number, (place, row) in enumerate(read_rows(path, retrieval.corpus)):
        title = text_of(row, "title", place) if row.get("title") else ""
        if title and not row.get("text"):
            title, text = "", title
        else:
            text = text_of(row, "text", place)
        yield {"id": _new_id(row, number, place, seen), "title": title, "text": text}
        advance(1)


def _questions(retrieval: Retrieval, path: Path, row_of: dict[str, int]) -> Iterator[dict]:
    seen: set[str] = set()
    for number, (place, row) in enumerate(read_rows(path, retrieval.questions)):
        gold = []
        for name in list_of(row, "gold", place):
            if name not in row_of and retrieval.corpus.crop_rows:
                continue
            if name not in row_of:
                raise UserError(f"{place}: gold document '{name}' is not in the corpus")
            gold.append(row_of[name])
        yield {
            "id": _new_id(row, number, place, seen),
            "text": text_of(row, "text", place),
            "answers": list_of(row, "answers", place),
            "gold": sorted(set(gold)),
            "judged": [],
            "grades": [],
        }


def _new_id(row: dict, number: int, place: str, seen: set[str]) -> str:
    name = text_of(row, "id", place) if "id" in row else str(number)
    if name in seen:
        raise UserError(f"{place}: id '{name}' was there before; ids must differ")
    seen.add(name)
    return name


def _judge(asked: list[dict], path: Path, retrieval: Retrieval, row_of: dict[str, int]) -> None:
    """Add human judgments to their questions; those of questions that are not asked here are passed over."""
    by_id, grades = {question["id"]: question for question in asked}, {}
    for place, row in read_rows(path, retrieval.judgments):
        question, document = (text_of(row, column, place) for column in ("question", "document"))
        text = text_of(row, "grade", place) if "grade" in row else "1"
        if not text.removeprefix("-").isdigit():
            raise UserError(f"{place}: grade '{text}' is no whole number")
        if question not in by_id:
            continue
        if document not in row_of:
            if retrieval.corpus.crop_rows:
                continue
            raise UserError(f"{place}: document '{document}' is not in the corpus")
        grades.setdefault(question, {})[row_of[document]] = int(text)
    if not grades:
        raise UserError(f"{path}: judges none of the questions; are their ids the same?")
    for name, judged in grades.items():
        rows = sorted(judged)
        gold = {*by_id[name]["gold"], *(row for row in rows if judged[row] > 0)}
        by_id[name].update(judged=rows, grades=[judged[row] for row in rows], gold=sorted(gold))


def _require_rows(path: Path, rows: int, source) -> None:
    if source.rows and not source.crop_rows and rows != source.rows:
        raise UserError(f"{path}: holds {rows} rows of text, the card says {source.rows}")
    if rows == 0:
        raise UserError(f"{path}: has no rows")


def _write(path: Path, schema: pa.Schema, rows) -> int:
    """Write rows as an Arrow file that can be mapped; it is there whole or not at all."""
    partial, count, batch = path.with_name(f".{path.name}.partial"), 0, []
    with naming(path), pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for row in rows:
            batch.append(row)
            count += 1
            if len(batch) == BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
                batch = []
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
    partial.replace(path)
    return count


def _open(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def digest_texts(texts: Sequence[str], start: str = "") -> str:
    """SHA-256 of a sequence of texts."""
    digest = hashlib.sha256(start.encode())
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
