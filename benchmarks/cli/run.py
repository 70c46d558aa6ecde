"""`python run.py`: plan, prepare, measure, show."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.analysis.select import average_recall
from benchmarks.analysis.target import TOLERANCE
from benchmarks.cli.choice import Choice, complete_results, recalls, resolve, with_supplied
from benchmarks.cli.common import (
    POINTS_FAILED,
    Parser,
    add_data_options,
    add_machine_options,
    add_results_dir,
    guarded,
    make_console,
    positive,
    warn,
)
from benchmarks.cli.groundtruth import add_truth_option, find_truth
from benchmarks.cli.live import LiveTable, print_plan
from benchmarks.cli.summary import print_summary
from benchmarks.data.prepare import prepare
from benchmarks.errors import UserError
from benchmarks.hardware import available_memory_bytes, describe_machine, memory_limit_bytes, parse_size
from benchmarks.hardware.conditions import read_conditions
from benchmarks.hardware.doctor import examine
from benchmarks.paths import ROOT
from benchmarks.plan import BuildJob, DataFacts, Plan, make_plan
from benchmarks.progress import Progress
from benchmarks.results.store import Result, Store
from benchmarks.runner.choose import RUNNERS, choose_runner
from benchmarks.runner.execute import Session, execute
from benchmarks.runner.supervise import Limits
from benchmarks.seek import Hunt

LOOK_SECONDS = 0.1  # how long the machine is watched for others that use it
MOST_K = 65535  # hits are stored as uint16

EXAMPLES = """
examples:
  python run.py --dataset glove-50-6b --algorithm faiss-hnsw --algorithm faiss-ivfflat
  python run.py --dataset crossover-20k --algorithm faiss-hnsw --set faiss-hnsw.efSearch=10,20,40 --threads 1
  python run.py --dataset my-vectors.npy --distance cosine --mode single
  python run.py --dataset crossover-20k --dry-run
  python run.py --dataset glove-50-6b --target recall@10=0.9
  python run.py --suite paper --scale small

A point that is complete is not measured again; --force does. After Ctrl-C the same command goes on where it stopped.
exit codes: 0 all points ok · 1 a point failed (the others were measured) · 2 bad input · 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `python run.py`."""
    parser = Parser(
        prog="run.py",
        epilog=EXAMPLES,
        description="Measure indexes on a data set: recall, Robustness-δ@K and speed of every operating point.",
    )
    add_data_options(parser, required=False)
    parser.add_argument(
        "--suite",
        metavar="NAME",
        help="instead of --dataset: every run of configs/suites/NAME.yml, then its figures; a part that fails does not "
        "stop the others, and what is complete is not measured again",
    )
    parser.add_argument("--scale", metavar="SCALE", help="with --suite: which of its scales, such as small")
    parser.add_argument(
        "--algorithm",
        action="append",
        metavar="NAME",
        help="may be repeated (default: those of the sweep); see `python -m benchmarks list`",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="sweep (default: configs/sweeps/<dataset>.yml, else configs/sweeps/default.yml)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="ALGORITHM.PARAM=V,V",
        help="values of one parameter instead of the sweep's; may be repeated",
    )
    parser.add_argument(
        "--target",
        action="append",
        type=target,
        default=[],
        metavar="recall[@K]=R",
        help="find for each build of the sweep the point whose average recall is R, along the parameter that searches "
        "more as it grows; only the points that this needs are measured; may be repeated",
    )
    parser.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="T",
        help="with --target: how far from R the average recall may be; where the parameter is too coarse for it, the "
        f"two points around R are shown, and what lies between them (default: {TOLERANCE})",
    )
    parser.add_argument("--k", type=positive, help="neighbours to ask for (default: the sweep's, 10)")
    parser.add_argument(
        "--mode",
        choices=["batch", "single"],
        help="batch: all queries in one call; single: one call per query, with latencies (default: the sweep's)",
    )
    parser.add_argument("--repeats", type=positive, help="timed passes over all queries (default: the sweep's, 3)")
    add_machine_options(parser)
    parser.add_argument(
        "--runner",
        choices=RUNNERS,
        help="where indexes run: in a container, or in an environment of their own (default: docker where an engine "
        "answers and the images are built, else venv)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=7200.0,
        metavar="SECONDS",
        help="for each build and each operating point (default: 7200)",
    )
    parser.add_argument(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="memory of a worker, such as 8GB (default: nine tenths of what is free)",
    )
    parser.add_argument("--force", action="store_true", help="measure complete points again")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    parser.add_argument(
        "--skip-missing",
        action="store_true",
        help="leave out, with one line, a library whose environment cannot be built",
    )
    add_truth_option(parser)
    add_results_dir(parser)
    return parser


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, not '{text}'")
    return value


def target(text: str) -> tuple[float, int | None]:
    """`recall@10=0.9`: the average recall that is wanted, and K where it is named."""
    match = re.fullmatch(r"recall(?:@([1-9]\d{0,8}))?=([0-9.eE+-]+)", text.strip())
    try:
        recall = float(match[2]) if match else 0
    except ValueError:
        recall = 0
    if not 0 < recall <= 1:
        raise argparse.ArgumentTypeError(f"must be such as recall@10=0.9, above 0 and at most 1, not '{text}'")
    return recall, int(match[1]) if match[1] else None


def tolerance(text: str) -> float:
    """A number from 0 to below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a number such as {TOLERANCE}, not '{text}'")
    return value


