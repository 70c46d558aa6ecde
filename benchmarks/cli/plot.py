"""python plot.py: draw what was measured. Reads results, never writes them."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.select import choose, nearest, of_newest_code, require_alike
from benchmarks.cli.common import Parser, add_results_dir, guarded, positive, warn
from benchmarks.errors import UserError
from benchmarks.figures.curve import draw_curve
from benchmarks.figures.distribution import draw_distribution
from benchmarks.figures.theme import FORMATS, save, styles
from benchmarks.figures.tradeoff import Point, draw_tradeoff, measure, short, shows_speed
from benchmarks.files import resolved
from benchmarks.metrics.registry import Measured, Metric, definitions, parse_metric
from benchmarks.metrics.table import DELTAS
from benchmarks.paths import PLOTS
from benchmarks.results.schema import label
from benchmarks.results.store import Store, folder_name

METRICS = ("robustness-0.1", "robustness-0.5", "robustness-0.9")
CURVE_METRICS = ("recall", *(f"robustness-{delta}" for delta in DELTAS))
OTHER_FORMATS = ("jpg", "jpeg", "gif", "eps", "ps", "tif", "tiff", "webp", "bmp", "html", "pgf")
ROWS = 40  # of the table that is printed; a figure of more is not read point by point

EXAMPLES = """examples:
  python plot.py --metric robustness-0.1                       against recall, a point for each setting
  python plot.py --metric recall --metric robustness-0.9 --versus qps
  python plot.py --curve --recall 0.9                          robustness for every δ, at equal recall
  python plot.py --distribution --algorithm faiss-hnsw --algorithm faiss-ivfflat
