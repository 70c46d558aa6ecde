"""Verdicts as a file: a row for each query and operating point, as a study writes it and as a user may bring it.

    query,point,correct
    0,exact,1
    0,3f6c0a19be52d47c,0

`point` is the hash in a result's file name, or the whole name; or a control: exact, gold or empty. `query` is the row
of the query, from 0; a column `question` with the id of the question may stand in its place. `correct` is 0 or 1. Other
columns are left alone.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.results.store import Result

EXACT, GOLD, EMPTY = "exact", "gold", "empty"
CONTROLS = (EMPTY, EXACT, GOLD)
COLUMNS = ("query", "point", "correct")
QUESTION = "question"  # instead of "query"
FOLDER = "rag"  # beside the results of the data set


@dataclass(frozen=True)
class Verdicts:
    """Who was right: float64 (nq) for each point and control, 0 or 1, NaN where nothing is known."""

    nq: int
    of: dict[str, np.ndarray] = field(default_factory=dict)  # by hash of the point, or name of the control

    def complete(self, points: Sequence[str]) -> np.ndarray:
        """bool (nq): the queries of which all of the points are known."""
        return ~np.isnan([self.of[name] for name in points]).any(axis=0)


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """All that is known, whole or not at all."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, correct in verdicts.of.items():
        writer.writerows((row, name, int(correct[row])) for row in np.flatnonzero(~np.isnan(correct)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue().encode())


def read_verdicts(
    path: Path,
    results: Mapping[str, Result] | None,
    nq: int,
    question_ids: Callable[[], Sequence[str]] = tuple,
) -> Verdicts:
    """Read such a file.

    Args:
        path: a CSV with a header.
        results: by hash; what a point may be, besides the controls. None takes whatever a point is called.
        nq: number of queries.
        question_ids: gives the ids of the questions, by row; called where the file has the column `question`.

    Raises:
        UserError: names file, line and value of what is wrong.
    """
    names = None if results is None else {name: name for name in CONTROLS}
    for hash_, result in (results or {}).items():
        names |= dict.fromkeys((result.path.name, result.path.stem, hash_), hash_)
    verdicts = Verdicts(nq)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, strict=True)
            head = [name.strip() for name in next(lines, ())]
            queries = "query" if "query" in head or QUESTION not in head else QUESTION
            missing = [name for name in (queries, *COLUMNS[1:]) if name not in head]
            if missing:
                raise UserError(f"{path}:1: has no column '{missing[0]}'; needed are {', '.join(COLUMNS)}")
            rows = _numbers(nq) if queries == "query" else {name: row for row, name in enumerate(question_ids())}
            places = [head.index(name) for name in (queries, *COLUMNS[1:])]
            for line in lines:
                if line and len(line) != len(head):
                    raise UserError(
                        f"{path}:{lines.line_num}: has {len(line)} columns, the first line has {len(head)}; a name "
                        "with commas is put in quotes"
                    )
                if line:
                    _take(line, places, f"{path}:{lines.line_num}", verdicts, names, rows)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text in UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}:{lines.line_num}: is no CSV ({error})") from None
    if not verdicts.of:
        raise UserError(f"{path}: has no rows")
    return verdicts


def _numbers(nq: int) -> dict[str, int]:
    return {str(row): row for row in range(nq)}


def _take(
    line: list[str],
    places: list[int],
    where: str,
    verdicts: Verdicts,
    names: Mapping[str, str] | None,
    rows: Mapping[str, int],
) -> None:
    """One line into the verdicts."""
    query, point, correct = (line[place].strip() for place in places)
    name = point if names is None else names.get(point) or names.get(Path(point).name)
    if name is None:
        raise UserError(
            f"{where}: point '{point}' is none of the {len(set(names.values()) - set(CONTROLS))} results selected, nor "
            f"{', '.join(CONTROLS)}; a point is named by the hash at the end of its file name"
        )
    if query not in rows:
        named = f"which are numbered from 0 to {verdicts.nq - 1}" if "0" in rows else "by id"
        raise UserError(f"{where}: query '{query}' is none of the {verdicts.nq} queries, {named}")
    if correct not in ("0", "1", "0.0", "1.0"):
        raise UserError(f"{where}: correct must be 0 or 1, not '{correct}'")
    column = verdicts.of.setdefault(name, np.full(verdicts.nq, np.nan))
    if not np.isnan(column[rows[query]]):
        raise UserError(f"{where}: query {query} of point {point} is there twice")
    column[rows[query]] = float(correct)
