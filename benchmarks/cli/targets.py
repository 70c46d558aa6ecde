"""What a person sees of the searches for target recalls: where they look, and what they found."""

from rich.console import Console

from benchmarks.analysis.numbers import number
from benchmarks.analysis.stations import station_at
from benchmarks.cli.live import untouched_parameters
from benchmarks.cli.rows import cell, describe_point, headings, layout, make_table
from benchmarks.metrics.registry import parse_metric
from benchmarks.plan import Plan
from benchmarks.results.store import Result
from benchmarks.seek import Hunt, Outcome


def print_targets(console: Console, results: dict[str, Result], plan: Plan, hunt: Hunt) -> list[Result]:
    """A table with the point, or points, that each search found. Returns what it shows."""
    request, untouched = plan.request, untouched_parameters(plan)
    metrics = [parse_metric(name) for name in headings(request.mode, few=True)]
    table = make_table(request, "found", "target", "", *headings(request.mode, few=True).values())
    between, dash = layout(console)
    shown = []
    for outcome in hunt.outcomes():
        seek, found = outcome.seek, outcome.found
        target = f"{outcome.target.recall:g}{between}[dim]± {outcome.target.tolerance:g}[/]"
        points = [results[seek.identity(point.value).hash()] for point in found.points] if found else []
        if not points:
            name = f"[bold]{seek.template.algorithm}[/]"
            table.add_row(name, target, f"[red]{verdict(outcome)}[/]", *[""] * len(metrics))
        for position, result in enumerate(points):
            said = verdict(outcome) if len(points) == 1 else ("below", "above")[position]
            point = describe_point(result.identity, untouched, len(request.seeds) > 1, between)
            values = [cell(metric.compute(result), metric.definition.unit, between, dash) for metric in metrics]
            table.add_row(point, target, said, *values)
        if len(points) == 2:
            line = [result for result in results.values() if result.ok and seek.owns(result.identity)]
            station = station_at([line], outcome.target.recall)
            ends = "…".join(str(point.identity.search_params[seek.parameter]) for point in station.points)
            params = {**seek.template.search_params, seek.parameter: ends}
            identity = seek.template.model_copy(update={"search_params": params})
            name = describe_point(identity, untouched, len(request.seeds) > 1, between)
            values = [station.combine(metric.compute) for metric in metrics]
            cells = [
                cell(value, metric.definition.unit, between, dash)
                for value, metric in zip(values, metrics, strict=True)
            ]
            table.add_row(name, target, "interpolated", *cells, style="italic")
        shown += points
    console.print(table)
    measured = {hash for seek in plan.seeks for hash, result in results.items() if seek.owns(result.identity)}
    others = len(measured - {result.identity.hash() for result in shown})
    if others:
        console.print(
            f"{others} other point{'s are' if others > 1 else ' is'} known of these builds; "
            "python -m benchmarks export has them",
            highlight=False,
            soft_wrap=True,
            style="dim",
        )
    return shown


def verdict(outcome: Outcome) -> str:
    """How a search ended, in a few words."""
    seek, found = outcome.seek, outcome.found
    if found is None:
        return "not measured"
    words = {
        "met": "met",
        "above": f"more even at {seek.parameter}={number(seek.span.low, 'value')}, the least",
        "below": f"less even at {seek.parameter}={number(seek.span.high, 'value')}, the most",
        "flat": f"less; more {seek.parameter} does not help",
        "failed": "failed" if not found.points else "failed; this is the nearest",
    }
    return words[found.outcome]
