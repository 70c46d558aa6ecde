"""`python -m benchmarks verify`: every check of a data set, one line each."""

from benchmarks.cli.common import POINTS_FAILED, Parser, add_data_options, guarded, make_console, positive
from benchmarks.data.prepare import resolve_dataset
from benchmarks.data.verify import FAILURE, OK, WARNING, verify
from benchmarks.hardware import place_here
from benchmarks.progress import Progress

STYLES = {OK: "green", WARNING: "yellow", FAILURE: "red"}


def run(options) -> int:
    """Print the findings as they come; 1 if a check failed."""
    console = make_console()
    threads = place_here("all" if options.threads else "auto", options.threads).threads
    card = resolve_dataset(options.dataset, options.distance, options.queries)
    count = dict.fromkeys(STYLES, 0)
    for finding in verify(card, options.data_dir, options.k, threads, Progress()):
        count[finding.level] += 1
        console.print(f"{finding.level:8}", style=STYLES[finding.level], end="")
        console.print(f"{finding.check}: {finding.text}", highlight=False, markup=False, soft_wrap=True)
    print(f"{card.name}: passed {count[OK]}, warnings {count[WARNING]}, failures {count[FAILURE]}")
    return POINTS_FAILED if count[FAILURE] else 0


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks verify",
        description="Check a data set: files against headers and card, types, NaN, zero vectors, duplicates, norms,\n"
        "whether queries are base vectors, and the ground truth that came with it, of which 100 rows are recomputed.\n"
        "One line each; memory is bounded, whatever the size.",
        epilog="exit codes: 0 nothing failed · 1 a check failed · 2 bad input · 130 interrupted",
    )
    add_data_options(parser)
    parser.add_argument(
        "--k", type=positive, default=10, help="neighbours that supplied ground truth must have (default: 10)"
    )
    parser.add_argument("--threads", type=positive, help="threads (default: all, at most 64)")
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
