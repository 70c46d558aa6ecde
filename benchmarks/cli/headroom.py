"""`python -m benchmarks headroom`: the price of robustness, and what adaptive search could save of it."""

import argparse

from rich import box
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.advise import show
from benchmarks.analysis.headroom import Headroom, headroom
from benchmarks.analysis.select import describe, require_ok
from benchmarks.analysis.series import series
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli.common import Parser, folder, guarded, make_console, warn
from benchmarks.cli.selection import add_selection, select
from benchmarks.errors import UserError
from benchmarks.figures.headroom import draw_headroom
from benchmarks.figures.theme import FORMATS, save
from benchmarks.metrics.quality import parse_delta
from benchmarks.metrics.registry import parse_metric


def run(options) -> int:
    """Compare, print, draw."""
    qps = parse_metric("qps")
    results = select(options, [qps])
    require_ok(results)
    untimed = [result for result in results if result.ok and qps.compute(result) is None]
    if untimed:
        warn(f"{len(untimed)} imported points have no times and are left out")
        results = [result for result in results if result not in untimed]
    several = [each for each in series(results, find_algorithms()) if len(each.points) > 1]
    if not several:
        raise UserError(
            "no build was searched with more than one effort; measure a sweep, "
            "such as --set faiss-hnsw.efSearch=16,32,64,128"
        )
    found = [headroom(each, options.delta) for each in several]
    console = make_console()
    console.print(describe(results), highlight=False, soft_wrap=True, markup=False)
    console.print(table_of(found))
    console.print(
        f"robustness: share of queries that find {float(options.delta):g} of their neighbours. perfect QPS: each query "
        "with the cheapest measured setting that finds them, as many queries reaching it. × is the most that adaptive "
        "search could gain.",
        highlight=False,
        soft_wrap=True,
        style="dim",
    )
    if options.out:
        save(draw_headroom(found), [options.out])
        print(options.out)
    return 0


def table_of(found: list[Headroom]) -> Table:
    """One row for each point, with the price of the step from the one before."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("build", overflow="fold")
    for heading in ("effort", "robustness", "QPS", "QPS for each 0.001 more", "perfect QPS", "×"):
        table.add_column(heading, justify="right")
    for each in found:
        before = None
        for step in each.steps:
            price = ""
            if before and step.robustness > before.robustness:
                price = show((before.qps - step.qps) / (step.robustness - before.robustness) / 1000)
            effort = f"{each.series.knob}={each.series.value(step.point):g}"
            table.add_row(
                escape(each.series.name()) if before is None else "",
                escape(effort),
                f"{step.robustness:.4f}",
                show(step.qps),
                price,
                show(step.adaptive_qps),
                f"{step.headroom:.2f}",
            )
            before = step
    return table


def delta(text: str):
    """δ, exactly as typed."""
    try:
        return parse_delta(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks headroom",
        description="From a sweep that is measured: what each step of robustness costs in speed, and how fast a\n"
        "search would be that chose for every query the least effort that reaches δ.",
    )
    parser.add_argument("--delta", type=delta, default=delta("0.9"), metavar="δ", help="recall to reach (default: 0.9)")
    parser.add_argument("--out", type=folder, metavar="FILE", help=f"draw it too ({', '.join(FORMATS)})")
    add_selection(parser)
    options = parser.parse_args(argv)
    if options.out and options.out.suffix.lstrip(".").lower() not in FORMATS:
        parser.error(f"--out {options.out}: the name must end in {', '.join('.' + each for each in FORMATS)}")
    guarded(lambda: run(options))