"""


def parser() -> argparse.ArgumentParser:
    """The options of `python plot.py`."""
    names = {item.template.replace("{", "<").replace("}", ">"): item.meaning for item in definitions()}
    known = "\n".join(f"  {name:24}{meaning}" for name, meaning in names.items())
    parser = Parser(
        prog="plot.py",
        description="Draw what was measured. Results are only read.",
        epilog=f"{EXAMPLES}\nmetrics (name@K for one K):\n{known}",
    )
    parser.add_argument("--dataset", metavar="NAME", help="data set (may be left out if only one was measured)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--curve", action="store_true", help="robustness against δ, one operating point per algorithm")
    kind.add_argument(
        "--distribution", action="store_true", help="histogram of recall per query, one operating point per algorithm"
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="METRIC",
        help=f"vertical axis; repeat for more panels (default: {' '.join(METRICS)})",
    )
    parser.add_argument("--versus", metavar="METRIC", help="horizontal axis (default: recall)")
    parser.add_argument(
        "--scale",
        choices=["linear", "tail"],
        help="axis of shares: linear, zoomed to the points (default); or tail, which spreads out what is near 1",
    )
    parser.add_argument(
        "--recall",
        type=share,
        metavar="R",
        help="with --curve and --distribution: draw the point nearest to this average recall (default: 0.9)",
    )
    parser.add_argument("--algorithm", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--k", type=positive, help="only points that were asked for K neighbours")
    parser.add_argument("--mode", choices=["batch", "single"], help="only points of this mode")
    parser.add_argument("--threads", type=positive, metavar="N", help="only points of N threads")
    parser.add_argument("--distance", choices=["l2", "ip", "cosine"], help="only points of this distance")
    parser.add_argument("--data", metavar="HASH", help="only points whose base or queries have a hash that begins so")
    parser.add_argument("--mix", action="store_true", help="show unlike results together; the figure then says so")
    parser.add_argument("--quiet", action="store_true", help="print the paths only, not the table")
    parser.add_argument("--format", metavar="LIST", help="png, svg, pdf, or several with commas (default: png)")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="file, its beginning, or a folder; a suffix decides the format (default: plots/<dataset>-<what>)",
    )
    add_results_dir(parser)
    return parser


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most 1, such as 0.9, not '{text}'")
    return number


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    options = parser()
    args = options.parse_args(argv)
    alone = args.curve or args.distribution
    for name in ("metric", "versus", "scale") if alone else ("recall",):
        if getattr(args, name) is not None:
            kind = "--curve" if args.curve else "--distribution"
            options.error(
                f"--{name} does not go with {kind}" if alone else f"--{name} goes with --curve or --distribution"
            )
    guarded(lambda: plot(args))


def plot(args: argparse.Namespace) -> None:
    """Select, draw, save, and print the paths and the table behind the figure.

    Raises:
        UserError: nothing to draw, unlike results, an unknown name, or an unknown format.
        OSError: the figure cannot be written.
    """
    metrics = [parse_metric(name) for name in dict.fromkeys(args.metric or METRICS)]
    versus = parse_metric(args.versus or "recall")
    shown = [] if args.curve or args.distribution else [versus, *metrics]
    formats = formats_of(args.out, args.format)
    store = Store(args.results_dir)
    dataset = dataset_of(store, args.dataset)
    results = list(store.results(dataset, warn))
    look = styles(result.identity.algorithm for result in results)  # the same whatever is left out
    selected = choose(
        results,
        algorithms=args.algorithm,
        ks=ks_of(args.k, shown),
        mode=args.mode,
        threads=args.threads,
        distance=args.distance,
        data=args.data,
    )
    if not args.mix:
        selected, old = of_newest_code(selected)
        for name, count in Counter(result.identity.algorithm for result in old).items():
            warn(f"{count} points of {name} were measured with older code of it and are left out; --mix shows them")
    mixed = require_alike(selected, speed=shows_speed(shown), mix=args.mix)
    if shown:
        points = measure(selected, shown)
        figure = draw_tradeoff(points, metrics, versus, scale=args.scale or "linear", mixed=mixed, look=look)
        what = "+".join(item.name for item in metrics) if args.metric else "robustness"
        what += f"-vs-{versus.name}"
        columns = list({item.name: item for item in shown}.values())
    else:
        recall = args.recall or 0.9
        near = nearest(selected, recall)
        draw, what = (draw_curve, "curve") if args.curve else (draw_distribution, "distribution")
        figure = draw(near, selected, recall=recall, mixed=mixed, look=look)
        one_hit = f"robustness-1/{max(result.identity.k for result in near)}"
        names = CURVE_METRICS if args.curve else ("recall", one_hit, "robustness-1")
        columns = [parse_metric(name) for name in names]
        points = measure([*near, *(result for result in selected if not result.ok)], columns)
    what += f"-k{args.k}" if args.k else ""
    paths = paths_of(args.out, f"{dataset}-{what}", formats)
    save(figure, paths)
    for path in paths:
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    if not args.quiet:
        print_table(points, columns)


def ks_of(k: int | None, metrics: Sequence[Metric]) -> list[int]:
    """The K that are asked for, by --k or by a metric's @K; none means all.

    Raises:
        UserError: the two contradict each other.
    """
    for metric in metrics:
        if k and metric.k and metric.k != k:
            raise UserError(f"'{metric.name}' is for K = {metric.k} but --k is {k}; leave one of them out")
    return [k] if k else sorted({metric.k for metric in metrics if metric.k})


def dataset_of(store: Store, name: str | None) -> str:
    """Folder of the data set that was named, or of the only one there is.

    Raises:
        UserError: it has no results, or there are several; says what there is.
    """
    counts = Counter(path.parent.parent.name for path in store.files())
    listing = ", ".join(f"{each} ({counts[each]})" for each in sorted(counts))
    if not counts:
        raise UserError(
            f"{store.folder}: no results there; measure with python run.py, or give another folder with --results-dir"
        )
    if not name:
        if len(counts) > 1:
            raise UserError(f"several data sets were measured; choose one with --dataset: {listing}")
        return next(iter(counts))
    for candidate in (name, Path(name).stem):  # a card or a file may be given by its path, as to run.py
        if folder_name(candidate) in counts:
            return folder_name(candidate)
    raise UserError(f"no results of data set '{name}' in {store.folder}; there are: {listing}")


def formats_of(out: str | None, formats: str | None) -> list[str]:
    """Formats to write, from the suffix of --out, else from --format.

    Raises:
        UserError: a format is not known, or the two contradict each other.
    """
    suffix = Path(out).suffix.lstrip(".").lower() if out else ""
    wanted = list(dict.fromkeys(item.strip().lower() for item in (formats or "png").split(",")))
    unknown = [item for item in wanted if item not in FORMATS]
    unknown += [suffix] if suffix in OTHER_FORMATS else []
    if unknown:
        raise UserError(f"unknown format '{unknown[0]}'; known: {', '.join(FORMATS)}")
    if suffix not in FORMATS:
        return wanted
    if formats and wanted != [suffix]:
        raise UserError(f"--out {out} and --format {formats} contradict each other; leave the suffix or --format out")
    return [suffix]


def paths_of(out: str | None, name: str, formats: Sequence[str]) -> list[Path]:
    """Absolute paths to write; a folder given as --out takes the default name."""
    name = re.sub(r"[^A-Za-z0-9._+@-]+", "_", name)
    path = resolved(out) if out else PLOTS / name
    if out and (path.is_dir() or out.endswith("/")):
        path = path / name
    if path.suffix.lstrip(".").lower() in FORMATS:
        return [path]
    return [path.with_name(f"{path.name}.{each}") for each in formats]


def print_table(points: Sequence[Point], metrics: Sequence[Metric]) -> None:
    """The numbers of the figure, with their intervals; failed points by their status."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=60 + 32 * len(metrics))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("algorithm", "build", "search"):
        table.add_column(heading, overflow="fold")
    for metric in metrics:
        table.add_column(metric.title(), justify="right")
    order = sorted(points, key=lambda point: _rank(point, metrics))
    for point in order[:ROWS]:
        identity = point.result.identity
        cells = [_text(point.values[metric.name], metric) for metric in metrics]
        if not point.result.ok:
            cells = [point.result.record.status] + [""] * (len(metrics) - 1)
        table.add_row(
            identity.algorithm, escape(label(identity.build_params)), escape(label(identity.search_params)), *cells
        )
    console.print(table)
    if len(order) > ROWS:
        print(f"… and {len(order) - ROWS} more points; python -m benchmarks export writes them all")


def _rank(point: Point, metrics: Sequence[Metric]) -> tuple:
    """Order of the table: by build, then as along the figure, failed points last."""
    identity, values = point.result.identity, [point.values[metric.name] for metric in metrics]
    numbers = [value.value if value else 0.0 for value in values]
    return identity.algorithm, label(identity.build_params), identity.k, not point.result.ok, numbers


def _text(measured: Measured | None, metric: Metric) -> str:
    """`0.951 [0.935, 0.963]`."""
    if measured is None:
        return "-"
    number = short if metric.definition.unit != "1" else (lambda value: f"{value:.4f}")
    if measured.low is None or measured.high is None:
        return number(measured.value)
    return f"{number(measured.value)} [{number(measured.low)}, {number(measured.high)}]"


if __name__ == "__main__":
    main()
