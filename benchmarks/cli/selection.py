"""The options that choose results, and their choosing, the same for every verb that reads results."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.analysis.select import choose, of_newest_code, require_alike
from benchmarks.cli.common import add_results_dir, positive, warn
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Metric
from benchmarks.results.store import Result, Store, folder_name


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Which results: data set, algorithms, K, mode, threads, data, and whether unlike ones may be mixed."""
    parser.add_argument("--dataset", metavar="NAME", help="data set (may be left out if only one was measured)")
    parser.add_argument("--algorithm", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--k", type=positive, help="only points that were asked for K neighbours")
    parser.add_argument("--mode", choices=["batch", "single"], help="only points of this mode")
    parser.add_argument("--threads", type=positive, metavar="N", help="only points of N threads")
    parser.add_argument("--distance", choices=["l2", "ip", "cosine"], help="only points of this distance")
    parser.add_argument("--data", metavar="HASH", help="only points whose base or queries have a hash that begins so")
    parser.add_argument("--mix", action="store_true", help="take unlike results together")
    add_results_dir(parser)


def select(options: argparse.Namespace, metrics: Sequence[Metric] = ()) -> list[Result]:
    """The results that the options name, of each algorithm's newest code.

    Raises:
        UserError: there are none, or they are unlike in what matters for the metrics and --mix is not given.
    """
    store = Store(options.results_dir)
    selected = choose(
        list(store.results(dataset_of(store, options.dataset), warn)),
        algorithms=options.algorithm,
        ks=ks_of(options.k, metrics),
        mode=options.mode,
        threads=options.threads,
        distance=options.distance,
        data=options.data,
    )
    if not options.mix:
        selected, old = of_newest_code(selected)
        for name, count in Counter(result.identity.algorithm for result in old).items():
            warn(f"{count} points of {name} were measured with older code of it and are left out; --mix takes them")
    mixed = require_alike(selected, speed=any(metric.definition.kind == "speed" for metric in metrics), mix=options.mix)
    if mixed:
        warn(mixed)
    return selected


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
