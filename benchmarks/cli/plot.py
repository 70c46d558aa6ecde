"""python plot.py: draw what was measured. Reads results, never writes them."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.equal import Matches, match
from benchmarks.analysis.numbers import measured_text
from benchmarks.analysis.select import require_alike, with_values
from benchmarks.analysis.stations import TOLERANCE
from benchmarks.cards.algorithms import find_algorithms
from benchmarks.cli.common import Parser, add_results_dir, guarded, warn
from benchmarks.cli.selection import add_filters, dataset_of, filtered, ks_of, of_one_code
from benchmarks.errors import UserError
from benchmarks.figures import presets
from benchmarks.figures.curve import draw_curve
from benchmarks.figures.delta import draw_delta
from benchmarks.figures.deviation import draw_deviation
from benchmarks.figures.distribution import draw_distribution
from benchmarks.figures.drawing import Drawing, write
from benchmarks.figures.files import formats_of, paths_of
from benchmarks.figures.panels import Panel, Point, measure, metrics_of, shows_speed
from benchmarks.figures.presets import Preset, find_figure, panels_of
from benchmarks.figures.theme import Style, styles
from benchmarks.figures.tradeoff import draw_tradeoff
from benchmarks.metrics.accuracy import verdicts_of
from benchmarks.metrics.registry import Metric, definitions, parse_metric
from benchmarks.metrics.table import DELTAS
from benchmarks.rag.table import FOLDER, Verdicts
from benchmarks.results.schema import label
from benchmarks.results.store import Result, Store
from benchmarks.sweeps import parse_override

CURVE_METRICS = ("recall", *(f"robustness-{delta}" for delta in DELTAS))
ROWS = 40  # of the table that is printed; a figure of more is not read point by point

EXAMPLES = """examples:
  python plot.py --metric robustness-0.1                       against recall, a point for each setting
  python plot.py --metric recall --metric robustness-0.9 --versus qps
  python plot.py --curve --recall 0.9                          robustness for every δ, at equal recall
  python plot.py --distribution --algorithm faiss-hnsw --algorithm faiss-ivfflat
  python plot.py --figure 6 --delta 0.2 --delta 0.8            a figure of the paper, of your results
  python plot.py --figure 11 --at-least recall=0.8,0.95 --format pdf
  python plot.py --figure 12 --dataset wiki-trivia --answers extractive-gold-document
