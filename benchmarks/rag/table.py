"""Verdicts as a file: a row for each query and operating point, as a study writes it and as a user may bring it.

    query,point,correct
    0,exact,1
    0,3f6c0a19be52d47c,0

`point` is the hash in a result's file name, or the whole name; or a control: exact, gold or empty. `query` is the row
of the query, or the id of the question. `correct` is 0 or 1. Other columns are left alone.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.results.store import Result

EXACT, GOLD, EMPTY = "exact", "gold", "empty"
CONTROLS = (EMPTY, EXACT, GOLD)
COLUMNS = ("query", "point", "correct")


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
    path: Path, results: Mapping[str, Result], nq: int, question_ids: Mapping[str, int] | None = None
) -> Verdicts:
    """Read such a file.

    Args:
        path: a CSV with a header.
        results: by hash; what a point may be, besides the controls.
        nq: number of queries.
        question_ids: rows of the queries by their ids, where they have any.

    Raises:
        UserError: names file, line and value of what is wrong.
    """
    names = {result.path.name: hash_ for hash_, result in results.items()}
    names |= {result.path.stem: hash_ for hash_, result in results.items()} | {hash_: hash_ for hash_ in results}
    verdicts = Verdicts(nq)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"{path}:1: has no column '{missing[0]}'; needed are {', '.join(COLUMNS)}")
            for row in reader:
                _take(row, f"{path}:{reader.line_num}", verdicts, names, question_ids or {})
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text in UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: is no CSV ({error})") from None
    if not verdicts.of:
        raise UserError(f"{path}: has no rows")
    return verdicts


def _take(row: dict, where: str, verdicts: Verdicts, names: Mapping[str, str], ids: Mapping[str, int]) -> None:
    """One row into the verdicts."""
    query, point, correct = ((row[name] or "").strip() for name in COLUMNS)
    name = point if point in CONTROLS else names.get(Path(point).name)
    if name is None:
        raise UserError(
            f"{where}: point '{point}' is none of the {len(set(names.values()))} results selected, nor exact, gold or "
            "empty; a point is named by the hash at the end of its file name"
        )
    number = ids.get(query, int(query) if query.isdecimal() else -1)
    if not 0 <= number < verdicts.nq:
        raise UserError(f"{where}: query '{query}' is none of the {verdicts.nq} queries, which are numbered from 0")
    if correct not in ("0", "1", "0.0", "1.0"):
        raise UserError(f"{where}: correct must be 0 or 1, not '{correct}'")
    column = verdicts.of.setdefault(name, np.full(verdicts.nq, np.nan))
    if not np.isnan(column[number]):
        raise UserError(f"{where}: query {query} of point {point} is there twice")
    column[number] = float(correct)
