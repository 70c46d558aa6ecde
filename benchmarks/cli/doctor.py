"""`python -m benchmarks doctor`: what makes timings unstable on this machine, why it matters and what mends it."""

import argparse
import statistics

from rich.console import Console

from benchmarks.cli.common import Parser, add_machine_options, guarded, make_console, positive
from benchmarks.hardware import describe_machine, place_here
from benchmarks.hardware.conditions import read_conditions
from benchmarks.hardware.doctor import Finding, examine
from benchmarks.hardware.repeat import time_work

LOOK_SECONDS = 1.0
REPEATS, LEAST_REPEATS = 30, 5
STEADY, SHAKY = 0.02, 0.05  # coefficient of variation
EXAMPLES = """
examples:
  python -m benchmarks doctor
  python -m benchmarks doctor --machine socket64
  python -m benchmarks doctor --measure --threads 8

exit code: 0, whatever is found; 2 where the machine is smaller than --machine or --threads asks for
"""


def run(options) -> int:
    """Look, tell, and time if asked to."""
    console = make_console()
    placement = place_here(options.machine, options.threads)
    machine = describe_machine()
    lines = [f"{machine.cpu}, {machine.logical_cpus} CPUs, {machine.memory_bytes / 1e9:.0f} GB, Linux {machine.kernel}"]
    for line in [*lines, placement.describe(), *placement.notes]:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    findings = examine(read_conditions(placement.cpus, LOOK_SECONDS))
    for finding in findings:
        print_finding(console, finding)
    count = len(findings)
    told = f"{count} thing{'s' * (count > 1)} that may make timings unstable" if count else "nothing that makes timings"
    console.print(f"\n{told if count else told + ' unstable was found'}", highlight=False, soft_wrap=True)
    if options.measure:
        seconds = time_work(placement.cpus, options.measure)
        console.print(describe_spread(seconds), highlight=False, soft_wrap=True)
    return 0


def print_finding(console: Console, finding: Finding) -> None:
    """What was seen, why it matters, what mends it."""
    for text, style in (
        (f"\n{finding.short}", "bold"),
        (f"  why:  {finding.why}", None),
        (f"  mend: {finding.mend}", None),
    ):
        console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)


def describe_spread(seconds: list[float]) -> str:
    """How far the repeats of one piece of work lie apart, and what that means."""
    average = statistics.mean(seconds)
    spread = statistics.pstdev(seconds) / average
    if spread < STEADY:
        means = "timings repeat here"
    elif spread < SHAKY:
        means = f"a difference in speed of less than {2 * spread:.0%} means nothing without more --repeats"
    else:
        means = "timings do not repeat here; mend the above, or measure elsewhere or later"
    return (
        f"the same work {len(seconds)} times: {average * 1e3:.1f} ms on average, {min(seconds) * 1e3:.1f} to "
        f"{max(seconds) * 1e3:.1f} ms, coefficient of variation {spread:.1%}: {means}"
    )


def several(text: str) -> int:
    """How often to measure: a spread needs a few."""
    number = positive(text)
    if number < LEAST_REPEATS:
        raise argparse.ArgumentTypeError(f"must be at least {LEAST_REPEATS}, to show a spread")
    return number


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks doctor",
        epilog=EXAMPLES,
        description="What makes timings unstable on this machine: what was seen, why it matters, what mends it.\n"
        "Nothing is changed. The same findings, in short, are stored with every result.",
    )
    add_machine_options(parser)
    parser.add_argument(
        "--measure",
        nargs="?",
        type=several,
        const=REPEATS,
        metavar="N",
        help=f"also time a fixed piece of work on the chosen CPUs, N times (default: {REPEATS}, some seconds)",
    )
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
