"""What indexes give at the same average recall: a point that is close enough, or the way between two points.

Unequal points are never compared: an algorithm that has neither is named, not shown.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from benchmarks.analysis.select import FIELDS, average_recall, comparable, failures, nearest, require_ok, varying
from benchmarks.errors import UserError
from benchmarks.metrics.registry import Measured
from benchmarks.results.schema import label
from benchmarks.results.store import Result

TOLERANCE = 0.005  # in average recall, of a point that counts as equal; a coarse sweep has few that are nearer


@dataclass(frozen=True)
class Operating:
    """What an algorithm gives at the wanted recall: one point, or a share of each of two that it lies between.

    The share is linear in average recall. It is exact for an index that answers each query by the setting of
    `above` with probability `weight` and by that of `below` otherwise; for a setting in between, it is an estimate,
    whose error is judged by `others`, the next points of the same sweep.
    """

    below: Result
    above: Result
    weight: Fraction = Fraction(0)
    others: tuple[Result, ...] = ()

    @property
    def interpolated(self) -> bool:
        return self.below is not self.above

    @property
    def result(self) -> Result:
        """For all that its two points have in common."""
        return self.below

    @property
    def recall(self) -> Fraction:
        return (1 - self.weight) * average_recall(self.below) + self.weight * average_recall(self.above)

    @property
    def search(self) -> str:
        """`n_probe=4`, or `n_probe=1…2` for what lies between; `default` where nothing is set."""
        above = self.above.identity.search_params
        params = {
            name: value if value == above[name] else f"{value}…{above[name]}"
            for name, value in self.below.identity.search_params.items()
        }
        return label(params)

    def combine(self, of: Callable[[Result], Measured | None]) -> Measured | None:
        """A value at the wanted recall; where it is interpolated, its interval is wider by the error of that."""
        if not self.interpolated:
            return of(self.below)
        below, above = of(self.below), of(self.above)
        if below is None or above is None:
            return None
        value = self._between(below.value, above.value)
        if None in (below.low, above.low, below.high, above.high):
            return Measured(value, n=below.n)
        error = self.error(of)
        low, high = self._between(below.low, above.low) - error, self._between(below.high, above.high) + error
        ends = (below.low, below.high, above.low, above.high)  # what is monotone in between stays in between
        return Measured(value, min(value, max(low, min(ends))), max(value, min(high, max(ends))), below.n)

    def error(self, of: Callable[[Result], Measured | None]) -> float:
        """How far the value may be from that of a setting at the wanted recall.

        As in `stations`, where it is held against points that were left out: twice the distance from the straight line
        to a parabola through a third point, the larger of those on both sides; where there is no third point, the
        rest of the way to the farther end.
        """
        if not self.interpolated:
            return 0.0
        ends = [(float(average_recall(each)), of(each).value) for each in (self.below, self.above)]
        (a, at_a), (b, at_b) = ends
        slope, r = (at_b - at_a) / (b - a), float(self.recall)
        errors = []
        for other in self.others:
            c, measured = float(average_recall(other)), of(other)
            if measured is not None and c not in (a, b):
                bend = ((measured.value - at_b) / (c - b) - slope) / (c - a)
                errors.append(abs(bend * (r - a) * (r - b)))
        return 2 * max(errors) if errors else abs(at_b - at_a) * float(max(self.weight, 1 - self.weight))

    def _between(self, below: float, above: float) -> float:
        return below + float(self.weight) * (above - below)


@dataclass(frozen=True)
class Matches:
    """Algorithms at one average recall, and the nearest point of each that is not there."""

    recall: float
    tolerance: float
    found: list[Operating]
    off: list[Result]

    def note(self) -> list[str]:
        """How the points were chosen, and who is left out."""
        parts = [f"Points within {self.tolerance:g} of average recall {self.recall:g}"]
        if any(each.interpolated for each in self.found):
            parts.append(
                "open markers, or a paler fill: none is, and the values are interpolated between the two settings "
                "named, linearly in recall, their intervals widened by the error that the next settings suggest"
            )
        notes = ["; ".join(parts) + "."]
        if self.off:
            notes.append(f"Not shown, since no point is at or on both sides of this recall: {nearest_of(self.off)}.")
        return notes


def nearest_of(results: Iterable[Result]) -> str:
    """`faiss-flat (nearest 1.000)` for each."""
    return ", ".join(f"{each.identity.algorithm} (nearest {float(average_recall(each)):.3f})" for each in results)


def match(results: Sequence[Result], recall: float, tolerance: float = TOLERANCE, at_least: int = 1) -> Matches:
    """Each algorithm's operating point at an average recall. Failed points do not count.

    It is the nearest point, if that is within the tolerance. Else it lies between two points of one build that
    differ in one search parameter, one below and one above: of all such pairs, the one that spans least recall. Where
    unlike results are mixed, each kind has its own.

    Raises:
        UserError: fewer than `at_least` have one; names the nearest of the others and what to do.
    """
    require_ok(results)
    target = Fraction(str(recall))
    found, off = [], []
    for point in nearest(results, recall):
        if abs(average_recall(point) - target) <= Fraction(str(tolerance)):
            found.append(Operating(point, point))
            continue
        alike = point.identity.algorithm, comparable(point, speed=False)
        pool = [each for each in results if each.ok and (each.identity.algorithm, comparable(each, False)) == alike]
        pair = narrowest(pool, target)
        if pair is None:
            off.append(point)
        else:
            below, above = map(average_recall, pair)
            found.append(Operating(*pair, (target - below) / (above - below), next_to(pair, pool)))
    if len(found) < at_least:
        there = ", ".join(each.result.identity.algorithm for each in found) or "none"
        others = f"nearest of the others: {nearest_of(off)}" if off else "there is no other"
        failed = "".join(f"; {line}" for line in failures(results).values())
        raise UserError(
            f"{at_least} indexes are needed at average recall {recall:g} ± {tolerance:g}, there: {there}; {others}"
            f"{failed}; choose another --recall or --tolerance, or measure settings around it (run.py --set)"
            if at_least > 1
            else f"no index has points at or around average recall {recall:g}; nearest: {nearest_of(off)}{failed}; "
            "choose another --recall or --tolerance, or measure settings around it (run.py --set)"
        )
    return Matches(recall, tolerance, found, off)


def narrowest(results: Iterable[Result], target: Fraction) -> tuple[Result, Result] | None:
    """The two points around the target that span least recall, of one build and unlike in one search parameter."""
    pairs = []
    for pair in combinations(results, 2):
        low, high = sorted(pair, key=average_recall)
        if average_recall(low) < target < average_recall(high) and swept(low, high):
            pairs.append((average_recall(high) - average_recall(low), low.identity.label(), low, high))
    return min(pairs, key=lambda each: each[:2])[2:] if pairs else None


def swept(one: Result, other: Result) -> str | None:
    """The search parameter that two points of one build differ in, if it is one alone."""
    if (one.identity.build_params, one.identity.seed) != (other.identity.build_params, other.identity.seed):
        return None
    names = varying([one.identity.search_params, other.identity.search_params])
    return names[0] if len(names) == 1 else None


def next_to(pair: tuple[Result, Result], results: Iterable[Result]) -> tuple[Result, ...]:
    """The nearest points of the same sweep below and above a pair."""
    below, above = pair
    name = swept(below, above)
    sweep = sorted((each for each in results if swept(each, below) == name == swept(each, above)), key=average_recall)
    lower = [each for each in sweep if average_recall(each) < average_recall(below)]
    upper = [each for each in sweep if average_recall(each) > average_recall(above)]
    return (*lower[-1:], *upper[:1])


def names_of(points: Sequence[Operating], results: Sequence[Result]) -> list[str]:
    """`faiss-hnsw M=8,efSearch=14 (recall 0.903)` for each.

    Of the build it says what differs among the results of the algorithm; and of all, what is unlike where they are
    mixed.
    """
    fields = {name: field.of for name, field in FIELDS.items() if not field.speed_only}
    kinds = [{name: of(point.result) for name, of in fields.items()} for point in points]
    unlike = varying(kinds)
    names = []
    for point, kind in zip(points, kinds, strict=True):
        identity = point.result.identity
        alike = [each.identity.build_params for each in results if each.identity.algorithm == identity.algorithm]
        differ = varying(alike)
        build = {name: value for name, value in identity.build_params.items() if name in differ}
        words = [
            identity.algorithm,
            *([label(build)] if build else []),
            *([point.search] if identity.search_params else []),
        ]
        between = ""
        if point.interpolated:
            ends = (f"{float(average_recall(end)):.3f}" for end in (point.below, point.above))
            between = f", interpolated between {' and '.join(ends)}"
        extra = "".join(f", {name} {str(kind[name])[:8]}" for name in unlike)
        names.append(f"{' '.join(words)} (recall {float(point.recall):.3f}{between}{extra})")
    return names
