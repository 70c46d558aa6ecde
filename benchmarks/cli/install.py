"""`python -m benchmarks install`: the environments of index libraries, one line of status each."""

import time

from benchmarks.cards import find_algorithms, unknown_name
from benchmarks.cli.common import POINTS_FAILED, Parser, guarded
from benchmarks.paths import ENVIRONMENTS
from benchmarks.progress import Progress
from benchmarks.runner.environment import EnvironmentFailure, ensure_environment


def run(options) -> int:
    """Build what is asked for; one failure does not stop the rest."""
    known = find_algorithms()
    for name in options.algorithm or ():
        if name not in known:
            raise unknown_name("algorithm", name, list(known), f"known: {', '.join(known)}")
    libraries = {known[name].directory.name: known[name].library for name in options.algorithm or known}
    failed = 0
    for folder, library in sorted(libraries.items()):
        start = time.monotonic()
        try:
            with Progress().task(f"installing {folder}", None):
                environment = ensure_environment(library, ENVIRONMENTS, rebuild=options.force)
            print(f"{folder}: ready ({environment.python}, {time.monotonic() - start:.0f} s)")
        except EnvironmentFailure as failure:
            failed += 1
            print(f"{folder}: failed: {failure}")
    return POINTS_FAILED if failed else 0


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(prog="python -m benchmarks install", description="Build the environments of index libraries.")
    parser.add_argument("--algorithm", action="append", metavar="NAME", help="may be repeated (default: all)")
    parser.add_argument("--force", action="store_true", help="build them afresh")
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
