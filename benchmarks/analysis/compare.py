"""Two sets of results, point by point, paired on the same queries."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.analysis.select import FIELDS, HASHES, listed
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result, Store
from benchmarks.statistics.intervals import CONFIDENCE
from benchmarks.statistics.levels import compare_builds
from benchmarks.statistics.paired import Difference, compare_means, compare_shares, holm

PAIRED = ("quality", "relevance")


@dataclass(frozen=True)
class Pair:
    """One operating point on both sides; several results where it was built with several seeds."""

    base: tuple[Result, ...]
    new: tuple[Result, ...]

    @property
    def name(self) -> str:
        """For people: what is searched, and both names where the two sides are not the same point."""
        base, new = (describe(side[0]) for side in (self.base, self.new))
        if base == new:
            return base
        one, other = self.base[0].identity, self.new[0].identity
        if (one.dataset, one.algorithm, one.k) == (other.dataset, other.algorithm, other.k):
            return f"{one.dataset} {one.algorithm} {one.label()} → {other.label()} @{one.k}"
        return f"{base} → {new}"

    @property
    def algorithms(self) -> set[str]:
        return {self.base[0].identity.algorithm, self.new[0].identity.algorithm}


@dataclass(frozen=True)
class Matched:
    """All that two sides have in common, and what they have not."""

    pairs: list[Pair]
    only_base: list[str] = field(default_factory=list)
    only_new: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)  # point that BASE has and that failed in NEW; status


@dataclass(frozen=True)
class Change:
    """One metric of one pair. The difference is new minus base, in the metric's unit, or relative if `relative`."""

    pair: Pair
    metric: Metric
    base: float
    new: float
    difference: float
    low: float | None = None
    high: float | None = None
    n: int | None = None  # queries, or for speed the repeats of the side that has fewer
    p: float | None = None
    p_adjusted: float | None = None
    effect: float | None = None
    detectable: float | None = None
    relative: bool = False

    @property
    def loss(self) -> float:
        """More than 0 if the new one is worse."""
        return self.difference * (-1 if self.metric.definition.better == "higher" else 1)


def describe(result: Result) -> str:
    """`glove-50-6b faiss-hnsw M=16,efSearch=64 @10`."""
    identity = result.identity
    return f"{identity.dataset} {identity.algorithm} {identity.label()} @{identity.k}"


def load(text: str, baselines: Path, warn) -> list[Result]:
    """Results of a folder, a result file, or the name of a baseline (a folder of `results/baselines`).

    Raises:
        UserError: there is no such thing, or no result in it; says which baselines there are.
    """
    path = Path(text).expanduser()
    if not path.exists():
        path = baselines / text
        if not path.is_dir() or path.resolve().parent != baselines.resolve():
            known = sorted(item.name for item in baselines.glob("*") if item.is_dir())
            raise UserError(
                f"{text}: no such file or folder, and no baseline of that name; "
                f"baselines: {', '.join(known) or 'none'} (folders of {baselines})"
            )
    path = path.resolve()
    if path.is_file():
        return [Store(path.parent).read(path)]
    results = []
    for file in sorted(path.rglob("*.hdf5")):
        inside = file.relative_to(path).parts
        if any(part.startswith(".") for part in inside) or inside[0] == baselines.name or is_truth(file):
            continue
        try:
            results.append(Store(path).read(file))
        except UserError as error:
            warn(str(error))
    if not results:
        raise UserError(f"{path}: holds no readable result; give a results folder, a part of one, or a result file")
    return results


def is_truth(file: Path) -> bool:
    """Ground truth lies beside the folders of algorithms."""
    return file.name.startswith("truth-")


def match(base: Iterable[Result], new: Iterable[Result]) -> Matched:
    """Pair the operating points of two sides: same data set, algorithm, parameters, K, mode and threads.

    What is left over is paired by algorithm and parameters alone where that is unambiguous, so that unlike runs are
    seen as such. One point against one point is always a pair, whatever they are.

    Raises:
        UserError: they have nothing in common.
    """
    sides = _groups(base), _groups(new)
    for name, side in zip(("BASE", "NEW"), sides, strict=True):
        if not any(result.ok for group in side.values() for result in group):
            raise UserError(f"{name} holds no point that was measured, only failed ones")
    keys = _pairs_of_keys(*sides)
    pairs, failed = [], []
    for there, here in keys:
        old, new = sides[0][there], sides[1][here]
        found = [tuple(result for result in group if result.ok) for group in (old, new)]
        if found[0] and found[1]:
            pairs.append(Pair(*found))
        if found[0] and len(found[1]) < len(new):
            broken = next(result for result in new if not result.ok)
            failed.append((describe(broken), f"{broken.record.status}: {broken.record.reason or 'no reason'}"))
    alone = []
    for number, side in enumerate(sides):
        seen = {pair[number] for pair in keys}
        alone.append([describe(group[0]) for key, group in side.items() if key not in seen])
    if not pairs and not failed:
        raise UserError(
            f"BASE and NEW have no operating point in common: BASE has {_some(alone[0])}; NEW has {_some(alone[1])}; "
            "two points of different kind are compared by naming a result file for each"
        )
    return Matched(pairs, *alone, failed)


