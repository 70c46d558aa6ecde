"""Which operating point to take: the best of those that hold every constraint at the worse end of its interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.analysis.builds import group_builds
from benchmarks.errors import UserError
from benchmarks.hardware import parse_size
from benchmarks.metrics.registry import Measured, Metric, parse_metric
from benchmarks.results.schema import label
from benchmarks.results.store import Result

STEPS = 3  # of the front beyond the chosen point whose price is told


@dataclass(frozen=True)
class Constraint:
    """A bound that a point has to hold, `--min robustness-0.3=0.99` or `--max index-bytes=8GB`."""

    metric: Metric
    bound: float
    side: Literal["min", "max"]

    def end(self, measured: Measured) -> float:
        """The end of the interval that is worse for this bound; the value itself where there is no interval."""
        end = measured.low if self.side == "min" else measured.high
        return measured.value if end is None else end

    def holds(self, end: float | None) -> bool:
        if end is None:
            return False
        return end >= self.bound if self.side == "min" else end <= self.bound

    def better(self, ends: Iterable[float]) -> float:
        return max(ends) if self.side == "min" else min(ends)

    def text(self, bound: float | None = None) -> str:
        """As it is typed, with another bound where one is given."""
        return f"--{self.side} {self.metric.name}={show(self.bound if bound is None else bound)}"


@dataclass(frozen=True)
class Objective:
    """What is best among the points that hold every constraint."""

    metric: Metric

    @property
    def sign(self) -> int:
        return 1 if self.metric.definition.better == "higher" else -1


@dataclass(frozen=True)
class Candidate:
    """One setting of one algorithm, with the results of all its builds."""

    results: tuple[Result, ...]
    values: dict[str, Measured | None]  # of the build with the median value; by metric name
    ends: tuple[float | None, ...]  # for each constraint the worst end over the builds; None where not measured

    @property
    def algorithm(self) -> str:
        return self.results[0].identity.algorithm

    def name(self) -> str:
        identity = self.results[0].identity
        return f"{identity.algorithm} {label({**identity.build_params, **identity.search_params})}"


@dataclass(frozen=True)
class Loser:
    """A point that was not chosen, and why."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True)
class Price:
    """What the next point with more of a constrained metric costs."""

    metric: Metric
    to: Candidate
    gain: float  # of the metric, from the chosen point
    cost: float  # of the objective, positive where it gets worse
    per_thousandth: float  # cost for each further 0.001 of the metric


@dataclass(frozen=True)
class Relaxation:
    """Bounds that would let a point through if they alone were changed."""

    bounds: tuple[tuple[Constraint, float], ...]
    candidate: Candidate


@dataclass(frozen=True)
class Advice:
    """The answer. `chosen` is None where nothing qualifies; then `relaxations` says what to give up."""

    chosen: Candidate | None
    qualified: int
    considered: int
    losers: list[Loser]
    prices: list[Price]
    relaxations: list[Relaxation]


def parse_constraint(text: str, side: Literal["min", "max"]) -> Constraint:
    """`robustness-0.3=0.99`; bytes may have a unit.

    Raises:
        UserError: not of that form, an unknown metric, or no number.
    """
    name, equals, bound = text.rpartition("=")
    if not equals or not name or not bound:
        raise UserError(f"--{side} {text}: the form is metric=number, such as robustness-0.3=0.99")
    metric = parse_metric(name)
    try:
        value = float(parse_size(bound)) if metric.definition.unit == "bytes" else float(bound)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"--{side} {text}: '{bound}' is no number")
    if metric.definition.unit == "1" and metric.definition.better == "higher" and not 0 <= value <= 1:
        raise UserError(f"--{side} {text}: {metric.name} is a share, between 0 and 1")
    return Constraint(metric, value, side)


def candidates(
    results: Iterable[Result], constraints: Sequence[Constraint], objective: Objective, shown: Sequence[Metric] = ()
) -> list[Candidate]:
    """One for each setting; results that differ in the build's seed alone are one candidate. Failed points are none.

    What is unlike in K, threads, data or machine is not the same setting, even where it may be shown together.
    """
    metrics = {item.name: item for item in (objective.metric, *(each.metric for each in constraints), *shown)}
    found = []
    for group in group_builds(results):
        measured = {name: [metric.compute(result) for result in group] for name, metric in metrics.items()}
        ends = []
        for constraint in constraints:
            values = measured[constraint.metric.name]
            worst = min if constraint.side == "min" else max
            ends.append(None if None in values else worst(constraint.end(value) for value in values))
        found.append(Candidate(tuple(group), {name: _middle(values) for name, values in measured.items()}, tuple(ends)))
    return sorted(found, key=Candidate.name)


