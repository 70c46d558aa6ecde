"""What indexes give at the same average recall: which have it, which do not, and how that is told.

Unequal points are never compared: an algorithm that does not have it is named, not shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.analysis.select import FIELDS, comparable, failures, nearest, require_ok, varying
from benchmarks.analysis.series import series
from benchmarks.analysis.stations import EXACT, TOLERANCE, Station, recall_axis, station_at
from benchmarks.cards.algorithms import Algorithm
from benchmarks.errors import UserError
from benchmarks.results.schema import label
from benchmarks.results.store import Result


@dataclass(frozen=True)
class Matches:
    """Algorithms at one average recall, and the nearest point of each that is not there."""

    recall: float
    tolerance: float
    found: list[Station]
    off: list[Result]

    def note(self) -> list[str]:
        """How the points were chosen, and who is left out."""
        parts = [f"Compared at average recall {self.recall:g}"]
        if any(each.interpolated for each in self.found):
            parts.append(
                "open markers, or a paler fill: no point has it; the values are interpolated between the two "
                "settings named, linearly in recall, their intervals widened by the error the next settings suggest"
            )
        if any(not each.interpolated and abs(each.recall - self.recall) > EXACT for each in self.found):
            parts.append(f"of settings that only come within {self.tolerance:g} of it, the last is shown as it is")
        notes = ["; ".join(parts) + "."]
        if self.off:
            notes.append(f"Not shown, since no point is at or on both sides of this recall: {nearest_of(self.off)}.")
        return notes


def nearest_of(results: Iterable[Result]) -> str:
    """`faiss-flat (nearest 1.000)` for each."""
    return ", ".join(f"{each.identity.algorithm} (nearest {recall_axis(each):.3f})" for each in results)


def match(
    results: Sequence[Result],
    recall: float,
    tolerance: float = TOLERANCE,
    at_least: int = 1,
    algorithms: Mapping[str, Algorithm] | None = None,
) -> Matches:
    """Each algorithm at an average recall, by `station_at`; failed points do not count.

    Where unlike results are mixed, each kind is there for itself. `algorithms` are the cards, which tell along which
    parameter points are joined.

    Raises:
        UserError: fewer than `at_least` have it; names the nearest of the others and what to do.
    """
    require_ok(results)
    found, off = [], []
    for point in nearest(results, recall):
        alike = point.identity.algorithm, comparable(point, speed=False)
        pool = [each for each in results if (each.identity.algorithm, comparable(each, False)) == alike]
        lines = [each.points for each in series(pool, algorithms or {})]
        station = station_at(lines, recall, tolerance=tolerance)
        found += [station] if station else []
        off += [] if station else [point]
    if len(found) < at_least:
        there = ", ".join(each.result.identity.algorithm for each in found) or "none"
        others = f"nearest of the others: {nearest_of(off)}" if off else "there is no other"
        failed = "".join(f"; {line}" for line in failures(results).values())
        raise UserError(
            f"{at_least} indexes are needed at average recall {recall:g}, there: {there}; {others}"
            f"{failed}; choose another --recall or --tolerance, or measure settings around it (run.py --set)"
            if at_least > 1
            else f"no index has points at or around average recall {recall:g}; nearest: {nearest_of(off)}{failed}; "
            "choose another --recall or --tolerance, or measure settings around it (run.py --set)"
        )
    return Matches(recall, tolerance, found, off)


def names_of(points: Sequence[Station], results: Sequence[Result]) -> list[str]:
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
            ends = (f"{recall_axis(end):.3f}" for end in point.points)
            between = f", interpolated between {' and '.join(ends)}"
        extra = "".join(f", {name} {str(kind[name])[:8]}" for name in unlike)
        names.append(f"{' '.join(words)} (recall {point.recall:.3f}{between}{extra})")
    return names