def size(text: str) -> int:
    """Bytes: a number with an optional kB, MB, GB or TB (powers of ten)."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def examine_machine(console: Console, cpus: list[int]) -> list[str]:
    """What makes timings unstable here, in short, and a line that says how much that is."""
    findings = examine(read_conditions(cpus, LOOK_SECONDS))
    if findings:
        names = ", ".join(finding.name for finding in findings)
        console.print(
            f"  {len(findings)} thing{'s' * (len(findings) > 1)} may make timings unstable here ({names}); "
            "see python -m benchmarks doctor",
            highlight=False,
            soft_wrap=True,
            markup=False,
            style="yellow",
        )
    return [finding.short for finding in findings]


def git_state() -> tuple[str | None, bool | None]:
    """Revision of the harness and whether it has uncommitted changes; (None, None) outside a checkout."""
    try:
        answers = [
            subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return answers[0], bool(answers[1])


def dry_plan(choice: Choice) -> Plan:
    """The plan as far as the cards tell it; nothing is fetched."""
    n, nq = choice.card.expected_rows()
    facts = DataFacts(
        name=choice.card.name,
        distance=choice.card.distance,
        dtype=choice.card.dtype,
        n=n,
        nq=nq,
        dimension=choice.card.dimension,
    )
    return make_plan(choice.request(facts))


def print_dry_run(console: Console, choice: Choice, plan: Plan) -> None:
    """The plan, and what the user has to bring."""
    print_plan(console, plan, choice.origins, choice.placement)
    for name, reason in choice.unavailable(lambda library: library.unavailable(os.environ)).items():
        console.print(f"  {name} {reason}", highlight=False, soft_wrap=True, style="yellow", markup=False)


def run(options: argparse.Namespace) -> int:
    """The whole of `run.py` for one data set, after its arguments are parsed."""
    choice = resolve(options)
    if choice.k > MOST_K:
        raise UserError(f"k = {choice.k}: hits are counted up to {MOST_K}; ask for fewer neighbours")
    if options.dry_run:
        print_dry_run(make_console(), choice, dry_plan(choice))
        return 0
    return measure(options, choice)


def measure(
    options: argparse.Namespace, choice: Choice, keep_index: Callable[[BuildJob], bool] = lambda job: False
) -> int:
    """Measure what was chosen; `keep_index` says of which builds a run that follows has need."""
    console, progress = make_console(), Progress()
    store = Store(options.results_dir)
    store.require_writable()
    available = available_memory_bytes(choice.placement.memory_nodes)
    memory = memory_limit_bytes(available, options.memory_limit or choice.placement.memory_limit_bytes)
    limits = Limits(options.timeout, memory)
    runner, why = choose_runner(options.runner, [algorithm.library for algorithm, _ in choice.algorithms])
    choice = with_supplied(choice, runner)
    lock = store.lock()
    try:
        dataset = prepare(choice.card, options.data_dir, progress)
        facts = DataFacts(
            name=dataset.name,
            distance=dataset.distance,
            dtype=dataset.base.dtype,
            n=dataset.n,
            nq=dataset.nq,
            dimension=dataset.dimension,
            base_sha256=dataset.base_check.sha256,
            queries_sha256=dataset.queries_check.sha256,
        )
        request = choice.request(facts, choice.unavailable(runner.unavailable))
        done = [] if options.force else complete_results(store, choice, runner.name, options.supplied_truth)
        known = recalls(choice, done)
        plan = make_plan(request, frozenset(result.identity.hash() for result in done), known)
        print_plan(console, plan, choice.origins, choice.placement)
        console.print(f"  runner: {runner.name} ({why})", highlight=False, soft_wrap=True, markup=False)
        if not plan.jobs and not plan.complete and not plan.seeks:
            raise UserError("no operating point is left to measure: each one is skipped, see above for the reasons")
        if choice.k > dataset.n:
            warn(f"k = {choice.k} is more than the {dataset.n} base vectors; recall is counted over {dataset.n}")
        findings = examine_machine(console, choice.placement.cpus) if plan.jobs else []
        truth = find_truth(
            options.supplied_truth,
            choice.card,
            dataset,
            choice.k,
            options.data_dir,
            choice.placement.threads,
            progress,
        )
        hunt = Hunt(plan, known, lambda identity: average_recall(store.read(store.path(identity))))
        with LiveTable(console, plan) as observer:
            records = execute(
                Session(
                    plan=plan,
                    dataset=dataset,
                    truth=truth,
                    store=store,
                    runner=runner,
                    placement=choice.placement,
                    findings=findings,
                    limits=limits,
                    command=shlex.join(["python", *sys.argv]).encode("utf-8", "backslashreplace").decode(),
                    machine=describe_machine(),
                    git=git_state(),
                    skip_missing=options.skip_missing,
                    observer=observer,
                    further=hunt.further,
                    keep_index=keep_index,
                )
            )
    except KeyboardInterrupt:
        print("stopped; what is complete is kept, and the same command goes on from there", file=sys.stderr)
        raise
    finally:
        lock.release()
    failed = {record.identity.hash(): record for record in records if record.status != "ok"}
    results = {
        # A failure, if an older result stands.
        result.identity.hash(): Result(result.path, failed.get(result.identity.hash(), result.record))
        for result in store.results(dataset.name, warn)
    }
    print_summary(console, results, plan, records, hunt, store.folder)
    return POINTS_FAILED if failed else 0


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of run.py."""
    argv = sys.argv[1:] if argv is None else [str(word) for word in argv]
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.suite is None and options.scale is not None:
        parser.error("--scale goes with --suite")
    if options.suite is None and options.dataset is None:
        parser.error("the following arguments are required: --dataset, or --suite")
    if options.suite is not None:
        from benchmarks.cli.suite import run_suite  # it draws too, which takes a while to import

        guarded(lambda: run_suite(options, argv))
    guarded(lambda: run(options))
