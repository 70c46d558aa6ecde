"""`python -m benchmarks list`: what there is to measure, and what has been measured."""

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cards.datasets import find_datasets, load_dataset_card
from benchmarks.cli.common import Parser, add_results_dir, guarded, make_console, warn
from benchmarks.errors import UserError
from benchmarks.results.store import Store
from benchmarks.suites import Suite, find_suites
from benchmarks.yamlfile import load_yaml

KINDS = ("datasets", "algorithms", "suites", "results")


def run(options) -> int:
    """Print the tables asked for; a broken card is a line, not the end."""
    console = make_console()
    chosen = options.what or KINDS
    failed = False
    if "datasets" in chosen:
        table = _table(
            "data sets (datasets/*.yml)", "name", "distance", "dtype", "dimension", "base", "queries", "title"
        )
        for path in find_datasets().values():
            try:
                card = load_dataset_card(path)
            except UserError as error:
                warn(str(error))
                failed = True
                continue
            rows = [f"{number:,}" if number else "?" for number in card.expected_rows()]
            table.add_row(
                card.name, card.distance, card.dtype or "?", str(card.dimension or "?"), *rows, escape(card.title)
            )
        console.print(table)
    if "algorithms" in chosen:
        table = _table(
            "algorithms (algorithms/*/algorithm.yml)",
            "name",
            "library",
            "version",
            "family",
            "distances",
            "parameters",
            "description",
        )
        for algorithm in find_algorithms().values():
            parameters = " ".join(
                f"{name}{'' if item.stage == 'build' else '*'}" for name, item in algorithm.offer.parameters.items()
            )
            table.add_row(
                algorithm.name,
                algorithm.library.library,
                algorithm.library.version,
                algorithm.offer.family,
                " ".join(algorithm.offer.distances),
                parameters,
                escape(algorithm.offer.description),
            )
        console.print(table)
        console.print("* search parameter: changes without a new build", style="dim")
    if "suites" in chosen:
        failed = _list_suites(console) or failed
    if "results" in chosen:
        _list_results(console, Store(options.results_dir))
    return 2 if failed else 0


def _list_suites(console: Console) -> bool:
    """Print them; whether one is broken."""
    failed = False
    table = _table("suites (configs/suites/*.yml)", "name", "scale", "parts", "figures", "what")
    for name, path in find_suites().items():
        try:
            suite = load_yaml(path, Suite)
        except UserError as error:
            warn(str(error))
            failed = True
            continue
        for scale, item in suite.scales.items():
            what = escape(f"{suite.title}: {item.about}")
            table.add_row(name, scale, str(len(item.parts)), str(len(item.figures)), what)
    console.print(table)
    return failed


def _list_results(console: Console, store: Store) -> None:
    count: Counter = Counter()
    for result in store.results(warn=warn):
        identity = result.identity
        count[
            (
                identity.dataset,
                identity.algorithm,
                identity.k,
                identity.mode,
                "?" if identity.threads is None else identity.threads,
                "ok" if result.ok else "failed",
            )
        ] += 1
    table = _table(f"results ({store.folder})", "data set", "algorithm", "k", "mode", "threads", "points", "failed")
    for key in sorted({key[:-1] for key in count}, key=lambda key: (*key[:4], key[4] == "?", key[4])):
        table.add_row(
            *(escape(str(each)) for each in key), str(count[(*key, "ok")]), str(count[(*key, "failed")] or "")
        )
    console.print(table if count else f"results ({store.folder}): none yet")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0, overflow="fold")
    return table


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(prog="python -m benchmarks list", description="Data sets, algorithms and results.")
    parser.add_argument("what", nargs="*", metavar="|".join(KINDS), help="one or more of them (default: all)")
    add_results_dir(parser)
    options = parser.parse_args(argv)
    for what in options.what:
        if what not in KINDS:
            parser.error(f"cannot list '{what}'; choose from {', '.join(KINDS)}")
    guarded(lambda: run(options))
