"""The options that choose results, and their choosing, the same for every verb that reads results."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.analysis.select import choose, listed, of_newest_code, require_alike
from benchmarks.cli.common import add_results_dir, positive, warn
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Metric
from benchmarks.results.store import Result, Store, folder_name

OPTIONS = {
    "dataset": {"metavar": "NAME", "help": "data set (may be left out if only one was measured)"},
    "algorithm": {"action": "append", "default": [], "metavar": "NAME", "help": "only this one; repeatable"},
    "k": {"type": positive, "help": "only points that were asked for K neighbours"},
    "mode": {"choices": ["batch", "single"], "help": "only points of this mode"},
    "threads": {"type": positive, "metavar": "N", "help": "only points of N threads"},
    "distance": {"choices": ["l2", "ip", "cosine"], "help": "only points of this distance"},
    "data": {"metavar": "HASH", "help": "only points whose base or queries have a hash that begins so"},
    "mix": {"action": "store_true", "help": "take unlike results together"},
}


def add_filters(parser: argparse.ArgumentParser, *names: str, **changes: dict) -> None:
    """Options that say which results, all or those named: `add_filters(parser, "k", "mode", k={"help": "…"})`."""
    for name in names or OPTIONS:
        parser.add_argument(f"--{name}", **OPTIONS[name] | changes.get(name, {}))


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Which results: data set, algorithms, K, mode, threads, data, whether unlike ones may be mixed, and the folder."""
    add_filters(parser)
    add_results_dir(parser)


def select(options: argparse.Namespace, metrics: Sequence[Metric] = ()) -> list[Result]:
    """The results that the options name, of each algorithm's newest code.

    Raises:
        UserError: there are none, or they are unlike in what matters for the metrics and --mix is not given.
    """
    store = Store(options.results_dir)
    results = list(store.results(dataset_of(store, options.dataset), warn))
    selected = filtered(results, options, ks_of([options.k] if options.k else [], metrics))
    selected, older = of_one_code(selected, options.mix)
    unlike = require_alike(
        selected, speed=any(metric.definition.kind == "speed" for metric in metrics), mix=options.mix
    )
    for note in filter(None, (older, unlike)):
        warn(note)
    return selected


def filtered(
    results: Sequence[Result], options: argparse.Namespace, ks: Sequence[int], algorithms: Sequence[str] = ()
) -> list[Result]:
    """Results that pass the options; of the `algorithms` where the options name none.

    Raises:
        UserError: there are none; says what there is.
    """
    how = {name: getattr(options, name) for name in ("mode", "threads", "distance", "data")}
    return choose(results, algorithms=options.algorithm or algorithms, ks=ks, **how)


def of_one_code(results: Sequence[Result], mix: bool) -> tuple[list[Result], str | None]:
    """Results of each algorithm's newest code; with `mix` all of them, and a note where some are older."""
    newest, old = of_newest_code(results)
    counts = Counter(result.identity.algorithm for result in old)
    points = [f"{count} point{'s' * (count > 1)} of {name}" for name, count in sorted(counts.items())]
    if mix:
        return list(results), f"mixed: newer code, and {listed(points)} measured with older code" if old else None
    if old:
        warn(f"{listed(points)} were measured with older code and are left out; --mix takes them")
    return newest, None


def ks_of(ks: Sequence[int], metrics: Sequence[Metric]) -> list[int]:
    """The K that are asked for, by --k or by a metric's @K; none means all.

    Raises:
        UserError: the two contradict each other.
    """
    for metric in metrics:
        if ks and metric.k and metric.k not in ks:
            raise UserError(f"'{metric.name}' is for K = {metric.k} but --k is {listed(ks)}; leave one of them out")
    return sorted(set(ks) or {metric.k for metric in metrics if metric.k})


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
