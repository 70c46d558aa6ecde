"""`python -m benchmarks advise`: which operating point to take, and what it costs to ask for more."""

import json

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.analysis.advise import (
    Advice,
    Candidate,
    Constraint,
    Objective,
    advise,
    candidates,
    parse_constraint,
    show,
)
from benchmarks.analysis.select import describe, require_ok
from benchmarks.cli.common import Parser, guarded, make_console
from benchmarks.cli.selection import add_selection, select
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Measured, Metric, parse_metric
from benchmarks.results.schema import label

NOTHING_QUALIFIES = 1
SHOWN = ("recall", "robustness-0.1", "robustness-0.5", "robustness-0.9", "qps")

EPILOG = """examples:
  python -m benchmarks advise --dataset glove-50-6b --min robustness-0.3=0.99 --min qps=2000
  python -m benchmarks advise --dataset glove-50-6b --min recall@10=0.9 --max index-bytes=500MB --maximize qps

A bound holds where the worse end of the 95 % interval holds it, in every build of a point that was built with several
seeds. exit codes: 0 a point was found · 1 nothing qualifies · 2 bad input · 130 interrupted
"""


def run(options) -> int:
    """Select, choose, explain."""
    constraints = [parse_constraint(text, "min") for text in options.min]
    constraints += [parse_constraint(text, "max") for text in options.max]
    if not constraints:
        raise UserError("nothing is asked for; give a bound such as --min robustness-0.3=0.99 or --max index-bytes=8GB")
    objective = objective_of(options.maximize, options.minimize)
    shown = [parse_metric(name) for name in SHOWN]
    metrics = [objective.metric, *(each.metric for each in constraints)]
    results = select(options, metrics)
    require_ok(results)
    points = candidates(results, constraints, objective, shown)
    for metric in metrics:
        if not any(point.values[metric.name] for point in points):
            raise UserError(
                f"no point has '{metric.name}', which is: {metric.definition.meaning} Measure it, or leave it out"
            )
    advice = advise(points, constraints, objective)
    columns = list({metric.name: metric for metric in (*metrics, *shown)}.values())
    if options.json:
        print(json.dumps(as_json(advice, columns), indent=1))
    else:
        console = make_console()
        head = f"{results[0].identity.dataset} · {describe(results)}"
        console.print(head, highlight=False, soft_wrap=True, markup=False)
        print_advice(console, advice, constraints, objective, columns)
    return 0 if advice.chosen else NOTHING_QUALIFIES


def objective_of(maximize: str | None, minimize: str | None) -> Objective:
    """The metric to make best; QPS where none is named.

    Raises:
        UserError: the direction is the wrong one for it.
    """
    metric = parse_metric(maximize or minimize or "qps")
    wanted = "lower" if minimize else "higher"
    if metric.definition.better != wanted:
        flag = "--minimize" if wanted == "higher" else "--maximize"
        raise UserError(f"of {metric.name} {metric.definition.better} is better; say {flag} {metric.name}")
    return Objective(metric)


