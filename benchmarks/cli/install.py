"""`python -m benchmarks install`: the environments or images of index libraries, one line of status each."""

import argparse
import os
import time
from dataclasses import replace

from benchmarks.cards.algorithms import LibraryCard, find_algorithms
from benchmarks.cli.common import POINTS_FAILED, Parser, folder, guarded
from benchmarks.errors import UserError, unknown_name
from benchmarks.paths import ENVIRONMENTS
from benchmarks.progress import Progress
from benchmarks.runner.choose import RUNNERS
from benchmarks.runner.environment import EnvironmentFailure, ensure_environment

EXAMPLES = """
examples:
  python -m benchmarks install
  python -m benchmarks install --runner docker --algorithm faiss-hnsw --algorithm scann
  python -m benchmarks install --runner docker --ca-bundle /etc/ssl/certs/ca-certificates.crt
  python -m benchmarks install --algorithm puck --build-arg PY_PUCK_API=path/to/module

The last three options may also be in the environment, where run.py finds them too: ROBUST_ANN_PYTHON_IMAGE (the image
that all others start from), ROBUST_ANN_CA_BUNDLE, ROBUST_ANN_BUILD_NETWORK. Proxies and PIP_INDEX_URL are passed on.
"""


def run(options) -> int:
    """Build what is asked for; one failure does not stop the rest."""
    known = find_algorithms()
    for name in options.algorithm or ():
        if name not in known:
            raise unknown_name("algorithm", name, list(known), f"known: {', '.join(known)}")
    libraries = {known[name].directory.name: known[name].library for name in options.algorithm or known}
    arguments = dict(options.build_arg)
    for library in libraries.values():
        if library.supplied and library.supplied.variable in arguments:
            os.environ[library.supplied.variable] = arguments.pop(library.supplied.variable)
    if options.runner == "venv":
        if arguments:
            raise UserError(f"--build-arg {next(iter(arguments))}: goes with --runner docker")
        build = into_environment
    else:
        build = image_builder(arguments, options)
    failed = 0
    for name, library in sorted(libraries.items()):
        start = time.monotonic()
        missing = library.supplied and library.unavailable(os.environ)
        if missing and not options.algorithm:
            print(f"{name}: left out: {missing}", flush=True)
            continue
        try:
            with Progress().task(f"installing {name}", None):
                made = build(library, options.force)
            print(f"{name}: ready ({made}, {time.monotonic() - start:.0f} s)", flush=True)
        except EnvironmentFailure as failure:
            failed += 1
            print(f"{name}: failed: {failure}", flush=True)
    return POINTS_FAILED if failed else 0


def into_environment(library: LibraryCard, force: bool) -> str:
    """Make sure of a library's environment; returns what to call it."""
    return str(ensure_environment(library, ENVIRONMENTS, rebuild=force).python)


def image_builder(arguments: dict[str, str], options):
    """A function like `into_environment` that makes sure of a library's image."""
    from benchmarks.runner.docker import image_log
    from benchmarks.runner.images import BuildOptions, connect, ensure_image, forget_base

    client, given = connect(), BuildOptions.from_environment()
    given = replace(
        given,
        arguments={**given.arguments, **arguments},
        ca_bundle=options.ca_bundle or given.ca_bundle,
        network=options.build_network or given.network,
    )

    if options.force:
        forget_base(client)

    asked = arguments or options.ca_bundle or options.build_network

    def into_image(library: LibraryCard, force: bool) -> str:
        built = []
        image = ensure_image(
            client, library, given, image_log(library.directory.name), force, lambda: built.append(True)
        )
        old = "" if built or not asked else "; built before: --force builds it as you ask now"
        return image[:19] + old

    return into_image


def assignment(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"the form is NAME=VALUE, not '{text}'")
    return name, value


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks install",
        description="Build the environments of index libraries, or their images.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--algorithm", action="append", metavar="NAME", help="may be repeated (default: all)")
    parser.add_argument("--runner", choices=RUNNERS, default="venv", help="what to build for (default: venv)")
    parser.add_argument("--force", action="store_true", help="build them afresh")
    parser.add_argument(
        "--build-arg",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="argument of the Dockerfiles, such as PYTHON_IMAGE=python:3.12-slim, or what a library needs supplied",
    )
    parser.add_argument(
        "--ca-bundle", type=folder, metavar="FILE", help="certificates that pip must trust inside the images"
    )
    parser.add_argument("--build-network", metavar="NAME", help="network of the builds, such as host")
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
