"""What drawing gives: the figure, and the table behind it."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from benchmarks.analysis.stations import Station
from benchmarks.figures.files import table_path
from benchmarks.figures.theme import save
from benchmarks.files import write_whole
from benchmarks.metrics.registry import Measured
from benchmarks.results.store import Result

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Drawing:
    """A figure and its numbers: one row for each mark, and one for each failed point."""

    figure: Figure
    rows: list[dict]

    @property
    def table(self) -> "pd.DataFrame":
        """The rows, for notebooks."""
        import pandas as pd  # here, since plot.py does without it, which halves its start

        return pd.DataFrame(self.rows)


def identity_columns(result: Result) -> dict:
    """Which point it is, as columns of a drawing's table; parameters as JSON."""
    identity = result.identity
    return {
        "dataset": identity.dataset,
        "algorithm": identity.algorithm,
        "build": json.dumps(identity.build_params),
        "search": json.dumps(identity.search_params),
        "seed": identity.seed,
        "k": identity.k,
        "mode": identity.mode,
        "threads": identity.threads,
        "queries": result.record.nq,
    }


def operating_columns(point: Station) -> dict:
    """The same for an operating point at equal recall, with the two that it lies between where it is interpolated."""
    return {
        **identity_columns(point.result),
        "search_above": json.dumps(point.points[-1].identity.search_params) if point.interpolated else None,
        "weight_above": point.weights[-1] if point.interpolated else None,
        "recall": point.recall,
    }


def value_columns(name: str, measured: Measured | None) -> dict:
    """`x`, `x_low` and `x_high`; None where there is no value or no interval."""
    if measured is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: measured.value, f"{name}_low": measured.low, f"{name}_high": measured.high}


def failed_rows(results: Iterable[Result]) -> list[dict]:
    """A row for each failed point, so that a table hides as little as its figure."""
    return [
        {**identity_columns(result), "status": result.record.status, "reason": result.record.reason}
        for result in results
        if not result.ok
    ]


def all_rows(rows: Sequence[dict], results: Iterable[Result]) -> list[dict]:
    """The rows of what is drawn, then those of what failed."""
    return [{**row, "status": "ok"} for row in rows] + failed_rows(results)


def write(drawing: Drawing, paths: Sequence[Path], with_csv: bool) -> list[Path]:
    """Save the figure under each path, and its table beside the first with the suffix .csv.

    Returns:
        what was written.

    Raises:
        OSError: it cannot be written there.
    """
    save(drawing.figure, paths)
    if not with_csv:
        return list(paths)
    table = table_path(paths)
    content = StringIO()
    columns = dict.fromkeys(name for row in drawing.rows for name in row)
    writer = csv.DictWriter(content, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(drawing.rows)
    write_whole(table, content.getvalue().encode())
    return [*paths, table]
