"""Checks along the operating points of an index: what rises, what stays, and which point is chosen for speed."""

from pydantic import Field, model_validator

from benchmarks.analysis.checks.order import compared
from benchmarks.analysis.checks.registry import (
    Comparison,
    Finding,
    MetricName,
    Missing,
    Side,
    check,
    checked_metric,
    settle,
)
from benchmarks.analysis.contrast import Estimate, Term
from benchmarks.analysis.stations import recall_axis, speed_range
from benchmarks.metrics.registry import parse_metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result
from benchmarks.yamlfile import Strict

SPEED = "qps"
SPEED_MARGIN = 1.1  # what repeats within one run do not show: another hour of the same machine


class Trend(Side):
    """From each point of an index to the next of higher recall, a metric (or the speed) goes one way.

    Between neighbours a step the other way has to be shown to count; from the first point to the last, the way has to.
    Points less than `step` of average recall after the one before are skipped.
    """

    rises: str | None = Field(None, description="metric")
    falls: str | None = Field(None, description="metric")
    between: tuple[float, float] = Field((0.0, 1.0), description="average recall of the points that are looked at")
    step: float = Field(0.01, ge=0)

    @model_validator(mode="after")
    def _one_way(self):
        if (self.rises is None) == (self.falls is None):
            raise ValueError("either rises or falls is needed")
        if not self.indexes:
            raise ValueError("indexes are needed")
        if (self.rises or self.falls) != SPEED:
            checked_metric(self.rises or self.falls)
        return self


@check("trend", Trend)
def judge_trend(trend: Trend, measured) -> Finding:
    """First to last of each index, and every step in between."""
    ends, steps, lacks, stations = [], [], {}, {}
    name, sign = trend.rises or trend.falls, 1 if trend.rises else -1
    low, high = trend.between
    for index in measured.members(trend.indexes):
        try:
            line = _thinned(measured.line(index, trend, low, high), trend.step)
            if len(line) < 2:
                raise Missing(measured.lack(index, trend, f"two points of average recall {low:g} to {high:g}"))
            compare = _speeds if name == SPEED else _values
            ends.append(compare(index, name, line[-1], line[0], sign, measured))
            pairs = zip(line, line[1:], strict=False)
            steps += [compare(index, name, after, before, sign, measured) for before, after in pairs]
        except Missing as missing:
            lacks.update(dict.fromkeys(missing.lacks))
            continue
        first, last = recall_axis(line[0]), recall_axis(line[-1])
        stations[index] = f"{len(line)} points, average recall {first:.4f} to {last:.4f}"
    settled = settle([*ends, *steps])
    wrong = [item for item in settled[len(ends) :] if item.holds is False]
    note = f"{len(steps)} steps from point to point, {len(wrong)} of them shown to go the other way"
    return Finding([*settled[: len(ends)], *wrong], list(lacks), [note] if steps else [], stations)


def _thinned(line: list[Result], step: float) -> list[Result]:
    """Points at least a step of average recall apart, from the lowest on."""
    kept = line[:1]
    for point in line[1:]:
        if recall_axis(point) - recall_axis(kept[-1]) >= step:
            kept.append(point)
    return kept


def _values(index: str, name: str, new: Result, base: Result, sign: int, measured) -> Comparison:
    terms = [measured.point_term(index, new, name, sign), measured.point_term(index, base, name, -sign)]
    way = "above" if sign > 0 else "below"
    return compared(f"{terms[0].label} {way} {terms[1].label}", terms)


def _speeds(index: str, name: str, new: Result, base: Result, sign: int, measured) -> Comparison:
    fast, slow = (base, new) if sign < 0 else (new, base)
    measured.require_one_machine([fast, slow])
    return faster(index, fast, index, slow)


def faster(one: str, fast: Result, other: str, slow: Result) -> Comparison:
    """That one point is faster than another: shown where its slowest repeat beats the other's fastest by a margin."""
    (low, high), (other_low, other_high) = speed_range(fast), speed_range(slow)
    metric = parse_metric(SPEED)
    speeds = [metric.compute(point).value for point in (fast, slow)]
    names = [f"{who} {label(point.identity.search_params)} QPS" for who, point in ((one, fast), (other, slow))]
    if names[0] == names[1]:
        names = [f"{who} {point.identity.label()} QPS" for who, point in ((one, fast), (other, slow))]
    holds = True if low > SPEED_MARGIN * other_high else False if other_low > SPEED_MARGIN * high else None
    repeats = min(fast.record.repeats, slow.record.repeats)
    estimate = Estimate(speeds[0] - speeds[1], low - other_high, high - other_low, None, repeats)
    shown = dict(zip(names, speeds, strict=True))
    return Comparison(f"{names[0]} above {names[1]}", shown, estimate, "1/s", None, holds if repeats > 1 else None)


