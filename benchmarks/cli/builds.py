"""What a person sees of points that were built with several seeds."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.builds import group_builds, parts, pool, pool_speed
from benchmarks.metrics.registry import parse_metric
from benchmarks.metrics.table import DELTAS
from benchmarks.results.store import Result
from benchmarks.statistics.levels import Split
from benchmarks.statistics.power import largest_provable_share

METRICS = ("recall", "robustness-0.1", "robustness-0.5", "robustness-0.9")


def print_builds(console: Console, results: list[Result]) -> None:
    """One row for each metric of each point that has several builds; nothing where there is none."""
    groups = [group for group in group_builds(results) if len(group) > 1]
    if not groups:
        return
    table = Table(title="Over builds and queries", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("operating point", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for heading in ("builds", "mean", "95 %", "one more build", "variance: build", "query", "repeat", "rest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        point = f"{group[0].identity.algorithm} {group[0].identity.label()}"
        for name in METRICS:
            found = pool(group, parse_metric(name))
            if found is not None:
                ends = _ends(found.low, found.high), _ends(found.new_low, found.new_high)
                cells = (str(found.builds), f"{found.value:.4f}", *ends)
                table.add_row(escape(point), name, *cells, *_shares(found.split, found.n))
                point = ""
        speed = pool_speed(group)
        split = _shares(speed.split, 1, group[0].record.repeats) if speed.split else [""] * 4
        ends = f"{speed.low:,.0f}–{speed.high:,.0f}"
        table.add_row(escape(point), "QPS", str(speed.builds), f"{speed.value:,.0f}", ends, "", *split)
    console.print(table)
    console.print(
        "95 %: interval of the mean over all builds and all queries (QPS: slowest and fastest build); one more build: "
        "what another seed may show. Variance: where the scatter of what a single build shows comes from (for QPS, of "
        "its logarithm); rest is what one build does with single queries.",
        highlight=False,
        soft_wrap=True,
        style="dim",
    )


def print_limit(console: Console, results: list[Result]) -> None:
    """One line where a robustness is higher than its n can show."""
    metrics = [parse_metric(f"robustness-{delta}") for delta in DELTAS]
    beyond = sorted(
        {
            result.record.nq
            for result in results
            for metric in metrics
            if (found := metric.compute(result)) and found.value > largest_provable_share(result.record.nq)
        }
    )
    for n in beyond:
        console.print(
            f"note: {n:,} queries cannot show a robustness above {largest_provable_share(n):.4f}, even where all of "
            "them reached δ",
            highlight=False,
            soft_wrap=True,
        )


def _ends(low: float, high: float) -> str:
    return f"{low:.4f}–{high:.4f}"


def _shares(split: Split, n: int, repeats: int = 1) -> list[str]:
    found = parts(split, n, repeats)
    return [f"{found[name]:.1%}" if name in found else "" for name in ("build", "query", "repeat", "rest")]
