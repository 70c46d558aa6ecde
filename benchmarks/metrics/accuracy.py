"""How often an application was right with what an operating point returned, from `python -m benchmarks rag`."""

import re
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.metrics.registry import Measured, measure_mean, metric
from benchmarks.rag.table import FOLDER, Verdicts, read_verdicts
from benchmarks.results.store import Result


def parse_answers(text: str) -> str:
    """Name of a file of verdicts, without its suffix.

    Raises:
        ValueError: it is no plain name.
    """
    if not re.fullmatch(r"\w[\w.-]*", text):
        raise ValueError(f"'{text}' is no name of answers, such as extractive-normalised")
    return text


def verdicts_of(folder: Path, answers: str, nq: int) -> Verdicts | None:
    """The verdicts of that name beside the results in `folder`, or None where there are none.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / FOLDER / f"{answers}.csv"
    if not path.is_file():
        return None
    status = path.stat()
    return _verdicts(path, nq, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _verdicts(path: Path, nq: int, *stamp: int) -> Verdicts:
    return read_verdicts(path, None, nq)


def right_of(result: Result, answers: str) -> np.ndarray | None:
    """bool (questions): whether each was answered right, of those that have a verdict of every point in the file."""
    verdicts = verdicts_of(result.path.parent.parent, answers, result.record.nq)
    if verdicts is None or (name := result.identity.hash()) not in verdicts.of:
        return None
    known = verdicts.complete(list(verdicts.of))
    return verdicts.of[name][known].astype(bool) if known.any() else None


@metric(
    "accuracy-{answers}",
    title="Accuracy ({answers})",
    unit="1",
    better="higher",
    kind="relevance",
    interval=True,
    per_query=right_of,
    share=True,
    answers=parse_answers,
)
def accuracy(result: Result, answers: str) -> Measured | None:
    """Share of the questions that an application answered right with the documents that the index returned, by the file
    results/<dataset>/rag/<answers>.csv that python -m benchmarks rag writes.
    """
    return measure_mean(right_of(result, answers))
