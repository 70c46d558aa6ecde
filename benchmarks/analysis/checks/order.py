"""Checks of what is higher than what: indexes, changes of indexes, and values against a bound."""

from itertools import product

from pydantic import Field, model_validator

from benchmarks.analysis.checks.registry import Comparison, Finding, Missing, Side, Where, check, settle
from benchmarks.analysis.contrast import Term, against, contrast


class Order(Where):
    """Each index of `higher` has a higher value than each of `lower`; than itself only, where both name the same."""

    higher: Side
    lower: Side

    @model_validator(mode="after")
    def _named(self):
        if not self.higher.indexes or not self.lower.indexes:
            raise ValueError("higher and lower name indexes")
        return self


@check("order", Order)
def judge_order(order: Order, measured) -> Finding:
    """Every pair, paired by query where both are of one data set."""
    comparisons, lacks, stations = [], {}, {}
    same = order.higher.indexes == order.lower.indexes
    for one, other in product(measured.members(order.higher.indexes), measured.members(order.lower.indexes)):
        if same and one != other:
            continue
        terms = []
        for index, side, times in ((one, order.higher, 1), (other, order.lower, -1)):
            try:
                terms.append(measured.term(index, side.over(order), times, stations))
            except Missing as missing:
                lacks.update(dict.fromkeys(missing.lacks))
        if len(terms) < 2:
            continue
        comparisons.append(compared(f"{terms[0].label} above {terms[1].label}", terms))
    return Finding(settle(comparisons), list(lacks), (), stations)


class Change(Side):
    """A change of a value from one place to another, of each index."""

    start: Where | None = Field(None, alias="from")
    end: Where | None = Field(None, alias="to")
    from_index: str | None = None
    to_index: str | None = None
    times: float = Field(1, gt=0, description="factor of the change in the comparison")


class Changes(Where):
    """Each change of `larger` is larger than each of `smaller`; of the same index only, where both name the same."""

    start: Where | None = Field(None, alias="from")
    end: Where | None = Field(None, alias="to")
    larger: Change
    smaller: Change

    @model_validator(mode="after")
    def _both_ends(self):
        for name in ("larger", "smaller"):
            side = getattr(self, name)
            between_indexes = side.from_index and side.to_index
            if not side.indexes and not between_indexes:
                raise ValueError(f"{name}: indexes, or from_index and to_index, are needed")
            if side.indexes and (side.start or self.start) is None or side.indexes and (side.end or self.end) is None:
                raise ValueError(f"{name}: from and to say between which places the value changes")
        return self


@check("change", Changes)
def judge_change(changes: Changes, measured) -> Finding:
    """Every pair of changes, as (end − start of one) − (end − start of the other)."""
    comparisons, lacks, stations = [], {}, {}
    same = changes.larger.indexes == changes.smaller.indexes
    for one, other in product(_members(changes.larger, measured), _members(changes.smaller, measured)):
        if same and one[0] != other[0]:
            continue
        sides = []
        for ends, side in ((one, changes.larger), (other, changes.smaller)):
            try:
                sides.append(_terms(*ends, side, changes, measured, stations))
            except Missing as missing:
                lacks.update(dict.fromkeys(missing.lacks))
        if len(sides) < 2:
            continue
        larger, smaller = sides
        what = f"{_change_label(larger)} above {_change_label(smaller)}"
        comparisons.append(compared(what, [*larger, *(term.scaled(-1) for term in smaller)]))
    return Finding(settle(comparisons), list(lacks), (), stations)


def _members(side: Change, measured) -> list[tuple]:
    """(index at the start, index at the end) of each change."""
    if side.indexes:
        return [(name, name) for name in measured.members(side.indexes)]
    return [(side.from_index, side.to_index)]


def _terms(start: str, end: str, side: Change, changes: Changes, measured, stations) -> list[Term]:
    start_at = (side.start or changes.start or Where()).over(side, changes)
    end_at = (side.end or changes.end or Where()).over(side, changes)
    terms, lacks = [], []
    for index, at, times in ((end, end_at, side.times), (start, start_at, -side.times)):
        try:
            terms.append(measured.term(index, at, times, stations))
        except Missing as missing:
            lacks += missing.lacks
    if lacks:
        raise Missing(*lacks)
    return terms


def _change_label(terms: list[Term]) -> str:
    end, start = terms
    times = f"{end.times:g} × " if end.times != 1 else ""
    return f"{times}({end.label} − {start.label})"


class Level(Side):
    """Each index has a value of at least, or at most, a bound."""

    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self):
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("either at_least or at_most is needed")
        if not self.indexes:
            raise ValueError("indexes are needed")
        return self


@check("level", Level)
def judge_level(level: Level, measured) -> Finding:
    """Every index against the bound by Wilson's interval."""
    comparisons, lacks, stations = [], {}, {}
    for name in measured.members(level.indexes):
        try:
            term = measured.term(name, level, 1, stations)
        except Missing as missing:
            lacks.update(dict.fromkeys(missing.lacks))
            continue
        if level.at_least is not None:
            estimate, what = against(term, level.at_least), f"{term.label} at least {level.at_least:g}"
        else:
            estimate, what = against(term, level.at_most).negative(), f"{term.label} at most {level.at_most:g}"
        comparisons.append(Comparison(what, {term.label: term.mean}, estimate))
    return Finding(settle(comparisons), list(lacks), (), stations)


def compared(what: str, terms: list[Term]) -> Comparison:
    """The sum of the terms as a comparison that shows their means."""
    return Comparison(what, {term.label: term.mean for term in terms}, contrast(terms))