def _pairs_of_keys(base: dict[tuple, list], new: dict[tuple, list]) -> list[tuple[tuple, tuple]]:
    """Which groups of the two sides belong together."""
    if len(base) == len(new) == 1:
        return [(next(iter(base)), next(iter(new)))]
    keys = [(key, key) for key in base if key in new]
    loose: dict[tuple, tuple[list, list]] = {}
    for number, side in enumerate((base, new)):
        for key in side:
            if not (key in base and key in new):
                loose.setdefault(key[:4], ([], []))[number].append(key)
    return keys + [(there[0], here[0]) for there, here in loose.values() if len(there) == len(here) == 1]


def _groups(results: Iterable[Result]) -> dict[tuple, list[Result]]:
    """Results that are equal up to their seed, by what they share."""
    groups: dict[tuple, list[Result]] = {}
    for result in results:
        identity = result.identity
        key = (
            *(identity.dataset, identity.algorithm, label(identity.build_params), label(identity.search_params)),
            *(identity.k, identity.mode, identity.threads),
        )
        groups.setdefault(key, []).append(result)
    for key, group in groups.items():
        group.sort(key=lambda result: (result.identity.seed is None, result.identity.seed or 0))  # imported: unknown
        for name in ("data", "queries", "truth", "distance"):
            if len({FIELDS[name].of(result) for result in group}) > 1:
                raise UserError(
                    f"{key[0]} {key[1]} {key[3]}: there are results of several {name} in one folder "
                    f"({listed(str(FIELDS[name].of(result))[:8] for result in group)}); name result files instead"
                )
    return groups


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}"


def unlike(pair: Pair, speed: bool) -> dict[str, tuple[str, str]]:
    """What BASE and NEW of a pair differ in that they should share, with both values."""
    found = {}
    for name, item in FIELDS.items():
        values = [sorted({str(item.of(result)) for result in side}) for side in (pair.base, pair.new)]
        if values[0] != values[1] and (speed or not item.speed_only):
            shown = [listed(value[:8] if name in HASHES else value for value in side) for side in values]
            found[name] = (shown[0], shown[1])
    return found


def require_like(pairs: Sequence[Pair], speed: bool, mix: bool) -> list[str]:
    """Refuse to compare unlike runs.

    Returns:
        one line for each thing in which they are unlike and compared nevertheless.

    Raises:
        UserError: they differ and `mix` is False; or in their queries, which nothing can pair.
    """
    lines: dict[str, int] = {}
    for pair in pairs:
        for name, (there, here) in unlike(pair, speed).items():
            line = f"{name} {there} in BASE, {here} in NEW"
            lines[line] = lines.get(line, 0) + 1
            if name == "queries" or pair.base[0].record.nq != pair.new[0].record.nq:
                raise UserError(f"{pair.name}: {line}: other queries cannot be paired, not even with --mix")
    if lines and not mix:
        only_speed = all(
            line.split()[0] in {name for name, item in FIELDS.items() if item.speed_only} for line in lines
        )
        way_out = "leave the speed metrics out with --metric, or" if only_speed else "name runs that agree, or"
        raise UserError(f"BASE and NEW are unlike: {'; '.join(lines)}; {way_out} compare them nevertheless with --mix")
    return list(lines)


def difference(pair: Pair, metric: Metric, confidence: float = CONFIDENCE) -> Difference | None:
    """Paired difference of a metric that is a mean over queries; None where it is none, or a side has it not.

    Where both sides were built several times it is over builds and queries, else of the builds of one seed.
    """
    sides = [[metric.per_query(result) for result in side] for side in _builds(pair)]
    if any(values is None for side in sides for values in side):
        return None
    base, new = (np.stack(side) for side in sides)
    try:
        if len(base) > 1:
            return compare_builds(base, new, confidence)
        if metric.definition.share:
            return compare_shares(base[0] > 0.5, new[0] > 0.5, confidence)
        return compare_means(base[0], new[0], confidence)
    except ValueError as error:
        raise UserError(f"{pair.name}: {metric.name} cannot be compared: {error}; leave it out") from None


