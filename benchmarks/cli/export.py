"""`python -m benchmarks export`: one row per operating point, as CSV, JSON or Parquet; or files for other harnesses."""

import io
import json
import sys

import pandas as pd

from benchmarks.cli.common import Parser, add_results_dir, folder, guarded, warn
from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.metrics.registry import definitions, parse_metric
from benchmarks.metrics.table import (
    DEFAULT_METRICS,
    POINT_COLUMNS,
    parameters_as_text,
    points_table,
)
from benchmarks.progress import Progress
from benchmarks.results import ann_export
from benchmarks.results.importers import ann_benchmarks as ann_importer
from benchmarks.results.store import Store

TABLES = ("csv", "json", "parquet")
FORMATS = (*TABLES, ann_importer.NAME)


def run(options) -> int:
    """Write the table, or the meaning of its columns."""
    metrics = [parse_metric(name) for name in dict.fromkeys([*DEFAULT_METRICS, *options.metric])]
    if options.columns:
        print(describe_columns(metrics))
        return 0
    if options.format == "parquet" and not options.out:
        raise UserError("--format parquet needs --out FILE")
    if options.format == ann_importer.NAME:
        if not options.out or options.out.is_file():
            raise UserError(f"--format {options.format} needs --out DIR, a folder for the files")
        if options.metric:
            raise UserError(f"--metric does not go with --format {options.format}, which has no columns")
    store = Store(options.results_dir)
    results = list(store.results(options.dataset, warn))
    if not results:
        there = sorted({path.parent.parent.name for path in store.files()})
        what = f" of data set {options.dataset}; there is {', '.join(there) or 'nothing'}" if options.dataset else ""
        raise UserError(f"{store.folder}: holds no results{what}")
    if options.format == ann_importer.NAME:
        return write_files(results, options)
    table = points_table(results, metrics)
    if options.format == "parquet":
        content = io.BytesIO()
        parameters_as_text(table).to_parquet(content, index=False)
        write_whole(options.out, content.getvalue())
    elif options.format == "csv":
        _write(parameters_as_text(table).to_csv(index=False), options.out)
    else:
        rows = [
            {name: None if value is pd.NA or value != value else value for name, value in row.items()}
            for row in table.astype(object).to_dict("records")
        ]
        _write(json.dumps(rows, indent=1) + "\n", options.out)
    if options.out:
        print(f"{len(table)} operating points: {options.out}", file=sys.stderr)
    return 0


def write_files(results, options) -> int:
    """One file for each point, below the folder --out."""
    paths = []
    with Progress().task(f"writing {len(results):,} files", len(results)) as task:
        for result in results:
            paths.append(ann_export.write_result(result, options.out))
            task.advance(1)
    without = paths.count(None)
    left_out = f"; {without} that failed or have no ids are left out" if without else ""
    print(f"{len(paths) - without} operating points: {options.out}{left_out}", file=sys.stderr)
    return 0


def describe_columns(metrics) -> str:
    """Every column of the export with its unit and meaning, as text."""
    lines = [f"{name}: {meaning}" for name, meaning in POINT_COLUMNS.items()]
    lines += [f"{item.name} [{item.definition.unit}]: {item.definition.meaning}" for item in metrics]
    lines.append(
        "<metric>_low, <metric>_high: 95 % interval over the queries (for qps: the slowest and fastest repeat)"
    )
    templates = ", ".join(item.template.replace("{", "<").replace("}", ">") for item in definitions())
    lines.append(f"more with --metric: {templates}, each with @K to restrict it to results of that K")
    return "\n".join(lines)


def _write(text: str, out) -> None:
    if out:
        write_whole(out, text.encode())
    else:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # data, whatever the terminal can show
        sys.stdout.write(text)


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks export",
        description="One row per operating point. In JSON, build, search and versions are objects, deviations a list;\n"
        "in CSV and Parquet they are JSON text. What a point does not have (a failed one, latency in batch mode)\n"
        f"is null.\n\n{ann_export.MEANING}",
    )
    parser.add_argument("--format", choices=FORMATS, help="default: what --out ends in; csv where it has no ending")
    parser.add_argument("--dataset", metavar="NAME", help="only this data set (default: all)")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="one more column, such as robustness-0.2 or latency-p99.9; may be repeated",
    )
    parser.add_argument("--columns", action="store_true", help="print what every column means, and stop")
    parser.add_argument("--out", type=folder, metavar="FILE", help="file, or folder (default: standard output)")
    add_results_dir(parser)
    options = parser.parse_args(argv)
    ending = options.out.suffix[1:].lower() if options.out else ""
    if not options.format and ending and ending not in TABLES:
        known = ", ".join(f".{name}" for name in TABLES)
        parser.error(f"--out {options.out}: the endings are {known}; for another name say which with --format")
    options.format = options.format or ending or "csv"
    guarded(lambda: run(options))