class Stability(Side):
    """While the speed changes at least `factor`-fold, `stable` changes less than a share of what `changing` does.

    Looked at are the slowest and the fastest point of an average recall of at least `recall_at_least`.
    """

    factor: float = Field(gt=1)
    recall_at_least: float = 0.0
    stable: MetricName
    changing: MetricName
    share: float = Field(gt=0, le=1)


@check("stability", Stability)
def judge_stability(stability: Stability, measured) -> Finding:
    """share × (change of `changing`) − (change of `stable`), paired by query."""
    comparisons, lacks, stations, notes = [], {}, {}, []
    for index in measured.members(stability.indexes):
        try:
            line = measured.line(index, stability, stability.recall_at_least)
            if not line:
                raise Missing(measured.lack(index, stability, f"average recall ≥ {stability.recall_at_least:g}"))
            measured.require_one_machine(line)
            speed = parse_metric(SPEED)
            slow, fast = (pick(line, key=lambda point: speed.compute(point).value) for pick in (min, max))
            times = speed.compute(fast).value / speed.compute(slow).value
            if times < stability.factor:
                raise Missing(
                    measured.lack(
                        index,
                        stability,
                        f"points above recall {stability.recall_at_least:g} whose speed differs "
                        f"{stability.factor:g}-fold (there: {times:.1f}-fold)",
                    )
                )
            terms = _pair(index, stability.changing, slow, fast, stability.share, measured)
            terms += [term.scaled(-1) for term in _pair(index, stability.stable, slow, fast, 1, measured)]
        except Missing as missing:
            lacks.update(dict.fromkeys(missing.lacks))
            continue
        what = f"{index}: {stability.stable} changes less than {stability.share:g} × {stability.changing}"
        comparisons.append(compared(what, terms))
        stations[index] = f"{measured.name(slow)} to {measured.name(fast)}"
        notes.append(f"{index}: the speed differs {times:.1f}-fold")
    return Finding(settle(comparisons), list(lacks), notes, stations)


def _pair(index: str, metric: str, slow: Result, fast: Result, times: float, measured) -> list[Term]:
    """Change of a metric from the fast point to the slow."""
    return [measured.point_term(index, slow, metric, times), measured.point_term(index, fast, metric, -times)]


class Bound(Strict):
    """Which points are allowed."""

    metric: MetricName
    at_least: float


class Choice(Side):
    """Of the points that reach a bound, the fastest of `fastest` is faster than that of each of `indexes`.

    With `price`, a metric, the fastest point is also worse in it than theirs.
    """

    among: Bound
    fastest: str
    price: MetricName | None = None


@check("choice", Choice)
def judge_choice(choice: Choice, measured) -> Finding:
    """Speed by the repeats, the price paired by query."""
    comparisons, lacks, stations = [], {}, {}
    for other in measured.members(choice.indexes):
        points = {}
        for name in (choice.fastest, other):
            try:
                points[name] = _fastest(name, choice, measured)
            except Missing as missing:
                lacks.update(dict.fromkeys(missing.lacks))
        if len(points) < 2:
            continue
        won, rival = points[choice.fastest], points[other]
        stations |= {name: f"{measured.name(p)}, average recall {recall_axis(p):.4f}" for name, p in points.items()}
        if choice.price:
            terms = [
                measured.point_term(other, rival, choice.price, 1),
                measured.point_term(choice.fastest, won, choice.price, -1),
            ]
            comparisons.append(compared(f"{terms[0].label} above {terms[1].label}", terms))
        try:
            measured.require_one_machine([won, rival])
        except Missing as missing:
            lacks.update(dict.fromkeys(missing.lacks))
            continue
        comparisons.append(faster(choice.fastest, won, other, rival))
    return Finding(settle(comparisons), list(lacks), (), stations)


def _fastest(index: str, choice: Choice, measured) -> Result:
    metric, speed = parse_metric(choice.among.metric), parse_metric(SPEED)
    allowed = [p for p in measured.points(index, choice) if metric.compute(p).value >= choice.among.at_least]
    if not allowed:
        bound = f"{choice.among.metric} ≥ {choice.among.at_least:g}"
        raise Missing(measured.lack(index, choice, bound))
    return max(allowed, key=lambda point: speed.compute(point).value)
