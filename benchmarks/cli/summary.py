"""What a person sees when a run is done: one row per operating point, each number with its interval."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.cli.common import WIDE
from benchmarks.cli.live import untouched_parameters
from benchmarks.metrics.registry import Measured, parse_metric
from benchmarks.metrics.table import DELTAS
from benchmarks.plan import Plan
from benchmarks.results.schema import label
from benchmarks.results.store import Result

METRICS = {"recall": "recall", **{f"robustness-{delta}": f"R-{delta}" for delta in DELTAS}, "qps": "QPS"}
SINGLE = {"latency-p50": "p50 ms", "latency-p99": "p99 ms"}
MEDIUM = 150  # columns that take an interval beneath its value; with fewer its ends stand beneath each other


def print_summary(console: Console, results: list[Result], plan: Plan, results_dir: Path) -> None:
    """The table, as wide as the terminal allows, then every failure with its log, and what is odd."""
    request = plan.request
    headings = METRICS | (SINGLE if request.mode == "single" else {})
    metrics = [parse_metric(name) for name in headings]
    untouched = untouched_parameters(plan)
    title = f"{escape(request.data.name)}, k = {request.k}, mode {request.mode}, threads {request.threads}"
    table = Table(title=f"{title}, n = {request.data.nq:,} queries", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("operating point", overflow="fold")
    for heading in headings.values():
        table.add_column(heading, justify="right", no_wrap=True)
    between, dash = (" ", "–") if console.width >= WIDE else ("\n", "–") if console.width >= MEDIUM else ("\n", "\n")
    for result in sorted(results, key=lambda result: _rank(result, [item.name for item, _ in request.algorithms])):
        identity, hidden = result.identity, untouched[result.identity.algorithm]
        seed = {"seed": identity.seed} if len(request.seeds) > 1 else {}
        build, search = (
            "" if text == "default" else escape(text)
            for text in (label({**identity.build_params, **seed}, hidden), label(identity.search_params, hidden))
        )
        point = f"[bold]{identity.algorithm}[/] {search}{between}[dim]{build}[/]".rstrip()
        if result.ok:
            values = [_cell(metric.compute(result), metric.definition.kind, between, dash) for metric in metrics]
            table.add_row(point, *values)
        else:
            table.add_row(point, f"[red]{result.record.status}[/]", *[""] * (len(metrics) - 1))
    console.print(table)
    console.print(
        "Beside or beneath each value its 95 % interval over the queries; R-δ is the share of queries with recall ≥ δ. "
        "QPS: median, with the slowest and fastest repeat.",
        highlight=False,
        soft_wrap=True,
        style="dim",
    )
    _print_failures(console, [result for result in results if not result.ok], untouched, results_dir)
    for result in results:
        if result.record.answers_vary:
            console.print(
                f"note: {result.identity.algorithm} {escape(result.identity.label())} returned other ids in a "
                "later repeat; those of the first are counted",
                highlight=False,
                soft_wrap=True,
            )
    _print_deviations(console, [result for result in results if result.ok], untouched)


def _rank(result: Result, algorithms: list[str]) -> tuple:
    """Order of the rows: as the algorithms were named, then by the values of the parameters."""
    identity = result.identity
    values = (*identity.build_params.values(), identity.seed, *identity.search_params.values())
    return algorithms.index(identity.algorithm), [(isinstance(value, str), value) for value in values]


def _cell(measured: Measured | None, kind: str, between: str, dash: str) -> str:
    if measured is None:
        return ""
    if measured.low is None:
        return _number(measured.value, kind)
    interval = f"{_number(measured.low, kind)}{dash}{_number(measured.high, kind)}"
    return f"{_number(measured.value, kind)}{between}[dim]{interval}[/]"


def _number(value: float, kind: str) -> str:
    if kind == "quality":
        return f"{value:.4f}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _print_deviations(console: Console, results: list[Result], untouched: dict[str, set[str]]) -> None:
    """One line for each thing that was not as asked; points that share it share the line."""
    points: dict[tuple[str, str], list[str]] = {}
    for result in results:
        identity = result.identity
        point = label({**identity.build_params, **identity.search_params}, untouched[identity.algorithm])
        for line in result.record.deviations:
            points.setdefault((identity.algorithm, line), []).append(point)
    for (algorithm, line), labels in points.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        console.print(
            f"note: {algorithm} {escape(labels[0])}{more}: its speed is doubtful: {escape(line)}",
            highlight=False,
            soft_wrap=True,
        )


def _print_failures(console: Console, failed: list[Result], untouched: dict[str, set[str]], results_dir: Path) -> None:
    """One line per cause: points that failed for the same reason share it."""
    causes: dict[tuple, list[str]] = {}
    for result in failed:
        record, identity = result.record, result.identity
        point = label({**identity.build_params, **identity.search_params}, untouched[identity.algorithm])
        causes.setdefault((identity.algorithm, record.status, record.reason, record.log), []).append(point)
    for (algorithm, status, reason, log), points in causes.items():
        more = f" and {len(points) - 1} more" if len(points) > 1 else ""
        where = f" (log: {results_dir / log})" if log else ""
        console.print(
            f"[red]{algorithm} {escape(points[0])}{more}: {status}: {escape(reason or '')}{escape(where)}[/]",
            highlight=False,
            soft_wrap=True,
        )
