"""`python run.py`: plan, prepare, measure, show."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from benchmarks.cards import Algorithm, DatasetCard, Grid, LibraryCard, find_algorithms, unknown_name
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
from benchmarks.cli.groundtruth import add_truth_option, find_truth, require_truth
from benchmarks.cli.live import LiveTable, print_plan
from benchmarks.cli.summary import print_summary
from benchmarks.data.prepare import prepare, resolve_dataset
from benchmarks.data.supplied import is_supplied
from benchmarks.errors import UserError
from benchmarks.hardware import (
    Placement,
    available_memory_bytes,
    describe_machine,
    memory_limit_bytes,
    parse_size,
    place_here,
)
from benchmarks.hardware.conditions import read_conditions
from benchmarks.hardware.doctor import examine
from benchmarks.paths import ROOT
from benchmarks.plan import DataFacts, Request, make_plan
from benchmarks.progress import Progress
from benchmarks.results.schema import Provenance
from benchmarks.results.store import Result, Store
from benchmarks.runner.choose import RUNNERS, choose_runner
from benchmarks.runner.execute import Session, execute
from benchmarks.runner.supervise import Limits
from benchmarks.sweeps import Sweep, apply_overrides, grids_for, load_sweep, parse_override

LOOK_SECONDS = 0.1  # how long the machine is watched for others that use it
MOST_K = 65535  # hits are stored as uint16

EXAMPLES = """
examples:
  python run.py --dataset glove-50-6b --algorithm faiss-hnsw --algorithm faiss-ivfflat
  python run.py --dataset crossover-20k --algorithm faiss-hnsw --set faiss-hnsw.efSearch=10,20,40 --threads 1
  python run.py --dataset my-vectors.npy --distance cosine --mode single
  python run.py --dataset crossover-20k --dry-run

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
    add_data_options(parser)
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


