"""`python -m benchmarks compare BASE NEW`: differences on the same queries, and a gate over them."""

import argparse
import sys
from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.compare import changes, load, match, notes, require_like, unlike
from benchmarks.analysis.confirm import Commands, alternate, check_commands, shell
from benchmarks.analysis.gate import EXIT_CODES, FEWEST_ROUNDS, Gate, parse_rule
from benchmarks.analysis.gate_report import (
    Report,
    as_json,
    difference_text,
    explanation,
    junit,
    markdown,
    p_text,
)
from benchmarks.analysis.numbers import number
from benchmarks.analysis.rules import judge, outcome
from benchmarks.analysis.select import choose
from benchmarks.cli.common import Parser, folder, guarded, make_console, positive, warn
from benchmarks.cli.selection import add_filters
from benchmarks.errors import UserError
from benchmarks.files import write_whole
from benchmarks.metrics.registry import parse_metric
from benchmarks.metrics.table import DELTAS
from benchmarks.paths import RESULTS
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.power import unsupported
from benchmarks.yamlfile import load_yaml

METRICS = ("recall", *(f"robustness-{delta}" for delta in DELTAS), "qps")
BASELINES = RESULTS / "baselines"
STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow"}

EXAMPLES = """BASE and NEW are each a results folder or a part of one, a result file, or the name of a baseline: a
folder of results/baselines, made with `python run.py … --results-dir results/baselines/NAME`.

examples:
  python -m benchmarks compare results /tmp/results-of-my-branch
  python -m benchmarks compare ci results --max-drop robustness-0.1@10=0.002 recall@10=0.005
  python -m benchmarks compare ci results --gate gate.yml --markdown summary.md --junit gate.xml
  python -m benchmarks compare old new --max-drop qps=10% --confirm 5

gate.yml:
  confidence: 0.95
  rules:
    - {metric: robustness-0.1@10, max_drop: 0.002}
    - {metric: qps, max_drop: 10%, algorithms: [faiss-hnsw]}

A rule on quality passes where the whole interval of the loss is within max_drop, fails where all of it is beyond, and
is inconclusive between. A rule on speed passes where the stored repeats lost less than half of max_drop; else
--confirm N measures both sides anew, N times in turn, and those runs decide; without it the rule is inconclusive.
Without commands of your own it measures with run.py of this checkout, if its adapters are those that measured both.

exit codes: 0 compared, and every rule passed · 1 a rule failed · 2 bad input · 3 none failed, but n cannot tell
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    parser = Parser(
        prog="python -m benchmarks compare",
        description="Compare two sets of results on the same queries: differences with intervals, and a gate.",
        epilog=EXAMPLES,
    )
    parser.add_argument("base", metavar="BASE", help="what it is compared with")
    parser.add_argument("new", metavar="NEW", help="what is judged")
    parser.add_argument("--metric", action="append", metavar="NAME", help=f"repeatable (default: {' '.join(METRICS)})")
    parser.add_argument("--gate", type=folder, metavar="FILE", help="rules, as YAML")
    parser.add_argument(
        "--max-drop", nargs="+", default=[], metavar="METRIC=DROP", help="rules: how much worse NEW may be"
    )
    mix = {"help": "compare unlike runs nevertheless; the output then says so"}
    add_filters(parser, "algorithm", "k", "mode", "threads", "mix", mix=mix)
    parser.add_argument("--confirm", type=positive, metavar="N", help="rounds of fresh runs where speed looks worse")
    parser.add_argument(
        "--base-command", metavar="COMMAND", help="how --confirm measures BASE; {out} is the folder for its results"
    )
    parser.add_argument("--new-command", metavar="COMMAND", help="the same for NEW")
    parser.add_argument("--markdown", type=folder, metavar="FILE", help="also write it as Markdown")
    parser.add_argument("--json", type=folder, metavar="FILE", help="also write it as JSON")
    parser.add_argument("--junit", type=folder, metavar="FILE", help="also write the verdicts as JUnit XML")
    return parser


def gate_of(options: argparse.Namespace) -> Gate | None:
    """The rules of --gate and --max-drop together.

    Raises:
        UserError: one cannot be read.
    """
    rules = [parse_rule(text) for text in options.max_drop]
    if options.gate:
        gate = load_yaml(options.gate, Gate)
        return gate.model_copy(update={"rules": [*gate.rules, *rules]})
    return Gate(rules=rules) if rules else None


def run(options: argparse.Namespace) -> int:
    """Compare, judge, print, write."""
    gate, commands = gate_of(options), Commands(options.base_command, options.new_command)
    check_commands(commands)
    if options.confirm and options.confirm < FEWEST_ROUNDS:
        raise UserError(f"--confirm {options.confirm}: at least {FEWEST_ROUNDS} rounds are needed for an interval")
    if (options.junit or options.confirm) and not gate:
        raise UserError("--junit and --confirm are about rules; give some with --gate or --max-drop")
    asked = [parse_metric(name) for name in dict.fromkeys(options.metric or ())]
    ruled = [parse_metric(rule.metric) for rule in (gate.rules if gate else ())]
    filters = {"algorithms": options.algorithm, "ks": [options.k] if options.k else []}
    sides = [
        choose(load(text, BASELINES, warn), **filters, mode=options.mode, threads=options.threads)
        for text in (options.base, options.new)
    ]
    matched = match(*sides)
    metrics = asked or [parse_metric(name) for name in METRICS]
    remarks = []
    if not asked and not options.mix and not _speeds(ruled):
        alike = [pair for pair in matched.pairs if not unlike(pair, speed=False)]
        elsewhere = {name for pair in alike for name in unlike(pair, speed=True)}
        if elsewhere:  # nobody asked for the speed, so its difference is no reason to refuse the rest
            metrics = [metric for metric in metrics if metric.definition.kind != "speed"]
            remarks.append(f"speed is left out: {' and '.join(sorted(elsewhere))} differ; --mix shows it nevertheless")
    mixed = require_like(matched.pairs, _speeds([*metrics, *ruled]), options.mix)
    confidence = gate.confidence if gate else CONFIDENCE
    found = changes(matched.pairs, metrics, confidence)
    shown = {change.metric.name for change in found}
    for metric in asked if matched.pairs else ():
        if metric.name not in shown:
            raise UserError(f"--metric {metric.name}: none of the points has it on both sides; leave it out")
    verdicts = []
    if gate:
        confirm = None
        if options.confirm:

            def confirm(wanted):
                return alternate(wanted, options.confirm, commands, shell, lambda line: print(line, file=sys.stderr))

        verdicts = judge(matched, gate, confirm)
    report = Report(
        base=options.base,
        new=options.new,
        matched=matched,
        changes=found,
        verdicts=verdicts,
        outcome=outcome(verdicts) if gate else None,
        notes=[
            *(f"compared nevertheless: {line}" for line in mixed),
            *remarks,
            *notes(matched.pairs),
            *(f"failed in NEW: {name}: {why}" for name, why in matched.failed),
            *([f"only in BASE: {_several(matched.only_base)}"] if matched.only_base else []),
            *([f"only in NEW: {_several(matched.only_new)}"] if matched.only_new else []),
            *too_little(found),
        ],
        confidence=confidence,
    )
    print_report(report)
    for path, write in {options.markdown: markdown, options.json: as_json, options.junit: junit}.items():
        if path:
            write_whole(path, write(report).encode())
    return EXIT_CODES[report.outcome] if report.outcome else 0


def _speeds(metrics) -> bool:
    return any(metric.definition.kind == "speed" for metric in metrics)


def too_little(found) -> list[str]:
    """Shares that so few queries cannot show, each said once."""
    lines = {}
    for change in found:
        if change.metric.definition.share and change.n:
            best = max(change.base, change.new)
            line = unsupported(best, change.n) if best < 1 else None
            if line:
                lines[f"{change.metric.name}: {line}"] = None
    return list(lines)


def _several(names: Sequence[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def print_report(report: Report) -> None:
    """The table of differences, then the verdicts, worst first."""
    console = make_console()
    table = Table(title=f"{escape(report.base)} → {escape(report.new)}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("operating point", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for heading in ("base", "new", "difference", "p", "effect", "detectable", "n"):
        table.add_column(heading, justify="right", no_wrap=heading != "difference")
    last = None
    for change in report.changes:
        unit = change.metric.definition.unit
        table.add_row(
            escape(change.pair.name) if change.pair is not last else "",
            change.metric.name,
            *(number(value, unit) for value in (change.base, change.new)),
            difference_text(change),
            p_text(change.p_adjusted),
            f"{change.effect:+.2f}" if change.effect is not None else "",
            number(change.detectable) if change.detectable is not None else "",
            f"{change.n:,}" if change.n else "",
        )
        last = change.pair
    if report.changes:
        console.print(table)
        console.print(explanation(report.confidence), style="dim", highlight=False, soft_wrap=True)
    for note in report.notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False)
    order = {"fail": 0, "inconclusive": 1, "pass": 2}
    for item in sorted(report.verdicts, key=lambda item: order[item.outcome]):
        console.print(
            f"[{STYLES[item.outcome]}]{item.outcome:12}[/] {escape(f'{item.rule}: {item.point}: {item.reason}')}",
            highlight=False,
            soft_wrap=True,
        )
    if report.outcome:
        console.print(f"[bold {STYLES[report.outcome]}]gate: {report.outcome}[/]", highlight=False)


def main(argv: list[str] | None = None) -> None:
    """Entry point; ends the process."""
    options = build_parser().parse_args(argv)
    guarded(lambda: run(options))
