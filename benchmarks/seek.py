"""Searches for target recalls while a plan is carried out: which points are asked for next, and what was found.

A search goes along the monotone parameter of one built index; all else about its points is fixed. Decisions are those
of `benchmarks.analysis.target`; here they are made into operating points and out of results.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from benchmarks.analysis.target import Found, Reading, Span, Target, decide
from benchmarks.cards.values import Value
from benchmarks.results.schema import Identity, ResultRecord
from benchmarks.yamlfile import Strict

if TYPE_CHECKING:
    from benchmarks.plan import Plan


class Seek(Strict):
    """One search: the points of one build that differ in one parameter alone."""

    template: Identity  # with any value of the parameter
    parameter: str
    span: Span
    start: list[Value]  # values that are thought to lie around the targets
    targets: list[Target]

    def identity(self, value: Value) -> Identity:
        """The point at a value of the parameter."""
        params = {**self.template.search_params, self.parameter: value}
        return self.template.model_copy(update={"search_params": params})

    def owns(self, identity: Identity) -> bool:
        """Whether a point lies on the line that is searched."""
        value = identity.search_params.get(self.parameter)
        return value is not None and self.identity(value).hash() == identity.hash()

    def readings(self, known: Iterable[tuple[Identity, Fraction]]) -> list[Reading]:
        """Those of the points, which come with their average recall, that lie on the line."""
        return [
            Reading(identity.search_params[self.parameter], recall) for identity, recall in known if self.owns(identity)
        ]

    def wanted(self, readings: Sequence[Reading], failed: bool = False) -> list[Identity]:
        """The points that its targets need next; none where every search has ended."""
        steps = [decide(target, self.span, readings, self.start, failed) for target in self.targets]
        return [self.identity(value) for value in dict.fromkeys(s for s in steps if not isinstance(s, Found))]


@dataclass(frozen=True)
class Outcome:
    """How the search for one target ended; None where it was not brought to an end."""

    seek: Seek
    target: Target
    found: Found | None


class Hunt:
    """All searches of one run. It is told of every point that ends, and answers with those to measure next."""

    def __init__(self, plan: "Plan", known: Iterable[tuple[Identity, Fraction]], read: Callable[[Identity], Fraction]):
        """`known` are points measured before, with their average recall; `read` tells that of one just measured."""
        known = list(known)
        self.seeks, self.read = plan.seeks, read
        self.asked = {point.hash() for job in plan.jobs for point in job.points}
        self.readings = [seek.readings(known) for seek in self.seeks]
        self.failed = [False] * len(self.seeks)
        # Two targets on one line: no decision while a point is on its way that may serve both.
        self.waiting = [
            {point.hash() for job in plan.jobs for point in job.points if seek.owns(point)} for seek in self.seeks
        ]

    def further(self, record: ResultRecord) -> list[Identity]:
        """The points, of the same build, that are to be measured now that this one has ended."""
        point, more = record.identity, []
        for number, seek in enumerate(self.seeks):
            if not seek.owns(point):
                continue
            self.waiting[number].discard(point.hash())
            if record.status == "ok":
                self.readings[number] += seek.readings([(point, self.read(point))])
            else:
                self.failed[number] = True
            if self.waiting[number]:
                continue
            new = seek.wanted(self.readings[number], self.failed[number])
            self.waiting[number] = {identity.hash() for identity in new}
            more += [identity for identity in new if identity.hash() not in self.asked]
            self.asked |= self.waiting[number]
        return more

    def outcomes(self) -> list[Outcome]:
        """How each search ended, in the plan's order."""
        ends = []
        for seek, readings, failed in zip(self.seeks, self.readings, self.failed, strict=True):
            for target in seek.targets:
                step = decide(target, seek.span, readings, seek.start, failed)
                ends.append(Outcome(seek, target, step if isinstance(step, Found) else None))
        return ends
