"""The search for the operating point at a given average recall, as a pure decision.

An index has one parameter that searches more as it grows. Given what was measured so far, `decide` names the next
value to measure, or says how the search ended. It guesses where the curve, taken as a straight line of log(1 - recall)
over log(value), meets the target, and at every third point halves the interval instead, so that a curve of any shape
is found in a number of points that grows with the logarithm of the range.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pydantic import Field

from benchmarks.yamlfile import Strict

TOLERANCE = 0.002
LEAST_MISS = 1e-4  # 1 - recall that a guess never goes below, since log(0) is no place on a line
USUAL_SLOPE = 0.7  # of log(1 - recall) over log(value), while only one point is known
STEPS = (math.log(1.25), math.log(8))  # least and greatest factor of a step into the unknown
SLOPES = (0.05, 5.0)
FLAT_FACTOR, FLAT_SHARE = 4, 1 / 20  # recall no longer grows: so many times the value won so little of what is missing
DIGITS = 4  # significant, of a parameter that is no whole number


class Target(Strict):
    """An average recall that is wanted, and how far from it an operating point may be."""

    recall: float = Field(gt=0, le=1)
    tolerance: float = Field(TOLERANCE, ge=0, lt=1)

    def describe(self) -> str:
        """`recall 0.9 ± 0.002`."""
        return f"recall {self.recall:g} ± {self.tolerance:g}"


@dataclass(frozen=True)
class Reading:
    """One measured point: the parameter's value, and the average recall there."""

    value: float
    recall: Fraction | float


@dataclass(frozen=True)
class Span:
    """The values that may be asked for, both ends included."""

    low: float
    high: float
    integer: bool = True

    @property
    def logarithmic(self) -> bool:
        """Whether positions are logarithms of values: where the range is wide, and begins above zero."""
        return self.low > 1e-12 * self.high and self.high > 4 * self.low

    def position(self, value: float) -> float:
        return math.log(value) if self.logarithmic else float(value)

    def value_at(self, position: float) -> float:
        """The value nearest to a position, an end where the position is beyond it."""
        if position >= self.position(self.high):
            return self.high
        if position <= self.position(self.low):
            return self.low
        value = math.exp(position) if self.logarithmic else position
        value = round(value) if self.integer else float(f"{value:.{DIGITS}g}")
        return min(max(value, self.low), self.high)

    def between(self, lower: float, upper: float, position: float) -> float | None:
        """A value strictly between two others, near the position; None where there is none."""
        if self.integer:
            return min(max(self.value_at(position), lower + 1), upper - 1) if upper - lower > 1 else None
        middle = (self.position(lower) + self.position(upper)) / 2
        values = (self.value_at(position), self.value_at(middle))
        return next((value for value in values if lower < value < upper), None)


@dataclass(frozen=True)
class Found:
    """How a search ended.

    - `met`: `points` is the one nearest to the target, within the tolerance.
    - `bracketed`: the parameter has no value between the two `points`, of which one is below the target and one above.
    - `above`, `below`: the least, or greatest, value that may be asked for still has more, or less, than the target.
    - `flat`: below the target, recall has stopped to grow with the parameter, which is a whole number.
    - `failed`: a point of the search failed; `points` is what encloses the target so far, or comes nearest to it.
    """

    outcome: Literal["met", "bracketed", "above", "below", "flat", "failed"]
    points: tuple[Reading, ...]
    target: Target