"""
# Which options go with which kind of figure; what is not named here goes with all.
OPTIONS = {
    "metric": "a figure without --figure, --curve or --distribution",
    "versus": "a figure without --figure, --curve or --distribution",
    "scale": "a trade-off",
    "at_least": "a trade-off",
    "delta": "a trade-off, or --figure 3",
    "answers": "--figure 12 and --figure delta",
    "recall": "--curve, --distribution, or a figure at equal recall",
    "tolerance": "--curve, --distribution, or a figure at equal recall",
}


def parser() -> argparse.ArgumentParser:
    """The options of `python plot.py`."""
    names = {item.template.replace("{", "<").replace("}", ">"): item.meaning for item in definitions()}
    known = "\n".join(f"  {name:24}{meaning}" for name, meaning in names.items())
    figures = "\n".join(
        f"  {name:4}{preset.shows}{f' (paper: {preset.dataset})' if preset.dataset else ''}"
        for name, preset in presets.FIGURES.items()
    )
    parser = Parser(
        prog="plot.py",
        description="Draw what was measured, and write the table behind it. Results are only read.",
        epilog=f"{EXAMPLES}\nfigures of the paper (arXiv 2507.00379):\n{figures}\n\n"
        f"metrics (name@K for one K):\n{known}",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--figure", metavar="N", help=f"a figure of the paper: {', '.join(presets.FIGURES)}; see below")
    kind.add_argument("--curve", action="store_true", help="robustness against δ, one operating point per algorithm")
    kind.add_argument(
        "--distribution", action="store_true", help="histogram of recall per query, one operating point per algorithm"
    )
    parser.add_argument(
        "--metric", action="append", metavar="METRIC", help="vertical axis; repeat for more panels (default: --delta)"
    )
    parser.add_argument("--versus", metavar="METRIC", help="horizontal axis (default: recall)")
    parser.add_argument(
        "--delta",
        action="append",
        metavar="δ",
        help="of robustness; repeatable (default: 0.1 0.5 0.9, or those of the figure)",
    )
    parser.add_argument(
        "--at-least",
        action="append",
        type=threshold,
        default=[],
        metavar="METRIC=V[,V]",
        help="leave out points below V; of two, the lower is drawn dashed and the higher solid (repeatable)",
    )
    parser.add_argument(
        "--scale",
        choices=["linear", "tail"],
        help="axis of shares: linear, zoomed to the points (default); or tail, which spreads out what is near 1",
    )
    parser.add_argument(
        "--recall", type=share, metavar="R", help="the average recall at which indexes are compared (default: 0.9)"
    )
    parser.add_argument(
        "--tolerance",
        type=share,
        metavar="T",
        help="how far from it the last setting of an index may be that does not reach it; all others are interpolated "
        f"between the points around it, and marked so (default: {TOLERANCE})",
    )
    parser.add_argument(
        "--answers",
        metavar="NAME",
        help="of an application: a file of results/<dataset>/rag, without .csv, that python -m benchmarks rag wrote "
        f"(default: {presets.ANSWERS})",
    )
    add_filters(
        parser,
        dataset={"help": "data set (may be left out if only one was measured, or with --figure the paper's)"},
        k={"action": "append", "default": [], "help": "only points of K neighbours; repeatable for curves"},
        mix={"help": "show unlike results together; the figure then says so"},
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ALGORITHM.PARAM=V,V",
        help="of this algorithm only points with one of these values, such as faiss-hnsw.M=16; repeatable",
    )
    parser.add_argument("--quiet", action="store_true", help="print the paths only, not the table")
    parser.add_argument("--format", metavar="LIST", help="png, svg, pdf, or several with commas (default: png)")
    parser.add_argument("--no-csv", action="store_true", help="do not write the table behind the figure beside it")
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


def threshold(text: str) -> tuple[str, tuple[float, ...]]:
    """`recall=0.85,0.9`: a metric and one or two values of it, ascending."""
    name, _, values = text.partition("=")
    try:
        levels = tuple(sorted({float(value) for value in values.split(",")}))
    except ValueError:
        levels = ()
    if not name or not 1 <= len(levels) <= 2 or not all(abs(level) < float("inf") for level in levels):
        raise argparse.ArgumentTypeError(f"must be METRIC=VALUE or METRIC=LOWER,HIGHER, not '{text}'")
    return name, levels


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    options = parser()
    args = options.parse_args(argv)
    guarded(lambda: plot(args, preset_of(args, options)))


def preset_of(args: argparse.Namespace, options: argparse.ArgumentParser) -> Preset:
    """What to draw, with the options that change it; ends the process where an option does not go with it."""
    chosen = f"--figure {args.figure}" if args.figure else "--curve" if args.curve else ""
    chosen = chosen or ("--distribution" if args.distribution else "")
    known = {"": presets.PLAIN, "--curve": presets.CURVE, "--distribution": presets.DISTRIBUTION}
    preset = find_figure(args.figure) if args.figure else known[chosen]
    alike = {"scale", "at_least"} if preset.kind == "tradeoff" else {"recall", "tolerance"}
    alike |= {"delta"} if preset.deltas else set()
    alike = {"answers", *(alike - {"recall", "tolerance"})} if preset.answers else alike
    alike |= {"metric", "versus"} if not chosen else set()
    for name, needs in OPTIONS.items():
        if getattr(args, name) and name not in alike:
            flag = "--" + name.replace("_", "-")
            options.error(f"{flag} does not go with {chosen}" if chosen else f"{flag} goes with {needs}")
    if args.metric and args.delta:
        options.error("--delta does not go with --metric; name robustness-<δ> as a metric")
    if preset is presets.PLAIN:
        versus = args.versus or "recall"
        names = args.metric or [f"robustness-{delta}" for delta in args.delta or preset.deltas]
        return replace(preset, panels=tuple(presets.PanelSpec(versus, name) for name in dict.fromkeys(names)))
    return presets.of_answers(preset, args.answers) if args.answers else preset


def plot(args: argparse.Namespace, preset: Preset) -> None:
    """Select, draw, save, and print the paths and the table behind the figure.

    Raises:
        UserError: nothing to draw, unlike results, an unknown name, or an unknown format.
        OSError: the figure cannot be written.
    """
    panels = panels_of(preset, args.delta or (), dict(args.at_least))
    shown = metrics_of(panels)
    formats = formats_of(args.out, args.format)
    store = Store(args.results_dir)
    usual = preset.dataset if preset.dataset and store.files(preset.dataset) else None
    dataset = dataset_of(store, args.dataset or usual)
    results = list(store.results(dataset, warn))
    look = styles(result.identity.algorithm for result in results)  # the same whatever is left out
    selected, mixed = selection(args, preset, dataset, results, shown)
    if preset.kind == "delta":
        from benchmarks.rag.study import analyse_points  # here, since no other figure needs it

        found = analyse_points(selected, answers_of(args, selected))
        drawing, points, columns = draw_delta(found, selected, mixed=mixed), [], []
    elif preset.kind == "tradeoff":
        drawing, points = tradeoff(args, preset, presets.with_levels(panels, selected), selected, mixed, look)
        columns = shown
    else:
        drawing, points, columns = equal(args, preset, selected, mixed, look)
    paths = paths_of(args.out, f"{dataset}-{what(args, panels)}", formats)
    for path in write(drawing, paths, not args.no_csv):
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    if not args.quiet and points:
        print_table(points, columns)


def selection(
    args: argparse.Namespace, preset: Preset, dataset: str, results: Sequence[Result], shown: Sequence[Metric]
) -> tuple[list[Result], str | None]:
    """The results to draw, and the note for the figure where they are unlike.

    Raises:
        UserError: there are none, the figure needs others, or they are unlike and may not be shown together.
    """
    advice = f"measure more: python run.py --dataset {dataset} {preset.measure}".strip()
    present = {result.identity.algorithm for result in results}
    ks = tuple(ks_of(args.k, shown)) or preset.ks
    named = [each for each in results if each.identity.algorithm in (args.algorithm or present)]
    if named and (preset.ks or len(ks) > 1):
        presets.require_ks(ks, named, dataset)
    usual = presets.algorithms_of(preset, present, advice) if present and not args.algorithm else ()
    selected = filtered(results, args, ks, usual)
    selected = with_values(selected, map(partial(parse_override, option="--only"), args.only))
    presets.require_variety(preset, selected, advice)
    selected, older = of_one_code(selected, args.mix)
    apart = sorted({result.identity.k for result in selected}) if preset.kind == "curve" else [None]
    together = [[each for each in selected if k in (None, each.identity.k)] for k in apart]
    unlike = [require_alike(group, speed=shows_speed(shown), mix=args.mix) for group in together]
    return selected, "; ".join(dict.fromkeys(filter(None, [*unlike, older]))) or None


def tradeoff(
    args: argparse.Namespace,
    preset: Preset,
    panels: Sequence[Panel],
    selected: Sequence[Result],
    mixed: str | None,
    look: dict[str, Style],
) -> tuple[Drawing, list[Point]]:
    """Draw one metric against another, of every point."""
    verdicts = answers_of(args, selected) if preset.answers else None
    points = measure(selected, metrics_of(panels))
    if verdicts:
        from benchmarks.figures.rag import draw_answers  # here, since no other figure needs it

        shown = {"title": preset.shows, "scale": args.scale or "linear", "mixed": mixed, "look": look}
        return draw_answers(points, panels, verdicts, **shown), points
    drawing = draw_tradeoff(
        points,
        panels,
        title=preset.shows or None,
        scale=args.scale or "linear",
        sweep=preset.sweep,
        mixed=mixed,
        look=look,
    )
    return drawing, points


def answers_of(args: argparse.Namespace, selected: Sequence[Result]) -> Verdicts:
    """What the application answered, by --answers.

    Raises:
        UserError: there is no such file; says what there is, and what to run.
    """
    result, name = selected[0], args.answers or presets.ANSWERS
    folder = result.path.parent.parent
    verdicts = verdicts_of(folder, name, result.record.nq)
    if verdicts is None:
        there = ", ".join(path.stem for path in sorted((folder / FOLDER).glob("*.csv"))) or "none"
        raise UserError(
            f"{folder / FOLDER / name}.csv: is not there; run python -m benchmarks rag --dataset {folder.name}, or "
            f"choose with --answers, there are: {there}"
        )
    unknown = sum(each.ok and each.identity.hash() not in verdicts.of for each in selected)
    if unknown:
        warn(f"{unknown} points are not in {name}.csv and are left out; run python -m benchmarks rag again")
    return verdicts


def equal(
    args: argparse.Namespace, preset: Preset, selected: Sequence[Result], mixed: str | None, look: dict[str, Style]
) -> tuple[Drawing, list[Point], list[Metric]]:
    """Draw a comparison at equal average recall; with the points and metrics of the table that is printed."""

    cards = find_algorithms()

    def matched(results: Sequence[Result]) -> Matches:
        return match(results, args.recall or preset.recall, args.tolerance or TOLERANCE, preset.at_least, cards)

    if preset.kind == "curve":
        ks = sorted({result.identity.k for result in selected})
        matches = {k: matched([each for each in selected if each.identity.k == k]) for k in ks}
        drawing = draw_curve(matches, selected, mixed=mixed, look=look)
        names = CURVE_METRICS
    else:
        matches = {0: matched(selected)}
        if preset.kind == "deviation":
            metrics = presets.metrics_of_comparison(preset, args.delta or ())
            drawing = draw_deviation(matches[0], metrics, selected, mixed=mixed, look=look)
            names = ("recall", *(metric.name for metric in metrics))
        else:
            drawing = draw_distribution(matches[0], selected, mixed=mixed, look=look)
            names = (
                "recall",
                f"robustness-1/{max(each.result.identity.k for each in matches[0].found)}",
                "robustness-1",
            )
    columns = [parse_metric(name) for name in names]
    points = [
        Point(each.result, {metric.name: each.combine(metric.compute) for metric in columns}, each.search)
        for group in matches.values()
        for each in group.found
    ]
    points += [Point(result, dict.fromkeys(metric.name for metric in columns)) for result in selected if not result.ok]
    return drawing, points, columns


def what(args: argparse.Namespace, panels: Sequence[Panel]) -> str:
    """The part of a file's name that tells what the figure shows."""
    if args.figure:
        name = f"figure-{args.figure}"
    elif args.curve or args.distribution:
        name = "curve" if args.curve else "distribution"
    else:
        name = "+".join(panel.ys[0].name for panel in panels) if args.metric else "robustness"
        name += f"-vs-{panels[0].x.name}"
    return name + (f"-k{'+'.join(map(str, sorted(set(args.k))))}" if args.k else "")


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
        cells = [measured_text(point.values[metric.name], metric.definition.unit) for metric in metrics]
        if not point.result.ok:
            cells = [point.result.record.status] + [""] * (len(metrics) - 1)
        table.add_row(identity.algorithm, escape(label(identity.build_params)), escape(point.search), *cells)
    console.print(table)
    if len(order) > ROWS:
        print(f"… and {len(order) - ROWS} more points; python -m benchmarks export writes them all")


def _rank(point: Point, metrics: Sequence[Metric]) -> tuple:
    """Order of the table: by build, then as along the figure, failed points last."""
    identity, values = point.result.identity, [point.values[metric.name] for metric in metrics]
    numbers = [value.value if value else 0.0 for value in values]
    return identity.algorithm, label(identity.build_params), identity.k, not point.result.ok, numbers


if __name__ == "__main__":
    main()
