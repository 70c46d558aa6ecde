"""What a person sees when a run is done: one row per operating point, each number with its interval."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.diagnose import diagnose
from benchmarks.cli.builds import print_builds, print_limit
from benchmarks.cli.diagnose import print_findings
from benchmarks.cli.live import untouched_parameters
from benchmarks.cli.rows import cell, describe_point, headings, layout, make_table
from benchmarks.cli.targets import print_targets
from benchmarks.metrics.registry import parse_metric
from benchmarks.plan import Plan
from benchmarks.results.schema import ResultRecord, label
from benchmarks.results.store import Result
from benchmarks.seek import Hunt


def print_summary(
    console: Console,
    results: dict[str, Result],
    plan: Plan,
    records: list[ResultRecord],
    hunt: Hunt,
    results_dir: Path,
) -> None:
    """The tables, as wide as the terminal allows, then every failure with its log, and what is odd.

    Args:
        results: of the data set, by the hash of the point; those that the plan names are shown.
        records: of the points that were measured now.
        hunt: the searches for target recalls, which have a table of their own.
    """
    planned = [*(point for job in plan.jobs for point in job.points), *plan.complete]
    points = [point.hash() for point in planned if not any(seek.owns(point) for seek in plan.seeks)]
    shown = [results[point] for point in dict.fromkeys(points) if point in results]
    if shown or not plan.seeks:
        console.print(_points(console, shown, plan))
    sought = print_targets(console, results, plan, hunt) if plan.seeks else []
    more = " An interpolated row is what lies between the two above it." if sought else ""
    console.print(
        "Beside or beneath each value its 95 % interval over the queries; R-δ is the share of queries with recall ≥ δ. "
        f"QPS: median, with the slowest and fastest repeat.{more}",
        highlight=False,
        soft_wrap=True,
        style="dim",
    )
    print_builds(console, [*shown, *sought])
    print_limit(console, [*shown, *sought])
    new = [results[record.identity.hash()] for record in records if record.identity.hash() in results]
    told = list({id(result): result for result in [*shown, *sought, *new]}.values())
    untouched = untouched_parameters(plan)
    _print_failures(console, [result for result in told if not result.ok], untouched, results_dir)
    for result in told:
        if result.record.answers_vary:
            console.print(
                f"note: {result.identity.algorithm} {escape(result.identity.label())} returned other ids in a "
                "later repeat; those of the first are counted",
                highlight=False,
                soft_wrap=True,
            )
    _print_deviations(console, [result for result in told if result.ok], untouched)
    print_findings(console, diagnose(told, {item.name: item for item, _ in plan.request.algorithms}))


def _points(console: Console, results: list[Result], plan: Plan) -> Table:
    """One row for each point."""
    request = plan.request
    metrics = [parse_metric(name) for name in headings(request.mode)]
    untouched = untouched_parameters(plan)
    table = make_table(request, "operating point", *headings(request.mode).values())
    between, dash = layout(console)
    for result in sorted(results, key=lambda result: _rank(result, [item.name for item, _ in request.algorithms])):
        point = describe_point(result.identity, untouched, len(request.seeds) > 1, between)
        if result.ok:
            values = [cell(metric.compute(result), metric.definition.unit, between, dash) for metric in metrics]
            table.add_row(point, *values)
        else:
            table.add_row(point, f"[red]{result.record.status}[/]", *[""] * (len(metrics) - 1))
    return table


def _rank(result: Result, algorithms: list[str]) -> tuple:
    """Order of the rows: as the algorithms were named, then by the values of the parameters."""
    identity = result.identity
    values = (*identity.build_params.values(), identity.seed, *identity.search_params.values())
    return algorithms.index(identity.algorithm), [(isinstance(value, str), value) for value in values]


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
