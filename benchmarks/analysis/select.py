"""Which results are shown together, and whether they may be. Pure functions over lists of results."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.errors import UserError
from benchmarks.results.schema import label
from benchmarks.results.store import Result


@dataclass(frozen=True)
class Field:
    """Something that results shown together must agree in, and the option that chooses one value of it."""

    of: Callable[[Result], object]
    flag: str
    speed_only: bool = False


UNKNOWN = "unknown"  # of imported results: what the other harness does not say


def _machine(result: Result) -> str:
    machine, imported = result.record.provenance.machine, result.record.provenance.imported
    if machine is None:
        return f"{UNKNOWN}, of {imported.harness}" if imported else UNKNOWN
    return f"{machine.cpu} ({machine.logical_cpus} CPUs)"


def _threads(result: Result) -> int | str:
    threads = result.identity.threads
    return UNKNOWN if threads is None else threads


def in_order(values: Iterable[object]) -> list:
    """Sorted; `unknown` comes last among numbers."""
    return sorted(values, key=lambda value: (value == UNKNOWN, value))


FIELDS = {
    "data": Field(lambda result: result.identity.base_sha256, "--data"),
    "queries": Field(lambda result: result.identity.queries_sha256, "--data"),
    "truth": Field(lambda result: result.record.truth, "--results-dir"),
    "distance": Field(lambda result: result.identity.distance, "--distance"),
    "k": Field(lambda result: result.identity.k, "--k"),
    "mode": Field(lambda result: result.identity.mode, "--mode"),
    "threads": Field(_threads, "--threads"),
    "machine": Field(_machine, "--results-dir", speed_only=True),
    "runner": Field(lambda result: result.record.provenance.runner, "--results-dir", speed_only=True),
}
HASHES = ("data", "queries", "truth")  # shown by their first digits


def comparable(result: Result, speed: bool) -> tuple:
    """What two results must share to be shown together; with machine and runner where a speed is shown."""
    return tuple(field.of(result) for field in FIELDS.values() if speed or not field.speed_only)


def choose(
    results: Iterable[Result],
    *,
    algorithms: Sequence[str] = (),
    ks: Sequence[int] = (),
    mode: str | None = None,
    threads: int | None = None,
    distance: str | None = None,
    data: str | None = None,
) -> list[Result]:
    """Results of what is asked for; an empty or None filter lets all pass.

    `data` is how the hash of the base vectors or of the queries begins.

    Raises:
        UserError: there are none, or none of an algorithm that was named; says what there is.
    """
    results = list(results)
    if not results:
        raise UserError("there are no readable results to choose from")
    present = Counter(result.identity.algorithm for result in results)
    for name in algorithms:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UserError(f"no results of algorithm '{name}'; {hint}{inventory(results)}")
    chosen = [
        result
        for result in results
        if (not algorithms or result.identity.algorithm in algorithms)
        and (not ks or result.identity.k in ks)
        and mode in (None, result.identity.mode)
        and threads in (None, result.identity.threads)
        and distance in (None, result.identity.distance)
        and (
            not data or result.identity.base_sha256.startswith(data) or result.identity.queries_sha256.startswith(data)
        )
    ]
    if not chosen:
        asked = [f"--algorithm {name}" for name in algorithms] + [f"--k {k}" for k in ks]
        asked += [f"--mode {mode}"] if mode else []
        asked += [f"--threads {threads}"] if threads else []
        asked += [f"--distance {distance}"] if distance else []
        asked += [f"--data {data}"] if data else []
        raise UserError(f"no results for {' '.join(asked)}; {inventory(results)}")
    return chosen


def with_values(results: Iterable[Result], wanted: Iterable[tuple[str, str, list]]) -> list[Result]:
    """Results without those of an algorithm that have another value of a parameter than is wanted of it.

    `wanted` are algorithms, parameters and values, as `benchmarks.sweeps.parse_override` reads them.

    Raises:
        UserError: no result has a value that is wanted; says which there are.
    """
    left = list(results)
    for algorithm, parameter, values in wanted:
        own = [result for result in left if result.identity.algorithm == algorithm]
        of = {id(result): {**result.identity.build_params, **result.identity.search_params} for result in own}
        kept = [result for result in own if of[id(result)].get(parameter) in values]
        if own and not kept:
            there = {str(params[parameter]) for params in of.values() if parameter in params}
            raise UserError(
                f"no results of {algorithm} have {parameter} = {', '.join(map(str, values))}; there are: "
                + (", ".join(sorted(there)) or f"none with a parameter {parameter}")
            )
        dropped = {id(result) for result in own} - {id(result) for result in kept}
        left = [result for result in left if id(result) not in dropped]
    return left


def of_newest_code(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """Split into what each algorithm's newest code measured, and what older code did.

    An adapter, or the pins of its library, may have changed between two runs; a curve through both would be of none.
    """
    results, newest = list(results), {}
    for result in results:
        name, made = result.identity.algorithm, result.record.provenance
        if name not in newest or made.measured_at > newest[name].measured_at:
            newest[name] = made
    split: dict[bool, list[Result]] = {True: [], False: []}
    for result in results:
        same = result.record.provenance.code_sha256 == newest[result.identity.algorithm].code_sha256
        split[same].append(result)
    return split[True], split[False]


def measured_as(results: Iterable[Result]) -> str:
    """Options of run.py that measure more in the way of most of these: ` --threads 1 --mode single`."""
    ways = Counter((result.identity.threads, result.identity.mode) for result in results)
    if not ways:
        return ""
    threads, mode = ways.most_common(1)[0][0]
    return (f" --threads {threads}" if threads else "") + (f" --mode {mode}" if mode != "batch" else "")


def inventory(results: Iterable[Result]) -> str:
    """What there is, with the number of points: data sets, algorithms, K, modes and threads."""
    results = list(results)
    parts = []
    for name, of in (
        ("data sets", lambda result: result.identity.dataset),
        ("algorithms", lambda result: result.identity.algorithm),
        ("k", FIELDS["k"].of),
        ("modes", FIELDS["mode"].of),
        ("threads", FIELDS["threads"].of),
    ):
        counts = Counter(map(of, results))
        parts.append(f"{name} " + ", ".join(f"{value} ({counts[value]})" for value in in_order(counts)))
    return "there are: " + "; ".join(parts)


def require_alike(results: Sequence[Result], *, speed: bool, mix: bool = False) -> str | None:
    """Refuse to show unlike results together.

    Returns:
        the note for the figure where they are unlike and may be shown: `mixed: k 10 and 100`; else None.

    Args:
        results: what is to be shown.
        speed: whether a speed metric is among what is shown, so that machine and runner matter.
        mix: allow it.

    Raises:
        UserError: they differ, and `mix` is False; names what differs, the values, and the way out.
    """
    unlike = {}
    for name, field in FIELDS.items():
        counts = Counter(map(field.of, results))
        if len(counts) > 1 and (speed or not field.speed_only):
            unlike[name] = counts
    if not unlike:
        return None
    if mix:
        return "mixed: " + "; ".join(
            f"{name} {listed(_short(name, value) for value in in_order(counts))}" for name, counts in unlike.items()
        )
    found = "; ".join(
        f"{name} " + ", ".join(f"{_short(name, value)} ({counts[value]} points)" for value in in_order(counts))
        for name, counts in unlike.items()
    )
    flags = listed(dict.fromkeys(FIELDS[name].flag for name in unlike))
    imported = sum(result.record.provenance.imported is not None for result in results)
    where = (
        f" ({imported} points are imported: other harnesses measured them, elsewhere; --algorithm leaves them out)"
        if imported
        else ""
    )
    raise UserError(f"these results differ in {found}{where}; choose with {flags}, or show them together with --mix")


def _short(name: str, value: object) -> str:
    return str(value)[:8] if name in HASHES else str(value)


def listed(items: Iterable[object]) -> str:
    """`a, b and c`."""
    *rest, last = map(str, items)
    return f"{', '.join(rest)} and {last}" if rest else last


def average_recall(result: Result) -> Fraction:
    """Mean over queries of hits / K, exact."""
    return Fraction(int(result.hits.sum(dtype="int64")), len(result.hits) * result.record.denominator)


def nearest(results: Iterable[Result], recall: float = 0.9) -> list[Result]:
    """For each algorithm its operating point whose average recall is nearest to `recall`.

    Of two points that are equally near, the one with the higher recall. Where unlike results are mixed, one
    point of each kind. Failed points do not count. Sorted by algorithm.

    Raises:
        UserError: every point failed.
    """
    results = list(results)
    require_ok(results)
    target = Fraction(str(recall))
    groups: dict[tuple, list[Result]] = {}
    for result in results:
        if result.ok:
            key = (result.identity.algorithm, *comparable(result, speed=False))
            groups.setdefault(key, []).append(result)

    def distance(result: Result):
        found = average_recall(result)
        return abs(found - target), -found, result.identity.label(), result.identity.seed

    return [min(groups[key], key=distance) for key in sorted(groups)]


def require_ok(results: Sequence[Result]) -> None:
    """Raises UserError where every point failed, so that there is nothing to draw."""
    if not any(result.ok for result in results):
        raise UserError(f"every selected point failed: {'; '.join(failures(results).values())}")


def describe(results: Sequence[Result]) -> str:
    """`K = 10 · batch mode · 1 thread · n = 1,000 queries`, for the head of a figure."""
    ks = sorted({result.identity.k for result in results})
    modes = sorted({result.identity.mode for result in results})
    threads = in_order({_threads(result) for result in results})
    queries = sorted({result.record.nq for result in results})
    plural = "" if threads == [1] else "s"
    return (
        f"K = {listed(ks)} · {listed(modes)} mode · {listed(threads)} thread{plural} · "
        f"n = {listed(f'{nq:,}' for nq in queries)} queries"
    )


def varying(parameters: Sequence[dict]) -> list[str]:
    """Names of the parameters that do not have the same value everywhere, in order of appearance."""
    names = dict.fromkeys(name for each in parameters for name in each)
    return [name for name in names if len({repr(each.get(name)) for each in parameters}) > 1]


def failures(results: Sequence[Result], limit: int = 4) -> dict[str, str]:
    """For each algorithm with failed points: `faiss-hnsw: 1 failed (out-of-memory: efSearch=64)`.

    Points are named by their search parameters, and by the build parameters that the algorithm varies; beyond
    `limit` points the rest are counted.
    """
    lines = {}
    for algorithm in sorted({result.identity.algorithm for result in results}):
        own = [result for result in results if result.identity.algorithm == algorithm]
        failed = [result for result in own if not result.ok]
        if not failed:
            continue
        builds = varying([result.identity.build_params for result in own])
        reasons: dict[str, list[str]] = {}
        for result in failed[:limit]:
            build = {name: value for name, value in result.identity.build_params.items() if name in builds}
            point = label({**build, **result.identity.search_params})
            reasons.setdefault(result.record.status, []).append(point)
        parts = [
            ("" if status == "failed" else f"{status}: ") + " and ".join(points) for status, points in reasons.items()
        ]
        parts += [f"and {len(failed) - limit} more"] if len(failed) > limit else []
        all_of = "all " if len(failed) == len(own) > 1 else ""
        lines[algorithm] = f"{algorithm}: {all_of}{len(failed)} failed ({'; '.join(parts)})"
    return lines
