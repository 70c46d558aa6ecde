"""Known bad shapes of results: what is wrong, its likely cause, and the check that says so; healthy ones have none."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.analysis.select import average_recall
from benchmarks.analysis.series import Series, series
from benchmarks.cards.algorithms import Algorithm
from benchmarks.results.schema import label
from benchmarks.results.store import Result
from benchmarks.statistics.intervals import wilson

ALL = 0.9999  # recall from which all is found
PLATEAU_RECALL = 0.99  # below it, more effort should bring more
PLATEAU_EFFORT, PLATEAU_GAIN = 4, 0.1  # so many times the effort brought less than this share of what was missing
FALL, FALL_Z = 0.002, 3.3  # of recall, and in standard errors of the paired difference
TAIL_RECALL, TAIL = 0.9, 0.005  # so many queries with less than a tenth of their neighbours, at such an average
DISORDER = 0.05  # share of neighbouring answers in the wrong order
SAME_SPEED = 1.5  # time of the slowest point over that of the fastest, with four times the effort
CALLER = 0.9  # share of the CPU time that the calling thread spent by itself
LEAST_CPU_SECONDS = 0.05  # for that to mean anything
TOLD = 0.05  # residual of the library's own distances, in their standard deviation


@dataclass(frozen=True)
class Finding:
    """One bad shape in one series."""

    shape: str
    where: str
    text: str  # what is seen, the cause, and the check

    def line(self) -> str:
        return f"{self.where}: {self.text}"


Check = Callable[[Series], Iterator[str]]
_CHECKS: dict[str, Check] = {}


def check(shape: str) -> Callable[[Check], Check]:
    """Register a function that yields one text for each time it sees the shape in a series."""

    def register(function: Check) -> Check:
        _CHECKS[shape] = function
        return function

    return register


def diagnose(results: Iterable[Result], algorithms: Mapping[str, Algorithm]) -> list[Finding]:
    """Every bad shape in the results that are ok, by series; exact algorithms have no knob that could be wrong."""
    return [
        Finding(shape, each.name(), text)
        for each in series(results, algorithms)
        if each.family != "exact"
        for shape, function in _CHECKS.items()
        for text in function(each)
    ]


def shapes() -> list[str]:
    """Names of what is looked for."""
    return list(_CHECKS)


def _recalls(each: Series) -> list[float]:
    return [float(average_recall(point)) for point in each.points]


def _span(each: Series) -> float:
    """How many times larger the last value of the knob is than the first."""
    first, last = each.value(each.points[0]), each.value(each.points[-1])
    return last / first if first > 0 else 0.0


@check("knob without effect")
def _no_effect(each: Series) -> Iterator[str]:
    first, last = each.points[0], each.points[-1]
    if each.value(first) == each.value(last) or _recalls(each)[-1] >= ALL:
        return
    answers = first.array("neighbors")
    if all(np.array_equal(answers, point.array("neighbors")) for point in each.points[1:]):
        yield (
            f"recall is {_recalls(each)[0]:.4f} whatever {each.knob} is: the knob does not reach the library "
            f"(all {len(each.points)} points from {each.value(first):g} to {each.value(last):g} have the same answers)"
        )


@check("recall falls")
def _falls(each: Series) -> Iterator[str]:
    for before, after in zip(each.points, each.points[1:], strict=False):
        gain = (after.hits.astype(np.float64) - before.hits) / after.record.denominator
        error = gain.std() / np.sqrt(len(gain))
        if gain.mean() < -FALL and gain.mean() < -FALL_Z * error:
            yield (
                f"recall falls from {float(average_recall(before)):.4f} to {float(average_recall(after)):.4f} as "
                f"{each.knob} grows from {each.value(before):g} to {each.value(after):g}: more effort must not find "
                f"less; look for a race, or a knob that means something else (the same queries, "
                f"{-gain.mean() / error if error else np.inf:.0f} standard errors)"
            )


@check("plateau")
def _plateau(each: Series) -> Iterator[str]:
    recalls, last = _recalls(each), each.points[-1]
    early = [
        recall
        for point, recall in zip(each.points, recalls, strict=True)
        if 0 < each.value(point) * PLATEAU_EFFORT <= each.value(last)
    ]
    if not early or recalls[-1] >= PLATEAU_RECALL or next(_no_effect(each), None) or next(_falls(each), None):
        return
    if recalls[-1] - early[-1] < PLATEAU_GAIN * (1 - early[-1]):
        yield (
            f"recall stays at {recalls[-1]:.4f}: {PLATEAU_EFFORT} times the {each.knob} brought "
            f"{recalls[-1] - early[-1]:+.4f}; {_cause(each, last)}"
        )


def _cause(each: Series, point: Result) -> str:
    """Why the strongest point does not find the rest."""
    distances, ids = point.array("distances"), point.array("neighbors")
    both = (ids[:, 1:] >= 0) & (ids[:, :-1] >= 0)
    with np.errstate(invalid="ignore"):  # where there is no neighbour the distance is infinite
        wrong = (distances[:, 1:] < distances[:, :-1] - 1e-5 * np.abs(distances[:, :-1])) & both
    disorder = wrong.sum() / max(1, both.sum())
    if disorder > DISORDER:
        return (
            f"the library ranks by another distance than {point.identity.distance}, or by a coarse code of the vectors "
            f"({disorder:.0%} of neighbouring answers are in the wrong order)"
        )
    if point.truth is not None:
        top = point.record.denominator
        exact = point.truth.ids[:, :top]
        found = np.array([np.isin(row, answer) for row, answer in zip(exact, ids, strict=True)])
        wanted = np.bincount(exact.ravel(), minlength=point.record.n)
        got = np.bincount(exact[found], minlength=point.record.n)
        never = (got == 0) & (wanted > 0)
        missed = wanted.sum() - got.sum()
        share = (1 - got.sum() / wanted.sum()) ** wanted[never]  # how likely it is that all were missed by chance
        if wanted[never].sum() > 0.5 * missed and share.sum() < 0.5 * never.sum():
            return (
                f"vectors are missing from the index, or cannot be reached in it ({int(never.sum())} base vectors that "
                f"belong in answers are in none; they are {wanted[never].sum() / missed:.0%} of all that is missed)"
            )
    build = ", ".join(point.identity.build_params) or "none"
    held = {name: value for name, value in point.identity.search_params.items() if name != each.knob}
    what = f"what was built, or {label(held)}," if held else "what was built"
    return (
        f"{what} does not allow more; build it better (its build parameters: {build}; answers are in order"
        f"{' and no group of vectors is missing' if point.truth is not None else ''})"
    )


@check("flat 1.0")
def _flat(each: Series) -> Iterator[str]:
    first, last = each.points[0], each.points[-1]
    if min(_recalls(each)) < ALL or each.value(first) == each.value(last):
        return
    if last.truth is not None and last.identity.distance != "ip":
        nearest = last.truth.distances[:, 0]
        scale = np.median(np.abs(last.truth.distances[:, -1])) or 1.0
        same = float((nearest <= 1e-9 * scale).mean())
        if same > 0.5:
            yield (
                f"recall is 1 at every {each.knob}: the queries are in the base, which is no search "
                f"({same:.0%} of them are at distance 0 from a base vector)"
            )
            return
    computations = [point.record.stats.get("distance_computations") for point in each.points]
    if computations[0] is not None and computations[0] >= first.record.nq * first.record.n:
        yield (
            f"recall is 1 at every {each.knob}: the library compares all vectors instead of using its index "
            f"({computations[0] / first.record.nq:,.0f} distances for each query, {first.record.n:,} vectors)"
        )
        return
    times = [point.record.search_cpu_seconds for point in each.points]
    if None in times:  # CPU time does not mind who else uses the machine
        times = [float(np.median(point.search_seconds)) for point in each.points]
    if _span(each) >= PLATEAU_EFFORT and max(times) < SAME_SPEED * min(times):
        yield (
            f"recall is 1 at every {each.knob} and so is the speed: the library takes an exact path, or ignores the "
            f"knob ({_span(each):.0f} times the {each.knob} changed the time by {max(times) / min(times) - 1:.0%})"
        )


@check("hidden tail")
def _tail(each: Series) -> Iterator[str]:
    for point, recall in zip(each.points, _recalls(each), strict=True):
        if recall < TAIL_RECALL:
            continue
        lost = int((point.hits * 10 < point.record.denominator).sum())
        low, high = wilson(lost, point.record.nq)
        if low > TAIL:
            at = f"{each.knob}={each.value(point):g}: " if each.knob else ""
            yield (
                f"{at}recall {recall:.4f} hides {lost / point.record.nq:.1%} of the queries that find less than a "
                f"tenth of their neighbours (95 % interval {low:.1%} to {high:.1%} of {point.record.nq:,}); spread "
                "evenly, misses would leave hardly any: look at robustness-0.1, not at the average"
            )
        return  # the weakest point above that recall says it all


@check("reported distances")
def _told(each: Series) -> Iterator[str]:
    wrong = [point for point in each.points if (point.record.reported_distance_error or 0) > TOLD]
    if wrong:
        worst = max(wrong, key=lambda point: point.record.reported_distance_error)
        yield (
            f"the distances that the library reports are not {worst.identity.distance} distances of its answers: "
            f"another distance, or coarse codes (they are {worst.record.reported_distance_error:.0%} of their spread "
            f"away from any multiple of the exact ones, at {len(wrong)} of {len(each.points)} points)"
        )


@check("threads not honoured")
def _threads(each: Series) -> Iterator[str]:
    alone = []
    for point in each.points:
        record = point.record
        if point.identity.mode != "batch" or (point.identity.threads or 1) < 2 or each.family == "database":
            continue
        if (record.search_cpu_seconds or 0) >= LEAST_CPU_SECONDS and record.caller_cpu_seconds is not None:
            alone.append(record.caller_cpu_seconds / record.search_cpu_seconds)
    if alone and min(alone) > CALLER:
        yield (
            f"{each.points[0].identity.threads} threads were asked for and one did the work: the library was not told, "
            f"or cannot ({min(alone):.0%} of the CPU time of searching was the calling thread's own)"
        )