def decide(
    target: Target, span: Span, readings: Iterable[Reading], start: Sequence[float] = (), failed: bool = False
) -> float | Found:
    """The next value to measure, which is never one of the readings', or how the search ended.

    Args:
        target: the average recall, and the tolerance that makes a point good enough.
        span: the values that may be asked for.
        readings: everything that is measured, in any order; recall may be noisy and need not be monotone.
        start: values that are thought to lie around the target; the search begins at the middle one.
        failed: a point failed, so that nothing more is asked for.
    """
    points = sorted(readings, key=lambda point: point.value)
    wanted = Fraction(str(target.recall))
    near = sorted(points, key=lambda point: abs(Fraction(point.recall) - wanted))
    if near and abs(Fraction(near[0].recall) - wanted) <= Fraction(str(target.tolerance)):
        return Found("met", (near[0],), target)
    pairs = zip(points, points[1:], strict=False)
    bracket = next(((a, b) for a, b in pairs if a.recall < wanted <= b.recall), None)
    if failed:
        return Found("failed", bracket or tuple(near[:1]), target)
    if not points:
        inside = [value for value in start if span.low <= value <= span.high]
        middle = (span.position(span.low) + span.position(span.high)) / 2
        return inside[len(inside) // 2] if inside else span.value_at(middle)
    if bracket:
        value = _inside(target, span, *bracket, halve=len(points) % 3 == 0)
        return Found("bracketed", bracket, target) if value is None else value
    if points[-1].recall < wanted:
        top = points[-1]
        if top.value >= span.high:
            return Found("below", (top,), target)
        if span.logarithmic and span.integer and _is_flat(points, wanted):
            return Found("flat", (top,), target)
        return _beyond(target, span, points[-2:], +1)
    bottom = points[0]
    if bottom.value <= span.low:
        return Found("above", (bottom,), target)
    return _beyond(target, span, points[:2], -1)


def _height(recall: Fraction | float) -> float:
    return math.log(max(1 - float(recall), LEAST_MISS))


def _inside(target: Target, span: Span, lower: Reading, upper: Reading, halve: bool) -> float | None:
    """A value between two readings that enclose the target; None where there is none."""
    left, right = span.position(lower.value), span.position(upper.value)
    drop = _height(lower.recall) - _height(upper.recall)
    share = (_height(lower.recall) - _height(target.recall)) / drop if drop > 0 and not halve else 0.5
    return span.between(lower.value, upper.value, left + (right - left) * min(max(share, 0.1), 0.9))


def _beyond(target: Target, span: Span, points: Sequence[Reading], direction: int) -> float:
    """A value above (+1) or below (-1) all readings; `points` are the last one or two on that side."""
    edge = points[-1 if direction > 0 else 0]
    width = span.position(span.high) - span.position(span.low)
    least, greatest = max(STEPS[0], width / 64), max(STEPS[1], width / 8)
    if not span.logarithmic:
        least, greatest = width / 20, width / 2
    slope = USUAL_SLOPE
    if len(points) == 2:
        run = span.position(points[1].value) - span.position(points[0].value)
        slope = (_height(points[0].recall) - _height(points[1].recall)) / run
    elif not span.logarithmic:
        slope = 2 / (greatest - least)
    slope = min(max(slope, SLOPES[0]), SLOPES[1])
    step = abs(_height(edge.recall) - _height(target.recall)) / slope
    value = span.value_at(span.position(edge.value) + direction * min(max(step, least), greatest))
    if (value - edge.value) * direction > 0:
        return value
    if span.integer:
        return edge.value + direction
    return span.high if direction > 0 else span.low


def _is_flat(points: Sequence[Reading], wanted: Fraction) -> bool:
    top = points[-1]
    earlier = [point for point in points if point.value * FLAT_FACTOR <= top.value]
    missing = wanted - Fraction(top.recall)
    if 2 * top.recall < wanted:  # a curve may begin flat
        return False
    return bool(earlier) and Fraction(top.recall) - Fraction(earlier[-1].recall) < missing * Fraction(FLAT_SHARE)


def find_span(
    allowed: Callable[[float], bool],
    known: Iterable[float],
    *,
    least: float | None,
    most: float,
    integer: bool = True,
) -> Span | None:
    """The values that may be asked for, taken as one interval, around the first of `known` that is allowed.

    Args:
        allowed: whether constraints hold for a value.
        known: values to begin at, such as the sweep's and the card's default.
        least, most: the ends that the parameter itself has.

    Returns:
        None where no value is allowed.
    """
    low = least if least is not None else (1 if integer else 0.0)
    low, most = (math.ceil(low), math.floor(most)) if integer else (float(low), float(most))
    known = [value for value in known if low <= value <= most]
    powers = [value for value in (2**exponent for exponent in range(31)) if low <= value <= most]
    inside = next((value for value in [*known, low, *powers, most] if allowed(value)), None)
    if inside is None:
        return None
    return Span(_edge(allowed, inside, low, integer), _edge(allowed, inside, most, integer), integer)


def _edge(allowed: Callable[[float], bool], inside: float, end: float, integer: bool) -> float:
    """The allowed value that is nearest to `end`, by halving."""
    if allowed(end):
        return end
    outside = end
    for _ in range(64):
        middle = (inside + outside) // 2 if integer else (inside + outside) / 2
        if middle in (inside, outside):  # whole numbers next to each other, the smaller of them inside or not
            break
        if allowed(middle):
            inside = middle
        else:
            outside = middle
    return inside