def _middle(values: list[Measured | None]) -> Measured | None:
    """Of several builds the one in the middle, the lower of two; its interval stays its own."""
    if None in values:
        return None
    return sorted(values, key=lambda item: item.value)[(len(values) - 1) // 2]


def advise(points: Sequence[Candidate], constraints: Sequence[Constraint], objective: Objective) -> Advice:
    """Choose, and say why the others were not chosen.

    Args:
        points: of `candidates`, with the same constraints and objective.
        constraints: bounds; each has to hold at the worse end of its interval, in every build.
        objective: best value wins; the first by name of equals.

    Returns:
        the choice, the best point of every other algorithm and the runner-up with the reason, prices and relaxations.
    """

    def gain(point: Candidate) -> float:
        value = point.values[objective.metric.name]
        return -math.inf if value is None else objective.sign * value.value

    measured = [point for point in points if point.values[objective.metric.name] is not None]
    good = [point for point in measured if not _broken(point, constraints)]
    if not good:
        return Advice(None, 0, len(points), [], [], _relaxations(measured, constraints, gain))
    ranked = sorted(good, key=gain, reverse=True)
    chosen = ranked[0]
    losers = [Loser(ranked[1], _behind(ranked[1], chosen, objective))] if len(ranked) > 1 else []
    others = dict.fromkeys(point.algorithm for point in points if point.algorithm != chosen.algorithm)
    for name in others:
        if losers and losers[0].candidate.algorithm == name:
            continue
        own = [point for point in points if point.algorithm == name]
        qualified = [point for point in own if point in good]
        if qualified:
            best = max(qualified, key=gain)
            losers.append(Loser(best, _behind(best, chosen, objective)))
        else:
            nearest = min(own, key=lambda point: (len(_broken(point, constraints)), -gain(point)))
            losers.append(Loser(nearest, _why_broken(nearest, constraints)))
    priced = {each.metric.name: each for each in constraints if each.side == "min"}.values()  # each metric once
    prices = [price for each in priced for price in _prices(chosen, good, each, objective)]
    return Advice(chosen, len(good), len(points), losers, prices, [])


def _broken(point: Candidate, constraints: Sequence[Constraint]) -> list[int]:
    """Places of the constraints that a point does not hold."""
    return [place for place, each in enumerate(constraints) if not each.holds(point.ends[place])]


def _behind(point: Candidate, chosen: Candidate, objective: Objective) -> str:
    """Why a point that holds every constraint was not chosen."""
    name = objective.metric.name
    own, best = point.values[name].value, chosen.values[name].value
    if own == best:
        return f"{name} is the same"
    share = f" ({abs(own - best) / abs(best):.1%})" if best else ""
    return f"{name} is {show(own)}, {show(abs(own - best))}{share} {'less' if own < best else 'more'}"


def _why_broken(point: Candidate, constraints: Sequence[Constraint]) -> str:
    """Which constraints it does not hold: `robustness-0.3 is 0.991, but surely no more than ≥ 0.986`."""
    parts = []
    for place in _broken(point, constraints):
        each, measured = constraints[place], point.values[constraints[place].metric.name]
        end = point.ends[place]
        if measured is None or end is None:
            parts.append(f"{each.metric.name} was not measured")
        elif each.holds(measured.value):
            sign = "≥" if each.side == "min" else "≤"
            parts.append(f"{each.metric.name} is {show(measured.value)}, but surely no more than {sign} {show(end)}")
        else:
            parts.append(f"{each.metric.name} is {show(measured.value)}")
    return "; ".join(parts) or "the objective was not measured"


def _prices(
    chosen: Candidate,
    good: Sequence[Candidate],
    constraint: Constraint,
    objective: Objective,
) -> list[Price]:
    """The next steps, of points that hold every bound, along the front of a bounded quality against the objective."""
    metric, name = constraint.metric, objective.metric.name
    if metric.definition.kind != "quality" or metric.name == name:
        return []
    start, base = chosen.values[metric.name].value, objective.sign * chosen.values[name].value
    ahead = [point for point in good if point.values[metric.name].value > start]
    ahead.sort(key=lambda point: objective.sign * point.values[name].value, reverse=True)
    front, best = [], start
    for point in ahead:  # dearer and dearer; each must bring more than all before it
        if point.values[metric.name].value > best:
            front.append(point)
            best = point.values[metric.name].value
    prices = []
    for point in front[:STEPS]:
        gain = point.values[metric.name].value - start
        cost = base - objective.sign * point.values[name].value
        prices.append(Price(metric, point, gain, cost, cost / gain / 1000))
    return prices


def _relaxations(points: Sequence[Candidate], constraints: Sequence[Constraint], gain) -> list[Relaxation]:
    """For each constraint that lets a point through if it alone is relaxed, the bound; else the fewest together."""
    found = []
    for place, constraint in enumerate(constraints):
        near = [point for point in points if _broken(point, constraints) == [place] and point.ends[place] is not None]
        if near:
            best = constraint.better(point.ends[place] for point in near)
            candidate = max((point for point in near if point.ends[place] == best), key=gain)
            found.append(Relaxation(((constraint, loosened(best, constraint.side)),), candidate))
    complete = [point for point in points if None not in point.ends]
    if found or not complete:
        return found
    fewest = min(complete, key=lambda point: (len(_broken(point, constraints)), _shortfall(point, constraints)))
    bounds = tuple(
        (constraints[place], loosened(fewest.ends[place], constraints[place].side))
        for place in _broken(fewest, constraints)
    )
    return [Relaxation(bounds, fewest)]


def _shortfall(point: Candidate, constraints: Sequence[Constraint]) -> float:
    """How far from its bounds a point is, in shares of them, all together."""
    return sum(
        abs(point.ends[place] - constraints[place].bound) / max(abs(constraints[place].bound), 1e-9)
        for place in _broken(point, constraints)
    )


def loosened(bound: float, side: Literal["min", "max"]) -> float:
    """The bound with four digits, rounded so that what holds `bound` holds it."""
    near = float(f"{bound:.4g}")
    if (near <= bound) if side == "min" else (near >= bound):
        return near
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 3)
    return float(f"{near - unit if side == 'min' else near + unit:.4g}")


def show(value: float) -> str:
    """Four decimals below 1, four digits below 1000, whole numbers above."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}".rstrip("0").rstrip(".")
