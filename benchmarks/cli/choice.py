"""What a command line of `run.py` asks for, resolved against cards, sweep and machine, and what of it is done."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from benchmarks.analysis.select import average_recall
from benchmarks.analysis.target import Target
from benchmarks.cards.algorithms import Algorithm, Grid, LibraryCard, find_algorithms
from benchmarks.cards.datasets import DatasetCard
from benchmarks.cli.common import warn
from benchmarks.cli.groundtruth import require_truth
from benchmarks.data.prepare import resolve_dataset
from benchmarks.data.supplied import is_supplied
from benchmarks.errors import UserError, unknown_name
from benchmarks.hardware import Placement, place_here
from benchmarks.plan import DataFacts, Request
from benchmarks.results.schema import Identity, Provenance
from benchmarks.results.store import Result, Store
from benchmarks.sweeps import Sweep, apply_overrides, grids_for, load_sweep, parse_override


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
    targets, k = targets_of(options)
    algorithms, origins = [], {}
    for name in names:
        grids, origins[name] = grids_for(known[name], sweep)
        grids = apply_overrides(known[name], grids, overrides)
        if targets:
            grids = [grid.model_copy(update={"target": targets}) for grid in grids]
        algorithms.append((known[name], grids))
    return Choice(
        card,
        sweep,
        k or sweep.k,
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


def targets_of(options: argparse.Namespace) -> tuple[list[Target], int | None]:
    """The recalls that the command line wants found, and K, where it names one.

    Raises:
        UserError: K is named in two ways, or a tolerance without a target.
    """
    if options.tolerance is not None and not options.target:
        raise UserError("--tolerance goes with --target; that of a sweep stands beside its target")
    ks = {k for _, k in options.target if k} | ({options.k} if options.k else set())
    if len(ks) > 1:
        raise UserError(f"--target and --k name different K ({', '.join(map(str, sorted(ks)))}); run each by itself")
    tolerance = {} if options.tolerance is None else {"tolerance": options.tolerance}
    targets = [Target(recall=recall, **tolerance) for recall in dict.fromkeys(recall for recall, _ in options.target)]
    return targets, next(iter(ks), None)


def complete_results(store: Store, choice: Choice, runner: str, supplied: bool) -> list[Result]:
    """The points that are measured already, by the same code in the same runner, and often enough.

    Those that were counted against supplied ground truth are complete only where that is asked for again.
    """
    code = {algorithm.name: algorithm.code_hash() for algorithm, _ in choice.algorithms}
    return [
        result
        for result in store.results(choice.card.name, warn)
        if result.ok
        and result.record.provenance.code_sha256 == code.get(result.identity.algorithm)
        and result.record.provenance.runner == runner
        and result.record.repeats >= choice.repeats
        and (supplied or not is_supplied(result.record.truth))
        and placed_alike(result.record.provenance, choice.placement)
    ]


def recalls(choice: Choice, results: list[Result]) -> list[tuple[Identity, Fraction]]:
    """Average recall of the points of those algorithms for which a target is sought."""
    names = {algorithm.name for algorithm, grids in choice.algorithms if any(grid.target for grid in grids)}
    return [(result.identity, average_recall(result)) for result in results if result.identity.algorithm in names]


def placed_alike(provenance: Provenance, placement: Placement) -> bool:
    """Whether a result was measured where this run would measure it, by name or on the very same CPUs."""
    same_cpus = provenance.affinity == sorted(placement.cpus)
    return provenance.machine_profile in (None, placement.profile) or same_cpus