def print_advice(
    console: Console, advice: Advice, constraints: list[Constraint], objective: Objective, columns: list[Metric]
) -> None:
    """The choice first, then why not the others, then prices."""

    def say(line: str, **look) -> None:
        console.print(line, highlight=False, soft_wrap=True, markup=False, **look)

    asked = ", ".join(each.text() for each in constraints)
    if advice.chosen is None:
        say(f"None of the {advice.considered} points measured holds {asked}.", style="bold red")
        if not advice.relaxations:
            say("No point has all that is asked for; measure more points, or ask for less.")
        for each in advice.relaxations:
            together = " and ".join(constraint.text(bound) for constraint, bound in each.bounds)
            say(f"  with {together} instead: {each.candidate.name()}")
        return
    chosen = advice.chosen
    say(f"{advice.qualified} of {advice.considered} points hold {asked}; best {objective.metric.name}:")
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("", "algorithm", "build", "search"):
        table.add_column(heading, overflow="fold")
    for metric in columns:
        table.add_column(metric.name, justify="right", no_wrap=True)
    for mark, point in [("take", chosen), *(("", loser.candidate) for loser in advice.losers)]:
        identity = point.results[0].identity
        texts = [label(identity.build_params), label(identity.search_params)]
        cells = [cell(point.values[metric.name]) for metric in columns]
        table.add_row(mark, *map(escape, (point.algorithm, *texts)), *cells, style="bold" if mark else None)
    console.print(table)
    for loser in advice.losers:
        say(f"not {loser.candidate.name()}: {loser.reason}")
    for price in advice.prices:
        value, name = price.to.values[price.metric.name], objective.metric.name
        say(
            f"more {price.metric.name}: {show(value.value)} (+{show(price.gain)}) costs {show(price.cost)} {name}, "
            f"{show(price.per_thousandth)} for each 0.001: {price.to.name()}"
        )
    if not advice.prices and any(each.metric.definition.kind == "quality" for each in constraints):
        say("no measured point has more of what is asked for; a larger sweep may")
    if advice.qualified > 1:
        say(
            f"Intervals are those of single points; the best of {advice.qualified} looks a little better than it is.",
            style="dim",
        )


def cell(measured: Measured | None) -> str:
    """`0.951 [0.935, 0.963]`, or a dash."""
    if measured is None:
        return "-"
    if measured.low is None:
        return show(measured.value)
    return f"{show(measured.value)} [{show(measured.low)}, {show(measured.high)}]"


def as_json(advice: Advice, columns: list[Metric]) -> dict:
    """The same for programs."""

    def point(candidate: Candidate | None) -> dict | None:
        if candidate is None:
            return None
        identity = candidate.results[0].identity
        values = {metric.name: candidate.values[metric.name] for metric in columns}
        return {
            "algorithm": identity.algorithm,
            "build": identity.build_params,
            "search": identity.search_params,
            "k": identity.k,
            "files": [str(result.path) for result in candidate.results],
            "values": {
                name: item and {"value": item.value, "low": item.low, "high": item.high, "n": item.n}
                for name, item in values.items()
            },
        }

    return {
        "chosen": point(advice.chosen),
        "qualified": advice.qualified,
        "considered": advice.considered,
        "not_chosen": [{**point(loser.candidate), "reason": loser.reason} for loser in advice.losers],
        "prices": [
            {
                "metric": price.metric.name,
                "to": point(price.to),
                "gain": price.gain,
                "cost": price.cost,
                "cost_per_0.001": price.per_thousandth,
            }
            for price in advice.prices
        ],
        "relaxations": [
            {
                "bounds": {f"{each.side} {each.metric.name}": bound for each, bound in relaxation.bounds},
                "point": point(relaxation.candidate),
            }
            for relaxation in advice.relaxations
        ],
    }


def main(argv: list[str] | None = None) -> None:
    """Entry point."""
    parser = Parser(
        prog="python -m benchmarks advise",
        description="Choose an operating point among those measured, by bounds that it surely holds; say why others\n"
        "were not chosen, what more robustness costs, and which bound to give up where nothing qualifies.",
        epilog=EPILOG,
    )
    bound = {"action": "append", "default": [], "metavar": "METRIC=NUMBER"}
    parser.add_argument("--min", **bound, help="lower bound, such as robustness-0.3=0.99 or qps=10000; repeatable")
    parser.add_argument("--max", **bound, help="upper bound, such as index-bytes=8GB or latency-p99=5; repeatable")
    aim = parser.add_mutually_exclusive_group()
    aim.add_argument("--maximize", metavar="METRIC", help="what to have most of (default: qps)")
    aim.add_argument("--minimize", metavar="METRIC", help="what to have least of, such as index-bytes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_selection(parser)
    options = parser.parse_args(argv)
    guarded(lambda: run(options))
