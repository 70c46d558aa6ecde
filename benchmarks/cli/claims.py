"""`python -m benchmarks claims`: what the paper found, held against our results."""

import json
import textwrap
from pathlib import Path

from benchmarks.analysis.checks.registry import kinds
from benchmarks.analysis.claims import SUITE, judge, load_claims
from benchmarks.analysis.measured import Measured
from benchmarks.analysis.verdicts import as_data, as_markdown, as_text, counts_line
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli.common import Parser, add_results_dir, folder, guarded, warn
from benchmarks.cli.selection import add_filters
from benchmarks.errors import UserError, unknown_name
from benchmarks.files import write_whole
from benchmarks.paths import RESULTS
from benchmarks.results.store import Store

FILTERS = ("mode", "threads", "distance", "data")
FORMATS = {"text": ".txt", "markdown": ".md", "json": ".json"}

DESCRIPTION = """What the paper found, as statements in configs/suites/paper-claims.yml, each held against our results.

For each statement: the paper's figures, ours, the interval, n, and a verdict that follows from them alone:
  reproduced            every comparison of it was shown
  not reproduced        the opposite of one was shown
  undecided at this n   an interval straddles; says how large a difference n could have shown
  not measured          says which results are missing, and the command that measures them
"""

EXAMPLES = """examples:
  python -m benchmarks claims                                          the small scale, on the stand-ins
  python -m benchmarks claims --scale 10M --format markdown --out claims.md
  python -m benchmarks claims --dataset deep-10M=glove-50-6b           our data set in place of the paper's
  python -m benchmarks claims --claim text2image-tail-scann --index HNSW=hnswlib
"""


def run(options) -> int:
    """Judge, and print or write."""
    suite = load_claims(options.suite_file)
    if options.scale not in suite.scales:
        raise unknown_name("scale", options.scale, list(suite.scales), f"known: {', '.join(suite.scales)}")
    scale = suite.scales[options.scale]
    scale = scale.model_copy(
        update={
            "datasets": {**scale.datasets, **_pairs("--dataset", options.dataset, scale.datasets)},
            "indexes": {**scale.indexes, **_pairs("--index", options.index, scale.indexes)},
        }
    )
    store = Store(options.results_dir)
    files = store.files()
    if not files:
        raise UserError(
            f"{store.folder}: no results there; measure with {scale.run or 'python run.py'}, or give another folder "
            "with --results-dir"
        )
    algorithms = find_algorithms()
    imported = {name for path in files if "@" in (name := path.parent.name)}
    for index, name in scale.indexes.items():
        if name in imported:
            warn(f"{index} is {name}, of no card here: claims about graph or partition indexes are made without it")
        elif name not in algorithms:
            hint = f"see the folder algorithms/; imported: {', '.join(sorted(imported)) or 'none'}"
            raise unknown_name("algorithm", name, [*algorithms, *sorted(imported)], hint)
    selection = {name: getattr(options, name) for name in FILTERS}
    measured = Measured(store, scale, algorithms, tolerance=suite.tolerance, selection=selection, warn=_once(warn))
    judgements = judge(suite, measured, options.claim)
    elsewhere = None if options.results_dir == RESULTS else options.results_dir
    if options.format == "json":
        content = json.dumps(as_data(suite, judgements, scale, elsewhere), indent=1, ensure_ascii=False) + "\n"
    elif options.format == "markdown":
        content = as_markdown(suite, judgements, scale)
    else:
        content = as_text(suite, judgements, scale, elsewhere)
    if options.out:
        write_whole(options.out, content.encode())
        print(f"{counts_line(judgements)}: {options.out}")
    else:
        print(content, end="")
    return 0


def _pairs(flag: str, given: list[str], known: dict) -> dict[str, str]:
    """`paper's name=ours` of an option.

    Raises:
        UserError: not of that form, or the scale has no such name.
    """
    pairs = {}
    for text in given:
        name, equals, ours = text.partition("=")
        if not (name and equals and ours):
            raise UserError(f"{flag} {text}: the form is the paper's name=ours, such as {next(iter(known), 'a')}=name")
        if name not in known:
            raise unknown_name(f"name in {flag}", name, list(known), f"known: {', '.join(known)}")
        pairs[name] = ours
    return pairs


def _once(tell):
    """The same line is told once."""
    told = set()

    def once(line: str) -> None:
        if line not in told:
            told.add(line)
            tell(line)

    return once


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    listing = "\n".join(
        textwrap.fill(kind.meaning, 110, initial_indent=f"  {name:11} ", subsequent_indent=" " * 14)
        for name, kind in kinds().items()
    )
    parser = Parser(
        prog="python -m benchmarks claims",
        description=DESCRIPTION,
        epilog=f"{EXAMPLES}\nkinds of checks in a file of claims (parameters: benchmarks/analysis/checks):\n{listing}",
    )
    parser.add_argument(
        "--suite-file", type=folder, default=SUITE, metavar="FILE", help="claims (default: the paper's)"
    )
    parser.add_argument("--scale", default="small", metavar="NAME", help="of the file: small (default) or 10M")
    parser.add_argument(
        "--dataset", action="append", default=[], metavar="PAPER=OURS", help="data set of ours for one of the paper's"
    )
    parser.add_argument(
        "--index", action="append", default=[], metavar="PAPER=OURS", help="algorithm for one of the paper's indexes"
    )
    parser.add_argument("--claim", action="append", default=[], metavar="ID", help="only this one; repeatable")
    add_filters(parser, *FILTERS)
    parser.add_argument("--format", choices=list(FORMATS), help="default: what --out ends in, else text")
    parser.add_argument("--out", type=folder, metavar="FILE", help="default: standard output")
    add_results_dir(parser)
    options = parser.parse_args(argv)
    ending = Path(options.out).suffix.lower() if options.out else ""
    options.format = options.format or next((name for name, end in FORMATS.items() if end == ending), "text")
    guarded(lambda: run(options))
