"""One build of an algorithm searched with more and more effort: the unit of what is said about a knob."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.analysis.select import comparable
from benchmarks.cards.algorithms import Algorithm
from benchmarks.results.schema import label
from benchmarks.results.store import Result


@dataclass(frozen=True)
class Series:
    """Points of one build that differ in one search parameter alone, by its value."""

    algorithm: str
    family: str | None  # None where no card here offers the algorithm
    knob: str | None  # name of the parameter; None where there is but one point and no card
    points: tuple[Result, ...]

    def name(self) -> str:
        """`faiss-hnsw M=8`, without the knob."""
        identity = self.points[0].identity
        search = {name: value for name, value in identity.search_params.items() if name != self.knob}
        text = label({**identity.build_params, **search})
        seed = f",seed={identity.seed}" if identity.seed else ""
        return f"{self.algorithm} {text}{seed}".removesuffix(" default")

    def value(self, point: Result) -> float:
        """Of the knob, at one of the points."""
        return point.identity.search_params.get(self.knob, 0)


def series(results: Iterable[Result], algorithms: Mapping[str, Algorithm]) -> list[Series]:
    """Group points that were measured alike into series, in the order of their names; failed points are left out.

    The knob is what the algorithm's card marks as monotone. Where several are marked, a point is in one series for
    each that has at least two values there, and in one of its own otherwise.
    """
    found = []
    results = [result for result in results if result.ok]
    for algorithm in sorted({result.identity.algorithm for result in results}):
        own = [result for result in results if result.identity.algorithm == algorithm]
        card = algorithms.get(algorithm)
        used = {name for result in own for name in result.identity.search_params}
        offered = card.offer.parameters.items() if card else ()
        knobs = [name for name, item in offered if item.monotone and name in used and _orderable(name, own)]
        knobs = knobs or _varying(own)
        groups: dict[tuple, list[Result]] = {}
        for knob in knobs or [None]:
            for result in own:
                identity = result.identity
                rest = {name: value for name, value in identity.search_params.items() if name != knob}
                fixed = (repr(identity.build_params), repr(rest), identity.seed, *comparable(result, speed=True))
                groups.setdefault((knob, *fixed), []).append(result)
        several = [key for key, group in groups.items() if len(group) > 1]
        covered = {id(result) for key in several for result in groups[key]}
        for key, group in groups.items():
            if key in several or not covered & {id(result) for result in group}:
                covered |= {id(result) for result in group}
                knob = key[0]
                points = sorted(group, key=lambda point: point.identity.search_params.get(knob, 0))
                found.append(Series(algorithm, card.offer.family if card else None, knob, tuple(points)))
    return sorted(found, key=Series.name)


def _varying(results: list[Result]) -> list[str]:
    """Search parameters that are numbers and have more than one value."""
    names = dict.fromkeys(name for result in results for name in result.identity.search_params)
    found = []
    for name in names:
        values = {result.identity.search_params.get(name) for result in results}
        if len(values) > 1 and all(isinstance(value, (int, float)) and value is not True for value in values):
            found.append(name)
    return found


def _orderable(name: str, results: list[Result]) -> bool:
    """Whether all values of a search parameter are numbers, as an older adapter may not have had them."""
    return all(isinstance(result.identity.search_params.get(name, 0), (int, float)) for result in results)
