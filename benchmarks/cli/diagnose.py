"""`python -m benchmarks diagnose`: one line for each known bad shape in what was measured."""

from rich.console import Console

from benchmarks.analysis.diagnose import Finding, diagnose, shapes
from benchmarks.analysis.series import series
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli.common import POINTS_FAILED, Parser, guarded, make_console
from benchmarks.cli.selection import add_selection, select


def run(options) -> int:
    """Look at every series; 1 if something is wrong."""
    options.mix = True  # each series is of one kind anyway
    results = select(options)
    algorithms = find_algorithms()
    findings = diagnose(results, algorithms)
    print_findings(make_console(), findings)
    looked_at = len(series(results, algorithms))
    print(f"{looked_at} series of {len(results)} points: {len(findings)} findings")
    return POINTS_FAILED if findings else 0


def print_findings(console: Console, findings: list[Finding]) -> None:
    """One line each."""
    for finding in findings:
        console.print(f"{finding.shape}: ", style="yellow", end="")
        console.print(finding.line(), highlight=False, markup=False, soft_wrap=True)


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks diagnose",
        description="Look for known bad shapes in results, with the cause of each and the check behind it:\n"
        f"{', '.join(shapes())}.",
        epilog="exit codes: 0 nothing found · 1 something found · 2 bad input · 130 interrupted",
    )
    add_selection(parser)
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
