"""Rows of text in a file, read one after the other: .jsonl, .csv, .tsv, .parquet (all but the last also as .gz).

    documents   id (else the number of the row), text, and perhaps title
    questions   text, and perhaps id, answers and gold (ids of documents that answer it)
    judgments   question, document and grade, as TREC's qrels (`trec`: four columns, no header) or with a header

Answers and gold are lists; in .csv and .tsv they are separated by `|`. .csv is quoted as spreadsheets do, .tsv is not
quoted at all. A card says in `columns:` what the file calls them, and in `header:` the columns of a file without one:

    corpus: {path: collection.tsv, header: [id, text]}
    questions: {path: queries.jsonl, columns: {id: _id}}
"""

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cards.datasets import TextSource
from benchmarks.errors import UserError

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".qrels": "trec",
}
TREC = ["question", "round", "document", "grade"]
SEPARATOR = "|"

csv.field_size_limit(1 << 30)  # a document may be long


def format_of_text(path: Path, source: TextSource) -> str:
    """Format of a file of texts.

    Raises:
        UserError: no format has that suffix.
    """
    name = path.with_suffix("") if path.suffix == ".gz" else path
    found = source.format or SUFFIXES.get(name.suffix.lower())
    if found is None:
        raise UserError(
            f"{path}: unknown kind of file; texts are read from {', '.join(SUFFIXES)}; say `format:` in the card"
        )
    return found


def read_rows(path: Path, source: TextSource) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, columns under the names used here) of every row that the card takes.

    Raises:
        UserError: the file is missing or damaged; the message names the line.
    """
    format = format_of_text(path, source)
    known = {given: name for name, given in source.columns.items()}
    for place, row in islice(_READERS[format](path, source), source.crop_rows):
        yield place, {known.get(name, name): value for name, value in row.items()}


def text_of(row: dict[str, Any], column: str, place: str) -> str:
    """A column that must hold text that is not blank; a number is the text of its digits."""
    value = row.get(column)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: {column} is no text but {type(value).__name__}")
    if value is None or not value.strip():
        others = "" if column in row else f"; it has {', '.join(map(str, row)) or 'nothing'} (see `columns:`)"
        raise UserError(f"{place}: has no {column}{others}")
    return value.strip()


def list_of(row: dict[str, Any], column: str, place: str) -> list[str]:
    """A column that may hold several texts."""
    value = row.get(column)
    if value is None:
        return []
    if isinstance(value, str):
        value = value.split(SEPARATOR)
    if isinstance(value, (int, float)):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, (str, int)) for item in value):
        raise UserError(f"{place}: {column} is no list of texts")
    return [text for item in value if (text := str(item).strip())]


# --- formats --------------------------------------------------------------------------------------------------------


def _json_lines(path: Path, source: TextSource) -> Iterator[tuple[str, dict]]:
    with _lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{path}:{number}: is no JSON object")
            yield f"{path}:{number}", row


def _separated(path: Path, source: TextSource, **dialect) -> Iterator[tuple[str, dict]]:
    with _lines(path) as lines:
        reader = csv.reader(lines, **dialect)
        header = source.header
        try:
            for fields in reader:
                if header is None:
                    header = [name.strip().removeprefix("\ufeff") for name in fields]
                elif len(fields) == len(header):
                    yield f"{path}:{reader.line_num}", dict(zip(header, fields, strict=True))
                elif fields:
                    raise UserError(f"{path}:{reader.line_num}: has {len(fields)} columns, not {len(header)}")
        except csv.Error as error:
            raise UserError(f"{path}:{reader.line_num}: {error}") from None


def _csv(path: Path, source: TextSource) -> Iterator[tuple[str, dict]]:
    return _separated(path, source, strict=True)


def _tsv(path: Path, source: TextSource) -> Iterator[tuple[str, dict]]:
    return _separated(path, source, delimiter="\t", quoting=csv.QUOTE_NONE)


def _trec(path: Path, source: TextSource) -> Iterator[tuple[str, dict]]:
    with _lines(path) as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if fields and len(fields) != len(TREC):
                raise UserError(f"{path}:{number}: has {len(fields)} columns, a line of qrels has {len(TREC)}")
            if fields:
                yield f"{path}:{number}", dict(zip(TREC, fields, strict=True))


def _parquet(path: Path, source: TextSource) -> Iterator[tuple[str, dict]]:
    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(4096):
                for row in batch.to_pylist():
                    yield f"{path}: row {number}", row
                    number += 1
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: is not a readable Parquet file ({str(error).splitlines()[0].rstrip('.')})") from None


_READERS = {"jsonl": _json_lines, "csv": _csv, "tsv": _tsv, "trec": _trec, "parquet": _parquet}


@contextmanager
def _lines(path: Path):
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 ({error.reason} at byte {error.start})") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path}: is not a whole .gz file ({error})") from None