def size(text: str) -> int:
    """Bytes: a number with an optional kB, MB, GB or TB (powers of ten)."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True)
class Choice:
    """What the command line asks for, resolved against cards and sweep; the data is not touched yet."""

    card: DatasetCard
    sweep: Sweep
    k: int
    mode: str
    repeats: int
    placement: Placement
    algorithms: list[tuple[Algorithm, list[Grid]]]
    origins: dict[str, str]

    def request(self, data: DataFacts, unavailable: dict[str, str] | None = None) -> Request:
        return Request(
            data=data,
            k=self.k,
            mode=self.mode,
            repeats=self.repeats,
            threads=self.placement.threads,
            seeds=self.sweep.build_seeds,
            algorithms=self.algorithms,
            unavailable=unavailable or {},
        )

    def unavailable(self, of: Callable[[LibraryCard], str | None]) -> dict[str, str]:
        """What the user has to bring for some of the algorithms, as `of` says."""
        reasons = {item.name: of(item.library) for item, _ in self.algorithms}
        return {name: reason for name, reason in reasons.items() if reason}


def resolve(options: argparse.Namespace) -> Choice:
    """Check everything that can be checked before data is fetched or an index is built."""
    known = find_algorithms()
    card = resolve_dataset(options.dataset, options.distance, options.queries)
    require_truth(options.supplied_truth, card)
    sweep, path = load_sweep(card.name, options.config, known, options.algorithm)
    names = list(dict.fromkeys(options.algorithm or sweep.algorithms))
    if not names:
        raise UserError(f"{path}: names no algorithm; add one, or pass --algorithm")
    for name in names:
        if name not in known:
            raise unknown_name("algorithm", name, list(known), f"known: {', '.join(known)}")
    overrides = [parse_override(text) for text in options.set]
    for name, parameter, _ in overrides:
        if name not in names:
            raise UserError(
                f"--set {name}.{parameter}: {name} is not among the algorithms of this run: {', '.join(names)}"
            )
    algorithms, origins = [], {}
    for name in names:
        grids, origins[name] = grids_for(known[name], sweep)
        algorithms.append((known[name], apply_overrides(known[name], grids, overrides)))
    return Choice(
        card,
        sweep,
        options.k or sweep.k,
        options.mode or sweep.mode,
        options.repeats or sweep.repeats,
        place_here(options.machine, options.threads),
        algorithms,
        origins,
    )


def with_supplied(choice: Choice, runner) -> Choice:
    """The same choice, its algorithms knowing what the user supplied for them in this runner."""
    algorithms = [
        (item.model_copy(update={"supplied_sha256": runner.supplied_sha256(item.library)}), grids)
        for item, grids in choice.algorithms
    ]
    return replace(choice, algorithms=algorithms)


def complete_points(store: Store, choice: Choice, runner: str, supplied: bool) -> frozenset[str]:
    """Hashes of the points that are measured already, by the same code in the same runner, and often enough.

    Those that were counted against supplied ground truth are complete only where that is asked for again.
    """
    code = {algorithm.name: algorithm.code_hash() for algorithm, _ in choice.algorithms}
    return frozenset(
        result.identity.hash()
        for result in store.results(choice.card.name, warn)
        if result.ok
        and result.record.provenance.code_sha256 == code.get(result.identity.algorithm)
        and result.record.provenance.runner == runner
        and result.record.repeats >= choice.repeats
        and (supplied or not is_supplied(result.record.truth))
        and placed_alike(result.record.provenance, choice.placement)
    )


def placed_alike(provenance: Provenance, placement: Placement) -> bool:
    """Whether a result was measured where this run would measure it, by name or on the very same CPUs."""
    same_cpus = provenance.affinity == sorted(placement.cpus)
    return provenance.machine_profile in (None, placement.profile) or same_cpus


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


def run(options: argparse.Namespace) -> int:
    """The whole of `run.py` after its arguments are parsed."""
    console, choice, progress = make_console(), resolve(options), Progress()
    store = Store(options.results_dir)
    if choice.k > MOST_K:
        raise UserError(f"k = {choice.k}: hits are counted up to {MOST_K}; ask for fewer neighbours")
    if options.dry_run:
        n, nq = choice.card.expected_rows()
        facts = DataFacts(
            name=choice.card.name,
            distance=choice.card.distance,
            dtype=choice.card.dtype,
            n=n,
            nq=nq,
            dimension=choice.card.dimension,
        )
        print_plan(console, make_plan(choice.request(facts)), choice.origins, choice.placement)
        for name, reason in choice.unavailable(lambda library: library.unavailable(os.environ)).items():
            console.print(f"  {name} {reason}", highlight=False, soft_wrap=True, style="yellow", markup=False)
        return 0
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
        done = frozenset()
        if not options.force:
            done = complete_points(store, choice, runner.name, options.supplied_truth)
        plan = make_plan(request, done)
        print_plan(console, plan, choice.origins, choice.placement)
        console.print(f"  runner: {runner.name} ({why})", highlight=False, soft_wrap=True, markup=False)
        if not plan.jobs and not plan.complete:
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
                )
            )
    except KeyboardInterrupt:
        print("stopped; what is complete is kept, and the same command goes on from there", file=sys.stderr)
        raise
    finally:
        lock.release()
    shown = {identity.hash() for job in plan.jobs for identity in job.points} | {item.hash() for item in plan.complete}
    failed = {record.identity.hash(): record for record in records if record.status != "ok"}
    results = [
        Result(result.path, failed.get(result.identity.hash(), result.record))  # a failure, if an older result stands
        for result in store.results(dataset.name, warn)
        if result.identity.hash() in shown
    ]
    print_summary(console, results, plan, store.folder)
    return POINTS_FAILED if failed else 0


def main(argv: list[str] | None = None) -> None:
    """Entry point of run.py."""
    options = build_parser().parse_args(argv)
    guarded(lambda: run(options))