def _builds(pair: Pair) -> tuple[Sequence[Result], Sequence[Result]]:
    """All builds where both sides have several, else one of each, of the same seed if there is one."""
    if min(len(pair.base), len(pair.new)) > 1:
        return pair.base, pair.new
    shared = {result.identity.seed for result in pair.base} & {result.identity.seed for result in pair.new}
    seed = min(shared) if shared else None
    return tuple(
        [next((result for result in side if result.identity.seed == seed), side[0])] for side in (pair.base, pair.new)
    )


def change(pair: Pair, metric: Metric, confidence: float = CONFIDENCE) -> Change | None:
    """What a metric did between base and new; None where a side does not have it."""
    sides = _builds(pair)
    measured = [[metric.compute(result) for result in side] for side in sides]
    if any(item is None for side in measured for item in side):
        return None
    values = [[item.value for item in side] for side in measured]
    if metric.definition.kind in PAIRED:
        base, new = (float(np.mean(side)) for side in values)
        found = difference(pair, metric, confidence)
        if found is None:
            return Change(pair, metric, base, new, new - base)
        return Change(
            *(pair, metric, base, new, found.difference, found.low, found.high, found.n, found.p),
            effect=found.effect,
            detectable=found.detectable,
        )
    base, new = (float(np.median(side)) for side in values)
    if base == 0:
        return None
    low = high = n = None
    if metric.definition.template == "qps":
        passes = [np.concatenate([result.record.nq / result.search_seconds for result in side]) for side in sides]
        low, high = ratio_interval(*passes, confidence)
        n = min(map(len, passes))
    return Change(pair, metric, base, new, new / base - 1, low, high, n, relative=True)


def ratio_interval(base: np.ndarray, new: np.ndarray, confidence: float) -> tuple[float | None, float | None]:
    """Interval of new / base − 1 of two speeds, from the logarithms of their repeats (Welch); None of one repeat."""
    from scipy.special import stdtrit

    if min(len(base), len(new)) < 2:
        return None, None
    parts = [np.log(side).var(ddof=1) / len(side) for side in (base, new)]
    centre, error = np.log(np.median(new) / np.median(base)), math.sqrt(sum(parts))
    if error == 0:
        return float(np.expm1(centre)), float(np.expm1(centre))
    freedom = error**4 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (base, new), strict=True))
    half = stdtrit(freedom, (1 + confidence) / 2) * error
    return float(np.expm1(centre - half)), float(np.expm1(centre + half))


def changes(pairs: Sequence[Pair], metrics: Sequence[Metric], confidence: float = CONFIDENCE) -> list[Change]:
    """Every metric of every pair; p adjusted by Holm over all of them."""
    found = [item for pair in pairs for metric in metrics if (item := change(pair, metric, confidence))]
    tested = [index for index, item in enumerate(found) if item.p is not None]
    for index, adjusted in zip(tested, holm([found[index].p for index in tested]), strict=True):
        found[index] = replace(found[index], p_adjusted=adjusted)
    return found


def notes(pairs: Sequence[Pair]) -> list[str]:
    """What a reader should know of the pairs: builds, code and library versions that differ."""
    lines = {}
    for pair in pairs:
        base, new = pair.base[0], pair.new[0]
        name = listed(sorted(pair.algorithms))
        builds = len(pair.base), len(pair.new)
        if min(builds) > 1:
            lines[f"{name}: over {builds[0]} builds of BASE, {builds[1]} of NEW, and the queries"] = None
        elif max(builds) > 1:
            lines[f"{name}: {builds[0]} builds of BASE, {builds[1]} of NEW; one of each is compared"] = None
        if base.identity.algorithm != new.identity.algorithm:
            continue
        there, here = base.record.provenance, new.record.provenance
        versions = [
            f"{package} {there.versions.get(package, '-')} → {here.versions.get(package, '-')}"
            for package in sorted({*there.versions, *here.versions})
            if there.versions.get(package) != here.versions.get(package)
        ]
        if versions:
            lines[f"{name}: {', '.join(versions)}"] = None
        if there.code_sha256 != here.code_sha256:
            lines[f"{name}: the adapter or its pins changed"] = None
    return list(lines)
